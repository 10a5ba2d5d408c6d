"""The messages between loadsheet and its reading processes: frames on a socket, with tables, rows and problems in MessagePack.

Both sides use this module. Nothing is unpickled, the length of a frame is bounded, and content of other types than those named here
raises ValueError. So a hostile reader can do no more than report wrong data about its own file.

Also here: failures of a disk while a file is read. They are not the file's fault, so they refuse nothing: the file is read once
more, then the run halts.
"""

import errno
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, get_args

import msgspec

from loadsheet.problems import CATALOGUE, FolderError, Problem
from loadsheet.reading.tables import Native, NativeKind, PlainNumber, Row, Table

FRAME_BYTES_MAX = 1 << 26
"""The largest frame. It holds at least one row."""

FRAME_BYTES = 1 << 18  # rows are sent once a frame has this size: 500 rows of 40 short cells

OPEN, ROWS, EXIT, FORK = b"o", b"r", b"f", b"h"  # requests
TABLES, PLAIN, TYPED, END, REFUSED, FAILED, DONE = b"T", b"P", b"N", b"E", b"R", b"X", b"D"  # replies

DISK = "disk"
"""The name of the failure if the reader's disk failed."""

_HEAD = struct.Struct(">cI")
_LIST_HEAD = struct.Struct(">BI")
_LIST_OF_MANY = 0xDD  # MessagePack's array 32
_PAIR = b"\x92"  # and an array of two
_CACHE_MAX = 20_000
_KINDS = frozenset(get_args(NativeKind))

Write = Callable[[bytes], object]


class TableDescription(NamedTuple):
    """A table without its rows: the reply of a reader that opened a file."""

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    found: dict[str, str]


class _TypedRow(NamedTuple):
    """A row with `Native` cells. An int stands for one: its place, from 1, in the list before the rows of the frame."""

    number: int
    cells: tuple[str | int, ...]
    problem: Problem | None = None
    ignored: str = ""


class ExitStatus(NamedTuple):
    """How a process ended: the signal that killed it (0: none), its exit code, its peak memory and its CPU time."""

    signal: int
    code: int
    peak_mb: int
    cpu_s: float


_encode_any = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode_problem = msgspec.msgpack.Decoder(Problem).decode
_decode_tables = msgspec.msgpack.Decoder(list[TableDescription]).decode
_decode_failure = msgspec.msgpack.Decoder(tuple[str, str]).decode
_decode_exit_status = msgspec.msgpack.Decoder(ExitStatus).decode
_decode_plain = msgspec.msgpack.Decoder(list[Row]).decode
_decode_typed = msgspec.msgpack.Decoder(tuple[list[tuple[str, ...]], list[_TypedRow]]).decode


def pack_head(kind: bytes, body: bytes | bytearray) -> bytes:
    """The head of a frame: its kind and the length of its body."""
    return _HEAD.pack(kind, len(body))


HEAD_LENGTH = _HEAD.size


def read_head(head: bytes) -> tuple[bytes, int]:
    """The kind of a frame and the length of its body. Raises ValueError if that is too long."""
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
    """Write one frame. Values that MessagePack has no form for are written as text."""
    body = _encode_any(content)
    write(pack_head(kind, body) + body)


def write_rows(write: Write, rows: Iterable[Row]) -> None:
    """Write rows in frames of about FRAME_BYTES, each as soon as it is full. Raises OverflowError for a row larger than a frame."""
    append = msgspec.msgpack.Encoder(enc_hook=str).encode_into
    start = _LIST_HEAD.size
    buffer, count, natives = bytearray(start), 0, _NativeCells()

    def send() -> None:
        _LIST_HEAD.pack_into(buffer, 0, _LIST_OF_MANY, count)
        cells = natives.encode()
        write(pack_head(TYPED, cells + buffer) + cells + buffer if cells else pack_head(PLAIN, buffer) + buffer)

    for row in rows:
        number, cells, problem, ignored = row
        append((number, natives.with_references(cells), problem, ignored), buffer, -1)
        count += 1
        if len(buffer) > FRAME_BYTES:
            if len(buffer) > FRAME_BYTES_MAX:
                raise OverflowError(f"row {row.number} is larger than {FRAME_BYTES_MAX >> 20} MB")
            send()
            del buffer[start:]
            count, natives = 0, _NativeCells()
    if count:
        send()


