"""The sheet Sign-off: who prepared and who reviewed, what they accept, and the digest of the data that they looked at."""

from collections.abc import Sequence

from xlsxwriter.utility import xl_rowcol_to_cell as at  # type: ignore[import-untyped]  # has annotations but no py.typed

from loadsheet.annotation_sheet import ACCEPTED, HEADS
from loadsheet.reports.page import Cell, Page
from loadsheet.reports.sheets import Column, Formula, Kind, TableSheet, Tone

TITLE = "Sign-off"
WIDTHS = (36, 34, 66)

_FACTS = (Column("What"), Column("Value"), Column("Meaning"))


def write_signoff(
    page: Page, run: str, sheet: TableSheet, counts: tuple[int, int], tables: Sequence[TableSheet]
) -> None:
    """Fill the sheet; `sheet` lists the open exceptions, `counts` are how many of these are accepted differences as the run knows them,
    and how many others the analyst's word closed; `tables` are all sheets of data.
    """
    accepted, closed = counts
    page.line(f"Sign-off of run {run}", height=30, font_size=14, bold=True, valign="vcenter", indent=0)
    page.section("Exceptions")
    counted = f'=COUNTIF({sheet.column(HEADS["status"])},"{ACCEPTED}")'
    facts = [
        [Cell("exceptions open"), Cell(sheet.count, kind=Kind.COUNT), Cell("all of the sheet Exceptions")],
        [
            Cell("exceptions accepted here"),
            Cell(Formula(counted, accepted) if sheet.count == sheet.kept else accepted, kind=Kind.COUNT),
            Cell(f"those that have the status {ACCEPTED}; the next run closes them"),
        ],
        [
            Cell("closed by the analyst"),
            Cell(closed, kind=Kind.COUNT),
            Cell("explained or accepted, on the sheet Closed"),
        ],
    ]
    page.table("tblAccepted", _FACTS, facts)
    page.section("Signed by")
    first = page.row + 1
    yours = Cell("", Tone.YOURS)
    day = Cell(None, Tone.YOURS, Kind.DAY)
    signatures = [
        [Cell("prepared by"), yours, Cell("the analyst who went through the exceptions")],
        [Cell("prepared on"), day, Cell("day")],
        [Cell("reviewed by"), yours, Cell("somebody else: the cell takes no other name")],
        [Cell("reviewed on"), day, Cell("day, not before that of the preparation")],
    ]
    page.table("tblSigned", _FACTS, signatures)
    _check(page, first)
    page.section("Digests of the data")
    page.table("tblDigests", (Column("Sheet"), Column("Rows"), Column("SHA-256")), [_digest(one) for one in tables])
    how = "SHA-256 of all rows as they were written: values as UTF-8 texts, the character 1F between them, a line feed after each row."
    page.line(how, Tone.MUTED)
    page.finish()


def _digest(table: TableSheet) -> list[Cell]:
    return [Cell(table.title), Cell(table.count, kind=Kind.COUNT), Cell(table.sha256)]


def _check(page: Page, first: int) -> None:
    """The rules of the four cells that people fill in, of which the first is in this row."""
    preparer, prepared = (at(first + row, 1, row_abs=True, col_abs=True) for row in (0, 1))
    reviewer = at(first + 2, 1)
    other = {
        "validate": "custom",
        "value": f"=LOWER(TRIM({reviewer}))<>LOWER(TRIM({preparer}))",
        "error_title": "Four eyes",
        "error_message": "The reviewer must be somebody else than the preparer.",
    }
    page.sheet.data_validation(first + 2, 1, first + 2, 1, other)
    for row, criteria, value in ((first + 1, ">", "=DATE(2000,1,1)"), (first + 3, ">=", f"={prepared}")):
        rule = {
            "validate": "date",
            "criteria": criteria,
            "value": value,
            "error_message": "Give a day, such as 2026-03-05.",
        }
        page.sheet.data_validation(row, 1, row, 1, rule)
