"""The inbox in an object store: the objects there, and how a version of one is claimed, given back and removed.

An object cannot be renamed. So a run holds a claim on one version of it (`Claims`, in the ledger) from before it is fetched until it is
archived or set aside, and removed from the inbox. The ledger names the version that was planned, so after a kill the object is put away
and not read again. The copy on this machine can be fetched again at any time.
"""

import hashlib
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Protocol

from loadsheet import object_storage
from loadsheet.inbox.files import (
    done_marker_name,
    is_ignored,
    make_folder,
    relative_path,
    remove_empty_folders,
    shown_name,
)
from loadsheet.inbox.sightings import Signature
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
        """Nobody else is there."""
        return True

    def holds(self, place: str, name: str, version: str) -> bool:  # noqa: ARG002
        """Nobody else is there."""
        return True

    def release(self, place: str, name: str, version: str) -> None:
        """Nothing was noted."""


SINGLE_PROCESS = SingleProcessClaims()


def signature_of(found: Object) -> Signature:
    """What changes when an object is replaced; the store's time stands for the times of a file."""
    moment = int(found.changed.timestamp() * 1e9)
    place = hashlib.sha256(f"{found.address} {found.version}".encode("utf-8", "surrogatepass")).digest()
    return Signature(found.size, moment, moment, int.from_bytes(place[:7], "big"))


def name_of(found: Object) -> str:
    """The name of an object as it is shown: as that of a file, with what would lead out of a folder as %XX."""
    return shown_name(PurePosixPath("/".join(_escape_dots(part) for part in found.name.split("/") if part)))


def list_objects(address: str, patterns: Sequence[str]) -> list[Object]:
    """The objects below an address that no pattern excludes, by its name or that of a folder above it. Raises FolderError."""
    found = object_storage.objects_in(address)
    return [one for one in found if not any(is_ignored(part, patterns) for part in one.name.split("/") if part)]


def fetch_for_reading(found: Object, settings: Settings) -> Path | None:
    """Fetch an object to this machine, to be looked into before it is claimed; None if it is gone or replaced. Raises FolderError."""
    path = (
        _fetch_folder(settings)
        / object_storage.digest(f"{found.address} {found.version}")
        / PurePosixPath(name_of(found)).name
    )
    return path if path.is_file() or object_storage.fetch(found, path) else None


def remove_old_fetched(settings: Settings, wanted: Iterable[Object]) -> None:
    """Remove what was fetched for earlier looks and is not wanted any more, and what others fetched to read it, after a day."""
    keep = {object_storage.digest(f"{one.address} {one.version}") for one in wanted}
    for folder in (folder for folder in _fetch_folder(settings).glob("*") if folder.name not in keep):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (settings.state / FETCHED).glob("[bk]*/*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _DAY_S:
                shutil.rmtree(folder, ignore_errors=True)


def remove_fetched(settings: Settings) -> None:
    """Remove what was fetched to read it; it can be fetched again."""
    for folder in (settings.state / FETCHED).glob("[bk]*/*"):
        shutil.rmtree(folder, ignore_errors=True)


def claim_object(found: Object, path: Path, settings: Settings, run: str, claims: Claims) -> "ClaimedObject | None":
    """Claim a version that was brought to `path`, and keep it in the archive of a store; None if somebody else has it, or it is gone.
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
        told = f"{claimed.name} could not be taken ({error.strerror})"
        raise FolderError(f"{told}; see to {settings.state}, and run again") from error
    finally:
        if not taken:
            claims.release(settings.inbox_address, claimed.name, found.version)
    return claimed if taken else None


def restore_claim(
    kept_as: str, arrived: datetime, settings: Settings, run: str, claims: Claims
) -> "ClaimedObject | None":
    """The claimed version that the ledger names and that was not put away; None if it names something else."""
    address, version = object_storage.split_kept_as(kept_as)
    top = f"{settings.inbox_address}/"
    if not version or not address.startswith(top):
        return None
    size = int(version.rpartition("-")[2])
    return ClaimedObject(Object(address, address.removeprefix(top), size, version, arrived), settings, run, claims)


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
        return name_of(self.object)

    @property
    def stored_at(self) -> str:
        """Where its bytes are safe until it is put away, as the ledger names it."""
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

    def let_go(self) -> None:
        """Remove the version, which is kept elsewhere, from the inbox, with its done-marker; a newer one stays. Raises FolderError, and
        then the claim stays, too.
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


def archived_at(name: str, settings: Settings, day: date, run: str) -> Path:
    """Where the original of this name is kept."""
    return settings.archive_place / f"{day:%Y/%m/%d}" / run / relative_path(name)


def day_of(run: str) -> date:
    """The day of a run: it is called by it."""
    return date.fromisoformat(run[:10])


def _fetch_folder(settings: Settings) -> Path:
    return settings.state / FETCHED / "looked"


def _escape_dots(part: str) -> str:
    return part.replace(".", "%2E") if part in (".", "..") else part
