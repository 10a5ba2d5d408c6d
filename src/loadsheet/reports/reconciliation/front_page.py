"""The front page of the reconciliation workbook: the verdict in a sentence, then its figures and two charts.

Every number comes from the summary, the reconciliation, or the ledger's counts of earlier runs. Sums and shares are
live formulas with stored results, for programs that do not calculate. The charts use cells of other sheets.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from xlsxwriter.utility import xl_rowcol_to_cell as at  # type: ignore[import-untyped]  # has annotations but no py.typed

from loadsheet.ledger import NEEDS_SOMEONE as STATES_THAT_NEED_SOMEONE
from loadsheet.ledger import Run, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile import AGREES, MEANINGS, NEEDS_SOMEONE, Share, Verdict
from loadsheet.reports.book import Kind, Tone
from loadsheet.reports.reconciliation.control_sheets import PLAIN_UNIT, AgeingCells
from loadsheet.reports.reconciliation.worklist import Aged
from loadsheet.reports.run_document import RunSummary
from loadsheet.reports.sentences import balance_sentence, verdict_sentence
from loadsheet.reports.sheets import Cell, Column, Formula, Page, Value

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


_read = msgspec.json.Decoder(_Kept).decode


def trend(queries: LedgerQueries, run: Run, verdicts: Mapping[str, int]) -> tuple[RunCounts, ...]:
    """The latest runs with documents, oldest first, up to this one, whose verdicts are given."""
    before = [one for one in queries.runs(_RUNS_READ_MAX) if one.id < run.id and one.summary]
    runs = [counts for counts in map(_run_counts, before) if counts is not None]
    return (*reversed(runs[: RUNS_SHOWN - 1]), _counts_of(run.name, verdicts))


def _run_counts(run: Run) -> RunCounts | None:
    try:
        kept = _read(run.summary)
    except msgspec.MsgspecError:
        return None
    if kept.verdicts:
        return _counts_of(run.name, kept.verdicts)
    if not kept.entries:
        return None
    return RunCounts(run.name, *_sums(kept.entries, (State.ACCEPTED, State.UNCHANGED), STATES_THAT_NEED_SOMEONE), {})


def _counts_of(run: str, verdicts: Mapping[str, int]) -> RunCounts:
    return RunCounts(run, *_sums(verdicts, AGREES, NEEDS_SOMEONE), verdicts)


def _sums(
    counts: Mapping[str, int],
    agreeing: frozenset[Verdict] | tuple[State, ...],
    needing: frozenset[Verdict] | frozenset[State],
) -> tuple[int, int, int]:
    agree = sum(count for name, count in counts.items() if name in agreeing)
    need = sum(count for name, count in counts.items() if name in needing)
    return agree, sum(counts.values()) - agree - need, need


_CHART_LINES = 15  # page rows that the charts cover

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
    ("weight", "Weight", Kind.AMOUNT, 1),
    ("goods value", "Value", Kind.MONEY, 2),
)
"""The figures by outcome: name here, content, and the maximum of units or currencies, most used first."""

_REASONS_SHOWN, _KINDS_SHOWN = 5, 8
_VERDICTS = tuple(verdict for verdict in Verdict if verdict is not Verdict.ONLY_LISTED)


class FrontPageData(NamedTuple):
    """What the front page shows besides the run's summary: the figures by verdict, the open exceptions by age and
    reason, the number closed by this run, references to chart data, the previous run, and more lines for the head.
    """

    shares: Sequence[Share]
    aged: Aged
    closed: int
    ageing: AgeingCells
    trend: TrendCells
    before: RunCounts | None
    notes: Sequence[str]


def write_front(page: Page, summary: RunSummary, data: FrontPageData) -> None:
    """Fill the sheet Summary."""
    _head(page, summary, data)
    _outcomes(page, summary, data)
    _write_charts(page, data.trend, data.ageing)
    _reasons(page, data)
    _problems(page, summary)
    page.finish()


def _head(page: Page, summary: RunSummary, data: FrontPageData) -> None:
    clean = not (summary.needs_someone.entries or summary.inbox.stuck or summary.red_totals)
    tone = Tone.BAD if not summary.balance.balances else Tone.GOOD if clean else Tone.NOTE
    page.heading(f"Reconciliation {summary.run}", 34, 18)
    page.line(
        verdict_sentence(summary), tone, band=True, height=30, font_size=13, bold=True, valign="vcenter", indent=1
    )
    balanced = Tone.GOOD if summary.balance.balances else Tone.BAD
    page.line(balance_sentence(summary), balanced, band=True, height=20, valign="vcenter")
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
    sum_at = at(first + len(_VERDICTS), 1, row_abs=True)
    rows = []
    for row, verdict in enumerate(_VERDICTS, start=first):
        count = summary.verdicts.get(verdict, 0)
        tone, rest = _tone(verdict, count), Tone.PLAIN if count else Tone.MUTED
        share = Formula(f"=IF({sum_at}=0,0,{at(row, 1)}/{sum_at})", count / total if total else 0)
        values: list[Value | Formula] = [count, share, _change(data.before, verdict, count)]
        values += [sums.get(verdict) for _, _, sums in figures]
        rows.append([Cell(verdict, tone), *(Cell(value, rest) for value in values), Cell(MEANINGS[verdict], rest)])
    page.table("tblOutcomes", columns, rows)
    span = (first, page.row - 1)
    sums = [total, None, None, *(float(sum(one.values())) for _, _, one in figures)]
    added = [Cell(None) if one is None else Cell(_sum(column, span, one)) for column, one in enumerate(sums, start=1)]
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


def _sum(column: int, span: tuple[int, int], result: float) -> Formula:
    first, last = span
    return Formula(f"=SUM({at(first, column)}:{at(last, column)})", result)


def _change(before: RunCounts | None, verdict: Verdict, count: int) -> int | None:
    return None if before is None or not before.verdicts else count - before.verdicts.get(verdict, 0)


def _tone(verdict: Verdict, count: int) -> Tone:
    if not count:
        return Tone.MUTED
    return Tone.GOOD if verdict in AGREES else Tone.BAD if verdict in NEEDS_SOMEONE else Tone.NOTE


def _reasons(page: Page, data: FrontPageData) -> None:
    page.section("Open exceptions")
    aged, closed = data.aged, data.closed
    oldest = f"; the oldest is {aged.oldest:,} working days old" if aged.count else ""
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
