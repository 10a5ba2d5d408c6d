"""Opens the ledger: for one process at a time, durably, with the right schema.

A lock protects a ledger file, the tenure (see `postgres`) a ledger on PostgreSQL. Owns: the order of the steps of opening, the cache
of server engines (a watch serves hundreds of ledgers over few connections), and the meaning of SQLite's errors. Also owns when an
upgrade step runs: after a backup, in one transaction per step, so a killed upgrade leaves the schema before or after a step; and when
a quick check is due: once a day while the file is small, and after a run that did not end.
"""

import os
import secrets
import socket
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, desc, event, inspect, make_url, select
from sqlalchemy.exc import ArgumentError

from loadsheet.errors import LedgerBusy, LedgerDiskFailed, LedgerError, LedgerMissing, LedgerUnwritable, SettingsError
from loadsheet.ledger.codec import Clock, stamp, utc_now
from loadsheet.ledger.ledger_tables import SCHEMA_VERSION, meta, metadata, runs, store_value, stored_value
from loadsheet.ledger.location import (
    LedgerFiles,
    SqliteLedgerFiles,
    back_up,
    compact_time,
    complete_move,
    has_tables_in_file,
    network_kind,
    refuse_beside_a_file,
    refuse_incomplete_move,
    refuse_moved,
)
from loadsheet.ledger.maintenance import FAULTS_SHOWN, size_of
from loadsheet.ledger.postgres import (
    Address,
    address_of,
    check_server,
    has_schema,
    held_tenure,
    is_postgres,
    ledger_engine,
    make_schema,
    without_password,
)
from loadsheet.ledger.store import Ledger

_PRAGMAS = {
    "journal_mode": "WAL",
    "synchronous": "FULL",
    "foreign_keys": "ON",
    "busy_timeout": "10000",
    "journal_size_limit": "67108864",  # a write-ahead log that grew during a long read is truncated to this
    "case_sensitive_like": "ON",  # as on PostgreSQL: prefixes of keys are compared case-sensitively
}
_AS_READ = {"WAL": "wal", "FULL": "2", "ON": "1"}
_READ_BACK = {name: _AS_READ.get(value, value) for name, value in _PRAGMAS.items() if name != "case_sensitive_like"}
_LOCAL = "put it on a local disk"
_NO_LEDGER = "`loadsheet run` creates it; if there were runs, go to their folder, or name it with --state"
_UNWRITABLE = ("full", "readonly", "unable to open")
_FAILED = "disk i/o"
_DAMAGED = ("malformed", "not a database")
_ADVICE = {  # by words of SQLite's message
    "full": "; free some space and run again",
    "readonly": "; the file, its folder or the disk is read-only",
    "unable to open": "; check the permissions of the file and its folder",
    "locked": "; another program has it open",
    "malformed": "; it is damaged",
    "not a database": "; it is damaged or not a ledger",
    _FAILED: "; the disk is full or failed: check it before running again",
}
_KEPT = 16
_engines: "OrderedDict[tuple[Address, bool], Engine]" = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How to open a ledger. `state` is the folder of its backups and, on PostgreSQL, of this machine's record of the last run. A
    holder on PostgreSQL without a heartbeat for `takeover_s` seconds counts as dead. `allow_network` permits a file on a network
    file system. `accept_older` accepts a restored backup: the next run treats unsent entries as unknown.
    """

    state: Path | None = None
    takeover_s: float = 30.0
    allow_network: bool = False
    accept_older: bool = False


_AS_USUAL = OpenOptions()


@contextmanager
def open_ledger(url: str, opening: OpenOptions = _AS_USUAL, *, clock: Clock = utc_now) -> Iterator[Ledger]:
    """The ledger at a SQLAlchemy URL, held by this process alone. Created if it does not exist, upgraded if it is older.

    Raises LedgerBusy naming the holder, LedgerError for a ledger that is damaged, newer, gone or older than its last run,
    LedgerUnwritable, and SettingsError for an unusable URL.
    """
    if is_postgres(url):
        with open_on_server(url, opening, clock) as ledger:
            yield ledger
        return
    path = file_of(url)
    files = SqliteLedgerFiles(path, opening.state)
    _make_folder(path.parent)
    _refuse_network(path, allowed=opening.allow_network)
    with locked(path, clock):
        refuse_moved(path)
        files.refuse_missing()
        files.make_private()
        engine = _file_engine(url, files, writes=True)
        try:
            older = _prepare_file(engine, files, stamp(clock()), accept_older=opening.accept_older)
            _check_file(engine, path)
            yield Ledger(engine, clock, files, older=older)
        finally:
            engine.dispose()
            files.release_space()


@contextmanager
def read_ledger(url: str, state: Path | None = None, *, clock: Clock = utc_now) -> Iterator[Ledger]:
    """The ledger at a SQLAlchemy URL, read-only. Another process may hold it. `state` as in `OpenOptions`. Raises LedgerMissing if it
    does not exist, and the errors of `open_ledger` except LedgerBusy.
    """
    if is_postgres(url):
        address, files = address_of(url), ledger_files_of(state, url)
        engine = _server_engine(address, writes=False)
        with engine.connect() as connection, connection.begin():
            if not has_schema(connection, address.schema) or not has_tables(connection):
                files.refuse_gone(str(address))
                _refuse_beside_a_file(files, address)
                raise LedgerMissing(f"there is no ledger at {address} yet", todo="`loadsheet run` creates it")
            check_version(connection, str(address))
            refuse_incomplete_move(connection, str(address))
            if _is_empty(connection):
                _refuse_beside_a_file(files, address)
        yield Ledger(engine, clock, files)
        return
    path = file_of(url)
    ledger_files = SqliteLedgerFiles(path, state)
    refuse_moved(path)
    ledger_files.refuse_missing()
    if not has_tables_in_file(path):
        raise LedgerMissing(f"there is no ledger at {path} yet", todo=_NO_LEDGER)
    engine = _file_engine(url, ledger_files, writes=False)
    try:
        _check_file(engine, path)
        yield Ledger(engine, clock, ledger_files)
    finally:
        engine.dispose()


def is_there(url: str) -> bool:
    """Whether a ledger exists at a SQLAlchemy URL. Raises SettingsError for an unusable URL or a moved ledger."""
    if not is_postgres(url):
        path = file_of(url)
        refuse_moved(path)
        return has_tables_in_file(path)
    address = address_of(url)
    with _server_engine(address, writes=False).connect() as connection, connection.begin():
        return has_schema(connection, address.schema) and has_tables(connection)


# in a file


def _make_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the ledger's folder {folder} cannot be created ({error.strerror})") from error


def _refuse_network(path: Path, *, allowed: bool) -> None:
    kind = "" if allowed else network_kind(path)
    if kind:
        message = f"the ledger {path} is on a network file system ({kind}), where a crash can lose recorded data"
        raise LedgerError(f"{message}; give a path on a local disk (database, state), or set ledger.allow_network")


def file_of(url: str) -> Path:
    """The file of the ledger at a SQLAlchemy URL. Raises SettingsError for an unusable URL."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise SettingsError("database: this is not a database URL; write sqlite:///path/to/ledger.db") from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise SettingsError(f"database: {without_password(url)} is not a file; write sqlite:///path/to/ledger.db")
    return Path(parsed.database)


