"""Worksheets for analysts: real tables that stream (`TableSheet`), and pages of lines and small tables (`Page`).

Owns column widths, freezing, print areas, and the limits of a sheet. Does not know what the rows mean.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from xlsxwriter.utility import xl_range, xl_range_abs  # type: ignore[import-untyped]  # as in `book`

from loadsheet.reports.book import Book, Kind, Tone
from loadsheet.reports.report_files import csv_text, placed, sheet_text

ROWS_MAX = 1_048_576
_LINE_HEIGHT, _LINES_MAX = 13, 12
_PADDING = 3
_CHOICES_MAX = 255  # characters of a list within a validation rule; spreadsheets silently drop a longer one
Value = str | int | float | Decimal | datetime | None


class Column(NamedTuple):
    """A column: its heading, kind, minimum and maximum width in characters, and whether long texts wrap.

    Columns that are not `printed` come last. `choices` fill a drop-down; other values are allowed unless it is
    `strict`. Numbers above a limit in `warns` are coloured; the highest limit comes first.
    """

    head: str
    kind: Kind = Kind.TEXT
    width: int = 8
    width_max: int = 48
    wrap: bool = False
    hidden: bool = False
    printed: bool = True
    choices: tuple[str, ...] = ()
    strict: bool = False
    warns: tuple[tuple[float, Tone], ...] = ()


class Formula(NamedTuple):
    """A live formula and its stored result, for readers that do not calculate."""

    text: str
    result: float | str


class TableSheet:
    """A sheet that is one table: heading frozen, filters on. Rows stream in; rows that do not fit go to a CSV file.

    `count` is the number of rows, `kept` how many of them the sheet holds, `frozen` the number of frozen columns.
    """

    def __init__(
        self,
        book: Book,
        title: str,
        columns: Sequence[Column],
        *,
        overflow: Path,
        frozen: int = 1,
    ) -> None:
        self._book, self._columns, self._overflow = book, columns, overflow
        self.title, self._frozen = title, frozen
        self._digest = hashlib.sha256()
        self._sheet = book.sheet(title)
        self._table = begin_table(book, self._sheet, 0, columns, f"tbl{title.title().replace(' ', '')}")
        self._sheet.set_row(0, 30)
        self._row = 0
        self._widths = [max(column.width, len(column.head) * 3 // 4 + 4) for column in columns]
        self._styles: dict[tuple[int, Tone], Any] = {}
        self._wrapping = [position for position, column in enumerate(columns) if column.wrap]
        self._more: _Overflow | None = None

    def add(self, values: Sequence[Value], tones: Mapping[int, Tone] | None = None) -> None:
        """Write a row; `tones` are the tones of single cells by position."""
        self._row += 1
        joined = "\x1f".join(
            [value if isinstance(value, str) else "" if value is None else str(value) for value in values]
        )
        self._digest.update(f"{joined}\n".encode("utf-8", "surrogatepass"))
        if self._row >= ROWS_MAX:
            self._spill(values)
            return
        lines = max([self._lines(position, values[position]) for position in self._wrapping], default=1)
        # not every spreadsheet program adjusts row heights by itself
        if lines > 1:
            self._sheet.set_row(self._row, lines * _LINE_HEIGHT + 2)
        widths, styles = self._widths, self._styles
        for position, value in enumerate(values):
            if isinstance(value, str) and len(value) > widths[position]:
                widths[position] = len(value)
            look = (position, tones.get(position, Tone.PLAIN) if tones else Tone.PLAIN)
            if look not in styles:
                styles[look] = self._style(*look)
            write(self._sheet, self._row, position, value, styles[look])

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._row

    @property
    def kept(self) -> int:
        """The number of rows in the sheet."""
        return min(self._row, ROWS_MAX - 1)

    @property
    def sha256(self) -> str:
        """The SHA-256 (hex) of all rows: values as texts (empty for none), US (1F) between them, LF after each row."""
        return self._digest.hexdigest()

    def column(self, head: str) -> str:
        """The cells of a column, for formulas on other sheets."""
        position = [column.head for column in self._columns].index(head)
        return f"'{self.title}'!{xl_range_abs(1, position, max(1, self.kept), position)}"

    def finish(self, nothing: str) -> str:
        """Close the table; `nothing` is the text of an empty one. Returns the name of the CSV file with further rows, if any."""
        if not self._row:
            write(self._sheet, 1, 0, nothing, self._book.style(tone=Tone.MUTED, line=False))
        last = max(1, self.kept)
        end_table(self._table, 0, last, len(self._columns))
        for position, column in enumerate(self._columns):
            self._shape(position, column, last)
        self._sheet.freeze_panes(1, self._frozen)
        self._sheet.repeat_rows(0)
        printed = sum(column.printed for column in self._columns)
        if printed < len(self._columns):
            self._sheet.print_area(0, 0, last, printed - 1)
        self._sheet.ignore_errors({"number_stored_as_text": xl_range(1, 0, last, len(self._columns) - 1)})
        return self._more.name if self._more else ""

    def _shape(self, position: int, column: Column, last: int) -> None:
        width = min(self._widths[position], column.width_max) + _PADDING
        self._sheet.set_column(position, position, width, None, {"hidden": 1} if column.hidden else {})
        place = (1, position, last, position)
        if column.choices:
            rule = {"validate": "list", "source": list(_offered(column.choices)), "show_error": column.strict}
            self._sheet.data_validation(*place, rule)
        for limit, tone in column.warns:
            above = {"type": "cell", "criteria": ">", "value": limit, "format": self._book.tint(tone)}
            self._sheet.conditional_format(*place, {**above, "stop_if_true": True})

    def _style(self, position: int, tone: Tone) -> Any:
        column = self._columns[position]
        return self._book.style(column.kind, tone, wrap=column.wrap)

    def _lines(self, position: int, value: Value) -> int:
        width, text = self._columns[position].width_max, str(value)
        if len(text) <= width and "\n" not in text:
            return 1
        return min(_LINES_MAX, sum(1 + len(line) * 5 // (6 * width) for line in text.split("\n")))

    def _spill(self, values: Sequence[Value]) -> None:
        if self._more is None:
            self._more = _Overflow(self._overflow, self._columns, self._book.stack)
        self._more.add(values)


def begin_table(
    book: Book, sheet: Any, row: int, columns: Sequence[Column], name: str, **options: Any
) -> dict[str, Any]:
    """Begin a table at a row of a sheet and write its headings. `end_table` sets its length. `options` are XlsxWriter's.

    XlsxWriter refuses tables in constant memory because it would have to write their rows itself. We write them, so
    XlsxWriter gets a table of one row, and the range is corrected at the end.
    """
    heads = [{"header": column.head} for column in columns]
    sheet.constant_memory = False
    sheet.add_table(row, 0, row + 1, len(columns) - 1, {"name": name, "style": None, "columns": heads, **options})
    sheet.constant_memory = True
    styles = {kind: book.head_style(kind) for kind in {column.kind for column in columns}}
    for position, column in enumerate(columns):
        sheet.write_string(row, position, column.head, styles[column.kind])
    table: dict[str, Any] = sheet.tables[-1]
    return table


def end_table(table: dict[str, Any], first: int, last: int, columns: int) -> None:
    """Set the range of a table that was begun at row `first` and ends at row `last`."""
    for name in ("range", "a_range", "autofilter"):
        if table.get(name):
            table[name] = xl_range(first, 0, last, columns - 1)


def write(sheet: Any, row: int, column: int, value: Value | Formula, style: Any) -> None:
    """Write a value in its own type: texts always as texts, numbers as numbers, times as times, None as an empty cell."""
    if isinstance(value, str):
        if value:
            sheet.write_string(row, column, sheet_text(value), style)
        else:
            sheet.write_blank(row, column, None, style)
    elif isinstance(value, Formula):
        sheet.write_formula(row, column, value.text, style, value.result)
    elif isinstance(value, datetime):
        sheet.write_datetime(row, column, value.replace(tzinfo=None), style)
    elif value is None:
        sheet.write_blank(row, column, None, style)
    else:
        sheet.write_number(row, column, float(value), style)


def _offered(choices: Sequence[str]) -> Iterator[str]:
    """The choices that fit into a rule; a choice with a comma would count as two."""
    room = _CHOICES_MAX
    for choice in choices:
        room -= len(choice) + 1
        if room < 0:
            return
        if "," not in choice and not choice.startswith("="):
            yield choice


class _Overflow:
    """The CSV file for rows that do not fit into a sheet. It appears together with the workbook."""

    def __init__(self, path: Path, columns: Sequence[Column], stack: ExitStack) -> None:
        self.name = path.name
        part = stack.enter_context(placed(path))
        file = stack.enter_context(part.open("w", encoding="utf-8-sig", newline=""))
        self._writer = csv.writer(file)
        self._writer.writerow([column.head for column in columns])

    def add(self, values: Sequence[Value]) -> None:
        self._writer.writerow([csv_text(value) if isinstance(value, str) else value for value in values])


_SECTION: dict[str, Any] = {"font_size": 12, "bold": True, "font_color": "#243B53", "valign": "vcenter", "indent": 0}
_TOTAL: dict[str, Any] = {"bold": True, "top": 1, "top_color": "#243B53"}
_LINES_ON_PAPER = 62
_HEAD_HEIGHT, _SECTION_HEIGHT = 30, 26


class Cell(NamedTuple):
    """A value with its tone, and its kind if that differs from its column's."""

    value: Value | Formula
    tone: Tone = Tone.PLAIN
    kind: Kind | None = None


