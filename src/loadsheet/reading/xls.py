"""Workbooks of Excel 5 to 2003 (.xls, BIFF5 and BIFF8), read with xlrd: cells with their number formats.

xlrd holds a whole sheet in memory, about 50 bytes for each filled cell. A sheet has at most 65,536 rows by 256 columns; files over
256 MB are refused. For damaged files xlrd raises many kinds of exceptions; all are caught here. olefile opens the OLE container,
because it stops at the end of the file, while xlrd's own reader can loop forever.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import NamedTuple

import olefile
import xlrd
from xlrd.biffh import XLRDError, error_text_from_code

from loadsheet.reading.encoding import OpenBytes
from loadsheet.reading.number_formats import GENERAL, Format, format_of, read_number
from loadsheet.reading.package import DAMAGED, SEND_AGAIN
from loadsheet.reading.refusals import SAVE_AS, SAVE_AS_XLSX, SEND_TABLE, RefusedFormat, file_refusal, refuse_format
from loadsheet.reading.tables import Native
from loadsheet.reading.workbook import Book, Cells, RowRanges, Rows, Sheet, SheetTraits

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SIZE_MAX = 1 << 28
_PROPERTIES, _PROPERTIES_MAX = "\x05DocumentSummaryInformation", 1 << 18
_BIFF5 = 50
_FAULTS = (
    XLRDError,
    AssertionError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
_RECORD = struct.Struct("<HH")
_EOF, _BOUNDSHEET, _FILTERMODE, _DIMENSIONS = 0x0A, 0x85, 0x9B, 0x200
_TEXT, _NUMBER, _DATE, _FLAG, _ERROR = 1, 2, 3, 4, 5  # xlrd's kinds of cells


class _Bound(NamedTuple):
    """A worksheet in the workbook's list: the offset of its records, and whether it is hidden."""

    offset: int
    hidden: bool


def open_xls(source: OpenBytes, name: str) -> Book:
    """The workbook of a file; sheets are loaded on first use and stay loaded. Raises FileRefused."""
    with source() as stream:
        content = stream.read(_SIZE_MAX + 1)
    if len(content) > _SIZE_MAX:
        reason = f"it is an .xls of more than {_SIZE_MAX:,} bytes, which are not read"
        raise file_refusal(name, reason, SAVE_AS_XLSX)
    if content.startswith(OLE):
        content = workbook_stream(content, name)
    with _faults_refused(name):
        log = StringIO()  # keeps xlrd's messages off the terminal
        book = xlrd.open_workbook(
            file_contents=content, logfile=log, formatting_info=True, on_demand=True, ragged_rows=True
        )
        if book.biff_version < _BIFF5:
            raise file_refusal(name, "it is a workbook of Excel 4 or older", "save it as .xlsx or as 'CSV UTF-8'")
        reader = _Reader(book, name)
        titles, bounds = book.sheet_names(), reader.bounds()
        if not bounds:
            raise file_refusal(name, "it is a workbook without a worksheet", SEND_AGAIN)
        sheets = tuple(
            Sheet(title, str(place), bound.hidden)
            for place, (title, bound) in enumerate(zip(titles, bounds, strict=True))
        )
    notes = {"date system": "1904"} if book.datemode else {}
    return Book(name, "workbook (.xls)", sheets, notes, reader.rows, reader.read_traits)


def properties_text(path: Path) -> str:
    """The characters of the document properties that programs and users added to an .xls, between other bytes; empty if there are none,
    or the file is damaged.
    """
    if path.stat().st_size > _SIZE_MAX:
        return ""
    try:
        with olefile.OleFileIO(str(path), raise_defects=olefile.DEFECT_FATAL) as ole:
            content = ole.openstream(_PROPERTIES).read(_PROPERTIES_MAX) if ole.exists(_PROPERTIES) else b""
    except _OLE_ERRORS:
        return ""
    return content.replace(b"\0", b"").decode("latin-1")


@contextmanager
def _faults_refused(name: str) -> Iterator[None]:
    """Turn the exceptions of xlrd into FileRefused."""
    try:
        yield
    except _FAULTS as error:
        reason = str(error) or "its records are inconsistent"
        if "encrypted" in reason:
            hint = "save it without a password or encryption and send it again"
            raise file_refusal(name, "it is a password-protected workbook", hint) from error
        raise file_refusal(name, f"{DAMAGED} ({reason[:200]})", SEND_AGAIN) from error


