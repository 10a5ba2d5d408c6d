"""The exchange on a socket: embedded in this process, or alone until it is told to stop.

Owns: sockets, threads and signals (uvicorn). Knows no request. Nothing is logged of a request, so no token either.
"""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from loadsheet.contract import Assumptions
from loadsheet.exchange.app import create_app
from loadsheet.exchange.store import Store
from loadsheet.problems import SettingsError

LOOPBACK = "127.0.0.1"
BACKLOG = 2048
STOP_TIMEOUT_S = 5  # calls that still run when the exchange is stopped may finish within it


class Embedded:
    """The exchange inside this process, on a loopback port that the system chooses, while the `with` block lasts.

    `url` is its base URL. Raises SettingsError on entry if the database cannot be used.
    """

    url: str

    def __init__(self, database_url: str, token: str, assumptions: Assumptions) -> None:
        self._database_url, self._token, self._assumptions = database_url, token, assumptions
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            store = opened.enter_context(closing(Store(self._database_url)))
            app = create_app(store, self._token, self._assumptions)
            listener = opened.enter_context(closing(_listener(LOOPBACK, 0)))
            opened.enter_context(_running(app, listener))
            self.url = _url(listener)
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
    token: str,
    assumptions: Assumptions,
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then finish running calls and return. Call it from the main thread.

    `port` 0 lets the system choose. `announce` gets one line, once connections are accepted. Raises SettingsError if the
    database cannot be used or the address not be listened on.
    """
    with closing(Store(database_url)) as store:
        app = create_app(store, token, assumptions)
        with closing(_listener(host, port)) as listener:
            server = _Server(app, lambda: announce(f"exchange listening on {_url(listener)}"))
            with _stopped_by_signals(server):
                server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """A uvicorn server that says when it listens."""

    def __init__(self, app: ASGIApp, listening: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()


@contextmanager
def _running(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """A server in a thread of its own; returns from entry when it listens, from exit when the thread has ended."""
    ready = threading.Event()
    server = _Server(app, ready.set)

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
        server.should_exit = True
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


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
