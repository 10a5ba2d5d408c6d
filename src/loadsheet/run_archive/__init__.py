"""The capsule of a run: its inputs, mappings, payloads and answers in one archive with a hash chain, to replay and verify.

`create` puts a run into an archive, on request or after every run. `contents` defines the archive and its members. `verify` checks
whether it was changed, and records the archives made here. `replay` makes payloads and reports again from the archive alone;
`replay_diff` compares them with the originals. This module owns the place of capsules (`STATE/capsules/RUN.capsule.zip`), what
happens after each run, and how long capsules are kept. A failure here never changes a run.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import LoadsheetError
from loadsheet.settings import Settings

SUFFIX = ".capsule.zip"


def day_of(path: Path) -> datetime | None:
    """The day of the run in a capsule's file name; None for other names."""
    try:
        return datetime.strptime(path.name[:10], "%Y-%m-%d")  # noqa: DTZ007 (only a day)
    except ValueError:
        return None


def place_of(settings: Settings, run: str) -> Path:
    """The path of a run's capsule."""
    return settings.state / "capsules" / f"{run}{SUFFIX}"


def seal_after_run(
    settings: Settings, queries: LedgerQueries, run: str, now: datetime, say: Callable[[str], None]
) -> None:
    """After a run, make its capsule if the settings ask for it and the run had work, and remove expired capsules. `now`
    is aware, in UTC.
    """
    if settings.run_archive.capsules == "each":
        from loadsheet.run_archive.create import seal

        with_work = (one for one in queries.runs_named(run) if one.name == run and queries.drops_of(one))
        for one in with_work:
            try:
                seal(queries, one, settings, place_of(settings, run), now)
            except LoadsheetError as error:
                say(f"no capsule of run {run}: {error}")
    if settings.run_archive.capsule_days:
        purge(settings, now)


def purge(settings: Settings, now: datetime) -> int:
    """Remove capsules of runs older than `run_archive.capsule_days`. Returns how many. The record keeps their heads."""
    oldest, removed = now.replace(tzinfo=None) - timedelta(days=settings.run_archive.capsule_days), 0
    for path in sorted((settings.state / "capsules").glob(f"*{SUFFIX}")):
        day = day_of(path)
        if day is not None and day.date() < oldest.date():
            with suppress(OSError):  # retried next time
                path.unlink()
                removed += 1
    return removed
