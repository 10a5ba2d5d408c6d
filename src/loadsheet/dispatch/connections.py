"""Connections as calls use them: checked, not idle for too long, and to be ended at any moment from another thread.

urllib3 connects (addresses, TLS and its checks). Owns: what a connection trusts, its age, and the total deadline of the call on it.
"""

import math
import socket
import ssl
import threading
import time
from http.client import HTTPException
from typing import Any

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ProtocolError, SSLError

from loadsheet.dispatch.wire import note_arrivals, waited_s


def trusted_authorities() -> ssl.SSLContext:
    """The TLS context of every connection: certificates and host names are checked against the usual authorities and the
    system's own; TLS 1.2 at least.
    """
    context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
    context.load_default_certs()
    return context


class CallHandle:
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
        self.closed, self.idle_since = False, time.monotonic()
        self.lever = connected.dup()
        self.lever.settimeout(0)  # the system has it so already, since it connects with a limit: no look at it waits

    def waited_s(self) -> float | None:
        """For how long the bytes to be read next have been there, TLS or not; None if nobody knows."""
        return None if self.lever is None else waited_s(self.lever)

    def let_go(self) -> None:
        """Close our handle of a connection that is closed, so that it is closed for the exchange too."""
        lever, self.lever = self.lever, None
        if lever is not None:
            lever.close()


class AbortableConnection(HTTPConnection):
    """A connection that does not outlive the idle limit, and can be ended at any moment."""

    def __init__(self, *args: Any, watch: CallHandle, **more: Any) -> None:
        super().__init__(*args, **more)
        self._watch = watch

    @property
    def is_connected(self) -> bool:
        """Whether it may be used: connected, and not idle for too long."""
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
        note_arrivals(connected)
        self._watch.hold(connected)
        return connected

    def close(self) -> None:
        """Close it; who holds its lever learns of it."""
        super().close()
        self._watch.closed = True  # the lever stays until the call is over: its answer may still be read


class AbortableTlsConnection(AbortableConnection, HTTPSConnection):
    """The same over TLS."""


class Deadlines:
    """Ends calls that outlast their deadline, however busily bytes drip in. `limit_s` is the shortest time that a call has: none
    that begins from now on can be over sooner.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._running: dict[CallHandle, None] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, watch: CallHandle) -> None:
        """From now on, until `unwatch`, this call ends at its deadline."""
        with self._lock:
            self._running[watch] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="deadlines", daemon=True)
                self._thread.start()

    def unwatch(self, watch: CallHandle) -> None:
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
            first = min((watch.deadline for watch in self._running), default=math.inf)
        return min(self._limit_s, max(0.0, first - time.monotonic()))
