"""Open XML workbooks (.xlsx, .xlsm, strict ones too): their worksheets, rows, shared texts, styles and date system.

openpyxl only serves number formats (`number_formats`). It drops rows whose numbers do not ascend, cannot distinguish a formula
without a saved value from an empty cell in one pass, gives needless warnings and decodes `_x005F_` wrongly. The tests compare our
cells with those of a second reader, python-calamine.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from loadsheet.reading.encoding import OpenBytes
from loadsheet.reading.number_formats import GENERAL, Format, read_formats, read_number, struck_styles
from loadsheet.reading.package import (
    SEND_AGAIN,
    Package,
    Relations,
    check_markup,
    local_name,
    open_package,
    safe_parser,
)
from loadsheet.reading.refusals import file_refusal
from loadsheet.reading.tables import Native, formula_cell
from loadsheet.reading.workbook import COLUMNS_MAX, Book, Cells, RowRanges, Rows, Sheet, SheetTraits

_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]+")
_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CACHE_MAX = 20_000
_TRAITS = (b"hidden", b"mergeCell", b"autoFilter")
_STYLES_SEARCHED = 20
_TAG_LENGTH = 2048  # bytes; longer than any tag with a trait


@dataclass(frozen=True, slots=True)
class CellContext:
    """The data that cells refer to: shared texts, the format of each style, the date system, and the styles of struck-out texts."""

    texts: tuple[str, ...]
    formats: tuple[Format, ...]
    from_1904: bool
    struck: frozenset[int] = frozenset()


def read_texts(package: Package, part: str) -> Iterator[str]:
    """The shared texts of a workbook in order: rich text joined, phonetic hints left out, `_x000D_` and the like decoded."""
    found: list[str] = []
    pieces: list[str] = []
    parser = safe_parser()
    phonetic = False

    def start(tag: str, _attributes: dict[str, str]) -> None:
        nonlocal phonetic
        name = local_name(tag)
        if name == "t" and not phonetic:
            parser.CharacterDataHandler = pieces.append
        elif name == "rPh":
            phonetic = True

    def end(tag: str) -> None:
        nonlocal phonetic
        name = local_name(tag)
        if name == "t":
            parser.CharacterDataHandler = None
        elif name == "si":
            found.append(unescape("".join(pieces)))
            pieces.clear()
        elif name == "rPh":
            phonetic = False

    parser.StartElementHandler, parser.EndElementHandler = start, end
    return package.feed(part, parser, found, pieces)


def stream_rows(  # noqa: C901, PLR0915 (a flat switch: calls for its cases would cost a third more)
    package: Package, part: str, context: CellContext
) -> Rows:
    """The non-empty rows of a sheet, as row number and cells, in file order. Raises FileRefused if the part is damaged."""
    found: list[tuple[int, Cells]] = []
    pieces: list[str] = []
    make, parser = _cell_maker(context), safe_parser()
    row, position, phonetic, formula, before, inline = 0, -1, False, "", 0, False
    cells: Cells = []
    attributes: dict[str, str] = {}
    columns, names = dict[str, int](), dict[str, str]()

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal row, position, cells, attributes, phonetic, formula, before, inline
        name = names.get(tag) or names.setdefault(tag, local_name(tag))
        if name == "c":
            attributes, formula, inline = given, "", False
            reference = given.get("r")
            if reference is None:
                position += 1
            else:
                known = columns.get(reference.rstrip(_DIGITS))
                position = _position(reference, columns) if known is None else known
        elif name in ("v", "t"):
            if not phonetic and not (inline and name == "v"):
                parser.CharacterDataHandler = pieces.append
        elif name == "is":  # an inline text takes precedence over other values
            inline = True
            pieces.clear()
        elif name == "f":
            before, parser.CharacterDataHandler = len(pieces), pieces.append
        elif name == "row":
            row, position, cells = int(given.get("r", row + 1)), -1, []
        elif name == "rPh":
            phonetic = True

    def end(tag: str) -> None:
        nonlocal phonetic, formula
        name = names[tag]
        if name == "c":
            kind, stored = attributes.get("t", "n"), "".join(pieces)
            lacks_value = formula and not stored and kind == "n"
            value = formula_cell(formula) if lacks_value else make(kind, attributes.get("s", "0"), stored)
            pieces.clear()
            if value:
                cells.append((position, value))
                if len(cells) > COLUMNS_MAX:
                    raise ValueError(f"row {row} has more cells than columns")
        elif name in ("v", "t", "f"):
            parser.CharacterDataHandler = None
            if name == "f":
                formula, pieces[before:] = f"={''.join(pieces[before:])}", []
        elif name == "row" and cells:
            found.append((row, cells))
        elif name == "rPh":
            phonetic = False

    parser.StartElementHandler, parser.EndElementHandler = start, end
    return package.feed(part, parser, found, pieces)


class _StruckRows:
    """Finds the rows with more struck-out cells than others. `styles` are those of struck-out cells."""

    def __init__(self, styles: Iterable[int]) -> None:
        self._styles = frozenset(map(str, styles))
        is_few = len(self._styles) <= _STYLES_SEARCHED
        self.words = tuple(f's="{style}"'.encode() for style in self._styles) if is_few else (b's="',)
        self._row, self._is_struck, self._balance = "", False, 0
        self._found: list[int] = []

    def see(self, name: str, given: Mapping[str, str]) -> None:
        """Take a tag of a sheet. A cell has a row of its own, and counts if it has a value."""
        if name == "c":
            row = given.get("r", "").lstrip(_LETTERS)
            if row != self._row:
                self._end_row()
                self._row = row
            self._is_struck = given.get("s") in self._styles
        elif name in ("v", "is"):
            self._balance += 1 if self._is_struck else -1

    def rows(self) -> tuple[int, ...]:
        """The numbers of these rows."""
        self._end_row()
        return tuple(self._found)

    def _end_row(self) -> None:
        if self._balance > 0 and self._row:
            self._found.append(int(self._row))
        self._balance = 0


class _HiddenRows:
    """Finds the hidden rows with a value. `row` is one that has none yet; 0: none."""

    def __init__(self) -> None:
        self.rows, self.row = RowRanges(), 0

    def see(self, name: str, given: Mapping[str, str]) -> None:
        """Take a tag of a sheet."""
        if name == "row":
            self.row = int(given["r"]) if _is_hidden(given) else 0  # programs that hide rows also number them
        elif self.row and name in ("v", "is"):
            self.rows.add(self.row, self.row)
            self.row = 0


def _is_hidden(given: Mapping[str, str]) -> bool:
    return given.get("hidden", "0") in ("1", "true")


def read_traits(package: Package, part: str, context: CellContext) -> SheetTraits:
    """The traits of a sheet. Reads it completely; raises FileRefused if its checksum is wrong or its XML malformed.

    The handler is on only for pieces that contain a word of a trait: without it, parsing takes a tenth of the time.
    """
    parser = safe_parser()
    merged, filtered, before = 0, "", b""
    hidden_columns: set[int] = set()
    hidden = _HiddenRows()
    struck = _StruckRows(context.struck)
    words = (*_TRAITS, *struck.words)

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal merged, filtered
        name = local_name(tag)
        if name == "mergeCell":
            merged += 1
        elif name == "autoFilter":
            filtered = given.get("ref", "")
        elif name == "col" and _is_hidden(given):
            first, last = int(given["min"]), int(given["max"])
            hidden_columns.update(range(first - 1, min(last, COLUMNS_MAX)) if last < COLUMNS_MAX else ())
        else:
            hidden.see(name, given)
            if struck.words:
                struck.see(name, given)

    def look(piece: bytes) -> None:
        nonlocal before
        seen = before + piece  # a tag may begin in the piece before
        unsearchable = not before or b"\0" in seen[:_TAG_LENGTH]  # the first piece, and UTF-16
        parser.StartElementHandler = (
            start if unsearchable or hidden.row or any(word in seen for word in words) else None
        )
        before = seen[-_TAG_LENGTH:]

    for _ in package.feed(part, parser, [], look=look):
        pass
    return SheetTraits(merged, hidden.rows, tuple(sorted(hidden_columns)), filtered, struck_rows=struck.rows())


def unescape(text: str) -> str:
    """A text with its `_xHHHH_` escapes decoded (ISO/IEC 29500-1, 22.4.2.4), except halves of surrogate pairs."""
    return _ESCAPE.sub(_decoded, text) if "_x" in text else text


def _decoded(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return escape[0] if "\ud800" <= character <= "\udfff" else character


def _position(reference: str, columns: dict[str, int]) -> int:
    """The column position from 0 of a cell reference such as AB12, cached in `columns`. Raises ValueError for anything else."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"{reference[:20]} is not a cell reference")
    letters = reference.rstrip(_DIGITS)
    position = 0
    for letter in letters:
        position = position * 26 + ord(letter) - 64
    return columns.setdefault(letters, position - 1)


