"""The format of a capsule: an archive of members with a hash chain, its manifest, and ledger rows as lines of JSON.

A capsule is a .zip with uncompressed members (large ones are gzip files), fixed times and fixed permissions. Its bytes
follow from its members alone, so no byte can change unnoticed. The last member, `chain.jsonl`, lists all others in
order with size, SHA-256 and a hash over that and everything before. The last hash is the head: it proves the whole
capsule. `manifest.json` describes the run, the settings that affected it, and the members. Programs check `format` to
see whether they can read it.
"""

import base64
import gzip
import hashlib
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, Self

import msgspec

from loadsheet import exit_codes
from loadsheet.errors import LoadsheetError
from loadsheet.ledger.exporting import Row, row_columns
from loadsheet.places import BY_DAY_AND_RUN


class CannotSeal(LoadsheetError):
    """A run cannot be put into a capsule, because a required part no longer exists."""

    exit_code = exit_codes.NOTHING_USABLE


class CannotOpen(LoadsheetError):
    """A file is not a capsule, or this program cannot read it."""

    exit_code = exit_codes.NOTHING_USABLE


CHAIN = "chain.jsonl"
_START = hashlib.sha256(b"loadsheet capsule 1").hexdigest()
_WHEN = (1980, 1, 1, 0, 0, 0)
_RIGHTS = 0o100600 << 16
_UNIX = 3
AT_ONCE = 1 << 20
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
)
"""The exceptions that reading a damaged archive raises."""
_LINE_BYTES_MAX = 1 << 26
# times the capsule: longer lines hold packed bytes in base64, such as a listing, which grow only a little
_LINE_GROWTH_MAX = 4


class ChainLink(NamedTuple):
    """A member in the chain: name, size in bytes, SHA-256 (hex), and the hash over that and everything before (hex)."""

    name: str
    size: int
    sha256: str
    chain: str


_line = msgspec.json.Encoder().encode


class CapsuleWriter:
    """A capsule in progress, used in a `with` block. `links` grow with its members. `finish` writes the chain and returns
    the head.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self.links: list[ChainLink] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @contextmanager
    def member(self, name: str) -> Iterator["_Hashing"]:
        """Open a new member for writing."""
        with self._zip.open(_described(name), "w", force_zip64=True) as opened:
            hashing = _Hashing(opened)
            yield hashing
        self.links.append(next_link(self.links, name, hashing.size, hashing.digest.hexdigest()))

    def put(self, name: str, content: bytes) -> None:
        """Add a whole member."""
        with self.member(name) as opened:
            opened.write(content)

    def copy(self, name: str, path: Path) -> str:
        """Add a file as a member. Returns its SHA-256 (hex). Raises OSError."""
        with path.open("rb") as source, self.member(name) as opened:
            shutil.copyfileobj(source, opened, AT_ONCE)
        return self.links[-1].sha256

    def lines(self, name: str, values: Iterable[Any]) -> int:
        """Add a member of packed JSON lines. Returns the number of lines."""
        count = 0
        with (
            self.member(name) as opened,
            gzip.GzipFile(filename="", mode="wb", fileobj=opened, compresslevel=6, mtime=0) as packed,
        ):
            for count, value in enumerate(values, start=1):  # noqa: B007 (the count is the answer)
                packed.write(_line(value) + b"\n")
        return count

    def finish(self) -> str:
        """Write the chain and return its head."""
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
        """Do nothing: the archive flushes."""


class CapsuleReader:
    """Reads the members of a capsule that passed verification."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes:
        """A whole member. Raises CannotOpen if it does not exist."""
        with self._opened(name) as opened:
            return opened.read()

    def lines(self, name: str, of: Any = Any) -> Iterator[Any]:
        """The values of a member of JSON lines, one by one, as values of the type `of`."""
        decode = msgspec.json.Decoder(of).decode
        with self._opened(name) as opened, gzip.GzipFile(fileobj=opened) as unpacked:
            longest = max(_LINE_BYTES_MAX, _LINE_GROWTH_MAX * self._path.stat().st_size)
            while line := unpacked.readline(longest + 1):
                if len(line) > longest:
                    raise ValueError(f"a line has more than {longest:,} bytes")
                yield decode(line)

    def copy(self, name: str, target: Path) -> None:
        """Copy a member to a file. Raises OSError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._opened(name) as opened, target.open("wb") as written:
            shutil.copyfileobj(opened, written, AT_ONCE)

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(name) as opened:
                if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:  # it could grow without limit
                    raise ValueError("its compression differs")
                yield opened
        except (*DAMAGE, KeyError) as error:
            raise CannotOpen(f"{self._path}: {name} cannot be read ({error})") from error


def head_of(links: Sequence[ChainLink]) -> str:
    """The last hash of a chain."""
    return links[-1].chain if links else _START


def _described(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _WHEN)
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_STORED, _UNIX, _RIGHTS
    return info


def next_link(before: Sequence[ChainLink], name: str, size: int, sha256: str) -> ChainLink:
    """The link of the next member."""
    text = "\n".join((head_of(before), name, str(size), sha256))
    return ChainLink(name, size, sha256, hashlib.sha256(text.encode()).hexdigest())


def chain_text(links: Sequence[ChainLink]) -> bytes:
    """The content of the last member: one line per link."""
    return b"".join(_line(link._asdict()) + b"\n" for link in links)


FORMAT = 1
MANIFEST = "manifest.json"

CAPSULE_SECTIONS = ("reading", "dispatch", "verification", "reconcile", "reports")
"""The sections of the settings in a capsule."""

OF_THIS_MACHINE = {"dispatch": {"allow_insecure", "proxy", "ca_bundle", "client_certificate", "client_key"}}
"""The settings in them that a capsule does not hold: paths, addresses and secrets."""

_COUNTED = ("files", "entries", "attempts")  # what `capsule show` counts
_RUN = re.compile(r"\d{4}-\d\d-\d\d-\d{2,}", re.ASCII)  # run and mapping names become folder names
_HASH = re.compile(r"[0-9a-f]{64}")
_TEXTS = {"payload", "rows"}  # of entries
_INTEGER = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Input(msgspec.Struct, frozen=True):
    """A claimed file of a drop; `member` is empty if its bytes were not kept. `arrived` is ISO 8601 UTC."""

    name: str
    role: str
    sha256: str
    size: int
    arrived: str
    member: str


class CapsuleDrop(msgspec.Struct, frozen=True):
    """A drop that the run planned: the hash of its mapping (empty: it was set aside), its files, and the drop it fixes."""

    id: int
    mapping: str
    files: tuple[Input, ...]
    fixes: int | None


class CapsuleMapping(msgspec.Struct, frozen=True):
    """A mapping as used by the run. `files` are paths below the member folder named by its hash, its own file first."""

    hash: str
    name: str
    version: str
    shipper: str
    files: tuple[str, ...]


class Output(msgspec.Struct, frozen=True):
    """A report as it was in the outbox when the capsule was made."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The description of a capsule. `touched` are all drops in the run's reports; `changed_since` counts their entries
    that changed after the run ended. Times are ISO 8601 UTC.
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
    mappings: tuple[CapsuleMapping, ...]
    drops: tuple[CapsuleDrop, ...]
    touched: tuple[int, ...]
    changed_since: int
    counts: dict[str, int]
    outputs: tuple[Output, ...]
    archive: str = ""  # as the reports link to it
    archive_path: str = BY_DAY_AND_RUN


