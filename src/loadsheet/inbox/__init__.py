"""Stage 1: the inbox. Finds finished files, claims each exactly once by renaming it, archives it, or sets it aside with a reason.

A file is always in one place: the inbox, the state folder (`work`, by run) while a run uses it, then the archive or
`outbox/RUN/set-aside/`. A killed run leaves its claims in the work area, where the next run finds them. An inbox in an object
store works the same, with claims in the ledger instead of renames, and a local copy. File names are data: characters that
could harm a path or a terminal are written as %XX. This package does not read the content of files.

`scan` sorts the files into finished, unfinished and never taken. A run trusts the modification times of new files and checks recent ones
twice. A watch scans repeatedly and trusts only its own sightings. A scan opens files to check them and moves nothing.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from loadsheet import object_storage
from loadsheet.errors import FolderError
from loadsheet.inbox.archive_folder import (
    archive,
    complete_interrupted_move,
    find_archived_copy,
    move_archive_link,
    purge,
    remove,
    set_aside,
)
from loadsheet.inbox.claims import (
    SINGLE_PROCESS,
    Candidate,
    Claims,
    InboxFile,
    claim,
    fetch_for_reading,
    give_back,
    in_place,
    is_unchanged,
    list_objects,
    object_name,
    object_signature,
    remove_fetched,
    remove_old_fetched,
    restore_claim,
)
from loadsheet.inbox.files import (
    FileCondition,
    check_file,
    done_marker_name,
    is_done_marker,
    is_ignored,
    remove_empty_folders,
    shown_name,
    shows_open_writers,
)
from loadsheet.inbox.sightings import (
    MARKER,
    Sightings,
    Signature,
    check_inbox,
    file_signature,
    make_inbox,
    signature_of,
    uptime,
    verify_same_inbox,
)
from loadsheet.object_storage import Object
from loadsheet.places import file_system_of
from loadsheet.problems import Problem, Where
from loadsheet.settings import Settings

__all__ = [
    "SINGLE_PROCESS",
    "Candidate",
    "Claims",
    "InboxFile",
    "Scan",
    "archive",
    "check_inbox",
    "claim",
    "complete_interrupted_move",
    "fetch_objects",
    "files_outside",
    "find_archived_copy",
    "give_back",
    "in_place",
    "is_unchanged",
    "make_inbox",
    "move_archive_link",
    "purge",
    "remove",
    "remove_empty_folders",
    "remove_fetched",
    "restore_claim",
    "scan",
    "scan_read_only",
    "scan_without_waiting",
    "set_aside",
    "shown_name",
]


_HIDDEN_NAMED = 10
_OF_SYSTEMS = (".DS_Store", "._*", ".directory", ".nfs*", ".~lock.*")  # hidden files that programs leave behind
_MEANS_VERSION = "?versionId="  # in a name: the store's library reads the rest as a version
_KINDS = (
    (stat.S_ISLNK, "symbolic link"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan. `candidates` are finished: claims of killed runs first, then inbox files in order of arrival. `left`
    lists the files that stay, with the reasons. `again_s`: seconds until a recent file may be finished, None without one.
    """

    candidates: tuple[Candidate, ...]
    left: tuple[Problem, ...] = ()
    again_s: float | None = None


def scan(
    settings: Settings,
    *,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.time,
    up: Callable[[], float] = uptime,
) -> Scan:
    """Every finished file of the inbox and its sub-folders, and of the work area of killed runs.

    A file is finished once it has been quiet for `arrival.settle_s`. A recent file that no scan has seen is checked twice,
    `arrival.settle_s` apart; one that an earlier scan saw waits for the next scan. Where done-markers are required, they decide.
    Only the process that holds the ledger may call this, and only without claims of its own: every file in the work area counts
    as orphaned. Raises FolderError.
    """
    found = _InboxScan(settings, up())
    quiet = {seen.path for seen in found.seen if found.is_quiet(seen, clock())}
    recent = [seen for seen in found.seen if seen.path not in quiet and not found.memory.knows_file(seen.signature)]
    if recent and not settings.arrival.done_marker:  # with done-markers, quiet time does not matter
        sleep(settings.arrival.settle_s)
        quiet.update(found.find_unchanged(recent))
    return found.finish(quiet, clock(), report_hidden=True)


def scan_without_waiting(settings: Settings, *, up: Callable[[], float] = uptime) -> Scan:
    """A scan without waiting: a file is finished only if it did not change between two scans `arrival.settle_s` apart. Raises FolderError."""
    found = _InboxScan(settings, up())
    return found.finish({seen.path for seen in found.seen if found.is_quiet(seen, None)})


