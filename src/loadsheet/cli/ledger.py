"""`loadsheet ledger ...`: check, back up, restore, vacuum, export and move the ledger, and erase a key."""

import getpass
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from loadsheet import exit_codes
from loadsheet.cli.options import (
    CONFIG,
    EXCHANGE,
    JSON,
    OUTBOX,
    STATE,
    Target,
    clock,
    combined_options,
    existing_ledger,
    grouped,
    keys,
    ledger_to_read,
    load_each,
    settings_or_raise,
    with_settings,
)
from loadsheet.cli.output import confirm, print_json, print_lines, say
from loadsheet.display_text import count_of
from loadsheet.errors import LedgerError, LoadsheetError, SettingsError

if TYPE_CHECKING:
    from loadsheet.ledger import Ledger
    from loadsheet.operations.retention.key_erasure import ErasurePlan, Request, Traces
    from loadsheet.settings import Settings


@click.group()
def ledger() -> None:
    """Maintain the ledger: check, backup, restore, vacuum, export, move, forget."""


@ledger.command()
@with_settings(STATE)
@JSON
def check(*, settings: "Settings", as_json: bool) -> int:
    """Check the database, foreign keys, states against events, the hash chain of decisions, originals and backups.

    Exits with 70 if the ledger contradicts itself, and with 1 if something around it needs someone. A run may be in progress.
    """
    from loadsheet.operations.retention.ledger_copies import check as check_all

    with ledger_to_read(settings) as opened:
        found = check_all(settings, opened, clock()())
    if as_json:
        print_json(
            {
                "ok": not (found.faults or found.tasks),
                "wrong": found.faults,
                "wants": found.tasks,
                "remarks": found.hints,
            }
        )
    else:
        print_lines(found.hints)
        for text in (*found.faults, *found.tasks):
            say(f"loadsheet: {text}")
        if found.faults:
            say("loadsheet: restore a backup from before this (loadsheet ledger restore FILE); send nothing until then")
    return exit_codes.INTERNAL_ERROR if found.faults else exit_codes.NEEDS_SOMEONE if found.tasks else 0


@ledger.command()
@click.option("--to", "--out", "target", type=Target(), help="File to write.")
@with_settings(STATE)
@JSON
def backup(*, settings: "Settings", target: Path | None, as_json: bool) -> int:
    """Copy the whole ledger, also while a run or a watch is in progress.

    Without --to, the copy goes to STATE/backups, named after the time. It is never removed automatically. It is compressed if its name
    ends with .gz.
    """
    from loadsheet.operations.retention.ledger_copies import BY_THE_SERVER, backup_folder, make_backup, note_copy

    _require_file_ledger(settings, f"{BY_THE_SERVER}: use pg_dump, or base backups with the write-ahead log")
    target = target or backup_folder(settings) / f"ledger-{clock()():%Y-%m-%dT%H%M%SZ}.db.gz"
    if target.exists():
        raise click.UsageError(f"{target} already exists; choose another name")
    with ledger_to_read(settings) as opened:
        make_backup(opened, target)
    note_copy(settings, target)
    if as_json:
        print_json({"backup": str(target), "bytes": target.stat().st_size})
    else:
        print_lines([f"{target} ({target.stat().st_size:,} bytes)"])
    return 0


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_settings(STATE)
@JSON
def restore(*, settings: "Settings", file: Path, yes: bool, as_json: bool) -> int:
    """Replace the ledger with the copy FILE. The replaced ledger is kept beside it.

    Refused while a run or a watch holds the ledger. The copy is checked first. A copy that is older than the last run does not know
    what was sent since: the next run refuses it, unless ledger.accept_older is set.
    """
    from loadsheet.ledger.moving import restore as restore_copy
    from loadsheet.operations.retention.ledger_copies import BY_THE_SERVER

    _require_file_ledger(
        settings, f"{BY_THE_SERVER}: restore with pg_restore, or from base backups with the write-ahead log"
    )
    if not file.is_file():
        raise click.BadParameter(f"{file} does not exist", param_hint="FILE")
    if not yes:
        confirm(f"Replace the ledger with {file}?")
    done = restore_copy(settings.database_url, file, clock())
    if as_json:
        replaced = str(done.replaced) if done.replaced else None
        print_json({"ledger": str(done.path), "replaced": replaced, "last_run": done.last_run, "older": done.older})
        return 0
    last = f"its last run is {done.last_run}" if done.last_run else "it has no run"
    print_lines([f"{done.path} was replaced with the copy {file}; {last}"])
    if done.replaced:
        print_lines([f"the old ledger is kept as {done.replaced}"])
    if done.older:
        say(
            "It is older than the last run recorded here, so it does not know what was sent since. Those files are set aside if they are"
            " dropped again, but not under another form. Run once with LOADSHEET_LEDGER__ACCEPT_OLDER=true. Entries that were ready in"
            " the copy become unknown and are verified at the exchange before anything is sent."
        )
    return 0


