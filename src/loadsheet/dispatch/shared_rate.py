"""The rate of a cluster in one process: a lease of rate and connections, renewed twice a second by a thread.

Nothing leaves without a valid lease. The caller passes the functions that renew it. `loadsheet.ledger.shared.leases` decides how leases add
up. A lease never ends later here than there: its time counts from before the request, by a clock that also runs while the process or the
machine is suspended.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from loadsheet import run_log
from loadsheet.dispatch.rate_limiter import RateLimiter, boottime
from loadsheet.errors import LedgerError
from loadsheet.ledger.shared.leases import UNLIMITED, Lease, LeaseRequest

RENEW_S = 0.5
"""The interval between renewals of the lease."""
_SOON_S = 0.05  # after a cut lease, the others wait for our next renewal; after a short lease, we wait for theirs
_GROWTH = 4  # the factor by which concurrent calls may grow between two leases
_NO_LEASE = Lease(0, 0, 0, 0.0, 0.0, 0.0, 1.0)


class _Overload(NamedTuple):
    left_at: float
    pause_until: float
    reason: str


class SharedRate(RateLimiter):
    """The leased rate of one exchange and token, one per process, used in a `with` block. `join` returns it to one sender at a time.

    `renew` returns a lease, `report` takes an overload of the exchange (age of the call, pause, reason) there. Both are called from one
    thread and raise LedgerError while the ledger cannot be reached. Any other exception is raised again in the sender.
    """

    def __init__(
        self,
        renew: Callable[[LeaseRequest], Lease],
        report: Callable[[float, float, str], None],
        *,
        clock: Callable[[], float] = boottime,
        renew_s: float = RENEW_S,
    ) -> None:
        super().__init__(0, clock())
        self._request_lease, self._report, self._clock, self._renew_s = renew, report, clock, renew_s
        self._lock = threading.Lock()  # the sender and the renewing thread share the rest
        self._lease = _NO_LEASE
        self._until = self._paused_until = -math.inf
        self._is_joined = False
        self._requested = 1  # concurrent calls
        self._in_flight = self._most = 0  # concurrent calls now, and the maximum since the last lease
        self._departed = 0
        self._was_limited = True  # whether the sender had more calls than the rate allows
        self._asked_at = clock()
        self._overloads: deque[_Overload] = deque()
        self._wake = threading.Event()
        self._closed = self._is_unreachable = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rate-lease")
        self._renewal: Future[None] | None = None

    def __enter__(self) -> Self:
        self._renewal = self._thread.submit(self._renew_until_closed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._wake.set()
        self._thread.shutdown()

    @contextmanager
    def join(self) -> Iterator[Self]:
        """Lease the rate while a sender sends. At the end none of its calls is running."""
        with self._lock:
            self._is_joined = self._was_limited = True
            self._requested, self._in_flight, self._most = 1, 0, 0
            leased = self._clock() < self._until
        if not leased:
            self._wake.set()
        try:
            yield self
        finally:
            with self._lock:
                self._is_joined = False

    # for the sender

    def try_acquire(self, now: float) -> bool:
        """Whether a call may leave now. If so, it must leave."""
        with self._lock:
            is_shut = now >= self._until or now < self._paused_until or self._is_full
            if is_shut or not super().try_acquire(now):
                self._was_limited = True
                return False
            self._departed += 1
            self._in_flight += 1
            self._most = max(self._most, self._in_flight)
            return True

    def call_finished(self) -> None:
        """Note that a call has finished."""
        with self._lock:
            self._in_flight -= 1

    def delay_s(self, now: float) -> float:
        """Seconds until a call may leave, as far as known; 0: one may now."""
        shut_s = self._closed_s(now) or (_SOON_S if self._is_full else 0.0)
        return shut_s or super().delay_s(now)

    def capacity(self, now: float) -> int:
        """The maximum of calls that can leave soon. Raises the exception that ended the renewing thread, if any."""
        if self._renewal is not None and self._renewal.done() and not self._closed:
            self._renewal.result()
        capacity = 0 if self.capacity_delay_s(now) else super().capacity(now)
        if not capacity:
            self._was_limited = True
        return capacity

    def capacity_delay_s(self, now: float) -> float:
        """Seconds until there may be capacity; 0: the rate allows a call."""
        if not self.connections:
            return _SOON_S
        return self._closed_s(now) or super().capacity_delay_s(now)

    @property
    def connections(self) -> int:
        """The maximum of concurrent calls: the leased connections."""
        return self._lease.connections

    def request_connections(self, connections: int) -> None:
        """Ask for this number of concurrent calls."""
        self._requested = connections

    def report_overload(self, age_s: float, pause_s: float, reason: str) -> None:
        """Report an overload of the exchange by a call that left `age_s` ago: pauses at once here, and soon everywhere."""
        now = self._clock()
        with self._lock:
            self._paused_until = max(self._paused_until, now + pause_s)
        self._overloads.append(_Overload(now - age_s, now + pause_s, reason))
        self._wake.set()

    @property
    def _is_full(self) -> bool:
        return self._in_flight >= self._lease.connections

    def _closed_s(self, now: float) -> float:
        """Seconds for which no call can leave at any rate, as far as known: a pause, or no lease."""
        pause_s = max(0.0, self._paused_until - now)
        return pause_s if pause_s or now < self._until else _SOON_S

    # the renewing thread

    def _renew_until_closed(self) -> None:
        while not self._closed:
            self._wake.wait(self._step())
            self._wake.clear()
        self._give_back()

    def _step(self) -> float | None:
        """Report overloads and renew the lease. Returns seconds until the next step (None: until a sender joins)."""
        try:
            while self._overloads:
                overload, now = self._overloads[0], self._clock()
                self._report(now - overload.left_at, max(0.0, overload.pause_until - now), overload.reason)
                self._overloads.popleft()
            if not self._is_joined:
                return None if self._give_back() else self._renew_s
            before = self._lease
            self._renew()
        except LedgerError as error:
            if not self._is_unreachable:
                run_log.warning("sending pauses: the shared rate cannot be read", reason=str(error))
            self._is_unreachable = True
            return self._renew_s
        if self._is_unreachable:
            run_log.info("sending resumes: the shared rate is available again")
        self._is_unreachable = False
        lease = self._lease
        if lease.per_second < before.per_second or lease.connections < before.connections:
            return _SOON_S
        return 2 * _SOON_S if lease.short else self._renew_s

    def _renew(self) -> None:
        asked_at = self._clock()
        with self._lock:
            departed, self._departed = self._departed, 0
            held_up, self._was_limited = self._was_limited, False
            most, self._most = self._most, self._in_flight
            using = self._in_flight
        passed = max(asked_at - self._asked_at, 0.001)
        was_paused = self._paused_until > self._asked_at  # then recent use is not representative
        per_second = UNLIMITED if held_up or was_paused else math.ceil(departed / passed * 1.5) + 2
        connections = _GROWTH * (self._requested if was_paused else min(self._requested, most + 2))  # some to grow
        lease = self._request_lease(LeaseRequest(per_second, max(connections, 1), using, self._lease.number))
        self._asked_at = asked_at
        self._apply(lease, asked_at)

    def _apply(self, lease: Lease, asked_at: float) -> None:
        now = self._clock()
        with self._lock:
            if lease.per_second:
                self.set_rate(lease.per_second, now, from_scratch=now >= self._until)
            self._until = asked_at + lease.lasts_s if lease.per_second else -math.inf
            if lease.paused_s:
                self._paused_until = max(self._paused_until, now + lease.paused_s)
            self._lease = lease

    def _give_back(self) -> bool:
        """Return the lease. Returns whether the ledger was informed."""
        with self._lock:
            if self._is_joined and not self._closed:
                return False
            number, self._lease, self._until = self._lease.number, _NO_LEASE, -math.inf
        if not number:
            return True
        try:
            self._request_lease(LeaseRequest(0, 0, 0, number))
        except LedgerError:
            return False  # it expires on its own
        return True
