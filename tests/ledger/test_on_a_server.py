"""What a ledger on PostgreSQL promises beyond a file: one writer and one holder at a time, readers of one moment, and clear words when the server
fails.
"""

import threading
import time
from contextlib import closing, suppress

import databases
import ledgers
import psycopg
import pytest
import ready_entries
from ledgers import refusal
from ready_entries import Settlement, mark, new_orders, states
from sqlalchemy import select, update

from loadsheet.errors import LedgerBusy, LedgerError, LedgerGone, LedgerUnwritable, SettingsError, Superseded
from loadsheet.ledger import OpenOptions, State, open_ledger, postgres, read_ledger
from loadsheet.ledger.ledger_opening import holder_name
from loadsheet.ledger.ledger_tables import SCHEMA_VERSION, entries, meta, runs
from loadsheet.ledger.migrations import upgrade_one_version
from loadsheet.ledger.postgres import LedgerForbidden, address_of, ledger_engine, make_schema, without_password


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

    threads = [threading.Thread(target=count_up, args=(engine,)) for engine in engines * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(SCHEMA_VERSION, SCHEMA_VERSION + 20))  # no one saw what another one had seen
    for engine in engines:
        engine.dispose()


def test_who_reads_sees_one_moment_while_others_write_and_keeps_no_connection(ledger, run):
    ready_entries.orders(ledger, run, 510)
    for _ in range(20):  # more than the pool has
        stream = ledger.queries.entries_in(State.READY)
        first = next(stream)
    ledgers.send(ledger, run)
    assert [first.id, *(entry.id for entry in stream)] == list(range(1, 511))
    assert ledger.queries.count_in(State.READY) == 0
    with ledger.queries.at_one_moment() as connection:
        found = [connection.execute(select(entries.c.state).distinct()).scalars().all()]
        ready_entries.orders(ledger, run, 1, file="more.csv")
        found.append(connection.execute(select(entries.c.state).distinct()).scalars().all())
    assert found[0] == found[1]


def test_who_reads_cannot_write(ledger, ledger_url):
    ledger.begin_run()
    with read_ledger(ledger_url) as other, pytest.raises(LedgerUnwritable, match="is read-only"):
        other.begin_run()


# one holder at a time


def opened(url, takeover_s=30.0):
    return open_ledger(url, OpenOptions(takeover_s=takeover_s), clock=ledgers.Ticking())


def silence(url):
    """Let the holder have been heard of last an hour ago."""
    databases.ask(f"update {schema_of(url)}.tenures set seen_at = (seen_at::float8 - 3600)::text")


def test_a_second_process_on_a_server_learns_who_uses_it(ledger, ledger_url):
    caught = refusal(opened(ledger_url), LedgerBusy, rf"is held by {holder_name()} \(last heartbeat \d s ago\)")
    assert "30 s after it died (cluster.takeover_s)" in str(caught)
    with read_ledger(ledger_url) as reader:
        assert reader.queries.runs() == []


def test_who_is_silent_is_taken_over_and_records_nothing_more(ledger, ledger_url):
    run, drop = new_orders(ledger, 2)
    (one,) = mark(ledger, run, 1)
    silence(ledger_url)
    with opened(ledger_url) as other:
        other.begin_run()
        for verb in (
            ledger.begin_run,
            lambda: ready_entries.orders(ledger, run, 1, file="more.csv"),
            lambda: ledger.mark_sending(run, [([one], one.payload)]),
            lambda: ledger.settle(run, [ledgers.accepted(one)]),
            lambda: ledger.hold_waiting(run),
            lambda: ledger.release(run),
            lambda: ledger.record_kept_as(drop.id, "orders.csv", "x"),
            lambda: ledger.end_run(run, exit_code=0, summary={}),
            lambda: ledger.maintenance.record_removed({"x": 1}),
        ):
            with pytest.raises(Superseded, match="another process has taken this ledger over; nothing was recorded"):
                verb()
        assert states(other, drop) == ["unknown", "ready"]
        assert ledger.settle_late(run, [ledgers.accepted(one)._replace(attempt=1)]) == 1  # what is known is known
        assert states(other, drop) == ["accepted", "ready"]
        assert other.check() == []


def test_the_former_holder_gives_nothing_away_when_it_ends(ledger_url):
    former = opened(ledger_url)
    former.__enter__()
    silence(ledger_url)
    with opened(ledger_url) as mine:
        former.__exit__(None, None, None)
        mine.begin_run()  # it is mine still
        refusal(opened(ledger_url), LedgerBusy)


def test_a_heartbeat_keeps_it(ledger_url):
    """Each beat stands in the table; nobody waits for one here but until it comes."""
    with opened(ledger_url, takeover_s=0.2):
        seen = f"select seen_at from {schema_of(ledger_url)}.tenures"
        first = databases.ask(seen)
        waited = threading.Event()
        assert any(databases.ask(seen) != first or waited.wait(0.02) for _ in range(500))


