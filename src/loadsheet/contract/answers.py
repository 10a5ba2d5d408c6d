"""The bodies of answers: made by the exchange and read by the client from the same declaration.

Owns: every key of a 200, 400, 401 and 405 body (interface: Endpoints, Errors). Readers raise `UndocumentedAnswer` for a
body without the documented shape; the caller decides what it means.

The records of a listing stay encoded, and are decoded one at a time: a million decoded records would take several gigabytes. Here a
listing takes its body (in a file, if the caller put it there) and twelve bytes for each record.
"""

import re
import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any, BinaryIO, overload

import msgspec

from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.operations import Action, AnswerShape, ErrorShape, Operation, is_acceptance
from loadsheet.contract.records import Record, When, decode_record

Json = dict[str, Any]

INVALID_TEXT = "A body parameter is invalid or missing."
UNAUTHORISED: Json = {
    "results": [],
    "error": {"message": "You are not authorised to access this resource.", "details": "Not authorised."},
}
UNKNOWN_METHOD: Json = {"results": [], "error": {"status": False, "error": "Unknown method."}}

PAGE_SIZE = "page_size"  # the one parameter of the listings

_INDEXED = re.compile(r"data\[(\d+)\]")
_ORDER_KEYS = ("customer_order_key", "service_order_key")
_LEVELS_READ = 4  # of an error that is nested

BLOCK_BYTES = 1_048_576
_CUTS_TRIED = 32

_OPENING = re.compile(rb'"results"\s*:\s*\[')
_BETWEEN = b" \t\r\n,"
_FIRST_NAME = re.compile(rb'\s*\{\s*"[^"\\]*"')

_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong field: its payload path (`packages[0].item_name`, empty for the whole body), a text, and for batched
    operations the index of the record in `data`, from 0 (None: the body itself).
    """

    path: str
    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Success:
    """The content of a 200: the echoed identifiers (empty if the interface echoes none), the service's own number, and the message."""

    echoed: str
    service_order: str
    message: str


def success_body(operation: Operation, payload: Json, assumptions: Assumptions, *, service_order: int) -> Json:
    """The 200 body of a write operation. `payload` is the request record; `service_order` the exchange's own order number."""
    message = operation.done
    if operation.action is Action.CONFIRM:
        message = "Quote accepted" if is_acceptance(payload) else "Quote rejected"
    if operation.answer is AnswerShape.TENDER:
        return {"results": {"status": True, "message": message, "tender_id": str(payload["tender_id"])}}
    if operation.answer is AnswerShape.QUOTE:
        ids = {"tender_id": str(payload["tender_id"]), "carrier_id": str(payload["carrier_id"])}
        return {"results": {"status": True, "message": message, **ids}}
    if operation.answer is AnswerShape.ORDER:
        number = service_order if operation.action is Action.CREATE else str(service_order)
        entry = {
            assumptions.customer_order_key: str(payload["order_id"]),
            assumptions.service_order_key: number,
        }
        parties = {"customer_id": str(payload.get("sender_id", "")), "carrier_id": str(payload.get("receiver_id", ""))}
        return {"status": True, "message": message, "data": {"order_id": {**parties, "orders_data": [entry]}}}
    return {"status": True, "message": message}


