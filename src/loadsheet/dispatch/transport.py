"""How one call travels: a session with one connection for each thread, and a total deadline for each call.

The only module that knows the HTTP library, so that a faster one can take its place behind `Desk.send`. Owns: connections, the
header with the token, deadlines, the size of an answer. Repeats nothing, follows no redirect, reads neither proxy nor netrc from
the environment.
"""

import socket
import ssl
import threading
import time
import zlib
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, MaxRetryError

from loadsheet.contract import Operation
from loadsheet.dispatch.outcomes import DEADLINE, PACKED, TOO_LARGE, Failure, Reply
from loadsheet.settings import Settings

_READ_BYTES = 65_536
_SECRET_LENGTH = 8


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
    """A connection that tells its watch when bytes leave, does not outlive the idle limit, and can be ended at any moment."""

    def __init__(self, *args: Any, watch: _Watch, **more: Any) -> None:
        super().__init__(*args, **more)
        self._watch = watch

    @property
    def is_connected(self) -> bool:
        fresh = time.monotonic() - self._watch.idle_since <= self._watch.idle_max_s
        return fresh and super().is_connected

    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn()
        self._watch.hold(connected)
        return connected

    def send(self, data: Any) -> None:
        watch = self._watch
        if not watch.left:
            if self.sock is None:
                self.connect()
            if watch.cut or time.monotonic() >= watch.deadline:  # for one: the machine slept between decision and call
                raise ConnectTimeoutError(self, "the time for this call was over before anything was sent")
            watch.left = True
        super().send(data)

    def close(self) -> None:
        super().close()
        self._watch.closed = True  # the lever stays until the call is over: its answer may still be read


class _WatchedTls(_Watched, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTls


class _Adapter(HTTPAdapter):
    """Sends over one pool that holds one connection, and never again on its own account. It leaves out what the library does for
    callers that it does not know (proxies, cookies, encodings): a third of the cost of a call.
    """

    def __init__(self, pool: HTTPConnectionPool) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)
        self._pool = pool

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool

    def cert_verify(self, *_: Any, **__: Any) -> None:
        """The pool's own TLS context verifies."""

    def request_url(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> str:
        target: str = request.target  # type: ignore[attr-defined]  # set by Desk, so that no URL is taken apart for each call
        return target

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        response = requests.Response()
        response.status_code, response.headers, response.raw = resp.status, resp.headers, resp
        response.request = req
        return response

    def close(self) -> None:
        self._pool.close()
        super().close()


class Desk:
    """What one thread makes calls with: a session, its connection, and a prepared request for each operation."""

    def __init__(
        self, base_url: str, token: str, settings: Settings, deadlines: "Deadlines", trust: ssl.SSLContext | None
    ) -> None:
        self._base_url = base_url
        self._settings = settings
        self._deadlines = deadlines
        self._token = token.encode()
        self._watch = _Watch(settings.idle_connection_s)
        self._timeout = Timeout(connect=settings.connect_timeout_s, read=settings.call_timeout_s)
        parts = urlsplit(base_url)
        pool = (
            _Pool(parts.hostname or "", parts.port, watch=self._watch)
            if trust is None
            else _TlsPool(parts.hostname or "", parts.port, watch=self._watch, ssl_context=trust)
        )
        self._adapter = _Adapter(pool)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount(base_url, self._adapter)
        self._session.headers.clear()
        self._session.headers.update(
            {
                "Authorization": f"Bearer {token}",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
                "User-Agent": "loadsheet",
            }
        )
        self._requests: dict[tuple[str, str, str], requests.PreparedRequest] = {}

    def send(self, operation: Operation, body: bytes, *, query: str = "") -> Reply:
        """One call, once, and everything that may come of it."""
        prepared = self._request(operation, query)
        prepared.body = body or None
        prepared.headers["Content-Length"] = str(len(body))
        began = time.monotonic()
        self._watch.begin(began + self._settings.call_timeout_s)
        self._deadlines.watch(self._watch)
        try:
            response = self._adapter.send(prepared, stream=True, timeout=self._timeout)  # type: ignore[arg-type]  # the stubs do not know urllib3's Timeout here
            try:
                status, headers = response.status_code, response.headers
                packed = self._read(response)
            finally:
                response.close()
        except (requests.RequestException, HTTPError, HTTPException, OSError) as error:
            return Reply(failure=self._failure(error), duration_ms=_elapsed_ms(began))
        finally:
            self._deadlines.unwatch(self._watch)
            self._watch.finish()
        if self._watch.cut:  # an answer without a length ends like a whole one when it is cut
            return Reply(failure=self._overdue(), duration_ms=_elapsed_ms(began))
        found = self._unpack(packed, headers.get("Content-Encoding", ""))
        if isinstance(found, Failure):
            return Reply(status, failure=found, duration_ms=_elapsed_ms(began))
        found = self._without_token(found)
        retry_after, date = headers.get("Retry-After", ""), headers.get("Date", "")
        return Reply(status, found, retry_after, date, duration_ms=_elapsed_ms(began))

    def close(self) -> None:
        """Close the connection. No call may be under way."""
        self._session.close()
        self._watch.let_go()

    def _request(self, operation: Operation, query: str) -> requests.PreparedRequest:
        # Made once and used again with another body: preparing anew would cost more than sending.
        prepared = self._requests.get((operation.method, operation.path, query))
        if prepared is None:
            url = self._base_url + operation.path
            prepared = self._session.prepare_request(
                requests.Request(operation.method, f"{url}?{query}" if query else url)
            )
            prepared.target = prepared.path_url  # type: ignore[attr-defined]  # see _Adapter.request_url
            prepared.headers = dict(prepared.headers)  # type: ignore[assignment]  # their own kind is copied at ten times the cost
            self._requests[operation.method, operation.path, query] = prepared
        return prepared

    def _read(self, response: requests.Response) -> bytes:
        chunks, size, allowed, raw = [], 0, self._settings.answer_bytes_max, response.raw
        while size <= allowed and (chunk := raw.read(_READ_BYTES, decode_content=False)):
            chunks.append(chunk)
            size += len(chunk)
            if raw.length_remaining == 0:
                break
        return b"".join(chunks)

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
        root = _root(error)
        kind = type(root)
        text = self._without_token(f"{kind.__name__}: {_said(root)}".encode()).decode("utf-8", "replace")
        return Failure(f"{kind.__module__}.{kind.__qualname__}", text, self._watch.left)

    def _overdue(self) -> Failure:
        limit = self._settings.call_timeout_s
        return Failure(DEADLINE, f"the call was not over within {limit:g} s (call_timeout_s)", self._watch.left)

    def _without_token(self, said: bytes) -> bytes:
        # An exchange that repeats the token must not get it into ledger and reports. A word is not taken for a secret.
        if len(self._token) >= _SECRET_LENGTH and self._token in said:
            return said.replace(self._token, b"***")
        return said


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _root(error: BaseException) -> BaseException:
    """The library's own exception inside the wrappings that requests and the retry counter put around it."""
    inner: object = None
    if isinstance(error, MaxRetryError):
        inner = error.reason
    elif isinstance(error, requests.RequestException):
        inner = next(iter(error.args), None)
    return _root(inner) if isinstance(inner, BaseException) else error


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
