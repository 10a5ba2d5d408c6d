"""`run.html`: one run on one page.

Decides which documents are shown one by one, and in how much detail. Documents that need attention come first, most
urgent first. The rest is counted, with a link to its list. Memory and page size do not grow with the run. A document
shows why it needs attention, and its values on three legs: source, sent and listed side by side, each with its cells.
Field names of the payload are shown unchanged and never interpreted.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from loadsheet.contract import scalars_by_path
from loadsheet.ledger import Drop, Entry, Origin, SourceTable, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import SourceRow, locate
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import MEANINGS, VERDICTS_THAT_NEED_SOMEONE, Match, Verdict
from loadsheet.reports.headline import attention, balance_sentence, rows_needing, totals_texts
from loadsheet.reports.html_pages import PAGE, anchor, render_page, render_part, tone_of
from loadsheet.reports.report_files import text_of, written_atomically
from loadsheet.reports.run_document import RunSummary
from loadsheet.reports.run_summary import (
    CAUSES_MAX,
    agreement_sentence,
    fates_of,
    missing_sentence,
    place_for_people,
    rows_by_place,
    with_missing_records,
)

LINES_MAX = 200  # values of one document on the page
ROWS_MAX = 20
_CELLS_MAX = 3
_CELLS_LOOKED_AT = 50
_PROBLEMS_MAX = 20

NOT_BUILT, REMOVED = "not built", "not kept"
_AT_EXCHANGE = {  # shown for a value at the exchange unless the listing shows another value
    Verdict.MATCHED: "the same",
    Verdict.WITHIN_TOLERANCE: "the same",
    Verdict.VALUE_DIFFERENCE: "the same",
    Verdict.STILL_LISTED: "still listed",
    Verdict.LISTED_TWICE: "listed twice",
    Verdict.MISSING: "not listed",
    Verdict.NOT_VERIFIABLE: "not seen",
    Verdict.UNKNOWN: "not known",
    Verdict.REFUSED: "refused",
}
_NOT_SENT = "not sent"
_CALLED = frozenset({State.ACCEPTED, State.REFUSED, State.UNKNOWN, State.SENDING})


class CellShown(NamedTuple):
    """A source cell of a value: its text, its place, and the label of its column."""

    text: str
    place: str
    label: str


class FieldLine(NamedTuple):
    """One value on its three legs. `cells_in_all` counts all its cells; only the first few are here. `comparison` compares
    the exchange's value in words; empty if there is nothing to say. `tone` is the colour of that text.
    """

    field: str
    cells: tuple[CellShown, ...]
    cells_in_all: int
    sent: str
    held: str
    comparison: str = ""
    tone: str = "plain"


class RowsShown(NamedTuple):
    """Rows of one table as read, for a document that could not be built."""

    place: str
    header: Sequence[str]
    rows: Sequence[SourceRow]
    more: int


class Anchors:
    """Gives each document the anchor of its key. A repeated key gets a number appended."""

    def __init__(self, taken: Sequence[str]) -> None:
        """`taken` are the page's own anchors."""
        self._taken = dict.fromkeys(taken, 1)

    def take(self, key: str) -> str:
        """The anchor of the next document with this key."""
        wanted = anchor(key)
        number = self._taken.get(wanted, 0) + 1
        chosen = wanted if number == 1 else f"{wanted}-{number}"
        while chosen in self._taken and number > 1:
            number += 1
            chosen = f"{wanted}-{number}"
        self._taken[wanted] = number
        self._taken.setdefault(chosen, 1)
        return chosen


