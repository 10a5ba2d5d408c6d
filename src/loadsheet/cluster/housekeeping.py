"""What keeps a fleet going beside the work itself: signs of life, lost jobs found again, schedules looked at, old things removed.

Owns: how often. It has threads and connections of its own, so that nothing holds it up; what goes wrong in it is said once and
tried again.
"""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from loadsheet import run_log
from loadsheet.cluster import schedules
from loadsheet.cluster.outage import Outage
from loadsheet.cluster.queue import Queue
from loadsheet.cluster.shippers import Served
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import Engine, fires, jobs, recovery, workers
from loadsheet.ledger.shared.workers import Enrolled
from loadsheet.ledger.tenure import BEATS
from loadsheet.problems import LedgerError, LedgerGone

_MINUTE_S, _HOUR_S = 60.0, 3600.0
_REAP_S = 1.0  # so often it is looked for workers that have fallen silent


class Housekeeping:
    """Keeps house for one worker; `enrolled` is how it stands in the register."""

    def __init__(
        self,
        engine: Engine,
        served: Served,
        queue: Queue,
        outage: Outage,
        *,
        enrolled: Callable[[], Enrolled],
        takeover_s: float,
        jobs_days: int,
    ) -> None:
        self._engine, self._served, self._queue, self._enrolled = engine, served, queue, enrolled
        self._outage, self._takeover_s, self._jobs_days = outage, takeover_s, jobs_days
        self._ended = threading.Event()
        self._orphans: set[int] = set()
        self._told: set[str] = set()
        self.rounds = 0
        self._seen = time.monotonic()
        self._beat_at = 0.0
        self._due: dict[Callable[[], None], float] = {self._sweep: 0.0, self._tick: 0.0, self._purge: 0.0}

    def live(self) -> None:
        """Give signs of life until `end`. In a thread of its own: the chores of hundreds of ledgers take their time."""
        while not self._ended.is_set():
            if time.monotonic() >= self._beat_at:
                self._beat_at = time.monotonic() + self._takeover_s / BEATS
                self._tried(self._beat)
            self._tried(self._reap)
            self._seen = time.monotonic()
            self._ended.wait(min(self._takeover_s / BEATS, _REAP_S))

    def run(self) -> None:
        """Keep house until `end`."""
        while not self._ended.is_set():
            for chore in [chore for chore, due in self._due.items() if due <= time.monotonic()]:
                self._due[chore] = self._do(chore)
            self.rounds += 1
            self._ended.wait(max(0.0, min(self._due.values()) - time.monotonic()))

    @property
    def quiet_s(self) -> float:
        """For how many seconds there was no attempt to give a sign of life, beyond the pause between two."""
        return time.monotonic() - self._seen - self._takeover_s / BEATS

    def end(self) -> None:
        """Stop."""
        self._ended.set()

    def leave(self) -> None:
        """Leave the register; if that cannot be told, we are taken for dead soon."""
        name = self._enrolled().name
        self._tried(lambda: self._leave(name))

    def _do(self, chore: Callable[[], None]) -> float:
        """Do a chore; returns when it is due again."""
        if not self._tried(chore):
            return time.monotonic() + self._takeover_s / BEATS
        if chore == self._tick:
            return _next_minute()
        return time.monotonic() + (self._takeover_s if chore == self._sweep else _HOUR_S)

    def _tried(self, chore: Callable[[], None]) -> bool:
        try:
            chore()
        except LedgerGone as error:
            self._outage.begins(str(error))
            return False
        except LedgerError as error:
            self._once(str(error))
            return False
        self._outage.ends()
        return True

    def _beat(self) -> None:
        """We live."""
        number, hands = self._queue.number, self._queue.hands
        with self._engine.begin() as connection:
            workers.beat(connection, self._enrolled(), [_told(one) for one in hands.values()], self._queue.done)
            known = number is None or recovery.beat(connection, number)
            doing = set() if number is None else recovery.doing_of(connection, number) - hands.keys()
            orphans = doing & self._orphans  # seen twice: what is fetched just now is in no hand yet
            if number is not None and (ours := orphans - self._queue.hands.keys()):
                recovery.put_back(connection, ours, number)
            self._orphans = doing
        if number is not None and not known:
            self._queue.renew(number)

    def _reap(self) -> None:
        """What others who do not live any more had in hand is for everybody."""
        with self._engine.begin() as connection:
            lost = recovery.reap(connection, self._takeover_s)
        if lost:
            run_log.warning("jobs of others who are silent are put back", jobs=len(lost))

    def _sweep(self) -> None:
        """Runs that died are wanted again."""
        lost = recovery.sweep(self._engine, self._served.addresses.values(), self._takeover_s)
        if lost:
            run_log.warning("runs that died are wanted again", runs=lost)

    def _tick(self) -> None:
        """Runs that are due go into the queue, in the transaction that says so."""
        name = self._enrolled().name
        profiles = self._served.by_shipper  # once: the settings may be read again meanwhile
        with self._engine.begin() as connection:
            for fired in schedules.tick(connection, profiles, name):
                address = address_of(profiles[fired.shipper].database_url)
                jobs.want_run(connection, address, jobs.SCHEDULE, stamp(fired.due.moment))
                run_log.info(
                    "a run is due", due=stamp(fired.due.moment), schedule=fired.schedule.name, of=fired.shipper
                )

    def _purge(self) -> None:
        """What is old goes."""
        recovery.purge(self._engine, self._jobs_days, self._ended.is_set)
        with self._engine.begin() as connection:
            workers.forget(connection, max(self._jobs_days, 1))
            fires.forget(connection)

    def _leave(self, name: str) -> None:
        with self._engine.begin() as connection:
            workers.leave(connection, name)

    def _once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            run_log.error("housekeeping", reason=text)


def _told(arguments: Mapping[str, Any]) -> str:
    """A job in words."""
    words = (arguments.get("shipper"), "run", f"({arguments['reason']})" if "reason" in arguments else "")
    return " ".join(word for word in words if word)


def _next_minute() -> float:
    """When the next minute begins, by the clock of `time.monotonic`."""
    return time.monotonic() + _MINUTE_S - datetime.now(UTC).timestamp() % _MINUTE_S
