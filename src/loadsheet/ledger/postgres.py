"""PostgreSQL: engines, the state of a server, and the tenure, the lease that allows one process at a time to change a ledger.

Each ledger has a schema of its own; the shared tables are in another schema. A URL names the schema as `?schema=NAME`. Owns: the
guarantees of a connection, and the meaning of the server's errors. Commits are durable and READ COMMITTED. A ledger has one writer
at a time. A process that stops in a transaction does not block others.

Also owns when a holder counts as dead (its heartbeat is older than `takeover_s`, by the database's clock), and the fence. Each new
holder raises the epoch, and every change checks the epoch in its own transaction: a replaced holder can record nothing more. A wrong
takeover therefore interrupts a run but loses no record. A ledger in a file needs no fence: its lock ends with its holder.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    Text,
    cast,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError

from loadsheet.errors import LedgerBusy, LedgerError, LedgerGone, LedgerUnwritable, SettingsError, Superseded
from loadsheet.exit_codes import CONFIG_WRONG
from loadsheet.extras import need
from loadsheet.ledger.ledger_tables import DATABASE_TIME, Statement, database_time, takeovers, tenures

DRIVER = "postgresql+psycopg"
FLEET = "fleet"
CONNECTION: dict[str, Any] = {
    "application_name": "loadsheet",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of every connection. Times are in seconds, except `tcp_user_timeout` in milliseconds."""
IDLE_WRITING_S = 15
"""Seconds after which the server ends an idle writing transaction, which blocks the other writers of its ledger."""
STALLED_S = 20
"""Seconds after which a waiting process ends another writer that stands still between statements sent together. The server counts that one as
active, so its own limit for idle transactions does not apply.
"""
IDLE_SHARED_S = 5
"""The same for the shared tables, above all the rate limits. These transactions are a few statements without pauses."""
IDLE_READING_S = 3600
"""The same for reading transactions, which block no other process."""
OLDEST = 13
"""The oldest supported version of PostgreSQL: Procrastinate requires it."""

_POOL = {"pool_size": 3, "max_overflow": 9, "pool_pre_ping": True, "pool_use_lifo": True, "pool_timeout": 600}
_TURN_S = 5.0  # until a process that waits for its turn to write looks at the others
_LOCK_TIMEOUT = "55P03"
_CAN_END_IDLE = 140_000
_IDLE_S = 120  # until an unused connection ends: a worker serves many ledgers, and a server allows few connections
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_SECRET = frozenset({"password", "sslpassword"})
_REFUSED = re.compile(
    r"authentication failed|role .* does not exist|database .* does not exist|no pg_hba.conf entry|no password supplied"
)
_FULL, _READ_ONLY, _FORBIDDEN = "53100", "25006", "42501"
_AGAIN = ("08", "53", "57", "58", "25P03", "40")
"""Classes of errors that a retry may cure: connection, resources, operator intervention, system, idle timeout, conflict."""


class LedgerForbidden(LedgerError):
    """The user of the database may not do there what a run needs."""

    exit_code = CONFIG_WRONG


class Address(NamedTuple):
    """The address of a ledger: the database, the ledger's schema, the shared schema, and its shipper (empty: none declared)."""

    url: URL
    schema: str
    shared: str
    shipper: str

    def __str__(self) -> str:
        """The address for display, without the password."""
        return f"{self.url.set(drivername='postgresql').render_as_string()} (schema {self.schema})"


def is_postgres(url: str) -> bool:
    """Whether a URL names a ledger on PostgreSQL."""
    return url.startswith("postgres")


