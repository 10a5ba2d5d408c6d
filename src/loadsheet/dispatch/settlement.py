"""Settles each entry of a call: its new state, the reason, and the problems shown to its sender.

A refused batch names its records as `data[<index>]`. The interface does not say whether the index counts from 0 or 1, or
whether the other records were applied (interface: Errors, Order status update). This module assigns faults to records
only as far as the answer proves it: a guess would reject a correct record and lose another record's event.

A refusal after an unknown attempt proves nothing. A fault is shown at the cell of the shipper's file that its payload
path comes from.

The canary: a few entries of an untested mapping or a new shipper go first; the rest follows once one is accepted. A drop
is untested if no record of its mapping, or of its shipper's folder, was ever accepted. If all its first entries are
refused, the rest is held for a person to decide. Otherwise a wrong mapping, or a wrong code of a new shipper, would be
refused a thousand times.

Reads the ledger, changes nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

from loadsheet.contract import BY_NAME, Assumptions, Fault, checker, decode_value
from loadsheet.dispatch.calls_in_flight import Call
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind, faults_text
from loadsheet.dispatch.unknown_rules import SAME_TWICE
from loadsheet.ledger import Entry, Origin, Settlement, State, Submission
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.queue import CANARY_FAILED, DropOperation
from loadsheet.mapping.documents import locate, trace
from loadsheet.problems import NOWHERE, Problem, Where
from loadsheet.settings import EMBEDDED, Settings

_ORIGINS_KEPT = 16  # each refusal needs its drop's origin again
_SUSPECT = "sent again by itself, because its batch was refused: "
_DOUBLED = "L608"
HINT = "fix the mapping and drop the file again, or release these: loadsheet retry"
_FIELD = re.compile(r"([A-Za-z]\w*(?:\[\d+\])?(?:\.[A-Za-z]\w*(?:\[\d+\])?)*): (.+)")


RuleCheck = Callable[[int, str], bool]  # whether the field (path) of a record (position) violates our own rules

BASES = (0, 1)


class FaultAssignment(NamedTuple):
    """The faults of each record, by its position from 0. `proved`: each of these records is refused. Otherwise only one of
    a record and its neighbour is.
    """

    faults: dict[int, list[Fault]]
    proved: bool


def assign_faults(faults: Sequence[Fault], count: int, base: int | None, breaks: RuleCheck) -> FaultAssignment | None:
    """Assign the faults of a refused batch of `count` records to its records; None if a fault names none of them.

    `base` is the first index, if known. Otherwise index 0 proves base 0, and index `count` proves base 1. Failing both, the
    base is proved by a field that violates our own rules in one record and not in the other.
    """
    if not faults or any(fault.index is None for fault in faults):
        return None
    bases = [
        one
        for one in (BASES if base is None else (base,))
        if all(0 <= _position(fault, one) < count for fault in faults)
    ]
    if len(bases) > 1:
        shown = [one for one in bases if any(breaks(_position(fault, one), fault.path) for fault in faults)]
        bases = shown if len(shown) == 1 else bases
    if not bases:
        return None
    by_position: dict[int, list[Fault]] = {}
    for one in bases:
        for fault in faults:
            by_position.setdefault(_position(fault, one), []).append(fault)
    return FaultAssignment(by_position, proved=len(bases) == 1)


def _position(fault: Fault, base: int) -> int:
    return (fault.index or 0) - base


class BatchRules(NamedTuple):
    """How to read a 400 for a batch. `base` is the first index (None: only what the answer proves). `others` is what
    happened to the unnamed records: nothing (`atomic`), applied (`partial`), or unknown (`prove`).
    """

    base: Literal[0, 1] | None
    others: Literal["atomic", "partial", "prove"]

    @classmethod
    def of(cls, settings: Settings) -> "BatchRules":
        """The rules for the exchange in the settings. Those of the embedded exchange are known. For another exchange the
        base setting is used only where resending the named record and its neighbour one by one would duplicate one.
        """
        base, others = settings.assumptions.status_index_base, settings.assumptions.status_on_400
        if settings.exchange == EMBEDDED:
            return cls(settings.assumptions.index_base, "atomic" if others == "prove" else others)
        return cls(base if others == "partial" and base != "prove" else None, others)


class Settler:
    """Turns outcomes into settlements. `batch_limits` limits the batch size by entry id from now on."""

    def __init__(self, queries: LedgerQueries, settings: Settings) -> None:
        self.batch_limits: dict[int, int] = {}
        self._queries = queries
        self._assumptions = settings.assumptions
        self._rules = BatchRules.of(settings)
        self._origin = lru_cache(maxsize=_ORIGINS_KEPT)(queries.origin)

    def isolate_doubtful(self, submissions: Iterable[Submission]) -> None:
        """Send entries that may already be at the exchange in calls of their own, unless a refused batch is known to be
        applied to none. The answer then concerns only that entry, and no third copy can result.
        """
        if self._rules.others == "atomic":
            return
        for one in submissions:
            if (
                one.attempts
                and BY_NAME[one.operation].batched
                and one.id not in self.batch_limits
                and self._doubtful(one)
            ):
                self.batch_limits[one.id] = 1

    def recalled(self, call: Call) -> list[Settlement]:
        """The settlements of a recalled call."""
        outcome = Outcome(OutcomeKind.NOT_SENT, "sending paused or ended before its turn came")
        return [_settlement(entry, State.READY, outcome) for entry in call.submissions]

    def settle(self, call: Call, outcome: Outcome) -> list[Settlement]:
        """One settlement per entry of the call, in order. Also lowers `batch_limits` of entries that must be sent in smaller batches."""
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
        where = first_row(entry, self._origin(submission.drop))
        values = {"key": submission.key, "sends": len(doubtful) + 1}
        return accepted._replace(problems=(Problem(_DOUBLED, where, values=values, level="warning"),))

    def _refused(self, call: Call, outcome: Outcome) -> list[Settlement]:
        count = len(call.submissions)
        if count == 1:
            return [self._refused_or_unknown(call.submissions[0], outcome, outcome.faults)]
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
            return self._refused_or_unknown(entry, outcome, faults)
        self.batch_limits[entry.id] = 1
        return self._again(entry, outcome, _SUSPECT + faults_text(faults), applied=self._rules.others != "atomic")

    def _unnamed_entry(self, entry: Submission, outcome: Outcome) -> Settlement:
        """Settle a record that a refusal does not name.

        atomic: sent again, because nothing was applied. partial: accepted. prove: sent again, because a lost event hides a
        delivery, while a duplicate only repeats a text. The possible duplicate is reported (L608) once accepted.
        """
        if self._rules.others == "partial":
            reason = "the refusal named only other records of the batch"
            return _settlement(entry, State.ACCEPTED, outcome._replace(kind=OutcomeKind.ACCEPTED, reason=reason))
        if self._rules.others == "prove":
            # Alone it is not refused again; in another batch it might be, and end up there three times.
            self.batch_limits[entry.id] = 1
        reason = "sent again without the records that were refused"
        return self._again(entry, outcome, reason, applied=self._rules.others == "prove")

    def _split(self, call: Call, outcome: Outcome) -> list[Settlement]:
        """Settle a batch that was refused without naming records. atomic: it is halved until the record is found. prove:
        every record is sent once more, alone. partial: all are unknown.
        """
        if self._rules.others == "partial":
            reason = f"its batch was refused without naming which records ({outcome.reason})"
            return [self._unknown(entry, outcome, reason) for entry in call.submissions]
        atomic = self._rules.others == "atomic"
        size = (len(call.submissions) + 1) // 2 if atomic else 1
        self.batch_limits.update((entry.id, size) for entry in call.submissions)
        return [
            self._again(entry, outcome, f"{_SUSPECT}{outcome.reason}", applied=not atomic) for entry in call.submissions
        ]

    def _again(self, entry: Submission, outcome: Outcome, reason: str, *, applied: bool) -> Settlement:
        """Make an entry ready again. `applied`: it may have been applied, so its attempt counts as unknown."""
        kind = OutcomeKind.UNKNOWN if applied else OutcomeKind.NOT_SENT
        return _settlement(entry, State.READY, outcome._replace(kind=kind, reason=reason))

    def _refused_or_unknown(self, submission: Submission, outcome: Outcome, faults: Sequence[Fault]) -> Settlement:
        doubtful = self._doubtful(submission)
        if doubtful and not all(detail.startswith(_SUSPECT) and faults_text(faults) in detail for detail in doubtful):
            # The refusal may result from the earlier attempt (the record exists already, for example), unless it repeats
            # the reason for which the batch was refused before anything could be applied.
            reason = f"refused after an attempt of unknown outcome ({outcome.reason})"
            return self._unknown(submission, outcome, reason)
        entry = self._queries.entry(submission.id)
        problems = refusal_problems(entry, self._origin(submission.drop), faults)
        refused = _settlement(submission, State.REFUSED, outcome._replace(reason=faults_text(faults)))
        return refused._replace(problems=problems)

    def _unknown(self, submission: Submission, outcome: Outcome, reason: str) -> Settlement:
        entry = self._queries.entry(submission.id)
        problem = unknown_problem(entry, self._origin(submission.drop), reason)
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
        service_order=outcome.service_order,
        outcome=outcome.kind,
        status=outcome.status,
        duration_ms=outcome.duration_ms,
        attempt=submission.attempts + 1,
    )


def _own_rules(call: Call, assumptions: Assumptions) -> RuleCheck:
    check = checker(call.operation, assumptions)

    def breaks(position: int, path: str) -> bool:
        return any(fault.path == path for fault in check(decode_value(call.submissions[position].payload)))

    return breaks


def refusal_problems(entry: Entry, origin: Origin, faults: Sequence[Fault]) -> tuple[Problem, ...]:
    """One X701 per fault, at the cell its path comes from, with that cell's text. A fault without a path, or on a value
    from the mapping itself, goes to the entry's first row.
    """
    return tuple(
        _problem_of_fault(entry, origin, one) for fault in faults for one in _one_per_field(entry, origin, fault)
    )


def unknown_problem(entry: Entry, origin: Origin, text: str) -> Problem:
    """The X702 of an entry with an unknown outcome, at its first row."""
    return Problem("X702", first_row(entry, origin, ""), values={"text": text})


def first_row(entry: Entry, origin: Origin, path: str = "") -> Where:
    """The place of an entry's first row."""
    if not entry.rows:
        return NOWHERE
    row = entry.rows[0]
    return origin.tables[row.table].where(row.number, path=path)


