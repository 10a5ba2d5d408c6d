"""The sheets Summary, Control totals and Sign-off of the reconciliation workbook.

Summary: the verdict in a sentence, then its figures and two charts of cells of other sheets. Control totals: the
tie-out of rows by file, and the figures of all documents on each leg. Sign-off: who prepared, who reviewed, what they
accept, and the digests of the data. Every number comes from the summary, the reconciliation, or the ledger's counts of
earlier runs. Formulas are live; the run's results are stored for programs that do not calculate.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from xlsxwriter.utility import xl_rowcol_to_cell as at  # type: ignore[import-untyped]  # has annotations but no py.typed

from loadsheet.contract import Scale
from loadsheet.display_text import count_of
from loadsheet.ledger import STATES_THAT_NEED_SOMEONE, Run, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile import AGREES, FATES, IGNORED, MEANINGS, RED, VERDICTS_THAT_NEED_SOMEONE, Share, Verdict
from loadsheet.reconcile.balance import AGREEING
from loadsheet.reports.headline import balance_sentence, totals_texts
from loadsheet.reports.reconciliation.worklist import PLAIN_UNIT, Aged, AgeingCells
from loadsheet.reports.run_document import LegSummary, RunSummary, TotalSummary
from loadsheet.reports.run_summary import agreement_sentence
from loadsheet.reports.sheets import Cell, Column, Formula, Kind, Page, TableSheet, Tone, Value
from loadsheet.workbook_marks import ACCEPTED, HEADS

RUNS_SHOWN = 30
_RUNS_READ_MAX = 120  # a watched inbox has many runs without files


class RunCounts(NamedTuple):
    """The documents of a run: how many agree, wait or cannot be verified, and need attention; and its verdicts as far
    as they are known.
    """

    run: str
    agree: int
    open: int
    need: int
    verdicts: Mapping[str, int]


class _Kept(msgspec.Struct):
    entries: dict[str, int] = {}
    verdicts: dict[str, int] = {}
    settled: dict[str, int] = {}


_read = msgspec.json.Decoder(_Kept).decode


def trend(queries: LedgerQueries, run: Run, summary: RunSummary) -> tuple[RunCounts, ...]:
    """The latest runs with documents, oldest first, up to this one, whose summary is given."""
    before = [one for one in queries.runs(_RUNS_READ_MAX) if one.id < run.id and one.summary]
    runs = [counts for counts in map(_run_counts, before) if counts is not None]
    return (*reversed(runs[: RUNS_SHOWN - 1]), _counts_of(run.name, summary.verdicts, summary.settled))


def _run_counts(run: Run) -> RunCounts | None:
    try:
        kept = _read(run.summary)
    except msgspec.MsgspecError:
        return None
    if kept.verdicts:
        return _counts_of(run.name, kept.verdicts, kept.settled)
    if not kept.entries:
        return None
    return RunCounts(run.name, *_sums(kept.entries, (State.ACCEPTED, State.UNCHANGED), STATES_THAT_NEED_SOMEONE), {})


def _counts_of(run: str, verdicts: Mapping[str, int], settled: Mapping[str, int]) -> RunCounts:
    return RunCounts(run, *_sums(Counter(verdicts) - Counter(settled), AGREES, VERDICTS_THAT_NEED_SOMEONE), verdicts)


def _sums(
    counts: Mapping[str, int],
    agreeing: frozenset[Verdict] | tuple[State, ...],
    needing: frozenset[Verdict] | frozenset[State],
) -> tuple[int, int, int]:
    agree = sum(count for name, count in counts.items() if name in agreeing)
    need = sum(count for name, count in counts.items() if name in needing)
    return agree, sum(counts.values()) - agree - need, need


_CHART_LINES = 15  # page rows that the charts cover
_RUNS_FOR_CHARTS = 3  # fewer runs show no trend

_SIZE = {"width": 590, "height": 275}
_COLOURS = {"agree": "#5B9A6F", "open": "#E0B252", "need": "#C25450", "age": "#486581"}
_TITLE = {"name": "Arial", "size": 11, "bold": True, "color": "#243B53"}
_AXIS = {"num_font": {"name": "Arial", "size": 8, "color": "#616E7C"}, "line": {"color": "#D9E2EC"}}
_VALUES = {**_AXIS, "min": 0, "num_format": "#,##0", "major_gridlines": {"visible": True, "line": {"color": "#E4E7EB"}}}


class TrendCells(NamedTuple):
    """References to the cells of the latest runs: their names and the three counts of each."""

    runs: str
    agree: str
    open: str
    need: str


def _write_charts(page: Page, trend: TrendCells, ageing: AgeingCells) -> None:
    """Place both charts side by side at the current row."""
    outcomes = page.book.chart("column", subtype="stacked")
    for name, values, colour in (
        ("agree", trend.agree, "agree"),
        ("wait or not verifiable", trend.open, "open"),
        ("need attention", trend.need, "need"),
    ):
        _series(outcomes, name, (trend.runs, values), _COLOURS[colour], gap=40)
    _dress(outcomes, "Documents of the last runs, by outcome")
    ages = page.book.chart("bar")
    labels = {"value": True, "font": {"name": "Arial", "size": 9}}
    _series(ages, "open exceptions", (ageing.buckets, ageing.counts), _COLOURS["age"], gap=60, data_labels=labels)
    _dress(ages, "Open exceptions, by age in working days")
    ages.set_y_axis({**_AXIS, "reverse": True})
    ages.set_x_axis(_VALUES)
    ages.set_legend({"none": True})
    page.sheet.insert_chart(
        page.row, 0, outcomes, {"x_offset": 4, "y_offset": 6, "description": "Outcomes of the last runs"}
    )
    page.sheet.insert_chart(page.row, 5, ages, {"x_offset": 20, "y_offset": 6, "description": "Open exceptions by age"})
    page.row += _CHART_LINES


def _series(chart: Any, name: str, cells: tuple[str, str], colour: str, **options: Any) -> None:
    categories, values = (f"={place}" for place in cells)
    chart.add_series({"name": name, "categories": categories, "values": values, "fill": {"color": colour}, **options})


def _dress(chart: Any, title: str) -> None:
    chart.set_title({"name": title, "name_font": _TITLE, "overlay": False})
    chart.set_x_axis(_AXIS)
    chart.set_y_axis(_VALUES)
    chart.set_size(_SIZE)


FRONT_WIDTHS = (34, *[11.5] * 11, 19)

_FIGURES = (
    ("packages", "Packages", Kind.COUNT, 1),
    ("weight", "Weight", Kind.AMOUNT, 2),
    ("goods value", "Value", Kind.MONEY, 5),
)
"""The figures by outcome: name here, content, and the maximum of units or currencies, most used first."""

_REASONS_SHOWN, _KINDS_SHOWN = 5, 8
_NOT_KNOWN = "not known"  # documents that could not be built have no figures
_VERDICTS = tuple(verdict for verdict in Verdict if verdict is not Verdict.ONLY_LISTED)


class FrontPageData(NamedTuple):
    """What the front page shows besides the run's summary: the figures by verdict, the open exceptions by age and
    reason, the number closed by this run, references to chart data, the number of runs in it, the previous run, and more
    lines for the head.
    """

    shares: Sequence[Share]
    aged: Aged
    closed: int
    ageing: AgeingCells
    trend: TrendCells
    runs: int
    before: RunCounts | None
    notes: Sequence[str]


def write_front(page: Page, summary: RunSummary, data: FrontPageData) -> None:
    """Fill the sheet Summary."""
    _head(page, summary, data)
    _outcomes(page, summary, data)
    if data.runs >= _RUNS_FOR_CHARTS:
        _write_charts(page, data.trend, data.ageing)
    _reasons(page, data)
    _problems(page, summary)
    page.finish()


def _head(page: Page, summary: RunSummary, data: FrontPageData) -> None:
    verdict = summary.headline
    page.heading(f"Reconciliation {summary.run}", 34, 18)
    tone = Tone(verdict.tone)
    page.line(verdict.text, tone, band=True, height=30, font_size=13, bold=True, valign="vcenter", indent=1)
    if verdict.details:
        page.line(" · ".join(verdict.details), tone, band=True, indent=1)
    balanced = Tone.GOOD if summary.balance.balances else Tone.BAD
    page.line(balance_sentence(summary), balanced, band=True, height=20, valign="vcenter")
    if totals := list(totals_texts(summary)):
        page.line(" · ".join(text for _, text in totals), Tone(totals[0][0]), band=True)
    if agreement := agreement_sentence(summary):
        page.line(agreement, Tone.PLAIN, indent=1)
    for leg in summary.legs:
        page.line(
            f"At the exchange: {leg.says}", Tone.PLAIN if leg.complete else Tone.NOTE, band=not leg.complete, indent=1
        )
    code = "" if summary.exit_code is None else f", exit code {summary.exit_code}"
    when = (
        f"{summary.started_at} to {summary.finished_at or 'now'} (UTC){code}; exchange {summary.settings['exchange']}"
    )
    for note in (when, *data.notes):
        page.line(note, Tone.MUTED)


def _outcomes(page: Page, summary: RunSummary, data: FrontPageData) -> None:
    page.section("Outcomes")
    figures = list(_figures(data.shares))
    heads = [Column(head, kind) for head, kind, _ in figures]
    columns = [Column("Outcome"), Column("Documents", Kind.COUNT), Column("Share", Kind.SHARE)]
    columns += [Column("Change", Kind.CHANGE), *heads, Column("Meaning")]
    first, total = page.row + 1, sum(summary.verdicts.values())
    before = data.before.verdicts if data.before is not None else {}
    occurring = [verdict for verdict in _VERDICTS if summary.verdicts.get(verdict) or before.get(verdict)]
    occurring = occurring or list(_VERDICTS)  # a table needs rows
    sum_at = at(first + len(occurring), 1, row_abs=True)
    rows = []
    for row, verdict in enumerate(occurring, start=first):
        count = summary.verdicts.get(verdict, 0)
        known = Tone.GOOD if verdict in AGREES else Tone.BAD if verdict in VERDICTS_THAT_NEED_SOMEONE else Tone.NOTE
        tone, rest = (known, Tone.PLAIN) if count else (Tone.MUTED, Tone.MUTED)
        share = Formula(f"=IF({sum_at}=0,0,{at(row, 1)}/{sum_at})", count / total if total else 0)
        values: list[Value | Formula] = [count, share, count - before.get(verdict, 0) if before else None]
        values += [
            sums.get(verdict, _NOT_KNOWN if count and verdict is Verdict.INVALID else None) for _, _, sums in figures
        ]
        rows.append([Cell(verdict, tone), *(Cell(value, rest) for value in values), Cell(MEANINGS[verdict], rest)])
    page.table("tblOutcomes", columns, rows)
    sums = [total, None, None, *(float(sum(one.values())) for _, _, one in figures)]
    added = [
        Cell(None if one is None else Formula(f"=SUM({at(first, column)}:{at(page.row - 1, column)})", one))
        for column, one in enumerate(sums, start=1)
    ]
    page.total(columns, [Cell("all documents"), *added])
    if data.before is not None:
        page.line(
            f"Change: since run {data.before.run}. Figures: as requested by the source files, creates and updates only.",
            Tone.MUTED,
        )
    if summary.only_at_exchange:
        beyond = f"In addition: {summary.only_at_exchange:,} {Verdict.ONLY_LISTED}: {MEANINGS[Verdict.ONLY_LISTED]}"
        page.line(f"{beyond} (sheet Only at exchange)", Tone.NOTE, band=True)


def _figures(shares: Sequence[Share]) -> Iterator[tuple[str, Kind, dict[str, Decimal]]]:
    """The figures with a column: packages, then weights and values in the most used units."""
    sums: dict[tuple[str, str], dict[str, Decimal]] = {}
    for verdict, figure, unit, amount in shares:
        if not unit or PLAIN_UNIT.fullmatch(unit):
            sums.setdefault((figure, unit), {})[verdict] = amount
    used: set[str] = set()  # headings of a table must differ by more than case
    for figure, name, kind, most in _FIGURES:
        places = sorted((place for place in sums if place[0] == figure), key=lambda place: (-len(sums[place]), place))
        for _, unit in places[:most]:
            head = f"{name} {unit}".strip()
            if head.casefold() not in used:
                used.add(head.casefold())
                yield head, kind, sums[figure, unit]


def _reasons(page: Page, data: FrontPageData) -> None:
    page.section("Open exceptions")
    aged, closed = data.aged, data.closed
    oldest = f"; the oldest is {count_of(aged.oldest, 'working day')} old" if aged.count else ""
    page.line(
        f"{aged.count:,} open: {aged.new:,} first seen in this run, {aged.count - aged.new:,} rolled forward{oldest}; {closed:,} closed"
    )
    if not aged.count:
        return
    counts: Counter[str] = Counter()
    for (_, reason), count in aged.counts.items():
        counts[reason] += count
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_REASONS_SHOWN]
    rows = [[Cell(reason), Cell(Formula(f"={data.ageing.reasons[reason]}", count))] for reason, count in ranked]
    page.table("tblReasons", [Column("Reason"), Column("Exceptions", Kind.COUNT)], rows)


def _problems(page: Page, summary: RunSummary) -> None:
    if not summary.problems:
        return
    page.section("Problems by kind")
    columns = [Column("Problem"), Column("Count", Kind.COUNT), Column("Level"), Column("First places")]
    rows = [
        [
            Cell(f"{problem.code} {problem.title}"),
            Cell(problem.count),
            Cell(problem.level),
            Cell(", ".join(problem.places)),
        ]
        for problem in summary.problems[:_KINDS_SHOWN]
    ]
    page.table("tblKinds", columns, rows)
    if (hidden := len(summary.problems) - _KINDS_SHOWN) > 0:
        page.line(f"and {hidden} more kind{'s' if hidden > 1 else ''} (sheet Problems)", Tone.MUTED)


CONTROL = "Control totals"
CONTROL_WIDTHS = (34, *[11.5] * 7, *[14] * 3, 11.5, 19)
WAITING = "waiting"
FATES_SHOWN = (*(fate for fate in FATES if fate not in (State.SENDING, State.READY, IGNORED)), WAITING, IGNORED)
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
        counts = [Cell(count, Tone.PLAIN if count else Tone.MUTED) for count in (table.rows, *fates_shown(table.fates))]
        rows.append(
            [Cell(place), *counts, *_checked(row, table.rows, sum(table.fates.values()), balances=table.balances)]
        )
    page.table("tblBalance", columns, rows)
    sums = (summary.balance.read, *fates_shown(summary.balance.rows))
    added = [
        Cell(Formula(f"=SUM({at(first, column)}:{at(page.row - 1, column)})", result))
        for column, result in enumerate(sums, start=1)
    ]
    last = _checked(
        page.row, summary.balance.read, sum(summary.balance.rows.values()), balances=summary.balance.balances
    )
    page.total(columns, [Cell("all files"), *added, *last])


def _checked(row: int, read: int, accounted: int, *, balances: bool) -> list[Cell]:
    """The last three cells of a balance line: sum, difference and result."""
    end = len(FATES_SHOWN) + 1
    total = Formula(f"=SUM({at(row, 2)}:{at(row, end)})", accounted)
    rest = Formula(f"={at(row, 1)}-{at(row, end + 1)}", read - accounted)
    if read == accounted and not balances:
        return [Cell(total), Cell(rest), Cell("ROWS TWICE", Tone.BAD)]
    result = Formula(
        f'=IF({at(row, end + 2)}=0,"balances","DOES NOT BALANCE")', "balances" if balances else "DOES NOT BALANCE"
    )
    return [Cell(total), Cell(rest), Cell(result, Tone.GOOD if balances else Tone.BAD)]


def _control(page: Page, summary: RunSummary) -> None:
    if not summary.totals:
        return
    page.section("Control totals of creates and updates; units and currencies are never mixed")
    legs = ("Source", "Not sent", "Sent", "Replaced later", "Acknowledged", "At exchange")
    gaps = ("Source - not sent - sent", "Sent - replaced - acknowledged", "Acknowledged - at exchange")
    columns = [Column("Figure"), Column("Unit"), *(Column(head, Kind.AMOUNT) for head in legs + gaps), Column("Says")]
    seen = {leg.subject: leg for leg in summary.legs}
    rows = [
        _controlled(row, total, seen.get(total.subject)) for row, total in enumerate(summary.totals, start=page.row + 1)
    ]
    page.table("tblControl", columns, rows)
    for subject, count in {total.subject: total.not_built for total in summary.totals if total.not_built}.items():
        page.line(
            f"{count_of(count, subject)} could not be built: the figures are not known and in no column.", Tone.MUTED
        )
    page.line("Replaced later: accepted, then updated or deleted by a later call (sheet Differences).", Tone.MUTED)
    page.line("Sent - replaced - acknowledged: refused, or of unknown outcome.", Tone.MUTED)


def _controlled(row: int, total: TotalSummary, leg: LegSummary | None) -> list[Cell]:
    kind = _SCALES[Scale(total.scale)]
    source, not_sent, sent, replaced, acknowledged, listed = (at(row, column) for column in range(2, 8))
    read = leg is not None and leg.read
    gaps = (
        total.source - total.not_sent - total.sent,
        total.sent - total.replaced - total.acknowledged,
        total.acknowledged - total.listed,
    )
    formulas = (f"{source}-N({not_sent})-{sent}", f"{sent}-{replaced}-{acknowledged}", f"{acknowledged}-{listed}")
    unknown = total.not_built and not total.not_sent
    amounts: list[Value] = [total.source, _NOT_KNOWN if unknown else total.not_sent, total.sent, total.replaced]
    amounts += [total.acknowledged, total.listed if read else None]
    shown = [
        Formula(f"=ROUND({formula},{_PLACES})", float(round(gap, _PLACES)))
        for formula, gap in zip(formulas, gaps, strict=True)
    ]
    tone = Tone.BAD if total.says in RED else Tone.GOOD if total.says == AGREEING else Tone.NOTE
    first, last = at(row, 8), at(row, 10)
    test = f'=IF({first}<>0,"does not add up",IF(ABS({last})<={total.tolerance},"agrees","differs"))'
    result = Formula(test, total.says) if total.says in (AGREEING, *RED) else total.says
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
    digests = [[Cell(one.title), Cell(one.count, kind=Kind.COUNT), Cell(one.sha256)] for one in tables]
    page.table("tblDigests", (Column("Sheet"), Column("Rows"), Column("SHA-256")), digests)
    how = "SHA-256 of all rows as written: values as UTF-8 texts, the character 1F between them, a line feed after each row."
    page.line(how, Tone.MUTED)
    page.finish()


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
