"""The hands of a fleet: a run plans and lets go, workers learn, send, look and account; where none lives, one inside this process does.

Owns: what a run hands out, how it waits, and what it makes of the answers. It can end at any moment: what it handed out goes on, and
the next run of the ledger waits for it. Who is asked to stop while he works himself finishes his calls and accounts for them.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from loadsheet.dispatch import Delivered, Listings, SendingReport, Stop, deliver_by
from loadsheet.fleet import answers
from loadsheet.fleet.clients import check_exchange
from loadsheet.fleet.parting import Parted
from loadsheet.fleet.worker import inside
from loadsheet.intake import Elsewhere
from loadsheet.ledger import State
from loadsheet.ledger.batches import Closed, Kind
from loadsheet.ledger.shared import Engine, recovery
from loadsheet.ledger.shared.opening import shared
from loadsheet.ledger.shared.workers import living
from loadsheet.problems import LedgerGone, LoadsheetError, Problem
from loadsheet.settings import Settings
from loadsheet.stages import Progress, Result, Work

PARTS_MAX = 8  # each reads the whole file
OUTAGE_S = 300.0  # so long a run waits for a ledger that it cannot reach
FIRST_NAP_S, LONGEST_NAP_S = 0.02, 0.5


_Seen = TypeVar("_Seen")
Check = Callable[[], None]
"""Raises what broke the worker inside, if something did."""
TRIES = 3
"""A batch that was tried so often, and waits, is one that nobody could do."""


class FleetHands:
    """What one run has others do. `alive` counts the workers that were heard of of late, `inside` is a worker within this process.
    `stopping` holds the signals that ask to stop, as they come: a run that works by itself ends its calls then and is accounted for, one
    for which others work leaves its batches to them (Parted). After `worker_wait_s` of waiting, and again after as much, `complain` is to
    say what nobody could do.
    """

    def __init__(
        self,
        settings: Settings,
        alive: Callable[[], int],
        inside: Callable[[], AbstractContextManager[Check]],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        *,
        stopping: Sequence[int] = (),
        complain: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._alive, self._inside, self._complain = settings, alive, inside, complain
        self._sleep, self._clock, self._stopping = sleep, clock, stopping
        self._own = ExitStack()  # the worker inside, once there is one
        self._check: Check | None = None  # of the worker inside
        self._counted: set[int] = set()  # batches of calls that were told of
        self._heard_at: float | None = None  # of a worker

    def close(self) -> None:
        """Let the worker inside finish its calls, if there is one."""
        self._check = None
        self._own.close()

    def learn(self, work: Work) -> LoadsheetError | None:
        """Have unknown outcomes looked for, if there are any; then let go what need not wait any more."""
        stopped = None
        if work.ledger.history.count_in(State.UNKNOWN):
            stopped = answers.error_heard(self._have(work, Kind.RESOLUTION, {})["stopped"])
        else:
            work.ledger.release(work.run, updating=work.updating)
        work.ledger.batches.plans_go_out = stopped is None and not work.settings.run_entries_max
        return stopped

    def elsewhere(self, work: Work) -> Elsewhere | None:
        """The workers, who translate big drops, each a part; where there are not several, this process does it as well."""
        parts = min(self._alive(), PARTS_MAX)
        return Elsewhere(parts, partial(self._translate, work)) if parts > 1 else None

    def deliver(self, work: Work, *, progress: Progress | None) -> Delivered:
        """Have everything sent that may be sent."""

        def sending(most: int | None) -> SendingReport:
            return self._send(work, most, progress)

        def looking() -> Listings:
            self._have(work, Kind.LOOKUP, {})
            return Listings()

        return deliver_by(sending, looking, work.ledger, work.run, work.settings, updating=work.updating)

    def account(self, work: Work, sent: Delivered, *, fault: LoadsheetError | None, left: Sequence[Problem]) -> Result:
        """Have the run reconciled and reported, once nothing of it is under way any more."""
        batches = work.ledger.batches
        if sent.stopped is not None:
            batches.drop_untaken(work.run, str(sent.stopped))
        self._until(lambda: None if self._calls_open(work) else True)
        given = {
            "sent": answers.delivered_told(sent),
            "fault": answers.error_told(fault),
            "left": answers.problems_told(left),
        }
        return answers.result_heard(self._have(work, Kind.RECONCILIATION, given), work.settings)

    def _translate(self, work: Work, orders: Sequence[Mapping[str, Any]]) -> Mapping[int, Mapping[str, Any]]:
        batches = work.ledger.batches
        waited_for = [batches.hand_out(work.run, Kind.TRANSLATION, order) for order in orders]
        found: dict[int, Mapping[str, Any]] = {}

        def look() -> Mapping[int, Mapping[str, Any]] | None:
            missing = [batch for batch in waited_for if batch not in found]
            found.update((one, answer) for one in missing if (answer := batches.answer_of(one)) is not None)
            return {batch: found[batch] for batch in waited_for} if len(found) == len(waited_for) else None

        return self._until(look)

    def _have(self, work: Work, kind: Kind, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Hand a batch out and wait for its answer."""
        batch = work.ledger.batches.hand_out(work.run, kind, given)
        return self._until(lambda: work.ledger.batches.answer_of(batch))

    def _send(self, work: Work, most: int | None, progress: Progress | None) -> SendingReport:
        batches = work.ledger.batches
        total = work.ledger.history.count_in(State.READY, State.SENDING)
        if not self._stopping:
            batches.batch_up(work.run, most=most)
        sent, interrupted = _Sent(self._counted), False

        def look() -> bool | None:
            nonlocal interrupted
            if self._stopping and self._check is not None:
                self.close()
                batches.drop_untaken(work.run, "asked to stop")
                interrupted = True
            still_open = self._calls_open(work)
            sent.hear(batches.closed_of(work.run, sent.oldest_open - 1))
            if progress is not None:
                progress(sent.settled, total)
            if (stopped := sent.stopped) is not None and not sent.dropped:
                batches.drop_untaken(work.run, str(stopped))
                sent.dropped = True
            sent.oldest_open = min(still_open, default=0)
            return True if interrupted or not still_open else None

        self._until(look)
        self._counted |= sent.told.keys()
        left = work.ledger.history.count_in(State.READY)
        told = _summed(list(sent.told.values()), limited=most is not None and left > 0)
        return replace(told, interrupted=interrupted)

    def _calls_open(self, work: Work) -> list[int]:
        return [one.id for one in work.ledger.batches.open_of(work.run) if one.kind is Kind.CALLS]

    def _until(self, look: Callable[[], _Seen | None]) -> _Seen:
        """Look at what others have done until there is something to see, for as long as it takes; who waits for nobody works himself. A
        ledger that cannot be reached is waited for: what was handed out goes on with it. Raises LedgerGone if that takes too long, Parted if
        we are asked to stop while others work, and what broke the worker inside.
        """
        nap_s, reached_at = FIRST_NAP_S, self._clock()
        complain_at = reached_at + self._settings.worker_wait_s
        while True:
            try:
                self._see_to_workers()
                if (seen := look()) is not None:
                    return seen
                reached_at = self._clock()
                if reached_at >= complain_at:
                    complain_at = reached_at + self._settings.worker_wait_s
                    self._complain()
            except LedgerGone:
                if self._clock() - reached_at > OUTAGE_S:
                    raise
            if self._stopping and self._check is None:
                raise Parted
            self._sleep(nap_s)
            nap_s = min(nap_s * 1.5, LONGEST_NAP_S)

    def _see_to_workers(self) -> None:
        if self._check is not None:
            self._check()
            return
        now = self._clock()
        if self._alive():
            self._heard_at = now
        if self._heard_at is None or now - self._heard_at > self._settings.worker_wait_s:
            self._check = self._own.enter_context(self._inside())


