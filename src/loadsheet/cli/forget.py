"""`loadsheet ledger forget`: remove what was said of a key at a person's request; without --yes it only says what would go."""

import getpass
from pathlib import Path

import click

from loadsheet.cli.connections import held_ledger
from loadsheet.cli.ledger_reading import ledger_to_read
from loadsheet.cli.options import CONFIG, EXCHANGE, JSON, OUTBOX, STATE, load, together
from loadsheet.cli.output import print_json, print_lines, say
from loadsheet.ledger import Ledger
from loadsheet.ledger.opening import file_of
from loadsheet.operations.retention.erasure import Deed, Traces, Wanted, find, plan
from loadsheet.operations.retention.erasure import forget as forget_all
from loadsheet.problems import LoadsheetError
from loadsheet.settings import Settings

NOTHING_KNOWN = 1


@click.command()
@click.argument("key")
@click.option("--because", default="", help="Why: kept with the deed. Name no person in it.")
@click.option("--who", default="", help="Who does it (default: the user's name).")
@click.option("--yes", is_flag=True, help="Do it; without, it only says what would go.")
@click.option("--originals", is_flag=True, help="Also whole originals in which rows of other keys stand.")
@click.option("--reports", is_flag=True, help="Also the reports and capsules of the runs that tell of it.")
@click.option("--backups", is_flag=True, help="Also all copies of the ledger that we made.")
@click.option("--with-key", is_flag=True, help="Also the key: dropped again, the same record is sent as a new one.")
@click.option("--names", is_flag=True, help="Also names of files in which records of other keys came.")
@together(OUTBOX, STATE, EXCHANGE, CONFIG, JSON)
def forget(
    key: str,
    *,
    because: str,
    who: str,
    yes: bool,
    originals: bool,
    reports: bool,
    backups: bool,
    with_key: bool,
    names: bool,
    outbox: Path | None,
    state: Path | None,
    exchange: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Remove payloads, cells, answers and comments of every entry of KEY for good; counts, states and totals stay.

    File names go too, replaced by `forgotten-NUMBER.csv`: one under which only forgotten records came, one that contains KEY, and one with
    a word that stands in this record and in no other of its files. Dropped again, a file is listed under its own name.

    Says what goes and what stays, by path. The deed is a decision in the chain, with who, when and why, and a hash in the place of
    the key. Nothing is sent. What is ready or unknown has to be settled first.
    """
    settings = load(config, outbox=outbox, state=state, exchange=exchange)
    wanted = Wanted(originals, reports, backups, with_key, names)
    if yes and not because.strip():
        raise click.UsageError("what is removed for good needs --because TEXT: it is kept with the deed")
    with held_ledger(settings) if yes else ledger_to_read(settings) as ledger:
        found = find(settings, ledger, _file(settings), key)
        if not found.entries:
            say(
                f"nothing is known about {key}; if forgetting it was interrupted, `loadsheet ledger vacuum` finishes it"
            )
            return NOTHING_KNOWN
        deed = plan(settings, found, wanted)
        if yes:
            _do(settings, ledger, found, wanted, who=who or getpass.getuser(), because=because.strip())
    _tell(found, deed, done=yes, as_json=as_json)
    return 0


def _file(settings: Settings) -> Path:
    """The file of the ledger, or of what it was before it was moved: copies lie beside it."""
    return settings.state / "ledger.db" if settings.is_shared else file_of(settings.database_url)


def _do(settings: Settings, ledger: Ledger, found: Traces, wanted: Wanted, *, who: str, because: str) -> None:
    run = ledger.begin_run()
    summary = {"entries": {}, "forgotten": len(found.entries)}
    try:
        forget_all(settings, ledger, run, found, wanted, who=who, because=because)
    except LoadsheetError as error:
        ledger.end_run(run, exit_code=error.exit_code, summary=summary)
        raise
    ledger.end_run(run, exit_code=0, summary=summary)


def _tell(found: Traces, deed: Deed, *, done: bool, as_json: bool) -> None:
    if as_json:
        entries = [{"entry": one.id, "operation": one.operation, "state": one.state} for one in found.entries]
        print_json({"key": found.key, "done": done, "entries": entries, "goes": deed.goes, "stays": deed.stays})
        return
    word = "gone:  " if done else "goes:  "
    print_lines([*(f"{word}{text}" for text in deed.goes), *(f"stays: {text}" for text in deed.stays)])
    if not done:
        say("Nothing was removed. To do it: the same again with --because TEXT --yes")
