"""Several nights with the real command: children wait for their orders, lost answers are looked up, people decide."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from calling import OverSocket
from command import start
from misbehaving import misbehaving
from orders import MAPPINGS, order_id, write_orders
from warm import loadsheet

from loadsheet.exchange import FaultClass
from loadsheet.ledger import open_ledger

STATUS_MAPPING = """\
mapping: events
version: 1
target: order.status
source:
  files: ["events*.csv"]
  delimiter: [","]
columns:
  order: {label: Order, type: text, required: true, key: true}
  place: {label: Place, type: text, required: true}
payload:
  order_id: {col: order}
  status_code: {value: PICKED_UP}
  status_name: {value: Picked up}
  status_location: {col: place}
"""


@pytest.fixture
def run():
    def run(folder, *words, **more):
        return loadsheet(folder, "run", "--settle", "0", *words, **more)

    return run


@pytest.fixture
def house(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "mappings" / "events.yaml").write_text(STATUS_MAPPING, encoding="utf-8")
    (tmp_path / "inbox").mkdir()
    return tmp_path


def drop_orders(folder, count, **more):
    write_orders(folder / "inbox", count, **more)


def drop_events(folder, *numbers, name="events.csv", place="Köln"):
    rows = "".join(f"{order_id(number)},{place}\n" for number in numbers)
    (folder / "inbox" / name).write_text(f"Order,Place\n{rows}", encoding="utf-8")


def entries(folder):
    """Operation, key and state of every entry, oldest first."""
    with closing(sqlite3.connect(folder / ".loadsheet" / "ledger.db")) as ledger:
        return ledger.execute("select operation, key, state from entries order by id").fetchall()


def states(folder, operation):
    return [state for name, _, state in entries(folder) if name == operation]


def state_of(folder, key):
    (state,) = {state for _, name, state in entries(folder) if name == key}
    return state


def summary(folder):
    (latest, *_) = sorted((folder / "outbox").glob("*/run.json"), reverse=True)
    return json.loads(latest.read_text(encoding="utf-8"))


def test_events_wait_for_their_order_over_nights_and_go_with_it(run, house):
    drop_events(house, 1, 2)
    first = run(house)
    assert first.returncode == 1
    assert states(house, "order.status") == ["held", "held"]
    assert summary(house)["balance"]["balances"] is True
    (told,) = (house / "outbox").rglob("events.csv.results.csv")
    assert "waits for order 00000001: nobody has sent it yet" in told.read_text(encoding="utf-8-sig")
    drop_orders(house, 1, first=1)
    assert run(house).returncode == 1, "the other one still waits"
    assert states(house, "order.status") == ["accepted", "held"]
    drop_events(house, 1, 2, name="events-again.csv")
    again = run(house)
    assert f"1 of earlier runs still wait for their order or tender, the oldest ({order_id(2)})" in again.stderr
    assert states(house, "order.status") == ["accepted", "held", "unchanged", "unchanged"]


def test_an_order_that_somebody_else_created_lets_its_events_go(run, house, tmp_path):
    drop_orders(house, 2)
    other = tmp_path / "other"
    (other / "inbox").mkdir(parents=True)
    shutil.copytree(house / "mappings", other / "mappings")
    drop_events(other, 0, 7)
    with misbehaving(tmp_path) as served:
        words = ("--exchange", served.exchange.url)
        assert run(other, *words).returncode == 1
        assert states(other, "order.status") == ["held", "held"]
        assert run(house, *words).returncode == 0
        assert run(other, *words).returncode == 1, "the other one still waits"
        assert states(other, "order.status") == ["accepted", "held"]
        drop_events(other, 0, name="events-2.csv", place="Bonn")
        assert run(other, *words, LOADSHEET_PARENTS="wait").returncode == 0, "what was seen once is known"


def test_without_a_look_nothing_leaves_and_with_send_everything_does(run, house, tmp_path):
    with misbehaving(tmp_path, status_unknown="accept") as served:
        words = ("--exchange", served.exchange.url)
        drop_events(house, 5)
        assert run(house, *words, LOADSHEET_PARENTS="wait").returncode == 1
        assert states(house, "order.status") == ["held"]
        assert run(house, *words, LOADSHEET_PARENTS="send").returncode == 0
        assert states(house, "order.status") == ["accepted"]


def test_the_children_of_an_invalid_order_wait_and_are_told_why(run, house):
    drop_orders(house, 2, first=1, wrong_every=2)
    drop_events(house, 1, 2)
    run(house)
    assert states(house, "order.status") == ["accepted", "held"]
    assert "its sender has to fix it first" in loadsheet(house, "show", order_id(2)).stdout


def lost(run, folder, served):
    """A run in which the answer to the second of three creates is lost."""
    drop_orders(folder, 3)
    return run(folder, "--exchange", served.exchange.url, LOADSHEET_CONNECTIONS="1")


def rule(fault):
    return {"fault": FaultClass(fault), "operation": "order.create", "at": (2,)}


def test_a_lost_answer_is_looked_up_in_the_same_night_and_its_children_go_then(run, house, tmp_path):
    drop_events(house, 0, 1, 2)
    with misbehaving(tmp_path, rule("reset_after_effect")) as served:
        done = lost(run, house, served)
        assert done.returncode == 0, done.stdout
        assert {state for _, _, state in entries(house)} == {"accepted"}
        assert max(Counter((line["operation"], line["key"]) for line in served.happened()).values()) == 1


def test_what_stays_unknown_says_which_rule_was_not_met(run, house, tmp_path):
    with misbehaving(tmp_path, rule("reset_before_effect")) as served:
        assert lost(run, house, served).returncode == 1
        (told,) = (house / "outbox").rglob("orders.csv.results.csv")
        assert "quiesce_s" in told.read_text(encoding="utf-8-sig")
        again = run(house, "--exchange", served.exchange.url)
        assert again.returncode == 1
        assert "1 unknown" in again.stdout, "every night names its doubts"


@pytest.fixture
def doubt(run, house, tmp_path):
    """A house with one create of unknown outcome, and the exchange that has not got it."""
    with misbehaving(tmp_path, rule("reset_before_effect")) as served:
        lost(run, house, served)
        ((_, key, _),) = [entry for entry in entries(house) if entry[2] == "unknown"]
        yield house, key, ("--exchange", served.exchange.url), served


def test_resolve_shows_what_is_unknown_with_its_evidence(doubt):
    house, key, where, _ = doubt
    done = loadsheet(house, "resolve", *where)
    assert done.returncode == 1
    assert f"order.create {key}: unknown since" in done.stdout
    assert "attempt 1" in done.stdout
    assert "looked" in done.stdout
    assert "now      not at all" in done.stdout
    (told,) = json.loads(loadsheet(house, "resolve", *where, "--json").stdout)
    assert (told["key"], told["state"], len(told["attempts"])) == (key, "unknown", 1)
    assert "quiesce_s" in told["now"]
    offline = loadsheet(house, "resolve", "--exchange", "http://127.0.0.1:9")
    assert offline.returncode == 1
    assert "could not be read" in offline.stdout


def test_a_decision_needs_a_key_and_grounds(doubt):
    house, key, where, _ = doubt
    assert loadsheet(house, "resolve", *where, "--accepted", "--comment", "seen").returncode == 2
    assert loadsheet(house, "resolve", *where, key, "--accepted").returncode == 2
    nobody = loadsheet(house, "resolve", *where, "nobody", "--accepted", "--comment", "seen")
    assert nobody.returncode == 1, "the words were right"
    assert nobody.stderr == "nothing about nobody is to be decided: `loadsheet show nobody` tells how it stands\n"


def test_a_create_is_sent_again_only_when_its_key_is_typed(run, doubt):
    house, key, where, served = doubt
    words = ["resolve", *where, key, "--send-again", "--comment", "not on their page", "--who", "ann"]
    assert loadsheet(house, *words, typed="yes\n").returncode == 130
    assert loadsheet(house, *words, typed="").returncode == 130
    refused = loadsheet(house, *words, "--yes")
    assert refused.returncode == 2
    assert "--i-know-it-may-double" in refused.stderr
    assert loadsheet(house, *words, typed=f"{key}\n").returncode == 0
    assert state_of(house, key) == "ready"
    done = run(house, *where)
    assert done.returncode == 0
    assert Counter(line["key"] for line in served.happened())[key] == 1
    shown = loadsheet(house, "show", key).stdout
    assert "sent again by decision of ann: not on their page" in shown
    assert "possibly" in shown.lower() or "more than once" in shown


def test_decisions_are_chained_and_doctor_notices_a_changed_one(doubt):
    house, key, where, _ = doubt
    decided = loadsheet(
        house, "resolve", *where, key, "--give-up", "--comment", "customer cancelled", "--who", "ann", "--yes"
    )
    assert decided.returncode == 0, decided.stderr
    assert state_of(house, key) == "held"
    assert loadsheet(house, "doctor", *where).returncode == 0
    assert "was never proved" in loadsheet(house, "retry", key).stdout
    assert loadsheet(house, "resolve", *where, key, "--send-again", "--comment", "after all", "--yes",
                     "--i-know-it-may-double").returncode == 0  # fmt: skip
    with closing(sqlite3.connect(house / ".loadsheet" / "ledger.db")) as ledger, ledger:
        ledger.execute("update decisions set who = 'bob' where id = 1")
    told = loadsheet(house, "doctor", *where)
    assert told.returncode == 1
    assert "not as it was recorded" in told.stdout


def test_what_was_given_up_may_be_found_after_all(run, doubt):
    house, key, where, served = doubt
    decision = ("--yes", "--who", "ann", "--comment")
    assert loadsheet(house, "resolve", *where, key, "--give-up", *decision, "cancelled").returncode == 0
    again = loadsheet(house, "resolve", *where, key, "--give-up", *decision, "cancelled")
    assert again.returncode == 1
    assert f"{key} was given up before; --send-again or --accepted decides about it anew" in again.stderr
    before = Counter(line["key"] for line in served.happened())[key]
    assert loadsheet(house, "resolve", *where, key, "--accepted", *decision, "mail of ben").returncode == 0
    assert state_of(house, key) == "accepted"
    assert "found at the exchange by ann: mail of ben" in loadsheet(house, "show", key).stdout
    assert run(house, *where).returncode in (0, 1)
    assert Counter(line["key"] for line in served.happened())[key] == before
    assert loadsheet(house, "resolve", *where).returncode == 0


def test_a_person_may_say_that_it_is_there(run, doubt):
    house, key, where, _ = doubt
    drop_events(house, *(int(name) for _, name, _ in entries(house)))
    run(house, *where)
    assert states(house, "order.status").count("held") == 1
    told = json.loads(
        loadsheet(house, "resolve", *where, key, "--accepted", "--comment", "mail of ben", "--yes", "--json").stdout
    )
    assert told[0]["decided"] == "accepted"
    run(house, *where)
    assert "found at the exchange by" in loadsheet(house, "show", key).stdout
    assert states(house, "order.status").count("refused") == 1, "the exchange, which never had it, says so"


def test_retry_brings_back_what_was_refused_or_held(run, house, tmp_path):
    with misbehaving(tmp_path) as served:
        where = ("--exchange", served.exchange.url)
        drop_events(house, 1, 2)
        run(house, *where, LOADSHEET_PARENTS="send")
        assert states(house, "order.status") == ["refused", "refused"]
        assert loadsheet(house, "retry").returncode == 2
        assert "would go" in loadsheet(house, "retry", "--refused", "--dry-run").stdout
        assert states(house, "order.status") == ["refused", "refused"]
        drop_orders(house, 1, first=1)
        run(house, *where)
        assert loadsheet(house, "retry", order_id(1), "--comment", "order is there now").returncode == 0
        run(house, *where)
        assert states(house, "order.status") == ["accepted", "refused"]
        told = json.loads(loadsheet(house, "retry", "--file", "events.csv", "--json").stdout)
        assert [one["key"] for one in told] == [order_id(2)]
        assert loadsheet(house, "retry", "--held").returncode == 1


def test_a_changed_order_goes_as_an_update_after_a_persons_word(run, house, tmp_path):
    with misbehaving(tmp_path) as served:
        where = ("--exchange", served.exchange.url)
        drop_orders(house, 2, first=1)
        run(house, *where)
        for street in ("Nebenstraße", "Seitenstraße"):
            drop_orders(house, 2, first=1)
            path = house / "inbox" / "orders.csv"
            path.write_text(
                path.read_text(encoding="utf-8").replace("Hauptstraße 1,", f"{street} 1,"), encoding="utf-8"
            )
            assert run(house, *where).returncode == 1
        told = json.loads(loadsheet(house, "retry", "--held", "--json").stdout)
        assert [(one["operation"], one["state"]) for one in told] == [
            ("order.create", "held"),
            ("order.update", "ready"),
        ]
        assert "a newer version" in told[0]["told"]
        assert run(house, *where).returncode == 0
        with closing(OverSocket(served.exchange.url)) as listed:
            streets = {order["order_id"]: order["delivery_address1"] for order in listed.orders()}
        assert streets[order_id(1)] == "Seitenstraße 1"


def test_two_runs_at_once_send_every_document_once(run, house, tmp_path):
    """Two processes in two places, one ledger: the lock lets one work, and the other finds everything done."""
    drop_orders(house, 60)
    with misbehaving(tmp_path) as served:
        words = ("run", "--settle", "0", "--exchange", served.exchange.url)
        both = [start(house, *words) for _ in range(2)]
        codes = sorted(process.wait(timeout=120) for process in both)
        for process in both:
            process.communicate()
        assert codes in ([0, 0], [0, 75])
        drop_orders(house, 60)
        assert run(house, "--exchange", served.exchange.url).returncode == 0
        applied = Counter(line["key"] for line in served.happened())
    assert (len(applied), max(applied.values())) == (60, 1)
    assert Counter(state for _, _, state in entries(house)) == {"accepted": 60, "unchanged": 60}


def test_a_ledger_that_is_held_can_be_looked_at_but_not_changed(run, house):
    drop_events(house, 1)
    run(house)
    with open_ledger(f"sqlite:///{house / '.loadsheet' / 'ledger.db'}"):
        told = loadsheet(house, "doctor")
        assert told.returncode == 0, told.stdout
        assert "a run or a watch holds it" in told.stdout
        assert loadsheet(house, "retry", "--held", "--dry-run").returncode == 0
        assert loadsheet(house, "retry", "--held").returncode == 75
    assert loadsheet(house, "retry", "--held").returncode == 0


def test_what_still_waits_stands_in_the_summary(run, house):
    drop_events(house, 1)
    run(house)
    assert summary(house)["remarks"] == []
    drop_events(house, 2, name="events-2.csv")
    run(house)
    (remark,) = summary(house)["remarks"]
    assert "of earlier runs still wait for their order or tender" in remark
    assert summary(house)["forecast"] == ""
