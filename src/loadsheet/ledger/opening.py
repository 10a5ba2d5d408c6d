"""Opening the ledger: one process at a time, with the durability that the protocol rests on, and the right schema."""

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from loadsheet.ledger.backup import is_older
from loadsheet.ledger.clock import Clock, utc_now
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.location import Place, network_kind, refuse_moved
from loadsheet.ledger.postgres import is_postgres, without_password
from loadsheet.ledger.postgres_opening import Opening, joined
from loadsheet.ledger.postgres_opening import is_there as there_is
from loadsheet.ledger.store import Ledger
from loadsheet.ledger.versions import check_version, make_if_new, quick_check_if_due, upgrade
from loadsheet.problems import LedgerBusy, LedgerDiskFailed, LedgerError, LedgerMissing, LedgerUnwritable, SettingsError

_PRAGMAS = {
    "journal_mode": "WAL",
    "synchronous": "FULL",
    "foreign_keys": "ON",
    "busy_timeout": "10000",
    "journal_size_limit": "67108864",  # a write-ahead log that grew under a long reader is cut back to this
    "case_sensitive_like": "ON",  # as on PostgreSQL: a key that begins like another one in other letters is none of its own
}
_READ_BACK = {
    "journal_mode": "wal",
    "synchronous": "2",  # FULL
    "foreign_keys": "1",
    "busy_timeout": "10000",
    "journal_size_limit": "67108864",
}
_LOCAL = "put it on a local disk"
_UNWRITABLE = ("full", "readonly", "unable to open")
_FAILED = "disk i/o"
_DAMAGED = ("malformed", "not a database")
_ADVICE = {  # what SQLite says, and what to do about it
    "full": "; free some space and run again",
    "readonly": "; it, its folder or the disk may only be read",
    "unable to open": "; look at the rights of the file and its folder",
    "locked": "; another program has it open",
    "malformed": "; it is damaged",
    "not a database": "; it is damaged or no ledger at all",
    _FAILED: "; the disk failed: look at it before running again",
}


@contextmanager
def open_ledger(
    url: str,
    *,
    clock: Clock = utc_now,
    exclusive: bool = True,
    allow_network: bool = False,
    accept_older: bool = False,
    state: Path | None = None,
    takeover_s: float = 30.0,
) -> Iterator[Ledger]:
    """The ledger at a SQLAlchemy URL, created if it does not exist, and upgraded if an older program made it.

    `exclusive` takes the lock, or on PostgreSQL the tenure, that only one process can hold; without it the ledger may only be read.
    `allow_network` lets it lie on a network file system; `accept_older` takes one that was put back from a backup: the next run then
    doubts what it would have sent. `state` is the folder of the ledger's copies, and on PostgreSQL of this machine's mark of the last
    run, where who holds the tenure is taken for dead after `takeover_s`. Raises LedgerBusy naming the holder, LedgerError for a ledger that is damaged, newer, gone or older than its last run,
    LedgerUnwritable, and SettingsError for a URL that cannot be used.
    """
    if is_postgres(url):
        opening = Opening(exclusive, accept_older, state, takeover_s)
        with joined(url, clock, opening) as ledger:
            yield ledger
        return
    path = file_of(url)
    place = Place(path, state)
    if not exclusive:
        refuse_moved(path)
        place.check_there()
        if not path.exists():
            raise LedgerMissing(f"there is no ledger at {path} yet", todo="`loadsheet run` makes one")
    if exclusive:
        _make_folder(path.parent)
        _refuse_network(path, allowed=allow_network)
    with locked(path, clock) if exclusive else _no_lock():
        if exclusive:
            refuse_moved(path)
            place.check_there()
            place.make_private()
        engine = _engine(url, place, writes=exclusive)
        try:
            older = _prepare(engine, place, stamp(clock()), accept_older=accept_older) if exclusive else False
            _check(engine, path)
            yield Ledger(engine, clock, place, older=older)
        finally:
            engine.dispose()
            place.give_reserve()


def _make_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the ledger's folder {folder} cannot be made ({error.strerror})") from error


def _refuse_network(path: Path, *, allowed: bool) -> None:
    kind = "" if allowed else network_kind(path)
    if kind:
        message = f"the ledger {path} lies on a network file system ({kind}), where a crash can lose what was recorded"
        raise LedgerError(f"{message}; give a path on a local disk (database, state), or set ledger.allow_network")


def is_there(url: str) -> bool:
    """Whether there is a ledger at a SQLAlchemy URL. Raises SettingsError for a URL that cannot be used, or of a ledger that was moved."""
    if is_postgres(url):
        return there_is(url)
    path = file_of(url)
    refuse_moved(path)
    return path.exists()


