"""The HTTP face, made from the contract's table of operations: token, route, body, verdict, effect, answer, in this order.

Owns: which status and which body answers what (interface: Authentication, Endpoints, Errors). Knows no SQL and no socket.
No body that a client can send is answered with 5xx; 503 says that the store itself cannot write or read now.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from loadsheet.contract import (
    OPERATIONS,
    PAGE_SIZE,
    UNAUTHORISED,
    UNKNOWN_METHOD,
    WRITES,
    Assumptions,
    Fault,
    Operation,
    Record,
    When,
    body_checker,
    refusal,
    success,
)
from loadsheet.exchange.calls import NOTE, Note
from loadsheet.exchange.effects import Call, key_text
from loadsheet.exchange.overload import store_failed, turn_away
from loadsheet.exchange.paging import Pages
from loadsheet.exchange.store import Store, StoreFailed
from loadsheet.exchange.tokens import Caller, Doorkeeper
from loadsheet.exchange.wire import BadBody, encode, parse
from loadsheet.exchange.wrong_tokens import WAIT_MAX_S, Guesses
from loadsheet.problems import SettingsError

Header = tuple[bytes, bytes]
Headers = Sequence[Header]
End = Callable[[Scope, Receive, Send, Caller], Awaitable[None]]
"""Answers a request that came for one path, its caller known."""

_UNAUTHORISED = encode(UNAUTHORISED)
_UNKNOWN_METHOD = encode(UNKNOWN_METHOD)
_BEARER = b"Bearer "
_JSON = (b"content-type", b"application/json")
_NOT_AN_OBJECT = "must be a JSON object"
_NOT_A_PAGE_SIZE = "must be a whole number of 1 or more"
_FAULTS_MAX = 1_000  # so many are named in an answer
_PAGE_SIZE_MAX = 10**18 - 1  # no store holds more records, and int() of many more digits would begin to cost


def create_app(store: Store, token: str | None, assumptions: Assumptions, *, guesses: Guesses | None = None) -> ASGIApp:
    """The exchange as an ASGI application (of HTTP alone, without a lifespan) on an open store.

    `token` is the operator's own, beside those that the database holds; None: there is no other. `guesses` counts
    wrong tokens, here and wherever else it is used. Raises SettingsError for a token that no header can carry.
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise SettingsError("token: empty, or with spaces or letters outside ASCII; use letters, digits and -._~+/=")
    listings = [operation for operation in OPERATIONS if not operation.is_write]
    ends: dict[str, End] = {operation.path: _Write(operation, store, assumptions) for operation in WRITES}
    ends |= {path: _Listing(store, assumptions, listings) for path in {end.path for end in listings}}
    return _Exchange(Doorkeeper(token, store.token), guesses or Guesses(), ends, _Elsewhere(assumptions))


class _Exchange:
    """Hands a request to the end point of its path, if its token is good: before that nothing else of it is looked at.

    A table of whole paths, because a router of patterns and its layers cost more than all else of a call (`make bench`).
    """

    def __init__(self, doorkeeper: Doorkeeper, guesses: Guesses, ends: Mapping[str, End], elsewhere: End) -> None:
        self._doorkeeper, self._guesses, self._ends, self._elsewhere = doorkeeper, guesses, ends, elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = _bearer_token(scope)
        try:
            caller = await self._doorkeeper.caller(token) if token else None
            if caller is None:
                await self._unauthorised(scope, send, token)
                return
            if note := scope.get(NOTE):
                note.party = key_text(caller.party)
            await self._ends.get(scope["path"], self._elsewhere)(scope, receive, send, caller)
        except StoreFailed:
            await store_failed(scope, send)

    async def _unauthorised(self, scope: Scope, send: Send, token: str) -> None:
        if await self._guesses.held_back(scope.get("client"), token):
            await _respond(send, 401, _UNAUTHORISED, ((b"www-authenticate", b"Bearer"),))
        else:
            await turn_away(scope, send, 429, self._guesses.said(), ceil(WAIT_MAX_S))


