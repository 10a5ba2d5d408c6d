"""The tables of a ledger, for SQLite and PostgreSQL, and the tables that all ledgers of one PostgreSQL database share; and statements, each
written once for both databases: how lists of values are written in one, streams of rows, the named values of `meta`, the database's clock.

In a ledger, times are ISO 8601 UTC texts, lists and objects are JSON texts. Only two things are ever overwritten: the state of an
entry, where each change adds a row to `events`, and contents removed by retention, where `removed` keeps the time (see `maintenance`).

The shared tables are in a schema of their own. Their times are seconds since 1970 by the database's clock (`database_time`),
because machine clocks differ. Times that people also read are ISO 8601 UTC texts. Procrastinate's tables are in the same schema but not
declared here.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Select,
    Table,
    func,
    select,
)
from sqlalchemy import Integer as AnyInteger
from sqlalchemy import Text as AnyText
from sqlalchemy import event as sqlalchemy_event

from loadsheet.ledger.models import State, Waits

FETCH = 500
"""The number of rows read at once, and of values in a list."""

T = TypeVar("T")
_SIZES = (0, 1, 16, 48, 128, 512)  # of lists: few sizes, so that SQLite compiles few statements
_LIST = re.compile(r"(not )?in \(:(\w+)\)")
_VALUE = re.compile(r":(\w+)")


class Statement:
    """A statement that both databases understand: `:name` stands for a value, `in (:name)` for one of a list of values."""

    def __init__(self, sql: str) -> None:
        self._sqlite = sql

    @cached_property
    def _postgres(self) -> str:
        lists = _LIST.sub(lambda match: f"{'<> all' if match[1] else '= any'}(:{match[2]})", self._sqlite)
        return _VALUE.sub(r"%(\1)s", lists)

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Run it once for each row of values, at least one. Returns the number of affected database rows."""
        sql = self._sqlite if connection.dialect.name == "sqlite" else self._postgres
        return int(connection.exec_driver_sql(sql, list(rows)).rowcount)

    def rows(self, connection: Connection, **values: Any) -> list[Any]:
        """The rows for these values. A list may have a few hundred items at most."""
        if connection.dialect.name != "sqlite":
            return list(connection.exec_driver_sql(self._postgres, values).all())
        sizes = []
        for name, value in tuple(values.items()):
            if isinstance(value, list):
                size = _SIZES[bisect_left(_SIZES, len(value))]
                sizes.append((name, size))
                for place, item in enumerate([*value, *value[-1:] * (size - len(value))]):
                    values[f"{name}_{place}"] = item
                del values[name]
        sql = _with_lists(self._sqlite, tuple(sizes)) if sizes else self._sqlite
        return list(connection.exec_driver_sql(sql, values).all())

    def rows_of(self, connection: Connection, wanted: Sequence[Any]) -> list[Any]:
        """The rows for a list `wanted` of any length, the only value, in no particular order."""
        return [row for part in chunks(wanted) for row in self.rows(connection, wanted=list(part))]


@lru_cache(maxsize=128)
def _with_lists(sql: str, sizes: tuple[tuple[str, int], ...]) -> str:
    """The SQL for lists of these sizes."""
    for name, size in sizes:
        sql = sql.replace(f"(:{name})", f"({', '.join(f':{name}_{place}' for place in range(size))})")
    return sql


def streamed(engine: Engine, query: Select[Any]) -> Iterator[Any]:
    """The rows of a query, a few hundred at a time. All rows are as of the first fetch, however long the caller takes."""
    with engine.connect() as connection:
        yield from streamed_within(connection, query)


def streamed_within(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    """The same in a transaction."""
    with connection.execute(
        query, execution_options={"yield_per": FETCH}
    ) as rows:  # a server keeps the rest until this is closed
        for partition in rows.partitions():
            yield from partition


def at_one_moment(engine: Engine) -> Engine:
    """The engine for reading snapshots: a transaction sees the data as of its start. SQLite always does."""
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="REPEATABLE READ")


