"""A real HTTP proxy on a raw socket: tunnels (CONNECT) and forwarded requests, with and without a password, that can fail on demand."""

import base64
import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_PIECE = 65_536


@dataclass
class Proxy:
    """Use it in a `with` block. `hosts` are the names that this proxy knows, with the ports on this machine behind them.

    `fault` is what it does wrong: `status NNN` instead of a tunnel or of a forwarded request; `late status NNN` after the exchange
    answered a forwarded request; `dies` when the exchange answers a call that it `applied`; `silent` before a tunnel.
    """

    hosts: dict[str, int] = field(default_factory=dict)
    login: str = ""
    fault: str = ""
    applied: Callable[[], bool] = bool  # whether the exchange has applied a call
    asked: list[str] = field(default_factory=list)  # the first lines of requests
    headers: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        for one in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def url_with(self, login):
        return f"http://{login}@127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            head = self._head(connection)
            if not head:
                return
            first, headers = head
            self.asked.append(first)
            self.headers.append(headers)
            method, target, _ = first.split(" ")
            if self.login and headers.get("proxy-authorization") != self._expected():
                self._answer(connection, 407, f"not {headers.get('proxy-authorization')}")
            elif self.fault == "silent":
                connection.recv(1)
            elif self.fault.startswith("status"):
                self._drain(connection, headers)
                self._answer(connection, int(self.fault.removeprefix("status ")))
            elif method == "CONNECT":
                self._tunnel(connection, target)
            else:
                self._forward(connection, method, target, headers)

    def _expected(self):
        return "Basic " + base64.b64encode(self.login.encode()).decode()

    def _head(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(1)  # not a byte of what follows
            if not piece:
                return None
            data += piece
        first, *lines = data.decode("latin-1").strip().split("\r\n")
        return first, {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def _drain(self, connection, headers):
        body, size = b"", int(headers.get("content-length", 0))
        while len(body) < size and (piece := connection.recv(_PIECE)):
            body += piece
        return body

    def _answer(self, connection, status, text=""):
        body = text.encode()
        head = f"HTTP/1.1 {status} From the proxy\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    def _connected(self, host, port):
        exchange = socket.create_connection(("127.0.0.1", self.hosts[host]) if host in self.hosts else (host, port), 10)
        self._open.append(exchange)
        return exchange

    def _tunnel(self, connection, target):
        host, _, port = target.rpartition(":")
        try:
            exchange = self._connected(host, int(port))
        except OSError:
            self._answer(connection, 502)
            return
        with exchange:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=self._copy, args=(exchange, connection))
            back.start()
            self._copy(connection, exchange, counts=True)
            back.join()

    def _copy(self, source, sink, *, counts=False):
        """Copy bytes until one side closes."""
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                if not counts and self.fault == "dies" and self.applied():
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _forward(self, connection, method, target, headers):
        host, _, path = target.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        body = self._drain(connection, headers)
        sent = "".join(f"{key}: {value}\r\n" for key, value in headers.items() if not key.startswith("proxy-"))
        with self._connected(name, int(port or 80)) as exchange:
            exchange.sendall(f"{method} /{path} HTTP/1.1\r\n{sent}Connection: close\r\n\r\n".encode() + body)
            exchange.settimeout(10)
            answer = exchange.recv(_PIECE)  # in one piece: answers in tests are small
        if self.fault == "dies":
            return
        if self.fault.startswith("late"):
            self._answer(connection, int(self.fault.removeprefix("late status ")))
            return
        connection.sendall(answer)
