"""Makes one call on one connection, with a total deadline.

Only this module and `dispatch.connections` use the HTTP libraries: requests prepares a request (URL, headers),
urllib3 connects, httptools parses answers. Calling through requests costs four times as much per call. The module adds
the token header, limits the size of answers and describes failures. It repeats no call, follows no redirect, and ignores
netrc.
"""

import errno
import socket
import ssl
import time
import zlib
from contextlib import suppress
from http.client import HTTPException
from typing import NamedTuple
from urllib.parse import urlsplit

import requests
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.exceptions import ConnectTimeoutError, HTTPError, ProtocolError, ProxyError

from loadsheet.contract import Operation
from loadsheet.credentials import MaskedBody, TokenMask
from loadsheet.dispatch.connections import CallHandle, Deadlines, NetworkRoute, Poll, ProxyLoginError, WireTime
from loadsheet.dispatch.outcomes import CERTIFICATE, DEADLINE, PACKED, PROXY_LOGIN, TOO_LARGE, Failure, Reply
from loadsheet.settings import Settings

_READ_BYTES = 65_536
_HEAD_BYTES_MAX = 262_144  # status line and headers of an answer, and again the trailers after its body
_BEGINNING_BYTES = 4_096  # of a body in a file: the part that a message may quote
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CLOSED_FOR_WRITING = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)
"""Errors of a write after which there may be something to read: the exchange may already have answered, or sent an alert."""
ERRORS = (requests.RequestException, HTTPError, HTTPException, OSError)
"""The exceptions of a failed call."""
_USED_HEADERS = (b"content-encoding", b"retry-after", b"date")


class _Limit(NamedTuple):
    """The limits of a call in seconds and of its answer in bytes, and the names of the settings."""

    seconds: float
    size: int
    seconds_in: str
    size_in: str


def _limit(settings: Settings, seconds_in: str, size_in: str) -> _Limit:
    seconds, size = getattr(settings.dispatch, seconds_in), getattr(settings.dispatch, size_in)
    return _Limit(seconds, size, f"dispatch.{seconds_in}", f"dispatch.{size_in}")


class _AnswerParser:
    """Parses the answers of one connection, one after the other."""

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.begin()

    def begin(self, body_file: MaskedBody | None = None) -> None:
        """Expect the next answer; its body goes to `body_file`, if given."""
        self.body_file = body_file
        self.status, self.size, self.read, self.head_bytes = 0, 0, 0, 0
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self._has_body = False  # whether the last received piece held a part of the body
        self.has_head = self.is_complete = self.is_reusable = False

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Raises ProtocolError for data that is not HTTP, and for a head or trailers that are too large."""
        self.read += len(data)
        self._has_body = False
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if (within := error.__context__) is not None and not isinstance(within, Exception):
                raise within from None  # Ctrl-C or SIGTERM in a callback, which the parser took for an error of its own
            self.is_reusable = False
            if not self.is_complete:
                kept = f"the answer could not be kept ({within.strerror})" if isinstance(within, OSError) else ""
                raise ProtocolError(kept or "the answer is not HTTP") from error
        self.head_bytes = 0 if self._has_body else self.head_bytes + len(data)
        if self.head_bytes > _HEAD_BYTES_MAX and not self.is_complete:
            part = "the part after the body" if self.has_head else "the head"
            raise ProtocolError(f"{part} of the answer is larger than {_HEAD_BYTES_MAX} bytes")

    def end(self) -> None:
        """Handle a closed connection. Raises ProtocolError if the answer is incomplete."""
        sized = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        if not self.has_head or sized:
            raise ProtocolError(
                "the exchange closed the connection " + ("in the middle of" if self.read else "without") + " an answer"
            )
        self.is_complete = True

    # callbacks of the parser

    def on_message_begin(self) -> None:
        """Another answer begins; after a complete one it belongs to no request of ours."""
        self.is_reusable = self.is_reusable and not self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers are dropped."""
        if not self.has_head:
            self.headers[name.lower()] = value

    def on_chunk_header(self) -> None:
        """A chunk of the body begins."""
        self._has_body = True

    def on_headers_complete(self) -> None:
        """Take the status, unless it is informational (100 to 199)."""
        if not self.is_complete:
            self.status = self.parser.get_status_code()
            self.has_head = self.status >= 200

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._has_body = True
        if not self.is_complete:
            if self.body_file is None:
                self.body += body
            else:
                self.body_file.add(body)
            self.size += len(body)

    def on_message_complete(self) -> None:
        """End an answer; after an informational one the answer itself follows."""
        if self.has_head and not self.is_complete:
            self.is_complete, self.is_reusable = True, self.parser.should_keep_alive()
        elif not self.has_head:
            self.headers.clear()