def describe_document(name: str, entry: Entry, match: Match, drop: Drop, origin: Origin) -> dict[str, Any]:
    """The details of a document for its template, from the ledger and its match. `name` is its anchor. `in_question` are
    the values in question, `others` the rest.
    """
    legs = _Legs(entry, match, origin)
    legs.fill()
    errors = [problem for problem in entry.problems if problem.level == "error"]
    removed = f"its values were removed on {entry.removed[:10]} and are no longer kept" if entry.removed else ""
    reason = entry.reason if entry.state is not State.ACCEPTED and not errors else ""
    return {
        "anchor": name,
        "entry": entry,
        "verdict": match.verdict,
        "tone": tone_of(match.verdict),
        "meaning": MEANINGS[match.verdict],
        "drop": drop,
        "places": places_of(entry.rows, origin.tables),
        "files": file_names_of_rows(entry.rows, origin.tables),
        "why": tuple(text for text in (reason, removed) if text),
        "problems": [(problem, place_for_people(problem)) for problem in entry.problems[:_PROBLEMS_MAX]],
        "problems_more": max(0, len(entry.problems) - _PROBLEMS_MAX),
        "in_question": legs.in_question,
        "others": legs.others,
        "lines_more": legs.more,
        "rows": () if entry.payload or entry.removed else tuple(_rows_shown(entry.rows, origin.tables)),
        "sent_heading": "Sent" if entry.state in _CALLED else "Would be sent",
    }


def file_names_of_rows(rows: Sequence[SourceRow], tables: dict[str, SourceTable]) -> tuple[str, ...]:
    """The files of a document's rows."""
    return tuple(dict.fromkeys(table.file for table in _tables_of(rows, tables)))


def places_of(rows: Sequence[SourceRow], tables: dict[str, SourceTable]) -> tuple[str, ...]:
    """The places of a document's rows, one text per file and sheet: `orders.xlsx Sheet1 rows 3, 5-7`."""
    return tuple(
        f"{place} row{'' if numbers.isdecimal() else 's'} {numbers}"
        for place, numbers in rows_by_place(rows, tables).items()
    )


class _Legs:
    """Puts the values of one document side by side: the values in question, then the others."""

    def __init__(self, entry: Entry, match: Match, origin: Origin) -> None:
        self._entry, self._origin = entry, origin
        self._differences = {found.path: (found, "differs", "bad") for found in match.differences}
        self._differences |= {found.path: (found, "within tolerance", "note") for found in match.tolerated}
        self._at_exchange = _AT_EXCHANGE.get(match.verdict, _NOT_SENT)
        self._paths = {problem.where.path for problem in entry.problems}
        self._cells = {_cell_key(problem.where): problem for problem in entry.problems if problem.where.column}
        self._is_one = len({(table.file, table.sheet) for table in _tables_of(entry.rows, origin.tables)}) == 1
        self.in_question: list[FieldLine] = []
        self.others: list[FieldLine] = []
        self.more = 0

    def fill(self) -> None:
        """Add every value of the payload, then differences without a value, such as the length of a list. Last come
        the problems of cells that no value comes from.
        """
        unplaced = dict(self._cells)
        filled = (
            (path, text_of(value)) for path, value in scalars_by_path(self._entry.payload) if value not in (None, "")
        )
        for path, value in filled:
            if len(self.others) >= LINES_MAX and path not in self._differences and path not in self._paths:
                self.more += 1
            else:
                self._add(path, value, unplaced)
        for path, (found, comparison, tone) in self._differences.items():
            self.in_question.append(
                FieldLine(path, (), 0, found.sent or "nothing", found.held or "nothing", comparison, tone)
            )
        sent = "" if self._entry.payload else REMOVED if self._entry.removed else NOT_BUILT
        for problem in unplaced.values():
            column = place_for_people(problem).column
            shown = CellShown(problem.found, self._place(problem.where), column)
            self.in_question.append(FieldLine(problem.where.path or column, (shown,), 1, sent, self._at_exchange))
        del self.in_question[LINES_MAX:]

    def _add(self, path: str, value: str, unplaced: dict[tuple[str, str, int, str], Problem]) -> None:
        places = locate(self._origin.lineage, self._entry.rows, self._entry.links, path)
        cells = [
            self._cell(place.table, self._entry.rows[place.row], place.label) for place in places[:_CELLS_LOOKED_AT]
        ]
        with_problem = [cell for key, cell in cells if key in self._cells]
        for key, _ in cells:
            unplaced.pop(key, None)
        shown = tuple([*with_problem, *(cell for key, cell in cells if key not in self._cells)][:_CELLS_MAX])
        if path in self._differences:
            found, comparison, tone = self._differences.pop(path)
            self.in_question.append(
                FieldLine(path, shown, len(places), value, found.held or "nothing", comparison, tone)
            )
        else:
            lines = self.in_question if with_problem or path in self._paths else self.others
            lines.append(FieldLine(path, shown, len(places), value, self._at_exchange))

    def _cell(self, name: str, row: SourceRow, label: str) -> tuple[tuple[str, str, int, str], CellShown]:
        """The cell of a row under a label, with its key. The header may spell the label differently."""
        table = self._origin.tables[name]
        wanted = "".join(label.casefold().split())
        alike = (one for one in table.header if "".join(one.casefold().split()) == wanted)
        spelling = label if label in table.header else next(alike, "")
        where = table.where(row.number, spelling)
        position = table.header.index(spelling) if spelling else len(row.cells)
        text = row.cells[position] if position < len(row.cells) else ""
        return _cell_key(where), CellShown(text, self._place(where), spelling or label)

    def _place(self, where: Where) -> str:
        """The shortest text that identifies a place within the document."""
        at = where.cell or f"row {where.row}"
        if self._is_one:
            return at
        return f"{where.file} {where.sheet}!{at}" if where.sheet else f"{where.file} {at}"