def chunks(wanted: Sequence[T]) -> Iterator[Sequence[T]]:
    """A list in parts that are small enough for one query."""
    for start in range(0, len(wanted), FETCH):
        yield wanted[start : start + FETCH]


DATABASE_TIME = func.extract("epoch", func.clock_timestamp())
"""The current time of PostgreSQL's clock as an SQL expression, in seconds since 1970. It advances within a transaction."""


def database_time(connection: Connection) -> float:
    """The current time of PostgreSQL's clock, on which several machines agree, in seconds since 1970."""
    return float(connection.scalar(select(DATABASE_TIME)) or 0.0)


def stored_value(connection: Connection, name: str) -> str:
    """The value with this name in the ledger's table `meta`. Empty if there is none."""
    return next((row.value for row in _STORED.rows(connection, name=name)), "")


def store_value(connection: Connection, name: str, value: str) -> None:
    """Store a value under this name in the table `meta`, replacing the previous one."""
    _STORE.run(connection, [{"name": name, "value": value}])


_STORED = Statement("select value from meta where name = :name")
_STORE = Statement(
    "insert into meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value"
)


SCHEMA_VERSION = 7

metadata = MetaData()

# As in SQLite: 64-bit integers, and texts compared by code points, whatever the server's collation.
Integer = AnyInteger().with_variant(BigInteger(), "postgresql")
Text = AnyText().with_variant(AnyText(collation="C"), "postgresql")

_states = ", ".join(f"'{state.value}'" for state in State)


def _id() -> Column[Any]:
    return Column("id", Integer, primary_key=True)


def _columns(*names: str, kind: Any, **more: Any) -> list[Column[Any]]:
    """Columns that are never null."""
    return list(map(partial(Column, type_=kind, nullable=False, **more), names))


_texts, _numbers = partial(_columns, kind=Text), partial(_columns, kind=Integer)


def _of(column: str, *, index: bool = False) -> Column[Any]:
    """A column that refers to a row of another table, such as `run_id`."""
    table = {"run_id": "runs", "drop_id": "drops", "entry_id": "entries"}[column]
    return Column(column, ForeignKey(f"{table}.id"), nullable=False, index=index or None)


meta = Table("meta", metadata, Column("name", Text, primary_key=True), *_texts("value"))

runs = Table(
    "runs",
    metadata,
    _id(),
    *_texts("name", unique=True),
    *_texts("started_at"),
    *_texts("finished_at", default=""),
    Column("exit_code", Integer),
    *_texts("summary", default=""),
)

mappings = Table(  # one row for each version of a mapping that was ever used
    "mappings",
    metadata,
    Column("hash", Text, primary_key=True),
    *_texts("name", "version", "operation"),
    Column("batch_size", Integer),
    *_texts("lineage"),
    *_texts("language", server_default=""),
    *_texts("guide", "source", server_default="{}"),
)

drops = Table(  # the files that one mapping read together
    "drops",
    metadata,
    _id(),
    _of("run_id", index=True),
    Column("mapping_hash", ForeignKey("mappings.hash")),
    Column("fixes", Integer),  # the drop that this fix workbook corrects, if it is one
    *_texts("removed", server_default=""),  # when all its payloads and cells were removed
)

files = Table(
    "files",
    metadata,
    _id(),
    _of("drop_id", index=True),
    *_texts("role", "name"),
    *_texts("sha256", index=True),
    *_numbers("size"),
    *_texts("arrived", "kept_as", "problems"),
)

tenures = Table(  # the holder of a shared ledger, in one row
    "tenures",
    metadata,
    _id(),
    *_numbers("epoch"),
    *_texts("holder", "since", "seen_at"),  # an empty holder: none; `seen_at` is by the database's clock
)

tables = Table(
    "tables",
    metadata,
    _id(),
    _of("drop_id", index=True),
    *_texts("name", "file", "sheet", "header"),
    *_numbers("header_row", "rows"),
    *_texts("found", server_default="{}"),
    *_texts("problems", server_default="[]"),
)

