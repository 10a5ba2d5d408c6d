"""What a capsule is: an archive of members with a chain of hashes over them; its manifest; and rows of the ledger as lines of JSON.

Owns: the format. A capsule is a .zip with uncompressed members (large ones are gzip files), fixed times and fixed rights: its bytes follow from
its members alone, so no byte can change unnoticed. The last member, `chain.jsonl`, names every other one in order with its size, its SHA-256
and a hash over that and all before it. The last hash is the head: it proves the whole capsule. `manifest.json` says what the run was, which
settings bore on it, and what lies where; a program that reads it knows by `format` whether it can.
"""

import base64
import gzip
import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import msgspec

from loadsheet.ledger.exporting import Row
from loadsheet.problems import LoadsheetError


class CannotSeal(LoadsheetError):
    """A run cannot be put into a capsule: something that belongs into it is not there any more."""

    exit_code = 65


class CannotOpen(LoadsheetError):
    """A file is not a capsule that this program can read."""

    exit_code = 65


CHAIN = "chain.jsonl"
_START = hashlib.sha256(b"loadsheet capsule 1").hexdigest()
_WHEN = (1980, 1, 1, 0, 0, 0)
_RIGHTS = 0o100600 << 16
_UNIX = 3
AT_ONCE = 1 << 20
DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, OverflowError)
"""What reading a damaged archive raises: the module leaves it at that."""


class Link(NamedTuple):
    """A member in the chain: its name, size in bytes, SHA-256 (hex), and the hash over that and all before it (hex)."""

    name: str
    size: int
    sha256: str
    chain: str


_line = msgspec.json.Encoder().encode


class CapsuleWriter:
    """A capsule that is being written, while the `with` block lasts. `links` grow with its members; `finish` writes the chain and
    returns the head.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self.links: list[Link] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @contextmanager
    def member(self, name: str) -> Iterator["_Hashing"]:
        """A member to be written, a piece at a time."""
        with self._zip.open(_described(name), "w", force_zip64=True) as opened:
            hashing = _Hashing(opened)
            yield hashing
        self.links.append(next_link(self.links, name, hashing.size, hashing.digest.hexdigest()))

    def put(self, name: str, content: bytes) -> None:
        """A whole member."""
        with self.member(name) as opened:
            opened.write(content)

    def copy(self, name: str, path: Path) -> str:
        """A file as a member; returns its SHA-256 (hex). Raises OSError."""
        with path.open("rb") as source, self.member(name) as opened:
            while piece := source.read(AT_ONCE):
                opened.write(piece)
        return self.links[-1].sha256

    def lines(self, name: str, values: Iterable[Any]) -> int:
        """A member of JSON lines, packed; returns how many there were."""
        count = 0
        with (
            self.member(name) as opened,
            gzip.GzipFile(filename="", mode="wb", fileobj=opened, compresslevel=6, mtime=0) as packed,
        ):
            for count, value in enumerate(values, start=1):  # noqa: B007 (the count is the answer)
                packed.write(_line(value) + b"\n")
        return count

    def finish(self) -> str:
        """Write the chain; returns its head."""
        with self._zip.open(_described(CHAIN), "w", force_zip64=True) as opened:
            opened.write(chain_text(self.links))
        return head_of(self.links)


class _Hashing:
    """Passes bytes on and hashes them."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened, self.digest, self.size = opened, hashlib.sha256(), 0

    def write(self, piece: bytes) -> int:
        self._opened.write(piece)
        self.digest.update(piece)
        self.size += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing: the archive does."""


class CapsuleReader:
    """The members of a capsule that was found sound, for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes:
        """A whole member. Raises CannotOpen if there is none of this name."""
        with self._opened(name) as opened:
            return opened.read()

    def lines(self, name: str) -> Iterator[Any]:
        """The values of a member of JSON lines, one after the other."""
        with self._opened(name) as opened, gzip.GzipFile(fileobj=opened) as unpacked:
            for line in unpacked:
                yield msgspec.json.decode(line)

    def copy(self, name: str, target: Path) -> None:
        """A member as a file. Raises OSError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._opened(name) as opened, target.open("wb") as written:
            while piece := opened.read(AT_ONCE):
                written.write(piece)

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(name) as opened:
                yield opened
        except (*DAMAGE, KeyError) as error:
            raise CannotOpen(f"{self._path}: {name} cannot be read ({error})") from error


def head_of(links: Sequence[Link]) -> str:
    """The last hash of a chain."""
    return links[-1].chain if links else _START


def _described(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _WHEN)
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_STORED, _UNIX, _RIGHTS
    return info


def next_link(before: Sequence[Link], name: str, size: int, sha256: str) -> Link:
    """The link of a member that comes after these."""
    text = "\n".join((head_of(before), name, str(size), sha256))
    return Link(name, size, sha256, hashlib.sha256(text.encode()).hexdigest())


def chain_text(links: Sequence[Link]) -> bytes:
    """The last member: a line for each link."""
    return b"".join(_line(link._asdict()) + b"\n" for link in links)


FORMAT = 1
MANIFEST = "manifest.json"

BEARING = ("reading", "translation", "dispatch", "verification", "reconcile", "reports")
"""The sections of the settings that a capsule keeps: none holds a path, an address or a secret."""

_RUN = re.compile(r"\d{4}-\d\d-\d\d-\d{2,}", re.ASCII)  # both become names of folders
_HASH = re.compile(r"[0-9a-f]{64}")
_PACKED = {"shown", "figures"}
_TEXTS = {"payload", "rows"}


class Input(msgspec.Struct, frozen=True):
    """A file of a drop, as it was claimed; `member` is empty where its bytes were not kept. `arrived` is ISO 8601 UTC."""

    name: str
    role: str
    sha256: str
    size: int
    arrived: str
    member: str


class DropKept(msgspec.Struct, frozen=True):
    """A drop that the run planned: the hash of its mapping (empty: it was set aside), its files, and the drop that it fixes."""

    id: int
    mapping: str
    files: tuple[Input, ...]
    fixes: int | None


class MappingKept(msgspec.Struct, frozen=True):
    """A mapping as it was: its own file first among `files`, which are paths from the folder of members that bears its hash."""

    hash: str
    name: str
    version: str
    shipper: str
    files: tuple[str, ...]


class Output(msgspec.Struct, frozen=True):
    """A report as it lay in the outbox when the capsule was made."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a capsule says of itself. `touched` are all drops in the reports of the run; `changed_since` counts their entries that
    changed after the run ended. Times are ISO 8601 UTC.
    """

    format: int
    loadsheet: str
    python: str
    run: str
    run_id: int
    started_at: str
    finished_at: str
    exit_code: int | None
    settings: dict[str, Any]
    assumptions: dict[str, Any]
    exchange: str
    mappings: tuple[MappingKept, ...]
    drops: tuple[DropKept, ...]
    touched: tuple[int, ...]
    changed_since: int
    counts: dict[str, int]
    outputs: tuple[Output, ...]


class _Versioned(msgspec.Struct):
    format: int


def write_manifest(manifest: Manifest) -> bytes:
    """A manifest as a member."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(members: CapsuleReader) -> Manifest:
    """The manifest of a capsule. Raises CannotOpen for one that a newer program made."""
    text = members.read(MANIFEST)
    try:
        if (version := msgspec.json.decode(text, type=_Versioned).format) != FORMAT:
            raise CannotOpen(
                f"this capsule has format {version}, this program knows {FORMAT}; use the program that made it"
            )
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CannotOpen(f"{MANIFEST} is none of this program's: {error}") from error
    if not _RUN.fullmatch(manifest.run) or not all(_HASH.fullmatch(one.hash) for one in manifest.mappings):
        raise CannotOpen(
            f"{MANIFEST} is none of this program's: run {manifest.run!r}, or a mapping, is called as none is"
        )
    return manifest


