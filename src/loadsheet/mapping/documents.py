"""The values of mapping: documents, the rows they came from, the rows left out by rule, and what senders are told of columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from loadsheet.problems import Problem


class SourceRow(NamedTuple):
    """One row of a source file as it was read: the mapping's table name, the row number from 1, and the cells as text.

    `natives` are the cells that a workbook held as number, datetime, date, time or flag: position from 0, kind, and the value in
    the canonical text of `reading.tables.Native`. Rows of text files have none.
    """

    table: str
    number: int
    cells: tuple[str, ...]
    natives: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One record to submit, or the reasons why it cannot be: everything the ledger keeps about it.

    `payload` is the request record as JSON (UTF-8, numbers exact), empty if it could not be built; `content_hash` is the
    SHA-256 (hex) of the record with sorted keys, so that key order does not matter; `rows` are all its source rows;
    `items` says for payload lists that the mapping writes out entry by entry which entries are there, where some were left out
    (and more for `locate`, see below). `instead` is what to send if the ledger finds the record to exist already. `ordered` are the
    paths of the lists in which the order is content: in all others it is that of the sheet's rows, and says nothing.
    """

    operation: str
    key: str
    lane: str
    payload: bytes
    content_hash: str
    rows: tuple[SourceRow, ...]
    problems: tuple[Problem, ...] = ()
    items: dict[str, tuple[int, ...]] = field(default_factory=dict)
    instead: "Instead | None" = None
    ordered: tuple[str, ...] = ()

    @property
    def own_rows(self) -> tuple[SourceRow, ...]:
        """Its source rows without those that another document, made from the same row before, accounts for."""
        return own_rows(self.rows, self.items)

    @property
    def usable(self) -> bool:
        """Whether it may be sent: built, and with no problem worse than a warning."""
        return bool(self.payload) and all(problem.level == "warning" for problem in self.problems)


class Instead(NamedTuple):
    """The other operation of a record to be created or, where it exists already, updated: its payload and content hash."""

    operation: str
    payload: bytes
    content_hash: str


SHARED = "(shared)"
"""The entry of `items` with the indexes of the rows that a document before it accounts for."""


FIX_OF = "(fix of)"
"""The entry of `items` with the entries of the ledger whose rows a document is made from, where these came back in a fix file."""


def rows_of(table: str) -> str:
    """The entry of `items` that says for each row of a table which of the document's rows it was made from."""
    return f"({table})"


def sets_of(table: str) -> str:
    """The entry of `items` that says for each row of a table which column set it was made from."""
    return f"({table} sets)"


def list_of(path: str) -> str:
    """The entry of `items` that says for the items of a list within a list which of their table's rows they are."""
    return f"{path}[]"


_ORDERED = "(ordered) "


def in_order(paths: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The entries of `items` that say of which lists the mapping declares the order (`ordered: true`)."""
    return {f"{_ORDERED}{path}": () for path in paths}


def ordered_in(items: Iterable[str]) -> frozenset[str]:
    """The lists that `items` says to be ordered."""
    return frozenset(name.removeprefix(_ORDERED) for name in items if name.startswith(_ORDERED))


def own_rows(rows: tuple[SourceRow, ...], items: Mapping[str, Sequence[int]]) -> tuple[SourceRow, ...]:
    """Those of a document's rows that it accounts for itself: all, but where one row of a file gives several documents."""
    shared = items.get(SHARED)
    return rows if not shared else tuple(row for index, row in enumerate(rows) if index not in shared)


class Ignored(NamedTuple):
    """A row that a rule of the mapping leaves out, and that rule in words."""

    row: SourceRow
    rule: str


class Source(NamedTuple):
    """Where a payload value comes from: a column of a table (its name in the mapping and its label), and over which rows of
    the document: the `first` row of that table, `each` row with its own list item, the row of the list `around`, or `all` of them.
    """

    table: str
    column: str
    label: str
    rows: Literal["first", "each", "around", "all"]


@dataclass(frozen=True, slots=True)
class ColumnGuide:
    """What the sender of a column is told of it: what it takes, in words (`a date such as 04.03.2026`), the values that it takes if
    they are a list, and whether it must be filled.
    """

    takes: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


class TableNotes(NamedTuple):
    """What was seen of a table when all its rows were read: warnings, the columns that nothing reads (by heading, else by letter), and how
    many blank rows were skipped.
    """

    problems: tuple[Problem, ...] = ()
    unused: tuple[str, ...] = ()
    blank_rows: int = 0


Lineage = dict[str, tuple[Source, ...]]
"""Payload path pattern (`packages[].weight`) -> its sources. An empty tuple is a value the mapping itself supplies. The columns of a table
made from column sets stand there as well, `(items).weight` with one source for each set. See `lineage.py`.
"""
