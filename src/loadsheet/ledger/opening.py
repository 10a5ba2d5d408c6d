"""Opening the ledger: one process at a time, with the durability that the protocol rests on, and the right schema."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError

from loadsheet.ledger import schema
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.store import Ledger
from loadsheet.problems import LedgerBusy, LedgerError, SettingsError

Clock = Callable[[], datetime]


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
        engine = _engine(url)
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
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()} since {stamp(clock())}", encoding="utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _engine(url: str) -> Engine:
    engine = create_engine(url)
    event.listen(engine, "connect", _durable)
    event.listen(engine, "begin", _begin)
    return engine


def _durable(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # sqlite3 must not open transactions behind SQLAlchemy's back; _begin does it
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        connection.execute(f"pragma {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _prepare(engine: Engine, path: Path, *, create: bool) -> None:
    try:
        with engine.connect().execution_options(writes=create) as connection, connection.begin():
            _check_durability(connection, path)
            if create:
                schema.metadata.create_all(connection)
            version = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.name == "schema_version"))
            if version is None and create:
                connection.execute(insert(schema.meta).values(name="schema_version", value=str(schema.SCHEMA_VERSION)))
            elif version != str(schema.SCHEMA_VERSION):
                raise LedgerError(
                    f"the ledger {path} has schema version {version}, this program knows {schema.SCHEMA_VERSION}"
                )
    except OperationalError as error:
        raise LedgerError(f"the ledger {path} cannot be opened: {error.orig}") from error
    except DatabaseError as error:
        raise LedgerError(f"the ledger {path} is damaged or no ledger at all: {error.orig}") from error


def _check_durability(connection: Connection, path: Path) -> None:
    # A switch to WAL can fail without an error, on network folders for one: read back what was asked for.
    journal = connection.exec_driver_sql("pragma journal_mode").scalar()
    synchronous = connection.exec_driver_sql("pragma synchronous").scalar()
    if journal != "wal" or synchronous != 2:  # noqa: PLR2004 (2 is FULL)
        raise LedgerError(f"the ledger {path} cannot be made durable (journal {journal}); put it on a local disk")
