"""Whether a file is a fix workbook that is dropped back: its mark, read from the document properties and from nothing else.

Safe for any file, and cheap for those that are none: it looks into zips only, at one small part of them, with limits and without
document types. What cannot be understood has no mark. Reads no table and loads no reader of workbooks.
"""

import os
import re
from pathlib import Path
from typing import BinaryIO, NamedTuple
from xml.parsers.expat import XMLParserType

from loadsheet.fix_marks import PROPERTY, ROW_COLUMN, Mark, RowMark
from loadsheet.inbox.file_moves import READ
from loadsheet.problems import FileRefused
from loadsheet.reading.package import Package, local_name, open_package, safe_parser

_ZIP = b"PK\x03\x04"
_PARTS = ("docProps/custom.xml", "meta.xml")  # of Excel's formats and of OpenDocument
_PART_BYTES_MAX = 1 << 18
_START_BYTES = 1 << 18
_AROUND = r"[\s,;|\"']"
_HEADING = re.compile(rf"{_AROUND}{ROW_COLUMN}{_AROUND}")
_ROW_MARK = re.compile(rf"{_AROUND}([0-9]{{1,12}}:[0-9]{{1,7}}/[0-9]{{1,7}})(?:{_AROUND}|$)")


def mark_of(path: Path, inflated_bytes_max: int) -> Mark | None:
    """The mark of the fix workbook at `path`; None for every other file, also for one that is damaged or cannot be read."""
    try:
        with _opened(path) as file:
            if file.read(len(_ZIP)) != _ZIP:
                return None
        with open_package(path, path.name, inflated_bytes_max) as package:
            return next((mark for part in _PARTS if (mark := _mark_in(package, part)) is not None), None)
    except (FileRefused, OSError):
        return None


def _opened(path: Path) -> BinaryIO:
    """A file that nobody claimed yet: what was put in its place meanwhile, a link or a pipe, is not followed and not waited for."""
    return os.fdopen(os.open(path, READ), "rb")


class TextMark(NamedTuple):
    """What the beginning of a text file shows: its first lines, and the first row mark in it."""

    headings: str
    mark: RowMark


def mark_of_text(path: Path) -> TextMark | None:
    """The first row mark of a text file with a column of marks; None for every other file, also for one that cannot be read."""
    try:
        with _opened(path) as file:
            start = file.read(_START_BYTES)
    except OSError:
        return None
    text = start.replace(b"\0", b"").decode("utf-8", "replace")
    found = _ROW_MARK.search(text) if _HEADING.search(text) else None
    mark = RowMark.read(found[1]) if found is not None else None
    return TextMark(text[: found.start()], mark) if found is not None and mark is not None else None


def _mark_in(package: Package, part: str) -> Mark | None:
    if not package.has(part) or package.parts[part.lower()].file_size > _PART_BYTES_MAX:
        return None
    found: list[str] = []
    return Mark.read("".join(package.feed(part, _reader(found), found)))


def _reader(found: list[str]) -> XMLParserType:
    """A parser that puts the text of the property into `found`."""
    parser = safe_parser()
    depth = 0

    def start(_tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        named = any(local_name(name) == "name" and value == PROPERTY for name, value in attributes.items())
        depth = depth + 1 if depth or named else 0
        parser.CharacterDataHandler = found.append if depth else None

    def end(_tag: str) -> None:
        nonlocal depth
        depth = max(depth - 1, 0)
        parser.CharacterDataHandler = found.append if depth else None

    parser.StartElementHandler, parser.EndElementHandler = start, end
    return parser
