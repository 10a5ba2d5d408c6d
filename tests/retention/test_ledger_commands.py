"""`loadsheet ledger`: check, backup, restore, vacuum and export, as an operator types them."""

import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import duckdb
import msgspec
import pandas as pd
import pytest
from command import environment
from killed_steps import dies_at
from ledgers import Ticking, drop_of, ledger_in, plan, refusal, refused, unknown
from retention_runs import PERSON, house_in, orders, records, unpacked

from loadsheet.cli import invoke
from loadsheet.ledger import OpenOptions, State, open_ledger, read_ledger
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
                house.ledger.record_kept_as(drop, file.name, "")
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


def changed(place, statement):
    with closing(sqlite3.connect(place / "ledger.db" if place.is_dir() else place)) as database, database:
        database.execute(statement)


def backed_up(command, state, name="ledger-2026-03-04.db"):
    assert command("backup", "--to", state / "backups" / name)[0] == 0
    return state / "backups" / name


def test_check_says_that_all_is_well_or_what_is_missing(command, state):
    """An original that no rule removed, or a backup."""
    backed_up(command, state)
    code, out, err = command("check")
    assert (code, err) == (0, "")
    assert "2 runs, 4 entries, 0 decisions in one chain" in out
    assert json.loads(command("check", "--json")[1])["ok"] is True
    shutil.rmtree(state / "backups")
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
    found = json.loads(command("check", "--json")[1])
    assert (found["ok"], len(found["wrong"])) == (False, 1)


def test_check_finds_damaged_pages_and_a_missing_ledger(command, state, capsys):
    path = state / "ledger.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * 20480 + whole[28672:])
    code, _, err = command("check")
    assert (code, "damaged" in err) == (70, True)
    assert invoke(["ledger", "check", "--state", str(state / "none")]) == 78
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
    with open_ledger(f"sqlite:///{state / 'ledger.db'}", OpenOptions(accept_older=True), clock=clock) as ledger:
        ledger.begin_run()
        assert ledger.queries.count_in(State.READY) == 0
        assert ledger.check() == []
    with ledger_in(state):
        pass  # it is known again


@pytest.mark.parametrize(
    "statement",
    [
        "create trigger again after update on entries begin update entries set state = 'ready'; end",
        "create view endless as with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
    ],
)
def test_a_backup_that_someone_gave_statements_of_its_own_is_not_restored(command, state, statement):
    copy = backed_up(command, state)
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute(statement)
    before = (state / "ledger.db").read_bytes()
    code, _, err = command("restore", copy, "--yes")
    assert (code, "holds statements of its own" in err) == (70, True), err
    assert (state / "ledger.db").read_bytes() == before


