"""Digests: what is open for someone, once a day at most, only if it has changed, to whom it belongs."""

from datetime import timedelta

import pytest
from ledgers import order, unreadable, weight_problem
from notification_servers import web
from reported_runs import create

from loadsheet.ledger import Remark
from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications.digests import is_digest_due
from loadsheet.operations.notifications.state import NotificationState
from loadsheet.problems import Problem, SettingsError, Where
from loadsheet.settings import Settings


def wrong(number):
    return create(number, weight_problem("in.csv", number + 1))


def own(told, owner, *keys):
    """The analyst names the owner of what is open for these keys."""
    ledger = told.house.ledger
    entries = [entry.id for key in keys for entry in ledger.queries.entries_by_key(key)]
    assert ledger.record_remarks(
        [Remark(entry, "owner", owner, "analyst", ledger.now()) for entry in entries], {}
    ) == len(entries)


def test_what_is_open_is_told_once_a_day_and_again_only_when_it_changes(told, titles):
    told.night([wrong(1), wrong(2)], exit_code=1)
    assert titles.all() == ["loadsheet: 2 exceptions are open"]
    assert titles.bodies()[0].splitlines()[:4] == [
        "2 exceptions are open.",
        "2 not sent: invalid",
        "- A-00001: not sent: invalid, since 2026-03-05",
        "- A-00002: not sent: invalid, since 2026-03-05",
    ]
    assert "Next: loadsheet show A-00001" in titles.bodies()[0]
    assert titles.bodies()[0].endswith("reconciliation.xlsx")
    told.night()
    assert len(titles.all()) == 1
    told.night([wrong(3)], exit_code=1)
    assert titles.all()[1:] == ["loadsheet: 3 exceptions are open, 1 of them new"]
    told.night([create(1), create(2)], held=[order(1), order(2)], days=0.2)
    assert len(titles.all()) == 2, "a second run of the day says nothing more"
    told.night([create(3)], held=[order(1), order(2), order(3)], days=0.9)
    told.night(held=[order(1), order(2), order(3)])
    assert titles.all()[2:] == ["loadsheet: no open exceptions"]


def test_what_is_open_for_long_is_told_again_if_that_is_wished_for(told, titles):
    told.set(notify_again_days=2.5)
    told.night([wrong(1)], exit_code=1)
    told.night(days=2)
    assert len(titles.all()) == 1
    told.night()
    assert titles.all() == ["loadsheet: 1 exception is open"] * 2
    told.set(notify_again_days=0)
    told.night(days=5)
    assert len(titles.all()) == 2


def test_each_owner_gets_the_own_exceptions_and_all_others_go_to_everybody(told, titles):
    with web() as anna:
        told.set(notify_owners={"Anna": f"json://127.0.0.1:{anna.port}/"}, digest_at="03:00")
        told.house.clock.pass_time(6 * 3600)
        told.night([wrong(1), wrong(2), wrong(3)], exit_code=1)
        assert titles.all() == ["loadsheet: 3 exceptions are open"]
        own(told, " anna ", "A-00001", "A-00002")
        own(told, "Somebody", "A-00003")
        told.night()
        assert [notice["title"] for notice in anna.notices] == ["loadsheet: 2 exceptions are open"]
        assert "for you" in anna.notices[0]["message"]
        assert "A-00003" not in anna.notices[0]["message"]
        assert titles.all()[1:] == ["loadsheet: 1 exception is open"]
        told.night([create(1), create(2)], held=[order(1), order(2)])
        assert [notice["title"] for notice in anna.notices][1:] == ["loadsheet: no open exceptions"]
        assert len(titles.all()) == 2


def test_files_that_were_set_aside_are_told_once(told, titles):
    told.night()
    run = told.house.ledger.begin_run()
    told.house.run = run
    file = unreadable("broken.xlsx", Problem("R201", Where("broken.xlsx"), values={"reason": "it is not a workbook"}))
    told.house.ledger.set_aside(run, file)
    told.house.clock.pass_time(86_400)
    told.night(report=told.house.again(), exit_code=65)
    assert titles.all() == ["loadsheet: files were set aside"]
    assert "Set aside: broken.xlsx" in titles.bodies()[0]
    told.night()
    assert len(titles.all()) == 1


def test_a_digest_that_did_not_arrive_is_replaced_by_the_next_with_what_both_say(told, titles, receiver):
    receiver.code = 500
    told.night()
    told.house.run = told.house.ledger.begin_run()
    file = unreadable("broken.xlsx", Problem("R201", Where("broken.xlsx"), values={"reason": "it is not a workbook"}))
    told.house.ledger.set_aside(told.house.run, file)
    told.house.clock.pass_time(86_400)
    told.night(report=told.house.again(), exit_code=65)
    told.night([wrong(1)], exit_code=1)
    receiver.code = 200
    told.night()
    assert titles.all() == ["loadsheet: 1 exception is open"]
    assert "Set aside: broken.xlsx" in titles.bodies()[0]


def test_a_digest_is_due_with_the_first_run_after_its_time_of_day(told):
    at_six = told.settings.model_copy(update={"digest_at": "06:00"})
    local = told.house.clock().astimezone().replace(hour=5, minute=59, second=0, microsecond=0)
    since = NotificationState(digest_at=stamp(local - timedelta(hours=12)))
    assert is_digest_due(at_six, NotificationState(), local)
    assert not is_digest_due(at_six, since, local)
    assert is_digest_due(at_six, since, local + timedelta(minutes=1))
    assert not is_digest_due(
        at_six, NotificationState(digest_at=stamp(local + timedelta(minutes=1))), local + timedelta(hours=20)
    )


def test_a_time_of_day_that_is_none_is_refused():
    with pytest.raises(SettingsError, match=r"digest_at: .*'6' is not a time of day"):
        Settings.load(digest_at="6")
