"""Pseudonyms in the place of file names outside of the ledger: originals in the archive, log files, notices that wait.

Owns: the order, in which a process that is killed leaves every original where the ledger says it is, and nothing that the next one does not
find: the ledger knows the name until the last.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from loadsheet import inbox, object_storage
from loadsheet.ledger import Ledger
from loadsheet.ledger.erased_names import FileName, KeptFile, without_name
from loadsheet.problems import FolderError
from loadsheet.settings import Settings
from loadsheet.settings.places import address_of, shown

_NOTICES = "notices.json"  # as `operations.notifications` names it
_TRY_AGAIN = "nothing was forgotten in the ledger yet: try again"


def in_the_way(settings: Settings, one: FileName, going: Sequence[str]) -> str:
    """Where a file of this name lies that we may not rename: set aside, or in the work area of a killed run; empty if nowhere. `going` are
    the places of originals that go.
    """
    kept = (file.kept_as for file in one.files if file.kept_as and file.kept_as not in going)
    return next((place for place in kept if not _is_archived(settings, place) and object_storage.is_kept(place)), "")


def rename_originals(settings: Settings, ledger: Ledger, names: Sequence[FileName]) -> None:
    """Have originals of these names lie under their pseudonyms. Raises FolderError."""
    for one in names:
        for file in one.files:
            _rename(settings, ledger, one, file)


def rename_in_texts(settings: Settings, ledger: Ledger, names: Sequence[FileName]) -> None:
    """Put pseudonyms in the place of these names in the log files of runs that are over, and in notices that wait. Raises FolderError."""
    logs = sorted((settings.state / "logs").glob("*.jsonl")) if names else []
    over = [path for path in logs if all(run.finished_at for run in ledger.queries.runs_named(path.stem))]
    for path in [*over, settings.state / _NOTICES]:
        try:
            _rename_in(path, names)
        except OSError as error:
            raise _refused(path, error) from error


def _rename_in(path: Path, names: Sequence[FileName]) -> None:
    if not path.is_file():
        return
    before = path.read_text(encoding="utf-8", errors="surrogateescape")
    after = before
    for one in names:
        after = without_name(after, one)
    if after == before:
        return
    part = path.with_name(f".{path.name}.tmp")
    part.write_text(after, encoding="utf-8", errors="surrogateescape")
    shutil.copystat(path, part)
    part.replace(path)


def _rename(settings: Settings, ledger: Ledger, one: FileName, file: KeptFile) -> None:
    before = file.kept_as
    if not before:
        return
    is_renamed = Path(before).name.partition("~")[0].partition(".")[0] == one.pseudonym.partition(".")[0]
    folder = _folder_of(settings, file)
    place = shown(Path(before)) if is_renamed else _copied(settings, before, folder / one.pseudonym)
    if place != before:
        ledger.maintenance.keep_as(file.number, place)
    inbox.move_archive_mark(settings, file.sha256, before, place)
    if not place:
        return
    if not is_renamed:
        remove_original(settings, before)
    _remove_left(folder / one.name, place)  # a killed process may have left it


def _copied(settings: Settings, before: str, wanted: Path) -> str:
    """Where the same bytes lie under another name as well; nowhere (empty) if they are not there."""
    if not _is_archived(settings, before):
        return ""  # nothing lies there any more: see `in_the_way`
    if address := address_of(before):
        found = object_storage.look(address)
        if found is None:
            return ""
        if not object_storage.copy(found, address_of(wanted)):
            raise FolderError(f"{before} cannot be copied to {shown(wanted)}; {_TRY_AGAIN}")
        return shown(wanted)
    source, target, number = Path(before), wanted, 1
    if not source.exists():
        return ""
    try:
        while os.path.lexists(target) and not target.samefile(source):
            number += 1
            target = wanted.with_name(f"{wanted.stem}~{number}{wanted.suffix}")
        if not target.exists():
            _link(source, target)
    except OSError as error:
        raise _refused(source, error) from error
    return str(target)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without links
        part = target.with_name(f".{target.name}.tmp")
        shutil.copy2(source, part)
        part.replace(target)


def _remove_left(old: Path, place: str) -> None:
    if address_of(old):
        object_storage.remove([address_of(old)])
        return
    with suppress(OSError):
        left = [path for path in old.parent.glob("*") if path != Path(place) and path.samefile(place)]
        for path in [old, *left]:
            path.unlink(missing_ok=True)
        inbox.remove_empty_folders(old.parent, Path(place).parent)


def remove_original(settings: Settings, place: str) -> None:
    """Remove an original, and the folders that are empty without it. Raises FolderError."""
    if address := address_of(place):
        object_storage.remove([address])
        return
    path = Path(place)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, error) from error
    if _is_archived(settings, place):
        inbox.remove_empty_folders(path.parent, settings.archive_place)


def _folder_of(settings: Settings, file: KeptFile) -> Path:
    return settings.archive_place / file.run[:10].replace("-", "/") / file.run


def _is_archived(settings: Settings, place: str) -> bool:
    top = settings.archive_place
    if address_of(top):
        return address_of(place).startswith(f"{address_of(top)}/")
    return not address_of(place) and Path(place).absolute().is_relative_to(top.absolute())


def _refused(path: Path, error: OSError) -> FolderError:
    return FolderError(f"{path} cannot be renamed or removed ({error.strerror}); {_TRY_AGAIN}")
