"""Settles each entry of a call: its new state, the reason, and the problems its sender gets to see.

A refused batch names its records as `data[<index>]`. The interface says neither whether the index counts from 0 or from 1 nor whether the
other records were applied (interface: Errors, Order status update). This module assigns faults to records only as far as the answer
proves it: a guess would reject a correct record and lose another one's event.

A refusal after an unknown attempt proves nothing. Reads the ledger, changes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, Assumptions, Fault, checker
from loadsheet.dispatch import error_location
from loadsheet.dispatch.batching import Call
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind, faults_text
from loadsheet.dispatch.unknown_rules import SAME_TWICE
from loadsheet.ledger import Settlement, State, Submission
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import Problem
from loadsheet.settings import EMBEDDED, Settings

_ORIGINS_KEPT = 16  # a drop's origin is needed again for each of its refusals
_SUSPECT = "sent again by itself, because its batch was refused: "
_DOUBLED = "L608"

_decode = msgspec.json.Decoder(float_hook=Decimal).decode

RuleCheck = Callable[[int, str], bool]  # whether the field (path) of a record (position) violates our own rules

BASES = (0, 1)


class FaultAssignment(NamedTuple):
    """The faults of each record, by its position from 0. `proved`: each of these records is refused; else one of a record and its
    neighbour is.
    """

    faults: dict[int, list[Fault]]
    proved: bool


def assign_faults(faults: Sequence[Fault], count: int, base: int | None, breaks: RuleCheck) -> FaultAssignment | None:
    """Assign the faults of a refused batch of `count` records to its records; None if a fault names no record of it.

    `base` is the first index, if known. Otherwise index 0 proves base 0 and index `count` proves base 1; failing both, a field proves it
    that violates our own rules in one record and not in the other.
    """
    if not faults or any(fault.index is None for fault in faults):
        return None
    bases = [one for one in (BASES if base is None else (base,)) if _inside(faults, count, one)]
    if len(bases) > 1:
        shown = [one for one in bases if _shown(faults, one, breaks)]
        bases = shown if len(shown) == 1 else bases
    if not bases:
        return None
    by_position: dict[int, list[Fault]] = {}
    for one in bases:
        for fault in faults:
            by_position.setdefault(_position(fault, one), []).append(fault)
    return FaultAssignment(by_position, proved=len(bases) == 1)


def _inside(faults: Sequence[Fault], count: int, base: int) -> bool:
    return all(0 <= _position(fault, base) < count for fault in faults)


def _shown(faults: Sequence[Fault], base: int, breaks: RuleCheck) -> bool:
    return any(breaks(_position(fault, base), fault.path) for fault in faults)


def _position(fault: Fault, base: int) -> int:
    return (fault.index or 0) - base


class BatchRules(NamedTuple):
    """How to read a 400 to a batch. `base` is the first index (None: only what the answer proves). `others` is what happened to the records
    it does not name: nothing (`atomic`), applied (`partial`), or unknown (`prove`).
    """

    base: Literal[0, 1] | None
    others: Literal["atomic", "partial", "prove"]

    @classmethod
    def of(cls, settings: Settings) -> "BatchRules":
        """The rules for the exchange of these settings. Those of the embedded exchange are known. For another one the setting of the base is
        used only where sending the named record and its neighbour again, each by itself, would duplicate one of them.
        """
        base, others = settings.assumptions.status_index_base, settings.assumptions.status_on_400
        if settings.exchange == EMBEDDED:
            return cls(settings.assumptions.index_base, "atomic" if others == "prove" else others)
        return cls(base if others == "partial" and base != "prove" else None, others)


class Settler:
    """Turns outcomes into settlements. `sizes` limits the batch size by entry id from now on."""

    def __init__(self, queries: LedgerQueries, settings: Settings) -> None:
        self.sizes: dict[int, int] = {}
        self._queries = queries
        self._assumptions = settings.assumptions
        self._rules = BatchRules.of(settings)
        self._origin = lru_cache(maxsize=_ORIGINS_KEPT)(queries.origin)

    def isolate_doubtful(self, submissions: Iterable[Submission]) -> None:
        """Send entries that may be at the exchange already in calls of their own, unless a refused batch is known to be applied to none: the
        answer then concerns that entry alone, and it is never there three times.
        """
        if self._rules.others == "atomic":
            return
        for one in submissions:
            if one.attempts and BY_NAME[one.operation].batched and one.id not in self.sizes and self._doubtful(one):
                self.sizes[one.id] = 1

    def recalled(self, call: Call) -> list[Settlement]:
        """The settlements of a recalled call."""
        outcome = Outcome(OutcomeKind.NOT_SENT, "sending paused or ended before its turn came")
        return [_settlement(entry, State.READY, outcome) for entry in call.submissions]

    def settle(self, call: Call, outcome: Outcome) -> list[Settlement]:
        """One settlement for each entry of the call, in its order."""
        if outcome.kind is OutcomeKind.ACCEPTED:
            return [self._accepted(entry, outcome) for entry in call.submissions]
        if outcome.kind is OutcomeKind.UNKNOWN:
            return [self._unknown(entry, outcome, outcome.reason) for entry in call.submissions]
        if outcome.kind is OutcomeKind.REFUSED:
            return self._refused(call, outcome)
        return [_settlement(entry, State.READY, outcome) for entry in call.submissions]

    def _accepted(self, submission: Submission, outcome: Outcome) -> Settlement:
        accepted = _settlement(submission, State.ACCEPTED, outcome)
        doubtful = [] if BY_NAME[submission.operation].action in SAME_TWICE else self._doubtful(submission)
        if not doubtful:
            return accepted
        entry = self._queries.entry(submission.id)
        if any(problem.code == _DOUBLED for problem in entry.problems):
            return accepted
        where = error_location.first_row(entry, self._origin(submission.drop))
        values = {"key": submission.key, "sends": len(doubtful) + 1}
        return accepted._replace(problems=(Problem(_DOUBLED, where, values=values, level="warning"),))

    def _refused(self, call: Call, outcome: Outcome) -> list[Settlement]:
        count = len(call.submissions)
        if count == 1:
            return [self._refusal(call.submissions[0], outcome, outcome.faults)]
        assignment = assign_faults(outcome.faults, count, self._rules.base, _own_rules(call, self._assumptions))
        if assignment is None:
            return self._split(call, outcome)
        return [
            self._named_entry(entry, outcome, assignment, assignment.faults[position])
            if position in assignment.faults
            else self._unnamed_entry(entry, outcome)
            for position, entry in enumerate(call.submissions)
        ]

    def _named_entry(
        self, entry: Submission, outcome: Outcome, assignment: FaultAssignment, faults: Sequence[Fault]
    ) -> Settlement:
        """Settle a record that a refusal names, or may name."""
        if assignment.proved:
            return self._refusal(entry, outcome, faults)
        self.sizes[entry.id] = 1
        return self._again(entry, outcome, _SUSPECT + faults_text(faults), applied=self._rules.others != "atomic")

    def _unnamed_entry(self, entry: Submission, outcome: Outcome) -> Settlement:
        """Settle a record that a refusal does not name.

        atomic: sent again; nothing was applied. partial: accepted. prove: sent again, because a lost event hides a delivery while a
        duplicate only repeats a text; the possible duplicate is reported (L608) once the record is accepted.
        """
        if self._rules.others == "partial":
            reason = "the refusal named other records of the batch only"
            return _settlement(entry, State.ACCEPTED, outcome._replace(kind=OutcomeKind.ACCEPTED, reason=reason))
        if self._rules.others == "prove":
            self.sizes[entry.id] = (
                1  # by itself it comes back no more: in another batch it might, and be there three times
            )
        reason = "sent again without the records that were refused"
        return self._again(entry, outcome, reason, applied=self._rules.others == "prove")

    def _split(self, call: Call, outcome: Outcome) -> list[Settlement]:
        """Settle a batch that was refused without naming records. atomic: it is halved until the record is found. prove: every record is sent
        once more, by itself. partial: all are unknown.
        """
        if self._rules.others == "partial":
            reason = f"its batch was refused without naming which records ({outcome.reason})"
            return [self._unknown(entry, outcome, reason) for entry in call.submissions]
        atomic = self._rules.others == "atomic"
        size = (len(call.submissions) + 1) // 2 if atomic else 1
        self.sizes.update((entry.id, size) for entry in call.submissions)
        return [
            self._again(entry, outcome, f"{_SUSPECT}{outcome.reason}", applied=not atomic) for entry in call.submissions
        ]

    def _again(self, entry: Submission, outcome: Outcome, reason: str, *, applied: bool) -> Settlement:
        """Ready to be sent again. `applied`: it may have been applied; then its attempt counts as unknown."""
        kind = OutcomeKind.UNKNOWN if applied else OutcomeKind.NOT_SENT
        return _settlement(entry, State.READY, outcome._replace(kind=kind, reason=reason))

    def _refusal(self, submission: Submission, outcome: Outcome, faults: Sequence[Fault]) -> Settlement:
        doubtful = self._doubtful(submission)
        if doubtful and not all(detail.startswith(_SUSPECT) and faults_text(faults) in detail for detail in doubtful):
            # The refusal may be a consequence of the earlier attempt (the record exists already, for example). Not if it repeats
            # what the batch was refused for before anything could have been applied.
            reason = f"refused after an attempt of unknown outcome ({outcome.reason})"
            return self._unknown(submission, outcome, reason)
        entry = self._queries.entry(submission.id)
        problems = error_location.refusals(entry, self._origin(submission.drop), faults)
        refused = _settlement(submission, State.REFUSED, outcome._replace(reason=faults_text(faults)))
        return refused._replace(problems=problems)

    def _unknown(self, submission: Submission, outcome: Outcome, reason: str) -> Settlement:
        entry = self._queries.entry(submission.id)
        problem = error_location.unknown(entry, self._origin(submission.drop), reason)
        doubtful = outcome._replace(kind=OutcomeKind.UNKNOWN, reason=reason)
        return _settlement(submission, State.UNKNOWN, doubtful)._replace(problems=(problem,))

    def _doubtful(self, submission: Submission) -> list[str]:
        """The details of its attempts with an unknown outcome."""
        if not submission.attempts:
            return []
        attempts = self._queries.attempts_of(submission.id)
        return [attempt.detail for attempt in attempts if attempt.outcome == OutcomeKind.UNKNOWN]


def _settlement(submission: Submission, state: State, outcome: Outcome) -> Settlement:
    return Settlement(
        submission.id,
        state,
        outcome.reason,
        receipt=outcome.receipt,
        outcome=outcome.kind,
        status=outcome.status,
        duration_ms=outcome.duration_ms,
        attempt=submission.attempts + 1,
    )


def _own_rules(call: Call, assumptions: Assumptions) -> RuleCheck:
    check = checker(call.operation, assumptions)

    def breaks(position: int, path: str) -> bool:
        return any(fault.path == path for fault in check(_decode(call.submissions[position].payload)))

    return breaks
