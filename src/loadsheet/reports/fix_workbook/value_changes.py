"""How the senders' values changed on their way: cells beside payload values that do not obviously mean the same.

Owns what counts as a change of meaning. Another format of the same number, date or word does not count, and neither
does part of a text. Another unit, another time, a code for a word or a value for a blank does. If one value keeps
the cell's content, other values calculated from that cell do not count. Compares by lineage, groups by column, and
examines a limited number of documents.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

from loadsheet.ledger import Entry, Origin
from loadsheet.mapping.documents import Trace, trace
from loadsheet.problems import Where
from loadsheet.reports.document_details import payload_values

Kind = Literal["number", "moment", "word", "blank", "text"]

DOCUMENTS_MOST = 1_000
_EXAMPLES = 3
_DISTINCT = 1_000
_SHAPES = 200

_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?|(\d\d):(\d\d):\d\d"
)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_AMOUNT = re.compile(r"[-+]?[0-9][0-9.,'\u2019 \u00a0\u202f]*")
_DATE = re.compile(r"[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}")
_HALF_DAY = re.compile(r"[0-9]\s*[ap]\.?\s*m", re.IGNORECASE)
_PADDED = re.compile(r"0[0-9]")
_FLAGS = ("yes", "no", "true", "false")
_WORDS_OF_A_NAME = 4
_DATE_DIGITS = 8


_Cells = tuple[tuple[int, int], ...]
"""Cells of a document's rows: index of the row, position of the cell."""


class Example(NamedTuple):
    """One change: the source cell, its new value, and the first place where it occurs."""

    found: str
    became: str
    where: Where


@dataclass(slots=True)
class Change:
    """All changes of one kind in one column: the cell count and the first distinct examples."""

    column: str
    kind: Kind
    count: int = 0
    examples: list[Example] = field(default_factory=list)


def changes_of(entries: Iterable[Entry], origin: Origin) -> "Changes":
    """The changes in the first entries of a drop that have a payload; `origin` is the drop's."""
    changes = Changes(origin)
    for entry in entries:
        changes.add(entry)
        if changes.is_cut:
            break
    return changes