@ledger.command()
@with_settings(STATE)
@JSON
def vacuum(*, settings: "Settings", as_json: bool) -> int:
    """Rewrite the database without the free space of deleted rows. Needs as much free disk space as the database."""
    _require_file_ledger(
        settings, "the ledger is on PostgreSQL, which vacuums automatically; this command is for a ledger in a file"
    )
    with existing_ledger(settings) as opened:
        before, after = opened.maintenance.vacuum()
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        print_lines([f"{before:,} bytes before, {after:,} now"])
    return 0


def _require_file_ledger(settings: "Settings", refusal: str) -> None:
    """Raise UsageError if the ledger is on PostgreSQL; SettingsError first if it is still in a file and must be moved."""
    if settings.is_shared:
        with suppress(LedgerError), ledger_to_read(settings):
            pass
        raise click.UsageError(refusal)


class ExportOptions(NamedTuple):
    """The target of an export, its format (None: by the ending of the target), the first day of its runs, and whether it has payloads."""

    target: Path
    kind: Literal["parquet", "csv"] | None
    since: str | None
    payloads: bool


@ledger.command()
@click.option(
    "--to", "--out", "target", required=True, type=Target(dir_okay=True), help="Folder, or a file for entries only."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv"]),
    help="Format (default: by the ending of the file, else parquet).",
)
@click.option("--since", metavar="DAY", help="Only runs from this day on (UTC), such as 2026-03-04.")
@click.option("--payloads", is_flag=True, help="Also export the payloads; they contain names and addresses.")
@with_settings(STATE)
@JSON
@grouped(options=ExportOptions)
def export(*, settings: "Settings", options: ExportOptions, as_json: bool) -> int:
    """Export runs, entries, attempts and exceptions as tables for other programs. Times are in UTC."""
    from loadsheet.operations.retention.ledger_copies import export as export_tables

    target, kind, since, payloads = options
    chosen: Literal["parquet", "csv"] = kind or ("csv" if target.suffix.lower() == ".csv" else "parquet")
    with ledger_to_read(settings) as opened:
        written = export_tables(opened, target, chosen, since=_day(since), payloads=payloads)
    if as_json:
        print_json({str(path): count for path, count in written.items()})
    else:
        print_lines([f"{path}: {count_of(count, 'row')}" for path, count in written.items()])
    return 0


