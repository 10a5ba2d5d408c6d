"""The sentinel: what a spreadsheet program did to values before they were sent, pointed out with the suspected cause.

Pure, and it changes nothing: rows pass by, and at the end there are warnings, one for each suspicion and column, with the rows.
Only columns that the mapping wants are looked at. Cells are counted by their shape; the shapes of a column together are judged.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from loadsheet.problems import Problem, Where
from loadsheet.reading.header import fold
from loadsheet.reading.shapes import FRACTION, Key, Shape, alike, repaired
from loadsheet.reading.tables import Native, Row, Table

_BATCH = 4_000
_ROWS_SHOWN = 5
_STYLES_SHOWN = 4
_NO_ROW = "nothing to do if there was nothing to send; otherwise send the file with its rows"
_CODES = re.compile(r"zip|post(al|leitzahl|code)?|plz|cap|cp|ean|gtin|upc|sscc|barcode")


@dataclass(slots=True)
class _Tally:
    """How often a shape occurs, its first rows, and the first example."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    example: str = ""

    def __add__(self, other: "_Tally") -> "_Tally":
        rows = sorted({*self.rows, *other.rows})[:_ROWS_SHOWN]
        first = min((tally for tally in (self, other) if tally.rows), key=lambda tally: tally.rows[0], default=self)
        return _Tally(self.count + other.count, rows, first.example)

    @property
    def told(self) -> str:
        """The rows in words."""
        more = self.count - len(self.rows)
        listed = ", ".join(map(str, self.rows)) + (f" and {more:,} more" if more else "")
        return f"row{'s' if self.count > 1 else ''} {listed}"


_Tallies = dict[Shape, _Tally]


class Sentinel:
    """Looks at the rows of one table while they pass."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._places = tuple(sorted(set(table.columns.values())))
        self._tallies: dict[int, _Tallies] = {}
        self._saw_all = False
        self._is_empty = False

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, unchanged; what they show is known at their end. A table is read more than once: the first pass that reaches its
        end is looked at, and those after it show the same.
        """
        if self._saw_all:
            yield from rows
            return
        self._tallies = {place: {} for place in self._places}
        batch: list[Row] = []
        self._is_empty = True
        for row in rows:
            self._is_empty = False
            if not row.ignored:
                batch.append(row)
            if len(batch) == _BATCH:
                self._look(batch)
                batch = []
            yield row
        self._look(batch)
        self._saw_all = True

    def problems(self) -> tuple[Problem, ...]:
        """What was seen: warnings, by column and suspicion; or that there is no row at all, not even one to be ignored."""
        if self._saw_all and self._is_empty:
            place = Where(self._table.file, self._table.sheet)
            return (Problem("R239", place, hint=_NO_ROW, level="warning"),)
        return tuple(
            problem
            for place, tallies in self._tallies.items()
            for problem in _judge(tallies, partial(self._warning, place), self._table.header[place])
        )

    def _look(self, batch: Sequence[Row]) -> None:
        """Count the shapes of these rows. Runs over every cell, so distinct ones are looked at once in a batch."""
        columns = list(zip(*[row.cells for row in batch], strict=True))
        for place, tallies in self._tallies.items() if batch else ():
            cells: Sequence[Key] = columns[place]
            if self._table.sheet:  # only there cells have types
                cells = [(cell.kind, cell.shown) if isinstance(cell, Native) else cell for cell in columns[place]]
            names, groups = alike(cells)
            fresh: dict[object, list[_Tally]] = {}  # cells of shapes that have not enough rows yet
            for name, times, example, shapes in groups:
                for shape in shapes:
                    tally = tallies.get(shape)
                    if tally is None:
                        tally = tallies[shape] = _Tally(example=example)
                    tally.count += times
                    if len(tally.rows) < _ROWS_SHOWN:
                        fresh.setdefault(name, []).append(tally)
            if fresh:
                _note_rows(batch, names, fresh)

    def _warning(self, place: int, code: str, tally: _Tally, hint: str, **values: str) -> Problem:
        where = self._table.where(tally.rows[0], place)
        told = {"count": f"{tally.count:,}", "rows": tally.told, **values}
        return Problem(code, where, tally.example[:100], told, hint, "warning")


def examine(table: Table) -> tuple[Problem, ...]:
    """The warnings about a table, by a pass over its rows. Raises FileRefused as `Table.rows` does."""
    sentinel = Sentinel(table)
    for _ in sentinel.watch(table.rows()):
        pass
    return sentinel.problems()


def _note_rows(batch: Sequence[Row], names: Sequence[object], fresh: dict[object, list[_Tally]]) -> None:
    wanted = len({id(tally) for tallies in fresh.values() for tally in tallies})
    for row, name in zip(batch, names, strict=True):
        for tally in fresh.get(name, ()):
            if len(tally.rows) < _ROWS_SHOWN:
                tally.rows.append(row.number)
                wanted -= len(tally.rows) == _ROWS_SHOWN
        if not wanted:
            return