class _Reader:
    """The sheets of an xlrd workbook as rows of our cells."""

    def __init__(self, book: xlrd.Book, name: str) -> None:
        self._book, self._name = book, name
        codes = {str(key): found.format_str for key, found in book.format_map.items() if found.format_str}
        self._formats = [format_of(str(style.format_key), codes) for style in book.xf_list]

    def bounds(self) -> list[_Bound]:
        """The worksheets that the workbook lists, like xlrd without chart, macro and Visual Basic sheets."""
        return [
            _Bound(int.from_bytes(data[:4], "little"), bool(data[4] & 3))
            for kind, data in self._records(0)
            if kind == _BOUNDSHEET and len(data) > 5 and data[5] == 0
        ]

    def rows(self, key: str) -> Rows:
        """The rows of the sheet with this number."""
        with _faults_refused(self._name):
            sheet = self._book.sheet_by_index(int(key))
            from_1904 = bool(self._book.datemode)
            for number in range(sheet.nrows):
                cells: Cells = []
                for position, kind in enumerate(sheet.row_types(number)):
                    if kind in (_NUMBER, _DATE):
                        number_format = self._format_at(sheet.cell_xf_index(number, position))
                        text = repr(float(sheet.cell_value(number, position)))
                        cells.append((position, read_number(text, number_format, from_1904=from_1904)))
                    elif kind and (value := _other_cell(kind, sheet.cell_value(number, position))):
                        cells.append((position, value))
                if cells:
                    yield number + 1, cells

    def read_traits(self, key: str) -> SheetTraits:
        """The traits of the sheet."""
        with _faults_refused(self._name):
            sheet = self._book.sheet_by_index(int(key))
            bound = self.bounds()[int(key)]
            merged = sum((bottom - top) * (right - left) > 1 for top, bottom, left, right in sheet.merged_cells)
            hidden_rows = RowRanges()
            for number in sorted(number for number, row in sheet.rowinfo_map.items() if row.hidden):
                if number < sheet.nrows and any(sheet.row_values(number)):
                    hidden_rows.add(number + 1, number + 1)
            columns = {place for place, column in sheet.colinfo_map.items() if column.hidden and place < sheet.ncols}
            filtered = any(kind == _FILTERMODE for kind, _ in self._records(bound.offset))
            return SheetTraits(
                merged, hidden_rows, tuple(sorted(columns)), "on" if filtered else "", _count_silent(sheet)
            )

    def _format_at(self, style: int) -> Format:
        return self._formats[style] if 0 <= style < len(self._formats) else GENERAL

    def _records(self, start: int) -> Iterator[tuple[int, bytes]]:
        """The records from `start` to the end of the globals, or to a sheet's cells."""
        memory = self._book.mem or b""
        place = self._book.base + start
        while place + _RECORD.size <= len(memory):
            kind, length = _RECORD.unpack_from(memory, place)
            place += _RECORD.size
            yield kind, bytes(memory[place : place + length])
            place += length
            if kind in (_EOF, _DIMENSIONS):
                return


def _count_silent(sheet: xlrd.sheet.Sheet) -> int:
    """The number of cells with an empty text. They are formulas: programs write no other cells like this."""
    count = 0
    for number in range(sheet.nrows):
        values = sheet.row_values(number)
        if "" in values:  # also true for blank cells
            kinds = sheet.row_types(number)
            count += sum(kind == _TEXT and value == "" for kind, value in zip(kinds, values, strict=True))
    return count


def _other_cell(kind: int, value: object) -> str:
    """A cell that is not a number; empty for blank cells."""
    if kind == _TEXT:
        return str(value)
    if kind == _FLAG:
        return Native("true" if value else "false", "flag")
    if kind == _ERROR:
        code = int(str(value))
        return Native(error_text_from_code.get(code, "#VALUE!"), "error")
    return ""


_WORKBOOKS = ("Workbook", "Book")  # of Excel 97 and later, and of Excel 5 and 95
_OLE_ERRORS = (EOFError, OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError)


def workbook_stream(content: bytes, name: str) -> bytes:
    """The records of the workbook in an OLE file. Raises FileRefused for a damaged file, and for another kind of file, naming it."""
    try:
        with olefile.OleFileIO(BytesIO(content), raise_defects=olefile.DEFECT_FATAL) as ole:
            inside = {path[0].lower() for path in ole.listdir()}
            for stream in _WORKBOOKS:
                if stream.lower() in inside:
                    records = bytes(ole.openstream(stream).read())
                    if len(records) == ole.get_size(stream):
                        return records
                    raise EOFError("the workbook in it is cut off")
    except _OLE_ERRORS as error:
        if kind := _ole_kind(content):
            raise refuse_format(name, kind) from error
        raise file_refusal(name, f"{DAMAGED} ({str(error)[:200] or type(error).__name__})", SEND_AGAIN) from error
    raise refuse_format(name, _ole_kind(content) or _OTHER_OLE)


_OTHER_OLE = RefusedFormat("an old Office file, but no workbook", "save the table as .xlsx or as 'CSV UTF-8'")
_OLE_NAMES: dict[str, RefusedFormat] = {  # the name of a stream
    "EncryptedPackage": RefusedFormat(
        "a password-protected workbook", "save it without a password or encryption and send it again"
    ),
    "WordDocument": RefusedFormat("an old Word document (.doc)", SAVE_AS),
    "PowerPoint Document": RefusedFormat("an old presentation (.ppt)", SEND_TABLE),
    "__properties_version1.0": RefusedFormat("a saved e-mail (.msg)", "send the table that is attached to it"),
}


def _ole_kind(content: bytes) -> RefusedFormat | None:
    """The kind of an OLE file without a workbook, from the names in its directory (in UTF-16); None if it is unknown."""
    for name, kind in _OLE_NAMES.items():
        if name.encode("utf-16-le") + b"\0\0" in content:
            return kind
    return None
