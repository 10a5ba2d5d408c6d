"""The eleven operations: method, path, request record, shapes of the answers, business key, and the listing that proves an effect.

Owns: the table behind routes, client, mapping and reconciliation (interface: Endpoints), the parties of a record, and the changes
that one record causes in another, as far as they are assumed (interface: States and transitions).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from loadsheet.contract import records
from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.records import Record

PATH_PREFIX = "/tmsapi/"
PARTY_FIELDS = ("sender_id", "receiver_id")
_NO_CHANGE = frozenset({*PARTY_FIELDS, "timezone"})


class Action(StrEnum):
    """The effect of an operation on its subject."""

    LIST = "list"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    QUOTE = "quote"
    CONFIRM = "confirm"
    STATUS = "status"


class AnswerShape(StrEnum):
    """The shapes of a 200 body."""

    LISTING = "listing"
    TENDER = "tender result"
    QUOTE = "quote result"
    ORDER = "order result"
    PLAIN = "status and message"


class ErrorShape(StrEnum):
    """The shapes of a 400 body (interface: Errors, first to fourth row)."""

    FIELDS = "results, status, message, errors"
    FIELDS_ONLY = "status, message, errors"
    DETAILS = "results, error"
    INDEXED = "errors by data[<index>]"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation of the interface.

    `name` is its name in mapping files, ledger and reports. `subject` (order or tender) and the first key field form the lane, on
    which calls for one record keep their order. Records of `repeatable` operations are distinguished by content, not only by key:
    an order may have several status events. `proved_by` names the listing that can show the effect, if any. `batched` operations
    carry several records under `data` in one body.
    """

    name: str
    subject: str
    action: Action
    method: str
    path: str
    record: Record
    answer: AnswerShape
    error: ErrorShape
    done: str
    proved_by: str | None = None
    repeatable: bool = False
    batched: bool = False

    @property
    def is_write(self) -> bool:
        """Whether the operation changes something at the exchange."""
        return self.action is not Action.LIST

    @property
    def creates(self) -> bool:
        """Whether fields required on create are required here."""
        return self.action is Action.CREATE

    def changes(self, payload: Mapping[str, Any]) -> bool:
        """Whether a payload has more than the names of its record and parties and a time zone."""
        return not payload.keys() <= _NO_CHANGE | {*self.record.key}

    def key_of(self, payload: Mapping[str, Any]) -> str:
        """The business key of a payload: its key fields, joined by a slash; empty if one is missing."""
        parts = [str(payload.get(name, "")) for name in self.record.key]
        return "/".join(parts) if all(parts) else ""

    def lane_of(self, payload: Mapping[str, Any]) -> str:
        """The lane of a payload: `order:ID` or `tender:ID`. Calls on one lane never overlap."""
        return f"{self.subject}:{payload.get(self.record.key[0], '')}"

    def record_id(self, key: str) -> str:
        """What identifies the record of a document with this key: its lane, or where no listing shows it, the operation and the key. Empty
        without a key, and for a repeatable operation, whose records may share a key.
        """
        if not key or self.repeatable:
            return ""
        return f"{self.subject if self.proved_by else self.name}:{key}"

    def body(self, payloads: Sequence[bytes]) -> bytes:
        """The request body for encoded payloads: the payload itself, or for batched operations the `data` array."""
        if self.batched:
            return b'{"data":[' + b",".join(payloads) + b"]}"
        (payload,) = payloads
        return payload

    def records(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The request records of a decoded body: the body itself, or for batched operations the items of `data`."""
        return list(body["data"]) if self.batched else [dict(body)]


def _write(name: str, path: str, record: Record, answer: AnswerShape, done: str, **more: Any) -> Operation:
    subject, action = name.split(".")
    error = more.pop("error", ErrorShape.FIELDS)
    return Operation(name, subject, Action(action), "POST", PATH_PREFIX + path, record, answer, error, done, **more)


def _listing(subject: str, record: Record) -> Operation:
    name, path, answers = f"{subject}.list", PATH_PREFIX + "getOrders", (AnswerShape.LISTING, ErrorShape.FIELDS)
    return Operation(name, subject, Action.LIST, "GET", path, record, *answers, "listed")


OPERATIONS: tuple[Operation, ...] = (
    _listing("tender", records.TENDER),
    _write(
        "tender.create", "createTender", records.TENDER, AnswerShape.TENDER, "Tender created", proved_by="tender.list"
    ),
    _write(
        "tender.update", "updateTender", records.TENDER, AnswerShape.TENDER, "Tender updated", proved_by="tender.list"
    ),
    _write(
        "tender.delete",
        "deleteTender",
        records.TENDER_DELETE,
        AnswerShape.TENDER,
        "Tender deleted",
        proved_by="tender.list",
        error=ErrorShape.FIELDS_ONLY,
    ),
    _write("tender.quote", "tenderCarrierQuote", records.QUOTE, AnswerShape.QUOTE, "Quote added"),
    _write("tender.confirm", "tenderConfirmCarrierQuote", records.CONFIRMATION, AnswerShape.QUOTE, "Quote confirmed"),
    _listing("order", records.ORDER),
    _write("order.create", "createOrder", records.ORDER, AnswerShape.ORDER, "Order created", proved_by="order.list"),
    _write("order.update", "updateOrder", records.ORDER, AnswerShape.ORDER, "Order updated", proved_by="order.list"),
    _write(
        "order.delete",
        "deleteOrder",
        records.ORDER_DELETE,
        AnswerShape.PLAIN,
        "Order deleted",
        proved_by="order.list",
        error=ErrorShape.DETAILS,
    ),
    _write(
        "order.status",
        "statusOrder",
        records.ORDER_STATUS,
        AnswerShape.PLAIN,
        "Order status updated",
        repeatable=True,
        batched=True,
        error=ErrorShape.INDEXED,
    ),
)

BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}
WRITES: tuple[Operation, ...] = tuple(operation for operation in OPERATIONS if operation.is_write)


def _named(*actions: Action) -> frozenset[str]:
    return frozenset(write.name for write in WRITES if write.action in actions)


CREATES, DELETES, EVENTS = _named(Action.CREATE), _named(Action.DELETE), _named(Action.STATUS)
QUOTE_DECISIONS = _named(Action.CONFIRM)
CREATES_AND_UPDATES = _named(Action.CREATE, Action.UPDATE)
"""Operations whose document is a version of a record."""

LISTED_WRITES = frozenset(write.name for write in WRITES if write.proved_by)
"""Operations whose effect a listing can show."""

LISTINGS = tuple(operation for operation in OPERATIONS if not operation.is_write)  # tenders first
LISTED_KEYS = tuple(operation.record.key[0] for operation in LISTINGS)
"""The fields that identify a listed record: enough for `listed_subject`, and for the key and lane of its listing."""


def listed_subject(record: Mapping[str, Any]) -> str:
    """The subject of a listed record: tender, order, or empty for neither. The two listings share one path. A tender may carry the
    key of an order, but an order never that of a tender.
    """
    for operation, name in zip(LISTINGS, LISTED_KEYS, strict=True):
        if str(record.get(name, "")):
            return operation.subject
    return ""


def update_of(operation: Operation) -> Operation | None:
    """The update operation for a create operation with the same record, if there is one."""
    update = BY_NAME.get(f"{operation.subject}.{Action.UPDATE}")
    return update if operation.creates and update is not None and update.record is operation.record else None


SENDING_ORDER: tuple[str, ...] = (
    # parents before children: within one run an order is created before its status is reported
    "tender.create",
    "tender.update",
    "tender.quote",
    "tender.confirm",
    "order.create",
    "order.update",
    "order.status",
    "order.delete",
    "tender.delete",
)


def parties_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Sender and receiver of a tender, an order, a quote or a confirmation as texts; empty if missing."""
    sender, receiver = (str(record.get(name, "")) for name in PARTY_FIELDS)
    return sender, receiver


def carrier_of(quote: Mapping[str, Any]) -> str:
    """The carrier of a quote or of its confirmation."""
    return str(quote.get("carrier_id", ""))


def offered_to(tender: Mapping[str, Any]) -> frozenset[str]:
    """The carriers that a tender names, by company, because the interface has no identifier for them."""
    return frozenset(str(carrier.get("carrier_company", "")) for carrier in tender.get("involved_carriers", ()))


def is_acceptance(confirmation: Mapping[str, Any]) -> bool:
    """Whether a quote confirmation accepts the quote; any other decision rejects it."""
    return str(confirmation.get("status", "")).lower() == "accept"


def tender_change(confirmation: Mapping[str, Any], assumptions: Assumptions) -> dict[str, Any]:
    """The fields that a quote confirmation sets in its tender: none, or the tender's status."""
    status = assumptions.accept_sets_tender_status
    return {"tender_status": status} if status and is_acceptance(confirmation) else {}


def order_change(event: Mapping[str, Any], assumptions: Assumptions) -> dict[str, Any]:
    """The fields that a status record sets in its order: none, or the order's status."""
    source = {"code": "status_code", "name": "status_name"}.get(assumptions.status_sets_order_status, "")
    return {"order_status": event[source]} if source in event else {}
