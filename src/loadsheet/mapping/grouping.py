"""Rows to groups: all rows of one record together, from one table or several joined tables.

A table first becomes rows with the key of their record: cells are filled from above, rows are left out by rule, column sets are
expanded, stated totals are checked. Small files are grouped in memory. A larger file is first read for its keys only. If the rows of
each key stand together and all tables have the keys in one order, the second reading streams and joins by merging. Otherwise SQLite
sorts the rows on disk, in bounded memory. All three give the same groups. Every row comes out at least once: in a group, alone if it
has no key, or as ignored by a rule. Knows no payload and no operation.
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from loadsheet.errors import FileRefused
from loadsheet.mapping.documents import Ignored
from loadsheet.mapping.notations import number_text
from loadsheet.mapping.plans import CellProblem, SetsPlan, TablePlan, TotalsPlan
from loadsheet.mapping.rows import RowReader, SetRow, TableView, UnknownKindRow, is_invalid, with_set_number
from loadsheet.mapping.texts import stripped_cell
from loadsheet.problems import Problem, Where
from loadsheet.reading.messages import pack_row, unpack_row
from loadsheet.reading.tables import Row
from loadsheet.similar_text import short_list

MEMORY_ROWS = 5_000
KEYS_MAX = 300_000
NOTHING_READ = "no column that the mapping reads is filled in"
BETWEEN = "\N{SYMBOL FOR UNIT SEPARATOR}"  # joins the parts of a key; no trimmed cell holds it alone


class KeyedRow(NamedTuple):
    """A row with the key of its record (None: no key) and the text it is sorted by."""

    row: Row
    key: str | None
    order: str


class KeyedTable:
    """One table as keyed rows. Each iteration reads the rows again."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self._plan = plan = reader.plan
        totals = () if plan.totals is None else (*plan.totals.needs, *plan.totals.sums)
        self._read = reader.reader_of_columns({*plan.key, *plan.order, *plan.ignore_needs, *totals})
        self.is_keyed = bool(plan.key)
        self.is_sorted = bool(plan.order)

    def __iter__(self) -> Iterator[KeyedRow | Ignored]:
        plan = self._plan
        if plan.is_view or plan.totals is not None or plan.fills:
            return self._expanded_rows()
        rows = self._reader.table.rows()
        return (self._ignored(row, row.ignored) if row.ignored else self._whole_row(row) for row in rows)

    def _whole_row(self, row: Row) -> KeyedRow | Ignored:
        values, refused = self._read(row)
        if self._plan.ignore is not None and (rule := self._reader.ignoring_rule(row, values, refused)):
            self._reader.remember_left_out(self._with_key(row, values).key, rule)
            return self._ignored(row, rule)
        keyed = self._with_key(row, values)
        if keyed.key is None and row.problem is None and self._reader.view.has_nothing(row):
            return self._ignored(row, NOTHING_READ)
        return keyed

    def _with_key(self, row: Row, values: list[Any]) -> KeyedRow:
        plan, key = self._plan, None
        order = BETWEEN.join([_sortable(values[index]) for index in plan.order]) if plan.order else ""
        if not plan.key:
            key = str(row.number)
        elif len(plan.key) == 1:
            key = None if (value := values[plan.key[0]]) is None else str(value)
        elif None not in (parts := [values[index] for index in plan.key]):
            key = BETWEEN.join(map(str, parts))
        return KeyedRow(row, key, order)

    def _ignored(self, row: Row, rule: str) -> Ignored:
        return Ignored(self._reader.view.source(row), rule)

    # ---- rows that differ from the rows of the file ----

    def _expanded_rows(self) -> Iterator[KeyedRow | Ignored]:
        plan, view = self._plan, self._reader.view
        fill = _FillDown(plan, view) if plan.fills else None
        sums = _RunningTotals(plan.totals, self._reader) if plan.totals is not None else None
        for found in view.rows():
            if isinstance(found, Ignored):
                yield found
                continue
            if isinstance(found, UnknownKindRow):
                if sums is not None:
                    sums.mark_unknown()
                if plan.kind is not None and plan.kind.takes_unknown:
                    yield self._of_unknown_kind(found.row)
                continue
            if found.ignored:
                yield self._ignored(found, found.ignored)
                continue
            row = fill.filled(found) if fill is not None else found
            if sums is not None and (totals_row := self._totals(sums, row)) is not None:
                yield totals_row
                continue
            items = list(self._parts(row, plan.sets)) if plan.sets is not None else [self._whole_row(row)]
            yield from items
            if fill is not None:
                fill.remember(row, left_out=isinstance(items[0], Ignored))
        if sums is not None:
            sums.finish()

    def _of_unknown_kind(self, row: Row) -> KeyedRow:
        values, _ = self._read(row)
        keyed = self._with_key(with_set_number(SetRow(-1, row), 0) if self._plan.sets is not None else row, values)
        keys = (column for column in self._plan.columns if column.slot.index in self._plan.key)
        return keyed if self.is_keyed and all(column.spec.above for column in keys) else keyed._replace(key=None)

    def _parts(self, row: Row, sets: SetsPlan) -> Iterator[KeyedRow | Ignored]:
        why, count = f"sets: none of {short_list(word for word, _ in sets.words)} is filled in", 0
        for part in self._reader.view.expand(row):
            values, refused = self._read(part.row)
            if rule := self._reader.ignoring_rule(part.row, values, refused):
                why = rule
                self._reader.remember_left_out(self._with_key(part.row, values).key, rule)
                continue
            keyed = self._with_key(with_set_number(part, count), values)
            yield keyed if self.is_keyed else keyed._replace(key=f"{keyed.key}/{count}")
            count += 1
        if not count:
            yield self._ignored(row, why)

    def _totals(self, sums: "_RunningTotals", row: Row) -> KeyedRow | Ignored | None:
        """The result for a row with totals. None for any other row, which is added to the sums."""
        if row.problem is not None:
            sums.mark_unknown()
            return None
        values, refused = self._read(row)
        if self._reader.holds(sums.plan.where, sums.plan.needs, values, refused):
            unsaid = " (not compared: a value above was refused)" if sums.unknown else ""
            problem = sums.compare(row, values, refused)
            if problem is None:
                return self._ignored(row, f"totals: {sums.plan.where.text}{unsaid}")
            return KeyedRow(Row(row.number, row.cells, problem), None, "")
        if not self._reader.ignoring_rule(row, values, refused):
            sums.add(values, refused)
        return None


