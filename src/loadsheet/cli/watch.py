"""`loadsheet watch`: runs whenever files are finished, until it is stopped."""

import signal
from pathlib import Path

import click
import msgspec

from loadsheet import pipeline
from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, MAPPINGS, OUTBOX, STATE, load, together
from loadsheet.cli.output import print_lines, say
from loadsheet.cli.reaching import held_ledger, reached
from loadsheet.dispatch import Client
from loadsheet.ledger import Ledger, State
from loadsheet.mapping import load_folder
from loadsheet.reports import RunSummary
from loadsheet.settings import Settings
from loadsheet.watching import Bell, Ended
from loadsheet.watching import watch as keep_watching

INTERRUPTED = 130


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option(
    "--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must have been quiet (default: 5)."
)
@click.option("--json", "as_json", is_flag=True, help="Machine output: one line of JSON on stdout for each run.")
def watch(
    *,
    inbox: Path | None,
    mappings: Path | None,
    outbox: Path | None,
    state: Path | None,
    exchange: str | None,
    config: Path | None,
    settle_s: float | None,
    as_json: bool,
) -> int:
    """Stay, and run whenever files in the inbox are finished or entries wait to be sent or resolved.

    Holds the ledger while it lives: a `loadsheet run` beside it is told so and exits 75. SIGTERM ends it with 0 after the calls
    under way are finished and settled; what is left is for the next start. What may be over by itself is tried again after growing
    pauses; a wrong mapping or setting (78), a refused token (77) and a fault of ours (70) end it.
    """
    settings = load(
        config, inbox=inbox, mappings=mappings, outbox=outbox, state=state, exchange=exchange, settle_s=settle_s
    )
    load_folder(settings.mappings, settings.assumptions)  # whoever starts a watch wants to know at once
    settings.inbox.mkdir(parents=True, exist_ok=True)
    with (
        held_ledger(settings) as ledger,
        reached(settings) as client,
        Bell(settings, _warn) as bell,
    ):
        say(f"watching {settings.inbox}")
        stopped_by = keep_watching(
            settings,
            bell,
            lambda: _run_once(settings, ledger, client, as_json=as_json),
            lambda: ledger.history.count_in(State.READY, State.SENDING, State.UNKNOWN),
            _warn,
        )
    say("stopped; what is left is for the next start")
    return INTERRUPTED if stopped_by == signal.SIGINT else 0


def _run_once(settings: Settings, ledger: Ledger, client: Client, *, as_json: bool) -> Ended:
    result = pipeline.run(settings, ledger, client)
    for problem in result.left:
        say(str(problem))
    summary = result.reports.summary
    if as_json:
        print_lines([msgspec.json.format(summary.to_json(), indent=-1).decode()])
    else:
        print_lines([_line(summary, result.reports.folder)])
    return Ended(result.exit_code, result.stopped, result.left)


def _line(summary: RunSummary, folder: Path) -> str:
    files = sum(len(drop.files) for drop in summary.drops)
    counts = ", ".join(f"{count:,} {state}" for state, count in summary.entries.items()) or "nothing to send"
    told = f"exit code {summary.exit_code}, reports in {folder}"
    return f"{summary.finished_at} run {summary.run}: {files} file{'s' if files != 1 else ''}, {counts}; {told}"


def _warn(text: str) -> None:
    say(f"loadsheet: {text}")
