"""The tie-out: every row read is accounted for, exactly once.

rows read = rows of accepted + refused + invalid + held + unchanged + unknown + sending + ready entries + ignored rows,
for each table of each file and in all. Counts the ledger's content and decides nothing.
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
        self._entries = 0

    def open(self, drop: Drop) -> None:
        """Begin with a drop."""
        self._tables[drop.id] = {table.name: _TableTally(drop.id, table) for table in drop.tables}

    def add(self, entry: Entry) -> None:
        """Count the rows of an entry under its state. A row shared by several entries counts once, under the worst."""
        self._entries += 1
        tables, state = self._tables[entry.drop], entry.state
        for table, number, _, _ in own_rows(entry.rows, entry.items):
            tables[table].add(number, state)
        for index in entry.items.get(SHARED, ()):
            tables[entry.rows[index].table].share(entry.rows[index].number, state)

    def leave_out(self, drop: Drop, rows: Iterable[IgnoredRow]) -> None:
        """Count the rows that rules ignored."""
        for row in rows:
            self._tables[drop.id][row.table].add(row.number, IGNORED)

    def balance(self) -> Balance:
        """The counts so far."""
        tallies = (tally for tables in self._tables.values() for tally in tables.values())
        return Balance(tuple(tally.balance() for tally in tallies), self._entries)


_RANKS = {fate: rank for rank, fate in enumerate(WORST_FIRST, start=1)}


def _worse(one: str, other: str) -> str:
    return min(one, other, key=_RANKS.__getitem__)


class _TableTally:
    def __init__(self, drop: int, table: SourceTable) -> None:
        self._drop, self._table = drop, table
        self._rows: Counter[str] = Counter()
        self._fates = bytearray()  # one byte per row number (0: none yet), to prove that no row has two fates
        self._early: dict[int, str] = {}  # rows seen before their own document: the worst fate so far
        self._twice = 0

    def add(self, number: int, fate: str) -> None:
        if self._early:
            fate = _worse(fate, self._early.pop(number, fate))
        self._rows[fate] += 1
        fates = self._fates
        if number >= len(fates):
            fates.extend(bytes(max(number + 1 - len(fates), len(fates))))  # doubles, so that few rows extend it
        self._twice += fates[number] > 0
        fates[number] = _RANKS[fate]

    def share(self, number: int, fate: str) -> None:
        """Another document shares a row that its own document counts: the worse fate wins."""
        before = self._fates[number] if number < len(self._fates) else 0
        if not before:
            self._early[number] = _worse(fate, self._early.get(number, fate))
        elif before > _RANKS[fate]:
            self._rows[WORST_FIRST[before - 1]] -= 1
            self._rows[fate] += 1
            self._fates[number] = _RANKS[fate]

    def balance(self) -> TableBalance:
        rows = {fate: self._rows[fate] for fate in FATES}
        table = self._table
        return TableBalance(self._drop, table.name, table.file, table.sheet, table.rows, rows, self._twice)