def _sortable(value: object) -> str:
    """A text that sorts like the value: moments by instant. Types other than texts, moments and times of day are refused at load."""
    text = f"{value.total_seconds():016.6f}" if isinstance(value, timedelta) else str(value or "")
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else text


class _FillDown:
    """Fills blank cells from above: the key always, other columns while the key stays the same. Without a key, all of them always. Create
    one for each reading of a file.

    Rows that a rule leaves out count as cells above, so that a cancelled order is left out whole. If the rule reads the key, the row may be
    one of a carried sum as well as one of a record: then nothing below is filled, because its rows could come into another record.
    """

    def __init__(self, plan: TablePlan, view: TableView) -> None:
        by = plan.columns_behind(plan.key or plan.fills_by)
        self._always: list[int] = []
        self._within: list[int] = []
        for column in plan.columns:
            place = view.positions[column.slot.index] if column.spec.fill_down else None
            if place is not None:
                (self._always if column.slot.index in by or not by else self._within).append(place)
        self._keys = [place for index in sorted(by) if (place := view.positions[index]) is not None]
        self._rule_reads_key = not by.isdisjoint(plan.ignore_needs)
        self._last: dict[int, str] = {}
        self._key: list[str] = []

    def filled(self, row: Row) -> Row:
        """The row with its blank cells filled."""
        cells = list(row.cells)
        self._fill(cells, self._always)
        if self._within and self._key == self._key_of(Row(row.number, tuple(cells))):
            self._fill(cells, self._within)
        return Row(row.number, tuple(cells), row.problem)

    def remember(self, row: Row, *, left_out: bool = False) -> None:
        """Remember the cells of this filled row for the rows below; forget all of them where its rule reads a key that changes there."""
        key = self._key_of(row)
        if left_out and self._rule_reads_key:
            if key != self._key:
                self._last, self._key = {}, []
            return
        for place in (*self._always, *self._within):
            self._last[place] = row.cells[place]
        self._key = key

    def _fill(self, cells: list[str], places: Iterable[int]) -> None:
        for place in places:
            if not stripped_cell(cells[place]):
                cells[place] = self._last.get(place, "")

    def _key_of(self, row: Row) -> list[str]:
        return [row.cells[place].strip() for place in self._keys]


