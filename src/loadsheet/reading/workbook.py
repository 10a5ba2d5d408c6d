"""Workbooks (.xlsx, .xlsm, strict ones too): which sheet holds a table, and its rows.

A row keeps what its sender sees: text as it stands, numbers with all their digits, dates as dates, errors and formulas without a
value as what they are. Hidden sheets are left out unless a mapping names them; hidden rows are read.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.encoding import refused
from loadsheet.reading.formats import read_formats
from loadsheet.reading.header import NO_HEADER, TOP_ROWS, Header, accept, closeness, find_header, fold
from loadsheet.reading.layouts import Layout
from loadsheet.reading.package import SEND_AGAIN, Package, check_markup, open_package
from loadsheet.reading.sheet import Cells, Dictionary, read_texts, stream_rows
from loadsheet.reading.soundness import CONTROL, Frame, is_blank
from loadsheet.reading.tables import Row, Table, Top
from loadsheet.settings import Settings


class _Sheet(NamedTuple):
    """A worksheet: its name, its part of the package, and whether it is hidden."""

    title: str
    part: str
    hidden: bool


@dataclass(frozen=True, slots=True)
class _Book:
    """What is read of a workbook once: its worksheets and what their cells refer to."""

    path: Path
    name: str
    sheets: tuple[_Sheet, ...]
    dictionary: Dictionary


def open_workbook(path: Path, name: str, layouts: Sequence[Layout], settings: Settings) -> dict[str, Table]:
    """The tables of a workbook, one for each layout by its name. The sheets that hold them are read to their ends once, so that
    damage is found before a row is used. Raises FileRefused.
    """
    with open_package(path, name, settings.inflated_bytes_max) as package:
        check_markup(package)
        book = _read_book(package, path)
        tables = {layout.name: _open_table(package, book, layout, settings) for layout in layouts}
        for part in {sheet.part for sheet in book.sheets if sheet.title in {table.sheet for table in tables.values()}}:
            package.verify(part)
        return tables


def workbook_tops(path: Path, name: str, settings: Settings) -> list[Top]:
    """The first rows of every visible sheet. Raises FileRefused."""
    with open_package(path, name, settings.inflated_bytes_max) as package:
        check_markup(package)
        book = _read_book(package, path)
        tops = []
        for sheet in (sheet for sheet in book.sheets if not sheet.hidden):
            with closing(stream_rows(package, sheet.part, book.dictionary)) as rows:
                first = tuple((number, tuple(_spread(cells))) for number, cells in islice(rows, TOP_ROWS))
            tops.append(Top(sheet.title, tuple(row for row in first if not is_blank(row[1]))))
        return tops


def _read_book(package: Package, path: Path) -> _Book:
    main = next((part for kind, part in package.relations("").values() if kind == "officeDocument"), "xl/workbook.xml")
    relations = package.relations(main)
    sheets: list[_Sheet] = []
    from_1904 = False
    for tag, attributes in package.elements(main):
        if tag == "workbookPr":
            from_1904 = attributes.get("date1904", "0") in ("1", "true", "on")
        elif tag == "sheet":
            kind, part = relations.get(attributes.get("id", ""), ("", ""))
            if kind == "worksheet":
                hidden = attributes.get("state", "visible") != "visible"
                sheets.append(_Sheet(attributes.get("name", ""), part, hidden))
    if not sheets:
        raise refused(package.name, "it is a workbook without a worksheet", SEND_AGAIN)
    parts = dict(relations.values())
    texts = tuple(read_texts(package, parts["sharedStrings"])) if "sharedStrings" in parts else ()
    formats = read_formats(package.elements(parts["styles"])) if "styles" in parts else []
    return _Book(path, package.name, tuple(sheets), Dictionary(texts, tuple(formats), from_1904))


def _open_table(package: Package, book: _Book, layout: Layout, settings: Settings) -> Table:
    candidates = _candidates(book, layout)
    sheet, header, above = candidates[0], NO_HEADER, 0
    for candidate in candidates:
        found, rows_above = _header_of(package, book, candidate, layout)
        if not header.row or closeness(found) > closeness(header):
            sheet, header, above = candidate, found, rows_above
        if header.complete:
            break
    where = Where(book.name, sheet.title)
    if not header.row and layout.header_row == "auto":
        raise FileRefused(Problem("R202", where, hint="send the file with its rows"))
    accept(header, layout, where, settings.columns_max, [candidate.title for candidate in candidates])
    body = _Body(
        book, sheet, header.row, Frame(book.name, sheet.title, header.labels, settings.cell_length_max), settings
    )
    hidden = [sheet.title for sheet in book.sheets if sheet.hidden]
    told = {
        "format": "workbook",
        "header row": str(header.row),
        "rows above the header": str(above),
        "date system": "1904" if book.dictionary.from_1904 else "",
        "hidden sheets": f"{len(hidden)} ({', '.join(hidden)})" if hidden else "",
    }
    told = {what: text for what, text in told.items() if text}
    return Table(layout.name, book.name, sheet.title, header.labels, header.row, header.columns, body.rows, told)


def _candidates(book: _Book, layout: Layout) -> list[_Sheet]:
    """The sheets a table can stand on: the first named one that exists, else all visible ones."""
    for wanted in layout.sheets:
        same = [sheet for sheet in book.sheets if sheet.title == wanted]
        if found := same or [sheet for sheet in book.sheets if fold(sheet.title) == fold(wanted)]:
            return found[:1]
    visible = [sheet for sheet in book.sheets if not sheet.hidden]
    if layout.sheets or not visible:
        sheets = ", ".join(sheet.title + (" (hidden)" if sheet.hidden else "") for sheet in book.sheets)
        values = {"expected": " or ".join(layout.sheets) or "visible", "sheets": sheets}
        raise FileRefused(Problem("R210", Where(book.name), "", values, "rename the sheet, or name it in the mapping"))
    return visible


def _header_of(package: Package, book: _Book, sheet: _Sheet, layout: Layout) -> tuple[Header, int]:
    """The header of a sheet, or what comes closest, and how many rows stand above it."""
    seen: list[int] = []
    with closing(stream_rows(package, sheet.part, book.dictionary)) as rows:

        def spread() -> Iterator[tuple[int, list[str]]]:
            for number, cells in rows:
                seen.append(number)
                yield number, _spread(cells)

        header = find_header(spread(), layout)
    return header, sum(number < header.row for number in seen)


def _spread(cells: Cells) -> list[str]:
    """The cells of a row in their places, blanks between."""
    values = [""] * (max(position for position, _ in cells) + 1)
    for position, value in cells:
        values[position] = value
    return values


@dataclass(frozen=True, slots=True)
class _Body:
    """The rows under the header of a sheet."""

    book: _Book
    sheet: _Sheet
    header_row: int
    frame: Frame
    settings: Settings

    def rows(self) -> Iterator[Row]:
        """The rows, read anew. Raises FileRefused if a cell stands nowhere, or the file cannot be read any more."""
        last = self.header_row  # the last row that was not blank
        with open_package(self.book.path, self.book.name, self.settings.inflated_bytes_max) as package:
            for number, cells in stream_rows(package, self.sheet.part, self.book.dictionary):
                if number <= self.header_row or is_blank([value for _, value in cells]):
                    continue
                if number - last - 1 > self.settings.blank_rows_max:
                    yield self._far_below(number, cells, number - last - 1)
                    return
                last = max(last, number)
                yield self._row(number, cells)

    def _row(self, number: int, cells: Cells) -> Row:
        frame = self.frame
        values = [""] * len(frame.header)
        try:
            for position, value in cells:
                values[position] = value
        except IndexError:  # cells to the right of the header
            values = _spread(cells)
            if not is_blank(values[len(frame.header) :]):
                return frame.ragged(number, values)
            del values[len(frame.header) :]
        together = "".join(values)
        doubtful = len(together) > frame.cell_length_max or CONTROL.search(together)
        return Row(number, tuple(values), frame.doubt(number, values) if doubtful else None)

    def _far_below(self, number: int, cells: Cells, blank: int) -> Row:
        hint = "delete the blank rows or what stands below them, or raise blank_rows_max"
        problem = Problem("R214", self.frame.where(number), "", {"blank": blank}, hint)
        return Row(number, self.frame.fit(_spread(cells)), problem)
