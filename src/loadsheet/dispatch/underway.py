"""Calls under way: as many at the same time as the limit says, each on a connection of its own, all watched by the thread that waits.

Owns: which connection a call travels on, and what is waited for. While the caller does something else (a commit, say) answers gather
in their connections and nothing new leaves. What may take long in one place, a connection being made or a token being asked for, is
done by helpers, so that it holds up no other call. Refuses to know what a call means and when it may leave.
"""

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

from loadsheet.dispatch.client import Client
from loadsheet.dispatch.lanes import Call
from loadsheet.dispatch.outcomes import Outcome, Reply
from loadsheet.dispatch.transport import ERRORS, Desk

HELPERS = 16
_UNAUTHORISED = 401
_RINGS = 4096


class Done(NamedTuple):
    """A call that is over, as it was handed over: its outcome and the seconds it took; or `error`, our own fault that broke it."""

    call: Call
    started: float
    outcome: Outcome | None = None
    seconds: float = 0.0
    error: Exception | None = None


class _Flight:
    """A call on its way: where, since when, and the file number of its connection (-1: there is none yet)."""

    __slots__ = ("began", "call", "desk", "number", "started")

    def __init__(self, call: Call, started: float, desk: Desk, number: int) -> None:
        self.call, self.started, self.desk, self.number = call, started, desk, number
        self.began = time.perf_counter()


