"""Connections with an idle limit and a total deadline per call; a call can be aborted from another thread. They measure wire time.

urllib3 handles addresses, proxy tunnels, TLS and its checks. `route` provides the target and the certificates.

Wire time: from the last byte of a request handed to the kernel to the first byte of the answer there.

Delays of this process do not count. While it computes, commits or waits for a CPU, answers wait in the kernel, so the time
of reading says little. Linux records when each packet arrives (SO_TIMESTAMPNS), with and without TLS: that time counts. On
other systems, an answer that was waited for arrived when the wait ended. If the answer was already there, its time is
uncertain by the span since the last poll. If that is a large part, the wire time is unknown. Seconds are those of
`time.perf_counter`.
"""

import math
import re
import socket
import ssl
import struct
import sys
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from typing import Any, NamedTuple

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError, ProxyError, SSLError

# The standard library gives the status only in its text.
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: (\d{3})")
_SO_TIMESTAMPNS = 35  # Linux; missing in the module `socket`
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = 64  # room for the kernel's timestamp
_AT_ONCE_S = 0.001  # a shorter poll did not wait
_UNCERTAIN_MAX = 0.25  # the uncertain share of a wire time: half of the growth that counts (`concurrency`)


class ProxyLoginError(ProxyError):
    """The proxy refused the tunnel because user name and password are missing or wrong (407). The exchange got nothing."""


class Tunnel(NamedTuple):
    """The target of a proxy tunnel and the headers of its request. They may hold a password: never show them."""

    host: str
    port: int
    headers: dict[str, str]


class CallHandle:
    """The state of a call on a connection: whether bytes were sent, its deadline, and how to abort it from another thread."""

    def __init__(self, idle_max_s: float) -> None:
        self.idle_max_s = idle_max_s
        self.idle_since = 0.0
        self.deadline = 0.0
        self.has_sent = False
        self.was_aborted = False
        self.closed = False
        self.socket_copy: socket.socket | None = None

    def begin(self, deadline: float) -> None:
        """Start a call that must end by `deadline` (monotonic seconds)."""
        self.deadline, self.has_sent, self.was_aborted = deadline, False, False

    def finish(self) -> None:
        """Mark the call as finished; nothing can abort it any more."""
        self.idle_since = time.monotonic()
        if self.closed:
            self.release()

    def abort(self) -> None:
        """Abort the call from another thread by shutting its connection down in both directions."""
        self.was_aborted = True
        socket_copy = self.socket_copy
        if socket_copy is not None:
            try:
                socket_copy.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # already closed

    def attach(self, connected: socket.socket) -> None:
        """Keep a second file descriptor of a new connection, because TLS takes the first one over."""
        self.release()
        self.closed, self.idle_since = False, time.monotonic()
        self.socket_copy = connected.dup()
        self.socket_copy.settimeout(0)  # reads through it never block

    def waited_s(self) -> float | None:
        """Seconds since the next bytes arrived in the kernel, with TLS too; None if unknown."""
        return None if self.socket_copy is None else waited_s(self.socket_copy)

    def release(self) -> None:
        """Close the second file descriptor, so that the connection is closed for the exchange too."""
        socket_copy, self.socket_copy = self.socket_copy, None
        if socket_copy is not None:
            socket_copy.close()


