"""What is left out of files: rows by the rules of a mapping, blank and hidden ones, hidden sheets, and columns that nothing reads.

A rule that is too wide, or a misspelt heading, would lose values without a word.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from loadsheet.mapping import Ignored
from loadsheet.mapping.documents import TableNotes
from loadsheet.reading import Table

_SHOWN = 3  # rows of each rule


@dataclass(slots=True)
class _Rows:
    """How many rows there are, and the numbers and first texts of the first of them."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)


class LeftOut:
    """Takes the rows one after the other; keeps few of them, however many there are."""

    def __init__(self) -> None:
        self._by_rule: dict[tuple[str, str, str], _Rows] = {}
        self.tables: list[dict[str, Any]] = []
        """The tables that were read, as JSON values: columns that are not used, blank rows, and what reading found."""

    def add(self, found: Ignored, file: str, sheet: str) -> None:
        """Counts a row of this file and sheet (empty in text files)."""
        rows = self._by_rule.setdefault((file, sheet, found.rule), _Rows())
        rows.count += 1
        if len(rows.first) < _SHOWN:
            text = next((cell.strip() for cell in found.row.cells if cell.strip()), "")
            rows.first.append((found.row.number, text))

    def note(self, table: Table, notes: TableNotes) -> None:
        """Keeps what was seen of a table whose rows were read."""
        found = dict(table.found)
        self.tables.append(
            {
                "file": table.file,
                "sheet": table.sheet,
                "table": table.name,
                "unused": list(notes.unused),
                "blank_rows": notes.blank_rows,
                "found": found,
            }
        )

    @property
    def count(self) -> int:
        """How many rows were left out."""
        return sum(rows.count for rows in self._by_rule.values())

    def sentences(self) -> Iterator[str]:
        """A line for each file and rule: how many rows it leaves out, and which are the first."""
        for (file, sheet, rule), rows in self._by_rule.items():
            place = f"{file}:{sheet}" if sheet else file
            shown = ", ".join(f'{number} "{text}"' if text else str(number) for number, text in rows.first)
            more = f" and {rows.count - len(rows.first):,} more" if rows.count > len(rows.first) else ""
            plural = "" if rows.count == 1 else "s"
            yield f"{place}: {rows.count:,} row{plural} left out, {rule} (row{plural} {shown}{more})"
        for table in self.tables:
            if said := list(_said_of(table)):
                place = f"{table['file']}:{table['sheet']}" if table["sheet"] else table["file"]
                yield f"{place}: {'; '.join(said)}"

    def to_json(self) -> list[dict[str, Any]]:
        """The same as JSON values."""
        return [
            {"file": file, "sheet": sheet, "rule": rule, "count": rows.count, "rows": [row for row, _ in rows.first]}
            for (file, sheet, rule), rows in self._by_rule.items()
        ]


def _said_of(table: dict[str, Any]) -> Iterator[str]:
    if unused := table["unused"]:
        yield f"{len(unused)} column{'' if len(unused) == 1 else 's'} not used ({', '.join(unused)})"
    if blank := table["blank_rows"]:
        yield f"{blank:,} blank row{'' if blank == 1 else 's'} skipped"
    for what, how in table["found"].items():
        if what.startswith("hidden") or "ignored" in how:
            yield f"{what}: {how}"
