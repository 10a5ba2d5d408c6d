"""The pace of a fleet as one process has it: a lease of rate and connections, asked for anew twice a second by a thread of its own.

Owns: that nothing leaves without a lease that holds, and how all who send in this process share it. Where leases come from is passed
in; what they add up to is the ledger's rule (`loadsheet.ledger.shared.leases`). A lease ends here no later than there: its time counts
from before it was asked for, by a clock that goes on while the process or the machine stands still.
"""

import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

from loadsheet import run_log
from loadsheet.dispatch.concurrency import Concurrency
from loadsheet.dispatch.rate_limiter import RateLimiter, boottime
from loadsheet.ledger.shared.leases import UNLIMITED, Ask, Lease
from loadsheet.problems import LedgerError

RENEW_S = 0.5
"""How often a lease is asked for."""
_SOON_S = 0.05  # after less was given than before, the others wait to hear that we know; while they have, we do
_GROWS = 4  # between two leases as many times as many calls may get under way
_NONE = Lease(0, 0, 0, 0.0, 0.0, 0.0, 1.0)


class _Protest(NamedTuple):
    left_at: float
    pause_until: float
    reason: str


class SharedRate:
    """Use it in a `with` block, one for each exchange and token of a process; `join` gives whoever sends a limiter of his own.

    `renew` gets a lease, `setback` tells of a protest of the exchange (age of the call, pause, reason): both are called from one thread, and
    raise LedgerError while nobody can be asked. Anything else that they raise comes out where somebody sends.
    """

    def __init__(
        self,
        renew: Callable[[Ask], Lease],
        setback: Callable[[float, float, str], None],
        *,
        clock: Callable[[], float] = boottime,
        renew_s: float = RENEW_S,
    ) -> None:
        self._ask_for, self._setback, self._clock, self._renew_s = renew, setback, clock, renew_s
        self._lock = threading.Lock()  # around the limiter, which all who send here share
        self._limiter = RateLimiter(0, clock())
        self._lease = _NONE
        self._until = self._paused_until = -math.inf
        self._members: tuple[RateMember, ...] = ()
        self._departed, self._held_up = 0, True
        self._asked_at = clock()
        self._concurrency: Concurrency | None = None
        self._protests: deque[_Protest] = deque()
        self._wake = threading.Event()
        self._closed = self._mute = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pace")
        self._kept: Future[None] | None = None

    def __enter__(self) -> Self:
        self._kept = self._thread.submit(self._keep)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._wake.set()
        self._thread.shutdown()

    def join(self) -> "RateMember":
        """A limiter for somebody who sends, to be used in a `with` block: at its end none of his calls is under way."""
        member = RateMember(self)
        with self._lock:
            self._members += (member,)
            self._held_up = True
            leased = self._clock() < self._until
        if not leased:
            self._wake.set()
        return member

    # what members ask

    def drop(self, member: "RateMember") -> None:
        """A member has left."""
        with self._lock:
            self._members = tuple(one for one in self._members if one is not member)

    def take(self, now: float, member: "RateMember") -> bool:
        """Whether a call of this member may leave now; then it has to."""
        with self._lock:
            is_shut = now >= self._until or now < self._paused_until or self.is_full
            if is_shut or not self._limiter.take(now):
                self._held_up = True
                return False
            self._departed += 1
            member.under_way += 1
            return True

    @property
    def is_full(self) -> bool:
        """Whether calls are under way on all connections that are leased, or as many as the process's limit says: a member may still use
        those that are now another's part.
        """
        limit = self._lease.connections
        if self._concurrency is not None:
            limit = min(limit, self._concurrency.limit)
        return sum(member.under_way for member in self._members) >= limit

    def concurrency(self, make: Callable[[], Concurrency]) -> Concurrency:
        """The one concurrency limit of all who send here, also of those who come later."""
        with self._lock:
            if self._concurrency is None:
                self._concurrency = make()
            return self._concurrency

    def shut_for(self, now: float) -> float:
        """Seconds for which nothing leaves whatever the rate, as far as anybody knows: a pause, or no lease."""
        pause_s = max(0.0, self._paused_until - now)
        return pause_s if pause_s or now < self._until else _SOON_S

    def rate(self) -> RateLimiter:
        """The rate that is leased."""
        return self._limiter

    def want_more(self) -> None:
        """Somebody has calls for which there is no room."""
        self._held_up = True

    def connections_of(self, member: "RateMember") -> int:
        """The member's part of the connections that are leased."""
        return self.share_of(member, self._lease.connections)

    def share_of(self, member: "RateMember", calls: int) -> int:
        """The member's part of so many calls at the same time."""
        members = self._members
        if member not in members:
            return 0
        least, more = divmod(calls, len(members))
        return least + (members.index(member) < more)

    def protest(self, age_s: float, pause_s: float, reason: str) -> None:
        """The exchange protested against a call that left so long ago: it holds at once here, and soon for all."""
        now = self._clock()
        with self._lock:
            self._paused_until = max(self._paused_until, now + pause_s)
        self._protests.append(_Protest(now - age_s, now + pause_s, reason))
        self._wake.set()

    def check(self) -> None:
        """Raise what ended the thread that renews, if it has ended."""
        if self._kept is not None and self._kept.done() and not self._closed:
            self._kept.result()

    # the thread that renews

    def _keep(self) -> None:
        while not self._closed:
            self._wake.wait(self._attend())
            self._wake.clear()
        self._give_back()

    def _attend(self) -> float | None:
        """Tell what is to be told and ask for a lease; how long that is good for (None: until somebody sends)."""
        try:
            while self._protests:
                protest, now = self._protests[0], self._clock()
                self._setback(now - protest.left_at, max(0.0, protest.pause_until - now), protest.reason)
                self._protests.popleft()
            if not self._members:
                return None if self._give_back() else self._renew_s
            before = self._lease
            self._renew()
        except LedgerError as error:
            if not self._mute:
                run_log.warning("nothing leaves, the pace of the fleet cannot be asked for", reason=str(error))
            self._mute = True
            return self._renew_s
        if self._mute:
            run_log.info("calls go on, the pace of the fleet is known again")
        self._mute = False
        lease = self._lease
        if lease.per_second < before.per_second or lease.connections < before.connections:
            return _SOON_S
        return 2 * _SOON_S if lease.short else self._renew_s

    def _renew(self) -> None:
        asked_at = self._clock()
        with self._lock:
            departed, self._departed = self._departed, 0
            held_up, self._held_up = self._held_up, False
            members = self._members
        passed = max(asked_at - self._asked_at, 0.001)
        was_paused = self._paused_until > self._asked_at  # what was used of late tells nothing then
        per_second = UNLIMITED if held_up or was_paused else math.ceil(departed / passed * 1.5) + 2
        wishes = sum(member.wishes(was_paused=was_paused) for member in members)
        using = sum(member.under_way for member in members)
        lease = self._ask_for(Ask(per_second, max(wishes, 1), using, self._lease.number))
        self._asked_at = asked_at
        self._use(lease, asked_at)

    def _use(self, lease: Lease, asked_at: float) -> None:
        now = self._clock()
        with self._lock:
            if lease.per_second:
                self._limiter.change(lease.per_second, now, anew=now >= self._until)
            self._until = asked_at + lease.lasts_s if lease.per_second else -math.inf
            if lease.paused_s:
                self._paused_until = max(self._paused_until, now + lease.paused_s)
            self._lease = lease

    def _give_back(self) -> bool:
        """Have no lease any more; whether that is known to all."""
        with self._lock:
            if self._members and not self._closed:
                return False
            number, self._lease, self._until = self._lease.number, _NONE, -math.inf
        if not number:
            return True
        try:
            self._ask_for(Ask(0, 0, 0, number))
        except LedgerError:
            return False  # it runs out by itself
        return True