@contextmanager
def locked(path: Path, clock: Clock) -> Iterator[None]:
    """Hold the exclusive lock. Raises LedgerBusy naming the holder, and LedgerUnwritable."""
    from filelock import FileLock, Timeout  # readers need no lock

    # The operating system releases the lock when its holder dies, so a killed run never leaves a stale lock.
    lock, holder = FileLock(f"{path}.lock", mode=0o600), Path(f"{path}.holder")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        message = f"the ledger {path} is held by {_named(holder)}; try again when it has finished"
        raise LedgerBusy(message) from None
    except OSError as error:
        message = f"the ledger {path} cannot be locked ({error.strerror})"
        raise LedgerUnwritable(f"{message}; is its folder writable, and is there space?") from error
    try:
        _name_holder(holder, clock)
        yield
    finally:
        with suppress(OSError):  # a leftover name does no harm: only the lock counts
            holder.unlink(missing_ok=True)
        lock.release()


def _named(holder: Path) -> str:
    """Who holds the lock. A process takes the lock before it writes its name."""
    with suppress(OSError):
        if name := holder.read_text(encoding="utf-8"):
            return name
    return "another process that has just begun"


def _name_holder(holder: Path, clock: Clock) -> None:
    since = f"{clock().astimezone():%Y-%m-%d %H:%M}"
    try:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}", encoding="utf-8")
    except OSError as error:
        raise LedgerUnwritable(f"the ledger's folder {holder.parent} cannot be written ({error.strerror})") from error


def _file_engine(url: str, files: SqliteLedgerFiles, *, writes: bool) -> Engine:
    def prepare(connection: Any, _record: Any) -> None:
        _make_durable(connection)
        if not writes:
            connection.execute("pragma query_only=ON")

    engine = create_engine(url)
    event.listen(engine, "handle_error", partial(_raise_advised, files))
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _make_durable(connection: Any) -> None:
    connection.isolation_level = None  # sqlite3 must not begin transactions by itself; _begin does it
    for name, value in _PRAGMAS.items():
        connection.execute(f"pragma {name}={value}").fetchall()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("bare", False):  # checkpoint and vacuum run outside transactions
        connection.exec_driver_sql("begin immediate" if options.get("writes", False) else "begin")