def address_of(url: str) -> Address:
    """The address of the ledger at a URL. Raises SettingsError for an unusable URL."""
    try:
        parsed = make_url(url).set(drivername=DRIVER)
    except (ArgumentError, ValueError):
        raise SettingsError("database: this is not a database URL; write postgresql://USER@HOST/NAME") from None
    if not parsed.database:
        message = f"database: {parsed.set(drivername='postgresql').render_as_string()} names no database"
        raise SettingsError(f"{message}; write postgresql://USER@HOST/NAME")
    if wrong := sorted(_SECRET.intersection(parsed.query)):
        raise SettingsError(f"database: give the password before the @ or through PGPASSFILE, not as {wrong[0]}=")
    schema = str(parsed.query.get("schema", "loadsheet"))
    shared = str(parsed.query.get("shared", f"{schema}_{FLEET}"))
    shipper = str(parsed.query.get("shipper", ""))
    for name in (schema, shared):
        if not _NAME.fullmatch(name) or name.startswith("pg_") or name == "information_schema":
            advice = "use small letters, digits and _, and no name that PostgreSQL reserves"
            raise SettingsError(f"database: {name!r} is not a valid schema name; {advice}")
    return Address(parsed.difference_update_query(["schema", "shared", "shipper"]), schema, shared, shipper)


def without_password(url: str) -> str:
    """A URL for display, without the password. `***` if it cannot be parsed."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "***"
    hidden = dict.fromkeys(_SECRET.intersection(parsed.query), "***")
    return parsed.update_query_dict(hidden).render_as_string() if hidden else parsed.render_as_string()


def ledger_engine(address: Address, *, writes: bool) -> Engine:
    """The engine of a ledger. Its search path has the ledger's schema first, then the shared one. Raises SettingsError."""
    engine = _engine(address, f"{address.schema},{address.shared}", writes=writes, idle_s=IDLE_READING_S)
    event.listen(engine, "begin", partial(_one_writer, str(address), address.schema))
    event.listen(engine, "commit", partial(_check_alive, str(address)))
    return engine


def shared_engine(address: Address) -> Engine:
    """The engine of the shared tables. Raises SettingsError."""
    return _engine(address, address.shared, writes=True, idle_s=IDLE_SHARED_S)


def make_schema(connection: Connection, schema: str) -> None:
    """Create a missing schema in the connection's transaction. Among several processes, one creates it."""
    connection.execute(
        text("select pg_advisory_xact_lock(hashtext('loadsheet'), hashtext(:schema))"), {"schema": schema}
    )
    if not has_schema(connection, schema):
        connection.exec_driver_sql(f'create schema "{schema}"')


def has_schema(connection: Connection, schema: str) -> bool:
    """Whether a schema exists. Raises LedgerForbidden if the user may not use it: its tables would seem not to exist."""
    usable = text("select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = :schema")
    may_use = connection.scalar(usable, {"schema": schema})
    if may_use is False:
        advice = "grant it all rights on the schema, its tables and sequences, or name another user in `database`"
        raise LedgerForbidden(f"the user of the database may not use the schema {schema}; {advice}")
    return may_use is not None


