"""A state machine of nights on a real ledger: whatever comes, is lost, looked up, waits or dies, no child leaves before its order, nothing leaves
twice, and what the ledger knows stays true.
"""

import shutil
import tempfile
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise
from pathlib import Path

import databases
import ledgers
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from ready_entries import BY_NAME, Settlement

from loadsheet.dispatch.calls_in_flight import build_calls
from loadsheet.ledger import TRANSITIONS, State, Waits
from loadsheet.ledger.models import INITIAL

OPERATIONS = ["order.create", "order.create", "order.update", "order.status", "order.status", "order.delete"]
OPERATIONS += [ledgers.UPSERT, ledgers.UPSERT]
FATES = ["accepted", "accepted", "refused", "lost", "answer lost"]
documents = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 2), st.integers(0, 1)), min_size=1, max_size=5
)


class NightMachine(RuleBasedStateMachine):
    """The model: which orders are at the exchange, how often each content was applied since its order was made, and lost calls."""

    kind = "sqlite"

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.there = set()
        self.seen = set()
        self.made_by = {}
        self.applied = Counter()
        self.worked = {}
        self.given_up = {}
        self.files = 0

    @initialize()
    def open_it(self):
        self.url = databases.new_url(self.kind, self.folder)
        self.enter()

    def enter(self):
        self.opened = ledgers.ledger_at(self.url)
        self.ledger = self.opened.__enter__()
        self.run = self.ledger.begin_run()

    def teardown(self):
        self.opened.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    @rule(drawn=documents)
    def night(self, drawn):
        """Files come; what the last night left is released before and after they are judged."""
        self.run = self.ledger.begin_run()
        self.ledger.release(self.run)
        self.files += 1
        made = [
            self.document(name, self.payload(name, number, content), [("orders", row, ("x",))])
            for row, (name, number, content) in enumerate(drawn, start=2)
        ]
        drop = ledgers.drop_of(("orders", f"{self.files}.csv"))
        ledgers.plan(self.ledger, self.run, drop, made, seen=False)
        self.ledger.release(self.run)
        assert self.ledger.release(self.run) == 0

    def document(self, name, payload, rows):
        make = ledgers.upsert if name == ledgers.UPSERT else partial(ledgers.document, name)
        return make(payload, rows)

    def payload(self, name, number, content):
        note = {"order.delete": {}, "order.status": {"status_code": f"S{content}"}}
        return {"order_id": f"A-{number}", **note.get(name, {"currency": f"C{content}"})}

    @rule(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=12))
    def send(self, fates):
        self.ledger.release(self.run)  # as every run does before it sends
        for fate in fates:
            ready = self.ledger.ready(1)
            if not ready:
                break
            self.call(ready[0], fate)

    def call(self, one, fate):
        known = one.lane in self.there or one.lane in self.seen
        assert BY_NAME[one.operation].creates or known, f"{one.operation} left before its order"
        self.ledger.mark_sending(self.run, [([one], one.payload)])
        if fate in ("accepted", "answer lost"):
            self.apply(one)
        state = {"accepted": State.ACCEPTED, "refused": State.REFUSED}.get(fate, State.UNKNOWN)
        if state is State.UNKNOWN:
            self.worked[one.id] = fate == "answer lost"
        self.ledger.settle(self.run, [Settlement(one.id, state, fate, outcome=str(state))])

    def apply(self, one):
        if one.operation == "order.create":
            assert one.lane not in self.there, "an order that stands is created again"
            self.there.add(one.lane)
            self.made_by[one.lane] = one.id
        elif one.operation == "order.delete":
            assert self.made_by.get(one.lane, 0) < one.id, "a delete takes away what came after it"
            self.there.discard(one.lane)
            self.seen.discard(one.lane)
        elif one.operation == "order.status":
            self.applied[one.lane, one.payload] += 1
            assert self.applied[one.lane, one.payload] == 1, "an event is applied twice"

    @rule(worked=st.booleans(), number=st.integers(0, 3))
    def die(self, worked, number):
        """The process ends while calls are under way: what became of them is unknown to the next."""
        some = self.ledger.ready(number)
        calls = build_calls(some, 2)
        self.ledger.mark_sending(self.run, [(call.submissions, call.body) for call in calls])
        for one in (one for call in calls for one in call.submissions):
            self.worked[one.id] = worked
            if worked:
                self.apply(one)
        self.opened.__exit__(None, None, None)
        self.enter()
        assert self.ledger.check() == []
        assert {one.id for one in self.ledger.queries.entries_in(State.UNKNOWN)} == self.worked.keys()

    @invariant()
    def every_change_is_recorded(self):
        """An event for each change, as the table allows it; an attempt for each time of sending; one call at a time on a lane."""
        if not hasattr(self, "ledger"):
            return
        with self.ledger._engine.connect() as connection:
            rows = connection.exec_driver_sql("select entry_id, before, after from events order by id").all()
            attempts = Counter(connection.exec_driver_sql("select entry_id from attempts").scalars())
        events = defaultdict(list)
        for row in rows:
            events[row.entry_id].append(row)
        sending = Counter()
        for entry in self.ledger.queries.entries_in(*State):
            first, *later = events[entry.id]
            assert (first.before, State(first.after) in INITIAL) == ("", True)
            assert all(State(one.after) in TRANSITIONS[State(one.before)] for one in later)
            assert all(one.after == other.before for one, other in pairwise(events[entry.id]))
            assert events[entry.id][-1].after == entry.state
            assert sum(one.after == State.SENDING for one in later) == entry.attempts == attempts[entry.id]
            assert entry.waits is Waits.DECISION or entry.state in (State.READY, State.HELD)
            sending[entry.lane] += entry.state in (State.SENDING, State.UNKNOWN) and entry.operation != "order.status"
        assert max(sending.values(), default=0) <= 1

    @rule(again=st.booleans())
    def look_up(self, again):
        """What worked is shown; what did not is sent again, or given up by a person."""
        for entry in list(self.ledger.queries.entries_in(State.UNKNOWN)):
            state = State.ACCEPTED if self.worked.pop(entry.id) else State.READY if again else State.HELD
            self.ledger.settle(self.run, [Settlement(entry.id, state, "looked up")])
            if state is State.HELD:
                self.given_up[entry.id] = entry.lane
        self.ledger.release(self.run)
        waiting = {one.lane for one in self.ledger.queries.entries_in(State.HELD) if one.waits is Waits.EARLIER}
        assert waiting <= set(self.given_up.values()), "nothing else is open any more"

    @rule(there=st.booleans())
    def decide(self, there):
        """What was given up is sent again after all, or had arrived late."""
        decided = State.ACCEPTED if there else State.READY
        for one in self.given_up if there else ():
            self.apply(self.ledger.queries.entry(one))
        self.ledger.settle(self.run, [Settlement(one, decided, "decided") for one in self.given_up])
        self.given_up.clear()
        self.ledger.release(self.run)

    @rule()
    def look_for_orders(self):
        """A listing shows every order that is there."""
        self.ledger.record_seen(self.run, self.there)
        self.seen |= self.there
        self.ledger.release(self.run)

    @rule()
    def end(self):
        """What cannot be sent is held and says why; all else that is ready can be sent."""
        self.ledger.hold_waiting(self.run)
        ready = {entry.id for entry in self.ledger.queries.entries_in(State.READY)}
        assert ready == {one.id for one in self.ledger.ready(1000)}
        for entry in self.ledger.queries.entries_in(State.HELD):
            codes = {problem.code for problem in entry.problems}
            assert entry.waits is not Waits.PARENT or codes == {"L607"}
            assert entry.waits is not Waits.EARLIER or codes in ({"L602"}, {"L607"})  # the latter are upserts


def nights(examples):
    return settings(
        max_examples=examples,
        stateful_step_count=20,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


TestNightMachine = NightMachine.TestCase
TestNightMachine.settings = nights(12)


class OnPostgres(NightMachine):
    """The same on a server."""

    kind = "postgresql"


TestOnPostgres = OnPostgres.TestCase
TestOnPostgres.settings = nights(3)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("machine", "examples"), [(NightMachine, 300), (OnPostgres, 12)])
def test_many_nights(machine, examples):
    run_state_machine_as_test(machine, settings=nights(examples))
