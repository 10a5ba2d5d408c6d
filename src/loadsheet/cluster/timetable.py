"""The timetable: which scheduled runs are due, for all shippers of a cluster or for the one ledger of a watch.

Owns: which runs a process starts. In a cluster, `tick` records each due time in the shared tables, and the first machine wins. A worker
then queues the run; a watch does it, or queues it while a worker that serves the ledger is alive. A watch with a ledger of its own
records completed runs there, so a killed run is caught up.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from loadsheet.errors import LedgerError
from loadsheet.ledger import Ledger
from loadsheet.ledger.codec import stamp, utc_from_seconds
from loadsheet.ledger.ledger_tables import database_time
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import Connection, jobs, open_shared
from loadsheet.ledger.shared.cluster_status import alive_workers
from loadsheet.ledger.shared.mutual_exclusion import (
    DueMoment,
    ScheduledStart,
    ScheduleKey,
    begin_schedule,
    done_until,
    last_starts,
    record_firing,
    record_schedules,
)
from loadsheet.operations.expected_files import local_text, zone_of
from loadsheet.schedules import PUNCTUAL, Due, Schedule
from loadsheet.settings import Settings

_POLL_S = 60.0
_SOON_S = 0.1


class DueStart(NamedTuple):
    """A run that this process has to start: its shipper, its schedule and the time it was due."""

    shipper: str
    schedule: Schedule
    due: Due


class ScheduleStatus(NamedTuple):
    """The last and the next run of a shipper's schedule (aware, UTC). None if there is none."""

    shipper: str
    schedule: Schedule
    last: ScheduledStart | None
    next: datetime | None


def schedule_statuses(connection: Connection, profiles: Mapping[str, Settings]) -> list[ScheduleStatus]:
    """The status of every schedule of these shippers. `connection` leads to the shared tables."""
    now, last = utc_from_seconds(database_time(connection)), last_starts(connection)
    return [
        ScheduleStatus(shipper, schedule, last.get(ScheduleKey(shipper, schedule.name)), schedule.next_after(now))
        for shipper, settings in profiles.items()
        for schedule in settings.schedules.timetable
    ]


def tick(connection: Connection, profiles: Mapping[str, Settings], by: str) -> list[DueStart]:
    """The runs that are due now by the database's clock and that no other process starts. `by` names this process. All changes are
    part of the caller's transaction, in which it queues the runs. A new or restored schedule begins now.
    """
    now = utc_from_seconds(database_time(connection))
    record_schedules(
        connection,
        {
            shipper: [schedule.name for schedule in settings.schedules.timetable]
            for shipper, settings in profiles.items()
        },
        now,
    )
    done, fired = done_until(connection), []
    for shipper, settings in sorted(profiles.items()):  # the same order everywhere prevents deadlocks
        for schedule in sorted(settings.schedules.timetable, key=lambda schedule: schedule.name):
            key = ScheduleKey(shipper, schedule.name)
            if key not in done:
                begin_schedule(connection, key, now)
            elif due := schedule.due(done[key], now, catch_up=settings.schedules.catch_up):
                mine = record_firing(connection, key, DueMoment(due.moment, done[key], due.caught_up), by)
                fired += [DueStart(shipper, schedule, due)] * mine
    return fired


