"""Sending what is ready: a rolling window of calls, each intent committed before its bytes leave, each outcome settled.

The calling thread alone owns the ledger; worker threads only make calls. Owns: when which calls start, when outcomes are
committed, and that whatever ends the sending, calls under way finish and are settled.
"""

import queue
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from loadsheet.contract import BY_NAME
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.lanes import Call, build_calls
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind, classify
from loadsheet.dispatch.pace import Pace, Stop
from loadsheet.dispatch.settling import Settler
from loadsheet.ledger import Ledger, Run, Settlement, State
from loadsheet.settings import Settings

Progress = Callable[[int, int], None]

LINGER_S = 0.01  # outcomes that come so close together are committed together
NAP_S = 0.25  # the longest wait before a signal is noticed
_AHEAD = 1.5  # calls kept ready behind the running ones, per outcome of the last group: nobody idles while we commit
_AHEAD_MAX = 4  # but never more per connection: at a crash each of them is unknown without having left


@dataclass(frozen=True, slots=True)
class SendingReport:
    """What sending did: calls made, entries by what became of them, how often one came back to be sent again, and why it
    ended early, if it did (`why` is what the last call met).
    """

    calls: int
    accepted: int
    refused: int
    unknown: int
    returned: int
    stopped: Stop | None = None
    why: str = ""


