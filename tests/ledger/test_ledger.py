"""The verbs: guarded, all or nothing, and each change with its event."""

from collections import Counter
from itertools import product

import databases
import ledgers
import pytest
import ready_entries
from ready_entries import Settlement
from sqlalchemy import event

from loadsheet.ledger import TRANSITIONS, ReadTotals, State
from loadsheet.mapping.documents import Source
from loadsheet.problems import DoesNotBalance, LedgerError, Problem


def entries(ledger, drop):
    return list(ledger.queries.entries_of(drop.id))


def rows_of(ledger, *names):
    with ledger._engine.connect() as connection:
        return {name: connection.exec_driver_sql(f"select count(*) from {name}").scalar() for name in names}


EVERYTHING = ("runs", "mappings", "drops", "files", "tables", "entries", "ignored", "attempts", "events")


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
    read = {"orders": 3, "packages": 1}
    kept, fates = ledger.plan(run, drop, lineage, iter([*items, ReadTotals(read)]))
    assert fates == {State.READY: 1, State.INVALID: 1}
    assert [(table.name, table.sheet, table.rows) for table in kept.tables] == [
        ("orders", "Orders", 3),
        ("packages", "", 1),
    ]
    ready, invalid = entries(ledger, kept)
    assert (ready.key, ready.lane, ready.payload) == ("A-00001", "order:A-00001", items[0].payload)
    assert [row[:3] for row in ready.rows] == rows
    assert (invalid.state, invalid.problems, invalid.payload) == (State.INVALID, (Problem("C301"),), b"")
    assert [row.rule for row in ledger.queries.ignored_of(kept.id)] == ["row begins with Summe"]
    origin = ledger.queries.origin(kept.id)
    assert origin.lineage == lineage
    assert set(origin.tables) == {"orders", "packages"}
    assert ledger.queries.drops_of(run) == [kept]


@pytest.mark.parametrize("read", [{"orders": 2}, {"orders": 4}, {}, {"orders": 3, "packages": 1}])
def test_a_drop_that_does_not_balance_is_not_recorded_at_all(ledger, run, read):
    before = rows_of(ledger, *EVERYTHING)
    items = [ledgers.document("order.create", ledgers.order(n), [("orders", n, ("x",))]) for n in range(3)]
    with pytest.raises(DoesNotBalance, match="nothing was recorded"):
        ledger.plan(run, ledgers.drop_of(("orders", "o.csv")), {}, [*items, ReadTotals(read)])
    assert rows_of(ledger, *EVERYTHING) == before
    ready_entries.orders(ledger, run, 3)


@databases.ON_BOTH
def test_documents_that_break_off_leave_nothing_behind(ledger):
    def documents():
        yield ledgers.document("order.create", ledgers.order(1), [("orders", 2, ("x",))])
        raise ZeroDivisionError

    run = ledger.begin_run()
    before = rows_of(ledger, *EVERYTHING)
    with pytest.raises(ZeroDivisionError):
        ledger.plan(run, ledgers.drop_of(("orders", "o.csv")), {}, documents())
    assert rows_of(ledger, *EVERYTHING) == before


@databases.ON_BOTH
def test_the_same_content_is_recognised_within_a_drop_and_across_drops(ledger, run):
    twice = [ledgers.order(1), ledgers.order(1), ledgers.order(2)]
    first = ready_entries.plan(ledger, run, "order.create", twice)
    assert ready_entries.states(ledger, first) == ["ready", "unchanged", "ready"]
    ledgers.send(ledger, run)
    second = ready_entries.plan(ledger, run, "order.create", twice, file="renamed.csv")
    assert ready_entries.states(ledger, second) == ["unchanged"] * 3
    assert {entry.receipt for entry in entries(ledger, second)} == {"8800001", "8800003"}
    assert ledger.ready(10) == []


def test_more_documents_than_one_chunk_are_planned_in_order(ledger, run):
    drop = ready_entries.events(ledger, run, 1203, orders=3)
    found = entries(ledger, drop)
    assert [entry.id for entry in found] == list(range(1, 1204))
    assert [entry.rows[0].number for entry in found] == list(range(2, 1205))
    assert ledger.queries.count_in(State.READY) == 1203


