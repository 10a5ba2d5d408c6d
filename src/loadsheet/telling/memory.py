"""What has been told and what is still to be told, kept in `STATE/notices.json`.

Owns: the shape of that file, and that it is there whole or not at all: written beside itself, brought to the disk, then put in its place.
It holds no address: whom a notice has reached is kept as a short mark with salt, of which nobody can make the address again.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

NAME = "notices.json"
LOCK_TIMEOUT_S = 60.0
RESERVE_BYTES = 65_536
_MARK_DIGITS = 8  # enough to tell a handful of addresses apart, too few to try passwords on

Kind = Literal["failure", "warning", "success", "info"]


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is so until it is not any more: since when (ISO 8601 UTC), for how many runs, why (what it was told with), for how
    many runs in a row for this reason; when it was told last (empty: not yet), and what was said of it.
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
    """What somebody is to be told: whom (`notify`, `owner:NAME` or `fixes`), since when it waits (ISO 8601 UTC), the files that go with
    it, and the marks of the addresses that it has reached.
    """

    to: str
    at: str
    kind: Kind
    title: str
    body: str
    files: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Digested:
    """The last digest that somebody got: when (ISO 8601 UTC), a mark of what was open in it, how much that was, and which files it said
    were set aside.
    """

    at: str
    mark: str
    open: int
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Everything that is remembered. `once` are things that were told once and for all, `fixes` the fix files that went out,
    `copies` those that could not be copied yet, by their marks.
    """

    salt: str = ""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    outbox: tuple[Notice, ...] = ()
    once: tuple[str, ...] = ()
    digest_at: str = ""
    digests: Mapping[str, Digested] = field(default_factory=dict)
    fixes: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    def mark(self, address: str) -> str:
        """A short mark of an address."""
        return hashlib.sha256(f"{self.salt} {address}".encode()).hexdigest()[:_MARK_DIGITS]


def fresh() -> Kept:
    """The memory of somebody who has told nothing yet."""
    return Kept(salt=secrets.token_hex(16))


@contextmanager
def held(state: Path, say: Callable[[str], None]) -> Iterator[Path | None]:
    """The path of the file, for one process at a time; None if another one has been telling for too long. A folder that takes no lock is
    said, and used without.
    """
    place = state / NAME
    lock = FileLock(f"{place}.lock", mode=0o600)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire(timeout=LOCK_TIMEOUT_S)
    except Timeout:
        say(
            f"notices: another process has been telling for {LOCK_TIMEOUT_S:g} s; what this run changed is told with the next"
        )
        yield None
        return
    except OSError as error:
        say(f"notices: {place}.lock cannot be held ({error.strerror}); going on without")
    try:
        yield place
    finally:
        lock.release()


def read(place: Path, say: Callable[[str], None]) -> Kept:
    """What is remembered; what cannot be read is said, and begun anew."""
    try:
        return msgspec.json.decode(place.read_bytes(), type=Kept)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.DecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is damaged"
        say(f"notices: {place} cannot be read ({why}): begun anew, so what is still so is told once more")
    return fresh()


def write(place: Path, kept: Kept, say: Callable[[str], None]) -> bool:
    """Remember; what cannot be written is said (then it may be told twice, and never gets lost). Some space is kept back for it: that the
    disk is full is just what has to be remembered.
    """
    reserve = place.with_name(f".{place.name}.reserve")
    try:
        try:
            _put(place, kept)
        except OSError:
            if not reserve.exists():
                raise
            reserve.unlink()
            _put(place, kept)
    except OSError as error:
        say(f"notices: {place} cannot be written ({error.strerror}); what is told now may be told again")
        return False
    with suppress(OSError):
        if not reserve.exists():
            reserve.write_bytes(os.urandom(RESERVE_BYTES))  # no file system keeps that in less
    return True


def _put(place: Path, kept: Kept) -> None:
    part = place.with_name(f".{place.name}.tmp")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(place)
    _sync_folder(place.parent)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system opens folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
