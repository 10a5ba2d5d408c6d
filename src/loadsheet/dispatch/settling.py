"""What an outcome settles for each entry of its call: the state it goes to, why, and the problems that its sender gets to see.

Owns: the meaning of a refusal that names records of a batch, and the rule that a refusal after an unknown attempt proves nothing.
Reads the ledger, changes nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from loadsheet.contract import Assumptions, Fault
from loadsheet.dispatch import blame
from loadsheet.dispatch.lanes import Call
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind, told
from loadsheet.ledger import Origin, Settlement, State, Submission
from loadsheet.ledger.history import History

_ORIGINS_KEPT = 16  # a drop's origin is needed again for each of its refusals


class Settler:
    """Turns outcomes into settlements. `alone` holds the ids of entries that have to travel by themselves from now on."""

    def __init__(self, history: History, assumptions: Assumptions) -> None:
        self.alone: set[int] = set()
        self._history = history
        self._assumptions = assumptions
        self._origin = lru_cache(maxsize=_ORIGINS_KEPT)(self._read_origin)

    def recalled(self, call: Call) -> list[Settlement]:
        """The settlements of a call that was taken back before its turn came."""
        outcome = Outcome(OutcomeKind.NOT_SENT, "sending paused or ended before its turn came")
        return [_settlement(entry, State.READY, outcome) for entry in call.submissions]

    def settle(self, call: Call, outcome: Outcome) -> list[Settlement]:
        """One settlement for each entry of the call, in its order."""
        if outcome.kind is OutcomeKind.ACCEPTED:
            return [_settlement(entry, State.ACCEPTED, outcome) for entry in call.submissions]
        if outcome.kind is OutcomeKind.UNKNOWN:
            return [self._unknown(entry, outcome, outcome.reason) for entry in call.submissions]
        if outcome.kind is OutcomeKind.REFUSED:
            return self._refused(call, outcome)
        return [_settlement(entry, State.READY, outcome) for entry in call.submissions]

    def _refused(self, call: Call, outcome: Outcome) -> list[Settlement]:
        if len(call.submissions) == 1:
            return [self._refusal(call.submissions[0], outcome, outcome.faults)]
        named = self._named(outcome.faults, len(call.submissions))
        atomic = self._assumptions.status_on_400 == "atomic"
        if named is None:
            return self._split(call, outcome) if atomic else self._all_in_doubt(call, outcome)
        rest = (
            replace(outcome, kind=OutcomeKind.NOT_SENT, reason="sent again without the records that were refused")
            if atomic
            else replace(outcome, kind=OutcomeKind.ACCEPTED, reason="the refusal named other records of the batch only")
        )
        return [
            self._refusal(entry, outcome, named[index])
            if index in named
            else _settlement(entry, State.READY if atomic else State.ACCEPTED, rest)
            for index, entry in enumerate(call.submissions)
        ]

    def _named(self, faults: Sequence[Fault], count: int) -> dict[int, list[Fault]] | None:
        """The faults by position in the batch, or None if one of them names no record of it."""
        named: dict[int, list[Fault]] = {}
        for fault in faults:
            index = -1 if fault.index is None else fault.index - self._assumptions.status_index_base
            if not 0 <= index < count:
                return None
            named.setdefault(index, []).append(fault)
        return named

    def _split(self, call: Call, outcome: Outcome) -> list[Settlement]:
        # Nothing of the batch was applied, but it is not clear which record is to blame: each one is asked about by itself.
        self.alone.update(entry.id for entry in call.submissions)
        again = replace(
            outcome, kind=OutcomeKind.NOT_SENT, reason=f"sent again by itself: its batch was refused ({outcome.reason})"
        )
        return [_settlement(entry, State.READY, again) for entry in call.submissions]

    def _all_in_doubt(self, call: Call, outcome: Outcome) -> list[Settlement]:
        reason = f"its batch was refused without naming which records ({outcome.reason})"
        return [self._unknown(entry, outcome, reason) for entry in call.submissions]

    def _refusal(self, submission: Submission, outcome: Outcome, faults: Sequence[Fault]) -> Settlement:
        if self._was_unknown(submission):
            # It may say no because the earlier attempt worked: that the record exists already, for one.
            reason = f"refused after an attempt of unknown outcome ({outcome.reason})"
            return self._unknown(submission, outcome, reason)
        entry = self._history.entry(submission.id)
        problems = blame.refusals(entry, self._origin(submission.drop), faults)
        refused = _settlement(submission, State.REFUSED, replace(outcome, reason=told(faults)))
        return replace(refused, problems=problems)

    def _unknown(self, submission: Submission, outcome: Outcome, reason: str) -> Settlement:
        entry = self._history.entry(submission.id)
        problem = blame.unknown(entry, self._origin(submission.drop), reason)
        doubtful = replace(outcome, kind=OutcomeKind.UNKNOWN, reason=reason)
        return replace(_settlement(submission, State.UNKNOWN, doubtful), problems=(problem,))

    def _was_unknown(self, submission: Submission) -> bool:
        if not submission.attempts:
            return False
        attempts = self._history.attempts_of(submission.id)
        return any(attempt.outcome == OutcomeKind.UNKNOWN for attempt in attempts)

    def _read_origin(self, drop: int) -> Origin:
        return self._history.origin(drop)


def _settlement(submission: Submission, state: State, outcome: Outcome) -> Settlement:
    return Settlement(
        submission.id,
        state,
        outcome.reason,
        receipt=outcome.receipt,
        outcome=outcome.kind,
        status=outcome.status,
        duration_ms=outcome.duration_ms,
    )
