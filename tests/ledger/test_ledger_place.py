"""What lies around a ledger, and whether it is the one it should be: damaged, deleted, put back, on a network disk."""

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import ledgers
import pytest
import ready_entries

from loadsheet.ledger import Opening, State, open_ledger, read_ledger
from loadsheet.ledger.location import Place, network_kind
from loadsheet.problems import LedgerError

NIGHT = datetime(2026, 3, 4, 2, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


def night(url, count=3, *, at=NIGHT, **given):
    """A run that plans so many orders, sends all but the last, and ends well."""
    with open_ledger(url, clock=lambda: at, **given) as ledger:
        run = ledger.begin_run()
        drop = ready_entries.orders(ledger, run, count)
        ready = ledger.ready(max(count - 1, 1))
        ledger.mark_sending(run, [([one], one.payload) for one in ready])
        ledger.settle(run, [ledgers.accepted(one) for one in ready])
        ledger.end_run(run, exit_code=0, summary={})
        return drop


def sql(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        return [database.execute(statement).fetchall() for statement in statements]


# for our eyes alone


def test_only_its_owner_may_read_it_also_where_others_could_before(url, path):
    night(url)
    path.chmod(0o644)
    with open_ledger(url) as ledger:
        ready_entries.orders(ledger, ledger.begin_run(), 2)
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {"ledger.db.holder": "0o644"}
        assert {"ledger.db", "ledger.db-wal", "ledger.db-shm", "last_run_of_ledger.db.json"} <= set(found)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# on a local disk

MOUNTS = """
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
32 21 0:44 / /mnt/share rw - nfs4 filer:/export rw
33 32 8:2 / /mnt/share/local rw shared:4 - xfs /dev/sdb1 rw
34 21 0:45 / /mnt/two\\040words rw - cifs //filer/share rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/ledger.db", ""),
        ("/mnt/share/state/ledger.db", "nfs4"),
        ("/mnt/share/local/ledger.db", ""),
        ("/mnt/shared/ledger.db", ""),
        ("/mnt/two words/ledger.db", "cifs"),
    ],
)
def test_a_network_file_system_is_known_by_the_mount_that_holds_the_path(path, kind):
    assert network_kind(Path(path), MOUNTS) == kind


def test_this_machine_keeps_its_files_somewhere(tmp_path):
    assert network_kind(tmp_path / "not" / "there" / "yet") == ""


# durable, also when it is opened again


def test_every_pragma_is_what_was_asked_for_also_after_a_reopen(url, path):
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}
    for _ in range(2):
        with open_ledger(url) as ledger, ledger._engine.connect() as connection:
            assert {name: connection.exec_driver_sql(f"pragma {name}").scalar() for name in wanted} == wanted
    assert sql(path, "pragma journal_mode") == [[("wal",)]]


def test_one_that_another_program_took_out_of_its_journal_is_put_back(url, path):
    night(url)
    sql(path, "pragma journal_mode=delete")
    with open_ledger(url):
        assert sql(path, "pragma journal_mode") == [[("wal",)]]


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
        run = ledger.begin_run()
        ready_entries.orders(ledger, run, 3)
        entries = reader.queries.entries_in(State.READY)
        next(entries)
        ledger.end_run(run, exit_code=0, summary={})
        assert len(list(entries)) == 2


# damaged


def swap_pages(path):
    """Two pages of a table change places: each sound, together wrong."""
    raw = bytearray(path.read_bytes())
    raw[-4096:], raw[-8192:-4096] = raw[-8192:-4096], raw[-4096:]
    path.write_bytes(raw)


def test_damage_is_found_when_the_last_run_did_not_end(url, path):
    with open_ledger(url, clock=lambda: NIGHT) as ledger:
        ready_entries.orders(ledger, ledger.begin_run(), 300)
    swap_pages(path)
    with (
        pytest.raises(
            LedgerError,
            match=r"(?s)damaged \(.*\); nothing was sent; restore it from a backup: `loadsheet ledger restore FILE`",
        ),
        open_ledger(url, clock=lambda: NIGHT),
    ):
        pass


def test_damage_is_found_on_the_next_day_and_by_check_on_the_same(url, path):
    night(url, 300)
    with open_ledger(url, clock=lambda: NIGHT) as ledger:
        assert ledger.check() == []
    with open_ledger(url, clock=lambda: NIGHT):
        pass
    swap_pages(path)
    with open_ledger(url, clock=lambda: NIGHT) as ledger:
        assert "the database is damaged" in ledger.check()[0]
    with (
        pytest.raises(LedgerError, match="restore it from a backup"),
        open_ledger(url, clock=lambda: NIGHT + timedelta(days=1)),
    ):
        pass


@pytest.mark.parametrize("keep", [0.999, 0.1])
def test_a_truncated_one_is_refused(url, path, keep):
    night(url, 300)
    os.truncate(path, int(path.stat().st_size * keep) // 4096 * 4096)
    with pytest.raises(LedgerError, match=r"ledger\.db"), open_ledger(url, clock=lambda: NIGHT + timedelta(days=1)):
        pass


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
    night(url)
    sql(path, change)
    with open_ledger(url) as ledger:
        assert ledger.check() == [words]


# gone, or another one than it was


@pytest.mark.parametrize("empty", [True, False])
def test_a_ledger_that_is_gone_is_not_replaced_by_an_empty_one(url, path, empty):
    night(url)
    for file in path.parent.glob("ledger.db*"):
        file.unlink()
    if empty:
        path.touch()
    with (
        pytest.raises(LedgerError, match="gone or empty, but run 2026-03-04-01 was recorded in it") as caught,
        open_ledger(url),
    ):
        pass
    mark = path.parent / "last_run_of_ledger.db.json"
    assert f"remove {mark}" in str(caught.value)
    mark.unlink()
    with open_ledger(url) as ledger:
        assert ledger.queries.runs() == []


def test_a_ledger_that_was_put_back_is_refused_until_it_is_accepted(url, path, tmp_path):
    night(url)
    shutil.copy(path, tmp_path / "old.db")
    night(url, at=NIGHT + timedelta(hours=1))
    newest = shutil.copy(path, tmp_path / "newest.db")
    shutil.copy(tmp_path / "old.db", path)
    with (
        pytest.raises(LedgerError, match=r"does not know run 2026-03-04-02 .*set ledger.accept_older"),
        open_ledger(url),
    ):
        pass
    shutil.copy(newest, path)
    with open_ledger(url) as ledger:
        assert len(ledger.queries.runs()) == 2


def test_what_an_older_ledger_would_send_is_unknown_once_it_is_accepted(url, path, tmp_path):
    with open_ledger(url, clock=lambda: NIGHT) as ledger:
        run = ledger.begin_run()
        drop = ready_entries.orders(ledger, run, 3)
        child = ready_entries.events(ledger, run, 1)
        ready = ledger.ready(1)
        ledger.mark_sending(run, [(ready, ready[0].payload)])
        ledger.settle(run, [ledgers.accepted(ready[0])])
        ledger.end_run(run, exit_code=0, summary={})
    shutil.copy(path, tmp_path / "old.db")
    night(url, at=NIGHT + timedelta(hours=1))
    shutil.copy(tmp_path / "old.db", path)
    with open_ledger(url, Opening(accept_older=True), clock=lambda: NIGHT + timedelta(hours=2)) as ledger:
        assert ready_entries.states(ledger, drop) == ["accepted", "ready", "ready"]
        run = ledger.begin_run()
        assert run.name == "2026-03-04-03"  # the second one is forgotten here, and was reported
        assert ledger.ready(10) == []
        assert ready_entries.states(ledger, child) == ["unknown"]
        assert ready_entries.states(ledger, drop) == ["accepted", "unknown", "unknown"]
        (problem,) = ledger.queries.entry(2).problems
        assert "the ledger was restored from a backup; this may have been sent since" in problem.text
        assert ready_entries.states(ledger, ready_entries.orders(ledger, run, 3)) == ["unchanged", "held", "held"]
        assert ledger.check() == []
        ledger.end_run(run, exit_code=1, summary={})
    with open_ledger(url) as ledger:  # from now on it is the newest
        assert ledger.queries.count_in(State.UNKNOWN) >= 2


def test_another_ledger_in_its_place_is_refused(url, path, tmp_path):
    night(url)
    night(f"sqlite:///{tmp_path / 'other' / 'ledger.db'}", at=NIGHT + timedelta(minutes=1))
    shutil.copy(tmp_path / "other" / "ledger.db", path)
    with pytest.raises(LedgerError, match="it is an older copy, or another ledger"), open_ledger(url):
        pass


def test_a_log_that_somebody_deleted_is_noticed(url, path, tmp_path):
    with open_ledger(url) as ledger:
        ledger.begin_run()
        shutil.copy(path, tmp_path / "without_log.db")
    shutil.copy(tmp_path / "without_log.db", path)
    with pytest.raises(LedgerError, match="does not know run"), open_ledger(url):
        pass


def test_a_mark_that_cannot_be_read_is_not_ignored(url, path):
    night(url)
    Place(path).last_run_path.write_bytes(b'{"id": 1')
    with pytest.raises(LedgerError, match="the record of the ledger's last run, cannot be read"), open_ledger(url):
        pass


# copies
