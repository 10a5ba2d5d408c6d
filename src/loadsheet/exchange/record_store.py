"""The durable store: one writer that commits calls in groups, readers for queries and the pages of listings, and the truth log.

Owns: threads, transactions, and the statements of the writer (SQLAlchemy Core, the same for every database): it loads the unit of work
for a group of calls, and writes its changes, in one transaction. A returned effect is guaranteed to be on disk. Knows no HTTP; `effects`
holds the effects of operations.
"""

import asyncio
import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    RootTransaction,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    union,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from loadsheet.contract import Action, Assumptions, is_acceptance
from loadsheet.errors import SettingsError
from loadsheet.exchange.database import (
    BY_SUBJECT,
    CONFIRMATIONS,
    COUNTERS,
    EVENTS,
    ORDERS,
    PARTIES,
    QUOTES,
    TENDERS,
    open_engine,
    owner_of,
)
from loadsheet.exchange.effects import AppendedRows, Call, Effect, RecordSet, StoredRecord, UnitOfWork, apply
from loadsheet.exchange.wire import decode_stored

_KEYS_MAX = 1000  # in one statement

# The row locks make writers of several processes wait for each other if the database has no global lock. All take them in the
# same order, which prevents deadlocks.
_COUNTS = select(COUNTERS.c.name, COUNTERS.c.last, COUNTERS.c.held).order_by(COUNTERS.c.name).with_for_update()
_SET_COUNTS = (
    update(COUNTERS).values(last=bindparam("to"), held=bindparam("holding")).where(COUNTERS.c.name == bindparam("of"))
)

_FIND = {
    table: select(table).where(owner_of(table).in_(bindparam("owners", expanding=True)))
    for table in (TENDERS, ORDERS, QUOTES, CONFIRMATIONS)
}
_PARTIES_OF = {TENDERS: PARTIES, ORDERS: PARTIES, QUOTES: ()}  # the columns of each table of records
_SET_CONTENT = {
    table: update(table)
    .where(table.c.number == bindparam("at"))
    .values({name: bindparam(f"new_{name}") for name in (*parties, "content")})
    for table, parties in _PARTIES_OF.items()
}
_REMOVE = {table: delete(table).where(table.c.number == bindparam("at")) for table in _PARTIES_OF}
_CLEAR = {
    table: delete(table).where(owner_of(table) == bindparam("owner")) for table in (QUOTES, CONFIRMATIONS, EVENTS)
}
_CLEAR_DECISIONS = delete(CONFIRMATIONS).where(
    CONFIRMATIONS.c.tender == bindparam("tender"), CONFIRMATIONS.c.carrier == bindparam("carrier")
)

BUSY_TIMEOUT_S = 10.0
GROUP_MAX = 512  # calls in one transaction
_READERS = 4
_AT_ONCE = 500  # records of a page in each fetch from the database
_QUEUE_S = 5.0  # minimum queue timeout of a query

_Read = TypeVar("_Read")

_log = logging.getLogger("loadsheet.exchange")


class Count(NamedTuple):
    """The counts of a table: the last number used, and the number of records (tenders and orders only)."""

    last: int
    held: int


Counts = Mapping[str, Count]


def lock_counts(connection: Connection) -> Counts:
    """The counts, locked against other writers until the transaction ends."""
    return {name: Count(last, held) for name, last, held in connection.execute(_COUNTS)}


def load_work(connection: Connection, counts: Counts, calls: Sequence[Call]) -> UnitOfWork:
    """The unit of work with every record that the calls refer to."""
    about_quotes = [call for call in calls if call.operation.action in (Action.QUOTE, Action.CONFIRM)]
    work = UnitOfWork(
        tenders=RecordSet(counts[TENDERS.name].last),
        orders=RecordSet(counts[ORDERS.name].last),
        quotes=RecordSet(counts[QUOTES.name].last),
        confirmations=AppendedRows(counts[CONFIRMATIONS.name].last),
        events=AppendedRows(counts[EVENTS.name].last),
    )
    _fill(connection, TENDERS, work.tenders, (call for call in calls if call.operation.subject == "tender"))
    _fill(connection, ORDERS, work.orders, (call for call in calls if call.operation.subject == "order"))
    _fill(connection, QUOTES, work.quotes, about_quotes)
    for row in sorted(_find(connection, CONFIRMATIONS, about_quotes), key=itemgetter(0)):  # the latest decision counts
        work.decisions[row.tender, row.carrier] = is_acceptance(decode_stored(row.content))
    return work


