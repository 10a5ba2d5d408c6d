"""A worksheet that is read like a page: lines of text, headed sections, and small tables, written from top to bottom."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from loadsheet.reports.sheets import Book, Column, Formula, Kind, Tone, Value, begin_table, end_table, write

_SECTION: dict[str, Any] = {"font_size": 12, "bold": True, "font_color": "#243B53", "valign": "vcenter", "indent": 0}
_TOTAL: dict[str, Any] = {"bold": True, "top": 1, "top_color": "#243B53"}
_LINES_PRINTED = 62
_HEAD_HEIGHT, _SECTION_HEIGHT = 30, 26


class Cell(NamedTuple):
    """A value with its tone, and its kind where it is not that of its column."""

    value: Value | Formula
    tone: Tone = Tone.PLAIN
    kind: Kind | None = None


class Page:
    """Writes one sheet; `widths` are those of its columns, which all its tables share."""

    def __init__(self, book: Book, title: str, widths: Sequence[float]) -> None:
        self._book, self._widths = book, widths
        self.book, self.title = book, title
        self.sheet = self._sheet = book.sheet(title)
        self.row = 0
        for position, width in enumerate(widths):
            self._sheet.set_column(position, position, width)

    def finish(self) -> None:
        """Print on one sheet of paper what may be read on one."""
        if self.row <= _LINES_PRINTED:
            self._sheet.fit_to_pages(1, 1)

    def line(
        self, text: str, tone: Tone = Tone.PLAIN, *, band: bool = False, height: float | None = None, **style: Any
    ) -> None:
        """A line of text; a `band` colours it across the page."""
        if height is not None:
            self._sheet.set_row(self.row, height)
        shape = self._book.style(Kind.TEXT, tone, line=False, **style)
        write(self._sheet, self.row, 0, text, shape)
        self._fill(1 if band else len(self._widths), shape)
        self.row += 1

    def leave(self, lines: int) -> None:
        """Leave lines empty, for a chart to stand there."""
        self.row += lines

    def section(self, title: str) -> None:
        """An empty line and a heading."""
        self.row += 1
        self.line(title, height=_SECTION_HEIGHT, **_SECTION)

    def table(self, name: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
        """A table from here on. A text in its last column may run on to the right edge of the page."""
        table = begin_table(self._book, self._sheet, self.row, columns, name, filters=False)
        self._sheet.set_row(self.row, _HEAD_HEIGHT)
        self._fill(len(columns), self._book.head_style(Kind.TEXT))
        start = self.row
        for cells in rows or [[Cell("none", Tone.MUTED)]]:
            self.row += 1
            self._cells(columns, cells)
        end_table(table, start, self.row, len(columns))
        self.row += 1

    def total(self, columns: Sequence[Column], cells: Sequence[Cell]) -> None:
        """A line of totals below a table."""
        self._cells(columns, cells, **_TOTAL)
        self.row += 1

    def _cells(self, columns: Sequence[Column], cells: Sequence[Cell], **style: Any) -> None:
        for position, column in enumerate(columns):
            cell = cells[position] if position < len(cells) else Cell(None)
            shape = self._book.style(cell.kind or column.kind, cell.tone, **style)
            write(self._sheet, self.row, position, cell.value, shape)
        self._fill(len(columns), self._book.style(**style))

    def _fill(self, first: int, style: Any) -> None:
        for position in range(first, len(self._widths)):
            write(self._sheet, self.row, position, None, style)
