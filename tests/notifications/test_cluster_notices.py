"""Notices of a fleet: no machine repeats what another one sent, whatever becomes of the database meanwhile."""

import json

from databases import ask
from shared_ledger import shared_memory

from loadsheet.errors import LedgerGone
from loadsheet.operations.notifications.state import Condition, Notice, NotificationState, merge_states, open_store
from loadsheet.settings import Settings


def test_what_one_machine_sent_another_does_not_send_again(notified, titles):
    """Each shipper of a fleet has a memory of its own."""
    notified.set(**shared_memory(), shipper="acme")
    for number in range(3):
        notified.set(state=notified.folder / f"machine {number}")
        notified.failed()
    notified.set(shipper="bolt")
    notified.failed()
    notified.set(state=notified.folder / "machine 4", shipper="acme")
    notified.run()
    assert titles.all() == [
        "loadsheet acme: a run failed: the exchange refused the token",
        "loadsheet bolt: a run failed: the exchange refused the token",
        "loadsheet acme: works again after 3 failed runs",
    ]
    assert not list(notified.folder.rglob("notices.json"))


def test_the_memory_moves_with_the_ledger(notified, titles, tmp_path):
    notified.failed()
    before = json.loads(notified.kept)
    notified.set(**shared_memory())
    with open_store(notified.settings, notified.said.append):
        pass
    assert [path.name for path in (tmp_path / "state").iterdir()] in ([], ["notices.json.lock"])
    notified.failed()
    assert len(titles.all()) == 1
    assert json.loads(notified.kept)["salt"] == before["salt"]
    assert notified.said == []


def test_while_the_ledger_is_away_the_machine_remembers_and_reports_once(notified, titles, receiver, tmp_path):
    settings = shared_memory()
    away = f"postgresql://me:hunter2@/there?host={tmp_path}"
    notified.set(**settings | {"database": away})
    for _ in range(3):
        notified.failed(LedgerGone("the ledger cannot be reached"))
    assert titles.all() == ["loadsheet: 2 runs failed: the ledger cannot be reached"]
    assert all(
        "until the ledger is available, their state is stored on this machine" in line and "hunter2" not in line
        for line in notified.said
    )
    notified.set(**settings)
    notified.run()
    assert titles.all()[1:] == ["loadsheet: works again after 3 failed runs"]
    assert not (tmp_path / "state" / "notices.json").exists()


def test_a_machine_without_its_connection_delays_no_other_and_stores_nothing_more(tmp_path):
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
    lasting, earlier = Condition("2026-03-04T02:15:00.000Z", told_cause="75"), Condition("earlier")
    here = Notice("notify", "", "info", "a", "")
    there = Notice("notify", "", "info", "b", "", reached=("m",))
    known = NotificationState("s", {"run": earlier}, (here,), ("x",), "2026-03-04")
    more = NotificationState("t", {"run": lasting, "waits f": lasting}, (there,), ("y", "x"))
    both = merge_states(known, more)
    assert both.conditions == {"run": earlier, "waits f": lasting}
    assert [(notice.title, notice.reached) for notice in both.outbox] == [("a", ()), ("b", ())]
    assert (both.salt, both.once, both.digest_at) == ("s", ("y", "x"), "2026-03-04")
