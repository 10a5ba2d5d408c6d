"""Translation in parts: several processes each translate some groups of a drop, and what they give together is the whole, in its order.

Owns: which groups fall to which part, the chunks in which their documents travel, and the proof that chunks are whole and in order. Every
part reads and groups all rows, which is cheap and gives every group the same position everywhere; only the documents of its own groups are
made, which is dear. Groups go round in stripes, so that parts finish together and can be planned while they are made.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from loadsheet.mapping import compile as compiled
from loadsheet.mapping.documents import Document, Ignored, Instead, SourceRow
from loadsheet.mapping.grouping import MEMORY_ROWS
from loadsheet.mapping.translator import translate_by_group
from loadsheet.problems import Problem
from loadsheet.reading.tables import Table

STRIPE = 100
_ROWS_MAX = 2_000  # a chunk that holds so many is not made larger


class Part(NamedTuple):
    """One of the parts of a drop: its number from 0, how many there are, and how many groups in a row fall to one of them."""

    number: int
    of: int
    stripe: int = STRIPE

    def has(self, position: int) -> bool:
        """Whether the group at this position falls to it."""
        return position // self.stripe % self.of == self.number


class Chunk(NamedTuple):
    """What groups one after the other came to: the position of the first of them, how many they are, and their documents and ignored
    rows in order.
    """

    first: int
    groups: int
    items: list[Document | Ignored]


class Broken(Exception):  # noqa: N818 (who merges turns it into what it means there)
    """Chunks that do not make a whole: one is missing, or parts found different rows."""


class Whole:
    """All groups of a drop, of which one part is translated. `groups` is their number once the chunks were iterated."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.groups = 0

    def chunks(
        self,
        mapping: compiled.Mapping,
        tables: Mapping[str, Table],
        *,
        now: datetime,
        memory_rows: int = MEMORY_ROWS,
        spill_folder: Path | None = None,
    ) -> Iterator[Chunk]:
        """The chunks of the part. Arguments and what it raises are those of `translate`."""
        by_group = translate_by_group(mapping, tables, now=now, memory_rows=memory_rows, spill_folder=spill_folder)
        items: list[Document | Ignored] = []
        groups = rows = 0
        for position, made in enumerate(by_group):
            self.groups = position + 1
            if not self.part.has(position):
                continue
            groups += 1
            for item in made:
                items.append(item)
                rows += len(item.rows) if isinstance(item, Document) else 1
            if self.groups % self.part.stripe == 0 or rows >= _ROWS_MAX:
                yield Chunk(self.groups - groups, groups, items)
                items, groups, rows = [], 0, 0
        if groups:  # then the last group of all is in it
            yield Chunk(self.groups - groups, groups, items)


def together(chunks: Iterable[Chunk], groups: Callable[[], Iterable[int]]) -> Iterator[Document | Ignored]:
    """The documents and ignored rows of all parts from their chunks in the order of their positions. `groups` says how many groups each
    part counted, asked for at the end. Raises Broken if these are not exactly the groups of the chunks.
    """
    here = 0
    for chunk in chunks:
        if chunk.first != here:
            raise Broken(f"group {chunk.first} came where group {here} was expected")
        here += chunk.groups
        yield from chunk.items
    counted = list(groups())
    if not counted or any(count != here for count in counted):
        raise Broken(f"{here} groups came, the parts counted {', '.join(map(str, counted)) or 'none'}")


_Made = tuple[
    str,
    str,
    str,
    bytes,
    str,
    tuple[SourceRow, ...],
    tuple[Problem, ...],
    dict[str, tuple[int, ...]],
    Instead | None,
    tuple[str, ...],
]
_Packed = tuple[int, int, list[_Made], list[int], list[Ignored]]
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


def pack(chunk: Chunk) -> bytes:
    """A chunk as MessagePack; `unpack` reads it back equal."""
    left_out = [place for place, item in enumerate(chunk.items) if isinstance(item, Ignored)]
    ignored = [item for item in chunk.items if isinstance(item, Ignored)]
    made = [
        (
            item.operation,
            item.key,
            item.lane,
            item.payload,
            item.content_hash,
            item.rows,
            item.problems,
            item.items,
            item.instead,
            item.ordered,
        )
        for item in chunk.items
        if isinstance(item, Document)
    ]
    return _encode((chunk.first, chunk.groups, made, left_out, ignored))


def unpack(packed: bytes) -> Chunk:
    """The chunk that `pack` wrote. Raises Broken for what is none."""
    try:
        first, groups, made, left_out, ignored = _decode(packed)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError is one
        raise Broken(f"a chunk that cannot be understood: {error}") from error
    items: list[Document | Ignored] = [Document(*one) for one in made]
    for place, row in zip(left_out, ignored, strict=True):
        items.insert(place, row)
    return Chunk(first, groups, items)
