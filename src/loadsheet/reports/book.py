"""A workbook in progress, in one quiet style. A thin layer over XlsxWriter; `sheets` fills its worksheets.

Owns fonts, colours, number formats and print set-up, and writes the file atomically. Does not know what the rows
mean. Memory stays flat: XlsxWriter keeps one row of each sheet (constant memory).
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import xlsxwriter  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]  # as above

from loadsheet.reports.report_files import placed


class Target:
    """The file a workbook is written to. It raises OSError once; after that it accepts and drops everything.

    Python's archives try to complete themselves on deletion, long after the failure was reported. That would fail
    again, with a traceback that no caller can catch.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._failed = file, False
        self._place = 0  # archives ask for the position even after a failure

    def write(self, data: bytes) -> int:
        """Write bytes."""
        self._place += len(data)
        if not self._failed:
            self._failed = True  # reset after success
            self._file.write(data)
            self._failed = False
        return len(data)

    def seek(self, offset: int) -> int:
        """Move to a position."""
        self._place = offset
        if not self._failed:
            self._failed = True  # reset after success; seeking may have to write
            self._file.seek(offset)
            self._failed = False
        return offset

    def tell(self) -> int:
        """The position."""
        return self._place

    def flush(self) -> None:
        """Flush to the system."""
        if not self._failed:
            self._failed = True  # reset after success
            self._file.flush()
            self._failed = False

    def end(self) -> None:
        """Drop everything from now on."""
        self._failed = True


@contextmanager
def opened(path: Path) -> Iterator[Target]:
    """Open a new file at `path` for a `with` block. Later writes are dropped. Raises OSError if it cannot be created or written."""
    with path.open("wb") as file:
        target = Target(file)
        try:
            yield target
        finally:
            target.end()


CREATED = datetime(2000, 1, 1)  # noqa: DTZ001 (a workbook property without a zone, fixed so that equal reports are equal files)

_INK, _MUTED, _HAIR, _HEAD = "#1F2933", "#616E7C", "#D9E2EC", "#243B53"


class Tone(StrEnum):
    """The tone of a cell. A colour never stands alone: the text says the same."""

    PLAIN = "plain"
    MUTED = "muted"
    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    YOURS = "yours"


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

_CHART_FONT = {"name": "Arial", "size": 9, "color": _MUTED}
_FONT = {"font_name": "Arial", "font_size": 10, "valign": "top"}


class Book:
    """A workbook in progress: add sheets and fill them from top to bottom. See `open_book`."""

    def __init__(self, workbook: Any, footer: str, stack: ExitStack) -> None:
        self.stack = stack
        self._workbook, self._footer = workbook, footer
        self._formats: dict[tuple[Any, ...], Any] = {}

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

    def style(
        self, kind: Kind = Kind.TEXT, tone: Tone = Tone.PLAIN, *, wrap: bool = False, line: bool = True, **more: Any
    ) -> Any:
        """The format of a cell. Equal formats are created once."""
        key = (kind, tone, wrap, line, *sorted(more.items()))
        if key not in self._formats:
            under = {"bottom": 1, "bottom_color": _HAIR} if line else {}
            shape = {"text_wrap": True, "num_format": "General"} if wrap else {}
            self._formats[key] = self._workbook.add_format(
                {**_FONT, **_KINDS[kind], **_TONES[tone], **under, **shape, **more}
            )
        return self._formats[key]

    def tint(self, tone: Tone) -> Any:
        """The format that a condition applies on top of a cell's own."""
        key = ("tint", tone)
        if key not in self._formats:
            self._formats[key] = self._workbook.add_format(_TONES[tone])
        return self._formats[key]

    def chart(self, kind: str, **more: Any) -> Any:
        """Create a chart of this kind in the workbook's style; sheets insert it."""
        chart = self._workbook.add_chart({"type": kind, **more})
        chart.set_legend({"position": "bottom", "font": _CHART_FONT})
        chart.set_chartarea({"border": {"color": _HAIR}})
        return chart

    def head_style(self, kind: Kind) -> Any:
        """The format of a column heading, aligned like its cells."""
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
    """Yield a workbook that appears at `path`, complete, if the block succeeds, and not at all otherwise."""
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
