"""Workbooks of every format: finds the sheet of a table, and its rows. Each format (`xlsx`, `xlsb`, `xls`, `ods`) makes a `Book`.

Rows keep the sender's values: text unchanged, numbers with all digits, dates as dates, and errors and formulas without a value as
such. Hidden sheets are skipped unless a mapping names them. Hidden rows and columns are reported, and read unless the mapping
ignores them.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where, column_letters
from loadsheet.reading.header import (
    NO_HEADER,
    TOP_ROWS,
    Header,
    check_header,
    closeness,
    find_header,
    fold_label,
)
from loadsheet.reading.refusals import file_refusal
from loadsheet.reading.row_filters import mark_stray_rows
from loadsheet.reading.tables import (
    ALIKE_NOT_READ,
    CONTROL,
    HIDDEN_READ,
    NOT_READ,
    STRUCK_OUT,
    WITHOUT_ROWS,
    Bounds,
    Layout,
    Native,
    Row,
    RowChecks,
    Table,
    Top,
    is_blank,
    with_line_feeds,
)
from loadsheet.workbook_marks import ANY_TEXT, table_on_sheet

HIDDEN = "hidden_rows: ignore"
"""The rule that ignores hidden rows."""
ONLY_BESIDE = "cells beside the table"
"""The rule that ignores rows without a cell below a heading."""

_ROWS_LISTED = 20
_TREATMENT = {None: "read", "read": "read", "ignore": "ignored"}


Cells = list[tuple[int, str]]
"""The non-empty cells of a row: position from 0, value."""

Rows = Generator[tuple[int, Cells], None, None]
"""The non-empty rows of a sheet: number from 1, cells."""

ROWS_MAX, COLUMNS_MAX = 1_048_576, 16_384
"""The last row and column of current spreadsheet programs; a cell beyond them means damage."""


class Sheet(NamedTuple):
    """A worksheet: its name, the format's key for it, and whether it is hidden."""

    title: str
    key: str
    hidden: bool


class RowRanges:
    """A set of row numbers, stored as ranges, because they are mostly consecutive."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Add the rows from first to last; ranges must be added in ascending order."""
        if self._lasts and first == self._lasts[-1] + 1:
            self._lasts[-1] = last
        else:
            self._firsts.append(first)
            self._lasts.append(last)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(
            range(first, last + 1) for first, last in zip(self._firsts, self._lasts, strict=True)
        )

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in zip(self._firsts, self._lasts, strict=True))


NO_ROWS = RowRanges()

_ONE_OF_THEM = "open the file in the program it comes from, check the values, save it and send it again"
_SILENT = "if they should show something, open the file in Excel, save it and send it again"


@dataclass(frozen=True, slots=True)
class SheetTraits:
    """The traits of a sheet besides its cells. `hidden_rows` are numbers from 1 of rows with values, `hidden_columns` positions from 0, `filtered` is the
    range of a filter. `empty_text_formulas` counts formulas with an empty text as value, where the format cannot distinguish that from no value.
    `struck_rows` are numbers of rows that are struck out.
    """

    merged: int = 0
    hidden_rows: RowRanges = NO_ROWS
    hidden_columns: tuple[int, ...] = ()
    filtered: str = ""
    empty_text_formulas: int = 0
    struck_rows: tuple[int, ...] = ()

    def describe(self, rows: str, columns_are: str) -> dict[str, str]:
        """The traits in words, for `Table.reading_notes`, with the treatment of hidden rows and columns; only traits that the sheet has."""
        columns = self.hidden_columns
        letters = ", ".join(column_letters(position) for position in columns[:20]) + (", ..." if columns[20:] else "")
        return {
            **({"merged cells": f"{self.merged:,} (the value is in the first cell only)"} if self.merged else {}),
            **({"hidden rows": f"{len(self.hidden_rows):,} ({rows})"} if self.hidden_rows else {}),
            **({"hidden columns": f"{len(columns):,} ({columns_are}): {letters}"} if columns else {}),
            **({"filter": f"{self.filtered} (all rows are read)"} if self.filtered else {}),
            **(
                {"formulas that show nothing": f"{self.empty_text_formulas:,} ({_SILENT})"}
                if self.empty_text_formulas
                else {}
            ),
        }


