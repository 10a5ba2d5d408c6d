"""How one call travels: one connection for each thread, and a total deadline for each call.

The only module that knows the HTTP libraries, so that others can take their place behind `Desk.send`. Each does what it is best
at: requests prepares (URL, headers), urllib3 connects (addresses, TLS and its checks), httptools reads answers; what requests
does on every call for callers that it does not know costs four times the call itself. Owns: connections, the header with the
token, deadlines, the size of an answer. Repeats nothing, follows no redirect, reads neither proxy nor netrc from the environment.
"""

import socket
import ssl
import threading
import time
import zlib
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import requests
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, ProtocolError, SSLError

from loadsheet.contract import Operation
from loadsheet.dispatch.keeping import Kept
from loadsheet.dispatch.outcomes import DEADLINE, PACKED, TOO_LARGE, Failure, Reply
from loadsheet.settings import Settings

_READ_BYTES = 65_536
_HEAD_BYTES_MAX = 262_144  # status line and headers of an answer
_SECRET_LENGTH = 8
_BEGINNING_BYTES = 4_096  # of a body that is kept: what a message about it may quote
_MASK = b"***"
_HEADERS_USED = (b"content-encoding", b"retry-after", b"date")


def trusted_authorities() -> ssl.SSLContext:
    """The TLS context of every connection: certificates and host names are checked against the usual authorities and the
    system's own; TLS 1.2 at least.
    """
    context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
    context.load_default_certs()
    return context


class _Watch:
    """What is known of the call that a thread makes: whether bytes have left, until when it may last, and how to end it."""

    def __init__(self, idle_max_s: float) -> None:
        self.idle_max_s = idle_max_s
        self.idle_since = 0.0
        self.deadline = 0.0
        self.left = False
        self.cut = False
        self.closed = False
        self.lever: socket.socket | None = None

    def begin(self, deadline: float) -> None:
        """A call begins that has to end by `deadline` (monotonic seconds)."""
        self.deadline, self.left, self.cut = deadline, False, False

    def finish(self) -> None:
        """The call is over, and nobody ends it any more."""
        self.idle_since = time.monotonic()
        if self.closed:
            self.let_go()

    def end_it(self) -> None:
        """End the call from another thread: both directions of its connection are shut."""
        self.cut = True
        lever = self.lever
        if lever is not None:
            try:
                lever.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # closed on its own in the same moment

    def hold(self, connected: socket.socket) -> None:
        """Take a lever on a new connection: a second handle of it, since TLS takes the first one over."""
        self.let_go()
        self.closed = False
        self.lever = connected.dup()

    def let_go(self) -> None:
        """Close our handle of a connection that is closed, so that it is closed for the exchange too."""
        lever, self.lever = self.lever, None
        if lever is not None:
            lever.close()


class _Watched(HTTPConnection):
    """A connection that does not outlive the idle limit, and can be ended at any moment."""

    def __init__(self, *args: Any, watch: _Watch, **more: Any) -> None:
        super().__init__(*args, **more)
        self._watch = watch

    @property
    def is_connected(self) -> bool:
        fresh = time.monotonic() - self._watch.idle_since <= self._watch.idle_max_s
        return fresh and super().is_connected

    def connect(self) -> None:
        """Connect anew. Raises HTTPError for whatever stops it, TLS included."""
        try:
            super().connect()
        except ssl.SSLError as error:
            raise SSLError(error) from error
        except (OSError, HTTPException) as error:
            raise ProtocolError("the connection broke before it was ready", error) from error

    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn()
        self._watch.hold(connected)
        return connected

    def close(self) -> None:
        super().close()
        self._watch.closed = True  # the lever stays until the call is over: its answer may still be read


class _WatchedTls(_Watched, HTTPSConnection):
    """The same over TLS."""


