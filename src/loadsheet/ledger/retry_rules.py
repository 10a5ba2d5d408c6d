"""Whether a refused or held entry may be brought back to be sent, given what became of its lane since. Pure decisions, no SQL.

Owns: that nothing comes back which a newer version replaced, that stands elsewhere already, or whose outcome was never proved; and
that a changed create comes back as the update of what was created.
"""

from collections.abc import Sequence
from typing import NamedTuple

from loadsheet.contract import BY_NAME, Action, update_of
from loadsheet.ledger.states import Attempt, Entry, State, Trace, Waits

_ALIVE = (State.READY, State.SENDING, State.ACCEPTED, State.UNKNOWN)
_OPEN = (State.SENDING, State.UNKNOWN)


class Retry(NamedTuple):
    """Why an entry may not come back (empty: it may), and the operation as which it is sent, if that is another one."""

    refusal: str = ""
    operation: str = ""


def unproved(attempts: Sequence[Attempt]) -> bool:
    """Whether an attempt of an entry may have worked although nobody knows."""
    return any(attempt.outcome in ("", "unknown") for attempt in attempts)


def judge_retry(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[Trace]) -> Retry:
    """Whether a refused or held entry may come back; `lane` holds all entries of its lane."""
    if refusal := _barred(entry, attempts, lane):
        return Retry(refusal)
    family = [one for one in lane if one.id != entry.id and _same_thing(one, entry)]
    if any(one.state in _ALIVE and one.content_hash == entry.content_hash and one.id > entry.id for one in family):
        return Retry("the same content was sent since, or will be")
    newer = [one for one in family if one.id > entry.id and one.state in (*_ALIVE, State.HELD, State.REFUSED)]
    if newer:
        return Retry(f"a newer version took its place (entry {newer[-1].id})")
    if not BY_NAME[entry.operation].creates:
        return Retry()
    return _retry_create(entry, lane)


def _barred(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[Trace]) -> str:
    """What bars an entry whatever else became of its record; empty if nothing does."""
    if entry.removed:
        return f"its contents were removed on {entry.removed[:10]}; to send it again, drop its file again"
    if entry.state is State.HELD and unproved(attempts):
        return f"whether it arrived was never proved; decide that: loadsheet resolve {entry.key}"
    if entry.waits is Waits.EARLIER or any(one.state in _OPEN for one in lane):
        return f"an earlier outcome is unknown; settle that first: loadsheet resolve {entry.key}"
    return ""


def _same_thing(one: Trace, entry: Entry) -> bool:
    """Whether another entry is a version of the same thing: for repeatable operations only one of the same content is."""
    if BY_NAME[entry.operation].repeatable:
        return one.operation == entry.operation and one.content_hash == entry.content_hash
    return one.operation in {entry.operation, _updating(entry)} and one.key == entry.key


def _retry_create(entry: Entry, lane: Sequence[Trace]) -> Retry:
    standing = False
    for one in sorted(lane):
        action = BY_NAME[one.operation].action
        if one.state is State.READY and action is Action.CREATE:
            return Retry(f"another version waits to be sent (entry {one.id})")
        if one.state is State.ACCEPTED and action in (Action.CREATE, Action.DELETE):
            standing = action is Action.CREATE
    return Retry(operation=_updating(entry)) if standing else Retry()


def _updating(entry: Entry) -> str:
    operation = update_of(BY_NAME[entry.operation])
    return operation.name if operation else ""
