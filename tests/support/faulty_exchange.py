"""An exchange with faults in front of it, its truth log, and a raw client that tells exactly what it met."""

import socket
import time
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from exchange_calls import AUTHORISED, encode, inside
from exchange_process import TOKEN
from fault_proxy import Facing, fault_proxy
from fault_rules import FaultRule, Faults
from invariants import read_truth

from loadsheet.contract import BY_NAME, Assumptions
from loadsheet.exchange import serve_embedded


class Met(NamedTuple):
    """What a client got before the connection ended or fell silent: bytes, and how it ended (closed, reset, silent)."""

    raw: bytes
    end: str

    @property
    def head(self):
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1").lower()

    @property
    def body(self):
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def status(self):
        return int(self.raw.split(b" ", 2)[1])

    @property
    def json(self):
        return msgspec.json.decode(self.body)


class Misbehaving(NamedTuple):
    exchange: Facing
    truth: object

    @property
    def address(self):
        host, port = self.exchange.url.removeprefix("http://").split(":")
        return host, int(port)

    def happened(self):
        """The lines of the truth log."""
        return read_truth(self.truth)

    def connect(self):
        return socket.create_connection(self.address, timeout=10)

    def meets(self, name, payload, *, wait=10.0):
        """One call on a connection of its own, and what came of it."""
        return self.meets_saying(request(name, payload), wait=wait)

    def meets_saying(self, data=b"", *, wait=10.0):
        """Some bytes on a connection of their own, and what came of it."""
        try:
            connection = self.connect()
        except ConnectionResetError:  # told as early as this, if it comes before the connection was looked at
            return Met(b"", "reset")
        with connection:
            return met(connection, data, wait=wait)


@contextmanager
def misbehaving(folder, *rules, **assumptions):
    faults = Faults([FaultRule(**rule) for rule in rules])
    database, truth = f"sqlite:///{folder / 'exchange.db'}", folder / "truth.jsonl"
    answers = Assumptions(**assumptions)
    with (
        serve_embedded(database, TOKEN, answers, truth=truth) as url,
        fault_proxy(url, faults, answers) as facing,
    ):
        yield Misbehaving(facing, truth)


def held(folder):
    """The order ids that the database really holds, once the exchange has stopped."""
    with inside(folder / "exchange.db") as app:
        return {order["order_id"] for order in app.orders("?page_size=100000")}


def request(name, payload, more=""):
    """The bytes of one call."""
    operation, body = BY_NAME[name], encode(payload) if payload is not None else b""
    lines = [f"{operation.method} {operation.path} HTTP/1.1", "Host: exchange"]
    lines += [f"{header}: {value}" for header, value in AUTHORISED.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", f"{more}\r\n"]).encode() + body


def met(connection, data=b"", *, wait=10.0):
    """Send, then read until the answer is whole by its own length, the connection ends, or nothing more comes."""
    got, until, closed = bytearray(), time.monotonic() + wait, "closed"
    try:
        if data:
            connection.sendall(data)
    except ConnectionResetError:  # told once only: reading then finds a plain end
        closed = "reset"
    except OSError:
        pass
    try:
        while not _whole(got):
            connection.settimeout(max(until - time.monotonic(), 0.001))
            if not (chunk := connection.recv(65536)):
                return Met(bytes(got), closed)
            got += chunk
    except ConnectionResetError:
        return Met(bytes(got), "reset")
    except TimeoutError:
        return Met(bytes(got), "silent")
    return Met(bytes(got), "open")


def _whole(got):
    head, end, body = bytes(got).partition(b"\r\n\r\n")
    sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end and sizes) and len(body) >= int(sizes[0])
