"""Notices of a fleet: what one machine told no other tells again, whatever becomes of the database meanwhile."""

import json

from databases import ask
from shared_ledger import shared_memory

from loadsheet.operations.notifications.state import Condition, Notice, NotificationState, merge_states, open_store
from loadsheet.problems import LedgerGone
from loadsheet.settings import Settings


def test_what_one_machine_told_another_does_not_tell_again(told, titles):
    told.set(**shared_memory())
    for number in range(3):
        told.set(state=told.folder / f"machine {number}")
        told.failed()
    told.set(state=told.folder / "machine 4")
    told.night()
    assert [title.partition(": ")[2] for title in titles.all()] == [
        "a run failed: the exchange refused the token",
        "works again after 3 failed runs",
    ]
    assert not list(told.folder.rglob("notices.json"))


def test_each_shipper_of_a_fleet_has_a_memory_of_its_own(told, titles):
    told.set(**shared_memory(), shipper="acme")
    told.failed()
    told.set(shipper="bolt")
    told.failed()
    assert titles.all() == [
        "loadsheet acme: a run failed: the exchange refused the token",
        "loadsheet bolt: a run failed: the exchange refused the token",
    ]


def test_the_memory_moves_with_the_ledger(told, titles, tmp_path):
    told.failed()
    before = json.loads(told.kept)
    told.set(**shared_memory())
    with open_store(told.settings, told.said.append):
        pass
    assert [path.name for path in (tmp_path / "state").iterdir()] in ([], ["notices.json.lock"])
    told.failed()
    assert len(titles.all()) == 1
    assert json.loads(told.kept)["salt"] == before["salt"]
    assert told.said == []


def test_while_the_ledger_is_away_the_machine_remembers_and_tells_once(told, titles, receiver, tmp_path):
    settings = shared_memory()
    away = f"postgresql://me:hunter2@/there?host={tmp_path}"
    told.set(**settings | {"database": away})
    for _ in range(3):
        told.failed(LedgerGone("the ledger cannot be reached"))
    assert titles.all() == ["loadsheet: 2 runs failed: the ledger cannot be reached"]
    assert all(
        "until the ledger is available, their state is stored on this machine" in line and "hunter2" not in line
        for line in told.said
    )
    told.set(**settings)
    told.night()
    assert titles.all()[1:] == ["loadsheet: works again after 3 failed runs"]
    assert not (tmp_path / "state" / "notices.json").exists()


def test_who_lost_the_connection_or_died_holds_nobody_up_and_remembers_nothing_more(tmp_path):
    said, chosen = [], Settings(state=tmp_path, **shared_memory())
    with open_store(chosen, said.append) as first:
        assert first.write(NotificationState(salt="first"))
        ask(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'loadsheet%%' and pid <> pg_backend_pid()"
        )
        with open_store(chosen, said.append) as second:
            assert second.read().salt == "first"
            assert second.write(NotificationState(salt="second"))
        assert not first.write(NotificationState(salt="late"))
        assert not first.write(NotificationState(salt="later still"))
    assert "these notices may be sent again" in said[0]
    with open_store(chosen, said.append) as third:
        assert third.read().salt == "second"


def test_what_two_remembered_is_joined():
    told_here = Condition("2026-03-04T02:15:00.000Z", told_cause="75")
    known = NotificationState(
        "s", {"run": Condition("earlier")}, (Notice("notify", "", "info", "a", ""),), ("x",), "2026-03-04"
    )
    more = NotificationState(
        "t",
        {"run": told_here, "waits f": told_here},
        (Notice("notify", "", "info", "b", "", reached=("m",)),),
        ("y", "x"),
    )
    both = merge_states(known, more)
    assert both.conditions == {"run": Condition("earlier"), "waits f": told_here}
    assert [(notice.title, notice.reached) for notice in both.outbox] == [("a", ()), ("b", ())]
    assert (both.salt, both.once, both.digest_at) == ("s", ("y", "x"), "2026-03-04")
