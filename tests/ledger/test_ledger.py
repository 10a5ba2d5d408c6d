"""The verbs: guarded, all or nothing, and each change with its event."""

from collections import Counter
from itertools import pairwise, product

import databases
import ledgers
import pytest
import ready_entries
from ready_entries import Settlement, decide, entries, mark, states
from sqlalchemy import event

from loadsheet.errors import DoesNotBalance, LedgerError
from loadsheet.ledger import TRANSITIONS, ReadTotals, State
from loadsheet.ledger.models import SourceTable
from loadsheet.mapping.documents import Source
from loadsheet.problems import Problem

ORDERS = ledgers.drop_of(("orders", "o.csv"))


def order_document(number, *problems):
    return ledgers.document("order.create", ledgers.order(number), [("orders", number + 2, ("x",))], *problems)


def sizes(ledger):
    """How many rows each table has."""
    names = ("runs", "mappings", "drops", "files", "tables", "entries", "ignored", "attempts", "events")
    with ledger._engine.connect() as connection:
        return [connection.exec_driver_sql(f"select count(*) from {name}").scalar() for name in names]


# what is planned


def test_the_place_of_a_row_names_no_cell_also_if_a_column_has_no_heading():
    table = SourceTable("orders", "o.xlsx", "Orders", ("No", "", "Kg"), 1)
    assert [str(table.where(5, label)) for label in ("", "Kg")] == ["o.xlsx:Orders!5", "o.xlsx:Orders!C5"]


@databases.ON_BOTH
def test_a_drop_is_recorded_with_all_that_it_held(ledger, run):
    drop = ledgers.drop_of(("orders", "o.xlsx", "Orders"), ("packages", "p.csv"))
    rows = [("orders", 2, ("A-00001", "x")), ("packages", 7, ("A-00001", "9"))]
    items = [
        ledgers.document("order.create", ledgers.order(1), rows),
        ledgers.document("order.create", None, [("orders", 3, ("A-2",))], Problem("C301")),
        ledgers.left_out(4),
    ]
    lineage = {"packages[].weight": (Source("packages", "weight", "Gewicht", "each"),), "currency": ()}
    kept, fates = ledger.plan(run, drop, lineage, iter([*items, ReadTotals({"orders": 3, "packages": 1})]))
    assert fates == {State.READY: 1, State.INVALID: 1}
    tables = [(table.name, table.sheet, table.rows) for table in kept.tables]
    assert tables == [("orders", "Orders", 3), ("packages", "", 1)]
    ready, invalid = entries(ledger, kept)
    assert (ready.key, ready.lane, ready.payload) == ("A-00001", "order:A-00001", items[0].payload)
    assert [row[:3] for row in ready.rows] == rows
    assert (invalid.state, invalid.problems, invalid.payload) == (State.INVALID, (Problem("C301"),), b"")
    assert [row.rule for row in ledger.queries.ignored_of(kept.id)] == ["row begins with Summe"]
    origin = ledger.queries.origin(kept.id)
    assert (origin.lineage, set(origin.tables)) == (lineage, {"orders", "packages"})
    assert ledger.queries.drops_of(run) == [kept]


