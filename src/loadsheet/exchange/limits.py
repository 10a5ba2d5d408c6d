"""The limits for each client: connections, size of headers, time, calls per second. Limits of bodies are in `app`.

Owns: the limits and their refusals: an answer in the interface's own shape if possible, else closing the connection. Also here,
because uvicorn does not handle them: invalid HTTP, `Upgrade` requests, half-closed connections.
"""

import asyncio
import time
from enum import Enum, auto
from math import ceil
from typing import Any

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from loadsheet.contract import OPERATIONS, UNKNOWN_METHOD, Fault, refusal_body
from loadsheet.exchange.app import bearer_token, operation_of, refused_unexamined, safe_headers
from loadsheet.exchange.auth import LeakyBuckets
from loadsheet.exchange.wire import encode
from loadsheet.settings.sections import ServerSettings

BUSY_RETRY_S = 5
_DROPPED_MAX = 64_000_000  # bytes of a body after its answer: simple clients send everything before they read
_DRAINED_MAX = 1_000_000  # bytes of an ignored body


class RateLimit:
    """Middleware: limits the calls per second for each token; others are answered 429 with the time to wait."""

    def __init__(self, app: ASGIApp, per_second: float) -> None:
        self._app, self._per_second = app, per_second
        self._buckets = LeakyBuckets(per_second, 0.0, time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        token = bearer_token(scope)  # not the header: with spaces behind it, the same token would be another one
        wait = self._buckets.wait(token) if token else 0.0
        if not wait:
            await self._app(scope, receive, send)
            return
        seconds = ceil(wait)
        text = f"more than {self._per_second:g} calls per second; try again in {seconds} s"
        await refused_unexamined(scope, 429, text, seconds)(scope, receive, send)


class _Stage(Enum):
    """The part of a request that is expected next."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()


class LimitedProtocol(HttpToolsProtocol):
    """One connection of uvicorn's server with limits on it."""

    def __init__(
        self,
        limits: ServerSettings,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self.timeout_keep_alive = limits.keep_alive_s  # type: ignore[assignment]  # the loop takes fractions too
        self._stage, self._stages = _Stage.HEAD, 0
        self._watched = -1
        self._unfinished = self._behind = self._dropped = self._fed = 0
        self._of_body = False  # whether the last data received held a part of a body
        self._upgrading = False
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the class above
        """A new connection. If there are too many, it replaces an idle one or is refused with 429."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections_max and not self._make_room():
            self.app = _busy
            if len(self.connections) > 2 * self._limits.connections_max:
                transport.abort()
                return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        for timer in (self._deadline, self._stalled):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; an invalid request is refused at once."""
        self._unset_keepalive_if_required()
        self._fed, self._of_body = len(data), False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            large = self._stage is _Stage.BODY and self._is_too_large()
            self._refuse(self._too_large if large else "is not a request in HTTP/1.1")
            return
        self._unfinished = self._unfinished + len(data) if self._stage is _Stage.HEAD else 0
        if self._unfinished > self._limits.header_bytes_max:
            self._refuse(self._too_large)
            return
        self._behind = self._behind + len(data) if self._stage is _Stage.BODY and not self._of_body else 0
        if self._behind > self._limits.header_bytes_max:
            self._refuse(f"has more than {self._limits.header_bytes_max} bytes of trailers after its body")
            return
        self._watch()

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio asks whether to keep the connection open
        """The client will send no more data, but may still wait for an answer."""
        if self.cycle and not self.cycle.more_body and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            return not self.transport.get_extra_info("sslcontext")  # TLS has no half-closed connections
        return None

    def pause_writing(self) -> None:
        """The client does not read its answer; start the timeout."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._limits.send_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again; stop the timeout."""
        super().resume_writing()
        if self._stalled:
            self._stalled.cancel()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._dropped = 0
        self._enter(_Stage.HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. Trailers after the body are dropped."""
        if self._stage is _Stage.HEAD:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """A chunk of the body begins."""
        self._of_body = True

    def on_headers_complete(self) -> None:
        """The headers are read and checked: the application starts, or waits until earlier requests are answered."""
        self._enter(_Stage.BODY)
        self._upgrading = self.parser.should_upgrade()
        # A header counts at most a quarter more than its bytes on the wire, so short messages need no exact count.
        if self._unfinished + self._fed > self._limits.header_bytes_max // 2 and self._is_too_large():
            raise ValueError(self._too_large)  # the parser turns it into its own error and stops
        if not self._names_one_host():
            raise ValueError("Host")  # RFC 9112, section 3.2
        if not self._is_coded_as_chunks():
            raise ValueError("Transfer-Encoding")  # RFC 9112, section 6.1
        if self._upgrading:
            return
        if httptools.parse_url(self.url).fragment is not None:
            raise ValueError("fragment")  # RFC 9112, section 3.2
        super().on_headers_complete()
        path = self.scope["raw_path"].decode("ascii")
        if "%2f" in path.lower():  # with the slash unescaped, a proxy that allows some paths would see another path
            self.scope["path"] = path

    def on_body(self, body: bytes) -> None:
        """A part of the body. Data after an early answer is dropped, up to a limit."""
        self._of_body = True
        if self._upgrading:
            return
        cycle = self.cycle
        if cycle.response_complete:
            self._dropped += len(body)
            if self._dropped > _DROPPED_MAX:
                self.transport.close()
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The request is read."""
        self._enter(_Stage.NOTHING)
        if not self._upgrading and not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def _names_one_host(self) -> bool:
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0")

    def _is_coded_as_chunks(self) -> bool:
        """Whether the only transfer coding, if any, is chunked. HTTP/1.0 has no codings."""
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        return all(coding == b"chunked" for coding in codings) and not (
            codings and self.parser.get_http_version() == "1.0"
        )

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def _too_large(self) -> str:
        return f"has headers of more than {self._limits.header_bytes_max} bytes"

    def _is_too_large(self) -> bool:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers or ())
        return size > self._limits.header_bytes_max

    def _enter(self, stage: _Stage) -> None:
        self._stage = stage
        self._stages += 1

    def _make_room(self) -> bool:
        """Close a connection that is idle between two requests; False without one."""
        idle = (other for other in self.connections if other.timeout_keep_alive_task)  # type: ignore[union-attr]  # http only
        if other := next(idle, None):
            other.transport.close()
        return other is not None

    def _watch(self) -> None:
        """Start the timeout of the request's present stage, once."""
        if self._stages == self._watched:
            return
        self._watched = self._stages
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None
        if self._stage is not _Stage.NOTHING:
            seconds = self._limits.header_s if self._stage is _Stage.HEAD else self._limits.body_s
            self._deadline = self.loop.call_later(seconds, self._late, seconds)

    def _late(self, seconds: float) -> None:
        if self._stages == 0:  # no byte was received
            self.transport.close()
        else:
            self._refuse(f"did not arrive within {seconds:g} s")

    def _refuse(self, text: str, status: int = 400) -> None:
        """Answer the request that is being read and close. Only close if the client would match the answer to another request."""
        running = self._running
        if running and not running.response_complete and (running is not self.cycle or not running.more_body):
            # An earlier request is still running: only its answer may be sent, then the connection ends.
            running.keep_alive = False
            self.pipeline.clear()
            self.flow.pause_reading()
            return
        begun = running is not None and running.response_started and not running.response_complete
        unread = running is self.cycle and self._stage is _Stage.BODY
        unread_answered = unread and running is not None and running.more_body and running.response_started
        if not begun and not unread_answered and not self.transport.is_closing():
            head, body = self._refusal(text, status)
            self.transport.write(head + body)
        self.transport.close()

    def _refusal(self, text: str, status: int) -> tuple[bytes, bytes]:
        known = self.scope is not None and self._stage is _Stage.BODY and "path" in self.scope
        operation = operation_of(self.scope) if known else OPERATIONS[0]  # type: ignore[arg-type]  # TypedDicts are mappings
        body = encode(UNKNOWN_METHOD if status == 405 else refusal_body(operation, (Fault("", text),)))
        phrase = {400: b"Bad Request", 405: b"Method Not Allowed"}[status]
        sized = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
        sized += b"".join(b"%b: %b\r\n" % header for header in safe_headers(tls=self.scheme == "https")) + b"\r\n"
        return b"HTTP/1.1 %d %s\r\n" % (status, phrase) + sized, body

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the request again without its upgrade headers (RFC 9110, section 7.8: a server may ignore them).

        The parser would read the data after such headers as the other protocol, and the body would be lost.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse("", status=405)
            return
        kept = [(name, value) for name, value in self.headers if name not in (b"upgrade", b"http2-settings")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in kept)
        version = self.parser.get_http_version().encode("ascii")
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(method + b" " + self.url + b" HTTP/" + version + b"\r\n" + lines + b"\r\n" + rest)


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    read = 0
    while read < _DRAINED_MAX:  # with unread bytes the system would reset the connection before the answer arrives
        message = await receive()
        read += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    # 429, not 503, because it guarantees that nothing happened
    text = "too many connections are open; try again"
    await refused_unexamined(scope, 429, text, BUSY_RETRY_S, connection="close")(scope, receive, send)
