"""One document on the page of a run: why it needs attention, and its values on three legs, each with its cells.

Decides the anchor of a document, which values are in question, and how source, sent and listed values are shown side
by side. Field names of the payload are shown unchanged and never interpreted.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from loadsheet.ledger import Drop, Entry, Origin, SourceTable, State
from loadsheet.mapping.documents import SourceRow
from loadsheet.mapping.lineage import locate
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import AGREES, MEANINGS, NEEDS_SOMEONE, Match, Verdict
from loadsheet.reports.listing_export import text_of
from loadsheet.reports.run_summary import rows_by_place

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

_UNSAFE = re.compile(r"[^\w.~-]")
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class CellShown(NamedTuple):
    """A source cell of a value: its text, its place, and the label of its column."""

    text: str
    place: str
    label: str


class Line(NamedTuple):
    """One value on its three legs. `cells_in_all` counts all its cells; only the first few are here. `says` compares
    the exchange's value in words; empty if there is nothing to say. `tone` is the colour of that text.
    """

    field: str
    cells: tuple[CellShown, ...]
    cells_in_all: int
    sent: str
    held: str
    says: str = ""
    tone: str = "plain"


class RowsShown(NamedTuple):
    """Rows of one table as read, for a document that could not be built."""

    place: str
    header: Sequence[str]
    rows: Sequence[SourceRow]
    more: int


@dataclass(frozen=True, slots=True)
class DocumentDetails:
    """A document for the template. `in_question` are the values in question, `others` the rest."""

    anchor: str
    entry: Entry
    verdict: Verdict
    tone: str
    meaning: str
    drop: Drop
    places: tuple[str, ...]
    files: tuple[str, ...]
    why: tuple[str, ...]
    problems: tuple[Problem, ...]
    problems_more: int
    in_question: tuple[Line, ...]
    others: tuple[Line, ...]
    lines_more: int
    rows: tuple[RowsShown, ...]
    sent_heading: str


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


def anchor(key: str) -> str:
    """The anchor of the first document with a key: the key, with `_` for characters that a URL would escape."""
    return _UNSAFE.sub("_", key) or "_"


def tone_of(verdict: Verdict) -> str:
    """The colour of a verdict; its name is always shown too."""
    return "good" if verdict in AGREES else "bad" if verdict in NEEDS_SOMEONE else "note"


def describe_document(name: str, entry: Entry, match: Match, drop: Drop, origin: Origin) -> DocumentDetails:
    """Collect the details of a document from the ledger and its match. `name` is its anchor."""
    legs = _Legs(entry, match, origin)
    legs.fill()
    errors = [problem for problem in entry.problems if problem.level == "error"]
    removed = f"its values were removed on {entry.removed[:10]} and are no longer kept" if entry.removed else ""
    reason = entry.reason if entry.state is not State.ACCEPTED and not errors else ""
    return DocumentDetails(
        anchor=name,
        entry=entry,
        verdict=match.verdict,
        tone=tone_of(match.verdict),
        meaning=MEANINGS[match.verdict],
        drop=drop,
        places=places_of(entry.rows, origin.tables),
        files=files_of(entry.rows, origin.tables),
        why=tuple(text for text in (reason, removed) if text),
        problems=entry.problems[:_PROBLEMS_MAX],
        problems_more=max(0, len(entry.problems) - _PROBLEMS_MAX),
        in_question=tuple(legs.in_question),
        others=tuple(legs.others),
        lines_more=legs.more,
        rows=() if entry.payload or entry.removed else tuple(_rows_shown(entry.rows, origin.tables)),
        sent_heading="Sent" if entry.state in _CALLED else "Would be sent",
    )


def files_of(rows: Sequence[SourceRow], tables: dict[str, SourceTable]) -> tuple[str, ...]:
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
        self.in_question: list[Line] = []
        self.others: list[Line] = []
        self.more = 0

    def fill(self) -> None:
        """Add every value of the payload, then differences without a value, such as the length of a list. Last come
        the problems of cells that no value comes from.
        """
        unplaced = dict(self._cells)
        filled = (
            (path, text_of(value)) for path, value in payload_values(self._entry.payload) if value not in (None, "")
        )
        for path, value in filled:
            if len(self.others) >= LINES_MAX and path not in self._differences and path not in self._paths:
                self.more += 1
            else:
                self._add(path, value, unplaced)
        for path, (found, says, tone) in self._differences.items():
            self.in_question.append(Line(path, (), 0, found.sent or "nothing", found.held or "nothing", says, tone))
        sent = "" if self._entry.payload else REMOVED if self._entry.removed else NOT_BUILT
        for problem in unplaced.values():
            shown = CellShown(problem.found, self._place(problem.where), problem.where.column)
            self.in_question.append(
                Line(problem.where.path or problem.where.column, (shown,), 1, sent, self._at_exchange)
            )
        del self.in_question[LINES_MAX:]

    def _add(self, path: str, value: str, unplaced: dict[tuple[str, str, int, str], Problem]) -> None:
        places = locate(self._origin.lineage, self._entry.rows, self._entry.items, path)
        cells = [
            self._cell(place.table, self._entry.rows[place.row], place.label) for place in places[:_CELLS_LOOKED_AT]
        ]
        with_problem = [cell for key, cell in cells if key in self._cells]
        for key, _ in cells:
            unplaced.pop(key, None)
        shown = tuple([*with_problem, *(cell for key, cell in cells if key not in self._cells)][:_CELLS_MAX])
        if path in self._differences:
            found, says, tone = self._differences.pop(path)
            self.in_question.append(Line(path, shown, len(places), value, found.held or "nothing", says, tone))
        else:
            lines = self.in_question if with_problem or path in self._paths else self.others
            lines.append(Line(path, shown, len(places), value, self._at_exchange))

    def _cell(self, name: str, row: SourceRow, label: str) -> tuple[tuple[str, str, int, str], CellShown]:
        """The cell of a row under a label, with its key. The header may spell the label differently."""
        table = self._origin.tables[name]
        spelling = next((one for one in (label, _spelled(table.header, label)) if one in table.header), "")
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


def payload_values(payload: bytes) -> Iterator[tuple[str, Any]]:
    """The scalar values of a payload with their paths; none for an empty payload."""
    yield from _leaves(_decode(payload), "") if payload else ()


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def _spelled(header: Sequence[str], label: str) -> str:
    wanted = "".join(label.casefold().split())
    return next((one for one in header if "".join(one.casefold().split()) == wanted), "")


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
