"""Workbooks of every format: which sheet holds a table, and its rows.

A row keeps what its sender sees: text unchanged, numbers with all digits, dates as dates, errors and formulas without a value as
such. Hidden sheets are skipped unless a mapping names them. Hidden rows and columns are read unless the mapping ignores them, and
reported.
"""

from collections.abc import Container, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.encoding import refused
from loadsheet.reading.header import NO_HEADER, TOP_ROWS, Header, check_header, closeness, find_header, fold
from loadsheet.reading.layouts import Bounds, Layout
from loadsheet.reading.stray_rows import mark_stray_rows
from loadsheet.reading.tables import CONTROL, Frame, Row, Table, Top, is_blank, with_line_feeds
from loadsheet.reading.workbook_values import NO_ROWS, Book, Cells, Dense, Sheet, Spans, Traits

HIDDEN = "hidden_rows: ignore"
"""The rule by which a hidden row is ignored."""

_DONE = {"read": "read", "ignore": "ignored"}


def open_workbook(book: Book, layouts: Sequence[Layout], bounds: Bounds) -> dict[str, Table]:
    """The tables of a workbook, one for each layout by its name. The sheets that hold them are read to their ends once, so that
    damage is found before a row is used. Raises FileRefused, also where no sheet is named and several hold the table.
    """
    bodies = [(_find_table(book, layout, bounds), layout) for layout in layouts]
    chosen = {body.sheet.key for body, _ in bodies}
    for body, _ in bodies:
        _refuse_ambiguous_sheets(body, bounds, chosen)
    traits = {sheet.key: book.verify(sheet.key) for sheet in {body.sheet for body, _ in bodies}}
    return {layout.name: _table(body, traits[body.sheet.key]) for body, layout in bodies}


def workbook_tops(book: Book) -> list[Top]:
    """The first rows of every visible sheet. Raises FileRefused."""
    tops = []
    for sheet in (sheet for sheet in book.sheets if not sheet.hidden):
        with closing(book.rows_of(sheet)) as rows:
            first = tuple((number, tuple(_spread(cells))) for number, cells in islice(rows, TOP_ROWS))
        tops.append(Top(sheet.title, tuple(row for row in first if not is_blank(row[1]))))
    return tops


def _find_table(book: Book, layout: Layout, bounds: Bounds) -> "_Body":
    candidates = _candidates(book, layout)
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
    frame = Frame(book.name, sheet.title, header.labels, bounds.cell_length_max)
    return _Body(book, sheet, layout, header, frame, bounds.blank_rows_max, above)


def _refuse_ambiguous_sheets(body: "_Body", bounds: Bounds, chosen: Container[str]) -> None:
    """Raises FileRefused if another sheet, of which no table is read, holds rows of this table too: it is unclear which is meant, and
    rows would be lost. Only the tops of sheets are compared.
    """
    book, layout = body.book, body.layout
    if layout.sheets or not any(column.required for column in layout.columns):
        return
    others = [sheet for sheet in _candidates(book, layout) if sheet.key not in chosen]
    also = [sheet.title for sheet in others if _holds_rows(body, sheet, bounds)]
    if also:
        titles = [sheet.title for sheet in book.sheets if sheet.title in (body.sheet.title, *also)]
        hint = "hide or delete the sheets that are not meant, or name the one that is in the mapping (sheet: ...)"
        raise FileRefused(Problem("R238", Where(book.name), "", {"sheets": ", ".join(titles)}, hint))


def _holds_rows(body: "_Body", sheet: Sheet, bounds: Bounds) -> bool:
    """Whether another sheet holds the table of this body too: a header like it, and a row of the table below it."""
    found = _header_of(body.book, sheet, body.layout)
    if not _are_same_table(found[0], body.header):
        return False
    rows = _body(body.book, sheet, body.layout, found, bounds).rows()
    return any(not row.ignored for row in islice(rows, TOP_ROWS))


def _are_same_table(other: Header, header: Header) -> bool:
    """Whether both are the header of one table. Where few columns are required, a page that explains the table or sums it up seems
    to have a header as well: it has to hold most of the columns that the table has, and of a single one all labels beside it.
    """
    if len(header.positions) == 1:
        return other.is_complete and set(map(fold, other.labels)) == set(map(fold, header.labels))
    return other.is_complete and 2 * len(other.positions) > len(header.positions)


def _table(body: "_Body", traits: Traits) -> Table:
    """The table of these rows on a sheet with these traits."""
    book, layout, header, row_filters = body.book, body.layout, body.header, body.layout.row_filters
    hidden = [sheet.title for sheet in book.sheets if sheet.hidden]
    notes = {
        "format": book.kind,
        "header row": header.row_range,
        "rows above the header": str(body.above),
        **book.notes,
        **({"hidden sheets": f"{len(hidden)} ({', '.join(hidden)})"} if hidden else {}),
        **traits.describe(_DONE[row_filters.hidden_rows], _DONE[row_filters.hidden_columns]),
    }
    if row_filters.hidden_rows == "ignore":
        body = replace(body, hidden=traits.hidden_rows)
    title = body.sheet.title
    return Table(layout.name, book.name, title, header.labels, header.row, header.columns, body.rows, notes)