class CallConnection:
    """One connection for calls, one after the other. Caches the request head of each operation."""

    def __init__(
        self,
        route: NetworkRoute,
        token: str,
        settings: Settings,
        deadlines: Deadlines,
        mask: TokenMask,
    ) -> None:
        self._route = route
        self._deadlines = deadlines
        self.token = token
        self._mask = mask
        self._handle = CallHandle(settings.dispatch.idle_connection_s)
        self._connection = route.connection(self._handle, settings.dispatch.connect_timeout_s)
        self._answer = _AnswerParser()
        self._wire_time = WireTime()
        self._is_plain = route.trust is None
        self._is_new = True  # no answer was read on this connection yet
        self._began, self._request, self._sent_bytes = 0.0, b"", 0
        self._call_limit = self._limit = _limit(settings, "call_timeout_s", "answer_bytes_max")
        self._listing_limit = _limit(settings, "listing_timeout_s", "listing_bytes_max")
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "loadsheet",
        }
        if route.proxy and route.forwards:
            self._headers |= route.proxy.headers
        self._heads: dict[tuple[str, str, str], bytes] = {}

    def send_for_file(self, operation: Operation, body: bytes, query: str, *, long: bool) -> Reply:
        """Make one call, once; the body of the answer goes to a file. `long` applies the limits of a whole listing."""
        body_file = MaskedBody(self._mask)
        reply = self.send(operation, body, query, body_file, long=long)
        if reply.body_file is None:
            body_file.close()
        return reply

    def send(
        self,
        operation: Operation,
        body: bytes,
        query: str = "",
        body_file: MaskedBody | None = None,
        *,
        long: bool = False,
    ) -> Reply:
        """Make one call, once. The body of the answer goes to `body_file`, if given."""
        self.begin(operation, body, query=query, long=long)
        try:
            if not self.is_connected:
                self.connect(waits=True)
            self._start_sending(body_file)
            with suppress(*_CLOSED_FOR_WRITING):
                self._connection.sock.sendall(self._request)
                self._sent_bytes = len(self._request)
            while not self._receive(self._connection.sock.recv(_READ_BYTES)):
                pass
        except ERRORS as error:
            return self.finish(error)
        return self.finish(None)

    # a call in steps; only `connect` blocks

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open and may be used."""
        return self._connection.is_connected

    @property
    def number(self) -> int:
        """The file descriptor of the connection."""
        return int(self._connection.sock.fileno())

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may be used for another call."""
        return self._answer.is_reusable and self._sent_bytes == len(self._request) and not self._handle.was_aborted

    def begin(self, operation: Operation, body: bytes, *, query: str = "", long: bool = False) -> None:
        """Prepare a call and start its total deadline; that of a `long` call is that of a whole listing."""
        self._began = time.monotonic()
        self._limit = self._listing_limit if long else self._call_limit
        self._request = b"%b%d\r\n\r\n%b" % (self._head(operation, query), len(body), body)
        self._sent_bytes = 0
        self._handle.begin(self._began + self._limit.seconds)
        self._deadlines.add(self._handle)

    def cancel(self) -> None:
        """Cancel a prepared call that has not sent anything. It may begin again."""
        self._deadlines.remove(self._handle)
        self._handle.finish()

    def connect(self, *, waits: bool = False) -> None:
        """Connect. `waits`: reads and writes block. Raises one of ERRORS."""
        self._connection.close()
        self._connection.connect()
        self._connection.sock.setblocking(waits)
        self._answer = _AnswerParser()
        self._is_new = True

    def send_some(self) -> bool:
        """Send as much of the request as the kernel takes; returns whether no more can be sent. Raises one of ERRORS."""
        if not self._handle.has_sent:
            self._start_sending(None)
        self._wire_time.sent(time.perf_counter())
        try:
            self._sent_bytes += self._connection.sock.send(memoryview(self._request)[self._sent_bytes :])
        except _CLOSED_FOR_WRITING:
            return True
        except _WOULD_BLOCK:
            pass
        return self._sent_bytes == len(self._request)

    def read(self) -> bool:
        """Read what has arrived; returns whether the answer is complete. Raises one of ERRORS."""
        if not self._answer.read:  # TLS handshake bytes do not count
            self._wire_time.received(time.perf_counter(), self._handle.waited_s())
        while True:
            try:
                data = self._connection.sock.recv(_READ_BYTES)
            except _WOULD_BLOCK:
                return False
            if self._receive(data):
                return True
            if self._is_plain:
                return False  # the selector reports new bytes, but not those TLS has already decrypted

    def wire_s(self, poll: Poll) -> float | None:
        """Seconds of wire time of the call whose answer was read in this poll; None if unknown."""
        return self._wire_time.seconds(poll)

    def finish(self, error: Exception | None) -> Reply:
        """Finish the call and return its reply. `error` is the exception that ended it."""
        if error is not None or not self.is_reusable:
            self._connection.close()
        self._deadlines.remove(self._handle)
        self._handle.finish()
        if error is not None:
            return Reply(failure=self._failure(error), duration_ms=self._elapsed_ms())
        if self._handle.was_aborted:  # once aborted, an answer without a length looks complete
            return Reply(failure=self._overdue(), duration_ms=self._elapsed_ms())
        return self._reply()

    def close(self) -> None:
        """Close the connection, also during a call."""
        self._deadlines.remove(self._handle)
        self._connection.close()
        self._handle.release()

    def _head(self, operation: Operation, query: str) -> bytes:
        # Prepared once per operation: preparing costs more than sending.
        head = self._heads.get((operation.method, operation.path, query))
        if head is None:
            url = self._route.base_url + operation.path
            asked = requests.Request(operation.method, f"{url}?{query}" if query else url, headers=self._headers)
            prepared = asked.prepare()
            prepared.headers.pop("Content-Length", None)
            target = prepared.url if self._route.forwards else prepared.path_url
            lines = [f"{prepared.method} {target} HTTP/1.1", f"Host: {urlsplit(str(prepared.url)).netloc}"]
            lines += [f"{name}: {value}" for name, value in prepared.headers.items()]
            head = "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")
            self._heads[operation.method, operation.path, query] = head
        return head

    def _start_sending(self, body_file: MaskedBody | None) -> None:
        """Mark the request as sent before its first byte leaves."""
        handle = self._handle
        if handle.was_aborted or time.monotonic() >= handle.deadline:  # the machine may have slept since the call began
            raise ConnectTimeoutError(self._connection, "the time limit of this call passed before anything was sent")
        handle.has_sent = True
        self._answer.begin(body_file)

    def _receive(self, data: bytes) -> bool:
        """Parse a piece of the answer (empty: connection closed); returns whether no more is read."""
        answer = self._answer
        if data:
            self._is_new = False
            answer.feed(data)
        else:
            answer.end()
        return answer.is_complete or answer.size > self._limit.size

    def _reply(self) -> Reply:
        answer, took_ms = self._answer, self._elapsed_ms()
        encoding, after, date = [answer.headers.get(name, b"").decode("latin-1") for name in _USED_HEADERS]
        body_file = answer.body_file.finish() if answer.body_file else None
        packed = bytes(answer.body)
        if body_file is not None:
            plain = encoding.lower() in ("", "identity")
            if answer.size > (self._limit if plain else self._call_limit).size:
                return Reply(answer.status, failure=_too_large(self._limit), duration_ms=took_ms)
            if plain:
                beginning = body_file.read(_BEGINNING_BYTES)
                return Reply(answer.status, beginning, after, date, duration_ms=took_ms, body_file=body_file)
            packed = body_file.read()
        unpacked = self._unpack(packed, encoding)
        if isinstance(unpacked, Failure):
            return Reply(answer.status, failure=unpacked, duration_ms=took_ms)
        return Reply(answer.status, self._mask.masked(unpacked), after, date, duration_ms=took_ms)

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._began) * 1000)

    def _unpack(self, packed: bytes, encoding: str) -> bytes | Failure:
        allowed = self._call_limit.size
        plain = packed
        if encoding.lower() in ("gzip", "x-gzip"):
            try:
                unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
                plain = unpacker.decompress(packed, allowed + 1)
            except zlib.error as error:
                return Failure(PACKED, "the answer cannot be unpacked", has_sent=True, log=f"zlib: {error}")
            if len(plain) <= allowed and not unpacker.eof:
                return Failure(PACKED, "the packed answer is cut short", has_sent=True)
        elif encoding.lower() not in ("", "identity"):
            coding = self._mask.masked(encoding.encode("latin-1")).decode("latin-1")  # an exchange may echo anything
            return Failure(PACKED, f"the answer is packed as {coding[:40]!r}, which was not requested", has_sent=True)
        if len(plain) > allowed:
            return _too_large(self._call_limit)
        return plain

    def _failure(self, error: Exception) -> Failure:
        if self._handle.was_aborted:
            return self._overdue()
        kind = type(error)
        text, log = (
            self._mask.masked(text.encode()).decode("utf-8", "replace")
            for text in (failure_text(error), failure_details(error))
        )
        if isinstance(error, ProxyLoginError):
            return Failure(PROXY_LOGIN, text, has_sent=False, log=log)
        # With TLS 1.3 the exchange reports this after the request has left.
        if self._is_new and is_certificate_refused(error):
            return Failure(CERTIFICATE, text, has_sent=False, log=log)
        return Failure(f"{kind.__module__}.{kind.__qualname__}", text, self._handle.has_sent, log)

    def _overdue(self) -> Failure:
        limit = self._limit
        return Failure(
            DEADLINE, f"the call did not finish within {limit.seconds:g} s ({limit.seconds_in})", self._handle.has_sent
        )


