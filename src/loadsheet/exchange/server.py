"""The exchange on a socket: embedded in this process, or alone until it is told to stop.

Owns: sockets, threads and signals (uvicorn). Knows no request. Nothing is logged of a request, so no token either.
"""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from loadsheet.contract import Assumptions
from loadsheet.exchange.address import LOOPBACK, Tls, check_address
from loadsheet.exchange.answers import SafeHeaders
from loadsheet.exchange.app import create_app
from loadsheet.exchange.faults import Faults, FaultScript, Fired
from loadsheet.exchange.front import front
from loadsheet.exchange.limits import Limits, RateLimit, limited_protocol
from loadsheet.exchange.pages import Faces
from loadsheet.exchange.store import BUSY_TIMEOUT_S, Store
from loadsheet.exchange.tokens import Doorkeeper, utc_now
from loadsheet.exchange.truth_log import TruthLog
from loadsheet.exchange.wrong_tokens import Guesses
from loadsheet.problems import SettingsError

BACKLOG = 2048
_LIMITS = Limits()
STOP_TIMEOUT_S = 5  # calls that still run when the exchange is stopped may finish within it
_NOBODY_MAY_CALL = (
    "the exchange needs a token: set LOADSHEET_TOKEN, or token_file in loadsheet.toml, or make one in its database with "
    "`loadsheet exchange token add`"
)


class Embedded:
    """The exchange inside this process, on a loopback port that the system chooses, while the `with` block lasts.

    `url` is its base URL. `truth` is the file of the truth log; with `faults` it misbehaves, and `fired` lists what it has shown.
    Raises SettingsError on entry if the database cannot be used.
    """

    url: str

    def __init__(
        self,
        database_url: str,
        token: str,
        assumptions: Assumptions,
        *,
        truth: Path | None = None,
        faults: FaultScript | None = None,
        limits: Limits = _LIMITS,
    ) -> None:
        self._database_url, self._token, self._assumptions = database_url, token, assumptions
        self._truth, self._limits = truth, limits
        self._faults = Faults(faults) if faults else None
        self._exit = ExitStack()

    @property
    def fired(self) -> list[Fired]:
        """What of the script was shown so far, in order."""
        return list(self._faults.fired) if self._faults else []

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            store = opened.enter_context(_opened(self._database_url, self._truth))
            guesses = Guesses(self._limits.wrong_tokens_per_second)
            app = create_app(store, self._token, self._assumptions, guesses=guesses)
            listener = opened.enter_context(closing(_listener(LOOPBACK, 0)))
            opened.enter_context(_running(app, listener, self._limits))
            self.url = _url(listener)
            if self._faults:
                facing = opened.enter_context(closing(_listener(LOOPBACK, 0)))
                self.url = _url(facing)
                opened.enter_context(front(facing, listener.getsockname()[:2], self._faults, self._assumptions))
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()


def serve(
    *,
    host: str,
    port: int,
    database_url: str,
    token: str | None,
    assumptions: Assumptions,
    announce: Callable[[str], None],
    truth: Path | None = None,
    faults: FaultScript | None = None,
    limits: Limits = _LIMITS,
    docs_open: bool = True,
    database_s: float = BUSY_TIMEOUT_S,
    tls: Tls | None = None,
    tls_in_front: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish running calls and return. Call it from the main thread.

    `token` is the operator's; without it the database has to hold one that is usable. `port` 0 lets the system choose. `announce`
    gets one line, once connections are accepted. `truth` and `faults` as for `Embedded`, `database_s` as `busy_timeout_s` of `Store`.
    Other machines are served with `tls` or, `tls_in_front`, by way of something that speaks TLS. Raises SettingsError if the
    database cannot be used, the address not be listened on, and for an address that other machines reach without TLS or with
    faults.
    """
    check_address(host, tls, tls_in_front=tls_in_front, faults=faults is not None)
    with _opened(database_url, truth, database_s) as store:
        if token is None and all(each.state(utc_now()) != "usable" for each in store.tokens()):
            raise SettingsError(_NOBODY_MAY_CALL)
        guesses = Guesses(limits.wrong_tokens_per_second)
        api = create_app(store, token, assumptions, guesses=guesses)
        app = Faces(
            api,
            store=store,
            doorkeeper=Doorkeeper(token, store.token),
            assumptions=assumptions,
            version=version("loadsheet"),
            docs_open=docs_open,
            tls_in_front=tls_in_front,
            guesses=guesses,
        )
        with ExitStack() as opened:
            facing = listener = opened.enter_context(closing(_listener(host, port)))
            url = _url(facing, "https" if tls else "http")
            if faults:
                listener = opened.enter_context(closing(_listener(LOOPBACK, 0)))
                opened.enter_context(front(facing, listener.getsockname()[:2], Faults(faults), assumptions))
            server = _Server(app, lambda: announce(f"exchange listening on {url}"), limits, tls)
            with _stopped_by_signals(server):
                server.run(sockets=[listener])


@contextmanager
def _opened(database_url: str, truth: Path | None, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Iterator[Store]:
    """The store, and the truth log that it writes, if one is asked for."""
    with ExitStack() as opened:
        log = opened.enter_context(closing(TruthLog(truth))) if truth else None
        witness = log.write if log else None
        yield opened.enter_context(closing(Store(database_url, busy_timeout_s=busy_timeout_s, witness=witness)))


class _Server(uvicorn.Server):
    """A uvicorn server that says when it listens and stops at once. By itself uvicorn sleeps twice for 0.1 s when it stops."""

    _loop: asyncio.AbstractEventLoop | None = None
    _told: asyncio.Event

    def __init__(self, app: ASGIApp, listening: Callable[[], None], limits: Limits, tls: Tls | None = None) -> None:
        config = uvicorn.Config(
            SafeHeaders(RateLimit(app, limits.calls_per_second) if limits.calls_per_second else app),
            http=limited_protocol(limits),
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
            self._loop.call_soon_threadsafe(self._told.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)
        self._listening()

    async def main_loop(self) -> None:
        ticks, told = asyncio.ensure_future(super().main_loop()), asyncio.ensure_future(self._told.wait())
        await asyncio.wait((ticks, told), return_when=asyncio.FIRST_COMPLETED)
        ticks.cancel()
        told.cancel()

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
def _running(app: ASGIApp, listener: socket.socket, limits: Limits) -> Iterator[None]:
    """A server in a thread of its own; returns from entry when it listens, from exit when the thread has ended."""
    ready = threading.Event()
    server = _Server(app, ready.set, limits)

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
