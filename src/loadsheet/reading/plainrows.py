"""The rows of a sheet as the usual programs write them, read by patterns: those that look alike by one for the whole row, column by
column; any other by one for each cell.

Owns: which rows these are. Whatever the patterns do not account for is the parser's (`scan`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Generic, TypeVar

from loadsheet.reading.alike import Alike, Kind
from loadsheet.reading.scan import NotPlain, resolve
from loadsheet.reading.workbook_values import Cells, Dense

K = TypeVar("K")
T = TypeVar("T")

_MEMORY_MAX = 20_000
_GAPS_MAX = 64  # blank columns between those of a row that is written down without gaps
_ATTRIBUTES = r'(?: [A-Za-z_][\w:.-]*="[^"<>]*")*'
_ROW = re.compile(rf'(?:\s*<row[^<>]*/>)*\s*<row r="([0-9]{{1,9}})"{_ATTRIBUTES} ?>')
_CELL = (
    r'<c r="([A-Z]{1,3})[0-9]{1,9}"(?: s="([0-9]{1,9})")?(?: t="(s|n|str|b|inlineStr)")?'
    rf"(?:/>|>(?:(?:<f{_ATTRIBUTES}>[^<]*</f>|<f{_ATTRIBUTES}/>)?VALUE)?</c>)"
)
_STORED = re.compile(_CELL.replace("VALUE", "<v>([^<]*)</v>"))
_INLINE = re.compile(_CELL.replace("VALUE", r'(?:<v>|<is><t(?: xml:space="preserve")?>)([^<]*)(?:</v>|</t></is>)'))
_UNIT_END = "</row>"


class RowPatterns:
    """Reads pieces of a sheet. `make` makes a cell of its kind, style and stored text, `number` one of its style and text; rows go to `found`, the number of the
    last one to `at_row`.
    """

    def __init__(
        self,
        texts: tuple[str, ...],
        make: Callable[[str, str, str], str],
        number: Callable[[str, str], str],
        *,
        found: list[tuple[int, Cells | Dense]],
        at_row: Callable[[int], None],
        place: Callable[[str], int],
    ) -> None:
        self._texts, self._make, self._found, self._at_row = texts, make, found, at_row
        self._positions: _Known[str, int] = _Known(lambda letters: place(f"{letters}1"))
        self._makers: _Known[Kind, Callable[[str], str]] = _Known(self._maker)
        self._numbers: _Known[str, _Known[str, str]] = _Known(
            lambda style: _Known(lambda text: number(style or "0", _bare(text)) if text else "")
        )
        self._alike = Alike(place)
        self._is_first = True  # a piece alone is read before anything is learned that could pay

    def __call__(self, piece: str) -> None:
        """Read whole rows. Raises NotPlain, ValueError or LookupError if the patterns do not account for all of them."""
        if "<f" in piece and ("<v></v>" in piece or "<v/>" in piece):
            raise NotPlain  # which of them are formulas without a value
        rows: list[tuple[int, Cells | Dense]] = []
        last = "0"
        for unit, alike in _runs(piece, self._alike):
            if alike:
                rows += self._of_columns(alike)
                last = alike[-1][0]
            elif unit is not None:
                last, cells = self._of_cells(unit)
                if cells:
                    rows.append((int(last), cells))
        self._found += rows
        self._at_row(int(last))
        self._is_first = False

    def _of_cells(self, unit: str) -> tuple[str, Cells]:
        """The number and the cells of a row, each cell by itself."""
        head, found = _cells_of(unit)
        if not self._is_first:
            self._alike.learn([cell[:3] for cell in found])
        makers, positions = self._makers, self._positions
        cells = [(positions[letters], makers[Kind(style, kind)](stored)) for letters, style, kind, stored in found]
        return head, [cell for cell in cells if cell[1]]

    def _of_columns(self, alike: list[tuple[str, ...]]) -> Iterator[tuple[int, Cells | Dense]]:
        """The rows that were matched whole: the number and the values of each."""
        numbers, *values = zip(*alike, strict=True)
        columns: dict[int, list[str]] = {}
        for (position, kind), stored in zip(self._alike.cells, values, strict=True):
            made = self._shared(stored) if kind.kind == "s" else list(map(self._makers[kind], stored))
            other = columns.get(position)
            columns[position] = [one or two for one, two in zip(other, made, strict=True)] if other else made
        return _together(map(int, numbers), columns)

    def _maker(self, kind: Kind) -> Callable[[str], str]:
        """What makes a cell of one kind of its stored text."""
        if kind.kind == "s":
            return lambda text: self._shared((text,))[0]
        if kind.kind in ("", "n"):
            return self._numbers[kind.style].__getitem__
        takes = resolve if kind.kind in ("str", "inlineStr") else _bare
        return lambda text: self._make(kind.kind, kind.style, takes(text))

    def _shared(self, stored: Sequence[str]) -> list[str]:
        """Shared texts, by their numbers; empty where there is none."""
        if "-" in "".join(stored):
            raise NotPlain  # no shared text has such a number
        texts = self._texts
        if "" in stored:
            return [texts[int(text)] if text else "" for text in stored]
        return [texts[place] for place in map(int, stored)]


class Proof:
    """Takes pieces of a sheet that are well-formed as far as the patterns tell, and hold no row with one of these attributes. Raises NotPlain
    or ValueError for any other.
    """

    def __init__(self, place: Callable[[str], int], *attributes: str) -> None:
        self._alike, self._attributes = Alike(place, proves=True), attributes
        self._is_first = True

    def __call__(self, piece: str) -> None:
        """Look at whole rows."""
        if self._is_first:
            self._is_first = False
            raise NotPlain
        if any(attribute in piece for attribute in self._attributes):
            raise NotPlain
        at, alike = 0, self._alike
        while at < len(piece):
            found = alike.match(piece, at)
            if found is None:
                alike.learn([cell[:3] for cell in _cells_of(piece[at : piece.index(_UNIT_END, at)])[1]])
                found = alike.match(piece, at)
            if found is None:
                raise NotPlain
            alike.paid(piece.count(_UNIT_END, at, found.end()))
            at = found.end()


def _cells_of(unit: str) -> tuple[str, list[tuple[str, str, str, str]]]:
    """The number of a row, whose end is cut off, and its cells as letters, style, kind and stored text. Raises NotPlain if the patterns do
    not account for all of them.
    """
    head = _ROW.match(unit)
    if head is None:
        raise NotPlain
    found = (_INLINE if "inlineStr" in unit else _STORED).findall(unit, head.end())
    if unit.count("<c", head.end()) != len(found) or unit.find("<row", head.end()) > 0:
        raise NotPlain
    return head[1], found


def _runs(piece: str, alike: Alike) -> Iterator[tuple[str | None, list[tuple[str, ...]]]]:
    """The rows of a piece: many that look alike, as the groups of their matches, or one that is like none so far, without its end."""
    run: list[tuple[str, ...]] = []
    at, match = 0, alike.match
    while at < len(piece):
        if found := match(piece, at):
            run.append(found.groups(""))
            at = found.end()
            continue
        if run:
            alike.paid(len(run))
            yield None, run
            run = []
        end = piece.index(_UNIT_END, at)
        yield piece[at:end], []
        at, match = end + len(_UNIT_END), alike.match
    if run:
        alike.paid(len(run))
        yield None, run


def _together(numbers: Iterator[int], columns: dict[int, list[str]]) -> Iterator[tuple[int, Cells | Dense]]:
    """Rows of columns; those that hold nothing are left out."""
    width = max(columns, default=-1) + 1
    if width - len(columns) <= _GAPS_MAX:
        values = zip(*(columns.get(position) or repeat("") for position in range(width)), strict=False)
        return ((number, Dense(row)) for number, row in zip(numbers, values, strict=False) if any(row))
    pairs = zip(*columns.values(), strict=True)
    rows = (
        (number, [one for one in zip(columns, row, strict=True) if one[1]])
        for number, row in zip(numbers, pairs, strict=True)
    )
    return (row for row in rows if row[1])


class _Known(dict[K, T], Generic[K, T]):
    """What is made of a text or a shape, remembered. Bounded: forgets all at the limit."""

    def __init__(self, make: Callable[[K], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> T:
        if len(self) >= _MEMORY_MAX:
            self.clear()
        made = self[key] = self._make(key)
        return made


def _bare(text: str) -> str:
    if "&" in text:
        raise NotPlain
    return text
