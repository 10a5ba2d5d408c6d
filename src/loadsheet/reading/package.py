"""A workbook's package: a zip of XML parts, opened with suspicion.

Owns the safety of it: how much it may unpack to, no document types or entities anywhere, damage found before a row is used. Parts
are read by name and streamed, never unpacked to disk. Knows nothing of what the parts mean.
"""

import posixpath
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TypeVar
from xml.parsers import expat

from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.archive import check_directory, check_parts, over_limit
from loadsheet.reading.encoding import refused
from loadsheet.reading.scan import Parser
from loadsheet.reading.sources import Source

DAMAGED = "it is incomplete or damaged"
SEND_AGAIN = "save it anew in the program it comes from and send it again"

_CHUNK = 1 << 17
_PIECES_MAX = 1_000  # of 8 KB; a cell of Excel has 32,767 characters
_PROLOGUE_MAX, _PROLOGUE_CHUNK = 1 << 16, 1 << 10  # what stands before the first element of a part

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
"""What damaged archives and parts make zipfile and the handlers of a parser raise; zipfile checks little itself."""


T = TypeVar("T")


class Pieces(list[str]):
    """The text of one cell while it is parsed. Raises FileRefused when it is longer than the memory of a reader should hold."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def append(self, piece: str, /) -> None:
        """Take a piece, which a parser makes of some thousand characters at most."""
        if len(self) >= _PIECES_MAX:
            limit = f"{_PIECES_MAX:,} pieces of text"
            raise over_limit(self._name, "a cell of it never ends", limit, "a fixed limit", SEND_AGAIN)
        super().append(piece)


class _ForbiddenMarkup(Exception):  # noqa: N818 (never leaves this module)
    """A document type or an entity declaration."""


@dataclass(frozen=True, slots=True)
class Package:
    """An open package. `name` is the file's name for problems; `parts` maps folded part names to the archive's own."""

    archive: zipfile.ZipFile
    name: str
    parts: dict[str, zipfile.ZipInfo]

    def has(self, part: str) -> bool:
        """Whether there is such a part. Case, backslashes and a leading slash do not matter."""
        return _folded(part) in self.parts

    @contextmanager
    def opened(self, part: str) -> Iterator[IO[bytes]]:
        """The bytes of a part as a stream. Raises FileRefused if it is missing or proves damaged while it is read."""
        if not self.has(part):
            raise refused(self.name, f"its part {part} is missing", SEND_AGAIN)
        try:
            with self.archive.open(self.parts[_folded(part)]) as stream:
                yield stream
        except FAULTS as error:
            raise refused(self.name, f"{DAMAGED} (part {part}: {error or type(error).__name__})", SEND_AGAIN) from error

    def feed(self, part: str, parser: Parser, found: list[T]) -> Generator[T, None, None]:
        """Feed a part to a parser, whose handlers put what they find into `found`; that is passed on piece by piece. Raises FileRefused
        for malformed XML, and for content its handlers cannot make sense of (ValueError, LookupError).
        """
        try:
            with self.opened(part) as stream:
                while chunk := stream.read(_CHUNK):
                    parser.Parse(chunk)
                    yield from found
                    found.clear()
                parser.Parse(b"", True)  # noqa: FBT003 (its signature)
        except _ForbiddenMarkup:
            raise _declares(self.name, part) from None
        except expat.ExpatError as error:
            raise refused(self.name, f"{DAMAGED} (part {part}: {error})", SEND_AGAIN) from error
        yield from found

    def elements(self, part: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Every element of a part as its name and attributes, both without prefixes, in document order."""
        parser = safe_parser()
        found: list[tuple[str, dict[str, str]]] = []

        def start(tag: str, attributes: dict[str, str]) -> None:
            own = {local_name(name): value for name, value in attributes.items() if not name.startswith("xmlns")}
            found.append((local_name(tag), own))

        parser.StartElementHandler = start
        return self.feed(part, parser, found)

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """The relations of a part: id -> (last word of its type, name of the target part)."""
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
def open_package(source: Source, name: str, inflated_bytes_max: int) -> Iterator[Package]:
    """The package of a file. Raises FileRefused if it is no sound zip, unpacks to too much, is locked with a password, or
    declares a document type or an entity in any part.
    """
    try:
        stream = source.open("rb")
    except OSError as error:
        raise refused(name, f"the system says: {error.strerror}", SEND_AGAIN) from error
    with stream:
        try:
            check_directory(stream, name)
            archive = zipfile.ZipFile(stream)
        except FAULTS as error:
            raise refused(name, f"{DAMAGED} ({error or type(error).__name__})", SEND_AGAIN) from error
        entries = archive.infolist()
        check_parts(archive, stream, name, inflated_bytes_max)
        package = Package(archive, name, {_folded(entry.filename): entry for entry in entries})
        if len(package.parts) < len(entries):
            raise refused(name, f"{DAMAGED} (it holds parts of the same name)", SEND_AGAIN)
        yield package


def check_markup(package: Package) -> None:
    """Raises FileRefused if any XML part declares a document type or an entity. They can only stand before a part's first
    element, and the parser itself looks for them, so no encoding hides them; a malformed part is found when it is read.
    """
    for part in package.parts:
        if part.endswith((".xml", ".rels", ".vml")):
            _check_prologue(package, part)


def safe_parser(*, namespace_separator: str | None = None) -> expat.XMLParserType:
    """A parser that stops at a document type or an entity declaration. Names come with their prefixes (see `local_name`), or
    with their namespace before the separator.
    """
    parser = expat.ParserCreate(namespace_separator=namespace_separator)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _forbid
    parser.ExternalEntityRefHandler = _forbid
    return parser


def local_name(tag: str) -> str:
    """A name without its prefix. Workbooks never use one local name for two things where we look."""
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
            while not begun and read < _PROLOGUE_MAX and (chunk := stream.read(_PROLOGUE_CHUNK)):
                read += len(chunk)
                parser.Parse(chunk)
        except _ForbiddenMarkup:
            raise _declares(package.name, part) from None
        except expat.ExpatError:
            return  # malformed: said when the part is read, and parts that are not read do not matter
    if not begun and read >= _PROLOGUE_MAX:
        reason = f"its part {part} holds {read:,} bytes or more before its first element"
        raise over_limit(package.name, reason, _PROLOGUE_MAX, "a fixed limit", SEND_AGAIN)


def _declares(name: str, part: str) -> FileRefused:
    return FileRefused(Problem("R234", Where(name), "", {"part": part}, SEND_AGAIN))


def _forbid(*_: object) -> int:
    raise _ForbiddenMarkup


def _folded(part: str) -> str:
    return part.replace("\\", "/").lstrip("/").lower()


def _target(folder: str, target: str) -> str:
    target = target.replace("\\", "/")
    return target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