def test_a_file_that_was_set_aside_is_a_drop_of_its_own(ledger, run):
    drop = ledger.set_aside(run, ledgers.unreadable("bad.xlsx", Problem("R201", values={"reason": "it is not a zip"})))
    assert (drop.set_aside, drop.tables, drop.mapping) == (True, (), "")
    assert ledger.queries.drop(drop.id).files[0].problems[0].code == "R201"


def settle_to(ledger, run, entry, state):
    """Bring a ready entry to a state, by transitions that exist."""
    if state is State.READY:
        return
    if state is State.HELD:
        ledger.settle(run, [Settlement(entry, State.HELD, "wait")])
        return
    (one,) = [submission for submission in ledger.ready(1000) if submission.id == entry]
    ledger.mark_sending(run, [([one], one.payload)])
    if state is not State.SENDING:
        ledger.settle(run, [Settlement(entry, state, "so it was", outcome=str(state))])


REACHABLE = [State.READY, State.HELD, State.SENDING, State.ACCEPTED, State.REFUSED, State.UNKNOWN]


def test_only_the_transitions_of_the_table_happen(ledger):
    """Of each pair of states; with each change comes one that may be, and neither happens where the other may not."""
    run = ledger.begin_run()
    pairs = list(product(REACHABLE, State))
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
    assert ready_entries.states(ledger, drop) == expected


def test_one_entry_settled_twice_at_once_settles_nothing(ledger, run):
    drop = ready_entries.orders(ledger, run, 1)
    settle_to(ledger, run, 1, State.SENDING)
    with pytest.raises(LedgerError):
        ledger.settle(run, [Settlement(1, State.ACCEPTED, "a"), Settlement(1, State.REFUSED, "b")])
    assert ready_entries.states(ledger, drop) == ["sending"]


@databases.ON_BOTH
def test_an_entry_that_is_not_ready_any_more_is_not_marked(ledger, run):
    drop = ready_entries.orders(ledger, run, 2)
    stale = ledger.ready(2)
    ledger.mark_sending(run, [([stale[0]], stale[0].payload)])
    with pytest.raises(LedgerError, match="1 of 2 entries are no longer ready; none was marked"):
        ledger.mark_sending(run, [([one], one.payload) for one in reversed(stale)])
    assert ready_entries.states(ledger, drop) == ["sending", "ready"]
    assert len(ledger.queries.attempts_of(2)) == 0


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
def test_an_attempt_keeps_its_request_and_what_came_of_it(ledger, run):
    ready_entries.events(ledger, run, 2)
    both = ledger.ready(2)
    ledger.mark_sending(run, [(both, b"the body of both")])
    ledger.settle(
        run, [Settlement(one.id, State.READY, "busy", outcome="not sent", status=429, duration_ms=5) for one in both]
    )
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
    assert [(event.before, event.after) for event in ledger.queries.events_of(1)] == [
        ("", "ready"),
        ("ready", "sending"),
        ("sending", "ready"),
        ("ready", "sending"),
        ("sending", "accepted"),
    ]
    assert ledger.queries.entry(1).receipt == "881"


@databases.ON_BOTH
def test_what_was_being_sent_when_the_process_died_is_unknown(ledger_url):
    with ledgers.ledger_at(ledger_url) as ledger:
        run = ledger.begin_run()
        drop = ready_entries.orders(ledger, run, 3)
        settle_to(ledger, run, 1, State.ACCEPTED)
        settle_to(ledger, run, 2, State.SENDING)
    with ledgers.ledger_at(ledger_url) as ledger:
        assert ready_entries.states(ledger, drop) == ["accepted", "sending", "ready"]
        again = ledger.begin_run()
        assert again.name == "2026-03-04-02"
        assert ready_entries.states(ledger, drop) == ["accepted", "unknown", "ready"]
        (attempt,) = ledger.queries.attempts_of(2)
        assert attempt.outcome == "unknown"
        entry = ledger.queries.entry(2)
        assert [problem.code for problem in entry.problems] == ["X702"]
        assert "process ended" in entry.reason
        assert ledger.queries.drops_of(again) == [drop]


