"""Paces and leases on a real PostgreSQL: many at once, one clock, and what the tables show."""

import threading
import time
from itertools import count

import databases
import pytest

from loadsheet.errors import LedgerError
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.leases import (
    DELETED_AFTER_S,
    TERM_S,
    LeaseRequest,
    SharedRateLimit,
    rate_limit_name,
    read_rate_limits,
)

ALL = LeaseRequest(10**6, 10**6)
_tokens = (f"token-{number}-5e1f" for number in count())


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    address = address_of(databases.new_url("postgresql", tmp_path_factory.mktemp("paces")))
    made = shared_engine(address)
    make_tables(made, address)
    yield made
    made.dispose()


@pytest.fixture
def pace(engine):
    """A pace of 100 calls a second and 10 connections."""
    made = SharedRateLimit(engine, "https://exchange.example/api", next(_tokens), "w1")
    made.set_limits(100, 10)
    return made


def ask(engine, pace, worker, wanted=ALL):
    mine = SharedRateLimit(engine, "", "", worker)
    mine.name = pace.name
    return mine.renew(wanted)


def standing(engine, pace):
    with engine.begin() as connection:
        return next(one for one in read_rate_limits(connection) if one.name == pace.name)


def renewals(engine, pace, worker, seconds, held):
    """Ask for leases, one after the other; each as (from, until, per_second, connections) of the time in which it is used."""
    until, lease, since, ends = time.monotonic() + seconds, None, 0.0, 0.0
    while time.monotonic() < until or len(held) < 8:
        asked_at = time.monotonic()
        another = ask(engine, pace, worker, ALL._replace(holding=lease.number if lease else 0))
        now = time.monotonic()
        if lease:
            held.append((since, min(ends, now), lease))
        lease, since, ends = another, now, asked_at + another.lasts_s
        time.sleep(0.01)
    held.append((since, time.monotonic(), lease))
    ask(engine, pace, worker, LeaseRequest(0, 0))


def test_however_many_ask_at_once_they_never_have_more_than_there_is(engine, pace):
    held = [[] for _ in range(6)]
    threads = [
        threading.Thread(target=renewals, args=(engine, pace, f"w{number}", 0.3 + number * 0.1, mine))
        for number, mine in enumerate(held)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [one for mine in held for one in mine]
    most = 0
    for moment in sorted(since for since, _, _ in everything):
        now = [lease for since, until, lease in everything if since <= moment < until]
        assert sum(lease.per_second for lease in now) <= 100
        assert sum(lease.connections for lease in now) <= 10
        most = max(most, sum(lease.per_second for lease in now))
    assert most == 100
    assert standing(engine, pace).workers == 0


def test_the_tables_show_neither_token_nor_path(engine):
    token, exchange = "a-very-secret-token-77", "https://user:word@exchange.example:8443/tenant/4711"
    mine = SharedRateLimit(engine, exchange, token, "w1")
    mine.set_limits(7, 3)
    mine.renew(ALL)
    with engine.begin() as connection:
        rows = [
            str(row) for table in ("paces", "leases") for row in connection.exec_driver_sql(f"select * from {table}")
        ]
    shown = "\n".join(rows)
    assert "https://exchange.example:8443" in shown
    assert not any(part in shown for part in (token, "word", "tenant", "4711"))
    assert (
        rate_limit_name(exchange, token)
        == rate_limit_name(f"{exchange}/", token)
        != rate_limit_name(exchange, "another-token-1")
    )


def test_a_protest_against_one_reaches_all_at_their_next_lease(engine, pace):
    ask(engine, pace, "w1")
    pace.report_overload(0.2, 30.0, "the exchange is busy: status 429")
    pace.report_overload(0.3, 10.0, "another that left with it")
    for worker in ("w1", "w2"):
        lease = ask(engine, pace, worker)
        assert 29 < lease.paused_s <= 30
        assert lease.share == 0.5
    shown = standing(engine, pace)
    assert (shown.share, shown.reason) == (0.5, "the exchange is busy: status 429")
    assert shown.leased_per_second <= 50


def test_who_wants_nothing_leaves_no_row_and_the_dead_are_removed(engine, pace):
    for worker in ("w1", "w2", "w3"):
        ask(engine, pace, worker)
    ask(engine, pace, "w1", LeaseRequest(0, 0))
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"update leases set until = until - {DELETED_AFTER_S + TERM_S + 1} where pace = '{pace.name}' and worker = 'w2'"
        )
    ask(engine, pace, "w3")
    with engine.begin() as connection:
        left = connection.exec_driver_sql(f"select worker from leases where pace = '{pace.name}'").scalars().all()
    assert left == ["w3"]


def test_a_pace_that_nobody_began_is_an_error(engine):
    with pytest.raises(LedgerError, match="does not exist yet"):
        SharedRateLimit(engine, "http://nowhere", "x", "w1").renew(ALL)
