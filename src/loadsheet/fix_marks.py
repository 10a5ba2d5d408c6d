"""The marks by which a fix workbook is recognised: the run and drop of its rows, and the entry and row number of each.

Shared by its writer (reports) and its readers (reading, ingest). Uses no workbook library and no ledger.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

PROPERTY = "loadsheet-fix"
"""The custom document property that holds the mark. Spreadsheet programs keep it when they save, under any file name."""

ROW_COLUMN = "_row"
"""The heading of the hidden last column, which holds a RowMark."""

ORIGINAL_COLUMNS = "columns"
"""The key in a table's `found` with the letters of the original's columns in a fix workbook (`B, C, D`; `-` for none). Other tables lack
the key: their columns are where the header has them.
"""

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
    """An entry whose rows come back in a fix file: its key, and whether the sender may delete rows."""

    key: str
    may_lose_rows: bool = False


SURPLUS_ROW_CODES = frozenset({"G401", "G402", "G403", "R236"})
"""The codes of problems that deleting a row solves: contradicting rows, a duplicate identifier or row, a row without its partner. In a
fix of any other entry, a missing row counts as an accident.
"""


def sheet_titles(tables: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The sheet title in a fix workbook for each table, given as name, file and sheet: the sender's name for it (the sheet, else the file),
    shortened and made unique as a workbook requires.
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
