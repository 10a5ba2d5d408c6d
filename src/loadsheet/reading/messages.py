"""Messages between processes: one byte for the kind, then MessagePack, over connections of `multiprocessing`.

Nothing is unpickled, and the length of a message is bounded. The decoders accept only the types declared here and raise
ValueError for anything else. A compromised reader can therefore only report wrong data about its own file.
"""

import errno
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, get_args

import msgspec

from loadsheet.errors import FileRefused
from loadsheet.problems import CATALOGUE, Problem
from loadsheet.reading.tables import Bounds, Layout, Native, NativeKind, Row

OPEN, ROWS, CLOSE, FORK, KILL = b"o", b"r", b"c", b"h", b"k"  # requests
TABLES, BATCH, END, REFUSED, FAILED, DONE = b"T", b"B", b"E", b"R", b"X", b"D"  # replies

DISK = "disk"
"""The name of the failure for an error of the disk."""

MESSAGE_BYTES_MAX = 1 << 26
"""The largest message. It holds at least one row."""

MESSAGE_BYTES = 1 << 18
"""The size in bytes at which rows are sent: about 500 rows of 40 short cells."""

_LIST_HEAD = struct.Struct(">BI")
_LIST_OF_MANY = 0xDD  # MessagePack's array 32
_KINDS = frozenset(get_args(NativeKind))
_Value = TypeVar("_Value")
Message = tuple[bytes, memoryview]
"""The kind and the content of a message."""


class Limits(NamedTuple):
    """The limits of reading one file: memory beyond that of the new process, CPU time, and the reply timeout."""

    memory_mb: int
    cpu_s: int
    wall_s: float


class OpenRequest(NamedTuple):
    """The file to open, the bounds for its content, and the limits of the process. `path` is only for systems that cannot reopen a
    descriptor; its bytes need not be text.
    """

    path: bytes
    name: str
    layouts: tuple[Layout, ...]
    bounds: Bounds
    limits: Limits


class ExitStatus(NamedTuple):
    """The exit status of a process: the signal that killed it (0: none), its exit code, its peak memory and its CPU time."""

    signal: int
    code: int
    peak_mb: int
    cpu_s: float


class TableDescription(NamedTuple):
    """A table without its rows."""

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    reading_notes: dict[str, str]

    def check(self) -> None:
        """Raises ValueError for a column outside the header."""
        if any(not 0 <= position < len(self.header) for position in self.columns.values()):
            raise ValueError("a column is outside its header")


class _PackedRow(NamedTuple):
    """A `Row` in a message. A `Native` becomes its text, its kind and, if different, its displayed texts."""

    number: int
    cells: tuple[str | tuple[str, ...], ...]
    problem: Problem | None = None
    ignored: str = ""
    beside: tuple[int, str] | None = None


def send(connection: Connection, kind: bytes, content: object = None) -> None:
    """Send a message. Values that MessagePack cannot encode are sent as text. Raises TimeoutError and OSError."""
    try:
        connection.send_bytes(kind + msgspec.msgpack.encode(content, enc_hook=str))
    except BlockingIOError as error:
        raise TimeoutError("no answer in time") from error


def receive(connection: Connection) -> Message:
    """The next message. Raises EOFError, TimeoutError, OSError, and ValueError for an invalid one."""
    try:
        message = connection.recv_bytes(MESSAGE_BYTES_MAX)
    except BlockingIOError as error:
        raise TimeoutError("no answer in time") from error
    except OSError as error:
        if not connection.readable:  # the connection refused the length
            raise ValueError("a message is too long") from error
        raise
    if not message:
        raise ValueError("an empty message")
    return message[:1], memoryview(message)[1:]


