"""`loadsheet exchange probe`: find out how an exchange answers what the interface leaves open, and write it down."""

from importlib.metadata import version
from pathlib import Path

import click

from loadsheet.cli.connections import reached
from loadsheet.cli.options import CONFIG, EXCHANGE, JSON, Target, load, together
from loadsheet.cli.output import print_json, print_table, say
from loadsheet.dispatch.probe import PAUSE_S, ProbeResult
from loadsheet.dispatch.probe import probe as ask_exchange
from loadsheet.exchange_profile import write_capabilities
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED

NEEDS_SOMEONE = 1


@click.command()
@click.option(
    "--i-own-this-tenant",
    "owned",
    is_flag=True,
    help="Say so: orders and tenders named LSPROBE-... are created there, and deleted again.",
)
@click.option(
    "--out",
    type=Target(),
    default=Path("capabilities.yaml"),
    show_default=True,
    help="File for what was found; the setting `capabilities` reads it.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Value of a field in all records, such as a party that the tenant knows. May be given several times.",
)
@click.option(
    "--pause",
    "pause_s",
    default=PAUSE_S,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds between two calls.",
)
@click.option("--verbose", is_flag=True, help="Say every call on stderr.")
@together(EXCHANGE, CONFIG, JSON)
def probe(
    *,
    owned: bool,
    out: Path,
    given: tuple[str, ...],
    pause_s: float,
    verbose: bool,
    exchange: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Ask an exchange's sandbox how it answers what the interface leaves open. Writes to the tenant, and cleans up."""
    settings = load(config, exchange=exchange, capabilities="")  # what is known of it so far may be wrong
    values = dict(_pair(one) for one in given)
    if settings.exchange == EMBEDDED:
        raise SettingsError("our own exchange needs no probe: name the one to ask with --exchange URL")
    if not owned:
        raise SettingsError(
            f"a probe writes to {settings.exchange}: it creates orders and tenders and deletes them; if that tenant is"
            " yours to do so, add --i-own-this-tenant"
        )
    with reached(settings) as client:
        found = ask_exchange(
            client,
            settings,
            version=version("loadsheet"),
            given=values,
            pause_s=pause_s,
            report=say if verbose else lambda _line: None,
        )
    _tell(found, as_json=as_json)
    if found.stopped:
        say(f"stopped early, so {out} is not written")
        raise found.stopped
    write_capabilities(out, found.capabilities)
    say(f"{out} is written; name it in the setting capabilities")
    return NEEDS_SOMEONE if found.left else 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise SettingsError(f"--set {text}: write FIELD=VALUE")
    return name, value


def _tell(found: ProbeResult, *, as_json: bool) -> None:
    told = found.capabilities
    names = ("question", "assumption", "value", "sent", "came_back", "finding", "confidence")
    if as_json:
        answers = [{name: getattr(answer, name) for name in names} for answer in told.answers]
        stopped = str(found.stopped) if found.stopped else None
        print_json(
            {
                "exchange": told.exchange,
                "probed_at": told.probed_at.isoformat(timespec="seconds"),
                "calls": found.calls,
                "answers": answers,
                "left": found.left,
                "stopped": stopped,
            }
        )
    else:
        heads = ["Question", "Assumption", "Value", "Finding", "Confidence"]
        rows = [[one.question, one.assumption, _shown(one.value), one.finding, one.confidence] for one in told.answers]
        print_table(heads, rows)
    say(
        f"{found.calls} calls; "
        + ("all is cleaned up" if not found.left else f"{len(found.left)} could not be removed:")
    )
    for line in found.left:
        say(f"  {line}")


def _shown(value: object) -> str:
    return "" if value is None else str(value) or "(empty)"
