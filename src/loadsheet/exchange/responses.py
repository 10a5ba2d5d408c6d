"""The answers of the interface as Starlette responses: JSON bodies, listings, refusals without examination, security headers.

A call is refused without examination with 429 if there are too many at once, and with 503 if the store is not available. Both say
when to retry.

A listing is read in one transaction, written in groups of records, and sent in pieces, so memory use stays constant. A large one
is kept in an unnamed temporary file until it is sent. So a slow client does not prolong the transaction, and the length of the
answer is known before the first byte is sent.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loadsheet.contract import OPERATIONS, Fault, Operation, Record, When, as_listed, listing, refusal
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.record_store import Store, StoreFailed
from loadsheet.exchange.wire import encode, stored

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
    body = refusal(operation_of(scope), (Fault("", text),))
    return JsonResponse(body, status, {"retry-after": str(retry_s), **headers})


def store_failed(scope: Scope) -> Response:
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


class Listings:
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
    head, _, tail = encode(listing([_GAP], page_size=page_size, total_count=total)).partition(b"[0]")  # type: ignore[list-item]  # any JSON will do
    page.write(head + b"[")
    rest, between = iter(contents), b""
    while group := list(islice(rest, _GROUP)):
        page.write(between + b",".join(_listed(record, group)))
        between = b","
    page.write(b"]" + tail)


def _listed(record: Record, contents: Sequence[str]) -> Iterator[bytes]:
    if any(field.when is When.LISTED for field in record.fields):
        return (encode(as_listed(record, stored(content))) for content in contents)
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
