"""The location of the ledger and the files around it: reserved space for outcomes, backups, record of the last run, note of a move.

Owns: files and folders around the database, and which of two ledgers is valid after a move from SQLite to PostgreSQL. The record of
the last run is outside the database, so a deleted or restored ledger is not mistaken for the newest one. The note of a move decides:
before it exists beside the file, the file is the ledger; from then on the copy is the ledger.
"""

import gzip
import os
import shlex
import shutil
import socket
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, delete

from loadsheet.errors import FolderError, LedgerError, LedgerUnwritable, SettingsError
from loadsheet.ledger.ledger_tables import meta, stored_value
from loadsheet.places import MOUNTS, file_system_of, sync_folder

RESERVE_BYTES = 4 * 1024 * 1024
"""Reserved space for the outcomes of calls already made: a window of entries with their pages and indexes."""

NETWORK_KINDS = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "lustre"),
    *("fuse.sshfs", "fuse.smbnetfs", "fuse.glusterfs"),
}
"""File systems on which SQLite's locks and write-ahead log are unreliable, by their names in Linux."""

Stored = TypeVar("Stored")


@dataclass(frozen=True, slots=True)
class LastRunRecord:
    """The last recorded run of the ledger: its id, its name, and its start (ISO 8601 UTC)."""

    id: int
    name: str
    started_at: str

    def unknown_to(self, where: str) -> LedgerError:
        """The error of a ledger that does not know this run."""
        accept = "set ledger.accept_older for one run, which first looks up what may have been sent since"
        return LedgerError(
            f"the ledger {where} does not know run {self.name}, which was recorded here: it is an older copy, or another ledger",
            todo=f"restore the newest backup (`loadsheet ledger restore FILE`), or {accept}",
        )


class LedgerFiles:
    """The files on this machine that belong to a ledger anywhere. `last_run_path` is the record of the last run (None: no record)."""

    def __init__(self, last_run_path: Path | None) -> None:
        self.last_run_path = last_run_path

    def restore_advice(self) -> str:
        """The advice for an unusable ledger."""
        return "restore it from a backup with the tools of its server"

    def refuse_gone(self, where: str) -> None:
        """Raise LedgerError for a missing ledger if a run was recorded in it: an empty one would send everything again."""
        if (last := self.read_last_run()) is not None:
            message = f"the ledger {where} is gone or empty, but run {last.name} was recorded in it"
            start_over = (
                f"to start with an empty ledger, which would send everything again, remove {self.last_run_path}"
            )
            raise LedgerError(message, todo=f"{self.restore_advice()}; or, {start_over}")

    def reserve_space(self) -> None:
        """Reserve space on the ledger's disk. Does nothing for a server."""

    def release_space(self) -> bool:
        """Release the reserved space. Returns whether there was any."""
        return False

    def write_last_run(self, last: LastRunRecord) -> None:
        """Write the record of the last run, durably. Raises LedgerUnwritable."""
        if self.last_run_path is None:
            return
        try:
            self.last_run_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_durably(self.last_run_path, last)
        except OSError as error:
            raise LedgerUnwritable(
                f"{self.last_run_path} cannot be written ({error.strerror}); nothing was sent"
            ) from error

    def read_last_run(self) -> LastRunRecord | None:
        """The last run, or None if none was recorded. Raises LedgerError if the record cannot be read."""
        if self.last_run_path is None:
            return None
        todo = "remove it if you are sure that this is the newest ledger"
        return _read(self.last_run_path, LastRunRecord, "the record of the ledger's last run", todo)


