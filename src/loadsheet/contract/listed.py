"""The body of a listing of any length: its records stay encoded, and are decoded one at a time.

Owns: the boundaries between records, and the shape of a listing. A million decoded records would take several gigabytes. Here a
listing takes its body (in a file, if the caller put it there) and twelve bytes for each record. Knows nothing of networks.
"""

import re
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO, overload

import msgspec

Json = dict[str, Any]

BLOCK_BYTES = 1_048_576
_CUTS_TRIED = 32

_OPENING = re.compile(rb'"results"\s*:\s*\[')
_COUNTS = ("page_size", "total_count", "total_pages")
_BETWEEN = b" \t\r\n,"
_FIRST_NAME = re.compile(rb'\s*\{\s*"[^"\\]*"')

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class UndocumentedAnswer(ValueError):
    """The body of an answer does not have its documented shape."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer of a listing. It is complete if it holds `total_count` records; `reason` says why it is not, and `todo` what to
    do, if known.
    """

    results: Sequence[Json]
    page_size: int
    total_count: int
    total_pages: int
    reason: str = ""
    todo: str = ""

    @property
    def complete(self) -> bool:
        """Whether it holds all records, so that absence from it is proof."""
        return len(self.results) == self.total_count

    def heads(self, names: Sequence[str]) -> Iterator[Json]:
        """Every record in order, with at least these fields as far as it has them. Faster than decoding whole records."""
        return self.results.heads(names) if isinstance(self.results, Records) else iter(self.results)


class Records(Sequence[Json]):
    """The records of a listing, decoded on each access: numbers are int or Decimal. Not thread-safe."""

    def __init__(self, body: BinaryIO, starts: "array[int]", lengths: "array[int]") -> None:
        """`body` is closed with this object; record n begins at byte `starts[n]` and has `lengths[n]` bytes."""
        self._body, self._starts, self._lengths = body, starts, lengths
        weakref.finalize(self, body.close)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, position: int) -> Json: ...
    @overload
    def __getitem__(self, position: slice) -> list[Json]: ...
    def __getitem__(self, position: int | slice) -> Json | list[Json]:
        if isinstance(position, slice):
            return [self[index] for index in range(*position.indices(len(self)))]
        self._body.seek(self._starts[position])
        return _decode(self._body.read(self._lengths[position]))

    def __iter__(self) -> Iterator[Json]:
        for position in range(len(self)):
            yield self[position]

    def heads(self, names: Sequence[str]) -> Iterator[Json]:
        """Every record with only these fields, as far as it has them. Skipping the others takes a third of the time."""
        fields = [
            (f"field_{place}", Any, msgspec.field(name=name, default=msgspec.UNSET)) for place, name in enumerate(names)
        ]
        read = msgspec.json.Decoder(msgspec.defstruct("Head", fields), float_hook=Decimal).decode
        for start, length in zip(self._starts, self._lengths, strict=True):
            self._body.seek(start)
            values = zip(names, msgspec.structs.astuple(read(self._body.read(length))), strict=True)
            yield {name: value for name, value in values if value is not msgspec.UNSET}


def read_listing(body: object) -> Listing:
    """Read a listing's decoded 200 body. Raises UndocumentedAnswer."""
    if not isinstance(body, Mapping):
        raise UndocumentedAnswer("body is not an object")
    results = body.get("results")
    if not isinstance(results, list) or not all(isinstance(record, dict) for record in results):
        raise UndocumentedAnswer("results is not an array of objects")
    return _listing(results, body)


def scan_listing(body: BinaryIO, *, block_bytes: int = BLOCK_BYTES) -> Listing:
    """Read a listing's 200 body in blocks. The records stay in `body`, which must stay open.

    Every record is decoded once, so that none fails later. Raises UndocumentedAnswer, and ValueError for invalid JSON.
    """
    scan = _Scan(body, block_bytes)
    members = scan.run()
    return _listing(Records(body, scan.starts, scan.lengths), members)


def _listing(results: Sequence[Json], members: Mapping[str, Any]) -> Listing:
    page_size, total_count, total_pages = (count_of(members, name) for name in _COUNTS)
    return Listing(results, page_size, total_count, total_pages)


def count_of(holder: Mapping[str, Any], name: str) -> int:
    """A member that must be a whole number of 0 or more. Raises UndocumentedAnswer."""
    value = holder.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UndocumentedAnswer(f"{name} is not a count")
    return value


class _Scan:
    """Reads a body once and records the positions of its records.

    The head up to `"results": [` and the tail with the last records are decoded directly. The middle is cut before a record. A cut
    is between two records exactly if the text before it, in brackets, is a valid array.
    """

    def __init__(self, body: BinaryIO, block_bytes: int) -> None:
        self.starts, self.lengths = array("Q"), array("I")
        self._body, self._block_bytes = body, block_bytes
        self._first_name = b""

    def run(self) -> dict[str, Any]:
        """Record the positions of all records; returns the other members of the body."""
        self._body.seek(0)
        block = self._body.read(self._block_bytes)
        opening = next((found for found in _OPENING.finditer(block) if _is_head(block[: found.end()])), None)
        if opening is None or len(block) < self._block_bytes:
            return self._tail(b"", block + self._body.read(), 0)
        head, block, at = block[: opening.end()], block[opening.end() :], opening.end()
        while more := self._body.read(self._block_bytes):
            cut, raws = self._cut(block)
            self._note(block, raws, at)
            block, at = block[cut:] + more, at + cut
        return self._tail(head, block, at)

    def _cut(self, block: bytes) -> tuple[int, list[msgspec.Raw]]:
        """The number of bytes of complete records, including the comma after them, and the records; 0 without a complete one."""
        named = _FIRST_NAME.match(block)
        for opening in dict.fromkeys((named[0].strip() if named else b"{", b"{")):
            at = len(block)
            for _ in range(_CUTS_TRIED):
                at = block.rfind(opening, 0, at)
                if at <= 0:
                    break
                before = block[:at].rstrip(b" \t\r\n")
                if before.endswith(b","):
                    with suppress(msgspec.DecodeError):  # the cut was inside a record or a text
                        return at, _raws(b"[%b]" % before[:-1])
        return 0, []  # continue with a longer block, at worst with the whole body

    def _tail(self, head: bytes, rest: bytes, at: int) -> dict[str, Any]:
        try:
            members = _members(head + rest)
        except msgspec.ValidationError:
            raise UndocumentedAnswer("body is not an object") from None
        try:
            raws = _raws(members["results"])
        except (KeyError, msgspec.DecodeError):
            raise UndocumentedAnswer("results is not an array of objects") from None
        # msgspec does not report the start of the array: search a body of one block; in a longer body the head ends at it
        begins = (head + rest).find(bytes(members["results"]), max(len(head) - 1, 0)) + 1 - len(head)
        if head and begins:
            raise UndocumentedAnswer("results occurs twice")
        self._note(rest, raws, at, begins)
        return {name: msgspec.json.decode(raw) for name, raw in members.items() if name != "results"}

    def _note(self, block: bytes, raws: Sequence[msgspec.Raw], at: int, position: int = 0) -> None:
        for raw in raws:
            while block[position] in _BETWEEN:
                position += 1
            record = bytes(raw)
            try:
                _decode(record)
            except msgspec.ValidationError:
                raise UndocumentedAnswer("results is not an array of objects") from None
            self.starts.append(at + position)
            self.lengths.append(len(record))
            position += len(record)


def _is_head(text: bytes) -> bool:
    """Whether the array that opens at the end of this text is a member of the outermost object."""
    try:
        _members(text + b"]}")
    except msgspec.DecodeError:
        return False
    return True
