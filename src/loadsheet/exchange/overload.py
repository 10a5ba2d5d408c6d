"""Answers to calls that nobody looked into: too much at once (429), or the store cannot be used (503), each with the time to wait.

Owns: their shape, which is that of the operation's own refusal. Knows neither why a call is turned away nor a socket.
"""

from starlette.types import Scope, Send

from loadsheet.contract import OPERATIONS, Fault, Operation, refusal
from loadsheet.exchange.wire import encode

STORE_RETRY_S = 5

_OPERATIONS = {(operation.method, operation.path): operation for operation in OPERATIONS}
_STORE_FAILED = "cannot be looked at: the store cannot be used now; try again"


def operation_of(scope: Scope) -> Operation:
    """The operation that a request is for; the first one where it is for none."""
    return _OPERATIONS.get((scope["method"], scope["path"]), OPERATIONS[0])


async def turn_away(scope: Scope, send: Send, status: int, text: str, retry_s: int, *more: tuple[bytes, bytes]) -> None:
    """Answer with the operation's own refusal, `Retry-After: retry_s` (seconds) and `more` headers."""
    body = encode(refusal(operation_of(scope), (Fault("", text),)))
    sized = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))
    headers = [*sized, (b"retry-after", b"%d" % retry_s), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def store_failed(scope: Scope, send: Send) -> None:
    """Answer 503; the text is the same whatever the cause, which stands in the log."""
    await turn_away(scope, send, 503, _STORE_FAILED, STORE_RETRY_S)