def test_what_the_exchange_said_is_over_with_the_state_it_led_to(ledger, run):
    warning, said = Problem("K502", level="warning"), Problem("X701", values={"text": "no"})
    documents = [ledgers.document("order.create", ledgers.order(1), [("orders", 2, ("x",))], warning)]
    drop = ledgers.plan(ledger, run, ledgers.drop_of(("orders", "o.csv")), documents)
    settle_to(ledger, run, 1, State.SENDING)
    ledger.settle(run, [Settlement(1, State.REFUSED, "no", problems=(said,), outcome="refused")])
    assert entries(ledger, drop)[0].problems == (warning, said)
    ledger.settle(run, [Settlement(1, State.READY, "once more, said somebody")])
    settle_to(ledger, run, 1, State.ACCEPTED)
    assert entries(ledger, drop)[0].problems == (warning,)


def test_runs_are_numbered_by_day_and_closed_with_their_summary(ledger):
    names = [ledger.begin_run().name for _ in range(3)]
    assert names == ["2026-03-04-01", "2026-03-04-02", "2026-03-04-03"]
    run = ledger.queries.runs()[0]
    ledger.end_run(run, exit_code=75, summary={"entries": {"ready": 3}})
    closed = ledger.queries.runs()[0]
    assert (closed.exit_code, closed.summary, bool(closed.finished_at)) == (75, '{"entries":{"ready":3}}', True)
    assert [one.name for one in ledger.queries.runs(limit=2)] == names[:0:-1]


@databases.ON_BOTH
def test_entries_are_found_by_key_and_by_the_beginning_of_a_longer_one(ledger, run):
    parties = {"sender_id": "A", "receiver_id": "B", "tenderRate": "1"}
    ready_entries.plan(ledger, run, "tender.create", [ledgers.tender(1), ledgers.tender(12)], file="t.csv")
    quotes = [{"tender_id": "T-0001", "carrier_id": c, **parties} for c in ("C%", "C_")]
    ready_entries.plan(ledger, run, "tender.quote", quotes, file="q.csv")
    keys = [entry.key for entry in ledger.queries.entries_by_key("T-0001")]
    assert keys == ["T-0001", "T-0001/C%", "T-0001/C_"]
    assert [entry.key for entry in ledger.queries.entries_by_key("T-0001/C%")] == ["T-0001/C%"]
    assert ledger.queries.entries_by_key("T-%") == []
    assert ledger.queries.entries_by_key("t-0001") == [], "other letters are another key"


def test_a_ledger_that_may_not_be_written_stops_every_verb_with_a_sentence(ledger, run):
    ready_entries.orders(ledger, run, 1)
    (one,) = ledger.ready(1)
    with ledger._engine.connect() as connection:
        connection.exec_driver_sql("pragma query_only = on")
    verbs = [
        ledger.begin_run,
        lambda: ledger.end_run(run, exit_code=0, summary={}),
        lambda: ledger.mark_sending(run, [([one], b"")]),
        lambda: ledger.settle(run, [Settlement(1, State.HELD, "x")]),
        lambda: ledger.archived(1, "orders.csv", "x"),
        lambda: ready_entries.orders(ledger, run, 1),
        lambda: ledger.set_aside(run, ledgers.unreadable("x", Problem("R202"))),
    ]
    for verb in verbs:
        with pytest.raises(LedgerError, match="is read-only"):
            verb()
    assert Counter(entry.state for entry in ledger.queries.entries_in(*State)) == {State.READY: 1}


@databases.ON_BOTH
def test_what_is_recorded_at_once_is_seen_within_and_one_commit(ledger, run):
    drop = ready_entries.orders(ledger, run, 2)
    commits = []
    event.listen(ledger._engine, "commit", commits.append)
    (first, second) = ledger.ready(2)
    ledger.mark_sending(run, [((first,), first.payload)])
    assert len(commits) == 1
    with ledger.one_transaction():
        ledger.settle(run, [ledgers.accepted(first)])
        assert [one.id for one in ledger.ready(2)] == [second.id]
        ledger.mark_sending(run, [((second,), second.payload)])
        assert [entry.state for entry in entries(ledger, drop)] == [State.SENDING, State.READY]  # as others see it
    assert len(commits) == 2
    assert [entry.state for entry in entries(ledger, drop)] == [State.ACCEPTED, State.SENDING]


