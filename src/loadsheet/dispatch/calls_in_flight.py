"""Builds calls from ready entries, and makes them at the same time: each on a connection of its own, all handled by one thread with a selector.

Entries of one lane (the key of an order or tender) are in one call at a time, and none overtakes another. The ledger leaves out lanes
with a sending or unknown entry. `build_calls` leaves out entries that would follow within one query.

While the caller is busy (with a commit, for example), answers wait in their connections and no new call leaves. A thread
pool connects and requests tokens, because both may take long. A call asks the rate limiter right before its first byte.
It leaves only while its intent is fresh; otherwise it is returned as recalled. The caller interprets replies.
"""

import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

from loadsheet.contract import BY_NAME, Operation
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.connections import Poll, next_poll
from loadsheet.dispatch.outcomes import Outcome, Reply
from loadsheet.dispatch.rate_limiter import INTENT_VALID_S, RateLimiter, boottime
from loadsheet.dispatch.transport import ERRORS, CallConnection
from loadsheet.ledger import Submission

_ENVELOPE_BYTES = 64  # at most, around the records of a batch
_ANY_SIZE: Mapping[int, int] = MappingProxyType({})


class Call(NamedTuple):
    """One call: its operation, the entries it carries in the order of the body, and the body."""

    operation: Operation
    submissions: tuple[Submission, ...]
    body: bytes

    @property
    def keys(self) -> list[str]:
        """The business keys of its records."""
        return [submission.key for submission in self.submissions]


def build_calls(
    ready: Sequence[Submission],
    batch_max: int,
    sizes: Mapping[int, int] = _ANY_SIZE,
    apart: Container[int] = (),
    bytes_max: int = sys.maxsize,
) -> list[Call]:
    """Build calls for ready entries, oldest first. No two calls share a lane, so they may leave at the same time.

    Entries of batched operations share calls, up to `batch_max` or the smaller number in their mapping and up to a body of
    `bytes_max` bytes, several of one lane in order. No entry waits for a batch to fill. `sizes` limits the batch size by
    entry id (1: alone). Drops in `apart` share no call with others. An entry that would overtake another of its lane is left
    for the next query.
    """
    groups: list[list[Submission]] = []
    growing: dict[tuple[str, int, int], list[Submission]] = {}  # open batches by what their entries share
    filled: dict[tuple[str, int, int], int] = {}  # the bytes of their records
    lanes: dict[str, list[Submission] | None] = {}  # the call of each lane; None: the lane waits
    for submission in ready:
        if BY_NAME[submission.operation].batched:
            size = min(batch_max, submission.batch_size or batch_max, sizes.get(submission.id, batch_max))
            sort = submission.operation, size, submission.drop if submission.drop in apart else 0
            batch = growing.get(sort)
            length = filled.get(sort, 0) + len(submission.payload) + 1
            if batch is None or len(batch) >= size or length + _ENVELOPE_BYTES > bytes_max:
                batch, length = [], len(submission.payload) + 1
            if lanes.get(submission.lane, batch) is not batch:
                lanes[submission.lane] = None
                continue
            filled[sort] = length
            if not batch:
                growing[sort] = batch
                groups.append(batch)
        elif submission.lane in lanes:
            lanes[submission.lane] = None
            continue
        else:
            batch = []
            groups.append(batch)
        batch.append(submission)
        lanes[submission.lane] = batch
    return [_call(group) for group in groups]


def _call(group: Sequence[Submission]) -> Call:
    operation = BY_NAME[group[0].operation]
    return Call(operation, tuple(group), operation.body([submission.payload for submission in group]))


THREADS = 16
_UNAUTHORISED = 401
_WAKE_BYTES = 4096


class FinishedCall(NamedTuple):
    """A finished call. It has an `outcome`, or an `error` of our own code, or neither: then it was recalled before it left.

    `seconds` is its duration with our own delays, `wire_s` without them (None: unknown). `at_limit`: the concurrency limit was reached
    when it finished.
    """

    call: Call
    started: float
    outcome: Outcome | None = None
    seconds: float = 0.0
    error: Exception | None = None
    at_limit: bool = False
    wire_s: float | None = None

    @property
    def recalled(self) -> bool:
        """Whether it was recalled before any byte left."""
        return self.outcome is None and self.error is None


