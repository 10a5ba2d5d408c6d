"""The match by key: what the ledger knows of a lane, and the rules that follow from it and from what is listed.

A lane is one business record (`order:4711`); the last accepted create, update or delete on it says what the exchange should
hold. Lanes do not bear on each other; contents are compared in `settling`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from loadsheet.contract import WRITES, Action
from loadsheet.ledger import Entry, State, Trace
from loadsheet.reconcile.verdicts import Leg, OnlyListed, Verdict

TRACED = (State.ACCEPTED, State.SENDING, State.UNKNOWN, State.REFUSED)
"""The states of entries that say something about what the exchange may hold."""

PROVABLE = frozenset(operation.name for operation in WRITES if operation.proved_by)
EVENTS = frozenset(operation.name for operation in WRITES if operation.action is Action.STATUS)
"""Operations of which one record may have many, told apart by nothing."""

DELETES = frozenset(operation.name for operation in WRITES if operation.action is Action.DELETE)

BY_STATE = {
    State.INVALID: Verdict.INVALID,
    State.HELD: Verdict.HELD,
    State.READY: Verdict.WAITING,
    State.REFUSED: Verdict.REFUSED,
    State.SENDING: Verdict.UNKNOWN,
    State.UNKNOWN: Verdict.UNKNOWN,
}
"""The verdicts that an entry's state alone gives."""


@dataclass(slots=True)
class Lane:
    """What the ledger knows of the record of a lane: the last accepted entry that it comes from (0: none), with its content
    hash and whether that deleted it; whether a call on it may have worked, and whether one was refused.
    """

    last: int = 0
    last_hash: str = ""
    deleted: bool = False
    perhaps: bool = False
    refused: bool = False

    @property
    def expected(self) -> bool:
        """Whether a listed record of this lane is no stranger."""
        return bool(self.last and not self.deleted) or self.perhaps

    def stands(self, entry: Entry) -> bool:
        """Whether the exchange's record should be as this entry says: it was accepted last, or is unchanged from what was."""
        return bool(self.last) and (entry.id == self.last or self.repeats(entry))

    def repeats(self, entry: Entry) -> bool:
        """Whether an unchanged entry's content is what was accepted last; others wait for an entry that was not accepted yet."""
        same = bool(self.last) and entry.content_hash == self.last_hash
        return same and entry.state is State.UNCHANGED and entry.operation in PROVABLE


UNKNOWN_LANE = Lane()


def lanes_of(traces: Iterable[Trace]) -> dict[str, Lane]:
    """What is known of each lane by its traced entries, which come in the order in which they got there."""
    lanes: dict[str, Lane] = {}
    for trace in traces:
        if trace.operation not in PROVABLE:
            continue
        lane = lanes.get(trace.lane)
        if lane is None:
            lane = lanes[trace.lane] = Lane()
        if trace.state is State.ACCEPTED:
            lane.last, lane.last_hash, lane.deleted = trace.id, trace.content_hash, trace.operation in DELETES
        elif trace.state is State.REFUSED:
            lane.refused = True
        else:
            lane.perhaps = True
    return lanes


def by_rule(entry: Entry, lane: Lane, leg: Leg, times: int) -> Verdict | None:
    """The verdict on an entry whose record is listed so many times; None: the contents decide. The first rule that fits counts."""
    if (told := BY_STATE.get(entry.state)) is not None:  # what was not accepted is told by its state
        return told
    unchanged = entry.state is State.UNCHANGED
    if unchanged and not lane.repeats(entry):
        return Verdict.UNCHANGED
    # accepted from here on; what has no listing, or is not what should be listed now
    if entry.operation not in PROVABLE:
        return Verdict.ACKNOWLEDGED
    if not lane.stands(entry):
        return Verdict.REPLACED
    if not leg.read:
        return Verdict.NOT_VERIFIABLE
    deletes = entry.operation in DELETES
    return _listed(times, deletes=deletes) if times else _absent(leg, deletes=deletes, unchanged=unchanged)


def _listed(times: int, *, deletes: bool) -> Verdict | None:
    if times > 1:
        return Verdict.LISTED_TWICE
    return Verdict.STILL_LISTED if deletes else None


def _absent(leg: Leg, *, deletes: bool, unchanged: bool) -> Verdict:
    if not leg.complete:
        return Verdict.NOT_VERIFIABLE
    if deletes:
        return Verdict.UNCHANGED if unchanged else Verdict.MATCHED
    return Verdict.MISSING


def stranger(name: str, lane: Lane, waiting: str) -> OnlyListed:
    """A listed record that was never accepted from here, or was deleted from here before; `waiting` is the state of this run's
    last entry on its lane (empty: none).
    """
    subject, _, key = name.partition(":")
    if lane.deleted:
        return OnlyListed(subject, key, "it was deleted from here and is there again")
    if lane.refused:
        return OnlyListed(subject, key, "the document for it was refused")
    return OnlyListed(
        subject, key, f"the document for it is {waiting}" if waiting else "no document for it came through here"
    )
