"""PostgreSQL: engines, each ledger in a schema of its own and what all of them share in another one beside it; and the state of a server.

Owns: what a connection promises (durable commits, READ COMMITTED, one writer of a ledger at a time, nobody who stops in the middle of a
transaction holds up the others), and what the server's errors mean. A URL names the ledger's schema as `?schema=NAME`.
"""

import re
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError

from loadsheet.ledger import clock
from loadsheet.ledger.schema import tenures
from loadsheet.problems import LedgerError, LedgerGone, LedgerUnwritable, SettingsError

DRIVER = "postgresql+psycopg"
FLEET = "fleet"
CONNECT_TIMEOUT_S = 10
IDLE_WRITING_S = 15
"""A process that stands still in the middle of a writing transaction holds up the other writers of its ledger for no longer."""
IDLE_SHARED_S = 5
"""The same for what all share, above all the pace of all calls: these transactions are a few statements, one right behind the other."""
IDLE_READING_S = 3600
"""Whoever reads may take his time with each part: he holds up nobody."""
OLDEST = 13
"""The oldest version of the server that will do: that of the queue."""

_POOL = {"pool_size": 3, "max_overflow": 9, "pool_pre_ping": True, "pool_use_lifo": True, "pool_timeout": 600}
_CAN_END_IDLE = 140_000
_IDLE_S = 120  # a connection that nobody needs: a worker serves many ledgers, and a server has few places
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_SECRET = frozenset({"password", "sslpassword"})
_REFUSED = re.compile(
    r"authentication failed|role .* does not exist|database .* does not exist|no pg_hba.conf entry|no password supplied"
)
_FULL, _READ_ONLY = "53100", "25006"
_AGAIN = ("08", "53", "57", "58", "25P03", "40")
"""Classes of errors after which the same may go well: connection, resources, an operator's doing, the system, too long idle, a conflict."""


class Address(NamedTuple):
    """Where a ledger lies: the database, the ledger's schema, that of what all share, and whose it is (empty: nobody's in particular)."""

    url: URL
    schema: str
    shared: str
    shipper: str

    def __str__(self) -> str:
        """As it may be shown: without the password."""
        return f"{self.url.set(drivername='postgresql').render_as_string()} (schema {self.schema})"


def is_postgres(url: str) -> bool:
    """Whether a URL means a ledger on PostgreSQL."""
    return url.startswith("postgres")


def address_of(url: str) -> Address:
    """Where the ledger of a URL lies. Raises SettingsError for a URL that cannot be used."""
    try:
        parsed = make_url(url).set(drivername=DRIVER)
    except (ArgumentError, ValueError):
        raise SettingsError("database: this is not a database URL; write postgresql://USER@HOST/NAME") from None
    if not parsed.database:
        message = f"database: {parsed.set(drivername='postgresql').render_as_string()} names no database"
        raise SettingsError(f"{message}; write postgresql://USER@HOST/NAME")
    if wrong := sorted(_SECRET.intersection(parsed.query)):
        raise SettingsError(f"database: give the password before the @, or by PGPASSFILE, and not as {wrong[0]}=")
    schema = str(parsed.query.get("schema", "loadsheet"))
    shared = str(parsed.query.get("shared", f"{schema}_{FLEET}"))
    shipper = str(parsed.query.get("shipper", ""))
    for name in (schema, shared):
        if not _NAME.fullmatch(name):
            raise SettingsError(f"database: {name!r} cannot be the name of a schema; write small letters, digits and _")
    return Address(parsed.difference_update_query(["schema", "shared", "shipper"]), schema, shared, shipper)


