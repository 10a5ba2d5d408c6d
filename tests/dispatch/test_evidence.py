"""What a listing shows of an entry: every test that a listing has to pass before absence means anything."""

import ledgers
import msgspec
import pytest
import ready_entries
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import BY_NAME, Listing
from loadsheet.dispatch.unknown_rules import ListingEvidence, Presence, Witness, content_before
from loadsheet.ledger import Entry, State

BEFORE, SINCE, AFTER = "2026-03-04T01:00:00.000Z", "2026-03-04T02:00:00.000Z", "2026-03-04T03:00:00.000Z"
encode = msgspec.json.Encoder(decimal_format="number").encode


def entry(operation, payload, state=State.UNKNOWN, identity=1):
    contract = BY_NAME[operation]
    return Entry(
        id=identity, drop=1, operation=operation, key=contract.key_of(payload), lane=contract.lane_of(payload), state=state,
        reason="", payload=encode(payload), content_hash="", rows=(), items={}, problems=(), receipt="", attempts=1,
        created_at=SINCE, changed_at=SINCE,
    )  # fmt: skip


KNOWN = (Witness("A-00009", BEFORE),)


def seen(what, records, *, witnesses=KNOWN, was=None, total=None, pages=1, **settings):
    found = ledgers.listing(records, total=total)
    listing = Listing(found.results, 1000, found.total_count, pages)
    operation = BY_NAME[f"{what.operation.partition('.')[0]}.list"]
    return ListingEvidence(operation, listing, [what.key], witnesses, ready_entries.settings(**settings)).of(what, was)


CREATE = entry("order.create", ledgers.order(0))
UPDATE = entry("order.update", {"order_id": "A-00000", "delivery_city": "Essen", "currency": "EUR"})
DELETE = entry("order.delete", {"order_id": "A-00000"})
WITNESS = ledgers.order(9)


@pytest.mark.parametrize(
    ("records", "more", "why"),
    [
        ([WITNESS], {}, ""),
        ([WITNESS], {"total": 2}, "1 of 2"),
        ([WITNESS], {"pages": 2}, "2 pages"),
        ([], {}, "no order that is known to exist"),
        ([ledgers.order(8)], {}, "witness"),
        ([WITNESS], {"witnesses": ()}, "witness"),
        ([{"tender_id": "T-1", **WITNESS}], {}, "witness"),
        ([WITNESS], {"fresh_witness": "required"}, "fresh_witness"),
        ([WITNESS], {"fresh_witness": "required", "witnesses": (Witness("A-00009", AFTER),)}, ""),
        ([WITNESS], {"fresh_witness": "off"}, ""),
    ],
)
def test_absence_counts_only_in_a_whole_listing_of_the_right_kind_with_a_witness(records, more, why):
    observation = seen(CREATE, records, **more)
    assert (observation.shown, observation.counts) == (Presence.ABSENT, not why)
    assert why in observation.why


@pytest.mark.parametrize(
    ("listed", "shown"),
    [
        ([ledgers.order(0)], Presence.AS_SENT),
        ([ledgers.order(0, total_weight="412.50", pickup_startdatetime="2026-03-05T08:00:00")], Presence.AS_SENT),
        ([ledgers.order(0, order_status="NEW")], Presence.AS_SENT),
        ([{"order_id": "A-00000"}], Presence.OTHERWISE),
        ([{"tender_id": "T-1", **ledgers.order(0)}], Presence.ABSENT),
        ([ledgers.order(0, delivery_city="Essen")], Presence.OTHERWISE),
        ([ledgers.order(0), ledgers.order(0)], Presence.TWICE),
        ([ledgers.order(0, order_id="a-00000")], Presence.ALIKE),
        ([ledgers.order(0, order_id=" A-00000 ")], Presence.ALIKE),
        ([ledgers.order(1)], Presence.ABSENT),
    ],
)
def test_a_create_is_there_only_as_it_was_sent(listed, shown):
    assert seen(CREATE, [WITNESS, *listed]).shown is shown


def test_another_spelling_of_a_yes_is_the_same_record():
    lost = entry("order.create", ledgers.order(0, dedicated_vehicle="yes"))
    assert seen(lost, [WITNESS, ledgers.order(0, dedicated_vehicle="true")]).shown is Presence.AS_SENT


def test_zeros_in_front_of_digits_make_a_key_alike():
    lost = entry("order.create", ledgers.order(0, order_id="00123"))
    assert seen(lost, [WITNESS, ledgers.order(0, order_id="123")]).shown is Presence.ALIKE
    assert seen(lost, [WITNESS, ledgers.order(0, order_id="1230")]).shown is Presence.ABSENT


@pytest.mark.parametrize(
    ("city", "was", "shown"),
    [
        ("Essen", ledgers.order(0), Presence.AS_SENT),
        ("Dresden", ledgers.order(0), Presence.AS_BEFORE),
        ("Bonn", ledgers.order(0), Presence.OTHERWISE),
        ("Dresden", None, Presence.OTHERWISE),
    ],
)
def test_an_update_is_done_or_not_done_or_somebody_else_was_there(city, was, shown):
    observation = seen(UPDATE, [WITNESS, ledgers.order(0, delivery_city=city)], was=was)
    assert observation.shown is shown
    assert (shown is Presence.OTHERWISE) == ("delivery_city" in observation.detail)


def test_an_update_of_a_field_that_was_not_there_is_not_done_while_it_is_still_missing():
    lost = entry("order.update", {"order_id": "A-00000", "goods_description": "Kabel"})
    assert seen(lost, [WITNESS, ledgers.order(0)], was=ledgers.order(0)).shown is Presence.AS_BEFORE


@pytest.mark.parametrize(
    ("records", "was", "shown"),
    [
        ([ledgers.order(0)], ledgers.order(0), Presence.AS_BEFORE),
        ([ledgers.order(0, currency="USD")], ledgers.order(0), Presence.OTHERWISE),
        ([ledgers.order(0)], None, Presence.OTHERWISE),
        ([], ledgers.order(0), Presence.ABSENT),
    ],
)
def test_a_delete_is_not_done_while_its_record_is_as_it_was(records, was, shown):
    assert seen(DELETE, [WITNESS, *records], was=was).shown is shown


def test_what_a_record_was_is_made_of_what_was_accepted_in_its_order():
    made = entry("order.create", ledgers.order(0), State.ACCEPTED)
    changed = entry("order.update", {"order_id": "A-00000", "currency": "USD"}, State.ACCEPTED)
    gone = entry("order.delete", {"order_id": "A-00000"}, State.ACCEPTED)
    told = entry("order.status", {"order_id": "A-00000", "status_code": "PU"}, State.ACCEPTED)
    assert content_before([]) is None
    assert content_before([changed]) is None, "nobody here knows what it was"
    assert content_before([made, told, changed])["currency"] == "USD"
    assert "status_code" not in content_before([made, told])
    assert content_before([made, gone]) is None
    assert content_before([made, changed, gone, made])["currency"] == "EUR"


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 8), st.sampled_from(["preferred", "required", "off"]))
def test_absence_never_counts_where_the_record_is_shown(numbers, missing, freshness):
    listed = [ledgers.order(number) for number in numbers]
    witnesses = [Witness(f"A-{number:05}", AFTER) for number in range(1, 6)]
    observation = seen(CREATE, listed, witnesses=witnesses, total=len(listed) + missing, fresh_witness=freshness)
    assert (observation.shown is Presence.ABSENT) == (0 not in numbers)
    assert observation.counts == (missing == 0 and any(numbers))