@dataclass(frozen=True, slots=True)
class Book:
    """A workbook that is open for reading. `name` is the file's name for problems, `kind` its format in words, `notes` are for the
    reports.

    `rows(key)` reads a sheet on each call, streaming if the format allows it. `read_traits(key)` reads a sheet completely, so that
    damage is found before a row is used. Both raise FileRefused.
    """

    name: str
    kind: str
    sheets: tuple[Sheet, ...]
    notes: dict[str, str]
    rows: Callable[[str], Rows]
    read_traits: Callable[[str], SheetTraits]

    def rows_of(self, sheet: Sheet) -> Rows:
        """The rows of a sheet in file order. Raises FileRefused, also at the first row or cell that occurs twice."""
        seen, disordered, last = RowRanges(), set[int](), 0
        with closing(self.rows(sheet.key)) as rows:
            for number, cells in rows:
                if number > last:
                    seen.add(number, number)
                    last = number
                elif number in seen or number in disordered:
                    raise self._repeated(sheet, number, f"row {number}")
                else:
                    disordered.add(number)
                if len(cells) > len(dict(cells)):
                    times = Counter(position for position, _ in cells)
                    cell = f"{column_letters(times.most_common(1)[0][0])}{number}"
                    raise self._repeated(sheet, number, f"the cell {cell}", cell)
                yield number, cells

    def _repeated(self, sheet: Sheet, number: int, what: str, cell: str = "") -> FileRefused:
        where = Where(self.name, sheet.title, number, cell=cell)
        return FileRefused(Problem("R240", where, "", {"what": what, "sheet": sheet.title}, _ONE_OF_THEM))


def open_workbook(book: Book, layouts: Sequence[Layout], bounds: Bounds) -> dict[str, Table]:
    """The tables of a workbook by layout name. Their sheets are read completely once, so that damage is found before a row is used.
    Raises FileRefused, also if no sheet is named and several hold the table.
    """
    found = [_find_tables(book, layout, bounds) for layout in layouts]
    chosen = {body.sheet.key for bodies in found for body in bodies}
    unread = [
        sheet for sheet in book.sheets if not sheet.hidden and sheet.key not in chosen and _has_cells(book, sheet)
    ]
    aside = [_sheets_aside(bodies, unread, bounds) for bodies in found]
    traits = {sheet.key: book.read_traits(sheet.key) for sheet in {body.sheet for bodies in found for body in bodies}}
    tables: dict[str, Table] = {}
    for bodies, others in zip(found, aside, strict=True):
        blank = others.get(WITHOUT_ROWS, ())
        filled = [body for body in bodies if body.sheet not in blank] or bodies[:1]
        for body in filled:
            table = _table(body, traits[body.sheet.key], others if body is filled[0] else {})
            if table.name in tables:
                raise file_refusal(book.name, f"two of its sheets are named {table.sheet}", _ONE_OF_THEM)
            tables[table.name] = table
    return tables


def workbook_tops(book: Book) -> list[Top]:
    """The first rows of every visible sheet. Raises FileRefused."""
    tops = []
    for sheet in (sheet for sheet in book.sheets if not sheet.hidden):
        with closing(book.rows_of(sheet)) as rows:
            first = tuple((number, tuple(_in_places(cells))) for number, cells in islice(rows, TOP_ROWS))
        tops.append(Top(sheet.title, tuple(row for row in first if not is_blank(row[1]))))
    return tops


