"""Moves claimed files to the archive of their day, or to the outbox with the reasons, and purges the archive.

Nothing is ever overwritten. Links in `STATE/known/`, named by the SHA-256, find archived files by their bytes.
"""

import glob
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from loadsheet import object_storage
from loadsheet.errors import FolderError
from loadsheet.inbox.claims import InboxFile, archived_at
from loadsheet.inbox.files import folder_error, free_path, make_folder, move, relative_path, remove_empty_folders
from loadsheet.places import address_of, replace_file
from loadsheet.problems import NOT_IN_LEDGER, Problem
from loadsheet.settings import Settings

_REASON_SUFFIX = ".why.txt"
_DEPTHS = ("[0-9]*/[0-9]*/[0-9]*", "[0-9]*/[0-9]*", "[0-9]*")
_DUPLICATE_LINE = re.compile(r"^Dropped again (\d+) times?; .*$", re.MULTILINE)


def archive(file: InboxFile, settings: Settings, run: str) -> Path:
    """Move a claimed file into the archive of the run's day, read-only, and return its path. An object is then removed from the inbox.
    Nothing is ever overwritten. Raises FolderError; the file then stays where it was.
    """
    target = archived_at(file.name, settings, run)
    if address := address_of(target):
        _put(file, address)
        _remove_work_copy(file, settings)
    else:
        target = free_path(target)
        _move_claimed(file, target, settings)
        with suppress(OSError):  # some file systems have no modes
            target.chmod(0o400)
    _write_link(_link_path(settings, "archived", file.sha256), target)
    if file.claimed_object is not None:
        file.claimed_object.remove_from_inbox()
    return target


def find_archived_copy(file: InboxFile, settings: Settings) -> str:
    """RUN/NAME of the archived file with the same bytes; empty without one."""
    kept = _read_link(_link_path(settings, "archived", file.sha256))
    return "/".join(kept.parts[-(1 + len(relative_path(file.name).parts)) :]) if kept is not None else ""


def complete_interrupted_move(file: InboxFile, settings: Settings, run: str) -> Path | None:
    """Finish the move of a file that a killed run moved but did not record. Returns its path; None if that run had not moved it."""
    links = (_link_path(settings, "archived", file.sha256), _aside_link(file, settings))
    archived = archived_at(file.name, settings, run)
    numbered = () if address_of(archived) else archived.parent.glob(f"{glob.escape(archived.stem)}~*")
    places = [archived, *numbered, _beside_reports(file, settings, run), *map(_read_link, links)]
    found = next((place for place in places if place is not None and _has_same_bytes(place, file)), None)
    if found is None and settings.outbox_address:
        aside = settings.outbox / run / "set-aside" / relative_path(file.name)
        stored = object_storage.find_object(address_of(aside))
        return _release_object(file, aside) if stored is not None and stored.size == file.size else None
    if found is not None and found.is_relative_to(settings.outbox_here):
        return _release_object(file, _published(found, settings))
    if found is not None and file.claimed_object is not None:
        file.claimed_object.remove_from_inbox()
    return found


def purge(
    settings: Settings,
    today: date,
    needed: Collection[Path],
    before_removal: Callable[[Sequence[Path]], None] = lambda _: None,
) -> int:
    """Remove archived files older than `retention.archive_days` (0: never) before `today`, except the `needed` ones.

    Returns the number of removed files. `before_removal` is called with the files of each folder before they are removed.
    The next purge retries files that cannot be removed.
    """
    removed = 0
    if not settings.retention.archive_days:
        return removed
    if address_of(settings.archive_place):
        return _purge_store(settings, today, needed, before_removal)
    top = settings.archive_place
    oldest = today - timedelta(days=settings.retention.archive_days)
    keep = {path.absolute() for path in needed}
    for folder in (folder for day, folder in _days(top) if day < oldest):
        found = sorted(folder.rglob("*"), reverse=True)
        before_removal([path for path in found if path.is_file() and path.absolute() not in keep])
        for path in found:
            if path.is_dir() and not path.is_symlink():
                remove_empty_folders(path, top)
            elif path.absolute() not in keep:
                with suppress(OSError):
                    path.unlink()
                    removed += 1
                    remove_empty_folders(path.parent, top)
    for folder in (folder for depth in _DEPTHS for folder in top.glob(depth)):
        remove_empty_folders(folder, top)  # emptied by a killed run
    if removed:
        _remove_dead_links(settings)
    return removed