def write_work(connection: Connection, counts: Counts, work: UnitOfWork) -> None:
    """Write the changes of the calls."""
    # Deletions first: a record that is deleted and created again in one group would have the same key twice.
    _clear(connection, (QUOTES, CONFIRMATIONS), work.cleared_tenders)
    _clear(connection, (EVENTS,), work.cleared_orders)
    if work.cleared_quotes:
        connection.execute(
            _CLEAR_DECISIONS, [{"tender": tender, "carrier": carrier} for tender, carrier in work.cleared_quotes]
        )
    record_sets = ((TENDERS, work.tenders), (ORDERS, work.orders), (QUOTES, work.quotes))
    appended = ((CONFIRMATIONS, work.confirmations), (EVENTS, work.events))
    for table, record_set in record_sets:
        _save_changes(connection, table, record_set)
    added = {table: _new(table, record_set) for table, record_set in record_sets}
    added |= {
        table: [(stored.number, *key, stored.content) for key, stored in journal.added] for table, journal in appended
    }
    for table, rows in added.items():
        if rows:
            connection.execute(insert(table), [dict(zip(table.c.keys(), row, strict=True)) for row in rows])
    # The last numbers include records that the group itself deleted, because their numbers were used.
    after = {table.name: Count(journal.last, 0) for table, journal in appended}
    for table, record_set in record_sets:
        more = len(record_set.records) - len(record_set.numbers_before) if _PARTIES_OF[table] else 0
        after[table.name] = Count(record_set.last, counts[table.name].held + more)
    if counted := [
        {"of": name, "to": count.last, "holding": count.held} for name, count in after.items() if count != counts[name]
    ]:
        connection.execute(_SET_COUNTS, counted)


def _fill(connection: Connection, table: Table, record_set: RecordSet, calls: Iterable[Call]) -> None:
    sides = len(_PARTIES_OF[table])
    for row in _find(connection, table, calls):
        number, *rest, content = tuple(row)
        key, parties = tuple(rest[: len(rest) - sides]), tuple(rest[len(rest) - sides :])
        record_set.records[key] = StoredRecord(number, content, parties)
        record_set.numbers_before[key] = number


def _clear(connection: Connection, tables: Iterable[Table], owners: Collection[str]) -> None:
    if owners:
        for table in tables:
            connection.execute(_CLEAR[table], [{"owner": owner} for owner in owners])


def _save_changes(connection: Connection, table: Table, record_set: RecordSet) -> None:
    kept = {
        key: stored for key, stored in record_set.records.items() if stored.number == record_set.numbers_before.get(key)
    }
    gone = [{"at": number} for key, number in record_set.numbers_before.items() if key not in kept]
    if gone:
        connection.execute(_REMOVE[table], gone)
    changed = [kept[key] for key in record_set.changed if key in kept]
    if changed:
        sides = [f"new_{name}" for name in _PARTIES_OF[table]]
        connection.execute(
            _SET_CONTENT[table],
            [
                {"at": stored.number, "new_content": stored.content, **dict(zip(sides, stored.parties, strict=False))}
                for stored in changed
            ],
        )


def _new(table: Table, record_set: RecordSet) -> list[tuple[Any, ...]]:
    """The rows of the records that are new or have a new number."""
    sides = len(_PARTIES_OF[table])
    return [
        (stored.number, *key, *stored.parties[:sides], stored.content)
        for key, stored in record_set.records.items()
        if stored.number != record_set.numbers_before.get(key)
    ]


def _find(connection: Connection, table: Table, calls: Iterable[Call]) -> list[Row[Any]]:
    """The rows of a table for the orders or tenders of these calls."""
    owners = list({owner for call in calls for owner in call.owners})
    found: list[Row[Any]] = []
    for start in range(0, len(owners), _KEYS_MAX):
        found += connection.execute(_FIND[table], {"owners": owners[start : start + _KEYS_MAX]})
    return found


class StoreFailed(Exception):
    """The store is not available: disk full, file locked, server unreachable. The call had no effect. Exception: if PostgreSQL
    failed during the commit, only a listing shows whether there was an effect.
    """


class _Job(NamedTuple):
    call: Call
    assumptions: Assumptions
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Effect]"


