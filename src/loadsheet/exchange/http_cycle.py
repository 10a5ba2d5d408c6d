"""One request and its answer on a connection: an answer that is there as a whole leaves as a whole.

Owns: how the parts of an answer become bytes, where they are plain; everything else of it is uvicorn's. Knows no limit and no
operation.
"""

import re
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

# Lines of headers, none of which changes how an answer is sent.
_SOUND = re.compile(
    rb"(?:(?!connection:|transfer-encoding:)[!#$%&'*+.^_`|~0-9a-z-]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)*"
).fullmatch


_SAFE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_TLS_FROM_NOW_ON = (b"strict-transport-security", b"max-age=31536000")


def safe_headers(*, tls: bool) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that every answer has unless it says otherwise: nobody keeps it or guesses its type, and TLS stays."""
    return (*_SAFE, _TLS_FROM_NOW_ON) if tls else _SAFE


class Cycle(RequestResponseCycle):
    """One request and its answer. An answer that is there as a whole leaves as a whole: its head waits for the body, because
    every write is a call of the system, and another one for the client that reads.
    """

    _head: Any = None

    async def send(self, message: Any) -> None:
        """Take a part of the answer from the application."""
        if message["type"] == "http.response.start" and not self.response_started:
            given = {name for name, _ in message["headers"]}
            safe = safe_headers(tls=self.scope["scheme"] == "https")
            more = [header for header in safe if header[0] not in given]
            self._head = {**message, "headers": [*message["headers"], *more]}
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
            return
        whole = self._whole(head, message)
        if whole is None:
            await super().send(head)
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self._leave(whole)

    def _whole(self, head: Mapping[str, Any], message: Mapping[str, Any]) -> bytes | None:
        """The bytes of an answer, if it is one of the plain kind: its length said, its body here, nothing else said of it."""
        body = message.get("body", b"")
        sized = b"content-length", b"%d" % len(body)
        headers = [*self.default_headers, *head["headers"]]
        if sized not in headers or message.get("more_body", False) or self.scope["method"] == "HEAD":
            return None
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        if lines.count(b"\n") != len(headers) or not _SOUND(lines):
            return None
        last = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        return b"".join((STATUS_LINE[head["status"]], lines, last, body))

    def _leave(self, whole: bytes) -> None:
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(whole)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
