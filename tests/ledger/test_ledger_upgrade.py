"""Ledgers of earlier schemas are upgraded with all that is in them, whatever stops the upgrade; a backup is made before."""

import shutil
import sqlite3
from contextlib import closing

import databases
import ledgers
import pytest
import ready_entries
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from killed_steps import dies_at
from ledgers import refusal
from sqlalchemy import create_engine

from loadsheet.ledger import State, Waits, open_ledger, read_ledger
from loadsheet.ledger.ledger_tables import SCHEMA_VERSION, metadata
from loadsheet.ledger.migrations import STEPS, upgrade_one_version
from loadsheet.ledger.moving import restore

# As the first version made it, and never to be changed.
FIRST_SCHEMA = """
CREATE TABLE meta (name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name));
CREATE TABLE runs (id INTEGER NOT NULL, name TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT NOT NULL, exit_code INTEGER, summary TEXT NOT NULL, PRIMARY KEY (id), UNIQUE (name));
CREATE TABLE mappings (hash TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, operation TEXT NOT NULL, batch_size INTEGER, lineage TEXT NOT NULL, PRIMARY KEY (hash));
CREATE TABLE drops (id INTEGER NOT NULL, run_id INTEGER NOT NULL, mapping_hash TEXT, PRIMARY KEY (id), FOREIGN KEY(run_id) REFERENCES runs (id), FOREIGN KEY(mapping_hash) REFERENCES mappings (hash));
CREATE INDEX ix_drops_run_id ON drops (run_id);
CREATE TABLE files (id INTEGER NOT NULL, drop_id INTEGER NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, arrived TEXT NOT NULL, kept_as TEXT NOT NULL, problems TEXT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(drop_id) REFERENCES drops (id));
CREATE INDEX ix_files_drop_id ON files (drop_id);
CREATE INDEX ix_files_sha256 ON files (sha256);
CREATE TABLE tables (id INTEGER NOT NULL, drop_id INTEGER NOT NULL, name TEXT NOT NULL, file TEXT NOT NULL, sheet TEXT NOT NULL, header TEXT NOT NULL, header_row INTEGER NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (id), FOREIGN KEY(drop_id) REFERENCES drops (id));
CREATE INDEX ix_tables_drop_id ON tables (drop_id);
CREATE TABLE entries (id INTEGER NOT NULL, drop_id INTEGER NOT NULL, operation TEXT NOT NULL, "key" TEXT NOT NULL, lane TEXT NOT NULL, state TEXT NOT NULL CONSTRAINT known_state CHECK (state in ('invalid', 'held', 'ready', 'sending', 'accepted', 'refused', 'unknown', 'unchanged')), reason TEXT NOT NULL, payload BLOB NOT NULL, content_hash TEXT NOT NULL, rows BLOB NOT NULL, items TEXT NOT NULL, problems TEXT NOT NULL, receipt TEXT NOT NULL, attempts INTEGER NOT NULL, created_at TEXT NOT NULL, changed_at TEXT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(drop_id) REFERENCES drops (id));
CREATE INDEX entries_by_state ON entries (state, id);
CREATE INDEX ix_entries_key ON entries ("key");
CREATE INDEX ix_entries_drop_id ON entries (drop_id);
CREATE INDEX entries_by_lane ON entries (lane, state);
CREATE TABLE ignored (id INTEGER NOT NULL, drop_id INTEGER NOT NULL, table_name TEXT NOT NULL, number INTEGER NOT NULL, cells TEXT NOT NULL, rule TEXT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(drop_id) REFERENCES drops (id));
CREATE INDEX ix_ignored_drop_id ON ignored (drop_id);
CREATE TABLE attempts (entry_id INTEGER NOT NULL, number INTEGER NOT NULL, run_id INTEGER NOT NULL, started_at TEXT NOT NULL, request_hash TEXT NOT NULL, outcome TEXT NOT NULL, status INTEGER, detail TEXT NOT NULL, duration_ms INTEGER, PRIMARY KEY (entry_id, number), FOREIGN KEY(entry_id) REFERENCES entries (id), FOREIGN KEY(run_id) REFERENCES runs (id));
CREATE INDEX ix_attempts_run_id ON attempts (run_id);
CREATE TABLE events (id INTEGER NOT NULL, entry_id INTEGER NOT NULL, run_id INTEGER NOT NULL, at TEXT NOT NULL, "before" TEXT NOT NULL, "after" TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(entry_id) REFERENCES entries (id), FOREIGN KEY(run_id) REFERENCES runs (id));
CREATE INDEX ix_events_entry_id ON events (entry_id);
CREATE INDEX ix_events_run_id ON events (run_id);
"""
NIGHT = "2026-03-01T02:00:00.000Z"
RECORD = b'{"order_id":"A-1","currency":"EUR"}'
STATES = ["invalid", "held", "ready", "sending", "accepted", "refused", "unknown", "unchanged"]
BEHIND = "earlier outcome unknown"
REASONS = {"held": BEHIND, "sending": "being sent"}
TRIED = ("sending", "accepted", "refused", "unknown")


