"""Notices as they arrive at a real receiver: once each, however often delivery fails in between."""

import json
import logging
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from databases import ask
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import order, unknown
from notification_servers import web
from reported_runs import create
from shared_ledger import shared_memory

from loadsheet.errors import MappingError
from loadsheet.operations.notifications import Facts, Rules, send_notifications, state, update_conditions
from loadsheet.operations.notifications.notice_delivery import Address, deliver_all
from loadsheet.operations.notifications.state import Notice, NotificationState, empty_state, open_store
from loadsheet.problems import Problem, Where
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings


@pytest.fixture
def where(request):
    """Settings that say where the memory is kept: in a file, or in the shared ledger."""
    return shared_memory() if getattr(request, "param", "file") == "table" else {}


either = pytest.mark.parametrize("where", ["file", "table"], indirect=True)


@either
def test_a_failed_run_is_reported_once_and_once_that_it_is_over(notified, titles):
    """The shipper stands in the title and in the next command."""
    for _ in range(3):
        notified.failed()
    notified.run()
    notified.run()
    assert titles.all() == [
        "loadsheet: a run failed: the exchange refused the token",
        "loadsheet: works again after 3 failed runs",
    ]
    assert titles.bodies()[0].splitlines() == [
        "The run stopped: the exchange refused the token.",
        "The exchange refused the token (401)",
        "",
        "Next: loadsheet doctor",
    ]
    assert titles.bodies()[1].endswith("\n\nSee: run.html of run 2026-03-08-01")
    assert notified.said == []
    notified.set(shipper="acme west")
    notified.failed(MappingError("no such column"))
    assert titles.all()[2:] == ["loadsheet acme west: a run failed: no such column"]
    assert "Next: loadsheet doctor --shipper 'acme west'" in titles.bodies()[2]


def test_unknown_outcomes_are_reported_when_there_are_some_and_when_there_are_none(notified, titles):
    notified.set(digest_at="23:59")
    notified.house.settings = notified.settings
    notified.run([create(1), create(2)], answers=unknown, exit_code=1)
    notified.run()
    assert titles.all()[0] == "loadsheet: 2 outcomes are unknown"
    assert "Next: loadsheet resolve" in titles.bodies()[0]
    assert len([title for title in titles.all() if "unknown" in title]) == 1


def test_a_late_file_is_reported_once_when_late_and_once_when_it_came(notified, titles):
    notified.set(expect=[{"name": "acme", "files": "in*.csv", "by": "01:00", "days": "Mon-Sun", "timezone": "UTC"}])
    notified.run()
    notified.run()
    notified.run()
    assert titles.all() == ["loadsheet: acme: late"]
    assert titles.bodies()[0].startswith("Late: acme: due Fri 2026-03-06 01:00, no file arrived.")
    assert "Next: loadsheet expected" in titles.bodies()[0]
    notified.run([create(1)], listed=[order(1)])  # its file says 2026-03-04: it was found later
    assert titles.all()[1:] == ["loadsheet: acme: no longer late"]
    assert "came " in titles.bodies()[1]
    assert "in4.csv" in titles.bodies()[1]
    notified.run([create(2)], listed=[order(1), order(2)])
    assert len(titles.all()) == 2


def test_a_run_that_did_not_happen_is_reported_once(notified, titles):
    notified.set(runs_due_s=100_000)
    notified.run()
    notified.run()
    notified.run(days=4)
    notified.run()
    assert titles.all() == ["loadsheet: a run did not happen"]
    assert "(95.9 hours)" in titles.bodies()[0]


@either
def test_what_could_not_be_delivered_is_delivered_after_the_next_run(notified, titles, receiver):
    """An address that was reached gets nothing twice."""
    with web() as other:
        notified.set(notify=[*notified.settings.notifications.urls, f"json://127.0.0.1:{other.port}/b"])
        receiver.code = 503
        notified.failed()
        notified.run()
        assert titles.all() == []
        assert notified.said[0].startswith(
            "notices: json://127.0.0.1: the notice could not be delivered; it is retried"
        )
        receiver.code = 200
        notified.run()
        notified.run()
        both = [
            "loadsheet: a run failed: the exchange refused the token",
            "loadsheet: works again after 1 failed run",
        ]
        assert titles.all() == [notice["title"] for notice in other.notices] == both


