"""Connections to an exchange with an idle limit and a total deadline per call; a call can be aborted from another thread. They measure wire
time. Their route: the proxy, the authorities they trust, and their client certificate.

urllib3 handles addresses, proxy tunnels, TLS and its checks; requests reads the proxies of the environment. No text of this module contains
a proxy password.

Wire time: from the last byte of a request handed to the kernel to the first byte of the answer there.

Delays of this process do not count. While it computes, commits or waits for a CPU, answers wait in the kernel, so the time
of reading says little. Linux records when each packet arrives (SO_TIMESTAMPNS), with and without TLS: that time counts. On
other systems, an answer that was waited for arrived when the wait ended. If the answer was already there, its time is
uncertain by the span since the last poll. If that is a large part, the wire time is unknown. Seconds are those of
`time.perf_counter`.
"""

import base64
import math
import re
import socket
import ssl
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_environ_proxies, select_proxy
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError, ProxyError, SSLError
from urllib3.util import Url

from loadsheet.errors import SettingsError
from loadsheet.settings import EMBEDDED, Settings

# The standard library gives the status only in its text.
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: (\d{3})")
_SO_TIMESTAMPNS = 35  # Linux; missing in the module `socket`
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = 64  # room for the kernel's timestamp
_AT_ONCE_S = 0.001  # a shorter poll did not wait
_UNCERTAIN_MAX = 0.25  # the uncertain share of a wire time: half of the growth that counts (`Concurrency`)

ENVIRONMENT = "environment"
"""The value of `dispatch.proxy` that means HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""
_PORTS = {"http": 80, "https": 443}
_HASHED_NAME = re.compile(r"[0-9a-f]{8}\.\d+")  # how OpenSSL looks certificates up in a folder


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
        # If it was received before it was sent, the system clock was changed.
        if self._received_at is not None and self._received_at >= self._sent_at:
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


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy. `headers` hold its user name and password; `secrets` are texts that must never be shown."""

    host: str
    port: int
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class NetworkRoute:
    """How connections reach one exchange. `trust` is the TLS context, None for http://. `proxy` is None for a direct connection."""

    base_url: str
    trust: ssl.SSLContext | None
    proxy: Proxy | None

    def connection(self, handle: CallHandle, timeout_s: float) -> AbortableConnection:
        """A new connection, not connected yet; `timeout_s` limits each step of connecting."""
        parts = urlsplit(self.base_url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        first = (self.proxy.host, self.proxy.port) if self.proxy else (host, port)
        make = AbortableConnection if self.trust is None else partial(AbortableTlsConnection, ssl_context=self.trust)
        url = Url("http", host=self.proxy.host, port=self.proxy.port) if self.proxy else None
        connection = make(*first, timeout=timeout_s, handle=handle, proxy=url)
        if self.proxy and self.trust is not None:
            connection.tunnel = Tunnel(host, port, self.proxy.headers)
        return connection

    @property
    def forwards(self) -> bool:
        """Whether the proxy reads and forwards each request: http:// uses no tunnel."""
        return self.proxy is not None and self.trust is None


def route_to(base_url: str, settings: Settings) -> NetworkRoute:
    """The route to an exchange from the settings. Raises SettingsError for a proxy or file that cannot be used."""
    trust = tls_context(settings) if base_url.startswith("https:") else None
    return NetworkRoute(base_url, trust, _proxy_for(base_url, settings))


def tls_context(settings: Settings) -> ssl.SSLContext:
    """The TLS context of every connection: checks certificates and host names; at least TLS 1.2.

    It trusts `dispatch.ca_bundle`; without one, the bundled authorities and those of the system. Raises SettingsError for files that cannot be used.
    """
    bundle = settings.dispatch.ca_bundle
    if bundle is None:
        context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
        context.load_default_certs()
    else:
        context = _context_of(bundle)
    if settings.dispatch.client_certificate is not None:
        _load_client_certificate(context, settings.dispatch.client_certificate, settings.dispatch.client_key)
    elif settings.dispatch.client_key is not None:
        raise SettingsError("dispatch.client_key: a key needs a certificate; set dispatch.client_certificate too")
    return context


def _context_of(bundle: Path) -> ssl.SSLContext:
    if bundle.is_dir():
        if not any(_HASHED_NAME.fullmatch(path.name) for path in bundle.iterdir()):
            raise SettingsError(
                f"dispatch.ca_bundle: {bundle} has no certificates under hashed names; run: openssl rehash {bundle}"
            )
        return ssl.create_default_context(capath=str(bundle))
    _check_readable("dispatch.ca_bundle", bundle)
    try:
        return ssl.create_default_context(cafile=str(bundle))
    except ssl.SSLError:
        raise SettingsError(f"dispatch.ca_bundle: {bundle} has no certificates in PEM format") from None


def _load_client_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    _check_readable("dispatch.client_certificate", certificate)
    if key is not None:
        _check_readable("dispatch.client_key", key)
    key_setting, key_file = (
        ("dispatch.client_certificate", certificate) if key is None else ("dispatch.client_key", key)
    )
    try:
        if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
            raise SettingsError(f"dispatch.client_certificate: {certificate} has no certificate in PEM format")
        context.load_cert_chain(certificate, key, password=partial(_refuse_password, key_setting, key_file))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(
                f"{key_setting}: the key in {key_file} does not belong to the certificate in {certificate}"
            ) from None
        todo = "" if key is not None else "; if the key is in a separate file, set dispatch.client_key"
        raise SettingsError(f"{key_setting}: {key_file} has no usable private key in PEM format{todo}") from None


def _refuse_password(setting: str, path: Path) -> str:
    """Refuse an encrypted key. OpenSSL calls this instead of asking on the terminal."""
    raise SettingsError(f"{setting}: the key in {path} is encrypted; decrypt it (openssl pkey) and chmod 600 it")


def _check_readable(setting: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read ({(error.strerror or '').lower()})") from None


def _proxy_for(base_url: str, settings: Settings) -> Proxy | None:
    if settings.dispatch.proxy is None or settings.exchange == EMBEDDED:  # the embedded exchange is in this process
        return None
    named = settings.dispatch.proxy.get_secret_value()
    if named != ENVIRONMENT:
        return _parsed_proxy(named, "the value")
    found = select_proxy(base_url, get_environ_proxies(base_url))
    return (
        _parsed_proxy(found if "://" in found else f"http://{found}", "the proxy in the environment") if found else None
    )


def _parsed_proxy(url: str, what: str) -> Proxy:
    """The proxy of a URL. Raises SettingsError, without showing the URL: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SettingsError(f"dispatch.proxy: {what} is not a URL; write http://host:port") from None
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise SettingsError(
            f"dispatch.proxy: {what} is not the URL of an HTTP proxy; write http://host:port (https:// goes through it too)"
        )
    headers, secrets = _login(parts)
    return Proxy(parts.hostname, _PORTS["http"] if port is None else port, headers, secrets)


def _login(parts: SplitResult) -> tuple[dict[str, str], tuple[str, ...]]:
    """The header with user name and password (RFC 7617), and the texts to hide."""
    if parts.username is None:
        return {}, ()
    user, password = unquote(parts.username), unquote(parts.password or "")
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets = (encoded, password, parts.password or "")
    return {"Proxy-Authorization": f"Basic {encoded}"}, tuple(dict.fromkeys(secret for secret in secrets if secret))
