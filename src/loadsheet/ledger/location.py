"""Where the ledger lies, and what lies beside it: space kept back for outcomes, copies, the record of the last run, and the note of a move.

Owns: files and folders around the database, and which of two ledgers may be used after a move from SQLite into PostgreSQL. The record of the
last run is kept apart from the database: a ledger that was deleted or restored from an old backup does not pass for the newest one. The note
of a move decides: until it stands beside the file, the file is the ledger and the copy waits; from then on the copy is the ledger.
"""

import os
import shlex
import socket
import sqlite3
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select

from loadsheet.ledger.schema import meta
from loadsheet.problems import LedgerError, LedgerUnwritable, SettingsError

RESERVE_BYTES = 4 * 1024 * 1024
"""Space kept back for the outcomes of calls already made: a window of entries with their pages and indexes."""

NETWORK_KINDS = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ncpfs",
        "fuse.sshfs",
        "fuse.smbnetfs",
        "fuse.glusterfs",
        "ceph",
        "lustre",
    }
)
"""File systems on which SQLite's locks and its write-ahead log cannot be trusted, by the names that Linux gives them."""

_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run that the ledger recorded: its id and name there, and when it began (ISO 8601 UTC)."""

    id: int
    name: str
    started_at: str


class Surroundings:
    """What lies on this machine beside a ledger, wherever that is: `last_run_path` holds the record of the last run, None for none."""

    def __init__(self, last_run_path: Path | None) -> None:
        self.last_run_path = last_run_path

    def to_restore(self) -> str:
        """What to do where the ledger cannot be used any more."""
        return "restore it from a backup, by the means of its server"

    def refuse_gone(self, where: str) -> None:
        """Raise LedgerError for a ledger that is not there if a run was recorded in it: an empty one would send everything again."""
        if (last := self.read_last_run()) is not None:
            message = f"the ledger {where} is gone or empty, but run {last.name} was recorded in it"
            anew = f"to begin an empty one that knows nothing of what was sent, remove {self.last_run_path}"
            raise LedgerError(message, todo=f"{self.to_restore()}; or, {anew}")

    def keep_reserve(self) -> None:
        """Keep space back where the ledger's disk is ours; a server sees to its own."""

    def give_reserve(self) -> bool:
        """Give the space back; whether there was any."""
        return False

    def write_last_run(self, last: LastRun) -> None:
        """Record durably which run was the last. Raises LedgerUnwritable."""
        if self.last_run_path is None:
            return
        new = self.last_run_path.with_name(f"{self.last_run_path.name}.new")
        try:
            self.last_run_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(last))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.last_run_path)
            sync_folder(self.last_run_path.parent)
        except OSError as error:
            raise LedgerUnwritable(
                f"{self.last_run_path} cannot be written ({error.strerror}); nothing was sent"
            ) from error

    def read_last_run(self) -> LastRun | None:
        """The last run, or None if none was ever recorded. Raises LedgerError if the record cannot be read."""
        if self.last_run_path is None:
            return None
        try:
            return msgspec.json.decode(self.last_run_path.read_bytes(), type=LastRun)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            message = f"{self.last_run_path}, which says what the last run of the ledger was, cannot be read ({error})"
            raise LedgerError(f"{message}; remove it if you are sure that this is the newest ledger") from error


class Place(Surroundings):
    """The surroundings of one ledger file; its copies lie in the folder of the state, which is its own if none is given."""

    def __init__(self, path: Path, state: Path | None = None) -> None:
        super().__init__(path.with_name(f"last_run_of_{path.name}.json"))
        self.path = path
        self.reserve_path = path.with_name(f"{path.name}.reserve")
        self._backups = (state or path.parent) / "backups"
        self._reserved = False

    def to_restore(self) -> str:
        """What to do where the ledger cannot be used any more, with the newest copy that we made."""
        made = sorted((path for path in self._backups.glob("*.db")), key=lambda path: path.stat().st_mtime)
        if made:
            return f"restore it from a backup: `loadsheet ledger restore {shlex.quote(str(made[-1]))}` takes the newest"
        return f"restore it from a backup: `loadsheet ledger restore FILE` ({self._backups} holds none)"

    def make_private(self) -> None:
        """Make the file, if there is none, and let nobody else read or write it: payloads hold names and addresses.

        Raises LedgerUnwritable if it cannot be ours.
        """
        try:
            # A file that is there is never opened here: closing it would end the locks of SQLite's own connections in this process.
            if not self.path.exists():
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            elif os.name == "posix" and self.path.stat().st_mode & 0o077:
                self.path.chmod(0o600)
        except PermissionError as error:
            message = f"the ledger {self.path} cannot be written by us ({error.strerror})"
            raise LedgerUnwritable(f"{message}; look at who owns the file and its folder") from error
        except OSError as error:
            message = f"unable to open the ledger {self.path} ({error.strerror})"
            raise LedgerUnwritable(f"{message}; look at the rights of the file and its folder") from error

    def check_there(self) -> None:
        """Raise LedgerError if a run was recorded here and the ledger is gone: an empty one would send everything again."""
        if not (self.path.exists() and self.path.stat().st_size):
            self.refuse_gone(str(self.path))

    def keep_reserve(self) -> None:
        """Keep space back, unless it is kept already. Raises LedgerUnwritable if the disk has none."""
        if self._reserved:
            return
        try:
            reserve = os.open(self.reserve_path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _allocate(reserve)
            finally:
                os.close(reserve)
        except OSError as error:
            with suppress(OSError):
                self.reserve_path.unlink(missing_ok=True)
            message = f"the disk of the ledger {self.path} has no {RESERVE_BYTES // 1024**2} MB left ({error.strerror})"
            raise LedgerUnwritable(
                f"{message}; free some space and run again: what was not sent is still ready"
            ) from error
        self._reserved = True

    def give_reserve(self) -> bool:
        """Give the space back; whether there was any."""
        held, self._reserved = self._reserved, False
        if held:
            with suppress(OSError):  # then it stays, and the next one that keeps space back takes it over
                self.reserve_path.unlink(missing_ok=True)
        return held


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def network_kind(path: Path, mounts: str | None = None) -> str:
    """The kind of network file system that a path lies on, or nothing if it is none or cannot be known.

    `mounts` is the text of Linux's mountinfo; where there is none, the journal that SQLite reports has to do.
    """
    if mounts is None:
        if not sys.platform.startswith("linux") or not _MOUNTS.exists():
            return ""
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
    where, kind = Path("/"), ""
    resolved = path.resolve()
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split(" ")[4].encode().decode("unicode_escape")) if after else None
        if point is not None and resolved.is_relative_to(point) and len(point.parts) >= len(where.parts):
            where, kind = point, after.split(" ", 1)[0]
    return kind if kind in NETWORK_KINDS else ""


