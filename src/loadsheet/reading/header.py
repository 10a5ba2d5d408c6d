"""Finding the header: which row of a table's top holds the labels that the mapping wants.

Pure. Rows come from any kind of file; the refusal names the row that comes closest and what it lacks.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.layouts import Layout, WantedColumn
from loadsheet.reading.tables import place

TOP_ROWS = 50
"""How far down a header is looked for unless the mapping gives its row."""

_SPACE = re.compile(r"\s+")
_AROUND = " *:;,.!?\"'†"  # what people put around a label: "Weight *", "Order no.:"


@dataclass(frozen=True, slots=True)
class Header:
    """A row seen as header: its number, its labels without blank ones at the end, where each wanted column stands (every
    position its labels are found at), and which required columns are missing.
    """

    row: int
    labels: tuple[str, ...]
    positions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    missing: tuple[WantedColumn, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether it holds every required column, and one at least."""
        return bool(self.positions) and not self.missing

    @property
    def columns(self) -> dict[str, int]:
        """The position of each wanted column that is there."""
        return {name: places[0] for name, places in self.positions.items()}


NO_HEADER = Header(0, ())


def fold(label: str) -> str:
    """A label as it is compared: without case, accents, white space at the ends, doubled white space and line breaks,
    invisible characters, and punctuation around it. `Straße *` and `STRASSE` are the same.
    """
    apart = unicodedata.normalize("NFKD", label.casefold())
    bare = "".join(character for character in apart if unicodedata.category(character) not in ("Mn", "Cf"))
    return _SPACE.sub(" ", bare).strip(_AROUND)


def find_header(rows: Iterable[tuple[int, Sequence[str]]], layout: Layout) -> Header:
    """The header among `rows` (number, cells): the first complete one, else the closest. Where no column is required, the row
    with most of them. Reads no further than it must.
    """
    closest, by_label = NO_HEADER, _columns_by_label(layout)
    demanding = any(column.required for column in layout.columns)
    last = TOP_ROWS if layout.header_row == "auto" else layout.header_row
    for number, cells in rows:
        if number > last:
            break
        if layout.header_row not in ("auto", number):
            continue
        header = _match(number, cells, layout, by_label)
        if header.complete and demanding:
            return header
        if not closest.row or closeness(header) > closeness(closest):
            closest = header
    return closest


def closeness(header: Header) -> tuple[bool, int]:
    """Orders headers: a complete one first, then by how many wanted columns are there."""
    return header.complete, len(header.positions)


def accept(header: Header, layout: Layout, where: Where, columns_max: int, looked_at: Sequence[str] = ()) -> None:
    """Raises FileRefused unless the header is complete, every wanted column stands in it once, and it is not too wide. `where`
    is the file and sheet, `looked_at` the sheets that were searched.
    """
    if not header.complete:
        missing = ", ".join(column.labels[0] for column in header.missing or layout.columns)
        found = ", ".join(label for label in header.labels if label.strip())[:500]
        hint = f"the row holds: {found}" if found else "it holds no text"
        if len(looked_at) > 1:
            hint = f"looked at the sheets {', '.join(looked_at)}; {hint}"
        values = {"row": header.row, "missing": missing}
        raise FileRefused(Problem("R204", replace(where, row=header.row), found, values, hint))
    if len(header.labels) > columns_max:
        reason = f"its header has {len(header.labels):,} columns; at most {columns_max:,} are read (columns_max)"
        raise FileRefused(Problem("R201", where, "", {"reason": reason}, "remove the columns that are not needed"))
    for name, positions in header.positions.items():
        if len(positions) > 1:
            labels = ", ".join(f'"{header.labels[position]}" (column {position + 1})' for position in positions)
            there = place(where.file, where.sheet, header.labels, header.row, positions[1])
            hint = "leave one of them, or give one another label"
            raise FileRefused(Problem("R211", there, name, {"columns": labels}, hint))


def _columns_by_label(layout: Layout) -> dict[str, list[str]]:
    """Folded label -> the columns that may stand under it. An alias that is the first label of another column is that column's."""
    first = {fold(column.labels[0]): column.name for column in layout.columns}
    by_label: dict[str, list[str]] = {}
    for column in layout.columns:
        own = fold(column.labels[0])
        for label in {fold(label) for label in column.labels}:
            if label and (label == own or label not in first):
                by_label.setdefault(label, []).append(column.name)
    return by_label


def _match(number: int, cells: Sequence[str], layout: Layout, by_label: dict[str, list[str]]) -> Header:
    labels = list(cells)
    while labels and not labels[-1].strip():
        labels.pop()
    positions: dict[str, tuple[int, ...]] = {}
    for position, label in enumerate(labels):
        for name in by_label.get(fold(label), ()):
            positions[name] = (*positions.get(name, ()), position)
    missing = tuple(column for column in layout.columns if column.required and column.name not in positions)
    return Header(number, tuple(labels), positions, missing)
