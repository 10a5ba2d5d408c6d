"""What a folder lies on: which file systems tell of open writers, and which ones do not tell of changes at all.

Reads the kernel's list of mounts (proc(5), mountinfo); where there is none nothing is known, and nothing is assumed.
"""

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")

_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay"})
_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "glusterfs", "lustre", "gpfs"}
    | {"9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"}
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def kind_of(folder: Path, mounts: Path = MOUNTS) -> str:
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


def tells_of_writers(kind: str) -> bool:
    """Whether a lease on such a file system is refused exactly while somebody has the file open for writing."""
    return kind in _LOCAL


def needs_polling(kind: str) -> bool:
    """Whether changes made by other machines cause no events here: network shares and what a host lends its guest."""
    return kind in _SHARED or kind.startswith("fuse")
