"""A capsule after every run, where the settings want one, and the end of old ones.

Owns: where capsules lie, `STATE/capsules/RUN.capsule.zip`, and for how long. What goes wrong here is said and changes nothing of a run.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from loadsheet.ledger import Run
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import LoadsheetError
from loadsheet.run_archive import register
from loadsheet.run_archive.create import SUFFIX, Made, day_of, make
from loadsheet.settings import Settings


def place_of(settings: Settings, run: str) -> Path:
    """Where the capsule of a run lies."""
    return settings.state / "capsules" / f"{run}{SUFFIX}"


def seal(queries: LedgerQueries, run: Run, settings: Settings, target: Path, now: datetime) -> Made:
    """Make the capsule of a run and write it into the record. `now` is aware. Raises CannotSeal and FolderError."""
    made = make(queries, run, settings, target)
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    register.add(settings.state, run=run.name, made_at=stamp, file=target.name, head=made.head)
    return made


def seal_night(settings: Settings, queries: LedgerQueries, run: str, now: datetime, say: Callable[[str], None]) -> None:
    """After a run: make its capsule if the settings want one and it had something to do, and remove capsules that are too old. `now`
    is aware, in UTC.
    """
    if settings.capsules == "each":
        with_work = (one for one in queries.runs_named(run) if one.name == run and queries.drops_of(one))
        for one in with_work:
            try:
                seal(queries, one, settings, place_of(settings, run), now)
            except LoadsheetError as error:
                say(f"no capsule of run {run}: {error}")
    if settings.capsule_days:
        purge(settings, now)


def purge(settings: Settings, now: datetime) -> int:
    """Remove capsules of runs more than `capsule_days` before now; returns how many. The record keeps their heads."""
    oldest, removed = now.replace(tzinfo=None) - timedelta(days=settings.capsule_days), 0
    for path in sorted((settings.state / "capsules").glob(f"*{SUFFIX}")):
        day = day_of(path)
        if day is not None and day.date() < oldest.date():
            with suppress(OSError):  # what cannot be removed stays for the next time
                path.unlink()
                removed += 1
    return removed