def _cell_maker(context: CellContext) -> Callable[[str, str, str], str]:
    """A function that makes a cell from its kind, its style and its stored text."""
    cache: dict[tuple[str, str], Native] = {}
    texts, formats, from_1904 = context.texts, context.formats, context.from_1904

    def number(style: str, text: str) -> Native:
        number_format = formats[int(style)] if int(style) < len(formats) else GENERAL
        if len(cache) >= _CACHE_MAX:
            cache.clear()
        cell = cache[style, text] = read_number(text.strip(), number_format, from_1904=from_1904)
        return cell

    def make(kind: str, style: str, text: str) -> str:
        if kind == "n":
            return (cache.get((style, text)) or number(style or "0", text)) if text else ""
        if kind == "s":
            if not text:
                return ""
            index = int(text)
            return texts[index] if 0 <= index < len(texts) else Native("#TEXT LOST!", "error")
        return unescape(text) if kind in ("str", "inlineStr") else _flag_moment_or_error(kind, text.strip())

    return make


def _flag_moment_or_error(kind: str, text: str) -> str:
    if kind == "b" and text:
        return Native("true" if text in ("1", "true") else "false", "flag")
    if kind == "d" and text:
        return _iso_moment(text)
    return Native(text or "#VALUE!", "error") if kind not in ("b", "d") else ""


