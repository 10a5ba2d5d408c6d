"""`loadsheet pull`: downloads the records of the exchange as workbook, CSV or JSON, for analysts."""

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadsheet.cli.access import clock
from loadsheet.cli.options import CONFIG, EXCHANGE, JSON, STATE, Target, load, together
from loadsheet.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from loadsheet.reports.listing_export import Layout, Pulled

PARTIAL, NOT_LISTED = 1, 65
_SHOWN = 50
_HEADS = ("Key", "Status", "From", "To", "Pickup", "Packages")  # fits a narrow terminal


@click.command()
@click.argument("what", metavar="orders|tenders", type=click.Choice(["orders", "tenders"]))
@click.option(
    "--to",
    "--out",
    "target",
    metavar="FILE",
    type=Target(),
    help="File to write, ending in .xlsx, .csv, .json, .jsonl.",
)
@click.option(
    "--columns",
    metavar="NAME,...",
    multiple=True,
    help="Only these fields or lists; `list` shows their names.",
)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only this record. May be given several times.")
@together(EXCHANGE, STATE, CONFIG, JSON)
def pull(
    what: str,
    *,
    target: Path | None,
    columns: tuple[str, ...],
    keys: tuple[str, ...],
    as_json: bool,
    config: Path | None,
    **given: Any,
) -> int:
    """Download what the exchange lists: one sheet or file for the records, and one for each list in them.

    Without --to, prints a table on a terminal and CSV in a pipe; --json prints the listing as received. Exits with 1 if the listing
    does not hold all records of the exchange: the interface has no second page.
    """
    from loadsheet.contract import BY_NAME
    from loadsheet.reports.listing_export import FORMS, Pulled, layout, write_pulled
    from loadsheet.run_resources import exchange_client
    from loadsheet.settings import EMBEDDED

    subject = what.removesuffix("s")
    if columns == ("list",):
        click.echo("\n".join(layout(subject).names))
        return 0
    laid_out = layout(subject, _chosen(subject, columns))
    if target is not None and target.suffix.lower() not in FORMS:
        raise click.BadParameter(f"{target}: the file must end in {', '.join(FORMS)}", param_hint="--to")
    settings = load(config, **given)
    with exchange_client(settings) as client:
        operation = BY_NAME[f"{subject}.list"]
        at = clock()().isoformat(timespec="seconds").replace("+00:00", "Z")
        pulled = Pulled(operation, client.whole_listing(operation), frozenset(keys))
    if target is None:
        _show(pulled, laid_out, as_json=as_json, chosen=bool(columns))
        written: list[Path] = []
    else:
        source = "the embedded exchange" if settings.exchange == EMBEDDED else client.base_url
        written = write_pulled(pulled, target, laid_out, source=source, at=at)
    return _report_completeness(pulled, written, as_json=as_json and target is not None)


def _chosen(subject: str, columns: Sequence[str]) -> list[str]:
    """The column names in the option; raises UsageError for an unknown one."""
    import difflib

    from loadsheet.reports.listing_export import layout

    chosen = [name.strip() for text in columns for name in text.split(",") if name.strip()]
    if columns and not chosen:
        raise click.BadParameter("no column is given", param_hint="--columns")
    names = layout(subject).names
    for name in chosen:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise click.BadParameter(
                f"{subject}s have no column {name}{meant} (--columns list shows all)", param_hint="--columns"
            )
    return chosen


def _show(pulled: "Pulled", laid_out: "Layout", *, as_json: bool, chosen: bool) -> None:
    """The listing on stdout."""
    from loadsheet.reports.listing_export import write_json, write_table
    from loadsheet.reports.report_files import text_of

    first = islice(pulled.records(), _SHOWN)
    if as_json:
        write_json(pulled, sys.stdout)
        sys.stdout.flush()  # raises here if the disk is full
    elif not sys.stdout.isatty():
        write_table(pulled, sys.stdout, laid_out)
        sys.stdout.flush()
    elif chosen:
        rows = [[text_of(value) for value in row] for record in first for at, row in laid_out.rows(record) if not at]
        print_table([column.head for column in laid_out.tables[0].columns], rows)
    else:
        print_table(_HEADS, [_overview_row(pulled, record) for record in first])
    if sys.stdout.isatty() and not as_json and pulled.counted.wanted > _SHOWN:
        say(f"the first {_SHOWN} are shown; --to FILE.xlsx writes all")


def _overview_row(pulled: "Pulled", record: dict[str, object]) -> list[object]:
    from loadsheet.contract import overview_of

    seen = overview_of(pulled.operation.record, record)
    ends = (", ".join(filter(None, (stop.city, stop.country))) for stop in (seen.pickup, seen.delivery))
    return [seen.key, seen.status, *ends, seen.pickup.early, seen.packages]


def _report_completeness(pulled: "Pulled", written: list[Path], *, as_json: bool) -> int:
    """Report how complete the listing is; returns the exit code."""
    lacking = pulled.counted.lacking
    if as_json:
        print_json(
            {
                "listed": pulled.says,
                "complete": pulled.complete,
                "records": pulled.counted.wanted,
                "total_count": pulled.listing.total_count,
                "lacking": lacking,
                "files": [str(path) for path in written],
            }
        )
    say(pulled.says)
    for key in lacking:
        at_exchange = "is not at the exchange" if pulled.complete else "may still be at the exchange"
        say(f"{key} is not listed: it {at_exchange}")
    if written and not as_json:
        say(f"written: {', '.join(map(str, written))}")
    if not pulled.complete:
        if pulled.listing.todo:
            say(f"to see the others: {pulled.listing.todo}")
        return PARTIAL
    return NOT_LISTED if lacking else 0
