"""Claims: one process takes a finished file in one step, with a known hash, and can give it back.

A claim renames a file out of the inbox, so no program can open it by its old name; open writers are checked. A file with a
second hard link is copied instead, because it could be changed through the other name during reading.

An object in a store cannot be renamed. A run claims one version of it (`Claims`, in the ledger) before fetching it. It holds the
claim until the object is archived or set aside, and removed from the inbox. The ledger names the planned version, so after a
kill the next run archives the object without reading it again. The local copy can be fetched again at any time.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from loadsheet import object_storage
from loadsheet.errors import FolderError
from loadsheet.inbox.files import (
    READ,
    done_marker_name,
    folder_error,
    free_path,
    is_ignored,
    is_written_to,
    make_folder,
    move,
    relative_path,
    remove_empty_folders,
    shown_name,
    shows_open_writers,
)
from loadsheet.inbox.sightings import Signature, file_signature, signature_of
from loadsheet.object_storage import Object
from loadsheet.places import address_of, file_system_of
from loadsheet.settings import Settings

FETCHED = "fetched"
_DAY_S = 86_400


class Claims(Protocol):
    """The claims on versions of objects: each is held by at most one machine."""

    def take(self, place: str, name: str, version: str, run: str) -> bool:
        """Claim a version; False if another live process holds it."""

    def holds(self, place: str, name: str, version: str) -> bool:
        """Whether we still hold the claim. Checked before every commit."""

    def release(self, place: str, name: str, version: str) -> None:
        """Release our claim."""


class SingleProcessClaims:
    """The claims of a ledger with a single process: the ledger's lock is enough."""

    def take(self, place: str, name: str, version: str, run: str) -> bool:  # noqa: ARG002 (the protocol's signature)
        """Always: there is no other process."""
        return True

    def holds(self, place: str, name: str, version: str) -> bool:  # noqa: ARG002
        """Always: there is no other process."""
        return True

    def release(self, place: str, name: str, version: str) -> None:
        """Does nothing."""


SINGLE_PROCESS = SingleProcessClaims()


class Candidate(NamedTuple):
    """A finished file: its displayed name (POSIX path relative to the inbox), its path, the seconds since it last changed, and its
    signature. In an object store `object` is set, and the file can be read after `fetch_objects`.
    """

    name: str
    path: Path
    unchanged_s: float = 0.0
    signature: Signature | None = None
    object: Object | None = None

    @property
    def size(self) -> int:
        """Its size in bytes, as the scan saw it."""
        return self.signature.size if self.signature else 0