class TruthLog:
    """A file with one JSON line for every committed effect, in the order of the commits. It survives a restart; several processes
    may append to one file.

    A line is written after the commit and before the answer is sent. A process that is killed in between leaves an effect without
    a line, never a line without an effect.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises SettingsError if it cannot be written."""
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError(f"the truth log {path} cannot be written ({error.strerror})") from error

    def write(self, done: Iterable[tuple[Call, Effect]]) -> None:
        """Append the effects of the committed calls in one write. Raises OSError if the write fails."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines = [line for call, effect in done if effect.changes for line in _truth_lines(time, call, effect)]
        rest = memoryview(b"".join(lines))
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _truth_lines(time: str, call: Call, effect: Effect) -> Iterator[bytes]:
    digest = hashlib.sha256(call.body).hexdigest()
    for change in effect.changes:
        line = {
            "time": time,
            "operation": call.operation.name,
            "key": "/".join(change.key),
            "sha256": digest,
            "effect": change.effect,
            "number": change.number,
        }
        yield msgspec.json.encode(line) + b"\n"


class Store:
    """The exchange's records in a database, open until `close`. Usable from any event loop."""

    def __init__(self, database_url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S, truth: Path | None = None) -> None:
        """Open the database, creating missing file and tables.

        `database_url` is `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`. `busy_timeout_s` is the timeout for other
        writing processes and for connecting to a server; its answers may take twice as long. `truth` is the file of the truth
        log; if a line cannot be written to it, the store closes. Raises SettingsError for another URL, and for a database or a
        truth log that cannot be used.
        """
        with ExitStack() as opened:
            self._truth = opened.enter_context(closing(TruthLog(truth))) if truth else None
            self._engine = open_engine(database_url, busy_timeout_s)
            opened.callback(self._engine.dispose)
            self._opened = opened.pop_all()
        self._waits_s = max(busy_timeout_s, _QUEUE_S)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._open = True
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="exchange-reader")
        self._writer = threading.Thread(target=self._write, name="exchange-writer")
        self._writer.start()

    def close(self) -> None:
        """Finish the queued calls, then close the database. Later calls fail."""
        self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._opened.close()

    async def apply(self, call: Call, assumptions: Assumptions) -> Effect:
        """Apply one call. When this returns, its effect is durable. Raises StoreFailed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Effect] = loop.create_future()
        self._jobs.put(_Job(call, assumptions, loop, future))
        if not self._open:
            raise StoreFailed("the store is closed")
        return await future

    async def read_page(
        self, subject: str, page_size: int, party: str, take: Callable[[int, Iterable[str]], _Read]
    ) -> _Read:
        """Call `take` in a reader's thread with the number of all records of `subject` (`tender` or `order`), and the JSON texts of
        the first `page_size` in order of creation. The texts are read on demand, within one transaction. Returns `take`'s result.

        `party` is the key of a party, which sees the records that it sends or receives (empty: all). Raises StoreFailed, and the
        exceptions of `take`.
        """
        return await self.read(lambda connection: take(*_page(connection, subject, page_size, party)))

    async def read(self, query: Callable[[Connection], _Read]) -> _Read:
        """The result of a reading function on a connection, in one transaction. Raises StoreFailed."""
        return await self._in_reader(query)

    async def change(self, action: Callable[[Connection], _Read]) -> _Read:
        """The result of a function on a connection, with its changes on disk. It is called again if the server was unreachable.

        Only for sessions: records change through `apply` only. Raises StoreFailed.
        """
        return await self._in_reader(action, writes=True)

    async def _in_reader(self, read: Callable[[Connection], _Read], *, writes: bool = False) -> _Read:
        queued = time.monotonic()

        def read_unless_late() -> _Read:
            # The queue behind reads of an unresponsive server times out like the server itself.
            if time.monotonic() - queued > self._waits_s:
                raise StoreFailed("too many queries are waiting")
            return self._read(read, writes=writes)

        return await asyncio.get_running_loop().run_in_executor(self._readers, read_unless_late)

    def _read(self, read: Callable[[Connection], _Read], *, writes: bool = False) -> _Read:
        try:
            try:
                return self._read_once(read, writes=writes)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The connection was lost since the last query, and the server may be back.
                return self._read_once(read, writes=writes)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def _read_once(self, read: Callable[[Connection], _Read], *, writes: bool) -> _Read:
        """One query in one transaction, on one snapshot of the database."""
        # SQLite's transactions always use a snapshot, and it has no level of this name.
        plain = writes or self._engine.dialect.name == "sqlite"
        level = {} if plain else {"isolation_level": "REPEATABLE READ"}
        with self._engine.connect().execution_options(writes=writes, **level) as connection, connection.begin():
            return read(connection)

    def _write(self) -> None:
        """The writer thread. All waiting calls share one transaction, and so one flush to disk."""
        jobs: list[_Job] = []
        connection: Connection | None = None
        try:
            with ExitStack() as opened:
                while jobs := self._next_jobs():
                    try:
                        connection = connection or opened.enter_context(self._engine.connect())
                    except SQLAlchemyError as error:  # the server is unreachable; the next calls try again
                        _deliver(jobs, [_failed(error)] * len(jobs))
                        continue
                    outcomes = _run_jobs(connection.execution_options(writes=True), jobs)
                    if self._truth and not _logged(self._truth, jobs, outcomes):
                        break
                    _deliver(jobs, outcomes)
        finally:  # even if a bug kills the thread, no caller waits for ever
            self._open = False
            self._jobs.put(None)
            jobs += iter(self._jobs.get, None)
            _deliver(jobs, [StoreFailed("the store is closed")] * len(jobs))

    def _next_jobs(self) -> list[_Job]:
        """All waiting jobs, at least one; none if the store closes."""
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


def _run_jobs(connection: Connection, jobs: Sequence[_Job]) -> Sequence[Effect | StoreFailed]:
    """All jobs in one transaction; if that fails, each in its own, so that one bad call does not fail the others."""
    try:
        transaction, counts = _begin(connection)
    except SQLAlchemyError as error:
        # The database is locked or unreachable: each job alone would wait as long.
        return [_failed(error)] * len(jobs)
    try:
        with transaction:
            work = load_work(connection, counts, [job.call for job in jobs])
            effects = [apply(work, job.call, job.assumptions) for job in jobs]
            write_work(connection, counts, work)
    except SQLAlchemyError as error:
        # If the connection was lost in the commit, the outcome is unknown: do not repeat anything.
        if len(jobs) == 1 or (isinstance(error, DBAPIError) and error.connection_invalidated):
            return [_failed(error)] * len(jobs)
        return [effect for job in jobs for effect in _run_jobs(connection, [job])]
    return effects


def _begin(connection: Connection) -> tuple[RootTransaction, Counts]:
    """A transaction that excludes other writers; on a new connection if the old one was lost."""
    try:
        return _begin_once(connection)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    return _begin_once(connection)


def _begin_once(connection: Connection) -> tuple[RootTransaction, Counts]:
    transaction = connection.begin()
    try:
        return transaction, lock_counts(connection)
    except SQLAlchemyError:
        transaction.rollback()
        raise


def _logged(truth: TruthLog, jobs: Sequence[_Job], outcomes: Sequence[Effect | StoreFailed]) -> bool:
    pairs = zip(jobs, outcomes, strict=True)
    try:
        truth.write((job.call, outcome) for job, outcome in pairs if isinstance(outcome, Effect))
    except OSError as error:  # an effect that is missing in the log must not be answered as a success
        _log.error("the truth log cannot be written, so the store closes: %s", error.strerror)
        return False
    return True


def _failed(error: SQLAlchemyError) -> StoreFailed:
    # The whole error would show parameters, which are the senders' data.
    cause = error.orig if isinstance(error, DBAPIError) else None
    # PostgreSQL's details repeat values, its primary message does not.
    message = getattr(getattr(cause, "diag", None), "message_primary", None)
    reason = message or str(cause or type(error).__name__)
    _log.error("the exchange's store failed: %s", reason)
    return StoreFailed(reason)


def _deliver(jobs: Sequence[_Job], outcomes: Sequence[Effect | StoreFailed]) -> None:
    """Return the outcomes to their callers, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Effect], Effect | StoreFailed]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, resolved in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_resolve, resolved)