def _find_tables(book: Book, layout: Layout, bounds: Bounds) -> list["_Body"]:
    """The table; on several sheets if the mapping names them with a star."""
    candidates = _candidates(book, layout)
    if not layout.reads_several_sheets:
        return [_find_table(book, layout, candidates, bounds)]
    headers = [_header_of(book, sheet, layout) for sheet in candidates]
    best = max((header for header, _ in headers), key=closeness)
    if not best.is_complete:
        return [_find_table(book, layout, candidates, bounds)]
    bodies = []
    for sheet, found in zip(candidates, headers, strict=True):
        if _are_same_table(found[0], best):
            check_header(found[0], layout, Where(book.name, sheet.title), bounds.columns_max)
            bodies.append(_body(book, sheet, layout, found, bounds))
    return bodies


def _find_table(book: Book, layout: Layout, candidates: Sequence[Sheet], bounds: Bounds) -> "_Body":
    sheet, header, above = candidates[0], NO_HEADER, 0
    for candidate in candidates:
        found, rows_above = _header_of(book, candidate, layout)
        if not header.row or closeness(found) > closeness(header):
            sheet, header, above = candidate, found, rows_above
        if header.is_complete:
            break
    where = Where(book.name, sheet.title)
    if not header.row and layout.header_row == "auto":
        raise FileRefused(Problem("R202", where, hint="send the file with its rows"))
    check_header(header, layout, where, bounds.columns_max, [candidate.title for candidate in candidates])
    return _body(book, sheet, layout, (header, above), bounds)


def _body(book: Book, sheet: Sheet, layout: Layout, found: tuple[Header, int], bounds: Bounds) -> "_Body":
    header, above = found
    checks = RowChecks(book.name, sheet.title, header.labels, bounds.cell_length_max)
    return _Body(book, sheet, layout, header, checks, bounds.blank_rows_max, above)


def _sheets_aside(bodies: Sequence["_Body"], unread: list[Sheet], bounds: Bounds) -> dict[str, list[Sheet]]:
    """The visible and the hidden sheets that are not read, by what they are. Raises FileRefused if they hold rows of this table too, and
    the mapping names no sheet: these rows would be lost.
    """
    body = max(bodies, key=lambda one: closeness(one.header))
    book, layout = body.book, body.layout
    alike = [sheet for sheet in unread if _holds_rows(body, sheet, bounds)]
    if alike and not layout.sheets:
        titles = [sheet.title for sheet in book.sheets if sheet.title == body.sheet.title or sheet in alike]
        hint = (
            "hide or delete the sheets that are not meant, or name the one that is in the mapping (sheet: ...); if all are, "
            'have the mapping read all (sheet: "*")'
        )
        raise FileRefused(Problem("R238", Where(book.name), "", {"sheets": ", ".join(titles)}, hint))
    hidden = [sheet for sheet in book.sheets if sheet.hidden]
    blank = [one.sheet for one in bodies if not any(True for _ in one.rows())] if layout.reads_several_sheets else []
    return {"hidden sheets": hidden, NOT_READ: unread, ALIKE_NOT_READ: alike, WITHOUT_ROWS: blank}


def _has_cells(book: Book, sheet: Sheet) -> bool:
    try:
        with closing(book.rows_of(sheet)) as rows:
            return any(not is_blank(_in_places(cells)) for _, cells in islice(rows, TOP_ROWS))
    except FileRefused:  # damaged: it is not blank
        return True


def _holds_rows(body: "_Body", sheet: Sheet, bounds: Bounds) -> bool:
    """Whether another sheet also holds this table: a similar header with a row below it. Only its first rows are compared. If the mapping
    reads several sheets, the header may lack a required column. Raises FileRefused for a damaged sheet, unless the mapping names the
    sheets to read.
    """
    if not any(column.required for column in body.layout.columns):
        return False
    try:
        found = _header_of(body.book, sheet, body.layout)
        is_near = body.layout.reads_several_sheets and _has_most_columns(found[0], body.header)
        if not is_near and not _are_same_table(found[0], body.header):
            return False
        rows = _body(body.book, sheet, body.layout, found, bounds).rows()
        return any(not row.ignored for row in islice(rows, TOP_ROWS))
    except FileRefused:
        if body.layout.sheets:
            return False
        raise


