"""`run.html`: one run on one page.

Decides which documents are shown one by one, and in how much detail. Documents that need attention come first, most
urgent first. The rest is counted, with a link to its list. Memory and page size do not grow with the run.
`run_verdict` is the headline of a run here and in the index.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from loadsheet import exit_codes
from loadsheet.ledger import Drop, Entry, Origin
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile import MEANINGS, NEEDS_SOMEONE, Match, Verdict
from loadsheet.reports.document_details import Anchors, DocumentDetails, describe_document, files_of, places_of, tone_of
from loadsheet.reports.html_rendering import Bar, bars, page, part
from loadsheet.reports.report_files import placed
from loadsheet.reports.run_document import FileSummary, RunSummary
from loadsheet.reports.run_summary import (
    balance_sentence,
    fates_of,
    missing_sentence,
    verdict_sentence,
    with_missing_records,
)

CODES = {
    exit_codes.DONE: "clean",
    exit_codes.NEEDS_SOMEONE: "needs attention",
    exit_codes.NOTHING_USABLE: "nothing usable",
    exit_codes.INTERNAL_ERROR: "a fault of loadsheet",
    exit_codes.TRY_AGAIN: "stopped early; try again",
    exit_codes.TOKEN_REFUSED: "stopped early; token refused",
    exit_codes.CONFIG_WRONG: "settings wrong",
}
"""Exit codes in words."""


class RunVerdict(NamedTuple):
    """The words, and the tone of their colour: good, bad, note or plain."""

    text: str
    tone: str


def run_verdict(*, balances: bool, exit_code: int | None, needing: int, documents: int) -> RunVerdict:
    """The first that applies: the run does not balance, did not finish, has documents that need attention, or needs
    attention for another reason (a file was set aside); all is well; nothing came in.
    """
    if not balances:
        return RunVerdict("does not balance", "bad")
    if exit_code is not None and exit_code > 1:
        return RunVerdict(CODES.get(exit_code, f"exit code {exit_code}"), "bad")
    if needing:
        return RunVerdict(f"{needing:,} need{'s' if needing == 1 else ''} attention", "note")
    if exit_code:
        return RunVerdict(CODES[exit_code], "note")
    return RunVerdict("all is well", "good") if documents else RunVerdict("nothing came in", "plain")


PAGE = "run.html"

_IN_FULL_CHARACTERS = 550_000  # of all documents shown with their values
_CHARACTERS_MAX = 800_000  # of all documents that need attention
_FILES_MAX = 200
_FETCHED = 20  # entries per query
_CAUSES_MAX = 8
_MISSING_KEYS_MAX = 100
_OWN_ANCHORS = (
    *("main", "verdict", "balance", "outcomes", "first", "files", "missing", "left", "figures", "orders", "others"),
    *("find", "outcome", "file", "mapping", "count"),
)
_PRESSING = (
    Verdict.UNKNOWN,
    Verdict.MISSING,
    Verdict.STILL_LISTED,
    Verdict.LISTED_TWICE,
    Verdict.VALUE_DIFFERENCE,
    Verdict.REFUSED,
    Verdict.INVALID,
    Verdict.HELD,
)
_RANK = {verdict: rank for rank, verdict in enumerate(_PRESSING)}


class _Kept(NamedTuple):
    """A document that needs attention, in a heap with the least urgent on top.

    Its entry is fetched again when it is shown, because hundreds of documents may have thousands of values each.
    """

    less: tuple[int, int]
    entry: int
    match: Match
    drop: int


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A document that needs no action, as a line of a table."""

    key: str
    operation: str
    verdict: Verdict
    receipt: str
    drop: Drop
    places: tuple[str, ...]
    files: tuple[str, ...]
    anchor: str = ""

    @property
    def tone(self) -> str:
        """The colour of its verdict."""
        return tone_of(self.verdict)


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file of the run with its drop, and its rows by outcome. `fix` are the fix files of its drop, shown with the
    first file. `unused` are columns that the mapping does not read.
    """

    file: FileSummary
    fix: tuple[str, ...]
    run: str
    mapping: str
    fates: Counter[str]
    rows: int
    unused: tuple[str, ...] = ()


class RunPage:
    """Collects the page. Open each drop, add its entries, then call `finish`."""

    def __init__(self, queries: LedgerQueries, *, documents_max: int) -> None:
        """`queries` provides the lineage of shown values. At most `documents_max` documents are shown one by one."""
        self._queries, self._most = queries, documents_max
        self._drops: dict[int, Drop] = {}
        self._origins: dict[int, Origin] = {}
        self._needing: list[_Kept] = []
        self._others: list[DocumentLine] = []
        self._count = Counter[bool]()
        self._places: dict[str, str] = {}  # places of shown problems: the anchor of their document
        self._first: dict[Verdict, DocumentDetails] = {}

    def open(self, drop: Drop) -> None:
        """Begin with a drop."""
        self._drops[drop.id] = drop

    def add(self, entry: Entry, match: Match) -> None:
        """Keep an entry for the page, or count it."""
        needs = match.verdict in NEEDS_SOMEONE
        self._count[needs] += 1
        if not needs:
            if len(self._others) < self._most:
                self._others.append(self._line(entry, match))
            return
        kept = _Kept((-_RANK[match.verdict], -self._count[True]), entry.id, match, entry.drop)
        if len(self._needing) < self._most:
            heapq.heappush(self._needing, kept)
        elif kept.less > self._needing[0].less:
            heapq.heapreplace(self._needing, kept)

    def finish(self, folder: Path, summary: RunSummary) -> str:
        """Write the page into the run's report folder and return its name."""
        anchors = Anchors(_OWN_ANCHORS)
        needing = sorted(self._needing, key=lambda kept: kept.less, reverse=True)
        others = self._others[: max(0, self._most - len(needing))]
        sections = list(self._sections(needing, anchors))
        files = _files(summary)
        answers = {name for line in files for name in (*line.file.results, *line.fix)}
        reports = [name for name in summary.reports if name not in answers and "/" not in name]
        values = {
            "summary": summary,
            "word": run_verdict(
                balances=summary.balance.balances,
                exit_code=summary.exit_code,
                needing=self._count[True],
                documents=self._count.total(),
            ),
            "verdict": verdict_sentence(summary),
            "balance": balance_sentence(summary),
            "sections": sections,
            "needing": self._count[True],
            "others": [replace(other, anchor=anchors.take(other.key)) for other in others],
            "agreeing": self._count[False],
            "outcomes": list(_outcomes(summary)),
            "chart": bars("Documents by outcome; the table beside it has the same numbers", list(_bars(summary))),
            "meanings": MEANINGS,
            "only_listed": MEANINGS[Verdict.ONLY_LISTED],
            "pressing": [(verdict, summary.verdicts[verdict], details) for verdict, details in self._first.items()],
            "anchors": self._places,
            "causes": summary.causes[:_CAUSES_MAX],
            "causes_more": len(summary.causes[_CAUSES_MAX:]),
            "files": files[:_FILES_MAX],
            "files_more": len(files[_FILES_MAX:]),
            "missing": [missing_sentence(drop, keys_max=_MISSING_KEYS_MAX) for drop in with_missing_records(summary)],
            "left_more": summary.inbox.count - len(summary.inbox.files),
            "reports": reports,
            "workbook": next((name for name in reports if name.endswith(".xlsx")), ""),
            "for_programs": sum("/" in name for name in summary.reports),
            "choices": _choices(
                {*(kept.match.verdict for kept in needing), *(other.verdict for other in others)},
                [*(self._drops[kept.drop] for kept in needing), *(other.drop for other in others)],
            ),
        }
        with placed(folder / PAGE) as target:
            target.write_bytes(page("run.html", values))
        return PAGE

    def _sections(self, needing: Sequence[_Kept], anchors: Anchors) -> Iterator[Markup]:
        """The documents that need attention: first with values, then without, until the page is full."""
        spent, brief = 0, False
        for entry, match in self._fetched(needing):
            details = describe_document(
                anchors.take(entry.key), entry, match, self._drops[entry.drop], self._origin(entry.drop)
            )
            section = part("order.html", {"document": details, "brief": brief})
            if not brief and spent + len(section) > _IN_FULL_CHARACTERS:
                brief = True
                section = part("order.html", {"document": details, "brief": brief})
            spent += len(section)
            if spent > _CHARACTERS_MAX:
                return
            for problem in details.problems:
                self._places.setdefault(str(problem.where), details.anchor)
            self._first.setdefault(details.verdict, details)
            yield section

    def _fetched(self, needing: Sequence[_Kept]) -> Iterator[tuple[Entry, Match]]:
        for start in range(0, len(needing), _FETCHED):
            some = needing[start : start + _FETCHED]
            entries = self._queries.entries_by_id([kept.entry for kept in some])
            yield from zip(entries, (kept.match for kept in some), strict=True)

    def _line(self, entry: Entry, match: Match) -> DocumentLine:
        drop = self._drops[entry.drop]
        tables = {table.name: table for table in drop.tables}
        places, files = places_of(entry.rows, tables), files_of(entry.rows, tables)
        return DocumentLine(entry.key, entry.operation, match.verdict, entry.receipt, drop, places, files)

    def _origin(self, drop: int) -> Origin:
        if drop not in self._origins:
            self._origins[drop] = self._queries.origin(drop)
        return self._origins[drop]