def without_password(url: str) -> str:
    """A URL as it may be shown; whatever cannot be read as one is not shown at all."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "***"
    hidden = dict.fromkeys(_SECRET.intersection(parsed.query), "***")
    return parsed.update_query_dict(hidden).render_as_string() if hidden else parsed.render_as_string()


def ledger_engine(address: Address, *, writes: bool) -> Engine:
    """The engine of a ledger, which finds what all share after the ledger's own. Raises SettingsError."""
    engine = _engine(address, f"{address.schema},{address.shared}", writes=writes, idle_s=IDLE_READING_S)
    event.listen(engine, "begin", partial(_one_writer, address.schema))
    event.listen(engine, "commit", partial(_check_alive, str(address)))
    return engine


def shared_engine(address: Address) -> Engine:
    """The engine of what all ledgers share. Raises SettingsError."""
    return _engine(address, address.shared, writes=True, idle_s=IDLE_SHARED_S)


def make_schema(connection: Connection, schema: str) -> None:
    """Make a schema that is not there, within the connection's transaction; one of several who want it at the same time does."""
    connection.execute(
        text("select pg_advisory_xact_lock(hashtext('loadsheet'), hashtext(:schema))"), {"schema": schema}
    )
    known = text("select 1 from information_schema.schemata where schema_name = :schema")
    if connection.scalar(known, {"schema": schema}) is None:
        connection.exec_driver_sql(f'create schema "{schema}"')


