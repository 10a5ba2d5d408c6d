"""The files of an inbox: their names, the checks before and after a claim, and their moves.

Names are untrusted: they are escaped for display and checked before they become part of a path. A check opens a file without
following links and without blocking, and examines only the file it opened. A move is a rename, or across volumes a complete,
verified copy, so a file is always in one place. Folders that shippers can write to are opened part by part without following
links, so a folder that is swapped for a link cannot redirect a move.

The file system of a folder decides whether open writers can be detected and whether changes cause events. If it is unknown, nothing is
assumed.
"""

import errno
import hashlib
import os
import signal
import stat
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath

from loadsheet.errors import FolderError
from loadsheet.inbox.sightings import Signature, signature_of
from loadsheet.places import sync_folder
from loadsheet.settings import Settings

if sys.platform == "linux":
    import fcntl

READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""The flags for opening a shipper's file: links are not followed, and a pipe does not block."""

# ---- names ----

_NAME_BYTES_MAX = 240  # file systems take 255; `.why.txt` and a number must still fit
_TURNS_TEXT_AROUND = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PLACE = "{name}"


def shown_name(path: PurePath) -> str:
    """A relative path as a displayed name: POSIX, with control characters, undecodable bytes and bidirectional controls as %XX.
    Overlong parts are truncated and get a hash.
    """
    return "/".join(_shown_part(part) for part in path.parts)


