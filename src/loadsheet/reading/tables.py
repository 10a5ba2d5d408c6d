"""The values of reading: cells, rows and tables; the checks that a row has the right length and sound cells; and rows as messages.

A cell is text. A number, date or flag of a workbook is text here too (`Native`), in one canonical form, with its kind. So a
converter need not guess: a text cell "1.234" is read by the mapping's locale, a number cell 1.234 is exact already.

A reader's process sends rows in MessagePack (`pack_rows`, `RowDecoder`). The decoder accepts only the types that are named here and
raises ValueError for anything else, so a hostile reader can do no more than report wrong data about its own file.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeVar, get_args, runtime_checkable

import msgspec

from loadsheet.problems import CATALOGUE, Problem, Where, column_letters

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

    A table of a fix file is given as the table that it was made from (see `fix_file_tables`): then `at` says where in the file its
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

    def with_rows(self, rows: Callable[[], Iterator[Row]]) -> Self:
        """The table with another source of the same rows, such as one that counts them. Partial rows bypass it."""
        return replace(self, rows=_ObservedRows(rows, self.rows) if isinstance(self.rows, PartialRows) else rows)

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
class _ObservedRows:
    """Rows with an observer on full passes; partial rows come from the original source."""

    rows: Callable[[], Iterator[Row]]
    partial_source: PartialRows

    def __call__(self) -> Iterator[Row]:
        return self.rows()

    def partial_rows(self, positions: frozenset[int]) -> Iterator[Row]:
        return self.partial_source.partial_rows(positions)


class Top(NamedTuple):
    """The first rows of a sheet, or of a text file (then `sheet` is empty), as number and cells; blank rows are left out.
    `encoding` and `delimiter` are those under which a text file makes most sense.
    """

    sheet: str
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    encoding: str = ""
    delimiter: str = ""


def blank_others(rows: Iterable[Row], positions: frozenset[int], width: int) -> Iterator[Row]:
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


CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Control characters; tab and line breaks are text."""

