"""A state machine on a real ledger: whatever is planned, sent, settled or cut off in whatever order, what it knows stays true."""

import shutil
import tempfile
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import databases
import ledgers
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ready_entries import BY_NAME, Settlement

from loadsheet.contract import Action
from loadsheet.dispatch.batching import build_calls
from loadsheet.ledger import TRANSITIONS, State, Waits
from loadsheet.ledger.states import INITIAL
from loadsheet.problems import LedgerError

OPERATIONS = ["order.create", "order.update", "order.status", "order.delete"]
OUTCOMES = [State.READY, State.ACCEPTED, State.REFUSED, State.UNKNOWN]
OPEN = (State.SENDING, State.UNKNOWN)
documents = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 3), st.integers(0, 2)), max_size=5)


class LedgerMachine(RuleBasedStateMachine):
    """The model: the state, lane and number of attempts of each entry, and what was accepted on each lane in which order."""

    kind = "sqlite"

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.url = databases.new_url(self.kind, self.folder)
        self.states = {}
        self.attempts, self.changes = Counter(), Counter()
        self.applied = defaultdict(list)
        self.files = 0

    @initialize()
    def open_it(self):
        self.enter()

    def enter(self):
        self.opened = ledgers.ledger_at(self.url)
        self.ledger = self.opened.__enter__()
        self.run = self.ledger.begin_run()
        self.changes.update(entry for entry, held in self.states.items() if held is State.SENDING)
        self.states = {entry: State.UNKNOWN if held is State.SENDING else held for entry, held in self.states.items()}

    def teardown(self):
        self.opened.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    @rule(drawn=documents)
    def plan(self, drawn):
        self.files += 1
        made = [
            ledgers.document(name, self.payload(name, number, content), [("orders", row, ("x",))])
            for row, (name, number, content) in enumerate(drawn, start=2)
        ]
        drop = ledgers.plan(self.ledger, self.run, ledgers.drop_of(("orders", f"{self.files}.csv")), made)
        for document, entry in zip(made, self.ledger.queries.entries_of(drop.id), strict=True):
            assert entry.payload == document.payload
            assert entry.state in (State.READY, State.HELD, State.UNCHANGED, State.REFUSED)
            self.states[entry.id] = entry.state
            self.changes[entry.id] = 1
            if entry.state is State.READY and BY_NAME[entry.operation].action is Action.CREATE:
                assert not self.stands(entry.lane) or self.delete_waits(entry)

    def payload(self, name, number, content):
        note = {"order.delete": {}, "order.status": {"status_code": f"S{content}"}}
        return {"order_id": f"A-{number}", **note.get(name, {"currency": f"C{content}"})}

    def entries(self):
        return [(entry, self.states[entry.id]) for entry in self.ledger.queries.entries_in(*State)]

    def stands(self, lane):
        """Whether the exchange accepted the record of a lane and no delete of it since."""
        made = [name for name in self.applied[lane] if BY_NAME[name].action in (Action.CREATE, Action.DELETE)]
        return made[-1:] == ["order.create"]

    def delete_waits(self, before):
        return any(
            entry.lane == before.lane and entry.operation == "order.delete" and held is State.READY
            for entry, held in self.entries_before(before.id)
        )

    def entries_before(self, identity):
        found = (entry for entry in self.ledger.queries.entries_in(*State) if entry.id < identity)
        return [(entry, self.states[entry.id]) for entry in found]

    @rule(window=st.integers(1, 6), batch=st.integers(1, 3))
    def send(self, window, batch):
        ready = self.ledger.ready(window)
        assert [one.id for one in ready] == sorted(one.id for one in ready)
        lanes = {entry.lane for entry, held in self.entries() if held in OPEN}
        assert not lanes & {one.lane for one in ready}
        calls = build_calls(ready, batch)
        self.ledger.mark_sending(self.run, [(call.submissions, call.body) for call in calls])
        for call in calls:
            for one in call.submissions:
                assert self.states[one.id] is State.READY
                assert one.attempts == self.attempts[one.id]
                self.states[one.id] = State.SENDING
                self.attempts[one.id] += 1
                self.changes[one.id] += 1

    @precondition(lambda self: State.SENDING in self.states.values())
    @rule(drawn=st.data())
    def settle(self, drawn):
        under_way = [entry for entry, held in self.states.items() if held is State.SENDING]
        chosen = drawn.draw(st.lists(st.sampled_from(under_way), unique=True, min_size=1))
        outcomes = {entry: drawn.draw(st.sampled_from(OUTCOMES)) for entry in chosen}
        self.change(outcomes)

    @precondition(lambda self: State.UNKNOWN in self.states.values())
    @rule(drawn=st.data())
    def resolve(self, drawn):
        entry = drawn.draw(st.sampled_from([entry for entry, held in self.states.items() if held is State.UNKNOWN]))
        self.change({entry: drawn.draw(st.sampled_from([State.ACCEPTED, State.READY]))})

    def change(self, outcomes):
        self.ledger.settle(
            self.run, [Settlement(entry, held, "drawn", outcome=str(held)) for entry, held in outcomes.items()]
        )
        self.states.update(outcomes)
        self.changes.update(outcomes.keys())
        for entry, held in outcomes.items():
            found = self.ledger.queries.entry(entry)
            if held is State.ACCEPTED:
                self.applied[found.lane].append(found.operation)
            elif held is State.REFUSED and found.operation == "order.delete":
                self.hold_creates_behind(found)

    def hold_creates_behind(self, refused):
        """A create was planned behind a delete: when that is refused, the record still stands, so the create is judged anew."""
        for entry, held in self.entries():
            behind = entry.lane == refused.lane and entry.id > refused.id
            if behind and held is State.READY and entry.operation == "order.create":
                self.states[entry.id] = State.HELD
                self.changes[entry.id] += 1

    @precondition(lambda self: self.states)
    @rule(drawn=st.data())
    def settle_what_may_not_be(self, drawn):
        entry = drawn.draw(st.sampled_from(sorted(self.states)))
        wrong = [held for held in State if held not in TRANSITIONS[self.states[entry]]]
        others = [
            Settlement(other, State.ACCEPTED, "drawn") for other, held in self.states.items() if held is State.SENDING
        ]
        change = Settlement(entry, drawn.draw(st.sampled_from(wrong)), "drawn")
        try:
            self.ledger.settle(self.run, [*others, change])
        except LedgerError:
            return
        raise AssertionError(f"{entry} is {self.states[entry]}")

    @rule(orphans=st.booleans())
    def let_go(self, orphans):
        self.ledger.release(self.run, orphans=orphans)
        self.follow({State.HELD})

    @rule()
    def hold_what_waits(self):
        self.ledger.hold_waiting(self.run)
        self.follow({State.READY})
        stuck = [entry for entry, held in self.entries() if held is State.READY]
        assert [one.id for one in self.ledger.ready(100)] == [entry.id for entry in stuck]

    @rule(number=st.integers(1, 3))
    def see(self, number):
        self.ledger.record_seen(self.run, [f"order:A-{number}"])

    def follow(self, left):
        """Take over what the ledger changed by itself: only out of these states, as the table allows, with one event each."""
        for entry in self.ledger.queries.entries_in(*State):
            before, more = self.states[entry.id], len(self.ledger.queries.events_of(entry.id)) - self.changes[entry.id]
            assert more in (0, 1)
            if more:
                assert before in left
                assert entry.state in TRANSITIONS[before]
            else:
                assert entry.state is before
            self.states[entry.id] = entry.state
            self.changes[entry.id] += more

    @rule()
    def die(self):
        self.opened.__exit__(None, None, None)
        self.enter()
        assert self.ledger.check() == []

    @rule()
    def end_the_night(self):
        self.ledger.end_run(self.run, exit_code=0, summary={})
        self.die()

    @invariant()
    def it_knows_what_happened(self):
        if not hasattr(self, "ledger"):
            return
        lanes, all_events = Counter(), defaultdict(list)
        with self.ledger._engine.connect() as connection:
            for row in connection.exec_driver_sql("select entry_id, before, after from events order by id"):
                all_events[row.entry_id].append(row)
            attempts = Counter(connection.exec_driver_sql("select entry_id from attempts").scalars())
        for entry, held in self.entries():
            assert entry.state is held
            assert entry.attempts == self.attempts[entry.id] == attempts[entry.id]
            events = all_events[entry.id]
            assert len(events) == self.changes[entry.id]
            assert entry.waits is Waits.DECISION or held in (State.READY, State.HELD)
            assert events[0].before == ""
            assert State(events[0].after) in INITIAL
            assert all(State(one.after) in TRANSITIONS[State(one.before)] for one in events[1:])
            assert events[-1].after == held
            assert all(one.after == other.before for one, other in pairwise(events))
            assert sum(event.after == State.SENDING for event in events) == entry.attempts
            lanes[entry.lane] += held is State.SENDING and BY_NAME[entry.operation].action is not Action.STATUS
        assert max(lanes.values(), default=0) <= 1, "one call at a time on a lane"


@pytest.mark.journey
class TestLedgerMachine(LedgerMachine.TestCase):
    settings = settings(
        max_examples=8, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


@pytest.mark.sweep
class TestManyNights(LedgerMachine.TestCase):
    settings = settings(
        max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


class OnPostgres(LedgerMachine):
    """The same on a server."""

    kind = "postgresql"


@pytest.mark.sweep
class TestOnPostgres(OnPostgres.TestCase):
    settings = settings(
        max_examples=10, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
