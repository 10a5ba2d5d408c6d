"""Erases a key at a person's request: plans what is removed and what stays, and removes it.

Owns: the order. Files are removed first and the ledger's contents last, so an interrupted erasure can be repeated and finds the rest.
An original is linked under its pseudonym before the old name is removed, so after a kill every original is where the ledger says.
At the end the database is rewritten, so that no page and no log contains removed data.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loadsheet import inbox, object_storage
from loadsheet.annotations import unread_workbooks
from loadsheet.errors import FolderError, LedgerError, LedgerUnwritable
from loadsheet.inbox.claims import archived_at
from loadsheet.ledger import Ledger, Run
from loadsheet.ledger.erasure import (
    ErasureRequest,
    FileName,
    KeptFile,
    KeyEntry,
    OriginalFile,
    refuse_unsettled,
    without_name,
)
from loadsheet.operations.retention import (
    abridge_snapshots,
    record_removed,
    remove_folders,
    remove_reports_among,
    renew_index,
    report_files,
    strange_files,
)
from loadsheet.operations.retention.ledger_copies import copies, copies_elsewhere
from loadsheet.places import address_of, from_stored_path, place_text, to_stored_path
from loadsheet.settings import EMBEDDED, Settings

CAPSULES = "*.capsule.zip"
_EVER = "9999"


@dataclass(frozen=True, slots=True)
class Request:
    """What to remove besides the contents in the ledger: reports with capsules, copies of the ledger, and the key itself.
    `originals` and `names` also remove files, and names of files, that have rows of other keys. `who` asks and why (`because`); a
    plan needs neither.
    """

    originals: bool = False
    reports: bool = False
    backups: bool = False
    with_key: bool = False
    names: bool = False
    who: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class Traces:
    """All traces of a key: its entries, their originals, existing reports (`unread`: the folders with a saved workbook that was not read
    yet), capsules, copies of the ledger here and elsewhere, and the `names` of its files.
    """

    key: str
    entries: tuple[KeyEntry, ...]
    originals: tuple[OriginalFile, ...]
    reports: tuple[Path, ...]
    unread: frozenset[str]
    capsules: tuple[Path, ...]
    copies: tuple[Path, ...]
    copies_elsewhere: tuple[Path, ...]
    names: tuple[FileName, ...]


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What is removed and what stays, in sentences. Each path has a sentence of its own."""

    goes: tuple[str, ...]
    stays: tuple[str, ...]


def find(settings: Settings, ledger: Ledger, ledger_file: Path, key: str) -> Traces:
    """All traces of a key."""
    entries, originals, runs, names = ledger.traces_of_key(key)
    originals = [one._replace(kept_as=from_stored_path(one.kept_as, settings.state)) for one in originals]
    names = [
        name._replace(
            files=tuple(one._replace(kept_as=from_stored_path(one.kept_as, settings.state)) for one in name.files)
        )
        for name in names
    ]
    folders = [settings.outbox / name for name in dict.fromkeys([*runs, *(name[:10] for name in runs)])]
    sealed = {*settings.outbox_here.rglob(CAPSULES), *(settings.state / "capsules").rglob(CAPSULES)}
    capsules = sorted(path for path in sealed if runs and path.name >= runs[0])  # earlier ones cannot contain it
    return Traces(
        key,
        tuple(entries),
        tuple(originals),
        tuple(folder for folder in folders if _is_there(folder)),
        frozenset(name.partition("/")[0] for name in unread_workbooks(settings, ledger)),
        tuple(capsules),
        tuple(copies(settings, ledger_file)),
        tuple(copies_elsewhere(settings)),
        tuple(names),
    )