def _prepare_file(engine: Engine, files: SqliteLedgerFiles, now: str, *, accept_older: bool) -> bool:
    """Create or upgrade the tables and check the ledger. Returns whether it is an older one that was accepted."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        make_if_new(connection)
    upgrade(engine, files.path, now)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_version(connection, files.path)
        try:
            quick_check_if_due(connection, now)
        except LedgerError as error:
            raise LedgerError(f"the ledger {files.path}: {error}", todo=files.restore_advice()) from error
        return _is_older(connection, files, str(files.path), accepted=accept_older)


def _check_file(engine: Engine, path: Path) -> None:
    with engine.connect() as connection, connection.begin():
        _check_durability(connection, path)
        check_version(connection, path)
    # The mode that a connection reports can differ from the mode in the file: ask a new connection that sets nothing.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as other:
        (journal,) = other.execute("pragma journal_mode").fetchone()
        if journal != "wal":
            raise LedgerError(f"the ledger {path} cannot be made durable (journal {journal} when reopened); {_LOCAL}")


def _raise_advised(files: SqliteLedgerFiles, context: ExceptionContext) -> None:
    """Raise the database's error with advice. The statement recorded nothing. Ctrl-C and SIGTERM are no errors."""
    error = context.original_exception
    if not isinstance(error, Exception):
        return
    error_text = str(error) or "out of memory"  # Python raises this without a message
    known = next((advice for words, advice in _ADVICE.items() if words in error_text.lower()), "")
    kind = LedgerDiskFailed if _FAILED in error_text.lower() else LedgerError
    if any(words in error_text.lower() for words in _UNWRITABLE):
        kind = LedgerUnwritable
    todo = files.restore_advice() if any(words in error_text.lower() for words in _DAMAGED) else ""
    raise kind(f"the ledger {files.path}: {error_text}{known}; the last change was not recorded", todo=todo) from error


def _check_durability(connection: Connection, path: Path) -> None:
    # A switch to WAL can fail without an error, for example in network folders: read the settings back.
    actual = {name: str(connection.exec_driver_sql(f"pragma {name}").scalar()) for name in _READ_BACK}
    if actual != _READ_BACK:
        message = ", ".join(f"{name} {value}" for name, value in actual.items() if value != _READ_BACK[name])
        raise LedgerError(f"the ledger {path} cannot be made durable ({message}); {_LOCAL}")


# on a server


def holder_name() -> str:
    """The name of this process as a holder of the ledger."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def unique_name() -> str:
    """A name that no other process has and that this process never used before."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@contextmanager
def open_on_server(url: str, opening: OpenOptions, clock: Clock, *, arrives: bool = False) -> Iterator[Ledger]:
    """The ledger at a PostgreSQL URL, held by this process alone. `arrives`: another ledger is being moved into it. Raises the
    errors of `open_ledger`.
    """
    address, files = address_of(url), ledger_files_of(opening.state, url)
    engine = _server_engine(address, writes=True)
    older = _prepare_server(engine, address, None if arrives else files, accept_older=opening.accept_older)
    with held_tenure(engine, address, holder_name(), opening.takeover_s) as fence:
        yield Ledger(engine, clock, files, older=older, fence=fence)


def ledger_files_of(state: Path | None, url: str) -> LedgerFiles:
    """The files on this machine for the ledger at a PostgreSQL URL, in its state folder. Raises SettingsError."""
    return LedgerFiles(state / f"last_run_of_{address_of(url).schema}.json" if state else None)


def create_on_server(url: str) -> None:
    """Create or upgrade the ledger at a PostgreSQL URL and the shared tables, without holding it. Raises the errors of `open_ledger`."""
    address = address_of(url)
    _prepare_server(_server_engine(address, writes=True), address, None, accept_older=False)


def _prepare_server(engine: Engine, address: Address, files: LedgerFiles | None, *, accept_older: bool) -> bool:
    """Create or upgrade the tables. With `files` on this machine, also complete a move into this ledger. Returns whether the
    ledger is older than this machine's last run and was accepted.
    """
    from loadsheet.ledger.shared.jobs import make_tables

    make_tables(engine, address)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_server(connection, str(address))
        make_schema(connection, address.schema)
        make_if_new(connection)
        # all steps or none; the server backs up
        for number in range(_version(connection, str(address)), SCHEMA_VERSION):
            _step(connection, number)
        check_version(connection, str(address))
        if files is None:
            return False
        complete_move(connection, files, str(address))
        if _is_empty(connection):
            _refuse_beside_a_file(files, address)
        return _is_older(connection, files, str(address), accepted=accept_older)


