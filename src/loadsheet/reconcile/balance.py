"""The tie-out: every row read is accounted for, exactly once.

rows read = rows of accepted + refused + invalid + held + unchanged + unknown + sending + ready entries + rows left out by rule,
for each table of each file and in all. Counts what the ledger holds; decides nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from loadsheet.ledger import Drop, Entry, IgnoredRow, SourceTable, State
from loadsheet.mapping.documents import own_rows

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
"""What can become of a row, in the order of reports."""


class TableBalance(NamedTuple):
    """The balance of one table: rows read, rows by fate, and rows that belong to more than one entry (there must be none)."""

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
    """The balance of all tables, and how many entries stand behind it."""

    tables: tuple[TableBalance, ...]
    entries: int

    @property
    def read(self) -> int:
        """Rows read in all."""
        return sum(table.read for table in self.tables)

    @property
    def rows(self) -> dict[str, int]:
        """Rows by fate in all; every fate is named."""
        return {fate: sum(table.rows[fate] for table in self.tables) for fate in FATES}

    @property
    def balances(self) -> bool:
        """Whether every table balances."""
        return all(table.balances for table in self.tables)

    def faults(self) -> Iterator[str]:
        """The tables that do not balance, a sentence each."""
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
        """Count the rows of an entry under its state."""
        self._entries += 1
        tables, state = self._tables[entry.drop], entry.state
        for table, number, _, _ in own_rows(entry.rows, entry.items):
            tables[table].add(number, state)

    def leave_out(self, drop: Drop, rows: Iterable[IgnoredRow]) -> None:
        """Count the rows that rules left out."""
        for row in rows:
            self._tables[drop.id][row.table].add(row.number, IGNORED)

    def balance(self) -> Balance:
        """What was counted."""
        tallies = (tally for tables in self._tables.values() for tally in tables.values())
        return Balance(tuple(tally.balance() for tally in tallies), self._entries)


class _TableTally:
    def __init__(self, drop: int, table: SourceTable) -> None:
        self._drop, self._table = drop, table
        self._rows: Counter[str] = Counter()
        self._seen = bytearray()  # one byte a row number: the proof that none has two fates stays small
        self._twice = 0

    def add(self, number: int, fate: str) -> None:
        self._rows[fate] += 1
        seen = self._seen
        if number >= len(seen):
            seen.extend(bytes(max(number + 1 - len(seen), len(seen))))  # twice as many: it is asked for once a row
        self._twice += seen[number]
        seen[number] = 1

    def balance(self) -> TableBalance:
        rows = {fate: self._rows[fate] for fate in FATES}
        table = self._table
        return TableBalance(self._drop, table.name, table.file, table.sheet, table.rows, rows, self._twice)
