"""The health endpoint of a watch: /health for whoever restarts it, /metrics for Prometheus, and no other paths.

Owns: the small server, in a thread of its own. It reads the board and nothing else; it changes nothing and knows no secret.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from loadsheet import run_log
from loadsheet.operations.monitoring.prometheus import CONTENT_TYPE, exposed
from loadsheet.operations.monitoring.watch_status import Board
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

PATIENCE_S = 5.0
"""So long somebody may take to ask."""


@contextmanager
def served(settings: Settings, board: Board) -> Iterator[str]:
    """Answer at `health_address` for as long as the block takes, if it is set; gives the address with its port (empty: none).

    Raises SettingsError if it cannot be listened on.
    """
    if not settings.health_address:
        yield ""
        return
    host, _, port = settings.health_address.rpartition(":")
    host = host.strip("[]")
    try:
        server = _Server((host, int(port)), board)
    except OSError as error:
        told = f"health_address: {settings.health_address} cannot be listened on ({error.strerror})"
        raise SettingsError(f"{told}; give another port, or leave it empty") from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], board: Board) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.board = board
        super().__init__(address, _Answering)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody hung up: nobody needs to know."""


class _Answering(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE_S
    server_version, sys_version = "loadsheet", ""

    def do_GET(self) -> None:
        """Answer one of the two paths."""
        path = self.path.partition("?")[0]
        if path == "/health":
            self._health()
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, exposed(self.server.board.figures()))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"there are /health and /metrics\n")

    do_HEAD = do_GET  # noqa: N815 (the library's name)

    def _health(self) -> None:
        board = self.server.board
        verdict = board.verdict
        told = {
            "status": "ok" if verdict.well else "unwell",
            "reason": run_log.clean(verdict.reason),
            "quiet_s": round(board.quiet_s, 1),
            "shippers": {
                shipper: {"exit_code": last.exit_code, "ended": last.ended.isoformat(timespec="seconds")}
                for shipper, last in board.last().items()
            },
        }
        status = HTTPStatus.OK if verdict.well else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, "application/json", msgspec.json.encode(told) + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Being asked is no news."""