def _too_large(limit: _Limit) -> Failure:
    return Failure(TOO_LARGE, f"the answer is larger than {limit.size} bytes ({limit.size_in})", has_sent=True)


_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")
"""The reasons OpenSSL gives for a server without TLS."""
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
"""The X509_V_ERR codes of OpenSSL for a self-signed certificate, and for one of an authority that is not in the bundle."""
_CERTIFICATE_ALERTS = (
    "ALERT_CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
)
"""The endings of OpenSSL's names for alerts about a client certificate (RFC 8446, 6.2)."""
_BROKEN_OFF = "the connection was interrupted"
_NO_WAY = "the network has no route to the exchange"
_BY_NUMBER = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: _BROKEN_OFF,
    errno.ECONNABORTED: _BROKEN_OFF,
    errno.EPIPE: _BROKEN_OFF,
    errno.EHOSTUNREACH: _NO_WAY,
    errno.ENETUNREACH: _NO_WAY,
    errno.ENETDOWN: _NO_WAY,
}


def failure_text(error: Exception) -> str:
    """The failure in plain words, without exception names."""
    if isinstance(error, ProxyError) and error.args:
        return _of_proxy(error)
    cause = root_cause(error)
    if isinstance(cause, ssl.SSLError):
        return _of_tls(cause)
    if isinstance(cause, socket.gaierror):
        return "the host name of the exchange cannot be resolved"
    if isinstance(cause, TimeoutError):
        return "the exchange did not answer in time"
    if isinstance(cause, OSError) and cause.errno is not None:  # exceptions of requests have none
        return _BY_NUMBER.get(cause.errno, (cause.strerror or _BROKEN_OFF).lower())
    # A ProtocolError with one argument is ours, in plain words.
    source = error if isinstance(error, ProtocolError) and len(error.args) == 1 else cause
    text = next((part for part in reversed(source.args) if isinstance(part, str) and part), "")
    return text or "the connection failed"


