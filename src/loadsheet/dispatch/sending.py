"""Sends ready entries with a window of concurrent calls. Commits each intent before its bytes leave and settles each outcome.

One thread alternates: it records outcomes and the next intents in one transaction, then waits for calls. When sending
ends for any reason, running calls finish and are settled. After a kill or power cut, the calls in flight are unknown, and
so are those whose intent was committed ahead: at most half the number of connections, or 16 if that is more. Together
they never exceed `dispatch.window` entries.
"""

import random
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from loadsheet.contract import BY_NAME, CREATES, QUOTE_DECISIONS
from loadsheet.dispatch.calls_in_flight import Call, CallsInFlight, FinishedCall, build_calls
from loadsheet.dispatch.circuit_breaker import CallLog, CircuitBreaker, LastLimit, StopReason
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind, Reply, classify
from loadsheet.dispatch.rate_limiter import INTENT_VALID_S, boottime
from loadsheet.dispatch.settlement import Canary, Settler
from loadsheet.dispatch.unknown_rules import UnknownTimer
from loadsheet.errors import LedgerGone, Superseded
from loadsheet.internal_errors import stop_signals
from loadsheet.ledger import Ledger, Run, Settlement, State, Submission
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.dispatch.shared_rate import SharedRate

Progress = Callable[[int, int], None]

RECENT_S = 60.0  # the time span of the recent rate
GROUP_COMMIT_S = 0.02  # outcomes within this time share a commit; short compared with a call
LONGEST_PAUSE_S = 2.0  # between two attempts to connect to the ledger
WAIT_MAX_S = 0.25  # the longest wait before a signal is noticed
_AHEAD = 1.5  # intents committed ahead per outcome of the last group, so that no connection idles until the next group
_AHEAD_SHARE = 2  # at most one per this many connections: at 50 ms a call, more would not speed up sending
_AHEAD_FEW = 16  # allowed with few connections too, where calls are so fast that many end together


@dataclass(frozen=True, slots=True)
class SendingReport:
    """The result of sending: calls made, entries per outcome, and why it stopped early, if it did (`why`: the reason of the last call).

    `returned` counts entries that became ready again, `held` those held by the canary. `connections` is the last stable concurrency
    limit, `per_second` the recent rate of finished entries. `interrupted`: a signal ended it. `limited`: it reached `most` and left others ready.
    """

    calls: int
    accepted: int
    refused: int
    unknown: int
    returned: int
    stopped: StopReason | None
    why: str
    held: int
    connections: int
    per_second: float
    interrupted: bool
    limited: bool

    @property
    def ended_early(self) -> bool:
        """Whether the rest waits for the next run: a limit or a signal ended it, also if the process survived the signal."""
        return self.limited or self.interrupted


class Dispatcher(NamedTuple):
    """The means to send: a client of the exchange, the rate shared with other processes (None: no sharing), and the signals received
    so far (None: the sender installs handlers itself).
    """

    client: Client
    shared_rate: "SharedRate | None" = None
    stopping: Sequence[int] | None = None


class RunContext(NamedTuple):
    """The values that the stages of one run share. `timer` measures how long outcomes have been unknown; `updating` names the mappings whose
    changed records go out as updates.
    """

    settings: Settings
    ledger: Ledger
    run: Run
    dispatcher: Dispatcher
    timer: UnknownTimer
    updating: tuple[str, ...] = ()

    @property
    def client(self) -> Client:
        """The client of the exchange."""
        return self.dispatcher.client


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Options of one sending. `most` limits the entries that it sends. `progress` gets the number of finished entries and the total.
    A caller that handles signals itself passes `stopping`, a sequence to which they are appended. `shared_rate` is the rate that all
    senders share. `clock` returns monotonic seconds.
    """

    most: int | None = None
    progress: Progress | None = None
    stopping: Sequence[int] | None = None
    shared_rate: "SharedRate | None" = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


_DEFAULT = SendOptions()


def send(
    ledger: Ledger, client: Client, run: Run, settings: Settings, options: SendOptions = _DEFAULT
) -> SendingReport:
    """Send every ready entry that may be sent, until none is left or sending has to stop. Outcomes are in the ledger.

    Raises nothing for exchange failures (see `SendingReport.stopped`). Raises LedgerError. The signals that ask to
    stop end sending; they are raised again once running calls are settled.

    While the ledger's server cannot be reached, nothing leaves; outcomes are recorded when it is back. If another process
    takes the ledger over, the outcomes of sent calls are recorded as late, and Superseded is raised.
    """
    limiter = nullcontext(None) if options.shared_rate is None else options.shared_rate.join()
    caught = _caught_signals() if options.stopping is None else nullcontext(options.stopping)
    with caught as signals, limiter as joined:
        breaker = CircuitBreaker(settings, options.clock, random.Random().random, joined)  # noqa: S311 (spreads pauses, guards nothing)
        last = LastLimit(ledger, settings.exchange.rstrip("/"))
        breaker.resume(last.read())
        report = _Sending(ledger, client, run, settings, breaker).run(options, signals)
        last.keep(breaker.stable_limit, report.per_second)
        return report


def _no_progress(_done: int, _total: int) -> None:
    """Ignore progress."""


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """Collect the signals that ask to stop and raise the first again at the end. A second one raises KeyboardInterrupt."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def note(number: int, _frame: object) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    handlers = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if signals:
        signal.raise_signal(signals[0])


