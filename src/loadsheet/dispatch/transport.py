"""Makes one call on one connection, with a total deadline.

Only this module and `connections` use the HTTP libraries: requests prepares a request (URL, headers), urllib3 connects, httptools parses
answers. Calling through requests costs four times as much per call. The module adds the header with the token, limits the size of
answers and describes failures. It repeats no call, follows no redirect, and ignores proxies and netrc of the environment.
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
from urllib3.exceptions import ConnectTimeoutError, HTTPError, ProtocolError

from loadsheet.contract import Operation
from loadsheet.dispatch.connections import AbortableConnection, AbortableTlsConnection, CallHandle, Deadlines
from loadsheet.dispatch.outcomes import DEADLINE, PACKED, TOO_LARGE, Failure, Reply
from loadsheet.dispatch.token_masking import MaskedBody, TokenMask
from loadsheet.dispatch.wire import Poll, Wire
from loadsheet.settings import Settings

_READ_BYTES = 65_536
_HEAD_BYTES_MAX = 262_144  # status line and headers of an answer, and again the trailers behind its body
_BEGINNING_BYTES = 4_096  # of a body that is kept: what a message about it may quote
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
ERRORS = (requests.RequestException, HTTPError, HTTPException, OSError)
"""What a call may meet on the network."""
_HEADERS_USED = (b"content-encoding", b"retry-after", b"date")


class _Limit(NamedTuple):
    """How long a call may take and how many bytes its answer may have, and which settings say so."""

    seconds: float
    size: int
    seconds_in: str
    size_in: str


def _limit_of_calls(settings: Settings) -> _Limit:
    return _Limit(settings.call_timeout_s, settings.answer_bytes_max, "call_timeout_s", "answer_bytes_max")


def _limit_of_listings(settings: Settings) -> _Limit:
    return _Limit(settings.listing_timeout_s, settings.listing_bytes_max, "listing_timeout_s", "listing_bytes_max")


class _Answer:
    """One answer after the other of a connection, as the parser reads them. `whole` says that the present one is complete."""

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.begin()

    def begin(self, kept: MaskedBody | None = None) -> None:
        """The next answer is awaited, its body in `kept` if there is one."""
        self.kept = kept
        self.status, self.size, self.read, self.behind = 0, 0, 0, 0
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self._of_body = False  # whether what was received last held a part of the body
        self.headed = self.whole = self.stays = False

    def feed(self, data: bytes) -> None:
        """Take in what came. Raises ProtocolError for what is no HTTP, and for a head, or trailers, without end."""
        self.read += len(data)
        self._of_body = False
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.stays = False
            if not self.whole:
                raise ProtocolError("the answer is no HTTP") from error
        self.behind = 0 if self._of_body else self.behind + len(data)
        if self.behind > _HEAD_BYTES_MAX and not self.whole:
            part = "what follows the body" if self.headed else "the head"
            raise ProtocolError(f"{part} of the answer is larger than {_HEAD_BYTES_MAX} bytes")

    def end(self) -> None:
        """The connection was closed. Raises ProtocolError if that is not how this answer ends."""
        sized = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        if not self.headed or sized:
            raise ProtocolError(
                "the exchange closed the connection " + ("in the middle of" if self.read else "without") + " an answer"
            )
        self.whole = True

    # what the parser calls

    def on_message_begin(self) -> None:
        """Another answer begins; behind a whole one it is not ours."""
        self.stays = self.stays and not self.whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. What comes behind the body (a trailer) is none, and is dropped."""
        if not self.headed:
            self.headers[name.lower()] = value

    def on_chunk_header(self) -> None:
        """A chunk of the body begins."""
        self._of_body = True

    def on_headers_complete(self) -> None:
        """The body follows, unless this only announces the answer (100 to 199)."""
        if not self.whole:
            self.status = self.parser.get_status_code()
            self.headed = self.status >= 200  # noqa: PLR2004 (RFC 9110, 15.2)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._of_body = True
        if not self.whole:
            if self.kept is None:
                self.body += body
            else:
                self.kept.add(body)
            self.size += len(body)

    def on_message_complete(self) -> None:
        """The answer is whole, or its announcement is over."""
        if self.headed and not self.whole:
            self.whole, self.stays = True, self.parser.should_keep_alive()
        elif not self.headed:
            self.headers.clear()


