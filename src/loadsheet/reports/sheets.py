"""Workbooks for analysts, in one quiet style. A thin layer over XlsxWriter.

`Book` is a workbook in progress. It has real tables that stream (`TableSheet`), and pages of lines and small tables
(`Page`). Owns fonts, colours, number formats, column widths, freezing, print set-up and the limits of a sheet, and
writes the file atomically. Does not know what the rows mean. Memory stays flat: XlsxWriter keeps one row of each sheet
(constant memory).
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, time
from decimal import Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import xlsxwriter  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]  # as above
from xlsxwriter.utility import xl_range, xl_range_abs  # type: ignore[import-untyped]  # as above

from loadsheet.reports.report_files import FailingOnce, csv_row, sheet_text, written_atomically

CREATED = datetime(2000, 1, 1)  # noqa: DTZ001 (a workbook property without a zone, fixed so that equal reports are equal files)

_INK, _MUTED, _HAIR = "#1F2933", "#616E7C", "#D9E2EC"
_HEAD: dict[str, Any] = {"bg_color": "#243B53", "font_color": "#FFFFFF", "bold": True, "valign": "vcenter"}


class Tone(StrEnum):
    """The tone of a cell. A colour never stands alone: the text says the same."""

    PLAIN = "plain"
    MUTED = "muted"
    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    YOURS = "yours"
    LINK = "link"


class Kind(StrEnum):
    """The kind of values in a column, which decides how they are written and aligned."""

    TEXT = "text"
    NUMBER = "number"
    COUNT = "count"
    AMOUNT = "amount"
    MONEY = "money"
    SHARE = "share"
    MOMENT = "moment"
    DAY = "day"
    CHANGE = "change"


_TONES: dict[Tone, dict[str, Any]] = {
    Tone.PLAIN: {"font_color": _INK},
    Tone.MUTED: {"font_color": _MUTED},
    Tone.GOOD: {"font_color": "#14532D", "bg_color": "#E3F4E8"},
    Tone.NOTE: {"font_color": "#7A4F01", "bg_color": "#FEF3D6"},
    Tone.BAD: {"font_color": "#8A1C1C", "bg_color": "#FDE6E6", "bold": True},
    Tone.YOURS: {"font_color": _INK, "bg_color": "#FFFDF0"},
    Tone.LINK: {"font_color": "#1D5FA8", "underline": 1},
}
_KINDS: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: {"num_format": "@", "align": "left", "indent": 1},
    Kind.NUMBER: {"num_format": "General", "align": "right"},
    Kind.COUNT: {"num_format": "#,##0", "align": "right"},
    Kind.AMOUNT: {"num_format": "#,##0.000", "align": "right"},
    Kind.MONEY: {"num_format": "#,##0.00#", "align": "right"},
    Kind.SHARE: {"num_format": "0.0%"},
    Kind.MOMENT: {"num_format": "yyyy-mm-dd hh:mm:ss", "align": "left", "indent": 1},
    Kind.DAY: {"num_format": "yyyy-mm-dd", "align": "left", "indent": 1},
    Kind.CHANGE: {"num_format": "+#,##0;-#,##0;0"},
}

_PAPER_PT = (297 / 25.4 - 0.8) * 72  # A4 landscape between the margins
_READABLE, _SPLIT_SCALE = 0.6, 70  # the least scale of one page, and that of several in percent: 6 and 7 pt
_CHART_FONT = {"name": "Arial", "size": 9, "color": _MUTED}
_FONT = {"font_name": "Arial", "font_size": 10, "valign": "top"}


class Book:
    """A workbook in progress: add sheets and fill them from top to bottom. See `open_book`."""

    def __init__(self, workbook: Any, footer: str, stack: ExitStack) -> None:
        self.stack = stack
        self._workbook, self._footer = workbook, footer
        self.style = cache(self._new_style)
        """The format of a cell, by the words of `_new_style`. Equal formats are created once."""
        self.tint = cache(lambda tone: workbook.add_format(_TONES[tone]))
        """The format of a tone that a condition applies on top of a cell's own."""
        self.head_style = cache(self._new_head_style)
        """The format of a column heading, aligned like its cells, by the kind of the column."""

    def sheet(self, title: str) -> Any:
        """Add a worksheet: A4 landscape, one page wide, with the footer on every page."""
        sheet = self._workbook.add_worksheet(title)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.fit_to_pages(1, 0)
        sheet.center_horizontally()
        sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
        sheet.set_footer(f"&L&8{self._footer}&C&8&A&R&8&P / &N")
        sheet.hide_gridlines(2)
        return sheet

    def mark(self, name: str, value: str) -> None:
        """Add a custom property to the workbook; spreadsheet programs keep it on saving. At most 255 characters."""
        self._workbook.set_custom_property(name, value, "text")

    def _new_style(
        self, kind: Kind = Kind.TEXT, tone: Tone = Tone.PLAIN, *, wrap: bool = False, line: bool = True, **more: Any
    ) -> Any:
        under = {"bottom": 1, "bottom_color": _HAIR} if line else {}
        shape = {"text_wrap": True, "num_format": "General"} if wrap else {}
        return self._workbook.add_format({**_FONT, **_KINDS[kind], **_TONES[tone], **under, **shape, **more})

    def chart(self, kind: str, **more: Any) -> Any:
        """Create a chart of this kind in the workbook's style; sheets insert it."""
        chart = self._workbook.add_chart({"type": kind, **more})
        chart.set_legend({"position": "bottom", "font": _CHART_FONT})
        chart.set_chartarea({"border": {"color": _HAIR}})
        return chart

    def _new_head_style(self, kind: Kind) -> Any:
        align, indent = ("left", 1) if kind in (Kind.TEXT, Kind.MOMENT, Kind.DAY) else ("right", 0)
        return self._new_style(wrap=True, line=False, align=align, indent=indent, **_HEAD)