def _one_per_field(entry: Entry, origin: Origin, fault: Fault) -> Iterator[Fault]:
    """Split a fault whose text names several fields (`reason: is too long; ...`) into one per field. A text that only looks
    like that stays unchanged: none of its fields comes from a cell.
    """
    parts = [] if fault.path else [_FIELD.fullmatch(part) for part in fault.text.split("; ")]
    named = [(part[1], part[2]) for part in parts if part is not None]
    known = (locate(origin.lineage, entry.rows, entry.links, path) for path, _ in named)
    if len(named) == len(parts) and any(known):
        yield from (Fault(path, text, fault.index) for path, text in named)
    else:
        yield fault


def _problem_of_fault(entry: Entry, origin: Origin, fault: Fault) -> Problem:
    text = f"{fault.path}: {fault.text}" if fault.path else fault.text
    traces = trace(origin.lineage, entry.rows, entry.links, fault.path) if fault.path else ()
    if not traces:
        return Problem("X701", first_row(entry, origin, fault.path), values={"text": text})
    first = traces[0]
    row = entry.rows[first.row]
    where = origin.tables[row.table].where(row.number, first.label, fault.path)
    found = origin.cell(row, first.label) if where.column else ""
    here = replace(where, path="")
    also = tuple(other for other in origin.stating(entry, fault.path) if other.column and other != here)
    return Problem("X701", where, found, {"text": text}, also=also)


