"""The sheet Control totals: the tie-out of rows by file, and the figures of all documents on each leg, with live formulas.

Owns: its layout. Every number is the summary's; sums and differences are formulas with their results stored, so that a reader can
follow them and a program that does not calculate sees them too.
"""

from collections.abc import Mapping

from xlsxwriter.utility import xl_rowcol_to_cell as at  # type: ignore[import-untyped]  # has annotations but no py.typed

from loadsheet.contract import Scale
from loadsheet.ledger import State
from loadsheet.reconcile import IGNORED, RED
from loadsheet.reconcile.totals import AGREEING
from loadsheet.reports.page import Cell, Page
from loadsheet.reports.run_summary import LegSummary, RunSummary, TotalSummary
from loadsheet.reports.sheets import Column, Formula, Kind, Tone

TITLE = "Control totals"
WIDTHS = (34, *[11.5] * 11, 19)
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
"""The fates of rows as columns; what is ready or being sent is waiting."""

_SCALES = {Scale.COUNT: Kind.COUNT, Scale.WEIGHT: Kind.AMOUNT, Scale.MONEY: Kind.MONEY}
_PLACES = 6  # decimals to which differences are rounded: below any unit in use, above the noise of binary numbers


def fates_shown(fates: Mapping[str, int]) -> list[int]:
    """The rows of each shown fate."""
    waiting = fates.get(State.READY, 0) + fates.get(State.SENDING, 0)
    return [waiting if fate == WAITING else fates.get(fate, 0) for fate in FATES_SHOWN]


def write_control(page: Page, summary: RunSummary) -> None:
    """Fill the sheet."""
    page.line("Control totals", height=30, font_size=14, bold=True, valign="vcenter", indent=0)
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
    """The last three cells of a line of the balance: sum, difference, and what they say."""
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