class _NativeCells:
    """The distinct `Native` cells of a frame, each as text, kind and, if it differs from the text, what is shown."""

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
        return _PAIR + _encode_any(self._cells) if self._cells else b""

    def _add(self, cell: str) -> int:
        text, kind, shown = str(cell), cell.kind, cell.shown  # type: ignore[attr-defined]  # as above
        self._cells.append((text, kind) if shown == text else (text, kind, shown))
        place = len(self._cells)
        if cell.__class__ is PlainNumber:
            self._numbers[text] = place
        else:
            self._others[text, kind, shown] = place
        return place


def describe(table: Table) -> TableDescription:
    """A table without its rows."""
    return TableDescription(
        table.name, table.file, table.sheet, table.header, table.header_row, table.columns, table.found
    )


def read_tables(body: bytes) -> list[TableDescription]:
    """The tables of a frame. Raises ValueError for columns outside the header."""
    tables: list[TableDescription] = _decode(_decode_tables, body)
    if any(not 0 <= place < len(table.header) for table in tables for place in table.columns.values()):
        raise ValueError("a column stands outside its header")
    return tables


def read_problem(body: bytes) -> Problem:
    """The problem of a frame. Raises ValueError if the catalogue does not have it, or its values do not fit."""
    return _checked(_decode(_decode_problem, body))


def read_failure(body: bytes) -> tuple[str, str]:
    """The name and the text of an exception that ended a reader."""
    failure: tuple[str, str] = _decode(_decode_failure, body)
    return failure


def read_exit_status(body: bytes) -> ExitStatus:
    """How a process ended."""
    status: ExitStatus = _decode(_decode_exit_status, body)
    return status


class RowDecoder:
    """Makes rows of frames. Caches `Native` cells, because many sheets repeat them."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._cache: dict[tuple[str, ...], Native] = {}

    def rows(self, kind: bytes, body: bytes) -> Iterator[Row]:
        """The rows of a frame. Raises ValueError unless each has a number and texts, as many as the header."""
        width = self._width
        rows: Iterable[Row] = _decode(_decode_plain, body) if kind == PLAIN else self._typed(body)
        for row in rows:
            if len(row.cells) != width:
                raise ValueError(f"row {row.number} is not as wide as its header")
            if row.problem is not None:
                _checked(row.problem)
            yield row

    def _typed(self, body: bytes) -> Iterator[Row]:
        encoded, rows = _decode(_decode_typed, body)
        cache = self._cache
        natives: list[str] = ["", *[cache.get(parts) or self._native(parts) for parts in encoded]]
        try:
            for number, cells, problem, ignored in rows:
                values = tuple([cell if cell.__class__ is str else natives[cell] for cell in cells])
                yield Row(number, values, problem, ignored)
        except IndexError:
            raise ValueError("a cell that there is not") from None

    def _native(self, parts: tuple[str, ...]) -> Native:
        if len(parts) not in (2, 3) or parts[1] not in _KINDS:
            raise ValueError("a cell of a kind that there is not")
        if len(self._cache) >= _CACHE_MAX:
            self._cache.clear()
        is_plain = parts[1:] == ("number",)
        cell = PlainNumber(parts[0]) if is_plain else Native(parts[0], parts[1], *parts[2:])  # type: ignore[arg-type]  # just looked up
        self._cache[parts] = cell
        return cell


def _decode(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is one
        raise ValueError(f"a frame that cannot be understood: {error}") from error


def _checked(problem: Problem) -> Problem:
    try:
        str(problem)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"a problem that the catalogue does not have: {problem.code[:10]}") from error
    if problem.code not in CATALOGUE:
        raise ValueError("a problem that the catalogue does not have")
    return problem


_DISK_ERRORS = frozenset({errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE})


class DiskFault(FolderError):  # noqa: N818
    """A disk failed to read a file. The file stays where it was."""


def find_disk_error(error: BaseException | None) -> OSError | None:
    """The error of a disk in this error's chain of causes; None if there is none."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def disk_fault(name: str, reason: str) -> DiskFault:
    """The error to raise for the file that was dropped as `name`."""
    return DiskFault(f"{name} cannot be read from its disk ({reason}); nothing of it was used, it stays where it was")


def rows_with_retry(rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows, with one retry: if the disk fails, they are read from the start again and the first ones skipped. Raises DiskFault
    if it fails again.
    """
    count = 0
    try:
        for count, row in enumerate(rows(), start=1):  # noqa: B007 (the count is for the second try)
            yield row
    except DiskFault:
        yield from islice(rows(), count, None)
