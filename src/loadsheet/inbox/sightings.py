"""The memory of earlier scans: which folder was the inbox, which files were in it, and since when.

An unmounted, empty mount point must never count as an empty inbox. The first scan leaves a marker in the inbox and records it
in `STATE/inboxes.json` with the folder's device and inode. A folder that matches neither is a different one.

Sightings are stored in `STATE/sightings.json`, so scheduled runs share them. Times are seconds since the machine started
(CLOCK_BOOTTIME, which counts during sleep and cannot be set), so changes of the wall clock have no effect. After a restart
there are no sightings. If the file cannot be read or written, it counts as empty.
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

from loadsheet.errors import FolderError, SettingsError
from loadsheet.places import replace_file
from loadsheet.settings import Settings

_FILE = "sightings.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Signature(NamedTuple):
    """The values that change when a file is written to or replaced."""

    size: int
    changed_ns: int
    status_changed_ns: int
    inode: int

    def quiet_since(self, now: float) -> float:
        """The last change, in seconds since the epoch. The status change counts too, because copying programs set the original's
        modification time while they still write. A modification time in the future is ignored.
        """
        changed = self.changed_ns / 1e9
        return max(changed if changed <= now else 0.0, self.status_changed_ns / 1e9)


def signature_of(status: os.stat_result) -> Signature | None:
    """None if it is not a regular file."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def file_signature(path: Path | str) -> Signature | None:
    """None if it vanished or is not a regular file; links are not followed."""
    try:
        return signature_of(os.lstat(path))
    except OSError:
        return None


def uptime() -> float:
    """Seconds since the machine started, or by the monotonic clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class _StoredSightings(msgspec.Struct):
    boot: str
    seen: list[tuple[Signature, float]]
    hidden: list[str] = []


class Sightings:
    """When each file was first seen in its present state, and which hidden files were reported. Build one with `Sightings.read`."""

    def __init__(
        self, since: dict[int, tuple[Signature, float]], boot: str, path: Path, hidden: Sequence[str] = ()
    ) -> None:
        self._since, self._boot, self._path = since, boot, path
        self.hidden = tuple(hidden)

    @classmethod
    def read(cls, state: Path, now: float, *, boot_id: Path = _BOOT) -> Self:
        """The sightings stored in a state folder. `now` is `uptime()`; sightings later than that are dropped, because they predate
        a restart that a missing `boot_id` does not show.
        """
        path, boot = state / _FILE, _boot(boot_id)
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_StoredSightings)
        except (OSError, msgspec.DecodeError):
            kept = _StoredSightings(boot, [])
        known = kept.seen if kept.boot == boot else []
        return cls({seen.inode: (seen, since) for seen, since in known if since <= now}, boot, path, kept.hidden)

    def since(self, seen: Signature) -> float | None:
        """When this state of the file was first seen, by `uptime()`; None if it is new."""
        stored = self._since.get(seen.inode)
        return stored[1] if stored is not None and stored[0] == seen else None

    def knows_file(self, seen: Signature) -> bool:
        """Whether this file was seen before, in this or another state."""
        return seen.inode in self._since

    def save(self, since: Mapping[Signature, float], hidden: Sequence[str] = ()) -> None:
        """Store the present files with their first sightings, and the reported hidden files; forget the rest."""
        fresh = {seen.inode: (seen, moment) for seen, moment in since.items()}
        if fresh == self._since and tuple(hidden) == self.hidden:
            return
        self._since, self.hidden = fresh, tuple(hidden)
        stored = _StoredSightings(self._boot, list(fresh.values()), list(hidden))
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, msgspec.json.encode(stored))


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
    """Create the built-in inbox, or a shipper's folder below an inbox. Raises SettingsError if another inbox is set and does not exist."""
    check_inbox(settings)
    if not settings.inbox_address and _is_ours_to_make(settings):
        settings.inbox.mkdir(parents=True, exist_ok=True)


def check_inbox(settings: Settings) -> None:
    """Raises SettingsError if the inbox is a folder that does not exist. If it existed before, the scan reports it missing instead."""
    inbox = settings.inbox
    if settings.inbox_address or inbox.exists() or _is_ours_to_make(settings):
        return
    if _inbox_name(inbox) in _known_inboxes(settings.state / _INBOXES_FILE):
        return
    raise SettingsError(f"the inbox {inbox} does not exist. Create the folder or correct the setting `inbox` (--inbox)")


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
        advice = "It existed before: check that it is mounted" if before else "Create it or set another folder"
        raise FolderError(f"the inbox {inbox} cannot be read ({error.strerror}). {advice}") from error
    place = (status.st_dev, status.st_ino)
    marker = _marker_in(inbox)
    if before is not None and marker != before.marker and place != (before.device, before.inode):
        raise FolderError(
            f"the inbox {inbox} is a different folder than before: its marker {MARKER} {'is missing' if not marker else 'differs'}. "
            f"Check that it is mounted. If you replaced the folder on purpose, remove {path} and run again"
        )
    wanted = before.marker if before is not None else marker or uuid.uuid4().hex
    if marker != wanted:
        with suppress(OSError):  # a read-only inbox is recognised by device and inode
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(known))
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written ({error.strerror}). Give loadsheet write access to the state folder"
        ) from error
