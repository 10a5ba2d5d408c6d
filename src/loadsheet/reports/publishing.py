"""Uploads the reports to an outbox in an object store, each as a whole and `run.json` last.

Reports that cannot be uploaded stay on this machine. They are uploaded with the next reports of that run, or by `loadsheet report`.
Reports of other machines are downloaded if the index of runs or a capsule needs them.
"""

import re
from collections.abc import Iterable

import msgspec

from loadsheet import object_storage
from loadsheet.settings import Settings
from loadsheet.settings.places import shown

INDEX, SUMMARY = "index.html", "run.json"
_RUN = re.compile(r"\d{4}-\d\d-\d\d(-\d+)?", re.ASCII)


class _Summary(msgspec.Struct):
    reports: tuple[str, ...] = ()


def publish(settings: Settings, run: str, names: Iterable[str]) -> None:
    """Upload these reports of a run, if the outbox is in an object store. Raises FolderError."""
    if settings.outbox_address:
        object_storage.in_parallel(
            lambda name: _put(settings, f"{run}/{name}"), [name for name in names if name != SUMMARY]
        )
        _put(settings, f"{run}/{SUMMARY}")


def publish_index(settings: Settings) -> None:
    """Upload the index of runs, if the outbox is in an object store. Raises FolderError."""
    if settings.outbox_address:
        _put(settings, INDEX)


def bring_summaries(settings: Settings, runs_max: int) -> None:
    """Download `run.json` of the newest runs of other machines, if the outbox is in an object store. Raises FolderError."""
    if settings.outbox_address:
        runs = [name for name in object_storage.names_in(settings.outbox_address) if _RUN.fullmatch(name)]
        object_storage.in_parallel(
            lambda run: _bring(settings, f"{run}/{SUMMARY}"), sorted(runs, key=_place_of)[-runs_max:]
        )


def bring_reports(settings: Settings, run: str) -> None:
    """Download the reports of a run that are not on this machine, if the outbox is in an object store. Raises FolderError."""
    if settings.outbox_address:
        _bring(settings, f"{run}/{SUMMARY}")
        try:
            summary = msgspec.json.decode((settings.outbox_here / run / SUMMARY).read_bytes(), type=_Summary)
        except (OSError, msgspec.MsgspecError):
            return
        object_storage.in_parallel(lambda name: _bring(settings, f"{run}/{name}"), summary.reports)


def _put(settings: Settings, name: str) -> None:
    object_storage.put(settings.outbox_here / name, shown(settings.outbox / name))


def _bring(settings: Settings, name: str) -> None:
    target = settings.outbox_here / name
    if not target.is_file() and (found := object_storage.look(shown(settings.outbox / name))):
        object_storage.fetch(found, target)


def _place_of(run: str) -> tuple[str, int]:
    return run[:10], int(run[11:] or 0)
