"""Rows of plain values, put into a sheet as XML at once: a fifth of what the library takes, and the same bytes.

Nearly every row of a long table is short texts without a sign that XML or a spreadsheet treats in a special way, numbers and times.
Those are written here; for all others `add` says no and the library writes them, which alone knows how to escape. Knows nothing of
what rows mean.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from xlsxwriter.utility import xl_col_to_name  # type: ignore[import-untyped]  # has annotations but no py.typed

_LENGTH_MAX = 16_000  # of all texts of a row: far below what one cell may hold
_SPECIAL = re.compile(r"[\x00-\x1f<>&\ufffe\uffff\ud800-\udfff]|_x|(?:^|\|)\s|\s(?:\||$)")
_DAY_ZERO = datetime(1899, 12, 30).toordinal()  # noqa: DTZ001 (day 0 of a workbook, without a zone; right from March 1900 on)
_DAY_S = 60 * 60 * 24

Quick = str | int | float | Decimal | datetime | None


class QuickRows:
    """Writes rows to one worksheet that is in constant memory, from top to bottom, below a heading that the library wrote and
    between rows that it writes.
    """

    def __init__(self, sheet: Any, style: Callable[[int, Any], Any]) -> None:
        """`style` gives the format of a cell by its column and tone (None: the plain one)."""
        self._sheet, self._style = sheet, style
        self._cells: dict[tuple[Any, ...], list[_Cell]] = {}

    def add(self, row: int, values: Sequence[Quick], tones: Mapping[int, Any], height: float | None = None) -> bool:
        """Write a row (from 0) of this height in points (None: the usual one), unless there is a text in it that needs care; then it
        returns False.
        """
        joined = "|".join([value for value in values if isinstance(value, str)])
        if len(joined) > _LENGTH_MAX or not _is_plain(joined):
            return False
        if self._sheet.table:
            self._sheet._write_single_row(row)  # noqa: SLF001 (the row before this one, which the library still holds)
        number = str(row + 1)
        tall = "" if height is None else f' ht="{int(height * 4 / 3 + 0.5) * 0.75:.16g}" customHeight="1"'
        cells = [f'<row r="{number}"{tall}>']
        for (begins, empty, text, figure), value in zip(self._cells_of(len(values), tones), values, strict=True):
            if value is None or value == "":
                cells.append(f"{begins}{number}{empty}")
            elif isinstance(value, str):
                cells.append(f"{begins}{number}{text}{value}</t></is></c>")
            else:
                cells.append(f"{begins}{number}{figure}{_number(value):.16G}</v></c>")
        cells.append("</row>")
        self._sheet.row_data_fh.write("".join(cells))
        self._sheet.dim_rowmax = row
        return True

    def _cells_of(self, count: int, tones: Mapping[int, Any]) -> "list[_Cell]":
        """What stands around the values of a row of so many cells with these tones."""
        key = (count, *tones.items())
        cells = self._cells.get(key)
        if cells is None:
            cells = self._cells[key] = [self._cell(position, tones.get(position)) for position in range(count)]
        return cells

    def _cell(self, position: int, tone: Any) -> "_Cell":
        index = self._style(position, tone)._get_xf_index()  # noqa: SLF001 (the library has no other word for it)
        style = f'" s="{index}"'
        begins = f'<c r="{xl_col_to_name(position)}'
        return _Cell(begins, f"{style}/>", f'{style} t="inlineStr"><is><t>', f"{style}><v>")


class _Cell(NamedTuple):
    """The text of a cell up to the number of its row, and from there on to its value, if it is empty, a text or a number."""

    begins: str
    empty: str
    text: str
    figure: str


def _is_plain(joined: str) -> bool:
    """Whether texts, joined by a bar, can stand in XML as they are. Nearly all are seen to be plain without a search."""
    marked = "<" in joined or ">" in joined or "&" in joined or "_x" in joined
    spaced = "| " in joined or " |" in joined or joined[:1] == " " or joined[-1:] == " "  # no other space is printable
    return (joined.isprintable() and not marked and not spaced) or not _SPECIAL.search(joined)


def _number(value: float | Decimal | datetime) -> float:
    """The number that stands for a value in a workbook."""
    if not isinstance(value, datetime):
        return float(value)
    seconds = value.hour * 3_600 + value.minute * 60 + value.second
    return value.toordinal() - _DAY_ZERO + (seconds + value.microsecond / 1e6) / _DAY_S
