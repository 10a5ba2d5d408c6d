"""Binary workbooks (.xlsb, BIFF12; [MS-XLSB]), streamed: the package of .xlsx with binary records instead of XML.

Owns the records that hold cells, texts, styles and sheets. All others are skipped by their length.
"""

import struct
from collections.abc import Callable, Iterator
from typing import IO

from loadsheet.problems import column_letters
from loadsheet.reading.encoding import OpenBytes
from loadsheet.reading.number_formats import GENERAL, Format, read_formats, read_number
from loadsheet.reading.package import SEND_AGAIN, Package, Relations
from loadsheet.reading.refusals import file_refusal
from loadsheet.reading.tables import Native
from loadsheet.reading.workbook import COLUMNS_MAX, ROWS_MAX, Book, Cells, RowRanges, Rows, Sheet, SheetTraits
from loadsheet.reading.xlsx import CellContext, PartReaders, open_parts

MAIN_PART = "xl/workbook.bin"
ERRORS = {
    0x00: "#NULL!",
    0x07: "#DIV/0!",
    0x0F: "#VALUE!",
    0x17: "#REF!",
    0x1D: "#NAME?",
    0x24: "#NUM!",
    0x2A: "#N/A",
    0x2B: "#GETTING_DATA",
}
_CHUNK = 1 << 16
_RECORD_MAX = 1 << 24  # the longest text with all its runs is far shorter
_ROW, _BLANK, _RK, _ERROR, _FLAG, _REAL, _TEXT, _SHARED = range(8)
_FORMULA_TEXT, _FORMULA_NUMBER, _FORMULA_FLAG, _FORMULA_ERROR, _RICH = 8, 9, 10, 11, 62
_SHORT, _SHORT_LAST = 12, 18  # the kinds 1 to 7 without a column: the cell is next to the one before
_KIND_OF_FORMULA = {_FORMULA_TEXT: _TEXT, _FORMULA_NUMBER: _REAL, _FORMULA_FLAG: _FLAG, _FORMULA_ERROR: _ERROR}
_SST_ITEM, _FORMAT, _STYLE, _COLUMN, _MERGED, _SHEET_END, _FILTER = 19, 44, 47, 60, 176, 130, 161
_STYLES_BEGIN, _STYLES_END, _PROPERTIES, _BUNDLE, _CALCULATION = 617, 618, 153, 156, 157
_CELL, _SHORT_CELL, _U32, _F64 = struct.Struct("<II"), struct.Struct("<I"), struct.Struct("<I"), struct.Struct("<d")
_FOUR = struct.Struct("<IIII")
_ROW_HIDDEN = 0x10


def open_xlsb(source: OpenBytes, name: str, inflated_bytes_max: int) -> Book:
    """The workbook of a file. Raises FileRefused."""
    readers = PartReaders(
        "workbook (.xlsb)", lambda _: MAIN_PART, _read_sheets, _read_texts_and_formats, _stream_rows, _read_traits
    )
    return open_parts(source, name, inflated_bytes_max, readers)


def _read_sheets(package: Package, main: str, relations: Relations) -> tuple[list[Sheet], dict[str, str]]:
    sheets: list[Sheet] = []
    notes: dict[str, str] = {}
    with package.opened(main) as stream:
        for kind, data in _records(stream):
            if kind == _PROPERTIES and data[0] & 1:
                notes["date system"] = "1904"
            elif kind == _CALCULATION and not _U32.unpack_from(data, 4)[0]:
                notes["calculation"] = "manual: saved results of formulas may be out of date"
            elif kind == _BUNDLE:
                relation, after = _text(data, 8)
                role, part = relations.get(relation, ("", ""))
                if role == "worksheet":
                    sheets.append(Sheet(_text(data, after)[0], part, hidden=bool(data[0])))
    return sheets, notes


def _read_texts_and_formats(package: Package, parts: dict[str, str]) -> tuple[list[str], list[Format]]:
    texts: list[str] = []
    if "sharedStrings" in parts:
        with package.opened(parts["sharedStrings"]) as stream:
            texts = [_text(data, 1)[0] for kind, data in _records(stream) if kind == _SST_ITEM]
    formats: list[Format] = []
    if "styles" in parts:
        with package.opened(parts["styles"]) as stream:
            formats = read_formats(_style_elements(stream))
    return texts, formats


def _style_elements(stream: IO[bytes]) -> Iterator[tuple[str, dict[str, str]]]:
    """The records of styles as the elements that an .xlsx has."""
    for kind, data in _records(stream):
        if kind == _FORMAT:
            yield "numFmt", {"numFmtId": _number(data[:2]), "formatCode": _text(data, 2)[0]}
        elif kind in (_STYLES_BEGIN, _STYLES_END):
            yield "cellXfs" if kind == _STYLES_BEGIN else "cellStyles", {}
        elif kind == _STYLE:
            yield "xf", {"numFmtId": _number(data[2:4])}


def _number(data: bytes) -> str:
    return str(int.from_bytes(data, "little"))