class _RunningTotals:
    """The sums of some columns over the rows read so far."""

    def __init__(self, plan: TotalsPlan, reader: RowReader) -> None:
        self.plan = plan
        self._reader = reader
        self._sums = dict.fromkeys(plan.sums, Decimal(0))
        self.unknown: set[int] = set()  # sums with a refused cell: their stated totals are not compared
        self._rows, self._stated = 0, False

    def add(self, values: Sequence[Any], refused: dict[int, CellProblem]) -> None:
        """Adds the cells of one row. A refused cell makes the sum unknown."""
        self._rows += 1
        for index in self.plan.sums:
            self._sums[index] += values[index] or 0
        self.unknown.update(index for index in self.plan.sums if is_invalid(refused, index))

    def mark_unknown(self) -> None:
        """Marks all sums as unknown, after a row that reading refused or that is of no known kind."""
        self.unknown.update(self.plan.sums)

    def compare(self, row: Row, values: Sequence[Any], refused: dict[int, CellProblem]) -> Problem | None:
        """The problem of the first stated total that differs. Blank and unknown totals are not compared, nor is an Excel error that
        repeats one above it. Raises FileRefused if another total cannot be read: then nothing shows that the file is complete, and no
        record could be corrected.
        """
        problem, self._stated = None, True
        for index in self.plan.sums:
            repeats = index in self.unknown and index in refused and refused[index].code == "R207"
            if is_invalid(refused, index) and not repeats:
                raise FileRefused(self._problem(row, index, refused[index]))
            if values[index] is not None and index not in self.unknown and values[index] != self._sums[index]:
                differs = CellProblem("G408", {"sum": self._shown(row, index, values[index])})
                problem = problem or self._problem(row, index, differs)
        if self.plan.by_block:
            self._sums = dict.fromkeys(self.plan.sums, Decimal(0))
            self.unknown.clear()
        return problem

    def finish(self) -> None:
        """Raises FileRefused if the totals are missing: a file truncated at the end of a row looks complete. With totals by block, a file
        without rows needs none.
        """
        if self.plan.sums and not self._stated and (self._rows or not self.plan.by_block):
            rule, table = self.plan.where.text, self._reader.table
            hint = "send the complete file again; if such files have no totals, remove totals from the mapping"
            raise FileRefused(Problem("G409", Where(table.file, table.sheet), values={"rule": rule}, hint=hint))

    def _shown(self, row: Row, index: int, stated: Decimal) -> str:
        """The sum in the notation of its column; a quantity with its unit, and the stated total in that unit."""
        column = self._reader.plan.columns[index]
        total, unit = number_text(self._sums[index], column.locale), column.spec.unit
        if unit is None:
            return total
        return f"{total} {unit} ({self._cell(row, index)} = {number_text(stated, column.locale)} {unit})"

    def _cell(self, row: Row, index: int) -> str:
        position = self._reader.view.position(index, row)
        return self._reader.view.shown(row)[position] if position is not None else ""

    def _problem(self, row: Row, index: int, cell: CellProblem) -> Problem:
        position, found = self._reader.view.position(index, row), self._cell(row, index)
        values = {"column": self._reader.plan.label(index), **cell.values}
        return Problem(cell.code, self._reader.table.where(row.number, position), found, values, cell.hint)


# ---- groups ----


class Group(NamedTuple):
    """The rows of one record by table position (0 is the main table). `key` is None for a row without a key."""

    key: str | None
    rows: tuple[Sequence[Row], ...]

    def shown_key(self, parts: int) -> str:
        """The key as reports show it: its first `parts` parts."""
        return "/".join((self.key or "").split(BETWEEN)[:parts])


Gathered = Iterator[Group | Ignored]
_Rank = Callable[[str], Any]