def _of_proxy(error: ProxyError) -> str:
    """The text from `dispatch.connections`, and why the proxy cannot be reached."""
    inner = next((part for part in error.args if isinstance(part, HTTPError)), None)
    return f"{error.args[0]}: {failure_text(inner).replace('exchange', 'proxy')}" if inner else str(error.args[0])


def root_cause(error: BaseException) -> BaseException:
    """The first exception of the chain."""
    while True:
        inner = next((part for part in error.args if isinstance(part, BaseException)), error.__cause__)
        if inner is None:
            return error
        error = inner


def failure_details(error: Exception) -> str:
    """The failure for the log: its class and its root cause."""
    cause = root_cause(error)
    return f"{type(error).__name__}: {str(cause) or type(cause).__name__}"


def is_certificate_refused(error: BaseException) -> bool:
    """Whether the exchange ended the handshake over our certificate or its absence: it has processed no request."""
    cause = root_cause(error)
    return isinstance(cause, ssl.SSLError) and (cause.reason or "").endswith(_CERTIFICATE_ALERTS)


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of the exchange is not trusted: {error.verify_message}"
        return f"{text}: check dispatch.ca_bundle" if error.verify_code in _UNKNOWN_AUTHORITY else text
    if is_certificate_refused(error):
        alert = str(error.reason).partition("_ALERT_")[2].replace("_", " ").lower()
        return f"the exchange does not accept our certificate ({alert}): check dispatch.client_certificate"
    reason = error.reason or str(error)
    text = f"no secure connection is possible ({reason.replace('_', ' ').lower()})"
    return f"{text} (is it http://?)" if any(words in f"{reason} {error}" for words in _NO_TLS) else text
