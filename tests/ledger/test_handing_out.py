"""Batches on each kind of database: what may leave goes out once, in order on each lane, and who was taken over records nothing more."""

import shutil
import tempfile
from pathlib import Path

import databases
import ledgers
import pytest
import ready_entries
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loadsheet.ledger import Settlement, State
from loadsheet.ledger.batches import Kind, Sharing
from loadsheet.ledger.history import TAKEN_OVER
from loadsheet.problems import DoesNotBalance, Superseded


class Shared:
    """A ledger that hands out what it plans: on a server it tells the queue, on a file a list."""

    def __init__(self, url, entries=3, canary=0):
        self.told = []
        self.opened = ledgers.open_ledger(url, clock=ledgers.Ticking(), batch_entries=entries, canary=canary)
        self.ledger = self.opened.__enter__()
        tell = self.ledger.batches._sharing.announce if self.ledger.is_shared else lambda *_: None

        def announce(connection, made):
            tell(connection, made)
            self.told += [batch.id for batch in made]

        self.ledger.batches._sharing = Sharing(announce, entries, canary)
        self.ledger._sharing = self.ledger.batches._sharing
        self.ledger.batches.plans_go_out = True

    def close(self):
        self.opened.__exit__(None, None, None)


@pytest.fixture
def shared(ledger_url):
    made = Shared(ledger_url)
    yield made
    made.close()


@pytest.fixture
def ledger(shared):
    return shared.ledger


def first_of(ledger, run, owner="me"):
    taken = ledger.batches.take(ledger.batches.open_of(run)[0].id, owner)
    return taken, ledger.for_batch(taken)


def sent(mine, run):
    """What is in the batch, marked as being sent."""
    some = mine.ready(100)
    mine.mark_sending(run, [([one], one.payload) for one in some])
    return some


def accepted(one):
    return ledgers.accepted(one)._replace(attempt=one.attempts + 1)


def test_what_is_planned_goes_out_in_batches_and_is_announced(shared, ledger, run):
    ready_entries.orders(ledger, run, 7)
    made = ledger.batches.open_of(run)
    assert shared.told == [batch.id for batch in made] == [1, 2, 3]
    assert {batch.kind for batch in made} == {Kind.CALLS}
    sizes = []
    for _ in made:
        taken, mine = first_of(ledger, run)
        sizes.append(len(sent(mine, run)))
        mine.batches.close(taken, {"n": sizes[-1]})
    assert sizes == [3, 3, 1]
    assert [one.answer for one in ledger.batches.closed_of(run)] == [{"n": 3}, {"n": 3}, {"n": 1}]
    assert ledger.batches.answer_of(1) == {"n": 3}


def test_nothing_is_announced_of_a_plan_that_was_not_recorded(ledger, run, kind):
    made = [ledgers.document("order.create", ledgers.order(1), [("orders", 2, ("x",))])]
    with pytest.raises(DoesNotBalance):
        ledger.plan(run, ledgers.drop_of(("orders", "o.csv")), {}, made, lambda: {"orders": 2})
    assert ledger.batches.open_of(run) == []
    ready_entries.orders(ledger, run, 1)
    assert len(ledger.batches.open_of(run)) == 1
    if kind == "postgresql":
        with ledger._engine.connect() as connection:
            jobs = "select count(*) from procrastinate_jobs where args ->> 'ledger' = current_schema()"
            assert connection.exec_driver_sql(jobs).scalar() == 1


def test_who_is_taken_over_records_nothing_but_what_came_of_his_calls(ledger, run):
    drop = ready_entries.orders(ledger, run, 3)
    taken, mine = first_of(ledger, run)
    one, two, three = sent(mine, run)
    mine.settle(run, [accepted(one)])
    later, theirs = first_of(ledger, run, "them")
    assert (later.epoch, later.before, later.unknown) == (taken.epoch + 1, "me", 2)
    assert ready_entries.states(ledger, drop) == ["accepted", "unknown", "unknown"]
    assert ledger.history.entry(two.id).reason == TAKEN_OVER
    for verb in (
        lambda: mine.settle(run, [accepted(two)]),
        lambda: mine.mark_sending(run, [([three], three.payload)]),
        lambda: mine.batches.close(taken, {}),
        lambda: mine.settle_again(run, [accepted(two)], underway=[]),
    ):
        with pytest.raises(Superseded):
            verb()
    assert mine.settle_late(run, [accepted(two)]) == 1
    assert mine.settle_late(run, [accepted(two)]) == 0  # once
    assert theirs.ready(9) == []
    theirs.batches.close(later, {})
    assert mine.settle_late(run, [accepted(three)]) == 1  # also when the batch is done
    assert ready_entries.states(ledger, drop) == ["accepted"] * 3
    assert ledger.check() == []


