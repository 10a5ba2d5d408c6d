"""What a ledger on PostgreSQL promises beyond a file: one writer at a time, readers of one moment, and clear words when the server fails."""

import threading
import time
from contextlib import suppress

import databases
import ledgers
import pytest
import ready_entries
from ledgers import refusal
from postgres import running_server
from ready_entries import Settlement
from sqlalchemy import select, update

from loadsheet.ledger import State, open_ledger, read_ledger
from loadsheet.ledger.ledger_opening import forget_engines
from loadsheet.ledger.ledger_tables import SCHEMA_VERSION, entries, meta, runs
from loadsheet.ledger.migrations import step
from loadsheet.ledger.postgres import address_of, ledger_engine, make_schema, without_password
from loadsheet.problems import LedgerError, LedgerGone, LedgerUnwritable, SettingsError


@pytest.fixture
def kind():
    return "postgresql"


def schema_of(url):
    return address_of(url).schema


# one writer at a time


def test_two_writers_never_interleave(ledger, ledger_url):
    ledger.begin_run()
    engines = [ledger_engine(address_of(ledger_url), writes=True) for _ in range(2)]
    seen = []

    def count_up(engine):
        for _ in range(5):
            with engine.connect().execution_options(writes=True) as connection, connection.begin():
                known = int(connection.scalar(select(meta.c.value).where(meta.c.name == "schema_version")))
                time.sleep(0.001)
                seen.append(known)
                connection.execute(meta.update().where(meta.c.name == "schema_version").values(value=str(known + 1)))

    threads = [threading.Thread(target=count_up, args=(engine,)) for engine in engines for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(SCHEMA_VERSION, SCHEMA_VERSION + 20))  # no one saw what another one had seen
    for engine in engines:
        engine.dispose()


def test_who_reads_sees_one_moment_while_others_write(ledger, run):
    ready_entries.orders(ledger, run, 510)
    stream = ledger.queries.entries_in(State.READY)
    first = next(stream)
    ledgers.send(ledger, run)
    assert [first.id, *(entry.id for entry in stream)] == list(range(1, 511))
    assert ledger.queries.count_in(State.READY) == 0
    with ledger.queries.at_one_moment() as connection:
        before = connection.execute(select(entries.c.state).distinct()).scalars().all()
        ready_entries.orders(ledger, run, 1, file="more.csv")
        assert connection.execute(select(entries.c.state).distinct()).scalars().all() == before


def test_a_stream_that_is_given_up_keeps_no_connection(ledger, run):
    ready_entries.orders(ledger, run, 510)
    for _ in range(20):  # more than the pool has
        stream = ledger.queries.entries_in(State.READY)
        next(stream)
        del stream
    assert ledger.queries.count_in(State.READY) == 510


def test_who_reads_cannot_write(ledger, ledger_url):
    ledger.begin_run()
    with read_ledger(ledger_url) as other, pytest.raises(LedgerUnwritable, match="is read-only"):
        other.begin_run()


# texts


def test_texts_are_ordered_as_in_a_file(ledger, ledger_url):
    """By code points, whatever the collation of the database is."""
    ledger.begin_run()
    told = (
        "select table_name, column_name from information_schema.columns where table_schema = %s and data_type = 'text'"
    )
    names = set(databases.ask(told, schema_of(ledger_url)))
    assert ("entries", "lane") in names
    assert set(databases.ask(f"{told} and collation_name = 'C'", schema_of(ledger_url))) == names


def test_keys_may_be_as_long_as_cells(ledger, run):
    long = "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(4000))
    orders = [{**ledgers.order(1), "order_id": long + end} for end in ("1", "2")]
    drop = ready_entries.plan(ledger, run, "order.create", orders, file="o.csv")
    ledger.record_seen(run, [f"order:{long}3"])
    assert ready_entries.states(ledger, drop) == ["ready", "ready"]
    again = ready_entries.plan(ledger, run, "order.create", orders, file="p.csv")
    assert ready_entries.states(ledger, again) == ["unchanged", "unchanged"]
    assert len(ledger.queries.entries_by_key(long + "1")) == 2


def test_a_nul_in_an_answer_or_a_cell_is_no_fault(ledger, run):
    drop = ready_entries.orders(ledger, run, 1)
    (one,) = ledger.ready(1)
    ledger.mark_sending(run, [([one], one.payload)])
    ledger.settle(run, [Settlement(1, State.REFUSED, "a\x00b", receipt="\x00", outcome="refused")])
    assert ready_entries.states(ledger, drop) == ["refused"]
    assert ledger.queries.entry(1).reason == "a\ufffdb"


# a connection that is lost


def cut():
    """End all connections of ours at the server."""
    databases.ask(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'loadsheet' and pid <> pg_backend_pid()"
    )


def test_between_transactions_nobody_notices(ledger, run):
    cut()
    drop = ready_entries.orders(ledger, run, 2)
    cut()
    assert ready_entries.states(ledger, drop) == ["ready", "ready"]


def test_in_the_middle_it_is_said_and_nothing_is_there(ledger, run):

    def documents():
        yield from (ledgers.document("order.create", ledgers.order(n), [("orders", n + 2, ("x",))]) for n in range(700))
        cut()
        yield ledgers.left_out(800)

    with pytest.raises(LedgerGone, match="the last change may not have been recorded"):
        ledger.plan(run, ledgers.drop_of(("orders", "o.csv")), {}, documents())
    assert list(ledger.queries.entries_in(*State)) == []
    assert ledger.check() == []


def lost_in_the_middle(mine, run, outcomes):
    with mine.one_transaction():
        mine.settle(run, outcomes)
        cut()
        mine.ready(1)


