"""Rows of plain texts, put into a sheet as XML at once: a fifth of what the library takes, and the same bytes.

Nearly every row of a long table is short texts without a sign that XML or a spreadsheet treats in a special way. Those are written
here; for all others `add` says no and the library writes them, which alone knows how to escape. Knows nothing of what rows mean.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlsxwriter.utility import xl_col_to_name  # type: ignore[import-untyped]  # has annotations but no py.typed

_LENGTH_MAX = 16_000  # of all texts of a row: far below what one cell may hold
_SPECIAL = re.compile(r"[\x00-\x1f<>&\"\ufffe\uffff\ud800-\udfff]|_x|(?:^|\|)\s|\s(?:\||$)")


class QuickRows:
    """Writes rows to one worksheet that is in constant memory, from top to bottom, below a heading that the library wrote and
    between rows that it writes.
    """

    def __init__(self, sheet: Any, style: Callable[[int, Any], Any]) -> None:
        """`style` gives the format of a cell by its column and tone (None: the plain one)."""
        self._sheet, self._style = sheet, style
        self._starts: dict[tuple[int, Any], tuple[str, str]] = {}

    def add(self, row: int, values: Sequence[object], tones: Mapping[int, Any]) -> bool:
        """Write a row (from 0), unless there is anything in it that is not a plain text or nothing: then it returns False."""
        texts = ["" if value is None else value for value in values]
        if not all(isinstance(text, str) for text in texts):
            return False
        joined = "|".join(texts)  # type: ignore[arg-type]  # mypy does not see what the line above makes sure of
        if len(joined) > _LENGTH_MAX or _SPECIAL.search(joined):
            return False
        if self._sheet.table:
            self._sheet._write_single_row(row)  # noqa: SLF001 (the row before this one, which the library still holds)
        number = row + 1
        cells = [f'<row r="{number}">']
        for position, text in enumerate(texts):
            start, style = self._start(position, tones.get(position))
            cells.append(
                f'{start}{number}{style} t="inlineStr"><is><t>{text}</t></is></c>'
                if text
                else f"{start}{number}{style}/>"
            )
        cells.append("</row>")
        self._sheet.row_data_fh.write("".join(cells))
        self._sheet.dim_rowmax = row
        return True

    def _start(self, position: int, tone: Any) -> tuple[str, str]:
        start = self._starts.get((position, tone))
        if start is None:
            index = self._style(position, tone)._get_xf_index()  # noqa: SLF001 (the library has no other word for it)
            start = (f'<c r="{xl_col_to_name(position)}', f'" s="{index}"')
            self._starts[position, tone] = start
        return start
