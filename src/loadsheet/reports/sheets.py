"""Worksheets as analysts like them: real tables that stream, in one quiet style. Our thin layer over XlsxWriter.

Owns: fonts, colours and number formats, column widths, freezing and print set-up, and the limits of a sheet. Knows nothing of
what the rows mean. Memory stays flat: XlsxWriter keeps one row of each sheet (constant memory).
"""

import csv
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import xlsxwriter  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]  # as above
from xlsxwriter.utility import xl_range, xl_range_abs  # type: ignore[import-untyped]  # as above

from loadsheet.reports.atomic_files import placed
from loadsheet.reports.quick import QuickRows
from loadsheet.reports.safety import csv_text, sheet_text


class Target:
    """The file that a workbook is written to. It raises OSError once; after that it accepts and drops everything.

    Python's archives try to complete themselves when they are deleted, long after the failure was reported. That would fail again,
    with a traceback that no caller can catch.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._failed = file, False
        self._place = 0  # archives ask for the position even after a failure

    def write(self, data: bytes) -> int:
        """Write these bytes."""
        self._place += len(data)
        if not self._failed:
            self._failed = True  # unless it is written
            self._file.write(data)
            self._failed = False
        return len(data)

    def seek(self, offset: int) -> int:
        """Go to a place."""
        self._place = offset
        if not self._failed:
            self._failed = True  # unless that can be done: it may have to write
            self._file.seek(offset)
            self._failed = False
        return offset

    def tell(self) -> int:
        """The place."""
        return self._place

    def flush(self) -> None:
        """Flush to the system."""
        if not self._failed:
            self._failed = True  # unless it is flushed
            self._file.flush()
            self._failed = False

    def end(self) -> None:
        """Drop everything from now on."""
        self._failed = True


@contextmanager
def opened(path: Path) -> Iterator[Target]:
    """Open a new file at `path` for a `with` block; after it, writes are dropped. Raises OSError if it cannot be created or written."""
    with path.open("wb") as file:
        target = Target(file)
        try:
            yield target
        finally:
            target.end()


ROWS_MAX = 1_048_576
CREATED = datetime(2000, 1, 1)  # noqa: DTZ001 (a workbook property without a zone, fixed so that equal reports are equal files)

_INK, _MUTED, _HAIR, _HEAD = "#1F2933", "#616E7C", "#D9E2EC", "#243B53"


class Tone(StrEnum):
    """How a cell is meant. A colour is never alone: the words beside it say the same."""

    PLAIN = "plain"
    MUTED = "muted"
    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    YOURS = "yours"


class Kind(StrEnum):
    """What a column holds, and so how it is written and aligned."""

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
}
_KINDS: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: {"num_format": "@", "align": "left", "indent": 1},
    Kind.NUMBER: {"num_format": "General", "align": "right"},
    Kind.COUNT: {"num_format": "#,##0"},
    Kind.AMOUNT: {"num_format": "#,##0.000"},
    Kind.MONEY: {"num_format": "#,##0.00"},
    Kind.SHARE: {"num_format": "0.0%"},
    Kind.MOMENT: {"num_format": "yyyy-mm-dd hh:mm:ss", "align": "left", "indent": 1},
    Kind.DAY: {"num_format": "yyyy-mm-dd", "align": "left", "indent": 1},
    Kind.CHANGE: {"num_format": "+#,##0;-#,##0;0"},
}
_LINE_HEIGHT, _LINES_MAX = 13, 12
_PADDING = 3
_CHOICES_MAX = 255  # characters of a list that stands in the rule itself; a longer one is silently left out
_CHART_FONT = {"name": "Arial", "size": 9, "color": _MUTED}
_FONT = {"font_name": "Arial", "font_size": 10, "valign": "top"}

Value = str | int | float | Decimal | datetime | None


class Column(NamedTuple):
    """A column: its heading, what it holds, its width in characters at least and at most, and whether long texts wrap.

    `choices` are offered in a list; anything else may be written unless it is `strict`. Numbers above a limit of `warns` are toned;
    the highest limit comes first.
    """

    head: str
    kind: Kind = Kind.TEXT
    width: int = 8
    width_max: int = 48
    wrap: bool = False
    hidden: bool = False
    choices: tuple[str, ...] = ()
    strict: bool = False
    warns: tuple[tuple[float, Tone], ...] = ()


class Formula(NamedTuple):
    """A live formula and the result to store with it, for readers that do not calculate."""

    text: str
    result: float | str


class Book:
    """A workbook under way: add sheets and fill them from top to bottom. See `open_book`."""

    def __init__(self, workbook: Any, footer: str, stack: ExitStack) -> None:
        self.stack = stack
        self._workbook, self._footer = workbook, footer
        self._formats: dict[tuple[Any, ...], Any] = {}

    def sheet(self, title: str) -> Any:
        """A new worksheet: A4 landscape, fitted to one page across, the footer on every page."""
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
        """Put a property of our own into the workbook; spreadsheet programs keep it when they save. At most 255 characters."""
        self._workbook.set_custom_property(name, value, "text")

    def style(
        self, kind: Kind = Kind.TEXT, tone: Tone = Tone.PLAIN, *, wrap: bool = False, line: bool = True, **more: Any
    ) -> Any:
        """The format of a cell; equal ones are made once."""
        key = (kind, tone, wrap, line, *sorted(more.items()))
        if key not in self._formats:
            under = {"bottom": 1, "bottom_color": _HAIR} if line else {}
            shape = {"text_wrap": True, "num_format": "General"} if wrap else {}
            self._formats[key] = self._workbook.add_format(
                {**_FONT, **_KINDS[kind], **_TONES[tone], **under, **shape, **more}
            )
        return self._formats[key]

    def tint(self, tone: Tone) -> Any:
        """The format that a condition puts over that of a cell."""
        key = ("tint", tone)
        if key not in self._formats:
            self._formats[key] = self._workbook.add_format(_TONES[tone])
        return self._formats[key]

    def chart(self, kind: str, **more: Any) -> Any:
        """A new chart of this kind, in the workbook's style; sheets insert it."""
        chart = self._workbook.add_chart({"type": kind, **more})
        chart.set_legend({"position": "bottom", "font": _CHART_FONT})
        chart.set_chartarea({"border": {"color": _HAIR}})
        return chart

    def head_style(self, kind: Kind) -> Any:
        """The format of a column's heading: aligned as its cells."""
        align, indent = ("left", 1) if kind in (Kind.TEXT, Kind.MOMENT, Kind.DAY) else ("right", 0)
        return self.style(
            wrap=True,
            line=False,
            align=align,
            indent=indent,
            bg_color=_HEAD,
            font_color="#FFFFFF",
            bold=True,
            valign="vcenter",
        )


