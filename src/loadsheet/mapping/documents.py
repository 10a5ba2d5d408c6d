"""The values of mapping: documents, the rows they came from, and the rows left out by rule."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from loadsheet.problems import Problem


class SourceRow(NamedTuple):
    """One row of a source file as it was read: the mapping's table name, the row number from 1, and the cells as text."""

    table: str
    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One record to submit, or the reasons why it cannot be: everything the ledger keeps about it.

    `payload` is the request record as JSON (UTF-8, numbers exact), empty if it could not be built; `content_hash` is the
    SHA-256 (hex) of the record with sorted keys, so that key order does not matter; `rows` are all its source rows;
    `items` says for payload lists that the mapping writes out entry by entry which entries are there, where some were left out.
    """

    operation: str
    key: str
    lane: str
    payload: bytes
    content_hash: str
    rows: tuple[SourceRow, ...]
    problems: tuple[Problem, ...] = ()
    items: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether it may be sent: built, and with no problem worse than a warning."""
        return bool(self.payload) and all(problem.level == "warning" for problem in self.problems)


class Ignored(NamedTuple):
    """A row that a rule of the mapping leaves out, and that rule in words."""

    row: SourceRow
    rule: str


class Source(NamedTuple):
    """Where a payload value comes from: a column of a table (its name in the mapping and its label), and over which rows of
    the document: the `first` row of that table, `each` row with its own list item, or `all` of them.
    """

    table: str
    column: str
    label: str
    rows: Literal["first", "each", "all"]


Lineage = dict[str, tuple[Source, ...]]
"""Payload path pattern (`packages[].weight`) -> its sources. An empty tuple is a value the mapping itself supplies. See `lineage.py`."""
