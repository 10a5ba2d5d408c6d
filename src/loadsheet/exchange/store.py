"""The durable store: tables, one writer that commits calls in groups, and the pages of listings.

Owns: all SQL of the exchange (SQLAlchemy Core, no statement is dialect-bound) and the promise that an effect handed back is
on disk. Knows no HTTP; what an operation does stands in `effects`.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from loadsheet.contract import Action, Assumptions
from loadsheet.exchange.effects import Books, Call, Effect, Held, Journal, Key, Shelf, apply
from loadsheet.problems import SettingsError

BUSY_TIMEOUT_S = 10.0
GROUP_MAX = 512  # calls in one transaction
_KEYS_MAX = 500  # keys in one question; databases bound the number of parameters
_READERS = 4

LastNumbers = dict[str, int]  # by table

_log = logging.getLogger("loadsheet.exchange")
_metadata = MetaData()


def _table(name: str, *keys: Column[Any], unique: bool = True) -> Table:
    """A table of records: their own number, key and content (JSON text). Numbers rise in the order of creation."""
    constraints = [UniqueConstraint(*(key.name for key in keys))] if unique else []
    number = Column("number", Integer, primary_key=True, autoincrement=False)
    return Table(name, _metadata, number, *keys, Column("content", Text, nullable=False), *constraints)


def _key(name: str, *, index: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=False, index=index)


def _owner(table: Table) -> Column[Any]:
    """The order or tender that a row is about: the first column of its key."""
    return table.c[1]


_TENDERS = _table("tenders", _key("tender"))
_ORDERS = _table("orders", _key("order_ref"))  # number is the service's own order number
_QUOTES = _table("quotes", _key("tender"), _key("carrier"))
_CONFIRMATIONS = _table("confirmations", _key("tender", index=True), _key("carrier"), unique=False)
_EVENTS = _table("status_events", _key("order_ref", index=True), unique=False)
_COUNTERS = Table(  # the last number given out for each table: a number is never given twice, also not after a delete
    "counters", _metadata, Column("name", Text, primary_key=True), Column("last", Integer, nullable=False)
)
_NUMBERED = (_TENDERS, _ORDERS, _QUOTES, _CONFIRMATIONS, _EVENTS)
_BY_SUBJECT = {"tender": _TENDERS, "order": _ORDERS}

# The row locks make writers of several processes wait for each other where the database does not lock as a whole.
_LAST_NUMBERS = select(_COUNTERS.c.name, _COUNTERS.c.last).order_by(_COUNTERS.c.name).with_for_update()
_SET_LAST = update(_COUNTERS).where(_COUNTERS.c.name == bindparam("of")).values(last=bindparam("to"))
_FIND = {
    table: select(table).where(_owner(table).in_(bindparam("owners", expanding=True)))
    for table in (_TENDERS, _ORDERS, _QUOTES)
}
_SET_CONTENT = {
    table: update(table).where(table.c.number == bindparam("at")).values(content=bindparam("text")) for table in _FIND
}
_REMOVE = {table: delete(table).where(table.c.number == bindparam("at")) for table in _FIND}
_CLEAR = {
    table: delete(table).where(_owner(table) == bindparam("owner")) for table in (_QUOTES, _CONFIRMATIONS, _EVENTS)
}


class StoreFailed(Exception):  # noqa: N818 (named for what happened)
    """The store cannot do it now: disk full, file locked or gone. Nothing of the call is on disk."""


class _Job(NamedTuple):
    call: Call
    assumptions: Assumptions
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Effect]"


class Store:
    """The exchange's records in a database, open until `close`. Calls and pages may be asked for from any event loop."""

    def __init__(self, database_url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """Open the database, creating file and tables where there are none.

        `database_url` is `sqlite:///FILE`; `busy_timeout_s` is how long to wait for another process that writes to the same
        file. Raises SettingsError for another URL, or a file that cannot be used.
        """
        self._engine = _open(database_url, busy_timeout_s)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._open = True
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="exchange-reader")
        self._writer = threading.Thread(target=self._write, name="exchange-writer")
        self._writer.start()

    def close(self) -> None:
        """Finish what was handed in, then close the database. Calls after it fail."""
        self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._engine.dispose()

    async def apply(self, call: Call, assumptions: Assumptions) -> Effect:
        """Carry out one call. When this returns, its effect is durable. Raises StoreFailed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Effect] = loop.create_future()
        self._jobs.put(_Job(call, assumptions, loop, future))
        if not self._open:
            raise StoreFailed("the store is closed")
        return await future

    async def page(self, subject: str, page_size: int) -> tuple[Sequence[str], int]:
        """The first records (`tender` or `order`) in order of creation as JSON texts, and how many there are in all.

        Raises StoreFailed.
        """
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._page, subject, page_size)

    def _page(self, subject: str, page_size: int) -> tuple[Sequence[str], int]:
        table = _BY_SUBJECT[subject]
        try:
            with self._engine.begin() as connection:
                total = connection.scalar(select(func.count()).select_from(table)) or 0
                page = select(table.c.content).order_by(table.c.number).limit(page_size)
                return connection.scalars(page).all(), total
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def _write(self) -> None:
        """The writer thread: whatever waits goes into one transaction, so that one flush to disk serves many calls."""
        jobs: list[_Job] = []
        try:
            with self._engine.connect().execution_options(writes=True) as connection:
                while jobs := self._waiting():
                    _settle(jobs, _carry_out(connection, jobs))
        finally:  # also if the thread dies of a bug: nobody may wait for it for ever
            self._open = False
            self._jobs.put(None)
            jobs += iter(self._jobs.get, None)
            _settle(jobs, [StoreFailed("the store is closed")] * len(jobs))

    def _waiting(self) -> list[_Job]:
        """At least one job, as many as wait; none when the store is to close."""
        jobs: list[_Job] = []
        while len(jobs) < GROUP_MAX:
            try:
                job = self._jobs.get(block=not jobs)
            except queue.Empty:
                break
            if job is None:
                if jobs:
                    self._jobs.put(None)
                break
            jobs.append(job)
        return jobs


def _carry_out(connection: Connection, jobs: Sequence[_Job]) -> Sequence[Effect | StoreFailed]:
    """All jobs in one transaction; if that fails, each in its own, so that one bad call does not fail the others."""
    try:
        transaction = connection.begin()
    except SQLAlchemyError as error:  # another program holds the file: each job alone would wait in vain as long again
        return [_failed(error)] * len(jobs)
    try:
        with transaction:
            last: LastNumbers = dict(connection.execute(_LAST_NUMBERS).all())
            books = _open_books(connection, last, [job.call for job in jobs])
            effects = [apply(books, job.call, job.assumptions) for job in jobs]
            _close_books(connection, last, books)
    except SQLAlchemyError as error:
        if len(jobs) == 1:
            return [_failed(error)]
        return [effect for job in jobs for effect in _carry_out(connection, [job])]
    return effects


def _failed(error: SQLAlchemyError) -> StoreFailed:
    # The whole error would print parameters, which are the senders' data.
    reason = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
    _log.error("the exchange's store failed: %s", reason)
    return StoreFailed(reason)


def _settle(jobs: Sequence[_Job], outcomes: Sequence[Effect | StoreFailed]) -> None:
    """Hand the outcomes back, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Effect], Effect | StoreFailed]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, settled in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, settled)


