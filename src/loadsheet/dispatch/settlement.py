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

RuleCheck = Callable[[int, str], bool]  # whether the field at a path of the record at a position breaks our own rules

BASES = (0, 1)


class FaultAssignment(NamedTuple):
    """The faults of each record that may be meant, by its position from 0. `proved`: each of them is meant; else, of a record and
    its neighbour, one.
    """

    faults: dict[int, list[Fault]]
    proved: bool


def assign_faults(faults: Sequence[Fault], count: int, base: int | None, breaks: RuleCheck) -> FaultAssignment | None:
    """Whom these faults of a batch of `count` records mean; None if at least one of them names no record of it.

    `base` is where the index counts from, if that is known; else index 0 proves 0 and index `count` proves 1, and if neither is
    there it is proved by a field that breaks our own rules in the one record and not in the other.
    """
    if not faults or any(fault.index is None for fault in faults):
        return None
    bases = [one for one in (BASES if base is None else (base,)) if _inside(faults, count, one)]
    if len(bases) > 1:
        shown = [one for one in bases if _shown(faults, one, breaks)]
        bases = shown if len(shown) == 1 else bases
    if not bases:
        return None
    found: dict[int, list[Fault]] = {}
    for one in bases:
        for fault in faults:
            found.setdefault(_position(fault, one), []).append(fault)
    return FaultAssignment(found, proved=len(bases) == 1)


def _inside(faults: Sequence[Fault], count: int, base: int) -> bool:
    return all(0 <= _position(fault, base) < count for fault in faults)


def _shown(faults: Sequence[Fault], base: int, breaks: RuleCheck) -> bool:
    return any(breaks(_position(fault, base), fault.path) for fault in faults)


def _position(fault: Fault, base: int) -> int:
    return (fault.index or 0) - base


class BatchRules(NamedTuple):
    """What is taken for known of a 400 to a batch: where its index counts from (None: only what the answer proves), and what became
    of the records that it does not name: nothing (`atomic`), applied (`partial`), or nobody knows (`prove`).
    """

    base: Literal[0, 1] | None
    others: Literal["atomic", "partial", "prove"]

    @classmethod
    def of(cls, settings: Settings) -> "BatchRules":
        """The rules for the exchange of these settings. Those of the embedded one are known. Of another one the base is believed only
        where asking the named record and its neighbour again, each by itself, would double one of them.
        """
        base, others = settings.assumptions.status_index_base, settings.assumptions.status_on_400
        if settings.exchange == EMBEDDED:
            return cls(settings.assumptions.index_base, "atomic" if others == "prove" else others)
        return cls(base if others == "partial" and base != "prove" else None, others)


class Settler:
    """Turns outcomes into settlements. `sizes` says by id which entries may only travel in smaller calls from now on."""

    def __init__(self, queries: LedgerQueries, settings: Settings) -> None:
        self.sizes: dict[int, int] = {}
        self._queries = queries
        self._assumptions = settings.assumptions
        self._rules = BatchRules.of(settings)
        self._origin = lru_cache(maxsize=_ORIGINS_KEPT)(queries.origin)

    def set_apart(self, submissions: Iterable[Submission]) -> None:
        """Have what may be at the exchange already travel by itself, where batches are refused without saying of whom nothing was
        applied: whatever is said of it then is said of it alone, and it is never there three times.
        """
        if self._rules.others == "atomic":
            return
        for one in submissions:
            if one.attempts and BY_NAME[one.operation].batched and one.id not in self.sizes and self._doubtful(one):
                self.sizes[one.id] = 1

    def recalled(self, call: Call) -> list[Settlement]:
        """The settlements of a call that was taken back before its turn came."""
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
        meant = assign_faults(outcome.faults, count, self._rules.base, _own_rules(call, self._assumptions))
        if meant is None:
            return self._split(call, outcome)
        return [
            self._named(entry, outcome, meant, meant.faults[position])
            if position in meant.faults
            else self._rest(entry, outcome)
            for position, entry in enumerate(call.submissions)
        ]

    def _named(
        self, entry: Submission, outcome: Outcome, meant: FaultAssignment, faults: Sequence[Fault]
    ) -> Settlement:
        """What becomes of a record that a refusal names, or may name."""
        if meant.proved:
            return self._refusal(entry, outcome, faults)
        self.sizes[entry.id] = 1
        return self._again(entry, outcome, _SUSPECT + faults_text(faults), applied=self._rules.others != "atomic")

    def _rest(self, entry: Submission, outcome: Outcome) -> Settlement:
        """What becomes of a record that it does not name.

        atomic: sent again, nothing of it was applied. partial: accepted. prove: sent again, since an event that is lost hides a
        delivery and one that comes twice is the same text twice; that it may be there twice is said (L608) once it is accepted.
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
        """What becomes of a batch that was refused without naming whom. Where nothing of it can have been applied it is halved until
        it is clear; where it may have been, every record is sent once more, by itself, or is unknown if the others were applied.
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
        """Ready to be sent again. `applied` says that it may have been applied all the same: then its attempt counts as unknown."""
        kind = OutcomeKind.UNKNOWN if applied else OutcomeKind.NOT_SENT
        return _settlement(entry, State.READY, outcome._replace(kind=kind, reason=reason))

    def _refusal(self, submission: Submission, outcome: Outcome, faults: Sequence[Fault]) -> Settlement:
        doubtful = self._doubtful(submission)
        if doubtful and not all(detail.startswith(_SUSPECT) and faults_text(faults) in detail for detail in doubtful):
            # It may say no because the earlier attempt worked: that the record exists already, for one. Not if it says of the
            # record what was said of its batch before anything of it could have been applied.
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
        """What was said of its attempts of unknown outcome."""
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