def _resolve(resolved: Iterable[tuple["asyncio.Future[Effect]", Effect | StoreFailed]]) -> None:
    for future, outcome in resolved:
        if future.done():  # its client disconnected
            continue
        if isinstance(outcome, StoreFailed):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _page(connection: Connection, subject: str, page_size: int, party: str) -> tuple[int, Iterable[str]]:
    table = BY_SUBJECT[subject]
    page = select(table.c.content).order_by(table.c.number).limit(page_size)
    if not party:
        total = connection.scalar(select(COUNTERS.c.held).where(COUNTERS.c.name == table.name)) or 0
        return total, _contents(connection, page, min(page_size, total))
    sent, received = table.c.sender == party, (table.c.receiver == party) & (table.c.sender != party)
    # Each side is an index scan that ends after a page; one query with OR would sort all records.
    sides = [select(table.c.number).where(side).order_by(table.c.number).limit(page_size) for side in (sent, received)]
    numbers = union(*(select(side.subquery().c.number) for side in sides))
    counts = [select(func.count()).select_from(table).where(side) for side in (sent, received)]
    total = sum(connection.scalar(count) or 0 for count in counts)
    return total, _contents(connection, page.where(table.c.number.in_(numbers)), min(page_size, total))


def _contents(connection: Connection, page: Select[tuple[str]], rows: int) -> Iterable[str]:
    """The texts of a page, a large one fetched in groups. A server-side cursor would cost round trips for a small one."""
    if rows > _AT_ONCE:
        page = page.execution_options(yield_per=_AT_ONCE)
    return connection.scalars(page)
