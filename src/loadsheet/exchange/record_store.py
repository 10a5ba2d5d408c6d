"""The durable store: one writer that commits calls in groups, readers for queries and the pages of listings, and the truth log.

Owns: threads and transactions. A returned effect is guaranteed to be on disk. The statements of the writer are in `transactions`.
Knows no HTTP; `effects` holds the effects of operations.
"""

import asyncio
import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, RootTransaction, Select, func, select, union
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from loadsheet.contract import Assumptions
from loadsheet.exchange.database import BY_SUBJECT, COUNTERS, open_engine
from loadsheet.exchange.effects import Call, Effect, apply
from loadsheet.exchange.transactions import Counts, load_work, lock_counts, write_work
from loadsheet.problems import SettingsError

BUSY_TIMEOUT_S = 10.0
GROUP_MAX = 512  # calls in one transaction
_READERS = 4
_AT_ONCE = 500  # records of a page in each fetch from the database
_QUEUE_S = 5.0  # minimum queue timeout of a query

_Read = TypeVar("_Read")

_log = logging.getLogger("loadsheet.exchange")


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
        lines = [line for call, effect in done if effect.happened for line in _truth_lines(time, call, effect)]
        rest = memoryview(b"".join(lines))
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _truth_lines(time: str, call: Call, effect: Effect) -> Iterator[bytes]:
    digest = hashlib.sha256(call.body).hexdigest()
    for happened in effect.happened:
        line = {
            "time": time,
            "operation": call.operation.name,
            "key": "/".join(happened.key),
            "sha256": digest,
            "effect": happened.effect,
            "number": happened.number,
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
