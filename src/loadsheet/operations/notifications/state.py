"""What has been told and what is still to be told; `places` keeps it.

Owns: its shape. It holds no address: whom a notice has reached is kept as a short mark with salt, of which nobody can make the address
again.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import msgspec

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


class Memory(Protocol):
    """Where it is kept, while one process holds it."""

    def read(self) -> Kept:
        """What is remembered; what cannot be read is said, and begun anew."""
        ...

    def write(self, kept: Kept) -> bool:
        """Remember; what cannot be written is said (then it may be told twice, and never gets lost)."""
        ...


def encoded(kept: Kept) -> bytes:
    """What is remembered as JSON."""
    return msgspec.json.encode(kept)


def decoded(stored: bytes | str) -> Kept | None:
    """What `encoded` made JSON of; None if it is damaged."""
    try:
        return msgspec.json.decode(stored, type=Kept)
    except msgspec.DecodeError:
        return None


def joined(known: Kept, more: Kept) -> Kept:
    """What two remember together. What they say differently, `known` knows better; which addresses were reached only `known` can tell."""
    return replace(
        known,
        conditions={**more.conditions, **known.conditions},
        outbox=(*known.outbox, *(replace(notice, reached=()) for notice in more.outbox)),
        once=_once(more.once, known.once),
        digest_at=max(more.digest_at, known.digest_at),
        digests={**more.digests, **known.digests},
        fixes=_once(more.fixes, known.fixes),
        copies={**more.copies, **known.copies},
    )


def _once(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for part in parts for one in part))
