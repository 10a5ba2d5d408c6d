"""Where a claimed file goes: to the archive of its day, or to the outbox with the reasons; and how long it is kept.

Nothing is ever overwritten. Kept files are found by their bytes, in `STATE/known/`: links named by the SHA-256.
"""

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from loadsheet import object_storage
from loadsheet.inbox.claims import InboxFile, archived_at
from loadsheet.inbox.files import folder_error, free_path, make_folder, move, relative_path, remove_empty_folders
from loadsheet.problems import FolderError, Problem
from loadsheet.settings import Settings
from loadsheet.settings.places import address_of

_REASON_SUFFIX = ".why.txt"
_DEPTHS = ("[0-9]*/[0-9]*/[0-9]*", "[0-9]*/[0-9]*", "[0-9]*")
_DUPLICATE_LINE = re.compile(r"^Dropped again (\d+) times?; .*$", re.MULTILINE)


def archive(file: InboxFile, settings: Settings, day: date, run: str) -> Path:
    """Move a claimed file into the archive of `day`, read-only, and return its place; then remove an object from the inbox. Nothing is
    ever overwritten. Raises FolderError, and the file stays where it was.
    """
    target = archived_at(file.name, settings, day, run)
    if address := address_of(target):
        _put(file, address)
        _drop(file, settings)
    else:
        target = free_path(target)
        _move_claimed(file, target, settings)
        with suppress(OSError):  # some file systems know no modes
            target.chmod(0o400)
    _write_mark(_mark_path(settings, "archived", file.sha256), target)
    if file.claimed_object is not None:
        file.claimed_object.remove_from_inbox()
    return target


def find_archived_copy(file: InboxFile, settings: Settings) -> str:
    """RUN/NAME of the archived file with the same bytes; empty if there is none."""
    kept = _read_mark(_mark_path(settings, "archived", file.sha256))
    return "/".join(kept.parts[-(1 + len(relative_path(file.name).parts)) :]) if kept is not None else ""