def _resolve(settled: Iterable[tuple["asyncio.Future[Effect]", Effect | StoreFailed]]) -> None:
    for future, outcome in settled:
        if future.done():  # its client has gone
            continue
        if isinstance(outcome, StoreFailed):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _open_books(connection: Connection, last: LastNumbers, calls: Sequence[Call]) -> Books:
    about_quotes = [call for call in calls if call.operation.action in (Action.QUOTE, Action.CONFIRM)]
    books = Books(
        tenders=Shelf(last[_TENDERS.name]),
        orders=Shelf(last[_ORDERS.name]),
        quotes=Shelf(last[_QUOTES.name]),
        confirmations=Journal(last[_CONFIRMATIONS.name]),
        events=Journal(last[_EVENTS.name]),
    )
    _fill(connection, _TENDERS, books.tenders, (call for call in calls if call.operation.subject == "tender"))
    _fill(connection, _ORDERS, books.orders, (call for call in calls if call.operation.subject == "order"))
    _fill(connection, _QUOTES, books.quotes, about_quotes)
    return books


def _fill(connection: Connection, table: Table, shelf: Shelf, calls: Iterable[Call]) -> None:
    owners = iter({owner for call in calls for owner in call.owners})
    while some := list(islice(owners, _KEYS_MAX)):
        for number, *key, content in connection.execute(_FIND[table], {"owners": some}):
            shelf.held[tuple(key)] = Held(number, content)
            shelf.found[tuple(key)] = number