def listing_body(results: Sequence[Json], *, page_size: int, total_count: int) -> Json:
    """The 200 body of a listing; `results` is the page, `total_count` the number of all records."""
    pages = -(-total_count // page_size)
    return {PAGE_SIZE: page_size, "results": list(results), "total_count": total_count, "total_pages": pages}


def as_listed(record: Record, stored: Json) -> Json:
    """A stored record as its listing shows it: with the listing-only fields as strings, and the packages counted if not stored."""
    listed = {field.name: "" for field in record.fields if field.when is When.LISTED}
    if "package_count" in listed:
        listed["package_count"] = str(len(stored.get("packages", ())))
    return {**stored, **listed, **{name: stored[name] for name in listed if name in stored}}


def refusal_body(operation: Operation, faults: Sequence[Fault], *, index_base: int = 0) -> Json:
    """The 400 body in the operation's own shape, naming every wrong field."""
    if operation.error is ErrorShape.DETAILS:
        details = "; ".join(f"{fault.path}: {fault.text}" if fault.path else fault.text for fault in faults)
        return {"results": [], "error": {"message": INVALID_TEXT, "details": details}}
    errors: Json = {}
    for fault in faults:
        if fault.index is None:
            errors[fault.path or "body"] = fault.text
        else:
            errors.setdefault(f"data[{fault.index + index_base}]", {})[fault.path or "body"] = fault.text
    body: Json = {"status": False, "message": INVALID_TEXT, "errors": errors}
    return body if operation.error is ErrorShape.FIELDS_ONLY else {"results": [], **body}


class UndocumentedAnswer(ValueError):
    """The body of an answer does not have its documented shape."""


class StatusFalse(UndocumentedAnswer):
    """A 200 whose `status` is false."""


def read_success(operation: Operation, body: object, assumptions: Assumptions) -> Success:
    """Read a 200 body. Raises UndocumentedAnswer, also if `status` is not true."""
    root = _object(body, "body")
    if root.get("status") is False:  # in every operation, as in the body of its 400
        raise StatusFalse("status is false")
    result = (
        _object(root.get("results"), "results") if operation.answer in (AnswerShape.TENDER, AnswerShape.QUOTE) else root
    )
    if result.get("status") is not True:
        raise (
            StatusFalse("status is false")
            if result.get("status") is False
            else UndocumentedAnswer("status is not true")
        )
    message = _text(result, "message")
    if operation.answer is AnswerShape.TENDER:
        return Success(_ident(result, "tender_id"), "", message)
    if operation.answer is AnswerShape.QUOTE:
        return Success(f"{_ident(result, 'tender_id')}/{_ident(result, 'carrier_id')}", "", message)
    if operation.answer is AnswerShape.ORDER:
        orders = _object(_object(root.get("data"), "data").get("order_id"), "data.order_id").get("orders_data")
        if not isinstance(orders, list) or len(orders) != 1:
            raise UndocumentedAnswer("data.order_id.orders_data does not hold exactly one order")
        order = _object(orders[0], "orders_data[0]")
        echoed, number = (_order_number(order, assumptions, setting) for setting in _ORDER_KEYS)
        return Success(echoed, number, message)
    return Success("", "", message)


def read_refusal(operation: Operation, body: object) -> tuple[Fault, ...]:
    """Read the faults of a 400 body, with each index as in the answer. Raises UndocumentedAnswer."""
    root = _object(body, "body")
    if operation.error is ErrorShape.DETAILS:
        error = _object(root.get("error"), "error")
        return (Fault("", _text(error, "details") or _text(error, "message")),)
    if root.get("status") is not False:
        raise UndocumentedAnswer("status is not false")
    errors = _object(root.get("errors"), "errors")
    faults: list[Fault] = []
    for name, message in errors.items():
        indexed = _INDEXED.fullmatch(name)
        if indexed and isinstance(message, Mapping):
            texts = chain.from_iterable(_texts_by_path(field, error) for field, error in message.items())
            faults += [Fault(path, text, int(indexed[1])) for path, text in texts]
        else:
            faults += [Fault(path, text) for path, text in _texts_by_path(name, message)]
    return tuple(faults) or (Fault("", _text(root, "message")),)


def _texts_by_path(path: str, error: object, levels: int = _LEVELS_READ) -> Iterator[tuple[str, str]]:
    """The texts of the error of a field, each with its path. The interface has one text for a field; other exchanges give lists, or nest them."""
    if isinstance(error, list) and all(isinstance(text, str) for text in error):
        yield path, "; ".join(error)
    elif levels and error and isinstance(error, Mapping):
        for name, inner in error.items():
            yield from _texts_by_path(f"{path}.{name}", inner, levels - 1)
    elif levels and isinstance(error, list):
        for place, inner in enumerate(error):
            yield from _texts_by_path(f"{path}[{place}]", inner, levels - 1)
    else:
        yield path, str(error or "")


def _order_number(order: Mapping[str, Any], assumptions: Assumptions, setting: str) -> str:
    name = getattr(assumptions, setting)
    if name not in order:
        raise UndocumentedAnswer(f"orders_data[0] has no {name} (assumptions.{setting})")
    return _ident(order, name)


def _object(value: object, name: str) -> Mapping[str, Any]:
    if type(value) is not dict and not isinstance(value, Mapping):  # cheap check first
        raise UndocumentedAnswer(f"{name} is not an object")
    return value


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise UndocumentedAnswer(f"{name} is not a text")
    return value


def _ident(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UndocumentedAnswer(f"{name} is neither a text nor a whole number")
    return str(value)


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
        return decode_record(self._body.read(self._lengths[position]))

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
    counts: list[int] = []
    for name in (PAGE_SIZE, "total_count", "total_pages"):
        value = members.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UndocumentedAnswer(f"{name} is not a count")
        counts.append(value)
    page_size, total_count, total_pages = counts
    return Listing(results, page_size, total_count, total_pages)


class _Scan:
    """Reads a body once and records the positions of its records.

    The head up to `"results": [` and the tail with the last records are decoded directly. The middle is cut before a record. A cut
    is between two records exactly if the text before it, in brackets, is a valid array.
    """

    def __init__(self, body: BinaryIO, block_bytes: int) -> None:
        self.starts, self.lengths = array("Q"), array("I")
        self._body, self._block_bytes = body, block_bytes

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
                decode_record(record)
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
