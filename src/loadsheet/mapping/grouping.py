"""Rows to groups: all rows of one record together, from one table or several joined tables.

Small files are grouped in memory. A larger file is first read for its keys only. If the rows of each key stand together and all tables
have the keys in one order, the second reading streams and joins by merging. Otherwise `spill` sorts on disk. All three give the same
groups. Every row comes out once: in a group, alone if it has no key, or as ignored by a rule. Knows no payload and no operation.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from loadsheet.mapping.documents import Ignored
from loadsheet.mapping.keyed_rows import BETWEEN, KeyedRow, KeyedTable
from loadsheet.mapping.rows import RowReader
from loadsheet.mapping.scopes import Frame
from loadsheet.mapping.spill import Spill, Spilled
from loadsheet.reading.tables import Row

MEMORY_ROWS = 5_000
KEYS_MAX = 300_000


class Group(NamedTuple):
    """The rows of one record by table position (0 is the main table). `key` is None for a row without a key."""

    key: str | None
    rows: tuple[Sequence[Row], ...]

    def shown_key(self, parts: int) -> str:
        """The key as reports show it: its first `parts` parts."""
        return "/".join((self.key or "").split(BETWEEN)[:parts])


Gathered = Iterator[Group | Ignored]
_Rank = Callable[[str], Any]


def gather(
    readers: Sequence[RowReader], frame: Frame, *, memory_rows: int = MEMORY_ROWS, spill_folder: Path | None = None
) -> Gathered:
    """Stream the groups of all tables, the main table's first, in the order of their first rows or sorted if the mapping says so. Tables
    are read up to three times. A sort on disk keeps its files in `spill_folder` (default: the system's temporary folder) and
    removes them when the iterator ends or is closed.
    """
    sources = [KeyedTable(reader, frame) for reader in readers]
    if len(sources) == 1 and not sources[0].is_keyed and not sources[0].is_sorted:
        return _each_row(sources[0])
    held = _read_ahead(sources, memory_rows)
    if held is not None:
        return _in_memory(held)
    rank = _key_ranks(sources, in_key_order=True) or _key_ranks(sources, in_key_order=False)
    return _merge(sources, rank) if rank is not None else _spilled(sources, spill_folder)


def _each_row(source: KeyedTable) -> Gathered:
    for item in source:
        yield Group(item.key, ((item.row,),)) if isinstance(item, KeyedRow) else item


# ---- in memory ----


def _read_ahead(sources: Sequence[KeyedTable], most: int) -> list[list[KeyedRow | Ignored]] | None:
    """All rows of all tables, or None if there are more than `most`."""
    held, left = [], most
    for source in sources:
        items = list(islice(source, left + 1))
        left -= len(items)
        if left < 0:
            return None
        held.append(items)
    return held


def _in_memory(held: list[list[KeyedRow | Ignored]]) -> Gathered:
    groups: dict[str, tuple[list[Row], ...]] = {}
    order: dict[str, str] = {}
    for position, items in enumerate(held):
        for item in items:
            if isinstance(item, Ignored):
                yield item
            elif item.key is None:
                yield _keyless_group(None, item.row, position, len(held))
            else:
                rows = groups.setdefault(item.key, tuple([] for _ in held))
                rows[position].append(item.row)
                order.setdefault(item.key, item.order)
    for key in sorted(groups, key=lambda key: (not groups[key][0], order[key])):
        yield from _groups_of_key(key, groups[key])


def _keyless_group(key: str | None, row: Row, position: int, tables: int) -> Group:
    return Group(key, tuple((row,) if place == position else () for place in range(tables)))


def _groups_of_key(key: str, rows: tuple[Sequence[Row], ...]) -> Gathered:
    """The group of a key; without a row of the main table, one group for each table that has rows."""
    if rows[0]:
        yield Group(key, rows)
        return
    for position, own in enumerate(rows):
        if own:
            yield Group(key, tuple(own if place == position else () for place in range(len(rows))))


# ---- streaming ----


def _key_ranks(sources: Sequence[KeyedTable], *, in_key_order: bool) -> _Rank | None:
    """Reads the keys of all tables. Returns a function that ranks keys if the rows of each group stand together and follow the main table's
    order (or, cheaper, if keys ascend in every table). None otherwise, or if there are too many keys to remember.
    """
    ranks: dict[str, int] = {}
    rank: _Rank = (lambda key: key) if in_key_order else ranks.get
    for position, source in enumerate(sources):
        remembers = position == 0 and not in_key_order
        if not all(_runs_in_place(source, rank, ranks if remembers else None)):
            return None
    return rank


def _runs_in_place(source: KeyedTable, rank: _Rank, ranks: dict[str, int] | None) -> Iterator[bool]:
    """For each run of equal keys, whether it is in its place. With `ranks`, keys must be new and get a number."""
    last = KeyedRow(Row(0, ()), None, "")
    last_rank = None
    unmatched: set[str] = set()
    for item in source:
        if isinstance(item, Ignored) or item.key is None or item.key == last.key:
            continue
        yield item.order >= last.order
        last = item
        if not source.is_keyed:  # every row is a record of its own
            continue
        if ranks is not None:
            yield item.key not in ranks and len(ranks) < KEYS_MAX
            ranks[item.key] = len(ranks)
        current = rank(item.key)
        if current is None:
            yield item.key not in unmatched and len(unmatched) < KEYS_MAX
            unmatched.add(item.key)
        else:
            yield last_rank is None or current > last_rank
            last_rank = current


class _Runs:
    """The runs of equal keys in one table, with one row of lookahead."""

    def __init__(self, source: KeyedTable, position: int, tables: int) -> None:
        self.key: str | None = None
        self.rows: list[Row] = []
        self._items = iter(source)
        self._next: KeyedRow | None = None
        self._position, self._tables = position, tables

    def advance(self) -> Gathered:
        """Moves to the next run (`key` is None at the end). Yields the ignored and keyless rows between runs."""
        self.key, self.rows = None, []
        if self._next is not None:
            self.key, self.rows, self._next = self._next.key, [self._next.row], None
        for item in self._items:
            if isinstance(item, Ignored):
                yield item
            elif item.key is None:
                yield _keyless_group(None, item.row, self._position, self._tables)
            elif self.key is None or item.key == self.key:
                self.key = item.key
                self.rows.append(item.row)
            else:
                self._next = item
                return


def _merge(sources: Sequence[KeyedTable], rank: _Rank) -> Gathered:
    main, *partners = [_Runs(source, position, len(sources)) for position, source in enumerate(sources)]
    for runs in (main, *partners):
        yield from runs.advance()
    while main.key is not None:
        here = rank(main.key)
        rows: list[Sequence[Row]] = [main.rows]
        for place, partner in enumerate(partners, 1):
            yield from _left_over(partner, place, len(sources), lambda key: key is None or key < here, rank)  # noqa: B023 (used at once)
            is_partner = partner.key == main.key
            rows.append(partner.rows if is_partner else ())
            if is_partner:
                yield from partner.advance()
        yield Group(main.key, tuple(rows))
        yield from main.advance()
    for place, partner in enumerate(partners, 1):
        yield from _left_over(partner, place, len(sources), lambda _: True, rank)


def _left_over(runs: _Runs, position: int, tables: int, passed: Callable[[Any], bool], rank: _Rank) -> Gathered:
    while runs.key is not None and passed(rank(runs.key)):
        yield Group(runs.key, tuple(runs.rows if place == position else () for place in range(tables)))
        yield from runs.advance()


# ---- on disk ----


def _spilled(sources: Sequence[KeyedTable], folder: Path | None) -> Gathered:
    with Spill(folder) as spill:
        for position, source in enumerate(sources):
            for item in source:
                if isinstance(item, Ignored):
                    yield item
                elif item.key is None:
                    yield _keyless_group(None, item.row, position, len(sources))
                else:
                    spill.add(Spilled(position, item.key, item.order, item.row))
        for key, rows in spill.groups(len(sources)):
            yield from _groups_of_key(key, rows)