class _Write:
    """The end point of one write operation."""

    def __init__(self, operation: Operation, store: Store, assumptions: Assumptions) -> None:
        self._operation, self._store, self._assumptions = operation, store, assumptions
        self._check = body_checker(operation, assumptions, faults_max=_FAULTS_MAX)
        self._all_counts = assumptions.unknown_fields == "reject" and assumptions.null_fields == "reject"

    async def __call__(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        if scope["method"] != self._operation.method:
            await _unknown_method(send, 405, (self._operation.method,))
            return
        try:
            body = await _read(receive, self._assumptions.body_bytes_max)
            if body is not None:
                note: Note = scope.get(NOTE) or Note()
                note.body = body
                await self._answer(note, caller, send)
        except BadBody as error:
            await self._refuse(send, (Fault("", str(error)),))

    async def _answer(self, note: Note, caller: Caller, send: Send) -> None:
        body: Any = parse(note.body)
        faults = self._check(body)
        if any(fault.index is None for fault in faults):
            await self._refuse(send, faults)
            return
        call = self._call(body, faults, note.body, caller)
        if not faults:
            note.records = call.records
        effect = await self._store.apply(call, self._assumptions)
        if effect.faults:
            await self._refuse(send, effect.faults)
            return
        done = success(self._operation, call.records[0], self._assumptions, service_order=effect.number)
        await _respond(send, 200, encode(done))

    def _call(self, body: Any, faults: Sequence[Fault], raw: bytes, caller: Caller) -> Call:
        if self._all_counts and not self._operation.batched:
            return Call(self._operation, (body,), (0,), (), raw, key_text(caller.party))
        wrong = {fault.index for fault in faults}
        good = {place: record for place, record in enumerate(self._operation.records(body)) if place not in wrong}
        records: Iterable[dict[str, Any]] = good.values()
        if not self._all_counts:
            records = (_counted(self._operation.record, record, self._assumptions) for record in records)
        return Call(self._operation, tuple(records), tuple(good), tuple(faults), raw, key_text(caller.party))

    async def _refuse(self, send: Send, faults: Sequence[Fault]) -> None:
        body = refusal(self._operation, faults, index_base=self._assumptions.index_base)
        await _respond(send, 400, encode(body))


class _Listing:
    """The end point that both listings share; the query says which of them is meant."""

    def __init__(self, store: Store, assumptions: Assumptions, operations: Iterable[Operation]) -> None:
        self._pages, self._assumptions = Pages(store), assumptions
        self._by_subject = {operation.subject: operation for operation in operations}
        self._asks_for_tenders = set(parse_qsl(assumptions.tender_listing_query, keep_blank_values=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        operation = self._meant(query)
        if scope["method"] != operation.method:
            await _unknown_method(send, 405, (operation.method,))
            return
        try:
            body = await _read(receive, self._assumptions.body_bytes_max)
            if body is None:
                return
            page_size = self._page_size(dict(query), body)
        except BadBody as error:
            await self._refuse(send, operation, Fault("", str(error)))
            return
        if page_size is None:
            await self._refuse(send, operation, Fault(PAGE_SIZE, _NOT_A_PAGE_SIZE))
            return
        await self._pages.answer(scope, send, operation, page_size, key_text(caller.party))

    def _meant(self, query: Sequence[tuple[str, str]]) -> Operation:
        tenders = self._asks_for_tenders and self._asks_for_tenders <= set(query)
        return self._by_subject["tender" if tenders or self._assumptions.plain_listing == "tenders" else "order"]

    def _page_size(self, query: dict[str, str], body: bytes) -> int | None:
        """The page size asked for in the query or else in the body, cut to the maximum; None if it is no such number."""
        digits = str(self._asked(query, body)).lstrip("0")
        if not (digits.isascii() and digits.isdigit()):
            return None
        allowed = self._assumptions.page_size_max or _PAGE_SIZE_MAX
        return allowed if len(digits) > len(str(_PAGE_SIZE_MAX)) else min(int(digits), allowed)

    def _asked(self, query: dict[str, str], body: bytes) -> object:
        if PAGE_SIZE in query:
            return query[PAGE_SIZE]
        value = parse(body) if body else {}
        if not isinstance(value, dict):
            raise BadBody(_NOT_AN_OBJECT)
        asked = value.get(PAGE_SIZE, self._assumptions.page_size_default)
        absent = asked is None and self._assumptions.null_fields == "absent"
        return self._assumptions.page_size_default if absent else asked

    async def _refuse(self, send: Send, operation: Operation, fault: Fault) -> None:
        await _respond(send, 400, encode(refusal(operation, (fault,))))


class _Elsewhere:
    """Every path that is not an operation."""

    def __init__(self, assumptions: Assumptions) -> None:
        self._status = assumptions.unknown_path

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send, _caller: Caller) -> None:
        await _unknown_method(send, self._status, ())


def _bearer_token(scope: Scope) -> str:
    """The token that a request shows; empty if it shows none, or several."""
    given: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1 or not (shown := given[0].strip()).startswith(_BEARER):
        return ""
    return shown.removeprefix(_BEARER).decode("latin-1")


def _counted(record: Record, value: dict[str, Any], assumptions: Assumptions) -> dict[str, Any]:
    """What of a record counts where unknown fields are ignored or null means absent: the rest is neither kept nor merged."""
    counted = {}
    for name, given in value.items():
        field = record.field(name)
        if field is None or given is None:
            continue
        if field.when is When.LISTED and assumptions.listing_only_fields == "reject":
            continue
        inner = field.record
        if inner is None:
            counted[name] = given
        elif isinstance(given, list):
            counted[name] = [_counted(inner, item, assumptions) for item in given]
        else:
            counted[name] = _counted(inner, given, assumptions)
    return counted


async def _read(receive: Receive, limit: int) -> bytes | None:
    """The request's body, or None if the client has gone. Raises BadBody as soon as it grows beyond `limit` bytes."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BadBody(f"is larger than {limit} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _respond(send: Send, status: int, body: bytes, headers: Headers = (), kind: Header = _JSON) -> None:
    sized = b"content-length", b"%d" % len(body)
    await send({"type": "http.response.start", "status": status, "headers": [kind, sized, *headers]})
    await send({"type": "http.response.body", "body": body})


async def _unknown_method(send: Send, status: int, allowed: Iterable[str]) -> None:
    # RFC 9110, section 15.5.6: a 405 says which methods the path does know
    headers = ((b"allow", ", ".join(allowed).encode("ascii")),) if status == 405 else ()  # noqa: PLR2004 (the status)
    await _respond(send, status, _UNKNOWN_METHOD, headers)