class Timetable:
    """The schedules of a ledger that this process holds. While it is alive, a run can be late but is never missed."""

    def __init__(self, settings: Settings, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._settings, self._ledger, self._clock = settings, ledger, clock
        self._awake = clock()
        before = ledger.queries.schedules_done()
        begun = {
            schedule.name: before.get(schedule.name, stamp(self._awake)) for schedule in settings.schedules.timetable
        }
        self._done = {name: datetime.fromisoformat(when) for name, when in begun.items()}
        if begun != before:
            ledger.store_schedules_done(begun)

    def due(self) -> Mapping[Schedule, Due]:
        """The schedules with a run due now."""
        now = self._clock()
        dues = {schedule: self._due(schedule, now) for schedule in self._settings.schedules.timetable}
        return {schedule: due for schedule, due in dues.items() if due is not None}

    def late(self) -> str:
        """The due runs that are late, as text. Empty if there are none."""
        return _describe_late(self.due(), self._clock())

    def due_s(self) -> float | None:
        """Seconds until the next run is due. 0 if one is due now, None if there will be none."""
        if not self._settings.schedules.timetable:
            return None
        if self.due():
            return 0.0
        return _seconds_to_next(self._settings, self._clock())

    def record_run(self, began: datetime) -> None:
        """Record a completed run that began at `began` (aware): everything due by then is done."""
        newly_done = {
            schedule.name: due.moment
            for schedule in self._settings.schedules.timetable
            if (due := self._due(schedule, began)) is not None
        }
        if newly_done:
            self._done |= newly_done
            self._ledger.store_schedules_done({name: stamp(when) for name, when in self._done.items()})

    def _due(self, schedule: Schedule, now: datetime) -> Due | None:
        return schedule.due(
            self._done[schedule.name], now, catch_up=self._settings.schedules.catch_up, awake=self._awake
        )


class SharedTimetable:
    """The schedules of a shared ledger: the first process to see a due run gets it. Checked by the database's clock, once a minute
    and when the next run is due.
    """

    def __init__(self, settings: Settings, by: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._by, self._clock = settings, by, clock
        self._ours: Mapping[Schedule, Due] = {}
        self._now = datetime.now(UTC)
        self._look_at = clock()

    def late(self) -> str:
        """The runs that this process has to catch up, as text. Empty if there are none."""
        return _describe_late(self._ours, self._now)

    def due_s(self) -> float | None:
        """Seconds until a run may be due. 0 if this process has one to do, None if there will be none."""
        if not self._settings.schedules.timetable:
            return None
        if not self._ours and self._clock() >= self._look_at:
            self._look()
        return 0.0 if self._ours else max(0.0, self._look_at - self._clock()) or _SOON_S

    def record_run(self, _began: datetime) -> None:
        """Record that this process completed its runs."""
        self._ours = {}

    def _look(self) -> None:
        wait_s = _POLL_S
        with (
            suppress(LedgerError),
            open_shared(self._settings.database_url, makes=True) as engine,
        ):  # checked again soon
            with engine.begin() as connection:
                fired = tick(connection, {self._settings.shipper: self._settings}, self._by)
                self._now = utc_from_seconds(database_time(connection))
            self._ours = {run.schedule: run.due for run in fired}
            next_s = _seconds_to_next(self._settings, self._now)
            wait_s = _POLL_S if next_s is None else min(_POLL_S, next_s)
        self._look_at = self._clock() + wait_s


def _seconds_to_next(settings: Settings, now: datetime) -> float | None:
    """Seconds until the next run of any schedule. None if there will be none."""
    nexts = [schedule.next_after(now) for schedule in settings.schedules.timetable]
    return min(((when - now).total_seconds() for when in nexts if when is not None), default=None)


def _describe_late(due: Mapping[Schedule, Due], now: datetime) -> str:
    texts = []
    for schedule, run in due.items():
        if run.caught_up or now - run.moment > PUNCTUAL:
            more = f" ({run.caught_up:,} missed before it)" if run.caught_up else ""
            texts.append(f"{schedule.name} was due {local_text(run.moment, zone_of(schedule.zone))}{more}")
    return "; ".join(texts)


# a watch and the workers


def enqueue_run(settings: Settings, now: datetime) -> bool:
    """Queue a run of this ledger. Returns False and does nothing if no live worker serves it. Raises LedgerGone."""
    with open_shared(settings.database_url) as engine, engine.begin() as connection:
        if not _is_served(connection, settings):
            return False
        jobs.request_run(connection, address_of(settings.database_url), jobs.FILES, stamp(now))
        return True


def is_run_pending(settings: Settings) -> bool:
    """Whether a run of this ledger is queued or in progress, and a worker that serves it is alive. Raises LedgerGone."""
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        is_open = jobs.open_job(connection, address_of(settings.database_url)) is not None
        return is_open and _is_served(connection, settings)


def _is_served(connection: Connection, settings: Settings) -> bool:
    return bool(alive_workers(connection, settings.cluster.takeover_s, settings.shipper))
