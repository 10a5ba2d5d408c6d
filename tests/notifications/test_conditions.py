"""Conditions as a state machine: each is reported once when it opens and once when it closes, and while nothing changes not at all."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loadsheet import exit_codes
from loadsheet.operations.notifications import LATE, RUN, UNKNOWN, Facts, Rules, update_conditions
from loadsheet.operations.notifications.state import NotificationState

FIRST = datetime(2026, 3, 4, 2, 20, tzinfo=UTC)
PLAIN = Rules()

a_run = st.fixed_dictionaries({
    "exit_code": st.sampled_from((0, 1, 65, 70, 75, 77, 78)),
    "late": st.none() | st.dictionaries(st.sampled_from(["acme", "other", "run", "unknown"]), st.just("late"), max_size=3),
    "one_off": st.dictionaries(st.sampled_from(["gap 1", "gap 2"]), st.just("no run"), max_size=1),
    "unknown": st.none() | st.integers(0, 3),
})  # fmt: skip


def reported_after(runs, rules=PLAIN, step=timedelta(days=1)):
    """What is reported after each run, as (what, name, cause)."""
    kept, reported = NotificationState(), []
    for number, one in enumerate(runs):
        kept, changes = update_conditions(kept, Facts(FIRST + number * step, failure="why", **one), rules)
        reported.append([(change.kind, change.name, change.condition.cause) for change in changes])
    return reported


def test_failed_runs_are_reported_when_that_begins_changes_lasts_and_ends():
    opened, changed, closed, again = ["opened"], ["changed"], ["closed"], ["again"]
    for codes, rules, expected in (
        # a failed run is reported once, and the first good one after it once
        ((0, 77, 77, 77, 0, 0), PLAIN, [[], opened, [], [], closed, []]),
        # an exchange out of reach is reported after so many runs in a row
        ((75, 0, 75, 75, 75, 0), PLAIN, [[], [], [], opened, [], closed]),
        ((75, 75), Rules(after=1), [opened, []]),
        ((75, 75, 0), Rules(after=3), [[], [], []]),
        # another reason is reported even while runs fail
        ((70, 77, 77, 0), PLAIN, [opened, changed, [], closed]),
        ((77, 75, 75, 77), PLAIN, [opened, [], changed, changed]),
        ((77, 75, 77), PLAIN, [opened, [], []]),
        # rows that need someone are no failure
        ((1, 65, 0), PLAIN, [[], [], []]),
        # what lasts is reported again after a long time, if that is wished for
        ((77,) * 7, Rules(again=timedelta(days=3)), [opened, [], [], again, [], [], again]),
    ):
        found = reported_after([{"exit_code": code} for code in codes], rules)
        assert [[what for what, *_ in one] for one in found] == expected, (codes, rules)


@given(st.lists(a_run, max_size=25), st.integers(1, 4))
def test_what_is_open_is_what_is_so(runs, after):
    """A model that looks at the whole past: what is reported as open is so now, what is reported as closed is not."""
    is_open = set()
    for number, changes in enumerate(reported_after(runs, Rules(after=after)), start=1):
        names = [name for what, name, _ in changes if what != "once"]
        assert len(names) == len(set(names)), "one change of a condition at a time"
        for what, name, _ in changes:
            assert what == "once" or (name in is_open) == (what != "opened")
            if what == "opened":
                is_open.add(name)
            elif what == "closed":
                is_open.remove(name)
        assert is_open == _so(runs[:number], after)


def _so(past, after):
    late = next((one["late"] for one in reversed(past) if one["late"] is not None), {})
    unknown = next((one["unknown"] for one in reversed(past) if one["unknown"] is not None), 0)
    found = {f"{LATE}{what}" for what in late} | ({UNKNOWN} if unknown else set())
    streak = []
    for one in reversed(past):
        if one["exit_code"] in exit_codes.WORK_DONE:
            break
        streak.insert(0, one["exit_code"])
    tells = [
        number
        for number, code in enumerate(streak)
        if code != 75 or (number + 1 >= after and set(streak[number + 1 - after : number + 1]) == {75})
    ]
    return found | ({RUN} if tells else set())


@given(a_run, st.integers(2, 6))
def test_nothing_is_reported_when_nothing_changes(one, times):
    changes = reported_after([one] * (times + 4), Rules(after=2))
    assert all(again == [] for again in changes[2:])


@given(st.lists(a_run, max_size=15))
def test_a_gap_between_runs_is_reported_once(runs):
    found = Counter(name for one in reported_after(runs) for what, name, _ in one if what == "once")
    assert set(found.values()) <= {1}
    assert set(found) == gaps_of_the_model(runs)


def gaps_of_the_model(runs):
    """A gap between runs is news unless the run before could not do its work either: that was reported as what it was."""
    heard, news = set(), set()
    for before, one in pairwise([{"exit_code": 0}, *runs]):
        if before["exit_code"] in exit_codes.WORK_DONE:
            news |= set(one["one_off"]) - heard
        heard |= set(one["one_off"])
    return news
