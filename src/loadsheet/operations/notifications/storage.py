"""Where the memory of notices is kept: in `STATE/notices.json`, or for all machines of a fleet in a row of the shared ledger.

Owns: that one process at a time tells, and that the memory is there whole or not at all. While a shared ledger cannot be reached each
machine remembers in its own file, and what stands there is taken over as soon as it can: by then the fleet may have told it as well.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from filelock import FileLock, Timeout

from loadsheet.operations.notifications.state import Kept, Memory, decoded, encoded, fresh, joined
from loadsheet.problems import LedgerError, SettingsError
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.shared.notices import Row

NAME = "notices.json"
LOCK_TIMEOUT_S = 60.0
RESERVE_BYTES = 65_536

Say = Callable[[str], None]


@contextmanager
def held(settings: Settings, say: Say) -> Iterator[Memory | None]:
    """The memory of a shipper, for one process at a time; None, and said, if another one has been telling for too long."""
    if not settings.is_shared:
        with in_file(settings.state, say) as file:
            yield file
        return
    with ExitStack() as stack:
        memory: Memory | None
        try:
            memory = stack.enter_context(_in_table(settings, say))
        except (LedgerError, SettingsError) as error:
            say(f"notices: {error}; until then this machine remembers by itself what it told")
            memory = stack.enter_context(in_file(settings.state, say))
        yield memory


@contextmanager
def in_file(state: Path, say: Say) -> Iterator["InFile | None"]:
    """The file in this folder. One that takes no lock is said, and used without."""
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
        say(f"notices: {place}.lock cannot be held ({error.strerror}); going on without")
    try:
        yield InFile(place, say)
    finally:
        lock.release()


class InFile:
    """The memory in a file: written beside itself, brought to the disk, then put in its place."""

    def __init__(self, place: Path, say: Say) -> None:
        self._place, self._say = place, say
        self._reserve = place.with_name(f".{place.name}.reserve")

    def read(self) -> Kept:
        """What is remembered; what cannot be read is said, and begun anew."""
        why = "it is damaged"
        try:
            if found := decoded(self._place.read_bytes()):
                return found
        except FileNotFoundError:
            return fresh()
        except OSError as error:
            why = str(error.strerror)
        self._say(f"notices: {self._place} cannot be read ({why}): begun anew, so what is still so is told once more")
        return fresh()

    def write(self, kept: Kept) -> bool:
        """Remember; what cannot be written is said (then it may be told twice, and never gets lost). Some space is kept back for it: that
        the disk is full is just what has to be remembered.
        """
        try:
            try:
                self._put(kept)
            except OSError:
                if not self._reserve.exists():
                    raise
                self._reserve.unlink()
                self._put(kept)
        except OSError as error:
            self._say(
                f"notices: {self._place} cannot be written ({error.strerror}); what is told now may be told again"
            )
            return False
        with suppress(OSError):
            if not self._reserve.exists():
                self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # no file system keeps that in less
        return True

    def remove(self) -> None:
        """Remember nothing here any more. Raises OSError."""
        self._place.unlink()
        self._reserve.unlink(missing_ok=True)
        _sync_folder(self._place.parent)

    def _put(self, kept: Kept) -> None:
        part = self._place.with_name(f".{self._place.name}.tmp")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.format(encoded(kept), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._place)
        _sync_folder(self._place.parent)


class InTable:
    """The memory in the row of a shipper."""

    def __init__(self, row: "Row", say: Say) -> None:
        """Raises LedgerError if it cannot be read."""
        self._row, self._say = row, say
        stored = row.read()
        self._kept = decoded(stored) if stored else None
        self._is_damaged = bool(stored) and self._kept is None

    def read(self) -> Kept:
        """What is remembered; what is damaged is said, and begun anew."""
        if self._is_damaged:
            told = "the memory in the shared ledger cannot be read (it is damaged)"
            self._say(f"notices: {told}: begun anew, so what is still so is told once more")
        return self._kept or fresh()

    def write(self, kept: Kept) -> bool:
        """Remember; what cannot be written is said (then it may be told twice, and never gets lost)."""
        try:
            self._row.write(encoded(kept).decode())
        except LedgerError as error:
            self._say(f"notices: they cannot be remembered ({error}); what is told now may be told again")
            return False
        return True

    def take_in(self, state: Path) -> None:
        """Remember as well what a machine kept in its own file, and remove that."""
        if not (state / NAME).exists():
            return
        with in_file(state, self._say) as file:
            if file is None:
                return
            more = file.read()
            both = joined(self.read(), more) if self._kept or self._is_damaged else more
            if self.write(both):
                self._kept, self._is_damaged = both, False
                try:
                    file.remove()
                except OSError as error:
                    self._say(
                        f"notices: {state / NAME} is remembered elsewhere and cannot be removed ({error.strerror})"
                    )


@contextmanager
def _in_table(settings: Settings, say: Say) -> Iterator[InTable | None]:
    """The row of a shipper, with what this machine had remembered by itself. Raises LedgerError and SettingsError."""
    from loadsheet.ledger.shared import notices  # noqa: PLC0415 (what speaks to PostgreSQL alone is loaded for it)
    from loadsheet.ledger.shared.opening import shared  # noqa: PLC0415

    with (
        shared(settings.database_url, makes=True) as engine,
        notices.held(engine, settings.shipper, LOCK_TIMEOUT_S) as row,
    ):
        if row is None:
            _say_busy(say)
            yield None
            return
        table = InTable(row, say)
        table.take_in(settings.state)
        yield table


def _say_busy(say: Say) -> None:
    told = f"another process has been telling for {LOCK_TIMEOUT_S:g} s"
    say(f"notices: {told}; what this run changed is told with the next")


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system opens folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
