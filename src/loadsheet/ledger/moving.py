"""Moves a ledger from its SQLite file to PostgreSQL, and restores a ledger file from a backup.

A move copies and compares in one transaction, then the copy replaces the file. Owns: the order of these steps, and the comparison:
the number of rows of each table, entries and attempts by state, and the length of the contents. After a kill, either the unchanged
file or the copy is the ledger: the note beside the file decides (see `location`), and the same command completes the move. A move
cannot be undone: the old file lacks everything recorded later.

A restore checks the backup, copies it, then replaces the ledger by renaming and keeps the old one beside it. After a kill there is the
old ledger, the new one, or none with a record of the last run that reveals this. There is never half a ledger.
"""

import gzip
import os
import secrets
import shutil
import socket
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, text

from loadsheet.errors import LedgerError, LedgerUnwritable, SettingsError
from loadsheet.ledger.codec import encode, stamp
from loadsheet.ledger.ledger_opening import OpenOptions, file_of, locked, open_ledger, open_on_server
from loadsheet.ledger.ledger_tables import (
    SCHEMA_VERSION,
    contents,
    entries,
    meta,
    metadata,
    runs,
    store_value,
    stored_value,
    streamed_within,
    tenures,
)
from loadsheet.ledger.location import (
    ARRIVING,
    IncompleteMove,
    MoveNote,
    SqliteLedgerFiles,
    compact_time,
    incomplete_move,
    read_note,
    refuse_moved,
    write_note,
)
from loadsheet.ledger.maintenance import faults_in
from loadsheet.ledger.postgres import Address, address_of, copy_in
from loadsheet.ledger.shared.mutual_exclusion import ScheduleKey, begin_schedule
from loadsheet.ledger.store import Ledger
from loadsheet.places import sync_folder

_MOVE = "move"  # in the file's table `meta`: the id of the move
_STAYS = ("schema_version", "looked_at", _MOVE)
_LOG_FILES = ("-wal", "-shm")
_SQLITE = b"SQLite format 3\0"  # begins every database
_TABLES = tuple(table for table in metadata.sorted_tables if table not in (meta, tenures))


class Moved(NamedTuple):
    """A moved ledger: its new address, the path under which its file is kept, and the number of rows of each table (empty: it was
    moved before).
    """

    to: str
    kept_as: Path
    counts: dict[str, int]


class Destination(NamedTuple):
    """The destination of a move: a PostgreSQL URL, the folder of this machine's record of the last run, and the seconds without a
    heartbeat after which a holder there counts as dead.
    """

    url: str
    state: Path
    takeover_s: float = 30.0


def move(path: Path, to: Destination, clock: Callable[[], datetime], *, allow_network: bool = False) -> Moved:
    """Move the ledger of a file to a PostgreSQL URL.

    Raises LedgerBusy if another process holds either ledger. Raises SettingsError if there is no such file or the target has runs
    of its own. Raises LedgerError if a ledger is not sound or the two differ. Raises the errors of `open_ledger`.
    """
    path, address = path.absolute(), address_of(to.url)
    counts: dict[str, int] = {}
    if (note := read_note(path)) is None:
        if not path.exists():
            raise SettingsError(f"there is no ledger {path} to move")
        source = open_ledger(f"sqlite:///{path}", OpenOptions(allow_network=allow_network), clock=clock)
        with source as old, open_on_server(to.url, OpenOptions(takeover_s=to.takeover_s), clock, arrives=True) as new:
            now = stamp(clock())
            note = MoveNote(
                str(address), now, _name(old), str(path.with_name(f"{path.name}.moved-{compact_time(now)}"))
            )
            if faults := old.check():
                raise LedgerError(f"the ledger {path} is not sound, so it was not moved: {faults[0]}")
            of = IncompleteMove(str(path), socket.gethostname(), note.move, SqliteLedgerFiles(path).read_last_run())
            with old.queries.at_one_moment() as connection:
                held = _held(connection)  # before the copy: the server ends a transaction that is idle for long
            counts = new.in_transaction(partial(_copy, old, of, address, held))
            write_note(path, note)
    elif note.to != str(address):
        raise SettingsError(
            f"the ledger {path} was moved to {note.to} on {note.at[:10]}, and cannot be moved to {address}"
        )
    _rename_moved_file(path, Path(note.kept_as), clock)
    with open_on_server(to.url, OpenOptions(state=to.state, takeover_s=to.takeover_s), clock):
        pass  # opening it completes the move
    return Moved(str(address), Path(note.kept_as), counts)