def scan_read_only(settings: Settings, *, clock: Callable[[], float] = time.time) -> Scan:
    """The result of a scan now, without waiting for recent files and without writing anything.

    Safe to call while another process holds the ledger. Raises FolderError.
    """
    found = _InboxScan(settings, uptime(), remember=False)
    return found.finish(
        {seen.path for seen in found.seen if found.is_quiet(seen, clock())}, clock(), report_hidden=True
    )


def files_outside(settings: Settings, taken: Iterable[Path]) -> list[str]:
    """The sorted names of the files in an inbox outside these folders. Raises FolderError."""
    inner = [Path(os.path.relpath(folder, settings.inbox)).as_posix() + "/" for folder in taken]
    found = _list_inbox(settings)
    names = [seen.name for seen in found.files] + [problem.found for problem in found.left]
    return sorted(name for name in names if not any(name.startswith(folder) for folder in inner))


class _ListedFile(NamedTuple):
    """A regular file in the inbox: its displayed name, its path, and its bare name."""

    name: str
    path: str
    bare: str
    signature: Signature
    object: Object | None = None


@dataclass(slots=True)
class _Listing:
    """The content of a folder and its sub-folders."""

    files: list[_ListedFile] = field(default_factory=list)
    left: list[Problem] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


class _InboxScan:
    """One scan: the present files and the sightings of earlier scans."""

    def __init__(self, settings: Settings, now: float, *, remember: bool = True) -> None:
        self._remembers = remember
        if remember and not settings.inbox_address:
            verify_same_inbox(settings.inbox, settings.state)
        if remember:
            shutil.rmtree(settings.state / "copying", ignore_errors=True)  # what a killed run was copying
        self._settings, self._now = settings, now
        self.memory = Sightings.read(settings.state, now)
        found = _list_inbox(settings)
        self._left, self._hidden = found.left, found.hidden
        pattern = settings.arrival.done_marker
        self._markers = {seen.path: seen.signature for seen in found.files if is_done_marker(seen.bare, pattern)}
        unmarked = [seen for seen in found.files if seen.path not in self._markers]
        self.seen = [seen for seen in unmarked if not self._is_older(seen)]
        self._left += self._older_files_problem(len(unmarked) - len(self.seen))

    def _is_older(self, seen: _ListedFile) -> bool:
        since = self._settings.arrival.arrived_since
        return since is not None and seen.signature.changed_ns < since.timestamp() * 1e9

    def _older_files_problem(self, count: int) -> list[Problem]:
        since = self._settings.arrival.arrived_since
        if not count or since is None:
            return []
        return [Problem("A113", values={"count": count, "since": since.isoformat(" ", "minutes")}, level="warning")]

    def is_quiet(self, seen: _ListedFile, wall_clock: float | None) -> bool:
        """Whether a file has not changed for `arrival.settle_s`. `wall_clock` is the time of day (None: not trusted)."""
        settings = self._settings
        if settings.arrival.done_marker:
            return self._is_marked(seen)
        if not settings.arrival.settle_s:
            return True
        since = self.memory.since(seen.signature)
        if since is not None and self._now - since >= settings.arrival.settle_s:
            return True
        if wall_clock is None or self.memory.knows_file(seen.signature):
            return False
        return wall_clock - seen.signature.quiet_since(wall_clock) >= settings.arrival.settle_s

    def find_unchanged(self, seen: Sequence[_ListedFile]) -> set[str]:
        """The paths of the files that have not changed since."""
        if not self._settings.inbox_address:
            return {file.path for file in seen if file_signature(file.path) == file.signature}
        now = {file.path: file.signature for file in _list_inbox(self._settings).files}
        return {file.path for file in seen if now.get(file.path) == file.signature}

    def finish(self, quiet: set[str], wall_clock: float | None = None, *, report_hidden: bool = False) -> Scan:
        """Classify the files, save the sightings for the next scan, and return the result; `wall_clock` as for `is_quiet`. Hidden files are reported once."""
        orphans = _orphans(self._settings)
        taken = {orphan.name for orphan in orphans}
        candidates: dict[str, Candidate] = {}
        left = [*self._left, *(self._new_hidden() if report_hidden else ())]
        here = not self._settings.inbox_address
        shows_writers = shows_open_writers(file_system_of(self._settings.inbox)) if quiet and here else False
        since: dict[Signature, float] = {}
        for seen in self.seen:
            known = self.memory.since(seen.signature)
            since[seen.signature] = self._first_seen(seen.signature, wall_clock) if known is None else known
            unchanged_s = self._now - since[seen.signature]
            problem = self._problem_of(seen, unchanged_s, shows_writers=shows_writers, quiet=seen.path in quiet)
            if problem is not None:
                left.append(problem)
            elif seen.name in taken or seen.name in candidates:
                left.append(Problem("A114", Where(seen.name), seen.name, level="warning"))
            elif seen.object or os.path.lexists(seen.path):
                candidates[seen.name] = Candidate(seen.name, Path(seen.path), unchanged_s, seen.signature, seen.object)
        if self._remembers:
            self.memory.save(since, self._hidden if report_hidden else self.memory.hidden)
        arrived = sorted(candidates.values(), key=lambda candidate: (-candidate.unchanged_s, candidate.name))
        return Scan(
            (*orphans, *arrived),
            tuple(sorted(left, key=lambda problem: (problem.code, problem.found))),
            self._again_s(left),
        )

    def _new_hidden(self) -> Iterator[Problem]:
        """One problem for the hidden files that no earlier scan has reported."""
        names = [name for name in self._hidden if name not in self.memory.hidden]
        if names:
            more = len(names) - _HIDDEN_NAMED
            listed = ", ".join(names[:_HIDDEN_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            hint = "to have a file read, rename it so that its name does not begin with a dot"
            yield Problem("A118", values={"names": listed, "count": len(names)}, hint=hint, level="warning")

    def _first_seen(self, seen: Signature, wall_clock: float | None) -> float:
        """When a new or changed file counts as first seen: at its last change, if the clock is trusted, else now."""
        if wall_clock is None or self.memory.knows_file(seen):
            return self._now
        return self._now - max(wall_clock - seen.quiet_since(wall_clock), 0.0)

    def _problem_of(self, seen: _ListedFile, unchanged_s: float, *, shows_writers: bool, quiet: bool) -> Problem | None:
        """Why a file stays in the inbox; None if it is finished or gone."""
        settings = self._settings
        where = Where(seen.name)
        if not quiet:
            if settings.arrival.done_marker:
                lacks = (
                    f"has no {done_marker_name(shown_name(Path(seen.bare)), settings.arrival.done_marker)} beside it"
                )
                return Problem("A107", where, seen.name, {"lacks": lacks}, level="warning")
            exists = seen.object or os.path.lexists(seen.path)
            return Problem("A104", where, seen.name, level="warning") if exists else None
        if seen.signature.size > settings.arrival.file_bytes_max:
            values = {"size": seen.signature.size, "limit": settings.arrival.file_bytes_max}
            return Problem("A108", where, seen.name, values, "split it, or raise the limit")
        if seen.object:  # a store lists only complete objects
            return self._problem_of_content(
                seen, unchanged_s, FileCondition.WHOLE if seen.signature.size else FileCondition.EMPTY
            )
        return self._problem_of_content(
            seen, unchanged_s, check_file(seen.path, seen.signature, shows_writers=shows_writers)
        )

    def _problem_of_content(self, seen: _ListedFile, unchanged_s: float, condition: FileCondition) -> Problem | None:
        where = Where(seen.name)
        if condition is FileCondition.WRITTEN_TO:
            return Problem("A104", where, seen.name, level="warning")
        if condition is FileCondition.UNREADABLE:
            return Problem("A105", where, seen.name)
        if condition is FileCondition.LINKED:
            return Problem("A117", where, seen.name, hint="drop a copy instead, or remove the other link")
        if (
            condition in (FileCondition.EMPTY, FileCondition.CUT_OFF)
            and unchanged_s < self._settings.arrival.unfinished_wait_s
        ):
            return Problem("A107", where, seen.name, {"lacks": str(condition)}, level="warning")
        return None  # finished, or gone: the caller checks

    def _is_marked(self, seen: _ListedFile) -> bool:
        """Whether its done-marker exists and is newer than the file."""
        pattern = self._settings.arrival.done_marker
        marker = self._markers.get(os.path.join(os.path.dirname(seen.path), done_marker_name(seen.bare, pattern)))  # noqa: PTH118, PTH120 (50,000 paths)
        written_ns = min(seen.signature.changed_ns, seen.signature.status_changed_ns)
        return marker is not None and marker.status_changed_ns >= written_ns

    def _again_s(self, left: Iterable[Problem]) -> float | None:
        codes = {problem.code for problem in left}
        if not codes & {"A104", "A107"} or (self._settings.arrival.done_marker and "A104" not in codes):
            return None
        settle_s = self._settings.arrival.settle_s
        ages = [self._now - since for seen in self.seen if (since := self.memory.since(seen.signature)) is not None]
        young = [settle_s - age for age in ages if age < settle_s]
        return max(min(young, default=max(settle_s, 1.0)), 0.1)


def _orphans(settings: Settings) -> tuple[Candidate, ...]:
    """The claims of killed runs. If several have one name, only the oldest run's is returned; the others wait for the next scan."""
    work = settings.state / "work"
    found: dict[str, Candidate] = {}
    runs = sorted(path for path in work.iterdir() if path.is_dir()) if work.is_dir() else []
    for run in runs:
        for seen in _walk(run, ()).files:
            found.setdefault(seen.name, Candidate(seen.name, Path(seen.path), 0.0, seen.signature))
    return tuple(found[name] for name in sorted(found))


def _list_inbox(settings: Settings) -> _Listing:
    """The content of the inbox, a folder or an object store. Raises FolderError."""
    if not settings.inbox_address:
        return _walk(settings.inbox, settings.arrival.ignore)
    objects = list_objects(settings.inbox_address, settings.arrival.ignore)
    unreadable = [item for item in objects if _MEANS_VERSION in item.name]
    return _Listing(
        [_object_file(item) for item in objects if item not in unreadable],
        [_unreadable(object_name(item)) for item in unreadable],
    )


def _object_file(found: Object) -> _ListedFile:
    bare = found.address.rpartition("/")[2]
    return _ListedFile(object_name(found), found.address, bare, object_signature(found), found)


def fetch_objects(found: Scan, settings: Settings) -> Scan:
    """The same scan with local copies of its objects, which can be read before they are claimed. Objects that are gone or
    replaced are left out, unreadable ones reported. Candidates in a folder are unchanged. Raises FolderError.
    """
    if not settings.inbox_address:
        return found
    remove_old_fetched(settings, (candidate.object for candidate in found.candidates if candidate.object))
    fetched = object_storage.in_parallel(lambda candidate: _fetch(candidate, settings), found.candidates)
    candidates = tuple(result for result in fetched if isinstance(result, Candidate))
    refused = (result for result in fetched if isinstance(result, Problem))
    return replace(found, candidates=candidates, left=(*found.left, *refused))


def _fetch(candidate: Candidate, settings: Settings) -> Candidate | Problem | None:
    if candidate.object is None:
        return candidate
    try:
        path = fetch_for_reading(candidate.object, settings)
    except FolderError as error:
        if not isinstance(error.__cause__, PermissionError):
            raise
        return Problem("A105", Where(candidate.name), candidate.name)
    return candidate._replace(path=path) if path else None


def _walk(top: Path, patterns: Sequence[str]) -> _Listing:
    """The regular files under a folder that match no pattern, sorted by name, and the rest. Links are not followed."""
    found = _Listing()
    folders = [str(top)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as scanned:
                entries = list(scanned)
        except OSError as error:
            if folder == str(top):
                denied = isinstance(error, PermissionError)
                advice = "Let the user that loadsheet runs as read it" if denied else "Create it or set another folder"
                raise FolderError(f"{top} cannot be read ({error.strerror}). {advice}") from error
            found.left.append(_unreadable(_name(folder, top) + "/"))
            continue
        for entry in entries:
            if entry.name == MARKER or is_ignored(entry.name, patterns):
                if _is_hidden(entry, patterns):
                    found.hidden.append(_name(entry.path, top))
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                _add_entry(entry, top, found)
    found.hidden.sort()
    found.files.sort(key=lambda seen: os.fsencode(seen.path))
    return found


def _is_hidden(entry: os.DirEntry[str], patterns: Sequence[str]) -> bool:
    """Whether the only reason to skip this non-empty file is the dot at the start of its name."""
    others = (*(pattern for pattern in patterns if pattern != ".*"), *_OF_SYSTEMS)
    if entry.name == MARKER or not entry.name.startswith(".") or is_ignored(entry.name, others):
        return False
    with suppress(OSError):
        return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size > 0
    return False


def _add_entry(entry: os.DirEntry[str], top: Path, found: _Listing) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return  # gone since
    name = _name(entry.path, top)
    seen = signature_of(status)
    if seen is not None:
        found.files.append(_ListedFile(name, entry.path, entry.name, seen))
        return
    kind = next((kind for is_kind, kind in _KINDS if is_kind(status.st_mode)), "special file")
    hint = "drop the file itself" if kind == "symbolic link" else "remove it"
    found.left.append(Problem("A109", Where(name), name, {"kind": kind}, hint))


def _name(path: str, top: Path) -> str:
    return shown_name(Path(os.path.relpath(path, top)))


def _unreadable(name: str) -> Problem:
    return Problem("A105", Where(name), name)
