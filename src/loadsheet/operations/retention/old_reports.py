"""Folders of old reports in the outbox: which of them are ours, and how they go at once or not at all.

Owns: what counts as a report. A folder stays whole if somebody put something of their own into it, saved a workbook that could not be read
yet, if it holds files that were set aside and are to be kept, or if an exception of its run is open.
"""

import re
import shutil
from collections.abc import Collection
from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec

from loadsheet import object_storage
from loadsheet.annotations import unread_workbooks
from loadsheet.ledger import Ledger
from loadsheet.operations.retention.expiry import days_ago
from loadsheet.problems import FolderError
from loadsheet.reconcile import Exceptions
from loadsheet.reports import SUMMARY, close_reports, publish_index
from loadsheet.reports.web import INDEX, fleet_status, write_index
from loadsheet.settings import Settings
from loadsheet.settings.places import address_of, shown

ASIDE = "set-aside"
_GOING = ".removed-"
_OURS = re.compile(r".+\.results\.csv|.+\.fix(\..+)?|.+\.ack\.json|reconciliation.*\.xlsx|run\..+|.+\.capsule\.zip")


class _Summary(msgspec.Struct):
    reports: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(_Summary).decode


def remove_reports(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove the reports of runs, and of days, older than `reports_days`; returns of how many. The index tells of those that are left."""
    if not settings.reports_days:
        return 0
    there = _there(settings)
    old = ledger.maintenance.runs_before(days_ago(now, settings.reports_days)) if there else []
    known = set(old)
    days = [day for day in sorted({name[:10] for name in old} & there) if _is_over(ledger, day, known)]
    aside_goes = days_ago(now, settings.archive_days) if settings.archive_days else ""
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
        told = object_storage.read(f"{address}/{SUMMARY}")
    else:
        files = (path for path in folder.rglob("*") if not path.is_dir())
        names = [PurePosixPath(path.relative_to(folder)) for path in files]
        told = (folder / SUMMARY).read_bytes() if (folder / SUMMARY).is_file() else b""
    try:
        listed = set(_decode(told).reports)
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
    found = sorted(object_storage.objects_in(address), key=lambda one: one.name == SUMMARY)
    object_storage.remove(one.address for one in found)


def _leftovers(outbox: Path) -> list[Path]:
    """What is on its way out: of this night, and of one that was killed."""
    return sorted(outbox.glob(f"{_GOING}*"))


def renew_index(settings: Settings, ledger: Ledger) -> None:
    """Write the index anew, if there is one, as the ledger and the reports are now."""
    for newest in ledger.queries.runs(1):
        if (settings.outbox_here / INDEX).exists():
            exceptions = Exceptions(tuple(ledger.queries.exceptions_at(newest)))
            shown, fleet = settings.index_runs_max, fleet_status(settings)
            write_index(settings.outbox_here, ledger.queries, newest, exceptions, runs_max=shown, fleet=fleet)
            close_reports(settings.outbox_here / INDEX, settings)
            publish_index(settings)
