"""The zip packages of workbooks: checked for zip bombs and damage, and read part by part.

The checks need only the zip's directory and the headers of its parts, so a bomb costs only the reading of its directory.
`zipfile` finds other damage while a part is read: it unpacks no more than the directory declares and verifies the checksum. XML
with a document type or entities is refused. Parts are read by name and streamed, never unpacked to disk.
"""

import posixpath
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TypeVar
from xml.parsers import expat

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where
from loadsheet.reading.encoding import OpenBytes
from loadsheet.reading.refusals import file_refusal

DAMAGED = "it is incomplete or damaged"
SEND_AGAIN = "save it again in the program that made it, then send it again"

_CHUNK = 1 << 17
_TEXT_LENGTH_MAX = 1 << 23  # a cell of Excel has 32,767 characters
_PROLOGUE_MAX, _PROLOGUE_CHUNK = 1 << 16, 1 << 10  # bytes before the first element of a part

FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    LookupError,
)
"""The exceptions that zipfile and parser handlers raise for damaged archives and parts; zipfile checks little itself."""


T = TypeVar("T")
Relations = dict[str, tuple[str, str]]
"""The relations of a part: id -> (last word of its type, name of the target part)."""


class _ForbiddenMarkup(Exception):
    """A document type or an entity declaration."""


