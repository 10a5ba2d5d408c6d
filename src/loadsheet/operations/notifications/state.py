"""The state of notifications between runs: open conditions, undelivered notices, sent digests; and where it is stored.

Stored in `STATE/notices.json`, or in a row of the shared ledger for all machines of a cluster. One process at a time uses it, and a write
is complete or does not happen. If the shared ledger cannot be reached, each machine uses its own file; the next process that reaches the
ledger merges that file into the row. The state holds no address, only a short salted hash that cannot be turned back into one.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from filelock import FileLock, Timeout

from loadsheet.errors import LedgerError, SettingsError
from loadsheet.places import sync_folder
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.shared.mutual_exclusion import NoticeMemory

NAME = "notices.json"
LOCK_TIMEOUT_S = 60.0
RESERVE_BYTES = 65_536
_CHARACTERS_MAX = 1_000
_HASH_DIGITS = 8  # enough to distinguish a handful of addresses, too few to guess passwords from

Kind = Literal["failure", "warning", "success", "info"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Condition:
    """An ongoing condition, such as failing runs. `since` and `told_at` are ISO 8601 UTC; `told_at` is the last notice (empty: none yet).
    `runs` counts the runs it has lasted, `streak` the latest ones in a row with the same `cause`. `told_cause` is the cause in the last
    notice, `text` the description for people.
    """

    since: str
    runs: int = 1
    cause: str = ""
    streak: int = 1
    told_cause: str = ""
    told_at: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice in the outbox. `to` is `notify`, `owner:NAME` or `fixes`; `at` is when it was queued (ISO 8601 UTC); `files` are attached;
    `reached` are the hashes of the addresses that have it.
    """

    to: str
    at: str
    kind: Kind
    title: str
    body: str
    files: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LastDigest:
    """The last digest of a recipient: when (ISO 8601 UTC), a hash and the number of its open exceptions, and the files it listed as set
    aside.
    """

    at: str
    mark: str
    open: int
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotificationState:
    """The whole state. `once` are events that were reported and never change, `fixes` the fix files that were delivered,
    `copies` the paths still to copy, by fix file ID.
    """

    salt: str = ""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    outbox: tuple[Notice, ...] = ()
    once: tuple[str, ...] = ()
    digest_at: str = ""
    digests: Mapping[str, LastDigest] = field(default_factory=dict)
    fixes: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    def address_hash(self, address: str) -> str:
        """A short salted hash of an address."""
        return hashlib.sha256(f"{self.salt} {address}".encode()).hexdigest()[:_HASH_DIGITS]


def shorten(text: str) -> str:
    """A text of a notice, cut if it is too long."""
    return text if len(text) <= _CHARACTERS_MAX else f"{text[: _CHARACTERS_MAX - 3]}..."


def empty_state() -> NotificationState:
    """The state before the first notice, with a new salt."""
    return NotificationState(salt=secrets.token_hex(16))


def encode_state(state: NotificationState) -> bytes:
    """The state as JSON."""
    return msgspec.json.encode(state)


def decode_state(stored: bytes | str) -> NotificationState | None:
    """The state from JSON; None if that is damaged."""
    try:
        return msgspec.json.decode(stored, type=NotificationState)
    except msgspec.DecodeError:
        return None


def merge_states(known: NotificationState, more: NotificationState) -> NotificationState:
    """Both states in one. Where they differ, `known` wins; the reached addresses of `more` are dropped, as its salt is another."""
    return replace(
        known,
        conditions={**more.conditions, **known.conditions},
        outbox=(*known.outbox, *(replace(notice, reached=()) for notice in more.outbox)),
        once=_unique(more.once, known.once),
        digest_at=max(more.digest_at, known.digest_at),
        digests={**more.digests, **known.digests},
        fixes=_unique(more.fixes, known.fixes),
        copies={**more.copies, **known.copies},
    )


def _unique(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))


@contextmanager
def open_store(settings: Settings, say: Say) -> Iterator["FileStore | TableStore | None"]:
    """The state of a shipper, locked for this process. Gives None and warns if another process holds the lock for too long."""
    if not settings.is_shared:
        with file_store(settings.state, say) as file:
            yield file
        return
    with ExitStack() as stack:
        store: FileStore | TableStore | None
        try:
            store = stack.enter_context(_table_store(settings, say))
        except (LedgerError, SettingsError) as error:
            say(f"notices: {error}; until the ledger is available, their state is stored on this machine")
            store = stack.enter_context(file_store(settings.state, say))
        yield store


