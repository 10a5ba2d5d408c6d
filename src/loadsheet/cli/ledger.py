"""`loadsheet ledger ...`: look after the ledger. Check it, copy it and put a copy back, shrink it, take its tables out, forget a key."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

import click

from loadsheet.cli.forget import forget
from loadsheet.cli.moments import clock
from loadsheet.cli.options import CONFIG, JSON, STATE, load, together
from loadsheet.cli.output import print_json, print_lines, say
from loadsheet.cli.reaching import held_ledger
from loadsheet.keeping.backups import backup_folder, make_backup
from loadsheet.keeping.checking import check as check_all
from loadsheet.keeping.exporting import export as export_tables
from loadsheet.ledger import open_ledger
from loadsheet.ledger.replacing import restore as put_back
from loadsheet.problems import LedgerError

WANTS_SOMEONE = 1


@click.group()
def ledger() -> None:
    """Look after the ledger: check, backup, restore, vacuum, export, forget."""


@ledger.command()
@together(STATE, CONFIG, JSON)
def check(*, state: Path | None, config: Path | None, as_json: bool) -> int:
    """Look at everything: the database, foreign keys, states against events, the chain of decisions, originals, backups.

    Exits 70 if the ledger contradicts itself, 1 if something around it wants somebody. A run may be under way meanwhile.
    """
    settings = load(config, state=state)
    with open_ledger(settings.database_url, exclusive=False) as opened:
        found = check_all(settings, opened, clock()())
    if as_json:
        print_json(
            {"ok": not (found.wrong or found.wants), "wrong": found.wrong, "wants": found.wants, "told": found.told}
        )
    else:
        print_lines(found.told)
        for text in (*found.wrong, *found.wants):
            say(f"loadsheet: {text}")
        if found.wrong:
            say("loadsheet: restore a backup from before this (loadsheet ledger restore FILE); send nothing until then")
    return LedgerError.exit_code if found.wrong else WANTS_SOMEONE if found.wants else 0


@ledger.command()
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@together(STATE, CONFIG, JSON)
def backup(*, target: Path | None, state: Path | None, config: Path | None, as_json: bool) -> int:
    """Copy the ledger as it stands, whole and durable, while a run or a watch may go on.

    Without --to the copy goes to STATE/backups under the time; it is never removed by itself.
    """
    settings = load(config, state=state)
    target = target or backup_folder(settings) / f"ledger-{clock()():%Y-%m-%dT%H%M%SZ}.db"
    if target.exists():
        raise click.UsageError(f"{target} is there already; give another name")
    with open_ledger(settings.database_url, exclusive=False) as opened:
        make_backup(opened, target)
    if as_json:
        print_json({"backup": str(target), "bytes": target.stat().st_size})
    else:
        print_lines([f"{target} ({target.stat().st_size:,} bytes)"])
    return 0


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@together(STATE, CONFIG, JSON)
def restore(file: Path, *, yes: bool, state: Path | None, config: Path | None, as_json: bool) -> int:
    """Put the copy FILE in the place of the ledger; the one that is there is kept beside it.

    Refused while a run or a watch holds the ledger. The copy is read whole first. A copy that is older than the last run does not
    know what was sent since: the next run says so, and takes it only with accept_older_ledger.
    """
    settings = load(config, state=state)
    if not yes:
        click.confirm(f"Put {file} in the place of the ledger?", abort=True, err=True)
    done = put_back(settings.database_url, file, clock())
    if as_json:
        replaced = str(done.replaced) if done.replaced else None
        print_json({"ledger": str(done.path), "replaced": replaced, "last_run": done.last_run, "older": done.older})
        return 0
    last = f"its last run is {done.last_run}" if done.last_run else "it knows no run"
    print_lines([f"{done.path} is the copy {file} now; {last}"])
    if done.replaced:
        print_lines([f"what was there is {done.replaced}"])
    if done.older:
        say(
            "It is older than the last run recorded here, so it does not know what was sent since. Look that nobody drops those files"
            " again unseen, then run once with LOADSHEET_ACCEPT_OLDER_LEDGER=true: what it would have sent is unknown then, and looked"
            " for at the exchange before anything is sent."
        )
    return 0


@ledger.command()
@together(STATE, CONFIG, JSON)
def vacuum(*, state: Path | None, config: Path | None, as_json: bool) -> int:
    """Write the database anew without the gaps that removed contents left. Needs as much space again while it lasts."""
    settings = load(config, state=state)
    with held_ledger(settings) as opened:
        before, after = opened.upkeep.vacuum()
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        print_lines([f"{before:,} bytes before, {after:,} now"])
    return 0


@ledger.command()
@click.option(
    "--to", "target", required=True, type=click.Path(path_type=Path), help="Folder, or a file for entries only."
)
@click.option(
    "--format", "kind", type=click.Choice(["parquet", "csv"]), help="Default: as the file ends, else parquet."
)
@click.option("--since", metavar="DAY", help="Only runs from this day on (UTC), such as 2026-03-04.")
@click.option("--payloads", is_flag=True, help="Also the records as they were sent; they hold names and addresses.")
@together(STATE, CONFIG, JSON)
def export(
    *,
    target: Path,
    kind: Literal["parquet", "csv"] | None,
    since: str | None,
    payloads: bool,
    state: Path | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Write runs, entries, attempts and exceptions as tables for other programs. Times are UTC."""
    settings = load(config, state=state)
    chosen: Literal["parquet", "csv"] = kind or ("csv" if target.suffix.lower() == ".csv" else "parquet")
    with open_ledger(settings.database_url, exclusive=False) as opened:
        written = export_tables(opened, target, chosen, since=_day(since), payloads=payloads)
    if as_json:
        print_json({str(path): count for path, count in written.items()})
    else:
        print_lines([f"{path}: {count:,} rows" for path, count in written.items()])
    return 0


ledger.add_command(forget)


def _day(text: str | None) -> str:
    """The beginning of a day as the ledger writes times; empty for none."""
    if not text:
        return ""
    try:
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    except ValueError:
        raise click.BadParameter(f"{text} is not a day such as 2026-03-04", param_hint="--since") from None
