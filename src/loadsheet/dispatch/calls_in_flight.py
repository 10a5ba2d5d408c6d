"""Calls under way: as many at the same time as the limit says, each on a connection of its own, all watched by the thread that waits.

Owns: which connection a call travels on, and what is waited for. While the caller does something else (a commit, say) answers gather
in their connections and nothing new leaves. What may take long in one place, a connection being made or a token being asked for, is
done by helpers, so that it holds up no other call. A call leaves only through the gate, which is asked right before its first byte, and
only while its intent is fresh: one that is too old comes back as recalled. Refuses to know what a call means.
"""

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

from loadsheet.dispatch.batching import Call
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.outcomes import Outcome, Reply
from loadsheet.dispatch.rate_limiter import SELF_CHECK_S, RateLimiter, boottime
from loadsheet.dispatch.transport import ERRORS, CallConnection
from loadsheet.dispatch.wire import Poll, next_poll

HELPERS = 16
_UNAUTHORISED = 401
_RINGS = 4096


class Done(NamedTuple):
    """A call that is over, as it was handed over: its outcome, the seconds it took, our own delays included, and those on the wire alone
    (`wire_s`; None: unknown); or `error`, our own fault that broke it; or neither, if it was taken back before it left. `in_full`: as many calls as
    may be were under way with it.
    """

    call: Call
    started: float
    outcome: Outcome | None = None
    seconds: float = 0.0
    error: Exception | None = None
    in_full: bool = False
    wire_s: float | None = None

    @property
    def recalled(self) -> bool:
        """Whether it never left."""
        return self.outcome is None and self.error is None


class _Turn(NamedTuple):
    """A call that waits for its turn: since when, when its intent was recorded (by the clock of departures), and whether its token was
    refused before.
    """

    call: Call
    started: float
    intended: float
    again: bool = False


class _Flight:
    """A call on its way: where, since when, and the file number of its connection (-1: there is none yet). `refused` is the answer that
    another token is asked for.
    """

    __slots__ = ("began", "desk", "has_begun", "has_left", "has_waited", "number", "refused", "turn")

    def __init__(self, turn: _Turn, desk: CallConnection, number: int) -> None:
        self.turn, self.desk, self.number = turn, desk, number
        self.began = time.perf_counter()
        self.has_begun = self.has_waited = self.has_left = False
        self.refused: Reply | None = None


