"""Retention: removes what is older than the settings keep it, once per run, and backs the ledger up once a day.

`keep` removes originals, payloads, reports and log files, then makes the backup of the day. Each step stands alone, continues where a killed
one stopped, and never changes the outcome of a run. A process killed between two steps loses nothing that is still needed. A folder of
reports stays whole if it holds a file that is not ours, a saved workbook that could not be read yet, files that were set aside and are
kept longer, or if an exception of its run is open.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

import msgspec

from loadsheet import inbox, object_storage, reports, run_log
from loadsheet.annotations import unread_workbooks
from loadsheet.ledger import Ledger
from loadsheet.ledger.codec import stamp
from loadsheet.operations.retention.backups import BY_THE_SERVER, back_up_daily
from loadsheet.problems import FolderError, LoadsheetError
from loadsheet.reconcile import Exceptions
from loadsheet.reconcile.listings import abridged, entries_with_contents
from loadsheet.reports import SUMMARY
from loadsheet.reports.index_page import INDEX
from loadsheet.settings import Settings
from loadsheet.settings.places import address_of, shown

__all__ = ["keep"]

Step = tuple[str, Callable[[], int]]


def keep(settings: Settings, ledger: Ledger, now: datetime, say: Callable[[str], None]) -> None:
    """Remove what is older than the settings want it kept, as far as nobody needs it any more, and back the ledger up once a day; `now` is
    aware, in UTC. What was removed is counted in the log and in the ledger; what cannot be done is reported, and tried again the next
    time.
    """
    counts: dict[str, int] = {}
    if settings.retention.backups and not ledger.maintenance.is_file and not ledger.queries.runs(2)[1:]:
        say(f"loadsheet: {BY_THE_SERVER}")  # once: its first run says so
    for name, act in _steps(settings, ledger, now):
        try:
            if count := act():
                counts[name] = count
        except (LoadsheetError, OSError) as error:
            say(f"loadsheet: keeping {name}: {error}")
    removed = {name: count for name, count in counts.items() if name != "backups"}
    if counts:
        run_log.info("kept house", **counts)
    if removed:
        try:
            ledger.maintenance.record_removed(removed)
        except LoadsheetError as error:
            say(f"loadsheet: keeping: {error}")


def _steps(settings: Settings, ledger: Ledger, now: datetime) -> Iterator[Step]:
    # the backup comes last, so that it holds no longer than it has to what was removed
    yield "originals", lambda: remove_originals(settings, ledger, now)
    yield "payloads", lambda: remove_payloads(settings, ledger, now)
    yield "reports", lambda: remove_reports(settings, ledger, now)
    yield "logs", lambda: run_log.remove_older(settings, now)
    yield "backups", lambda: back_up_daily(settings, ledger, now)


def remove_originals(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove originals older than `retention.archive_days` that no entry needs any more; returns how many."""
    if not settings.retention.archive_days:
        return 0
    maintenance = ledger.maintenance
    return inbox.purge(settings, now.date(), maintenance.originals_needed(), maintenance.record_originals_removed)


