"""Attended nights in this process: real files, a real ledger, an exchange on a real socket that answers by key."""

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from orders import MAPPINGS, order_id, write_orders
from prometheus_client.parser import text_string_to_metric_families
from scripted_exchange import Move, Scripted, accepts, answer, lists, reset

from loadsheet import pipeline
from loadsheet.contract import BY_NAME, Fault, refusal_body
from loadsheet.dispatch import Client, Dispatcher
from loadsheet.ledger import open_ledger
from loadsheet.operations.run_hooks import run_with_hooks
from loadsheet.settings import Settings

TOKEN = "canary-token-7c41d9"
__all__ = ["TOKEN", "order_id", "write_orders"]


class Clock:
    """A clock that goes on by a second at each look, from a fixed night on."""

    def __init__(self, now=datetime(2026, 3, 4, 2, 15, tzinfo=UTC)):
        self.now = now

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now

    def go_on(self, **time):
        self.now += timedelta(**time)


class Exchange:
    """What the exchange says to whom: `refused` are answered 400, those of `lost` are applied and get no answer; the next `busy` calls
    are answered 429.
    """

    def __init__(self, refused=(), lost=(), busy=0):
        self.refused, self.lost, self.busy = set(refused), set(lost), busy
        self.records = {}

    def script(self, _number, request):
        if request.method == "GET":
            return lists(list(self.records.values()))
        return Move(self._answer)

    def _answer(self, connection, request):
        if self.busy:
            self.busy -= 1
            connection.sendall(answer(429, b"later"))
            return True
        payload = request.payloads[0]
        key = payload["order_id"]
        if key in self.refused:
            connection.sendall(
                answer(400, refusal_body(BY_NAME["order.create"], [Fault("pickup_city", "is not served")]))
            )
            return True
        if key in self.lost:
            return reset(connection)
        if request.operation.proved_by:
            self.records[key] = payload
        return accepts.act(connection, request)


class House:
    """A shipper's folders and ledger, with nights one after the other."""

    def __init__(self, folder, url, clock, **more):
        chosen = {
            "inbox": folder / "inbox",
            "outbox": folder / "outbox",
            "state": folder / "state",
            "mappings": MAPPINGS,
            "exchange": url,
            "settle_s": 0,
            "reading_process": "none",
            "canary": 0,
            "connections": 2,
            "log_days": 30,
        }
        self.folder, self.clock = folder, clock
        self.settings = Settings(**{**chosen, **more})
        self.said = []
        self.settings.inbox.mkdir(parents=True, exist_ok=True)

    def night(self, count=0, *, first=0, wrong_every=0, board=None):
        """One attended run, with so many new orders."""
        if count:
            write_orders(self.settings.inbox, count, first=first, wrong_every=wrong_every)
        return run_with_hooks(self.settings, self._once, clock=self.clock, say=self.said.append, watch_status=board)

    def _once(self):
        with (
            open_ledger(self.settings.database_url, clock=self.clock) as ledger,
            Client(self.settings.exchange, TOKEN, self.settings) as client,
        ):
            return pipeline.run(self.settings, ledger, Dispatcher(client))

    def lines(self, run=None):
        """The lines of a run's log file, the last one's if none is named."""
        files = sorted((self.settings.state / "logs").glob("*.jsonl"))
        path = files[-1] if run is None else self.settings.state / "logs" / f"{run}.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]

    def figures(self):
        """The metrics file: each sample's value by name and labels, but the shipper's if it is empty."""
        return samples(self.settings.monitoring.metrics_file.read_text(encoding="utf-8"))


@contextmanager
def house(folder, exchange=None, clock=None, **more):
    """A house and its exchange."""
    exchange = exchange or Exchange()
    with Scripted(exchange.script) as server:
        found = House(folder, server.url, clock or Clock(), **more)
        found.exchange, found.server = exchange, server
        yield found


def samples(text):
    """Every sample of an exposition by its name and labels."""
    return {
        (
            sample.name,
            *sorted((name, value) for name, value in sample.labels.items() if (name, value) != ("shipper", "")),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
