"""Dates far from the day of a run: a pickup in 1900 is the number 1 in a cell that shows dates, and a delivery in 2206 a typing error.

Owns: which dates of finished records are pointed out. Looks at the records themselves, so it does not matter how their values were made.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from loadsheet.mapping.documents import Document, Ignored, Lineage
from loadsheet.mapping.lineage import locate
from loadsheet.problems import NOWHERE, Problem, Where
from loadsheet.reading.tables import Table

_DATES = re.compile(rb'"(\w*datetime)":"(\d{4}-\d\d-\d\d)')
_HINT = "check the date; if it is right, there is nothing to do"


@dataclass(frozen=True, slots=True)
class FarDates:
    """The bounds: the first and the last day that is not pointed out, as ISO texts."""

    first: str
    last: str

    @classmethod
    def around(cls, now: datetime, *, years_back: int, years_ahead: int) -> "FarDates":
        """The bounds so many years around the day of a run; 0: there is none on that side."""
        first = _moved(now.date(), -years_back) if years_back else ""
        return cls(first, _moved(now.date(), years_ahead) if years_ahead else "9999-99-99")

    def watch(
        self, documents: Iterable[Document | Ignored], lineage: Lineage, tables: Mapping[str, Table]
    ) -> Iterator[Document | Ignored]:
        """The documents; those with a date outside the bounds have a warning more for each."""
        for document in documents:
            if isinstance(document, Document) and (far := self._far(document)):
                warnings = [self._warning(document, path, day, lineage, tables) for path, day in far]
                document = replace(document, problems=(*document.problems, *warnings))  # noqa: PLW2901 (the same with more)
            yield document

    def _far(self, document: Document) -> list[tuple[str, str]]:
        found = [(path.decode(), day.decode()) for path, day in _DATES.findall(document.payload)]
        return [(path, day) for path, day in found if not self.first <= day <= self.last]

    def _warning(
        self, document: Document, path: str, day: str, lineage: Lineage, tables: Mapping[str, Table]
    ) -> Problem:
        where, found = _place(document, path, lineage, tables)
        bound = f"before {self.first}" if day < self.first else f"after {self.last}"
        return Problem("C318", where, found or day, {"day": day, "bound": bound}, _HINT, "warning")


def _moved(day: date, years: int) -> str:
    year = min(max(day.year + years, 1), 9999)
    return f"{year:04}-{day.month:02}-{day.day:02}"


def _place(document: Document, path: str, lineage: Lineage, tables: Mapping[str, Table]) -> tuple[Where, str]:
    """The first cell that a field comes from, and what stands there."""
    for place in locate(lineage, document.rows, document.items, path):
        row, table = document.rows[place.row], tables.get(place.table)
        if table is not None:
            column = table.header.index(place.label) if place.label in table.header else None
            found = row.cells[column] if column is not None and column < len(row.cells) else ""
            return table.where(row.number, column, path), found
    return NOWHERE, ""
