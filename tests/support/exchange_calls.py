"""Calls to the exchange: over a real socket, or straight into the application on a real store."""

import asyncio
import http.client
import time
import weakref
from contextlib import closing, contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from exchange_process import TOKEN

from loadsheet.contract import BY_NAME, Assumptions
from loadsheet.exchange import Store, create_app, serve_embedded

AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
encode = msgspec.json.Encoder(decimal_format="number").encode
decode = msgspec.json.Decoder(float_hook=Decimal).decode
IDLE_MAX_S = 2.0
FORGIVING = {  # assumptions of an exchange that takes records in whatever order they come
    "create_existing": "replace",
    "update_unknown": "replace",
    "delete_unknown": "accept",
    "quote_unknown": "accept",
    "confirm_unknown": "accept",
    "status_unknown": "accept",
    "confirm_decided": "replace",
    "quote_accepted": "replace",
}


class Answered(NamedTuple):
    """What came back: status, headers with lower-case names, and the bytes of the body."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The JSON value of the body, numbers exact."""
        return decode(self.raw)


class Caller:
    """The verbs of the interface; how a request travels is a subclass's business."""

    def send(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] = AUTHORISED) -> Answered:
        raise NotImplementedError

    def call(self, name: str, payload: Any) -> Answered:
        """One operation by name, its body given as a value."""
        return self.send_body(name, encode(payload))

    def send_body(self, name: str, body: bytes) -> Answered:
        """One operation by name, its body given as bytes."""
        operation = BY_NAME[name]
        return self.send(operation.method, operation.path, body)

    def done(self, name: str, payload: Any) -> Any:
        """The body of a 200."""
        answer = self.call(name, payload)
        assert answer.status == 200, answer.raw
        return answer.body

    def errors(self, name: str, payload: Any) -> Any:
        """The `errors` of a 400."""
        answer = self.call(name, payload)
        assert answer.status == 400, answer.raw
        return answer.body["errors"]

    def orders(self, query: str = "") -> list[dict[str, Any]]:
        """The results of the plain listing."""
        answer = self.send("GET", f"/tmsapi/getOrders{query}")
        assert answer.status == 200, answer.raw
        return answer.body["results"]

    def tenders(self) -> list[dict[str, Any]]:
        """The results of the tender listing."""
        return self.orders("?record=tender")


class OverSocket(Caller):
    """One kept-alive connection to a base URL, closed with this object; a new one after it was idle, because the exchange closes those
    after 5 s.
    """

    def __init__(self, url: str) -> None:
        self.address = url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(self.address, timeout=30)
        weakref.finalize(self, self._connection.close)
        self._used = time.monotonic()

    def send(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] = AUTHORISED) -> Answered:
        if time.monotonic() - self._used > IDLE_MAX_S:
            self._connection.close()  # `request` opens another
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answered = Answered(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
        self._used = time.monotonic()
        return answered

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Inside(Caller):
    """The application itself, asked as a server would ask it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def send(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] = AUTHORISED) -> Answered:
        bare, _, query = path.partition("?")
        named = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": method,
            "path": bare,
            "query_string": query.encode(),
            "headers": named,
        }
        said: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        asyncio.run(self._app(scope, receive, send))
        start, *rest = said
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answered(start["status"], headers, b"".join(message["body"] for message in rest))


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


def url_of(database: Any) -> str:
    """The URL of a database that is given as such or as the path of a SQLite file."""
    return str(database) if "://" in str(database) else f"sqlite:///{database}"


def first_page(store, subject, page_size, party=""):
    """The JSON texts of the first records of a store, and how many there are in all."""
    return asyncio.run(store.read_page(subject, page_size, party, lambda total, contents: (list(contents), total)))


@contextmanager
def embedded(database, **assumptions):
    """A running embedded exchange and one connection to it."""
    with serve_embedded(url_of(database), TOKEN, Assumptions(**assumptions)) as url:
        yield OverSocket(url)


@contextmanager
def inside(database, *, truth=None, **assumptions):
    """The application on a store of its own, without a socket."""
    with closing(Store(url_of(database), truth=truth)) as store:
        yield Inside(create_app(store, TOKEN, Assumptions(**assumptions)))
