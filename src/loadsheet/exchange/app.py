"""The HTTP interface as a Starlette application: token, route, body, validation, effect, answer, in this order.

It decides the status and body of each answer (interface: Authentication, Endpoints, Errors). It knows no SQL and no socket. No
body that a client can send causes a 5xx; 503 means that the store is not available.

A call is refused without examination with 429 if there are too many at once, and with 503 without a store. Both say when to retry.

A listing is read in one transaction, written in groups of records, and sent in pieces, so memory use stays constant. A large one
is kept in an unnamed temporary file until it is sent. So a slow client does not prolong the transaction, and the length of the
answer is known before the first byte is sent.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from math import ceil
from tempfile import SpooledTemporaryFile
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loadsheet.contract import (
    LISTINGS,
    OPERATIONS,
    PAGE_SIZE,
    UNAUTHORISED,
    UNKNOWN_METHOD,
    WRITES,
    Assumptions,
    Checker,
    Fault,
    Operation,
    Record,
    When,
    as_listed,
    body_checker,
    listing_body,
    refusal_body,
    success_body,
)
from loadsheet.errors import SettingsError
from loadsheet.exchange.auth import WAIT_MAX_S, Authenticator, Caller, WrongTokenLimit
from loadsheet.exchange.effects import Call, key_text
from loadsheet.exchange.record_store import Store, StoreFailed
from loadsheet.exchange.wire import BadBody, decode_stored, encode, parse_body

CALL_CONTEXT = "loadsheet.note"
"""The key of a request's `CallContext` in its scope, if the caller of the application wants one."""

_BEARER = b"Bearer "
_NOT_AN_OBJECT = "must be a JSON object"
_FAULTS_MAX = 1_000  # named in one answer
_PAGE_SIZE_MAX = 10**18 - 1  # no store holds more records, and int() is slow for many more digits

RETRY_S = 5
NOT_A_PAGE_SIZE = "must be a whole number of 1 or more"
MEMORY_MAX = 1_000_000  # bytes of an answer; a larger one goes into a file
FILES_MAX = 32  # at the same time: clients may be slow, and disk space is limited

_GROUP = 100  # records
_PIECE = 262_144  # bytes
_GAP = msgspec.Raw(b"0")  # placeholder for the records of an answer
_TOO_MANY_PAGES = f"too many large pages are being sent ({FILES_MAX}); try again, or ask for a smaller page_size"

_OPERATIONS = {(operation.method, operation.path): operation for operation in OPERATIONS}
_STORE_FAILED = "cannot be processed: the store is not available; try again"
_SAFE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")


@dataclass(slots=True)
class CallContext:
    """What the application notes about a call: the key of the caller's party, the body as received, and its records once they are
    valid. Body and records are dropped after the call.
    """

    party: str | None = None
    body: bytes = b""
    records: Sequence[Mapping[str, Any]] = ()