def test_what_was_sent_again_is_settled_by_its_last_attempt_alone(ledger, run):
    drop = ready_entries.orders(ledger, run, 1)
    _, mine = first_of(ledger, run)
    (one,) = sent(mine, run)
    later, theirs = first_of(ledger, run, "them")
    ledger.settle(run, [Settlement(one.id, State.READY, "a look proved that it is not there")])
    theirs.batches.close(later, {})
    ledger.batches.batch_up(run)
    _, again = first_of(ledger, run, "again")
    sent(again, run)
    assert mine.settle_late(run, [accepted(one)]) == 0
    assert ready_entries.states(ledger, drop) == ["sending"]


def test_a_batch_that_is_done_is_taken_by_nobody(ledger, run):
    ready_entries.orders(ledger, run, 1)
    taken, mine = first_of(ledger, run)
    mine.batches.close(taken, {})
    assert ledger.batches.take(taken.id, "late") is None
    assert ledger.batches.take(99, "nobody") is None
    with pytest.raises(Superseded):
        mine.batches.close(taken, {})
    assert len(ledger.ready(9)) == 1  # what was not sent is ready still, in no batch


def test_the_next_run_goes_on_with_calls_and_voids_the_rest(ledger, run):
    drop = ready_entries.orders(ledger, run, 3)
    taken, mine = first_of(ledger, run)
    some = sent(mine, run)
    look = ledger.batches.hand_out(run, Kind.LOOKUP, {"since": 1})
    again = ledger.begin_run()
    assert [batch.id for batch in ledger.batches.open_of(again)] == [taken.id]
    assert ledger.batches.open_of(run) == []
    assert ledger.batches.answer_of(look) == {"void": True}
    assert ready_entries.states(ledger, drop) == ["sending"] * 3  # its worker may be alive
    mine.settle(run, [accepted(one) for one in some])
    assert ready_entries.states(ledger, drop) == ["accepted"] * 3


def test_who_is_taken_over_can_find_out_before_he_puts_something_beside_the_ledger(ledger, run):
    ledger.batches.hand_out(run, Kind.RECONCILIATION, {})
    mine = first_of(ledger, run)[1]
    mine.still_mine()
    theirs = first_of(ledger, run, "them")[1]
    theirs.still_mine()
    ledger.still_mine()
    with pytest.raises(Superseded):
        mine.still_mine()


def test_what_nobody_has_taken_can_be_called_back(ledger, run):
    ready_entries.orders(ledger, run, 7)
    taken, _ = first_of(ledger, run)
    assert ledger.batches.drop_untaken(run, "stopped") == 2
    assert [batch.id for batch in ledger.batches.open_of(run)] == [taken.id]
    assert ledger.batches.batch_up(run, most=3) == 3
    assert ledger.batches.batch_up(run) == 1


def test_what_was_put_back_can_be_called_back_too(ledger, run):
    drop = ready_entries.orders(ledger, run, 3)
    taken, mine = first_of(ledger, run)
    mine.batches.put_back(taken)
    assert ledger.batches.drop_untaken(run, "stopped") == 1
    assert ledger.batches.open_of(run) == []
    assert ready_entries.states(ledger, drop) == ["ready"] * 3


def test_of_what_is_on_trial_the_first_go_alone(ledger_url):
    made = Shared(ledger_url, entries=5, canary=2)
    ledger = made.ledger
    run = ledger.begin_run()
    ready_entries.orders(ledger, run, 12)
    taken, mine = first_of(ledger, run)
    some = sent(mine, run)
    assert len(some) == 2
    assert ledger.batches.batch_up(run) == 0  # nobody knows yet
    mine.settle(run, [accepted(one) for one in some])
    mine.batches.close(taken, {}, go_on=True)
    assert [len(sent(first_of_id(ledger, batch.id), run)) for batch in ledger.batches.open_of(run)] == [5, 5]
    made.close()