entries = Table(
    "entries",
    metadata,
    _id(),
    _of("drop_id", index=True),
    *_texts("operation"),
    *_texts("key", index=True),
    *_texts("lane"),
    Column("state", Text, CheckConstraint(f"state in ({_states})", name="known_state"), nullable=False),
    *_texts("reason"),
    Column("payload", LargeBinary, nullable=False),  # empty: see `contents`
    *_texts("content_hash"),
    Column("rows", LargeBinary, nullable=False),  # likewise
    *_texts("items", "problems", "receipt"),
    *_numbers("attempts"),
    *_texts("created_at", "changed_at"),
    *_texts("waits", default=Waits.DECISION.value, server_default=""),
    *_texts("removed", server_default=""),  # when payload and cells were removed
    Column("figures", LargeBinary),  # the part of a removed payload that control totals need
    Column("instead", LargeBinary),  # the other form of an upsert (create or update)
    Index("entries_by_lane", "lane", "state"),
    Index("entries_by_state", "state", "waits", "id"),
)

contents = Table(  # the payloads and rows of entries with neighbouring ids, as `ledger.content_blocks` packs them
    "contents",
    metadata,
    Column("block", Integer, primary_key=True, autoincrement=False),
    Column("packed", LargeBinary, nullable=False),
)

ignored = Table(
    "ignored",
    metadata,
    _id(),
    _of("drop_id", index=True),
    *_texts("table_name"),
    *_numbers("number"),
    *_texts("cells", "rule"),
)