@pytest.mark.parametrize("name", ["ledger-2026-03-04.db", "ledger-2026-03-04.db.gz"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_copy_of_the_present_is_restored_without_more_words(command, state, name, lost):
    copy = backed_up(command, state, name)
    if lost:
        (state / "ledger.db").unlink()
        refusal(ledger_in(state), match="gone or empty")
    code, _, err = command("restore", copy, "--yes")
    assert (code, err) == (0, "")
    with ledger_in(state) as ledger:
        assert len(ledger.queries.runs()) == 2
        assert ledger.check() == []
    assert not list(state.glob(".restoring-*"))


def test_nothing_is_restored_without_a_yes_or_while_another_process_has_the_ledger(command, state, monkeypatch):
    copy, before = backed_up(command, state), (state / "ledger.db").stat().st_ino
    for typed, said in (("n\n", "not confirmed: nothing was done"), ("", "add --yes to run without a terminal")):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code, _, err = command("restore", copy)
        assert (code, said in err) == (2, True), err
    with ledger_in(state):
        code, _, err = command("restore", copy, "--yes")
    assert (code, "is held by process" in err) == (75, True)
    assert (state / "ledger.db").stat().st_ino == before
    assert not [*state.glob("ledger.db.replaced-*"), *state.glob("*.restoring")]


@pytest.mark.parametrize("name", ["copy.db", "copy.db.gz"])
def test_a_backup_that_is_damaged_or_none_or_newer_is_refused_and_nothing_is_touched(command, state, name):
    copy, before = backed_up(command, state, name), (state / "ledger.db").read_bytes()
    good = copy.read_bytes()
    for number, content in enumerate(
        (good[: len(good) // 2], good[:8192] + b"\xff" * 8192 + good[16384:], good[:-9] + b"x" * 9, b"no database", b"")
    ):
        if name.endswith(".gz") or number != 2:  # the last bytes of a database may be free
            copy.write_bytes(content)
            code, _, err = command("restore", copy, "--yes")
            assert (code, "damaged" in err or "not a backup of a ledger" in err) == (70, True), (number, err)
            assert (
                "nothing was changed: use an older backup"
                if name.endswith(".gz") and content
                else "nothing was changed"
            ) in err
    if name == "copy.db":
        copy.write_bytes(good)
        changed(copy, "update meta set value = '999' where name = 'schema_version'")
        code, _, err = command("restore", copy, "--yes")
        assert (code, "use a newer program" in err) == (70, True)
    code, _, err = command("restore", state / "nowhere.db", "--yes")
    assert (code, "does not exist" in err) == (2, True)
    assert "is the ledger itself" in command("restore", state / "ledger.db", "--yes")[2]
    assert (state / "ledger.db").read_bytes() == before


def killed_in_a_run(state):
    child = os.fork()
    if not child:
        with ledger_in(state) as ledger:
            ledger.begin_run()
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert (state / "ledger.db-wal").stat().st_size > 0


def test_the_copy_of_a_ledger_is_restored_with_the_log_beside_it(command, state, tmp_path):
    killed_in_a_run(state)
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(state / name, tmp_path / name)
    (state / "ledger.db").unlink()
    code, out, _ = command("restore", tmp_path / "ledger.db", "--yes")
    with ledger_in(state) as ledger:
        runs = ledger.queries.runs()
    assert (code, len(runs)) == (0, 3)
    assert f"its last run is {runs[0].name}" in out
    assert not list(state.glob("*.restoring*"))


@pytest.mark.parametrize("version", ["x'07'", "7.5", "''", "0", "'007'", f"'{'9' * 5000}'"])
def test_a_backup_with_a_version_that_is_none_is_refused(command, state, version):
    copy = backed_up(command, state)
    changed(copy, "update meta set value = " + version + " where name = 'schema_version'")
    code, _, err = command("restore", copy, "--yes")
    assert (code, "use a newer program" in err) == (70, True)


def test_the_log_of_a_killed_process_goes_with_its_ledger_and_never_meets_the_new_one(command, state):
    copy = backed_up(command, state)
    killed_in_a_run(state)
    assert command("restore", copy, "--yes")[0] == 0
    (replaced,) = (path for path in state.glob("ledger.db.replaced-*") if path.name.endswith("Z"))
    with closing(sqlite3.connect(replaced)) as old:
        assert old.execute("select count(*) from runs").fetchone() == (3,)
    with open_ledger(f"sqlite:///{state / 'ledger.db'}", OpenOptions(accept_older=True), clock=Ticking()) as ledger:
        assert len(ledger.queries.runs()) == 2
        assert ledger.check() == []


def test_after_a_restore_is_killed_there_is_the_old_ledger_or_the_new_one_or_it_is_repeated(command, state):
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
        house.expire()
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
    folder = tmp_path / "out"
    code, out, _ = command("export", "--to", folder, "--payloads")
    assert code == 0
    assert f"{folder / 'entries.parquet'}: 4 rows" in out
    with duckdb.connect() as engine:

        def ask(query):
            return engine.execute(f"select {query}").fetchall()

        entries, runs = f"'{folder / 'entries.parquet'}'", f"'{folder / 'runs.parquet'}'"
        assert {name: ask(f"count(*) from '{folder / name}.parquet'")[0][0] for name in counts(state)} == counts(state)
        states = ask(f"state, count(*) from {entries} group by 1 order by 1")
        assert states == [("accepted", 2), ("refused", 1), ("unknown", 1)]
        assert ask(f"type from parquet_schema({entries}) where name = 'entry'") == [("INT64",)]
        assert json.loads(ask(f"payload from {entries} limit 1")[0][0])["delivery_company"] == PERSON
        assert ask(f"min(started_at) from {runs}")[0][0].isoformat().startswith("2026-03-04T02:15:00")


def test_an_export_to_csv_is_safe_to_open_and_read_back_with_equal_counts(command, state, tmp_path):
    folder = tmp_path / "out"
    assert command("export", "--to", folder, "--format", "csv")[0] == 0
    frames = {name: pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False) for name in counts(state)}
    assert {name: len(frame) for name, frame in frames.items()} == counts(state)
    assert "payload" not in frames["entries"].columns
    assert list(frames["entries"]["file"])[-1] == "'=more.csv"  # no formula
    assert PERSON not in (folder / "entries.csv").read_text(encoding="utf-8-sig")


def test_a_single_file_has_the_entries_and_a_day_limits_them(command, tmp_path):
    assert command("export", "--to", tmp_path / "entries.csv")[0] == 0
    assert len(pd.read_csv(tmp_path / "entries.csv")) == 4
    code, out, _ = command("export", "--to", tmp_path / "later.parquet", "--since", "2026-03-05", "--json")
    assert json.loads(out) == {str(tmp_path / "later.parquet"): 0}
    code, _, err = command("export", "--to", tmp_path / "x", "--since", "yesterday")
    assert (code, "yesterday is not a date; write it as 2026-03-04" in err) == (2, True)
    code, _, err = command("export", "--to", tmp_path / "entries.csv" / "below")
    assert (code, "cannot be written" in err) == (75, True)


@pytest.mark.sweep
def test_an_export_takes_bounded_memory(state, tmp_path):
    """A hundred times the rows do not take a hundred times the memory."""
    code = (
        "import resource, sys; from pathlib import Path; from ledgers import ledger_in\n"
        "from loadsheet.operations.retention.ledger_copies import export\n"
        "with ledger_in(Path(sys.argv[1])) as ledger:\n"
        "    export(ledger, Path(sys.argv[1]) / 'out', 'parquet', payloads=True)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )

    def megabytes():
        given = environment(PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
        words = [sys.executable, "-c", code, str(state)]
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
    assert counts(state)["entries"] > 30_000
    assert megabytes() < small + 60  # the payloads alone are more than 30 MB, and each copy of them takes as much again
