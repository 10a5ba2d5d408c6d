"""The exchange: the eleven operations over HTTP on a durable store. Made from the contract; knows nothing of the translator.

This module runs it on a socket: embedded in this process, or standalone until a signal stops it. It owns sockets, threads and signals
(uvicorn), and the addresses on which the exchange may listen: other machines need TLS. Requests are not logged, so tokens are not either.

A request passes `limits` (limits for each client), `app` (token, route, validation, answer, listings), `record_store` (one
writer, group commit, truth log) with `database` (tables), and `effects` (the effects of operations).
`wire` parses and encodes JSON, `auth` authenticates callers and delays wrong tokens.

For people: `pages` (login, records, manual) with `browsing` (queries and the latest calls); for programs and people `api_description`.
"""

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple, cast

import uvicorn
from starlette.types import ASGIApp

from loadsheet.contract import Assumptions
from loadsheet.credentials import is_loopback
from loadsheet.errors import SettingsError
from loadsheet.exchange.app import SafeHeaders, create_app
from loadsheet.exchange.auth import Authenticator, Sessions, Token, TokenAdmin, WrongTokenLimit, all_tokens, utc_now
from loadsheet.exchange.limits import LimitedProtocol, RateLimit
from loadsheet.exchange.record_store import Store, StoreFailed
from loadsheet.settings.sections import ServerSettings

__all__ = [
    "Address",
    "ExchangeSetup",
    "Store",
    "StoreFailed",
    "Tls",
    "Token",
    "TokenAdmin",
    "create_app",
    "serve",
    "serve_embedded",
]


LOOPBACK = "127.0.0.1"
BACKLOG = 2048
_SETTINGS = ServerSettings()
STOP_TIMEOUT_S = 5  # time for running calls to finish after a stop
_NO_CALLERS = (
    "the exchange needs a token. Set LOADSHEET_TOKEN or token_file in loadsheet.toml, or create one in its database with "
    "`loadsheet exchange token add`"
)


class Tls(NamedTuple):
    """Certificate (with its chain) and private key, PEM files; the key without a passphrase."""

    certificate: Path
    key: Path


class Address(NamedTuple):
    """The address to listen on; port 0 lets the system choose. Other machines need `tls`, or a proxy with TLS (`tls_in_front`)."""

    host: str = LOOPBACK
    port: int = 0
    tls: Tls | None = None
    tls_in_front: bool = False


class ExchangeSetup(NamedTuple):
    """The setup of an exchange: database, operator's token (None: only those in the database), assumptions, limits, and the file of
    the truth log.
    """

    database_url: str
    token: str | None
    assumptions: Assumptions
    settings: ServerSettings = _SETTINGS
    truth: Path | None = None


@contextmanager
def serve_embedded(
    database_url: str,
    token: str,
    assumptions: Assumptions,
    settings: ServerSettings = _SETTINGS,
    truth: Path | None = None,
) -> Iterator[str]:
    """Serve inside this process, on a loopback port that the system chooses, while the `with` block lasts. Gives the base URL.

    Raises SettingsError if the database cannot be used.
    """
    wrong_tokens = WrongTokenLimit(settings.wrong_tokens_per_second)
    with closing(Store(database_url, busy_timeout_s=settings.database_s, truth=truth)) as store:
        app = create_app(store, token, assumptions, wrong_tokens=wrong_tokens)
        with closing(_listener(LOOPBACK, 0)) as listener, _running(app, listener, settings):
            yield _url(listener)


def serve(setup: ExchangeSetup, address: Address, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish running calls and return. Call it from the main thread.

    Without an operator's token the database must hold a usable token. `announce` gets one line when connections are accepted.
    Raises SettingsError if the database or the address cannot be used, and for an address that other machines reach without TLS.
    """
    from loadsheet.exchange.pages import Pages  # an embedded exchange has no pages

    database_url, token, assumptions, settings, truth = setup
    check_address(address)
    with closing(Store(database_url, busy_timeout_s=settings.database_s, truth=truth)) as store:
        if token is None and not any(each.state(utc_now()) == "usable" for each in asyncio.run(store.read(all_tokens))):
            raise SettingsError(_NO_CALLERS)
        wrong_tokens = WrongTokenLimit(settings.wrong_tokens_per_second)
        api = create_app(store, token, assumptions, wrong_tokens=wrong_tokens)
        sessions = Sessions(Authenticator(token, store), wrong_tokens=wrong_tokens)
        app = Pages(api, sessions, assumptions, docs_open=settings.docs == "open", tls_in_front=address.tls_in_front)
        with closing(_listener(address.host, address.port)) as listener:
            url = _url(listener, "https" if address.tls else "http")
            server = _Server(app, lambda: announce(f"exchange listening on {url}"), settings, address.tls)
            with _stopped_by_signals(server):
                server.run(sockets=[listener])


def check_address(address: Address) -> None:
    """Raises SettingsError for an address to which tokens would be sent unencrypted, and for an invalid certificate."""
    host, tls = address.host, address.tls
    if tls:
        _check_files(tls)
    elif not address.tls_in_front and not is_loopback(host):
        raise SettingsError(
            f"{host} can be reached by other machines, and tokens would be sent unencrypted. Give --tls-cert and --tls-key, or "
            f"serve on {LOOPBACK}, or give --tls-in-front if a proxy in front uses TLS"
        )


def _check_files(tls: Tls) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # never ask at a terminal
    except OSError as error:  # SSLError is an OSError
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(
            f"TLS: {tls.certificate} and {tls.key} cannot be used ({reason}). Give a certificate and its key as PEM files, "
            "the key without a passphrase"
        ) from error


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it listens, and stops at once. uvicorn alone sleeps twice for 0.1 s when it stops."""

    _loop: asyncio.AbstractEventLoop | None = None
    _stop_asked: asyncio.Event

    def __init__(
        self, app: ASGIApp, listening: Callable[[], None], settings: ServerSettings, tls: Tls | None = None
    ) -> None:
        config = uvicorn.Config(
            SafeHeaders(RateLimit(app, settings.calls_per_second) if settings.calls_per_second else app),
            http=cast("type[asyncio.Protocol]", partial(LimitedProtocol, settings)),  # uvicorn expects a class
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
        """Stop once the running calls are answered. Any thread may call it after the start."""
        self.should_exit = True
        self._wake()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._wake()

    def _wake(self) -> None:
        if self._loop is None:  # it stops before it starts
            return
        with suppress(RuntimeError):  # it has ended, maybe this very moment, and closed its loop
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
        if not self.server_state.tasks:  # without running calls only idle connections must be closed
            for server in self.servers:
                server.close()
            for connection in list(self.server_state.connections):
                connection.shutdown()
            await asyncio.sleep(0)
        if self.server_state.tasks or self.server_state.connections:
            await super().shutdown(sockets)


@contextmanager
def _running(app: ASGIApp, listener: socket.socket, settings: ServerSettings) -> Iterator[None]:
    """A server in its own thread; entry waits until it listens, exit until the thread has ended."""
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
            raise SettingsError("the embedded exchange could not start; the reason is above")
        yield
    finally:
        server.stop()
        thread.join()


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    # uvicorn raises the signal that stopped it again for the previous handler. The default handler would kill us before
    # the store is closed, so we install uvicorn's own.
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, server.handle_exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise SettingsError(f"cannot listen on {host} port {port} ({error}). Choose another address or port") from error


def _url(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
