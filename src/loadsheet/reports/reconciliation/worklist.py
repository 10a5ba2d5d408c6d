"""The sheets Exceptions (what needs attention, oldest first, with the analyst's annotations), Closed and Ageing.

Each exception combines the ledger's entry, its source cells and what the listing showed. Ages count working days:
Monday to Friday, or those of a country with its public holidays. Ageing totals the open exceptions by age and reason,
as counts, weights and values. It follows the analyst's entries in Exceptions: its formulas are live.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

from xlsxwriter.utility import xl_range_abs  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.utility import xl_rowcol_to_cell as at

from loadsheet.contract import BY_NAME, Scale, amounts, decode_record, measures_of, scalars_by_path
from loadsheet.extras import holidays_of
from loadsheet.ledger import Drop, Entry, ExceptionStatus, Origin, Remark, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import locate
from loadsheet.places import BY_DAY_AND_RUN
from loadsheet.problems import NOWHERE, Where
from loadsheet.reconcile import MEANINGS, Verdict, gap_of
from loadsheet.reports.report_files import text_of
from loadsheet.reports.run_summary import place_for_people
from loadsheet.reports.sheets import Cell, Column, Formula, Kind, Link, Page, TableSheet, Tone, Value
from loadsheet.workbook_marks import (
    ACCEPTED,
    CLOSING_STATUSES,
    HEADS,
    ID,
    OPEN,
    REASONS,
    STATUSES,
    WRITTEN,
    as_written,
    exception_id,
)

BUCKETS = ("0 days", "1 day", "2 to 5 days", "6 to 10 days", "over 10 days")
"""Ages in working days as reports group them. No spreadsheet reads these as a number, date or comparison."""

LIMITS = (0, 1, 5, 10)
"""The maximum of working days of each bucket except the last."""

_WEEKEND = 5


class Ages:
    """Counts working days up to the day of the run. `says` defines them in words."""

    def __init__(self, today: str, country: str = "") -> None:
        """`today` is ISO 8601. `country` is like `DE`, or `DE-SN` with a subdivision; empty: Monday to Friday, no holidays."""
        self._today = date.fromisoformat(today[:10])
        calendar = holidays_of(country, "reports.working_days") if country else None
        self._is_working: Callable[[date], bool] = (
            calendar.is_working_day if calendar is not None else lambda day: day.weekday() < _WEEKEND
        )
        unknown = f"; the holidays of {country} are unknown" if country else ""
        known = f"those of {country}, without its public holidays"
        self.calendar_text = f"working days are {known if calendar is not None else f'Monday to Friday{unknown}'}"
        self._counted = cache(self._count)

    def days(self, since: str) -> int:
        """The working days from the day of `since` (ISO 8601) to today; 0 if that is today or later."""
        return self._counted(since[:10])

    def _count(self, since: str) -> int:
        first = date.fromisoformat(since)
        passed = (first + timedelta(days=number + 1) for number in range(max(0, (self._today - first).days)))
        return sum(map(self._is_working, passed))


def bucket_of(days: int) -> str:
    """The bucket of an age in working days."""
    return next((name for name, most in zip(BUCKETS, LIMITS, strict=False) if days <= most), BUCKETS[-1])


NO_REASON = "none or other"
CLOSED = "Closed"

_BATCH = 500
_NAMED = 3
_DROPS_KNOWN = 64
_TARGET_MAX = 2_000  # characters of a link
_UNSAFE = re.compile(r"[%#?\s\"<>\[\]^`{}|]")
_PARTS = {"{yyyy}": "[0-9]{4}", "{mm}": "[0-9]{2}", "{dd}": "[0-9]{2}", "{run}": "[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]+"}
_YOURS = range(13, 17)
_TONES = {3: Tone.BAD, **dict.fromkeys(_YOURS, Tone.YOURS)}
_WARNS = ((10, Tone.BAD), (5, Tone.NOTE))

CLOSED_COLUMNS = (
    Column(ID, width=10),
    Column("Key", width=12, width_max=26),
    Column("Operation", width=13),
    Column("Mapping", width=10, width_max=20),
    Column("Outcome", width=18),
    Column("Closed because", width=20, width_max=34),
    Column("First seen", Kind.DAY, width=11),
    Column("In run", width=14),
    Column("Closed in run", width=14),
    Column("Age", Kind.COUNT, width=6),
    *(Column(head, width=10, width_max=40, wrap=name == "comment") for name, head in HEADS.items()),
    Column("Annotated by", width=10, width_max=24),
    Column("Annotated at (UTC)", Kind.MOMENT, width=19),
)


def exception_columns(owners: Sequence[str]) -> tuple[Column, ...]:
    """The columns of the work list; `owners` are the choices of the owner column."""
    offered = {"owner": tuple(owners), "reason": REASONS, "status": STATUSES}
    return (
        # narrow, so that a page of A4 across stays readable
        Column(ID, width=4),
        Column("Key", width=10, width_max=14, wrap=True),
        Column("File", width=10, width_max=16, wrap=True),
        Column("Outcome", width=10, width_max=10, wrap=True),
        Column("Field", width=8, width_max=12, wrap=True),
        Column("Source value", width=8, width_max=14, wrap=True),
        Column("Sent value", width=5, width_max=12, wrap=True),
        Column("At exchange", width=6, width_max=12, wrap=True),
        Column("Difference", Kind.AMOUNT, width=6),
        Column("What is wrong", width=24, width_max=34, wrap=True),
        Column("Source cell", width=10, width_max=24),  # a link, which not every spreadsheet program wraps
        Column("First seen", Kind.DAY, width=8),
        Column("Age", Kind.COUNT, width=2, warns=_WARNS),
        Column(HEADS["owner"], width=6, width_max=12, choices=offered["owner"]),
        Column(HEADS["reason"], width=8, width_max=10, wrap=True, choices=offered["reason"]),
        Column(HEADS["comment"], width=12, width_max=24, wrap=True),
        Column(HEADS["status"], width=6, width_max=12, wrap=True, choices=offered["status"], strict=True),
        # hidden in print: the columns for filters and sums
        Column("Mapping", width=8, width_max=30, printed=False),
        Column("Operation", width=13, printed=False),
        Column("Bucket", width=12, printed=False),
        Column("Weight", Kind.AMOUNT, width=10, printed=False),
        Column("Unit", width=5, printed=False),
        Column("Value", Kind.MONEY, width=11, printed=False),
        Column("Currency", width=8, printed=False),
        Column("In run", width=14, printed=False),
        Column("Last in run", width=14, printed=False),
        Column("Times", Kind.COUNT, width=6, printed=False),
        Column(WRITTEN, hidden=True, printed=False),
    )


_REASON_OF = {
    Verdict.INVALID: "shipper data",
    Verdict.HELD: "waiting",
    Verdict.WAITING: "waiting",
    Verdict.REFUSED: "exchange refused",
    Verdict.UNKNOWN: "unknown outcome",
    Verdict.VALUE_DIFFERENCE: "exchange changed it",
    Verdict.MISSING: "exchange changed it",
    Verdict.STILL_LISTED: "exchange changed it",
    Verdict.LISTED_TWICE: "exchange changed it",
}
"""The reason of an exception until the analyst enters another one; that of all other outcomes is timing: the next run closes it."""


class Amount(NamedTuple):
    """A figure of an exception with its unit or currency."""

    amount: Decimal
    unit: str


@dataclass
class Aged:
    """Totals of open exceptions by age and reason: counts, and weights and values by unit."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    amounts: dict[tuple[str, str], dict[tuple[str, str], Decimal]] = field(default_factory=dict)
    new: int = 0
    oldest: int = 0

    @property
    def count(self) -> int:
        """The number of exceptions."""
        return self.counts.total()

    def add(self, place: tuple[str, str], figures: Mapping[str, Amount]) -> None:
        """Count an exception; `place` is its bucket and reason."""
        self.counts[place] += 1
        for name, (amount, unit) in figures.items():
            sums = self.amounts.setdefault((name, unit.upper()), {})  # spreadsheet formulas ignore case too
            sums[place] = sums.get(place, Decimal(0)) + amount