@pytest.mark.parametrize("recorded", [True, False])
def test_outcomes_are_recorded_once_although_the_connection_was_lost(ledger, recorded):
    """The commit went through and its answer was lost, or it never did: who settles again need not know."""
    run = ledger.begin_run()
    drop = ready_entries.orders(ledger, run, 3)
    some = ledger.ready(3)
    ledger.mark_sending(run, [([one], one.payload) for one in some])
    outcomes = [ledgers.accepted(one)._replace(attempt=1) for one in some[:2]]
    if recorded:
        ledger.settle(run, outcomes)
    else:
        with pytest.raises(LedgerGone):
            lost_in_the_middle(ledger, run, outcomes)
    for _ in range(2):
        ledger.settle_after_outage(run, outcomes, underway=[])
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted", "ready"]  # the third never left
    assert [len(ledger.queries.events_of(entry.id)) for entry in ledger.queries.entries_of(drop.id)] == [3, 3, 3]
    assert ledger.check() == []


# a server that fails


@pytest.fixture(scope="module")
def fragile():
    """A server of one's own, to be stopped."""
    with running_server() as found:
        yield found
        forget_engines()


@pytest.fixture
def url(fragile):
    """A ledger on it that is not there yet."""
    return fragile.new_database() + "&schema=s"


def configure(server, statement):
    databases.ask(statement, url=server.url("postgres"))
    databases.ask("select pg_reload_conf()", url=server.url("postgres"))


def test_a_restart_ends_what_is_under_way_with_75_and_the_next_goes_on(fragile, url):
    with ledgers.ledger_at(url) as ledger:
        run = ledger.begin_run()
        drop = ready_entries.orders(ledger, run, 2)
        fragile.stop("immediate")
        with pytest.raises(LedgerGone, match="try again when the server can be reached") as caught:
            ledger.ready(1)
        assert caught.value.exit_code == 75
        with pytest.raises(LedgerGone):
            ledger.begin_run()
        fragile.start()
        assert len(ledger.ready(9)) == 2
        ledgers.send(ledger, run)
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted"]
        assert ledger.check() == []


def test_a_server_that_may_not_write_says_so(fragile, url):
    with ledgers.ledger_at(url) as ledger:
        run = ledger.begin_run()
        with ledger._engine.connect() as connection:
            connection.exec_driver_sql("set default_transaction_read_only = on")
            connection.commit()
        with pytest.raises(LedgerUnwritable, match="the server is read-only: is it a standby"):
            ledger.end_run(run, exit_code=0, summary={})


def test_a_server_that_loses_commits_is_refused(fragile, url):
    configure(fragile, "alter system set fsync = off")
    try:
        forget_engines()
        refusal(ledgers.ledger_at(url), match=r"\(fsync off\); it needs fsync on")
    finally:
        configure(fragile, "alter system reset fsync")


def test_commits_wait_for_the_disk_whatever_the_server_says(fragile, url):
    configure(fragile, f"alter database {url.partition('@/')[2].partition('?')[0]} set synchronous_commit = off")
    with ledgers.ledger_at(url) as ledger, ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("show synchronous_commit").scalar() == "on"


def test_a_transaction_that_failed_is_not_taken_for_committed(fragile, url):
    with ledgers.ledger_at(url) as ledger:
        run = ledger.begin_run()

        def change():
            with ledger._unfenced() as connection:
                connection.execute(update(runs).where(runs.c.id == run.id).values(exit_code=7))
                with suppress(LedgerError):
                    connection.exec_driver_sql("select 1 / 0")

        with pytest.raises(LedgerGone, match="had failed before its commit"):
            change()
        assert [one.exit_code for one in ledger.queries.runs(1)] == [None]


# words


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:s3cret@127.0.0.1:1/db",
        "postgresql://anna:s3cret@",
        "postgresql://anna@127.0.0.1:1/db?password=s3cret",
        "postgresql://anna:s3cret@127.0.0.1:x/db",
        "postgresql://anna:s3cret@127.0.0.1:1/db?schema=Nope!",
    ],
)
def test_a_password_is_never_told(url):
    caught = refusal(open_ledger(url), (LedgerError, SettingsError))
    assert "s3cret" not in str(caught)
    assert "s3cret" not in without_password(url)


def test_who_is_not_let_in_is_told_where_to_look():
    url = databases.server().url("nowhere")
    refusal(open_ledger(url), LedgerGone, "check `database`: user, password, name")


# schemas


def test_a_ledger_that_is_not_there_is_not_made_for_who_reads(ledger_url):
    refusal(read_ledger(ledger_url), match=r"there is no ledger at .* yet")


def test_an_older_schema_is_upgraded_when_somebody_runs(ledger_url):
    address = address_of(ledger_url)
    engine = ledger_engine(address, writes=True)
    with engine.connect() as connection, connection.begin():
        make_schema(connection, address.schema)
        for version in range(4):
            step(connection, version)
        connection.exec_driver_sql("insert into meta values ('schema_version', '4')")
        connection.exec_driver_sql(
            "insert into runs (name, started_at, finished_at, summary) values ('2026-03-01-01', '2026-03-01T02:00:00.000Z', '', '')"
        )
    engine.dispose()
    refusal(read_ledger(ledger_url), match="`loadsheet run` upgrades it")
    with ledgers.ledger_at(ledger_url) as ledger:
        run = ledger.begin_run()
        drop = ready_entries.orders(ledger, run, 2)
        ledgers.send(ledger, run)
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted"]
        assert (run.id, ledger.check()) == (2, [])