def file_of(url: str) -> Path:
    """The file of the ledger at a SQLAlchemy URL. Raises SettingsError for a URL that cannot be used."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise SettingsError("database: this is not a database URL; write sqlite:///path/to/ledger.db") from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise SettingsError(f"database: {without_password(url)} is no file; write sqlite:///path/to/ledger.db")
    return Path(parsed.database)


@contextmanager
def _no_lock() -> Iterator[None]:
    yield


@contextmanager
def locked(path: Path, clock: Clock) -> Iterator[None]:
    """Hold the lock that only one process can hold. Raises LedgerBusy naming the holder, and LedgerUnwritable."""
    # The operating system drops the lock when its holder dies, so a killed run never leaves a stale one behind.
    lock, holder = FileLock(f"{path}.lock", mode=0o600), Path(f"{path}.holder")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        error_text = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise LedgerBusy(f"the ledger {path} is held by {error_text}; try again when it has finished") from None
    except OSError as error:
        message = f"the ledger {path} cannot be locked ({error.strerror})"
        raise LedgerUnwritable(f"{message}; may its folder be written, and is there space?") from error
    try:
        _name_holder(holder, clock)
        yield
    finally:
        with suppress(OSError):  # a name that stays is of nobody: the lock itself decides
            holder.unlink(missing_ok=True)
        lock.release()


def _name_holder(holder: Path, clock: Clock) -> None:
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()} since {stamp(clock())}", encoding="utf-8")
    except OSError as error:
        raise LedgerUnwritable(f"the ledger's folder {holder.parent} cannot be written ({error.strerror})") from error


def _engine(url: str, place: Place, *, writes: bool) -> Engine:
    def prepare(connection: Any, _record: Any) -> None:
        _make_durable(connection)
        if not writes:
            connection.execute("pragma query_only=ON")

    def in_our_words(context: ExceptionContext) -> None:
        _say(place, context.original_exception)

    engine = create_engine(url)
    event.listen(engine, "handle_error", in_our_words)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _make_durable(connection: Any) -> None:
    connection.isolation_level = None  # sqlite3 must not open transactions behind SQLAlchemy's back; _begin does it
    for name, value in _PRAGMAS.items():
        connection.execute(f"pragma {name}={value}").fetchall()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("bare", False):  # a checkpoint takes place between transactions
        connection.exec_driver_sql("begin immediate" if options.get("writes", False) else "begin")


def _prepare(engine: Engine, place: Place, now: str, *, accept_older: bool) -> bool:
    """Make or upgrade the tables, and find out whether the ledger can be trusted; whether it is an older one that was accepted."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        make_if_new(connection)
    upgrade(engine, place.path, now)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_version(connection, place.path)
        try:
            quick_check_if_due(connection, now)
        except LedgerError as error:
            raise LedgerError(f"the ledger {place.path}: {error}", todo=place.to_restore()) from error
        return is_older(connection, place, str(place.path), accepted=accept_older)


def _check(engine: Engine, path: Path) -> None:
    with engine.connect() as connection, connection.begin():
        _check_durability(connection, path)
        check_version(connection, path)
    # What a connection says of itself can differ from what the file says to the next one: ask a new one that sets nothing.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as other:
        (journal,) = other.execute("pragma journal_mode").fetchone()
        if journal != "wal":
            raise LedgerError(
                f"the ledger {path} cannot be made durable (journal {journal} when opened again); {_LOCAL}"
            )


def _say(place: Place, error: BaseException) -> None:
    """Raise what the database said in words that tell what to do. Whatever the statement wanted was not recorded."""
    error_text = str(error) or "out of memory"  # which Python says without a word
    known = next((advice for words, advice in _ADVICE.items() if words in error_text.lower()), "")
    kind = LedgerDiskFailed if _FAILED in error_text.lower() else LedgerError
    if any(words in error_text.lower() for words in _UNWRITABLE):
        kind = LedgerUnwritable
    todo = place.to_restore() if any(words in error_text.lower() for words in _DAMAGED) else ""
    raise kind(f"the ledger {place.path}: {error_text}{known}; what was being recorded was not", todo=todo) from error


def _check_durability(connection: Connection, path: Path) -> None:
    # A switch to WAL can fail without an error, on network folders for one: read back what was asked for.
    found = {name: str(connection.exec_driver_sql(f"pragma {name}").scalar()) for name in _READ_BACK}
    if found != _READ_BACK:
        message = ", ".join(f"{name} {value}" for name, value in found.items() if value != _READ_BACK[name])
        raise LedgerError(f"the ledger {path} cannot be made durable ({message}); {_LOCAL}")
