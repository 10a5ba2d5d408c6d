"""Moving a file so that it lies in one place at any time: a rename, or across volumes a whole, verified copy.

Folders that shippers can write to are entered part by part without following links, so that a folder swapped for a link moves
nothing from elsewhere. Knows nothing of what the places mean.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loadsheet.inbox.sightings import signature_of
from loadsheet.problems import FolderError
from loadsheet.settings import Settings

READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How a file of a shipper is opened: no link is followed, and a pipe does not make us wait."""

_BLOCK = 1 << 20
_FOLDER_MODE = 0o750  # what shippers sent is nobody else's business
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def move(source: Path, target: Path, settings: Settings, name: str, *, copy: bool = False) -> bool:
    """Move a regular file to a place that is free; with `copy` its bytes, so that another name of it leads elsewhere. False if the
    source is not there, is no regular file, or is a link that others may have put there. Raises FolderError naming `name`, and the source stays.
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
        if error.errno in _GONE and not target.parent.is_dir():
            raise folder_error(error, name, "moved") from error
        if error.errno in _GONE:
            return False
        raise folder_error(error, name, "moved") from error
    return True


def is_untrusted_link(status: os.stat_result, path: Path) -> bool:
    """Whether a file has another name, and others than us may write to its folder: they may have linked a file there that we may
    read and they may not.
    """
    if status.st_nlink < 2 or os.name != "posix":  # noqa: PLR2004 (two names)
        return False
    folder = path.parent.stat()
    return bool(folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) or folder.st_uid not in (0, os.geteuid())


def make_folder(folder: Path, settings: Settings) -> None:
    """Make a folder with those above it; what is made in the state folder is closed to the rest of the world."""
    if folder.is_dir():
        return
    if folder.is_relative_to(settings.state) and folder != settings.state:
        make_folder(folder.parent, settings)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)


def remove_empty_folders(folder: Path, top: Path) -> None:
    """Remove a folder below `top`, and those above it, once they are empty."""
    while folder != top and folder.is_relative_to(top):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def folder_error(error: OSError, name: str, action: str) -> FolderError:
    """What the system refused, and what to do about it."""
    advice = {
        errno.ENOSPC: "the disk is full; make room and run again",
        errno.EDQUOT: "the quota of the disk is used up; make room and run again",
        errno.EROFS: "the folder is read-only; mount it writable and run again",
        errno.EACCES: "permission denied; grant it to the user loadsheet runs as and run again",
        errno.EPERM: "permission denied; grant it to the user loadsheet runs as and run again",
    }
    reason = advice.get(error.errno or 0, f"the system says: {error.strerror}; correct that and run again")
    place = f" ({error.filename2 or error.filename})" if error.filename2 or error.filename else ""
    return FolderError(f"{name} could not be {action}: {reason}{place}")


@contextmanager
def _open_parent(source: Path, settings: Settings) -> Iterator[int | None]:
    """The folder of a file below the inbox or one of ours, as a descriptor that no swapped link leads astray; None where the
    system has none.
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
    """Copy, read the copy back, make it durable, put it in place, and only then remove the original, if it is still the one that
    was copied. A kill in between leaves the original, at worst beside its copy: then the same bytes come again, and are known.
    """
    partial = _partial(target, settings)
    with os.fdopen(os.open(_relative_to_parent(source, folder), READ, dir_fd=folder), "rb") as original:
        before = os.fstat(original.fileno())
        if not stat.S_ISREG(before.st_mode) or is_untrusted_link(before, source):
            return False
        try:
            make_folder(partial.parent, settings)
            with suppress(FileNotFoundError):
                partial.unlink()
            _copy(original.fileno(), partial)
            if signature_of(os.fstat(original.fileno())) != signature_of(before):
                return False
            os.utime(partial, ns=(before.st_atime_ns, before.st_mtime_ns))
            partial.rename(target)
            _make_durable(target.parent)
            _remove(source, folder, before, target)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    return True


def _copy(original: int, partial: Path) -> None:
    """Copy to a new file, wait until it is on disk, and compare. Raises OSError (EIO) if the copy reads differently."""
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
    """Remove the original; where that is not allowed, remove the copy instead. A new file of the same name stays."""
    try:
        if os.path.samestat(_status(source, folder), copied):
            os.unlink(_relative_to_parent(source, folder), dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        copy.unlink()
        raise


def _partial(target: Path, settings: Settings) -> Path:
    """Where a copy grows: on the target's volume and where no scan looks for files."""
    if target.is_relative_to(settings.state):
        return settings.state / "copying" / f"{os.getpid()}.tmp"
    return target.with_name(f".{target.name[:80]}.tmp")


def _make_durable(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
