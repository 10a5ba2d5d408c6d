"""Schedules that start runs: of all shippers of a fleet, and of the one ledger that a watch holds.

Owns: what a look at the schedules comes to. In a fleet, `tick` records each moment in the shared tables, where one machine is the first:
a worker puts the run into the queue with it, a watch runs. A watch that holds its ledger alone keeps there up to when all is done, and only
after a run that went through: one that was killed is caught up.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from loadsheet.ledger import Ledger
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.shared import Connection, clock, fires
from loadsheet.ledger.shared.fires import Fire, Known
from loadsheet.ledger.shared.opening import shared
from loadsheet.operations.expected_files import local_text, zone_of
from loadsheet.problems import LedgerError
from loadsheet.schedules import PUNCTUAL, Due, Schedule
from loadsheet.settings import Settings

_LOOK_S = 60.0
_SOON_S = 0.1


class Fired(NamedTuple):
    """A run that this process is to start: of which shipper, by which schedule, and what was due."""

    shipper: str
    schedule: Schedule
    due: Due


class Stands(NamedTuple):
    """How a schedule of a shipper stands: the last moment that fired, and the next one (aware, UTC); None where there is none."""

    shipper: str
    schedule: Schedule
    last: Fire | None
    next: datetime | None


def standing(connection: Connection, profiles: Mapping[str, Settings]) -> list[Stands]:
    """How the schedules of these shippers stand, on a connection to the shared tables."""
    now, last = clock.moment(clock.now(connection)), fires.last(connection)
    return [
        Stands(shipper, one, last.get(Known(shipper, one.name)), one.next_after(now))
        for shipper, settings in profiles.items()
        for one in settings.timetable
    ]


def tick(connection: Connection, profiles: Mapping[str, Settings], by: str) -> list[Fired]:
    """The runs that are due now, by the database's clock, and that nobody else starts; `by` is who looks. Everything stands and falls with
    the caller's transaction, in which he puts the runs into the queue. A schedule that nobody saw before, or that was taken away for a
    while, begins now.
    """
    now = clock.moment(clock.now(connection))
    fires.look(
        connection, {shipper: [one.name for one in settings.timetable] for shipper, settings in profiles.items()}, now
    )
    done, found = fires.done(connection), []
    for shipper, settings in sorted(profiles.items()):  # in the same order everywhere: two who look wait for each other
        for schedule in sorted(settings.timetable, key=lambda one: one.name):
            known = Known(shipper, schedule.name)
            if known not in done:
                fires.begin(connection, known, now)
            elif due := schedule.due(done[known], now, catch_up=settings.catch_up):
                mine = fires.fire(connection, known, due.moment, by, after=done[known], caught_up=due.caught_up)
                found += [Fired(shipper, schedule, due)] * mine
    return found


class Timetable:
    """The schedules of a ledger that this process holds. Moments that come while it lives are late at most, never missed."""

    def __init__(self, settings: Settings, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._settings, self._ledger, self._clock = settings, ledger, clock
        self._awake = clock()
        before = ledger.queries.schedules_done()
        begun = {one.name: before.get(one.name, stamp(self._awake)) for one in settings.timetable}
        self._done = {name: datetime.fromisoformat(when).astimezone(UTC) for name, when in begun.items()}
        if begun != before:
            ledger.keep_schedules_done(begun)

    def due(self) -> Mapping[Schedule, Due]:
        """What is due now."""
        now = self._clock()
        found = {one: self._due(one, now) for one in self._settings.timetable}
        return {schedule: due for schedule, due in found.items() if due is not None}

    def late(self) -> str:
        """What is due and was missed, in words; empty if nothing was."""
        return _late(self.due(), self._clock())

    def due_s(self) -> float | None:
        """In how many seconds a run is due, 0 if one is; None if none ever will be."""
        if not self._settings.timetable:
            return None
        if self.due():
            return 0.0
        now = self._clock()
        nexts = [moment for one in self._settings.timetable if (moment := one.next_after(now)) is not None]
        return (min(nexts) - now).total_seconds() if nexts else None

    def ran(self, began: datetime) -> None:
        """A run that began then (aware) went through: what was due by then is done."""
        found = {one.name: due.moment for one in self._settings.timetable if (due := self._due(one, began)) is not None}
        if found:
            self._done |= found
            self._ledger.keep_schedules_done({name: stamp(when) for name, when in self._done.items()})

    def _due(self, schedule: Schedule, now: datetime) -> Due | None:
        return schedule.due(self._done[schedule.name], now, catch_up=self._settings.catch_up, awake=self._awake)


class SharedTimetable:
    """The schedules of a ledger that others share: what is due is whose look is the first. Looked at by the database's clock, once a minute
    and when the next moment comes.
    """

    def __init__(self, settings: Settings, by: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._by, self._clock = settings, by, clock
        self._mine: Mapping[Schedule, Due] = {}
        self._now = datetime.now(UTC)
        self._look_at = clock()

    def late(self) -> str:
        """What we are to run and was missed, in words; empty if nothing was."""
        return _late(self._mine, self._now)

    def due_s(self) -> float | None:
        """In how many seconds a run may be due, 0 if one is ours; None if none ever will be."""
        if not self._settings.timetable:
            return None
        if not self._mine and self._clock() >= self._look_at:
            self._look()
        return 0.0 if self._mine else max(0.0, self._look_at - self._clock()) or _SOON_S

    def ran(self, _began: datetime) -> None:
        """A run went through: what was ours is done."""
        self._mine = {}

    def _look(self) -> None:
        wait_s = _LOOK_S
        with (
            suppress(LedgerError),
            shared(self._settings.database_url, makes=True) as engine,
        ):  # it is looked again soon
            with engine.begin() as connection:
                fired = tick(connection, {self._settings.shipper: self._settings}, self._by)
                self._now = clock.moment(clock.now(connection))
            self._mine = {one.schedule: one.due for one in fired}
            nexts = [moment for one in self._settings.timetable if (moment := one.next_after(self._now)) is not None]
            wait_s = min([_LOOK_S, *((moment - self._now).total_seconds() for moment in nexts)])
        self._look_at = self._clock() + wait_s


def _late(due: Mapping[Schedule, Due], now: datetime) -> str:
    told = []
    for one, what in due.items():
        if what.caught_up or now - what.moment > PUNCTUAL:
            more = f" ({what.caught_up:,} missed before it)" if what.caught_up else ""
            told.append(f"{one.name} was due {local_text(what.moment, zone_of(one.zone))}{more}")
    return "; ".join(told)
