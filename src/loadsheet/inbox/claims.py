"""Claims: a finished file becomes ours in one atomic step, with one winner and a known hash, and can be given back.

A claim is a rename out of the inbox, so nobody can open the file by its name any more; open writers are checked. A file with a
second hard link is copied instead, because it could be changed through that name while we read.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from loadsheet.inbox import objects
from loadsheet.inbox.files import (
    READ,
    done_marker_name,
    file_system_of,
    folder_error,
    free_path,
    is_written_to,
    move,
    relative_path,
    remove_empty_folders,
    shows_open_writers,
)
from loadsheet.inbox.objects import SINGLE_PROCESS, ClaimedObject, Claims
from loadsheet.inbox.scanner import Candidate
from loadsheet.inbox.sightings import Signature, signature, signature_of
from loadsheet.settings import Settings


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A claimed file: its name as in `Candidate`, where its bytes are now, their number and SHA-256 (hex), and its time of last
    change (UTC, aware). `signature` and `origin` (where it was) are for `is_unchanged` and `give_back`. Of an object, `path` is the copy
    on this machine, and `held` the version that was claimed.
    """

    name: str
    path: Path
    size: int
    sha256: str
    arrived: datetime
    signature: Signature | None = field(default=None, compare=False)
    origin: Path | None = field(default=None, compare=False)
    claimed_object: ClaimedObject | None = field(default=None, compare=False)

    @property
    def stored_at(self) -> str:
        """Where its bytes are safe until it is put away, as the ledger names it."""
        return self.claimed_object.stored_at if self.claimed_object else str(self.path)


def claim(candidate: Candidate, settings: Settings, run: str, claims: Claims = SINGLE_PROCESS) -> InboxFile | None:
    """Move a file into the work area of `run`, in one step, and hash it there; an object is claimed in `claims` instead. None if it
    vanished, is no regular file any more, or is being written to or claimed by others: it is left where it is. Raises FolderError, and
    the file stays where it was.
    """
    if candidate.object is not None:
        held = objects.claim_object(candidate.object, candidate.path, settings, run, claims)
        return file_of_object(candidate.name, held) if held else None
    target = free_path(settings.state / "work" / run / relative_path(candidate.name))
    if not move(candidate.path, target, settings, candidate.name, copy=_has_hard_links(candidate.path)):
        return None
    try:
        file = _hashed(candidate, target)
    except OSError as error:
        _undo_claim(target, candidate.path)
        raise folder_error(error, candidate.name, "read") from error
    if file is None:
        _undo_claim(target, candidate.path)
        return None
    remove_empty_folders(candidate.path.parent, settings.state / "work")
    if settings.arrival.done_marker:
        with suppress(OSError):
            candidate.path.with_name(done_marker_name(candidate.path.name, settings.arrival.done_marker)).unlink()
    return file


def file_of_object(name: str, held: ClaimedObject) -> InboxFile:
    """The claimed version of an object as a file, by its copy on this machine."""
    found, path = held.object, held.path
    with path.open("rb") as copy:
        sha256 = hashlib.file_digest(copy, "sha256").hexdigest()
    return InboxFile(name, path, found.size, sha256, found.changed, signature(path), None, held)


def is_unchanged(file: InboxFile) -> bool:
    """Whether a claimed file is still what it was when it was claimed: nobody wrote to it through a handle from before, and nobody
    replaced the object in the inbox or took it over. Raises FolderError if the store cannot be asked.
    """
    if file.claimed_object is not None and not file.claimed_object.is_ours():
        return False
    if file.signature is not None and signature(file.path) != file.signature:
        return False
    try:
        with os.fdopen(os.open(file.path, READ), "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def give_back(file: InboxFile, settings: Settings) -> None:
    """Put a claimed file back where it was; the next scan takes it when it is quiet. If a new file has its name, it stays in the
    work area, where the next run finds it.
    """
    if file.claimed_object is not None:
        file.claimed_object.give_back()
    elif file.origin is not None and not file.origin.is_relative_to(settings.state):
        _undo_claim(file.path, file.origin)
        remove_empty_folders(file.path.parent, settings.state / "work")


def _has_hard_links(path: Path) -> bool:
    try:
        return path.lstat().st_nlink > 1
    except OSError:
        return False


def _hashed(candidate: Candidate, path: Path) -> InboxFile | None:
    """The claimed file with its hash; None if it is not a regular file or changes. Only the open file is examined."""
    if signature(path) is None:
        return None
    with os.fdopen(os.open(path, READ), "rb") as file:
        before = os.fstat(file.fileno())
        seen = signature_of(before)
        leases = shows_open_writers(file_system_of(path.parent))
        linked = before.st_nlink > 1  # since it was looked at: else it would be a copy
        if seen is None or linked or (leases and is_written_to(file.fileno())):
            return None
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if signature_of(os.fstat(file.fileno())) != seen:
            return None
    arrived = datetime.fromtimestamp(before.st_mtime, UTC)
    return InboxFile(candidate.name, path, before.st_size, sha256, arrived, seen, candidate.path)


def _undo_claim(target: Path, origin: Path) -> None:
    """Undo a claim, unless a new file of that name came meanwhile; then the next scan finds it in the work area."""
    if not os.path.lexists(origin):
        with suppress(OSError):  # its folder was removed, or the inbox lies on another volume
            target.rename(origin)
