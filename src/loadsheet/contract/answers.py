"""The bodies of answers: made by the exchange and read by the client from the same declaration.

Owns: every key of a 200, 400, 401 and 405 body (interface: Endpoints, Errors). Readers raise `UndocumentedAnswer` for a
body without the documented shape; the caller decides what it means.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.listed import UndocumentedAnswer
from loadsheet.contract.operations import Action, Answer, ErrorShape, Operation, is_acceptance
from loadsheet.contract.records import Record, When

Json = dict[str, Any]

INVALID_TEXT = "A body parameter is invalid or missing."
UNAUTHORISED: Json = {
    "results": [],
    "error": {"message": "You are not authorised to access this resource.", "details": "Not authorised."},
}
UNKNOWN_METHOD: Json = {"results": [], "error": {"status": False, "error": "Unknown method."}}

PAGE_SIZE = "page_size"  # the one parameter of the listings

_INDEXED = re.compile(r"data\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong field: its payload path (`packages[0].item_name`, empty for the whole body), a text, and for batched
    operations the index of the record in `data`, from 0 (None: the body itself).
    """

    path: str
    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The content of a 200: the echoed identifiers (empty if the interface echoes none), the service's own number, and the message."""

    echoed: str
    service_order: str
    message: str


def success(operation: Operation, payload: Json, assumptions: Assumptions, *, service_order: int = 0) -> Json:
    """The 200 body of a write operation. `payload` is the request record; `service_order` the exchange's own order number."""
    message = _message(operation, payload)
    if operation.answer is Answer.TENDER:
        return {"results": {"status": True, "message": message, "tender_id": str(payload["tender_id"])}}
    if operation.answer is Answer.QUOTE:
        ids = {"tender_id": str(payload["tender_id"]), "carrier_id": str(payload["carrier_id"])}
        return {"results": {"status": True, "message": message, **ids}}
    if operation.answer is Answer.ORDER:
        number = service_order if operation.action is Action.CREATE else str(service_order)
        entry = {
            assumptions.customer_order_key: str(payload["order_id"]),
            assumptions.service_order_key: number,
        }
        parties = {"customer_id": str(payload.get("sender_id", "")), "carrier_id": str(payload.get("receiver_id", ""))}
        return {"status": True, "message": message, "data": {"order_id": {**parties, "orders_data": [entry]}}}
    return {"status": True, "message": message}


def _message(operation: Operation, payload: Json) -> str:
    if operation.action is Action.CONFIRM:
        return "Quote accepted" if is_acceptance(payload) else "Quote rejected"
    return operation.done


def listing(results: Sequence[Json], *, page_size: int, total_count: int) -> Json:
    """The 200 body of a listing; `results` is the page, `total_count` the number of all records."""
    pages = -(-total_count // page_size)
    return {PAGE_SIZE: page_size, "results": list(results), "total_count": total_count, "total_pages": pages}


def as_listed(record: Record, stored: Json) -> Json:
    """A stored record as its listing shows it: with the listing-only fields as strings, and the packages counted if not stored."""
    listed = {field.name: "" for field in record.fields if field.when is When.LISTED}
    if "package_count" in listed:
        listed["package_count"] = str(len(stored.get("packages", ())))
    return {**stored, **listed, **{name: stored[name] for name in listed if name in stored}}


def refusal(operation: Operation, faults: Sequence[Fault], *, index_base: int = 0) -> Json:
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


class SaidNo(UndocumentedAnswer):
    """A 200 whose `status` is false."""


def read_success(operation: Operation, body: object, assumptions: Assumptions) -> Receipt:
    """Read a 200 body. Raises UndocumentedAnswer, also if `status` is not true."""
    root = _object(body, "body")
    result = _object(root.get("results"), "results") if operation.answer in (Answer.TENDER, Answer.QUOTE) else root
    if result.get("status") is not True:
        wrong = SaidNo if result.get("status") is False else UndocumentedAnswer
        raise wrong(f"status is {result.get('status')!r}, not true")
    message = _text(result, "message")
    if operation.answer is Answer.TENDER:
        return Receipt(_ident(result, "tender_id"), "", message)
    if operation.answer is Answer.QUOTE:
        return Receipt(f"{_ident(result, 'tender_id')}/{_ident(result, 'carrier_id')}", "", message)
    if operation.answer is Answer.ORDER:
        orders = _object(_object(root.get("data"), "data").get("order_id"), "data.order_id").get("orders_data")
        if not isinstance(orders, list) or len(orders) != 1:
            raise UndocumentedAnswer("data.order_id.orders_data does not hold exactly one order")
        order = _object(orders[0], "orders_data[0]")
        return Receipt(
            _ident(order, assumptions.customer_order_key), _ident(order, assumptions.service_order_key), message
        )
    return Receipt("", "", message)


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
            faults += [Fault(path, str(text), int(indexed[1])) for path, text in message.items()]
        else:
            faults.append(Fault(name, str(message)))
    return tuple(faults) or (Fault("", _text(root, "message")),)


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
