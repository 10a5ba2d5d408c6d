"""`loadsheet run`: everything that is finished in the inbox, once."""

from pathlib import Path

import click

from loadsheet import pipeline
from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, JSON, MAPPINGS, OUTBOX, STATE, load, together
from loadsheet.cli.output import print_lines, print_raw_json, progress, say
from loadsheet.cli.reaching import held_ledger, reached


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option(
    "--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must have been quiet (default: 5)."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 also if rows need someone (instead of 1 or 65).")
@click.option("--quiet", is_flag=True, help="Say nothing unless something needs someone.")
@JSON
def run(
    *,
    inbox: Path | None,
    mappings: Path | None,
    outbox: Path | None,
    state: Path | None,
    exchange: str | None,
    config: Path | None,
    settle_s: float | None,
    exit_zero: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Take in every finished file of the inbox, submit what is ready, and report what became of every row."""
    settings = load(
        config, inbox=inbox, mappings=mappings, outbox=outbox, state=state, exchange=exchange, settle_s=settle_s
    )
    settings.inbox.mkdir(parents=True, exist_ok=True)
    with (
        held_ledger(settings) as ledger,
        reached(settings) as client,
        progress("sending") as advance,
    ):
        result = pipeline.run(settings, ledger, client, progress=advance)
    for problem in result.left:
        say(str(problem))
    if as_json:
        print_raw_json(result.reports.summary.to_json())
    elif result.exit_code or not quiet:
        print_lines(result.reports.sentences)
    if result.late:
        say(result.late)
    if result.stopped:
        say(f"loadsheet: {result.stopped}")
    return 0 if exit_zero and result.exit_code in (1, 65) else result.exit_code
