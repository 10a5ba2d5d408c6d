"""Every write and both listings, in any order hypothesis can think of, against a plain model; on both databases.

After each step both listings equal the model to the digit. At each restart of the store, and at the end, so do the tables that
no listing shows: quotes, confirmations and the history of each order.
"""

import asyncio
import hashlib
from decimal import Decimal
from typing import get_args

import msgspec
import pytest
from exchange_calls import Inside, decode
from exchange_model import Model
from exchange_process import TOKEN
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from payload_examples import CONFIRMATION, EVENT, ORDER, PARTIES, QUOTE, TENDER
from sqlalchemy import create_engine, delete, select, update
from strategies import numbers

from loadsheet.contract import BY_NAME, PAGE_SIZE, Assumptions
from loadsheet.exchange import Store, create_app
from loadsheet.exchange.database import CONFIRMATIONS, COUNTERS, EVENTS, NUMBERED, QUOTES
from loadsheet.exchange.effects import Call

exact = msgspec.json.Encoder(decimal_format="number", order="sorted").encode

IDS = st.sampled_from(
    [7, "7", "SO-1", "SO/1", "Größe 8", "x" * 200]
)  # the first two are one, the last is kept by its hash
CARRIERS = st.sampled_from(["C-1", "C/2", 3])
AMOUNTS = numbers | st.sampled_from([Decimal("12.50"), Decimal("0.000"), 10**17, Decimal("99999999999999.9999")])
WORDS = st.sampled_from(["OPEN", "ACTIVE", "", "Ä'\"\\"])
PACKAGES = st.lists(
    st.fixed_dictionaries({"package_type": st.just("Box"), "item_name": WORDS}, optional={"weight": AMOUNTS}),
    max_size=2,
)
ORDER_PARTS = {"order_status": WORDS, "total_weight": AMOUNTS, "goods_value": AMOUNTS, "packages": PACKAGES}
TENDER_PARTS = {
    "currency": st.sampled_from(["EUR", "CHF"]),
    "packages": st.lists(st.just({**TENDER["packages"][0], "weight": "6.250"}), max_size=2),
}


def some(always, parts, **ids):
    """A record with some of the parts, none or all of them, and with these identifiers."""
    given = st.fixed_dictionaries(ids, optional=parts)
    return given.map(lambda drawn: {**always, **drawn})


QUOTED = {"tender_id": IDS, "carrier_id": CARRIERS}
BODIES = {
    "order.create": some(ORDER, ORDER_PARTS, order_id=IDS),
    "order.update": some(PARTIES, ORDER_PARTS, order_id=IDS),
    "order.delete": st.fixed_dictionaries({"order_id": IDS}),
    "tender.create": some(TENDER, TENDER_PARTS, tender_id=IDS),
    "tender.update": some(PARTIES, TENDER_PARTS, tender_id=IDS, tender_status=WORDS),
    "tender.delete": st.fixed_dictionaries({"tender_id": IDS}, optional={"order_id": IDS}),
    "tender.quote": some(QUOTE, {}, **QUOTED, tenderRate=st.sampled_from(["950.00", "1e3", 12])),
    "tender.confirm": some(CONFIRMATION, {}, **QUOTED, status=st.sampled_from(["accept", "reject", "later"])),
}
CALLS = st.one_of(*(st.tuples(st.just(name), bodies) for name, bodies in BODIES.items()))
EVENTS_SENT = some({"status_name": EVENT["status_name"]}, {"status_code": WORDS}, order_id=IDS)
WRONG_EVENTS = st.sampled_from([{}, {"order_id": "SO-1", "status_datetime": "soon"}, {"order_id": True}, "SO-1", None])
RESTS = 5  # calls between two restarts, which take longer than any of them
BATCHES = st.lists(st.tuples(st.integers(0, 5), EVENTS_SENT, WRONG_EVENTS), min_size=1, max_size=4)

SETTINGS = ("create_existing", "update_unknown", "delete_unknown", "quote_unknown", "quote_existing", "confirm_unknown")
SETTINGS += ("confirm_decided", "quote_accepted", "status_unknown", "status_sets_order_status")
VALUES = {name: st.sampled_from(get_args(Assumptions.model_fields[name].annotation)) for name in SETTINGS}
VALUES |= {
    "status_on_400": st.sampled_from(["atomic", "partial"]),
    "accept_sets_tender_status": st.sampled_from(["", "ACCEPTED"]),
}
OPEN = {"decision_words": st.just("open")}
ASSUMPTIONS = st.builds(Assumptions, **OPEN) | st.builds(Assumptions, **OPEN, **VALUES)


def batch(drawn, orders):
    """A status body, and the indices of its records that break the contract: one in six. Most name an order that is there."""
    known = [
        {**event, "order_id": orders[lot % len(orders)]} if lot > 1 and orders else event for lot, event, _ in drawn
    ]
    records = [wrong if lot == 0 else event for (lot, _, wrong), event in zip(drawn, known, strict=True)]
    return {"data": records}, tuple(place for place, (lot, _, _) in enumerate(drawn) if lot == 0)


def aimed(name, payload, lot, model):
    """The payload, in two of three cases at a record that is there, so that most calls meet one."""
    subject, action = name.split(".")
    there = list(model.quotes if action == "confirm" else model.held[subject])
    if lot % 3 == 0 or action == "create" or not there:
        return payload
    key = there[lot % len(there)]
    names = ("tender_id", "carrier_id") if action == "confirm" else (f"{subject}_id",)
    return {**payload, **dict(zip(names, (key,) if isinstance(key, str) else key, strict=True))}


