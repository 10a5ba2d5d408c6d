"""Stage 1: the inbox. Finds finished files, claims each exactly once by renaming it, archives it, or sets it aside with a reason.

A file lies in one place at any time: the inbox, the state folder (`work`, by run) while it is used, then its `archive`, or
`outbox/RUN/set-aside/`. A run that was killed leaves its claims in the work area; the next one finds them there. Names are
data: what could hurt a path or a terminal is written as %XX. Knows nothing of what is in a file.
"""

import errno
import hashlib
import os
import shutil
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from loadsheet.problems import FolderError, Problem
from loadsheet.settings import Settings

_NAME_BYTES_MAX = 240  # file systems take 255; `.why.txt` and a number must still fit
_TURNS_TEXT_AROUND = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_REASON_SUFFIX = ".why.txt"


class Candidate(NamedTuple):
    """A finished file: its name (POSIX path relative to the inbox, as it is shown) and where it is."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Scan:
    """What a look into the inbox found. `candidates` are finished: claims of killed runs first, each group by name; `unsettled`
    are the names of files still being written, `unreadable` of files and folders that we may not read.
    """

    candidates: tuple[Candidate, ...]
    unsettled: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A claimed file: its name as in `Candidate`, where its bytes are now, their number and SHA-256 (hex), and its time of last
    change (UTC, aware).
    """

    name: str
    path: Path
    size: int
    sha256: str
    arrived: datetime


def scan(
    settings: Settings, *, sleep: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.time
) -> Scan:
    """Every finished file of the inbox and its sub-folders, and of the work area of killed runs.

    A file that has been quiet for `settle_s` is finished; younger ones are looked at twice, `settle_s` apart, and are finished
    if they have not changed. Symbolic links and special files are passed over. Only the process that holds the ledger may call
    this, and not while it holds claims: everything in the work area counts as orphaned. Raises FolderError.
    """
    orphans = _orphans(settings)
    taken = {orphan.name for orphan in orphans}
    unreadable: list[str] = []
    seen = dict(_files(settings.inbox, settings.inbox, settings.ignore, unreadable))
    finished = _finished(seen, settings.settle_s, sleep, clock)
    candidates: dict[str, Candidate] = {}
    unsettled: list[str] = []
    for path in seen:
        name = shown_name(path.relative_to(settings.inbox))
        if path in finished and name not in taken:
            candidates.setdefault(name, Candidate(name, path))
        elif path not in finished and path.exists():
            unsettled.append(name)
    return Scan((*orphans, *sorted(candidates.values())), tuple(sorted(unsettled)), tuple(sorted(unreadable)))