def _name(old: Ledger) -> str:
    """The id of the move of a ledger, the same until the move is complete."""

    def named(connection: Connection) -> str:
        name = stored_value(connection, _MOVE) or secrets.token_hex(16)
        store_value(connection, _MOVE, name)
        return name

    return old.in_transaction(named)


def _copy(old: Ledger, of: IncompleteMove, address: Address, held: "_Held", new: Connection) -> dict[str, int]:
    """Copy everything in a transaction of the new ledger. Returns the number of rows of each table."""
    begun = incomplete_move(new)
    if begun is not None and begun.move != of.move:
        message = f"the move of {begun.file} on {begun.host} to the ledger {address} is not complete"
        raise SettingsError(f"{message}: complete it there, or give {of.file} another schema")
    if begun is None and new.scalar(select(func.count()).select_from(runs)):
        raise SettingsError(f"the ledger {address} has runs of its own: {of.file} cannot be moved into it")
    new.execute(delete(meta).where(meta.c.name.not_in(_STAYS)))
    for table in reversed(_TABLES):
        new.execute(delete(table))
    with old.queries.at_one_moment() as connection:
        for table in _TABLES:
            columns = [column.name for column in table.columns]
            copy_in(new, str(address), table.name, columns, streamed_within(connection, select(table)))
        kept = select(meta.c.name, meta.c.value).where(meta.c.name.not_in(_STAYS))
        for row in connection.execute(kept):
            new.execute(insert(meta).values(name=row.name, value=row.value))
        for name, done in old.queries.schedules_done().items():
            begin_schedule(new, ScheduleKey(address.shipper, name), datetime.fromisoformat(done).astimezone(UTC))
        _count_on(new)
        store_value(new, ARRIVING, encode(of))
    return _compared(held, new)


def _count_on(new: Connection) -> None:
    """Make the id sequences continue after the largest copied id."""
    for table in _TABLES:
        if [column.name for column in table.primary_key] == ["id"]:
            top = new.scalar(select(func.max(table.c.id)))
            if top is not None:
                new.execute(
                    text("select setval(pg_get_serial_sequence(:table, 'id'), :top)"), {"table": table.name, "top": top}
                )
        new.exec_driver_sql(f'analyze "{table.name}"')  # without it the comparison may take very long


class _Held(NamedTuple):
    """The compared figures of a ledger: rows by table, and the number, attempts and bytes of contents of entries by state."""

    counts: dict[str, int]
    sums: Sequence[Any]


def _held(connection: Connection) -> _Held:
    counts = {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in _TABLES}
    lengths = [func.sum(func.length(entries.c[name])) for name in ("payload", "rows", "problems", "instead")]
    query = select(entries.c.state, func.count(), func.sum(entries.c.attempts), *lengths)
    sums = connection.execute(query.group_by(entries.c.state).order_by(entries.c.state))
    packed = connection.execute(select(func.sum(func.length(contents.c.packed))))
    return _Held(counts, [tuple(row) for row in (*sums, *packed)])


def _compared(old: _Held, new: Connection) -> dict[str, int]:
    """The number of rows of each table, if both ledgers agree. Raises LedgerError if they differ or the new one is not sound."""
    copied = _held(new)
    differs = [name for name, count in old.counts.items() if copied.counts[name] != count]
    if differs or old.sums != copied.sums:
        message = f"different numbers of rows in {', '.join(differs)}" if differs else "the sums of entries differ"
        raise LedgerError(f"the copy differs from the ledger ({message}); nothing was moved")
    if faults := list(faults_in(new)):
        raise LedgerError(f"the copy is not sound ({faults[0]}); nothing was moved")
    return old.counts


def _rename_moved_file(path: Path, kept_as: Path, clock: Callable[[], datetime]) -> None:
    """Merge the log into the file and rename it to the name under which it is kept. Raises LedgerUnwritable."""
    if not path.exists():
        return
    with locked(path, clock):
        try:
            with closing(sqlite3.connect(path)) as old:
                old.execute("pragma wal_checkpoint(truncate)").fetchall()
            _rename(path, kept_as)
            sync_folder(path.parent)
        except (OSError, sqlite3.Error) as error:
            raise LedgerUnwritable(
                f"{path} was moved, but cannot be renamed ({error}); run the command again"
            ) from error


def _rename(path: Path, target: Path) -> None:
    """Rename a database with its log files."""
    for end in (*_LOG_FILES, ""):
        beside = path.with_name(path.name + end)
        if beside.exists():
            beside.replace(target.with_name(target.name + end))


class Restored(NamedTuple):
    """A restored ledger: its file, the path of the replaced one (None: there was none), its last run (empty: none), and whether
    that is older than the last run recorded on this machine.
    """

    path: Path
    replaced: Path | None
    last_run: str
    older: bool