def remove(settings: Settings, places: Sequence[Path]) -> int:
    """Remove these originals and the folders that become empty. Returns the number of removed files; the next run retries the others."""
    top = settings.archive_place
    if address_of(top):
        object_storage.remove(address_of(place) for place in places)
        return len(places)
    removed = 0
    for place in places:
        with suppress(OSError):
            place.unlink(missing_ok=True)
            removed += 1
            remove_empty_folders(place.parent, top)
    if removed:
        _remove_dead_links(settings)
    return removed


def _purge_store(
    settings: Settings, today: date, needed: Collection[Path], before_removal: Callable[[Sequence[Path]], None]
) -> int:
    """`purge` for an archive in an object store."""
    removed, top = 0, settings.archive_place
    oldest, keep = today - timedelta(days=settings.retention.archive_days), set(needed)
    for day in _days_in_store(top, oldest):
        folder = top / f"{day:%Y/%m/%d}"
        expired = [item for item in object_storage.objects_in(address_of(folder)) if folder / item.name not in keep]
        before_removal([folder / item.name for item in expired])
        object_storage.remove(item.address for item in expired)
        removed += len(expired)
    return removed


def _days_in_store(top: Path, oldest: date) -> Iterator[date]:
    """The days before `oldest` for which an archive in an object store holds files."""

    def below(folder: Path, last: int) -> list[int]:
        return [
            int(name) for name in object_storage.names_in(address_of(folder)) if name.isdecimal() and int(name) <= last
        ]

    for year in below(top, oldest.year):
        for month in below(top / f"{year}", oldest.month if year == oldest.year else 12):
            for number in below(top / f"{year}" / f"{month:02}", 31):
                with suppress(ValueError):  # not a folder of ours
                    if (day := date(year, month, number)) < oldest:
                        yield day