def create_app(
    store: Store, token: str | None, assumptions: Assumptions, *, wrong_tokens: WrongTokenLimit | None = None
) -> Starlette:
    """The exchange as a Starlette application on an open store.

    `token` is the operator's own, in addition to those in the database (None: only those). `wrong_tokens` counts wrong tokens and
    may be shared. Raises SettingsError for a token that no header can carry.
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise SettingsError("token: empty, or with spaces or non-ASCII letters. Use letters, digits and -._~+/=")
    pages = _Listings(store, assumptions)
    routes = [
        Route(operation.path, _Write(operation, store, assumptions).answer, methods=[operation.method])
        for operation in WRITES
    ]
    routes += [Route(path, pages.answer, methods=["GET"]) for path in {operation.path for operation in LISTINGS}]
    tokens = _BearerTokens(Authenticator(token, store), wrong_tokens or WrongTokenLimit())
    app = Starlette(
        routes=routes,
        middleware=[Middleware(AuthenticationMiddleware, backend=tokens, on_error=_not_admitted)],
        exception_handlers={
            StoreFailed: _no_store,
            ClientDisconnect: _client_gone,
            HTTPException: partial(_unrouted, assumptions.unknown_path),
        },
    )
    app.router.redirect_slashes = False
    return app


class _NotAdmittedError(AuthenticationError):
    """The request is not admitted; `response` is its answer."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class _BearerTokens(AuthenticationBackend):
    """Finds the caller by the bearer token. A request is not examined further until its token is valid."""

    def __init__(self, authenticator: Authenticator, wrong_tokens: WrongTokenLimit) -> None:
        self._authenticator, self._wrong_tokens = authenticator, wrong_tokens

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Caller]:  # type: ignore[override]  # our own user
        """The caller. Raises _NotAdmittedError."""
        scope = conn.scope
        token = bearer_token(scope)
        try:
            caller = await self._authenticator.caller(token) if token else None
        except StoreFailed:
            raise _NotAdmittedError(_store_failed(scope)) from None
        if caller is None:
            raise _NotAdmittedError(await self._refusal(scope, token))
        if context := scope.get(CALL_CONTEXT):
            context.party = key_text(caller.party)
        return AuthCredentials(), caller

    async def _refusal(self, scope: Scope, token: str) -> Response:
        if await self._wrong_tokens.delay_refusal(scope.get("client"), token):
            return JsonResponse(UNAUTHORISED, 401, {"www-authenticate": "Bearer"})
        return refused_unexamined(scope, 429, self._wrong_tokens.refusal_text(), ceil(WAIT_MAX_S))


def _not_admitted(_connection: HTTPConnection, error: AuthenticationError) -> Response:
    return cast("_NotAdmittedError", error).response


async def _no_store(request: Request, _error: Exception) -> Response:
    return _store_failed(request.scope)


async def _client_gone(_request: Request, _error: Exception) -> Response:
    return NoResponse()


class _Write:
    """The end point of one write operation."""

    def __init__(self, operation: Operation, store: Store, assumptions: Assumptions) -> None:
        self._operation, self._store, self._assumptions = operation, store, assumptions
        self._all_counts = assumptions.unknown_fields == "reject" and assumptions.null_fields == "reject"

    @cached_property
    def _check(self) -> Checker:
        """Compiled at the first call, because a run of the translator needs only a few."""
        return body_checker(self._operation, self._assumptions, faults_max=_FAULTS_MAX)

    async def answer(self, request: Request) -> Response:
        """Check the body and apply the records. Raises StoreFailed."""
        context: CallContext = request.scope.get(CALL_CONTEXT) or CallContext()
        try:
            context.body = await _read(request, self._assumptions.body_bytes_max)
            return await self._apply(context, request.user)
        except BadBody as error:
            return self._refuse((Fault("", str(error)),))

    async def _apply(self, context: CallContext, caller: Caller) -> Response:
        body: Any = parse_body(context.body)
        faults = self._check(body)
        if any(fault.index is None for fault in faults):
            return self._refuse(faults)
        call = self._call(body, faults, context.body, caller)
        if not faults:
            context.records = call.records
        effect = await self._store.apply(call, self._assumptions)
        if effect.faults:
            return self._refuse(effect.faults)
        return JsonResponse(
            success_body(self._operation, call.records[0], self._assumptions, service_order=effect.number)
        )

    def _call(self, body: Any, faults: Sequence[Fault], raw: bytes, caller: Caller) -> Call:
        wrong = {fault.index for fault in faults}
        good = {place: record for place, record in enumerate(self._operation.records(body)) if place not in wrong}
        records: Iterable[dict[str, Any]] = good.values()
        if not self._all_counts:
            records = (_counted(self._operation.record, record, self._assumptions) for record in records)
        return Call(self._operation, tuple(records), tuple(good), tuple(faults), raw, key_text(caller.party))

    def _refuse(self, faults: Sequence[Fault]) -> Response:
        return JsonResponse(refusal_body(self._operation, faults, index_base=self._assumptions.index_base), 400)