class Changes:
    """Collects the changes of a drop."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._changes: dict[tuple[str, str, Kind], Change] = {}
        self._judged: dict[tuple[str, str], Kind | None] = {}
        self._traced: dict[tuple[str, ...], dict[str, tuple[Trace, ...]]] = {}
        self.documents = 0
        self.is_cut = False

    def add(self, entry: Entry) -> None:
        """Examine one document."""
        if not entry.payload or not entry.rows or not all(row.cells for row in entry.rows):
            return
        if self.documents >= DOCUMENTS_MOST:
            self.is_cut = True
            return
        self.documents += 1
        became: dict[_Cells, list[tuple[str, str]]] = {}
        for path, leaf in payload_values(entry.payload):
            if leaf is None or isinstance(leaf, bool):
                continue
            value, cells = format(leaf, "f") if isinstance(leaf, Decimal) else str(leaf), self._cells(entry, path)
            if cells and not _is_calculated(_text(entry, cells), value, len(cells)):
                became.setdefault(cells, []).append((path, value))
        arrived = {
            cell for cells, values in became.items() if self._kinds(entry, cells, values) is None for cell in cells
        }
        for cells, values in became.items():
            if not arrived.intersection(cells):
                self._take(entry, cells, values)

    def folded(self) -> list[Change]:
        """The changes, most frequent first."""
        return sorted(self._changes.values(), key=lambda one: -one.count)

    def _cells(self, entry: Entry, path: str) -> "_Cells":
        """The cells behind a path, each as row and position; none if one of its sources is not a cell."""
        sources = self._sources(entry, path)
        found = []
        for one in sources:
            header = self._origin.tables[entry.rows[one.row].table].header
            if one.label not in header:
                return ()
            found.append((one.row, header.index(one.label)))
        return tuple(found)

    def _sources(self, entry: Entry, path: str) -> tuple[Trace, ...]:
        """The result of `trace`. Documents with rows of the same tables share it, unless they leave items out."""
        if entry.items:
            return trace(self._origin.lineage, entry.rows, entry.items, path)
        shape = tuple(row.table for row in entry.rows)
        if shape not in self._traced and len(self._traced) >= _SHAPES:
            self._traced.clear()
        known = self._traced.setdefault(shape, {})
        if path not in known:
            known[path] = trace(self._origin.lineage, entry.rows, entry.items, path)
        return known[path]

    def _kinds(self, entry: Entry, cells: "_Cells", values: list[tuple[str, str]]) -> list[Kind] | None:
        """How each value differs from the text of the cells; None if one of them means the same."""
        text = _text(entry, cells)
        kinds = [kind for _, value in values if (kind := self._judge(text, value)) is not None]
        return kinds if len(kinds) == len(values) else None

    def _take(self, entry: Entry, cells: "_Cells", values: list[tuple[str, str]]) -> None:
        kinds = self._kinds(entry, cells, values)
        if kinds is None:
            return
        text = _text(entry, cells)
        chosen = next((place for place, (path, _) in enumerate(values) if "[" in path), 0)  # a package before its total
        (_, value), kind = values[chosen], kinds[chosen]
        row, position = cells[0]
        table = self._origin.tables[entry.rows[row].table]
        column = table.header[position]
        change = self._changes.setdefault((table.name, column, kind), Change(column, kind))
        change.count += 1
        if len(change.examples) < _EXAMPLES and all((text, value) != one[:2] for one in change.examples):
            change.examples.append(Example(text, value, table.where(entry.rows[row].number, column)))

    def _judge(self, text: str, value: str) -> Kind | None:
        pair = (text, value)
        if pair not in self._judged:
            if len(self._judged) >= _DISTINCT:
                self._judged.clear()
            self._judged[pair] = judged(text, value)
        return self._judged[pair]


def _text(entry: Entry, cells: "_Cells") -> str:
    return " ".join(filter(None, (entry.rows[row].cells[position].strip() for row, position in cells)))


def judged(text: str, value: str) -> Kind | None:
    """How a payload value differs in meaning from its source cell; None if both mean the same."""
    shown, sent = " ".join(text.split()), " ".join(value.split())
    if (sent in _FLAGS and shown) or _stands_in(sent.casefold(), shown.casefold()):
        return None
    if not shown:
        return "blank"
    if moment := _MOMENT.fullmatch(value):
        return None if _same_moment(shown, moment) else "moment"
    amount = _AMOUNT.match(shown)
    if _NUMBER.fullmatch(value) and amount is not None:
        padded: Kind | None = "text" if _PADDED.match(value) else None
        return padded if _is_amount(amount[0], Decimal(value)) else "number"
    return "word" if len(shown.split()) <= _WORDS_OF_A_NAME else "text"


def _is_calculated(text: str, value: str, cells: int) -> bool:
    """Whether a value is calculated from cells, such as a combination of several or the offset of a date."""
    if cells > 1:
        return _MOMENT.fullmatch(value) is None
    return _DATE.search(text) is not None and _NUMBER.fullmatch(value) is not None


def _stands_in(sent: str, shown: str) -> bool:
    """Whether a value equals the text, or one or more words of it."""
    return re.search(rf"(?<!\w){re.escape(sent)}(?!\w)", shown) is not None if sent else not shown


def _same_moment(text: str, moment: re.Match[str]) -> bool:
    """Whether a text contains the digits of a date and time, in any order and style."""
    digits = {int(part) for part in re.findall(r"[0-9]+", text)}
    year, month, day, hour, minute, other_hour, other_minute = (
        None if part is None else int(part) for part in moment.groups()
    )
    hour, minute = (other_hour, other_minute) if hour is None else (hour, minute)
    clock = set() if hour is None else {hour, hour % 12 or 12} if _HALF_DAY.search(text) else {hour}
    is_day_only = not hour and not minute and ":" not in text
    wanted = [
        set() if year is None else {year, year % 100},
        set() if month is None or any(letter.isalpha() for letter in text) else {month},
        set() if day is None else {day},
        set() if is_day_only else clock,
        set() if minute is None or is_day_only else {minute},
    ]
    if all(not options or options & digits for options in wanted):
        return True
    run, all_digits = "".join(re.findall(r"[0-9]", text)), "".join(filter(None, moment.groups()))
    return len(run) >= _DATE_DIGITS and all_digits.startswith(run)  # 20260304


def _is_amount(text: str, value: Decimal) -> bool:
    """Whether a text can be read as this number in one of the common formats."""
    bare = re.sub(r"['\u2019 \u00a0\u202f]", "", text).rstrip(".,")
    for group, point in ((",", "."), (".", ",")):
        try:
            if Decimal(bare.replace(group, "").replace(point, ".")) == value:
                return True
        except InvalidOperation:
            continue
    return False