@dataclass(frozen=True, slots=True)
class Package:
    """An open package. `name` is the file's name for problems; `parts` maps folded part names to the archive's entries."""

    archive: zipfile.ZipFile
    name: str
    parts: dict[str, zipfile.ZipInfo]

    def has(self, part: str) -> bool:
        """Whether the part exists. Case, backslashes and a leading slash do not matter."""
        return _folded(part) in self.parts

    @contextmanager
    def opened(self, part: str) -> Iterator[IO[bytes]]:
        """The bytes of a part as a stream. Raises FileRefused if it is missing or damaged."""
        if not self.has(part):
            raise file_refusal(self.name, f"its part {part} is missing", SEND_AGAIN)
        try:
            with self.archive.open(self.parts[_folded(part)]) as stream:
                yield stream
        except FAULTS as error:
            raise file_refusal(
                self.name, f"{DAMAGED} (part {part}: {error or type(error).__name__})", SEND_AGAIN
            ) from error

    def feed(
        self,
        part: str,
        parser: expat.XMLParserType,
        found: list[T],
        pieces: Sequence[str] = (),
        look: Callable[[bytes], None] | None = None,
    ) -> Generator[T, None, None]:
        """Feed a part to a parser. Its handlers append results to `found`, which this yields piece by piece, and the text of the current
        cell to `pieces`. `look` sees each piece before it is parsed. Raises FileRefused for malformed XML, a cell that is too long, and
        content that the handlers reject (ValueError, LookupError).
        """
        try:
            with self.opened(part) as stream:
                while chunk := stream.read(_CHUNK):
                    if look is not None:
                        look(chunk)
                    parser.Parse(chunk)
                    yield from found
                    found.clear()
                    if sum(map(len, pieces)) > _TEXT_LENGTH_MAX:
                        limit = f"{_TEXT_LENGTH_MAX:,} characters"
                        raise over_limit(self.name, "one of its cells is too long", limit, "a fixed limit", SEND_AGAIN)
                parser.Parse(b"", True)  # noqa: FBT003 (its signature)
        except _ForbiddenMarkup:
            raise _forbidden_markup(self.name, part) from None
        except expat.ExpatError as error:
            raise file_refusal(self.name, f"{DAMAGED} (part {part}: {error})", SEND_AGAIN) from error
        yield from found

    def elements(self, part: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Every element of a part as name and attributes, without prefixes, in document order."""
        parser = safe_parser()
        found: list[tuple[str, dict[str, str]]] = []

        def start(tag: str, attributes: dict[str, str]) -> None:
            own = {local_name(name): value for name, value in attributes.items() if not name.startswith("xmlns")}
            found.append((local_name(tag), own))

        parser.StartElementHandler = start
        return self.feed(part, parser, found)

    def relations(self, part: str) -> Relations:
        """The relations of a part."""
        folder, base = posixpath.split(part)
        rels = posixpath.join(folder, "_rels", f"{base}.rels")
        if not self.has(rels):
            return {}
        return {
            found.get("Id", ""): (found.get("Type", "").rpartition("/")[2], _target(folder, found.get("Target", "")))
            for tag, found in self.elements(rels)
            if tag == "Relationship" and found.get("TargetMode") != "External"
        }


@contextmanager
def open_package(source: OpenBytes, name: str, inflated_bytes_max: int) -> Iterator[Package]:
    """The package of a file. Raises FileRefused if it is not a valid zip, unpacks to too much, or is locked with a password."""
    try:
        stream = source()
    except OSError as error:
        raise file_refusal(name, f"the system reports: {error.strerror}", SEND_AGAIN) from error
    with stream:
        try:
            check_directory(stream, name)
            archive = zipfile.ZipFile(stream)
        except FAULTS as error:
            raise file_refusal(name, f"{DAMAGED} ({error or type(error).__name__})", SEND_AGAIN) from error
        entries = archive.infolist()
        check_parts(archive, stream, name, inflated_bytes_max)
        package = Package(archive, name, {_folded(entry.filename): entry for entry in entries})
        if len(package.parts) < len(entries):
            raise file_refusal(name, f"{DAMAGED} (it holds parts of the same name)", SEND_AGAIN)
        yield package


def check_markup(package: Package) -> None:
    """Raises FileRefused if any XML part declares a document type or an entity. Declarations must precede the first element of a
    part. The parser itself finds them, so no encoding hides them. Malformed parts are reported when they are read.
    """
    for part in package.parts:
        if part.endswith((".xml", ".rels", ".vml")):
            _check_prologue(package, part)


def safe_parser(*, namespace_separator: str | None = None) -> expat.XMLParserType:
    """A parser that stops at a document type or an entity declaration. Names have their prefixes (see `local_name`), or their
    namespace before the separator.
    """
    parser = expat.ParserCreate(namespace_separator=namespace_separator)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _forbid
    parser.ExternalEntityRefHandler = _forbid
    return parser


def local_name(tag: str) -> str:
    """A name without its prefix. In the parts we read, local names are unique."""
    return tag.rpartition(":")[2]


def _check_prologue(package: Package, part: str) -> None:
    parser = safe_parser()
    begun = False

    def start(_tag: str, _attributes: dict[str, str]) -> None:
        nonlocal begun
        begun = True

    parser.StartElementHandler = start
    read = 0
    with package.opened(part) as stream:
        try:
            more = True
            while more and not begun and read < _PROLOGUE_MAX:
                chunk = stream.read(_PROLOGUE_CHUNK)
                read, more = read + len(chunk), bool(chunk)
                parser.Parse(chunk, not more)  # expat defers what may be incomplete until it is told the end
        except _ForbiddenMarkup:
            raise _forbidden_markup(package.name, part) from None
        except expat.ExpatError:
            return  # malformed: reported when the part is read
    if not begun and read >= _PROLOGUE_MAX:
        reason = f"its part {part} holds {read:,} bytes or more before its first element"
        raise over_limit(package.name, reason, _PROLOGUE_MAX, "a fixed limit", SEND_AGAIN)


def _forbidden_markup(name: str, part: str) -> FileRefused:
    return FileRefused(Problem("R234", Where(name), "", {"part": part}, SEND_AGAIN))


def _forbid(*_: object) -> int:
    raise _ForbiddenMarkup


def _folded(part: str) -> str:
    return part.replace("\\", "/").lstrip("/").lower()


def _target(folder: str, target: str) -> str:
    target = target.replace("\\", "/")
    return target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))


PARTS_MAX = 10_000
RATIO_MAX = 100  # bytes for each packed one
RATIO_OF_TABLES_MAX = 500  # of a table, whose rows may repeat each other
RATIO_GRACE = 10_000_000  # bytes; a part that unpacks to less is never a bomb
_TEXT_TABLES = (".csv", ".tsv", ".tab", ".txt")
_SHEETS = "worksheets/"  # streamed by their readers, so only their size is limited

_SPLIT = "send it in several files, or as CSV"
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED = 0x1
_LOCAL = struct.Struct("<4s5H3L2H")  # APPNOTE 4.3.7
_END = struct.Struct("<4s4H2LH")  # APPNOTE 4.3.16
_END_64 = struct.Struct("<4sQ2H2L4Q")  # APPNOTE 4.3.14
_LOCATOR_64 = struct.Struct("<4sLQL")  # APPNOTE 4.3.15
_COMMENT_MAX = 0xFFFF
_DIRECTORY_MAX = 1_000 * PARTS_MAX  # bytes
_IN_EXTRA_FIELD = 0xFFFFFFFF  # zip64: the size is in the extra field; 0: it follows the part


def over_limit(name: str, reason: str, limit: int | str, setting: str, hint: str = _SPLIT) -> FileRefused:
    """The refusal of a file that exceeds a limit: the measured value, the limit, and its setting."""
    return FileRefused(Problem("R231", Where(name), "", {"reason": reason, "limit": limit, "setting": setting}, hint))


def check_directory(stream: IO[bytes], name: str) -> None:
    """Raises FileRefused before reading if the directory of a zip is larger than that of any workbook. Ignores other files."""
    size = stream.seek(0, 2)
    tail_length = min(size, _END.size + _COMMENT_MAX + _LOCATOR_64.size)
    stream.seek(size - tail_length)
    tail = stream.read(tail_length)
    place = tail.rfind(b"PK\x05\x06")
    stream.seek(0)
    if place < 0 or len(tail) - place < _END.size:
        return
    _, _, _, _, parts, length, _, _ = _END.unpack_from(tail, place)
    if place >= _LOCATOR_64.size and tail.startswith(b"PK\x06\x07", place - _LOCATOR_64.size):
        _, _, at, _ = _LOCATOR_64.unpack_from(tail, place - _LOCATOR_64.size)
        stream.seek(min(at, size))
        head = stream.read(_END_64.size)
        stream.seek(0)
        if head.startswith(b"PK\x06\x06") and len(head) == _END_64.size:
            _, _, _, _, _, _, _, parts_64, length_64, _ = _END_64.unpack(head)
            parts, length = max(parts % 0xFFFF, parts_64), max(length % _IN_EXTRA_FIELD, length_64)
    if parts > PARTS_MAX:
        raise _too_many_parts(parts, name)
    if length > _DIRECTORY_MAX:
        raise over_limit(name, f"its directory takes {length:,} bytes", _DIRECTORY_MAX, "a fixed limit", SEND_AGAIN)


def check_parts(archive: zipfile.ZipFile, stream: IO[bytes], name: str, inflated_bytes_max: int) -> None:
    """Raises FileRefused if the parts are too many, too large, compressed like a zip bomb, overlapping, inconsistent with their
    headers, locked with a password, or packed with an unusual method.
    """
    entries = archive.infolist()
    if len(entries) > PARTS_MAX:
        raise _too_many_parts(len(entries), name)
    for entry in entries:
        if entry.flag_bits & _ENCRYPTED:
            raise file_refusal(name, "it is locked with a password", "send it without a password")
        if entry.compress_type not in _METHODS:
            raise file_refusal(
                name, f"its part {entry.filename} is packed in a way that workbooks do not use", SEND_AGAIN
            )
    inflated = sum(entry.file_size for entry in entries)
    if inflated > inflated_bytes_max:
        raise over_limit(name, f"it unpacks to {inflated:,} bytes", inflated_bytes_max, "reading.inflated_bytes_max")
    _check_ratios(entries, name)
    _check_part_headers(entries, stream, archive.start_dir, name)


def _check_ratios(entries: Sequence[zipfile.ZipInfo], name: str) -> None:
    """Raises FileRefused if a part, or all together, are compressed like a zip bomb. Sheets do not count: valid ones may repeat much
    in each row.
    """
    tables = [
        entry for entry in entries if entry.filename == "content.xml" or entry.filename.lower().endswith(_TEXT_TABLES)
    ]
    others = [entry for entry in entries if entry not in tables and _SHEETS not in entry.filename]
    checks = [(f"its part {entry.filename}", [entry], RATIO_OF_TABLES_MAX) for entry in tables]
    checks += [(f"its part {entry.filename}", [entry], RATIO_MAX) for entry in others]
    for what, parts, ratio in [*checks, ("it", others, RATIO_MAX)]:
        large, small = sum(part.file_size for part in parts), sum(part.compress_size for part in parts)
        if large > RATIO_GRACE and large > ratio * max(small, 1):
            reason = f"{what} unpacks to {large:,} bytes from {small:,}, as a zip bomb does"
            raise over_limit(name, reason, f"{ratio} bytes for each packed one", "a fixed limit", "send it as CSV")


def _too_many_parts(parts: int, name: str) -> FileRefused:
    return over_limit(name, f"it holds {parts:,} parts", PARTS_MAX, "a fixed limit", SEND_AGAIN)


def _check_part_headers(
    entries: Sequence[zipfile.ZipInfo], stream: IO[bytes], start_of_directory: int, name: str
) -> None:
    """Raises FileRefused if parts share bytes, or a part's header contradicts the directory."""
    free_from = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        stream.seek(max(entry.header_offset, 0))
        header = stream.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\x03\x04"):
            raise _mismatch(name, f"its part {entry.filename} is not where its directory says")
        _, _, _, method, _, _, checksum, packed, inflated, name_length, extra_length = _LOCAL.unpack(header)
        end = entry.header_offset + _LOCAL.size + name_length + extra_length + entry.compress_size
        if entry.header_offset < free_from or end > start_of_directory:
            raise _mismatch(name, f"its part {entry.filename} shares bytes with another part, as in a zip bomb")
        free_from = end
        pairs = ((checksum, entry.CRC), (packed, entry.compress_size), (inflated, entry.file_size))
        if method != entry.compress_type or any(
            declared not in (known, 0, _IN_EXTRA_FIELD) for declared, known in pairs
        ):
            raise _mismatch(name, f"its part {entry.filename} does not have the size that its directory says")


def _mismatch(name: str, reason: str) -> FileRefused:
    return FileRefused(Problem("R235", Where(name), "", {"reason": reason}, SEND_AGAIN))
