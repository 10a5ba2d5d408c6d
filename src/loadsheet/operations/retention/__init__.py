"""Retention: removes data older than the settings keep it, once per run, and backs up the ledger once a day.

`apply_retention` removes originals, payloads, reports and log files, then makes the daily backup. The steps are independent, continue after a
kill, and never change the outcome of a run. A kill between two steps loses nothing that is still needed. A report folder stays
complete if it has a file that is not ours, a saved workbook not yet read, or set-aside files that are kept longer. It also stays
while its run has an open exception.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path, PurePosixPath

from loadsheet import inbox, object_storage, reports, run_log
from loadsheet.annotations import unread_workbooks
from loadsheet.errors import FolderError, LoadsheetError
from loadsheet.ledger import Ledger
from loadsheet.ledger.codec import stamp
from loadsheet.operations.retention.ledger_copies import BY_THE_SERVER, back_up_daily
from loadsheet.places import BY_DAY_AND_RUN, address_of, from_stored_path, place_text, to_stored_path
from loadsheet.reconcile import Exceptions
from loadsheet.reconcile.listings import abridged, entries_with_contents
from loadsheet.reports import SUMMARY
from loadsheet.reports.html_pages import INDEX
from loadsheet.settings import Settings

__all__ = ["apply_retention"]

Step = tuple[str, Callable[[], int]]


def apply_retention(settings: Settings, ledger: Ledger, now: datetime, say: Callable[[str], None]) -> None:
    """Remove data that is older than the settings keep it and no longer needed, and back up the ledger once a day. `now` is aware,
    in UTC. Counts of removed data go to the log and the ledger. Errors are reported, and the step is retried in the next run.
    """
    counts: dict[str, int] = {}
    if settings.retention.backups and not ledger.maintenance.is_file and not ledger.queries.runs(2)[1:]:
        say(f"loadsheet: {BY_THE_SERVER}")  # once, in the first run
    for name, act in _steps(settings, ledger, now):
        try:
            if count := act():
                counts[name] = count
        except (LoadsheetError, OSError) as error:
            say(f"loadsheet: retention failed for {name}: {error}")
    removed = {name: count for name, count in counts.items() if name != "backups"}
    if counts:
        run_log.info("retention done", **counts)
    if removed:
        try:
            ledger.maintenance.record_removed(removed)
        except LoadsheetError as error:
            say(f"loadsheet: retention counts were not recorded: {error}")


def _steps(settings: Settings, ledger: Ledger, now: datetime) -> Iterator[Step]:
    # the backup comes last, so that it does not contain the removed data
    yield "originals", lambda: remove_originals(settings, ledger, now)
    yield "payloads", lambda: remove_payloads(settings, ledger, now)
    yield "reports", lambda: remove_reports(settings, ledger, now)
    yield "logs", lambda: run_log.remove_older(settings, now)
    yield "backups", lambda: back_up_daily(settings, ledger, now)


def remove_originals(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove originals older than `retention.archive_days` that no entry needs any more. Returns their number."""
    if not settings.retention.archive_days:
        return 0
    needed = {Path(from_stored_path(place, settings.state)) for place in ledger.maintenance.originals_needed()}
    if settings.archive_path == BY_DAY_AND_RUN:
        return inbox.purge(settings, now.date(), needed, lambda places: record_removed(settings, ledger, places))
    expired = [place for place in _expired(settings, ledger, now) if place not in needed]
    if expired:
        record_removed(settings, ledger, expired)
    return inbox.remove(settings, expired)


def _expired(settings: Settings, ledger: Ledger, now: datetime) -> Iterator[Path]:
    """The originals in the archive whose run is older than `retention.archive_days`. Only the ledger knows that if `archive_path` has no day."""
    oldest = str(now.date() - timedelta(days=settings.retention.archive_days))
    for original in ledger.maintenance.originals():
        place = Path(from_stored_path(original.kept_as, settings.state))
        if original.run[:10] < oldest and place.absolute().is_relative_to(settings.archive_place.absolute()):
            yield place


def record_removed(settings: Settings, ledger: Ledger, places: Iterable[Path | str]) -> None:
    """Record, before the removal, that originals at these places are no longer kept."""
    stored = [(to_stored_path(place, settings.state), place_text(Path(place))) for place in places]
    ledger.maintenance.record_originals_removed([*dict.fromkeys(chain.from_iterable(stored))])