class SourceLinks:
    """Makes places in the files of shippers links to the kept originals.

    Whether these still exist is not checked: the same ledger gives the same workbook.
    """

    def __init__(self, archive: str, archive_path: str) -> None:
        """`archive` is the folder of originals relative to the workbook; empty: no links. `archive_path` is the setting; originals may
        also lie where it puts them by default.
        """
        self._archive, self._layouts = archive, tuple(dict.fromkeys((archive_path, BY_DAY_AND_RUN)))

    def link(self, drop: Drop, where: Where, text: str) -> str:
        """The text, as a link to the cell of the original; in a text file to the file."""
        kept_as = next((file.kept_as for file in drop.files if file.name == where.file), "")
        found = self._in_archive(kept_as.replace(os.sep, "/"), where.file) if self._archive and kept_as else ""
        if not found or "\\" in found:
            return text
        target = _UNSAFE.sub(lambda unsafe: quote(unsafe[0]), f"{self._archive}/{found}")
        if where.sheet:
            quoted = where.sheet.replace("'", "''")
            target += f"#'{quoted}'!{where.cell or f'A{where.row or 1}'}"
        return Link.to(target, text) if len(target) <= _TARGET_MAX else text

    def _in_archive(self, kept_as: str, name: str) -> str:
        """The path within the archive of the original of this name; empty if it does not lie there."""
        path = PurePosixPath(name)
        own = f"{re.escape(str(path.with_suffix('')))}(~[0-9]+)?{re.escape(path.suffix)}"
        for layout in self._layouts:
            folder = layout.removesuffix("{name}")
            pattern = "".join(_PARTS.get(part) or re.escape(part) for part in re.split(r"(\{\w+\})", folder))
            if found := re.fullmatch(f"(?:.*/)?({pattern}{own})", kept_as, re.DOTALL):
                return found[1]
        return ""