def _close_books(connection: Connection, last: LastNumbers, books: Books) -> None:
    # Deletions first: a record deleted and created anew in one group has the same key twice for a moment.
    _clear(connection, (_QUOTES, _CONFIRMATIONS), books.cleared_tenders)
    _clear(connection, (_EVENTS,), books.cleared_orders)
    shelves = ((_TENDERS, books.tenders), (_ORDERS, books.orders), (_QUOTES, books.quotes))
    journals = ((_CONFIRMATIONS, books.confirmations), (_EVENTS, books.events))
    for table, shelf in shelves:
        _save_changes(connection, table, shelf)
        _insert(connection, table, [row for row in shelf.held.items() if row[1].number != shelf.found.get(row[0])])
    for table, journal in journals:
        _insert(connection, table, journal.added)
    numbers = [(table.name, part.last) for table, part in (*shelves, *journals) if part.last != last[table.name]]
    if numbers:  # also of records that the group itself has deleted again: the numbers were handed out
        connection.execute(_SET_LAST, [{"of": name, "to": number} for name, number in numbers])


def _clear(connection: Connection, tables: Iterable[Table], owners: Collection[str]) -> None:
    if owners:
        for table in tables:
            connection.execute(_CLEAR[table], [{"owner": owner} for owner in owners])


def _save_changes(connection: Connection, table: Table, shelf: Shelf) -> None:
    kept = {key: held for key, held in shelf.held.items() if held.number == shelf.found.get(key)}
    gone = [{"at": number} for key, number in shelf.found.items() if key not in kept]
    if gone:
        connection.execute(_REMOVE[table], gone)
    changed = [{"at": kept[key].number, "text": kept[key].content} for key in shelf.changed if key in kept]
    if changed:
        connection.execute(_SET_CONTENT[table], changed)


def _insert(connection: Connection, table: Table, rows: Iterable[tuple[Key, Held]]) -> None:
    names = table.c.keys()
    if values := [dict(zip(names, (held.number, *key, held.content), strict=True)) for key, held in rows]:
        connection.execute(insert(table), values)


def _open(database_url: str, busy_timeout_s: float) -> Engine:
    file = _file_of(database_url)
    if not file.parent.is_dir():
        raise SettingsError(f"database: the folder {file.parent} does not exist; make it, or name another file")
    engine = create_engine(database_url)
    event.listen(engine, "connect", partial(_durable, f"busy_timeout={int(busy_timeout_s * 1000)}"))
    event.listen(engine, "begin", _begin)
    try:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            _prepare(connection, file)
    except DBAPIError as error:
        engine.dispose()
        raise SettingsError(f"database: {file} cannot be used as the exchange's database ({error.orig})") from error
    except SettingsError:
        engine.dispose()
        raise
    return engine


def _prepare(connection: Connection, file: Path) -> None:
    # A switch to WAL can fail without an error, on network folders for one: read back what was asked for.
    journal = connection.exec_driver_sql("pragma journal_mode").scalar()
    if journal != "wal":
        raise SettingsError(f"database: {file} cannot be kept durably (journal {journal}); put it on a local disk")
    _metadata.create_all(connection)
    known = set(connection.scalars(select(_COUNTERS.c.name)))
    missing = [{"name": table.name, "last": 0} for table in _NUMBERED if table.name not in known]
    if missing:
        connection.execute(insert(_COUNTERS), missing)


def _file_of(database_url: str) -> Path:
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise SettingsError(f"database: {database_url!r} is not a database URL; write sqlite:///FILE") from None
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        raise SettingsError(
            f"database: {url.render_as_string()} names no file of our own kind of database; write sqlite:///FILE"
        )
    return Path(str(url.database))


def _durable(wait: str, connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # sqlite3 must not open transactions behind SQLAlchemy's back; _begin does it
    # The wait comes first: the switch to WAL itself may meet another process. Records of 2 kB fill small pages badly.
    for pragma in (wait, "page_size=8192", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"pragma {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")
