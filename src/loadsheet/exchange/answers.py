"""The answers of the interface as Starlette responses: JSON bodies, refusals of calls that nobody examined, and the safe headers of all.

A call is refused unexamined with 429 if there are too many at once, and with 503 if the store cannot be used. Both say when to retry.
"""

from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loadsheet.contract import OPERATIONS, UNKNOWN_METHOD, Fault, Operation, refusal
from loadsheet.exchange.wire import encode

STORE_RETRY_S = 5
_NOT_ALLOWED = 405

_OPERATIONS = {(operation.method, operation.path): operation for operation in OPERATIONS}
_STORE_FAILED = "cannot be looked at: the store cannot be used now; try again"
_SAFE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")


class JsonResponse(Response):
    """A JSON body with exact numbers."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body in bytes."""
        return encode(content)


class NoResponse(Response):
    """Sends nothing: the client has closed the connection."""

    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        """Send nothing."""


def operation_of(scope: Scope) -> Operation:
    """The operation of a request; the first operation if the request is for none."""
    return _OPERATIONS.get((scope["method"], scope["path"]), OPERATIONS[0])


def refused_unexamined(scope: Scope, status: int, text: str, retry_s: int, **headers: str) -> Response:
    """The operation's own refusal with `Retry-After: retry_s` (seconds) and more `headers`."""
    body = refusal(operation_of(scope), (Fault("", text),))
    return JsonResponse(body, status, {"retry-after": str(retry_s), **headers})


def store_failed(scope: Scope) -> Response:
    """The 503 of a store that cannot be used. Its text is always the same; the cause is in the log."""
    return refused_unexamined(scope, 503, _STORE_FAILED, STORE_RETRY_S)


def unknown_method(status: int, allowed: str) -> Response:
    """The answer to a path or method that the interface does not have. A 405 names the methods that are allowed."""
    return JsonResponse(UNKNOWN_METHOD, status, {"allow": allowed} if status == _NOT_ALLOWED else None)


def safe_headers(*, tls: bool) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of every answer that does not set them itself: do not cache, do not guess types, keep to TLS."""
    return (*_SAFE, _TLS_ONLY) if tls else _SAFE


class SafeHeaders:
    """Middleware: adds the safe headers to every answer."""

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
