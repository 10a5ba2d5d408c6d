"""The board of a watch: its signs of life, and what the last run of each shipper came to.

Owns: when a watch is well. The watch writes on it from its own thread, health endpoint and supervisor read it from theirs.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from loadsheet.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import Metric

STOPPING = frozenset({70, 75, 77, 78})
"""Exit codes after which somebody has to look before the next run can get through."""

GRACE_S = 30.0  # an idle watch may be late by so much


class Last(NamedTuple):
    """The last run of a shipper: its exit code, when it ended (aware, UTC), and why it ended early, if it did."""

    exit_code: int
    ended: datetime
    why: str = ""


class Verdict(NamedTuple):
    """Whether a watch is well, and if not, why."""

    well: bool
    reason: str = ""


class Board:
    """One watch. `clock` counts monotonic seconds. `on_ready` hears that it has everything it needs and looks for the first time,
    `on_status`, in words, what it does; `live` gives figures that are no shipper's, as they are now.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._busy_s = settings.rescan_s + GRACE_S, settings.health_stale_s
        self._clock = clock
        self._alive_at = clock()
        self._idle = True
        self._lock = threading.Lock()
        self._last: dict[str, Last] = {}
        self._figures: dict[str, Sequence[Metric]] = {}
        self._status = ""
        self.ready = False
        self.on_ready: Callable[[], None] = lambda: None
        self.on_status: Callable[[str], None] = lambda _status: None
        self.live: Callable[[], Sequence[Metric]] = tuple

    def turned(self) -> None:
        """The watch looks again whether there is something to do."""
        self._alive_at, self._idle = self._clock(), True
        if not self.ready:
            self.ready = True
            self.on_ready()

    def alive(self) -> None:
        """A run goes on. Called from it."""
        self._alive_at, self._idle = self._clock(), False

    def progress(self, done: int, total: int) -> None:
        """So many entries of so many are sent."""
        self.alive()
        self._tell(f"sending: {done} of {total}")

    def ended(self, shipper: str, exit_code: int, why: str = "") -> None:
        """A run of this shipper is over."""
        with self._lock:
            self._last[shipper] = Last(exit_code, datetime.now(UTC), why)
        of = f" of {shipper}" if shipper else ""
        self._tell(f"the last run{of} ended with {exit_code}" + (f": {why}" if why else ""))

    def measured(self, shipper: str, figures: "Sequence[Metric]") -> None:
        """The figures of this shipper as they are now."""
        with self._lock:
            self._figures[shipper] = figures

    def last(self) -> dict[str, Last]:
        """The last run of each shipper that had one."""
        with self._lock:
            return dict(self._last)

    def figures(self) -> "list[Sequence[Metric]]":
        """The figures of all shippers, and those that are no shipper's."""
        with self._lock:
            found = list(self._figures.values())
        return [*found, self.live()]

    @property
    def quiet_s(self) -> float:
        """For how many seconds there was no sign of life."""
        return self._clock() - self._alive_at

    @property
    def turns(self) -> Verdict:
        """Whether the watch goes on, whatever its runs come to."""
        quiet_s, busy = self.quiet_s, not self._idle
        if quiet_s <= (self._busy_s if busy else self._idle_s):
            return Verdict(well=True)
        doing = "in the middle of a run" if busy else "between two looks into the inbox"
        return Verdict(well=False, reason=f"no sign of life for {quiet_s:.0f} s {doing}")

    @property
    def verdict(self) -> Verdict:
        """Whether the watch goes on, and the last run of every shipper could do its work."""
        turns = self.turns
        if not turns.well:
            return turns
        for shipper, last in self.last().items():
            if last.exit_code in STOPPING:
                of = f" of {shipper}" if shipper else ""
                why = f": {last.why}" if last.why else ""
                return Verdict(well=False, reason=f"the last run{of} ended with exit code {last.exit_code}{why}")
        return turns

    def _tell(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self.on_status(status)