class SqliteLedgerFiles(LedgerFiles):
    """The file of a ledger, and the files beside it. Its backups are in the state folder, by default the folder of the file."""

    def __init__(self, path: Path, state: Path | None = None) -> None:
        super().__init__(path.with_name(f"last_run_of_{path.name}.json"))
        self.path = path
        self.reserve_path = path.with_name(f"{path.name}.reserve")
        self._backups = (state or path.parent) / "backups"
        self._reserved = False

    def restore_advice(self) -> str:
        """The advice for an unusable ledger, with the newest backup."""
        made = sorted(
            (path for end in ("db", "db.gz") for path in self._backups.glob(f"*.{end}")),
            key=lambda path: path.stat().st_mtime,
        )
        if made:
            return f"restore the newest backup: `loadsheet ledger restore {shlex.quote(str(made[-1]))}`"
        return f"restore it from a backup: `loadsheet ledger restore FILE` ({self._backups} holds none)"

    def make_private(self) -> None:
        """Create a missing file, and allow only its owner to read and write it: payloads contain names and addresses.

        Raises LedgerUnwritable if that fails.
        """
        try:
            # Never open an existing file here: closing it would release the locks of SQLite's connections in this process.
            if not self.path.exists():
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            elif os.name == "posix" and self.path.stat().st_mode & 0o077:
                self.path.chmod(0o600)
            for beside in ("-wal", "-shm"):  # SQLite made them read-only if the ledger was, and keeps them
                with suppress(FileNotFoundError):
                    self.path.with_name(f"{self.path.name}{beside}").chmod(0o600)
        except PermissionError as error:
            message = f"this user cannot write the ledger {self.path} ({error.strerror})"
            raise LedgerUnwritable(f"{message}; check the owner of the file and its folder") from error
        except OSError as error:
            message = f"unable to open the ledger {self.path} ({error.strerror})"
            raise LedgerUnwritable(f"{message}; check the permissions of the file and its folder") from error

    def refuse_missing(self) -> None:
        """Raise LedgerError if a run was recorded but the ledger is gone: an empty one would send everything again."""
        if not has_tables_in_file(self.path):
            self.refuse_gone(str(self.path))

    def reserve_space(self) -> None:
        """Reserve space, unless it is reserved already. Raises LedgerUnwritable if the disk is full."""
        if self._reserved:
            return
        try:
            reserve = os.open(self.reserve_path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(reserve, 0, RESERVE_BYTES)
                else:
                    os.write(reserve, b"\0" * RESERVE_BYTES)
            finally:
                os.close(reserve)
        except OSError as error:
            with suppress(OSError):
                self.reserve_path.unlink(missing_ok=True)
            message = f"the disk of the ledger {self.path} has no {RESERVE_BYTES // 1024**2} MB left ({error.strerror})"
            raise LedgerUnwritable(
                f"{message}; free some space and run again: unsent documents are still ready"
            ) from error
        self._reserved = True

    def release_space(self) -> bool:
        """Release the reserved space. Returns whether there was any."""
        held, self._reserved = self._reserved, False
        if held:
            with suppress(OSError):  # the file stays, and the next process reuses it
                self.reserve_path.unlink(missing_ok=True)
        return held


def has_tables_in_file(path: Path) -> bool:
    """Whether a file exists and is more than a database without tables, which a run leaves that is killed while it creates the ledger."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute("select 1 from sqlite_master").fetchone() is not None
    except sqlite3.DatabaseError:  # whoever opens it says why
        return True


def _write_durably(path: Path, value: object) -> None:
    """Replace a private file with a value as JSON, durably and atomically. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def _read(path: Path, kind: type[Stored], what: str, todo: str) -> Stored | None:
    """The value in a file of JSON. None if there is no file. Raises LedgerError with `what` and `todo` if it cannot be read, and FolderError if it may not be."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        text = f"{path.parent} cannot be read ({error.strerror}). Let the user that loadsheet runs as read and write it"
        raise FolderError(text) from error
    except (OSError, msgspec.MsgspecError) as error:
        raise LedgerError(f"{path}, {what}, cannot be read ({error}); {todo}") from error


def holder_of_file(path: Path) -> str:
    """The live process that holds a ledger file, as text (empty: none). Does not try the lock, because that could block a run that
    begins now.
    """
    try:
        holder = Path(f"{path}.holder").read_text(encoding="utf-8")
        number = int(holder.split()[1])
        if f" on {socket.gethostname()} " in holder and os.name == "posix":
            os.kill(number, 0)
    except (OSError, ValueError, IndexError):
        return ""
    return holder


def compact_time(now: str) -> str:
    """An ISO 8601 UTC time as part of a file name: `20260304T021500Z`."""
    return f"{now[:19].replace('-', '').replace(':', '')}Z"


def network_kind(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of network file system of a path. Empty for a local or undetectable one: then the journal mode that SQLite reports
    decides.
    """
    kind = file_system_of(path, mounts)
    return kind if kind in NETWORK_KINDS else ""


def back_up(connection: Connection, target: Path) -> None:
    """Copy the database of a connection to a new file, compressed if its name ends with `.gz`. Raises LedgerUnwritable and leaves no
    file if it cannot be written.
    """
    part = target.with_name(f"{target.name}.part")
    source: Any = connection.connection.dbapi_connection
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            copy.execute("pragma journal_mode=DELETE")  # a single file that can be copied elsewhere
        if target.suffix == ".gz":
            _compress(part)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
        sync_folder(target.parent)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise LedgerUnwritable(
            f"the backup {target} cannot be written ({error}); free space for a copy and run again"
        ) from error


def _compress(path: Path) -> None:
    """Replace a file with its gzip form. About 40 % of a ledger are left, for 8 µs of CPU an order."""
    packed = path.with_name(f"{path.name}.gz")
    try:
        with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as target:
            packed.chmod(0o600)
            shutil.copyfileobj(plain, target, 1 << 20)
        packed.replace(path)
    except OSError:
        packed.unlink(missing_ok=True)
        raise


ARRIVING = "arriving"
"""The name of the stored value of `incomplete_move`: until it is removed, the file is still the ledger."""


class MoveNote(msgspec.Struct, frozen=True):
    """The note beside a moved file: the new address, the time (ISO 8601 UTC), the id of the move, and the file's new path."""

    to: str
    at: str
    move: str
    kept_as: str


class IncompleteMove(msgspec.Struct, frozen=True):
    """The note in a ledger copied from a file: that file and its machine, the id of the move, and the file's record of its last run."""

    file: str
    host: str
    move: str
    mark: LastRunRecord | None


def note_path(path: Path) -> Path:
    """The path of a ledger file's note."""
    return path.with_name(f"{path.name}.moved")


def read_note(path: Path) -> MoveNote | None:
    """The note beside a ledger file. None if it was not moved. Raises LedgerError if the note cannot be read."""
    return _read(note_path(path), MoveNote, "the note with the ledger's new address", "nothing was sent")


def write_note(path: Path, note: MoveNote) -> None:
    """Write the note beside a ledger file, durably and atomically. Raises LedgerUnwritable."""
    try:
        _write_durably(note_path(path), note)
    except OSError as error:
        raise LedgerUnwritable(f"{note_path(path)} cannot be written ({error.strerror}); nothing was moved") from error


def refuse_moved(path: Path) -> None:
    """Raise SettingsError if the ledger of this file was moved."""
    note = read_note(path)
    if note is not None:
        message = f"the ledger {path} was moved to {note.to} on {note.at[:10]}"
        raise SettingsError(f"{message}: set `database` to that; nothing was sent")


def incomplete_move(connection: Connection) -> IncompleteMove | None:
    """The source of a ledger whose move is not complete. None for a ledger in use."""
    stored = stored_value(connection, ARRIVING)
    return msgspec.json.decode(stored, type=IncompleteMove) if stored else None


def refuse_incomplete_move(connection: Connection, place: str) -> None:
    """Raise SettingsError if a ledger was copied from a file that, as seen from this machine, is still the ledger."""
    if (source := incomplete_move(connection)) is None:
        return
    note = read_note(Path(source.file))
    if note is None or note.move != source.move:
        message = f"the move of {source.file} on {source.host} to the ledger {place} is not complete"
        raise SettingsError(f"{message}: run `loadsheet ledger move` there again")


def complete_move(connection: Connection, ledger_files: LedgerFiles, place: str) -> None:
    """Complete a move whose note exists beside the file: take over the record of the last run and make the copy the ledger. Raises
    the errors of `refuse_incomplete_move`.
    """
    refuse_incomplete_move(connection, place)
    if (source := incomplete_move(connection)) is not None:
        if source.mark is not None:
            ledger_files.write_last_run(source.mark)
        connection.execute(delete(meta).where(meta.c.name == ARRIVING))


def refuse_beside_a_file(state: Path, place: str) -> None:
    """Raise SettingsError if this machine's state folder has a ledger file although the ledger is empty: a run would send
    everything again.
    """
    file = state / "ledger.db"
    known = file.with_name(f"last_run_of_{file.name}.json")
    if file.exists() and known.exists() and read_note(file) is None:
        message = f"the ledger {place} is empty, but {file} has the record of what was sent"
        raise SettingsError(
            f"{message}: move it there with `loadsheet ledger move`; or, to start over, move that file away"
        )