def first_rows():
    """Rows of every table, and three entries in every state; those in flight belong to a run that was killed."""
    yield "meta", ("schema_version", "1")
    yield "runs", (1, "2026-03-01-01", NIGHT, "", None, "")
    yield "mappings", ("a4f1", "acme", "3", "order.create", None, "{}")
    yield "drops", (1, 1, "a4f1")
    yield "files", (1, 1, "data", "orders.csv", "77aa", 2048, NIGHT, "archive/orders.csv", "[]")
    yield "tables", (1, 1, "orders", "orders.csv", "", '["Auftrag"]', 1, 25)
    yield "ignored", (1, 1, "orders", 26, '["Summe"]', "row begins with Summe")
    for number, state in enumerate(STATES * 3, start=1):
        reason, lane, tried = REASONS.get(state, "so it was"), f"order:A-{number}", int(state in TRIED)
        rows = b'[["orders",%d,["A-1"]]]' % (number + 1)
        names = ("order.create", f"A-{number}", lane, state, reason)
        yield "entries", (number, 1, *names, RECORD, "c0de", rows, "{}", "[]", "88001" * tried, tried, NIGHT, NIGHT)
        yield "events", (None, number, 1, NIGHT, "", "ready" if tried else state, "planned")
        if tried:
            yield "events", (None, number, 1, NIGHT, "ready", "sending", "being sent")
            outcome = ("", None) if state == "sending" else (state, 200)
            yield "attempts", (number, 1, 1, NIGHT, "4a5b", *outcome, "", None)
        if tried and state != "sending":
            yield "events", (None, number, 1, NIGHT, "sending", state, reason)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def first(path):
    """The URL of a ledger of the first schema."""
    return make_first(path)


def make_first(path):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("pragma journal_mode=WAL")
        database.executescript(FIRST_SCHEMA)
        for table, row in first_rows():
            database.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
    return f"sqlite:///{path}"