class Page:
    """Writes one sheet; all its tables share the column `widths`."""

    def __init__(self, book: Book, title: str, widths: Sequence[float]) -> None:
        self.book, self.title, self._widths = book, title, widths
        self.sheet, self.row = book.sheet(title), 0
        for position, width in enumerate(widths):
            self.sheet.set_column(position, position, width)

    def finish(self) -> None:
        """Fit the page to one printed sheet if it stays readable."""
        if self.row <= _LINES_ON_PAPER:
            self.sheet.fit_to_pages(1, 1)

    def line(
        self, text: str, tone: Tone = Tone.PLAIN, *, band: bool = False, height: float | None = None, **style: Any
    ) -> None:
        """Write a line of text; a `band` colours it across the page."""
        if height is not None:
            self.sheet.set_row(self.row, height)
        shape = self.book.style(Kind.TEXT, tone, line=False, **style)
        write(self.sheet, self.row, 0, text, shape)
        self._fill(1 if band else len(self._widths), shape)
        self.row += 1

    def heading(self, text: str, height: float = 30, font_size: int = 14) -> None:
        """Write the title of the page."""
        self.line(text, height=height, font_size=font_size, bold=True, valign="vcenter", indent=0)

    def section(self, title: str) -> None:
        """Write an empty line and a heading."""
        self.row += 1
        self.line(title, height=_SECTION_HEIGHT, **_SECTION)

    def table(self, name: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
        """Write a table here. Text in its last column may extend to the right edge of the page."""
        table = begin_table(self.book, self.sheet, self.row, columns, name, autofilter=False)
        self.sheet.set_row(self.row, _HEAD_HEIGHT)
        self._fill(len(columns), self.book.head_style(Kind.TEXT))
        start = self.row
        for cells in rows or [[Cell("none", Tone.MUTED)]]:
            self.row += 1
            self._cells(columns, cells)
        end_table(table, start, self.row, len(columns))
        self.row += 1

    def total(self, columns: Sequence[Column], cells: Sequence[Cell]) -> None:
        """Write a line of totals below a table."""
        self._cells(columns, cells, **_TOTAL)
        self.row += 1

    def _cells(self, columns: Sequence[Column], cells: Sequence[Cell], **style: Any) -> None:
        shapes: dict[tuple[Kind, Tone], Any] = {}
        empty = Cell(None)
        for position, column in enumerate(columns):
            cell = cells[position] if position < len(cells) else empty
            look = (cell.kind or column.kind, cell.tone)
            if look not in shapes:
                shapes[look] = self.book.style(*look, **style)
            write(self.sheet, self.row, position, cell.value, shapes[look])
        self._fill(len(columns), self.book.style(**style))

    def _fill(self, first: int, style: Any) -> None:
        for position in range(first, len(self._widths)):
            self.sheet.write_blank(self.row, position, None, style)