class _Listings:
    """The end point that both listings share; the query selects one of them."""

    def __init__(self, store: Store, assumptions: Assumptions) -> None:
        self._pages, self._assumptions = _ListingPages(store), assumptions
        self._by_subject = {operation.subject: operation for operation in LISTINGS}
        self._asks_for_tenders = set(parse_qsl(assumptions.tender_listing_query, keep_blank_values=True))

    async def answer(self, request: Request) -> Response:
        """The first page. Raises StoreFailed."""
        query = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        operation = self._operation(query)
        if request.method != operation.method:  # Starlette adds HEAD to every GET; the interface has no HEAD
            raise HTTPException(405, headers={"Allow": operation.method})
        try:
            body = await _read(request, self._assumptions.body_bytes_max)
            page_size = self._page_size(dict(query), body)
        except BadBody as error:
            return self._refuse(operation, Fault("", str(error)))
        if page_size is None:
            return self._refuse(operation, Fault(PAGE_SIZE, NOT_A_PAGE_SIZE))
        return await self._pages.first(request, operation, page_size)

    def _operation(self, query: Sequence[tuple[str, str]]) -> Operation:
        tenders = self._asks_for_tenders and self._asks_for_tenders <= set(query)
        return self._by_subject["tender" if tenders or self._assumptions.plain_listing == "tenders" else "order"]

    def _page_size(self, query: dict[str, str], body: bytes) -> int | None:
        """The page size from the query or else the body, reduced to the maximum; None if it is not a positive whole number."""
        digits = str(self._given(query, body)).lstrip("0")
        if not (digits.isascii() and digits.isdigit()):
            return None
        allowed = self._assumptions.page_size_max or _PAGE_SIZE_MAX
        return allowed if len(digits) > len(str(_PAGE_SIZE_MAX)) else min(int(digits), allowed)

    def _given(self, query: dict[str, str], body: bytes) -> object:
        if PAGE_SIZE in query:
            return query[PAGE_SIZE]
        value = parse_body(body) if body else {}
        if not isinstance(value, dict):
            raise BadBody(_NOT_AN_OBJECT)
        given = value.get(PAGE_SIZE, self._assumptions.page_size_default)
        absent = given is None and self._assumptions.null_fields == "absent"
        return self._assumptions.page_size_default if absent else given

    def _refuse(self, operation: Operation, fault: Fault) -> Response:
        return JsonResponse(refusal_body(operation, (fault,)), 400)


async def _unrouted(unknown_path: int, _request: Request, error: Exception) -> Response:
    """The answer to an unknown path or method. A 405 names the allowed methods (RFC 9110, section 15.5.6)."""
    methods = (cast("HTTPException", error).headers or {}).get("Allow", "").split(", ")
    allowed = ", ".join(method for method in methods if method != "HEAD")  # Starlette adds it to every GET
    return JsonResponse(UNKNOWN_METHOD, 405 if allowed else unknown_path, {"allow": allowed} if allowed else None)


def bearer_token(scope: Scope) -> str:
    """The bearer token of a request; empty without one, or with several."""
    values: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1 or not (value := values[0].strip()).startswith(_BEARER):
        return ""
    return value.removeprefix(_BEARER).decode("latin-1")


def _counted(record: Record, value: dict[str, Any], assumptions: Assumptions) -> dict[str, Any]:
    """The fields of a record that count if unknown fields are ignored or null means absent; the others are neither stored nor merged."""
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


async def _read(request: Request, limit: int) -> bytes:
    """The body of a request. Raises BadBody as soon as it exceeds `limit` bytes, and ClientDisconnect."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BadBody(f"is larger than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


class JsonResponse(Response):
    """A JSON body with exact numbers."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the body."""
        return encode(content)


class NoResponse(Response):
    """Sends nothing, because the client has closed the connection."""

    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        """Send nothing."""


def operation_of(scope: Scope) -> Operation:
    """The operation of a request; the first operation for any other request."""
    return _OPERATIONS.get((scope["method"], scope["path"]), OPERATIONS[0])