OF_ONE_CELL = frozenset({"R209", "R212"})
"""Problems of one cell of a row; the other cells can be read all the same."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the rows of a table are held against: its file, sheet and header, and the longest cell that is read."""

    file: str
    sheet: str
    header: tuple[str, ...]
    cell_length_max: int

    def where(self, row: int, column: int | None = None) -> Where:
        """The place of a row or a cell."""
        return place(self.file, self.sheet, self.header, row, column)

    def fit_width(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The cells, cut or filled with blanks to as many as the header has."""
        width = len(self.header)
        return (*cells[:width], *("",) * (width - len(cells)))

    def ragged(self, number: int, cells: Sequence[str]) -> Row:
        """A row with too few or too many cells. In a text nobody knows which value is in the wrong column, so all of them take part."""
        width = len(self.header)
        beyond = [place for place in range(width, len(cells)) if cells[place].strip()]
        surplus = ", ".join(cells[place] for place in beyond)[:100]
        if len(cells) < width:
            hint = "a cell is missing, so it is not clear which column each value belongs to"
        elif self.sheet:
            hint = "a value stands beyond the last column of the header; delete it, or give its column a label"
        else:
            hint = (
                "a value stands beyond the last column of the header; a delimiter inside a value needs quotes around it"
            )
        where = self.where(number, beyond[0] if self.sheet and beyond else None)
        values = {"cells": len(cells), "columns": width}
        also = () if self.sheet else self.every_cell(number)
        return Row(number, self.fit_width(cells), Problem("R205", where, surplus, values, hint, also=also))

    def every_cell(self, number: int) -> tuple[Where, ...]:
        """The places of all cells of a row."""
        return tuple(self.where(number, column) for column in range(len(self.header)))

    def find_damage(self, number: int, cells: Sequence[str]) -> Problem | None:
        """What is wrong inside the cells: the first control character, else the first cell that is too long."""
        damaged = [column for column, cell in enumerate(cells) if CONTROL.search(cell)]
        long = [column for column, cell in enumerate(cells) if len(cell) > self.cell_length_max]
        if not damaged and not long:
            return None
        first, *others = [self.where(number, column) for column in damaged or long]
        cell, also = cells[(damaged or long)[0]], tuple(others)
        if found := CONTROL.search(cell):
            shown = CONTROL.sub("\N{REPLACEMENT CHARACTER}", cell)[:100]
            hint = "the file may be damaged; remove the character and send it again"
            return Problem("R209", first, shown, {"character": ord(found[0])}, hint, also=also)
        values = {"length": len(cell), "limit": self.cell_length_max}
        return Problem("R212", first, cell[:100], values, "shorten it", also=also)


def with_line_feeds(cells: Sequence[str]) -> list[str]:
    """The cells with every line end within them as one line feed: whether it is CR LF, CR or LF is up to who saved the file."""
    return [cell.replace("\r\n", "\n").replace("\r", "\n") if "\r" in cell else cell for cell in cells]


def is_blank(cells: Sequence[str]) -> bool:
    """Whether there is nothing but white space in the cells."""
    return not any(cells) or not "".join(cells).strip()


# ---- rows as messages ----

PLAIN, TYPED = b"P", b"N"
"""Kinds of messages with rows: all cells are texts, or some are `Native`."""

MESSAGE_BYTES_MAX = 1 << 26
"""The largest message. It holds at least one row."""

MESSAGE_BYTES = 1 << 18
"""The size at which rows are sent: 500 rows of 40 short cells."""

_LIST_HEAD = struct.Struct(">BI")
_LIST_OF_MANY = 0xDD  # MessagePack's array 32
_PAIR = b"\x92"  # and an array of two
_CACHE_MAX = 20_000
_KINDS = frozenset(get_args(NativeKind))
_Value = TypeVar("_Value")


class TableDescription(NamedTuple):
    """A table without its rows."""

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    found: dict[str, str]

    def check(self) -> None:
        """Raises ValueError for a column outside the header."""
        if any(not 0 <= position < len(self.header) for position in self.columns.values()):
            raise ValueError("a column stands outside its header")


class _TypedRow(NamedTuple):
    """A row with `Native` cells. An int stands for one: its place, from 1, in the list before the rows of the message."""

    number: int
    cells: tuple[str | int, ...]
    problem: Problem | None = None
    ignored: str = ""


_encode = msgspec.msgpack.Encoder(enc_hook=str).encode  # values that MessagePack has no form for become texts
_decode_plain = msgspec.msgpack.Decoder(list[Row]).decode
_decode_typed = msgspec.msgpack.Decoder(tuple[list[tuple[str, ...]], list[_TypedRow]]).decode


def pack_rows(rows: Iterable[Row]) -> Iterator[bytes | bytearray]:
    """Messages of about MESSAGE_BYTES, each as soon as it is full: its kind in one byte, then its rows. A message may be overwritten
    once the next one is asked for. Raises OverflowError for a row larger than a message.
    """
    append = msgspec.msgpack.Encoder(enc_hook=str).encode_into
    start = len(PLAIN) + _LIST_HEAD.size
    buffer, count, natives = bytearray(PLAIN) + bytes(_LIST_HEAD.size), 0, _NativeCells()

    def message() -> bytes | bytearray:
        _LIST_HEAD.pack_into(buffer, len(PLAIN), _LIST_OF_MANY, count)
        cells = natives.encode()
        return b"".join((TYPED, _PAIR, cells, memoryview(buffer)[len(PLAIN) :])) if cells else buffer

    for row in rows:
        number, cells, problem, ignored = row
        append((number, natives.with_references(cells), problem, ignored), buffer, -1)
        count += 1
        if len(buffer) > MESSAGE_BYTES:
            if len(buffer) > MESSAGE_BYTES_MAX:
                raise OverflowError(f"row {row.number} is larger than {MESSAGE_BYTES_MAX >> 20} MB")
            yield message()
            del buffer[start:]
            count, natives = 0, _NativeCells()
    if count:
        yield message()


class _NativeCells:
    """The distinct `Native` cells of a message, each as text, kind and, if it differs from the text, what is shown."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # places of plain numbers, by their text
        self._others: dict[tuple[str, str, str], int] = {}
        self._cells: list[tuple[str, ...]] = []

    def with_references(self, cells: Sequence[str]) -> list[str | int]:
        """The cells of a row, with a place for each `Native`."""
        numbers, others = self._numbers.get, self._others.get
        return [
            cell
            if cell.__class__ is str
            else (numbers(cell) if cell.__class__ is PlainNumber else others((cell, cell.kind, cell.shown)))  # type: ignore[attr-defined]  # it is native
            or self._add(cell)
            for cell in cells
        ]

    def encode(self) -> bytes:
        """The list that goes before the rows; empty if there are no such cells."""
        return _encode(self._cells) if self._cells else b""

    def _add(self, cell: str) -> int:
        text, kind, shown = str(cell), cell.kind, cell.shown  # type: ignore[attr-defined]  # as above
        self._cells.append((text, kind) if shown == text else (text, kind, shown))
        place = len(self._cells)
        if cell.__class__ is PlainNumber:
            self._numbers[text] = place
        else:
            self._others[text, kind, shown] = place
        return place


class RowDecoder:
    """Makes rows of messages. Caches `Native` cells, because many sheets repeat them."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._cache: dict[tuple[str, ...], Native] = {}

    def rows(self, kind: bytes, body: bytes | memoryview) -> Iterator[Row]:
        """The rows of a message, as `pack_rows` makes them. Raises ValueError unless each has a number and texts, as many as the header."""
        width = self._width
        rows: Iterable[Row] = _decoded(_decode_plain, body) if kind == PLAIN else self._typed(body)
        for row in rows:
            if len(row.cells) != width:
                raise ValueError(f"row {row.number} is not as wide as its header")
            if row.problem is not None:
                check_problem(row.problem)
            yield row

    def _typed(self, body: bytes | memoryview) -> Iterator[Row]:
        encoded, rows = _decoded(_decode_typed, body)
        cache = self._cache
        natives: list[str] = ["", *[cache.get(parts) or self._native(parts) for parts in encoded]]
        try:
            for number, cells, problem, ignored in rows:
                values = tuple([cell if cell.__class__ is str else natives[cell] for cell in cells])
                yield Row(number, values, problem, ignored)
        except IndexError:
            raise ValueError("a cell that is not in the list") from None

    def _native(self, parts: tuple[str, ...]) -> Native:
        if len(parts) not in (2, 3) or parts[1] not in _KINDS:
            raise ValueError("a cell of an unknown kind")
        if len(self._cache) >= _CACHE_MAX:
            self._cache.clear()
        is_plain = parts[1:] == ("number",)
        cell = PlainNumber(parts[0]) if is_plain else Native(parts[0], parts[1], *parts[2:])  # type: ignore[arg-type]  # just looked up
        self._cache[parts] = cell
        return cell


def decode(body: bytes | memoryview, kind: type[_Value]) -> _Value:
    """The value of a message. Raises ValueError unless it is of this type."""
    value: _Value = _decoded(msgspec.msgpack.Decoder(kind).decode, body)
    return value


def check_problem(problem: Problem) -> Problem:
    """The problem of a message. Raises ValueError if the catalogue does not have it, or its values do not fit."""
    try:
        str(problem)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"a problem that the catalogue does not have: {problem.code[:10]}") from error
    if problem.code not in CATALOGUE:
        raise ValueError("a problem that the catalogue does not have")
    return problem


def _decoded(decoder: Callable[[bytes | memoryview], Any], body: bytes | memoryview) -> Any:
    try:
        return decoder(body)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is one
        raise ValueError(f"a message that cannot be understood: {error}") from error
