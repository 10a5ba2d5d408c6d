"""Files on this machine: their access rights (for the owner alone, and for a group if a setting names one), writing them whole or not at
all, and the file system that they are on.

Owns: the umask of commands that write reports and state, the modes of the report folder, and the warning about running as root.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

AS_ROOT = (
    "loadsheet: running as root is not necessary: create a user for loadsheet (loadsheet deploy systemd names one), or set"
    " allow_root = true"
)
_PRIVATE_UMASK = 0o077
_OWNER, _GROUP = (0o600, 0o700), (0o660, 0o770)  # of files and of folders

MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")

_umask_before: list[int] = []


def write_privately(say: Callable[[str], None], *, allow_root: bool = False) -> None:
    """From now on, only the owner may read the files that this process writes. Warns once if it runs as root."""
    if _umask_before:
        return
    _umask_before.append(os.umask(_PRIVATE_UMASK))
    if not allow_root and hasattr(os, "geteuid") and os.geteuid() == 0:
        say(AS_ROOT)


def leave_to_umask(path: Path) -> None:
    """Give a file or folder that is meant for others the mode of the original umask. Raises OSError."""
    if _umask_before:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask_before[0])


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: who reads it gets the old content or the new. Raises OSError."""
    unfinished = path.with_name(f".{path.name[:80]}.tmp")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: which files it has, and which were renamed or removed. Raises OSError."""
    if os.name == "posix":  # other systems do not open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def group_number(group: str) -> int:
    """The ID of a group, given as name or number. Raises ValueError if there is no such group."""
    if group.isdigit():
        return int(group)
    try:
        import grp

        return grp.getgrnam(group).gr_gid
    except (ImportError, KeyError):
        raise ValueError(f"there is no group {group} on this machine") from None


def close_to_others(place: Path, group: str = "") -> None:
    """Restrict a file, or a folder with its content, to its owner, or to the owner and this group. Files of other users are left
    alone.
    """
    inner = [path for path in place.rglob("*") if not path.is_symlink()] if place.is_dir() else []
    for path in (place, *inner):
        close_one(path, group)


def close_one(path: Path, group: str = "") -> None:
    """The same for a file, or for a folder without its content."""
    with suppress(FileNotFoundError, PermissionError):  # gone, or saved by an analyst, who owns it now
        _set_mode(path, group_number(group) if group else -1)


def _set_mode(path: Path, group: int) -> None:
    status = path.stat()
    mode = (_OWNER if group < 0 else _GROUP)[path.is_dir()]
    if group >= 0 and status.st_gid != group:
        os.chown(path, -1, group)
    if status.st_mode & 0o7777 != mode or (group >= 0 and status.st_gid != group):
        path.chmod(mode)


def file_system_of(folder: Path, mounts: Path = MOUNTS) -> str:
    """The type of a folder's file system, as mount(8) calls it, by the kernel's list of mounts (proc(5), mountinfo); empty if it is unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        place = os.path.realpath(folder) + "/"
    except OSError:
        return ""
    best, kind = 0, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) > 4 and after:
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]).rstrip("/") + "/"
            if len(point) >= best and place.startswith(point):  # a later mount hides an earlier one at the same place
                best, kind = len(point), after.split(" ", 1)[0]
    return kind
