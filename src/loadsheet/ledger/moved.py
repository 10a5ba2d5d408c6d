"""What stands beside a SQLite ledger that was moved into PostgreSQL, and in a ledger that is still on its way there.

Owns: which of the two may be used. The note beside the file decides: until it stands there the file is the ledger, and what was copied
waits; from then on the copy is the ledger, and the file is opened no more.
"""

import os
import socket
from pathlib import Path

import msgspec
from sqlalchemy import Connection, delete, insert, select

from loadsheet.ledger.location import Mark, Surroundings, sync_folder
from loadsheet.ledger.schema import meta
from loadsheet.problems import LedgerError, LedgerUnwritable, SettingsError

_ARRIVING = "arriving"


class Note(msgspec.Struct, frozen=True):
    """Beside a file that was moved: where to, when (ISO 8601 UTC), which move it was, and as what the file is kept."""

    to: str
    at: str
    move: str
    kept_as: str


class Arriving(msgspec.Struct, frozen=True):
    """In a ledger that was copied from a file: which file on which machine, which move it is, and the file's mark of its last run."""

    file: str
    host: str
    move: str
    mark: Mark | None


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
        told = f"{note_path(path)}, which says where the ledger went, cannot be read ({error})"
        raise LedgerError(f"{told}; nothing was sent") from error


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
        told = f"the ledger {path} was moved to {note.to} on {note.at[:10]}"
        raise SettingsError(f"{told}: set `database` to that; nothing was sent")


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
        told = f"the ledger {place} is being moved there from {found.file} on {found.host}"
        raise SettingsError(f"{told}, which did not end: run `loadsheet ledger move` there once more")


def arrive(connection: Connection, surroundings: Surroundings, place: str) -> None:
    """End a move whose note stands beside the file: the mark of the last run goes along, and the copy is the ledger. Raises what
    `check_arrived` raises.
    """
    check_arrived(connection, place)
    if (found := arriving(connection)) is not None:
        if found.mark is not None:
            surroundings.write_mark(found.mark)
        connection.execute(delete(meta).where(meta.c.name == _ARRIVING))


def refuse_beside_a_file(state: Path, place: str) -> None:
    """Raise SettingsError if a ledger that is empty would be begun although the folder of this machine's state holds one in a file: it would
    send everything again.
    """
    file = state / "ledger.db"
    known = file.with_name(f"last_run_of_{file.name}.json")
    if file.exists() and known.exists() and read_note(file) is None:
        told = f"the ledger {place} is empty, and {file} knows what was sent so far"
        raise SettingsError(f"{told}: `loadsheet ledger move` takes it there; or, to begin anew, move that file away")


def this_host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def _has_left(found: Arriving) -> bool:
    note = read_note(Path(found.file))
    return note is not None and note.move == found.move
