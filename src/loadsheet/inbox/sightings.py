"""What earlier scans saw: which folder the inbox was, and which files lay in it, and since when.

An empty mount point must never pass for an inbox in which nothing lies. The first look leaves a marker in the inbox and notes it in
`STATE/inboxes.json`, with the folder's place on its disk. A folder that has neither the marker nor the place is another one.

The files are stored in `STATE/sightings.json`, so that scheduled runs share them as a watch does. Times are seconds since the machine started
(CLOCK_BOOTTIME: it counts in sleep and cannot be set), so a jump of the wall clock has no effect. After a restart there are no
sightings. A file that cannot be read or written counts as empty and is not an error.
"""

import os
import stat
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from loadsheet.problems import FolderError, SettingsError
from loadsheet.settings import Settings

_FILE = "sightings.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Signature(NamedTuple):
    """What changes when a file is written to or replaced."""

    size: int
    changed_ns: int
    status_changed_ns: int
    inode: int

    def quiet_since(self, now: float) -> float:
        """Seconds since the epoch. The change of status counts too: copying programs set the time of the original while they
        still write. A time of change that lies in the future was not made by this clock and says nothing.
        """
        changed = self.changed_ns / 1e9
        return max(changed if changed <= now else 0.0, self.status_changed_ns / 1e9)


def signature_of(status: os.stat_result) -> Signature | None:
    """None if it is not a regular file."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def signature(path: Path | str) -> Signature | None:
    """None if it vanished or is not a regular file; links are not followed."""
    try:
        return signature_of(os.lstat(path))
    except OSError:
        return None


def uptime() -> float:
    """Seconds since the machine started, or on a clock like that."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class _StoredSightings(msgspec.Struct):
    boot: str
    seen: list[tuple[Signature, float]]
    hidden: list[str] = []


class Sightings:
    """Since when each file has been lying there as it is, and which hidden files were reported. Build one with `Sightings.read`."""

    def __init__(
        self, since: dict[int, tuple[Signature, float]], boot: str, path: Path, hidden: Sequence[str] = ()
    ) -> None:
        self._since, self._boot, self._path = since, boot, path
        self.hidden = tuple(hidden)

    @classmethod
    def read(cls, state: Path, now: float, *, boot_id: Path = _BOOT) -> Self:
        """The memory kept in a state folder; `now` is `uptime()`, and what was seen later than now was not. Where the system has no
        `boot_id`, only that shows an earlier start of the machine.
        """
        path, boot = state / _FILE, _boot(boot_id)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_StoredSightings)
        except (OSError, msgspec.DecodeError):
            kept = _StoredSightings(boot, [])
        known = kept.seen if kept.boot == boot else []
        return cls({seen.inode: (seen, since) for seen, since in known if since <= now}, boot, path, kept.hidden)

    def since(self, seen: Signature) -> float | None:
        """When it was first seen exactly like this, by `uptime()`; None if it never was."""
        found = self._since.get(seen.inode)
        return found[1] if found is not None and found[0] == seen else None

    def knows_file(self, seen: Signature) -> bool:
        """Whether this file was seen before, as it is or otherwise."""
        return seen.inode in self._since

    def save(self, since: Mapping[Signature, float], hidden: Sequence[str] = ()) -> None:
        """Remember what is there now, and since when, and which hidden files were reported, and forget the rest."""
        fresh = {seen.inode: (seen, moment) for seen, moment in since.items()}
        if fresh == self._since and tuple(hidden) == self.hidden:
            return
        self._since, self.hidden = fresh, tuple(hidden)
        unfinished = self._path.with_name(f"{_FILE}.tmp")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(
                msgspec.json.encode(_StoredSightings(self._boot, list(fresh.values()), list(hidden)))
            )
            unfinished.replace(self._path)


def _boot(boot_id: Path) -> str:
    try:
        return boot_id.read_text(encoding="ascii").strip()
    except OSError:
        return ""


# ---- the folder ----

MARKER = ".loadsheet-inbox"
_INBOXES_FILE = "inboxes.json"
_MARKER_BYTES_MAX = 100
_BUILT_IN: Path = Settings.model_fields["inbox"].default


class _KnownInbox(NamedTuple):
    marker: str
    device: int
    inode: int


def make_inbox(settings: Settings) -> None:
    """Create the built-in inbox, or that of a shipper below an inbox. Raises SettingsError if another one was chosen and does not exist."""
    check_inbox(settings)
    if not settings.inbox_address and _is_ours_to_make(settings):
        settings.inbox.mkdir(parents=True, exist_ok=True)


def check_inbox(settings: Settings) -> None:
    """Raises SettingsError if the chosen inbox is a folder that does not exist. If it existed before, the scan reports that it is gone."""
    inbox = settings.inbox
    if settings.inbox_address or inbox.exists() or _is_ours_to_make(settings):
        return
    if _inbox_name(inbox) in _known_inboxes(settings.state / _INBOXES_FILE):
        return
    raise SettingsError(
        f"the inbox {inbox} does not exist. Create the folder, or correct the setting `inbox` (--inbox)"
    )


def _is_ours_to_make(settings: Settings) -> bool:
    inbox = settings.inbox
    if settings.shippers and inbox.name == settings.shipper:
        return inbox.parent == _BUILT_IN or inbox.parent.is_dir()
    return inbox == _BUILT_IN


def verify_same_inbox(inbox: Path, state: Path) -> None:
    """Record a new inbox, and accept a known one. Raises FolderError if it does not exist or is another folder."""
    path = state / _INBOXES_FILE
    known = _known_inboxes(path)
    name = _inbox_name(inbox)
    before = known.get(name)
    try:
        status = inbox.stat()
    except OSError as error:
        lost = "; it was there before: is it mounted?" if before else "; create it or set another"
        raise FolderError(f"{inbox} cannot be read ({error.strerror}){lost}") from error
    place = (status.st_dev, status.st_ino)
    marker = _marker_in(inbox)
    if before is not None and marker != before.marker and place != (before.device, before.inode):
        raise FolderError(
            f"{inbox} is not the folder that it was: {'its marker ' + MARKER + ' is missing' if not marker else 'its marker is another one'};"
            f" is it mounted? If it was replaced on purpose, remove {path} and run again"
        )
    wanted = before.marker if before is not None else marker or uuid.uuid4().hex
    if marker != wanted:
        with suppress(OSError):  # an inbox that we may not write to is known by its place
            (inbox / MARKER).write_text(wanted, encoding="ascii")
    if before != (now := _KnownInbox(wanted, *place)):
        _save_inboxes(path, {**known, name: now})


def _inbox_name(inbox: Path) -> str:
    return os.fsencode(inbox.absolute()).decode("utf-8", "backslashreplace")


def _marker_in(inbox: Path) -> str:
    try:
        descriptor = os.open(inbox / MARKER, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MARKER_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _known_inboxes(path: Path) -> dict[str, _KnownInbox]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, _KnownInbox])
    except (OSError, msgspec.DecodeError):
        return {}


def _save_inboxes(path: Path, known: dict[str, _KnownInbox]) -> None:
    unfinished = path.with_name(f"{_INBOXES_FILE}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(msgspec.json.encode(known))
        unfinished.replace(path)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written ({error.strerror}); give loadsheet write access to the state folder"
        ) from error
