"""The values of reading: cells, rows and tables.

A cell is text. What a workbook holds as a number, date or flag is still text here (`Native`), in one canonical form, with
its kind beside it, so that a converter need not guess: a text cell "1.234" is read by the mapping's locale, a number cell
1.234 is exact already.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, runtime_checkable

from loadsheet.problems import Problem, Where, column_letters

NativeKind = Literal["number", "datetime", "date", "time", "flag", "error", "formula"]

_VALUELESS = frozenset({"error", "formula"})


class Native(str):
    """A typed workbook cell as canonical text: number `12.5` (no exponent, no trailing `.0`), datetime `2026-03-01 08:00:00`,
    date `2026-03-01`, time `08:00:00`, flag `true`/`false`, error `#N/A`; `formula` is a formula without a saved value (its text is `=`).

    `shown` is the cell as its sender sees it where the number format says more than the value: `01067` for 1067 in `00000`,
    `27 lb` for 27 in `0.0" lb"`, `1.5 t` for 1500 in `0.0," t"`.
    """

    __slots__ = ("kind", "shown")
    kind: NativeKind
    shown: str

    def __new__(cls, text: str, kind: NativeKind, shown: str | None = None) -> Self:
        """A cell of this kind; `shown` is `text` unless given."""
        cell = super().__new__(cls, text)
        cell.kind = kind
        cell.shown = text if shown is None else shown
        return cell


class PlainNumber(Native):
    """A number that is shown as it is stored. Sheets hold millions of these, so it is made by str alone."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __new__(cls, text: str) -> Self: ...  # noqa: D102 (the next line is what it is)
    else:
        __new__ = str.__new__
    kind: NativeKind = "number"

    @property
    def shown(self) -> str:  # type: ignore[override]  # nobody sets it
        """The number itself."""
        return str(self)


class Row(NamedTuple):
    """One row: its number from 1 as the sender's program counts lines or rows, its cells (exactly as many as the table has
    columns), the problem that makes it unusable, if any (then `cells` hold what could be read), and the rule by which it is no
    row of the table but a unit, a total or a note, in words (then it is ignored, and has no problem).
    """

    number: int
    cells: tuple[str, ...]
    problem: Problem | None = None
    ignored: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The cells as plain texts, as their sender sees them: what is kept of a row and given back to its sender."""
        return tuple([cell.shown if isinstance(cell, Native) else cell for cell in self.cells])

    @property
    def natives(self) -> tuple[tuple[int, NativeKind, str], ...]:
        """The cells that hold a value and not a text, as position from 0, kind and canonical text; neither errors nor formulas."""
        return tuple(
            [
                (position, cell.kind, str(cell))
                for position, cell in enumerate(self.cells)
                if isinstance(cell, Native) and cell.kind not in _VALUELESS
            ]
        )


@dataclass(frozen=True, slots=True)
class Table:
    """The rows under one header. `rows()` reads them anew each time, streaming; blank rows are left out of it.

    `name` is the table's name in the mapping; `file` the name it was dropped under; `sheet` is empty for text files;
    `columns` maps the mapping's column names to positions in `header`; `found` says how the file was read, for the reports:
    encoding, delimiter, header row, rows skipped above it, hidden sheets.

    A table of a fix file is given as the table that it was made from (see `returned`): then `at` says where in the file its
    columns stand (-1: nowhere), and `first_name` is the name that the original was dropped under.
    """

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    rows: Callable[[], Iterator[Row]]
    found: dict[str, str]
    at: tuple[int, ...] = ()
    first_name: str = ""

    def partial_rows(self, positions: frozenset[int]) -> Iterator[Row]:
        """The rows, read anew; of their cells only those at these positions need be there. Faster than `rows` where that can be."""
        return self.rows.partial_rows(positions) if isinstance(self.rows, PartialRows) else self.rows()

    def watched(self, rows: Callable[[], Iterator[Row]]) -> Self:
        """The table with rows that are looked at on their way: `rows()` has to give the same. Who glances is not seen."""
        return replace(self, rows=_Watched(rows, self.rows) if isinstance(self.rows, PartialRows) else rows)

    def where(self, row: int, column: int | None = None, path: str = "") -> Where:
        """The place of a row or, with a column position, of a cell."""
        found = place(self.file, self.sheet, self.header, row, column)
        if self.at and column is not None and self.sheet:
            stands = self.at[column]
            found = replace(found, cell=f"{column_letters(stands)}{row}" if stands >= 0 else "")
        return replace(found, path=path) if path else found


@runtime_checkable
class PartialRows(Protocol):
    """`Table.rows` that can also give a few cells of each row alone; the others are blank."""

    def __call__(self) -> Iterator[Row]: ...  # noqa: D102 (as of any rows)

    def partial_rows(self, positions: frozenset[int]) -> Iterator[Row]: ...  # noqa: D102 (as said above)


@dataclass(frozen=True, slots=True)
class _Watched:
    """Rows that somebody looks at on their way."""

    rows: Callable[[], Iterator[Row]]
    unseen: PartialRows

    def __call__(self) -> Iterator[Row]:
        return self.rows()

    def partial_rows(self, positions: frozenset[int]) -> Iterator[Row]:
        return self.unseen.partial_rows(positions)


class Top(NamedTuple):
    """The first rows of a sheet, or of a text file (then `sheet` is empty), as number and cells; blank rows are left out.
    `encoding` and `delimiter` are those under which a text file makes most sense.
    """

    sheet: str
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    encoding: str = ""
    delimiter: str = ""


def partial(rows: Iterable[Row], positions: frozenset[int], width: int) -> Iterator[Row]:
    """The rows with only the cells at these positions; the others are blank."""
    kept, blank = sorted(positions), [""] * width
    for number, cells, problem, ignored in rows:
        few = blank.copy()
        for position in kept:
            few[position] = cells[position]
        yield Row(number, tuple(few), problem, ignored)


def place(file: str, sheet: str, header: tuple[str, ...], row: int, column: int | None = None) -> Where:
    """The place of a row or, with a column position, of a cell under this header."""
    if column is None:
        return Where(file, sheet, row)
    label = header[column] if column < len(header) else ""
    address = f"{column_letters(column)}{row}" if sheet else ""
    return Where(file, sheet, row, label, address)