def _outcomes(summary: RunSummary) -> Iterator[tuple[Verdict, int, str]]:
    for verdict in Verdict:
        if count := summary.verdicts.get(verdict, 0):
            yield verdict, count, tone_of(verdict)


def _bars(summary: RunSummary) -> Iterator[Bar]:
    for verdict, count, tone in _outcomes(summary):
        yield Bar(verdict, count, tone)


def _files(summary: RunSummary) -> list[FileLine]:
    return [
        FileLine(
            file,
            drop.fix if place == 0 else (),
            drop.run,
            drop.mapping,
            fates_of(file),
            sum(table.rows for table in file.tables),
            tuple(dict.fromkeys(heading for table in file.tables for heading in table.unused)),
        )
        for drop in summary.drops
        for place, file in enumerate(drop.files)
    ]


def _choices(verdicts: Collection[Verdict], drops: Sequence[Drop]) -> dict[str, list[str]]:
    """The choices of the filters: outcomes, files and mappings of the shown documents."""
    mine = {drop.id: drop for drop in drops}.values()
    return {
        "outcome": [verdict for verdict in Verdict if verdict in verdicts],
        "file": list(dict.fromkeys(table.file for drop in mine for table in drop.tables)),
        "mapping": sorted({drop.mapping for drop in mine if drop.mapping}),
    }
