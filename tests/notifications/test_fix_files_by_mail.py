"""Fix files on their way back: by mail to a real SMTP server and into a folder, each once."""

import io
import shutil
from dataclasses import replace

import openpyxl
import pytest
from ledgers import drop_of, order, plan, unreadable, weight_problem
from reported_runs import create

from loadsheet.operations.notifications.fix_file_delivery import fix_mail
from loadsheet.operations.notifications.state import Notice, open_store
from loadsheet.problems import Problem, SettingsError, Where
from loadsheet.settings import Settings


def wrong(number):
    return create(number, weight_problem("in.csv", number + 1))


def dropped(told, *items, language="", file="orders.csv"):
    """A night with one file in this language."""
    house = told.house
    house.clock.pass_time(86_400)
    house.run = house.ledger.begin_run()
    plan(house.ledger, house.run, replace(drop_of(("orders", file), mapping=file), language=language), items)
    return told.night(report=house.report_again([order(1)]), exit_code=1)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def mailed(told, post):
    told.set(
        notify=[],
        fixes_mail=[f"mailto://127.0.0.1:{post.port}?from=us@here.example&to=acme@there.example&mode=insecure"],
    )
    return told


def test_a_fix_file_is_mailed_once_and_only_when_something_is_wrong(mailed, post):
    dropped(mailed, create(1))
    assert post.mails == []
    night = dropped(mailed, wrong(2), file="tuesday.csv")
    (mail,) = post.mails
    assert post.recipients == ["acme@there.example"]
    assert mail["Subject"] == "To be fixed: tuesday.csv"
    text = mail.get_body(("plain",)).get_content()
    assert "- tuesday.csv: 1 to fix" in text
    (attached,) = mail.iter_attachments()
    assert attached.get_filename() == "tuesday.fix.xlsx"
    book = openpyxl.load_workbook(io.BytesIO(attached.get_content()))
    assert attached.get_content() == (night.folder / "tuesday.fix.xlsx").read_bytes()
    assert "tuesday" in book.sheetnames
    mailed.night()
    assert len(post.mails) == 1
    assert mailed.said == []


def test_a_file_that_could_not_be_read_is_mailed_as_such(mailed, post):
    house = mailed.house
    house.run = house.ledger.begin_run()
    why = Problem("R201", Where("broken.xlsx"), values={"reason": "it is not a workbook"})
    house.ledger.set_aside(house.run, unreadable("broken.xlsx", why))
    mailed.night(report=house.report_again(), exit_code=65)
    assert "- broken.xlsx: could not be used at all" in post.mails[0].get_body(("plain",)).get_content()


def test_a_mail_that_nobody_takes_holds_up_no_other(mailed, post):
    post.refuses = True
    for number in range(2, 5):
        dropped(mailed, wrong(number), file=f"{number}.csv")
    post.refuses, post.most = False, 40_000
    huge = Notice("fixes", "", "warning", "huge", "x" * 60_000)
    with open_store(mailed.settings, print) as store:
        kept = store.read()
        store.write(replace(kept, outbox=(huge, replace(huge, title="vast"), *kept.outbox)))
    mailed.night()
    assert [mail["Subject"] for mail in post.mails] == ["To be fixed: 4.csv"]
    mailed.night()
    assert [mail["Subject"][-5:] for mail in post.mails] == ["4.csv", "2.csv", "3.csv"]
    with open_store(mailed.settings, print) as store:
        assert [notice.title for notice in store.read().outbox] == ["huge", "vast"]


def test_a_german_shipper_gets_a_german_mail_and_the_setting_decides_where_the_sheet_has_no_language(mailed, post):
    dropped(mailed, wrong(2), language="de_DE")
    mailed.set(language="de")
    dropped(mailed, wrong(3), language="nl_NL", file="dutch.csv")
    assert [mail["Subject"] for mail in post.mails] == [
        "Bitte korrigieren: orders.csv",
        "Bitte korrigieren: dutch.csv",
    ]
    assert "Einige Daten" in post.mails[0].get_body(("plain",)).get_content()


