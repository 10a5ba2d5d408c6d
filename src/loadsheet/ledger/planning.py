"""What a new document means, given what the ledger already knows on its lane: pure decisions, no SQL.

The ledger, not the file, decides what is sent: the same file, a renamed copy and a pasted-together file get the same answer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, Action
from loadsheet.ledger.states import State, Waits
from loadsheet.mapping.documents import Document
from loadsheet.problems import Problem

_OPEN = (State.SENDING, State.UNKNOWN)
_REPLACING = (Action.CREATE, Action.UPDATE, Action.DELETE)
_DIFFERENCES_SHOWN = 5


class Known(NamedTuple):
    """An earlier entry on the same lane, oldest first: one that is, was or will be at the exchange."""

    id: int
    operation: str
    key: str
    state: State
    content_hash: str
    payload: bytes
    receipt: str
    problems: tuple[Problem, ...]


class Verdict(NamedTuple):
    """The state in which a document is planned, why, and a problem to add to its own, if there is one."""

    state: State
    reason: str = ""
    problem: Problem | None = None
    receipt: str = ""
    waits: Waits = Waits.DECISION


def judge(document: Document, lane: Sequence[Known]) -> Verdict:
    """The verdict on one document; `lane` holds what the ledger knows on its lane, oldest first."""
    if not document.usable:
        return Verdict(State.INVALID, "it has problems that the sender must fix")
    operation = BY_NAME[document.operation]
    if operation.repeatable:
        return _judge_by_content(document, _same(document, lane))
    if operation.action is Action.CREATE:
        if any(BY_NAME[known.operation].action is Action.DELETE and known.state in _OPEN for known in lane):
            return _in_doubt(document)  # whether the earlier record still stands, nobody knows
        return _judge_create(document, _same(document, _since_delete(lane)))
    if operation.action in _REPLACING:
        return _judge_latest(document, [known for known in lane if BY_NAME[known.operation].action in _REPLACING])
    return _judge_latest(document, _same(document, lane))


def _same(document: Document, lane: Sequence[Known]) -> list[Known]:
    return [known for known in lane if known.operation == document.operation and known.key == document.key]


def _since_delete(lane: Sequence[Known]) -> Sequence[Known]:
    for position in range(len(lane) - 1, -1, -1):
        known = lane[position]
        if BY_NAME[known.operation].action is Action.DELETE and known.state in (State.ACCEPTED, State.READY):
            return lane[position + 1 :]
    return lane


def _judge_by_content(document: Document, same: Sequence[Known]) -> Verdict:
    for known in reversed(same):
        if known.content_hash == document.content_hash and known.state is not State.REFUSED:
            return _judge_equal(document, known)
    return Verdict(State.READY)


def _judge_create(document: Document, same: Sequence[Known]) -> Verdict:
    standing = [known for known in same if known.state is not State.REFUSED]
    if standing:
        last = standing[-1]
        return _judge_equal(document, last) if _equal(document, last) else _judge_different(document, last)
    if same and _equal(document, same[-1]):
        said = "; ".join(problem.text for problem in same[-1].problems if problem.code == "X701")
        return Verdict(State.REFUSED, "refused before", Problem("L604", values={"key": document.key, "text": said}))
    return Verdict(State.READY)


def _judge_latest(document: Document, family: Sequence[Known]) -> Verdict:
    last = family[-1] if family else None
    if last is not None and last.state is not State.REFUSED and _equal(document, last):
        return _judge_equal(document, last)
    return Verdict(State.READY)


def _equal(document: Document, known: Known) -> bool:
    return known.operation == document.operation and known.content_hash == document.content_hash


def _judge_equal(document: Document, known: Known) -> Verdict:
    if known.state in _OPEN:
        return _in_doubt(document)
    if known.state is State.ACCEPTED:
        return Verdict(State.UNCHANGED, f"already with the exchange (entry {known.id})", receipt=known.receipt)
    waiting = Problem("L603", values={"key": document.key}, level="warning")
    return Verdict(State.UNCHANGED, f"already waiting as entry {known.id}", waiting)


def _in_doubt(document: Document) -> Verdict:
    problem = Problem("L602", values={"key": document.key})
    return Verdict(State.HELD, "earlier outcome unknown", problem, waits=Waits.EARLIER)


def _judge_different(document: Document, known: Known) -> Verdict:
    if known.state in _OPEN:
        return _in_doubt(document)
    fields = ", ".join(differences(known.payload, document.payload))
    code, reason = (
        ("L601", "changed since it was accepted")
        if known.state is State.ACCEPTED
        else ("L605", "an older version waits")
    )
    return Verdict(State.HELD, reason, Problem(code, values={"key": document.key, "fields": fields}))


def differences(before: bytes, after: bytes) -> list[str]:
    """The top-level fields in which two JSON records differ, each as `name 1 -> 2`; long ones only by name."""
    old, new = (msgspec.json.decode(record, type=dict[str, msgspec.Raw]) for record in (before, after))
    names = [name for name in {**old, **new} if _compact(old.get(name)) != _compact(new.get(name))]
    shown = [_difference(name, old.get(name), new.get(name)) for name in names[:_DIFFERENCES_SHOWN]]
    more = len(names) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _compact(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else bytes(raw)


def _difference(name: str, old: msgspec.Raw | None, new: msgspec.Raw | None) -> str:
    before, after = ("nothing" if raw is None else bytes(raw).decode() for raw in (old, new))
    too_long = max(len(before), len(after)) > 60  # noqa: PLR2004 (a message stays one line)
    return name if too_long or before[:1] in "[{" else f"{name} {before} -> {after}"