def _words(exception: ExceptionStatus, remarks: Mapping[str, Remark]) -> dict[str, str]:
    """The analyst's cells of an exception, with the reason that it begins with."""
    values = {name: remarks[name].value if name in remarks else "" for name in HEADS}
    return {**values, "reason": values["reason"] or _REASON_OF.get(Verdict(exception.verdict), "timing")}


class WorkList:
    """Writes exceptions to their sheets."""

    def __init__(self, queries: LedgerQueries, ages: Ages, run: str, links: SourceLinks) -> None:
        """`run` is the name of the reported run. The list counts what it writes: `aged`, the exceptions the analyst
        accepts, and those the analyst closed.
        """
        self._queries, self._ages, self._run, self._links = queries, ages, run, links
        self._drop = lru_cache(_DROPS_KNOWN)(queries.drop)
        self._origin = lru_cache(_DROPS_KNOWN)(queries.origin)
        self.aged, self.accepted, self.closed_by_analyst = Aged(), 0, 0

    def write(self, sheet: TableSheet, open_ones: Iterator[ExceptionStatus]) -> None:
        """Fill the sheet Exceptions and total its content."""
        for exception, entry, remarks in self._with_remarks(open_ones):
            values = _words(exception, remarks)
            values["status"] = values["status"] or OPEN
            days, figures = self._ages.days(exception.opened_at), _figures(entry)
            bucket = bucket_of(days)
            reason = values["reason"] if values["reason"] in REASONS else NO_REASON
            self.aged.add((bucket, reason), figures)
            self.accepted += values["status"] == ACCEPTED
            self.aged.new += exception.run == self._run
            self.aged.oldest = max(self.aged.oldest, days)
            weight, value = figures.get("weight", (None, "")), figures.get("goods value", (None, ""))
            drop = self._drop(entry.drop)
            *what, where = self._what(exception, entry)
            file, place = self._place(entry, drop, where)
            line: list[Value] = [exception_id(exception.entry), entry.key, file, exception.verdict]
            line += [*what, place, _day(exception.opened_at), days, *values.values()]
            line += [drop.mapping, entry.operation, bucket, *weight, *value, exception.run]
            line += [drop.run, len(exception.versions) or 1, as_written(values)]
            sheet.add(line, _TONES)

    def write_closed(self, sheet: TableSheet, closed: Iterator[ExceptionStatus]) -> None:
        """Fill the sheet Closed."""
        for exception, entry, remarks in self._with_remarks(closed):
            self.closed_by_analyst += exception.closed in CLOSING_STATUSES
            words = _words(exception, remarks).values()
            status = remarks.get("status")
            spoken = (status.who, datetime.fromisoformat(status.at)) if status else ("", None)
            where = (_day(exception.opened_at), exception.run, exception.closed_run or self._run)
            days = self._ages.days(exception.opened_at)
            head = (exception_id(exception.entry), entry.key, entry.operation, self._drop(entry.drop).mapping)
            sheet.add((*head, exception.verdict, exception.closed, *where, days, *words, *spoken), {5: Tone.GOOD})

    def _with_remarks(
        self, exceptions: Iterator[ExceptionStatus]
    ) -> Iterator[tuple[ExceptionStatus, Entry, dict[str, Remark]]]:
        while some := list(islice(exceptions, _BATCH)):
            remarks = self._queries.remarks_on([one.entry for one in some])
            latest = self._queries.entries_by_id([one.latest for one in some])
            for exception, entry in zip(some, latest, strict=True):
                yield exception, entry, remarks.get(exception.entry, {})

    def _what(self, exception: ExceptionStatus, entry: Entry) -> tuple[*tuple[Value, ...], Where]:
        """Field, source value, sent value, value at the exchange, difference, what is wrong, and its place."""
        if exception.differences:
            first, *others = exception.differences
            source, cell = self._source(entry, first.path)
            named = [one.path for one in others[:_NAMED]]  # the sheet Differences has all
            named += [f"{len(others) - _NAMED} more"] if len(others) > _NAMED else []
            wrong = MEANINGS[Verdict(exception.verdict)] + (f"; also {', '.join(named)}" if named else "")
            return (first.path, source, first.sent, first.held, gap_of(first), wrong, cell)
        errors = [one for one in entry.problems if one.level != "warning"]
        problem = next(iter(errors or entry.problems), None)
        if problem is None:
            reason = entry.reason if entry.state is not State.ACCEPTED else ""
            text = reason or MEANINGS.get(Verdict(exception.verdict), "")
            return ("", "", "", "", None, text, NOWHERE)
        path = problem.where.path
        source, cell = self._source(entry, path) if path else ("", NOWHERE)
        where = place_for_people(problem)
        sent = dict(scalars_by_path(entry.payload)).get(path, "") if path and entry.attempts else ""
        what = problem.text + (f" ({problem.hint})" if problem.hint else "")
        what = "; ".join((what, *(one.text for one in entry.problems if one.code in _OTHER_VERSION)))
        return (
            path or where.column,
            problem.found or source,
            text_of(sent),
            "",
            None,
            what,
            where if where.file and where.row else cell,
        )

    def _place(self, entry: Entry, drop: Drop, where: Where) -> tuple[str, str]:
        """The file of a place, and the place in it as a link to the original; if it is unknown, the first row of the entry."""
        if where == NOWHERE and entry.rows:
            table = drop.table(entry.rows[0].table)
            where = Where(table.file, table.sheet, entry.rows[0].number)
        if where == NOWHERE:
            return drop.name, ""
        text = f"{where.sheet}!{where.cell}" if where.cell else f"{where.sheet} row {where.row} {where.column}".strip()
        return where.file, self._links.link(drop, where, text)

    def _source(self, entry: Entry, path: str) -> tuple[str, Where]:
        """The cell behind a payload path as its sender sees it, and its place; nothing if the value comes from no cell."""
        origin: Origin = self._origin(entry.drop)
        for place in locate(origin.lineage, entry.rows, entry.links, path):
            row, table = entry.rows[place.row], origin.tables.get(place.table)
            if table is not None and place.label in table.header:
                position = table.header.index(place.label)
                value = row.cells[position] if position < len(row.cells) else ""
                return value, table.where(row.number, place.label)
        return "", NOWHERE


