"""What goes between loadsheet and the processes that read: frames on a socket, with tables, rows and problems in MessagePack.

Both sides use it. Nothing is ever unpickled; a frame is bounded, and its content has to be of the types that are named here, or
`ValueError` is raised. What a reader says of a file is data about that file and can do no more than be wrong about it.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, get_args

import msgspec

from loadsheet.problems import CATALOGUE, Problem
from loadsheet.reading.tables import Native, NativeKind, PlainNumber, Row, Table

FRAME_BYTES_MAX = 1 << 26
"""A frame may be so large at most; it holds one row at least."""

FRAME_BYTES = 1 << 18  # a frame of rows is sent when it is so large: 500 rows of 40 short cells

OPEN, ROWS, FATE, HATCH = b"o", b"r", b"f", b"h"  # what is asked
TABLES, PLAIN, TYPED, END, REFUSED, FAILED, DONE = b"T", b"P", b"N", b"E", b"R", b"X", b"D"  # what is answered

DISK = "disk"
"""What a reader says that it failed by, if its disk did."""

_HEAD = struct.Struct(">cI")
_LIST_HEAD = struct.Struct(">BI")
_LIST_OF_MANY = 0xDD  # MessagePack's array 32
_PAIR = b"\x92"  # and an array of two
_MEMORY_MAX = 20_000
_KINDS = frozenset(get_args(NativeKind))

Write = Callable[[bytes], object]


class Told(NamedTuple):
    """A table without its rows: what a reader tells when it has opened a file."""

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    found: dict[str, str]


class _TypedRow(NamedTuple):
    """A row with `Native` cells, each by its place, from 1, in the list that goes before the rows of a frame."""

    number: int
    cells: tuple[str | int, ...]
    problem: Problem | None = None
    ignored: str = ""


class Fate(NamedTuple):
    """How a process ended: the signal that killed it (0: none), its exit code, its highest memory and the CPU time it took."""

    signal: int
    code: int
    peak_mb: int
    cpu_s: float


_encode_any = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode_problem = msgspec.msgpack.Decoder(Problem).decode
_decode_tables = msgspec.msgpack.Decoder(list[Told]).decode
_decode_failure = msgspec.msgpack.Decoder(tuple[str, str]).decode
_decode_fate = msgspec.msgpack.Decoder(Fate).decode
_decode_plain = msgspec.msgpack.Decoder(list[Row]).decode
_decode_typed = msgspec.msgpack.Decoder(tuple[list[tuple[str, ...]], list[_TypedRow]]).decode


def head_of(kind: bytes, body: bytes | bytearray) -> bytes:
    """The head of a frame: what it is, and how long its body is."""
    return _HEAD.pack(kind, len(body))


HEAD_LENGTH = _HEAD.size


def read_head(head: bytes) -> tuple[bytes, int]:
    """What a frame is, and how long its body is. Raises ValueError if that is too long."""
    kind, length = _HEAD.unpack(head)
    if length > FRAME_BYTES_MAX:
        raise ValueError("a frame is too long")
    return kind, length


def read_frame(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The next frame. Raises EOFError if the stream ends before or in it, and ValueError if it is too long."""
    head = stream.read(HEAD_LENGTH)
    if len(head) < HEAD_LENGTH:
        raise EOFError
    kind, length = read_head(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return kind, body


def write_frame(write: Write, kind: bytes, content: object = None) -> None:
    """Write one frame; what MessagePack has no form for goes as text."""
    body = _encode_any(content)
    write(head_of(kind, body) + body)


def write_rows(write: Write, rows: Iterable[Row]) -> None:
    """Write rows in frames of about FRAME_BYTES, each as soon as it is full. Raises OverflowError for a row too large for one."""
    append = msgspec.msgpack.Encoder(enc_hook=str).encode_into
    start = _LIST_HEAD.size
    buffer, count, natives = bytearray(start), 0, _Natives()

    def send() -> None:
        _LIST_HEAD.pack_into(buffer, 0, _LIST_OF_MANY, count)
        parts = natives.parts()
        write(head_of(TYPED, parts + buffer) + parts + buffer if parts else head_of(PLAIN, buffer) + buffer)

    for row in rows:
        number, cells, problem, ignored = row
        append((number, natives.instead_of(cells), problem, ignored), buffer, -1)
        count += 1
        if len(buffer) > FRAME_BYTES:
            if len(buffer) > FRAME_BYTES_MAX:
                raise OverflowError(f"row {row.number} is larger than {FRAME_BYTES_MAX >> 20} MB")
            send()
            del buffer[start:]
            count, natives = 0, _Natives()
    if count:
        send()


class _Natives:
    """The `Native` cells of a frame, each once, as text, kind and, where it is another text, what is shown."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # places of plain numbers, which are what their text is
        self._others: dict[tuple[str, str, str], int] = {}
        self._told: list[tuple[str, ...]] = []

    def instead_of(self, cells: Sequence[str]) -> list[str | int]:
        """The cells of a row, with places instead of natives."""
        numbers, others = self._numbers.get, self._others.get
        return [
            cell
            if cell.__class__ is str
            else (numbers(cell) if cell.__class__ is PlainNumber else others((cell, cell.kind, cell.shown)))  # type: ignore[attr-defined]  # it is native
            or self._placed(cell)
            for cell in cells
        ]

    def parts(self) -> bytes:
        """The list as it goes before the rows; nothing if there is none."""
        return _PAIR + _encode_any(self._told) if self._told else b""

    def _placed(self, cell: str) -> int:
        text, kind, shown = str(cell), cell.kind, cell.shown  # type: ignore[attr-defined]  # as above
        self._told.append((text, kind) if shown == text else (text, kind, shown))
        place = len(self._told)
        if cell.__class__ is PlainNumber:
            self._numbers[text] = place
        else:
            self._others[text, kind, shown] = place
        return place


def tell(table: Table) -> Told:
    """A table without its rows."""
    return Told(table.name, table.file, table.sheet, table.header, table.header_row, table.columns, table.found)


def read_tables(body: bytes) -> list[Told]:
    """The tables of a frame. Raises ValueError for columns that stand outside the header."""
    tables: list[Told] = _decoded(_decode_tables, body)
    if any(not 0 <= place < len(table.header) for table in tables for place in table.columns.values()):
        raise ValueError("a column stands outside its header")
    return tables


def read_problem(body: bytes) -> Problem:
    """The problem of a frame. Raises ValueError if the catalogue has no such problem, or its values do not fit."""
    return _sound(_decoded(_decode_problem, body))


def read_failure(body: bytes) -> tuple[str, str]:
    """The name and the text of an exception that ended a reader."""
    failure: tuple[str, str] = _decoded(_decode_failure, body)
    return failure


def read_fate(body: bytes) -> Fate:
    """How a process ended."""
    fate: Fate = _decoded(_decode_fate, body)
    return fate


class RowReader:
    """Makes rows of frames. Remembers `Native` cells, as many sheets repeat theirs."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._memory: dict[tuple[str, ...], Native] = {}

    def rows(self, kind: bytes, body: bytes) -> Iterator[Row]:
        """The rows of a frame. Raises ValueError for what is none: a row as wide as the header with a number and texts."""
        width = self._width
        rows: Iterable[Row] = _decoded(_decode_plain, body) if kind == PLAIN else self._typed(body)
        for row in rows:
            if len(row.cells) != width:
                raise ValueError(f"row {row.number} is not as wide as its header")
            if row.problem is not None:
                _sound(row.problem)
            yield row

    def _typed(self, body: bytes) -> Iterator[Row]:
        told, rows = _decoded(_decode_typed, body)
        memory = self._memory
        natives: list[str] = ["", *[memory.get(parts) or self._native(parts) for parts in told]]
        try:
            for number, cells, problem, ignored in rows:
                values = tuple([cell if cell.__class__ is str else natives[cell] for cell in cells])
                yield Row(number, values, problem, ignored)
        except IndexError:
            raise ValueError("a cell that there is not") from None

    def _native(self, parts: tuple[str, ...]) -> Native:
        if len(parts) not in (2, 3) or parts[1] not in _KINDS:
            raise ValueError("a cell of a kind that there is not")
        if len(self._memory) >= _MEMORY_MAX:
            self._memory.clear()
        is_plain = parts[1:] == ("number",)
        cell = PlainNumber(parts[0]) if is_plain else Native(parts[0], parts[1], *parts[2:])  # type: ignore[arg-type]  # just looked up
        self._memory[parts] = cell
        return cell


def _decoded(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is one
        raise ValueError(f"a frame that cannot be understood: {error}") from error


def _sound(problem: Problem) -> Problem:
    try:
        str(problem)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"a problem that the catalogue does not have: {problem.code[:10]}") from error
    if problem.code not in CATALOGUE:
        raise ValueError("a problem that the catalogue does not have")
    return problem
