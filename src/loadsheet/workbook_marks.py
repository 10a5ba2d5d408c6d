"""What our workbooks hold so that we can read them when they come back. Shared by their writers and readers.

Fix workbooks: the run and drop of their rows, and the entry and row number of each. Reconciliation workbooks: the
columns of the analyst's annotations, and digests of what we wrote into them. Uses no workbook library and no ledger.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

PROPERTY = "loadsheet-fix"
"""The custom document property that holds the mark. Spreadsheet programs keep it when they save, under any file name."""

ROW_COLUMN = "_row"
"""The heading of the hidden last column, which holds a RowMark."""

ORIGINAL_COLUMNS = "columns"
"""The key in the notes on a table of the letters of the original's columns in a fix workbook (`B, C, D`; `-` for none). Other tables lack
the key: their columns are where the header has them.
"""

ANY_TEXT = "*"
"""Stands for any text in the name of a sheet in a mapping. Such a name is that of every sheet that fits and has the table."""


def table_on_sheet(table: str, title: str) -> str:
    """The name of a table of the mapping on one of several sheets: `rows [Jan]`."""
    return f"{table} [{title}]"


def table_of(name: str) -> str:
    """The mapping's name of such a table: `rows`. Other names stay as they are."""
    return name.partition(" [")[0]


def sheet_of(name: str) -> str:
    """The sheet of such a table: `Jan`; empty for other names."""
    return name.partition(" [")[2].removesuffix("]")


_SHEET_LENGTH_MAX = 31
_UNSAFE = re.compile(r"[\[\]:*?/\\]")
_MARK = re.compile(r"1 ([0-9-]{1,40})/([0-9]{1,10}) ([0-9a-f]{16}) (.+)")
_ROW = re.compile(r"([0-9]{1,12}):([0-9]{1,7})/([0-9]{1,7})")


class Mark(NamedTuple):
    """The origin of the rows of a fix workbook: the run and drop that read them, and the mapping, by the first 16 hex digits of its hash
    and its name.
    """

    run: str
    drop: int
    mapping_hash: str
    mapping: str

    def __str__(self) -> str:
        """The value of the property; shorter than the 255 characters that spreadsheet programs keep."""
        return f"1 {self.run}/{self.drop} {self.mapping_hash[:16]} {self.mapping[:180]}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the result of `str`; None if the text is not a mark."""
        found = _MARK.fullmatch(text.strip())
        return cls(found[1], int(found[2]), found[3], found[4]) if found else None


class RowMark(NamedTuple):
    """One row of an entry: the entry id, the row's number (from 1) and the count of its rows in the fix workbook."""

    entry: int
    number: int
    of: int

    def __str__(self) -> str:
        """The value of the hidden column: `8812:2/3`."""
        return f"{self.entry}:{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the result of `str`; None if the text is not a mark."""
        found = _ROW.fullmatch(text.strip())
        return cls(int(found[1]), int(found[2]), int(found[3])) if found else None


class FixedEntry(NamedTuple):
    """An entry whose rows come back in a fix file: its key, and whether the sender may delete rows, or give them other identifiers."""

    key: str
    may_lose_rows: bool = False
    may_move_rows: bool = False


SURPLUS_ROW_CODES = frozenset({"G401", "G402", "G403", "R236"})
"""The codes of problems that deleting a row solves: contradicting rows, a duplicate identifier or row, a row without its partner. In a
fix of any other entry, a missing row counts as an accident.
"""

MOVED_ROW_CODES = frozenset({"R237", "G404", "G406"})
"""The codes of problems that another identifier in a row may solve: a row that got a wrong one before, one left over, and a check that
fails, such as a number of packages.
"""


def sheet_titles(tables: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The sheet title in a fix workbook for each table, given as name, file and sheet: the sender's name for it (the sheet, else the file),
    shortened and made unique as a workbook requires. A second table of one sheet, read by another mapping, gets that mapping's name.
    """
    titles: dict[str, str] = {}
    taken: set[str] = {"errors", "changed for you", "read me", "lists", "history"}
    for name, file, sheet in tables:
        stem = file.rpartition("/")[2].rpartition(".")[0] or file
        base = _UNSAFE.sub("_", sheet or stem).strip(" '")[:_SHEET_LENGTH_MAX] or name[:_SHEET_LENGTH_MAX]
        mapping = table_of(name).rpartition("/")[0]
        if mapping and base.casefold() in taken:
            base = f"{base[: _SHEET_LENGTH_MAX // 2]} {mapping}"[:_SHEET_LENGTH_MAX]
        title, number = base, 1
        while title.casefold() in taken:
            number += 1
            title = f"{base[: _SHEET_LENGTH_MAX - len(str(number)) - 1]}-{number}"
        taken.add(title.casefold())
        titles[name] = title
    return titles


SHEET = "Exceptions"
ID = "Exception"
HEADS = {"owner": "Owner", "reason": "Reason", "comment": "Comment", "status": "Status"}
"""The headings of the analyst's columns, by field."""

WRITTEN = "_written"
"""The heading of the hidden last column: digests of what we wrote into the analyst's columns."""

OPEN, EXPLAINED, FIXED, ACCEPTED = "open", "explained", "fixed", "accepted difference"
STATUSES = (OPEN, EXPLAINED, FIXED, ACCEPTED)
CLOSING_STATUSES = frozenset({EXPLAINED, ACCEPTED})
"""The statuses that close an exception. `fixed` stays open until a run confirms it."""

REASONS = (
    "timing",
    "waiting",
    "unknown outcome",
    "shipper data",
    "mapping",
    "exchange refused",
    "exchange changed it",
    "duplicate drop",
    "manual entry at exchange",
    "tool fault",
)

_ID = re.compile(r"E-([0-9]{1,15})")


def exception_id(entry: int) -> str:
    """The id of an entry's exception in every workbook: `E-8812`."""
    return f"E-{entry}"


def entry_of(text: str) -> int | None:
    """The entry id in an exception id; None if the text is not one."""
    found = _ID.fullmatch(text.strip())
    return int(found[1]) if found else None


def as_written(values: Mapping[str, str]) -> str:
    """The hidden cell for these values: eight hex digits each, in the order of `HEADS`."""
    return " ".join(_digest(values.get(name, "")) for name in HEADS)


def changed_values(values: Mapping[str, str], written: str) -> dict[str, str]:
    """The values that differ from what we wrote; all non-empty values if that is unknown."""
    before = written.split()
    if len(before) != len(HEADS):
        return {name: value for name, value in values.items() if value}
    return {
        name: values[name]
        for name, digest in zip(HEADS, before, strict=True)
        if name in values and _digest(values[name]) != digest
    }


def _digest(value: str) -> str:
    return hashlib.sha256(value.strip().encode("utf-8", "surrogatepass")).hexdigest()[:8]
