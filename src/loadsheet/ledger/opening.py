"""Opening the ledger: one process at a time, with the durability that the protocol rests on, and the right schema."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError

from loadsheet.ledger import schema
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.store import Ledger
from loadsheet.problems import LedgerBusy, LedgerError, SettingsError

Clock = Callable[[], datetime]

_VERSION = "schema_version"
_ADVICE = {  # what SQLite says, and what to do about it
    "full": "; free some space and run again",
    "readonly": "; it, its folder or the disk may only be read",
    "unable to open": "; look at the rights of the file and its folder",
    "locked": "; another program has it open",
    "malformed": "; it is damaged: restore it from a backup",
    "not a database": "; it is damaged or no ledger at all: restore it from a backup",
    "disk i/o": "; the disk failed: look at it before running again",
}


def utc_now() -> datetime:
    """The present moment, aware, in UTC: the clock of every run outside tests."""
    return datetime.now(UTC)


@contextmanager
def open_ledger(url: str, *, clock: Clock = utc_now, exclusive: bool = True) -> Iterator[Ledger]:
    """The ledger at a SQLAlchemy URL, created if it does not exist.

    `exclusive` takes the lock that only one process can hold; without it the ledger may only be read. Raises LedgerBusy
    naming the holder, LedgerError for a damaged or newer ledger, SettingsError for a URL that cannot be used.
    """
    path = _file_of(url)
    if not exclusive and not path.exists():
        raise LedgerError(f"there is no ledger at {path} yet; `loadsheet run` makes one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the ledger's folder {path.parent} cannot be made ({error.strerror})") from error
    with _lock(path, clock) if exclusive else _no_lock():
        engine = _engine(url, path, writes=exclusive)
        try:
            _prepare(engine, path, create=exclusive)
            yield Ledger(engine, clock)
        finally:
            engine.dispose()


def _file_of(url: str) -> Path:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise SettingsError(f"database: {url!r} is not a database URL; write sqlite:///path/to/ledger.db") from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise SettingsError(
            f"database: {parsed.render_as_string()} is not supported yet; write sqlite:///path/to/ledger.db"
        )
    return Path(parsed.database)


@contextmanager
def _no_lock() -> Iterator[None]:
    yield


@contextmanager
def _lock(path: Path, clock: Clock) -> Iterator[None]:
    # The operating system drops the lock when its holder dies, so a killed run never leaves a stale one behind.
    lock, holder = FileLock(f"{path}.lock"), Path(f"{path}.holder")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        said = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise LedgerBusy(f"the ledger {path} is held by {said}; try again when it has finished") from None
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be locked ({error.strerror}); is its folder ours?") from error
    try:
        _name_holder(holder, clock)
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _name_holder(holder: Path, clock: Clock) -> None:
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()} since {stamp(clock())}", encoding="utf-8")
    except OSError as error:
        raise LedgerError(f"the ledger's folder {holder.parent} cannot be written ({error.strerror})") from error


def _engine(url: str, path: Path, *, writes: bool) -> Engine:
    def prepare(connection: Any, _record: Any) -> None:
        _make_durable(connection)
        if not writes:
            connection.execute("pragma query_only=ON")

    def in_our_words(context: ExceptionContext) -> None:
        _say(path, context.original_exception)

    engine = create_engine(url)
    event.listen(engine, "handle_error", in_our_words)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _make_durable(connection: Any) -> None:
    connection.isolation_level = None  # sqlite3 must not open transactions behind SQLAlchemy's back; _begin does it
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"pragma {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _prepare(engine: Engine, path: Path, *, create: bool) -> None:
    with engine.connect().execution_options(writes=create) as connection, connection.begin():
        _check_durability(connection, path)
        version = _version(connection)
        if version is None and create and not _has_tables(connection):
            schema.metadata.create_all(connection)
            connection.execute(insert(schema.meta).values(name=_VERSION, value=str(schema.SCHEMA_VERSION)))
        elif version is None:
            raise LedgerError(f"{path} is no ledger; move it away, or give another path for the database")
        elif version != str(schema.SCHEMA_VERSION):
            told = f"has schema version {version}, this program knows {schema.SCHEMA_VERSION}"
            raise LedgerError(f"the ledger {path} {told}; use the program that wrote it, or a newer one")


def _has_tables(connection: Connection) -> bool:
    return bool(inspect(connection).get_table_names())


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(schema.meta.name):
        return None
    return connection.scalar(select(schema.meta.c.value).where(schema.meta.c.name == _VERSION))


def _say(path: Path, error: BaseException) -> None:
    """Raise what the database said in words that tell what to do. Whatever the statement wanted was not recorded."""
    said = str(error)
    known = next((advice for words, advice in _ADVICE.items() if words in said.lower()), "")
    raise LedgerError(f"the ledger {path}: {said}{known}; what was being recorded was not") from error


def _check_durability(connection: Connection, path: Path) -> None:
    # A switch to WAL can fail without an error, on network folders for one: read back what was asked for.
    journal = connection.exec_driver_sql("pragma journal_mode").scalar()
    synchronous = connection.exec_driver_sql("pragma synchronous").scalar()
    if journal != "wal" or synchronous != 2:  # noqa: PLR2004 (2 is FULL)
        raise LedgerError(f"the ledger {path} cannot be made durable (journal {journal}); put it on a local disk")
