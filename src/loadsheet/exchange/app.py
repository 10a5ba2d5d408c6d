"""The HTTP face, made from the contract's table of operations: token, route, body, verdict, effect, answer, in this order.

Owns: which status and which body answers what (interface: Authentication, Endpoints, Errors). Knows no SQL and no socket.
No body that a client can send is answered with 5xx; 503 says that the store itself cannot write or read now.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
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
    as_listed,
    body_checker,
    listing,
    refusal,
    success,
)
from loadsheet.exchange.calls import NOTE
from loadsheet.exchange.effects import Call, key_text
from loadsheet.exchange.store import Store, StoreFailed
from loadsheet.exchange.tokens import Caller, Doorkeeper
from loadsheet.exchange.wire import BadBody, encode, parse, stored
from loadsheet.problems import SettingsError

Headers = Sequence[tuple[bytes, bytes]]

_UNAUTHORISED = encode(UNAUTHORISED)
_UNKNOWN_METHOD = encode(UNKNOWN_METHOD)
_BEARER = b"Bearer "
_CALLER = "loadsheet.caller"  # in the scope of a request
_NOT_AN_OBJECT = "must be a JSON object"
_NOT_A_PAGE_SIZE = "must be a whole number of 1 or more"
_PAGE_DIGITS_MAX = 18  # beyond it a number is surely above every maximum, and int() would begin to cost


def create_app(store: Store, token: str | None, assumptions: Assumptions) -> Starlette:
    """The exchange as an ASGI application on an open store.

    `token` is the operator's own, beside those that the database holds; None: there is no other. Raises SettingsError for one
    that no header can carry.
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise SettingsError("token: empty, or with spaces or letters outside ASCII; use letters, digits and -._~+/=")
    listings = [operation for operation in OPERATIONS if not operation.is_write]
    ends: list[Route] = [Route(operation.path, _Write(operation, store, assumptions)) for operation in WRITES]
    ends += [Route(path, _Listing(store, assumptions, listings)) for path in {end.path for end in listings}]
    app = Starlette(
        routes=ends,
        middleware=[Middleware(_BearerToken, doorkeeper=Doorkeeper(token, store.token))],
        exception_handlers={StoreFailed: _store_failed},
    )
    app.router.redirect_slashes = False  # a path with one slash more is another path
    app.router.default = _Elsewhere(assumptions)
    return app


class _BearerToken:
    """Lets a request through whose token is good, before anything else of it is looked at, and notes who sends it."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper) -> None:
        self._app, self._doorkeeper = app, doorkeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = [value.strip() for name, value in scope.get("headers", ()) if name == b"authorization"]
        try:
            caller = await self._caller(given)
        except StoreFailed:
            await _respond(send, 503, b"", ((b"retry-after", b"5"),))
            return
        if caller is None:
            await _respond(send, 401, _UNAUTHORISED, ((b"www-authenticate", b"Bearer"),))
        else:
            if note := scope.get(NOTE):
                note.party = key_text(caller.party)
            await self._app({**scope, _CALLER: caller}, receive, send)

    async def _caller(self, given: Sequence[bytes]) -> Caller | None:
        if len(given) != 1 or not given[0].startswith(_BEARER):
            return None
        return await self._doorkeeper.caller(given[0].removeprefix(_BEARER).decode("latin-1"))


class _Write:
    """The end point of one write operation."""

    def __init__(self, operation: Operation, store: Store, assumptions: Assumptions) -> None:
        self._operation, self._store, self._assumptions = operation, store, assumptions
        self._check = body_checker(operation, assumptions)
        self._all_counts = assumptions.unknown_fields == "reject" and assumptions.null_fields == "reject"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != self._operation.method:
            await _unknown_method(send, 405, (self._operation.method,))
            return
        try:
            body = await _read(receive, self._assumptions.body_bytes_max)
            if body is not None:
                await self._answer(body, scope[_CALLER], send)
        except BadBody as error:
            await self._refuse(send, (Fault("", str(error)),))

    async def _answer(self, raw: bytes, caller: Caller, send: Send) -> None:
        body: Any = parse(raw)
        faults = self._check(body)
        if any(fault.index is None for fault in faults):
            await self._refuse(send, faults)
            return
        call = self._call(body, faults, raw, caller)
        effect = await self._store.apply(call, self._assumptions)
        if effect.faults:
            await self._refuse(send, effect.faults)
            return
        done = success(self._operation, call.records[0], self._assumptions, service_order=effect.number)
        await _respond(send, 200, encode(done))

    def _call(self, body: Any, faults: Sequence[Fault], raw: bytes, caller: Caller) -> Call:
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
        self._store, self._assumptions = store, assumptions
        self._by_subject = {operation.subject: operation for operation in operations}
        self._asks_for_tenders = set(parse_qsl(assumptions.tender_listing_query, keep_blank_values=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        contents, total = await self._store.page(operation.subject, page_size, key_text(scope[_CALLER].party))
        page = listing(_listed(operation.record, contents), page_size=page_size, total_count=total)
        await _respond(send, 200, encode(page))

    def _meant(self, query: Sequence[tuple[str, str]]) -> Operation:
        tenders = self._asks_for_tenders and self._asks_for_tenders <= set(query)
        return self._by_subject["tender" if tenders or self._assumptions.plain_listing == "tenders" else "order"]

    def _page_size(self, query: dict[str, str], body: bytes) -> int | None:
        """The page size asked for in the query or else in the body, cut to the maximum; None if it is no such number."""
        digits = str(self._asked(query, body)).lstrip("0")
        if not (digits.isascii() and digits.isdigit()):
            return None
        if len(digits) > _PAGE_DIGITS_MAX:
            return self._assumptions.page_size_max
        return min(int(digits), self._assumptions.page_size_max)

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

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await _unknown_method(send, self._status, ())


def _listed(record: Record, contents: Sequence[str]) -> list[Any]:
    if any(field.when is When.LISTED for field in record.fields):
        return [as_listed(record, stored(content)) for content in contents]
    return [msgspec.Raw(content) for content in contents]  # as stored, without being read again


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


async def _respond(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    sized = (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))
    await send({"type": "http.response.start", "status": status, "headers": [*sized, *headers]})
    await send({"type": "http.response.body", "body": body})


async def _unknown_method(send: Send, status: int, allowed: Iterable[str]) -> None:
    # RFC 9110, section 15.5.6: a 405 says which methods the path does know
    headers = ((b"allow", ", ".join(allowed).encode("ascii")),) if status == 405 else ()  # noqa: PLR2004 (the status)
    await _respond(send, status, _UNKNOWN_METHOD, headers)


async def _store_failed(_request: Request, _error: Exception) -> Response:
    return Response("The store cannot be used now; try again.", 503, {"retry-after": "5"}, "text/plain")
