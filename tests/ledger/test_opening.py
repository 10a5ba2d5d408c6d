"""Opening a file: one process at a time, durable or not at all, and only the ledger that it should be: not damaged, deleted, put back."""

import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import ledgers
import pytest
import ready_entries
from filelock import FileLock
from ledgers import refusal
from ready_entries import mark, new_orders, states
from sqlalchemy import create_engine, event

from loadsheet.errors import LedgerBusy, LedgerError, LedgerMissing, SettingsError
from loadsheet.internal_errors import Terminated
from loadsheet.ledger import OpenOptions, State, open_ledger, read_ledger
from loadsheet.ledger.ledger_opening import _raise_advised
from loadsheet.ledger.ledger_tables import SCHEMA_VERSION
from loadsheet.ledger.location import SqliteLedgerFiles
from loadsheet.ledger.postgres import _raise_translated

BEGAN = datetime(2026, 3, 4, 2, tzinfo=UTC)
HOUR, NEXT_DAY = timedelta(hours=1), BEGAN + timedelta(days=1)
MARK = "last_run_of_ledger.db.json"
HOLD = """
import sys, time
sys.path[:0] = {path!r}
from loadsheet.ledger import open_ledger
with open_ledger("{url}"):
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


def sql(path, statement):
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement).fetchall()


def fill(url, count=3):
    """A run that plans so many orders and does not end."""
    with opened(url) as ledger:
        return new_orders(ledger, count)[1]


def opened(url, at=BEGAN, **more):
    return open_ledger(url, clock=lambda: at, **more)


def finished_run(url, count=3, *, at=BEGAN):
    """A run that plans so many orders, sends all but the last, and ends well."""
    with opened(url, at) as ledger:
        run, drop = new_orders(ledger, count)
        ledger.settle(run, [ledgers.accepted(one) for one in mark(ledger, run, max(count - 1, 1))])
        ledger.end_run(run, exit_code=0, summary={})
        return drop


def test_a_ledger_is_made_with_its_folder_and_kept_and_may_be_read_without_the_lock(url, path):
    drop = fill(url)
    assert path.is_file()
    with open_ledger(url) as ledger:
        assert states(ledger, drop) == ["ready"] * 3
    with read_ledger(url) as ledger:
        assert states(ledger, drop) == ["ready"] * 3
        with pytest.raises(LedgerError, match="is read-only"):
            ledger.begin_run()
    assert [file.name for file in path.parent.iterdir() if not file.name.startswith("ledger.db")] == [MARK]
    assert not path.with_name("ledger.db.holder").exists()
    refusal(read_ledger(url + "x"), match="there is no ledger")


# one process at a time


def test_a_second_process_learns_who_uses_it_and_gets_it_when_that_one_is_killed(url):
    fill(url)
    program = HOLD.format(path=sys.path, url=url)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "holding\n"
        caught = refusal(open_ledger(url), LedgerBusy)
        assert (
            f"process {process.pid} on {socket.gethostname()} since {datetime.now(UTC).astimezone():%Y-%m-%d}"
            in str(caught)
        )
        with read_ledger(url) as ledger:
            assert ledger.queries.count_in(State.READY) == 3
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with open_ledger(url) as ledger:
        assert ledger.queries.count_in(State.READY) == 3


def test_a_process_does_not_open_its_own_ledger_twice(url):
    with open_ledger(url):
        refusal(open_ledger(url), LedgerBusy, match=f"process {os.getpid()}")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_holder_that_has_not_written_its_name_yet_has_just_begun(url, path, is_there):
    fill(url)
    if is_there:
        Path(f"{path}.holder").touch()
    with FileLock(f"{path}.lock"):
        caught = refusal(open_ledger(url), LedgerBusy)
    assert f"the ledger {path} is held by another process that has just begun; try again" in str(caught)


# only a ledger


def test_a_ledger_of_a_newer_program_is_left_alone(url, path):
    fill(url)
    sql(path, f"update meta set value = {SCHEMA_VERSION + 1}")
    for opening in (open_ledger, read_ledger):
        refusal(opening(url), match=f"version {SCHEMA_VERSION + 1}, this program knows version {SCHEMA_VERSION}")


def test_a_file_without_tables_as_a_kill_leaves_it_is_no_ledger_yet(url, path):
    path.parent.mkdir()
    sql(path, "pragma journal_mode = wal")
    assert path.stat().st_size
    with pytest.raises(LedgerMissing, match="no ledger at"), read_ledger(url):
        pass
    fill(url)
    with read_ledger(url) as ledger:
        assert ledger.queries.runs()


def test_a_database_that_is_no_ledger_and_a_file_that_is_no_database_are_left_alone(url, path):
    path.parent.mkdir()
    sql(path, "create table recipes (name text)")
    refusal(open_ledger(url), match="is not a ledger")
    assert sql(path, "select name from sqlite_master where type = 'table'") == [("recipes",)]
    for content in (b"Nr;PLZ\n1;01067\n" * 200, b"SQLite format 3\0" + b"\xff" * 5000):
        path.write_bytes(content)
        for opening in (open_ledger, read_ledger):
            refusal(opening(url), match=r"ledger\.db")
        assert path.read_bytes() == content
    path.unlink()
    path.mkdir()
    refusal(open_ledger(url), match="check the permissions")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "mysql://host/db",
        "sqlite://",
        "postgresql://anna:secret@host",
        "sqlite:////proc/nowhere/ledger.db",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(text):
    assert "secret" not in str(refusal(open_ledger(text), SettingsError))


# for our eyes alone, on a local disk


def test_only_its_owner_may_read_it_also_where_others_could_before(url, path):
    finished_run(url)
    path.chmod(0o644)
    with open_ledger(url) as ledger:
        new_orders(ledger, 2)
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {"ledger.db.holder": "0o644"}
        assert {"ledger.db", "ledger.db-wal", "ledger.db-shm", MARK} <= set(found)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_of_sqlite_that_was_read_only_with_the_ledger_is_writable_again(tmp_path):
    path = tmp_path / "ledger.db"
    with open_ledger(f"sqlite:///{path}"):
        pass
    beside = tmp_path / "ledger.db-shm"
    beside.write_bytes(bytes(32_768))
    beside.chmod(0o400)
    with open_ledger(f"sqlite:///{path}"):
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600


# durable, also when it is opened again


def test_every_pragma_is_what_was_asked_for_also_after_another_program_changed_the_journal(url, path):
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
    for _ in range(2):
        with open_ledger(url) as ledger, ledger._engine.connect() as connection:
            assert {name: connection.exec_driver_sql(f"pragma {name}").scalar() for name in wanted} == wanted
            assert sql(path, "pragma journal_mode") == [("wal",)]
        sql(path, "pragma journal_mode=delete")


def test_the_log_is_folded_in_when_a_run_ends(url, path):
    with open_ledger(url) as ledger:
        sizes = []
        for number in range(4):
            run = ledger.begin_run()
            ready_entries.plan(ledger, run, "order.create", [ledgers.order(number * 100 + at) for at in range(100)])
            ledger.end_run(run, exit_code=0, summary={})
            sizes.append(path.with_name("ledger.db-wal").stat().st_size)
            assert path.stat().st_size > number * 100_000
        assert all(after < 2 * before for before, after in pairwise(sizes))


def test_a_long_reader_neither_stops_the_end_of_a_run_nor_loses_anything(url):
    with open_ledger(url) as ledger, read_ledger(url) as reader:
        run, _ = new_orders(ledger, 3)
        entries = reader.queries.entries_in(State.READY)
        next(entries)
        ledger.end_run(run, exit_code=0, summary={})
        assert len(list(entries)) == 2


# damaged


LEAF_OF_A_TABLE = 13  # the first byte of such a page


def swap_pages(path):
    """Two pages of a table change places: each sound, together wrong."""
    raw = path.read_bytes()
    pages = [raw[start : start + 4096] for start in range(0, len(raw), 4096)]
    *_, one, other = (number for number, page in enumerate(pages) if page[0] == LEAF_OF_A_TABLE)
    pages[one], pages[other] = pages[other], pages[one]
    path.write_bytes(b"".join(pages))


def test_damage_is_found_when_the_last_run_did_not_end(url, path):
    fill(url, 300)
    swap_pages(path)
    words = r"(?s)damaged \(.*\); nothing was sent; restore it from a backup: `loadsheet ledger restore FILE`"
    refusal(opened(url), match=words)


def test_damage_is_found_on_the_next_day_and_by_check_on_the_same(url, path):
    finished_run(url, 300)
    with opened(url) as ledger:
        assert ledger.check() == []
    swap_pages(path)
    with opened(url) as ledger:
        assert "the database is damaged" in ledger.check()[0]
    refusal(opened(url, NEXT_DAY), match="restore it from a backup")


@pytest.mark.parametrize("keep", [0.999, 0.1])
def test_a_truncated_one_is_refused(url, path, keep):
    finished_run(url, 300)
    os.truncate(path, int(path.stat().st_size * keep) // 4096 * 4096)
    refusal(opened(url, NEXT_DAY), match=r"ledger\.db")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("update entries set state = 'accepted' where id = 3", "the state of entry 3 does not match its last event"),
        (
            "delete from attempts where entry_id = 1",
            "the attempt count of entry 1 does not match its recorded attempts",
        ),
        ("delete from mappings", "a row of drops belongs to a row of mappings that does not exist"),
    ],
)
def test_check_finds_what_somebody_changed_by_hand(url, path, change, words):
    finished_run(url)
    sql(path, change)
    with open_ledger(url) as ledger:
        assert ledger.check() == [words]


# gone, or another one than it was


@pytest.mark.parametrize("empty", [True, False])
def test_a_ledger_that_is_missing_is_not_replaced_by_an_empty_one(url, path, empty):
    finished_run(url)
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    if empty:
        path.touch()
    caught = refusal(open_ledger(url), match="gone or empty, but run 2026-03-04-01 was recorded in it")
    mark = path.parent / MARK
    assert f"remove {mark}" in str(caught)
    mark.unlink()
    with open_ledger(url) as ledger:
        assert ledger.queries.runs() == []


def older_copy(url, path, other):
    finished_run(url)
    shutil.copy(path, other)
    finished_run(url, at=BEGAN + HOUR)


def another_ledger(url, path, other):
    finished_run(url)
    finished_run(f"sqlite:///{other}", at=BEGAN + timedelta(minutes=1))


def without_its_log(url, path, other):
    with open_ledger(url) as ledger:
        ledger.begin_run()
        shutil.copy(path, other)


@pytest.mark.parametrize("prepare", [older_copy, another_ledger, without_its_log])
def test_a_ledger_that_does_not_know_the_last_run_is_refused_and_the_right_one_is_not(url, path, tmp_path, prepare):
    other = tmp_path / "other.db"
    prepare(url, path, other)
    newest = shutil.copy(path, tmp_path / "newest.db")
    shutil.copy(other, path)
    older = r"does not know run 2.* it is an older copy, or another ledger.*set ledger.accept_older"
    words = "is gone or empty, but run 2" if prepare is without_its_log else older
    refusal(open_ledger(url), match=words)
    shutil.copy(newest, path)
    with open_ledger(url) as ledger:
        assert ledger.queries.runs()


def test_what_an_older_ledger_would_send_is_unknown_once_it_is_accepted(url, path, tmp_path):
    with opened(url) as ledger:
        run, drop = new_orders(ledger, 3)
        child = ready_entries.events(ledger, run, 1)
        ledger.settle(run, [ledgers.accepted(one) for one in mark(ledger, run, 1)])
        ledger.end_run(run, exit_code=0, summary={})
    shutil.copy(path, tmp_path / "old.db")
    finished_run(url, at=BEGAN + HOUR)
    shutil.copy(tmp_path / "old.db", path)
    with opened(url, BEGAN + 2 * HOUR, opening=OpenOptions(accept_older=True)) as ledger:
        assert states(ledger, drop) == ["accepted", "ready", "ready"]
        run = ledger.begin_run()
        assert run.name == "2026-03-04-03"  # the second one is forgotten here, and was reported
        assert ledger.ready(10) == []
        assert states(ledger, drop, child) == ["accepted", "unknown", "unknown", "unknown"]
        (problem,) = ledger.queries.entry(2).problems
        assert "the ledger was restored from a backup; this may have been sent since" in problem.text
        assert states(ledger, ready_entries.orders(ledger, run, 3)) == ["unchanged", "held", "held"]
        assert ledger.check() == []
        ledger.end_run(run, exit_code=1, summary={})
    with open_ledger(url) as ledger:  # from now on it is the newest
        assert ledger.queries.count_in(State.UNKNOWN) >= 2


def test_a_mark_that_cannot_be_read_is_not_ignored(url, path):
    finished_run(url)
    SqliteLedgerFiles(path).last_run_path.write_bytes(b'{"id": 1')
    refusal(open_ledger(url), match="the record of the ledger's last run, cannot be read")


@pytest.mark.parametrize("translate", [partial(_raise_advised, None), partial(_raise_translated, "ledger")])
def test_a_signal_during_a_statement_ends_the_work_and_is_no_error_of_the_ledger(translate):
    def stop(*_):
        raise Terminated

    engine = create_engine("sqlite://")
    event.listen(engine, "handle_error", translate)
    event.listen(engine, "do_execute", stop)
    with engine.connect() as connection, pytest.raises(Terminated):
        connection.exec_driver_sql("select 1")
