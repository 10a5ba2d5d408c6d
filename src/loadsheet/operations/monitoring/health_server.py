"""The health endpoint of a watch: /health for supervisors, /metrics for Prometheus.

A small HTTP server in its own thread. It only reads the watch status and knows no secret.
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
from loadsheet.operations.monitoring.metrics import CONTENT_TYPE, exposition
from loadsheet.operations.monitoring.watch_status import WatchStatus
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

REQUEST_TIMEOUT_S = 5.0
"""Time a client has to send its request."""


@contextmanager
def serve_health(settings: Settings, watch_status: WatchStatus) -> Iterator[str]:
    """Serve `monitoring.health_address`, if it is set, while the `with` block lasts; gives the address with its port (empty: none).

    Raises SettingsError if the address is not free.
    """
    if not settings.monitoring.health_address:
        yield ""
        return
    host, _, port = settings.monitoring.health_address.rpartition(":")
    host = host.strip("[]")
    try:
        server = _Server((host, int(port)), watch_status)
    except OSError as error:
        message = f"monitoring.health_address: cannot listen on {settings.monitoring.health_address} ({error.strerror})"
        raise SettingsError(f"{message}; give another port, or leave it empty") from error
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

    def __init__(self, address: tuple[str, int], watch_status: WatchStatus) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.watch_status = watch_status
        super().__init__(address, _Answering)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client disconnected: not logged."""


class _Answering(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_S
    server_version, sys_version = "loadsheet", ""

    def do_GET(self) -> None:
        """Serve the two paths."""
        path = self.path.partition("?")[0]
        if path == "/health":
            self._health()
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, exposition(self.server.watch_status.metrics()))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"not found; use /health or /metrics\n")

    do_HEAD = do_GET  # noqa: N815 (the library's name)

    def _health(self) -> None:
        watch_status = self.server.watch_status
        health = watch_status.health
        response = {
            "status": "ok" if health.is_healthy else "unwell",
            "reason": run_log.clean(health.reason),
            "quiet_s": round(watch_status.silent_s, 1),
            "shippers": {
                shipper: {"exit_code": last.exit_code, "ended": last.ended.isoformat(timespec="seconds")}
                for shipper, last in watch_status.last_runs().items()
            },
        }
        status = HTTPStatus.OK if health.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, "application/json", msgspec.json.encode(response) + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""