class Rate:
    """The rate of finished entries."""

    def __init__(self, now: float) -> None:
        self._seen = deque([(now, 0)])

    def note(self, done: int, now: float) -> None:
        """Add a measurement: the number of finished entries."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RECENT_S:
            self._seen.popleft()

    def per_second(self, now: float) -> float:
        """Recent entries per second."""
        began, before = self._seen[0]
        return (self._seen[-1][1] - before) / (now - began) if now > began else 0.0


class _Sending:
    """The state of one `send`: calls in flight, and outcomes not committed yet."""

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        run: Run,
        settings: Settings,
        breaker: CircuitBreaker,
    ) -> None:
        self._ledger, self._run, self._settings, self._breaker = ledger, run, settings, breaker
        self._progress: Progress = _no_progress
        self._signals: Sequence[int] = ()
        self._clock = breaker.clock
        self._call_log = CallLog(breaker)
        self._settler = Settler(ledger.queries, settings)
        self._canary = Canary(ledger.queries, settings.dispatch.canary)
        self._intent_at = 0.0  # `boottime` before the last intents were recorded
        self._total = ledger.queries.count_in(State.READY)
        self._outstanding = ledger.queries.count_unanswered()
        self._calls_in_flight = CallsInFlight(client, self._outcome, _is_urgent, breaker.limiter)
        if ledger.is_shared and settings.cluster.takeover_s / 2 < INTENT_VALID_S:
            self._calls_in_flight.intent_valid_s = settings.cluster.takeover_s / 2
        self._rate = Rate(self._clock())
        self._in_flight = self._entries_in_flight = 0
        self._entries_left = sys.maxsize  # entries that may still be sent; an unsent one counts again
        self._unprocessed: deque[FinishedCall] = deque()  # finished calls
        self._unsettled: list[Settlement] = []
        self._is_commit_uncertain = False  # the connection broke during the last commit
        self._counts: Counter[State] = Counter()
        self._calls = 0
        self._ahead = 0
        self._decisions_wait = True
        self._stopped: StopReason | None = None
        self._superseded = False
        self._ids_in_flight: set[int] = set()  # entries of the calls in flight
        self._why = ""

    def run(self, options: SendOptions, signals: Sequence[int]) -> SendingReport:
        """Send until nothing is ready, `most` entries are sent, a signal is noted, or sending has to stop."""
        self._signals, self._progress = signals, options.progress or _no_progress
        self._entries_left = sys.maxsize if options.most is None else options.most
        with self._calls_in_flight:
            try:
                while self._is_running:
                    is_empty = self._start_calls()
                    if self._in_flight:
                        self._collect(is_empty=is_empty)
                    elif is_empty:
                        break
                    else:
                        options.sleep(min(max(self._breaker.wait_s(), 0.001), WAIT_MAX_S))
            finally:
                self._recall()
                self._commit()
                while self._in_flight:
                    self._collect(is_empty=True)
                    self._commit()
        self._call_log.close()
        if self._superseded:
            raise Superseded(
                "another process has taken over this ledger; outcomes of sent calls are recorded, nothing more was sent"
            )
        if self._is_running and self._creates_blocked and self._ledger.ready(1):
            self._stopped, self._why = StopReason.OUTSTANDING, f"{self._outstanding} are unknown"
        return self._report()

    @property
    def _is_running(self) -> bool:
        return self._stopped is None and not self._signals and not self._superseded

    def _report(self) -> SendingReport:
        counts, left = self._counts, self._ledger.queries.count_in(State.READY)
        return SendingReport(
            calls=self._calls,
            accepted=counts[State.ACCEPTED],
            refused=counts[State.REFUSED],
            unknown=counts[State.UNKNOWN],
            returned=counts[State.READY],
            stopped=self._stopped,
            why=self._why,
            held=counts[State.HELD],
            connections=self._breaker.limit,
            per_second=self._rate.per_second(self._clock()),
            interrupted=bool(self._signals),
            limited=not self._entries_left and left > 0,
        )

    def _start_calls(self) -> bool:
        """Commit outcomes and start as many calls as may start, in one transaction. Returns whether nothing more is ready."""
        while True:
            if self._canary.on_trial or any(one.state is State.READY for one in self._unsettled):
                self._commit()  # the next calls depend on it
            try:
                with self._ledger.one_transaction():
                    if self._unsettled:
                        self._ledger.settle(self._run, self._unsettled)
                    calls, is_empty = self._mark_next()
            except LedgerGone as gone:
                self._reconnect(gone)
                continue
            except Superseded:
                self._superseded = True
                self._recall()
                return True
            self._after_commit()
            if not calls:
                return is_empty
            self._submit(calls)

    def _mark_next(self) -> tuple[list[Call], bool]:
        """Mark the next calls as sending. Returns them; if there are none, also whether nothing is ready."""
        if not self._entries_left:
            return [], True
        room = min(self._settings.dispatch.window - self._entries_in_flight, self._entries_left)
        wanted = min(self._breaker.limit + self._ahead - self._in_flight, room)
        allowed = self._breaker.allowed_calls(wanted, self._in_flight, self._calls_in_flight.waiting)
        if allowed <= 0:
            if not self._in_flight:
                self._ledger.ready(1)  # otherwise nobody would notice that the ledger is gone
            return [], False
        calls = self._next_calls(allowed, room)
        if calls:
            self._intent_at = boottime()
            self._ledger.mark_sending(self._run, [(call.submissions, call.body) for call in calls])
        return calls, not calls

    def _submit(self, calls: Sequence[Call]) -> None:
        """Submit calls whose intent is durable."""
        leaving = sum(len(call.submissions) for call in calls)
        self._canary.started(calls)
        self._calls += len(calls)
        self._in_flight += len(calls)
        self._entries_in_flight += leaving
        self._entries_left -= leaving
        self._ids_in_flight.update(entry.id for call in calls for entry in call.submissions)
        self._calls_in_flight.set_limit(self._breaker.limit)
        self._calls_in_flight.submit(calls, self._clock(), self._intent_at)

    def _outcome(self, call: Call, reply: Reply) -> Outcome:
        assumptions, most = self._settings.assumptions, self._settings.dispatch.retry_after_max_s
        return classify(call.operation, call.keys, reply, assumptions, wait_max_s=most)

    def _next_calls(self, allowed: int, room: int) -> list[Call]:
        ready = self._ready(allowed)
        if any(BY_NAME[submission.operation].batched for submission in ready):
            ready = self._ready(room)
            self._settler.isolate_doubtful(ready)
        apart = {drop for drop, _ in self._canary.on_trial}
        limits, assumed = self._settler.batch_limits, self._settings.assumptions
        calls = build_calls(ready, assumed.status_records_max, limits, apart, assumed.body_bytes_max)
        return calls[:allowed]

    def _ready(self, limit: int) -> list[Submission]:
        """The oldest entries that may leave, decisions on quotes after everything else: they depend on quotes that still wait for tenders."""
        if self._decisions_wait:
            if (others := self._oldest(limit, QUOTE_DECISIONS)) or self._in_flight:
                return others
            self._decisions_wait = False
        return self._oldest(limit)

    def _oldest(self, limit: int, left_out: Collection[str] = ()) -> list[Submission]:
        """The oldest entries that may leave, but for these operations: as many as allowed of those on trial, and all others."""
        waiting, trials = {*left_out, *(CREATES if self._creates_blocked else ())}, self._canary.on_trial
        tried = [
            submission
            for part, entries_left in self._canary.entries_to_try()
            if part[1] not in waiting
            for submission in self._ledger.ready_of(
                part, min(entries_left, limit), parts_out=trials, operations_out=waiting
            )
        ]
        others = self._ledger.ready(limit, parts_out=trials, operations_out=waiting)
        return sorted([*tried, *others], key=lambda submission: submission.id)[:limit] if tried else others

    @property
    def _creates_blocked(self) -> bool:
        return self._outstanding >= self._settings.dispatch.outstanding_unknown_max

    def _collect(self, *, is_empty: bool) -> None:
        """Wait for outcomes and process them, in one group if several arrive close together and no connection idles."""
        most = self._in_flight if is_empty else self._in_flight - self._breaker.limit
        self._calls_in_flight.set_limit(self._breaker.limit)  # a lease may have changed it
        self._calls_in_flight.wait(1, min(self._breaker.wait_s(), WAIT_MAX_S) or WAIT_MAX_S)
        if most > 1:
            self._calls_in_flight.wait(most, GROUP_COMMIT_S)
        if (group := self._calls_in_flight.take_finished()) or self._unprocessed:
            try:
                self._process(group)
            except LedgerGone as gone:
                self._reconnect(gone)

    def _process(self, group: Iterable[FinishedCall]) -> None:
        """Settle finished calls. While the ledger cannot be queried about a call, the call still counts as in flight."""
        self._unprocessed.extend(group)
        broken: list[Exception] = []
        answered = 0
        while self._unprocessed:
            done = self._unprocessed[0]
            if done.outcome is not None:
                self._record_outcome(done, done.outcome)
            self._unprocessed.popleft()
            self._remove_call(done)
            if done.recalled:
                self._calls -= 1
                self._unsettled += self._settler.recalled(done.call)
                continue
            answered += 1
            # A fault of this program, not of the network: the entries stay `sending` and become unknown.
            if done.error is not None:
                broken.append(done.error)
                self._ids_in_flight.update(entry.id for entry in done.call.submissions)
        least = self._breaker.limit if answered else 0  # answers did not wait for anything
        most = max(self._breaker.limit // _AHEAD_SHARE, _AHEAD_FEW)
        self._ahead = min(max(int(answered * _AHEAD), least), most)
        if broken:
            self._commit()
            raise broken[0]

    def _record_outcome(self, done: FinishedCall, outcome: Outcome) -> None:
        settled, could_create = self._settler.settle(done.call, outcome), not self._creates_blocked
        self._unsettled += settled
        self._outstanding += sum(settlement.state is State.UNKNOWN for settlement in settled)
        stop = self._breaker.note(outcome, done.started, done.seconds, wire_s=done.wire_s, at_limit=done.at_limit)
        self._call_log.log(done, outcome)
        if stop is not None and self._stopped is None:
            self._stopped, self._why = stop, outcome.reason
        if stop is not None or _affects_all(outcome) or (could_create and self._creates_blocked):
            self._recall()

    def _recall(self) -> None:
        """Recall the calls that have not left yet."""
        for done in self._calls_in_flight.recall_waiting():
            self._calls -= 1
            self._remove_call(done)
            self._unsettled += self._settler.recalled(done.call)

    def _remove_call(self, done: FinishedCall) -> None:
        self._in_flight -= 1
        self._entries_in_flight -= len(done.call.submissions)
        self._ids_in_flight.difference_update(entry.id for entry in done.call.submissions)

    def _commit(self) -> None:
        """Commit outcomes; as late outcomes if another process has taken over."""
        if not self._unsettled and not self._is_commit_uncertain:
            return
        try:
            if self._is_commit_uncertain and not self._superseded:
                self._settle_again()
            elif not self._superseded:
                self._ledger.settle(self._run, self._unsettled)
        except LedgerGone as gone:
            self._reconnect(gone)
            return
        except Superseded:
            self._superseded = True
        if self._superseded:
            self._ledger.settle_late(self._run, self._unsettled)
        self._after_commit()

    def _reconnect(self, gone: LedgerGone) -> None:
        """Wait until the ledger can be reached again; nothing leaves until then. The last commit may or may not have been
        recorded. Outcomes are recorded exactly once, and entries marked as sending that never left become ready again.
        Raises `gone` after `cluster.takeover_s`, once no call is in flight.
        """
        until = self._clock() + (0 if self._is_commit_uncertain else self._settings.cluster.takeover_s)
        pause_s = GROUP_COMMIT_S
        self._is_commit_uncertain = True
        self._recall()
        while True:
            self._calls_in_flight.wait(max(self._in_flight, 1), pause_s)
            try:
                self._process(self._calls_in_flight.take_finished())
                self._settle_again()
            except LedgerGone:
                if self._clock() > until and self._in_flight == len(self._unprocessed):
                    raise gone from None
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            except Superseded:
                self._superseded = True
                return
            else:
                self._after_commit()
                return

    def _settle_again(self) -> None:
        self._ledger.settle_after_outage(self._run, self._unsettled, self._ids_in_flight)
        self._is_commit_uncertain = False

    def _after_commit(self) -> None:
        """Count the committed outcomes, and hold entries as the canary decides."""
        settled, self._unsettled = self._unsettled, []
        if not settled:
            return
        self._entries_left += sum(settlement.state is State.READY for settlement in settled)
        held = list(self._canary.judge(settled))
        if held and not self._superseded:
            self._ledger.settle(self._run, held)
        self._counts.update(settlement.state for settlement in (*settled, *held))
        done = self._counts.total() - self._counts[State.READY]
        self._rate.note(done, self._clock())
        self._progress(done, self._total)


def _is_urgent(outcome: Outcome) -> bool:
    """Whether an outcome may change which calls leave next."""
    return outcome.kind is OutcomeKind.UNKNOWN or _affects_all(outcome)


def _affects_all(outcome: Outcome) -> bool:
    """Whether the next call would get the same answer now."""
    is_for_all = outcome.kind in (OutcomeKind.NOT_SENT, OutcomeKind.NOT_AUTHORISED)
    return is_for_all or outcome.stops_sending or outcome.wait_s > 0