def restore(url: str, backup: Path, clock: Callable[[], datetime]) -> Restored:
    """Replace the ledger at a URL with a copy of `backup`, which may be compressed (`.gz`).

    Raises LedgerBusy if another process holds the ledger, and LedgerError if the backup is damaged, not of a ledger or of a newer
    program. Raises LedgerUnwritable, and SettingsError if the ledger is not a file.
    """
    path = file_of(url)
    if backup.absolute() == path.absolute():
        raise LedgerError(f"{backup} is the ledger itself; give a backup of it")
    refuse_moved(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUnwritable(f"the folder {path.parent} cannot be created ({error.strerror})") from error
    if not backup.is_file():
        raise LedgerError(f"there is no file {backup}")
    part = path.with_name(f"{path.name}.restoring")
    with locked(path, clock):
        try:
            _copy_backup(backup, part)
            last_run = _check_copy(part, backup)
            replaced = _keep_replaced_ledger(path, stamp(clock()))
            part.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise LedgerUnwritable(f"{path} cannot be replaced with {backup} ({error.strerror})") from error
        finally:
            with suppress(OSError):
                _remove(part)
        known = SqliteLedgerFiles(path).read_last_run()
        return Restored(path, replaced, last_run[0], known is not None and (known.name, known.started_at) != last_run)


def _copy_backup(backup: Path, part: Path) -> None:
    """Copy a backup, unpacked, with the log beside it: what a process wrote before it was killed may be there alone. Raises LedgerError
    and OSError.
    """
    _remove(part)
    packed = backup.suffix == ".gz"
    log = backup.with_name(f"{backup.name}-wal")
    try:
        with gzip.open(backup) if packed else backup.open("rb") as source:
            begin = source.read(len(_SQLITE))
            if begin != _SQLITE:
                raise LedgerError(f"{backup} is damaged or not a backup of a ledger; nothing was changed")
            _write_durably(part, begin, source)
        if not packed and log.is_file():
            with log.open("rb") as source:
                _write_durably(part.with_name(f"{part.name}-wal"), b"", source)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LedgerError(f"{backup} is damaged ({error}); nothing was changed: use an older backup") from error


def _write_durably(path: Path, begin: bytes, rest: IO[bytes] | gzip.GzipFile) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:  # noqa: PTH123 (rights from the first byte)
        target.write(begin)
        shutil.copyfileobj(rest, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


def _remove(part: Path) -> None:
    for end in ("", *_LOG_FILES):
        part.with_name(part.name + end).unlink(missing_ok=True)


def _check_copy(copy: Path, backup: Path) -> tuple[str, str]:
    """Fold the log of the copy of a backup into it and check it. Returns the name and the start of its last run (empty: none). Raises
    LedgerError if it cannot be restored.
    """
    try:
        with closing(sqlite3.connect(copy)) as database:
            database.execute("pragma journal_mode=DELETE").fetchone()
            foreign = database.execute("select name from sqlite_master where type in ('trigger', 'view')").fetchone()
            if foreign is not None:  # it could change entries behind our back, such as from accepted to ready
                raise LedgerError(
                    f"{backup} holds statements of its own ({foreign[0]}); nothing was changed: use another backup"
                )
            (sound,) = database.execute("pragma integrity_check(1)").fetchone()
            version = database.execute("select value from meta where name = 'schema_version'").fetchone()
            last = database.execute("select name, started_at from runs order by id desc limit 1").fetchone()
    except sqlite3.Error as error:
        raise LedgerError(f"{backup} is damaged or not a backup of a ledger ({error}); nothing was changed") from error
    if sound != "ok":
        raise LedgerError(f"{backup} is damaged ({sound}); nothing was changed: use an older backup")
    known = version[0] if version else "none"
    if known not in map(str, range(1, SCHEMA_VERSION + 1)):
        raise LedgerError(
            f"{backup} has schema version {known}, this program knows version {SCHEMA_VERSION}; nothing was changed: use a newer program"
        )
    return (str(last[0]), str(last[1])) if last else ("", "")


def _keep_replaced_ledger(path: Path, now: str) -> Path | None:
    """Rename the existing ledger, after merging its log into it if that is readable. Returns its new path."""
    if not path.exists():
        for end in _LOG_FILES:
            # The log of another database must not be applied to this one.
            path.with_name(path.name + end).unlink(missing_ok=True)
        return None
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as old:
        old.execute("pragma wal_checkpoint(truncate)").fetchall()
    kept, number = path.with_name(f"{path.name}.replaced-{compact_time(now)}"), 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.replaced-{compact_time(now)}-{number}")
    _rename(path, kept)
    return kept