def rows_of(path):
    """Every row of the tables of the first schema, with the columns that it had."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        names = [line.split()[2] for line in FIRST_SCHEMA.splitlines() if line.startswith("CREATE TABLE")]
        tables = {
            name: database.execute(f"select * from {name} order by 1, 2").fetchall() for name in names if name != "meta"
        }
    for name, had in {"entries": 16, "tables": 8, "mappings": 6, "drops": 3}.items():
        tables[name] = [row[:had] for row in tables[name]]
    return tables


def version_of(path):
    with closing(sqlite3.connect(path)) as database:
        return database.execute("select value from meta where name = 'schema_version'").fetchone()[0]


def backups(path):
    return sorted(path.parent.glob("ledger.db.schema-*"))


def opened(url):
    return open_ledger(url, clock=ledgers.Ticking())


def test_everything_is_there_after_the_upgrade_and_work_in_flight_goes_on(first, path):
    before = rows_of(path)
    with opened(first) as ledger:
        assert ledger.check() == []
        assert [str(entry.state) for entry in ledger.queries.entries_of(1)] == STATES * 3
        assert {entry.waits for entry in ledger.queries.entries_in(State.HELD)} == {Waits.EARLIER}
    assert rows_of(path) == before
    assert version_of(path) == str(SCHEMA_VERSION)
    with opened(first) as ledger:
        run = ledger.begin_run()
        assert ledger.queries.count_in(State.SENDING) == 0
        assert ledger.queries.count_in(State.UNKNOWN) == 6
        assert [one.id for one in ledger.ready(10)] == [3, 11, 19]
        ledgers.send(ledger, run)
        assert ledger.queries.count_in(State.ACCEPTED) == 6
        again = ready_entries.orders(ledger, run, 2)
        assert ready_entries.states(ledger, again) == ["ready", "ready"]
        assert ledger.check() == []


def test_a_backup_of_what_it_was_lies_beside_it_and_is_restored_and_upgraded_again(first, path):
    before = rows_of(path)
    for _ in range(2):
        with opened(first):
            pass
        (kept,) = backups(path)  # a ledger that fits needs no other
    assert kept.name == "ledger.db.schema-1.20260304T021500Z.backup"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (version_of(kept), rows_of(kept)) == ("1", before)
    assert version_of(path) != "1"
    done = restore(first, kept, ledgers.Ticking())
    assert (version_of(path), rows_of(path), done.older) == ("1", before, False)
    clock = ledgers.Ticking()
    clock.pass_time(60)
    with open_ledger(first, clock=clock) as ledger:
        assert ledger.check() == []
    assert rows_of(path) == before
    assert len(backups(path)) == 2


def test_the_backup_holds_what_still_stood_in_the_write_ahead_log(first, path):
    with closing(sqlite3.connect(path)) as reader:  # keeps the log from being folded into the database
        reader.execute("select * from runs").fetchall()
        with closing(sqlite3.connect(path)) as writer, writer:
            writer.execute("update entries set reason = 'only in the log' where id = 7")
        with opened(first):
            pass
    (kept,) = backups(path)
    assert rows_of(kept)["entries"][6][6] == "only in the log"


def test_without_the_lock_an_older_ledger_is_left_as_it_is(first, path):
    refusal(
        read_ledger(first),
        match=f"schema version 1, this program knows version {SCHEMA_VERSION}; `loadsheet run` upgrades it",
    )
    assert version_of(path) == "1"
    assert backups(path) == []


@pytest.mark.parametrize("apart", [9, pytest.param(1, marks=pytest.mark.sweep)])
def test_killed_at_any_statement_the_upgrade_goes_on_when_it_is_opened_again(tmp_path, apart):
    whole = tmp_path / "whole.db"
    make_first(whole)
    old, expected = shutil.copy(whole, tmp_path / "old.db"), rows_of(whole)
    upgrade(whole)
    shape, point, versions = shape_of(whole), 1, set()
    while True:
        path = shutil.copy(old, tmp_path / f"{point}.db")
        if not dies_at(point, lambda begin, path=path: begin() or upgrade(path, checks=False)):
            break
        versions.add(version_of(path))
        assert rows_of(path) == expected
        upgrade(path)
        assert rows_of(path) == expected
        assert shape_of(path) == shape
        point += apart
    assert point > 30
    every = set(map(str, range(1, SCHEMA_VERSION + 1)))
    assert versions == every if apart == 1 else {"1", str(SCHEMA_VERSION)} < versions <= every


def upgrade(path, *, checks=True):
    with opened(f"sqlite:///{path}") as ledger:
        assert not checks or ledger.check() == []


def test_an_upgrade_whose_backup_cannot_be_written_changes_nothing(first, path):
    (path.parent / "ledger.db.schema-1.20260304T021500Z.backup").mkdir()
    before = path.read_bytes()
    refusal(opened(first), match=r"the backup .* cannot be written")
    assert version_of(path) == "1"
    assert path.read_bytes() == before


def shape_of(path):
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        shape = databases.shape_of(connection)
    engine.dispose()
    return shape


def test_the_steps_lead_from_the_first_schema_to_that_of_a_new_ledger(tmp_path, path, first):
    shape_before = shape_of(path)
    with opened(first):
        pass
    with open_ledger(f"sqlite:///{tmp_path / 'new.db'}"):
        pass
    alone = tmp_path / "alone.db"
    engine = create_engine(f"sqlite:///{alone}")
    with engine.begin() as connection:
        assert sorted(STEPS) == list(range(SCHEMA_VERSION))
        upgrade_one_version(connection, 0)
    assert shape_of(alone) == shape_before
    with engine.begin() as connection:
        for version in range(1, SCHEMA_VERSION):
            upgrade_one_version(connection, version)
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()
    assert shape_of(path) == shape_of(tmp_path / "new.db") == shape_of(alone)
