"""The sheets Ageing, Control totals and Sign-off of the reconciliation workbook.

Ageing: open exceptions by age and reason, as counts, weights and values. It follows the analyst's entries in
Exceptions. Control totals: the tie-out of rows by file, and the figures of all documents on each leg. Sign-off: who
prepared, who reviewed, what they accept, and the digests of the data. Formulas are live; the run's results are stored
for programs that do not calculate.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from xlsxwriter.utility import xl_range_abs  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.utility import xl_rowcol_to_cell as at

from loadsheet.annotation_sheet import ACCEPTED, HEADS, REASONS
from loadsheet.contract import Scale
from loadsheet.ledger import State
from loadsheet.reconcile import IGNORED, RED
from loadsheet.reconcile.totals import AGREEING
from loadsheet.reports.book import Kind, Tone
from loadsheet.reports.reconciliation.worklist import BUCKETS, NO_REASON, Aged
from loadsheet.reports.run_document import LegSummary, RunSummary, TotalSummary
from loadsheet.reports.sheets import Cell, Column, Formula, Page, TableSheet

AGEING_WIDTHS = (26, *[13.0] * 10)
AGEING = "Ageing"

_SHOWN = (*REASONS, NO_REASON)
_MATRICES_MAX = 8
PLAIN_UNIT = re.compile(r"[A-Za-z0-9/.]{1,12}")
"""Units and currencies that may appear in headings and formulas. Other values come from records and may not."""
_FIGURES = {"weight": ("Weight", "Unit", Kind.AMOUNT), "goods value": ("Value", "Currency", Kind.MONEY)}

_Sums = Mapping[tuple[str, str], int | Decimal]


class AgeingCells(NamedTuple):
    """References into this sheet for other sheets: the cells with the bucket names and their counts, and the cell with
    the count of each reason.
    """

    buckets: str
    counts: str
    reasons: dict[str, str]


def write_ageing(page: Page, aged: Aged, sheet: TableSheet, says: str) -> AgeingCells:
    """Fill the sheet; `sheet` lists the exceptions, `says` defines working days."""
    page.heading("Open exceptions by age and reason")
    page.line(f"Ages are in working days up to the day of the run. {says[:1].upper()}{says[1:]}.", Tone.MUTED)
    matrices = _Matrices(page, sheet)
    page.section("Number of exceptions")
    cells = matrices.write("tblAgeing", aged.counts, Kind.COUNT, "COUNTIFS(", "")
    figures = sorted(aged.amounts.items(), key=lambda one: (one[0][0] != "weight", -len(one[1]), one[0]))
    for number, ((name, unit), sums) in enumerate(figures):
        head, unit_head, kind = _FIGURES.get(name, ("", "", Kind.AMOUNT))
        if not head or not PLAIN_UNIT.fullmatch(unit) or number >= _MATRICES_MAX:
            continue
        page.section(f"{head} in {unit}")
        begins = f"SUMIFS({sheet.column(head)},"
        matrices.write(f"tblAgeing{number + 1}", sums, kind, begins, f',{sheet.column(unit_head)},"{unit}"')
    page.line("Weights and values of documents that could not be built are unknown.", Tone.MUTED)
    page.finish()
    return cells


class _Matrices:
    """Tables of buckets by reasons."""

    def __init__(self, page: Page, sheet: TableSheet) -> None:
        self._page = page
        self._bucket, self._reason = sheet.column("Bucket"), sheet.column(HEADS["reason"])
        self._live = sheet.count == sheet.kept  # formulas cannot reach rows in a CSV file

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


CONTROL = "Control totals"
CONTROL_WIDTHS = (34, *[11.5] * 11, 19)
WAITING = "waiting"
FATES_SHOWN: tuple[str, ...] = (
    State.ACCEPTED,
    State.REFUSED,
    State.INVALID,
    State.HELD,
    State.UNCHANGED,
    State.UNKNOWN,
    WAITING,
    IGNORED,
)
"""The fates of rows as columns; ready and sending count as waiting."""

_SCALES = {Scale.COUNT: Kind.COUNT, Scale.WEIGHT: Kind.AMOUNT, Scale.MONEY: Kind.MONEY}
_PLACES = 6  # decimals for rounding differences: finer than any unit in use, coarser than binary rounding noise


def fates_shown(fates: Mapping[str, int]) -> list[int]:
    """The row count of each shown fate."""
    waiting = fates.get(State.READY, 0) + fates.get(State.SENDING, 0)
    return [waiting if fate == WAITING else fates.get(fate, 0) for fate in FATES_SHOWN]


def write_control(page: Page, summary: RunSummary) -> None:
    """Fill the sheet."""
    page.heading("Control totals")
    _balance(page, summary)
    _control(page, summary)
    page.finish()


def _balance(page: Page, summary: RunSummary) -> None:
    page.section("Balance: every row read is accounted for")
    heads = ("Rows read", *(fate.capitalize() for fate in FATES_SHOWN), "Sum", "Difference")
    columns = [Column("File"), *(Column(head, Kind.COUNT) for head in heads), Column("Says")]
    tables = [(drop.run, file.name, table) for drop in summary.drops for file in drop.files for table in file.tables]
    first = page.row + 1
    rows = []
    for row, (run, file, table) in enumerate(tables, start=first):
        place = f"{file} {table.sheet}".strip() + ("" if run == summary.run else f" (run {run})")
        counts = [_count(count) for count in (table.rows, *fates_shown(table.fates))]
        rows.append([Cell(place), *counts, *_checked(row, table.rows, sum(table.fates.values()), says=table.balances)])
    page.table("tblBalance", columns, rows)
    sums = (summary.balance.read, *fates_shown(summary.balance.rows))
    added = [
        Cell(Formula(f"=SUM({at(first, column)}:{at(page.row - 1, column)})", result))
        for column, result in enumerate(sums, start=1)
    ]
    last = _checked(page.row, summary.balance.read, sum(summary.balance.rows.values()), says=summary.balance.balances)
    page.total(columns, [Cell("all files"), *added, *last])


def _count(count: int) -> Cell:
    return Cell(count, Tone.PLAIN if count else Tone.MUTED)


def _checked(row: int, read: int, accounted: int, *, says: bool) -> list[Cell]:
    """The last three cells of a balance line: sum, difference and result."""
    end = len(FATES_SHOWN) + 1
    total = Formula(f"=SUM({at(row, 2)}:{at(row, end)})", accounted)
    rest = Formula(f"={at(row, 1)}-{at(row, end + 1)}", read - accounted)
    if read == accounted and not says:
        return [Cell(total), Cell(rest), Cell("ROWS TWICE", Tone.BAD)]
    result = Formula(
        f'=IF({at(row, end + 2)}=0,"balances","DOES NOT BALANCE")', "balances" if says else "DOES NOT BALANCE"
    )
    return [Cell(total), Cell(rest), Cell(result, Tone.GOOD if says else Tone.BAD)]


def _control(page: Page, summary: RunSummary) -> None:
    if not summary.totals:
        return
    page.section("Control totals of creates and updates; units and currencies are never mixed")
    legs = ("Source", "Not sent", "Sent", "Acknowledged", "At exchange")
    gaps = ("Source - not sent - sent", "Sent - acknowledged", "Acknowledged - at exchange")
    columns = [Column("Figure"), Column("Unit"), *(Column(head, Kind.AMOUNT) for head in legs + gaps), Column("Says")]
    seen = {leg.subject: leg for leg in summary.legs}
    rows = [
        _controlled(row, total, seen.get(total.subject)) for row, total in enumerate(summary.totals, start=page.row + 1)
    ]
    page.table("tblControl", columns, rows)
    page.line("A document that could not be built counts as a document, but has no figures.", Tone.MUTED)
    page.line("Sent - acknowledged: refused, of unknown outcome, or replaced by a later call.", Tone.MUTED)


def _controlled(row: int, total: TotalSummary, leg: LegSummary | None) -> list[Cell]:
    kind = _SCALES[Scale(total.scale)]
    source, not_sent, sent, acknowledged, listed = (at(row, column) for column in range(2, 7))
    read = leg is not None and leg.read
    gaps = (
        total.source - total.not_sent - total.sent,
        total.sent - total.acknowledged,
        total.acknowledged - total.listed,
    )
    formulas = (f"{source}-{not_sent}-{sent}", f"{sent}-{acknowledged}", f"{acknowledged}-{listed}")
    amounts = [total.source, total.not_sent, total.sent, total.acknowledged, total.listed if read else None]
    shown = [
        Formula(f"=ROUND({formula},{_PLACES})", float(round(gap, _PLACES)))
        for formula, gap in zip(formulas, gaps, strict=True)
    ]
    tone = Tone.BAD if total.says in RED else Tone.GOOD if total.says == AGREEING else Tone.NOTE
    first, last = at(row, 7), at(row, 9)
    test = f'=IF({first}<>0,"does not add up",IF(ABS({last})<={total.tolerance},"agrees","differs"))'
    result = Formula(test, total.says) if leg is not None and leg.complete else total.says
    cells = [Cell(amount, kind=kind) for amount in (*amounts, *shown[:2], shown[2] if read else None)]
    return [Cell(f"{total.subject} {total.figure}"), Cell(total.unit), *cells, Cell(result, tone)]


SIGNOFF = "Sign-off"
SIGNOFF_WIDTHS = (36, 34, 66)

_SIGNOFF_COLUMNS = (Column("What"), Column("Value"), Column("Meaning"))


def write_signoff(
    page: Page, run: str, sheet: TableSheet, counts: tuple[int, int], tables: Sequence[TableSheet]
) -> None:
    """Fill the sheet. `sheet` lists the open exceptions. `counts` are how many of them are accepted differences in this
    run, and how many others the analyst closed. `tables` are all data sheets.
    """
    accepted, closed = counts
    page.heading(f"Sign-off of run {run}")
    page.section("Exceptions")
    counted = f'=COUNTIF({sheet.column(HEADS["status"])},"{ACCEPTED}")'
    facts = [
        [Cell("exceptions open"), Cell(sheet.count, kind=Kind.COUNT), Cell("all rows of the sheet Exceptions")],
        [
            Cell("exceptions accepted here"),
            Cell(Formula(counted, accepted) if sheet.count == sheet.kept else accepted, kind=Kind.COUNT),
            Cell(f"rows with the status {ACCEPTED}; the next run closes them"),
        ],
        [
            Cell("closed by the analyst"),
            Cell(closed, kind=Kind.COUNT),
            Cell("explained or accepted; see the sheet Closed"),
        ],
    ]
    page.table("tblAccepted", _SIGNOFF_COLUMNS, facts)
    page.section("Signed by")
    first = page.row + 1
    yours = Cell("", Tone.YOURS)
    day = Cell(None, Tone.YOURS, Kind.DAY)
    signatures = [
        [Cell("prepared by"), yours, Cell("the analyst who went through the exceptions")],
        [Cell("prepared on"), day, Cell("day")],
        [Cell("reviewed by"), yours, Cell("another person; the preparer's name is not accepted")],
        [Cell("reviewed on"), day, Cell("day, not before the day of preparation")],
    ]
    page.table("tblSigned", _SIGNOFF_COLUMNS, signatures)
    _check(page, first)
    page.section("Digests of the data")
    page.table("tblDigests", (Column("Sheet"), Column("Rows"), Column("SHA-256")), [_digest(one) for one in tables])
    how = "SHA-256 of all rows as written: values as UTF-8 texts, the character 1F between them, a line feed after each row."
    page.line(how, Tone.MUTED)
    page.finish()


def _digest(table: TableSheet) -> list[Cell]:
    return [Cell(table.title), Cell(table.count, kind=Kind.COUNT), Cell(table.sha256)]


def _check(page: Page, first: int) -> None:
    """Add the validation rules of the four input cells; `first` is the row of the first."""
    preparer, prepared = (at(first + row, 1, row_abs=True, col_abs=True) for row in (0, 1))
    reviewer = at(first + 2, 1)
    other = {
        "validate": "custom",
        "value": f"=LOWER(TRIM({reviewer}))<>LOWER(TRIM({preparer}))",
        "error_title": "Four eyes",
        "error_message": "The reviewer must not be the preparer.",
    }
    page.sheet.data_validation(first + 2, 1, first + 2, 1, other)
    for row, criteria, value in ((first + 1, ">", "=DATE(2000,1,1)"), (first + 3, ">=", f"={prepared}")):
        rule = {
            "validate": "date",
            "criteria": criteria,
            "value": value,
            "error_message": "Enter a date, such as 2026-03-05.",
        }
        page.sheet.data_validation(row, 1, row, 1, rule)