class _Versioned(msgspec.Struct):
    format: int


def read_manifest(members: CapsuleReader) -> Manifest:
    """The manifest of a capsule. Raises CannotOpen if a newer program made it."""
    text = members.read(MANIFEST)
    try:
        if (version := msgspec.json.decode(text, type=_Versioned).format) != FORMAT:
            raise CannotOpen(
                f"this capsule has format {version}, this program knows {FORMAT}; use the program that made it"
            )
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CannotOpen(f"this program cannot read {MANIFEST}: {error}") from error
    if fault := next(_faults(manifest), ""):
        raise CannotOpen(f"this program cannot read {MANIFEST}: {fault}")
    return manifest


def _faults(manifest: Manifest) -> Iterator[str]:
    """What is wrong with the values of a manifest, in words."""
    if not _RUN.fullmatch(manifest.run) or not all(_HASH.fullmatch(one.hash) for one in manifest.mappings):
        yield f"the name of run {manifest.run!r}, or of a mapping, is invalid"
    arrivals = [file.arrived for drop in manifest.drops if drop.mapping for file in drop.files]
    yield from (
        f"{text!r} is not a time"
        for text in (manifest.started_at, manifest.finished_at, *arrivals)
        if not _is_moment(text)
    )
    yield from (f"mapping {one.name!r} has no files" for one in manifest.mappings if not one.files)
    yield from (f"the number of {table} is missing" for table in _COUNTED if table not in manifest.counts)


def _is_moment(text: str) -> bool:
    """Whether the text is a time in UTC as the ledger writes it."""
    try:
        return datetime.fromisoformat(text).utcoffset() == timedelta()
    except ValueError:
        return False


def member_of(table: str) -> str:
    """The member that holds the rows of a table of the ledger."""
    return f"ledger/{table}.jsonl.gz"


def mapping_member(digest: str, name: str) -> str:
    """The member that holds a file of a mapping."""
    return f"mappings/{digest}/{name}"


def as_lines(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Ledger rows as JSON values: payloads and source rows as text, packed values as base64."""
    for row in rows:
        yield {name: _as_json(name, value) for name, value in row.items()}


def _as_json(name: str, value: Any) -> Any:
    if not isinstance(value, bytes | memoryview):
        return value
    return bytes(value).decode() if name in _TEXTS else base64.b64encode(value).decode()


@cache
def _row_type(table: str) -> Any:
    """A row of a table as `as_lines` writes it. Columns that it may lack have their defaults."""
    fields: list[Any] = []
    for column in row_columns(table):
        kind: Any = str if column.kind is bytes and column.name in _TEXTS else column.kind
        kind = _INTEGER if kind is int else kind
        kind = kind | None if column.is_nullable else kind
        fields.append((column.name, kind, column.default) if column.may_be_missing else (column.name, kind))
    return msgspec.defstruct(table, fields, kw_only=True)


def rows_of(members: CapsuleReader, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table in the ledger's form. Raises CannotOpen if a value is none that its column can hold."""
    for line in members.lines(member_of(table), _row_type(table)):
        row = msgspec.structs.asdict(line)
        if table == "entries":
            for name in _TEXTS:
                row[name] = row[name].encode()
        yield row


def joined_by_entry(entries: Iterable[Row], *others: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """Entries, each with its rows of other tables. All inputs are ordered by entry; rows of other entries are skipped."""
    groups = [_Groups(rows) for rows in others]
    for row in entries:
        yield (row, *(group.of(row["id"]) for group in groups))


class _Groups:
    """Groups the rows of a table by entry."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._groups = groupby(rows, key=itemgetter("entry_id"))
        self._entry: int | None = None
        self._rows: Iterator[Row] = iter(())
        self._next()

    def of(self, entry: int) -> list[Row]:
        """The rows of an entry, which must come after the previous one."""
        while self._entry is not None and self._entry < entry:
            self._next()
        return list(self._rows) if self._entry == entry else []

    def _next(self) -> None:
        self._entry, self._rows = next(self._groups, (None, iter(())))
