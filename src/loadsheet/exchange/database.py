"""The exchange's database: its tables, and how it is opened on SQLite or PostgreSQL, durable and with the present schema.

Owns: the names of tables and columns after all migrations, the differences between the two kinds of database, and when a migration
runs. Identifiers are stored in the form of `effects.key_text`, complete records in `content`. A change of the tables needs a
migration, a step with Alembic's operations; a test compares the two. A migration never changes after its release: add a new one.

Several processes may open one database at the same time: one of them creates or upgrades the tables, and the others wait for it.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    RowMapping,
    String,
    Table,
    TableClause,
    Text,
    UniqueConstraint,
    bindparam,
    column,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    table,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError

from loadsheet.contract import parties_of
from loadsheet.errors import SettingsError
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.wire import decode_stored
from loadsheet.extras import need

if TYPE_CHECKING:
    from alembic.operations import Operations

VERSION_TABLE = "exchange_version"
PARTIES = ("sender", "receiver")

METADATA = MetaData()

# SQLite's row ids must be Integer; elsewhere 32 bits would run out within the life of an exchange.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *keys: Column[Any], parties: bool = False, unique: bool = True) -> Table:
    """A table of records: number, key and content (JSON text). Numbers ascend in order of creation."""
    number = Column("number", _NUMBER, primary_key=True, autoincrement=False)
    columns = [*keys, *(_party(side) for side in PARTIES if parties)]
    table = Table(name, METADATA, number, *columns, Column("content", Text, nullable=False))
    if unique:
        table.append_constraint(UniqueConstraint(*(key.name for key in keys)))
    for side in PARTIES if parties else ():
        Index(f"{name}_by_{side}", table.c[side], number)
    return table


def _key(name: str, *, index: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=False, index=index)


def _party(name: str) -> Column[Any]:
    return Column(name, Text, nullable=False, server_default="")


TENDERS = _table("tenders", _key("tender"), parties=True)
ORDERS = _table("orders", _key("order_ref"), parties=True)  # number is the service's own order number
QUOTES = _table("quotes", _key("tender"), _key("carrier"))
CONFIRMATIONS = _table("confirmations", _key("tender", index=True), _key("carrier"), unique=False)
EVENTS = _table("status_events", _key("order_ref", index=True), unique=False)
COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("last", _NUMBER, nullable=False),  # last number used; numbers are never reused, even after a delete
    Column("held", _NUMBER, nullable=False, server_default="0"),  # present tenders and orders
)
TOKENS = Table(
    "tokens",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the token, in hex; the token itself is not stored
    Column("party", Text, nullable=False),  # empty: an operator's
    Column("created", Text, nullable=False),  # moments are ISO 8601, UTC, to the second
    Column("expires", Text),
    Column("revoked", Text),
    UniqueConstraint("name"),
    UniqueConstraint("digest"),
)
SESSIONS = Table(
    "sessions",
    METADATA,
    Column("name", Text, primary_key=True),  # SHA-256 of the cookie, in hex
    Column("mark", Text, nullable=False),  # of the token that opened it
    Column("form", Text, nullable=False),  # the CSRF token in its forms
    Column("ends", _NUMBER, nullable=False),  # seconds since 1970, UTC
    Index("sessions_by_end", "ends"),
)
NUMBERED = (TENDERS, ORDERS, QUOTES, CONFIRMATIONS, EVENTS, TOKENS)
BY_SUBJECT = {"tender": TENDERS, "order": ORDERS}

_OPENING_LOCK = 0x10AD_5EE7  # any number that no other program uses on the same database
_SWITCH_AGAIN_S = 0.02
# Timeouts of a statement and of an answer, as multiples of the lock timeout: the server's own errors come first.
_STATEMENT_WAITS, _ANSWER_WAITS = 1.5, 2
_WAIT_INTERVAL_S = 0.1  # interval of a waiting thread's checks for interruption; psycopg's own value

STORED_VERSION = Table(  # the same as Alembic's
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def owner_of(table: Table) -> Column[Any]:
    """The column with the row's order or tender: the first of its key."""
    return table.c[1]