def member_of(table: str) -> str:
    """The member that holds the rows of a table of the ledger."""
    return f"ledger/{table}.jsonl.gz"


def mapping_member(digest: str, name: str) -> str:
    """The member that holds a file of a mapping."""
    return f"mappings/{digest}/{name}"


def as_lines(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the ledger as JSON values: payloads and source rows as the texts that they are, what is packed in base64."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, bytes | memoryview):
                row[name] = bytes(value).decode() if name in _TEXTS else base64.b64encode(value).decode()
        yield row


def rows_of(members: CapsuleReader, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, as the ledger keeps them."""
    for row in members.lines(member_of(table)):
        if table == "entries":
            for name in _TEXTS & row.keys():
                row[name] = row[name].encode()
        for name in _PACKED & row.keys():
            row[name] = base64.b64decode(row[name]) if row[name] is not None else None
        yield row


def with_events(entries: Iterable[Row], events: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Entries, each with its events, oldest first; both come ordered by entry."""
    yield from ((entry, rows) for entry, rows in beside(entries, events))


def beside(entries: Iterable[Row], *others: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """Entries, each with its rows of other tables; all come ordered by entry, and rows of other entries are passed over."""
    groups = [_Groups(rows) for rows in others]
    for row in entries:
        yield (row, *(group.of(row["id"]) for group in groups))


class _Groups:
    """Rows of a table, an entry at a time."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._groups = groupby(rows, key=itemgetter("entry_id"))
        self._entry: int | None = None
        self._rows: Iterator[Row] = iter(())
        self._next()

    def of(self, entry: int) -> list[Row]:
        """The rows of an entry that comes after the one before."""
        while self._entry is not None and self._entry < entry:
            self._next()
        return list(self._rows) if self._entry == entry else []

    def _next(self) -> None:
        self._entry, self._rows = next(self._groups, (None, iter(())))