@contextmanager
def file_store(state: Path, say: Say) -> Iterator["FileStore | None"]:
    """The state file in this folder, locked. If no lock can be created, warns and continues without."""
    place = state / NAME
    lock = FileLock(f"{place}.lock", mode=0o600)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire(timeout=LOCK_TIMEOUT_S)
    except Timeout:
        _say_busy(say)
        yield None
        return
    except OSError as error:
        say(f"notices: {place}.lock cannot be locked ({error.strerror}); continuing without the lock")
    try:
        yield FileStore(place, say)
    finally:
        lock.release()


class FileStore:
    """The state in a file. A write goes to a temporary file, is synced and renamed."""

    def __init__(self, place: Path, say: Say) -> None:
        self._place, self._say = place, say
        self._reserve = place.with_name(f".{place.name}.reserve")

    def read(self) -> NotificationState:
        """The state. If it cannot be read, warns and returns an empty one."""
        why = "it is damaged"
        try:
            if found := decode_state(self._place.read_bytes()):
                return found
        except FileNotFoundError:
            return empty_state()
        except OSError as error:
            why = str(error.strerror)
        self._say(f"notices: {self._place} cannot be read ({why}): ongoing conditions are reported again")
        return empty_state()

    def write(self, state: NotificationState) -> bool:
        """Store the state. On failure warns and returns False: notices may be sent twice, none is lost. A reserve file is freed if the disk
        is full, because a full disk must be remembered as reported.
        """
        try:
            try:
                self._put(state)
            except OSError:
                if not self._reserve.exists():
                    raise
                self._reserve.unlink()
                self._put(state)
        except OSError as error:
            self._say(f"notices: {self._place} cannot be written ({error.strerror}); these notices may be sent again")
            return False
        with suppress(OSError):
            if not self._reserve.exists():
                self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # random, so that no file system compresses it
        return True

    def remove(self) -> None:
        """Delete the file. Raises OSError."""
        self._place.unlink()
        self._reserve.unlink(missing_ok=True)
        with suppress(OSError):  # some file systems cannot
            sync_folder(self._place.parent)

    def _put(self, state: NotificationState) -> None:
        part = self._place.with_name(f".{self._place.name}.tmp")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.format(encode_state(state), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._place)
        with suppress(OSError):  # some file systems cannot
            sync_folder(self._place.parent)


class TableStore:
    """The state in the shipper's row of the shared ledger."""

    def __init__(self, row: "NoticeMemory", say: Say) -> None:
        """Raises LedgerError if the row cannot be read."""
        self._row, self._say = row, say
        stored = row.read()
        self._state = decode_state(stored) if stored else None
        self._is_damaged = bool(stored) and self._state is None

    def read(self) -> NotificationState:
        """The state. If it is damaged, warns and returns an empty one."""
        if self._is_damaged:
            self._say("notices: their state in the shared ledger is damaged: ongoing conditions are reported again")
        return self._state or empty_state()

    def write(self, state: NotificationState) -> bool:
        """Store the state. On failure warns and returns False: notices may be sent twice, none is lost."""
        try:
            self._row.write(encode_state(state).decode())
        except LedgerError as error:
            self._say(f"notices: their state cannot be stored ({error}); these notices may be sent again")
            return False
        return True

    def take_in(self, state: Path) -> None:
        """Merge a machine's own file into the row, and delete the file."""
        if not (state / NAME).exists():
            return
        with file_store(state, self._say) as file:
            if file is None:
                return
            more = file.read()
            both = merge_states(self.read(), more) if self._state or self._is_damaged else more
            if self.write(both):
                self._state, self._is_damaged = both, False
                try:
                    file.remove()
                except OSError as error:
                    self._say(
                        f"notices: {state / NAME} was moved into the shared ledger and cannot be removed ({error.strerror})"
                    )


@contextmanager
def _table_store(settings: Settings, say: Say) -> Iterator[TableStore | None]:
    """The shipper's row, with this machine's own file merged in. Raises LedgerError and SettingsError."""
    from loadsheet.ledger.shared import mutual_exclusion, open_shared

    with (
        open_shared(settings.database_url, makes=True) as engine,
        mutual_exclusion.held_notices(engine, settings.shipper, LOCK_TIMEOUT_S) as row,
    ):
        if row is None:
            _say_busy(say)
            yield None
            return
        table = TableStore(row, say)
        table.take_in(settings.state)
        yield table


def _say_busy(say: Say) -> None:
    reason = f"another process has held their state for {LOCK_TIMEOUT_S:g} s"
    say(f"notices: {reason}; the changes of this run are reported with the next one")