def gather(readers: Sequence[RowReader], *, memory_rows: int = MEMORY_ROWS) -> Gathered:
    """Stream the groups of all tables, the main table's first, in the order of their first rows or sorted if the mapping says so. Tables
    are read up to three times. A sort on disk keeps its files in the system's temporary folder and removes them when the iterator ends or is
    closed.
    """
    sources = [KeyedTable(reader) for reader in readers]
    if len(sources) == 1 and not sources[0].is_keyed and not sources[0].is_sorted:
        return _each_row(sources[0])
    held = _read_ahead(sources, memory_rows)
    if held is not None:
        return _in_memory(held)
    rank = _key_ranks(sources, in_key_order=True) or _key_ranks(sources, in_key_order=False)
    return _merge(sources, rank) if rank is not None else _sorted_on_disk(sources)


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
                yield _group_of_one_table(None, (item.row,), position, len(held))
            else:
                if (rows := groups.get(item.key)) is None:
                    rows = groups[item.key] = tuple([] for _ in held)
                    order[item.key] = item.order
                rows[position].append(item.row)
    for key in sorted(groups, key=lambda key: (not groups[key][0], order[key])):
        yield from _groups_of_key(key, groups[key])


def _group_of_one_table(key: str | None, rows: Sequence[Row], position: int, tables: int) -> Group:
    """A group with rows of one table only."""
    return Group(key, tuple(rows if place == position else () for place in range(tables)))


def _groups_of_key(key: str, rows: tuple[Sequence[Row], ...]) -> Gathered:
    """The group of a key; without a row of the main table, one group for each table that has rows."""
    if rows[0]:
        yield Group(key, rows)
        return
    for position, own in enumerate(rows):
        if own:
            yield _group_of_one_table(key, own, position, len(rows))


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
                yield _group_of_one_table(None, (item.row,), self._position, self._tables)
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
            yield from _unmatched_runs(partner, place, len(sources), lambda key: key is None or key < here, rank)  # noqa: B023 (used at once)
            is_partner = partner.key == main.key
            rows.append(partner.rows if is_partner else ())
            if is_partner:
                yield from partner.advance()
        yield Group(main.key, tuple(rows))
        yield from main.advance()
    for place, partner in enumerate(partners, 1):
        yield from _unmatched_runs(partner, place, len(sources), lambda _: True, rank)


def _unmatched_runs(runs: _Runs, position: int, tables: int, passed: Callable[[Any], bool], rank: _Rank) -> Gathered:
    while runs.key is not None and passed(rank(runs.key)):
        yield _group_of_one_table(runs.key, runs.rows, position, tables)
        yield from runs.advance()


# ---- on disk ----


def _sorted_on_disk(sources: Sequence[KeyedTable]) -> Gathered:
    """Rows in a temporary SQLite database, sorted there."""
    with (
        tempfile.TemporaryDirectory(prefix="loadsheet-") as name,
        closing(sqlite3.connect(Path(name) / "rows.db", isolation_level=None)) as database,
    ):
        database.executescript(_TABLE)
        for position, source in enumerate(sources):
            for item in source:
                if isinstance(item, Ignored):
                    yield item
                elif item.key is None:
                    yield _group_of_one_table(None, (item.row,), position, len(sources))
                else:
                    database.execute(_INSERT, (position, item.key, item.order, pack_row(item.row)))
        database.executescript(_RANK)
        for key, found in groupby(database.execute(_SORTED), itemgetter(0)):
            rows: tuple[list[Row], ...] = tuple([] for _ in sources)
            for _, table, row in found:
                rows[table].append(unpack_row(row))
            yield from _groups_of_key(key, rows)


_TABLE = """
    pragma journal_mode = off; pragma synchronous = off; pragma temp_store = file;
    create table rows (n integer primary key, t integer, k text, o text, r blob);
    begin
"""
_INSERT = "insert into rows (t, k, o, r) values (?, ?, ?, ?)"

_RANK = """
    create table heads as
        select k, min(n) filter (where t = 0) as first, min(n) as any_first from rows group by k;
    create table ranked as
        select heads.k, row_number() over (order by first is null, head.o, first, any_first) as place
        from heads left join rows as head on head.n = first;
    create unique index ranked_by_key on ranked (k, place);
"""

# The rows of each key by table, in the order of the keys' first rows in the main table, or sorted by the mapping's `order`.
_SORTED = """
    select ranked.k, rows.t, rows.r from rows cross join ranked on ranked.k = rows.k order by place, rows.t, rows.n
"""