class _QueuedCall(NamedTuple):
    """A call that waits to start. `started` is when it was submitted (monotonic), `intent_at` when its intent was recorded (`boottime`),
    `again` whether it is repeated with a new token.
    """

    call: Call
    started: float
    intent_at: float
    again: bool = False


class _RunningCall:
    """A call on a connection. `number` is the file descriptor of the connection (-1: not connected yet), `refused` the 401 for which a
    new token is being requested.
    """

    __slots__ = ("began", "connection", "has_begun", "has_left", "has_waited", "number", "queued", "refused")

    def __init__(self, queued: _QueuedCall, connection: CallConnection, number: int) -> None:
        self.queued, self.connection, self.number = queued, connection, number
        self.began = time.perf_counter()
        self.has_begun = self.has_waited = self.has_left = False
        self.refused: Reply | None = None


class CallsInFlight:
    """Concurrent calls, used in a `with` block. When the block ends, every started call has finished. `classify` turns a
    reply into an outcome. After an urgent outcome (`is_urgent`), no call leaves until the caller takes the finished ones.

    All methods are for one thread.
    """

    def __init__(
        self,
        client: Client,
        classify: Callable[[Call, Reply], Outcome],
        is_urgent: Callable[[Outcome], bool],
        limiter: RateLimiter,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.intent_valid_s = INTENT_VALID_S  # the maximum age of an intent when its call leaves
        self._client, self._classify, self._is_urgent = client, classify, is_urgent
        self._limiter, self._clock = limiter, clock
        self._queue: deque[_QueuedCall] = deque()
        self._waiting_for_rate: deque[_RunningCall] = deque()  # connected
        self._done: list[FinishedCall] = []
        self._limit = self._in_flight = 0
        self._is_paused = False
        self._poll = Poll(time.perf_counter(), 0.0)  # of all connections
        self._idle: list[tuple[CallConnection, int]] = []  # connected; the most recently used is last
        self._running: dict[int, _RunningCall] = {}  # by the file descriptor of their connection
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.settimeout(0)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="calls")
        self._executed: deque[tuple[_RunningCall, Future[bool | None]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._is_paused = True  # nothing more leaves
            while self._in_flight:
                self._recall_connected()
                if self._in_flight:
                    self._select(None)
        finally:
            self._executor.shutdown()
            self._selector.close()
            for connection, _ in self._idle:
                self._client.release(connection)
            for running in self._running.values():
                running.connection.close()
            self._wake_receiver.close()
            self._wake_sender.close()

    @property
    def waiting(self) -> int:
        """The number of calls that have not left yet."""
        return len(self._queue) + len(self._waiting_for_rate)

    def set_limit(self, limit: int) -> None:
        """Set the maximum of concurrent calls. Calls above it may finish."""
        self._limit = limit

    def submit(self, calls: Iterable[Call], now: float, intent_at: float) -> None:
        """Queue calls; they start in this order as the concurrency limit and the rate limiter allow. `intent_at` is a moment (`boottime`)
        before their intent was recorded.
        """
        self._queue.extend(_QueuedCall(call, now, intent_at) for call in calls)
        self._start_queued()

    def recall_waiting(self) -> Iterator[FinishedCall]:
        """Remove and return the calls that have not left yet."""
        self._recall_connected()
        while self._queue:
            queued = self._queue.popleft()
            yield FinishedCall(queued.call, queued.started)
        recalled = [done for done in self._done if done.recalled]
        self._done = [done for done in self._done if not done.recalled]
        yield from recalled

    def wait(self, count: int, timeout: float) -> None:
        """Wait until `count` calls have finished, or an urgent one has, for at most `timeout` seconds."""
        until = time.monotonic() + timeout
        self._recall_expired()
        self._start_queued()
        while len(self._done) < count and not self._is_paused:
            left = until - time.monotonic()
            if left <= 0:
                return
            if self._waiting_for_rate:
                left = min(left, self._limiter.delay_s(self._clock()))
            self._select(left)

    def take_finished(self) -> list[FinishedCall]:
        """Remove and return the finished calls. Queued calls may start again."""
        done, self._done, self._is_paused = self._done, [], False
        return done

    def _start_queued(self) -> None:
        """Start as many queued calls as limit and rate allow."""
        while not self._is_paused:
            if self._waiting_for_rate:
                if not self._handle_next_waiting(self._waiting_for_rate[0]):
                    return
                continue
            if not self._queue or self._in_flight >= self._limit:
                return
            running = _RunningCall(self._queue.popleft(), *self._take_connection())
            self._in_flight += 1
            if running.number >= 0:
                self._running[running.number] = running
                self._waiting_for_rate.append(running)
                continue
            with _FailOnError(self, running):
                self._prepare(running)
                self._execute(running, running.connection.connect)

    def _prepare(self, running: _RunningCall) -> None:
        running.has_begun = True
        running.connection.begin(running.queued.call.operation, running.queued.call.body)

    def _handle_next_waiting(self, running: _RunningCall) -> bool:
        """Send, recall or requeue the first call that waits for the rate limiter. Returns False if the rate limiter allows no call now."""
        now = self._clock()
        if now - running.queued.intent_at > self.intent_valid_s:
            self._recall(self._waiting_for_rate.popleft())
            return True
        if running.has_waited and not self._limiter.delay_s(now) and not running.connection.is_connected:
            self._requeue(running)
            return True
        if not self._limiter.try_acquire(now):
            self._postpone(running)
            return False
        self._waiting_for_rate.popleft()
        running.has_left = True
        with _FailOnError(self, running):
            if not running.has_begun:
                running.began = time.perf_counter()
                self._prepare(running)
            self._send(running)
        return True

    def _postpone(self, running: _RunningCall) -> None:
        """Reset the start of a call: waiting for the rate limiter does not count as its duration."""
        running.has_waited = True
        if running.has_begun:
            running.has_begun = False
            running.connection.cancel()

    def _recall_expired(self) -> None:
        """Recall calls whose intent has expired, or will have expired when the rate limiter allows the next call."""
        if not self._queue and not self._waiting_for_rate:
            return
        now = self._clock()
        oldest = now - self.intent_valid_s + (self._limiter.delay_s(now) if self._waiting_for_rate else 0.0)
        while self._waiting_for_rate and self._waiting_for_rate[0].queued.intent_at < oldest:
            self._recall(self._waiting_for_rate.popleft())
        while self._queue and self._queue[0].intent_at < oldest:
            queued = self._queue.popleft()
            self._done.append(FinishedCall(queued.call, queued.started))

    def _recall_connected(self) -> None:
        while self._waiting_for_rate:
            self._recall(self._waiting_for_rate.popleft())

    def _recall(self, running: _RunningCall) -> None:
        """Recall a connected call before it leaves. Its connection stays open."""
        self._in_flight -= 1
        del self._running[running.number]
        if running.has_begun:
            running.connection.cancel()
        self._idle.append((running.connection, running.number))
        self._done.append(FinishedCall(running.queued.call, running.queued.started))

    def _requeue(self, running: _RunningCall) -> None:
        """Put a waiting call back to the head of the queue: its connection was closed or is too old."""
        self._waiting_for_rate.remove(running)
        self._in_flight -= 1
        del self._running[running.number]
        self._selector.unregister(running.number)
        self._client.release(running.connection)
        self._queue.appendleft(running.queued)

    def _take_connection(self) -> tuple[CallConnection, int]:
        """An open connection and its file descriptor; if none is idle, a new one that is not connected, and -1."""
        while self._idle:
            connection, number = self._idle.pop()
            if connection.token == self._client.token and connection.is_connected:
                return connection, number
            self._selector.unregister(number)
            connection.close()
        return self._client.connection(), -1

    def _select(self, timeout: float | None) -> None:
        """Wait for events on the connections and handle them."""
        began = time.perf_counter()
        happened = self._selector.select(timeout)
        self._poll = next_poll(self._poll, began, time.perf_counter())
        if not happened:
            self._start_queued()  # the rate limiter may allow the next call now
        for key, events in happened:
            if key.fileobj is self._wake_receiver:
                self._process_executed()
                self._start_queued()
                continue
            running = self._running.get(key.fd)
            if running is None:
                self._drop_idle(key.fd)
                continue
            if not running.has_left:
                self._requeue(running)
                self._start_queued()
                continue
            with _FailOnError(self, running):
                if events & selectors.EVENT_WRITE:
                    self._send(running)
                if events & selectors.EVENT_READ and key.fd in self._running:
                    self._read(running)
            self._start_queued()  # at once: the next call need not wait for the other events

    def _drop_idle(self, number: int) -> None:
        """Drop an idle connection that became readable: it was closed, or sends unrequested data."""
        for place, (connection, other) in enumerate(self._idle):
            if other == number:
                del self._idle[place]
                self._selector.unregister(number)
                self._client.release(connection)
                return

    def _send(self, running: _RunningCall) -> None:
        try:
            is_sent = running.connection.send_some()
        except ERRORS as error:
            self._finish(running, error)
            return
        wanted = selectors.EVENT_READ if is_sent else selectors.EVENT_READ | selectors.EVENT_WRITE
        if self._selector.get_key(running.number).events != wanted:
            self._selector.modify(running.number, wanted)

    def _read(self, running: _RunningCall) -> None:
        try:
            if running.connection.read():
                self._finish(running, None)
        except ERRORS as error:
            self._finish(running, error)

    def _finish(self, running: _RunningCall, error: Exception | None) -> None:
        """Finish a call on its connection; keep the connection if it is reusable."""
        number, connection = running.number, running.connection
        if number >= 0:
            del self._running[number]
            if error is not None or not connection.is_reusable:
                self._selector.unregister(number)  # before closing: the system may reuse the number at once
                number = -1
        reply = connection.finish(error)
        self._release_rate(running)
        if number >= 0:
            self._idle.append((connection, number))
        else:
            self._client.release(connection)
        if reply.status == _UNAUTHORISED and self._client.can_renew and not running.queued.again:
            running.number, running.refused = -1, reply
            self._execute(running, self._client.renew_token, connection.token)
        else:
            self._complete(running, reply)

    def _release_rate(self, running: _RunningCall) -> None:
        if running.has_left:
            running.has_left = False
            self._limiter.call_finished()

    def _complete(self, running: _RunningCall, reply: Reply) -> None:
        queued, at_limit = running.queued, self._in_flight - len(self._waiting_for_rate) >= self._limit
        outcome = self._classify(queued.call, reply)
        self._in_flight -= 1
        took, wire_s = max(0.0, self._poll.ended - running.began), running.connection.wire_s(self._poll)
        self._done.append(FinishedCall(queued.call, queued.started, outcome, took, at_limit=at_limit, wire_s=wire_s))
        self._is_paused = self._is_paused or self._is_urgent(outcome)

    def fail(self, running: _RunningCall, error: Exception) -> None:
        """Finish a call that broke in our own code: its outcome is unknown, its connection unusable."""
        if self._running.pop(running.number, None) is not None:
            self._selector.unregister(running.number)
        running.connection.close()
        self._release_rate(running)
        self._in_flight -= 1
        self._done.append(FinishedCall(running.queued.call, running.queued.started, error=error))
        self._is_paused = True

    # work in other threads: connecting, and requesting a new token

    def _execute(self, running: _RunningCall, work: Callable[..., bool | None], *arguments: Any) -> None:
        def wake(over: "Future[bool | None]") -> None:
            self._executed.append((running, over))
            self._wake_sender.send(b"\0")

        self._executor.submit(work, *arguments).add_done_callback(wake)

    def _process_executed(self) -> None:
        self._wake_receiver.recv(_WAKE_BYTES)
        while self._executed:
            running, over = self._executed.popleft()
            with _FailOnError(self, running):
                error = over.exception()
                if error is None:
                    self._continue(running, renewed=over.result())
                elif isinstance(error, ERRORS):
                    self._finish(running, error)
                else:
                    raise error

    def _continue(self, running: _RunningCall, *, renewed: bool | None) -> None:
        """Continue a call whose connection is open now, or whose new token was requested."""
        if running.refused is None:
            running.number = running.connection.number
            self._selector.register(running.number, selectors.EVENT_READ)
            self._running[running.number] = running
            self._waiting_for_rate.append(running)
        elif renewed:
            self._in_flight -= 1
            self._queue.appendleft(running.queued._replace(again=True))
        else:
            self._complete(running, running.refused)


class _FailOnError:
    """Stores an exception that breaks a call in its `FinishedCall`. The caller settles the other calls first, then raises it."""

    def __init__(self, calls_in_flight: CallsInFlight, running: _RunningCall) -> None:
        self._calls_in_flight, self._running = calls_in_flight, running

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self._calls_in_flight.fail(self._running, error)
            return True
        return False