def copy_in(
    connection: Connection, place: str, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Insert rows into a table with COPY, in the connection's transaction."""
    raw: Any = connection.connection.dbapi_connection
    named = ", ".join(f'"{column}"' for column in columns)
    try:
        with raw.cursor() as cursor, cursor.copy(f'copy "{table}" ({named}) from stdin') as copy:
            for row in rows:
                copy.write_row(row)
    except raw.Error as error:
        _raise_for(place, error, lost=raw.closed)


def check_server(connection: Connection, place: str) -> None:
    """Raise LedgerError if the server is too old, its commits are not durable, or its isolation or encoding is wrong."""
    if (version := int(connection.exec_driver_sql("show server_version_num").scalar() or 0) // 10_000) < OLDEST:
        raise LedgerError(f"the ledger {place} cannot be kept there (PostgreSQL {version}); it needs {OLDEST} or newer")
    wanted = {
        "fsync": "on",
        "full_page_writes": "on",
        "transaction_isolation": "read committed",
        "server_encoding": "UTF8",
    }
    actual = {name: str(connection.exec_driver_sql(f"show {name}").scalar()) for name in wanted}
    if wrong := [f"{name} {value}" for name, value in actual.items() if value != wanted[name]]:
        expected = ", ".join(f"{name} {value}" for name, value in wanted.items())
        raise LedgerError(f"the ledger {place} cannot be kept there ({', '.join(wrong)}); it needs {expected}")


def _engine(address: Address, search_path: str, *, writes: bool, idle_s: int) -> Engine:
    options = {
        "search_path": search_path,
        "idle_in_transaction_session_timeout": f"{idle_s}s",
        "default_transaction_isolation": "read\\ committed",
        "default_transaction_read_only": "off" if writes else "on",
        "timezone": "UTC",
    }
    arguments = CONNECTION | {"options": " ".join(f"-c {name}={value}" for name, value in options.items())}
    need("postgres", "a ledger on PostgreSQL")
    engine = create_engine(address.url, connect_args=arguments, hide_parameters=True, **_POOL)
    event.listen(engine, "connect", _durable)
    event.listen(engine, "handle_error", partial(_raise_translated, str(address)))
    return engine


@lru_cache
def _texts() -> type:
    """The dumper of strings. A NUL, which cells and answers may contain and the server refuses, becomes U+FFFD."""
    from psycopg.adapt import Dumper

    class Texts(Dumper):
        def dump(self, obj: str) -> bytes:
            return (obj.replace("\x00", "\ufffd") if "\x00" in obj else obj).encode()

    return Texts


def _durable(connection: Any, _record: Any) -> None:
    """Make commits wait for the disk, whatever the server's default. A stricter default stays. Idle connections end."""
    connection.adapters.register_dumper(str, _texts())
    (now,) = connection.execute("show synchronous_commit").fetchone()
    if now == "off":
        connection.execute("set synchronous_commit = on")
    if connection.info.server_version >= _CAN_END_IDLE:
        connection.execute(f"set idle_session_timeout = '{_IDLE_S}s'")
    connection.commit()


def _one_writer(place: str, schema: str, connection: Connection) -> None:
    """Begin a writing transaction by locking the ledger, as SQLite's BEGIN IMMEDIATE does."""
    if connection.get_execution_options().get("writes", False):
        key = f"hashtextextended('{schema}', 1)"
        idle = f"set_config('idle_in_transaction_session_timeout', '{IDLE_WRITING_S}s', true)"
        lock = f"select pg_try_advisory_xact_lock({key}), {idle}"
        while not connection.exec_driver_sql(lock).scalar() and not _locked_in_turn(place, key, connection):
            pass


def _locked_in_turn(place: str, key: str, connection: Connection) -> bool:
    """Wait for the lock as its next holder. If that takes too long, end a holder that stands still and return False: all begins again."""
    raw: Any = connection.connection.dbapi_connection
    try:
        raw.execute(f"set local lock_timeout = {_TURN_S * 1000:.0f}")
        raw.execute(f"select pg_advisory_xact_lock({key})")
        raw.execute("set local lock_timeout to default")
    except raw.Error as error:
        if error.sqlstate != _LOCK_TIMEOUT:
            _raise_for(place, error, lost=raw.broken)
        raw.rollback()
        raw.execute(_END_STALLED.format(key=key, limit=STALLED_S))
        raw.rollback()
        return False
    return True


_END_STALLED = """
select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
where locktype = 'advisory' and granted and (classid::bigint << 32 | objid::bigint) = {key} and usename = current_user
and wait_event = 'ClientRead' and greatest(query_start, state_change) < clock_timestamp() - interval '{limit} s'
"""


def _check_alive(place: str, connection: Connection) -> None:
    """Raise LedgerGone instead of committing a writing transaction that has failed or ended. The server would turn that commit
    into a rollback or a no-op and report success.
    """
    raw: Any = connection.connection.dbapi_connection
    if connection.get_execution_options().get("writes", False) and raw.info.transaction_status.name != "INTRANS":
        raise LedgerGone(f"the ledger {place}: the transaction had failed before its commit; nothing was recorded")


def _raise_translated(place: str, context: ExceptionContext) -> None:
    """Raise the server's error with advice, without the values of the statement. Ctrl-C and SIGTERM are no errors."""
    error = context.original_exception
    # The pool replaces the dead connections that a pre-ping finds.
    if not context.is_pre_ping and isinstance(error, Exception) and not isinstance(error, LedgerError):
        _raise_for(place, error, lost=context.is_disconnect)


def _raise_for(place: str, error: Any, *, lost: bool) -> NoReturn:
    state = getattr(error, "sqlstate", None) or ""
    diagnosis = getattr(error, "diag", None)
    error_text = getattr(diagnosis, "message_primary", None) or (str(error) or type(error).__name__).splitlines()[0]
    message = f"the ledger {place}: {error_text}"
    if state == _FULL:
        raise LedgerUnwritable(f"{message}; free some space on the server and run again") from error
    if state == _READ_ONLY:
        raise LedgerUnwritable(f"{message}; the server is read-only: is it a standby?") from error
    if state == _FORBIDDEN:
        advice = "grant it to the user in `database`, or name another user there"
        raise LedgerForbidden(f"{message}; {advice}; the last change was not recorded") from error
    lost = lost or type(error).__name__ in ("OperationalError", "AdminShutdown", "InterfaceError")
    if not state and _REFUSED.search(str(error)):
        raise LedgerGone(f"{message}; check `database`: user, password, name and rights") from error
    if state.startswith(_AGAIN) or (lost and not state):
        raise LedgerGone(
            f"{message}; the last change may not have been recorded; try again when the server can be reached"
        ) from error
    raise LedgerError(f"{message}; the last change was not recorded") from error


class Server(NamedTuple):
    """The server of a ledger. `place` is its address without a password, `faults` are in words. `there`: whether the ledger
    exists. `size` is in bytes. `holder` is empty if there is none. `ahead_s` is how far the server's clock is at least ahead of
    ours.
    """

    place: str
    version: str
    faults: tuple[str, ...]
    there: bool
    size: int
    holder: str
    ahead_s: float


def server_status(url: str, takeover_s: float) -> Server:
    """The status of a ledger's server. Raises SettingsError for an unusable URL, and LedgerGone if the server cannot be reached."""
    address = address_of(url)
    engine = ledger_engine(address, writes=False)
    try:
        with engine.connect() as connection, connection.begin():
            there = inspect(connection).has_table(tenures.name)
            return Server(
                str(address),
                str(connection.exec_driver_sql("show server_version").scalar()),
                tuple(_faults(connection, address)),
                there,
                int(connection.scalar(_SIZE, {"schema": address.schema}) or 0),
                _holder(connection, takeover_s) if there else "",
                _ahead(connection),
            )
    finally:
        engine.dispose()


def _faults(connection: Connection, address: Address) -> list[str]:
    faults = []
    try:
        check_server(connection, str(address))
    except LedgerError as error:
        faults.append(str(error))
    known = set(connection.scalars(_SCHEMAS))
    missing = [name for name in (address.shared, address.schema) if name not in known]
    if missing and not connection.scalar(text("select has_database_privilege(current_database(), 'create')")):
        faults.append(
            f"this user may not create the schema {' or '.join(missing)}: grant create on the database, or create it"
        )
    may_use = text("select has_schema_privilege(:schema, 'usage, create')")
    wanted = [name for name in (address.shared, address.schema) if name in known]
    barred = [name for name in wanted if not connection.scalar(may_use, {"schema": name})]
    if barred:
        faults.append(
            f"this user may not create tables in the schema {' or '.join(barred)}: grant usage and create on it"
        )
    if find_spec("procrastinate") is None:
        faults.append("the extra `fleet` is not installed: pip install 'loadsheet[fleet]'")
    return faults


def _holder(connection: Connection, takeover_s: float) -> str:
    row = connection.execute(select(tenures.c.holder, tenures.c.seen_at)).first()
    now = database_time(connection)
    return row.holder if row is not None and now - float(row.seen_at) < takeover_s else ""


def _ahead(connection: Connection) -> float:
    """The least number of seconds by which the server's clock is ahead of ours (negative: behind)."""
    began = time.time()
    theirs = database_time(connection)
    ended = time.time()
    return theirs - ended if theirs > ended else min(theirs - began, 0.0)


_SCHEMAS = text("select nspname from pg_namespace")  # the view of the standard lacks those without any right
_SIZE = text(
    "select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
    " where n.nspname = :schema and c.relkind = 'r'"
)


# the tenure

BEATS = 4
"""Heartbeats within `takeover_s`."""

_TENURE_ROW = 1


class Fence(NamedTuple):
    """The epoch that this process holds."""

    epoch: int

    def check(self, connection: Connection) -> None:
        """Raise Superseded if another process has taken over. The transaction holds the ledger's lock: no takeover before its end."""
        if not _HAS_EPOCH.rows(connection, epoch=self.epoch):
            raise Superseded("another process has taken this ledger over; nothing was recorded")


@contextmanager
def held_tenure(engine: Engine, address: Address, holder: str, takeover_s: float) -> Iterator[Fence]:
    """Hold the tenure of a ledger for the `with` block. Raises LedgerBusy naming the current holder."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        fence = take_tenure(connection, address, holder, takeover_s)
    try:
        with heartbeat("tenure", partial(_renew_tenure, engine, fence), takeover_s):
            yield fence
    finally:
        with (
            suppress(LedgerError),  # it expires by itself
            engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            connection.execute(update(tenures).where(tenures.c.epoch == fence.epoch).values(holder=""))


def take_tenure(connection: Connection, address: Address, holder: str, takeover_s: float) -> Fence:
    """Take the tenure in a transaction that holds the ledger's lock. Raises LedgerBusy if a live process holds it."""
    row = connection.execute(select(tenures.c.epoch, tenures.c.holder, tenures.c.since, tenures.c.seen_at)).first()
    now = str(connection.scalar(select(_NOW_AS_TEXT)))
    if row is None:
        connection.execute(insert(tenures).values(id=_TENURE_ROW, epoch=1, holder=holder, since=now, seen_at=now))
        return Fence(1)
    silent = float(now) - float(row.seen_at)
    if row.holder and silent < takeover_s:
        message = f"the ledger {address} is held by {row.holder} (last heartbeat {silent:.0f} s ago)"
        raise LedgerBusy(
            f"{message}; try again when it has finished, or {takeover_s:g} s after it died (cluster.takeover_s)"
        )
    if row.holder:
        takeover = {"shipper": address.shipper, "before": row.holder, "after": holder, "at": float(now)}
        connection.execute(insert(takeovers).values(takeover))
    values = {"epoch": row.epoch + 1, "holder": holder, "since": now, "seen_at": now}
    connection.execute(update(tenures).values(values))
    return Fence(row.epoch + 1)


@contextmanager
def heartbeat(name: str, beat: Callable[[], None], takeover_s: float) -> Iterator[None]:
    """Call `beat` from a thread named `name` for the `with` block, `BEATS` times in `takeover_s`. A LedgerError is ignored until
    the next call.
    """
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(takeover_s / BEATS):
            with suppress(LedgerError):
                beat()

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _renew_tenure(engine: Engine, fence: Fence) -> None:
    # One statement in autocommit: a process that is paused here locks no row that a successor needs.
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with alone.connect() as connection:
        connection.execute(update(tenures).where(tenures.c.epoch == fence.epoch).values(seen_at=_NOW_AS_TEXT))


_NOW_AS_TEXT = cast(DATABASE_TIME, Text)
_HAS_EPOCH = Statement("select id from tenures where epoch = :epoch")
