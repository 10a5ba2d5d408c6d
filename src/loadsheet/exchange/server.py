"""The exchange on a socket: embedded in this process, or alone until it is told to stop.

Owns: sockets, threads and signals (uvicorn), and where the exchange may listen: on this machine alone, or for others too, if TLS is
between them and us. Knows no request. Nothing is logged of a request, so no token either.
"""

import asyncio
import ipaddress
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple, Self

import uvicorn
from starlette.types import ASGIApp

from loadsheet.contract import Assumptions
from loadsheet.exchange.answers import SafeHeaders
from loadsheet.exchange.app import create_app
from loadsheet.exchange.fault_proxy import fault_proxy
from loadsheet.exchange.faults import Faults, FaultScript, Fired
from loadsheet.exchange.limits import RateLimit, limited_protocol
from loadsheet.exchange.pages import Pages
from loadsheet.exchange.sessions import Sessions
from loadsheet.exchange.store import Store
from loadsheet.exchange.tokens import Authenticator, WrongTokenLimit, utc_now
from loadsheet.problems import SettingsError
from loadsheet.settings.sections import ServerSettings

LOOPBACK = "127.0.0.1"
BACKLOG = 2048
_SETTINGS = ServerSettings()
STOP_TIMEOUT_S = 5  # calls that still run when the exchange is stopped may finish within it
_NOBODY_MAY_CALL = (
    "the exchange needs a token: set LOADSHEET_TOKEN, or token_file in loadsheet.toml, or make one in its database with "
    "`loadsheet exchange token add`"
)


class Tls(NamedTuple):
    """Certificate (with its chain) and private key, PEM files; the key without a passphrase."""

    certificate: Path
    key: Path


class Address(NamedTuple):
    """Where to listen; port 0 lets the system choose. Other machines are served with `tls` or, `tls_in_front`, by way of something
    that speaks TLS.
    """

    host: str = LOOPBACK
    port: int = 0
    tls: Tls | None = None
    tls_in_front: bool = False


class Rehearsal(NamedTuple):
    """What the exchange does so that its clients can be tested: it keeps a truth log of what really happened, and it misbehaves."""

    truth: Path | None = None
    faults: FaultScript | None = None


_NO_REHEARSAL = Rehearsal()


class ExchangeSetup(NamedTuple):
    """What an exchange is made of: its database, the operator's token (None: the database holds all), how it answers, its limits."""

    database_url: str
    token: str | None
    assumptions: Assumptions
    settings: ServerSettings = _SETTINGS
    rehearsal: Rehearsal = _NO_REHEARSAL

    def store(self) -> Store:
        """The open store, with its truth log. Raises SettingsError."""
        return Store(self.database_url, busy_timeout_s=self.settings.database_s, truth=self.rehearsal.truth)


class Embedded:
    """The exchange inside this process, on a loopback port that the system chooses, while the `with` block lasts.

    `url` is its base URL; `fired` lists the faults that it has shown. Raises SettingsError on entry if the database cannot be used.
    """

    url: str

    def __init__(
        self,
        database_url: str,
        token: str,
        assumptions: Assumptions,
        settings: ServerSettings = _SETTINGS,
        rehearsal: Rehearsal = _NO_REHEARSAL,
    ) -> None:
        self._setup = ExchangeSetup(database_url, token, assumptions, settings, rehearsal)
        self._faults = Faults(rehearsal.faults) if rehearsal.faults else None
        self._exit = ExitStack()

    @property
    def fired(self) -> list[Fired]:
        """What of the script was shown so far, in order."""
        return list(self._faults.fired) if self._faults else []

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            _, token, assumptions, settings, _ = self._setup
            store = opened.enter_context(closing(self._setup.store()))
            app = create_app(store, token, assumptions, wrong_tokens=WrongTokenLimit(settings.wrong_tokens_per_second))
            listener = opened.enter_context(closing(_listener(LOOPBACK, 0)))
            opened.enter_context(_running(app, listener, settings))
            self.url = _url(listener)
            if self._faults:
                facing = opened.enter_context(closing(_listener(LOOPBACK, 0)))
                self.url = _url(facing)
                opened.enter_context(fault_proxy(facing, listener.getsockname()[:2], self._faults, assumptions))
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()