class CallsInFlight:
    """Use it in a `with` block: at its end all that began is over. `judge` says what became of a call; `urgent` says of its outcome whether
    it may change what leaves next: then nothing more leaves until the caller has taken it in.

    All methods are for one thread.
    """

    def __init__(
        self,
        client: Client,
        judge: Callable[[Call, Reply], Outcome],
        urgent: Callable[[Outcome], bool],
        gate: RateLimiter,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.soon_taken_over_s: float | None = None  # no call leaves later after its intent; None: SELF_CHECK_S
        self._client, self._judge, self._urgent, self._gate, self._clock = client, judge, urgent, gate, clock
        self._turns: deque[_Turn] = deque()
        self._poised: deque[_Flight] = deque()  # connected, and before the gate
        self._done: list[Done] = []
        self._limit = self._flying = 0
        self._held_up = False
        self._poll = Poll(time.perf_counter(), 0.0)  # the last one at all connections
        self._idle: list[tuple[CallConnection, int]] = []  # connected, the one that was used last at the end
        self._flights: dict[int, _Flight] = {}  # by the file number of their connection
        self._selector = selectors.DefaultSelector()
        self._bell, self._ringer = socket.socketpair()
        self._bell.settimeout(0)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._helpers = ThreadPoolExecutor(HELPERS, thread_name_prefix="calls")
        self._helped: deque[tuple[_Flight, Future[bool | None]]] = deque()

    @property
    def _leaves_within_s(self) -> float:
        return SELF_CHECK_S if self.soon_taken_over_s is None else self.soon_taken_over_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._held_up = True  # nothing more leaves
            while self._flying:
                self._recall_poised()
                if self._flying:
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

    @property
    def waiting(self) -> int:
        """How many calls have not left yet."""
        return len(self._turns) + len(self._poised)

    def employ(self, limit: int) -> None:
        """From now on so many calls may be under way. Those that are too many finish."""
        self._limit = limit

    def hand_over(self, calls: Iterable[Call], now: float, intended: float) -> None:
        """Have these calls made, one after the other as limit and gate allow. Their intent was recorded after `intended`, a moment of the
        clock of departures.
        """
        self._turns.extend(_Turn(call, now, intended) for call in calls)
        self._begin()

    def take_back(self) -> Iterator[Done]:
        """What has not left yet."""
        self._recall_poised()
        while self._turns:
            turn = self._turns.popleft()
            yield Done(turn.call, turn.started)
        recalled = [done for done in self._done if done.recalled]
        self._done = [done for done in self._done if not done.recalled]
        yield from recalled

    def wait(self, count: int, timeout: float) -> None:
        """Wait until `count` calls are over, or one of which the next depends, for at most `timeout` seconds."""
        until = time.monotonic() + timeout
        self._recall_old()
        self._begin()
        while len(self._done) < count and not self._held_up:
            left = until - time.monotonic()
            if left <= 0:
                return
            if self._poised:
                left = min(left, self._gate.opens_in(self._clock()))
            self._watch(left)

    def finished(self) -> list[Done]:
        """The calls that are over by now."""
        done, self._done, self._held_up = self._done, [], False
        return done

    def _begin(self) -> None:
        """Have as many calls leave as may."""
        while not self._held_up:
            if self._poised:
                if not self._leave(self._poised[0]):
                    return
                continue
            if not self._turns or self._flying >= self._limit:
                return
            flight = _Flight(self._turns.popleft(), *self._connected())
            self._flying += 1
            if flight.number >= 0:
                self._flights[flight.number] = flight
                self._poised.append(flight)
                continue
            with _Fault(self, flight):
                self._begin_at(flight)
                self._have_help(flight, flight.desk.connect)

    def _begin_at(self, flight: _Flight) -> None:
        flight.has_begun = True
        self._client.begin(flight.desk, flight.turn.call.operation, flight.turn.call.body)

    def _leave(self, flight: _Flight) -> bool:
        """Have the first call before the gate leave, if it may; whether it is not there any more."""
        now = self._clock()
        if now - flight.turn.intended > self._leaves_within_s:
            self._recall(self._poised.popleft())
            return True
        if flight.has_waited and not self._gate.opens_in(now) and not flight.desk.is_connected:
            self._lose(flight)
            return True
        if not self._gate.take(now):
            self._have_wait(flight)
            return False
        self._poised.popleft()
        flight.has_left = True
        with _Fault(self, flight):
            if not flight.has_begun:
                flight.began = time.perf_counter()
                self._begin_at(flight)
            self._depart(flight)
        return True

    def _have_wait(self, flight: _Flight) -> None:
        """What a call waits for at the gate is no time that it takes."""
        flight.has_waited = True
        if flight.has_begun:
            flight.has_begun = False
            flight.desk.forget()

    def _recall_old(self) -> None:
        """Take back what waited for so long that its intent is too old, or will be when the gate opens."""
        if not self._turns and not self._poised:
            return
        now = self._clock()
        oldest = now - self._leaves_within_s + (self._gate.opens_in(now) if self._poised else 0.0)
        while self._poised and self._poised[0].turn.intended < oldest:
            self._recall(self._poised.popleft())
        while self._turns and self._turns[0].intended < oldest:
            turn = self._turns.popleft()
            self._done.append(Done(turn.call, turn.started))

    def _recall_poised(self) -> None:
        while self._poised:
            self._recall(self._poised.popleft())

    def _recall(self, flight: _Flight) -> None:
        """The call has not left, and does not any more; its connection stays."""
        self._flying -= 1
        del self._flights[flight.number]
        if flight.has_begun:
            flight.desk.forget()
        self._idle.append((flight.desk, flight.number))
        self._done.append(Done(flight.turn.call, flight.turn.started))

    def _lose(self, flight: _Flight) -> None:
        """The connection of a call before the gate is of no use any more: its turn comes again, on another one."""
        self._poised.remove(flight)
        self._flying -= 1
        del self._flights[flight.number]
        self._selector.unregister(flight.number)
        self._client.take_back(flight.desk)
        self._turns.appendleft(flight.turn)

    def _connected(self) -> tuple[CallConnection, int]:
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
        began = time.perf_counter()
        happened = self._selector.select(timeout)
        self._poll = next_poll(self._poll, began, time.perf_counter())
        if not happened:
            self._begin()  # the gate may be open now
        for key, events in happened:
            if key.fileobj is self._bell:
                self._see_to_helped()
                self._begin()
                continue
            flight = self._flights.get(key.fd)
            if flight is None:
                self._drop_idle(key.fd)
                continue
            if not flight.has_left:
                self._lose(flight)
                self._begin()
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
        self._landed(flight)
        if number >= 0:
            self._idle.append((desk, number))
        else:
            self._client.take_back(desk)
        if reply.status == _UNAUTHORISED and self._client.may_renew and not flight.turn.again:
            flight.number, flight.refused = -1, reply
            self._have_help(flight, self._client.renewed, desk.token)
        else:
            self._land(flight, reply)

    def _landed(self, flight: _Flight) -> None:
        if flight.has_left:
            flight.has_left = False
            self._gate.landed()

    def _land(self, flight: _Flight, reply: Reply) -> None:
        turn, in_full = flight.turn, self._flying - len(self._poised) >= self._limit
        outcome = self._judge(turn.call, reply)
        self._flying -= 1
        took, wire_s = max(0.0, self._poll.ended - flight.began), flight.desk.wire_s(self._poll)
        self._done.append(Done(turn.call, turn.started, outcome, took, in_full=in_full, wire_s=wire_s))
        self._held_up = self._held_up or self._urgent(outcome)

    def break_off(self, flight: _Flight, error: Exception) -> None:
        """A call that broke by our own fault: what became of it nobody knows, and its connection is of no use."""
        if self._flights.pop(flight.number, None) is not None:
            self._selector.unregister(flight.number)
        flight.desk.close()
        self._landed(flight)
        self._flying -= 1
        self._done.append(Done(flight.turn.call, flight.turn.started, error=error))
        self._held_up = True

    # what helpers do, and what follows from it

    def _have_help(self, flight: _Flight, work: Callable[..., bool | None], *given: Any) -> None:
        def ring(over: "Future[bool | None]") -> None:
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
                    self._helped_on(flight, renewed=over.result())
                elif isinstance(error, ERRORS):
                    self._over(flight, error)
                else:
                    raise error

    def _helped_on(self, flight: _Flight, *, renewed: bool | None) -> None:
        """There is a connection now; or, where a token was refused, another token, or none."""
        if flight.refused is None:
            flight.number = flight.desk.number
            self._selector.register(flight.number, selectors.EVENT_READ)
            self._flights[flight.number] = flight
            self._poised.append(flight)
        elif renewed:
            self._flying -= 1
            self._turns.appendleft(flight.turn._replace(again=True))
        else:
            self._land(flight, flight.refused)


class _Fault:
    """Keeps what breaks a call, for the thread that owns the ledger: it settles the others first, then raises it."""

    def __init__(self, underway: CallsInFlight, flight: _Flight) -> None:
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