def kept(identifier):
    """The text under which an identifier stands in a table: a very long one is kept by its hash."""
    return identifier if len(identifier) < 200 else f"sha256:{hashlib.sha256(identifier.encode()).hexdigest()}"


def emptied(engine):
    with engine.begin() as connection:
        for table in NUMBERED:
            connection.execute(delete(table))
        connection.execute(update(COUNTERS).values(last=0, held=0))


class Machine(RuleBasedStateMachine):
    """The exchange on one database, and the model beside it."""

    def __init__(self, url, engine):
        super().__init__()
        self.url, self.engine = url, engine
        emptied(engine)

    @initialize(assumptions=ASSUMPTIONS)
    def opened(self, assumptions):
        self.assumptions, self.model = assumptions, Model(assumptions)
        self.reopen()

    def reopen(self):
        self.looks = 0
        self.store = Store(self.url)
        self.app = Inside(create_app(self.store, TOKEN, self.assumptions))

    @rule(call=CALLS, lot=st.integers(0, 11))
    def one_call(self, call, lot):
        name, payload = call[0], aimed(*call, lot, self.model)
        expected, answer = self.model.apply(name, payload), self.app.call(name, payload)
        assert answer.status == (200 if expected.done else 400), answer.raw
        if expected.done and name in ("order.create", "order.update"):
            (entry,) = answer.body["data"]["order_id"]["orders_data"]
            assert entry["CUSTOMER_ORDER"] == str(payload["order_id"])
            assert int(entry["SERVICE_ORDER"]) == expected.number

    @rule(drawn=BATCHES)
    def status(self, drawn):
        payload, wrong = batch(drawn, list(self.model.held["order"]))
        expected, answer = self.model.apply("order.status", payload, wrong), self.app.call("order.status", payload)
        assert answer.status == (200 if expected.done else 400), answer.raw
        if not expected.done:
            assert list(answer.body["errors"]) == [f"data[{place}]" for place in expected.wrong]

    @rule(calls=st.lists(CALLS, min_size=2, max_size=8))
    def calls_that_share_a_transaction(self, calls):
        async def at_once():
            made = [Call(BY_NAME[name], (payload,), (0,)) for name, payload in calls]
            return await asyncio.gather(*(self.store.apply(each, self.assumptions) for each in made))

        expected = [self.model.apply(name, payload) for name, payload in calls]
        effects = asyncio.run(at_once())
        assert [not effect.faults for effect in effects] == [each.done for each in expected]
        for (name, _), effect, each in zip(calls, effects, expected, strict=True):
            assert not name.startswith("order.") or effect.number == each.number

    @rule(name=st.sampled_from([name for name in BODIES if "delete" not in name]), identifier=IDS)
    def a_body_that_lacks_a_party_changes_nothing(self, name, identifier):
        subject = name.split(".")[0]
        errors = self.app.errors(name, {f"{subject}_id": identifier, "sender_id": "ACME"})
        assert "receiver_id" in errors

    @rule(subject=st.sampled_from(["order", "tender"]), size=st.integers(1, 3))
    def a_small_page(self, subject, size):
        page = self.app.send("GET", f"/tmsapi/getOrders?{PAGE_SIZE}={size}&record={subject}").body
        expected = self.model.listed(subject)
        assert exact(page["results"]) == exact(expected[:size])
        assert (page["total_count"], page["total_pages"]) == (len(expected), -(-len(expected) // size))

    @precondition(lambda self: self.looks > RESTS)
    @rule()
    def restart(self):
        self.store.close()
        self.tables_equal_the_model()
        self.reopen()

    @invariant()
    def listings_equal_the_model(self):
        self.looks += 1
        for subject in ("order", "tender"):
            page = self.app.send("GET", f"/tmsapi/getOrders?record={subject}").body
            expected = self.model.listed(subject)
            assert exact(page["results"]) == exact(expected)
            assert (page["total_count"], page[PAGE_SIZE]) == (len(expected), 100)

    def tables_equal_the_model(self):
        model = self.model
        assert self.rows(EVENTS, 1) == [((kept(key),), exact(record)) for key, record in model.events]
        quotes, said = model.quotes.items(), model.confirmations
        for table, expected in ((QUOTES, quotes), (CONFIRMATIONS, said)):
            assert self.rows(table, 2) == [((kept(key), carrier), exact(record)) for (key, carrier), record in expected]
        with self.engine.connect() as connection:
            held = dict(connection.execute(select(COUNTERS.c.name, COUNTERS.c.held)).all())
        assert (held["orders"], held["tenders"]) == (len(model.held["order"]), len(model.held["tender"]))

    def rows(self, table, keys):
        """Keys and content of a table in order of its numbers."""
        columns = (*list(table.c)[1 : keys + 1], table.c.content)
        with self.engine.connect() as connection:
            found = connection.execute(select(*columns).order_by(table.c.number)).all()
        return [(tuple(key), exact(decode(content))) for *key, content in found]

    def teardown(self):
        self.store.close()
        self.tables_equal_the_model()


@pytest.mark.parametrize(
    ("kind", "examples", "steps"),
    [
        ("sqlite", 12, 25),
        ("postgresql", 4, 25),
        pytest.param("sqlite", 100, 50, marks=[pytest.mark.sweep, pytest.mark.timeout(900)]),
        pytest.param("postgresql", 50, 50, marks=[pytest.mark.sweep, pytest.mark.timeout(900)]),
    ],
)
def test_every_sequence_of_calls_leaves_what_the_model_says(new_database, kind, examples, steps):
    url = new_database(kind)
    Store(url).close()  # makes the tables
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    try:
        run_state_machine_as_test(lambda: Machine(url, engine), settings=limits)
    finally:
        engine.dispose()
