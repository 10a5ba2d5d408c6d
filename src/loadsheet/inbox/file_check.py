"""Checks a file before and after it is claimed: may it be read, is it open for writing, is a workbook cut off. Opens files without
following links and without blocking, and checks only the file it opened.

Also here: the file system of a folder, from the kernel's list of mounts (proc(5), mountinfo). It decides whether open writers can be
seen, and whether changes cause events. Without that list nothing is known and nothing assumed.
"""

import errno
import os
import re
import signal
import sys
from enum import StrEnum
from pathlib import Path

from loadsheet.inbox.file_moves import READ, is_untrusted_link
from loadsheet.inbox.sightings import Signature, signature_of

if sys.platform == "linux":
    import fcntl

_ZIPPED = (".xlsx", ".xlsm", ".xlsb", ".ods", ".zip")
_ZIP_START, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_END_BYTES_MAX = 22 + 65_535  # the end record and the longest comment behind it


class Verdict(StrEnum):
    """What a look at a file found."""

    WHOLE = "whole"
    WRITTEN_TO = "written to"  # somebody has it open for writing, or it is another one than was seen
    EMPTY = "is empty"
    CUT_OFF = "is a workbook without its end"
    UNREADABLE = "unreadable"
    LINKED = "linked"  # a hard link that others may have put there
    GONE = "gone"


def check_file(path: str, seen: Signature, *, leases: bool) -> Verdict:
    """What to think of a file that was seen with this signature. `leases` says whether its file system tells of writers."""
    try:
        descriptor = os.open(path, READ)
    except OSError as error:
        return Verdict.GONE if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO) else Verdict.UNREADABLE
    try:
        return _check_open_file(descriptor, path, seen, leases=leases)
    except OSError:
        return Verdict.UNREADABLE
    finally:
        os.close(descriptor)


def is_written_to(descriptor: int) -> bool:
    """Whether anybody on this machine has the file open for writing: then a lease on it is refused (fcntl(2), F_SETLEASE). Where
    we may not ask, nothing is known, and the answer is no.
    """
    if sys.platform != "linux":
        return False
    try:
        # Whoever opens it in this moment breaks our lease, and we are told by a signal: by one that nobody minds.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def _check_open_file(descriptor: int, path: str, seen: Signature, *, leases: bool) -> Verdict:
    status = os.fstat(descriptor)
    if signature_of(status) != seen or (leases and is_written_to(descriptor)):
        return Verdict.WRITTEN_TO
    if is_untrusted_link(status, Path(path)):
        return Verdict.LINKED
    if seen.size == 0:
        return Verdict.EMPTY
    cut_off = path.lower().endswith(_ZIPPED) and not _has_zip_end(descriptor, seen.size)
    return Verdict.CUT_OFF if cut_off else Verdict.WHOLE


def _has_zip_end(descriptor: int, size: int) -> bool:
    """Whether what begins as a zip ends as one; what does not begin as one is not judged here."""
    if os.pread(descriptor, 4, 0) != _ZIP_START:
        return True
    tail = min(size, _ZIP_END_BYTES_MAX)
    return _ZIP_END in os.pread(descriptor, tail, size - tail)


MOUNTS = Path("/proc/self/mountinfo")

_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay"})
_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "glusterfs", "lustre", "gpfs"}
    | {"9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"}
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def file_system_of(folder: Path, mounts: Path = MOUNTS) -> str:
    """The type of the file system that a folder lies on, as mount(8) calls it; empty if it cannot be found out."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        place = os.path.realpath(folder) + "/"
    except OSError:
        return ""
    best, kind = 0, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) > 4 and after:  # noqa: PLR2004 (mountinfo: the fifth field is the mount point)
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]).rstrip("/") + "/"
            if len(point) >= best and place.startswith(point):  # of two on one place the later one hides the other
                best, kind = len(point), after.split(" ", 1)[0]
    return kind


def shows_open_writers(kind: str) -> bool:
    """Whether a lease on such a file system is refused exactly while somebody has the file open for writing."""
    return kind in _LOCAL


def needs_polling(kind: str) -> bool:
    """Whether changes made by other machines cause no events here: network shares and what a host lends its guest."""
    return kind in _SHARED or kind.startswith("fuse")