def copy_in(
    connection: Connection, place: str, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Put rows into a table as fast as the server takes them, within the connection's transaction."""
    raw: Any = connection.connection.dbapi_connection
    named = ", ".join(f'"{column}"' for column in columns)
    try:
        with raw.cursor() as cursor, cursor.copy(f'copy "{table}" ({named}) from stdin') as copy:
            for row in rows:
                copy.write_row(row)
    except raw.Error as error:
        _say(place, error, lost=raw.closed)


def check_server(connection: Connection, place: str) -> None:
    """Raise LedgerError if commits on this server are not durable, or do not see what was committed before them."""
    if (version := int(connection.exec_driver_sql("show server_version_num").scalar() or 0) // 10_000) < OLDEST:
        raise LedgerError(f"the ledger {place} cannot be kept there (PostgreSQL {version}); it needs {OLDEST} or newer")
    wanted = {
        "fsync": "on",
        "full_page_writes": "on",
        "transaction_isolation": "read committed",
        "server_encoding": "UTF8",
    }
    found = {name: str(connection.exec_driver_sql(f"show {name}").scalar()) for name in wanted}
    if wrong := [f"{name} {value}" for name, value in found.items() if value != wanted[name]]:
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
    arguments = {
        "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        "connect_timeout": CONNECT_TIMEOUT_S,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 30_000,
        "application_name": "loadsheet",
    }
    engine = create_engine(address.url, connect_args=arguments, hide_parameters=True, **_POOL)
    event.listen(engine, "connect", _durable)
    event.listen(engine, "handle_error", partial(_in_our_words, str(address)))
    return engine


@lru_cache
def _texts() -> type:
    """How texts are handed over: a NUL, which a cell or an answer may hold and the server refuses, becomes a replacement sign."""
    from psycopg.adapt import Dumper

    class Texts(Dumper):
        def dump(self, obj: str) -> bytes:
            return (obj.replace("\x00", "\ufffd") if "\x00" in obj else obj).encode()

    return Texts


def _durable(connection: Any, _record: Any) -> None:
    """A commit waits for the disk, whatever the server's own default is; a stricter one stays. A connection that is idle for long ends."""
    connection.adapters.register_dumper(str, _texts())
    (now,) = connection.execute("show synchronous_commit").fetchone()
    if now == "off":
        connection.execute("set synchronous_commit = on")
    if connection.info.server_version >= _CAN_END_IDLE:
        connection.execute(f"set idle_session_timeout = '{_IDLE_S}s'")
    connection.commit()


def _one_writer(schema: str, connection: Connection) -> None:
    """What begins a writing transaction: the lock of the ledger, as SQLite's BEGIN IMMEDIATE takes it."""
    if connection.get_execution_options().get("writes", False):
        idle = f"set_config('idle_in_transaction_session_timeout', '{IDLE_WRITING_S}s', true)"
        connection.exec_driver_sql(f"select pg_advisory_xact_lock(hashtextextended('{schema}', 1)), {idle}")


def _check_alive(place: str, connection: Connection) -> None:
    """Raise LedgerGone instead of committing a writing transaction that is none any more: the server takes the commit of one that failed
    for a rollback, and of one that ended for nothing, and calls both a success.
    """
    raw: Any = connection.connection.dbapi_connection
    if connection.get_execution_options().get("writes", False) and raw.info.transaction_status.name != "INTRANS":
        raise LedgerGone(f"the ledger {place}: the transaction had failed before its commit; nothing was recorded")


def _in_our_words(place: str, context: ExceptionContext) -> None:
    """Raise the server's error in words that say what to do, without the values of the statement."""
    if not context.is_pre_ping and not isinstance(
        context.original_exception, LedgerError
    ):  # the pool replaces what died in it
        _say(place, context.original_exception, lost=context.is_disconnect)


def _say(place: str, error: Any, *, lost: bool) -> NoReturn:
    state = getattr(error, "sqlstate", None) or ""
    diagnosis = getattr(error, "diag", None)
    error_text = getattr(diagnosis, "message_primary", None) or (str(error) or type(error).__name__).splitlines()[0]
    message = f"the ledger {place}: {error_text}"
    if state == _FULL:
        raise LedgerUnwritable(f"{message}; free some space on the server and run again") from error
    if state == _READ_ONLY:
        raise LedgerUnwritable(f"{message}; it may only be read: is it a standby?") from error
    lost = lost or type(error).__name__ in ("OperationalError", "AdminShutdown", "InterfaceError")
    if not state and _REFUSED.search(str(error)):
        raise LedgerGone(f"{message}; look at `database`: its user, password, name, and the rights there") from error
    if state.startswith(_AGAIN) or (lost and not state):
        raise LedgerGone(
            f"{message}; what was being recorded may not have been; try again when the server can be reached"
        ) from error
    raise LedgerError(f"{message}; what was being recorded was not") from error


class Server(NamedTuple):
    """The server of a ledger: where it is, without a password; its version; what is wrong with it, in words; whether the ledger is there,
    how many bytes it has and who holds it (empty: nobody); by how many seconds the server's clock is ahead of ours, at least.
    """

    place: str
    version: str
    faults: tuple[str, ...]
    there: bool
    size: int
    holder: str
    ahead_s: float


def look(url: str, takeover_s: float) -> Server:
    """How the server of a ledger stands. Raises SettingsError for a URL that cannot be used, and LedgerGone if it cannot be reached."""
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
            f"this user may not make the schema {' or '.join(missing)}: grant create on the database, or make it"
        )
    barred = [name for name in (address.shared, address.schema) if name in known and not _may_use(connection, name)]
    if barred:
        faults.append(
            f"this user may not make tables in the schema {' or '.join(barred)}: grant usage and create on it"
        )
    if find_spec("procrastinate") is None:
        faults.append("the extra `fleet` is not installed: pip install 'loadsheet[fleet]'")
    return faults


def _may_use(connection: Connection, schema: str) -> bool:
    return bool(connection.scalar(text("select has_schema_privilege(:schema, 'usage, create')"), {"schema": schema}))


def _holder(connection: Connection, takeover_s: float) -> str:
    found = connection.execute(select(tenures.c.holder, tenures.c.seen_at)).first()
    now = clock.now(connection)
    return found.holder if found is not None and now - float(found.seen_at) < takeover_s else ""


def _ahead(connection: Connection) -> float:
    """By how much the server's clock is ahead of ours (below 0: behind), at least: it was read at some moment of a call."""
    began = time.time()
    theirs = clock.now(connection)
    ended = time.time()
    return theirs - ended if theirs > ended else min(theirs - began, 0.0)


_SCHEMAS = text("select schema_name from information_schema.schemata")
_SIZE = text(
    "select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
    " where n.nspname = :schema and c.relkind = 'r'"
)
