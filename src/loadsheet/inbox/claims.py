"""Claims: a finished file becomes ours in one step, with one winner and a known hash, and can be given back.

A claim of a file is a rename out of the inbox, so nobody can open the file by its name any more; open writers are checked. A file with a
second hard link is copied instead, because it could be changed through that name while we read.

An object of a store cannot be renamed. So a run holds a claim on one version of it (`Claims`, in the ledger) from before it is fetched
until it is archived or set aside, and removed from the inbox. The ledger names the version that was planned, so after a kill the object
is put away and not read again. The copy on this machine can be fetched again at any time.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from loadsheet import object_storage
from loadsheet.inbox.files import (
    READ,
    done_marker_name,
    file_system_of,
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
from loadsheet.inbox.sightings import Signature, signature, signature_of
from loadsheet.object_storage import Object
from loadsheet.problems import FolderError
from loadsheet.settings import Settings
from loadsheet.settings.places import address_of

FETCHED = "fetched"
_DAY_S = 86_400


class Claims(Protocol):
    """The claims on versions of objects: each is held by at most one machine."""

    def take(self, place: str, name: str, version: str, run: str) -> bool:
        """Claim a version; False if another live process has it."""

    def holds(self, place: str, name: str, version: str) -> bool:
        """Whether the claim is still ours. Checked before anything is committed."""

    def release(self, place: str, name: str, version: str) -> None:
        """Release a claim of ours."""


class SingleProcessClaims:
    """The claims of a ledger that only one process holds: its lock is claim enough."""

    def take(self, place: str, name: str, version: str, run: str) -> bool:  # noqa: ARG002 (as the others)
        """Always: there is no other process."""
        return True

    def holds(self, place: str, name: str, version: str) -> bool:  # noqa: ARG002
        """Always: there is no other process."""
        return True

    def release(self, place: str, name: str, version: str) -> None:
        """Does nothing."""


SINGLE_PROCESS = SingleProcessClaims()


class Candidate(NamedTuple):
    """A finished file: its name (POSIX path relative to the inbox, as it is shown), where it is, for how many seconds it has been
    lying there like this, and its signature. One in an object store is an object, and can be read once it was fetched (`fetch_objects`).
    """

    name: str
    path: Path
    lain_s: float = 0.0
    signature: Signature | None = None
    object: Object | None = None


@dataclass(frozen=True, slots=True)
class ClaimedObject:
    """A version of an object that `run` has claimed, with its copy on this machine at `path`."""

    object: Object
    settings: Settings
    run: str
    claims: Claims

    @property
    def name(self) -> str:
        """Its name as it is shown."""
        return object_name(self.object)

    @property
    def stored_at(self) -> str:
        """Where its bytes are safe until it is archived or set aside, as the ledger names it."""
        return object_storage.kept_at(self.object)

    @property
    def path(self) -> Path:
        """Where its copy lies on this machine."""
        return self.settings.state / FETCHED / "work" / self.run / relative_path(self.name)

    @property
    def kept(self) -> str:
        """Its address in the archive; empty if that is a folder."""
        return address_of(archived_at(self.name, self.settings, day_of(self.run), self.run))

    def archive_now(self) -> None:
        """Copy it into the archive of a store: should it be replaced and this machine be lost, its bytes are not. Raises FolderError."""
        if self.kept and not object_storage.copy(self.object, self.kept):
            object_storage.put(self.path, self.kept)

    def is_ours(self) -> bool:
        """Whether the store still has this version, and the claim is still ours. Raises FolderError."""
        mine = self.claims.holds(self.settings.inbox_address, self.name, self.object.version)
        return mine and object_storage.is_still(self.object)

    def fetch_if_missing(self) -> bool:
        """Make sure the copy is on this machine; False if the object and its archived copy are gone. Raises FolderError."""
        if self.path.is_file() or object_storage.fetch(self.object, self.path):
            return True
        copy = object_storage.look(self.kept) if self.kept else None
        return copy is not None and copy.size == self.object.size and object_storage.fetch(copy, self.path)

    def give_back(self) -> None:
        """Release the claim: the object stays in the inbox, and the next scan takes it. Raises FolderError."""
        self.remove_from_archive()
        self._release_claim()

    def remove_from_archive(self) -> None:
        """Remove what the archive of a store got when this version was claimed: it is not kept there. Raises FolderError."""
        if self.kept:
            object_storage.remove([self.kept])

    def remove_from_inbox(self) -> None:
        """Remove the version, which is kept elsewhere, from the inbox, with its done-marker; a newer one stays. Raises FolderError, and
        then keeps the claim.
        """
        object_storage.remove_version(self.object)
        if self.settings.arrival.done_marker and object_storage.look(self.object.address) is None:
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
    """A claimed file: its name as in `Candidate`, where its bytes are now, their number and SHA-256 (hex), and its time of last
    change (UTC, aware). `signature` and `origin` (where it was) are for `is_unchanged` and `give_back`. Of an object, `path` is the copy
    on this machine, and `claimed_object` the version that was claimed.
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
        """Where its bytes are safe until it is archived or set aside, as the ledger names it."""
        return self.claimed_object.stored_at if self.claimed_object else str(self.path)


