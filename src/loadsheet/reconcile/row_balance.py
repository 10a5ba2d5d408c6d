"""The tie-out: every row read is accounted for once.

Rows read = rows of accepted + refused + invalid + held + unchanged + unknown + sending + ready entries + ignored rows,
for each table of each file and in all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from loadsheet.ledger import Drop, Entry, IgnoredRow, SourceTable, State
from loadsheet.mapping.documents import SHARED, own_rows

IGNORED = "ignored"
FATES: tuple[str, ...] = (
    State.ACCEPTED,
    State.REFUSED,
    State.INVALID,
    State.HELD,
    State.UNCHANGED,
    State.UNKNOWN,
    State.SENDING,
    State.READY,
    IGNORED,
)
"""The possible fates of a row, in report order."""

WORST_FIRST: tuple[str, ...] = (
    State.UNKNOWN,
    State.SENDING,
    State.REFUSED,
    State.INVALID,
    State.HELD,
    State.READY,
    State.ACCEPTED,
    State.UNCHANGED,
    IGNORED,
)
"""The fates by urgency. A row that several documents are made from has the most urgent of their fates."""


class TableBalance(NamedTuple):
    """The balance of one table: rows read, rows by fate, and rows counted for more than one entry (should be none)."""

    drop: int
    table: str
    file: str
    sheet: str
    read: int
    rows: dict[str, int]
    twice: int

    @property
    def accounted(self) -> int:
        """Rows with a fate."""
        return sum(self.rows.values())

    @property
    def balances(self) -> bool:
        """Whether every row read has exactly one fate."""
        return self.read == self.accounted and not self.twice


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of all tables, and the number of entries behind it."""

    tables: tuple[TableBalance, ...]
    entries: int

    @property
    def read(self) -> int:
        """Rows read in all."""
        return sum(table.read for table in self.tables)

    @property
    def rows(self) -> dict[str, int]:
        """Rows by fate in all; includes every fate."""
        return {fate: sum(table.rows[fate] for table in self.tables) for fate in FATES}

    @property
    def balances(self) -> bool:
        """Whether every table balances."""
        return all(table.balances for table in self.tables)

    def faults(self) -> Iterator[str]:
        """The tables that do not balance, in sentences."""
        for table in self.tables:
            place = f"{table.file} {table.sheet}".strip()
            if table.read != table.accounted:
                yield f"{place}: {table.read} rows read, {table.accounted} accounted for"
            if table.twice:
                yield f"{place}: {table.twice} rows are accounted for more than once"


class Tally:
    """Counts the rows of a run's drops while its entries stream by."""

    def __init__(self) -> None:
        self._tables: dict[int, dict[str, _TableTally]] = {}  # by drop
        self._counting: dict[int, dict[str, _TableTally]] = {}  # the tally that counts the rows of each table
        self._entries = 0

    def open(self, drop: Drop) -> None:
        """Begin with a drop."""
        own = self._tables[drop.id] = {table.name: _TableTally(drop.id, table) for table in drop.tables}
        self._counting[drop.id] = {name: own[counting] for name, counting in drop.counted_in.items()}

    def add(self, entry: Entry) -> None:
        """Count the rows of an entry under its state. A row shared by several entries counts once, under the worst."""
        self._entries += 1
        tables, rank = self._counting[entry.drop], _RANKS[entry.state]
        for row in own_rows(entry.rows, entry.items):
            tables[row.table].add(row.number, rank)
        for index in entry.items.get(SHARED, ()):
            tables[entry.rows[index].table].share(entry.rows[index].number, rank)

    def leave_out(self, drop: Drop, rows: Iterable[IgnoredRow]) -> None:
        """Count the rows that rules ignored."""
        for row in rows:
            self._counting[drop.id][row.table].add(row.number, _RANKS[IGNORED])

    def balance(self) -> Balance:
        """The counts so far."""
        tallies = (tally for tables in self._tables.values() for tally in tables.values())
        return Balance(tuple(tally.balance() for tally in tallies), self._entries)


_RANKS = {fate: rank for rank, fate in enumerate(WORST_FIRST, start=1)}


class _TableTally:
    """Counts the rows of one table by the rank of their fates."""

    def __init__(self, drop: int, table: SourceTable) -> None:
        self._drop, self._table = drop, table
        self._ranks = bytearray()  # one byte per row number (0: none yet), to prove that no row has two fates
        self._early: dict[int, int] = {}  # rows seen before their own document: the worst rank so far
        self._again: Counter[int] = Counter()  # ranks of rows that were added once more

    def add(self, number: int, rank: int) -> None:
        if self._early:
            rank = min(rank, self._early.pop(number, rank))
        ranks = self._ranks
        if number >= len(ranks):
            ranks.extend(bytes(max(number + 1 - len(ranks), len(ranks))))  # doubles, so that few rows extend it
        if before := ranks[number]:
            self._again[before] += 1
        ranks[number] = rank

    def share(self, number: int, rank: int) -> None:
        """Another document shares a row that its own document counts: the worse fate wins."""
        before = self._ranks[number] if number < len(self._ranks) else 0
        if not before:
            self._early[number] = min(rank, self._early.get(number, rank))
        elif before > rank:
            self._ranks[number] = rank

    def balance(self) -> TableBalance:
        table = self._table
        rows = {fate: self._ranks.count(_RANKS[fate]) + self._again[_RANKS[fate]] for fate in FATES}
        return TableBalance(self._drop, table.name, table.file, table.sheet, table.rows, rows, self._again.total())