def test_a_heartbeat_waits_for_no_writer(ledger):
    """A long transaction of the holder's own keeps nobody from hearing that it lives."""
    with ledger.one_transaction():
        ledger.begin_run()
        with ledger._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("set lock_timeout = '2s'")
            assert connection.exec_driver_sql("update tenures set seen_at = seen_at").rowcount == 1


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


def test_keys_may_be_as_long_as_cells_and_a_nul_in_an_answer_or_a_cell_is_no_fault(ledger, run):
    long = "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(4000))
    orders = [ledgers.order(1, order_id=long + end) for end in ("1", "2")]
    drop = ready_entries.plan(ledger, run, "order.create", orders, file="o.csv")
    ledger.record_seen(run, [f"order:{long}3"])
    assert states(ledger, drop) == ["ready", "ready"]
    again = ready_entries.plan(ledger, run, "order.create", orders, file="p.csv")
    assert states(ledger, again) == ["unchanged", "unchanged"]
    assert len(ledger.queries.entries_by_key(long + "1")) == 2
    mark(ledger, run, 1)
    ledger.settle(run, [Settlement(1, State.REFUSED, "a\x00b", service_order="\x00", outcome="refused")])
    assert (ledger.queries.entry(1).state, ledger.queries.entry(1).reason) == (State.REFUSED, "a\ufffdb")


# a connection that is lost


def cut():
    """End all connections of ours at the server."""
    databases.ask(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'loadsheet' and pid <> pg_backend_pid()"
    )


def test_between_transactions_nobody_notices_and_the_ledger_is_still_held(ledger, ledger_url, run):
    cut()
    drop = ready_entries.orders(ledger, run, 2)
    cut()
    assert states(ledger, drop) == ["ready", "ready"]
    cut()
    refusal(opened(ledger_url), LedgerBusy)


def test_in_the_middle_it_is_said_and_nothing_is_there(ledger, run):
    def documents():
        yield from (ledgers.document("order.create", ledgers.order(n), [("orders", n + 2, ("x",))]) for n in range(700))
        cut()
        yield ledgers.left_out(800)

    with pytest.raises(LedgerGone, match="the last change may not have been recorded"):
        ledger.plan(run, ledgers.drop_of(("orders", "o.csv")), {}, documents())
    assert list(ledger.queries.entries_in(*State)) == []
    assert ledger.check() == []


@pytest.mark.parametrize("recorded", [True, False])
def test_outcomes_are_recorded_once_although_the_connection_was_lost(ledger, recorded):
    """The commit went through and its answer was lost, or it never did: who settles again need not know."""
    run, drop = new_orders(ledger, 3)
    outcomes = [ledgers.accepted(one)._replace(attempt=1) for one in mark(ledger, run)[:2]]

    def lost_in_the_middle():
        with ledger.one_transaction():
            ledger.settle(run, outcomes)
            cut()
            ledger.ready(1)

    if recorded:
        ledger.settle(run, outcomes)
    else:
        with pytest.raises(LedgerGone):
            lost_in_the_middle()
    for _ in range(2):
        ledger.settle_after_outage(run, outcomes, in_flight=[])
        assert states(ledger, drop) == ["accepted", "accepted", "ready"]  # the third never left
    assert [len(ledger.queries.events_of(entry.id)) for entry in ready_entries.entries(ledger, drop)] == [3, 3, 3]
    assert ledger.check() == []


def test_a_writer_that_stands_still_between_two_statements_blocks_nobody_for_long(ledger, ledger_url, monkeypatch):
    """Statements that are sent together are one activity to the server: its limit for idle transactions does not end it."""
    monkeypatch.setattr(postgres, "STALLED_S", 0.5)
    monkeypatch.setattr(postgres, "_TURN_S", 0.2)
    lock = f"select pg_advisory_xact_lock(hashtextextended('{address_of(ledger_url).schema}', 1))"
    with closing(psycopg.connect(ledger_url.partition("&")[0], autocommit=True)) as stalled:
        sent = stalled.pgconn
        sent.enter_pipeline_mode()
        for statement in ("begin", lock):
            sent.send_query_params(statement.encode(), None)
        sent.send_flush_request()
        sent.flush()
        held = f"select state, wait_event from pg_stat_activity where pid = {sent.backend_pid} and query = %s"
        while databases.ask(held, lock, url=ledger_url) != [("active", "ClientRead")]:
            time.sleep(0.01)
        ledger.begin_run()
        assert databases.ask(held, lock, url=ledger_url) == []


def test_a_writer_that_works_is_waited_for(ledger, ledger_url, monkeypatch):
    """Also one that takes long: what counts is that it waits for its process."""
    monkeypatch.setattr(postgres, "STALLED_S", 0.1)
    monkeypatch.setattr(postgres, "_TURN_S", 0.1)
    key = f"hashtextextended('{address_of(ledger_url).schema}', 1)"
    works = threading.Thread(
        target=databases.ask, args=(f"select pg_advisory_xact_lock({key}), pg_sleep(0.8)",), kwargs={"url": ledger_url}
    )
    works.start()
    while not databases.ask("select 1 from pg_locks where locktype = 'advisory' and granted", url=ledger_url):
        time.sleep(0.01)
    began = time.monotonic()
    ledger.begin_run()
    assert time.monotonic() - began > 0.4
    works.join()


