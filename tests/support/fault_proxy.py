"""The fault proxy: accepts client connections, forwards requests to the real exchange, and injects faults by rules.

h11 reads the requests. If and when a request is forwarded decides its effect, which is always the real exchange's.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import h11
from fault_rules import (
    CONNECT,
    Answer,
    FaultClass,
    FaultRule,
    Faults,
    Fired,
    Happens,
    Headers,
    Wrong,
    spoil,
    status_answer,
)

from loadsheet.contract import OPERATIONS, Assumptions, Operation
from loadsheet.exchange.wire import BadBody, parse

ENDLESS_BYTES = 1_000_000_000
_READ = 65_536
_BACKLOG = 2048
_OURS = (b"connection", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"http2-settings")

Address = tuple[str, int]


@dataclass(slots=True)
class _Request:
    """A request; `body` is set once it is read."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    operation: Operation | None
    body: bytes = b""
    last: bool = False  # the client asks to close the connection

    @property
    def name(self) -> str:
        return self.operation.name if self.operation else ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The business keys of the records in the body; empty for an invalid body."""
        try:
            body = parse(self.body)
            if self.operation is None or not isinstance(body, dict):
                return ()
            records = self.operation.records(body) if self.operation.is_write else []
            return tuple(self.operation.key_of(record) for record in records)
        except (BadBody, KeyError, TypeError, AttributeError):
            return ()


@dataclass(slots=True)
class _Client:
    """One connection of a client: `rest` holds the bytes after the latest request."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    rest: bytes = b""

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with RST."""
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Facing(NamedTuple):
    """A running fault proxy: its base URL, and the faults injected so far, in order."""

    url: str
    fired: list[Fired]


@contextmanager
def fault_proxy(backend_url: str, faults: Faults, assumptions: Assumptions) -> Iterator[Facing]:
    """A fault proxy in front of an exchange, in its own thread, while the block lasts.

    `backend_url` is the base URL of the exchange. Effects that are still pending at the end of the block do not happen.
    """
    url = urlsplit(backend_url)
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    address = listener.getsockname()[:2]
    stop, loop = asyncio.Event(), asyncio.new_event_loop()
    proxy = _FaultProxy(listener, address, (str(url.hostname), int(url.port or 80)), faults, assumptions)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(proxy.serve(stop))

    thread = threading.Thread(target=run, name="fault-proxy")
    thread.start()
    try:
        yield Facing(f"http://127.0.0.1:{address[1]}", faults.fired)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        listener.close()


@dataclass(slots=True)
class _FaultProxy:
    listener: socket.socket
    address: Address
    backend: Address
    faults: Faults
    assumptions: Assumptions
    server: asyncio.Server | None = None
    later: set[asyncio.Task[object]] = field(default_factory=set)

    async def serve(self, stop: asyncio.Event) -> None:
        self.server = await asyncio.start_server(self._accept, sock=self.listener)
        try:
            await stop.wait()
        finally:
            self.server.close()
            await self._end()

    async def _end(self) -> None:
        """Cancel the running tasks. asyncio still reports the errors of failed ones."""
        for task in self.later:
            task.cancel()
        if self.later:
            await asyncio.wait(self.later)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Our own task, because asyncio reports the cancellation of its own tasks as an error.
        self._soon(self._client(reader, writer))

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(reader, writer)
        try:
            if self._fails_at_accept(client):
                return
            while await self._serve_request(client):
                pass
        except OSError:  # the client has gone
            pass
        finally:
            writer.close()

    def _fails_at_accept(self, client: _Client) -> bool:
        rule = self.faults.fire(self.faults.at_headers(CONNECT))
        if rule and rule.fault is FaultClass.RESET_AT_ACCEPT:
            client.reset()
        return rule is not None

    async def _serve_request(self, client: _Client) -> bool:
        """Read a request and treat it as the script says. Returns whether the connection stays open."""
        reading = h11.Connection(h11.SERVER)
        reading.receive_data(client.rest) if client.rest else None
        try:
            request = await self._head(reading, client)
            if request is None:
                return False
            match = self.faults.at_headers(request.name)
            if self.faults.unread(match) and (rule := self.faults.fire(match)):
                await self._unread(rule, reading, client)
                return False
            if not await _body(reading, client, request):
                return False
        except h11.RemoteProtocolError:
            return False
        client.rest = reading.trailing_data[0]
        request.last = reading.their_state is h11.MUST_CLOSE
        rule = self.faults.fire(self.faults.at_body(match, request.keys), request.keys)
        stays = await (self._inject(rule, match.number, request, client) if rule else self._pass(request, client))
        return stays and not request.last

    async def _head(self, reading: h11.Connection, client: _Client) -> _Request | None:
        event = await _next(reading, client)
        if not isinstance(event, h11.Request):
            return None
        return _Request(event.method, event.target, list(event.headers), self._operation(event.method, event.target))

    def _operation(self, method: bytes, target: bytes) -> Operation | None:
        url = urlsplit(target.decode("latin-1"))
        matching = [each for each in OPERATIONS if each.path == url.path and each.method == method.decode()]
        if len(matching) < 2:
            return matching[0] if matching else None
        wanted = set(parse_qsl(self.assumptions.tender_listing_query, keep_blank_values=True))
        tenders = wanted and wanted <= set(parse_qsl(url.query, keep_blank_values=True))
        subject = "tender" if tenders or self.assumptions.plain_listing == "tenders" else "order"
        return next(each for each in matching if each.subject == subject)

    async def _unread(self, rule: FaultRule, reading: h11.Connection, client: _Client) -> None:
        if rule.fault is FaultClass.RESET_IN_BODY:
            await _part_of_body(reading, client, rule.bytes)
        if rule.fault is FaultClass.REFUSED:
            self._hide(rule.seconds)
        client.reset()

    def _hide(self, seconds: float) -> None:
        """Stop listening for a time; open connections stay."""
        if self.server:
            self.server.close()
        self._soon(self._listen_again(seconds))

    async def _listen_again(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.server = await asyncio.start_server(self._accept, *self.address)

    def _soon(self, doing: Awaitable[object]) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(doing)
        self.later.add(task)
        task.add_done_callback(self.later.discard)

    async def _pass(self, request: _Request, client: _Client) -> bool:
        answer = await self._forward(request)
        await client.send(answer.whole(*((b"connection", b"close"),) * request.last))
        return True

    async def _inject(self, rule: FaultRule, number: int, request: _Request, client: _Client) -> bool:
        """Inject a fault. Returns whether the connection stays open."""
        if rule.fault is FaultClass.LATE_EFFECT:
            self._soon(self._forward(request, after=rule.seconds))
        if rule.fault is FaultClass.SLOW_EFFECT:
            await asyncio.sleep(rule.seconds)
        happens = rule.fault.happens is Happens.BEFORE
        answer = await self._forward(request) if happens else Answer(200)
        if act := _ACTS.get(rule.fault):
            return await act(rule, answer, client)
        wrong = Wrong(answer, rule, number, "/".join(request.keys))
        data, stays = spoil(wrong)
        await client.send(data)
        return stays

    async def _forward(self, request: _Request, after: float = 0.0) -> Answer:
        """The real exchange's answer to a request, on a new connection."""
        await asyncio.sleep(after)
        asking = h11.Connection(h11.CLIENT)
        headers = [(name, value) for name, value in request.headers if name not in _OURS]
        headers += [(b"connection", b"close")]
        headers += [(b"content-length", b"%d" % len(request.body))] if request.body else []
        parts = (
            h11.Request(method=request.method, target=request.target, headers=headers),
            h11.Data(data=request.body),
            h11.EndOfMessage(),
        )
        reader, writer = await asyncio.open_connection(*self.backend)
        try:
            writer.write(b"".join(asking.send(part) or b"" for part in parts))
            return await _answer(asking, _Client(reader, writer))
        finally:
            writer.close()


