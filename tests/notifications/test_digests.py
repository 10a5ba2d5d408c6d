"""Digests: what is open for someone, once a day at most, only if it has changed, to whom it belongs."""

from datetime import timedelta

import pytest
from ledgers import order, unreadable, weight_problem
from notification_servers import web
from reported_runs import create

from loadsheet.ledger import Remark
from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications import digests
from loadsheet.operations.notifications.digests import is_digest_due
from loadsheet.operations.notifications.state import NotificationState
from loadsheet.problems import Problem, SettingsError, TokenRefused, Where
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
    assert titles.all() == ["loadsheet: 2 of 2 documents need attention"]
    assert titles.bodies()[0].splitlines() == [
        "Run 2026-03-05-01 · 0 accepted",
        "2 of 2 rows accounted for · 5 of 5 control totals agree",
        "",
        "To do:",
        "- 2 documents to be corrected by the sender, first A-00001",
        "- 1 fix file to send back",
        "",
        "2 exceptions are open (2 not sent: invalid):",
        "- A-00001: not sent: invalid, since 2026-03-05",
        "- A-00002: not sent: invalid, since 2026-03-05",
        "",
        "Next: loadsheet show A-00001",
        "See: reconciliation.xlsx of run 2026-03-05-01",
        "",
        "Attached: the fix files. Forward them to their senders.",
    ]
    told.night()
    assert len(titles.all()) == 1
    told.night([wrong(3)], exit_code=1)
    assert titles.all()[1:] == ["loadsheet: 1 of 1 document needs attention"]
    assert "2 exceptions of earlier runs are still open: A-00001, A-00002 (index.html)" in titles.bodies()[1]
    assert "3 exceptions are open, 1 of them new (3 not sent: invalid):" in titles.bodies()[1]
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
    assert titles.all() == ["loadsheet: 1 of 1 document needs attention", "loadsheet: 1 exception is open"]
    told.set(notify_again_days=0)
    told.night(days=5)
    assert len(titles.all()) == 2


def test_each_owner_gets_the_own_exceptions_and_all_others_go_to_everybody(told, titles):
    with web() as anna:
        told.set(notify_owners={"Anna": f"json://127.0.0.1:{anna.port}/"}, digest_at="03:00")
        told.house.clock.pass_time(6 * 3600)
        told.night([wrong(1), wrong(2), wrong(3)], exit_code=1)
        assert titles.all() == ["loadsheet: 3 of 3 documents need attention"]
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
    told.night(report=told.house.report_again(), exit_code=65)
    assert titles.all() == ["loadsheet: 1 file could not be read"]
    assert "- broken.xlsx could not be read" in titles.bodies()[0]
    told.night()
    assert len(titles.all()) == 1


def test_a_digest_that_did_not_arrive_is_replaced_by_the_next_with_what_both_say(told, titles, receiver):
    receiver.code = 500
    told.night()
    told.house.run = told.house.ledger.begin_run()
    file = unreadable("broken.xlsx", Problem("R201", Where("broken.xlsx"), values={"reason": "it is not a workbook"}))
    told.house.ledger.set_aside(told.house.run, file)
    told.house.clock.pass_time(86_400)
    told.night(report=told.house.report_again(), exit_code=65)
    told.night([wrong(1)], exit_code=1)
    receiver.code = 200
    told.night()
    assert titles.all() == ["loadsheet: 1 of 1 document needs attention"]
    assert "These files could not be read and were set aside:\n- broken.xlsx" in titles.bodies()[0]


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


@pytest.fixture
def mailed(told, post):
    told.set(
        token="s3cr3t",
        notify=[f"mailto://127.0.0.1:{post.port}?from=us@here.example&to=ops@there.example&mode=insecure"],
    )
    return told


def test_the_mail_has_the_verdict_as_subject_what_to_do_as_text_and_html_and_the_fix_files(mailed, post, tmp_path):
    night = mailed.night([wrong(1), wrong(2), create(3)], held=[order(3)], exit_code=1)
    (mail,) = post.mails
    assert mail["Subject"] == f"loadsheet: {night.summary.headline.text}"
    text, page = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    for line in (*night.summary.headline.todo, "Next: loadsheet show A-00001"):
        assert line in text
        assert line in page
    assert "<li" in page
    assert "<" not in text
    assert [part.get_filename() for part in mail.iter_attachments()] == ["in1.fix.xlsx"]
    sent = mail.as_string() + text + page
    assert "s3cr3t" not in sent
    assert str(tmp_path) not in sent


def test_a_foreign_text_in_a_mail_is_no_markup(mailed, post):
    mailed.failed(TokenRefused("the exchange says <script>alert(1)</script> & more"))
    page = post.mails[0].get_body(("html",)).get_content()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "<script>alert(1)</script> & more" in post.mails[0].get_body(("plain",)).get_content()


def test_fix_files_that_the_sender_gets_anyway_or_that_are_too_large_are_not_attached(
    mailed, post, tmp_path, monkeypatch
):
    mailed.set(fixes_to=tmp_path / "back")
    mailed.night([wrong(1)], exit_code=1)
    mailed.set(fixes_to=None)
    monkeypatch.setattr(digests, "_ATTACHED_BYTES_MAX", 100)
    mailed.night([wrong(2)], exit_code=1)
    assert [list(mail.iter_attachments()) for mail in post.mails] == [[], []]
    assert "fix file is too large to attach" not in post.mails[0].get_body(("plain",)).get_content()
    assert "1 fix file is too large to attach" in post.mails[1].get_body(("plain",)).get_content()