@contextmanager
def open_book(path: Path, *, title: str, footer: str) -> Iterator[Book]:
    """A workbook that is at `path`, whole, when the context ends well, and is not there if it does not."""
    with ExitStack() as stack:
        part = stack.enter_context(placed(path))
        spool = stack.enter_context(tempfile.TemporaryDirectory(prefix="loadsheet-"))
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "tmpdir": spool}
        workbook = xlsxwriter.Workbook(str(part), options)
        workbook.set_properties({"title": title, "author": "loadsheet", "created": CREATED})
        stack.callback(_close_spools, workbook)
        yield Book(workbook, footer, stack)
        try:
            with opened(part) as workbook.filename:
                workbook.close()
        except FileCreateError as error:
            raise OSError(str(error)) from error


def _close_spools(workbook: Any) -> None:
    for sheet in workbook.worksheets():
        sheet.row_data_fh.close()


class TableSheet:
    """A sheet that is one table: heading frozen, filters on. Rows stream in; those that do not fit go on in a CSV beside.

    `count` is how many rows there are, `kept` how many of them the sheet holds. So many columns are `frozen`, and so many `printed`
    (0: all).
    """

    def __init__(
        self,
        book: Book,
        title: str,
        columns: Sequence[Column],
        *,
        rows_max: int,
        overflow: Path,
        frozen: int = 1,
        printed: int = 0,
    ) -> None:
        self._book, self._columns, self._rows_max, self._overflow = book, columns, rows_max, overflow
        self.title, self._frozen, self._printed = title, frozen, printed
        self._digest = hashlib.sha256()
        self._sheet = book.sheet(title)
        self._table = begin_table(book, self._sheet, 0, columns, f"tbl{title.title().replace(' ', '')}", filters=True)
        self._sheet.set_row(0, 30)
        self._row = 0
        self._widths = [max(column.width, len(column.head) * 3 // 4 + 4) for column in columns]
        self._quick = QuickRows(self._sheet, self._style)
        self._wrapping = [position for position, column in enumerate(columns) if column.wrap]
        self._more: _Overflow | None = None

    def add(self, values: Sequence[Value], tones: Mapping[int, Tone] | None = None) -> None:
        """Write a row; `tones` say how single cells are meant, by position."""
        self._row += 1
        joined = "\x1f".join(
            [value if isinstance(value, str) else "" if value is None else str(value) for value in values]
        )
        self._digest.update(f"{joined}\n".encode("utf-8", "surrogatepass"))
        if self._row >= self._rows_max:
            self._spill(values)
            return
        lines = max([self._lines(position, values[position]) for position in self._wrapping], default=1)
        # spreadsheet programs differ in whether they fit the height of a row by themselves
        height = lines * _LINE_HEIGHT + 2 if lines > 1 else None
        widths = self._widths
        for position, value in enumerate(values):
            if isinstance(value, str) and len(value) > widths[position]:
                widths[position] = len(value)
        if not self._quick.add(self._row, values, tones or {}, height):
            if height is not None:
                self._sheet.set_row(self._row, height)
            for position, value in enumerate(values):
                write(self._sheet, self._row, position, value, self._style(position, (tones or {}).get(position)))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._row

    @property
    def kept(self) -> int:
        """How many rows the sheet holds."""
        return min(self._row, self._rows_max - 1)

    @property
    def sha256(self) -> str:
        """The hex digest of all rows: their values as texts (nothing as an empty one) with US (1F) between them, LF after each row."""
        return self._digest.hexdigest()

    def column(self, head: str) -> str:
        """The cells of a column, for formulas on other sheets."""
        position = next(place for place, column in enumerate(self._columns) if column.head == head)
        return f"'{self.title}'!{xl_range_abs(1, position, max(1, self.kept), position)}"

    def finish(self, nothing: str) -> str:
        """Close the table; `nothing` stands in an empty one. Returns the name of the CSV that holds further rows, if any."""
        if not self._row:
            write(self._sheet, 1, 0, nothing, self._book.style(tone=Tone.MUTED, line=False))
        last = max(1, self.kept)
        end_table(self._table, 0, last, len(self._columns))
        for position, column in enumerate(self._columns):
            self._shape(position, column, last)
        self._sheet.freeze_panes(1, self._frozen)
        self._sheet.repeat_rows(0)
        if self._printed:
            self._sheet.print_area(0, 0, last, self._printed - 1)
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

    def _style(self, position: int, tone: Tone | None) -> Any:
        column = self._columns[position]
        return self._book.style(column.kind, tone or Tone.PLAIN, wrap=column.wrap)

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
    book: Book, sheet: Any, row: int, columns: Sequence[Column], name: str, *, filters: bool
) -> dict[str, Any]:
    """Begin a table at a row of a sheet and write its headings; `end_table` says later how long it became.

    XlsxWriter refuses tables in constant memory because it would have to write their rows itself. We write them, so it is
    told of a table of one row, and the range is set right at the end.
    """
    heads = [{"header": column.head} for column in columns]
    sheet.constant_memory = False
    sheet.add_table(
        row, 0, row + 1, len(columns) - 1, {"name": name, "style": None, "autofilter": filters, "columns": heads}
    )
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


def write(sheet: Any, row: int, column: int, value: Value | Formula, style: Any) -> None:
    """Write one value as what it is: texts always as texts, numbers as numbers, times as times, nothing as an empty cell."""
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
    """As many choices as fit into a rule; one with a comma would be two."""
    room = _CHOICES_MAX
    for choice in choices:
        room -= len(choice) + 1
        if room < 0:
            return
        if "," not in choice and not choice.startswith("="):
            yield choice


class _Overflow:
    """The CSV beside the workbook that takes the rows which a sheet cannot hold. It is in its place when the workbook is."""

    def __init__(self, path: Path, columns: Sequence[Column], stack: ExitStack) -> None:
        self.name = path.name
        part = stack.enter_context(placed(path))
        file = stack.enter_context(part.open("w", encoding="utf-8-sig", newline=""))
        self._writer = csv.writer(file)
        self._writer.writerow([column.head for column in columns])

    def add(self, values: Sequence[Value]) -> None:
        self._writer.writerow([csv_text(value) if isinstance(value, str) else value for value in values])