async def _next(reading: h11.Connection, client: _Client) -> object:
    """The next event of a connection."""
    while (event := reading.next_event()) is h11.NEED_DATA:
        if reading.they_are_waiting_for_100_continue:
            await client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            reading.send(h11.InformationalResponse(status_code=100, headers=[]))
        reading.receive_data(await client.reader.read(_READ))
    return event


async def _body(reading: h11.Connection, client: _Client, request: _Request) -> bool:
    """Read the body of a request; False if it is incomplete."""
    parts = []
    while isinstance(event := await _next(reading, client), h11.Data):
        parts.append(bytes(event.data))
    request.body = b"".join(parts)
    return isinstance(event, h11.EndOfMessage)


async def _part_of_body(reading: h11.Connection, client: _Client, size: int) -> None:
    head = reading.their_state
    read = 0
    while head is h11.SEND_BODY and isinstance(event := await _next(reading, client), h11.Data):
        read += len(event.data)
        if read >= size:
            return


async def _answer(asking: h11.Connection, exchange: _Client) -> Answer:
    status, parts = 0, []
    headers: Headers = ()
    while not isinstance(event := await _next(asking, exchange), h11.EndOfMessage | h11.ConnectionClosed):
        if isinstance(event, h11.Response):
            status, headers = event.status_code, tuple(event.headers)
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
    return Answer(status, headers, b"".join(parts))