def refused_unexamined(scope: Scope, status: int, text: str, retry_s: int, **headers: str) -> Response:
    """The operation's own refusal with `Retry-After: retry_s` (seconds) and more `headers`."""
    body = refusal_body(operation_of(scope), (Fault("", text),))
    return JsonResponse(body, status, {"retry-after": str(retry_s), **headers})


def _store_failed(scope: Scope) -> Response:
    """The 503 for a store that is not available. Its text is fixed; the cause is in the log."""
    return refused_unexamined(scope, 503, _STORE_FAILED, RETRY_S)


def safe_headers(*, tls: bool) -> tuple[tuple[bytes, bytes], ...]:
    """The default security headers of every answer: no caching, no type sniffing, TLS only."""
    return (*_SAFE, _TLS_ONLY) if tls else _SAFE


class SafeHeaders:
    """Middleware: adds the security headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        safe = safe_headers(tls=scope.get("scheme") == "https")

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(header for header in safe if header[0] not in present)]
            await send(message)

        await self._app(scope, receive, send_safely)


class _ListingPages:
    """The listings of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._room = threading.BoundedSemaphore(FILES_MAX)

    async def first(self, request: Request, operation: Operation, page_size: int) -> Response:
        """The first page of a listing; 429 if too many large ones are being sent. Raises StoreFailed."""

        def written(total: int, contents: Iterable[str]) -> _Page:
            with ExitStack() as failing:
                page = failing.enter_context(closing(_Page(self._room)))
                try:
                    _write(page, operation.record, contents, page_size, total)
                except OSError as error:
                    raise StoreFailed(f"a page cannot be written ({error.strerror})") from error
                failing.pop_all()
            return page

        try:
            page = await self._store.read_page(operation.subject, page_size, key_text(request.user.party), written)
        except _TooManyFiles:
            return refused_unexamined(request.scope, 429, _TOO_MANY_PAGES, RETRY_S)
        return _PageResponse(page)


class _TooManyFiles(Exception):
    """Too many large pages are in files."""


class _Page(SpooledTemporaryFile[bytes]):
    """Bytes that are written and then read once. Beyond `MEMORY_MAX` they go into a file, which needs a place in `room`."""

    def __init__(self, room: threading.BoundedSemaphore) -> None:
        super().__init__(MEMORY_MAX)
        self._room, self._has_place = room, False

    def rollover(self) -> None:
        """Move the bytes into a file. Raises _TooManyFiles, and OSError."""
        if not self._has_place and not self._room.acquire(blocking=False):
            raise _TooManyFiles
        self._has_place = True
        super().rollover()

    def close(self) -> None:
        super().close()
        if self._has_place:
            self._has_place = False
            self._room.release()


def _write(page: _Page, record: Record, contents: Iterable[str], page_size: int, total: int) -> None:
    head, _, tail = encode(listing_body([_GAP], page_size=page_size, total_count=total)).partition(b"[0]")  # type: ignore[list-item]  # any JSON will do
    page.write(head + b"[")
    rest, between = iter(contents), b""
    while group := list(islice(rest, _GROUP)):
        page.write(between + b",".join(_listed(record, group)))
        between = b","
    page.write(b"]" + tail)


def _listed(record: Record, contents: Sequence[str]) -> Iterator[bytes]:
    if any(field.when is When.LISTED for field in record.fields):
        return (encode(as_listed(record, decode_stored(content))) for content in contents)
    return (content.encode() for content in contents)  # as stored, without decoding


class _PageResponse(Response):
    """A page that is sent in pieces and then closed."""

    media_type = "application/json"

    def __init__(self, page: _Page) -> None:
        self._page, self._size = page, page.tell()
        super().__init__(headers={"content-length": str(self._size)})

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the page."""
        with closing(self._page) as page:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            page.seek(0)
            left = self._size
            while piece := page.read(_PIECE):
                left -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