class Underway:
    """Use it in a `with` block: at its end all that began is over. `judge` says what became of a call; `urgent` says of its outcome whether
    it may change what leaves next: then nothing more leaves until the caller has taken it in.

    All methods are for one thread.
    """

    def __init__(
        self, client: Client, judge: Callable[[Call, Reply], Outcome], urgent: Callable[[Outcome], bool]
    ) -> None:
        self._client, self._judge, self._urgent = client, judge, urgent
        self._waiting: deque[tuple[Call, float]] = deque()
        self._done: list[Done] = []
        self._limit = self._flying = 0
        self._held_up = False
        self._woke = 0.0  # answers were there by then: seeing to them one after the other is no time that they took
        self._idle: list[tuple[Desk, int]] = []  # connected, the one that was used last at the end
        self._flights: dict[int, _Flight] = {}  # by the file number of their connection
        self._selector = selectors.DefaultSelector()
        self._bell, self._ringer = socket.socketpair()
        self._bell.settimeout(0)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._helpers = ThreadPoolExecutor(HELPERS, thread_name_prefix="calls")
        self._helped: deque[tuple[_Flight, Future[Reply | None]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._limit = 0  # nothing more begins
            while self._flying:
                self._watch(None)
        finally:
            self._helpers.shutdown()
            self._selector.close()
            for desk, _ in self._idle:
                self._client.take_back(desk)
            for flight in self._flights.values():
                flight.desk.close()
            self._bell.close()
            self._ringer.close()

    def employ(self, limit: int) -> None:
        """From now on so many calls may be under way. Those that are too many finish."""
        self._limit = limit

    def hand_over(self, calls: Iterable[Call], now: float) -> None:
        """Have these calls made, one after the other as the limit allows."""
        self._waiting.extend((call, now) for call in calls)
        self._begin()

    def take_back(self) -> Iterator[Done]:
        """What has not begun yet."""
        while self._waiting:
            yield Done(*self._waiting.popleft())

    def wait(self, count: int, timeout: float) -> None:
        """Wait until `count` calls are over, or one of which the next depends, for at most `timeout` seconds."""
        until = time.monotonic() + timeout
        self._begin()
        while len(self._done) < count and not self._held_up:
            left = until - time.monotonic()
            if left <= 0:
                return
            self._watch(left)

    def finished(self) -> list[Done]:
        """The calls that are over by now."""
        done, self._done, self._held_up = self._done, [], False
        return done

    def _begin(self) -> None:
        while self._waiting and self._flying < self._limit and not self._held_up:
            call, started = self._waiting.popleft()
            desk, number = self._connected()
            flight = _Flight(call, started, desk, number)
            self._flying += 1
            if number >= 0:
                self._flights[number] = flight
            with _Fault(self, flight):
                self._client.begin(desk, call.operation, call.body)
                if number >= 0:
                    self._depart(flight)
                else:
                    self._have_help(flight, desk.connect)

    def _connected(self) -> tuple[Desk, int]:
        """A desk with a connection that may be used, and its file number; else one without, and -1."""
        while self._idle:
            desk, number = self._idle.pop()
            if desk.token == self._client.token and desk.is_connected:
                return desk, number
            self._selector.unregister(number)
            desk.close()
        return self._client.desk(), -1

    def _watch(self, timeout: float | None) -> None:
        """Wait for something to happen on any connection, and see to it."""
        happened = self._selector.select(timeout)
        self._woke = time.perf_counter()
        for key, events in happened:
            if key.fileobj is self._bell:
                self._see_to_helped()
                self._begin()
                continue
            flight = self._flights.get(key.fd)
            if flight is None:
                self._drop_idle(key.fd)
                continue
            with _Fault(self, flight):
                if events & selectors.EVENT_WRITE:
                    self._depart(flight)
                if events & selectors.EVENT_READ and key.fd in self._flights:
                    self._read(flight)
            self._begin()  # at once: whose turn it is need not wait for the rest of what happened

    def _drop_idle(self, number: int) -> None:
        """An idle connection said something: it was closed, or says what nobody asked for."""
        for place, (desk, mine) in enumerate(self._idle):
            if mine == number:
                del self._idle[place]
                self._selector.unregister(number)
                self._client.take_back(desk)
                return

    def _depart(self, flight: _Flight) -> None:
        try:
            gone = flight.desk.depart()
        except ERRORS as error:
            self._over(flight, error)
            return
        wanted = selectors.EVENT_READ if gone else selectors.EVENT_READ | selectors.EVENT_WRITE
        if self._selector.get_key(flight.number).events != wanted:
            self._selector.modify(flight.number, wanted)

    def _read(self, flight: _Flight) -> None:
        try:
            if flight.desk.read():
                self._over(flight, None)
        except ERRORS as error:
            self._over(flight, error)

    def _over(self, flight: _Flight, error: Exception | None) -> None:
        """The call is over on its connection, which stays if it may."""
        number, desk = flight.number, flight.desk
        if number >= 0:
            del self._flights[number]
            if error is not None or not desk.stays:
                self._selector.unregister(number)  # before it is closed: the number may be another's at once
                number = -1
        reply = desk.over(error)
        if number >= 0:
            self._idle.append((desk, number))
        else:
            self._client.take_back(desk)
        if reply.status == _UNAUTHORISED and self._client.may_renew:
            call = flight.call
            self._have_help(flight, self._client.once_more, call.operation, call.body, reply, desk.token)
        else:
            self._land(flight, reply)

    def _land(self, flight: _Flight, reply: Reply) -> None:
        outcome = self._judge(flight.call, reply)
        self._flying -= 1
        self._done.append(Done(flight.call, flight.started, outcome, max(0.0, self._woke - flight.began)))
        self._held_up = self._held_up or self._urgent(outcome)

    def break_off(self, flight: _Flight, error: Exception) -> None:
        """A call that broke by our own fault: what became of it nobody knows, and its connection is of no use."""
        if self._flights.pop(flight.number, None) is not None:
            self._selector.unregister(flight.number)
        flight.desk.close()
        self._flying -= 1
        self._done.append(Done(flight.call, flight.started, error=error))
        self._held_up = True

    # what helpers do, and what follows from it

    def _have_help(self, flight: _Flight, work: Callable[..., Reply | None], *given: Any) -> None:
        def ring(over: "Future[Reply | None]") -> None:
            self._helped.append((flight, over))
            self._ringer.send(b"\0")

        self._helpers.submit(work, *given).add_done_callback(ring)

    def _see_to_helped(self) -> None:
        self._bell.recv(_RINGS)
        while self._helped:
            flight, over = self._helped.popleft()
            with _Fault(self, flight):
                error = over.exception()
                if error is None:
                    self._helped_on(flight, over.result())
                elif isinstance(error, ERRORS):
                    self._over(flight, error)
                else:
                    raise error

    def _helped_on(self, flight: _Flight, reply: Reply | None) -> None:
        if reply is not None:
            self._land(flight, reply)
            return
        flight.number = flight.desk.number
        self._selector.register(flight.number, selectors.EVENT_READ)
        self._flights[flight.number] = flight
        self._depart(flight)


class _Fault:
    """Keeps what breaks a call, for the thread that owns the ledger: it settles the others first, then raises it."""

    def __init__(self, underway: Underway, flight: _Flight) -> None:
        self._underway, self._flight = underway, flight

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self._underway.break_off(self._flight, error)
            return True
        return False