def _allocate(file: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, RESERVE_BYTES)
    else:
        os.write(file, b"\0" * RESERVE_BYTES)


def back_up(connection: Connection, target: Path) -> None:
    """Copy the database of a connection to a new file. Raises LedgerUnwritable if it cannot be written; nothing is left then."""
    part = target.with_name(f"{target.name}.part")
    source: Any = connection.connection.dbapi_connection
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            copy.execute("pragma journal_mode=DELETE")  # one file, to be carried elsewhere
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
        sync_folder(target.parent)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise LedgerUnwritable(
            f"the backup {target} cannot be written ({error}); make room for a copy and run again"
        ) from error


_ARRIVING = "arriving"


class Note(msgspec.Struct, frozen=True):
    """Beside a file that was moved: where to, when (ISO 8601 UTC), which move it was, and as what the file is kept."""

    to: str
    at: str
    move: str
    kept_as: str


class Arriving(msgspec.Struct, frozen=True):
    """In a ledger that was copied from a file: which file on which machine, which move it is, and the file's record of its last run."""

    file: str
    host: str
    move: str
    mark: LastRun | None


def note_path(path: Path) -> Path:
    """Where the note of a ledger file stands."""
    return path.with_name(f"{path.name}.moved")


def read_note(path: Path) -> Note | None:
    """The note beside a ledger file; None if it was not moved. Raises LedgerError for one that cannot be read."""
    try:
        return msgspec.json.decode(note_path(path).read_bytes(), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        message = f"{note_path(path)}, which says where the ledger went, cannot be read ({error})"
        raise LedgerError(f"{message}; nothing was sent") from error


def write_note(path: Path, note: Note) -> None:
    """Put the note beside a ledger file, durably and at once. Raises LedgerUnwritable."""
    new = path.with_name(f"{path.name}.moving")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(note))
            file.flush()
            os.fsync(file.fileno())
        new.replace(note_path(path))
        sync_folder(path.parent)
    except OSError as error:
        raise LedgerUnwritable(f"{note_path(path)} cannot be written ({error.strerror}); nothing was moved") from error


def refuse_moved(path: Path) -> None:
    """Raise SettingsError if the ledger of this file is elsewhere now."""
    note = read_note(path)
    if note is not None:
        message = f"the ledger {path} was moved to {note.to} on {note.at[:10]}"
        raise SettingsError(f"{message}: set `database` to that; nothing was sent")


def arriving(connection: Connection) -> Arriving | None:
    """What a ledger was copied from that is still on its way; None for one that is in use."""
    stored = connection.scalar(select(meta.c.value).where(meta.c.name == _ARRIVING))
    return None if stored is None else msgspec.json.decode(stored, type=Arriving)


def begin_arrival(connection: Connection, of: Arriving) -> None:
    """Record in a copy that the file is the ledger still."""
    encoded = msgspec.json.encode(of).decode()
    connection.execute(insert(meta).values(name=_ARRIVING, value=encoded))


def check_arrived(connection: Connection, place: str) -> None:
    """Raise SettingsError if a ledger was copied from a file that is the ledger still, as far as can be seen from here."""
    if (found := arriving(connection)) is not None and not _has_left(found):
        message = f"the ledger {place} is being moved there from {found.file} on {found.host}"
        raise SettingsError(f"{message}, which did not end: run `loadsheet ledger move` there once more")


def arrive(connection: Connection, surroundings: Surroundings, place: str) -> None:
    """End a move whose note stands beside the file: the record of the last run goes along, and the copy is the ledger. Raises what
    `check_arrived` raises.
    """
    check_arrived(connection, place)
    if (found := arriving(connection)) is not None:
        if found.mark is not None:
            surroundings.write_last_run(found.mark)
        connection.execute(delete(meta).where(meta.c.name == _ARRIVING))


def refuse_beside_a_file(state: Path, place: str) -> None:
    """Raise SettingsError if a ledger that is empty would be begun although the folder of this machine's state holds one in a file: it would
    send everything again.
    """
    file = state / "ledger.db"
    known = file.with_name(f"last_run_of_{file.name}.json")
    if file.exists() and known.exists() and read_note(file) is None:
        message = f"the ledger {place} is empty, and {file} knows what was sent so far"
        raise SettingsError(
            f"{message}: `loadsheet ledger move` takes it there; or, to begin anew, move that file away"
        )


def this_host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def _has_left(found: Arriving) -> bool:
    note = read_note(Path(found.file))
    return note is not None and note.move == found.move