def relative_path(name: str) -> PurePosixPath:
    """A name as a relative path. Raises FolderError for a name that leads out of its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise FolderError(f"{name!r} is not a path below the inbox. Nothing was moved")
    return path


def is_ignored(name: str, patterns: Sequence[str]) -> bool:
    """Whether a bare name matches one of the patterns, ignoring case."""
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def done_marker_name(name: str, pattern: str) -> str:
    """The bare name of the done-marker of `name`; `pattern` as in the setting `arrival.done_marker`."""
    return pattern.replace(_PLACE, name)


def is_done_marker(name: str, pattern: str) -> bool:
    """Whether a bare name is that of a done-marker."""
    before, _, after = pattern.partition(_PLACE)
    return bool(pattern) and name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)


def free_path(target: Path) -> Path:
    """The target, with a number in its name if it exists already."""
    number = 1
    path = target
    while os.path.lexists(path):
        number += 1
        path = target.with_name(f"{target.stem}~{number}{target.suffix}")
    return path


def _shown_part(part: str) -> str:
    if part.isascii() and part.isprintable() and len(part) <= _NAME_BYTES_MAX:
        return part
    shown = "".join(character if _is_harmless(character) else _escaped(character) for character in part)
    if len(os.fsencode(shown)) <= _NAME_BYTES_MAX:
        return shown
    mark = hashlib.sha256(os.fsencode(part)).hexdigest()[:8]
    suffix = PurePosixPath(shown).suffix[:20]
    kept = os.fsencode(shown)[: _NAME_BYTES_MAX - 60].decode("utf-8", "ignore")
    return f"{kept}~{mark}{suffix}"


def _is_harmless(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") and character not in _TURNS_TEXT_AROUND


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))


# ---- checks ----

_ZIPPED = (".xlsx", ".xlsm", ".xlsb", ".ods", ".zip")
_ZIP_START, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_END_BYTES_MAX = 22 + 65_535  # the end record and the longest comment after it


class FileCondition(StrEnum):
    """The result of checking a file."""

    WHOLE = "whole"
    WRITTEN_TO = "written to"  # open for writing, or replaced since it was seen
    EMPTY = "is empty"
    CUT_OFF = "is a workbook without its end"
    UNREADABLE = "unreadable"
    LINKED = "linked"  # a hard link that other users may have created
    GONE = "gone"


def check_file(path: str, seen: Signature, *, shows_writers: bool) -> FileCondition:
    """Check a file that was seen with this signature. `shows_writers`: whether its file system shows open writers."""
    try:
        descriptor = os.open(path, READ)
    except OSError as error:
        return (
            FileCondition.GONE if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO) else FileCondition.UNREADABLE
        )
    try:
        return _check_open_file(descriptor, path, seen, shows_writers=shows_writers)
    except OSError:
        return FileCondition.UNREADABLE
    finally:
        os.close(descriptor)


def is_written_to(descriptor: int) -> bool:
    """Whether a process on this machine has the file open for writing: a lease on it is then refused (fcntl(2), F_SETLEASE).
    False where leases are not available.
    """
    if sys.platform != "linux":
        return False
    try:
        # If another process opens the file now, the kernel breaks our lease and sends a signal. This one is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def _check_open_file(descriptor: int, path: str, seen: Signature, *, shows_writers: bool) -> FileCondition:
    status = os.fstat(descriptor)
    if signature_of(status) != seen or (shows_writers and is_written_to(descriptor)):
        return FileCondition.WRITTEN_TO
    if is_untrusted_link(status, Path(path)):
        return FileCondition.LINKED
    if seen.size == 0:
        return FileCondition.EMPTY
    cut_off = path.lower().endswith(_ZIPPED) and not _has_zip_end(descriptor, seen.size)
    return FileCondition.CUT_OFF if cut_off else FileCondition.WHOLE


def _has_zip_end(descriptor: int, size: int) -> bool:
    """Whether a file that begins as a zip also ends as one; True for other files."""
    if os.pread(descriptor, 4, 0) != _ZIP_START:
        return True
    tail = min(size, _ZIP_END_BYTES_MAX)
    return _ZIP_END in os.pread(descriptor, tail, size - tail)


_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay"})
_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "glusterfs", "lustre", "gpfs"}
    | {"9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"}
)


def shows_open_writers(kind: str) -> bool:
    """Whether this file system refuses a lease exactly while a process has the file open for writing."""
    return kind in _LOCAL


def needs_polling(kind: str) -> bool:
    """Whether changes by other machines cause no events here: network shares and host folders in virtual machines."""
    return kind in _SHARED or kind.startswith("fuse")


# ---- moves ----

_BLOCK = 1 << 20
_FOLDER_MODE = 0o750  # shippers' data are confidential
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def move(source: Path, target: Path, settings: Settings, name: str, *, copy: bool = False) -> bool:
    """Move a regular file to a free path. `copy` copies its bytes instead, which detaches it from other hard links. False if the
    source is gone, is not a regular file, or is a link that other users may have created. Raises FolderError naming `name`; the
    source then stays.
    """
    try:
        make_folder(target.parent, settings)
        with _open_parent(source, settings) as folder:
            if copy:
                return _copy_and_remove(source, folder, target, settings)
            if not stat.S_ISREG(_status(source, folder).st_mode):
                return False
            try:
                os.rename(_relative_to_parent(source, folder), target, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                return _copy_and_remove(source, folder, target, settings)
    except OSError as error:
        if error.errno in _GONE and target.parent.is_dir():
            return False
        raise folder_error(error, name, f"moved from {source.parent}") from error
    return True


def is_untrusted_link(status: os.stat_result, path: Path) -> bool:
    """Whether a file has a second hard link and other users may write to its folder. They could have linked a file that only we
    may read.
    """
    if status.st_nlink < 2 or os.name != "posix":
        return False
    folder = path.parent.stat()
    return bool(folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or folder.st_uid not in (0, os.geteuid())


def make_folder(folder: Path, settings: Settings) -> None:
    """Make a folder and its parents; folders in the state folder are closed to other users."""
    if folder.is_dir():
        return
    if folder.is_relative_to(settings.state) and folder != settings.state:
        make_folder(folder.parent, settings)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)


def remove_empty_folders(folder: Path, top: Path) -> None:
    """Remove a folder below `top` and its parents, as far as they are empty."""
    while folder != top and folder.is_relative_to(top):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def folder_error(error: OSError, name: str, action: str) -> FolderError:
    """The FolderError for an error of the system, with advice."""
    advice = {
        errno.ENOSPC: "the disk is full; make room and run again",
        errno.EDQUOT: "the disk quota is used up; make room and run again",
        errno.EROFS: "the folder is read-only; mount it writable and run again",
        errno.EACCES: "permission denied; grant it to the user loadsheet runs as and run again",
        errno.EPERM: "permission denied; grant it to the user loadsheet runs as and run again",
    }
    reason = advice.get(error.errno or 0, f"the system reports: {error.strerror}; correct that and run again")
    place = f" ({error.filename2 or error.filename})" if error.filename2 or error.filename else ""
    return FolderError(f"{name} could not be {action}: {reason}{place}")


@contextmanager
def _open_parent(source: Path, settings: Settings) -> Iterator[int | None]:
    """The descriptor of a file's folder, opened without following links below the inbox or the state folder. None where the
    system does not support it.
    """
    if os.rename not in os.supports_dir_fd:
        yield None
        return
    tops = (settings.state / "work", settings.inbox, settings.state)
    top = next((top for top in tops if source.is_relative_to(top)), source.parent)
    flags = os.O_RDONLY | os.O_DIRECTORY
    descriptor = os.open(top, flags)
    try:
        for part in source.parent.relative_to(top).parts:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _relative_to_parent(source: Path, folder: int | None) -> str | Path:
    return source if folder is None else source.name


def _status(source: Path, folder: int | None) -> os.stat_result:
    return os.stat(_relative_to_parent(source, folder), dir_fd=folder, follow_symlinks=False)


def _copy_and_remove(source: Path, folder: int | None, target: Path, settings: Settings) -> bool:
    """Copy the file, verify the copy, make it durable and rename it into place. Only then remove the original, if it is still the
    file that was copied. A kill in between leaves at worst both; the next run recognises the duplicate.
    """
    partial = _partial(target, settings)
    with os.fdopen(os.open(_relative_to_parent(source, folder), READ, dir_fd=folder), "rb") as original:
        before, named = os.fstat(original.fileno()), _status(source, folder)
        if not stat.S_ISREG(before.st_mode) or not os.path.samestat(before, named) or is_untrusted_link(named, source):
            return False  # count links by name: the open file has one less once its name is replaced
        try:
            make_folder(partial.parent, settings)
            with suppress(FileNotFoundError):
                partial.unlink()
            _copy(original.fileno(), partial)
            if signature_of(os.fstat(original.fileno())) != signature_of(before):
                return False
            os.utime(partial, ns=(before.st_atime_ns, before.st_mtime_ns))
            partial.rename(target)
            sync_folder(target.parent)
            _remove(source, folder, before, target)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    return True


def _copy(original: int, partial: Path) -> None:
    """Copy to a new file, flush it to disk, and compare. Raises OSError (EIO) if the copy differs."""
    written, read = hashlib.sha256(), hashlib.sha256()
    with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640), "wb+") as copy:
        while block := os.read(original, _BLOCK):
            written.update(block)
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
        copy.seek(0)
        while block := copy.read(_BLOCK):
            read.update(block)
    if read.digest() != written.digest():
        raise OSError(errno.EIO, "the copy differs from the original", str(partial))


def _remove(source: Path, folder: int | None, copied: os.stat_result, copy: Path) -> None:
    """Remove the original; if that fails, remove the copy instead. A new file of the same name stays."""
    try:
        if os.path.samestat(_status(source, folder), copied):
            os.unlink(_relative_to_parent(source, folder), dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        copy.unlink()
        raise


def _partial(target: Path, settings: Settings) -> Path:
    """The path of an unfinished copy: on the target's volume, where no scan looks for files."""
    if target.is_relative_to(settings.state):
        return settings.state / "copying" / f"{os.getpid()}.tmp"
    return target.with_name(f".{target.name[:80]}.tmp")