@contextmanager
def fleet_hands(settings: Settings, say: Callable[[str], None], stopping: Sequence[int] = ()) -> Iterator[FleetHands]:
    """The hands of the workers that share the ledger of these settings, for one run; `stopping` is that of FleetHands. Raises SettingsError
    for an exchange that they cannot reach.
    """
    check_exchange(settings)
    with shared(settings.database_url) as engine:

        def alive() -> int:
            with engine.connect() as connection:
                return len(living(connection, settings.takeover_s, settings.shipper))

        complaints = _Complaints(engine, settings, say)
        own = partial(inside, settings, say)
        hands = FleetHands(settings, alive, own, stopping=stopping, complain=complaints.tell)
        try:
            yield hands
        finally:
            hands.close()


class _Complaints:
    """What nobody could do of a run, each said once."""

    def __init__(self, engine: Engine, settings: Settings, say: Callable[[str], None]) -> None:
        self._engine, self._settings, self._say = engine, settings, say
        self._told: set[int] = set()

    def tell(self) -> None:
        """Say which batches were tried again and again, and where it stands why."""
        with self._engine.connect() as connection:
            found = recovery.failing(connection, self._settings.ledger_schema, TRIES)
        for kind, batch, tries in found:
            if batch not in self._told:
                self._say(
                    f"nobody could do batch {batch} ({kind}) in {tries} tries; the messages of the workers say why"
                )
        self._told |= {batch for _, batch, _ in found}


class _Sent:
    """What batches of calls came to, as their answers come in; those in `counted` were told of before."""

    def __init__(self, counted: Collection[int]) -> None:
        self.told: dict[int, SendingReport] = {}
        self.oldest_open, self.dropped = 0, False
        self._counted = counted

    def hear(self, closed: Sequence[Closed]) -> None:
        """Take in the answers among these that are new; one that nobody took has none."""
        news = [one for one in closed if one.id not in self._counted and one.id not in self.told]
        self.told.update((one.id, answers.sending_heard(one.answer)) for one in news if "calls" in one.answer)

    @property
    def settled(self) -> int:
        """How many entries are settled."""
        return sum(one.accepted + one.refused + one.unknown for one in self.told.values())

    @property
    def stopped(self) -> Stop | None:
        """Why one of them ended early, if one did."""
        return next((one.stopped for one in self.told.values() if one.stopped is not None), None)


def _summed(told: Sequence[SendingReport], *, limited: bool) -> SendingReport:
    """What several batches came to together."""
    stopped = [one for one in told if one.stopped is not None]
    refused = [one for one in stopped if one.stopped is Stop.TOKEN_REFUSED]
    first = (refused or stopped or [SendingReport(0, 0, 0, 0, 0)])[0]
    return SendingReport(
        calls=sum(one.calls for one in told),
        accepted=sum(one.accepted for one in told),
        refused=sum(one.refused for one in told),
        unknown=sum(one.unknown for one in told),
        returned=0,  # what came back went into another batch
        stopped=first.stopped,
        why=first.why,
        held=sum(one.held for one in told),
        forecast=first.forecast,
        limited=limited,
    )