def plan(settings: Settings, traces: Traces, request: Request) -> ErasurePlan:
    """What would be removed and what would stay. Raises NotSettled if an entry may still be sent or looked up."""
    refuse_unsettled(traces.entries, traces.key)
    count = f"{len(traces.entries)} {'entry' if len(traces.entries) == 1 else 'entries'}"
    goes = [f"payloads, cells, answers and comments of {count}, and the values in problems about them"]
    goes += ["the key itself: the same record, dropped again, is sent as a new one"] if request.with_key else []
    stays = [] if request.with_key else ["the key itself, by which the same record is not sent twice (--with-key)"]
    stays.append("states, hashes, times, the exchange's numbers, and the weights and values for totals")
    for original in traces.originals:
        if original.shared and not request.originals:
            stays.append(f"{original.kept_as}: it also has rows of other keys (--originals removes the whole file)")
        else:
            goes.append(f"{original.kept_as}: the original {original.name}")
    for folder in traces.reports:
        if not request.reports:
            stays.append(
                f"{place_text(folder)}: reports (--reports removes them; `loadsheet report --run` writes them again without the values)"
            )
        elif folder.name in traces.unread:
            stays.append(
                f"{place_text(folder)}: reports, because a workbook in it was saved and not read yet: `loadsheet run` reads it; then repeat the command"
            )
        else:
            ours, strange = report_files(folder)
            goes += [f"{place_text(folder)}: reports"] if ours or not strange else []
            stays += [
                f"{place_text(folder / name)}: not written by loadsheet: check it and remove it yourself"
                for name in strange
            ]
    for paths, chosen, what, option in (
        (traces.capsules, request.reports, "a capsule, which may contain the key", "--reports"),
        (traces.copies, request.backups, "a copy of the ledger", "--backups"),
    ):
        goes += [f"{path}: {what}" for path in paths if chosen]
        stays += [f"{path}: {what} ({option})" for path in paths if not chosen]
    stays += [
        f"{path}: a copy of the ledger, made with `ledger backup --to`: remove it yourself"
        for path in traces.copies_elsewhere
    ]
    for name in traces.names:
        sentence, is_gone = _name_outcome(settings, name, traces, request)
        (goes if is_gone else stays).append(sentence)
    stays.append(_elsewhere(settings))
    if settings.is_shared:
        stays.append(
            "old versions of changed rows on the server: in its pages until they are reused, in its log and its backups"
        )
    return ErasurePlan(tuple(goes), tuple(stays))


def erase_key(settings: Settings, ledger: Ledger, run: Run, traces: Traces, request: Request) -> None:
    """Remove what the plan names.

    Raises NotSettled and changes nothing if an entry may still be sent or looked up. Raises FolderError if a file cannot be
    removed. Raises LedgerUnwritable if the database cannot be rewritten: `loadsheet ledger vacuum` does that later.
    """
    refuse_unsettled(traces.entries, traces.key)
    originals = [original for original in traces.originals if request.originals or not original.shared]
    going = _removed_paths(traces, request)
    names = [name for name in traces.names if _is_removed(name, request) and not unmovable_file(settings, name, going)]
    for original in originals:
        remove_original(settings, original.kept_as)
        inbox.move_archive_link(settings, original.sha256, original.kept_as, "")
    inbox.remove_fetched(settings)
    record_removed(settings, ledger, [original.kept_as for original in originals])
    rename_originals(settings, ledger, names)
    for path in (*(traces.capsules if request.reports else ()), *(traces.copies if request.backups else ())):
        _remove(path)
    if request.reports:
        folders = [folder for folder in traces.reports if folder.name not in traces.unread]
        for folder in (folder for folder in folders if strange_files(folder)):
            for place in dict.fromkeys((folder, settings.outbox_here / folder.name)):
                remove_reports_among(place)
        remove_folders(settings, ledger, [folder.name for folder in folders])
    rename_in_texts(settings, ledger, names)
    erasure = ErasureRequest(traces.key, request.who, request.because, request.with_key, tuple(names))
    ledger.erase_key(run, erasure)
    renew_index(settings, ledger)
    abridge_snapshots(ledger, _EVER)
    try:
        if ledger.maintenance.is_file:
            ledger.maintenance.vacuum()
    except LedgerError as error:
        message = f"{traces.key} was forgotten, but its bytes may still be in the file: {error}"
        raise LedgerUnwritable(f"{message}; then run `loadsheet ledger vacuum`") from error


def _name_outcome(settings: Settings, file_name: FileName, traces: Traces, request: Request) -> tuple[str, bool]:
    """The sentence about a file name, and whether the name is removed."""
    message = f"{file_name.name}: the name of this file"
    if not _is_removed(file_name, request):
        return f"{message}, in the ledger, the archive and reports: the file also has other records (--names)", False
    if place := unmovable_file(settings, file_name, _removed_paths(traces, request)):
        return f"{message}, because {place} is not in the archive: remove it, or archive it with `loadsheet run`", False
    because = file_name.because or "--names"
    left = "" if request.reports and request.backups else "; remaining reports, capsules and copies still contain it"
    return (
        f"{message} becomes {file_name.pseudonym} in the ledger, the archive, logs and notices ({because}){left}",
        True,
    )


def _is_removed(file_name: FileName, request: Request) -> bool:
    return bool(file_name.because) or request.names


def _removed_paths(traces: Traces, request: Request) -> list[str]:
    return [original.kept_as for original in traces.originals if request.originals or not original.shared]


