"""Originals, reports, log files and backups are removed by age and by number; a process that is killed at any step loses nothing."""

import os
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from killed_steps import dies_at
from ledgers import Ticking, left_out, refused
from orders import MAPPINGS
from retention_runs import PERSON, house_in, orders, records, unpacked

from loadsheet.cli import invoke
from loadsheet.ledger import read_ledger


def test_originals_go_after_their_days_but_not_those_of_open_exceptions(house):
    _, settled = house.night("settled.csv", orders(1), listed=records(1))
    _, open_one = house.night("open.csv", orders(2), answers=refused, listed=records(1))
    old, kept = house.archive(settled, "settled.csv"), house.archive(open_one, "open.csv")
    house.days(11)
    house.keep(archive_days=10)
    assert (old.exists(), kept.exists()) == (False, True)
    assert house.ledger.queries.drop(settled.id).files[0].kept_as == ""
    assert [one.kept_as for one in house.ledger.maintenance.originals()] == [str(kept)]
    assert house.ledger.maintenance.removed_by_rule()["originals"] == 1


def test_reports_go_after_their_days_and_the_index_names_the_others(reporting):
    first, _ = reporting.night("first.csv", orders(1), listed=records(1))
    open_one, _ = reporting.night("open.csv", orders(2), answers=refused, listed=records(1))
    reporting.days(31)
    last, _ = reporting.night("last.csv", orders(3), listed=records(1, 3))
    outbox, kept = reporting.settings.outbox, {open_one.name, last.name}
    others = {"mine", "2026-03-04-77"}  # the second has no run.json: not ours
    for name in others:
        (outbox / name).mkdir()
    reporting.keep(reports_days=30)
    assert {path.name for path in outbox.iterdir() if path.is_dir()} == kept | others
    index = (outbox / "index.html").read_text(encoding="utf-8")
    linked = {name.partition("/")[0] for name in re.findall(r'href="(2026[^"#]*)', index)}
    assert kept <= linked <= kept | others
    assert first.name not in index
    assert reporting.reported_again(first).folder.is_dir()


def test_old_reports_stay_with_foreign_files_unread_workbooks_and_files_set_aside(reporting):
    folders = []
    for number in (1, 2, 3, 4):
        run, _ = reporting.night(f"{number}.csv", orders(number), listed=records(*range(1, number + 1)))
        folders.append(reporting.settings.outbox / run.name)
    (folders[0] / "notes.txt").write_text("mine", encoding="utf-8")
    later = (folders[1] / "run.json").stat().st_mtime + 60
    os.utime(folders[1] / "reconciliation.xlsx", (later, later))
    (folders[2] / "set-aside").mkdir()
    (folders[2] / "set-aside" / "broken.xlsx").write_bytes(b"x")
    reporting.days(31)
    reporting.night("last.csv", orders(9), listed=records(*range(1, 10)))
    reporting.keep(reports_days=30)
    assert [folder.exists() for folder in folders] == [True, True, True, False]
    reporting.keep(archive_days=20)
    assert [folder.exists() for folder in folders] == [True, True, False, False]


def test_one_backup_is_made_a_day_and_the_newest_few_stay(house):
    for _ in range(5):
        house.night("a.csv", orders(1), listed=records(1))
        house.keep(backups=3)
        house.keep()
        house.days(1)
    folder = house.place / "backups"
    assert sorted(path.name for path in folder.iterdir()) == [f"ledger-2026-03-0{day}.db.gz" for day in (6, 7, 8)]
    assert folder.stat().st_mode & 0o777 == 0o700
    plain = unpacked(folder / "ledger-2026-03-08.db.gz")
    with closing(sqlite3.connect(plain)) as copy:
        assert copy.execute("pragma integrity_check").fetchone() == ("ok",)
        assert copy.execute("select count(*) from runs").fetchone() == (5,)
    plain.unlink()
    (folder / "mine.db").write_bytes(b"x")
    house.night("b.csv", orders(2), listed=records(1, 2))
    house.keep(backups=1)
    assert sorted(path.name for path in folder.iterdir()) == ["ledger-2026-03-09.db.gz", "mine.db"]


def test_log_files_go_after_their_days(house):
    """Nothing else in their folder does."""
    logs, ages = (
        house.place / "logs",
        {"2026-01-01-01.jsonl": 58, "2026-03-03-01.jsonl": 26, "notes.jsonl": 58, "2026-01-01-01.txt": 58},
    )
    house.keep(log_days=30)
    logs.mkdir()
    for name, days in ages.items():
        (logs / name).write_text("{}\n", encoding="utf-8")
        when = (house.clock.now - timedelta(days=days)).timestamp()
        os.utime(logs / name, (when, when))
    for chosen, old in ((0, set()), (30, {"2026-01-01-01.jsonl"})):
        house.keep(log_days=chosen)
        assert {path.name for path in logs.iterdir()} == ages.keys() - old
    assert house.ledger.maintenance.removed_by_rule()["logs"] == 1