def _candidates(book: Book, layout: Layout) -> list[Sheet]:
    """The sheets a table can stand on: the first named one that exists, else all visible ones."""
    for wanted in layout.sheets:
        same = [sheet for sheet in book.sheets if sheet.title == wanted]
        if found := same or [sheet for sheet in book.sheets if fold(sheet.title) == fold(wanted)]:
            return found[:1]
    visible = [sheet for sheet in book.sheets if not sheet.hidden]
    if layout.sheets:
        sheets = ", ".join(sheet.title + (" (hidden)" if sheet.hidden else "") for sheet in book.sheets)
        values = {"expected": " or ".join(layout.sheets), "sheets": sheets}
        raise FileRefused(Problem("R210", Where(book.name), "", values, "rename the sheet, or name it in the mapping"))
    if not visible:
        hint = "unhide the sheet that holds the table, or name it in the mapping (sheet: ...)"
        titles = ", ".join(sheet.title for sheet in book.sheets)
        raise refused(book.name, f"all its sheets are hidden: {titles}", hint)
    return visible


def _header_of(book: Book, sheet: Sheet, layout: Layout) -> tuple[Header, int]:
    """The header of a sheet, or what comes closest, and how many rows stand above it. What stands over columns that are not read
    is no label; their cells keep their places.
    """
    seen: list[int] = []
    hidden = set(book.verify(sheet.key).hidden_columns) if layout.row_filters.hidden_columns == "ignore" else set()
    with closing(book.rows_of(sheet)) as rows:

        def spread() -> Iterator[tuple[int, list[str]]]:
            for number, cells in rows:
                seen.append(number)
                values = _spread(cells)
                yield (
                    number,
                    ["" if place in hidden else value for place, value in enumerate(values)] if hidden else values,
                )

        header = find_header(spread(), layout)
    if hidden:
        header = replace(header, labels=header.labels + ("",) * (max(hidden) + 1 - len(header.labels)))
    return header, sum(number < header.top for number in seen)


def _are_blank(cells: Cells | Dense) -> bool:
    """Whether the cells hold only white space. The first cell decides for most rows."""
    if isinstance(cells, Dense):
        return is_blank(cells)
    for _, value in cells:  # noqa: SIM110 (called for every row, and a generator costs more)
        if value and not value.isspace():
            return False
    return True


def _spread(cells: Cells | Dense) -> list[str]:
    """The cells of a row in their places, blanks between."""
    if isinstance(cells, Dense):
        return list(cells[: max(position for position, value in enumerate(cells) if value) + 1])
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
    frame: Frame
    blank_rows_max: int
    above: int
    hidden: Spans = NO_ROWS

    def rows(self) -> Iterator[Row]:
        """The rows, read again from the start. Raises FileRefused if a cell has no valid position, or the file cannot be read."""
        return mark_stray_rows(self._rows(), self.layout, self.header)

    def _rows(self) -> Iterator[Row | None]:
        """The rows, None where blank ones are left out."""
        last = header_row = self.header.row  # the last row that was not blank
        hidden = self.hidden or ()
        with closing(self.book.rows_of(self.sheet)) as rows:
            for number, cells in rows:
                if number <= header_row or _are_blank(cells):
                    continue
                if number - last - 1 > self.blank_rows_max:
                    yield self._far_below(number, cells, number - last - 1)
                    return
                if number > last + 1:
                    yield None
                last = max(last, number)
                row = self._row(number, cells)
                yield Row(number, row.cells, None, HIDDEN) if number in hidden else row

    def _row(self, number: int, cells: Cells | Dense) -> Row:
        frame, width = self.frame, len(self.frame.header)
        values: Sequence[str] = cells if isinstance(cells, Dense) and len(cells) == width else _spread(cells)
        if len(values) != width:
            if not is_blank(values[width:]):  # cells to the right of the header
                return frame.ragged(number, values)
            values = frame.fit_width(values)
        together = "".join(values)
        if "\r" in together:
            values = with_line_feeds(values)
        doubtful = len(together) > frame.cell_length_max or CONTROL.search(together)
        return Row(number, tuple(values), frame.find_damage(number, values) if doubtful else None)

    def _far_below(self, number: int, cells: Cells | Dense, blank: int) -> Row:
        hint = "delete the blank rows or what stands below them, or raise blank_rows_max"
        problem = Problem("R214", self.frame.where(number), "", {"blank": blank}, hint)
        return Row(number, self.frame.fit_width(_spread(cells)), problem)