def open_engine(database_url: str, busy_timeout_s: float) -> Engine:
    """An engine on `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`, with tables created or upgraded.

    `busy_timeout_s` is the timeout for other writing processes and for connecting to PostgreSQL; its answers may take twice as
    long. A connection with the execution option `writes` takes SQLite's write lock at the start of a transaction. Raises
    SettingsError, which shows no password.
    """
    url = _url(database_url)
    sqlite = url.get_backend_name() == "sqlite"
    engine = _sqlite(url, busy_timeout_s) if sqlite else _postgresql(url, busy_timeout_s)
    shown = str(url.database) if sqlite else make_url(database_url).render_as_string()
    try:
        with ExitStack() as failed:
            failed.callback(engine.dispose)
            with engine.connect().execution_options(writes=True) as connection, connection.begin():
                (_check_sqlite if sqlite else _check_postgresql)(connection, shown)
                prepare(connection, shown)
            if not sqlite:
                engine.dispose()  # this connection has no timeouts
            failed.pop_all()
    except DBAPIError as error:
        raise SettingsError(f"database: {shown} cannot be used as the exchange's database ({error.orig})") from error
    return engine


def prepare(connection: Connection, shown: str) -> None:
    """Create the tables in an empty database, or run the missing migrations, within the connection's transaction.

    Raises SettingsError for the schema of a newer loadsheet.
    """
    tables = inspect(connection).get_table_names()
    if COUNTERS.name not in tables:
        METADATA.create_all(connection, checkfirst=False)
        STORED_VERSION.create(connection, checkfirst=True)
        connection.execute(insert(STORED_VERSION), {"version_num": VERSION})
    else:
        version = connection.scalar(select(STORED_VERSION)) if VERSION_TABLE in tables else VERSIONS[0]
        if version not in VERSIONS:
            raise SettingsError(
                f"database: {shown} has the schema of a newer loadsheet ({version}; this one knows {VERSION}). "
                "Use the newer loadsheet, or another database"
            )
        if version != VERSION:
            upgrade(connection, version)
    known = set(connection.scalars(select(COUNTERS.c.name)))
    if missing := [{"name": table.name, "last": 0, "held": 0} for table in NUMBERED if table.name not in known]:
        connection.execute(insert(COUNTERS), missing)


def _url(database_url: str) -> URL:
    advice = "Use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise SettingsError(f"database: {database_url!r} is not a database URL. {advice}") from None
    if url.drivername in ("postgresql", "postgresql+psycopg") and url.database:
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        raise SettingsError(f"database: {url.render_as_string()} is not a supported database. {advice}")
    folder = Path(str(url.database)).parent
    if not folder.is_dir():
        raise SettingsError(f"database: the folder {folder} does not exist. Create it, or name another file")
    return url


def _sqlite(url: URL, busy_timeout_s: float) -> Engine:
    _close_to_others(Path(str(url.database)))
    engine = create_engine(url)
    event.listen(engine, "connect", partial(_durable, busy_timeout_s))
    event.listen(engine, "begin", _begin)
    return engine


