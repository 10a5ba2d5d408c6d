"""Keys that look alike in the tables of a drop: why a row has no partner.

`HLT-26-O152` in one table and `HLT-26-0152` in another leave rows over in one and a record without rows in the other. That is one error, and
its cell is the one to correct: the key whose form is rarer among all keys. Rows are compared by what their keys look like, each once, so
the work grows with the rows and not with their pairs. The keys are read again for it, but only once a row without a partner is found.
Knows no payload and proposes only: no row is joined by what its key looks like.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from loadsheet.mapping.grouping import BETWEEN, KEYS_MAX, KeyedRow, KeyedTable
from loadsheet.mapping.plans import JoinPlan
from loadsheet.mapping.rows import RowReader
from loadsheet.problems import Problem, Where
from loadsheet.reading.tables import Row
from loadsheet.similar_text import key_shape, one_typo_away, proposal_of, skeleton

_KEYLESS_MAX = 10_000  # rows without a key that can be read
_ALIKE_MAX = 12  # keys; more that look alike are no typing errors of each other


class LonelyRowReason(NamedTuple):
    """Why a row has no partner: what to do, the part of the key that differs, and the problem that this one follows from. None: the error is
    here, and `meant` is what this part of the key should be.
    """

    hint: str
    part: int
    because: Problem | None
    meant: str = ""


class _KeyRow(NamedTuple):
    """A key, and the first row that has it in the table at `position`. `refused`: why the row is not read with this key."""

    key: str
    position: int
    row: Row
    refused: Problem | None = None


_ByLook = Mapping[str, Sequence[_KeyRow]]
"""What keys look like -> the keys that look like it, those of the main table first."""


class NearKeys:
    """Explains rows without a partner. `joins` are the joins by the position of their table."""

    def __init__(self, readers: Sequence[RowReader], joins: Mapping[int, JoinPlan]) -> None:
        own = [reader for reader in readers if reader.plan.made_of is None and not reader.plan.lookups]
        self._readers = {reader.plan.position: reader for reader in own if reader.plan.key}
        self._joins = joins
        above = [reader.plan.kind.above for reader in own if reader.plan.kind is not None]
        self._heads = frozenset(word for found in above for kinds, _ in found for word in kinds)
        self._found: _ByLook | None = None
        self._shapes: Counter[str] = Counter()
        self._lacking: set[str] = set()
        self._headless: list[Problem] = []

    # ---- answers ----

    def explain_left_over(self, position: int, key: str) -> LonelyRowReason | None:
        """Why the rows of this key in a joined table have no partner in the main table."""
        alike = self._places_like(key)
        here = next((place for place in alike if place.key == key and place.refused is None), None)
        main = _main_place(alike)
        if here is None or (main is None and here.position == position):
            return None
        if main is None:  # other tables lack the same head
            return self._consequence(here, here, self._unmatched_problem("G404", here))
        if main.refused is not None:
            return self._consequence(here, main, main.refused)
        if self._is_wrong(main, alike):
            return self._consequence(here, main, self._unmatched_problem("G403", main, key))
        return self._proposal(here, main)

    def explain_lacking(self, position: int, key: str) -> LonelyRowReason | None:
        """Why a record of the main table has no rows in the joined table at this position."""
        alike = self._places_like(key)
        main, other = _main_place(alike), _other_place(alike, key, (position,))
        if main is None or main.key != key or other is None:
            return None
        if self._is_wrong(main, alike):
            return self._proposal(main, other)
        return self._consequence(main, other, other.refused or self._unmatched_problem("G404", other, main.key))

    def rows_elsewhere(self, key: str, positions: Collection[int]) -> Problem | None:
        """The problem of rows in these tables that belong to this record but have a key that only looks like its key; None without any."""
        alike = self._places_like(key)
        main = _main_place(alike)
        if main is None or main.key != key or self._is_wrong(main, alike):
            return None
        other = _other_place(alike, key, positions)
        return None if other is None else other.refused or self._unmatched_problem("G404", other, main.key)

    def head_above(self, row: Row) -> Problem | None:
        """The problem of the row above whose kind looks like the one that names the record of this row; None if there is none."""
        self._places_like("")
        return next((problem for problem in reversed(self._headless) if problem.where.row < row.number), None)

    # ---- of two keys, which one is wrong ----

    def _is_wrong(self, main: _KeyRow, alike: Sequence[_KeyRow]) -> bool:
        """Whether the main table has the wrong one of keys that look alike: it has no rows, and the form of the other is more frequent."""
        others = {place.key for place in alike} - {main.key}
        if main.key not in self._lacking or len(others) != 1 or any(place.refused for place in alike):
            return False
        return self._shapes[key_shape(main.key)] < self._shapes[key_shape(others.pop())]

    def _proposal(self, wrong: _KeyRow, right: _KeyRow) -> LonelyRowReason:
        part = _differing_part(wrong.key, right.key)
        (_, text), (where, _) = self._cell(wrong, part), self._cell(right, part)
        typed, meant = (place.key.split(BETWEEN)[part] for place in (wrong, right))
        hint = f"{proposal_of(meant)} It is at {where}"
        if text.strip() != typed:  # a part of the cell, or padded
            hint = f"{typed} looks like {meant} at {where}"
        return LonelyRowReason(hint, part, None, meant)

    def _consequence(self, here: _KeyRow, wrong: _KeyRow, because: Problem) -> LonelyRowReason:
        part = _differing_part(here.key, wrong.key)
        return LonelyRowReason(correct_there(because), part, because)

    def _unmatched_problem(self, code: str, place: _KeyRow, meant: str = "") -> Problem:
        part = _differing_part(place.key, meant) if meant else 0
        where, found = self._cell(place, part)
        return Problem(code, where, found, {"meant": meant.split(BETWEEN)[part]} if meant else {})

    def _cell(self, place: _KeyRow, part: int) -> tuple[Where, str]:
        reader = self._readers[place.position]
        column = reader.view.position(reader.plan.key[part], place.row)
        found = reader.view.shown(place.row)[column] if column is not None else place.key.split(BETWEEN)[part]
        return reader.table.where(place.row.number, column), found

    # ---- the keys of all tables ----

    def _places_like(self, key: str) -> Sequence[_KeyRow]:
        if self._found is None:
            self._found = self._index_keys()
        return self._found.get(skeleton(key), ())

    def _rows(self) -> Iterator[tuple[int, KeyedRow]]:
        for position, reader in sorted(self._readers.items()):
            yield from ((position, item) for item in KeyedTable(reader) if isinstance(item, KeyedRow))

    def _index_keys(self) -> _ByLook:
        """All keys that look like one without a partner; nothing if there are too many keys to remember."""
        tables: dict[str, int] = {}  # the tables of each key, as bits: two texts a key less than sets of each table
        unread: list[_KeyRow] = []
        for position, item in self._rows():
            if item.key is not None:
                tables[item.key] = tables.get(item.key, 0) | 1 << position
                if len(tables) > KEYS_MAX:
                    return {}
            elif len(unread) < _KEYLESS_MAX:
                unread += self._refused_places(position, item.row)
        needed = sum(1 << position for position, join in self._joins.items() if join.missing == "error" and not join.to)
        self._lacking = {key for key, found in tables.items() if found & 1 and needed & ~found}
        self._shapes.update(map(key_shape, tables))
        left_over = (key for key, found in tables.items() if not found & 1)
        looks = {skeleton(key) for key in chain(left_over, self._lacking, (place.key for place in unread))}
        counts = Counter(skeleton(place.key) for place in unread)
        for key, found in tables.items():
            if (look := skeleton(key)) in looks:
                counts[look] += found.bit_count()
        wanted = {look for look, count in counts.items() if count > 1}
        return self._by_look(wanted, unread) if wanted else {}

    def _by_look(self, wanted: set[str], unread: Sequence[_KeyRow]) -> _ByLook:
        found: defaultdict[str, dict[tuple[str, int, bool], _KeyRow]] = defaultdict(dict)
        every = (_KeyRow(item.key, position, item.row) for position, item in self._rows() if item.key is not None)
        for place in chain(unread, every):
            look = skeleton(place.key)
            if look in wanted and len(found[look]) <= _ALIKE_MAX:
                found[look].setdefault((place.key, place.position, place.refused is None), place)
        return {
            look: sorted(places.values(), key=lambda place: place.position)
            for look, places in found.items()
            if len(places) <= _ALIKE_MAX
        }

    def _refused_places(self, position: int, row: Row) -> Iterator[_KeyRow]:
        """A row whose key was refused, with the text of its key."""
        reader = self._readers[position]
        kind, refused = reader.plan.kind, row.problem
        if (
            refused is not None
            and refused.code == "C306"
            and kind
            and one_typo_away(refused.found, kind.known) in self._heads
        ):
            self._headless.append(refused)
        places = [reader.view.position(index, row) for index in reader.plan.key]
        if refused is None:
            problems = reader.read(row).refused
            bad = [place for index, place in zip(reader.plan.key, places, strict=True) if index in problems]
            code = next((problems[index].code for index in reader.plan.key if index in problems), "")
            if not code or bad[0] is None:
                return
            refused = Problem(code, reader.table.where(row.number, bad[0]), row.shown[bad[0]])
        texts = [row.cells[place].strip() for place in places if place is not None]
        if len(texts) == len(places) and all(texts):
            yield _KeyRow(BETWEEN.join(texts), position, row, refused)


def correct_there(because: Problem) -> str:
    """What to do about a problem that follows from another one."""
    return f"correct {because.found} at {because.where}; that settles this too"


def _main_place(alike: Sequence[_KeyRow]) -> _KeyRow | None:
    """The only key of the main table among keys that look alike; None if there is none, or several."""
    found = [place for place in alike if not place.position]
    return found[0] if len(found) == 1 else None


def _other_place(alike: Sequence[_KeyRow], key: str, positions: Collection[int]) -> _KeyRow | None:
    """The first place in these tables with another key, or with this one if it cannot be read; None if there is none."""
    found = (place for place in alike if place.position in positions and (place.key != key or place.refused))
    return next(found, None)


def _differing_part(key: str, other: str) -> int:
    """The first part in which two keys differ; 0 if they are equal."""
    pairs = zip(key.split(BETWEEN), other.split(BETWEEN), strict=False)
    return next((place for place, (one, two) in enumerate(pairs) if one != two), 0)
