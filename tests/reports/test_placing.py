import os

import pytest

from loadsheet.problems import FolderError
from loadsheet.reports.report_files import check_writable, placed, safe_name


def test_a_file_appears_whole_and_replaces_the_earlier_one(tmp_path):
    target = tmp_path / "new" / "report.csv"
    for text in ("first", "second"):
        with placed(target) as part:
            part.write_text(text, encoding="utf-8")
            assert not target.exists() or target.read_text(encoding="utf-8") == "first"
        assert target.read_text(encoding="utf-8") == text
    assert list(target.parent.iterdir()) == [target]


def test_the_earlier_file_stays_if_writing_fails(tmp_path):
    target = tmp_path / "report.csv"
    target.write_text("first", encoding="utf-8")

    def write_half():
        with placed(target) as part:
            part.write_text("half", encoding="utf-8")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        write_half()
    assert target.read_text(encoding="utf-8") == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "outbox").write_text("a file, not a folder", encoding="utf-8")
    with (
        pytest.raises(FolderError, match=r"outbox/report\.csv cannot be written"),
        placed(tmp_path / "outbox" / "report.csv"),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("orders.csv", "orders.csv"),
        ("nord/März 2026 (2).xlsx", "nord__März 2026 (2).xlsx"),
        ("../../etc/passwd", "__.._etc_passwd"),
        ("..\\..\\x.csv", "x.csv"),
        ("/abs/x.csv", "abs__x.csv"),
        ("a\x00b\n<c>:*?.csv", "a_b__c____.csv"),
        ("...", "_"),
        ("", "_"),
    ],
)
def test_a_shippers_name_stays_in_the_folder(name, safe, tmp_path):
    made = safe_name(name)
    assert "/" not in made
    assert "\\" not in made
    assert not made.startswith(".")
    assert (tmp_path / f"{made}.csv").resolve().parent == tmp_path.resolve()
    if ".." not in name:
        assert made == safe


def test_long_names_are_cut_between_characters():
    assert len(safe_name("ü" * 300).encode()) <= 150


def test_a_folder_for_reports_is_made_or_refused_with_what_to_do(tmp_path, monkeypatch):
    check_writable(tmp_path / "new" / "outbox")
    assert (tmp_path / "new" / "outbox").is_dir()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FolderError, match=r"outbox \(it is read-only\); nothing was read or sent. Fix the folder"):
        check_writable(tmp_path / "new" / "outbox")