def _close_to_others(path: Path) -> None:
    """Make the database readable by its owner only; SQLite gives its other files the same mode. Another user's file is unchanged."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for name in ("", "-wal", "-shm"):
        with suppress(OSError):
            Path(f"{path}{name}").chmod(0o600)


def _durable(busy_timeout_s: float, connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # sqlite3 must not open transactions itself; _begin does it
    # Set the timeout first, because the switch to WAL may wait for another process. Records of 2 kB fit larger pages better.
    for pragma in (f"busy_timeout={int(busy_timeout_s * 1000)}", "page_size=8192"):
        connection.execute(f"pragma {pragma}")
    _switch_to_wal(connection, time.monotonic() + busy_timeout_s)
    connection.execute("pragma synchronous=FULL")


def _switch_to_wal(connection: Any, until: float) -> None:
    # SQLite itself does not wait here if two connections switch at the same time.
    while True:
        try:
            connection.execute("pragma journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_SWITCH_AGAIN_S)
        else:
            return


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _check_sqlite(connection: Connection, shown: str) -> None:
    # A switch to WAL can fail without an error, on network folders for example, so read the mode back.
    journal = connection.exec_driver_sql("pragma journal_mode").scalar()
    if journal != "wal":
        raise SettingsError(f"database: {shown} is not durable (journal {journal}). Put it on a local disk")


def _postgresql(url: URL, busy_timeout_s: float) -> Engine:
    wait = max(1, int(busy_timeout_s * 1000))
    # A process that hangs in a transaction, or loses its connection, blocks the others only until these timeouts.
    bounds = {"lock_timeout": wait, "statement_timeout": int(wait * _STATEMENT_WAITS)}
    bounds["idle_in_transaction_session_timeout"] = wait * _ANSWER_WAITS
    options = " ".join(f"-c {name}={milliseconds}" for name, milliseconds in bounds.items())
    arguments = {"options": options, "connect_timeout": max(2, int(busy_timeout_s)), "tcp_user_timeout": wait}
    # Several processes write: each statement must see the commits of the previous writer.
    need("postgres", "an exchange on PostgreSQL")
    engine = create_engine(url, connect_args=arguments, isolation_level="READ COMMITTED", hide_parameters=True)
    event.listen(engine, "do_connect", partial(_patient, busy_timeout_s * _ANSWER_WAITS))
    event.listen(engine, "connect", _flushed)
    return engine


def _patient(answer_s: float, _dialect: Any, _record: Any, words: Any, named: Any) -> Any:
    connection = _connection_with_timeout().connect(*words, **named)
    connection.answer_s = answer_s
    return connection


@cache
def _connection_with_timeout() -> Any:
    """A class of PostgreSQL connections with a timeout for servers that neither answer nor close the connection.

    Neither TCP nor the server's own timeouts detect a firewall that dropped the connection, or a stalled proxy that accepts bytes
    and returns none.
    """
    import psycopg

    class ConnectionWithTimeout(psycopg.Connection[Any]):
        """Every wait times out after `answer_s` seconds (None: never) with an OperationalError and closes the connection."""

        answer_s: float | None = None

        def wait(self, gen: Any, interval: float = _WAIT_INTERVAL_S, timeout: float | None = None) -> Any:
            """Wait like psycopg, with the default timeout `answer_s`."""
            try:
                return super().wait(gen, interval, self.answer_s if timeout is None else timeout)
            except psycopg.OperationalError as error:
                # After a refused statement the connection is in error; without an answer it is still active.
                if self.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
                    raise
                self.pgconn.finish()
                raise psycopg.OperationalError(f"the server has not answered within {self.answer_s:g} s") from error

    return ConnectionWithTimeout


def _flushed(connection: Any, _record: Any) -> None:
    """Make commits wait for the disk, whatever the server's default is; a stricter mode stays."""
    (now,) = connection.execute("show synchronous_commit").fetchone()
    if now == "off":
        connection.execute("set synchronous_commit = on")
    connection.commit()


def _check_postgresql(connection: Connection, shown: str) -> None:
    if connection.exec_driver_sql("show fsync").scalar() != "on":
        raise SettingsError(f"database: {shown} is not durable (fsync is off). Switch fsync on at the server")
    if connection.exec_driver_sql("show server_encoding").scalar() != "UTF8":
        raise SettingsError(f"database: {shown} cannot store every text. Create it with the encoding UTF8")
    connection.execute(select(func.pg_advisory_xact_lock(_OPENING_LOCK)))
    # A migration of many records may take long, so it has no timeouts; this connection is not used again.
    connection.exec_driver_sql("set local statement_timeout = 0")
    connection.exec_driver_sql("set local idle_in_transaction_session_timeout = 0")
    driver: Any = connection.connection.driver_connection
    driver.answer_s = None


# ---- migrations ----

_GROUP = 1000
_KEYS = {
    "tenders": ("tender",),
    "orders": ("order_ref",),
    "quotes": ("tender", "carrier"),
    "confirmations": ("tender", "carrier"),
    "status_events": ("order_ref",),
}
_OWNED = ("tenders", "orders")


def upgrade(connection: Connection, version: str) -> None:
    """Upgrade the schema from this version to the present one and store each version reached, within the transaction of the connection.

    `version`: "" for an empty database.
    """
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    STORED_VERSION.create(connection, checkfirst=True)
    if connection.scalar(select(STORED_VERSION)) is None:  # the first databases do not store theirs
        connection.execute(insert(STORED_VERSION), {"version_num": version})
    op = Operations(MigrationContext.configure(connection))
    for reached, step in _STEPS.items():
        if reached > version:
            step(op)
            connection.execute(update(STORED_VERSION), {"version_num": reached})