def set_aside(file: InboxFile, settings: Settings, run: str, problems: Sequence[Problem]) -> Path:
    """Move a claimed file into the outbox of `run`, with the reasons beside it in NAME.why.txt, and return its path. While an
    identical file of the same name is there, only the duplicates are counted in its reasons. Raises FolderError; the file then
    stays where it was.
    """
    link = _aside_link(file, settings)
    before = _read_link(link)
    if before is not None and _count_duplicate(before, file, settings, run):
        return _release_object(file, _published(before, settings))
    target = free_path(_beside_reports(file, settings, run))
    reasons = target.with_name(target.name + _REASON_SUFFIX)
    try:
        make_folder(target.parent, settings)
        replace_file(reasons, _reasons(file, problems).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise folder_error(error, file.name, "set aside") from error
    try:
        _move_claimed(file, target, settings)
    except FolderError:
        reasons.unlink(missing_ok=True)
        raise
    _write_link(link, target)
    return _release_object(file, _published(target, settings))


def _release_object(file: InboxFile, place: Path) -> Path:
    """Remove an object from the archive and the inbox after it was set aside."""
    if file.claimed_object is not None:
        file.claimed_object.remove_from_archive()
        file.claimed_object.remove_from_inbox()
    return place


def _published(place: Path, settings: Settings) -> Path:
    """The published path of a file that was set aside locally. If the outbox is in an object store, uploads the file and its reasons."""
    if not settings.outbox_address or not place.is_relative_to(settings.outbox_here):
        return place
    remote = settings.outbox / place.relative_to(settings.outbox_here)
    for name in (place.name + _REASON_SUFFIX, place.name):
        object_storage.put(place.with_name(name), address_of(remote.with_name(name)))
    return remote


def _put(file: InboxFile, address: str) -> None:
    """Upload a file unless an earlier attempt did. Only this run writes to the address, so an object of the same size is the file."""
    stored = object_storage.find_object(address)
    if stored is None or stored.size != file.size:
        object_storage.put(file.path, address)


def _remove_work_copy(file: InboxFile, settings: Settings) -> None:
    with suppress(OSError):
        file.path.unlink()
    remove_empty_folders(file.path.parent, settings.state / "work")


def _beside_reports(file: InboxFile, settings: Settings, run: str) -> Path:
    return settings.outbox_here / run / "set-aside" / relative_path(file.name)


def _aside_link(file: InboxFile, settings: Settings) -> Path:
    return _link_path(settings, "aside", hashlib.sha256(f"{file.sha256} {file.name}".encode()).hexdigest())


def _has_same_bytes(place: Path, file: InboxFile) -> bool:
    if address := address_of(place):
        # the claim already copied an object to the archive
        stored = None if file.claimed_object else object_storage.find_object(address)
        return stored is not None and stored.size == file.size
    try:
        with place.open("rb") as kept:
            return hashlib.file_digest(kept, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def _move_claimed(file: InboxFile, target: Path, settings: Settings) -> None:
    if not move(file.path, target, settings, file.name):
        raise FolderError(f"{file.name} is no longer at {file.path}; another program moved it during the run")
    remove_empty_folders(file.path.parent, settings.state / "work")


def _days(archive: Path) -> Iterator[tuple[date, Path]]:
    for folder in sorted(archive.glob(_DEPTHS[0])):
        with suppress(ValueError):  # not a folder of ours
            yield date(*(int(part) for part in folder.parts[-3:])), folder


def _link_path(settings: Settings, kind: str, digest: str) -> Path:
    return settings.state / "known" / kind / digest[:2] / digest


def _write_link(link: Path, kept: Path) -> None:
    """Record where bytes are kept. On a file system without links nothing is recorded, and duplicates are not reported."""
    with suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() and not link.exists():
            link.unlink()
        state, place = link.absolute().parents[3], kept if address_of(kept) else kept.absolute()
        link.symlink_to(Path("../../..", place.relative_to(state)) if place.is_relative_to(state) else place)


def _remove_dead_links(settings: Settings) -> None:
    """Remove links to files that are gone."""
    links = settings.state / "known"
    for link in links.glob("archived/??/*"):
        if _read_link(link) is None:
            with suppress(OSError):
                link.unlink()
                remove_empty_folders(link.parent, links)


def move_archive_link(settings: Settings, sha256: str, before: str, place: str) -> None:
    """Point the link of archived bytes to another place. An empty `place` removes the link, unless it points to another copy."""
    link = _link_path(settings, "archived", sha256)
    with suppress(OSError):
        target = _target(link)
        if place or target in (Path(before), Path(before).absolute()) or _read_link(link) is None:
            link.unlink()
            remove_empty_folders(link.parent, settings.state / "known")
            if place:
                _write_link(link, Path(place))


def _target(link: Path) -> Path:
    """Where a link points to. Raises OSError. A link to a file in the state folder is relative, so that the folder can be moved."""
    target = Path(os.readlink(link))  # noqa: PTH115 (raises the reason)
    return target if address_of(target) else Path(os.path.normpath(link.absolute().parent / target))


def _read_link(link: Path) -> Path | None:
    try:
        kept = _target(link)
    except OSError:
        return None
    return kept if address_of(kept) or (kept.is_file() and not kept.is_symlink()) else None


def _count_duplicate(before: Path, file: InboxFile, settings: Settings, run: str) -> bool:
    """Count a duplicate in the reasons of the first copy and delete the duplicate; False if the first copy is gone or changed."""
    reasons = before.with_name(before.name + _REASON_SUFFIX)
    try:
        if not _has_same_bytes(before, file):
            return False
        text = reasons.read_text(encoding="utf-8", errors="surrogateescape")
        found = _DUPLICATE_LINE.search(text)
        count = int(found[1]) + 1 if found else 1
        line = f"Dropped again {count} time{'s' if count > 1 else ''}; the last time for run {run}."
        text = _DUPLICATE_LINE.sub(line, text) if found else f"{text}{line}\n"
        replace_file(reasons, text.encode("utf-8", "backslashreplace"))
        file.path.unlink()
    except OSError:
        return False
    remove_empty_folders(file.path.parent, settings.state / "work")
    return True


_AGAIN = "Correct the file and drop it into the inbox again. Records that were accepted before are not sent twice."
_NOT_AGAIN = "Contact the people who run loadsheet before you drop it again."


def _reasons(file: InboxFile, problems: Sequence[Problem]) -> str:
    """The reasons for setting a file aside, for its sender."""
    was_processed = any(problem.code == NOT_IN_LEDGER for problem in problems)
    lines = [
        f"loadsheet could not use the file {file.name}",
        f"({file.size:,} bytes, last changed {file.arrived:%Y-%m-%d %H:%M:%S} UTC, SHA-256 {file.sha256}).",
        "Nothing from this file was sent." if not was_processed else "Nothing from this file was sent this time.",
        "",
        "What is wrong:",
    ]
    for problem in problems:
        place = "" if str(problem.where) in ("", file.name) else f"{problem.where}: "
        lines.append(f"  - {place}{problem.title}: {problem.text} [{problem.code}]")
        if problem.hint:
            lines.append(f"    What to do: {problem.hint}")
    lines += ["", _NOT_AGAIN if was_processed else _AGAIN, ""]
    return "\n".join(lines)
