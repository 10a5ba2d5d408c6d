"""An exchange on the virtual clock, and the network before it: what it was asked and what it did, call by call, is its own record.

It holds every application of every record, in order; a second create of a key is a second record (the worst kind of exchange). `Client`,
`Desk` and `Selector` stand where the product has sockets: calls travel, meet faults, are applied late, and answers get lost.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
from simulated_time import Process, Task, Time

from loadsheet.contract import BY_NAME, Assumptions, Listing, Operation, refusal, success
from loadsheet.contract.answers import Fault
from loadsheet.dispatch.outcomes import Failure, Reply
from loadsheet.dispatch.wire import Look
from loadsheet.problems import ExchangeUnreachable

CALL_TIMEOUT_S = 10.0
LATE_S = 60.0
"""So long after it left a call may still be applied."""
READ, WRITE = 1, 2
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_LOST = "http.client.RemoteDisconnected"
_NOBODY = "urllib3.exceptions.NewConnectionError"


def token_of(operation: str, record: dict[str, Any]) -> str:
    """What tells this record from all others that were ever meant."""
    if operation.endswith("delete"):
        return f"delete {record['order_id']}"
    return str(record["status_location"] if operation.endswith("status") else record["pickup_address2"])


class Applied(NamedTuple):
    """A record that the exchange applied."""

    at: float
    operation: str
    key: str
    token: str


class Exchange:
    """What the exchange holds and did. `bad` are the tokens that it refuses."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.records: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.applied: list[Applied] = []
        self.bad: set[str] = set()
        self.unreachable_until = 0.0
        self.under_way: dict[object, tuple[str, ...]] = {}  # the lanes of each call that may still be applied
        self._assumptions = Assumptions()

    def apply(self, operation: Operation, body: bytes) -> Reply:
        """Carry out a call: all of it, or nothing."""
        records = operation.records(_decode(body))
        faults = [
            Fault("order_id", why, place if operation.batched else None)
            for place, record in enumerate(records)
            if (why := self._wrong(operation.name, record))
        ]
        if faults:
            return Reply(400, json.dumps(refusal(operation, faults)).encode())
        for record in records:
            self._do(operation.name, record["order_id"], record)
        return Reply(
            200, json.dumps(success(operation, records[0], self._assumptions, service_order=7), default=str).encode()
        )

    def _wrong(self, name: str, record: dict[str, Any]) -> str:
        if token_of(name, record) in self.bad:
            return "is on the list of those that we refuse"
        there = self.records.get(record["order_id"])
        return "" if there or name == "order.create" else "there is no such order"

    def _do(self, name: str, key: str, record: dict[str, Any]) -> None:
        self.applied.append(Applied(self.time.now, name, key, token_of(name, record)))
        if name == "order.create":
            self.records[key].append(record)
        elif name == "order.update":
            self.records[key] = [{**self.records[key][-1], **record}]
        elif name == "order.delete":
            del self.records[key]

    def listing(self, *, whole: bool) -> Listing:
        found = [record for records in self.records.values() for record in records]
        total = len(found)
        if not whole:
            found = found[: len(found) // 2]
        return Listing(found, 1000, total, 1)


class Network:
    """The way to the exchange: what becomes of a call is decided when it leaves."""

    def __init__(self, time: Time, exchange: Exchange) -> None:
        self.time, self.exchange = time, exchange

    def hit(self, chance: float) -> bool:
        return self.time.random.random() < chance

    def connects(self) -> bool:
        faults, now = self.time.faults, self.time.now
        if self.hit(faults.unreachable):
            self.exchange.unreachable_until = now + self.time.random.uniform(0.1, 30.0)
        return now >= self.exchange.unreachable_until or not faults.unreachable

    def leaves(self, desk: "Desk", operation: Operation, body: bytes, lanes: tuple[str, ...]) -> None:
        """A call is under way; the desk gets the answer, if there is one."""
        time, faults, call = self.time, self.time.faults, object()
        time.counts.calls += 1
        self.exchange.under_way[call] = lanes
        took = time.random.random() ** 2 * 0.6
        overdue = Reply(failure=Failure("loadsheet.deadline", "the call was not over in time", left=True))
        time.at(time.now + CALL_TIMEOUT_S, desk.answers(overdue))
        if self.hit(faults.busy):
            answer = Reply(429, b"{}", retry_after=str(time.random.choice((0, 1, 4))))
            time.at(time.now + took, self._over(call, desk.answers(answer)))
        elif self.hit(faults.failed):
            time.at(time.now + took, self._over(call, desk.answers(Reply(503, b"{}"))))
        elif self.hit(faults.late):
            time.at(time.now + time.random.uniform(0.5, LATE_S), self._done(call, desk, operation, body))
        elif self.hit(faults.lost):
            broken = Reply(failure=Failure(_LOST, "the connection was closed", left=True))
            if self.hit(0.5):
                time.at(time.now + took, self._over(call, desk.answers(broken)))
            else:
                time.at(time.now + took, self._done(call, desk, operation, body, broken))
        else:
            time.at(time.now + took, self._done(call, desk, operation, body))

    def _over(self, call: object, then: Callable[[], None]) -> Callable[[], None]:
        def over() -> None:
            self.exchange.under_way.pop(call)
            then()

        return over

    def _done(
        self, call: object, desk: "Desk", operation: Operation, body: bytes, instead: Reply | None = None
    ) -> Callable[[], None]:
        answered = desk.call

        def done() -> None:
            self.exchange.under_way.pop(call)
            said = self.exchange.apply(operation, body)
            if desk.call is answered:
                self.time.soon(0.3, desk.answers(instead or said))

        return done


class Desk:
    """Where one call at a time is made, over one connection."""

    def __init__(self, client: "Client", number: int) -> None:
        self.client, self._fileno = client, number
        self.token = client.token
        self.is_connected = False
        self.stays = True
        self.call: object = None
        self.reply: Reply | None = None
        self._begun: tuple[Operation, bytes] | None = None
        self.lanes: tuple[str, ...] = ()
        self._left = self._answered = 0.0

    @property
    def number(self) -> int:
        return self._fileno

    def connect(self) -> None:
        if not self.client.network.connects():
            raise ConnectionRefusedError("nobody listens")
        self.is_connected = True

    def begin(self, operation: Operation, body: bytes) -> None:
        self._begun, self.call, self.reply = (operation, body), object(), None

    def forget(self) -> None:
        self._begun = self.call = None

    def depart(self) -> bool:
        assert self._begun is not None
        self._left = self._answered = self.client.network.time.now
        self.client.network.leaves(self, *self._begun, self.lanes)
        return True

    def answers(self, reply: Reply) -> Callable[[], None]:
        """What brings this answer to the call that is made now, if that is not over by then."""
        call = self.call

        def come() -> None:
            if self.call is call and self.reply is None:
                self.reply, self._answered = reply, self.client.network.time.now
                self.client.selector_rings(self.number)

        return come

    def read(self) -> bool:
        return self.reply is not None

    def wire_s(self, _seen: Look) -> float:
        return self._answered - self._left

    def over(self, error: Exception | None) -> Reply:
        found = self.reply
        if error is not None or found is None:
            found = Reply(failure=Failure(_NOBODY, str(error), left=False))
        self.stays = found.failure is None
        self.is_connected = self.stays
        self.call = self.reply = self._begun = None
        return found

    def close(self) -> None:
        self.is_connected, self.call = False, None


class Client:
    """A client of the simulated exchange, for one place of a worker."""

    token, may_renew, base_url = "t", False, "simulated"

    def __init__(self, network: Network, process: Process) -> None:
        self.network, self.process = network, process
        self.selector: Selector | None = None
        self._made = 1000

    def desk(self) -> Desk:
        self._made += 1
        return Desk(self, self._made)

    def take_back(self, desk: Desk) -> None:
        desk.close()

    def begin(self, desk: Desk, operation: Operation, body: bytes) -> None:
        desk.begin(operation, body)

    def renewed(self, _refused: str) -> bool:
        return False

    def close(self) -> None:
        """Nothing is kept."""

    def selector_rings(self, number: int) -> None:
        if self.selector is not None and not self.process.dead:
            self.selector.ring(number)

    def whole_listing(self, operation: Operation) -> Listing:
        """The listing as it is at one moment of the look."""
        time = self.network.time
        time.step()
        if not self.network.connects() or self.network.hit(time.faults.blind):
            raise ExchangeUnreachable("the listing gave no answer")
        found = self.network.exchange.listing(whole=not self.network.hit(time.faults.blind))
        time.step()
        assert operation is BY_NAME["order.list"]
        return found


class Selector:
    """Stands where the product watches its sockets. What is ready stays so until it is unregistered or read."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._known: dict[Any, SimpleNamespace] = {}
        self._rung: set[Any] = set()
        self._waits: tuple[Task, int] | None = None

    def register(self, what: Any, events: int) -> None:
        self._known[what] = SimpleNamespace(fd=what, fileobj=what, events=events)

    def modify(self, what: Any, events: int) -> None:
        self._known[what].events = events

    def unregister(self, what: Any) -> None:
        self._known.pop(what, None)
        self._rung.discard(what)

    def get_key(self, what: Any) -> SimpleNamespace:
        return self._known[what]

    def close(self) -> None:
        self._known.clear()

    def ring(self, what: Any) -> None:
        self._rung.add(what)
        if self._waits is not None:
            waits, self._waits = self._waits, None
            self._time.soon(0.001, lambda: self._time.wake(*waits))

    def select(self, timeout: float | None) -> list[tuple[SimpleNamespace, int]]:
        """Wait for an answer, or for so long; here others run."""
        self._time.step()
        if not self._rung and timeout != 0:
            task = self._time.running
            assert task is not None
            self._waits = task, task.turn
            self._time.wait(timeout)
            self._waits = None
        rung, self._rung = self._rung, set()
        return [(self._known[what], READ) for what in sorted(rung, key=str) if what in self._known]


class Bell:
    """The pair of sockets by which helpers wake the one who waits."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector

    def settimeout(self, _seconds: float) -> None:
        """It never waits."""

    def send(self, _data: bytes) -> None:
        self.selector.ring(self)

    def recv(self, _count: int) -> bytes:
        return b""

    def close(self) -> None:
        """Nothing to close."""

    def __str__(self) -> str:
        return ""


class Helpers:
    """Does at once, but a little later, what helpers do."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._closed = False

    def submit(self, work: Callable[..., Any], *given: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def do() -> None:
            if self._closed:
                return
            try:
                found = work(*given)
            except Exception as error:  # noqa: BLE001 (as a pool does)
                future.set_exception(error)
            else:
                future.set_result(found)

        self._time.soon(0.05, do)
        return future

    def shutdown(self) -> None:
        self._closed = True
