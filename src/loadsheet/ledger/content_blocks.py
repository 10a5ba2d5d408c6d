"""The contents of entries: each one's record and the cells that it was made from, packed in blocks of entries with neighbouring ids.

Neighbours resemble each other: packed together they take a twentieth of their size, packed alone a third. A block is a MessagePack list
of all its records, then all their source rows, compressed as a Zstandard frame with a checksum. Versions before schema 7 kept contents in
the columns `payload` and `rows` of `entries`: they are read there until they are replaced.

Owns: where contents are, and how they are packed. Opens no transaction: the callers do.
"""

import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from loadsheet.errors import LedgerError
from loadsheet.ledger.ledger_tables import FETCH, Statement

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK = 128
"""The number of ids in a block. Never changed: ledgers depend on it."""

_OPTIONS: dict[int, int] = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.checksum_flag: 1}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
_EMPTY = (b"",) * (2 * BLOCK)


class Content(NamedTuple):
    """The contents of an entry: its JSON record (empty: it has none, or it was removed), and its source rows, never empty, as
    `codec.encode_rows` writes them.
    """

    payload: bytes
    rows: bytes


def store(connection: Connection, new: Mapping[int, Content]) -> None:
    """Store the contents of entries, by id."""
    known = {row.block: _unpacked(row.block, row.packed) for row in _BLOCKS.rows_of(connection, [*_by_block(new)])}
    packed = []
    for block, entries in _by_block(new).items():
        parts = list(known.get(block, _EMPTY))
        for entry in entries:
            parts[entry % BLOCK], parts[BLOCK + entry % BLOCK] = new[entry]
        packed.append({"block": block, "packed": zstd.compress(_encode(parts), options=_OPTIONS)})
    if packed:
        _STORE.run(connection, packed)


def replace(connection: Connection, changed: Mapping[int, Content]) -> None:
    """Replace the contents of entries, by id, wherever they are."""
    store(connection, changed)
    if changed:
        _CLEAR.run(connection, [{"entry": entry, "nothing": b""} for entry in changed])


def with_contents(connection: Connection, rows: Iterable[Any]) -> Iterator[tuple[Any, Content]]:
    """Rows of `entries`, each with its contents. The rows need the columns `id`, `payload` and `rows`. Reads a few hundred at a time."""
    with ExitStack() as stack:
        if isinstance(rows, Generator):  # an error here would leave its cursor open until the connection is gone
            stack.callback(rows.close)
        stream = iter(rows)
        while some := list(islice(stream, FETCH)):
            found = _found(connection, [row.id for row in some if not row.rows])
            for row in some:
                yield row, found[row.id] if row.id in found else Content(row.payload, row.rows)


def damaged(connection: Connection) -> Iterator[str]:
    """The faults of the blocks, in words: those that cannot be read, entries without contents, and removed entries with a record."""
    after = -1
    while blocks := list(_NEXT_BLOCKS.rows(connection, after=after, most=FETCH)):
        for row in blocks:
            yield from _damaged_in(connection, row.block, row.packed)
        after = blocks[-1].block
    yield from (_lost(row.id) for row in _WITHOUT_BLOCK.rows(connection, size=BLOCK))


def _damaged_in(connection: Connection, block: int, packed: bytes) -> Iterator[str]:
    try:
        parts = _unpacked(block, packed)
    except LedgerError as error:
        yield str(error)
        return
    for entry in _INSIDE.rows(connection, first=block * BLOCK, last=block * BLOCK + BLOCK - 1):
        if not parts[BLOCK + entry.id % BLOCK]:
            yield _lost(entry.id)
        elif entry.removed and parts[entry.id % BLOCK]:
            yield f"entry {entry.id} has a payload although it is marked as removed"


def _found(connection: Connection, wanted: Sequence[int]) -> dict[int, Content]:
    """The contents of these entries, by id. Raises LedgerError if one has none."""
    by_block = _by_block(wanted)
    found: dict[int, Content] = {}
    for row in _BLOCKS.rows_of(connection, [*by_block]):
        parts = _unpacked(row.block, row.packed)
        found |= {entry: Content(parts[entry % BLOCK], parts[BLOCK + entry % BLOCK]) for entry in by_block[row.block]}
    if lost := [entry for entry in wanted if entry not in found or not found[entry].rows]:
        raise LedgerError(_lost(lost[0]), todo=_RESTORE)
    return found


def _lost(entry: int) -> str:
    return f"the record of entry {entry} is missing"


def _by_block(entries: Iterable[int]) -> Mapping[int, list[int]]:
    by_block: defaultdict[int, list[int]] = defaultdict(list)
    for entry in entries:
        by_block[entry // BLOCK].append(entry)
    return by_block


@lru_cache(maxsize=4)  # a queue takes the entries of a block a few at a time
def _unpacked(block: int, packed: bytes) -> tuple[bytes, ...]:
    """All records of a block, then all their source rows, each at its place; empty for an entry that is not in it. Raises LedgerError if
    the block is damaged.
    """
    try:
        return _decode(zstd.decompress(packed))
    except (zstd.ZstdError, msgspec.MsgspecError) as error:
        message = f"the records of the entries {block * BLOCK} to {block * BLOCK + BLOCK - 1} are damaged ({error})"
        raise LedgerError(message, todo=_RESTORE) from error


_RESTORE = "restore the newest backup: `loadsheet ledger restore FILE`"
_BLOCKS = Statement("select block, packed from contents where block in (:wanted)")
_STORE = Statement(
    "insert into contents (block, packed) values (:block, :packed) on conflict (block) do update set packed = excluded.packed"
)
_CLEAR = Statement("update entries set payload = :nothing, rows = :nothing where id = :entry and length(rows) > 0")
_NEXT_BLOCKS = Statement("select block, packed from contents where block > :after order by block limit :most")
_INSIDE = Statement("select id, removed from entries where id between :first and :last and length(rows) = 0")
_WITHOUT_BLOCK = Statement(
    "select id from entries where length(rows) = 0 and id / :size not in (select block from contents) limit 1"
)