class RateMember(RateLimiter):
    """The limiter of one who sends, of those in this process who share its lease."""

    def __init__(self, fleet: SharedRate) -> None:
        super().__init__(0, 0.0)
        self._fleet = fleet
        self._wish = 1
        self._most = 0  # calls under way at the same time, since the last lease
        self.under_way = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fleet.drop(self)

    def take(self, now: float) -> bool:
        """Whether a call may leave now; then it has to."""
        if not self._fleet.take(now, self):
            return False
        self._most = max(self._most, self.under_way)
        return True

    def landed(self) -> None:
        """A call that left is over."""
        self.under_way -= 1

    def opens_in(self, now: float) -> float:
        """Seconds until a call may leave, as far as anybody knows; 0: one may now."""
        shut_s = self._fleet.shut_for(now) or (_SOON_S if self._fleet.is_full else 0.0)
        return shut_s or self._fleet.rate().opens_in(now)

    def room(self, now: float) -> int:
        """How many calls can leave soon, at most."""
        self._fleet.check()
        room = 0 if self.room_in(now) else self._fleet.rate().room(now)
        if not room:
            self._fleet.want_more()
        return room

    def room_in(self, now: float) -> float:
        """Seconds until there may be room; 0: there is, as far as the rate goes."""
        if not self.connections:
            return _SOON_S
        return self._fleet.shut_for(now) or self._fleet.rate().room_in(now)

    @property
    def connections(self) -> int:
        """How many calls may be under way at the same time."""
        return self._fleet.connections_of(self)

    def concurrency(self, make: Callable[[], Concurrency]) -> Concurrency:
        """The concurrency limit of this process at this exchange; it is made if there is none yet."""
        return self._fleet.concurrency(make)

    def share(self, limit: int) -> int:
        """How many of so many calls, which this process may have under way, this member may have: one at least, so that none has to wait for
        another's end. Together they have no more under way than the limit all the same.
        """
        return max(1, self._fleet.share_of(self, limit))

    def wish(self, connections: int) -> None:
        """So many calls could be under way at the same time, if they may."""
        self._wish = connections

    def wishes(self, *, was_paused: bool) -> int:
        """What to ask for: room to grow, unless what there was went unused."""
        most, self._most = self._most, self.under_way
        return _GROWS * (self._wish if was_paused else min(self._wish, most + 2))

    def protest(self, age_s: float, pause_s: float, reason: str) -> None:
        """The exchange protested against a call that left so long ago."""
        self._fleet.protest(age_s, pause_s, reason)