def test_a_mail_that_was_refused_is_sent_after_the_next_run_and_names_a_fix_file_that_was_purged(mailed, post):
    post.refuses = True
    kept, purged = dropped(mailed, wrong(2)), dropped(mailed, wrong(3), file="purged.csv")
    refused = "notices: mailto://127.0.0.1: the notice could not be delivered; it is retried after the next run"
    assert {*mailed.said} == {refused}
    shutil.rmtree(purged.folder)
    post.refuses = False
    mailed.night()
    first, second = post.mails
    assert [part.get_filename() for part in first.iter_attachments()] == ["orders.fix.xlsx"]
    assert kept.folder.name in mailed.kept
    assert "These files no longer exist: purged.fix.xlsx" in second.get_body(("plain",)).get_content()


def test_fix_files_are_copied_into_the_folder_of_the_shipper_once(told, tmp_path):
    told.set(notify=[], fixes_to=tmp_path / "back")
    dropped(told, create(1))
    assert not (tmp_path / "back").exists() or names(tmp_path / "back") == []
    night = dropped(told, wrong(2), file="tuesday.csv")
    assert names(tmp_path / "back") == ["tuesday.fix.xlsx"]
    assert (tmp_path / "back/tuesday.fix.xlsx").read_bytes() == (night.folder / "tuesday.fix.xlsx").read_bytes()
    (tmp_path / "back/tuesday.fix.xlsx").unlink()  # the shipper takes it
    told.tell(1, summary=night.summary, folder=night.folder)
    assert names(tmp_path / "back") == []


def test_a_file_of_the_same_name_that_still_lies_there_is_not_overwritten(told, tmp_path):
    told.set(notify=[], fixes_to=tmp_path / "back")
    dropped(told, wrong(2))
    before = (tmp_path / "back/orders.fix.xlsx").read_bytes()
    dropped(told, wrong(3))
    assert names(tmp_path / "back") == ["orders-2.fix.xlsx", "orders.fix.xlsx"]
    assert (tmp_path / "back/orders.fix.xlsx").read_bytes() == before


def test_a_copy_that_cannot_be_made_is_said_and_made_after_the_next_run(told, tmp_path):
    (tmp_path / "back").write_text("a file where the folder should be")
    told.set(notify=[], fixes_to=tmp_path / "back")
    dropped(told, wrong(2))
    assert told.said[0].startswith("notices: orders.fix.xlsx cannot be copied to ")
    (tmp_path / "back").unlink()
    told.night()
    assert names(tmp_path / "back") == ["orders.fix.xlsx"]
    told.night()
    assert len(told.said) == 1


@pytest.mark.parametrize("place", ["inbox", "inbox/fixes", "inbox/../inbox/deep/fixes"])
def test_fix_files_never_go_where_they_would_be_taken_from(tmp_path, place):
    with pytest.raises(SettingsError, match="is in the inbox"):
        Settings.load(inbox=tmp_path / "inbox", fixes_to=tmp_path / place)
    assert (
        Settings.load(inbox=tmp_path / "inbox", fixes_to=tmp_path / "inbox-fixes").notifications.fixes_to
        == tmp_path / "inbox-fixes"
    )


def test_an_inbox_behind_a_link_is_still_the_inbox(tmp_path):
    (tmp_path / "inbox").mkdir()
    (tmp_path / "back").symlink_to(tmp_path / "inbox", target_is_directory=True)
    with pytest.raises(SettingsError, match="is in the inbox"):
        Settings.load(inbox=tmp_path / "inbox", fixes_to=tmp_path / "back")


@pytest.mark.parametrize(
    ("language", "files", "title"),
    [
        ("en", 3, "To be fixed: 0.csv, 1.csv, 2.csv"),
        ("en", 4, "To be fixed: 0.csv, 1.csv, 2.csv and 1 more"),
        ("de", 5, "Bitte korrigieren: 0.csv, 1.csv, 2.csv und 2 weitere"),
    ],
)
def test_the_title_of_a_mail_names_three_files(language, files, title):
    assert fix_mail(language, [(f"{number}.csv", number) for number in range(files)])[0] == title