class _Answer:
    """One answer after the other of a connection, as the parser reads them. `whole` says that the present one is complete."""

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.begin()

    def begin(self, kept: Kept | None = None) -> None:
        """The next answer is awaited, its body in `kept` if there is one."""
        self.kept = kept
        self.status, self.size, self.read = 0, 0, 0
        self.headers: dict[bytes, bytes] = {}
        self.pieces: list[bytes] = []
        self.headed = self.whole = self.stays = False

    def feed(self, data: bytes) -> None:
        """Take in what came. Raises ProtocolError for what is no HTTP."""
        self.read += len(data)
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.stays = False
            if not self.whole:
                raise ProtocolError(f"the answer is no HTTP: {error}") from error

    def end(self) -> None:
        """The connection was closed. Raises ProtocolError if that is not how this answer ends."""
        sized = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        if not self.headed or sized:
            raise ProtocolError(
                "the connection was closed " + ("in the middle of" if self.read else "without") + " an answer"
            )
        self.whole = True

    # what the parser calls

    def on_message_begin(self) -> None:
        """Another answer begins; behind a whole one it is not ours."""
        self.stays = self.stays and not self.whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        if not self.whole:
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The body follows, unless this only announces the answer (100 to 199)."""
        if not self.whole:
            self.status = self.parser.get_status_code()
            self.headed = self.status >= 200  # noqa: PLR2004 (RFC 9110, 15.2)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self.whole:
            if self.kept is None:
                self.pieces.append(body)
            else:
                self.kept.add(body)
            self.size += len(body)

    def on_message_complete(self) -> None:
        """The answer is whole, or its announcement is over."""
        if self.headed and not self.whole:
            self.whole, self.stays = True, self.parser.should_keep_alive()
        elif not self.headed:
            self.headers.clear()


class Desk:
    """What one thread makes calls with: its connection, and the head of a request for each operation."""

    def __init__(
        self, base_url: str, token: str, settings: Settings, deadlines: "Deadlines", trust: ssl.SSLContext | None
    ) -> None:
        self._base_url = base_url
        self._settings = settings
        self._deadlines = deadlines
        self.token = token
        self._token = token.encode()
        self._watch = _Watch(settings.idle_connection_s)
        parts = urlsplit(base_url)
        host, port, limit = parts.hostname or "", parts.port, settings.connect_timeout_s
        self._connection: _Watched = (
            _Watched(host, port, timeout=limit, watch=self._watch)
            if trust is None
            else _WatchedTls(host, port, timeout=limit, watch=self._watch, ssl_context=trust)
        )
        self._answer = _Answer()
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "loadsheet",
        }
        self._heads: dict[tuple[str, str, str], bytes] = {}

    def send(self, operation: Operation, body: bytes, *, query: str = "", keep: bool = False) -> Reply:
        """One call, once, and everything that may come of it. With `keep` the body of the answer is kept apart, however long."""
        if not keep:
            return self._send(operation, body, query, None)
        kept = Kept(self._token if len(self._token) >= _SECRET_LENGTH else b"", _MASK)
        reply = self._send(operation, body, query, kept)
        if reply.kept is None:
            kept.close()
        return reply

    def _send(self, operation: Operation, body: bytes, query: str, kept: Kept | None) -> Reply:
        began = time.monotonic()
        self._watch.begin(began + self._settings.call_timeout_s)
        self._deadlines.watch(self._watch)
        whole = False
        try:
            self._exchange(b"%b%d\r\n\r\n%b" % (self._head(operation, query), len(body), body), kept)
            whole = self._answer.stays
        except (requests.RequestException, HTTPError, HTTPException, OSError) as error:
            return Reply(failure=self._failure(error), duration_ms=_elapsed_ms(began))
        finally:
            if not whole:
                self._connection.close()
            self._deadlines.unwatch(self._watch)
            self._watch.finish()
        if self._watch.cut:  # an answer without a length ends like a whole one when it is cut
            return Reply(failure=self._overdue(), duration_ms=_elapsed_ms(began))
        return self._reply(began)

    def close(self) -> None:
        """Close the connection. No call may be under way."""
        self._connection.close()
        self._watch.let_go()

    def _head(self, operation: Operation, query: str) -> bytes:
        # Made once for each operation: preparing anew would cost more than sending.
        head = self._heads.get((operation.method, operation.path, query))
        if head is None:
            url = self._base_url + operation.path
            asked = requests.Request(operation.method, f"{url}?{query}" if query else url, headers=self._headers)
            prepared = asked.prepare()
            prepared.headers.pop("Content-Length", None)
            lines = [f"{prepared.method} {prepared.path_url} HTTP/1.1", f"Host: {urlsplit(str(prepared.url)).netloc}"]
            lines += [f"{name}: {value}" for name, value in prepared.headers.items()]
            head = "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")
            self._heads[operation.method, operation.path, query] = head
        return head

    def _exchange(self, request: bytes, kept: Kept | None) -> None:
        """Send a request and read its answer, on the connection there is or on a new one."""
        connection, watch, answer = self._connection, self._watch, self._answer
        if not connection.is_connected:
            connection.close()
            connection.connect()
            connection.sock.settimeout(
                None
            )  # from here on the deadline ends it; a limit of its own would cost two more calls of the system
            self._answer = answer = _Answer()
        if watch.cut or time.monotonic() >= watch.deadline:  # for one: the machine slept between decision and call
            raise ConnectTimeoutError(connection, "the time for this call was over before anything was sent")
        watch.left = True
        answer.begin(kept)
        with suppress(BrokenPipeError):  # who stops reading may have answered already
            connection.sock.sendall(request)
        allowed = self._settings.answer_bytes_max
        while not answer.whole and answer.size <= allowed:
            if data := connection.sock.recv(_READ_BYTES):
                answer.feed(data)
            else:
                answer.end()
            if answer.read > _HEAD_BYTES_MAX and not answer.headed:
                raise ProtocolError(f"the head of the answer is larger than {_HEAD_BYTES_MAX} bytes")

    def _reply(self, began: float) -> Reply:
        answer = self._answer
        headers = {name: answer.headers.get(name, b"").decode("latin-1") for name in _HEADERS_USED}
        said = (headers[b"retry-after"], headers[b"date"])
        kept = answer.kept.finish() if answer.kept else None
        packed = b"".join(answer.pieces)
        if kept is not None:
            if (
                headers[b"content-encoding"].lower() in ("", "identity")
                and answer.size <= self._settings.answer_bytes_max
            ):
                beginning = kept.read(_BEGINNING_BYTES)
                return Reply(answer.status, beginning, *said, duration_ms=_elapsed_ms(began), kept=kept)
            packed = kept.read()
        found = self._unpack(packed, headers[b"content-encoding"])
        if isinstance(found, Failure):
            return Reply(answer.status, failure=found, duration_ms=_elapsed_ms(began))
        return Reply(answer.status, self._without_token(found), *said, duration_ms=_elapsed_ms(began))

    def _unpack(self, packed: bytes, encoding: str) -> bytes | Failure:
        allowed = self._settings.answer_bytes_max
        found = packed
        if encoding.lower() in ("gzip", "x-gzip"):
            try:
                unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
                found = unpacker.decompress(packed, allowed + 1)
            except zlib.error as error:
                return Failure(PACKED, f"the answer cannot be unpacked ({error})", left=True)
            if len(found) <= allowed and not unpacker.eof:
                return Failure(PACKED, "the packed answer is cut short", left=True)
        elif encoding.lower() not in ("", "identity"):
            return Failure(PACKED, f"the answer is packed as {encoding[:40]!r}, which was not asked for", left=True)
        if len(found) > allowed:
            return Failure(TOO_LARGE, f"the answer is larger than {allowed} bytes (answer_bytes_max)", left=True)
        return found

    def _failure(self, error: Exception) -> Failure:
        if self._watch.cut:
            return self._overdue()
        kind = type(error)
        text = self._without_token(f"{kind.__name__}: {_said(error)}".encode()).decode("utf-8", "replace")
        return Failure(f"{kind.__module__}.{kind.__qualname__}", text, self._watch.left)

    def _overdue(self) -> Failure:
        limit = self._settings.call_timeout_s
        return Failure(DEADLINE, f"the call was not over within {limit:g} s (call_timeout_s)", self._watch.left)

    def _without_token(self, said: bytes) -> bytes:
        # An exchange that repeats the token must not get it into ledger and reports. A word is not taken for a secret.
        if len(self._token) >= _SECRET_LENGTH and self._token in said:
            return said.replace(self._token, _MASK)
        return said


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _said(error: BaseException) -> str:
    """What the innermost cause said, without the addresses of objects that the library shows."""
    while True:
        inner = next((part for part in error.args if isinstance(part, BaseException)), error.__cause__)
        if inner is None:
            return str(error) or type(error).__name__
        error = inner


class Deadlines:
    """Ends calls that outlast the total deadline, however busily bytes drip in. All calls have the same time, so the one that
    began first is over first, and none can be over sooner than that time from now.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: dict[_Watch, None] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, watch: _Watch) -> None:
        """From now on, until `unwatch`, this call ends at its deadline."""
        with self._lock:
            self._running[watch] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="deadlines", daemon=True)
                self._thread.start()

    def unwatch(self, watch: _Watch) -> None:
        """The call is over."""
        with self._lock:
            self._running.pop(watch, None)

    def close(self) -> None:
        """End the watching thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _keep(self) -> None:
        while not self._closed.wait(self._next_s()):
            with self._lock:
                now = time.monotonic()
                for watch in [watch for watch in self._running if watch.deadline <= now]:
                    del self._running[watch]
                    watch.end_it()

    def _next_s(self) -> float:
        with self._lock:
            first = next(iter(self._running), None)
        return self._limit_s if first is None else max(0.0, first.deadline - time.monotonic())