class _Trial:
    """The outcomes of the first entries of one drop and operation."""

    def __init__(self, size: int) -> None:
        self.entries_left = size  # entries that may still leave
        self.in_flight: set[int] = set()
        self.refused: list[str] = []
        self.unknown = 0

    def count(self, settlement: Settlement) -> None:
        """Count the settlement of one of them."""
        self.in_flight.discard(settlement.entry)
        if settlement.state is State.READY:
            self.entries_left += 1
        elif settlement.state is State.REFUSED:
            self.refused.append(settlement.reason)
        else:
            self.unknown += 1  # neither accepted nor refused: the rest waits for a later run


class Canary:
    """The drops on trial; `size` entries of each go first (0: no trial)."""

    def __init__(self, queries: LedgerQueries, size: int) -> None:
        self._queries = queries
        self._size = size
        self._trials: dict[DropOperation, _Trial] = (
            {part: _Trial(size) for part in queries.canary_candidates()} if size else {}
        )

    @property
    def on_trial(self) -> list[DropOperation]:
        """The drops and operations on trial."""
        return list(self._trials)

    def entries_to_try(self) -> Iterator[tuple[DropOperation, int]]:
        """The drops and operations that may be tried now, and how many entries of each."""
        return ((part, trial.entries_left) for part, trial in self._trials.items() if trial.entries_left)

    def started(self, calls: Iterable[Call]) -> None:
        """Count these calls as leaving."""
        for call in calls:
            for entry in call.submissions:
                trial = self._trials.get((entry.drop, entry.operation))
                if trial is not None:
                    trial.entries_left -= 1
                    trial.in_flight.add(entry.id)

    def judge(self, settlements: Sequence[Settlement]) -> Iterator[Settlement]:
        """Process settlements. Yields the settlements of entries held because of them."""
        for part, trial in list(self._trials.items()):
            mine = [settlement for settlement in settlements if settlement.entry in trial.in_flight]
            for settlement in mine:
                trial.count(settlement)
            if any(settlement.state is State.ACCEPTED for settlement in mine):
                del self._trials[part]
            elif len(trial.refused) >= self._size:
                del self._trials[part]
                yield from self._held(part, trial)

    def _held(self, part: DropOperation, trial: _Trial) -> Iterator[Settlement]:
        drop, operation = part
        origin = self._queries.origin(drop)
        values = {"count": len(trial.refused), "text": _reasons(trial.refused)}
        for entry in self._queries.entries_of(drop):
            if entry.state is State.READY and entry.operation == operation:
                problem = Problem("L609", first_row(entry, origin), values=values, hint=HINT)
                yield Settlement(entry.id, State.HELD, CANARY_FAILED, problems=(problem,))


def _reasons(refused: Sequence[str]) -> str:
    """The common reason, or the first and the last."""
    return refused[0] if len(set(refused)) == 1 else f"{refused[0]}; {refused[-1]}"
