"""The sheet Ageing: open exceptions by age and reason, as counts, weights and values, with live formulas over the sheet Exceptions.

Owns: its layout. What the analyst writes into Exceptions changes it at once; the results stored with the formulas are those of the run.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from xlsxwriter.utility import xl_range_abs  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.utility import xl_rowcol_to_cell as at

from loadsheet.annotation_sheet import HEADS, REASONS
from loadsheet.reports.page import Cell, Page
from loadsheet.reports.reconciliation.worklist import BUCKETS, NO_REASON, Aged
from loadsheet.reports.sheets import Column, Formula, Kind, TableSheet, Tone

WIDTHS = (26, *[13.0] * 10)
TITLE = "Ageing"

_SHOWN = (*REASONS, NO_REASON)
_MATRICES_MAX = 8
PLAIN_UNIT = re.compile(r"[A-Za-z0-9/.]{1,12}")
"""Units and currencies that may stand in headings and formulas; what records say is not ours."""
_FIGURES = {"weight": ("Weight", "Unit", Kind.AMOUNT), "goods value": ("Value", "Currency", Kind.MONEY)}

_Sums = Mapping[tuple[str, str], int | Decimal]


class AgeingCells(NamedTuple):
    """Where other sheets find what this one adds up: the cells with the names of the buckets and their counts, and the cell with the
    count of each reason.
    """

    buckets: str
    counts: str
    reasons: dict[str, str]


def write_ageing(page: Page, aged: Aged, sheet: TableSheet, says: str) -> AgeingCells:
    """Fill the sheet; `sheet` is the one that lists the exceptions, `says` what working days are."""
    page.line("Open exceptions by age and reason", height=30, font_size=14, bold=True, valign="vcenter", indent=0)
    page.line(f"Ages are in working days up to the day of the run; {says}.", Tone.MUTED)
    matrices = _Matrices(page, sheet)
    page.section("How many")
    cells = matrices.write("tblAgeing", aged.counts, Kind.COUNT, "COUNTIFS(", "")
    figures = sorted(aged.amounts.items(), key=lambda one: (one[0][0] != "weight", -len(one[1]), one[0]))
    for number, ((name, unit), sums) in enumerate(figures):
        head, unit_head, kind = _FIGURES.get(name, ("", "", Kind.AMOUNT))
        if not head or not PLAIN_UNIT.fullmatch(unit) or number >= _MATRICES_MAX:
            continue
        page.section(f"{head} in {unit}")
        begins = f"SUMIFS({sheet.column(head)},"
        matrices.write(f"tblAgeing{number + 1}", sums, kind, begins, f',{sheet.column(unit_head)},"{unit}"')
    page.line("Weights and values of documents that could not be built are not known.", Tone.MUTED)
    page.finish()
    return cells


class _Matrices:
    """Tables of buckets by reasons."""

    def __init__(self, page: Page, sheet: TableSheet) -> None:
        self._page = page
        self._bucket, self._reason = sheet.column("Bucket"), sheet.column(HEADS["reason"])
        self._live = sheet.count == sheet.kept  # rows in a CSV beside are out of reach of formulas

    def write(self, name: str, sums: _Sums, kind: Kind, begins: str, ends: str) -> AgeingCells:
        page = self._page
        columns = [Column("Working days"), *(Column(reason, kind) for reason in _SHOWN), Column("All", kind)]
        first, head = page.row + 1, page.row
        rows = [
            [Cell(bucket), *self._cells(row, head, bucket, sums, (begins, ends))]
            for row, bucket in enumerate(BUCKETS, start=first)
        ]
        page.table(name, columns, rows)
        last, count = first + len(BUCKETS) - 1, len(_SHOWN) + 1
        totals = [
            Formula(f"=SUM({at(first, column)}:{at(last, column)})", _result(_total(sums, reason)))
            for column, reason in enumerate((*_SHOWN, None), start=1)
        ]
        page.total(columns, [Cell("all"), *map(Cell, totals)])
        title = f"'{page.title}'!"
        return AgeingCells(
            title + xl_range_abs(first, 0, last, 0),
            title + xl_range_abs(first, count, last, count),
            {reason: f"{title}{at(last + 1, column)}" for column, reason in enumerate(_SHOWN, start=1)},
        )

    def _cells(self, row: int, head: int, bucket: str, sums: _Sums, formula: tuple[str, str]) -> list[Cell]:
        begins, ends = formula
        cells = []
        of_bucket = f"{begins}{self._bucket},{at(row, 0, col_abs=True)}"
        for column, reason in enumerate(REASONS, start=1):
            wanted = f"={of_bucket},{self._reason},{at(head, column, row_abs=True)}{ends})"
            cells.append(self._cell(wanted, sums.get((bucket, reason), 0)))
        others = len(_SHOWN)
        rest = f"={of_bucket}{ends})-SUM({at(row, 1)}:{at(row, others - 1)})"
        if begins.startswith("SUMIFS"):
            rest = f"=ROUND({rest[1:]},6)"
        cells.append(self._cell(rest, sums.get((bucket, NO_REASON), 0)))
        everything = sum((amount for place, amount in sums.items() if place[0] == bucket), Decimal(0))
        cells.append(Cell(Formula(f"=SUM({at(row, 1)}:{at(row, others)})", _result(everything))))
        return cells

    def _cell(self, formula: str, result: int | Decimal) -> Cell:
        tone = Tone.PLAIN if result else Tone.MUTED
        return Cell(Formula(formula, _result(result)) if self._live else _result(result), tone)


def _total(sums: _Sums, reason: str | None) -> Decimal:
    return sum((Decimal(amount) for place, amount in sums.items() if reason in (place[1], None)), Decimal(0))


def _result(amount: int | Decimal) -> float:
    return float(amount)