def _judge(tallies: _Tallies, warning: "partial[Problem]", label: str) -> Iterator[Problem]:
    """The suspicions that the shapes of one column raise."""
    for kind, code, hint in _ALWAYS:
        if found := _of(tallies, kind):
            before = repaired(found.example)
            said = (
                f"; {found.example!r} may have been {before!r}" if kind == "garbled" and before != found.example else ""
            )
            yield warning(code, found, hint + said)
    if lost := _zeros_lost(tallies, label):
        yield warning("R223", lost[1], _ZEROS, width=str(lost[0]))
    texts, numbers = _of(tallies, "text", "digits", "zeros", "decimal"), _of(tallies, "number")
    turned = _of(tallies, "shortened") or _of(tallies, "real date")
    dates = _of(tallies, "date")
    others = sum(tally.count for tally in (texts, numbers) if tally)
    if turned and not dates and 2 * turned.count <= others:
        yield warning("R224", turned, _DATES)
    elif styles := _mixed_styles(tallies):
        first = _of(tallies, "date") or _Tally()
        yield warning("R225", first, _STYLES, styles=styles)
    numeric_texts = _of(tallies, "digits", "decimal")
    if numbers and numeric_texts and not lost and not _of(tallies, "zeros", "text"):
        yield warning("R227", numeric_texts, _AS_TEXT, numbers=f"{numbers.count:,}")


def _of(tallies: _Tallies, *kinds: str) -> _Tally | None:
    """All shapes of these kinds together; None if there are none."""
    found = [tally for shape, tally in tallies.items() if shape.kind in kinds]
    return sum(found, start=_Tally()) if found else None


def _zeros_lost(tallies: _Tallies, label: str) -> tuple[int, _Tally] | None:
    """Numbers that are shorter than those with leading zeros beside them; in a column of postcodes or article codes also those
    that are one digit shorter than most. Returns the usual width, and what is shorter.
    """
    if _of(tallies, "decimal") or any(shape == FRACTION for shape in tallies):
        return None
    widths = _widths(tallies, "zeros")
    if widths:
        width, least = max(widths, key=widths.__getitem__), 1
    elif any(_CODES.fullmatch(word) for word in fold(label).split()) and (
        widths := _widths(tallies, "digits", "number")
    ):
        width = max(widths, key=widths.__getitem__)
        least = width - 1 if 2 * widths[width] > widths.total() else width
    else:
        return None
    whole = [(shape, tally) for shape, tally in tallies.items() if shape.kind in ("digits", "number")]
    short = [tally for shape, tally in whole if least <= int(shape.detail) < width]
    return (width, sum(short, start=_Tally())) if short else None


def _widths(tallies: _Tallies, *kinds: str) -> Counter[int]:
    """How many values of these kinds have how many digits."""
    widths = Counter[int]()
    for shape, tally in tallies.items():
        if shape.kind in kinds:
            widths[int(shape.detail)] += tally.count
    return widths


def _mixed_styles(tallies: _Tallies) -> str:
    """The styles that the dates of a column are written in, if there are several; empty if not, or if most values are no dates."""
    found = {shape.detail: tally for shape, tally in tallies.items() if shape.kind == "date"}
    if real := _of(tallies, "real date"):
        found["real dates"] = real
    for unclear in [style for style in found if style.startswith("?")]:
        clear = [
            style for style in found if style[1:2] == unclear[1:2] and style[0] in "DM" and len(style) == len(unclear)
        ]
        if clear:  # it goes with those that can be read in one way only
            found[clear[0]] += found.pop(unclear)
    others = _of(tallies, "text", "digits", "number")
    dates = sum(tally.count for tally in found.values())
    if len(found) < 2 or not _of(tallies, "date") or (others and others.count > dates):  # noqa: PLR2004 (two styles)
        return ""
    ordered = sorted(found.items(), key=lambda item: -item[1].count)
    listed = [f"{style.replace('?', 'N')} ({tally.count:,}, {tally.told})" for style, tally in ordered[:_STYLES_SHOWN]]
    return "; ".join(listed)


_AS = "format the column as Text before values are typed or imported, and fill it again from its source"
_ZEROS = (
    "unless they are meant to be short (postcodes of another country, say): Excel drops leading zeros of what it takes for "
    f"numbers; {_AS}, or let the mapping pad the values"
)
_DATES = f"Excel turns texts such as 3-5 or MAR1 into dates; {_AS}"
_STYLES = (
    "write all dates of a column in one style, best as 2026-03-01; day and month may have changed places in some rows"
)
_AS_TEXT = "they may have been pasted from elsewhere; let Excel convert them to numbers (the green corner), or check their decimal mark"
_ALWAYS = (
    ("exponent", "R221", f"Excel writes long numbers in this way, and their last digits are gone; {_AS}"),
    (
        "rounded",
        "R222",
        f"Excel keeps 15 digits of a number and makes zeros of the others, and other programs lose them too; {_AS}",
    ),
    ("garbled", "R226", "the text was read in a wrong encoding before it was sent; export it again as UTF-8"),
    (
        "invisible",
        "R228",
        "they come with text pasted from web pages; values that look alike are different because of them",
    ),
)
