"""Fix files on their way back to the shipper: by mail to a real SMTP server and into a folder, each once."""

import shutil
from dataclasses import replace

import pytest
from ledgers import drop_of, order, plan, send, weight_problem
from reported_runs import create

from loadsheet.errors import SettingsError
from loadsheet.operations.notifications.mailings import fix_mail
from loadsheet.operations.notifications.state import Notice, open_store
from loadsheet.settings import Settings


def wrong(number):
    return create(number, weight_problem("in.csv", number + 1))


def dropped(notified, *items, language="", file="orders.csv"):
    """A run with one file in this language."""
    house = notified.house
    house.clock.pass_time(86_400)
    house.run = house.ledger.begin_run()
    plan(house.ledger, house.run, replace(drop_of(("orders", file), mapping=file), language=language), items)
    return notified.run(report=house.report_again([order(1)]), exit_code=1)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def mailed(notified, post):
    notified.set(
        notify=[],
        fixes_mail=[f"mailto://127.0.0.1:{post.port}?from=us@here.example&to=acme@there.example&mode=insecure"],
    )
    return notified


def text_of(mail):
    return mail.get_body(("plain",)).get_content()


def test_a_fix_file_is_mailed_once_and_only_when_something_is_wrong(mailed, post):
    dropped(mailed, create(1))
    assert post.mails == []
    ended = dropped(mailed, wrong(2), file="tuesday.csv")
    (mail,) = post.mails
    assert post.recipients == ["acme@there.example"]
    assert mail["Subject"] == "To be fixed: tuesday.csv"
    assert "- tuesday.csv: 1 to fix" in text_of(mail)
    (attached,) = mail.iter_attachments()
    assert attached.get_filename() == "tuesday.fix.xlsx"
    assert attached.get_content() == (ended.folder / "tuesday.fix.xlsx").read_bytes()
    mailed.run()
    assert len(post.mails) == 1
    assert mailed.said == []


def test_a_mail_counts_what_is_to_fix_without_what_another_file_has_corrected(mailed, post):
    house = mailed.house
    house.run = house.ledger.begin_run()
    for file, items in (("orders.csv", [wrong(2), wrong(3)]), ("more.csv", [create(2)])):
        plan(house.ledger, house.run, drop_of(("orders", file), mapping=file), items)
    send(house.ledger, house.run)
    mailed.run(report=house.report_again([order(2)]), exit_code=1)
    (mail,) = post.mails
    assert "- orders.csv: 1 to fix" in text_of(mail)


def test_a_file_that_could_not_be_read_is_mailed_as_such(mailed, post):
    mailed.unreadable()
    assert "- broken.xlsx: could not be used at all" in text_of(post.mails[0])


@pytest.mark.sweep
def test_a_mail_that_nobody_takes_holds_up_no_other(mailed, post):
    post.refuses = True
    for number in range(2, 5):
        dropped(mailed, wrong(number), file=f"{number}.csv")
    post.refuses, post.most = False, 40_000
    huge = Notice("fixes", "", "warning", "huge", "x" * 60_000)
    with open_store(mailed.settings, print) as store:
        kept = store.read()
        store.write(replace(kept, outbox=(huge, replace(huge, title="vast"), *kept.outbox)))
    mailed.run()
    assert [mail["Subject"] for mail in post.mails] == ["To be fixed: 4.csv"]
    mailed.run()
    assert [mail["Subject"][-5:] for mail in post.mails] == ["4.csv", "2.csv", "3.csv"]
    with open_store(mailed.settings, print) as store:
        assert [notice.title for notice in store.read().outbox] == ["huge", "vast"]


def test_a_german_shipper_gets_a_german_mail_and_the_setting_decides_where_the_sheet_has_no_language(mailed, post):
    dropped(mailed, wrong(2), language="de_DE")
    mailed.set(language="de")
    dropped(mailed, wrong(3), language="nl_NL", file="dutch.csv")
    subjects = [mail["Subject"] for mail in post.mails]
    assert subjects == ["Bitte korrigieren: orders.csv", "Bitte korrigieren: dutch.csv"]
    assert "Einige Daten" in text_of(post.mails[0])
    for language, count, title in (
        ("en", 3, "To be fixed: 0.csv, 1.csv, 2.csv"),
        ("en", 4, "To be fixed: 0.csv, 1.csv, 2.csv and 1 more"),
        ("de", 5, "Bitte korrigieren: 0.csv, 1.csv, 2.csv und 2 weitere"),
    ):
        assert fix_mail(language, [(f"{number}.csv", number) for number in range(count)])[0] == title


def test_a_mail_that_was_refused_is_sent_after_the_next_run_and_names_a_fix_file_that_was_purged(mailed, post):
    post.refuses = True
    kept, purged = dropped(mailed, wrong(2)), dropped(mailed, wrong(3), file="purged.csv")
    refused = "notices: mailto://127.0.0.1: the notice could not be delivered; it is retried after the next run"
    assert {*mailed.said} == {refused}
    shutil.rmtree(purged.folder)
    post.refuses = False
    mailed.run()
    first, second = post.mails
    assert [part.get_filename() for part in first.iter_attachments()] == ["orders.fix.xlsx"]
    assert kept.folder.name in mailed.kept
    assert "These files no longer exist: purged.fix.xlsx" in text_of(second)


def test_fix_files_are_copied_into_the_folder_of_the_shipper_once(notified, tmp_path):
    """What still lies there is not overwritten."""
    back = tmp_path / "back"
    notified.set(notify=[], fixes_to=back)
    dropped(notified, create(1))
    assert not back.exists() or names(back) == []
    ended = dropped(notified, wrong(2), file="tuesday.csv")
    before = (ended.folder / "tuesday.fix.xlsx").read_bytes()
    assert names(back) == ["tuesday.fix.xlsx"]
    assert (back / "tuesday.fix.xlsx").read_bytes() == before
    dropped(notified, wrong(3), file="tuesday.csv")
    assert names(back) == ["tuesday-2.fix.xlsx", "tuesday.fix.xlsx"]
    assert (back / "tuesday.fix.xlsx").read_bytes() == before
    for path in back.iterdir():
        path.unlink()  # the shipper takes them
    notified.report(1, summary=ended.summary, folder=ended.folder)
    assert names(back) == []


def test_a_copy_that_cannot_be_made_is_said_and_made_after_the_next_run(notified, tmp_path):
    (tmp_path / "back").write_text("a file where the folder should be")
    notified.set(notify=[], fixes_to=tmp_path / "back")
    dropped(notified, wrong(2))
    assert notified.said[0].startswith("notices: orders.fix.xlsx cannot be copied to ")
    (tmp_path / "back").unlink()
    notified.run()
    assert names(tmp_path / "back") == ["orders.fix.xlsx"]
    notified.run()
    assert len(notified.said) == 1


def test_fix_files_never_go_into_the_inbox(tmp_path):
    (tmp_path / "inbox").mkdir()
    (tmp_path / "back").symlink_to(tmp_path / "inbox", target_is_directory=True)
    for place in ("inbox", "inbox/fixes", "inbox/../inbox/deep/fixes", "back"):
        with pytest.raises(SettingsError, match="is in the inbox"):
            Settings.load(inbox=tmp_path / "inbox", fixes_to=tmp_path / place)
    beside = tmp_path / "inbox-fixes"
    assert Settings.load(inbox=tmp_path / "inbox", fixes_to=beside).notifications.fixes_to == beside