class CallConnection:
    """What calls are made with, one after the other: a connection, and the head of a request for each operation."""

    def __init__(
        self,
        base_url: str,
        token: str,
        settings: Settings,
        deadlines: Deadlines,
        trust: ssl.SSLContext | None,
        *,
        mask: TokenMask,
    ) -> None:
        self._base_url = base_url
        self._settings = settings
        self._deadlines = deadlines
        self.token = token
        self._mask = mask
        self._watch = CallHandle(settings.idle_connection_s)
        parts = urlsplit(base_url)
        host, port, limit = parts.hostname or "", parts.port, settings.connect_timeout_s
        self._connection: AbortableConnection = (
            AbortableConnection(host, port, timeout=limit, watch=self._watch)
            if trust is None
            else AbortableTlsConnection(host, port, timeout=limit, watch=self._watch, ssl_context=trust)
        )
        self._answer = _Answer()
        self._wire = Wire()
        self._plain = trust is None
        self._began, self._request, self._gone = 0.0, b"", 0
        self._limit = _limit_of_calls(settings)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "loadsheet",
        }
        self._heads: dict[tuple[str, str, str], bytes] = {}

    def send(
        self, operation: Operation, body: bytes, *, query: str = "", keep: bool = False, long: bool = False
    ) -> Reply:
        """One call, once, and everything that may come of it. With `keep` the body of the answer is kept apart; one that is `long` has
        the limits of a whole listing.
        """
        if not keep:
            return self._send(operation, body, query, None, long=long)
        kept = MaskedBody(self._mask)
        reply = self._send(operation, body, query, kept, long=long)
        if reply.kept is None:
            kept.close()
        return reply

    def _send(self, operation: Operation, body: bytes, query: str, kept: MaskedBody | None, *, long: bool) -> Reply:
        self.begin(operation, body, query=query, long=long)
        try:
            if not self.is_connected:
                self.connect(waits=True)
            self._leave(kept)
            with suppress(BrokenPipeError):  # who stops reading may have answered already
                self._connection.sock.sendall(self._request)
            self._gone = len(self._request)
            while not self._take(self._connection.sock.recv(_READ_BYTES)):
                pass
        except ERRORS as error:
            return self.over(error)
        return self.over(None)

    # a call in steps, for whoever makes many at once; none of them waits, but `connect`

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that may be used again."""
        return self._connection.is_connected

    @property
    def number(self) -> int:
        """The file number of the connection."""
        return int(self._connection.sock.fileno())

    @property
    def stays(self) -> bool:
        """Whether the connection may be used again after this answer."""
        return self._answer.stays and self._gone == len(self._request) and not self._watch.cut

    def begin(self, operation: Operation, body: bytes, *, query: str = "", long: bool = False) -> None:
        """A call begins: from now on its total deadline counts. That of a `long` one is that of a whole listing."""
        self._began = time.monotonic()
        self._limit = _limit_of_listings(self._settings) if long else _limit_of_calls(self._settings)
        self._request = b"%b%d\r\n\r\n%b" % (self._head(operation, query), len(body), body)
        self._gone = 0
        self._answer.begin()
        self._watch.begin(self._began + self._limit.seconds)
        self._deadlines.watch(self._watch)

    def forget(self) -> None:
        """The call that began does not leave now. It may begin anew."""
        self._deadlines.unwatch(self._watch)
        self._watch.finish()

    def connect(self, *, waits: bool = False) -> None:
        """Connect anew. Raises one of ERRORS. From then on only the deadline ends what lasts, and a connection that `waits` does so."""
        self._connection.close()
        self._connection.connect()
        self._connection.sock.setblocking(waits)
        self._answer = _Answer()

    def depart(self) -> bool:
        """Send so much of the request as goes now; whether all of it has gone. Raises one of ERRORS."""
        if not self._watch.left:
            self._leave(None)
        self._wire.leaves(time.perf_counter())
        try:
            self._gone += self._connection.sock.send(memoryview(self._request)[self._gone :])
        except BrokenPipeError:  # who stops reading may have answered already
            self._gone = len(self._request)
        except _NOT_NOW:
            pass
        return self._gone == len(self._request)

    def read(self) -> bool:
        """Take in what has come; whether the answer is whole. Raises one of ERRORS."""
        if not self._answer.read:  # what TLS says of itself does not count there
            self._wire.came(time.perf_counter(), self._watch.waited_s())
        while True:
            try:
                data = self._connection.sock.recv(_READ_BYTES)
            except _NOT_NOW:
                return False
            if self._take(data):
                return True
            if self._plain:
                return False  # more will be told; what TLS has unpacked already will not

    def wire_s(self, seen: Poll) -> float | None:
        """The wire time of the call whose answer was read at this look, in seconds; None if nobody knows."""
        return self._wire.seconds(seen)

    def over(self, error: Exception | None) -> Reply:
        """The call is over: what came of it. `error` is what ended it."""
        if error is not None or not self.stays:
            self._connection.close()
        self._deadlines.unwatch(self._watch)
        self._watch.finish()
        if error is not None:
            return Reply(failure=self._failure(error), duration_ms=_elapsed_ms(self._began))
        if self._watch.cut:  # an answer without a length ends like a whole one when it is cut
            return Reply(failure=self._overdue(), duration_ms=_elapsed_ms(self._began))
        return self._reply(self._began)

    def close(self) -> None:
        """Close the connection, whatever is under way on it."""
        self._deadlines.unwatch(self._watch)
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

    def _leave(self, kept: MaskedBody | None) -> None:
        """Nothing of the request has left yet, and from now on it may have."""
        watch = self._watch
        if watch.cut or time.monotonic() >= watch.deadline:  # for one: the machine slept between decision and call
            raise ConnectTimeoutError(self._connection, "the time for this call was over before anything was sent")
        watch.left = True
        self._answer.begin(kept)

    def _take(self, data: bytes) -> bool:
        """Take in a piece of the answer, nothing if the connection was closed; whether that was all that is read of it."""
        answer = self._answer
        if data:
            answer.feed(data)
        else:
            answer.end()
        return answer.whole or answer.size > self._limit.size

    def _reply(self, began: float) -> Reply:
        answer = self._answer
        encoding, after, date = [answer.headers.get(name, b"").decode("latin-1") for name in _HEADERS_USED]
        kept = answer.kept.finish() if answer.kept else None
        packed = bytes(answer.body)
        if kept is not None:
            plain = encoding.lower() in ("", "identity")
            if answer.size > (self._limit if plain else _limit_of_calls(self._settings)).size:
                return Reply(answer.status, failure=_too_large(self._limit), duration_ms=_elapsed_ms(began))
            if plain:
                beginning = kept.read(_BEGINNING_BYTES)
                return Reply(answer.status, beginning, after, date, duration_ms=_elapsed_ms(began), kept=kept)
            packed = kept.read()
        found = self._unpack(packed, encoding)
        if isinstance(found, Failure):
            return Reply(answer.status, failure=found, duration_ms=_elapsed_ms(began))
        return Reply(answer.status, self._mask.masked(found), after, date, duration_ms=_elapsed_ms(began))

    def _unpack(self, packed: bytes, encoding: str) -> bytes | Failure:
        allowed = self._settings.answer_bytes_max
        found = packed
        if encoding.lower() in ("gzip", "x-gzip"):
            try:
                unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
                found = unpacker.decompress(packed, allowed + 1)
            except zlib.error as error:
                return Failure(PACKED, "the answer cannot be unpacked", left=True, log=f"zlib: {error}")
            if len(found) <= allowed and not unpacker.eof:
                return Failure(PACKED, "the packed answer is cut short", left=True)
        elif encoding.lower() not in ("", "identity"):
            coding = self._mask.masked(encoding.encode("latin-1")).decode("latin-1")  # an exchange may echo anything
            return Failure(PACKED, f"the answer is packed as {coding[:40]!r}, which was not asked for", left=True)
        if len(found) > allowed:
            return _too_large(_limit_of_calls(self._settings))
        return found

    def _failure(self, error: Exception) -> Failure:
        if self._watch.cut:
            return self._overdue()
        kind = type(error)
        text, log = (
            self._mask.masked(said.encode()).decode("utf-8", "replace")
            for said in (failure_text(error), failure_details(error))
        )
        return Failure(f"{kind.__module__}.{kind.__qualname__}", text, self._watch.left, log)

    def _overdue(self) -> Failure:
        limit = self._limit
        return Failure(
            DEADLINE, f"the call was not over within {limit.seconds:g} s ({limit.seconds_in})", self._watch.left
        )


def _too_large(limit: _Limit) -> Failure:
    return Failure(TOO_LARGE, f"the answer is larger than {limit.size} bytes ({limit.size_in})", left=True)


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")
"""What OpenSSL says of a server that speaks in the clear."""
_BROKEN_OFF = "the connection was broken off"
_NO_WAY = "there is no way to the exchange over the network"
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
    """The failure as a person reads it, without the names of exceptions and of their classes."""
    cause = root_cause(error)
    if isinstance(cause, ssl.SSLError):
        return _of_tls(cause)
    if isinstance(cause, socket.gaierror):
        return "the name of the exchange is not known here"
    if isinstance(cause, TimeoutError):
        return "the exchange did not answer in time"
    if isinstance(cause, OSError) and cause.errno is not None:  # those of requests have none
        return _BY_NUMBER.get(cause.errno, (cause.strerror or _BROKEN_OFF).lower())
    if isinstance(error, ProtocolError) and len(error.args) == 1:
        return str(error)  # made by us, in plain words
    said = next((part for part in reversed(cause.args) if isinstance(part, str) and part), "")
    return said or "the connection failed"


def root_cause(error: BaseException) -> BaseException:
    """What a failure began with."""
    while True:
        inner = next((part for part in error.args if isinstance(part, BaseException)), error.__cause__)
        if inner is None:
            return error
        error = inner


def failure_details(error: Exception) -> str:
    """The same for who reads the log: the class of the failure, and what it began with."""
    cause = root_cause(error)
    return f"{type(error).__name__}: {str(cause) or type(cause).__name__}"


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the exchange is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    said = f"no secure connection comes about ({reason.replace('_', ' ').lower()})"
    return f"{said} (is it http://?)" if any(words in f"{reason} {error}" for words in _NO_TLS) else said
