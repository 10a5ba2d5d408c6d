"""A ledger moves from its file into PostgreSQL: whole, once, and killed anywhere it is in exactly one of the two places."""

import shutil
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import databases
import ledgers
import pytest
import ready_entries
from effects import EVERY
from ledgers import refusal
from sqlalchemy import Engine, event, select, text

from loadsheet.errors import LedgerBusy, LedgerError, LoadsheetError, SettingsError
from loadsheet.ledger import (
    Choice,
    ExceptionStatus,
    OpenOptions,
    Settlement,
    State,
    first_broken_decision,
    moving,
    open_ledger,
    read_ledger,
)
from loadsheet.ledger.ledger_tables import metadata
from loadsheet.ledger.postgres import address_of, shared_engine

CLOCK = ledgers.Ticking
WRITERS = text(
    "select count(*) from pg_locks held join pg_class on pg_class.oid = held.relation "
    "where relname = 'entries' and relnamespace = to_regnamespace(:schema) and mode = 'RowExclusiveLock'"
)
ENDLESS = 100_000
AT_ONCE = 0.001  # who was killed is dead


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a ledger in which everything happened that can: all states, a decision, an exception, a file set aside."""
    folder = tmp_path_factory.mktemp("made")
    with ledgers.ledger_in(folder) as ledger:
        fill(ledger)
    return folder


def fill(ledger):
    run = ledger.begin_run()
    documents = [
        *(ledgers.document("order.create", ledgers.order(n), [("orders", n + 2, ("x\x00y",))]) for n in range(40)),
        ledgers.document("order.create", None, [("orders", 99, ("A\x00-2",))], ledgers.weight_problem("o.csv", 99)),
        ledgers.left_out(100),
    ]
    ledgers.plan(ledger, run, ledgers.drop_of(("orders", "orders.csv")), documents)
    fates = {1: ledgers.refused, 2: ledgers.unknown}
    ledgers.send(ledger, run, lambda one: fates.get(one.id % 10, ledgers.accepted)(one))
    ledger.record_exceptions(run, [ExceptionStatus(1, run.name, run.started_at, "refused")])
    ledger.end_run(run, exit_code=1, summary={"entries": {}}, snapshot=b"\x00\x01seen")
    again = ledger.begin_run()
    doubtful = next(ledger.queries.entries_in(State.UNKNOWN))
    chosen = Choice(doubtful, Settlement(doubtful.id, State.ACCEPTED, "it is there"), "seen by eye")
    ledger.decide(again, [chosen], who="anna", choice="accepted", comment="so she said")
    ledger.store_schedules_done({"nightly": "2026-03-04T02:15:00.000Z"})
    ledger.end_run(again, exit_code=0, summary={"entries": {}})


@pytest.fixture
def file(made, tmp_path):
    """The file of a ledger of one's own, with what lies beside it."""
    shutil.copytree(made, tmp_path / "state")
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def url(tmp_path):
    return databases.new_url("postgresql", tmp_path)


def moved(file, url, takeover_s=30.0):
    return moving.move(file, moving.Destination(url, file.parent, takeover_s), CLOCK())


def everything(ledger):
    """All rows of all tables; texts without NUL, as a server keeps them."""
    with ledger.queries.at_one_moment() as connection:
        return {
            table.name: Counter(tuple(clean(value) for value in row) for row in connection.execute(select(table)))
            for table in metadata.sorted_tables
            if table.name not in ("meta", "tenures")
        }


def clean(value):
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value


def opened(url, file):
    return open_ledger(url, OpenOptions(file.parent, AT_ONCE), clock=CLOCK())


def test_all_of_it_is_there_and_goes_on(file, url):
    with ledgers.ledger_in(file.parent) as ledger:
        before = everything(ledger)
    url = url.replace("shipper=acme", "shipper=moved")
    done = moved(file, url)
    assert done.counts["entries"] == 41
    names = dict(databases.ask("select name, value from fleet.shared_meta where name ^@ 'schedule moved'"))
    assert names == {"schedule moved nightly": "2026-03-04T02:15:00.000Z"}, "it is not due once more"
    assert not file.exists()
    assert done.kept_as.is_file()
    with opened(url, file) as ledger:
        assert everything(ledger) == before
        assert ledger.check() == []
        assert first_broken_decision(ledger.queries.decisions()) is None
        run = ledger.begin_run()
        assert run.id == 3
        more = [ledgers.order(number) for number in (7, 77)]
        drop = ready_entries.plan(ledger, run, "order.create", more)
        assert ready_entries.states(ledger, drop) == ["unchanged", "ready"]
        ledgers.send(ledger, run)
        assert ledger.check() == []


def test_the_file_is_counted_before_the_copy_begins(file, url, monkeypatch):
    """The server ends a transaction in which nothing comes for some seconds, and a big file takes longer."""
    counted, sums = [], moving._held
    address = address_of(url)
    engine = shared_engine(address)

    def count(connection):
        if connection.dialect.name == "sqlite":
            with engine.connect() as beside:
                counted.append(beside.scalar(WRITERS, {"schema": address.schema}))
        return sums(connection)

    monkeypatch.setattr(moving, "_held", count)
    moved(file, url)
    engine.dispose()
    assert counted == [0]