def _cell_key(where: Where) -> tuple[str, str, int, str]:
    return where.file, where.sheet, where.row, where.column


def _tables_of(rows: Sequence[SourceRow], tables: dict[str, SourceTable]) -> list[SourceTable]:
    return [tables[name] for name in dict.fromkeys(row.table for row in rows)]


def _references(payload: bytes) -> Iterator[str]:
    """The values of the references of a record, such as `order_references`."""
    for path, value in scalars_by_path(payload) if b"_references" in payload else ():
        if "_references[" in path and path.endswith(".value"):
            yield text_of(value)


def _rows_shown(rows: Sequence[SourceRow], tables: dict[str, SourceTable]) -> Iterator[RowsShown]:
    by_table: dict[str, list[SourceRow]] = {}
    for row in rows:
        by_table.setdefault(row.table, []).append(row)
    for name, table_rows in by_table.items():
        table = tables[name]
        yield RowsShown(
            f"{table.file} {table.sheet}".strip(),
            table.header,
            table_rows[:ROWS_MAX],
            max(0, len(table_rows) - ROWS_MAX),
        )


_IN_FULL_CHARACTERS = 550_000  # of all documents shown with their values
_CHARACTERS_MAX = 800_000  # of all documents that need attention
_FILES_MAX = 200
_FETCHED = 20  # entries per query
_OPEN_MAX = 6  # files and causes shown before unfolding
_MISSING_KEYS_MAX = 100
_OWN_ANCHORS = (
    *(
        "main",
        "verdict",
        "balance",
        "outcomes",
        "todo",
        "causes",
        "files",
        "missing",
        "left",
        "figures",
        "orders",
        "others",
    ),
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
    service_order: str
    drop: Drop
    places: tuple[str, ...]
    files: tuple[str, ...]
    references: tuple[str, ...]
    anchor: str = ""

    @property
    def tone(self) -> str:
        """The colour of its verdict."""
        return tone_of(self.verdict)


class RunPage:
    """Collects the page. Open each drop, add its entries, then call `finish`."""

    def __init__(self, queries: LedgerQueries, documents_max: int, resolved: Container[int]) -> None:
        """`queries` provides the lineage of shown values. At most `documents_max` documents are shown one by one. `resolved` are
        entries that needed attention and no longer do.
        """
        self._queries, self._most, self._resolved = queries, documents_max, resolved
        self._drops: dict[int, Drop] = {}
        self._origin = cache(queries.origin)
        self._needing: list[_Kept] = []
        self._others: list[DocumentLine] = []
        self._count = Counter[bool]()
        self._places: dict[str, str] = {}  # places of shown problems: the anchor of their document
        self._first: dict[Verdict, dict[str, Any]] = {}

    def open(self, drop: Drop) -> None:
        """Begin with a drop."""
        self._drops[drop.id] = drop

    def add(self, entry: Entry, match: Match) -> None:
        """Keep an entry for the page, or count it."""
        needs = match.verdict in VERDICTS_THAT_NEED_SOMEONE and entry.id not in self._resolved
        self._count[needs] += 1
        if not needs:
            if len(self._others) < self._most:
                drop = self._drops[entry.drop]
                tables = {table.name: table for table in drop.tables}
                places, files = places_of(entry.rows, tables), file_names_of_rows(entry.rows, tables)
                references = tuple(_references(entry.payload))
                line = DocumentLine(
                    entry.key, entry.operation, match.verdict, entry.service_order, drop, places, files, references
                )
                self._others.append(line)
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
        answers = {name for line in files for name in (*line["file"].results, *line["fix"])}
        outcomes = [
            (verdict, summary.verdicts[verdict], tone_of(verdict))
            for verdict in Verdict
            if summary.verdicts.get(verdict)
        ]
        reports = [name for name in summary.reports if name not in answers and "/" not in name]
        values = {
            "summary": summary,
            "agreement": agreement_sentence(summary),
            "balance": balance_sentence(summary),
            "sections": sections,
            "needing": self._count[True],
            "others": [replace(other, anchor=anchors.take(other.key)) for other in others],
            "agreeing": self._count[False],
            "outcomes": outcomes,
            "meanings": MEANINGS,
            "only_listed": MEANINGS[Verdict.ONLY_LISTED],
            "todo": [(*one, self._first.get(one[0])) for one in attention(summary)],
            "totals": list(totals_texts(summary)),
            "fixes": [name for line in files for name in line["fix"]],
            "anchors": self._places,
            "causes": [summary.causes[:_OPEN_MAX], summary.causes[_OPEN_MAX:]],
            "causes_cut": len(summary.causes) == CAUSES_MAX,
            "files": [files[:_OPEN_MAX], files[_OPEN_MAX:_FILES_MAX]],
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
        with written_atomically(folder / PAGE) as target:
            target.write_bytes(render_page("run.html", values))
        return PAGE

    def _sections(self, needing: Sequence[_Kept], anchors: Anchors) -> Iterator[Markup]:
        """The documents that need attention: first with values, then without, until the page is full."""
        spent, brief = 0, False
        for entry, match in self._fetched(needing):
            details = describe_document(
                anchors.take(entry.key), entry, match, self._drops[entry.drop], self._origin(entry.drop)
            )
            section = render_part("order.html", {"document": details, "brief": brief})
            if not brief and spent + len(section) > _IN_FULL_CHARACTERS:
                brief = True
                section = render_part("order.html", {"document": details, "brief": brief})
            spent += len(section)
            if spent > _CHARACTERS_MAX:
                return
            for problem, _ in details["problems"]:
                self._places.setdefault(str(problem.where), details["anchor"])
            self._first.setdefault(match.verdict, details)
            yield section

    def _fetched(self, needing: Sequence[_Kept]) -> Iterator[tuple[Entry, Match]]:
        for start in range(0, len(needing), _FETCHED):
            some = needing[start : start + _FETCHED]
            entries = self._queries.entries_by_id([kept.entry for kept in some])
            yield from zip(entries, (kept.match for kept in some), strict=True)


def _files(summary: RunSummary) -> list[dict[str, Any]]:
    """The files of the run, worst first, each with its rows by outcome and the columns that the mapping does not read. The fix
    files of a drop are shown with its first file.
    """
    lines = [
        {
            "file": file,
            "fix": drop.fix if place == 0 else (),
            "run": drop.run,
            "mapping": drop.mapping or ("no mapping" if any("A101" in reason for reason in file.set_aside) else ""),
            "fates": fates_of(file),
            "rows": sum(table.rows for table in file.tables),
            "needing": rows_needing(file),
            "unused": tuple(dict.fromkeys(heading for table in file.tables for heading in table.unused)),
        }
        for drop in summary.drops
        for place, file in enumerate(drop.files)
    ]
    return sorted(lines, key=lambda line: -line["needing"])


def _choices(verdicts: Collection[Verdict], drops: Sequence[Drop]) -> dict[str, list[str]]:
    """The choices of the filters: outcomes, files and mappings of the shown documents."""
    mine = {drop.id: drop for drop in drops}.values()
    return {
        "outcome": [verdict for verdict in Verdict if verdict in verdicts],
        "file": list(dict.fromkeys(table.file for drop in mine for table in drop.tables)),
        "mapping": sorted({drop.mapping for drop in mine if drop.mapping}),
    }