def test_addresses_can_stand_in_a_file_and_one_that_cannot_be_read_loses_nothing(notified, titles, receiver, tmp_path):
    file = tmp_path / "addresses"
    notified.set(notify=[], notify_file=file)
    notified.failed()
    assert notified.said == [f"notices: notifications.urls_file {file} cannot be read (No such file or directory)"]
    file.write_text(f"# the operators\n\njson://127.0.0.1:{receiver.port}/file\n")
    notified.failed()
    assert titles.all() == ["loadsheet: a run failed: the exchange refused the token"]


@either
def test_nothing_is_remembered_where_no_address_is_set(notified, tmp_path):
    notified.set(notify=[])
    notified.failed()
    assert not (tmp_path / "state").exists()
    assert not notified.settings.is_shared or not ask(
        "select 1 from pg_namespace where nspname = %s", f"{notified.settings.cluster.database_schema}_fleet"
    )


@either
def test_a_damaged_memory_is_begun_anew_and_reported(notified, titles, tmp_path):
    notified.failed()
    if notified.settings.is_shared:
        ask(f"update {notified.settings.cluster.database_schema}_fleet.notices set memory = %s", '{"salt": 7, "cond')
    else:
        (tmp_path / "state" / "notices.json").write_text('{"salt": 7, "cond')
    notified.failed()
    assert "ongoing conditions are reported again" in notified.said[0]
    assert len(titles.all()) == 2
    notified.failed()
    assert len(titles.all()) == 2


REFUSING = """
create function {0}.refuse() returns trigger language plpgsql as $$ begin raise exception 'not today'; end $$;
create trigger refuse before insert or update on {0}.notices for each row execute function {0}.refuse()
"""


@either
def test_a_memory_that_cannot_be_written_loses_no_notice(notified, titles, tmp_path):
    if notified.settings.is_shared:
        with open_store(notified.settings, print):
            pass
        ask(REFUSING.format(f"{notified.settings.cluster.database_schema}_fleet"))
    else:
        (tmp_path / "state").write_text("a file where the folder should be")
    notified.failed()
    assert titles.all() == ["loadsheet: a run failed: the exchange refused the token"]
    assert any("these notices may be sent again" in line for line in notified.said)


@either
def test_memory_is_for_its_owner_only_and_holds_no_address_nor_does_a_log(notified, receiver, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    receiver.code = 500
    unreachable = ["tgram://123:bot-token/chat", "json://user:hunter2@127.0.0.1:1/x", "nonsense://hunter2"]
    notified.set(notify=[f"json://user:hunter2@127.0.0.1:{receiver.port}/secret-path", *unreachable])
    notified.failed()
    if not notified.settings.is_shared:
        assert (tmp_path / "state" / "notices.json").stat().st_mode & 0o777 == 0o600
    everything = "\n".join([notified.kept, *notified.said])
    for secret in ("hunter2", "secret-path", "bot-token", str(receiver.port)):
        assert secret not in everything
    assert "json://127.0.0.1: " in everything
    assert "hunter2" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("apprise")]


def test_an_address_that_is_none_is_reported_and_stops_no_other(notified, titles):
    notified.set(notify=["nonsense", *notified.settings.notifications.urls])
    notified.failed()
    assert notified.said == [
        "notices: an address that is not a URL: this is not a valid address for notices; it is retried after the next run"
    ]
    assert len(titles.all()) == 1
    for url, label in (  # nothing secret
        ("mailtos://me:pw@smtp.example.org:465?to=x@y", "mailtos://smtp.example.org"),
        ("slack://TokenA/TokenB/TokenC", "slack://..."),
        ("json://[broken", "json://..."),
        ("not a url", "an address that is not a URL"),
        ("a b://host", "an address that is not a URL"),
    ):
        assert Address.of(url).label == label


