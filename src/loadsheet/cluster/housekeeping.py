"""Housekeeping of a worker: heartbeats, recovery of lost jobs and runs, schedules, removal of old rows.

Owns: how often each happens. It has its own threads and connections, so runs cannot delay it. An error is logged once and the task
is retried.
"""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from loadsheet import run_log
from loadsheet.cluster import timetable
from loadsheet.cluster.job_queue import Outage, Queue
from loadsheet.cluster.served_shippers import ServedShippers
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import Engine, fires, jobs, workers
from loadsheet.ledger.shared.workers import WorkerInfo
from loadsheet.ledger.tenure import BEATS
from loadsheet.problems import LedgerError, LedgerGone

_MINUTE_S, _HOUR_S = 60.0, 3600.0
_REAP_S = (
    1.0  # the longest time in seconds between two searches for dead workers; shorter if one is about to count as dead
)
_MARGIN_S = 0.02


class Housekeeping:
    """The housekeeping of one worker; `enrolled` returns its row in the register of workers."""

    def __init__(
        self,
        engine: Engine,
        served: ServedShippers,
        queue: Queue,
        outage: Outage,
        *,
        enrolled: Callable[[], WorkerInfo],
        takeover_s: float,
        jobs_days: int,
    ) -> None:
        self._engine, self._served, self._queue, self._enrolled = engine, served, queue, enrolled
        self._outage, self._takeover_s, self._jobs_days = outage, takeover_s, jobs_days
        self._ended = threading.Event()
        self._orphans: set[int] = set()
        self._reported: set[str] = set()
        self.rounds = 0
        self._last_attempt = time.monotonic()
        self._beat_at = 0.0
        self._next_death_s = takeover_s
        self._due: dict[Callable[[], None], float] = {self._sweep: 0.0, self._tick: 0.0, self._purge: 0.0}

    def send_heartbeats(self) -> None:
        """Send heartbeats until `end`. Runs in a thread of its own, because the chores of hundreds of ledgers take long."""
        while not self._ended.is_set():
            if time.monotonic() >= self._beat_at:
                self._beat_at = time.monotonic() + self._takeover_s / BEATS
                self._try(self._beat)
            self._try(self._reap)
            self._last_attempt = time.monotonic()
            self._ended.wait(min(self._takeover_s / BEATS, _REAP_S, self._next_death_s + _MARGIN_S))

    def run(self) -> None:
        """Do the chores when they are due, until `end`."""
        while not self._ended.is_set():
            for chore in [chore for chore, due in self._due.items() if due <= time.monotonic()]:
                self._due[chore] = self._do(chore)
            self.rounds += 1
            self._ended.wait(max(0.0, min(self._due.values()) - time.monotonic()))

    @property
    def stalled_s(self) -> float:
        """Seconds that a heartbeat is overdue. Negative while none is."""
        return time.monotonic() - self._last_attempt - self._takeover_s / BEATS

    def end(self) -> None:
        """Stop."""
        self._ended.set()

    def deregister(self) -> None:
        """Leave the register of workers. If that fails, this worker soon counts as dead."""
        name = self._enrolled().name
        self._try(lambda: self._deregister(name))

    def _do(self, chore: Callable[[], None]) -> float:
        """Do a chore. Returns when it is due again, by the clock of `time.monotonic`."""
        if not self._try(chore):
            return time.monotonic() + self._takeover_s / BEATS
        if chore == self._tick:
            return _next_minute()
        return time.monotonic() + (self._takeover_s if chore == self._sweep else _HOUR_S)

    def _try(self, chore: Callable[[], None]) -> bool:
        try:
            chore()
        except LedgerGone as error:
            self._outage.begins(str(error))
            return False
        except LedgerError as error:
            self._log_once(str(error))
            return False
        self._outage.ends()
        return True

    def _beat(self) -> None:
        """Record the heartbeat of this worker, and requeue jobs that the queue assigned to it but that do not run."""
        worker_id, running = self._queue.worker_id, self._queue.running
        with self._engine.begin() as connection:
            workers.record_heartbeat(
                connection, self._enrolled(), [_describe_job(job) for job in running.values()], self._queue.done
            )
            is_registered = worker_id is None or jobs.beat(connection, worker_id)
            doing = set() if worker_id is None else jobs.running_jobs(connection, worker_id) - running.keys()
            orphans = doing & self._orphans  # seen twice, because a job that was just fetched is not running yet
            if worker_id is not None and (ours := orphans - self._queue.running.keys()):
                jobs.put_back(connection, ours, worker_id)
            self._orphans = doing
        if worker_id is not None and not is_registered:
            self._queue.re_register(worker_id)

    def _reap(self) -> None:
        """Requeue the jobs of workers that stopped sending heartbeats."""
        with self._engine.begin() as connection:
            lost = jobs.reap(connection, self._takeover_s)
            self._next_death_s = jobs.next_death_s(connection, self._takeover_s)
        if lost:
            run_log.warning("jobs of dead workers requeued", jobs=len(lost))

    def _sweep(self) -> None:
        """Request the runs that died again."""
        lost = jobs.sweep(self._engine, self._served.addresses.values(), self._takeover_s)
        if lost:
            run_log.warning("runs that died requested again", runs=lost)

    def _tick(self) -> None:
        """Queue the due runs, in the transaction that records them."""
        name = self._enrolled().name
        profiles = self._served.by_shipper  # read once: the settings may be reloaded meanwhile
        with self._engine.begin() as connection:
            for fired in timetable.tick(connection, profiles, name):
                address = address_of(profiles[fired.shipper].database_url)
                jobs.request_run(connection, address, jobs.SCHEDULE, stamp(fired.due.moment))
                run_log.info(
                    "a run is due", due=stamp(fired.due.moment), schedule=fired.schedule.name, of=fired.shipper
                )

    def _purge(self) -> None:
        """Remove old jobs, workers and schedule records."""
        jobs.purge(self._engine, self._jobs_days, self._ended.is_set)
        with self._engine.begin() as connection:
            workers.forget(connection, max(self._jobs_days, 1))
            fires.forget(connection)

    def _deregister(self, name: str) -> None:
        with self._engine.begin() as connection:
            workers.record_end(connection, name)

    def _log_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            run_log.error("housekeeping", reason=text)


def _describe_job(arguments: Mapping[str, Any]) -> str:
    """A description of a job in one line."""
    words = (arguments.get("shipper"), "run", f"({arguments['reason']})" if "reason" in arguments else "")
    return " ".join(word for word in words if word)


def _next_minute() -> float:
    """The start of the next minute, by the clock of `time.monotonic`."""
    return time.monotonic() + _MINUTE_S - datetime.now(UTC).timestamp() % _MINUTE_S