_OTHER_VERSION = ("L616", "L617")  # an invalid document of which another version is valid


def _day(moment: str) -> datetime:
    return datetime.combine(date.fromisoformat(moment[:10]), datetime.min.time())


def _figures(entry: Entry) -> dict[str, Amount]:
    """The weight and value of a document, each in the first unit its record names."""
    content = entry.payload or entry.figures
    measures = measures_of(BY_NAME[entry.operation]) if content else ()
    found: dict[str, Amount] = {}
    for measure, unit, amount in amounts(measures, decode_record(content)) if measures else ():
        if measure.scale is not Scale.COUNT:
            before = found.setdefault(measure.name, Amount(Decimal(0), unit))
            if before.unit == unit:
                found[measure.name] = Amount(before.amount + amount, unit)
    return found


AGEING_WIDTHS = (26, *[13.0] * (len(REASONS) + 2))
AGEING = "Ageing"

_SHOWN = (*REASONS, NO_REASON)
_MATRICES_MAX = 8
PLAIN_UNIT = re.compile(r"[A-Za-z0-9/.]{1,12}")
"""Units and currencies that may appear in headings and formulas. Other values come from records and may not."""
_AGED_FIGURES = {"weight": ("Weight", "Unit", Kind.AMOUNT), "goods value": ("Value", "Currency", Kind.MONEY)}

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
        head, unit_head, kind = _AGED_FIGURES.get(name, ("", "", Kind.AMOUNT))
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
        totals = []
        for column, reason in enumerate((*_SHOWN, None), start=1):
            total = sum(Decimal(amount) for place, amount in sums.items() if reason in (place[1], None))
            totals.append(Formula(f"=SUM({at(first, column)}:{at(last, column)})", float(total)))
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
        cells.append(Cell(Formula(f"=SUM({at(row, 1)}:{at(row, others)})", float(everything))))
        return cells

    def _cell(self, formula: str, result: int | Decimal) -> Cell:
        tone = Tone.PLAIN if result else Tone.MUTED
        return Cell(Formula(formula, float(result)) if self._live else float(result), tone)