def test_the_old_place_says_where_it_went(file, url):
    done = moved(file, url)
    for opening in (open_ledger, read_ledger):
        refusal(opening(f"sqlite:///{file}"), SettingsError, r"was moved to postgresql://.*set `database` to that")
    assert moved(file, url) == done._replace(counts={})  # said once more, nothing is done
    elsewhere = databases.new_url("postgresql", file.parent)
    with pytest.raises(SettingsError, match=r"was moved to .*, and cannot be moved to"):
        moved(file, elsewhere)


def test_the_mark_of_the_last_run_goes_along(file, url):
    moved(file, url)
    (mark,) = file.parent.glob("last_run_of_t*.json")
    assert b"2026-03-04-02" in mark.read_bytes()
    empty = databases.new_url("postgresql", file.parent)
    mark.rename(mark.with_name(f"last_run_of_{empty.split('schema=')[1].split('&')[0]}.json"))
    refusal(opened(empty, file), match="does not know run 2026-03-04-02")


def test_what_cannot_be_moved_stays_and_says_why(file, url, tmp_path):
    with pytest.raises(SettingsError, match="there is no ledger"):
        moved(tmp_path / "ledger.db", url)
    refusal(opened(url, file), SettingsError, "move it there with `loadsheet ledger move`")  # it knows what was sent
    with ledgers.ledger_in(file.parent), pytest.raises(LedgerBusy):
        moved(file, url)
    with ledgers.ledger_at(url) as other:
        with pytest.raises(LedgerBusy):
            moved(file, url)
        other.begin_run()
    with pytest.raises(SettingsError, match="has runs of its own"):
        moved(file, url)
    with ledgers.ledger_in(file.parent) as ledger, ledger._engine.connect() as connection:
        assert ledger.queries.runs()
        connection.exec_driver_sql("update entries set state = 'held' where id = 5")
        connection.commit()
    with pytest.raises(LedgerError, match="not sound, so it was not moved: the state of entry 5"):
        moved(file, databases.new_url("postgresql", tmp_path))
    assert file.exists()


# killed anywhere


class Killed(BaseException):
    """The process ends here."""


class Killer:
    """Ends what is done at its nth step: a statement on either database, or a change of a file's name."""

    def __init__(self):
        self.left = None
        event.listen(Engine, "before_cursor_execute", self.step)
        sys.addaudithook(lambda name, _: self.step() if name == "os.rename" else None)

    def step(self, *given):
        if self.left is not None and threading.current_thread() is threading.main_thread():  # no heartbeat
            self.left -= 1
            if self.left < 0:
                for cursor in given[1:2]:  # of a statement that is never run; psycopg warns of one that stays open
                    cursor.close()
                raise Killed


@pytest.fixture(scope="module")
def killer():
    killer = Killer()
    yield killer
    killer.left = None
    event.remove(Engine, "before_cursor_execute", killer.step)


def knows_the_runs(url, file):
    try:
        with opened(url, file) as ledger:
            return len(ledger.queries.runs()) == 2 and ledger.check() == []
    except LoadsheetError:
        return False


def killed_at(number, made, folder, killer):
    """Whether there was such a step to be killed at; then it is in exactly one place, and the same command ends the move."""
    state = Path(shutil.copytree(made, folder / str(number)))
    file, url = state / "ledger.db", databases.new_url("postgresql", folder)
    killer.left = number
    with suppress(Killed, LedgerError):  # what is raised at a statement comes back in our words
        moved(file, url, AT_ONCE)
    killer.last, killer.left = killer.left, None
    if killer.last >= 0:
        return False
    old, new = knows_the_runs(f"sqlite:///{file}", file), knows_the_runs(url, file)
    assert (old, new) in ((True, False), (False, True)), number
    moved(file, url, AT_ONCE)
    assert not knows_the_runs(f"sqlite:///{file}", file)
    assert knows_the_runs(url, file)
    return True


def steps_of(made, folder, killer):
    """How many steps a move has."""
    assert not killed_at(ENDLESS, made, folder, killer)
    return ENDLESS - killer.last


@pytest.mark.journey
def test_killed_at_some_steps_it_is_in_one_place_and_goes_on(made, tmp_path, killer):
    steps_of(made, tmp_path / "first", killer)  # makes what all ledgers share
    steps = steps_of(made, tmp_path, killer)
    assert steps > 100
    wanted = [steps // 2, *range(steps - 24, steps - 2, 10)]  # what is committed last decides
    assert all(killed_at(number, made, tmp_path, killer) for number in wanted)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
def test_killed_at_every_other_step_it_is_in_one_place_and_goes_on(made, tmp_path, killer, record_property):
    apart = 1 if EVERY == 1 else 2  # CI has its limits
    kills = next(number for number in range(1000) if not killed_at(apart * number, made, tmp_path, killer))
    assert kills > 100
    record_property("kills", kills)
