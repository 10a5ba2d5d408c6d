"""The rows that rules of a mapping leave out, counted by file and rule: a rule that is too wide would lose records without a word."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from loadsheet.mapping import Ignored

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

    def add(self, found: Ignored, file: str, sheet: str) -> None:
        """Counts a row of this file and sheet (empty in text files)."""
        rows = self._by_rule.setdefault((file, sheet, found.rule), _Rows())
        rows.count += 1
        if len(rows.first) < _SHOWN:
            text = next((cell.strip() for cell in found.row.cells if cell.strip()), "")
            rows.first.append((found.row.number, text))

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

    def to_json(self) -> list[dict[str, Any]]:
        """The same as JSON values."""
        return [
            {"file": file, "sheet": sheet, "rule": rule, "count": rows.count, "rows": [row for row, _ in rows.first]}
            for (file, sheet, rule), rows in self._by_rule.items()
        ]
