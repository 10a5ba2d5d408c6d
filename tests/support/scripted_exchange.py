"""A server on a raw socket that answers, or misbehaves, on script. It counts what it was sent and what it applied.

A script is a `Move`, or a function from the number of a request (from 0, over all connections) and the request to one.
"""

import contextlib
import gzip
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import OPERATIONS, PATH_PREFIX, Assumptions, Operation, listing_body, success_body

BY_PATH = {operation.path: operation for operation in OPERATIONS if operation.is_write}
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass
class Request:
    """A request as it came; `body` is empty while it has not been read."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    good: bytes = b""  # the answer of the real exchange behind the server, if one is and has applied the request
    front: Any = None

    @property
    def operation(self) -> Operation | None:
        path = self.target.partition("?")[0]
        return BY_PATH.get(path[path.find(PATH_PREFIX) :])

    @property
    def payloads(self) -> list[dict[str, Any]]:
        decoded = _decode(self.body)
        return decoded["data"] if self.operation and self.operation.batched else [decoded]


class Move(NamedTuple):
    """What the server does with a request: whether it reads the body, applies it, and how it answers. `act` returns whether
    the connection stays.
    """

    act: Callable[[socket.socket, Request], bool]
    reads: bool = True
    applies: bool = False


@dataclass
class Scripted:
    """Use it in a `with` block. `url` is its base URL; `applied` counts records by operation and key."""

    script: Move | Callable[[int, Request], Move]
    requests: list[Request] = field(default_factory=list)
    applied: Counter[tuple[str, str]] = field(default_factory=Counter)
    connections: int = 0
    port: int = 0
    tls: ssl.SSLContext | None = None

    def __enter__(self):
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.listen(self.port)
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._closing.set()
        self.stop_listening()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    @property
    def named_url(self) -> str:
        """Its base URL with the name that certificates have."""
        return self.url.replace("127.0.0.1", "localhost")

    def keys(self, operation: str) -> Counter[str]:
        """How often each key was applied by an operation."""
        return Counter({key: times for (name, key), times in self.applied.items() if name == operation})

    def wait_until_all_are_closed(self):
        """Wait until each connection that was made has been closed by one side."""
        until(lambda: not self._open)

    def listen(self, port):
        """Listen on a port, 0 for a free one."""
        self._listener = socket.create_server(("127.0.0.1", port), backlog=256)

    def stop_listening(self):
        """Refuse new connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def waits(self, seconds):
        """Wait so long; whether the server still runs then."""
        return not self._closing.wait(seconds)

    def accepted(self, connection):
        """Whether a new connection is served."""
        return True

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            if not self.accepted(connection):
                connection.close()
                continue
            with self._lock:
                self._open.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection):
        if self.tls is not None:
            connection = self._secured(connection)
            if connection is None:
                return
        reader = connection.makefile("rb")
        try:
            while not self._closing.is_set() and self._one(connection, reader):
                pass
        except (OSError, ValueError):
            pass
        finally:
            reader.close()
            connection.close()
            with self._lock:
                self._open.discard(connection)

    def _secured(self, plain):
        try:
            secured = self.tls.wrap_socket(plain, server_side=True)
        except OSError:
            plain.close()
            return None
        finally:
            with self._lock:
                self._open.discard(plain)
        with self._lock:
            self._open.add(secured)
        return secured

    def _one(self, connection, reader):
        if not reader.peek(1)[:1].isalpha():  # the end, or no HTTP
            return False
        first = reader.readline()
        headers = {}
        while (line := reader.readline().strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        method, target, _ = first.decode("latin-1").split(" ", 2)
        with self._lock:
            request = Request(len(self.requests), method, target, headers)
            self.requests.append(request)
        move = self.script if isinstance(self.script, Move) else self.script(request.number, request)
        if move.reads:
            request.body = reader.read(int(headers.get("content-length", 0)))
        if move.applies:
            with self._lock:
                self.applied.update((request.operation.name, request.operation.key_of(one)) for one in request.payloads)
        return move.act(connection, request)


def until(happened, within_s=60.0, pause_s=0.005, what=lambda: ""):
    """Wait until something holds; returns it. `what` gives what there is instead, for the failure."""
    deadline = time.monotonic() + within_s
    while not (found := happened()):
        assert time.monotonic() < deadline, f"it did not happen in time {what()}"
        time.sleep(pause_s)
    return found


# what an answer is made of


def answer(status: int, body: bytes | object, headers: str = "", *, length: int | None = None) -> bytes:
    """The bytes of an answer; a body that is not a bytes goes out as JSON."""
    raw = body if isinstance(body, bytes) else _encode(body)
    size = len(raw) if length is None else length
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + raw


def good_body(request: Request) -> Any:
    return success_body(request.operation, request.payloads[0], Assumptions(), service_order=880000 + request.number)


# moves


def in_turn(*moves: Move) -> Callable[[int, Request], Move]:
    """A script: each request gets the next move, and all after the last move get that one."""
    return lambda number, _request: moves[min(number, len(moves) - 1)]


def sends(make: Callable[[Request], bytes], *, stays: bool = True, applies: bool = True) -> Move:
    """Answer with the bytes that `make` returns for a request; without `stays` the connection ends there."""

    def act(connection, request):
        connection.sendall(make(request))
        return stays

    return Move(act, applies=applies)


def says(status: int, body: bytes | object = b"", headers: str = "", *, applies: bool = False) -> Move:
    """Answer this, whatever was asked."""
    return sends(lambda _request: answer(status, body, headers), applies=applies)


def good_answer(request: Request) -> bytes:
    """The bytes of the answer to a request that was applied."""
    return request.good or answer(200, good_body(request))


def body_of(request: Request) -> bytes:
    """Their body."""
    return good_answer(request).partition(b"\r\n\r\n")[2]


def _good_in_chunks(request: Request) -> bytes:
    raw = body_of(request)
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
    chunks = b"5;ext=1\r\n" + raw[:5] + b"\r\n" + b"%x\r\n" % (len(raw) - 5) + raw[5:]
    return head + chunks + b"\r\n0\r\nX: y\r\n\r\n"


def _packed(raw: bytes) -> bytes:
    return answer(200, gzip.compress(raw), "Content-Encoding: gzip\r\n")


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

accepts = sends(good_answer)
accepts_and_closes = sends(good_answer, stays=False)
accepts_in_chunks = sends(_good_in_chunks)
accepts_packed = sends(lambda request: _packed(body_of(request)))
answers_twice = sends(
    lambda request: good_answer(request) + answer(200, {"status": True, "message": "a second answer"})
)
bombs = sends(lambda _request: _packed(b" " * 50_000_000))
cuts_chunk = sends(lambda request: _CHUNKED + b"40\r\n" + body_of(request)[:20], stays=False)
cuts_old = sends(lambda request: b"HTTP/1.0 200 OK\r\n\r\n" + body_of(request)[:30], stays=False)


def cuts(at: float) -> Move:
    """A good answer whose bytes end at this fraction of it."""
    return sends(lambda request: good_answer(request)[: int(len(good_answer(request)) * at)], stays=False)


def accepts_when(ready: Callable[[Request], object]) -> Move:
    """Accept a call as soon as `ready`, which is given the request, returns."""

    def act(connection, request):
        ready(request)
        return accepts.act(connection, request)

    return Move(act, applies=True)


def accepts_after(seconds: float) -> Move:
    return accepts_when(lambda _request: time.sleep(seconds))


class CallsAtOnce:
    """A script that accepts each call after some seconds; `most` is the highest number of calls that it handled at the same time."""

    def __init__(self, seconds: float):
        self.now = self.most = 0
        self._seconds, self._lock = seconds, threading.Lock()

    def __call__(self, _number: int, _request: Request) -> Move:
        return Move(self._act, applies=True)

    def _act(self, connection, request):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.begins(request)
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
            self.ends(request)
        return accepts.act(connection, request)

    def begins(self, request: Request) -> None:
        """Note that a call begins."""

    def ends(self, request: Request) -> None:
        """Note that a call ends."""


def lists(records: list[Any], total: int | None = None) -> Move:
    """Answer a listing; as many of the records as page_size asks for."""

    def act(connection, request):
        size = int(request.target.partition("page_size=")[2].partition("&")[0] or 100)
        shown = records[:size]
        connection.sendall(
            answer(200, listing_body(shown, page_size=size, total_count=len(records) if total is None else total))
        )
        return True

    return Move(act)


def reset(connection, _request=None):
    """Close with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def _hang_up(connection, _request):
    return False


resets_before_reading = Move(reset, reads=False)
closes_before_reading = Move(_hang_up, reads=False)
resets_after_reading = Move(reset)
closes_without_answer = Move(_hang_up)
applies_and_resets = Move(reset, applies=True)
applies_and_closes = Move(_hang_up, applies=True)


def hangs(seconds: float, *, applies: bool = False) -> Move:
    """Say nothing for so long, or until the client goes, then close."""

    def act(connection, request):
        connection.settimeout(seconds)
        with contextlib.suppress(OSError):
            connection.recv(1)
        return False

    return Move(act, applies=applies)


def drips(every_s: float, *, headers_too: bool = False, applies: bool = True) -> Move:
    """A good answer, byte by byte."""

    def act(connection, request):
        whole = good_answer(request)
        start = 0 if headers_too else whole.index(b"\r\n\r\n") + 4
        connection.sendall(whole[:start])
        for index in range(start, len(whole)):
            connection.sendall(whole[index : index + 1])
            time.sleep(every_s)
        return True

    return Move(act, applies=applies)


def _endless(connection, request):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b" " * 65536)
    return False


answers_without_end = Move(_endless, applies=True)
