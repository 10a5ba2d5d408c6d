"""Ongoing conditions, such as failing runs or a late file, and when a notice about one is due.

A notice is due when a condition opens, when its cause changes, again after `notify_again_days`, and when it closes. Pure: takes the state
and the facts about a run, returns the new state and the changes to report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from loadsheet import exit_codes
from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications.state import Condition, NotificationState

RUN, UNKNOWN, LATE, WAITS = "run", "unknown", "late ", "waits "
"""The names of conditions: runs fail; outcomes are unknown; and prefixes, before the name of an expectation whose file is late, and before
that of a file whose companion is overdue.
"""

_ONE_OFFS_MAX = 100

ChangeKind = Literal["opened", "changed", "again", "closed", "once"]


class Change(NamedTuple):
    """A change to report: the condition by name, its values at the time, and its text for people."""

    kind: ChangeKind
    name: str
    condition: Condition
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a run that decide on conditions: when it ended, its exit code and error; texts by name of late files, of one-off
    events and of files that wait too long; how many outcomes are unknown. None: not known, so its conditions stay as they are.
    """

    at: datetime
    exit_code: int
    failure: str = ""
    late: Mapping[str, str] | None = None
    one_off: Mapping[str, str] = field(default_factory=dict)
    unknown: int | None = None
    waiting: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """`after`: runs in a row with exit code 75 before a notice. `again`: time until a notice is repeated (None: never)."""

    after: int = 2
    again: timedelta | None = None


def update_conditions(
    state: NotificationState, facts: Facts, rules: Rules
) -> tuple[NotificationState, Sequence[Change]]:
    """The state after a run, and the changes to report: failures first, closed conditions last."""
    open_now = dict(state.conditions)
    changes = [_run(open_now, facts, rules)]
    if facts.unknown is not None:
        text = f"{facts.unknown:,} outcome{'s are' if facts.unknown != 1 else ' is'} unknown" if facts.unknown else ""
        changes.append(_update_condition(open_now, UNKNOWN, text, facts, rules))
    for prefix, texts in ((LATE, facts.late), (WAITS, facts.waiting)):
        if texts is not None:
            current = {f"{prefix}{name}": text for name, text in texts.items()}
            known = [name for name in open_now if name.startswith(prefix)]
            changes += [
                _update_condition(open_now, name, current.get(name, ""), facts, rules)
                for name in dict.fromkeys((*known, *current))
            ]
    new = [name for name in facts.one_off if name not in state.once]
    if RUN not in state.conditions:  # while runs fail, a missing run is part of that condition
        changes += [Change("once", name, Condition(stamp(facts.at)), facts.one_off[name]) for name in new]
    due = sorted((change for change in changes if change is not None), key=lambda change: change.kind == "closed")
    return replace(state, conditions=open_now, once=(*state.once, *new)[-_ONE_OFFS_MAX:]), due


def _run(open_now: dict[str, Condition], facts: Facts, rules: Rules) -> Change | None:
    if facts.exit_code in exit_codes.WORK_DONE:
        return _close(open_now, RUN)
    cause, now = str(facts.exit_code), stamp(facts.at)
    before = open_now.get(RUN)
    if before is None:
        condition = Condition(now, cause=cause, text=facts.failure)
    else:
        streak = before.streak + 1 if before.cause == cause else 1
        condition = replace(before, runs=before.runs + 1, cause=cause, streak=streak, text=facts.failure)
    patience = rules.after if facts.exit_code == exit_codes.TRY_AGAIN else 1
    if cause != condition.told_cause and condition.streak < patience:
        open_now[RUN] = condition
        return None
    return _report(open_now, RUN, condition, facts, rules)


def _update_condition(
    open_now: dict[str, Condition], name: str, text: str, facts: Facts, rules: Rules
) -> Change | None:
    """Open, continue or close a condition that has one cause: it holds while `text` is not empty."""
    if not text:
        return _close(open_now, name)
    before = open_now.get(name)
    if before is None:
        condition = Condition(stamp(facts.at), cause=name, text=text)
    else:
        condition = replace(before, runs=before.runs + 1, text=text)
    return _report(open_now, name, condition, facts, rules)


def _report(
    open_now: dict[str, Condition], name: str, condition: Condition, facts: Facts, rules: Rules
) -> Change | None:
    kind: ChangeKind | None = None
    if not condition.told_at:
        kind = "opened"
    elif condition.cause != condition.told_cause:
        kind = "changed"
    elif rules.again is not None and facts.at - datetime.fromisoformat(condition.told_at) >= rules.again:
        kind = "again"
    if kind is not None:
        condition = replace(condition, told_at=stamp(facts.at), told_cause=condition.cause)
    open_now[name] = condition
    return None if kind is None else Change(kind, name, condition, condition.text)


def _close(open_now: dict[str, Condition], name: str) -> Change | None:
    condition = open_now.pop(name, None)
    if condition is None or not condition.told_at:
        return None
    return Change("closed", name, condition, condition.text)