# a server that fails


@pytest.fixture
def url(own_server):
    """A ledger on it that is not there yet."""
    return own_server.new_database() + "&schema=s"


def configure(server, statement):
    databases.ask(statement, url=server.url("postgres"))
    databases.ask("select pg_reload_conf()", url=server.url("postgres"))


def test_a_restart_ends_what_is_under_way_with_75_and_the_next_goes_on(own_server, url):
    with ledgers.ledger_at(url) as ledger:
        run, drop = new_orders(ledger, 2)
        own_server.stop("immediate")
        with pytest.raises(LedgerGone, match="try again when the server can be reached") as caught:
            ledger.ready(1)
        assert caught.value.exit_code == 75
        with pytest.raises(LedgerGone):
            ledger.begin_run()
        own_server.start()
        assert len(ledger.ready(9)) == 2
        ledgers.send(ledger, run)
        assert states(ledger, drop) == ["accepted", "accepted"]
        assert ledger.check() == []


def test_a_server_that_may_not_write_says_so(own_server, url):
    with ledgers.ledger_at(url) as ledger:
        run = ledger.begin_run()
        with ledger._engine.connect() as connection:
            connection.exec_driver_sql("set default_transaction_read_only = on")
            connection.commit()
        with pytest.raises(LedgerUnwritable, match="the server is read-only: is it a standby"):
            ledger.end_run(run, exit_code=0, summary={})


def test_a_server_that_loses_commits_is_refused_and_commits_wait_for_the_disk_whatever_it_says(own_server, url):
    configure(own_server, f"alter database {url.partition('@/')[2].partition('?')[0]} set synchronous_commit = off")
    with ledgers.ledger_at(url) as ledger, ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("show synchronous_commit").scalar() == "on"
    configure(own_server, "alter system set fsync = off")
    try:
        databases.forget_engines()
        refusal(ledgers.ledger_at(url), match=r"\(fsync off\); it needs fsync on")
    finally:
        configure(own_server, "alter system reset fsync")


def test_a_transaction_that_failed_is_not_taken_for_committed(own_server, url):
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
def test_the_password_of_a_database_is_never_shown(url):
    caught = refusal(open_ledger(url), (LedgerError, SettingsError))
    assert "s3cret" not in str(caught)
    assert "s3cret" not in without_password(url)


def test_who_is_not_let_in_learns_where_to_look():
    url = databases.server().url("nowhere")
    refusal(open_ledger(url), LedgerGone, "check `database`: user, password, name")


def test_a_user_without_rights_learns_which_and_the_settings_count_as_wrong(ledger, ledger_url):
    ledger.begin_run()
    address = address_of(ledger_url)
    databases.ask("create role stranger login")
    theirs = ledger_url.replace("postgres@", "stranger@")
    refusal(open_ledger(theirs), LedgerForbidden, f"may not use the schema {address.shared}")
    refusal(read_ledger(theirs), LedgerForbidden, f"may not use the schema {address.schema}")
    assert LedgerForbidden.exit_code == 78
    databases.ask(f"grant usage on schema {address.schema} to stranger")
    refusal(read_ledger(theirs), LedgerForbidden, "permission denied for table meta; grant it to the user")


@pytest.mark.parametrize("name", ["pg_loadsheet", "information_schema"])
def test_a_schema_that_belongs_to_the_server_is_refused(name):
    with pytest.raises(SettingsError, match="no name that PostgreSQL reserves"):
        address_of(f"postgresql://postgres@/night?schema={name}")


# schemas


def test_a_schema_is_made_and_upgraded_by_who_runs_and_not_by_who_reads(ledger_url):
    refusal(read_ledger(ledger_url), match=r"there is no ledger at .* yet")
    address = address_of(ledger_url)
    engine = ledger_engine(address, writes=True)
    with engine.connect() as connection, connection.begin():
        make_schema(connection, address.schema)
        for version in range(4):
            upgrade_one_version(connection, version)
        connection.exec_driver_sql("insert into meta values ('schema_version', '4')")
        connection.exec_driver_sql(
            "insert into runs (name, started_at, finished_at, summary) values ('2026-03-01-01', '2026-03-01T02:00:00.000Z', '', '')"
        )
    engine.dispose()
    refusal(read_ledger(ledger_url), match="`loadsheet run` upgrades it")
    with ledgers.ledger_at(ledger_url) as ledger:
        run, drop = new_orders(ledger, 2)
        ledgers.send(ledger, run)
        assert states(ledger, drop) == ["accepted", "accepted"]
        assert (run.id, ledger.check()) == (2, [])