def test_what_cannot_be_done_is_reported_and_the_other_steps_are_done(house):
    """A run that removes nothing reports nothing."""
    _, drop = house.night("a.csv", orders(1), listed=records(1))
    house.keep(payload_days=30, reports_days=30, archive_days=30, log_days=30)
    house.days(5000)
    house.keep(payload_days=0, reports_days=0, archive_days=0, log_days=0)
    assert (house.said, house.ledger.maintenance.removed_by_rule()) == ([], {})
    (house.place / "backups").write_text("in the way", encoding="utf-8")
    house.keep(payload_days=30, backups=3)
    (said,) = house.said
    assert re.search(r"retention failed for backups: the folder .*backups cannot be created", said)
    assert [bool(entry.removed) for entry in house.entries(drop)] == [True]


# killed at every step

ALL = {"payload_days": 30, "reports_days": 30, "archive_days": 30, "backups": 2}
TONIGHT = Ticking().now + timedelta(days=40)


@pytest.fixture
def prepared(tmp_path):
    """A house with old nights and one of today, everything of the old ones due to go."""
    place = tmp_path / "prepared"
    with house_in(place) as house:
        for number in (1, 2):
            items = [*orders(number), left_out(90 + number, ("", PERSON))]
            listed = records(*range(1, number + 1), goods_value=1)  # otherwise than sent, then as it was
            _, drop = house.night(f"{number}.csv", items, listed=listed)
            house.archive(drop, f"{number}.csv")
        house.night("more.csv", orders(3), answers=refused, listed=records(1, 2))
        house.clock.now = TONIGHT
        house.night("today.csv", orders(4), listed=records(1, 2, 4))
    return place


def at_night(place):
    clock = Ticking()
    clock.now = TONIGHT
    return house_in(place, clock, **ALL)


FILE_EVENTS = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree", "sqlite3.connect"}


def keep_all(place, begin=lambda: None):
    with at_night(place) as house:
        begin()
        house.keep()
        assert house.said == []


def outcome(place):
    """All that keeping may change, as it is now: what each entry still has, which files there are, and what the books say."""
    with at_night(place) as house:
        assert house.ledger.check() == []
        queries = house.ledger.queries
        runs = list(reversed(queries.runs()))
        entries = [entry for run in runs for drop in queries.drops_of(run) for entry in queries.entries_of(drop.id)]
        books = [house.told_again(run) for run in runs]
        assert all(found.balances for found in books)
        kept = [Path(one.kept_as) for one in house.ledger.maintenance.originals()]
        assert [path for path in kept if path.is_relative_to(place) and not path.exists()] == []
        files = [path for top in ("outbox", "archive", "backups") for path in (place / top).rglob("*")]
        index = (place / "outbox" / "index.html").read_text(encoding="utf-8")
        return {
            "entries": [(entry.key, bool(entry.payload), bool(entry.removed), entry.figures) for entry in entries],
            "books": [(found.matches.verdicts(), found.totals, found.balance) for found in books],
            "ignored": [row.cells for drop in (1, 2) for row in queries.ignored_of(drop)],
            "files": sorted(str(path.relative_to(place)) for path in files if path.suffix != ".tmp"),  # of the next index
            "index": re.findall(r'href="(2026[^"#]*)', index),
        }  # fmt: skip


@pytest.mark.parametrize(
    "apart",
    [pytest.param(29, marks=pytest.mark.journey), pytest.param(1, marks=[pytest.mark.sweep, pytest.mark.timeout(900)])],
)
def test_killed_at_any_step_retention_is_completed_by_the_next_run(tmp_path, prepared, apart, record_property):
    whole = shutil.copytree(prepared, tmp_path / "whole")
    keep_all(whole)
    expected = outcome(whole)
    assert sum(removed for _, _, removed, _ in expected["entries"]) == 2
    assert len([name for name in expected["files"] if name.startswith("backups/")]) == 1
    point = kills = 0
    while True:
        point += 1 if kills == 0 else apart
        place = shutil.copytree(prepared, tmp_path / "again")
        with closing(sqlite3.connect(place / "ledger.db")) as database, database:  # originals lie in the copy now
            database.execute("update files set kept_as = replace(kept_as, ?, ?)", (str(prepared), str(place)))
        if not dies_at(point, partial(keep_all, place), FILE_EVENTS):
            break
        keep_all(place)
        assert outcome(place) == expected, point
        shutil.rmtree(place)
        kills += 1
    assert point > 100
    record_property("kills", kills)


def test_a_run_keeps_house_and_a_watch_does(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOADSHEET_TOKEN", "canary-keeping")
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    assert invoke(["run"]) == 0
    assert capsys.readouterr().err == ""
    (made,) = (tmp_path / ".loadsheet" / "backups").iterdir()
    assert made.name == f"ledger-{datetime.now(UTC):%Y-%m-%d}.db.gz"
    with read_ledger(f"sqlite:///{unpacked(made)}") as ledger:
        assert len(ledger.queries.runs()) == 1
