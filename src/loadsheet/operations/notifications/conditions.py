"""Conditions: what is so until it is not any more, and what of it is to be told.

Owns: that each is told once when it opens and once when it closes, and in between only that its reason has changed, or that it is
still so after a long time. Pure: what was remembered and what a night came to in, what to remember and what to tell out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications.state import Condition, Kept

RUN, UNKNOWN, LATE, WAITS = "run", "unknown", "late ", "waits "
"""The names of conditions: that runs fail, that outcomes are unknown, and before the names of an expectation and of a file that waits
for its companion for too long.
"""

WELL = frozenset({0, 1, 65})
"""The exit codes of runs that did what a run does; rows that need someone are for the digest."""

TRY_AGAIN = 75
_ONCE_KEPT = 100

What = Literal["opened", "changed", "again", "closed", "once"]


class Change(NamedTuple):
    """Something to be told: what has become of which condition, how it stood (`runs` and `since` as in `Condition`), and its words."""

    what: What
    name: str
    condition: Condition
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What a night came to, as far as conditions go by it: when it ended, its exit code and what it says; what is late and what is over
    by what they are called, how many outcomes are unknown, and which files wait for too long. None: nobody knows, so nothing changes.
    """

    at: datetime
    exit_code: int
    failure: str = ""
    late: Mapping[str, str] | None = None
    over: Mapping[str, str] = field(default_factory=dict)
    unknown: int | None = None
    waiting: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """After how many runs in a row exit code 75 is told, and after how much time what is still so is told again (None: never)."""

    after: int = 2
    again: timedelta | None = None


def turn(kept: Kept, facts: Facts, rules: Rules) -> tuple[Kept, Sequence[Change]]:
    """What to remember after a night, and what to tell of it: failures first, what is well again last."""
    open_now = dict(kept.conditions)
    changes = [_run(open_now, facts, rules)]
    if facts.unknown is not None:
        text = f"{facts.unknown:,} outcome{'s are' if facts.unknown != 1 else ' is'} unknown" if facts.unknown else ""
        changes.append(_follow(open_now, UNKNOWN, text, facts, rules))
    for prefix, found in ((LATE, facts.late), (WAITS, facts.waiting)):
        if found is not None:
            so = {f"{prefix}{what}": text for what, text in found.items()}
            known = [name for name in open_now if name.startswith(prefix)]
            changes += [
                _follow(open_now, name, so.get(name, ""), facts, rules) for name in dict.fromkeys((*known, *so))
            ]
    news = [what for what in facts.over if what not in kept.once]
    if RUN not in kept.conditions:  # runs that could not begin have been told, or are of no account: they took place
        changes += [Change("once", what, Condition(stamp(facts.at)), facts.over[what]) for what in news]
    told = sorted((change for change in changes if change is not None), key=lambda change: change.what == "closed")
    return replace(kept, conditions=open_now, once=(*kept.once, *news)[-_ONCE_KEPT:]), told


def _run(open_now: dict[str, Condition], facts: Facts, rules: Rules) -> Change | None:
    if facts.exit_code in WELL:
        return _close(open_now, RUN)
    cause, now = str(facts.exit_code), stamp(facts.at)
    before = open_now.get(RUN)
    if before is None:
        condition = Condition(now, cause=cause, text=facts.failure)
    else:
        streak = before.streak + 1 if before.cause == cause else 1
        condition = replace(before, runs=before.runs + 1, cause=cause, streak=streak, text=facts.failure)
    patience = rules.after if facts.exit_code == TRY_AGAIN else 1
    if cause != condition.told_cause and condition.streak < patience:
        open_now[RUN] = condition
        return None
    return _tell(open_now, RUN, condition, facts, rules)


def _follow(open_now: dict[str, Condition], name: str, text: str, facts: Facts, rules: Rules) -> Change | None:
    """A condition that is so if there is a text, for one reason only."""
    if not text:
        return _close(open_now, name)
    before = open_now.get(name)
    if before is None:
        condition = Condition(stamp(facts.at), cause=name, text=text)
    else:
        condition = replace(before, runs=before.runs + 1, text=text)
    return _tell(open_now, name, condition, facts, rules)


def _tell(open_now: dict[str, Condition], name: str, condition: Condition, facts: Facts, rules: Rules) -> Change | None:
    what: What | None = None
    if not condition.told_at:
        what = "opened"
    elif condition.cause != condition.told_cause:
        what = "changed"
    elif rules.again is not None and facts.at - datetime.fromisoformat(condition.told_at) >= rules.again:
        what = "again"
    if what is not None:
        condition = replace(condition, told_at=stamp(facts.at), told_cause=condition.cause)
    open_now[name] = condition
    return None if what is None else Change(what, name, condition, condition.text)


def _close(open_now: dict[str, Condition], name: str) -> Change | None:
    condition = open_now.pop(name, None)
    if condition is None or not condition.told_at:
        return None
    return Change("closed", name, condition, condition.text)
