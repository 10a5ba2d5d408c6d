"""Originals lie in the archive where `archive_path` says, and never outside or over another file."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from loadsheet.inbox import archive, claim, find_moved, scan
from loadsheet.ledger import read_ledger
from loadsheet.operations.retention import remove_originals
from loadsheet.settings import Settings

BY_MONTH = {"LOADSHEET_ARCHIVE_PATH": "{yyyy}-{mm}/in/{name}"}


def test_equal_names_are_numbered_and_the_ledger_knows_each_place(workspace):
    for count in (1, 2):
        workspace.write_orders(count)
        assert workspace.run(**BY_MONTH).returncode == 0
    month = workspace.run_json()["run"][:7]
    names = ["orders.csv", "orders~2.csv", "packages.csv", "packages~2.csv"]
    assert sorted(path.name for path in (workspace.state / "archive" / month / "in").iterdir()) == names
    kept = [place for (place,) in workspace.ask("select kept_as from files order by kept_as")]
    assert kept == [f"archive/{month}/in/{name}" for name in names]
    assert json.loads(workspace.command("ledger", "check", "--json").stdout)["wrong"] == []


def test_originals_at_such_paths_go_after_their_days(workspace):
    workspace.write_orders(1)
    workspace.run(**BY_MONTH)
    given = {"archive_path": "{yyyy}-{mm}/in/{name}", "retention": {"archive_days": 10}}
    settings = Settings(state=workspace.state, outbox=workspace.outbox, inbox=workspace.inbox, **given)
    foreign = workspace.state / "archive" / "note.txt"
    foreign.write_text("not ours", encoding="utf-8")
    with read_ledger(settings.database_url, settings.state) as ledger:
        assert remove_originals(settings, ledger, datetime.now(UTC)) == 0
    assert workspace.run(**BY_MONTH, LOADSHEET_RETENTION__ARCHIVE_DAYS="10").returncode == 0
    workspace.change("update runs set name = '2020-01-01-01' where id = 1")
    assert workspace.run(**BY_MONTH, LOADSHEET_RETENTION__ARCHIVE_DAYS="10").returncode == 0
    assert [path.name for path in (workspace.state / "archive").rglob("*")] == ["note.txt"]
    assert workspace.ask("select distinct kept_as from files") == [("",)]


def test_a_file_that_a_killed_run_had_numbered_is_found(tmp_path):
    (tmp_path / "inbox").mkdir()
    place = Settings(
        inbox=tmp_path / "inbox",
        state=tmp_path / "state",
        outbox=tmp_path / "outbox",
        archive_path="{name}",
        settle_s=0,
    )
    run, day = "2026-03-04-01", datetime(2026, 3, 4, tzinfo=UTC).date()
    for text in ("first", "second"):
        (place.inbox / "a.csv").write_text(text, encoding="utf-8")
        file = claim(scan(place).candidates[0], place, run)
        moved = archive(file, place, day, run)
    for mark in (place.state / "known").rglob("*"):
        if mark.is_symlink():
            mark.unlink()
    assert moved.name == "a~2.csv"
    assert find_moved(file, place, day, run) == moved


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("{yyyy}/{month}/{name}", "{month} is unknown"),
        ("{yyyy}", "ends with {name}"),
        ("{name}/{yyyy}", "ends with {name}"),
        ("../{name}", "ends with {name}"),
        ("a/../{name}", "ends with {name}"),
        ("/srv/{name}", "ends with {name}"),
        ("a//{name}", "ends with {name}"),
        ("{yyyy/{name}", "ends with {name}"),
        ("a:b/{name}", "ends with {name}"),
        ("a./{name}", "ends with {name}"),
        ("x{name}", "ends with {name}"),
    ],
)
def test_a_path_that_could_lead_elsewhere_is_refused_when_it_is_set(wrong, says):
    with pytest.raises(ValidationError, match=says):
        Settings(archive_path=wrong)


def test_in_an_object_store_each_run_has_a_folder_of_its_own():
    with pytest.raises(ValidationError, match=r"needs \{run\}"):
        Settings(archive="s3://bucket/archive", archive_path="{yyyy}/{name}")
    assert Settings(archive="s3://bucket/archive", archive_path="{yyyy}/{run}/{name}").archive_path
