"""Two clients change one record at once: what only one of them sends stays, of what both send the later one stays."""

import hashlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from exchange_calls import Inside, encode
from exchange_process import TOKEN
from invariants import read_truth
from payload_examples import GOOD

from loadsheet.contract import BY_NAME, Assumptions
from loadsheet.exchange import Store, create_app

CLIENTS = 4
OWN = ["pickup_city", "delivery_city", "vehicle_type", "pickup_company"]  # fields that one client alone sends
SHARED = "transport_mode"
one_subject_on_each_database = pytest.mark.parametrize(
    ("database", "subject"), [("sqlite", "tender"), ("postgresql", "order")], indirect=["database"]
)


@pytest.fixture
def clients(database):
    """Callers of two exchanges on one database, each twice."""
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(Store(database))) for _ in range(2)]
        apps = [Inside(create_app(store, TOKEN, Assumptions())) for store in stores]
        yield [apps[number % 2] for number in range(CLIENTS)]


def base(subject):
    """What every update has to carry."""
    operation = BY_NAME[f"{subject}.update"]
    always = {field.name for field in operation.record.fields if field.when == "always"}
    return {name: value for name, value in GOOD[f"{subject}.create"].items() if name in always}


def listed(app, subject):
    (record,) = app.orders() if subject == "order" else app.tenders()
    return record


def at_once(clients, calls):
    """Every client's call, let off together."""
    start = threading.Barrier(len(calls))

    def one(pair):
        client, (name, payload) = pair
        start.wait()
        client.done(name, payload)

    with ThreadPoolExecutor(len(calls)) as threads:
        list(threads.map(one, zip(clients, calls, strict=True)))


@one_subject_on_each_database
def test_updates_of_different_fields_all_survive_and_of_one_field_one_whole_value_stays(clients, subject):
    created = GOOD[f"{subject}.create"]
    clients[0].done(f"{subject}.create", created)
    for turn in range(8):
        updates = [
            (f"{subject}.update", {**base(subject), field: f"{field} {turn}", SHARED: f"by {field} {turn}"})
            for field in OWN
        ]
        at_once(clients, updates)
        record = listed(clients[turn % CLIENTS], subject)
        assert {field: record[field] for field in OWN} == {f: f"{f} {turn}" for f in OWN}
        assert record[SHARED] in {f"by {field} {turn}" for field in OWN}
        changed = {*OWN, SHARED}
        assert {name: record[name] for name in created if name not in changed} == {
            name: value for name, value in created.items() if name not in changed
        }


@one_subject_on_each_database
def test_an_update_that_begins_after_another_was_answered_wins(clients, subject):
    clients[0].done(f"{subject}.create", GOOD[f"{subject}.create"])
    dice = random.Random(7)
    last = {}
    for turn in range(20):
        fields = dice.sample([*OWN, SHARED], 2)
        change = dict.fromkeys(fields, f"{turn}")
        dice.choice(clients).done(f"{subject}.update", {**base(subject), **change})
        last |= change
        record = listed(dice.choice(clients), subject)
        assert {field: record[field] for field in last} == last


def test_an_array_is_one_field_and_is_never_mixed(clients):
    clients[0].done("order.create", GOOD["order.create"])
    package = GOOD["order.create"]["packages"][0]
    for turn in range(10):
        made = [[{**package, "item_name": f"{client} {turn}"}] * (client + 1) for client in range(CLIENTS)]
        at_once(clients, [("order.update", {**base("order"), "packages": packages}) for packages in made])
        assert listed(clients[0], "order")["packages"] in made


def test_an_update_beside_a_status_that_changes_the_order_loses_neither(database):
    with ExitStack() as opened:
        settings = Assumptions(status_sets_order_status="code")
        stores = [opened.enter_context(closing(Store(database))) for _ in range(2)]
        clients = [Inside(create_app(store, TOKEN, settings)) for store in stores]
        clients[0].done("order.create", GOOD["order.create"])
        event = GOOD["order.status"]["data"][0]
        for turn in range(8):
            status = ("order.status", {"data": [{**event, "status_code": f"S{turn}"}]})
            at_once(clients, [status, ("order.update", {**base("order"), "vehicle_type": f"V{turn}"})])
            record = listed(clients[0], "order")
            assert (record["order_status"], record["vehicle_type"]) == (f"S{turn}", f"V{turn}")


def test_a_delete_beside_an_update_leaves_nothing_half_there(clients):
    for turn in range(8):
        clients[0].done("order.create", GOOD["order.create"])
        start, statuses = threading.Barrier(2), []

        def update(start=start, statuses=statuses):
            start.wait()
            statuses.append(clients[1].call("order.update", {**base("order"), "vehicle_type": "x"}).status)

        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(update)
            start.wait()
            clients[0].done("order.delete", {"order_id": GOOD["order.create"]["order_id"]})
            running.result()
        assert statuses[0] in (200, 400), turn  # before the delete, or after it
        assert clients[0].orders() == clients[1].orders() == []


def test_what_stays_is_what_the_truth_log_says_came_last(database, tmp_path):
    truth = tmp_path / "truth.jsonl"
    with closing(Store(database, truth=truth)) as store:
        app = Inside(create_app(store, TOKEN, Assumptions()))
        app.done("order.create", GOOD["order.create"])
        updates = [("order.update", {**base("order"), SHARED: f"M{number}"}) for number in range(12)]
        at_once([app] * len(updates), updates)
        stays = listed(app, "order")[SHARED]
    (last,) = (payload for _, payload in updates if payload[SHARED] == stays)
    lines = [line for line in read_truth(truth) if line["effect"] == "updated"]
    assert len(lines) == len(updates)
    assert lines[-1]["sha256"] == hashlib.sha256(encode(last)).hexdigest()