@databases.ON_BOTH
def test_of_what_was_to_be_recorded_at_once_and_failed_nothing_is_there(ledger, run):
    drop = ready_entries.orders(ledger, run, 2)
    (first, second) = ledger.ready(2)
    ledger.mark_sending(run, [((first,), first.payload)])
    before = rows_of(ledger, *EVERYTHING)

    def both():
        with ledger.one_transaction():
            ledger.settle(run, [ledgers.accepted(first)])
            ledger.mark_sending(run, [((second._replace(attempts=7),), second.payload)])

    with pytest.raises(LedgerError):
        both()
    assert [entry.state for entry in entries(ledger, drop)] == [State.SENDING, State.READY]
    assert rows_of(ledger, *EVERYTHING) == before
    ledger.settle(run, [ledgers.accepted(first)])  # by itself it is recorded as ever
    assert [entry.state for entry in entries(ledger, drop)] == [State.ACCEPTED, State.READY]


def test_nothing_is_begun_at_once_where_nothing_is_recorded(ledger):
    begun = []
    event.listen(ledger._engine, "begin", begun.append)
    with ledger.one_transaction():
        pass
    assert begun == []


def test_no_run_gets_a_name_that_was_given_before(ledger):
    assert (
        ledger.begin_run(["2026-03-04-07", "2026-03-05-09", "2026-03-04", "2026-03-04-x", "ack"]).name
        == "2026-03-04-08"
    )
    assert [ledger.begin_run().name for _ in range(3)] == ["2026-03-04-09", "2026-03-04-10", "2026-03-04-11"]


@databases.ON_BOTH
def test_what_is_left_out_leaves_the_others(ledger, run):
    """A list of parts, and none of operations: an empty list leaves nothing out."""
    one = ready_entries.orders(ledger, run, 2)
    other = ready_entries.plan(ledger, run, "order.create", [ledgers.order(n) for n in (5, 6)])
    tried, rest = (one.id, "order.create"), [submission.key for submission in ledger.ready(9)][2:]
    assert [submission.key for submission in ledger.ready(9, parts_out=[tried])] == rest
    assert [submission.drop for submission in ledger.ready_of(tried, 9, parts_out=[tried])] == [one.id] * 2
    assert ledger.ready(9, parts_out=[tried], operations_out=["order.create"]) == []
    assert len(ledger.ready(9, operations_out=["order.delete"])) == 4
    assert other.id != one.id


# a look that is older than an outcome


def unknown_create(ledger, run):
    """An order whose outcome is unknown after its only attempt."""
    drop = ready_entries.orders(ledger, run, 1)
    (one,) = ledger.ready(10)
    ledger.mark_sending(run, [([one], b"{}")])
    ledger.settle(run, [ledgers.unknown(one)])
    return drop, one


def test_a_look_that_is_older_than_an_outcome_settles_nothing(ledger):
    shared = ledgers.taken_over(ledger)
    run = shared.begin_run()
    drop, one = unknown_create(shared, run)
    assert shared.settle_late(run, [ledgers.accepted(one)._replace(attempt=1)]) == 1
    assert shared.settle_from_listing(run, [Settlement(one.id, State.READY, "proved absent", attempt=1)]) == []
    assert ready_entries.states(shared, drop) == ["accepted"]


def test_a_look_before_the_last_attempt_settles_nothing(ledger, run):
    drop, one = unknown_create(ledger, run)
    first = Settlement(one.id, State.READY, "proved absent", attempt=1)
    assert ledger.settle_from_listing(run, [first]) == [first]
    (again,) = ledger.ready(10)
    ledger.mark_sending(run, [([again], b"{}")])
    ledger.settle(run, [ledgers.unknown(again)])
    assert ledger.settle_from_listing(run, [first]) == []
    assert ready_entries.states(ledger, drop) == ["unknown"]


# what one run leaves for the next


def test_a_value_is_there_for_the_next_run_a_new_one_takes_its_place_and_no_name_touches_the_ledgers_own(tmp_path):
    given = [("a", "1"), ("b", "2"), ("a", "3"), ("schema_version", "999")]
    with ledgers.ledger_in(tmp_path) as ledger:
        assert ledger.stored_values.value("a") == ""
        for name, value in given:
            ledger.stored_values.keep(name, value)
    with ledgers.ledger_in(tmp_path) as ledger:
        assert [ledger.stored_values.value(name) for name in ("a", "b", "c", "schema_version")] == ["3", "2", "", "999"]
        assert ledger.check() == []
