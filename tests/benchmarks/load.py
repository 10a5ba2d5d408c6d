"""Load on an HTTP server: kept-alive connections from one process, each with one create of a fresh order under way.

Raw sockets, because a client library would cost more CPU than the servers that are measured.
"""

import itertools
import os
import selectors
import socket
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from exchange_calls import encode
from exchange_process import TOKEN
from payload_examples import ORDER

CONNECTIONS = 64
_MARK = b"KEY-0000000000"
_FRESH = itertools.count()


class Measured(NamedTuple):
    """What a time of load gave: creates a second, CPU of the server's process per request in us, and times of answers in ms."""

    rate: float
    cpu_us: float
    median_ms: float
    p99_ms: float


class Connection:
    """One kept-alive connection and the time its call was sent."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.sent = b"", 0.0

    def send(self, request):
        self.received, self.sent = b"", time.perf_counter()
        self.socket.sendall(request)

    def answered(self):
        """Whether the answer is whole now. Raises AssertionError if it is no 200."""
        piece = self.socket.recv(65536)
        assert piece, "the server closed a connection"
        self.received += piece
        head, ended, body = self.received.partition(b"\r\n\r\n")
        if not ended:
            return False
        assert head[9:12] == b"200", self.received
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return len(body) >= length


def request():
    """The bytes of a create, with a mark of fixed width where its key goes."""
    body = encode({**ORDER, "order_id": _MARK.decode()})
    head = f"POST /tmsapi/createOrder HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def load(url, process, seconds):
    """Creates from 64 connections for a time; `process` is the server's id."""
    address = urlsplit(url)
    before, _, after = request().partition(_MARK)
    connections = [Connection(address.hostname, address.port) for _ in range(CONNECTIONS)]
    times, selector = [], selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(b"%bKEY-%010d%b" % (before, next(_FRESH), after))
    started, cpu = time.perf_counter(), cpu_seconds(process)
    while (now := time.perf_counter()) - started < seconds:
        for key, _ in selector.select(1):
            connection = key.data
            if connection.answered():
                times.append(time.perf_counter() - connection.sent)
                connection.send(b"%bKEY-%010d%b" % (before, next(_FRESH), after))
    cpu = cpu_seconds(process) - cpu
    for connection in connections:
        connection.socket.close()
    selector.close()
    times.sort()
    spread = times[len(times) // 2] * 1000, times[len(times) * 99 // 100] * 1000
    return Measured(len(times) / (now - started), cpu / len(times) * 1e6, *spread)


def cpu_seconds(process):
    """CPU that all threads of a process have used, in s; 0 where there is no /proc."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