@ledger.command()
@click.option(
    "--from", "source", type=click.Path(dir_okay=False, path_type=Path), help="The file (default: STATE/ledger.db)."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@combined_options(STATE, CONFIG, JSON)
def move(*, source: Path | None, yes: bool, state: Path | None, config: Path | None, as_json: bool) -> int:
    """Move the ledger of every shipper, or of --shipper, from its SQLite file to the PostgreSQL database in the setting `database`.

    Everything is copied in one transaction and compared (rows of each table; states, attempts and bytes of entries). Then the file
    is renamed and not used any more. If the command is interrupted, run it again to continue. There is no way back. Nothing else
    may run in the meantime.
    """
    from loadsheet.operations.retention.ledger_copies import BY_THE_SERVER

    every = load_each(config, state=state)
    if source is not None and len(every) > 1:
        raise click.UsageError(f"--from needs one shipper: add --shipper {'|'.join(every)}")
    if not yes:
        confirm(f"Move {len(every)} {'ledger' if len(every) == 1 else 'ledgers'} for good?")
    moved: list[dict[str, object]] = []
    code = exit_codes.worst(_move_or_report(name, settings, source, moved) for name, settings in every.items())
    if as_json:
        print_json(moved)
    else:
        print_lines([line for result in moved for line in _move_lines(result)])
        if any(result["rows"] for result in moved):
            say(f"{BY_THE_SERVER}. The files are not used any more: remove them when you are sure.")
    return code


def _move_or_report(
    shipper: str, settings: "Settings | SettingsError", source: Path | None, moved: list[dict[str, object]]
) -> int:
    """Move the ledger of one shipper; a failure is reported and does not stop the others."""
    from loadsheet.ledger.moving import Destination
    from loadsheet.ledger.moving import move as move_all

    try:
        own = settings_or_raise(settings)
        if not own.is_shared:
            text = "`database` is not a PostgreSQL URL: set it to the new database, postgresql://USER@HOST/NAME"
            raise SettingsError(text)
        file = source or own.state / "ledger.db"
        to = Destination(own.database_url, own.state, own.cluster.takeover_s)
        done = move_all(file, to, clock(), allow_network=own.ledger.allow_network)
    except LoadsheetError as error:
        say(f"loadsheet: {f'{shipper}: ' if shipper else ''}{error}")
        return error.exit_code
    kept = str(done.kept_as) if done.kept_as.exists() else None
    moved.append({"shipper": shipper, "from": str(file), "to": done.to, "rows": done.counts, "kept_as": kept})
    return 0


def _move_lines(result: dict[str, Any]) -> list[str]:
    rows = result["rows"]
    if not rows:
        return [f"{result['from']} was already moved to {result['to']}"]
    counts = f"{rows['runs']:,} runs, {rows['entries']:,} entries, {rows['decisions']:,} decisions"
    return [f"{result['from']} was moved to {result['to']}: {counts}; the file is kept as {result['kept_as']}"]


def _day(text: str | None) -> str:
    """The start of a day in the time format of the ledger; empty for none."""
    if not text:
        return ""
    try:
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    except ValueError:
        raise click.BadParameter(f"{text} is not a date; write it as 2026-03-04", param_hint="--since") from None


@ledger.command()
@click.argument("key", shell_complete=keys())
@click.option("--because", default="", help="Reason; stored with the erasure. Do not name a person.")
@click.option("--who", default="", help="Name of the person who does it (default: the user's name).")
@click.option("--yes", is_flag=True, help="Erase; without it, the command only shows what would be erased.")
@click.option("--originals", is_flag=True, help="Also erase whole originals that contain rows of other keys.")
@click.option("--reports", is_flag=True, help="Also erase the reports and capsules of the runs that mention it.")
@click.option("--backups", is_flag=True, help="Also erase all copies of the ledger that loadsheet made.")
@click.option(
    "--with-key", is_flag=True, help="Also erase the key: if it is dropped again, the record is sent as a new one."
)
@click.option("--names", is_flag=True, help="Also replace the names of files with records of other keys.")
@with_settings(OUTBOX, STATE, EXCHANGE)
@JSON
def forget(*, settings: "Settings", key: str, yes: bool, as_json: bool, **request: Any) -> int:
    """Erase payloads, cells, answers and comments of every entry of KEY for good. Counts, states and totals stay.

    File names that identify the record are replaced by `forgotten-NUMBER.csv`: a name under which only forgotten records came, a
    name that contains KEY, and a name with a word that occurs in this record and in no other record of its files. If the file is
    dropped again, it is listed under its own name.

    Shows what is erased and what stays, by path. The erasure is recorded as a decision in the hash chain, with who, when and why,
    and a hash in place of the key. Nothing is sent. Entries that are ready or unknown must be settled first.
    """
    from loadsheet.ledger.ledger_opening import file_of
    from loadsheet.operations.retention.key_erasure import Request, find, plan

    who, because = request.pop("who"), request.pop("because").strip()
    wanted = Request(**request, who=who or (getpass.getuser() if yes else ""), because=because)
    if yes and not wanted.because:
        raise click.UsageError("erasing needs --because TEXT: the reason is stored with the decision")
    with existing_ledger(settings) if yes else ledger_to_read(settings) as ledger:
        # copies are in the folder of the file, also if the ledger was moved
        file = settings.state / "ledger.db" if settings.is_shared else file_of(settings.database_url)
        found = find(settings, ledger, file, key)
        if not found.entries:
            say(f"nothing is known about {key}; if its erasure was interrupted, `loadsheet ledger vacuum` completes it")
            return exit_codes.NOTHING_FOUND
        erasure = plan(settings, found, wanted)
        if yes:
            _erase(settings, ledger, found, wanted)
    _print_erasure(found, erasure, done=yes, as_json=as_json)
    return 0


def _erase(settings: "Settings", ledger: "Ledger", found: "Traces", wanted: "Request") -> None:
    from loadsheet.operations.retention.key_erasure import erase_key

    run = ledger.begin_run()
    summary = {"entries": {}, "forgotten": len(found.entries)}
    try:
        erase_key(settings, ledger, run, found, wanted)
    except LoadsheetError as error:
        ledger.end_run(run, exit_code=error.exit_code, summary=summary)
        raise
    ledger.end_run(run, exit_code=0, summary=summary)


def _print_erasure(found: "Traces", erasure: "ErasurePlan", *, done: bool, as_json: bool) -> None:
    if as_json:
        entries = [{"entry": entry.id, "operation": entry.operation, "state": entry.state} for entry in found.entries]
        print_json({"key": found.key, "done": done, "entries": entries, "goes": erasure.goes, "stays": erasure.stays})
        return
    word = "gone:  " if done else "goes:  "
    print_lines([*(f"{word}{text}" for text in erasure.goes), *(f"stays: {text}" for text in erasure.stays)])
    if not done:
        say("Nothing was erased. To erase it, repeat the command with --because TEXT --yes")
