"""One writer that commits calls in groups, readers for the pages of listings and for tokens, and the truth log.

Owns: threads and transactions. The statements of the writer stand in `transactions`, those of tokens in `token_admin`.
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
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, RootTransaction, Select, func, select, union
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from loadsheet.contract import Assumptions
from loadsheet.exchange.effects import Call, Effect, apply
from loadsheet.exchange.store.opening import open_engine
from loadsheet.exchange.store.schema import BY_SUBJECT, COUNTERS
from loadsheet.exchange.store.token_admin import all_tokens, find_token
from loadsheet.exchange.store.transactions import Counts, load_work, lock_counts, write_work
from loadsheet.exchange.tokens import Token, utc_now
from loadsheet.problems import SettingsError

BUSY_TIMEOUT_S = 10.0
GROUP_MAX = 512  # calls in one transaction
_READERS = 4
_AT_ONCE = 500  # records of a page that come from the database together
_QUEUE_S = 5.0  # a question may wait for its turn so long at least

_Read = TypeVar("_Read")

_log = logging.getLogger("loadsheet.exchange")


class StoreFailed(Exception):
    """The store cannot do it now: disk full, file locked, server gone. Nothing of the call is on disk, unless a PostgreSQL went
    away while it committed: then only a listing can tell.
    """


class _Job(NamedTuple):
    call: Call
    assumptions: Assumptions
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Effect]"


class TruthLog:
    """A file with one JSON line for every effect that really happened, in the order of the commits. It survives a restart; several
    processes may append to one file.

    A line is written after the commit and before any answer leaves: a process that is killed between the two leaves an effect without
    a line, never a line without an effect.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it where there is none. Raises SettingsError if it cannot be written."""
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError(f"the truth log {path} cannot be written ({error.strerror})") from error

    def write(self, done: Iterable[tuple[Call, Effect]]) -> None:
        """Append what the committed calls did, in one write. Raises OSError if the disk does not take it."""
        time = utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
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
    """The exchange's records in a database, open until `close`. Calls and pages may be asked for from any event loop."""

    def __init__(self, database_url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S, truth: Path | None = None) -> None:
        """Open the database, creating file and tables where there are none.

        `database_url` is `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`; `busy_timeout_s` is how long to wait for
        another process that writes to the same database, or for a server that takes no connection (for its answers twice
        that). `truth` is the file of the truth log; if a line cannot be written to it, the store closes. Raises SettingsError
        for another URL, and for a database or a truth log that cannot be used.
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
        """Finish what was handed in, then close the database. Calls after it fail."""
        self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._opened.close()

    async def apply(self, call: Call, assumptions: Assumptions) -> Effect:
        """Carry out one call. When this returns, its effect is durable. Raises StoreFailed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Effect] = loop.create_future()
        self._jobs.put(_Job(call, assumptions, loop, future))
        if not self._open:
            raise StoreFailed("the store is closed")
        return await future

    async def read_page(
        self, subject: str, page_size: int, party: str, take: Callable[[int, Iterable[str]], _Read]
    ) -> _Read:
        """What `take` makes of the first records (`tender` or `order`), in a reader's thread: of how many there are in all, and of
        their JSON texts in order of creation, which are read from the database as they are taken, within one transaction.

        `party` is the key of a party, who sees the records of which it is sender or receiver; empty: all. Raises StoreFailed, and
        what `take` raises.
        """
        return await self.read(lambda connection: take(*_page(connection, subject, page_size, party)))

    async def token(self, digest: str) -> Token | None:
        """The token of this digest, usable or not. Raises StoreFailed."""
        return await self.read(lambda connection: find_token(connection, digest))

    def tokens(self) -> Sequence[Token]:
        """All tokens, oldest first. Raises StoreFailed."""
        return self._read(all_tokens)

    async def read(self, question: Callable[[Connection], _Read]) -> _Read:
        """What a reading function finds on a connection, in one transaction. Raises StoreFailed."""
        return await self._in_reader(question)

    async def change(self, doing: Callable[[Connection], _Read]) -> _Read:
        """What a function on a connection returns, its changes on disk; it may be called again if the server was away.

        For what is beside the records (sessions): calls have their effects by way of `apply` alone. Raises StoreFailed.
        """
        return await self._in_reader(doing, writes=True)

    async def _in_reader(self, read: Callable[[Connection], _Read], *, writes: bool = False) -> _Read:
        came = time.monotonic()

        def in_time() -> _Read:
            # Behind reads that wait for a silent server nobody waits longer than for the server itself.
            if time.monotonic() - came > self._waits_s:
                raise StoreFailed("too many questions wait")
            return self._read(read, writes=writes)

        return await asyncio.get_running_loop().run_in_executor(self._readers, in_time)

    def _read(self, read: Callable[[Connection], _Read], *, writes: bool = False) -> _Read:
        try:
            try:
                return self._read_once(read, writes=writes)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The server was away since the last question, and may be back.
                return self._read_once(read, writes=writes)
        except SQLAlchemyError as error:
            raise _failed(error) from error

    def _read_once(self, read: Callable[[Connection], _Read], *, writes: bool) -> _Read:
        """One question in one transaction, which sees one state of the database."""
        # SQLite's transactions see one state anyway, and it knows no level of this name.
        plain = writes or self._engine.dialect.name == "sqlite"
        level = {} if plain else {"isolation_level": "REPEATABLE READ"}
        with self._engine.connect().execution_options(writes=writes, **level) as connection, connection.begin():
            return read(connection)

    def _write(self) -> None:
        """The writer thread: whatever waits goes into one transaction, so that one flush to disk serves many calls."""
        jobs: list[_Job] = []
        connection: Connection | None = None
        try:
            with ExitStack() as opened:
                while jobs := self._waiting():
                    try:
                        connection = connection or opened.enter_context(self._engine.connect())
                    except SQLAlchemyError as error:  # the server is away: the next calls find it back, perhaps
                        _settle(jobs, [_failed(error)] * len(jobs))
                        continue
                    outcomes = _carry_out(connection.execution_options(writes=True), jobs)
                    if self._truth and not _logged(self._truth, jobs, outcomes):
                        break
                    _settle(jobs, outcomes)
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
        transaction, counts = _begin(connection)
    except SQLAlchemyError as error:
        # Another program holds the database, or it is gone: each job alone would wait as long.
        return [_failed(error)] * len(jobs)
    try:
        with transaction:
            work = load_work(connection, counts, [job.call for job in jobs])
            effects = [apply(work, job.call, job.assumptions) for job in jobs]
            write_work(connection, counts, work)
    except SQLAlchemyError as error:
        # A connection lost in a commit leaves open whether it was carried out: nothing may be done a second time.
        if len(jobs) == 1 or (isinstance(error, DBAPIError) and error.connection_invalidated):
            return [_failed(error)] * len(jobs)
        return [effect for job in jobs for effect in _carry_out(connection, [job])]
    return effects