def _is_empty(connection: Connection) -> bool:
    return connection.scalar(select(runs.c.id).limit(1)) is None


def _refuse_beside_a_file(files: LedgerFiles, address: Address) -> None:
    if files.last_run_path is not None:
        refuse_beside_a_file(files.last_run_path.parent, str(address))


def _server_engine(address: Address, *, writes: bool) -> Engine:
    """An engine from the cache of the most recently used ones, or a new one."""
    with _lock:
        engine = _engines.pop((address, writes), None) or ledger_engine(address, writes=writes)
        _engines[address, writes] = engine
        while len(_engines) > _KEPT:
            _, oldest = _engines.popitem(last=False)
            oldest.dispose()
        return engine


# on both


def _is_older(connection: Connection, files: LedgerFiles, where: str, *, accepted: bool) -> bool:
    """Whether the ledger is older than this machine's last run. Raises LedgerError if it is and that is not `accepted`."""
    last = files.read_last_run()
    if last is None:
        return False
    same = (runs.c.id == last.id) & (runs.c.started_at == last.started_at)
    if connection.scalar(select(runs.c.id).where(same)) is not None:
        return False
    if accepted:
        return True
    raise last.unknown_to(where)


# the version of the schema, and the quick check


OLDER = "`loadsheet run` upgrades it"
"""The advice for a ledger that an earlier version made."""

_VERSION = "schema_version"


def has_tables(connection: Connection) -> bool:
    """Whether the database has any tables; on a server, whether the schema holds a ledger."""
    found = inspect(connection)
    return bool(found.get_table_names()) if connection.dialect.name == "sqlite" else found.has_table(meta.name)


def make_if_new(connection: Connection) -> None:
    """Create the tables of an empty database, in the connection's transaction."""
    if not has_tables(connection):
        metadata.create_all(connection, checkfirst=False)
        store_value(connection, _VERSION, str(SCHEMA_VERSION))


def check_version(connection: Connection, path: Path | str) -> None:
    """Raise LedgerError if this is not a ledger, or its schema is not the current one."""
    version = _version(connection, path)
    if version != SCHEMA_VERSION:
        message = f"the ledger {path} has schema version {version}, this program knows version {SCHEMA_VERSION}"
        newer = version > SCHEMA_VERSION
        raise LedgerError(message, todo="use the program that wrote it, or a newer one" if newer else OLDER)


def upgrade(engine: Engine, path: Path, now: str) -> None:
    """Upgrade an older ledger file to the current schema, with a backup beside it. `now` is ISO 8601 UTC.

    Raises LedgerError. The ledger is then unchanged or between two complete steps.
    """
    with engine.connect() as connection, connection.begin():
        version = _version(connection, path)
    if version >= SCHEMA_VERSION:
        return
    with engine.connect() as connection:
        back_up(connection, path.with_name(f"{path.name}.schema-{version}.{compact_time(now)}.backup"))
    for number in range(version, SCHEMA_VERSION):
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            _step(connection, number)


def _step(connection: Connection, version: int) -> None:
    """Upgrade the schema from this version to the next, in the connection's transaction."""
    from loadsheet.ledger.migrations import upgrade_one_version

    upgrade_one_version(connection, version)
    store_value(connection, _VERSION, str(version + 1))


def _version(connection: Connection, path: Path | str) -> int:
    stored = stored_value(connection, _VERSION) if inspect(connection).has_table(meta.name) else ""
    if not stored.isdecimal():
        raise LedgerError(f"{path} is not a ledger", todo="move it away, or give another path for the database")
    return int(stored)


LARGE_BYTES = 256 * 1024 * 1024
_CHECKED_AT = "looked_at"


def quick_check_if_due(connection: Connection, now: str) -> None:
    """Check the structure of the database if that is due. `now` is ISO 8601 UTC. Raises LedgerError if it is damaged."""
    checked_at = stored_value(connection, _CHECKED_AT)
    ended = connection.scalar(select(runs.c.finished_at).order_by(desc(runs.c.id)).limit(1))
    small = size_of(connection) <= LARGE_BYTES
    if ended != "" and (ended is None or not small or checked_at[:10] == now[:10]):
        return
    lines = list(connection.exec_driver_sql(f"pragma quick_check({FAULTS_SHOWN})").scalars())
    if lines != ["ok"]:
        raise LedgerError(f"it is damaged ({'; '.join(lines)}); nothing was sent")
    store_value(connection, _CHECKED_AT, now)