def fit_height(sheet: Any, row: int, lines: int) -> None:
    """Make a row high enough for this many lines of text. Not every spreadsheet program does so itself."""
    if lines > 1:
        sheet.set_row(row, min(lines, LINES_MAX) * _LINE_HEIGHT + 4)


def fit_paper(sheet: Any, widths: Iterable[float], first: int) -> None:
    """Print a sheet with these column widths, in characters, one page wide while that stays readable. A wider one goes over pages
    side by side, each with its columns from `first` to the second.
    """
    needed_pt = sum((7 * width + 5) * 0.75 for width in widths)
    if needed_pt * _READABLE > _PAPER_PT:
        sheet.set_print_scale(_SPLIT_SCALE)
        sheet.repeat_columns(first, 1)
        sheet.print_across()


@contextmanager
def open_book(path: Path, *, title: str, footer: str) -> Iterator[Book]:
    """Yield a workbook that appears at `path`, complete, if the block succeeds, and not at all otherwise."""
    with ExitStack() as stack:
        part = stack.enter_context(written_atomically(path))
        spool = stack.enter_context(tempfile.TemporaryDirectory(prefix="loadsheet-"))
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "tmpdir": spool}
        workbook = xlsxwriter.Workbook(str(part), options)
        workbook.set_properties({"title": title, "author": "loadsheet", "created": CREATED})
        stack.callback(_close_spools, workbook)
        yield Book(workbook, footer.replace("&", "&&"), stack)
        with part.open("wb") as file:
            workbook.filename = target = FailingOnce(file)
            try:
                workbook.close()
            except FileCreateError as error:
                raise OSError(str(error)) from error
            finally:
                target.end()


def _close_spools(workbook: Any) -> None:
    for sheet in workbook.worksheets():
        sheet.row_data_fh.close()


ROWS_MAX = 1_048_576
_LINE_HEIGHT = 13
LINES_MAX = 12
"""The most lines of a row or a note."""
_PADDING = 3
_CHOICES_MAX = 255  # characters of a list within a validation rule; spreadsheets silently drop a longer one
_LINKS_MAX = 65_530  # of one sheet
Value = str | int | float | Decimal | datetime | time | None