def _iso_moment(text: str) -> Native:
    """A date cell of a strict workbook, which stores ISO 8601 texts, to the second."""
    try:
        if "T" not in text and ":" in text:
            return Native(time.fromisoformat(text).isoformat("seconds"), "time")
        if "T" not in text:
            return Native(date.fromisoformat(text).isoformat(), "date")
        moment = datetime.fromisoformat(text).replace(tzinfo=None) + timedelta(milliseconds=500)
        return Native(moment.isoformat(" ", "seconds"), "datetime")
    except (ValueError, OverflowError):
        return Native("#VALUE!", "error")


_YES = ("1", "true", "on")


class PartReaders(NamedTuple):
    """How the parts of workbooks of one format are read: the format in words; the name of the main part; its worksheets, and notes on the workbook; the data that
    cells refer to; the rows of a sheet; the traits of a sheet; the styles of struck-out texts.
    """

    kind: str
    main: Callable[[Package], str]
    sheets: Callable[[Package, str, Relations], tuple[list[Sheet], dict[str, str]]]
    texts_and_formats: Callable[[Package, dict[str, str]], tuple[Iterable[str], Iterable[Format]]]
    rows: Callable[[Package, str, CellContext], Rows]
    traits: Callable[[Package, str, CellContext], SheetTraits]
    struck: Callable[[Package, dict[str, str]], frozenset[int]] = lambda _package, _parts: frozenset()


def open_xlsx(source: OpenBytes, name: str, inflated_bytes_max: int) -> Book:
    """The workbook of a file. Raises FileRefused."""
    readers = PartReaders(
        "workbook", _main_part, _read_sheets, _read_texts_and_formats, stream_rows, read_traits, _read_struck
    )
    return open_parts(source, name, inflated_bytes_max, readers)


def open_parts(source: OpenBytes, name: str, inflated_bytes_max: int, readers: PartReaders) -> Book:
    """The workbook of a package. Shared texts are read now, sheets on demand. Raises FileRefused."""
    with open_package(source, name, inflated_bytes_max) as package:
        check_markup(package)
        main = readers.main(package)
        relations = package.relations(main)
        sheets, notes = readers.sheets(package, main, relations)
        if not sheets:
            raise file_refusal(name, "it is a workbook without a worksheet", SEND_AGAIN)
        if any(kind == "vbaProject" for kind, _ in relations.values()):
            notes["macros"] = "not run"
        parts = dict(relations.values())
        texts, formats = readers.texts_and_formats(package, parts)
        context = CellContext(tuple(texts), tuple(formats), "date system" in notes, readers.struck(package, parts))

    def rows(part: str) -> Rows:
        with open_package(source, name, inflated_bytes_max) as reopened:
            yield from readers.rows(reopened, part, context)

    def traits_of(part: str) -> SheetTraits:
        with open_package(source, name, inflated_bytes_max) as reopened:
            return readers.traits(reopened, part, context)

    return Book(name, readers.kind, tuple(sheets), notes, rows, traits_of)


def _main_part(package: Package) -> str:
    main = next((part for kind, part in package.relations("").values() if kind == "officeDocument"), "")
    return main or "xl/workbook.xml"


def _read_sheets(package: Package, main: str, relations: Relations) -> tuple[list[Sheet], dict[str, str]]:
    """The worksheets, and notes on the workbook. Chart, dialog and macro sheets are left out."""
    sheets: list[Sheet] = []
    notes: dict[str, str] = {}
    for tag, attributes in package.elements(main):
        if tag == "workbookPr" and attributes.get("date1904", "0") in _YES:
            notes["date system"] = "1904"
        elif tag == "sheet":
            kind, part = relations.get(attributes.get("id", ""), ("", ""))
            if kind == "worksheet":
                hidden = attributes.get("state", "visible") != "visible"
                sheets.append(Sheet(attributes.get("name", ""), part, hidden))
        elif tag == "calcPr" and attributes.get("calcMode") == "manual":
            notes["calculation"] = "manual: saved results of formulas may be out of date"
        elif tag == "externalReference":
            notes["links to other files"] = "not followed"
    return sheets, notes


def _read_texts_and_formats(package: Package, parts: dict[str, str]) -> tuple[Iterable[str], Iterable[Format]]:
    texts = read_texts(package, parts["sharedStrings"]) if "sharedStrings" in parts else ()
    return texts, read_formats(package.elements(parts["styles"])) if "styles" in parts else ()


def _read_struck(package: Package, parts: dict[str, str]) -> frozenset[int]:
    return struck_styles(package.elements(parts["styles"])) if "styles" in parts else frozenset()
