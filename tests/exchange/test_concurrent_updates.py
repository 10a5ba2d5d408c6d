"""Two clients change one record at once: what only one of them sends stays, of what both send the later one stays."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from exchange_calls import Inside, encode
from exchange_process import TOKEN
from invariants import read_truth
from payload_examples import EVENT, GOOD, ORDER

from loadsheet.contract import BY_NAME, Assumptions
from loadsheet.exchange import Store, create_app

CLIENTS = 4
OWN = ["pickup_city", "delivery_city", "vehicle_type", "pickup_company"]  # fields that one client alone sends
SHARED = "transport_mode"


@pytest.fixture
def clients(database, tmp_path):
    """Callers of two exchanges on one database, each twice; what happens at the first stands in `truth.jsonl`."""
    with ExitStack() as opened:
        logs = (tmp_path / "truth.jsonl", None)
        stores = [opened.enter_context(closing(Store(database, truth=log))) for log in logs]
        settings = Assumptions(status_sets_order_status="code")
        yield [Inside(create_app(store, TOKEN, settings)) for store in stores] * (CLIENTS // 2)


def base(subject):
    """What every update has to carry."""
    always = {field.name for field in BY_NAME[f"{subject}.update"].record.fields if field.when == "always"}
    return {name: value for name, value in GOOD[f"{subject}.create"].items() if name in always}


def update(**fields):
    return "order.update", {**base("order"), **fields}


def at_once(clients, calls):
    """Every client's call, let off together; their statuses."""
    start = threading.Barrier(len(calls))

    def one(client, call):
        start.wait()
        return client.call(*call).status

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, clients, calls))


@pytest.mark.parametrize(
    ("database", "subject"), [("sqlite", "tender"), ("postgresql", "order")], indirect=["database"]
)
def test_updates_of_different_fields_all_survive_and_of_one_field_one_whole_value_stays(clients, subject):
    created, package = GOOD[f"{subject}.create"], GOOD[f"{subject}.create"]["packages"][0]
    clients[0].done(f"{subject}.create", created)
    for turn in range(8):
        sent = [
            {
                field: f"{field} {turn}",
                SHARED: f"{turn} {place}",
                "packages": [{**package, "item_name": field}] * (place + 1),
            }
            for place, field in enumerate(OWN)
        ]
        updates = [(f"{subject}.update", {**base(subject), **fields}) for fields in sent]
        assert at_once(clients, updates) == [200] * CLIENTS
        (record,) = clients[turn % CLIENTS].tenders() if subject == "tender" else clients[turn % CLIENTS].orders()
        assert {field: record[field] for field in OWN} == {field: f"{field} {turn}" for field in OWN}
        assert record[SHARED] in [fields[SHARED] for fields in sent]
        assert record["packages"] in [fields["packages"] for fields in sent]  # an array is one field and is never mixed
        unchanged = created.keys() - {*OWN, SHARED, "packages"}
        assert {name: record[name] for name in unchanged} == {name: created[name] for name in unchanged}


def test_an_update_beside_a_status_that_changes_the_order_loses_neither(clients):
    clients[0].done("order.create", ORDER)
    for turn in range(8):
        status = ("order.status", {"data": [{**EVENT, "status_code": f"S{turn}"}]})
        assert at_once(clients, [status, update(vehicle_type=f"V{turn}")]) == [200, 200]
        (record,) = clients[0].orders()
        assert (record["order_status"], record["vehicle_type"]) == (f"S{turn}", f"V{turn}")


def test_a_delete_beside_an_update_leaves_nothing_half_there(clients):
    for turn in range(8):
        clients[0].done("order.create", ORDER)
        deleted, updated = at_once(
            clients, [("order.delete", {"order_id": ORDER["order_id"]}), update(vehicle_type="x")]
        )
        assert (deleted, updated in (200, 400)) == (200, True), turn  # before the delete, or after it
        assert clients[0].orders() == clients[1].orders() == []


def test_what_stays_is_what_the_truth_log_says_came_last(clients, tmp_path):
    clients[0].done("order.create", ORDER)
    updates = [update(**{SHARED: f"M{number}"}) for number in range(12)]
    assert at_once(clients[:1] * len(updates), updates) == [200] * len(updates)
    (record,) = clients[0].orders()
    (last,) = (payload for _, payload in updates if payload[SHARED] == record[SHARED])
    lines = [line for line in read_truth(tmp_path / "truth.jsonl") if line["effect"] == "updated"]
    assert len(lines) == len(updates)
    assert lines[-1]["sha256"] == hashlib.sha256(encode(last)).hexdigest()