def claim(candidate: Candidate, settings: Settings, run: str) -> InboxFile | None:
    """Move a file into the work area of `run`, in one step, and hash it there. None if it vanished or is no regular file any
    more: somebody else was faster. Raises FolderError, and the file stays where it was.
    """
    target = _free(settings.state / "work" / run / _relative(candidate.name))
    if not _move(candidate.path, target, settings, candidate.name):
        return None
    if _signature(target) is None:
        _put_back(target, candidate.path)
        return None
    try:
        with os.fdopen(os.open(target, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        _put_back(target, candidate.path)
        raise _refusal(error, candidate.name, "read") from error
    _forget_empty_folders(candidate.path.parent, settings.state / "work")
    return InboxFile(candidate.name, target, status.st_size, sha256, datetime.fromtimestamp(status.st_mtime, UTC))


def archive(file: InboxFile, settings: Settings, day: date, run: str) -> Path:
    """Move a claimed file into the archive of `day`, read-only, and say where it is. Nothing is ever overwritten. Raises
    FolderError, and the file stays where it was.
    """
    target = _free(settings.state / "archive" / f"{day:%Y/%m/%d}" / run / _relative(file.name))
    _move_claimed(file, target, settings)
    with suppress(OSError):  # some file systems know no modes
        target.chmod(0o444)
    return target


def set_aside(file: InboxFile, settings: Settings, run: str, problems: Sequence[Problem]) -> Path:
    """Move a claimed file into the outbox of `run`, with the reasons beside it in NAME.why.txt, and say where it is. Raises
    FolderError, and the file stays where it was.
    """
    target = _free(settings.outbox / run / "set-aside" / _relative(file.name))
    reasons = target.with_name(target.name + _REASON_SUFFIX)
    unfinished = target.with_name(f".{target.name[:80]}{_REASON_SUFFIX}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(_reasons(file, problems), encoding="utf-8", errors="backslashreplace")
        unfinished.replace(reasons)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise _refusal(error, file.name, "set aside") from error
    try:
        _move_claimed(file, target, settings)
    except FolderError:
        reasons.unlink(missing_ok=True)
        raise
    return target


def shown_name(path: Path) -> str:
    """A relative path as a name: POSIX, with control characters, undecodable bytes and characters that turn text around as %XX,
    and endless parts cut and marked by their hash.
    """
    return "/".join(_shown_part(part) for part in path.parts)


class _Signature(NamedTuple):
    """What changes when a file is written to."""

    size: int
    changed_ns: int
    status_changed_ns: int
    inode: int

    @property
    def quiet_since(self) -> float:
        """Seconds since the epoch. The change of status counts too: copying programs set the time of the original while they
        still write. A time in the future makes a file young.
        """
        return max(self.changed_ns, self.status_changed_ns) / 1e9


def _finished(
    seen: dict[Path, _Signature], settle_s: float, sleep: Callable[[float], object], clock: Callable[[], float]
) -> set[Path]:
    """The files that have been quiet long enough, or do not change while we wait."""
    now = clock()
    young = {path for path, signature in seen.items() if now - signature.quiet_since < settle_s}
    if young:
        sleep(settle_s)
    return {path for path, signature in seen.items() if path not in young or _signature(path) == signature}


def _orphans(settings: Settings) -> tuple[Candidate, ...]:
    """The claims of killed runs; half-made copies of theirs are thrown away. Of the same name, the older run's comes first and
    the others wait for the next scan.
    """
    shutil.rmtree(settings.state / "copying", ignore_errors=True)
    work = settings.state / "work"
    found: dict[str, Candidate] = {}
    runs = sorted(path for path in work.iterdir() if path.is_dir()) if work.is_dir() else []
    for run in runs:
        for path, _ in _files(run, run, (), []):
            name = shown_name(path.relative_to(run))
            found.setdefault(name, Candidate(name, path))
    return tuple(sorted(found.values()))


def _files(
    folder: Path, top: Path, patterns: Sequence[str], unreadable: list[str]
) -> Iterator[tuple[Path, _Signature]]:
    """The regular files under a folder that no pattern excludes, and what may not be read. Links are not followed."""
    try:
        with os.scandir(folder) as entries:
            here = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        if folder == top:
            raise FolderError(f"{folder} cannot be read ({error.strerror}); create it or set another") from error
        unreadable.append(shown_name(folder.relative_to(top)) + "/")
        return
    for entry in here:
        if _is_ignored(entry.name, patterns):
            continue
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _files(path, top, patterns, unreadable)
        elif signature := _signature(path):
            if os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
                yield path, signature
            else:
                unreadable.append(shown_name(path.relative_to(top)))


def _is_ignored(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def _signature(path: Path) -> _Signature | None:
    """None if it vanished or is no regular file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return _Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _relative(name: str) -> PurePosixPath:
    """A name as a path below a folder of ours. Raises FolderError for one that would leave it."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise FolderError(f"{name!r} is not a name below the inbox; nothing was moved")
    return path


def _free(target: Path) -> Path:
    """The target, or if there is one already the same name with a number."""
    number = 1
    free = target
    while os.path.lexists(free):
        number += 1
        free = target.with_name(f"{target.stem}~{number}{target.suffix}")
    return free


def _put_back(target: Path, origin: Path) -> None:
    """Undo a claim, unless a new file of that name came meanwhile; then the next scan finds it in the work area."""
    if not os.path.lexists(origin):
        target.rename(origin)


def _move_claimed(file: InboxFile, target: Path, settings: Settings) -> None:
    if not _move(file.path, target, settings, file.name):
        raise FolderError(f"{file.name} is no longer at {file.path}; somebody moved it while it was used")
    _forget_empty_folders(file.path.parent, settings.state / "work")


def _move(source: Path, target: Path, settings: Settings, name: str) -> bool:
    """Rename a file, or copy it whole where the target is on another volume. False if the source is not there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise _refusal(error, name, "moved") from error
        return _move_across(source, target, settings, name)
    return True


def _move_across(source: Path, target: Path, settings: Settings, name: str) -> bool:
    """Copy, make the copy durable, put it in place, and only then remove the original. A kill in between leaves the original."""
    partial = _partial(target, settings)
    before = _signature(source)
    if before is None:
        return False
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, partial, follow_symlinks=False)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        unchanged = _signature(source) == before
        if unchanged:
            partial.rename(target)
            _make_durable(target.parent)
            _remove(source, target)
    except FileNotFoundError:
        unchanged = False
    except OSError as error:
        raise _refusal(error, name, "moved") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return unchanged


def _remove(source: Path, copy: Path) -> None:
    """Remove the original; where that is not allowed, remove the copy instead."""
    try:
        source.unlink()
    except OSError:
        copy.unlink()
        raise


def _partial(target: Path, settings: Settings) -> Path:
    """Where a copy grows: on the target's volume and where no scan looks for files."""
    if target.is_relative_to(settings.state):
        return settings.state / "copying" / f"{os.getpid()}.tmp"
    return target.with_name(f".{target.name[:80]}.tmp")


def _make_durable(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _forget_empty_folders(folder: Path, work: Path) -> None:
    """Remove a folder of the work area, and those above it, once they are empty."""
    while folder != work and folder.is_relative_to(work):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _refusal(error: OSError, name: str, deed: str) -> FolderError:
    advice = {
        errno.ENOSPC: "the disk is full; make room and run again",
        errno.EDQUOT: "the quota of the disk is used up; make room and run again",
        errno.EROFS: "the folder is read-only; mount it writable and run again",
        errno.EACCES: "permission denied; grant it to the user loadsheet runs as and run again",
        errno.EPERM: "permission denied; grant it to the user loadsheet runs as and run again",
    }
    reason = advice.get(error.errno or 0, f"the system says: {error.strerror}; correct that and run again")
    place = f" ({error.filename2 or error.filename})" if error.filename2 or error.filename else ""
    return FolderError(f"{name} could not be {deed}: {reason}{place}")


def _shown_part(part: str) -> str:
    shown = "".join(character if _is_harmless(character) else _escaped(character) for character in part)
    if len(os.fsencode(shown)) <= _NAME_BYTES_MAX:
        return shown
    mark = hashlib.sha256(os.fsencode(part)).hexdigest()[:8]
    suffix = PurePosixPath(shown).suffix[:20]
    kept = os.fsencode(shown)[: _NAME_BYTES_MAX - 60].decode("utf-8", "ignore")
    return f"{kept}~{mark}{suffix}"


def _is_harmless(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") and character not in _TURNS_TEXT_AROUND


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))


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
