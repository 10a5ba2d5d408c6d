"""Opening: one process at a time, durable or not at all, and never a file that is not a ledger of ours."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import ready_entries

from loadsheet.ledger import State, open_ledger, read_ledger
from loadsheet.ledger.ledger_tables import SCHEMA_VERSION
from loadsheet.problems import LedgerBusy, LedgerError, SettingsError

SRC = Path(__file__).parents[2] / "src"
HOLD = """
import sys, time
sys.path.insert(0, {src!r})
from loadsheet.ledger import open_ledger
with open_ledger("sqlite:///{path}"):
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.db"


def fill(url, count=3):
    with open_ledger(url) as ledger:
        return ready_entries.orders(ledger, ledger.begin_run(), count)


def test_a_ledger_is_made_with_its_folder_and_kept(url, path):
    drop = fill(url)
    assert path.is_file()
    with open_ledger(url) as ledger:
        assert ready_entries.states(ledger, drop) == ["ready"] * 3
    assert [file.name for file in path.parent.iterdir() if not file.name.startswith("ledger.db")] == [
        "last_run_of_ledger.db.json"
    ]
    assert not path.with_name("ledger.db.holder").exists()


def test_a_second_process_is_told_who_holds_it_and_gets_it_when_the_holder_is_killed(url, path):
    fill(url)
    program = HOLD.format(src=str(SRC), path=path)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "holding\n"
        with pytest.raises(LedgerBusy) as caught, open_ledger(url):
            pass
        assert f"process {process.pid} on {socket.gethostname()} since 20" in str(caught.value)
        with read_ledger(url) as ledger:
            assert ledger.queries.count_in(State.READY) == 3
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with open_ledger(url) as ledger:
        assert ledger.queries.count_in(State.READY) == 3


def test_a_process_does_not_open_its_own_ledger_twice(url):
    with open_ledger(url), pytest.raises(LedgerBusy, match=f"process {os.getpid()}"), open_ledger(url):
        pass


def test_without_the_lock_it_may_only_be_read(url):
    drop = fill(url)
    with read_ledger(url) as ledger:
        assert ready_entries.states(ledger, drop) == ["ready"] * 3
        with pytest.raises(LedgerError, match="is read-only"):
            ledger.begin_run()
    with pytest.raises(LedgerError, match="there is no ledger"), read_ledger(url + "x"):
        pass


def test_a_ledger_of_a_newer_program_is_left_alone(url, path):
    fill(url)
    with sqlite3.connect(path) as connection:
        connection.execute("update meta set value = ?", (str(SCHEMA_VERSION + 1),))
    connection.close()
    words = f"version {SCHEMA_VERSION + 1}, this program knows version {SCHEMA_VERSION}"
    for opened in (open_ledger, read_ledger):
        with pytest.raises(LedgerError, match=words), opened(url):
            pass


def test_a_database_that_is_no_ledger_is_left_alone(url, path):
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("create table recipes (name text)")
    connection.close()
    with pytest.raises(LedgerError, match="is not a ledger"), open_ledger(url):
        pass
    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from sqlite_master where type = 'table'").fetchall() == [("recipes",)]
    connection.close()


@pytest.mark.parametrize("opened", [open_ledger, read_ledger])
@pytest.mark.parametrize("content", [b"Nr;PLZ\n1;01067\n" * 200, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_left_alone(url, path, content, opened):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"ledger\.db"), opened(url):
        pass
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nonsense", SettingsError),
        ("mysql://host/db", SettingsError),
        ("sqlite://", SettingsError),
        ("postgresql://anna:secret@host", SettingsError),
        ("sqlite:////proc/nowhere/ledger.db", SettingsError),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(text, error):
    with pytest.raises(error) as caught, open_ledger(text):
        pass
    assert "secret" not in str(caught.value)


def test_a_folder_in_the_place_of_the_file_is_said(url, path):
    path.mkdir(parents=True)
    with pytest.raises(LedgerError, match="check the permissions"), open_ledger(url):
        pass