@databases.ON_BOTH
def test_a_drop_that_does_not_balance_or_breaks_off_is_not_recorded_at_all(ledger, run):
    before, items = sizes(ledger), [order_document(number) for number in range(3)]
    for read, wrong in (
        ({"orders": 2}, "orders: 2 rows read, 3 accounted for"),
        ({"orders": 4}, "orders: 4 rows read, 3 accounted for"),
        ({}, "orders: 0 rows read, 3 accounted for"),
        ({"orders": 3, "packages": 1}, "packages: 1 rows read, 0 accounted for"),
    ):
        with pytest.raises(DoesNotBalance, match=f"{wrong}; nothing was recorded"):
            ledger.plan(run, ORDERS, {}, [*items, ReadTotals(read)])

    def broken():
        yield order_document(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.plan(run, ORDERS, {}, broken())
    assert sizes(ledger) == before
    assert states(ledger, ready_entries.orders(ledger, run, 3)) == ["ready"] * 3


@databases.ON_BOTH
def test_the_same_content_is_recognised_within_a_drop_and_across_drops(ledger, run):
    twice = [ledgers.order(1), ledgers.order(1), ledgers.order(2)]
    first = ready_entries.plan(ledger, run, "order.create", twice)
    assert states(ledger, first) == ["ready", "unchanged", "ready"]
    ledgers.send(ledger, run)
    second = ready_entries.plan(ledger, run, "order.create", twice, file="renamed.csv")
    assert states(ledger, second) == ["unchanged"] * 3
    assert {entry.service_order for entry in entries(ledger, second)} == {"8800001", "8800003"}
    assert ledger.ready(10) == []


def test_more_documents_than_one_chunk_are_planned_in_order(ledger, run):
    found = entries(ledger, ready_entries.events(ledger, run, 1203, orders=3))
    assert [(entry.id, entry.rows[0].number) for entry in found] == [(at, at + 1) for at in range(1, 1204)]
    assert ledger.queries.count_in(State.READY) == 1203


def test_a_file_that_was_set_aside_is_a_drop_of_its_own(ledger, run):
    drop = ledger.set_aside(run, ledgers.unreadable("bad.xlsx", Problem("R201", values={"reason": "it is not a zip"})))
    assert (drop.set_aside, drop.tables, drop.mapping) == (True, (), "")
    assert ledger.queries.drop(drop.id).files[0].problems[0].code == "R201"


# from state to state


def settle_to(ledger, run, entry, state):
    """Bring a ready entry to a state, by transitions that exist."""
    if state is State.HELD:
        ledger.settle(run, [Settlement(entry, State.HELD, "wait")])
    elif state is not State.READY:
        (one,) = [submission for submission in ledger.ready(1000) if submission.id == entry]
        ledger.mark_sending(run, [([one], one.payload)])
        if state is not State.SENDING:
            ledger.settle(run, [Settlement(entry, state, "so it was", outcome=str(state))])


def test_only_the_transitions_of_the_table_happen(ledger, run):
    """Of each pair of states; with each change comes one that may be, and neither happens where the other may not."""
    reachable = [State.READY, State.HELD, State.SENDING, State.ACCEPTED, State.REFUSED, State.UNKNOWN]
    pairs = list(product(reachable, State))
    drop = ready_entries.orders(ledger, run, 2 * len(pairs))
    expected = []
    for place, (before, after) in enumerate(pairs):
        entry, other = 2 * place + 1, 2 * place + 2
        settle_to(ledger, run, entry, before)
        told = len(ledger.queries.events_of(entry))
        change = [Settlement(other, State.HELD, "too"), Settlement(entry, after, "because")]
        if after in TRANSITIONS[before] and (before, after) != (State.HELD, State.ACCEPTED):  # it was never sent
            ledger.settle(run, change)
            assert ledger.queries.events_of(entry)[-1].reason == "because"
            expected += [after, "held"]
        else:
            with pytest.raises(LedgerError, match=f"is {before} and cannot become {after}"):
                ledger.settle(run, change)
            assert len(ledger.queries.events_of(entry)) == told
            expected += [before, "ready"]
    assert states(ledger, drop) == expected


def test_one_entry_settled_twice_at_once_settles_nothing(ledger, run):
    drop = ready_entries.orders(ledger, run, 1)
    mark(ledger, run)
    with pytest.raises(LedgerError):
        ledger.settle(run, [Settlement(1, State.ACCEPTED, "a"), Settlement(1, State.REFUSED, "b")])
    assert states(ledger, drop) == ["sending"]


@databases.ON_BOTH
def test_an_entry_that_is_not_ready_any_more_is_not_marked(ledger, run):
    drop = ready_entries.orders(ledger, run, 2)
    stale = ledger.ready(2)
    mark(ledger, run, 1)
    with pytest.raises(LedgerError, match="1 of 2 entries are no longer ready; none was marked"):
        ledger.mark_sending(run, [([one], one.payload) for one in reversed(stale)])
    assert states(ledger, drop) == ["sending", "ready"]
    assert len(ledger.queries.attempts_of(2)) == 0


@databases.ON_BOTH
def test_an_attempt_keeps_its_request_and_what_came_of_it(ledger, run):
    ready_entries.events(ledger, run, 2)
    both = ledger.ready(2)
    ledger.mark_sending(run, [(both, b"the body of both")])
    busy = {"outcome": "not sent", "status": 429, "duration_ms": 5}
    ledger.settle(run, [Settlement(one.id, State.READY, "busy", **busy) for one in both])
    (one, _) = ledger.ready(2)
    assert one.attempts == 1
    ledger.mark_sending(run, [([one], b"alone")])
    ledger.settle(run, [Settlement(1, State.ACCEPTED, "done", "881", outcome="accepted", status=200, duration_ms=9)])
    first, second = ledger.queries.attempts_of(1)
    assert (first.number, first.outcome, first.status, first.detail, first.duration_ms) == (
        1,
        "not sent",
        429,
        "busy",
        5,
    )
    assert (second.number, second.outcome, second.status, second.run) == (2, "accepted", 200, run.name)
    assert first.request_hash == ledger.queries.attempts_of(2)[0].request_hash != second.request_hash
    path = ["", "ready", "sending", "ready", "sending", "accepted"]
    changes = [(event.before, event.after) for event in ledger.queries.events_of(1)]
    assert changes == list(pairwise(path))
    assert ledger.queries.entry(1).service_order == "881"


@databases.ON_BOTH
def test_what_was_being_sent_when_the_process_died_is_unknown(ledger_url):
    with ledgers.ledger_at(ledger_url) as ledger:
        run = ledger.begin_run()
        drop = ready_entries.orders(ledger, run, 3)
        settle_to(ledger, run, 1, State.ACCEPTED)
        settle_to(ledger, run, 2, State.SENDING)
    with ledgers.ledger_at(ledger_url) as ledger:
        assert states(ledger, drop) == ["accepted", "sending", "ready"]
        again = ledger.begin_run()
        assert again.name == "2026-03-04-02"
        assert states(ledger, drop) == ["accepted", "unknown", "ready"]
        assert [attempt.outcome for attempt in ledger.queries.attempts_of(2)] == ["unknown"]
        entry = ledger.queries.entry(2)
        assert [problem.code for problem in entry.problems] == ["X702"]
        assert "process ended" in entry.reason
        assert ledger.queries.drops_of(again) == [drop]


def test_what_the_exchange_said_is_over_with_the_state_it_led_to(ledger, run):
    warning, said = Problem("K502", level="warning"), Problem("X701", values={"text": "no"})
    drop = ledgers.plan(ledger, run, ORDERS, [order_document(1, warning)])
    mark(ledger, run)
    ledger.settle(run, [Settlement(1, State.REFUSED, "no", problems=(said,), outcome="refused")])
    assert entries(ledger, drop)[0].problems == (warning, said)
    decide(ledger, run, State.READY, *entries(ledger, drop))
    settle_to(ledger, run, 1, State.ACCEPTED)
    assert entries(ledger, drop)[0].problems == (warning,)


# a look into a listing that is older than an outcome


def test_a_look_before_an_outcome_or_the_last_attempt_settles_nothing(ledger):
    shared = ledgers.taken_over(ledger)
    run = shared.begin_run()
    drop = ready_entries.orders(shared, run, 1)
    look = Settlement(1, State.READY, "proved absent", attempt=1)
    for _ in range(2):
        (one,) = mark(shared, run)
        shared.settle(run, [ledgers.unknown(one)])
        if one.attempts == 0:
            assert shared.settle_from_listing(run, [look]) == [look]
    assert shared.settle_from_listing(run, [look]) == []
    assert states(shared, drop) == ["unknown"]
    assert shared.settle_late(run, [ledgers.accepted(one)._replace(attempt=2)]) == 1
    assert shared.settle_from_listing(run, [look._replace(attempt=2)]) == []
    assert states(shared, drop) == ["accepted"]


# what is found


@databases.ON_BOTH
def test_what_is_ready_leaves_out_shut_lanes_and_keeps_its_order(ledger, run):
    ready_entries.orders(ledger, run, 4)
    ready_entries.events(ledger, run, 8, orders=4)
    settle_to(ledger, run, 2, State.UNKNOWN)
    settle_to(ledger, run, 3, State.SENDING)
    settle_to(ledger, run, 4, State.REFUSED)
    assert [one.id for one in ledger.ready(100)] == [1, 5, 8, 9, 12]
    assert [one.id for one in ledger.ready(2)] == [1, 5]


@databases.ON_BOTH
def test_what_is_left_out_leaves_the_others(ledger, run):
    """A list of parts, and none of operations: an empty list leaves nothing out."""
    one = ready_entries.orders(ledger, run, 2)
    ready_entries.plan(ledger, run, "order.create", [ledgers.order(number) for number in (5, 6)])
    tried, rest = (one.id, "order.create"), [submission.key for submission in ledger.ready(9)][2:]
    assert [submission.key for submission in ledger.ready(9, parts_out=[tried])] == rest
    assert [submission.drop for submission in ledger.ready_of(tried, 9, parts_out=[tried])] == [one.id] * 2
    assert ledger.ready(9, parts_out=[tried], operations_out=["order.create"]) == []
    assert len(ledger.ready(9, operations_out=["order.delete"])) == 4
    ready_entries.events(ledger, run, 2)
    assert ledger.ready(9, operations_out=["order.create"]) == [], (
        "what comes later on a lane waits for what is left out"
    )
    assert len(ledger.ready(9, operations_out=["order.status"])) == 4, "and what came before it does not"


@databases.ON_BOTH
def test_entries_are_found_by_key_and_by_the_beginning_of_a_longer_one(ledger, run):
    parties = {"sender_id": "A", "receiver_id": "B", "tenderRate": "1"}
    ready_entries.plan(ledger, run, "tender.create", [ledgers.tender(1), ledgers.tender(12)], file="t.csv")
    quotes = [{"tender_id": "T-0001", "carrier_id": c, **parties} for c in ("C%", "C_")]
    ready_entries.plan(ledger, run, "tender.quote", quotes, file="q.csv")
    for key, found in (
        ("T-0001", ["T-0001", "T-0001/C%", "T-0001/C_"]),
        ("T-0001/C%", ["T-0001/C%"]),
        ("T-%", []),
        ("t-0001", []),  # other letters are another key
    ):
        assert [entry.key for entry in ledger.queries.entries_by_key(key)] == found


def test_runs_are_numbered_by_day_beyond_all_names_that_were_given_and_closed_with_their_summary(ledger):
    names = [ledger.begin_run().name for _ in range(3)]
    assert names == ["2026-03-04-01", "2026-03-04-02", "2026-03-04-03"]
    run = ledger.queries.runs()[0]
    ledger.end_run(run, exit_code=75, summary={"entries": {"ready": 3}})
    closed = ledger.queries.runs()[0]
    assert (closed.exit_code, closed.summary, bool(closed.finished_at)) == (75, '{"entries":{"ready":3}}', True)
    assert [one.name for one in ledger.queries.runs(limit=2)] == names[:0:-1]
    given = ["2026-03-04-07", "2026-03-05-09", "2026-03-04", "2026-03-04-x", "ack"]
    assert [ledger.begin_run(given).name, *(ledger.begin_run().name for _ in range(3))] == [
        f"2026-03-04-{number:02}" for number in (8, 9, 10, 11)
    ]


def test_a_value_is_there_for_the_next_run_a_new_one_takes_its_place_and_no_name_touches_the_ledgers_own(tmp_path):
    with ledgers.ledger_in(tmp_path) as ledger:
        assert ledger.queries.stored_value("a") == ""
        for name, value in (("a", "1"), ("b", "2"), ("a", "3"), ("schema_version", "999")):
            ledger.store_value(name, value)
    with ledgers.ledger_in(tmp_path) as ledger:
        assert [ledger.queries.stored_value(name) for name in ("a", "b", "c", "schema_version")] == [
            "3",
            "2",
            "",
            "999",
        ]
        assert ledger.check() == []


# all or nothing


def test_a_ledger_that_may_not_be_written_stops_every_verb_with_a_sentence(ledger, run):
    ready_entries.orders(ledger, run, 1)
    with ledger._engine.connect() as connection:
        connection.exec_driver_sql("pragma query_only = on")
    for verb in (
        ledger.begin_run,
        lambda: ledger.end_run(run, exit_code=0, summary={}),
        lambda: mark(ledger, run),
        lambda: ledger.settle(run, [Settlement(1, State.HELD, "x")]),
        lambda: ledger.record_kept_as(1, "orders.csv", "x"),
        lambda: ready_entries.orders(ledger, run, 1),
        lambda: ledger.set_aside(run, ledgers.unreadable("x", Problem("R202"))),
    ):
        with pytest.raises(LedgerError, match="is read-only"):
            verb()
    assert Counter(entry.state for entry in ledger.queries.entries_in(*State)) == {State.READY: 1}


@databases.ON_BOTH
def test_what_is_recorded_at_once_is_seen_within_and_one_commit_and_nothing_of_it_is_there_if_it_fails(ledger, run):
    drop = ready_entries.orders(ledger, run, 2)
    commits = []
    event.listen(ledger._engine, "commit", commits.append)
    first, second = ledger.ready(2)
    mark(ledger, run, 1)
    assert len(commits) == 1
    before = sizes(ledger)

    def both(second):
        with ledger.one_transaction():
            ledger.settle(run, [ledgers.accepted(first)])
            assert [one.id for one in ledger.ready(2)] == [second.id]
            ledger.mark_sending(run, [((second,), second.payload)])
            assert states(ledger, drop) == ["sending", "ready"]  # as others see it

    with pytest.raises(LedgerError):
        both(second._replace(attempts=7))
    assert states(ledger, drop) == ["sending", "ready"]
    assert sizes(ledger) == before
    with ledger.one_transaction():
        pass
    assert len(commits) == 1, "nothing is begun where nothing is recorded"
    both(second)
    assert len(commits) == 2
    assert states(ledger, drop) == ["accepted", "sending"]