attempts = Table(  # inserted before the call leaves, completed when its outcome is known
    "attempts",
    metadata,
    Column("entry_id", ForeignKey("entries.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    _of("run_id"),
    *_texts("started_at", "request_hash"),
    *_texts("outcome", default=""),
    Column("status", Integer),
    *_texts("detail", default=""),
    Column("duration_ms", Integer),
    sqlite_with_rowid=False,  # the key is the row: one tree instead of two; older ledgers keep both
)

events = Table(
    "events",
    metadata,
    _id(),
    _of("entry_id", index=True),
    _of("run_id", index=True),
    *_texts("at", "before", "after", "reason"),
)

findings = Table(  # what listings showed about entries of unknown outcome
    "findings",
    metadata,
    _id(),
    _of("entry_id", index=True),
    _of("run_id"),
    *_texts("at", "shown"),
    *_numbers("counts"),
    *_texts("text"),
)

decisions = Table(  # decisions of people; each row's hash covers the previous one
    "decisions",
    metadata,
    _id(),
    _of("entry_id", index=True),
    *_texts("at", "who", "choice", "comment", "evidence", "hash"),
)

seen = Table(  # lanes whose order or tender a listing showed although none of our accepted entries created it
    "seen", metadata, Column("lane", Text, primary_key=True), _of("run_id"), *_texts("at")
)

exceptions = Table(  # entries that need or needed a person, until the run that closed them
    "exceptions",
    metadata,
    Column("entry_id", ForeignKey("entries.id"), primary_key=True),
    _of("run_id"),  # the run that first listed it
    *_texts("opened_at"),
    *_texts("verdict", server_default=""),  # its last verdict, and which fields differ
    *_texts("found", server_default="[]"),
    Column("closed_run_id", ForeignKey("runs.id")),
    *_texts("closed_at", server_default="", index=True),
    *_texts("closed_because", server_default=""),
)

looks = Table(  # a run's snapshot of the listings, as `reconcile.listings` packs it
    "looks",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("shown", LargeBinary, nullable=False),
    *_texts("removed", server_default=""),  # when the values of the exchange were removed
)

remarks = Table(  # the analyst's remarks on exceptions, one row for each change of a cell
    "remarks", metadata, _id(), _of("entry_id", index=True), *_texts("at", "who", "name", "value")
)

# Keys may be too long for a B-tree index on a server. Hash indexes suffice, because only equality is tested.
for _table, _made in (
    (entries, "drop index ix_entries_key; create index ix_entries_key on entries using hash (key)"),
    (entries, "drop index entries_by_lane; create index entries_by_lane on entries using hash (lane)"),
    (seen, "alter table seen drop constraint seen_pkey; create index seen_by_lane on seen using hash (lane)"),
):
    sqlalchemy_event.listen(_table, "after_create", DDL(_made).execute_if(dialect="postgresql"))  # type: ignore[no-untyped-call]


# shared by all ledgers of one PostgreSQL database

shared_metadata = MetaData()


_shared_texts, _shared_numbers = partial(_columns, kind=AnyText), partial(_columns, kind=AnyInteger)

shared_meta = Table(  # not `meta`: each ledger has a table of that name, and names are looked up without a schema
    "shared_meta", shared_metadata, Column("name", AnyText, primary_key=True), *_shared_texts("value")
)

workers = Table(  # worker processes, alive or ended recently
    "workers",
    shared_metadata,
    Column("name", AnyText, primary_key=True),  # host, process and a random part: unique per start
    *_shared_texts("host"),
    *_shared_numbers("process"),
    *_shared_texts("version"),
    *_shared_texts("serves", default="[]"),  # names of shippers; empty: all
    *_shared_numbers("places"),  # concurrent runs
    *_shared_texts("doing", default="[]"),
    Column("done", AnyInteger, nullable=False, default=0, server_default="0"),  # finished runs
    Column("started", Float, nullable=False),
    Column("seen", Float, nullable=False, index=True),
    Column("ended", Float),
)

takeovers = Table(  # ledgers taken over from a process without heartbeat
    "takeovers",
    shared_metadata,
    Column("id", AnyInteger, primary_key=True),
    Column("at", Float, nullable=False, index=True),
    *_shared_texts("shipper", "before", "after"),
)

paces = Table(  # one row for each exchange and token
    "paces",
    shared_metadata,
    Column("name", AnyText, primary_key=True),  # a digest of both, which reveals neither
    *_shared_texts("exchange"),
    *_shared_numbers("per_second", "connections"),  # a rate of 0: no limit
    Column("share", Float, nullable=False, default=1.0),  # part of both limits left after overloads of the exchange
    Column("paused_until", Float, nullable=False, default=0.0),
    Column("setback_at", Float, nullable=False, default=0.0),
    *_shared_texts("reason", default=""),
)

leases = Table(  # the part of a pace that each worker may use, and until when
    "leases",
    shared_metadata,
    Column("pace", ForeignKey("paces.name"), primary_key=True),
    Column("worker", AnyText, primary_key=True),
    *_shared_numbers("number"),  # number of the worker's lease, which its next ask repeats
    *_shared_numbers("wanted", "wanted_connections"),  # calls a second that the worker can make
    *_shared_numbers("per_second", "connections"),
    *_shared_numbers("charged", "charged_connections"),  # what the worker may use until it knows this lease
    Column("until", Float, nullable=False),
)

claims = Table(  # who processes which version of an inbox object; the row is deleted when that is done
    "claims",
    shared_metadata,
    Column("id", AnyInteger, primary_key=True),
    *_shared_texts("shipper", "place", "name"),  # `place` is the inbox
    *_shared_texts("version"),  # etag and size, as the store reports them
    *_shared_texts("run", "holder"),
    Column("at", Float, nullable=False),  # the holder's last heartbeat
    Index("claims_once", "place", "name", "version", unique=True),
)

fires = Table(  # due times of schedules that fired; the first process to record one runs it
    "fires",
    shared_metadata,
    Column("shipper", AnyText, primary_key=True),
    Column("schedule", AnyText, primary_key=True),
    Column("due", AnyText, primary_key=True),  # ISO 8601 UTC
    Column("at", Float, nullable=False),
    *_shared_texts("by"),
    Column("caught_up", AnyInteger, nullable=False, default=0),  # missed runs that it catches up
)

notices = Table(  # sent notices by shipper: the state of `operations.notifications`
    "notices", shared_metadata, Column("shipper", AnyText, primary_key=True), *_shared_texts("memory")
)
