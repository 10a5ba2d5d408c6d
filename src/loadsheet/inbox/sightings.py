"""Sightings: the files that earlier scans saw in the inbox, and since when.

Stored in `STATE/sightings.json`, so that scheduled runs share them as a watch does. Times are seconds since the machine started
(CLOCK_BOOTTIME: it counts in sleep and cannot be set), so a jump of the wall clock has no effect. After a restart there are no
sightings. A file that cannot be read or written counts as empty and is no error.
"""

import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

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
    """None if it is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def signature(path: Path | str) -> Signature | None:
    """None if it vanished or is no regular file; links are not followed."""
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
        `boot_id`, that alone tells an earlier start of the machine.
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