@dataclass(frozen=True, slots=True)
class ClaimedObject:
    """A version of an object that `run` has claimed, with its copy on this machine at `path`."""

    object: Object
    settings: Settings
    run: str
    claims: Claims

    @property
    def name(self) -> str:
        """Its displayed name."""
        return object_name(self.object)

    @property
    def stored_at(self) -> str:
        """The location of its bytes until it is archived or set aside, as the ledger names it."""
        return object_storage.kept_as_of(self.object)

    @property
    def path(self) -> Path:
        """The path of the local copy."""
        return self.settings.state / FETCHED / "work" / self.run / relative_path(self.name)

    @property
    def kept(self) -> str:
        """Its address in the archive; empty if the archive is a folder."""
        return address_of(archived_at(self.name, self.settings, self.run))

    def archive_now(self) -> None:
        """Copy it into an archive in a store, so that its bytes survive if it is replaced and this machine is lost. Raises FolderError."""
        if self.kept and not object_storage.copy(self.object, self.kept):
            object_storage.put(self.path, self.kept)

    def is_ours(self) -> bool:
        """Whether the store still has this version and we still hold the claim. Raises FolderError."""
        mine = self.claims.holds(self.settings.inbox_address, self.name, self.object.version)
        return mine and object_storage.is_still(self.object)

    def fetch_if_missing(self) -> bool:
        """Make sure the local copy exists; False if the object and its archived copy are gone. Raises FolderError."""
        if self.path.is_file() or object_storage.fetch(self.object, self.path):
            return True
        copy = object_storage.find_object(self.kept) if self.kept else None
        return copy is not None and copy.size == self.object.size and object_storage.fetch(copy, self.path)

    def give_back(self) -> None:
        """Release the claim. The object stays in the inbox, and the next scan takes it. Raises FolderError."""
        self.remove_from_archive()
        self._release_claim()

    def remove_from_archive(self) -> None:
        """Remove the copy that the claim put into an archive in a store. Raises FolderError."""
        if self.kept:
            object_storage.remove([self.kept])

    def remove_from_inbox(self) -> None:
        """Remove this version, which is kept elsewhere, from the inbox with its done-marker; a newer version stays. Raises FolderError
        and then keeps the claim.
        """
        object_storage.remove_version(self.object)
        if self.settings.arrival.done_marker and object_storage.find_object(self.object.address) is None:
            folder, _, bare = self.object.address.rpartition("/")
            object_storage.remove([f"{folder}/{done_marker_name(bare, self.settings.arrival.done_marker)}"])
        self._release_claim()

    def _release_claim(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        remove_empty_folders(self.path.parent, self.settings.state / FETCHED)
        self.claims.release(self.settings.inbox_address, self.name, self.object.version)


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A file that a run reads, claimed or in place: its name as in `Candidate`, its present path, its size in bytes, its SHA-256 (hex), and
    its time of last change (UTC, aware). `is_unchanged` needs `signature`, `give_back` needs `origin` (the path before the claim; None for a
    file in place). For an object, `path` is the local copy and `claimed_object` the claimed version.
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
        """The location of its bytes until it is archived or set aside, as the ledger names it."""
        return self.claimed_object.stored_at if self.claimed_object else str(self.path)


def claim(candidate: Candidate, settings: Settings, run: str, claims: Claims = SINGLE_PROCESS) -> InboxFile | None:
    """Move a file into the work area of `run` in one step and hash it there; an object is claimed in `claims` instead. None if it
    vanished, is no longer a regular file, is open for writing or claimed by another process. After None or FolderError the file
    stays where it was.
    """
    if candidate.object is not None:
        held = _claim_object(candidate.object, candidate.path, settings, run, claims)
        return _file_of_object(candidate.name, held) if held else None
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


def _file_of_object(name: str, held: ClaimedObject) -> InboxFile:
    """The claimed version of an object as a file, from its local copy."""
    claimed, path = held.object, held.path
    with path.open("rb") as copy:
        sha256 = hashlib.file_digest(copy, "sha256").hexdigest()
    return InboxFile(name, path, claimed.size, sha256, claimed.changed, file_signature(path), None, held)


def in_place(candidate: Candidate) -> InboxFile | None:
    """The file where it is, with its hash, for a check or a forecast. None if it is gone or no regular file."""
    try:
        with os.fdopen(os.open(candidate.path, READ), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    return InboxFile(candidate.name, candidate.path, status.st_size, sha256, changed)


def is_unchanged(file: InboxFile) -> bool:
    """Whether a claimed file is unchanged: not written to through an older handle, and an object neither replaced in the inbox
    nor claimed by another machine. Raises FolderError if the store cannot be reached.
    """
    if file.claimed_object is not None and not file.claimed_object.is_ours():
        return False
    if file.signature is not None and file_signature(file.path) != file.signature:
        return False
    try:
        with os.fdopen(os.open(file.path, READ), "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def give_back(file: InboxFile, settings: Settings) -> None:
    """Move a claimed file back; the next scan takes it once it is quiet. If a new file has its name, it stays in the work area,
    where the next run finds it.
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
    """The claimed file with its hash; None if it is not a regular file or changes meanwhile. Only the open file is examined."""
    if file_signature(path) is None:
        return None
    with os.fdopen(os.open(path, READ), "rb") as file:
        before = os.fstat(file.fileno())
        seen = signature_of(before)
        shows_writers = shows_open_writers(file_system_of(path.parent))
        linked = before.st_nlink > 1  # linked since the first check, or it would be a copy
        if seen is None or linked or (shows_writers and is_written_to(file.fileno())):
            return None
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if signature_of(os.fstat(file.fileno())) != seen:
            return None
    arrived = datetime.fromtimestamp(before.st_mtime, UTC)
    return InboxFile(candidate.name, path, before.st_size, sha256, arrived, seen, candidate.path)


def _undo_claim(target: Path, origin: Path) -> None:
    """Undo a claim. If a new file took the name meanwhile, the file stays in the work area for the next scan."""
    if not os.path.lexists(origin):
        with suppress(OSError):  # its folder was removed, or the inbox is on another volume
            target.rename(origin)


# ---- objects of a store ----


def object_signature(found: Object) -> Signature:
    """The values that change when an object is replaced; the store's time replaces the times of a file."""
    moment = int(found.changed.timestamp() * 1e9)
    place = hashlib.sha256(f"{found.address} {found.version}".encode("utf-8", "surrogatepass")).digest()
    return Signature(found.size, moment, moment, int.from_bytes(place[:7], "big"))


def object_name(found: Object) -> str:
    """The displayed name of an object: like that of a file, with `.` and `..` escaped as %XX."""
    parts = [part.replace(".", "%2E") if part in (".", "..") else part for part in found.name.split("/") if part]
    return shown_name(PurePosixPath("/".join(parts)))


def list_objects(address: str, patterns: Sequence[str]) -> list[Object]:
    """The objects below an address whose names and folders match no pattern. Raises FolderError."""
    objects = object_storage.objects_in(address)
    return [item for item in objects if not any(is_ignored(part, patterns) for part in item.name.split("/") if part)]


def fetch_for_reading(found: Object, settings: Settings) -> Path | None:
    """Fetch an object for reading before it is claimed; None if it is gone or replaced. Raises FolderError."""
    path = (
        _fetch_folder(settings)
        / object_storage.digest(f"{found.address} {found.version}")
        / PurePosixPath(object_name(found)).name
    )
    return path if path.is_file() or object_storage.fetch(found, path) else None


def remove_old_fetched(settings: Settings, wanted: Iterable[Object]) -> None:
    """Remove copies of earlier scans that this scan does not need, and copies for other readers older than a day."""
    keep = {object_storage.digest(f"{item.address} {item.version}") for item in wanted}
    for folder in (folder for folder in _fetch_folder(settings).glob("*") if folder.name not in keep):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (settings.state / FETCHED).glob("[bk]*/*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _DAY_S:
                shutil.rmtree(folder, ignore_errors=True)


def remove_fetched(settings: Settings) -> None:
    """Remove the copies fetched for reading; they can be fetched again."""
    for folder in (settings.state / FETCHED).glob("[bk]*/*"):
        shutil.rmtree(folder, ignore_errors=True)


def _claim_object(found: Object, path: Path, settings: Settings, run: str, claims: Claims) -> ClaimedObject | None:
    """Claim a version that was fetched to `path` and copy it to an archive in a store. None if another process holds it or it is
    gone. Raises FolderError; nothing is claimed then.
    """
    claimed = ClaimedObject(found, settings, run, claims)
    if not claims.take(settings.inbox_address, claimed.name, found.version, run):
        return None
    taken = False
    try:
        if object_storage.is_still(found):
            make_folder(claimed.path.parent, settings)
            path.replace(claimed.path)
            claimed.archive_now()
            taken = True
    except OSError as error:
        raise FolderError(
            f"{claimed.name} could not be claimed ({error.strerror}). Check the state folder {settings.state} and run again"
        ) from error
    finally:
        if not taken:
            claims.release(settings.inbox_address, claimed.name, found.version)
    return claimed if taken else None


def restore_claim(
    kept_as: str, arrived: datetime, settings: Settings, run: str, claims: Claims
) -> ClaimedObject | None:
    """The claimed version that the ledger names and that is not archived yet; None if the ledger's name is not one of an object."""
    address, version = object_storage.split_kept_as(kept_as)
    top = f"{settings.inbox_address}/"
    if not version or not address.startswith(top):
        return None
    size = int(version.rpartition("-")[2])
    return ClaimedObject(Object(address, address.removeprefix(top), size, version, arrived), settings, run, claims)


def archived_at(name: str, settings: Settings, run: str) -> Path:
    """The path of the archived original: the name of its run begins with the day."""
    day = date.fromisoformat(run[:10])
    dates = {"yyyy": f"{day:%Y}", "mm": f"{day:%m}", "dd": f"{day:%d}"}
    folder = settings.archive_path.removesuffix("{name}").format(run=run, **dates)
    return settings.archive_place / folder / relative_path(name)


def _fetch_folder(settings: Settings) -> Path:
    return settings.state / FETCHED / "looked"