def first_of_id(ledger, batch):
    return ledger.for_batch(ledger.batches.take(batch, "x"))


OPERATIONS = ["order.create", "order.update", "order.status", "order.status"]
documents = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 4), st.integers(0, 3)), max_size=6)


class HandingOut(RuleBasedStateMachine):
    """Workers take, send, die, are taken over and come back. The model: every call that left, by entry, and the lanes under way."""

    kind = "sqlite"

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.shared = Shared(databases.new_url(self.kind, self.folder), entries=2)
        self.ledger = self.shared.ledger
        self.files, self.calls, self.workers = 0, {}, []

    @initialize()
    def begin(self):
        self.run = self.ledger.begin_run()

    def teardown(self):
        self.shared.close()
        shutil.rmtree(self.folder)

    @rule(drawn=documents)
    def plan(self, drawn):
        self.files += 1
        made = [
            ledgers.document(name, payload(name, number, content), [("orders", row, ("x",))])
            for row, (name, number, content) in enumerate(drawn, start=2)
        ]
        ledgers.plan(self.ledger, self.run, ledgers.drop_of(("orders", f"{self.files}.csv")), made)

    @precondition(lambda self: self.ledger.batches.open_of(self.run))
    @rule(drawn=st.data())
    def take(self, drawn):
        batch = drawn.draw(st.sampled_from(self.ledger.batches.open_of(self.run)))
        taken = self.ledger.batches.take(batch.id, f"worker {len(self.workers)}")
        self.workers.append((taken, self.ledger.for_batch(taken), []))

    @precondition(lambda self: self.workers)
    @rule(drawn=st.data(), most=st.integers(1, 2))
    def send(self, drawn, most):
        _, mine, underway = drawn.draw(st.sampled_from(self.workers))
        lanes = set()
        some = [one for one in mine.ready(most) if one.lane not in lanes and not lanes.add(one.lane)]
        try:
            mine.mark_sending(self.run, [([one], one.payload) for one in some])
        except Superseded:
            return
        for one in some:
            assert one.id not in self.calls, "a call left twice"
            self.calls[one.id] = one.lane
        underway += some

    @precondition(lambda self: any(underway for _, _, underway in self.workers))
    @rule(drawn=st.data())
    def answer(self, drawn):
        _, mine, underway = drawn.draw(st.sampled_from([worker for worker in self.workers if worker[2]]))
        one = underway.pop(0)
        try:
            mine.settle(self.run, [accepted(one)])
        except Superseded:
            assert self.ledger.settle_late(self.run, [accepted(one)]) == 1
        assert self.ledger.history.entry(one.id).state is State.ACCEPTED

    @precondition(lambda self: self.workers)
    @rule(drawn=st.data())
    def close(self, drawn):
        taken, mine, underway = worker = drawn.draw(st.sampled_from(self.workers))
        if underway:
            return
        self.workers.remove(worker)
        try:
            mine.batches.close(taken, {}, go_on=True)
        except Superseded:
            return

    @rule()
    def again(self):
        self.run = self.ledger.begin_run()
        self.ledger.release(self.run)
        self.ledger.batches.batch_up(self.run)

    @invariant()
    def one_call_at_a_time_on_a_lane(self):
        lanes = [
            entry.lane for entry in self.ledger.history.entries_in(State.SENDING) if "status" not in entry.operation
        ]
        assert len(lanes) == len(set(lanes))
        assert self.ledger.check() == []


def payload(name, number, content):
    note = {"status_code": f"S{content}"} if name == "order.status" else {"currency": f"C{content}"}
    return {"order_id": f"A-{number}", **note}


def machine(examples):
    return settings(
        max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


class OnPostgres(HandingOut):
    """The same on a server."""

    kind = "postgresql"


TestHandingOut = HandingOut.TestCase
TestHandingOut.settings = machine(6)
TestOnPostgres = OnPostgres.TestCase
TestOnPostgres.settings = machine(2)


@pytest.mark.sweep
class TestManyNights(HandingOut.TestCase):
    settings = machine(75)
