"""`loadsheet ledger`: check, backup, restore, vacuum and export, as an operator types them."""

import csv
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import msgspec
import pandas as pd
import pytest
from command import environment
from killed_steps import dies_at
from ledgers import Ticking, drop_of, ledger_in, plan, refusal, refused, unknown
from retention_runs import PERSON, house_in, orders, records, unpacked

from loadsheet.cli import invoke
from loadsheet.ledger import Opening, State, open_ledger, read_ledger
from loadsheet.ledger.content_blocks import BLOCK, zstd
from loadsheet.ledger.moving import restore


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory):
    """The state folder of a house that has seen two nights."""
    place = tmp_path_factory.mktemp("nights") / "state"
    with house_in(place, reports=False) as house:
        answers = {"A-00002": refused, "A-00003": unknown}
        one = orders(1, 2, 3)
        house.night("orders.csv", one, answers=lambda it: answers.get(it.key, lambda _: None)(it), listed=records(1))
        house.night("=more.csv", orders(4), listed=records(1, 4))
        for drop in (1, 2):
            for file in house.ledger.queries.drop(drop).files:
                house.ledger.archived(drop, file.name, "")
    return place


@pytest.fixture
def state(two_nights, tmp_path, monkeypatch):
    """A copy of it for one test."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(two_nights, tmp_path / "state")


@pytest.fixture
def command(state, capsys):
    def run(*words):
        code = invoke(["ledger", *map(str, words), "--state", str(state)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def changed(state, statement):
    with closing(sqlite3.connect(state / "ledger.db")) as database, database:
        database.execute(statement)


def backed_up(command, state, name="ledger-2026-03-04.db"):
    assert command("backup", "--to", state / "backups" / name)[0] == 0
    return state / "backups" / name


def test_check_says_that_all_is_well(command, state):
    backed_up(command, state)
    code, out, err = command("check")
    assert (code, err) == (0, "")
    assert "2 runs, 4 entries, 0 decisions in one chain" in out
    assert json.loads(command("check", "--json")[1])["ok"] is True


def test_check_names_an_original_that_nobody_removed_by_rule_and_a_backup_that_is_missing(command, state):
    changed(state, "update files set kept_as = '/nowhere/orders.csv' where id = 1")
    code, _, err = command("check")
    assert code == 1
    assert "the original orders.csv of run 2026-03-04-01 is missing at /nowhere/orders.csv" in err
    assert f"there is no backup in {state / 'backups'}; the next run makes one" in err


def test_check_finds_what_contradicts_itself_and_exits_70(command, state):
    changed(state, "update entries set state = 'held' where id = 1")
    code, out, err = command("check")
    assert (code, out) == (70, "")
    assert "the state of entry 1 does not match its last event" in err
    assert "ledger restore FILE" in err
    told = json.loads(command("check", "--json")[1])
    assert (told["ok"], len(told["wrong"])) == (False, 1)


def test_check_finds_damaged_pages(command, state):
    path = state / "ledger.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * 20480 + whole[28672:])
    code, _, err = command("check")
    assert code == 70
    assert "damaged" in err


def test_check_without_a_ledger_says_so(tmp_path, capsys):
    assert invoke(["ledger", "check", "--state", str(tmp_path / "none")]) == 78
    assert "there is no ledger at" in capsys.readouterr().err


def test_a_backup_is_whole_private_and_never_written_over(command, state):
    code, out, _ = command("backup")
    assert code == 0
    (made,) = (state / "backups").iterdir()
    assert str(made) in out
    assert made.stat().st_mode & 0o777 == 0o600
    with read_ledger(f"sqlite:///{unpacked(made)}") as copy:
        assert copy.check() == []
    code, _, err = command("backup", "--to", made)
    assert code == 2
    assert "already exists" in err


def test_a_backup_is_made_while_another_process_holds_the_ledger(command, state):
    with ledger_in(state) as ledger:
        run = ledger.begin_run()
        plan(ledger, run, drop_of(("orders", "more.csv")), orders(5))
        assert command("backup")[0] == 0
        plan(ledger, run, drop_of(("orders", "later.csv")), orders(6))
    (made,) = (state / "backups").iterdir()
    with read_ledger(f"sqlite:///{unpacked(made)}") as copy:
        assert (len(copy.queries.runs()), copy.queries.count_in(State.READY), copy.check()) == (3, 1, [])


def test_what_was_restored_is_the_backup_and_what_was_there_lies_beside(command, state):
    copy = backed_up(command, state)
    with house_in(state, reports=False) as house:
        house.night("later.csv", orders(7), listed=records(1, 4, 7))
    code, out, err = command("restore", copy, "--yes")
    assert code == 0
    assert "its last run is 2026-03-04-02" in out
    assert "older than the last run recorded here" in err
    assert "LOADSHEET_LEDGER__ACCEPT_OLDER=true" in err
    (replaced,) = state.glob("ledger.db.replaced-*")
    assert str(replaced) in out
    with closing(sqlite3.connect(replaced)) as old:
        assert old.execute("select count(*) from runs").fetchone() == (3,)
    refusal(ledger_in(state), match="does not know run 2026-03-04-03")
    clock = Ticking()
    with open_ledger(f"sqlite:///{state / 'ledger.db'}", Opening(accept_older=True), clock=clock) as ledger:
        ledger.begin_run()
        assert ledger.queries.count_in(State.READY) == 0
        assert ledger.check() == []
    with ledger_in(state):
        pass  # it is known again


@pytest.mark.parametrize("name", ["ledger-2026-03-04.db", "ledger-2026-03-04.db.gz"])
def test_a_copy_of_the_present_is_restored_without_more_words(command, state, name):
    copy = backed_up(command, state, name)
    code, _, err = command("restore", copy, "--yes")
    assert (code, err) == (0, "")
    with ledger_in(state) as ledger:
        assert len(ledger.queries.runs()) == 2
    assert not list(state.glob(".restoring-*"))


@pytest.mark.parametrize(
    "damage", [lambda there: there[: len(there) // 2], lambda _: b"no gzip", lambda there: there[:-9] + b"x" * 9]
)
def test_a_damaged_compressed_copy_replaces_nothing(command, state, damage):
    copy = backed_up(command, state, "ledger-2026-03-04.db.gz")
    before = (state / "ledger.db").stat().st_ino
    copy.write_bytes(damage(copy.read_bytes()))
    code, _, err = command("restore", copy, "--yes")
    assert (code, "nothing was changed: use an older backup" in err) == (70, True), err
    assert (state / "ledger.db").stat().st_ino == before


@pytest.mark.parametrize(
    ("typed", "said"), [("n\n", "not confirmed: nothing was done"), ("", "add --yes to run without a terminal")]
)
def test_without_a_yes_nothing_is_restored_and_that_is_exit_code_2(command, state, monkeypatch, typed, said):
    copy = backed_up(command, state)
    before = (state / "ledger.db").stat().st_ino
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code, _, err = command("restore", copy)
    assert (code, said in err) == (2, True), err
    assert (state / "ledger.db").stat().st_ino == before


def test_nothing_is_restored_while_somebody_holds_the_ledger(command, state):
    copy = backed_up(command, state)
    before = (state / "ledger.db").stat().st_ino
    with ledger_in(state):
        code, _, err = command("restore", copy, "--yes")
    assert code == 75
    assert "is held by process" in err
    assert (state / "ledger.db").stat().st_ino == before
    assert not [*state.glob("ledger.db.replaced-*"), *state.glob("*.restoring")]


def test_a_backup_that_is_damaged_or_none_or_newer_is_refused_and_nothing_is_touched(command, state):
    copy = backed_up(command, state)
    good, before = copy.read_bytes(), (state / "ledger.db").read_bytes()
    wrong = {
        "half.db": good[: len(good) // 2],
        "page.db": good[:8192] + b"\xff" * 8192 + good[16384:],
        "text.db": b"no database at all" * 100,
        "empty.db": b"",
    }
    for name, content in wrong.items():
        (state / name).write_bytes(content)
        code, _, err = command("restore", state / name, "--yes")
        assert (code, "damaged" in err or "not a backup of a ledger" in err) == (70, True), (name, err)
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("update meta set value = '999' where name = 'schema_version'")
    code, _, err = command("restore", copy, "--yes")
    assert (code, "use a newer program" in err) == (70, True)
    assert "there is no file" in command("restore", state / "nowhere.db", "--yes")[2]
    assert "is the ledger itself" in command("restore", state / "ledger.db", "--yes")[2]
    assert (state / "ledger.db").read_bytes() == before


def test_a_ledger_that_is_gone_is_put_back(command, state):
    copy = backed_up(command, state)
    (state / "ledger.db").unlink()
    refusal(ledger_in(state), match="gone or empty")
    assert command("restore", copy, "--yes")[0] == 0
    with ledger_in(state) as ledger:
        assert ledger.check() == []


def test_the_log_of_a_killed_process_goes_with_its_ledger_and_never_meets_the_new_one(command, state):
    copy = backed_up(command, state)
    child = os.fork()
    if not child:
        with ledger_in(state) as ledger:
            ledger.begin_run()
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert (state / "ledger.db-wal").stat().st_size > 0
    assert command("restore", copy, "--yes")[0] == 0
    (replaced,) = (path for path in state.glob("ledger.db.replaced-*") if path.name.endswith("Z"))
    with closing(sqlite3.connect(replaced)) as old:
        assert old.execute("select count(*) from runs").fetchone() == (3,)
    with open_ledger(f"sqlite:///{state / 'ledger.db'}", Opening(accept_older=True), clock=Ticking()) as ledger:
        assert len(ledger.queries.runs()) == 2
        assert ledger.check() == []


def test_a_restore_that_is_killed_anywhere_leaves_the_old_ledger_or_the_new_one_or_is_done_again(command, state):
    copy = backed_up(command, state)
    url, point, seen, died = f"sqlite:///{state / 'ledger.db'}", 0, set(), True

    def act(begin):
        begin()
        restore(url, copy, Ticking())

    while died:
        point += 1
        died = dies_at(point, act, {"open", "os.rename", "os.remove", "sqlite3.connect"})
        there = (state / "ledger.db").exists()
        seen.add(there)
        if there:
            with ledger_in(state) as ledger:
                assert ledger.check() == []
        else:
            restore(url, copy, Ticking())
    assert seen == {True, False}
    assert point > 5


def test_vacuum_gives_space_back_and_needs_the_ledger_for_itself(command, state):
    with house_in(state, reports=False) as house:
        house.night("many.csv", orders(*range(10, 200)), listed=records(1, 4, *range(10, 200)))
        house.days(40)
        house.keep(payload_days=30)
    before = (state / "ledger.db").stat().st_size
    code, out, _ = command("vacuum")
    assert code == 0
    assert (state / "ledger.db").stat().st_size < before
    assert out.startswith(f"{before:,} bytes before")
    with ledger_in(state):
        assert command("vacuum")[0] == 75


def counts(state):
    with closing(sqlite3.connect(state / "ledger.db")) as database:
        names = ("runs", "entries", "attempts", "exceptions")
        return {name: database.execute(f"select count(*) from {name}").fetchone()[0] for name in names}


def test_an_export_to_parquet_is_read_back_with_equal_counts(command, state, tmp_path):
    code, out, _ = command("export", "--to", tmp_path / "out", "--payloads")
    assert code == 0
    assert f"{tmp_path / 'out' / 'entries.parquet'}: 4 rows" in out
    with duckdb.connect() as engine:
        found = {
            name: engine.execute(f"select count(*) from '{tmp_path / 'out' / name}.parquet'").fetchone()[0]
            for name in counts(state)
        }
        assert found == counts(state)
        query = f"select state, count(*) from '{tmp_path / 'out' / 'entries.parquet'}' group by 1 order by 1"
        assert engine.execute(query).fetchall() == [("accepted", 2), ("refused", 1), ("unknown", 1)]
        kinds = dict(
            engine.execute(
                f"select name, type from parquet_schema('{tmp_path / 'out' / 'entries.parquet'}')"
            ).fetchall()
        )
        assert kinds["entry"] == "INT64"
        (first,) = engine.execute(f"select payload from '{tmp_path / 'out' / 'entries.parquet'}' limit 1").fetchone()
        assert json.loads(first)["delivery_company"] == PERSON
        started = engine.execute(f"select min(started_at) from '{tmp_path / 'out' / 'runs.parquet'}'").fetchone()[0]
        assert started.isoformat().startswith("2026-03-04T02:15:00")


def test_an_export_to_csv_is_safe_to_open_and_read_back_with_equal_counts(command, state, tmp_path):
    assert command("export", "--to", tmp_path / "out", "--format", "csv")[0] == 0
    frames = {
        name: pd.read_csv(tmp_path / "out" / f"{name}.csv", dtype=str, keep_default_na=False) for name in counts(state)
    }
    assert {name: len(frame) for name, frame in frames.items()} == counts(state)
    assert "payload" not in frames["entries"].columns
    assert list(frames["entries"]["file"])[-1] == "'=more.csv"  # no formula
    assert PERSON not in (tmp_path / "out" / "entries.csv").read_text(encoding="utf-8-sig")


def test_a_single_file_has_the_entries_and_a_day_limits_them(command, state, tmp_path):
    assert command("export", "--to", tmp_path / "entries.csv")[0] == 0
    with (tmp_path / "entries.csv").open(encoding="utf-8-sig", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4
    code, out, _ = command("export", "--to", tmp_path / "later.parquet", "--since", "2026-03-05", "--json")
    assert json.loads(out) == {str(tmp_path / "later.parquet"): 0}
    assert len(pd.read_csv(tmp_path / "entries.csv")) == 4
    code, _, err = command("export", "--to", tmp_path / "x", "--since", "yesterday")
    assert (code, "yesterday is not a date; write it as 2026-03-04" in err) == (2, True)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    code, _, err = command("export", "--to", tmp_path / "file" / "below")
    assert (code, "cannot be written" in err) == (75, True)


@pytest.mark.sweep
def test_an_export_takes_bounded_memory(state, tmp_path):
    """A hundred times the rows do not take a hundred times the memory."""
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; from ledgers import ledger_in\n"
        "from loadsheet.operations.retention.ledger_copies import export\n"
        "with ledger_in(Path(sys.argv[1])) as ledger:\n"
        "    export(ledger, Path(sys.argv[1]) / 'out', 'parquet', payloads=True)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    support = str(Path(__file__).parents[1] / "support")

    def megabytes():
        words = [sys.executable, "-c", code, str(state), support]
        given = environment(PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
        return int(subprocess.run(words, env=given, capture_output=True, text=True, check=True).stdout)

    small = megabytes()
    with closing(sqlite3.connect(state / "ledger.db")) as database, database:
        columns = [row[1] for row in database.execute("pragma table_info(entries)") if row[1] != "id"]
        names = ", ".join(columns)
        for _ in range(15):
            database.execute(f"insert into entries ({names}) select {names} from entries limit 8000")
        (last,) = database.execute("select max(id) from entries").fetchone()
        full = zstd.compress(msgspec.msgpack.encode((b'{"note":"%s"}' % (b"x" * 1000),) * BLOCK + (b"[]",) * BLOCK))
        blocks = ((block, full) for block in range(last // BLOCK + 1))
        database.executemany("insert or replace into contents values (?, ?)", blocks)
    many = counts(state)["entries"]
    assert many > 30_000
    assert (
        megabytes() < small + 60
    )  # their payloads alone are more than 30 MB, and each copy of them takes as much again