class Link(str):
    """A text that opens a file. `target` is a path relative to the workbook, percent-encoded, with a place in it after `#`."""

    __slots__ = ("target",)
    target: str

    @classmethod
    def to(cls, target: str, text: str) -> "Link":
        """A link to `target` that shows `text`."""
        link = cls(text)
        link.target = target
        return link


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

    def __init__(self, book: Book, title: str, columns: Sequence[Column], *, overflow: Path, frozen: int = 1) -> None:
        self._book, self._columns, self._overflow = book, columns, overflow
        self.title, self._frozen = title, frozen
        self._digest = hashlib.sha256()
        self._sheet = book.sheet(title)
        self._table = begin_table(book, self._sheet, 0, columns, f"tbl{title.title().replace(' ', '')}")
        self._sheet.set_row(0, 30)
        self._row = 0
        self._widths = [max(column.width, head_width(column.head)) for column in columns]
        self._styles: dict[tuple[int, Tone], Any] = {}
        self._wrapping = [position for position, column in enumerate(columns) if column.wrap]
        self._more: Callable[[str], object] | None = None

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
        fit_height(self._sheet, self._row, lines)
        widths, styles, used = self._widths, self._styles, []
        for position, value in enumerate(values):
            if isinstance(value, str) and len(value) > widths[position]:
                widths[position] = len(value)
            plain = Tone.LINK if isinstance(value, Link) else Tone.PLAIN
            look = (position, tones.get(position, plain) if tones else plain)
            if look not in styles:
                column = self._columns[position]
                styles[look] = self._book.style(column.kind, look[1], wrap=column.wrap)
            used.append(styles[look])
        write_row(self._sheet, self._row, values, used)

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
            write_cell(self._sheet, 1, 0, nothing, self._book.style(tone=Tone.MUTED, line=False))
        last = max(1, self.kept)
        end_table(self._table, 0, last, len(self._columns))
        for position, column in enumerate(self._columns):
            width = min(self._widths[position], column.width_max) + _PADDING
            self._sheet.set_column(position, position, width, None, {"hidden": 1} if column.hidden else {})
            if column.choices or column.warns:
                self._add_rules((1, position, last, position), column)
        self._sheet.freeze_panes(1, self._frozen)
        self._sheet.repeat_rows(0)
        printed = sum(column.printed for column in self._columns)
        if printed < len(self._columns):
            self._sheet.print_area(0, 0, last, printed - 1)
        self._sheet.ignore_errors({"number_stored_as_text": xl_range(1, 0, last, len(self._columns) - 1)})
        return self._overflow.name if self._more else ""

    def _add_rules(self, place: tuple[int, int, int, int], column: Column) -> None:
        """Add the drop-down and the colours of a column to these cells."""
        if column.choices:
            rule = {"validate": "list", "source": list(_offered(column.choices)), "show_error": column.strict}
            self._sheet.data_validation(*place, rule)
        for limit, tone in column.warns:
            above = {"type": "cell", "criteria": ">", "value": limit, "format": self._book.tint(tone)}
            self._sheet.conditional_format(*place, {**above, "stop_if_true": True})

    def _lines(self, position: int, value: Value) -> int:
        width, text = self._columns[position].width_max, str(value)
        if len(text) <= width and "\n" not in text:
            return 1
        return sum(1 + len(line) * 5 // (6 * width) for line in text.split("\n"))

    def _spill(self, values: Sequence[Value]) -> None:
        """Write a row to the CSV file, which appears together with the workbook."""
        if self._more is None:
            part = self._book.stack.enter_context(written_atomically(self._overflow))
            self._more = self._book.stack.enter_context(part.open("w", encoding="utf-8-sig", newline="")).write
            self._more(csv_row([column.head for column in self._columns]))
        self._more(csv_row(["" if value is None else str(value) for value in values]))


def head_width(head: str) -> int:
    """The least width, in characters, that shows a heading of up to two lines beside its filter button."""
    return max(max(map(len, head.split()), default=0) + 2, len(head) * 3 // 4 + 1)


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
    for position, column in enumerate(columns):
        sheet.write_string(row, position, column.head, book.head_style(column.kind))
    table: dict[str, Any] = sheet.tables[-1]
    return table


def end_table(table: dict[str, Any], first: int, last: int, columns: int) -> None:
    """Set the range of a table that was begun at row `first` and ends at row `last`."""
    for name in ("range", "a_range", "autofilter"):
        if table.get(name):
            table[name] = xl_range(first, 0, last, columns - 1)


def write_row(
    sheet: Any, row: int, values: Iterable[Value | Formula], styles: Iterable[Any], first_column: int = 0
) -> None:
    """Write values, each with its format, in their own types: texts always as texts, numbers as numbers, times as times, None as an
    empty cell.
    """
    for column, (value, style) in enumerate(zip(values, styles, strict=True), first_column):
        if isinstance(value, Link) and sheet.hlink_count < _LINKS_MAX:
            sheet.write_url(row, column, f"external:{value.target}", style, sheet_text(value))
        elif value is None or value == "":
            sheet.write_blank(row, column, None, style)
        elif isinstance(value, str):
            sheet.write_string(row, column, sheet_text(value), style)
        elif isinstance(value, Formula):
            sheet.write_formula(row, column, value.text, style, value.result)
        elif isinstance(value, bool):
            sheet.write_boolean(row, column, value, style)
        elif isinstance(value, datetime | time):
            sheet.write_datetime(row, column, value.replace(tzinfo=None), style)
        else:
            sheet.write_number(row, column, value if isinstance(value, float) else float(value), style)


def write_cell(sheet: Any, row: int, column: int, value: Value | Formula, style: Any) -> None:
    """Write one value; see `write_row`."""
    write_row(sheet, row, (value,), (style,), column)


def _offered(choices: Sequence[str]) -> Iterator[str]:
    """The choices that fit into a rule; a choice with a comma would count as two."""
    room = _CHOICES_MAX
    for choice in choices:
        room -= len(choice) + 1
        if room < 0:
            return
        if "," not in choice and not choice.startswith("="):
            yield choice


_SECTION: dict[str, Any] = {"font_size": 12, "bold": True, "font_color": "#243B53", "valign": "vcenter", "indent": 0}
_TOTAL: dict[str, Any] = {"bold": True, "top": 1, "top_color": "#243B53"}
_LINES_ON_PAPER = 62
_HEAD_HEIGHT, _SECTION_HEIGHT = 30, 26


class Cell(NamedTuple):
    """A value with its tone, and its kind if that differs from its column's."""

    value: Value | Formula
    tone: Tone = Tone.PLAIN
    kind: Kind | None = None


_PLACES = {Kind.COUNT: 0, Kind.CHANGE: 0, Kind.AMOUNT: 3, Kind.MONEY: 3}  # digits after the point in `_KINDS`


class Page:
    """Writes one sheet; all its tables share the column `widths`, which grow with long numbers: a narrow cell shows them as `###`."""

    def __init__(self, book: Book, title: str, widths: Sequence[float]) -> None:
        self.book, self.title, self._widths = book, title, [*widths]
        self.sheet, self.row = book.sheet(title), 0
        for position, width in enumerate(widths):
            self.sheet.set_column(position, position, width)

    def finish(self) -> None:
        """Set the final widths, and fit the page to one printed sheet if it stays readable."""
        for position, width in enumerate(self._widths):
            self.sheet.set_column(position, position, width)
        if self.row <= _LINES_ON_PAPER:
            self.sheet.fit_to_pages(1, 1)

    def line(
        self, text: str, tone: Tone = Tone.PLAIN, *, band: bool = False, height: float | None = None, **style: Any
    ) -> None:
        """Write a line of text; a `band` colours it across the page."""
        if height is not None:
            self.sheet.set_row(self.row, height)
        shape = self.book.style(Kind.TEXT, tone, line=False, **style)
        write_cell(self.sheet, self.row, 0, text, shape)
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
        styles = []
        for position, (column, cell) in enumerate(zip(columns, cells, strict=False)):
            kind = cell.kind or column.kind
            styles.append(self.book.style(kind, cell.tone, **style))
            number = cell.value.result if isinstance(cell.value, Formula) else cell.value
            if kind in _PLACES and isinstance(number, int | float | Decimal):
                needed = len(f"{number:,.{_PLACES[kind]}f}") + _PADDING  # in bold type
                self._widths[position] = max(self._widths[position], needed)
        write_row(self.sheet, self.row, [cell.value for cell in cells], styles)
        self._fill(len(cells), self.book.style(**style))

    def _fill(self, first: int, style: Any) -> None:
        for position in range(first, len(self._widths)):
            self.sheet.write_blank(self.row, position, None, style)