def pack_rows(rows: Iterable[Row]) -> Iterator[bytearray]:
    """Messages of about MESSAGE_BYTES, each yielded as soon as it is full: one byte for the kind, then the rows. The next message
    reuses the buffer. Raises OverflowError for a row larger than a message.
    """
    append = msgspec.msgpack.Encoder(enc_hook=_pack).encode_into
    start = len(BATCH) + _LIST_HEAD.size
    buffer, count = bytearray(BATCH) + bytes(_LIST_HEAD.size), 0
    for row in rows:
        append(row, buffer, -1)
        count += 1
        if len(buffer) > MESSAGE_BYTES_MAX:
            raise OverflowError(f"row {row.number} is larger than {MESSAGE_BYTES_MAX >> 20} MB")
        if len(buffer) > MESSAGE_BYTES:
            _LIST_HEAD.pack_into(buffer, len(BATCH), _LIST_OF_MANY, count)
            yield buffer
            del buffer[start:]
            count = 0
    if count:
        _LIST_HEAD.pack_into(buffer, len(BATCH), _LIST_OF_MANY, count)
        yield buffer


def _pack(value: object) -> object:
    """The parts of a `Native`; the text of any other value that MessagePack cannot encode."""
    if not isinstance(value, Native):
        return str(value)
    parts = (str(value), value.kind, value.without_currency, value.displayed)
    has_currency, has_words = value.displayed != value.without_currency, value.without_currency != parts[0]
    return parts[: 4 if has_currency else 3 if has_words else 2]


_decode_row = msgspec.msgpack.Decoder(_PackedRow).decode
_decode_rows = msgspec.msgpack.Decoder(list[_PackedRow]).decode


def pack_row(row: Row) -> bytes:
    """A row as MessagePack, for a file of our own; `unpack_row` reads it back."""
    return msgspec.msgpack.encode(row, enc_hook=_pack)


def unpack_row(packed: bytes) -> Row:
    """The row that `pack_row` wrote."""
    row = _decode_row(packed)
    return Row(row.number, tuple([cell if isinstance(cell, str) else _native(cell) for cell in row.cells]), *row[2:])


def unpack_rows(body: bytes | memoryview, width: int) -> Iterator[Row]:
    """The rows of a message from `pack_rows`. Raises ValueError for a row without a number, with another width than the header, or with
    a cell beside the table that is none.
    """
    for number, cells, problem, ignored, beside in _decoded(_decode_rows, body):
        if len(cells) != width:
            raise ValueError(f"row {number} is not as wide as its header")
        if beside is not None and beside[0] <= width:
            raise ValueError(f"row {number} has a cell beside the table that is in the table")
        if problem is not None:
            check_problem(problem)
        values = tuple([cell if cell.__class__ is str else _native(cell) for cell in cells])
        yield Row(number, values, problem, ignored, beside)


def _native(parts: tuple[str, ...]) -> Native:
    if not 2 <= len(parts) <= 4 or parts[1] not in _KINDS:
        raise ValueError("a cell of an unknown kind")
    return Native(*parts)  # type: ignore[arg-type]  # just looked up


def decode(body: bytes | memoryview, kind: type[_Value]) -> _Value:
    """The value of a message. Raises ValueError for another type."""
    value: _Value = _decoded(msgspec.msgpack.Decoder(kind).decode, body)
    return value


def check_problem(problem: Problem) -> Problem:
    """The problem of a message. Raises ValueError if it is not in the catalogue or its values do not fit."""
    try:
        str(problem)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"a problem that is not in the catalogue: {problem.code[:10]}") from error
    if problem.code not in CATALOGUE:
        raise ValueError("a problem that is not in the catalogue")
    return problem


def _decoded(decoder: Callable[[bytes | memoryview], Any], body: bytes | memoryview) -> Any:
    try:
        return decoder(body)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is one
        raise ValueError(f"an invalid message: {error}") from error


_DISK_ERRORS = frozenset({errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE})


class ErrorReport:
    """Sends an exception in its block to the other process and swallows it, because no caller could catch it. A disk error anywhere in
    its chain of causes is reported as such.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        with suppress(OSError):  # the other process is gone
            if (fault := _disk_error(error)) is not None:
                send(self._connection, FAILED, (DISK, str(fault.strerror)))
            elif isinstance(error, FileRefused):
                send(self._connection, REFUSED, error.problem)
            elif kind is not None:
                send(self._connection, FAILED, (kind.__name__, str(error)[:500]))
        return True


def _disk_error(error: BaseException | None) -> OSError | None:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            return error
        seen.append(error)
        error = error.__cause__ or error.__context__
    return None