def remove_payloads(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove the contents of entries older than `retention.payload_days` that are no longer needed, also from listing snapshots.
    Returns the number of entries.
    """
    if not settings.retention.payload_days:
        return 0
    before, maintenance = days_ago(now, settings.retention.payload_days), ledger.maintenance
    removed = sum(maintenance.remove_contents_of_drop(drop, before) for drop in maintenance.old_drops(before))
    abridge_snapshots(ledger, before)
    if removed:
        maintenance.truncate_log()
    return removed


def abridge_snapshots(ledger: Ledger, before: str) -> None:
    """Remove the contents of entries without contents from the listing snapshots of runs before a time (ISO 8601 UTC)."""
    maintenance = ledger.maintenance
    for run in ledger.queries.runs_by_id(maintenance.old_snapshots(before)):
        shown = ledger.queries.listing_snapshot(run)
        holding = entries_with_contents(shown)
        removed = maintenance.without_contents(holding)
        after, values_left = abridged(shown, removed) if removed else (shown, bool(holding))
        if after != shown or not values_left:
            maintenance.store_snapshot(run.id, after, complete=not values_left)


def days_ago(now: datetime, days: int) -> str:
    """The time `days` days before `now`, as the ledger writes times: ISO 8601 UTC."""
    return stamp(now - timedelta(days=days))


ASIDE = "set-aside"
_GOING = ".removed-"
_OURS = re.compile(
    r".+\.results\.(csv|xlsx)|.+\.fix(\..+)?|.+\.ack\.json|reconciliation.*\.xlsx|run\..+|.+\.capsule\.zip"
)


def remove_reports(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove the reports of runs and days older than `retention.reports_days`. Returns their number. Renews the index."""
    if not settings.retention.reports_days:
        return 0
    reported = _reported(settings)
    old = ledger.maintenance.runs_before(days_ago(now, settings.retention.reports_days)) if reported else []
    old_names = set(old)
    days = [
        day
        for day in sorted({name[:10] for name in old} & reported)
        if {run.name for run in ledger.queries.runs_of_day(day)} <= old_names
    ]
    aside_before = days_ago(now, settings.retention.archive_days) if settings.retention.archive_days else ""
    going = [
        name
        for name in [*(name for name in old if name in reported), *days]
        if name < aside_before or not _has_aside(settings, name)
    ]
    return remove_folders(settings, ledger, going) if going or _leftovers(settings.outbox_here) else 0


def remove_folders(settings: Settings, ledger: Ledger, names: Collection[str]) -> int:
    """Remove the reports of these runs or days, except folders with other files. Returns their number. Raises FolderError."""
    saved = {name.partition("/")[0] for name in unread_workbooks(settings, ledger)}
    ours = [name for name in names if name not in saved and not strange_files(settings.outbox / name)]
    try:
        for name in ours:  # renamed first, so that they disappear at once
            if not settings.outbox_address or (settings.outbox_here / name).exists():
                (settings.outbox_here / name).rename(settings.outbox_here / f"{_GOING}{name}")
        going = _leftovers(settings.outbox_here)
        if going or settings.outbox_address:
            renew_index(settings, ledger)
        for name in ours if settings.outbox_address else ():
            _remove_objects(place_text(settings.outbox / name))
        for folder in going:
            shutil.rmtree(folder)
    except OSError as error:
        raise FolderError(f"{error.filename}: {error.strerror}; the next run removes the other old reports") from error
    return len(ours)


def strange_files(folder: Path) -> list[str]:
    """The names of files in a report folder (or its counterpart in a store) that no run wrote."""
    return report_files(folder)[1]


def report_files(folder: Path) -> tuple[list[str], list[str]]:
    """The names of the files in a report folder (or its counterpart in a store): those that a run wrote, except files set aside, with
    `run.json` last, and the others.
    """
    if address := address_of(folder):
        names = [PurePosixPath(stored.name) for stored in object_storage.objects_in(address)]
        summary = object_storage.read(f"{address}/{SUMMARY}")
    else:
        files = (path for path in folder.rglob("*") if not path.is_dir())
        names = [PurePosixPath(path.relative_to(folder)) for path in files]
        summary = (folder / SUMMARY).read_bytes() if (folder / SUMMARY).is_file() else b""
    listed = set(reports.named_reports(summary))
    ours: list[str] = []
    strange: list[str] = []
    for name in sorted(map(str, (name for name in names if name.parts[0] != ASIDE))):
        (ours if name in listed or _OURS.fullmatch(PurePosixPath(name).name) else strange).append(name)
    return sorted(ours, key=lambda name: name == SUMMARY), strange


def remove_reports_among(folder: Path) -> None:
    """Remove what runs wrote in a report folder (or its counterpart in a store) and keep all else. Raises FolderError. `run.json`, which
    lists our files, goes last: an interrupted removal can be repeated.
    """
    ours, address = report_files(folder)[0], address_of(folder)
    if address:
        object_storage.remove(f"{address}/{name}" for name in ours)
        return
    try:
        for name in ours:
            (folder / name).unlink(missing_ok=True)
            inbox.remove_empty_folders((folder / name).parent, folder.parent)
    except OSError as error:
        raise FolderError(
            f"{error.filename}: {error.strerror}; repeat the command to remove the other reports"
        ) from error


def _has_aside(settings: Settings, name: str) -> bool:
    if settings.outbox_address:
        return ASIDE in object_storage.names_in(place_text(settings.outbox / name))
    return (settings.outbox / name / ASIDE).is_dir()


def _reported(settings: Settings) -> set[str]:
    """The runs and days that have reports."""
    if settings.outbox_address:
        return set(object_storage.names_in(settings.outbox_address))
    return {path.parent.name for path in settings.outbox.glob(f"*/{SUMMARY}")}


def _remove_objects(address: str) -> None:
    """Remove reports from a store, `run.json` last: the next run continues an interrupted removal."""
    objects = sorted(object_storage.objects_in(address), key=lambda stored: stored.name == SUMMARY)
    object_storage.remove(stored.address for stored in objects)


def _leftovers(outbox: Path) -> list[Path]:
    """The folders that are being removed, also those of a killed run."""
    return sorted(outbox.glob(f"{_GOING}*"))


def renew_index(settings: Settings, ledger: Ledger) -> None:
    """Rewrite an existing index from the current ledger and reports."""
    for newest in ledger.queries.runs(1):
        if (settings.outbox_here / INDEX).exists():
            exceptions = Exceptions(tuple(ledger.queries.exceptions_at(newest)))
            reports.renew_index(settings, ledger.queries, newest, exceptions)