def find_moved(file: InboxFile, settings: Settings, day: date, run: str) -> Path | None:
    """Where a killed run moved a file without recording it; None if it did not."""
    marks = (_mark_path(settings, "archived", file.sha256), _aside_mark(file, settings))
    places = [archived_at(file.name, settings, day, run), _beside_reports(file, settings, run), *map(_read_mark, marks)]
    found = next((place for place in places if place is not None and _has_same_bytes(place, file)), None)
    if found is None and settings.outbox_address:
        aside = settings.outbox / run / "set-aside" / relative_path(file.name)
        there = object_storage.look(address_of(aside))
        return _release_object(file, aside) if there is not None and there.size == file.size else None
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
    """Remove archived files of days more than `retention.archive_days` before `today`, but for those that are `needed`; returns how many. With
    `retention.archive_days` 0 none. `before_removal` is called with the files of each folder before they are removed. What cannot be removed stays for the next time.
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
        remove_empty_folders(folder, top)  # a killed run had emptied it
    if removed:
        _remove_dead_marks(settings)
    return removed


def _purge_store(
    settings: Settings, today: date, needed: Collection[Path], before_removal: Callable[[Sequence[Path]], None]
) -> int:
    """The same for an archive in a store."""
    removed, top = 0, settings.archive_place
    oldest, keep = today - timedelta(days=settings.retention.archive_days), set(needed)
    for day in _days_in_store(top, oldest):
        folder = top / f"{day:%Y/%m/%d}"
        found = [one for one in object_storage.objects_in(address_of(folder)) if folder / one.name not in keep]
        before_removal([folder / one.name for one in found])
        object_storage.remove(one.address for one in found)
        removed += len(found)
    return removed


def _days_in_store(top: Path, oldest: date) -> Iterator[date]:
    """The days before `oldest` of which an archive in a store has something."""

    def below(folder: Path, last: int) -> list[int]:
        return [
            int(name) for name in object_storage.names_in(address_of(folder)) if name.isdecimal() and int(name) <= last
        ]

    for year in below(top, oldest.year):
        for month in below(top / f"{year}", oldest.month if year == oldest.year else 12):
            for number in below(top / f"{year}" / f"{month:02}", 31):
                with suppress(ValueError):  # a folder that we did not make
                    if (day := date(year, month, number)) < oldest:
                        yield day


def set_aside(file: InboxFile, settings: Settings, run: str, problems: Sequence[Problem]) -> Path:
    """Move a claimed file into the outbox of `run`, with the reasons beside it in NAME.why.txt, and say where it is. The same file
    with the same bytes is not set aside a second time while the first lies there; its reasons count how often it came. Raises
    FolderError, and the file stays where it was.
    """
    mark = _aside_mark(file, settings)
    before = _read_mark(mark)
    if before is not None and _count_duplicate(before, file, settings, run):
        return _release_object(file, _published(before, settings))
    target = free_path(_beside_reports(file, settings, run))
    reasons = target.with_name(target.name + _REASON_SUFFIX)
    try:
        make_folder(target.parent, settings)
        _write(reasons, _reasons(file, problems))
    except OSError as error:
        raise folder_error(error, file.name, "set aside") from error
    try:
        _move_claimed(file, target, settings)
    except FolderError:
        reasons.unlink(missing_ok=True)
        raise
    _write_mark(mark, target)
    return _release_object(file, _published(target, settings))


def _release_object(file: InboxFile, place: Path) -> Path:
    """Remove an object that was set aside from the archive and from the inbox."""
    if file.claimed_object is not None:
        file.claimed_object.remove_from_archive()
        file.claimed_object.remove_from_inbox()
    return place


def _published(place: Path, settings: Settings) -> Path:
    """The place of a file that was set aside on this machine; if the outbox is in a store, uploads it there with its reasons."""
    if not settings.outbox_address or not place.is_relative_to(settings.outbox_here):
        return place
    far = settings.outbox / place.relative_to(settings.outbox_here)
    for name in (place.name + _REASON_SUFFIX, place.name):
        object_storage.put(place.with_name(name), address_of(far.with_name(name)))
    return far


def _put(file: InboxFile, address: str) -> None:
    """Upload a file unless its bytes are at the address. The place belongs to this run alone, so an earlier try put them there."""
    there = object_storage.look(address)
    if there is None or there.size != file.size:
        object_storage.put(file.path, address)


def _drop(file: InboxFile, settings: Settings) -> None:
    with suppress(OSError):
        file.path.unlink()
    remove_empty_folders(file.path.parent, settings.state / "work")


def _beside_reports(file: InboxFile, settings: Settings, run: str) -> Path:
    return settings.outbox_here / run / "set-aside" / relative_path(file.name)


def _aside_mark(file: InboxFile, settings: Settings) -> Path:
    return _mark_path(settings, "aside", hashlib.sha256(f"{file.sha256} {file.name}".encode()).hexdigest())


def _has_same_bytes(place: Path, file: InboxFile) -> bool:
    if address := address_of(place):
        there = (
            None if file.claimed_object else object_storage.look(address)
        )  # the archive has a copy of an object from its claim on
        return there is not None and there.size == file.size
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
        with suppress(ValueError):  # a folder that we did not make
            yield date(*(int(part) for part in folder.parts[-3:])), folder


def _mark_path(settings: Settings, kind: str, digest: str) -> Path:
    return settings.state / "known" / kind / digest[:2] / digest


def _write_mark(mark: Path, kept: Path) -> None:
    """Record where bytes are kept. On a file system without links nothing is recorded; then duplicates are not pointed out."""
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        if mark.is_symlink() and not mark.exists():
            mark.unlink()
        mark.symlink_to(kept if address_of(kept) else kept.absolute())


def _remove_dead_marks(settings: Settings) -> None:
    """Remove links to files that are no longer kept."""
    marks = settings.state / "known"
    for mark in marks.glob("archived/??/*"):
        if _read_mark(mark) is None:
            with suppress(OSError):
                mark.unlink()
                remove_empty_folders(mark.parent, marks)


def move_archive_mark(settings: Settings, sha256: str, before: str, place: str) -> None:
    """Point the link of archived bytes to another place; without a place, remove it, unless it leads to another copy of the bytes."""
    mark = _mark_path(settings, "archived", sha256)
    with suppress(OSError):
        leads_to = os.readlink(mark)  # noqa: PTH115 (says why it cannot)
        if place or leads_to in (before, str(Path(before).absolute()), str(Path(before))) or _read_mark(mark) is None:
            mark.unlink()
            remove_empty_folders(mark.parent, settings.state / "known")
            if place:
                _write_mark(mark, Path(place))


def _read_mark(mark: Path) -> Path | None:
    try:
        kept = Path(os.readlink(mark))  # noqa: PTH115 (says why it cannot)
    except OSError:
        return None
    return kept if address_of(kept) or (kept.is_file() and not kept.is_symlink()) else None


def _count_duplicate(before: Path, file: InboxFile, settings: Settings, run: str) -> bool:
    """Count in the reasons of a file set aside earlier that it came again, and delete the second copy; False if the first is gone or
    changed.
    """
    reasons = before.with_name(before.name + _REASON_SUFFIX)
    try:
        if not _has_same_bytes(before, file):
            return False
        text = reasons.read_text(encoding="utf-8", errors="surrogateescape")
        found = _DUPLICATE_LINE.search(text)
        count = int(found[1]) + 1 if found else 1
        line = f"Dropped again {count} time{'s' if count > 1 else ''}; the last time for run {run}."
        _write(reasons, _DUPLICATE_LINE.sub(line, text) if found else f"{text}{line}\n")
        file.path.unlink()
    except OSError:
        return False
    remove_empty_folders(file.path.parent, settings.state / "work")
    return True


def _write(path: Path, text: str) -> None:
    """Write a text atomically."""
    unfinished = path.with_name(f".{path.name[:80]}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _reasons(file: InboxFile, problems: Sequence[Problem]) -> str:
    """The reasons for setting a file aside, for the person who sent it."""
    lines = [
        f"loadsheet could not use the file {file.name}",
        f"({file.size:,} bytes, last changed {file.arrived:%Y-%m-%d %H:%M:%S} UTC, SHA-256 {file.sha256}).",
        "Nothing of it was sent.",
        "",
        "What is wrong:",
    ]
    for problem in problems:
        place = "" if str(problem.where) in ("", file.name) else f"{problem.where}: "
        lines.append(f"  - {place}{problem.title}: {problem.text} [{problem.code}]")
        if problem.hint:
            lines.append(f"    What to do: {problem.hint}")
    lines += [
        "",
        "When it is put right, drop the file into the inbox again; what was accepted before is not sent twice.",
        "",
    ]
    return "\n".join(lines)
