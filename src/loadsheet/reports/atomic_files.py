"""Reports appear whole or not at all: written under another name, made durable, then renamed."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadsheet.problems import FolderError

_NAME_BYTES_MAX = 150
_UNSAFE = re.compile(r"[^\w .()+,=@-]")


@contextmanager
def placed(path: Path) -> Iterator[Path]:
    """Write `path` atomically: the block writes to the yielded path, which is then renamed. Leaves nothing behind if writing fails.

    Raises FolderError if the folder cannot be written to or the disk is full.
    """
    part = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written ({error.strerror or error}); see to its folder or disk, and try again: what a run knows is in"
            " the ledger, and `loadsheet report` writes its reports anew"
        ) from error


def run_folders(folder: Path) -> list[str]:
    """The folders of runs in the outbox. Raises FolderError if the outbox cannot be read."""
    try:
        return [path.name for path in folder.iterdir() if path.is_dir()]
    except OSError as error:
        raise FolderError(
            f"the folder of reports {folder} cannot be read ({error.strerror}); see to its rights"
        ) from error


def check_writable(folder: Path) -> None:
    """Create the outbox if it does not exist. Raises FolderError if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it may only be read")
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
        raise FolderError(
            f"reports cannot be written to the folder {folder} ({why}); nothing was taken or sent: see to the folder or name another"
            " (--outbox), and run again"
        ) from error


def safe_name(text: str) -> str:
    """A shipper's file or sheet name as a part of a file name: folders flattened, nothing that a file system might act on."""
    flat = text.replace("\\", "/").strip("/").replace("/", "__")
    clean = _UNSAFE.sub("_", flat).strip(" .")
    return clean.encode()[:_NAME_BYTES_MAX].decode(errors="ignore") or "_"