def _stream_rows(package: Package, part: str, context: CellContext) -> Rows:
    """The non-empty rows of a sheet. Raises FileRefused if the part is damaged."""
    make = _cell_maker(context)
    number, position, cells = 0, -1, Cells()
    with package.opened(part) as stream:
        for record, data in _records(stream):
            if record == _ROW:
                if cells:
                    yield number, cells
                number, position, cells = _U32.unpack_from(data)[0] + 1, -1, Cells()
                if number > ROWS_MAX:
                    raise ValueError("a row is below the last possible row")
                continue
            if _BLANK <= record <= _FORMULA_ERROR or record == _RICH:
                position, style = _CELL.unpack_from(data)
                kind, offset = _KIND_OF_FORMULA.get(record, record), _CELL.size
            elif _SHORT <= record <= _SHORT_LAST:
                position, style = position + 1, _SHORT_CELL.unpack_from(data)[0]
                kind, offset = record - _SHORT + 1, _SHORT_CELL.size
            else:
                continue
            if position >= COLUMNS_MAX or not number:
                raise ValueError("a cell has no valid position")
            if value := make(kind, style & 0xFFFFFF, data, offset):
                cells.append((position, value))
    if cells:
        yield number, cells


def _cell_maker(context: CellContext) -> Callable[[int, int, bytes, int], str]:
    """A function that makes a cell from its kind, its style, its record, and the offset of its value."""
    texts, formats, from_1904 = context.texts, context.formats, context.from_1904

    def number(value: float, style: int) -> Native:
        number_format = formats[style] if style < len(formats) else GENERAL
        return read_number(repr(value), number_format, from_1904=from_1904)

    def make(kind: int, style: int, data: bytes, offset: int) -> str:
        if kind == _SHARED:
            index = _U32.unpack_from(data, offset)[0]
            return texts[index] if index < len(texts) else Native("#TEXT LOST!", "error")
        if kind == _REAL:
            return number(_F64.unpack_from(data, offset)[0], style)
        if kind == _RK:
            return number(_compact(_U32.unpack_from(data, offset)[0]), style)
        if kind in (_TEXT, _RICH):
            return _text(data, offset + (kind == _RICH))[0]
        if kind == _FLAG:
            return Native("true" if data[offset] else "false", "flag")
        return Native(ERRORS.get(data[offset], "#VALUE!"), "error") if kind == _ERROR else ""

    return make


def _read_traits(package: Package, part: str, _context: CellContext) -> SheetTraits:
    """The traits of a sheet. Reads it completely; raises FileRefused if it is cut off or its checksum is wrong."""
    merged, filtered, ended, hidden_rows = 0, "", False, RowRanges()
    hidden_columns: set[int] = set()
    hidden_row = 0  # it has no value yet
    with package.opened(part) as stream:
        for kind, data in _records(stream):
            if kind == _ROW:
                hidden_row = _U32.unpack_from(data)[0] + 1 if data[11] & _ROW_HIDDEN else 0
            elif hidden_row and kind not in (_BLANK, _SHORT) and (kind <= _SHORT_LAST or kind == _RICH):
                hidden_rows.add(hidden_row, hidden_row)
                hidden_row = 0
            elif kind == _MERGED:
                merged += 1
            elif kind == _COLUMN and data[16] & 1:
                first, last = _CELL.unpack_from(data)
                hidden_columns.update(range(first, last + 1) if last < COLUMNS_MAX - 1 else ())
            elif kind == _FILTER:
                top, bottom, left, right = _FOUR.unpack_from(data)
                filtered = f"{column_letters(left)}{top + 1}:{column_letters(right)}{bottom + 1}"
            elif kind == _SHEET_END:
                ended = True
    if not ended:
        raise file_refusal(package.name, f"it is incomplete or damaged (part {part} has no end)", SEND_AGAIN)
    return SheetTraits(merged, hidden_rows, tuple(sorted(hidden_columns)), filtered)


def _records(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The records of a part: a kind of one or two bytes, a length of one to four (seven bits each), and the content. A truncated
    record raises ValueError or LookupError here, or struct.error in the caller; `Package.opened` turns each into a refusal.
    """
    buffer, place = b"", 0
    while True:
        if len(buffer) - place < 6:
            buffer, place = buffer[place:] + stream.read(_CHUNK), 0
            if not buffer:
                return
        kind = buffer[place]
        place += 1
        if kind & 0x80:
            kind = (kind & 0x7F) | (buffer[place] & 0x7F) << 7
            place += 1
        length = shift = 0
        while True:
            byte = buffer[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 21:
                break
        while len(buffer) - place < length:
            if length > _RECORD_MAX or not (more := stream.read(max(_CHUNK, length))):
                raise ValueError("a record is cut off")
            buffer, place = buffer[place:] + more, 0
        yield kind, buffer[place : place + length]
        place += length


def _text(data: bytes, offset: int) -> tuple[str, int]:
    """A text, stored with its length in UTF-16 units, and the offset of its end. A length of all ones means no text."""
    units = _U32.unpack_from(data, offset)[0]
    start = offset + _U32.size
    if units == 0xFFFFFFFF:
        return "", start
    end = start + 2 * units
    if end > len(data):
        raise ValueError("a text is cut off")
    return data[start:end].decode("utf-16-le", "replace"), end


def _compact(bits: int) -> float:
    """A number in 32 bits: an integer or the upper half of a double, optionally in hundredths ([MS-XLSB] 2.5.122)."""
    if bits & 2:
        value = float((bits >> 2) - ((bits & 0x80000000) >> 1))
    else:
        value = float(_F64.unpack(struct.pack("<II", 0, bits & 0xFFFFFFFC))[0])
    return value / 100 if bits & 1 else value