async def _reset(_rule: FaultRule, _answer: Answer, client: _Client) -> bool:
    client.reset()
    return False


async def _close(_rule: FaultRule, _answer: Answer, _client: _Client) -> bool:
    return False


async def _reset_in_answer(_rule: FaultRule, answer: Answer, client: _Client) -> bool:
    await client.send(answer.head(len(answer.body)) + answer.half)
    client.reset()
    return False


async def _wait_and_close(rule: FaultRule, _answer: Answer, _client: _Client) -> bool:
    await asyncio.sleep(rule.seconds)
    return False


async def _wait_and_send(rule: FaultRule, answer: Answer, client: _Client) -> bool:
    await asyncio.sleep(rule.seconds)
    return await _send_answer(rule, answer, client)


async def _send_answer(_rule: FaultRule, answer: Answer, client: _Client) -> bool:
    await client.send(answer.whole())
    return True


async def _send_status(rule: FaultRule, _answer: Answer, client: _Client) -> bool:
    if rule.status:
        await client.send(status_answer(rule, rule.status).whole())
    return bool(rule.status)


async def _drip(rule: FaultRule, answer: Answer, client: _Client) -> bool:
    await client.send(answer.head(len(answer.body)))
    return await _drop_by_drop(rule, answer.body, client)


async def _drip_all(rule: FaultRule, answer: Answer, client: _Client) -> bool:
    return await _drop_by_drop(rule, answer.whole(), client)


async def _drop_by_drop(rule: FaultRule, data: bytes, client: _Client) -> bool:
    for place in range(len(data)):
        await client.send(data[place : place + 1])
        await asyncio.sleep(rule.seconds)
    return True


async def _go_on(rule: FaultRule, answer: Answer, client: _Client) -> bool:
    left = rule.bytes or ENDLESS_BYTES
    await client.send(answer.head(left))
    while left > 0:
        await client.send(b" " * min(left, _READ))
        left -= _READ
    return True


async def _answer_and_reset_next(_rule: FaultRule, answer: Answer, client: _Client) -> bool:
    await client.send(answer.whole())
    if client.rest or await client.reader.read(1):
        client.reset()
    return False


_ACTS: dict[FaultClass, Callable[[FaultRule, Answer, _Client], Awaitable[bool]]] = {
    FaultClass.RESET_BEFORE_EFFECT: _reset,
    FaultClass.RESET_AFTER_EFFECT: _reset,
    FaultClass.CLOSED_BEFORE_EFFECT: _close,
    FaultClass.CLOSED_AFTER_EFFECT: _close,
    FaultClass.RESET_IN_ANSWER: _reset_in_answer,
    FaultClass.NO_ANSWER: _wait_and_close,
    FaultClass.SLOW_ANSWER: _wait_and_send,
    FaultClass.SLOW_EFFECT: _send_answer,
    FaultClass.LATE_EFFECT: _send_status,
    FaultClass.DRIPPING_HEADERS: _drip_all,
    FaultClass.DRIPPING_ANSWER: _drip,
    FaultClass.ENDLESS_ANSWER: _go_on,
    FaultClass.CLOSED_UNDER_PIPELINED: _answer_and_reset_next,
}