def _is_there(folder: Path) -> bool:
    address = address_of(folder)
    return bool(object_storage.names_in(address)) if address else folder.is_dir()


def _remove(path: Path | str) -> None:
    """Remove a file or an object. Raises FolderError."""
    if address := address_of(path):
        object_storage.remove([address])
        return
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise _refused(Path(path), error) from error


def _elsewhere(settings: Settings) -> str:
    other = f"{settings.state / 'exchange.db'}" if settings.exchange == EMBEDDED else settings.exchange
    return (
        "copies of the ledger that were moved or copied elsewhere; "
        f"data outside the ledger: the exchange ({other}), files set aside unread, log files in {settings.state / 'logs'} (they name keys; those of other machines name files), "
        "mails and copies that left this machine"
    )


_NOTICES = "notices.json"  # as `operations.notifications` names it
_TRY_AGAIN = "nothing was forgotten in the ledger yet: try again"


def unmovable_file(settings: Settings, file_name: FileName, going: Sequence[str]) -> str:
    """The path of a file of this name that must not be renamed: set aside, or in the work area of a killed run. Empty if none.
    `going` are the paths of originals that are removed.
    """
    kept = (file.kept_as for file in file_name.files if file.kept_as and file.kept_as not in going)
    return next(
        (place for place in kept if not _is_archived(settings, place) and object_storage.is_kept(place, settings)), ""
    )


def rename_originals(settings: Settings, ledger: Ledger, names: Sequence[FileName]) -> None:
    """Rename originals with these names to their pseudonyms. Raises FolderError."""
    for file_name, file in ((name, file) for name in names for file in name.files if file.kept_as):
        _rename(settings, ledger, file_name, file)


def rename_in_texts(settings: Settings, ledger: Ledger, names: Sequence[FileName]) -> None:
    """Replace these names with their pseudonyms in the log files of ended runs and in waiting notices. Raises FolderError."""
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
    for file_name in names:
        after = without_name(after, file_name)
    if after == before:
        return
    part = path.with_name(f".{path.name}.tmp")
    part.write_text(after, encoding="utf-8", errors="surrogateescape")
    shutil.copystat(path, part)
    part.replace(path)


def _rename(settings: Settings, ledger: Ledger, file_name: FileName, file: KeptFile) -> None:
    before = file.kept_as
    is_renamed = Path(before).name.partition("~")[0].partition(".")[0] == file_name.pseudonym.partition(".")[0]
    folder = archived_at(file_name.pseudonym, settings, file.run).parent
    place = place_text(Path(before)) if is_renamed else _copied(settings, before, folder / file_name.pseudonym)
    if place != before:
        ledger.maintenance.record_kept_as(file.number, to_stored_path(place, settings.state) if place else "")
    inbox.move_archive_link(settings, file.sha256, before, place)
    if not place:
        return
    if not is_renamed:
        remove_original(settings, before)
    _remove_left(folder / file_name.name, place)  # a killed process may have left it


def _copied(settings: Settings, before: str, target: Path) -> str:
    """The path of a copy of the same bytes under another name. Empty if the original does not exist."""
    if not _is_archived(settings, before):
        return ""  # the file no longer exists: see `unmovable_file`
    if address := address_of(before):
        stored = object_storage.find_object(address)
        if stored is None:
            return ""
        if not object_storage.copy(stored, address_of(target)):
            raise FolderError(f"{before} cannot be copied to {place_text(target)}; {_TRY_AGAIN}")
        return place_text(target)
    source, free, number = Path(before), target, 1
    if not source.exists():
        return ""
    try:
        while os.path.lexists(free) and not free.samefile(source):
            number += 1
            free = target.with_name(f"{target.stem}~{number}{target.suffix}")
        if not free.exists():
            _link(source, free)
    except OSError as error:
        raise _refused(source, error) from error
    return str(free)


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
    """Remove an original and the folders that become empty. Raises FolderError."""
    _remove(place)
    if not address_of(place) and _is_archived(settings, place):
        inbox.remove_empty_folders(Path(place).parent, settings.archive_place)


def _is_archived(settings: Settings, place: str) -> bool:
    top = settings.archive_place
    if address_of(top):
        return address_of(place).startswith(f"{address_of(top)}/")
    return not address_of(place) and Path(place).absolute().is_relative_to(top.absolute())


def _refused(path: Path, error: OSError) -> FolderError:
    return FolderError(f"{path} cannot be renamed or removed ({error.strerror}); {_TRY_AGAIN}")
