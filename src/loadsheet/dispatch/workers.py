"""Threads that make calls: as many of them at work as the limit says, each with one call at a time.

Owns: the threads and the two queues between them and the thread that owns the ledger. Refuses to know what a call means and when
it may leave.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from loadsheet.dispatch.lanes import Call
from loadsheet.dispatch.outcomes import Outcome


class Done(NamedTuple):
    """A call that is over, as it was handed over: its outcome and the seconds it took; `outcome` is None for one that no worker
    began, `error` is our own fault that broke it.
    """

    call: Call
    started: float
    outcome: Outcome | None = None
    seconds: float = 0.0
    error: Exception | None = None


_Order = tuple[Call, float] | None  # a call and when it was handed over; None: one worker too many


class Workers:
    """Use them in a `with` block: at its end they finish what they began, and end. `make` makes one call, in a worker; `urgent` says
    of its outcome whether it may change what leaves next.

    All methods are for one thread.
    """

    def __init__(self, make: Callable[[Call], Outcome | None], urgent: Callable[[Outcome], bool]) -> None:
        self._make, self._urgent = make, urgent
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._done: deque[Done] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # rings when what is waited for is there
        self._awaited = 1
        self._idle: queue.SimpleQueue[bool] = (
            queue.SimpleQueue()
        )  # True wakes one of those that are too many, False ends it
        self._threads: list[threading.Thread] = []
        self._working = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in self._threads:
            self._orders.put(None)
            self._idle.put(False)  # noqa: FBT003 (a queue's value)
        for thread in self._threads:
            thread.join()

    def employ(self, limit: int) -> None:
        """From now on so many work. Those that are too many finish what they began, and what was handed over before."""
        while self._working < limit:
            if self._working < len(self._threads):
                self._idle.put(True)  # noqa: FBT003 (a queue's value)
            else:
                thread = threading.Thread(target=self._work, name=f"call-{len(self._threads) + 1}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._working += 1
        while self._working > limit:
            self._orders.put(None)
            self._working -= 1

    def hand_over(self, calls: Iterable[Call], now: float) -> None:
        """Have these calls made, one after the other as workers get free."""
        for call in calls:
            self._orders.put((call, now))

    def take_back(self) -> Iterator[Done]:
        """What no worker has begun yet."""
        too_many = 0
        with suppress(queue.Empty):
            while True:
                order = self._orders.get_nowait()
                if order is None:
                    too_many += 1
                else:
                    yield Done(*order)
        for _ in range(too_many):
            self._orders.put(None)

    def wait(self, count: int, timeout: float) -> None:
        """Wait until `count` calls are over, or one of which the next depends, for at most `timeout` seconds. Nobody is woken for
        each call: waking costs more than the call.
        """
        while not self._bell.empty():
            self._bell.get()
        self._awaited = count
        if len(self._done) < count:
            with suppress(queue.Empty):
                self._bell.get(timeout=timeout)

    def finished(self) -> list[Done]:
        """The calls that are over by now."""
        return [self._done.popleft() for _ in range(len(self._done))]

    def _work(self) -> None:
        while True:
            order = self._orders.get()
            if order is None:
                if not self._idle.get():
                    return
                continue
            outcome, began = None, time.perf_counter()
            with _Fault() as fault:
                outcome = self._make(order[0])
            self._done.append(Done(*order, outcome, time.perf_counter() - began, fault.error))
            if len(self._done) >= self._awaited or outcome is None or self._urgent(outcome):
                self._bell.put(None)


class _Fault:
    """Keeps what breaks a call, for the thread that owns the ledger: it settles the others first, then raises it."""

    error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None