def _make_tables(op: "Operations") -> None:
    """0001: the first schema, from before the migrations: six tables."""
    _make_table(op, "tenders", "tender")
    _make_table(op, "orders", "order_ref")
    _make_table(op, "quotes", "tender", "carrier")
    _make_table(op, "confirmations", "tender", "carrier", unique=False)
    _make_table(op, "status_events", "order_ref", unique=False)
    op.create_index("ix_confirmations_tender", "confirmations", ["tender"])
    op.create_index("ix_status_events_order_ref", "status_events", ["order_ref"])
    op.create_table("counters", Column("name", Text, primary_key=True), Column("last", _NUMBER, nullable=False))


def _make_table(op: "Operations", name: str, *keys: str, unique: bool = True) -> None:
    op.create_table(
        name,
        Column("number", _NUMBER, primary_key=True, autoincrement=False),
        *(Column(key, Text, nullable=False) for key in keys),
        Column("content", Text, nullable=False),
        *([UniqueConstraint(*keys)] if unique else []),
    )


def _add_parties(op: "Operations") -> None:
    """0002: the parties of records, keys that every database can index, record counts, and tokens, filled from the present records."""
    for name in _OWNED:
        for side in ("sender", "receiver"):
            op.add_column(name, Column(side, Text, nullable=False, server_default=""))
    op.add_column("counters", Column("held", _NUMBER, nullable=False, server_default="0"))
    _make_tokens(op)
    for name, keys in _KEYS.items():
        _fill(op, name, keys)
    for name in _OWNED:
        for side in ("sender", "receiver"):
            op.create_index(f"{name}_by_{side}", name, [side, "number"])
        held = select(func.count()).select_from(table(name)).scalar_subquery()
        counters = table("counters", column("name"), column("held"))
        op.get_bind().execute(update(counters).where(counters.c.name == name).values(held=held))


def _make_tokens(op: "Operations") -> None:
    op.create_table(
        "tokens",
        Column("number", _NUMBER, primary_key=True, autoincrement=False),
        *(Column(name, Text, nullable=False) for name in ("name", "digest", "party", "created")),
        Column("expires", Text),
        Column("revoked", Text),
        UniqueConstraint("name"),
        UniqueConstraint("digest"),
    )


def _fill(op: "Operations", name: str, keys: Sequence[str]) -> None:
    """Set sender and receiver from the content, and keys in their new form."""
    sides = ("sender", "receiver") if name in _OWNED else ()
    records = table(name, *map(column, ("number", *keys, *sides, "content")))
    change = (
        update(records)
        .where(records.c.number == bindparam("at"))
        .values({filled: bindparam(f"new_{filled}") for filled in (*keys, *sides)})
    )
    for rows in _groups(op, records):
        changes = []
        for row in rows:
            values = {key: key_text(row[key]) for key in keys}
            if sides:
                values |= zip(sides, map(key_text, parties_of(decode_stored(row["content"]))), strict=True)
            if sides or any(values[key] != row[key] for key in keys):
                changes.append({"at": row["number"], **{f"new_{filled}": value for filled, value in values.items()}})
        if changes:
            op.get_bind().execute(change, changes)


def _groups(op: "Operations", records: TableClause) -> Iterator[Sequence[RowMapping]]:
    """All rows in groups, to bound memory; each group is read before it is changed."""
    last = 0
    page = select(records).where(records.c.number > bindparam("last")).order_by(records.c.number).limit(_GROUP)
    while rows := op.get_bind().execute(page, {"last": last}).mappings().all():
        yield rows
        last = rows[-1]["number"]


def _add_sessions(op: "Operations") -> None:
    """0003: sessions of the pages, shared by all processes on one database."""
    op.create_table(
        "sessions",
        *(Column(name, Text, nullable=False, primary_key=name == "name") for name in ("name", "mark", "form")),
        Column("ends", _NUMBER, nullable=False),
    )
    op.create_index("sessions_by_end", "sessions", ["ends"])


_STEPS = {"0001": _make_tables, "0002": _add_parties, "0003": _add_sessions}
VERSIONS = tuple(_STEPS)  # databases without a stored version have the first
VERSION = VERSIONS[-1]
