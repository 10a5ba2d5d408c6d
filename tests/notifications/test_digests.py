"""Digests: what is open for someone, once a day at most, only if it has changed, to whom it belongs."""

from datetime import timedelta

import pytest
from ledgers import order, weight_problem
from notification_servers import web
from reported_runs import create

from loadsheet.errors import SettingsError, TokenRefused
from loadsheet.ledger import Remark
from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications import mailings
from loadsheet.operations.notifications.mailings import is_digest_due
from loadsheet.operations.notifications.state import NotificationState
from loadsheet.settings import Settings


def wrong(number):
    return create(number, weight_problem("in.csv", number + 1))


def own(notified, owner, *keys):
    """The analyst names the owner of what is open for these keys."""
    ledger = notified.house.ledger
    entries = [entry.id for key in keys for entry in ledger.queries.entries_by_key(key)]
    assert ledger.record_remarks(
        [Remark(entry, "owner", owner, "analyst", ledger.now()) for entry in entries], {}
    ) == len(entries)


def test_what_is_open_is_reported_once_a_day_and_again_only_when_it_changes(notified, titles):
    notified.run([wrong(1), wrong(2)], exit_code=1)
    assert titles.all() == ["loadsheet: 2 of 2 documents need attention"]
    assert (
        titles.bodies()[0]
        == """\
Run 2026-03-05-01 · 0 accepted
2 of 2 rows accounted for · 5 of 5 control totals agree

To do:
- 2 documents to be corrected by the sender, first A-00001
- 1 fix file to send back

2 exceptions are open (2 not sent: invalid):
- A-00001: not sent: invalid, since 2026-03-05
- A-00002: not sent: invalid, since 2026-03-05

Next: loadsheet show A-00001
See: reconciliation.xlsx of run 2026-03-05-01

Attached: the fix files. Forward them to their senders."""
    )
    notified.run()
    assert len(titles.all()) == 1
    notified.run([wrong(3)], exit_code=1)
    assert titles.all()[1:] == ["loadsheet: 1 of 1 document needs attention"]
    assert "2 more exceptions of earlier runs are still open: A-00001, A-00002 (index.html)" in titles.bodies()[1]
    assert "3 exceptions are open, 1 of them new (3 not sent: invalid):" in titles.bodies()[1]
    notified.run([create(1), create(2)], listed=[order(1), order(2)], days=0.2)
    assert len(titles.all()) == 2, "a second run of the day says nothing more"
    notified.run([create(3)], listed=[order(1), order(2), order(3)], days=0.9)
    notified.run(listed=[order(1), order(2), order(3)])
    assert titles.all()[2:] == ["loadsheet: no open exceptions"]


@pytest.mark.parametrize(("key", "shown"), [("--held", "-- --held"), ("A-1; $(id)", "'A-1; $(id)'")])
def test_the_key_in_the_next_command_is_one_word_of_a_shell_and_no_option(notified, titles, key, shown):
    notified.run([create(1, weight_problem("in.csv", 2), order_id=key)], exit_code=1)
    assert f"\nNext: loadsheet show {shown}\n" in titles.bodies()[0]


def test_what_is_open_for_long_is_reported_again_if_that_is_wished_for(notified, titles):
    notified.set(notify_again_days=2.5)
    notified.run([wrong(1)], exit_code=1)
    notified.run(days=2)
    assert len(titles.all()) == 1
    notified.run()
    assert titles.all() == ["loadsheet: 1 of 1 document needs attention", "loadsheet: 1 exception is open"]
    notified.set(notify_again_days=0)
    notified.run(days=5)
    assert len(titles.all()) == 2


def test_each_owner_gets_the_own_exceptions_and_all_others_go_to_everybody(notified, titles):
    with web() as anna:
        notified.set(notify_owners={"Anna": f"json://127.0.0.1:{anna.port}/"}, digest_at="03:00")
        notified.house.clock.pass_time(6 * 3600)
        notified.run([wrong(1), wrong(2), wrong(3)], exit_code=1)
        assert titles.all() == ["loadsheet: 3 of 3 documents need attention"]
        own(notified, " anna ", "A-00001", "A-00002")
        own(notified, "Somebody", "A-00003")
        notified.run()
        assert [notice["title"] for notice in anna.notices] == ["loadsheet: 2 exceptions are open"]
        assert "for you" in anna.notices[0]["message"]
        assert "A-00003" not in anna.notices[0]["message"]
        assert titles.all()[1:] == ["loadsheet: 1 exception is open"]
        notified.run([create(1), create(2)], listed=[order(1), order(2)])
        assert [notice["title"] for notice in anna.notices][1:] == ["loadsheet: no open exceptions"]
        assert len(titles.all()) == 2


def test_files_that_were_set_aside_are_reported_once(notified, titles):
    notified.run()
    notified.unreadable()
    assert titles.all() == ["loadsheet: 1 file could not be read"]
    assert "- broken.xlsx could not be read" in titles.bodies()[0]
    notified.run()
    assert len(titles.all()) == 1


def test_a_digest_that_did_not_arrive_is_replaced_by_the_next_with_what_both_say(notified, titles, receiver):
    receiver.code = 500
    notified.unreadable()
    notified.run([wrong(1)], exit_code=1)
    receiver.code = 200
    notified.run()
    assert titles.all() == ["loadsheet: 1 of 1 document needs attention"]
    assert "These files could not be read and were set aside:\n- broken.xlsx" in titles.bodies()[0]


def test_a_digest_is_due_with_the_first_run_after_its_time_of_day(notified):
    at_six = notified.settings.model_copy(update={"digest_at": "06:00"})
    local = notified.house.clock().astimezone().replace(hour=5, minute=59, second=0, microsecond=0)
    minute = timedelta(minutes=1)
    for sent, now, due in (
        (None, local, True),
        (local - timedelta(hours=12), local, False),
        (local - timedelta(hours=12), local + minute, True),
        (local + minute, local + timedelta(hours=20), False),
        (local + timedelta(days=2), local, True),  # a clock that was set back stops no digest
    ):
        state = NotificationState(digest_at=stamp(sent)) if sent else NotificationState()
        assert is_digest_due(at_six, state, now) is due, (sent, now)
    with pytest.raises(SettingsError, match=r"digest_at: .*'6' is not a time of day"):
        Settings.load(digest_at="6")


@pytest.fixture
def mailed(notified, post):
    notified.set(
        token="s3cr3t",
        notify=[f"mailto://127.0.0.1:{post.port}?from=us@here.example&to=ops@there.example&mode=insecure"],
    )
    return notified


def test_the_mail_has_the_verdict_as_subject_what_to_do_as_text_and_html_and_the_fix_files(mailed, post, tmp_path):
    ended = mailed.run([wrong(1), wrong(2), create(3)], listed=[order(3)], exit_code=1)
    (mail,) = post.mails
    assert mail["Subject"] == f"loadsheet: {ended.summary.headline.text}"
    text, page = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
    for line in (*ended.summary.headline.todo, "Next: loadsheet show A-00001"):
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
    mailed.run([wrong(1)], exit_code=1)
    mailed.set(fixes_to=None)
    monkeypatch.setattr(mailings, "_ATTACHED_BYTES_MAX", 100)
    mailed.run([wrong(2)], exit_code=1)
    assert [list(mail.iter_attachments()) for mail in post.mails] == [[], []]
    assert "fix file is too large to attach" not in post.mails[0].get_body(("plain",)).get_content()
    assert "1 fix file is too large to attach" in post.mails[1].get_body(("plain",)).get_content()