def remove_payloads(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove contents of entries older than `retention.payload_days` that nobody needs any more; returns of how many. What looks at the exchange
    showed of them goes with them.
    """
    if not settings.retention.payload_days:
        return 0
    before, maintenance = days_ago(now, settings.retention.payload_days), ledger.maintenance
    removed = sum(maintenance.empty(drop, before) for drop in maintenance.old_drops(before))
    abridge_snapshots(ledger, before)
    if removed:
        maintenance.empty_log()
    return removed


def abridge_snapshots(ledger: Ledger, before: str) -> None:
    """Remove from the listing snapshots of runs before a time (ISO 8601 UTC) the contents of entries that have lost theirs."""
    maintenance = ledger.maintenance
    for run in ledger.queries.runs_by_id(maintenance.old_snapshots(before)):
        shown = ledger.queries.listing_snapshot(run)
        holding = entries_with_contents(shown)
        removed = maintenance.without_contents(holding)
        after, values_left = abridged(shown, removed) if removed else (shown, bool(holding))
        if after != shown or not values_left:
            maintenance.store_snapshot(run.id, after, complete=not values_left)


def days_ago(now: datetime, days: int) -> str:
    """The time some days before a moment, as the ledger writes times: ISO 8601 UTC."""
    return stamp(now - timedelta(days=days))


ASIDE = "set-aside"
_GOING = ".removed-"
_OURS = re.compile(r".+\.results\.csv|.+\.fix(\..+)?|.+\.ack\.json|reconciliation.*\.xlsx|run\..+|.+\.capsule\.zip")


class _Summary(msgspec.Struct):
    reports: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(_Summary).decode


def remove_reports(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove the reports of runs, and of days, older than `retention.reports_days`; returns of how many. The index lists those that are left."""
    if not settings.retention.reports_days:
        return 0
    there = _there(settings)
    old = ledger.maintenance.runs_before(days_ago(now, settings.retention.reports_days)) if there else []
    known = set(old)
    days = [day for day in sorted({name[:10] for name in old} & there) if _is_over(ledger, day, known)]
    aside_goes = days_ago(now, settings.retention.archive_days) if settings.retention.archive_days else ""
    going = [
        name
        for name in [*(name for name in old if name in there), *days]
        if name < aside_goes or not _has_aside(settings, name)
    ]
    return remove_folders(settings, ledger, going) if going or _leftovers(settings.outbox_here) else 0


def remove_folders(settings: Settings, ledger: Ledger, names: Collection[str]) -> int:
    """Remove the reports of these runs or days as far as they are ours alone; returns of how many. Raises FolderError."""
    saved = {name.partition("/")[0] for name in unread_workbooks(settings, ledger)}
    ours = [name for name in names if name not in saved and not strange_files(settings.outbox / name)]
    try:
        for name in ours:  # at once out of everybody's sight
            if not settings.outbox_address or (settings.outbox_here / name).exists():
                (settings.outbox_here / name).rename(settings.outbox_here / f"{_GOING}{name}")
        going = _leftovers(settings.outbox_here)
        if going or settings.outbox_address:
            renew_index(settings, ledger)
        for name in ours if settings.outbox_address else ():
            _remove_objects(shown(settings.outbox / name))
        for folder in going:
            shutil.rmtree(folder)
    except OSError as error:
        raise FolderError(f"{error.filename}: {error.strerror}; what is left of old reports is tried again") from error
    return len(ours)


def strange_files(folder: Path) -> list[str]:
    """The names of files in a folder of reports, or of such a place in a store, that no run wrote."""
    if address := address_of(folder):
        names = [PurePosixPath(one.name) for one in object_storage.objects_in(address)]
        summary = object_storage.read(f"{address}/{SUMMARY}")
    else:
        files = (path for path in folder.rglob("*") if not path.is_dir())
        names = [PurePosixPath(path.relative_to(folder)) for path in files]
        summary = (folder / SUMMARY).read_bytes() if (folder / SUMMARY).is_file() else b""
    try:
        listed = set(_decode(summary).reports)
    except msgspec.MsgspecError:
        listed = set()
    return sorted(
        str(name)
        for name in names
        if name.parts[0] != ASIDE and name.as_posix() not in listed and not _OURS.fullmatch(name.name)
    )


def _is_over(ledger: Ledger, day: str, old: Collection[str]) -> bool:
    """Whether all runs of a day may go."""
    return all(run.name in old for run in ledger.queries.runs_named(day))


def _has_aside(settings: Settings, name: str) -> bool:
    if settings.outbox_address:
        return ASIDE in object_storage.names_in(shown(settings.outbox / name))
    return (settings.outbox / name / ASIDE).is_dir()


def _there(settings: Settings) -> set[str]:
    """The runs and days that have reports."""
    if settings.outbox_address:
        return set(object_storage.names_in(settings.outbox_address))
    return {path.parent.name for path in settings.outbox.glob(f"*/{SUMMARY}")}


def _remove_objects(address: str) -> None:
    """Remove reports from a store, `run.json` last: what is interrupted goes on the next time."""
    objects = sorted(object_storage.objects_in(address), key=lambda one: one.name == SUMMARY)
    object_storage.remove(one.address for one in objects)


def _leftovers(outbox: Path) -> list[Path]:
    """What is on its way out: of this night, and of one that was killed."""
    return sorted(outbox.glob(f"{_GOING}*"))


def renew_index(settings: Settings, ledger: Ledger) -> None:
    """Write the index anew, if there is one, as the ledger and the reports are now."""
    for newest in ledger.queries.runs(1):
        if (settings.outbox_here / INDEX).exists():
            exceptions = Exceptions(tuple(ledger.queries.exceptions_at(newest)))
            reports.renew_index(settings, ledger.queries, newest, exceptions)