class AbortableConnection(HTTPConnection):
    """A connection with an idle limit, whose call can be aborted at any moment."""

    def __init__(self, *args: Any, handle: CallHandle, **options: Any) -> None:
        super().__init__(*args, **options)
        self._handle = handle
        self.tunnel: Tunnel | None = None
        self._proxy_name = "" if self.proxy is None else self.proxy.netloc

    @property
    def is_connected(self) -> bool:
        """Whether it is open and has not been idle for too long."""
        fresh = time.monotonic() - self._handle.idle_since <= self._handle.idle_max_s
        return fresh and super().is_connected

    def connect(self) -> None:
        """Connect. Raises HTTPError for every failure, TLS included."""
        if self.tunnel is not None:  # urllib3 clears it on closing
            self.set_tunnel(self.tunnel.host, self.tunnel.port, headers=dict(self.tunnel.headers))
        try:
            super().connect()
        except ssl.SSLError as error:
            raise SSLError(error) from error
        except (OSError, HTTPException) as error:
            raise ProtocolError("the connection broke before it was ready", error) from error

    def _tunnel(self) -> None:
        """Request a tunnel from the proxy. Raises ProxyError if it is refused: nothing of a call has left."""
        try:
            super()._tunnel()
        except (OSError, HTTPException) as error:
            refused = _TUNNEL_STATUS.match(str(error))
            if refused is None:
                raise ProxyError(f"the proxy {self._proxy_name} gave no answer", error) from error
            if refused[1] == "407":
                raise ProxyLoginError(
                    f"the proxy {self._proxy_name} asks for a valid user name and password", error
                ) from None
            raise ProxyError(
                f"the proxy {self._proxy_name} cannot reach the exchange: status {refused[1]}", error
            ) from None

    def _new_conn(self) -> socket.socket:
        try:
            connected = super()._new_conn()
        except HTTPError as error:
            if self._proxy_name:
                raise ProxyError(f"the proxy {self._proxy_name} cannot be reached", error) from error
            raise
        timestamp_arrivals(connected)
        self._handle.attach(connected)
        return connected

    def close(self) -> None:
        """Close the connection and mark its handle."""
        super().close()
        self._handle.closed = True  # the copy stays open until the call finishes, to read its answer


class AbortableTlsConnection(AbortableConnection, HTTPSConnection):
    """An abortable connection over TLS."""


class Deadlines:
    """Aborts calls at their deadline, even while bytes still arrive. `limit_s` is the shortest time limit of any call."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: dict[CallHandle, None] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, handle: CallHandle) -> None:
        """Abort this call at its deadline, unless it is removed first."""
        with self._lock:
            self._running[handle] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._abort_overdue, name="deadlines", daemon=True)
                self._thread.start()

    def remove(self, handle: CallHandle) -> None:
        """Stop watching a finished call."""
        with self._lock:
            self._running.pop(handle, None)

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _abort_overdue(self) -> None:
        while not self._closed.wait(self._next_s()):
            with self._lock:
                now = time.monotonic()
                for handle in [handle for handle in self._running if handle.deadline <= now]:
                    del self._running[handle]
                    handle.abort()

    def _next_s(self) -> float:
        with self._lock:
            first = min((handle.deadline for handle in self._running), default=math.inf)
        return min(self._limit_s, max(0.0, first - time.monotonic()))


class Poll(NamedTuple):
    """A poll of all connections: its end, and by how many seconds the arrival of its answers is uncertain."""

    ended: float
    uncertain_s: float


def next_poll(before: Poll, began: float, ended: float) -> Poll:
    """The poll after `before`. If it waited, answers arrived as it ended; else at any time since the previous poll."""
    return Poll(ended, 0.0 if ended - began > _AT_ONCE_S else ended - before.ended)


class WireTime:
    """Measures the wire time of a connection's calls, one after the other. The caller passes the time."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._received_at: float | None = None

    def sent(self, now: float) -> None:
        """Note that bytes of a request went to the kernel. The last ones count."""
        self._sent_at, self._received_at = now, None

    def received(self, now: float, waited_s: float | None) -> None:
        """Note that the first bytes of the answer were read `waited_s` after they arrived; None: unknown."""
        self._received_at = None if waited_s is None else now - waited_s

    def seconds(self, poll: Poll) -> float | None:
        """The wire time of the call whose answer was read in this poll; None if unknown."""
        if (
            self._received_at is not None and self._received_at >= self._sent_at
        ):  # otherwise the system clock was changed
            return self._received_at - self._sent_at
        took = max(0.0, poll.ended - self._sent_at)
        return took if poll.uncertain_s <= took * _UNCERTAIN_MAX else None


def timestamp_arrivals(connected: socket.socket) -> None:
    """Have the kernel timestamp the bytes that arrive on this connection (Linux only)."""
    if sys.platform == "linux":
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def waited_s(connected: socket.socket) -> float | None:
    """Seconds since the next bytes to read arrived; None if the kernel does not record it. Reads nothing and does not block."""
    if sys.platform != "linux":
        return None
    try:
        _, messages, _, _ = connected.recvmsg(1, _ANCILLARY_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return None
    now_ns = time.time_ns()  # the clock of the kernel's timestamps
    for level, kind, data in messages:
        if (level, kind, len(data)) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS, _TIMESPEC.size):
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            waited = (now_ns - nanoseconds) / 1e9 - seconds
            return waited if waited >= 0 else None
    return None