def _are_same_table(other: Header, header: Header) -> bool:
    """Whether both are headers of the same table. If few columns are required, a page that explains or sums up the table can seem to
    have a header. So the other header must hold most of the table's columns, or for a single column have the same labels.
    """
    if len(header.positions) == 1:
        return other.is_complete and set(map(fold_label, other.labels)) == set(map(fold_label, header.labels))
    return other.is_complete and _has_most_columns(other, header)


def _has_most_columns(other: Header, header: Header) -> bool:
    return 2 * len(other.positions) > len(header.positions)


def _table(body: "_Body", traits: SheetTraits, aside: Mapping[str, Sequence[Sheet]]) -> Table:
    """The table of these rows on a sheet with these traits. `aside` are the sheets that are not read, by what they are."""
    book, layout, header, row_filters = body.book, body.layout, body.header, body.layout.row_filters
    notes = {
        "format": book.kind,
        "header row": header.row_range,
        "rows above the header": str(body.above),
        **book.notes,
        **{name: f"{len(of)} ({', '.join(sheet.title for sheet in of)})" for name, of in aside.items() if of},
        **_numbers_below(header, STRUCK_OUT, traits.struck_rows),
        **(_numbers_below(header, HIDDEN_READ, traits.hidden_rows) if row_filters.hidden_rows is None else {}),
        **traits.describe(_TREATMENT[row_filters.hidden_rows], _TREATMENT[row_filters.hidden_columns]),
    }
    if row_filters.hidden_rows == "ignore":
        body = replace(body, hidden=traits.hidden_rows)
    title = body.sheet.title
    name = table_on_sheet(layout.name, title) if layout.reads_several_sheets else layout.name
    return Table(name, book.name, title, header.labels, header.row, header.columns, body.rows, notes)


def _numbers_below(header: Header, note: str, numbers: Iterable[int]) -> dict[str, str]:
    """The note that names the first of these rows below the header, if there are any."""
    rows = list(islice((str(number) for number in numbers if number > header.row), _ROWS_LISTED + 1))
    return {note: ", ".join(rows[:_ROWS_LISTED]) + (", ..." if rows[_ROWS_LISTED:] else "")} if rows else {}


def _candidates(book: Book, layout: Layout) -> list[Sheet]:
    """The sheets that can hold a table: the first named one that exists, or all visible ones that fit a name with a star, else all visible
    ones.
    """
    for wanted in layout.sheets:
        if ANY_TEXT in wanted:
            fits = re.compile(".*".join(map(re.escape, wanted.casefold().split(ANY_TEXT)))).fullmatch
            if fitting := [sheet for sheet in book.sheets if not sheet.hidden and fits(sheet.title.casefold())]:
                return fitting
            continue
        same = [sheet for sheet in book.sheets if sheet.title == wanted]
        if found := same or [sheet for sheet in book.sheets if fold_label(sheet.title) == fold_label(wanted)]:
            return found[:1]
    visible = [sheet for sheet in book.sheets if not sheet.hidden]
    if layout.sheets:
        sheets = ", ".join(sheet.title + (" (hidden)" if sheet.hidden else "") for sheet in book.sheets)
        values = {"expected": " or ".join(layout.sheets), "sheets": sheets}
        raise FileRefused(Problem("R210", Where(book.name), "", values, "rename the sheet, or name it in the mapping"))
    if not visible:
        hint = "unhide the sheet that holds the table, or name it in the mapping (sheet: ...)"
        titles = ", ".join(sheet.title for sheet in book.sheets)
        raise file_refusal(book.name, f"all its sheets are hidden: {titles}", hint)
    return visible


