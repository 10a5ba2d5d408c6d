"""What a fix workbook says of itself, so that it can be dropped back: whose rows it holds, and which row each of its rows is.

The one thing that its writer (reports) and its readers (reading, intake) share; knows no workbook library and no ledger.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

PROPERTY = "loadsheet-fix"
"""The custom document property that holds the mark: the spreadsheet programs keep it when they save, whatever the file is called."""

ROW_COLUMN = "_row"
"""The heading of the hidden last column: which row of which entry a row is."""

STANDS = "columns"
"""The entry of a table's `found` that says by letters (`B, C, D`; `-` for nowhere) where in a fix workbook the columns of the original
stand; other tables have none, and theirs stand where they are in the header.
"""

_SHEET_LENGTH_MAX = 31
_UNSAFE = re.compile(r"[\[\]:*?/\\]")
_MARK = re.compile(r"1 ([0-9-]{1,40})/([0-9]{1,10}) ([0-9a-f]{16}) (.+)")
_ROW = re.compile(r"([0-9]{1,12}):([0-9]{1,7})/([0-9]{1,7})")


class Mark(NamedTuple):
    """Where the rows of a fix workbook are from: the run and drop that read them, and the mapping they were read with, by its
    hash (the first 16 hex digits) and name.
    """

    run: str
    drop: int
    mapping_hash: str
    mapping: str

    def __str__(self) -> str:
        """The value of the property, below the 255 characters that spreadsheet programs keep."""
        return f"1 {self.run}/{self.drop} {self.mapping_hash[:16]} {self.mapping[:180]}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The mark that `str` gave; None if this is none."""
        found = _MARK.fullmatch(text.strip())
        return cls(found[1], int(found[2]), found[3], found[4]) if found else None


class RowMark(NamedTuple):
    """One row of an entry: the entry, and the how-manieth of how many of its rows in the fix workbook (from 1)."""

    entry: int
    number: int
    of: int

    def __str__(self) -> str:
        """What stands in the hidden column: `8812:2/3`."""
        return f"{self.entry}:{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The mark that `str` gave; None if this is none."""
        found = _ROW.fullmatch(text.strip())
        return cls(int(found[1]), int(found[2]), int(found[3])) if found else None


class FixedEntry(NamedTuple):
    """What is known of an entry whose rows come back in a fix file: its key, and whether its sender may leave rows out."""

    key: str
    may_lose_rows: bool = False


ROW_TOO_MANY = frozenset({"G401", "G402", "G403", "R236"})
"""Problems that deleting a row mends: rows that contradict each other, an identifier or a row that stands there twice, a row without its
partner. In a fix of any other entry a row that is missing is taken for an accident.
"""


def sheet_titles(tables: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The sheet of a fix workbook for each table, given as name, file and sheet: called as the sender calls it (the sheet, or else the file),
    as far as a workbook allows and told apart where two are alike.
    """
    titles: dict[str, str] = {}
    taken: set[str] = {"errors", "changed for you", "read me", "lists", "history"}
    for name, file, sheet in tables:
        stem = file.rpartition("/")[2].rpartition(".")[0] or file
        base = _UNSAFE.sub("_", sheet or stem).strip(" '")[:_SHEET_LENGTH_MAX] or name[:_SHEET_LENGTH_MAX]
        title, number = base, 1
        while title.casefold() in taken:
            number += 1
            title = f"{base[: _SHEET_LENGTH_MAX - len(str(number)) - 1]}-{number}"
        taken.add(title.casefold())
        titles[name] = title
    return titles