def send(
    ledger: Ledger,
    client: Client,
    run: Run,
    settings: Settings,
    *,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> SendingReport:
    """Send every ready entry that may be sent, until none is left or sending has to stop. Outcomes are in the ledger.

    Raises nothing for what the exchange does: `SendingReport.stopped` says it. LedgerError goes through. SIGINT and SIGTERM end
    it too, and take their own course after calls under way have finished and been settled. `progress` hears how many entries
    are done, of how many; `clock` counts monotonic seconds.
    """
    pace = Pace(settings, clock, random.Random().random)  # noqa: S311 (spreads pauses, guards nothing)
    with _signals_noted() as noted:
        sending = _Sending(ledger, client, run, settings, pace=pace, progress=progress or _unheard, noted=noted)
        return sending.everything(sleep, clock)


def _unheard(_done: int, _total: int) -> None:
    """Nobody wants to hear of progress."""


@contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying of them, and raise the first again at the end. A second one acts at once."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, _frame: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    found = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in found.items():
            signal.signal(number, handler)
    if noted:
        signal.raise_signal(noted[0])


class _Flight(NamedTuple):
    """A call that is marked as sending, and when it was handed over."""

    call: Call
    started: float


class _Sending:
    """The state of one sending: calls in flight, and what is not committed yet."""

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        run: Run,
        settings: Settings,
        *,
        pace: Pace,
        progress: Progress,
        noted: Sequence[int],
    ) -> None:
        self._ledger, self._client, self._run, self._settings = ledger, client, run, settings
        self._pace, self._progress, self._noted = pace, progress, noted
        self._settler = Settler(ledger.history, settings.assumptions)
        self._total = ledger.history.count_in(State.READY)
        self._flying: dict[Future[Outcome | None], _Flight] = {}
        self._finished: queue.SimpleQueue[Future[Outcome | None]] = queue.SimpleQueue()
        self._held = threading.Event()  # set by the worker that meets what would hit the next call as well
        self._unsettled: list[Settlement] = []
        self._counts: Counter[State] = Counter()
        self._calls = 0
        self._ahead = 0
        self._stopped: Stop | None = None
        self._why = ""

    def everything(self, sleep: Callable[[float], None], clock: Callable[[], float]) -> SendingReport:
        """Send until nothing is ready or sending has to stop."""
        with ThreadPoolExecutor(self._settings.connections, "call") as pool:
            try:
                while self._stopped is None and not self._noted:
                    dry = self._start_calls(pool, clock)
                    if self._flying:
                        self._collect(dry=dry)
                    elif dry:
                        break
                    else:
                        sleep(min(max(self._pace.wait_s(), 0.001), NAP_S))
            finally:
                self._recall()
                while self._flying:
                    self._collect(dry=True)
                self._commit()
        counts = self._counts
        return SendingReport(
            calls=self._calls,
            accepted=counts[State.ACCEPTED],
            refused=counts[State.REFUSED],
            unknown=counts[State.UNKNOWN],
            returned=counts[State.READY],
            stopped=self._stopped,
            why=self._why,
        )

    def _start_calls(self, pool: ThreadPoolExecutor, clock: Callable[[], float]) -> bool:
        """Start as many calls as may start; whether nothing (more) is ready that could."""
        while True:
            room = self._settings.window - sum(len(flight.call.submissions) for flight in self._flying.values())
            wanted = min(self._settings.connections + self._ahead - len(self._flying), room)
            allowed = self._pace.allowed(wanted, len(self._flying)) if wanted > 0 else 0
            if allowed <= 0:
                return False
            calls = self._next_calls(allowed, room)
            self._pace.give_back(allowed - len(calls))
            if not calls:
                return True
            self._ledger.mark_sending(self._run, [(call.submissions, call.body) for call in calls])
            self._calls += len(calls)
            now = clock()
            for call in calls:
                future = pool.submit(self._make, call)
                self._flying[future] = _Flight(call, now)
                future.add_done_callback(self._finished.put)

    def _make(self, call: Call) -> Outcome | None:
        """Make one call, in a worker; None if its turn came after one that holds up all others."""
        if self._held.is_set():
            return None
        reply = self._client.call(call.operation, call.body)
        settings = self._settings
        outcome = classify(
            call.operation, call.keys, reply, settings.assumptions, wait_max_s=settings.retry_after_max_s
        )
        if _concerns_all(outcome):
            self._held.set()
        return outcome

    def _next_calls(self, allowed: int, room: int) -> list[Call]:
        ready = self._ledger.ready(allowed)
        if any(BY_NAME[submission.operation].batched for submission in ready):
            ready = self._ledger.ready(room)
        return build_calls(ready, self._settings.assumptions.status_records_max, self._settler.alone)[:allowed]

    def _collect(self, *, dry: bool) -> None:
        """Wait for outcomes and commit them, in one group if several come close together and no worker idles meanwhile."""
        group: list[Future[Outcome | None]] = []
        most = len(self._flying) if dry else len(self._flying) - self._settings.connections
        timeout = min(self._pace.wait_s(), NAP_S) or NAP_S
        try:
            group.append(self._finished.get(timeout=timeout))
            until = time.monotonic() + LINGER_S
            while len(group) < len(self._flying):
                left = until - time.monotonic() if len(group) < most else 0.0
                group.append(self._finished.get(timeout=max(left, 0.0)))
        except queue.Empty:
            pass  # what came, came
        if group:
            self._take_in(group)

    def _take_in(self, group: Sequence[Future[Outcome | None]]) -> None:
        broken: list[BaseException] = []
        for future in group:
            call, started = self._flying.pop(future)
            error = None if future.cancelled() else future.exception()
            if error is not None:
                broken.append(error)  # our own fault, not the network's: its entries stay `sending` and will be unknown
                continue
            outcome = None if future.cancelled() else future.result()
            if outcome is None:
                self._calls -= 1
                self._unsettled += self._settler.recalled(call)
            else:
                self._judge(call, started, outcome)
        least = self._settings.connections
        self._ahead = min(max(int(len(group) * _AHEAD), least), least * _AHEAD_MAX)
        self._commit()
        if broken:
            raise broken[0]

    def _judge(self, call: Call, started: float, outcome: Outcome) -> None:
        self._unsettled += self._settler.settle(call, outcome)
        stop = self._pace.note(outcome, started)
        if stop is not None and self._stopped is None:
            self._stopped, self._why = stop, outcome.reason
        if stop is not None or _concerns_all(outcome):
            self._recall()
            self._held.clear()  # from here on the pace decides, or nothing starts any more

    def _recall(self) -> None:
        """Take back what no worker has begun yet; it turns up among the finished ones."""
        for future in list(self._flying):
            future.cancel()

    def _commit(self) -> None:
        if not self._unsettled:
            return
        self._ledger.settle(self._run, self._unsettled)
        self._counts.update(settlement.state for settlement in self._unsettled)
        self._unsettled = []
        self._progress(self._counts.total() - self._counts[State.READY], self._total)


def _concerns_all(outcome: Outcome) -> bool:
    """Whether the next call would meet the same now."""
    return outcome.halts or outcome.kind in (OutcomeKind.NOT_SENT, OutcomeKind.NOT_AUTHORISED)