def _header_of(book: Book, sheet: Sheet, layout: Layout) -> tuple[Header, int]:
    """The header of a sheet, or the closest row, and the number of rows above it. Labels of ignored columns do not count; their
    cells keep their positions.
    """
    seen: list[int] = []
    hidden = set(book.read_traits(sheet.key).hidden_columns) if layout.row_filters.hidden_columns == "ignore" else set()
    with closing(book.rows_of(sheet)) as rows:

        def spread() -> Iterator[tuple[int, list[str]]]:
            for number, cells in rows:
                seen.append(number)
                values = _in_places(cells)
                yield (
                    number,
                    ["" if place in hidden else value for place, value in enumerate(values)] if hidden else values,
                )

        header = find_header(spread(), layout)
    if hidden:
        header = replace(header, labels=header.labels + ("",) * (max(hidden) + 1 - len(header.labels)))
    return header, sum(number < header.top for number in seen)


def _are_blank(cells: Cells) -> bool:
    """Whether the cells hold only white space. The first cell decides for most rows."""
    for _, value in cells:  # noqa: SIM110 (called for every row, and a generator costs more)
        if value and not value.isspace():
            return False
    return True


def _shown(cell: str) -> str:
    return cell.without_currency if isinstance(cell, Native) else cell


def _in_places(cells: Cells) -> list[str]:
    """The cells of a row in their places, blanks between."""
    values = [""] * (max(position for position, _ in cells) + 1)
    for position, value in cells:
        values[position] = value
    return values


@dataclass(frozen=True, slots=True)
class _Body:
    """The rows under the header of a sheet."""

    book: Book
    sheet: Sheet
    layout: Layout
    header: Header
    checks: RowChecks
    blank_rows_max: int
    above: int
    hidden: RowRanges = NO_ROWS

    def rows(self) -> Iterator[Row]:
        """The rows, read from the start on each call. Raises FileRefused if a cell has an invalid position or the file is unreadable."""
        return mark_stray_rows(self._rows(), self.layout, self.header, self.checks.where)

    def _rows(self) -> Iterator[Row | None]:
        """The rows, None in place of blank rows."""
        last = header_row = self.header.row  # the last row that was not blank
        hidden = self.hidden or ()
        with closing(self.book.rows_of(self.sheet)) as rows:
            for number, cells in rows:
                if number <= header_row or _are_blank(cells):
                    continue
                if number - last - 1 > self.blank_rows_max:
                    yield self._row_far_below(number, cells, number - last - 1)
                    return
                row = self._row(number, cells)
                if number > last + 1 or row.ignored == ONLY_BESIDE:
                    yield None
                last = max(last, number)
                yield Row(number, row.cells, None, HIDDEN) if number in hidden else row

    def _row(self, number: int, cells: Cells) -> Row:
        checks, width = self.checks, len(self.checks.header)
        values: Sequence[str] = _in_places(cells)
        beside = None
        if len(values) != width:
            if not is_blank(values[width : width + 1]):  # right of the last heading: the row may be shifted
                return checks.ragged(number, values)
            beside = next(((place, _shown(text)) for place, text in cells if place > width and text.strip()), None)
            values = checks.fit_width(values)
            if beside is not None and is_blank(values):
                return Row(number, tuple(values), None, ONLY_BESIDE, beside)
        together = "".join(values)
        if "\r" in together:
            values = with_line_feeds(values)
        needs_check = len(together) > checks.cell_length_max or CONTROL.search(together)
        damage = checks.find_damage(number, values) if needs_check else None
        return Row(number, tuple(values), damage, beside=beside)

    def _row_far_below(self, number: int, cells: Cells, blank: int) -> Row:
        hint = "delete the blank rows or what stands below them, or raise reading.blank_rows_max"
        problem = Problem("R214", self.checks.where(number), "", {"blank": blank}, hint)
        return Row(number, self.checks.fit_width(_in_places(cells)), problem)