def claim(candidate: Candidate, settings: Settings, run: str, claims: Claims = SINGLE_PROCESS) -> InboxFile | None:
    """Move a file into the work area of `run`, in one step, and hash it there; an object is claimed in `claims` instead. None if it
    vanished, is no longer a regular file, or others write to it or have claimed it: then it stays where it is. Raises FolderError, and
    the file stays where it was.
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
    """The claimed version of an object as a file, by its copy on this machine."""
    found, path = held.object, held.path
    with path.open("rb") as copy:
        sha256 = hashlib.file_digest(copy, "sha256").hexdigest()
    return InboxFile(name, path, found.size, sha256, found.changed, signature(path), None, held)


def is_unchanged(file: InboxFile) -> bool:
    """Whether a claimed file is unchanged: not written to through a handle opened earlier; an object neither replaced in the inbox nor
    claimed by another machine. Raises FolderError if the store cannot be reached.
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
        linked = before.st_nlink > 1  # linked since the check above: else it would be a copy
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


# ---- objects of a store ----


def object_signature(found: Object) -> Signature:
    """What changes when an object is replaced; the store's time stands for the times of a file."""
    moment = int(found.changed.timestamp() * 1e9)
    place = hashlib.sha256(f"{found.address} {found.version}".encode("utf-8", "surrogatepass")).digest()
    return Signature(found.size, moment, moment, int.from_bytes(place[:7], "big"))


def object_name(found: Object) -> str:
    """The name of an object as it is shown: as that of a file, with what would lead out of a folder as %XX."""
    return shown_name(PurePosixPath("/".join(_escape_dots(part) for part in found.name.split("/") if part)))


def list_objects(address: str, patterns: Sequence[str]) -> list[Object]:
    """The objects below an address that no pattern excludes, by its name or that of a folder above it. Raises FolderError."""
    found = object_storage.objects_in(address)
    return [one for one in found if not any(is_ignored(part, patterns) for part in one.name.split("/") if part)]


def fetch_for_reading(found: Object, settings: Settings) -> Path | None:
    """Fetch an object to this machine, to read it before it is claimed; None if it is gone or replaced. Raises FolderError."""
    path = (
        _fetch_folder(settings)
        / object_storage.digest(f"{found.address} {found.version}")
        / PurePosixPath(object_name(found)).name
    )
    return path if path.is_file() or object_storage.fetch(found, path) else None


def remove_old_fetched(settings: Settings, wanted: Iterable[Object]) -> None:
    """Remove what earlier scans fetched and this one does not need, and what was fetched for other readers more than a day ago."""
    keep = {object_storage.digest(f"{one.address} {one.version}") for one in wanted}
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
    """Claim a version that was fetched to `path`, and copy it to the archive of a store; None if another process has it, or it is gone.
    Raises FolderError; then nothing is claimed.
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
            f"{claimed.name} could not be claimed ({error.strerror}); check the state folder {settings.state} and run again"
        ) from error
    finally:
        if not taken:
            claims.release(settings.inbox_address, claimed.name, found.version)
    return claimed if taken else None


def restore_claim(
    kept_as: str, arrived: datetime, settings: Settings, run: str, claims: Claims
) -> ClaimedObject | None:
    """The claimed version that the ledger names and that is not archived yet; None if the ledger names something else."""
    address, version = object_storage.split_kept_as(kept_as)
    top = f"{settings.inbox_address}/"
    if not version or not address.startswith(top):
        return None
    size = int(version.rpartition("-")[2])
    return ClaimedObject(Object(address, address.removeprefix(top), size, version, arrived), settings, run, claims)


def archived_at(name: str, settings: Settings, day: date, run: str) -> Path:
    """Where the original of this name is kept."""
    return settings.archive_place / f"{day:%Y/%m/%d}" / run / relative_path(name)


def day_of(run: str) -> date:
    """The day of a run, with which its name begins."""
    return date.fromisoformat(run[:10])


def _fetch_folder(settings: Settings) -> Path:
    return settings.state / FETCHED / "looked"


def _escape_dots(part: str) -> str:
    return part.replace(".", "%2E") if part in (".", "..") else part