@either
def test_a_process_killed_between_delivering_and_remembering_sends_twice_and_loses_nothing(tmp_path, receiver, where):
    chosen = Settings(state=tmp_path, notify=[f"json://127.0.0.1:{receiver.port}"], **where)
    waiting = tuple(Notice("notify", "", "info", title, "text") for title in ("one", "two"))

    def killed(_):
        raise KeyboardInterrupt

    with open_store(chosen, print) as store:
        store.write(NotificationState(salt="x", outbox=waiting))
    with pytest.raises(KeyboardInterrupt), open_store(chosen, print) as store:
        deliver_all(chosen, store.read(), killed, print)
    with open_store(chosen, print) as store:
        deliver_all(chosen, store.read(), store.write, print)
    assert [notice["title"] for notice in receiver.notices] == ["one", "one", "two"]
    with open_store(chosen, print) as store:
        assert store.read().outbox == ()


@either
def test_two_processes_do_not_send_at_the_same_time(tmp_path, monkeypatch, where):
    said, chosen = [], Settings(state=tmp_path, **where)
    monkeypatch.setattr(state, "LOCK_TIMEOUT_S", 0.05)
    with open_store(chosen, said.append) as first, open_store(chosen, said.append) as second:
        assert first is not None
        assert second is None
    assert "another process" in said[0]
    with open_store(chosen, said.append) as third:
        assert third is not None


runs = st.lists(st.tuples(st.sampled_from([0, 1, 70, 75, 77]), st.booleans()), max_size=9)


@pytest.fixture(scope="module")
def shared():
    with web() as found:
        yield found


@settings(max_examples=30, deadline=None)
@given(runs)
def test_for_any_runs_each_change_is_received_once_and_in_order_however_often_delivery_fails(shared, runs):
    shared.got.clear()
    with tempfile.TemporaryDirectory() as folder:
        chosen = Settings(state=Path(folder), notify=[f"json://127.0.0.1:{shared.port}"], notify_again_days=0)
        kept, expected, now = NotificationState(), [], datetime(2026, 3, 4, 2, tzinfo=UTC)
        last = runs[-1][0] if runs else 0
        for code, reaches in [*runs, (last, True)]:
            now += timedelta(days=1)
            shared.code = 200 if reaches else 500
            send_notifications(chosen, RunOutcome("", now, now, code), None, (), lambda _: None)
            kept, changes = update_conditions(kept, Facts(now, code), Rules())
            expected += [(change.kind, change.condition.cause) for change in changes]
    words = {"opened": "failed (exit", "changed": "another reason (exit", "closed": "works again"}
    got = [notice["title"] for notice in shared.notices]
    assert len(got) == len(expected)
    for title, (what, cause) in zip(got, expected, strict=True):
        assert words[what] in title
        assert what == "closed" or f"code {cause})" in title


@either
def test_what_is_kept_reads_back_equal(tmp_path, where):
    chosen = Settings(state=tmp_path, **where)
    kept, _ = update_conditions(
        empty_state(), Facts(datetime(2026, 3, 4, tzinfo=UTC), 77, "why", {"a": "late"}, {"g": "gap"}, 3), Rules()
    )
    with open_store(chosen, print) as store:
        assert store.write(kept)
    with open_store(chosen, print) as store:
        assert store.read() == kept
    if not where:
        assert json.loads((tmp_path / "notices.json").read_text())["version"] == 1


def test_a_file_whose_companion_is_overdue_is_reported_once_and_once_when_it_waits_no_longer(notified, titles):
    for hours in ("25", "49"):
        values = {"hours": hours, "companion": "packages.csv"}
        report = notified.house.report()
        left = (Problem("A111", Where("orders.csv"), "orders.csv", values),)
        notified.report(0, summary=report.summary, folder=report.folder, inbox_problems=left)
    notified.failed()
    notified.run()
    assert titles.all()[0] == "loadsheet: orders.csv waits for its companion"
    assert "has waited 25 hours for its companion packages.csv" in titles.bodies()[0]
    assert [title for title in titles.all()[1:] if "waits" in title] == []
    assert "orders.csv no longer waits" in titles.bodies()[-1]
    assert len(titles.all()) == 3