def serve(setup: ExchangeSetup, address: Address, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish running calls and return. Call it from the main thread.

    Without an operator's token the database has to hold a token that is usable. `announce` gets one line, once connections are
    accepted. Raises SettingsError if the database cannot be used, the address not be listened on, and for an address that other
    machines reach without TLS or with faults.
    """
    _, token, assumptions, settings, rehearsal = setup
    check_address(address, faults=rehearsal.faults is not None)
    with closing(setup.store()) as store:
        if token is None and all(each.state(utc_now()) != "usable" for each in store.tokens()):
            raise SettingsError(_NOBODY_MAY_CALL)
        wrong_tokens = WrongTokenLimit(settings.wrong_tokens_per_second)
        api = create_app(store, token, assumptions, wrong_tokens=wrong_tokens)
        sessions = Sessions(Authenticator(token, store.token), store, wrong_tokens=wrong_tokens)
        app = Pages(api, sessions, assumptions, docs_open=settings.docs == "open", tls_in_front=address.tls_in_front)
        with ExitStack() as opened:
            facing = listener = opened.enter_context(closing(_listener(address.host, address.port)))
            url = _url(facing, "https" if address.tls else "http")
            if rehearsal.faults:
                listener = opened.enter_context(closing(_listener(LOOPBACK, 0)))
                faults = Faults(rehearsal.faults)
                opened.enter_context(fault_proxy(facing, listener.getsockname()[:2], faults, assumptions))
            server = _Server(app, lambda: announce(f"exchange listening on {url}"), settings, address.tls)
            with _stopped_by_signals(server):
                server.run(sockets=[listener])


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(address: Address, *, faults: bool) -> None:
    """Raises SettingsError for an address that tokens would be sent to in the clear, and for a certificate that is none."""
    host, tls = address.host, address.tls
    if faults and not _is_loopback(host):
        raise SettingsError(f"faults are shown on this machine only: serve on {LOOPBACK}, not on {host}")
    if faults and tls:
        raise SettingsError("faults are shown without TLS: leave the certificate out")
    if tls:
        _check_files(tls)
    elif not address.tls_in_front and not _is_loopback(host):
        raise SettingsError(
            f"{host} can be reached by other machines, and tokens would go over the network in the clear: give --tls-cert and "
            f"--tls-key, or serve on {LOOPBACK}; say --tls-in-front if something that speaks TLS stands in front"
        )


def _check_files(tls: Tls) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # never ask at a terminal
    except OSError as error:  # an error of TLS is one too
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(
            f"TLS: {tls.certificate} and {tls.key} cannot be used ({reason}); give a certificate and its key as PEM files, "
            "the key without a passphrase"
        ) from error


class _Server(uvicorn.Server):
    """A uvicorn server that says when it listens and stops at once. By itself uvicorn sleeps twice for 0.1 s when it stops."""

    _loop: asyncio.AbstractEventLoop | None = None
    _stop_asked: asyncio.Event

    def __init__(
        self, app: ASGIApp, listening: Callable[[], None], settings: ServerSettings, tls: Tls | None = None
    ) -> None:
        config = uvicorn.Config(
            SafeHeaders(RateLimit(app, settings.calls_per_second) if settings.calls_per_second else app),
            http=limited_protocol(settings),
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
            ssl_certfile=tls and str(tls.certificate),
            ssl_keyfile=tls and str(tls.key),
        )
        super().__init__(config)
        self._listening = listening

    def stop(self) -> None:
        """Stop once the calls under way are answered. Any thread may call it after the start."""
        self.should_exit = True
        self._wake()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._wake()

    def _wake(self) -> None:
        if self._loop and not self._loop.is_closed():  # it stops before it starts, or its start failed
            self._loop.call_soon_threadsafe(self._stop_asked.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._stop_asked = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)
        self._listening()

    async def main_loop(self) -> None:
        ticks, stop_asked = asyncio.ensure_future(super().main_loop()), asyncio.ensure_future(self._stop_asked.wait())
        await asyncio.wait((ticks, stop_asked), return_when=asyncio.FIRST_COMPLETED)
        ticks.cancel()
        stop_asked.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.server_state.tasks:  # without calls under way only idle connections have to end
            for server in self.servers:
                server.close()
            for connection in list(self.server_state.connections):
                connection.shutdown()
            await asyncio.sleep(0)
        if self.server_state.tasks or self.server_state.connections:
            await super().shutdown(sockets)


@contextmanager
def _running(app: ASGIApp, listener: socket.socket, settings: ServerSettings) -> Iterator[None]:
    """A server in a thread of its own; returns from entry when it listens, from exit when the thread has ended."""
    ready = threading.Event()
    server = _Server(app, ready.set, settings)

    def run() -> None:
        try:
            server.run(sockets=[listener])
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="exchange")
    thread.start()
    try:
        ready.wait()
        if not server.started:
            raise SettingsError("the embedded exchange could not start; its reason stands above")
        yield
    finally:
        server.stop()
        thread.join()


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    # uvicorn raises a signal that stopped it once more for the handler it found, and the default one would kill us
    # before the store is closed: so it finds its own.
    numbers = (signal.SIGINT, signal.SIGTERM)
    found = {number: signal.signal(number, server.handle_exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in found.items():
            signal.signal(number, handler)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise SettingsError(f"cannot listen on {host} port {port} ({error}); choose another address or port") from error


def _url(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
