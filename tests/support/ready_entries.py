"""A ledger with ready entries, and sending them to an exchange, for the tests of dispatch."""

from contextlib import contextmanager
from typing import Any

import ledgers
from scripted_exchange import Scripted

from loadsheet.contract import BY_NAME
from loadsheet.dispatch import Client, Dispatcher, RunContext, SendOptions, UnknownTimer, send, verify_unknown
from loadsheet.dispatch.rate_limiter import boottime
from loadsheet.ledger import Settlement, State
from loadsheet.settings import Settings

__all__ = ["BY_NAME", "Settlement", "State", "ledgers"]
TOKEN = "canary-4f1c9e"
QUICK: dict[str, Any] = {"call_timeout_s": 30.0, "connect_timeout_s": 10.0, "idle_connection_s": 4.0, "canary": 0}
"""Long enough for a machine that stands still for a while: a call that is not meant to hang is answered."""


def settings(**changes) -> Settings:
    """Settings for tests; `assumptions` are given as a dict."""
    return Settings(**{**QUICK, **changes})


class Naps:
    """A clock that only goes on while somebody sleeps, so that pauses cost no time."""

    def __init__(self):
        self.now = 1000.0
        self.slept = 0.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.slept += seconds


class JumpingClock:
    """The clock of departures, which jumps as for a process that was stopped."""

    def __init__(self):
        self.jumped = 0.0

    def __call__(self):
        return boottime() + self.jumped


def payload_of(operation, number):
    """A record of a write operation; those of one number belong to one order or tender."""
    parties = {"sender_id": "ACME", "receiver_id": "CARGO"}
    order, tender = {"order_id": f"A-{number:05}"}, {"tender_id": f"T-{number:04}"}
    quote = {**tender, **parties, "tenderRate": "950.00", "carrier_id": "C-1", "currency": "EUR"}
    return {
        "order.create": ledgers.order(number),
        "order.update": {**order, **parties, "delivery_city": "Essen"},
        "order.delete": order,
        "order.status": {**order, "status_code": "PU", "status_location": f"stop {number}"},
        "tender.create": ledgers.tender(number),
        "tender.update": ledgers.tender(number, tender_status="CLOSED"),
        "tender.delete": tender,
        "tender.quote": quote,
        "tender.confirm": {**quote, "status": "accept"},
    }[operation]


def plan(ledger, run, operation, payloads, *, file="orders.csv", **more):
    """Plan one entry for each payload, one row each; returns the drop."""
    drop = ledgers.drop_of(("orders", file), mapping=f"{operation} of {file}", operation=operation)
    documents = [
        ledgers.document(operation, payload, [("orders", number, ("x", "y", "01067", "12", "9"))])
        for number, payload in enumerate(payloads, start=2)
    ]
    return ledgers.plan(ledger, run, drop, documents, **more)


def new_orders(ledger, count, **changes):
    """A run with as many orders; returns it and their drop."""
    run = ledger.begin_run()
    return run, orders(ledger, run, count, **changes)


def orders(ledger, run, count, **changes):
    return plan(ledger, run, "order.create", [ledgers.order(number, **changes) for number in range(count)])


def events(ledger, run, count, *, orders=None, **more):
    """Status events, each of another order unless `orders` says how many orders there are."""
    payloads = [
        {"order_id": f"A-{number % (orders or count):05}", "status_code": "PU", "status_location": f"stop {number}"}
        for number in range(count)
    ]
    return plan(ledger, run, "order.status", payloads, file="events.csv", **more)


@contextmanager
def client_of(url, options, token=TOKEN):
    with Client(url, token, options) as client:
        yield client


def verify(ledger, run, client, options):
    """Look unknown outcomes up in the listings; returns the report."""
    return verify_unknown(RunContext(options, ledger, run, Dispatcher(client), UnknownTimer(ledger.now)))


def send_all(ledger, run, url, options=None, *, token=TOKEN, naps=None, progress=None):
    """Send what is ready; returns the report."""
    options = options or settings()
    naps = naps or Naps()
    with client_of(url, options, token) as client:
        return send(ledger, client, run, options, SendOptions(progress=progress, sleep=naps.sleep, clock=naps.clock))


def send_to(script, ledger, run, options=None, *, naps=None, progress=None, **changes):
    """Send what is ready to a scripted exchange, with these settings; returns the report and that exchange."""
    options = options or settings(**changes)
    with Scripted(script) as server:
        return send_all(ledger, run, server.url, options, naps=naps, progress=progress), server


def mark(ledger, run, count=1000):
    """Mark what is ready as being sent, each entry by a call of its own; returns it."""
    ready = ledger.ready(count)
    ledger.mark_sending(run, [([one], one.payload) for one in ready])
    return ready


def decide(ledger, run, state, *entries):
    """Settle entries to a state, as a person or a look into a listing does."""
    ledger.settle(run, [Settlement(one.id, state, "decided") for one in entries])


def entries(ledger, *drops):
    """The entries of drops, in order."""
    return [entry for drop in drops for entry in ledger.queries.entries_of(drop.id)]


def states(ledger, *drops):
    """The states of the entries of drops, in order."""
    return [str(entry.state) for entry in entries(ledger, *drops)]


def count(ledger, state):
    return ledger.queries.count_in(State(state))