def _begin(connection: Connection) -> tuple[RootTransaction, Counts]:
    """A transaction that no other writer can pass; on a new connection if the server was away and is back."""
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
    except OSError as error:  # what is committed but not in the log must not be answered as if it were
        _log.error("the truth log cannot be written, so the store closes: %s", error.strerror)
        return False
    return True


def _failed(error: SQLAlchemyError) -> StoreFailed:
    # The whole error would print parameters, which are the senders' data.
    cause = error.orig if isinstance(error, DBAPIError) else None
    # PostgreSQL's details repeat values, its main message does not.
    told = getattr(getattr(cause, "diag", None), "message_primary", None)
    reason = told or str(cause or type(error).__name__)
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


def _page(connection: Connection, subject: str, page_size: int, party: str) -> tuple[int, Iterable[str]]:
    table = BY_SUBJECT[subject]
    page = select(table.c.content).order_by(table.c.number).limit(page_size)
    if not party:
        total = connection.scalar(select(COUNTERS.c.held).where(COUNTERS.c.name == table.name)) or 0
        return total, _contents(connection, page, min(page_size, total))
    sent, received = table.c.sender == party, (table.c.receiver == party) & (table.c.sender != party)
    # Each side is a walk along its own index that ends after a page; either-or in one question would sort all of them.
    sides = [select(table.c.number).where(side).order_by(table.c.number).limit(page_size) for side in (sent, received)]
    numbers = union(*(select(side.subquery().c.number) for side in sides))
    counts = [select(func.count()).select_from(table).where(side) for side in (sent, received)]
    total = sum(connection.scalar(count) or 0 for count in counts)
    return total, _contents(connection, page.where(table.c.number.in_(numbers)), min(page_size, total))


def _contents(connection: Connection, page: Select[tuple[str]], rows: int) -> Iterable[str]:
    """The texts of a page, a large one in groups as it is read on: a cursor at the server costs round trips."""
    if rows > _AT_ONCE:
        page = page.execution_options(yield_per=_AT_ONCE)
    return connection.scalars(page)
