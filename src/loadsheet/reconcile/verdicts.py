"""The verdicts of the reconciliation, and the rules that decide by key.

Three legs: what the shipper requested (source), what the ledger knows to be accepted (sent), and what the exchange's
listing shows (listed). Every entry gets exactly one verdict: the first matching rule decides. `by_rule` holds the rules
that need no contents; `reconcile` compares contents.

A lane is one business record (`order:4711`). The last accepted create, update or delete on it determines what the
exchange should hold. Lanes do not affect each other.

`Matches` keeps the verdicts of all entries. `FieldTally` counts how often each field of the sent and the listed records agreed.
"""

import tempfile
import weakref
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, DELETES, LISTED_WRITES, Difference, is_calculable
from loadsheet.ledger import Entry, EntryHead, State
from loadsheet.ledger.models import VERDICTS
from loadsheet.mapping.documents import STEP


class Verdict(StrEnum):
    """The combined result of the three legs for one entry. `ONLY_LISTED` applies to listed records, never to entries."""

    MATCHED = "matched"
    WITHIN_TOLERANCE = "matched within tolerance"
    UNCHANGED = "unchanged"
    REPLACED = "replaced later"
    ACKNOWLEDGED = "acknowledged"
    WAITING = "waiting to be sent"
    NOT_VERIFIABLE = "not verifiable"
    INVALID = "not sent: invalid"
    HELD = "not sent: held"
    REFUSED = "refused"
    UNKNOWN = "outcome unknown"
    VALUE_DIFFERENCE = "value difference"
    MISSING = "missing at exchange"
    STILL_LISTED = "still at exchange"
    LISTED_TWICE = "twice at exchange"
    ONLY_LISTED = "only at exchange"


MEANINGS: dict[Verdict, str] = {
    Verdict.MATCHED: "accepted, and the exchange shows it as sent",
    Verdict.WITHIN_TOLERANCE: "accepted; amounts differ by no more than the tolerance",
    Verdict.UNCHANGED: "the ledger already has it with the same content; not sent again",
    Verdict.REPLACED: "accepted; a later call replaced the same record",
    Verdict.ACKNOWLEDGED: "accepted; the interface has no listing that could show it",
    Verdict.WAITING: "ready; the next run sends it",
    Verdict.NOT_VERIFIABLE: "accepted; the listing was not read or is incomplete, or the sent content is no longer kept",
    Verdict.INVALID: "the sender has to fix it",
    Verdict.HELD: "it waits for its order or tender, or a person has to decide first",
    Verdict.REFUSED: "the exchange rejected it",
    Verdict.UNKNOWN: "sent, but its outcome is unknown; it is verified, never sent again blindly",
    Verdict.VALUE_DIFFERENCE: "accepted, but the exchange shows other values",
    Verdict.MISSING: "accepted, but absent from the complete listing",
    Verdict.STILL_LISTED: "its deletion was accepted, but the listing still shows it",
    Verdict.LISTED_TWICE: "the listing shows more than one record of this key",
    Verdict.ONLY_LISTED: "the exchange has a record that loadsheet did not create",
}

REMEDIES: dict[Verdict, str] = {
    Verdict.MISSING: "ask the exchange who removed it, and enter it there again; accepted records are not sent twice from here",
    Verdict.VALUE_DIFFERENCE: "see the sheet Differences of reconciliation.xlsx; correct it at the exchange, or send an update",
    Verdict.STILL_LISTED: "ask the exchange why it is still there, then check with `loadsheet report --ask`",
    Verdict.LISTED_TWICE: "have the duplicate removed at the exchange",
}
"""What to do about verdicts that come from a listing alone, for which the entry has no problem."""

IN_ORDER = (
    # by the state of the entry alone
    Verdict.INVALID,
    Verdict.HELD,
    Verdict.WAITING,
    Verdict.REFUSED,
    Verdict.UNKNOWN,
    # accepted or unchanged, and no listing can or need show it
    Verdict.ACKNOWLEDGED,
    Verdict.REPLACED,
    # by the listed keys
    Verdict.LISTED_TWICE,
    Verdict.STILL_LISTED,
    Verdict.NOT_VERIFIABLE,
    Verdict.MISSING,
    # by the listed contents
    Verdict.VALUE_DIFFERENCE,
    Verdict.UNCHANGED,
    Verdict.WITHIN_TOLERANCE,
    Verdict.MATCHED,
)
"""All verdicts on entries in rule order (`by_rule`, then the comparison of contents). The first matching rule decides; the last
matches everything left.
"""

AGREES = frozenset(
    {Verdict.MATCHED, Verdict.WITHIN_TOLERANCE, Verdict.UNCHANGED, Verdict.REPLACED, Verdict.ACKNOWLEDGED}
)
"""Verdicts that need no action."""

VERDICTS_THAT_NEED_SOMEONE = frozenset(
    {
        Verdict.INVALID,
        Verdict.HELD,
        Verdict.REFUSED,
        Verdict.UNKNOWN,
        Verdict.VALUE_DIFFERENCE,
        Verdict.MISSING,
        Verdict.STILL_LISTED,
        Verdict.LISTED_TWICE,
    }
)
"""Verdicts that need a person's attention: a run that ends with one of them exits with 1."""


class Match(NamedTuple):
    """The verdict on one entry. `state` decides the verdict and the fate of its rows: the entry's own state, or that of
    the waiting entry it duplicates. `differences` are fields that the exchange shows differently; `tolerated` are those
    within the tolerance.
    """

    entry: int
    operation: str
    state: State
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    tolerated: tuple[Difference, ...] = ()


class OnlyListed(NamedTuple):
    """A listed record that loadsheet did not create: its subject and key, and what the ledger knows about it."""

    subject: str
    key: str
    note: str


@dataclass(frozen=True, slots=True)
class ListingCoverage:
    """How completely the exchange's records of one subject were listed. `total` is the exchange's own count; `reason` says
    why some are missing, and `todo` what to do about it.
    """

    subject: str
    read: bool
    listed: int = 0
    total: int = 0
    complete: bool = False
    reason: str = ""
    todo: str = ""

    def __str__(self) -> str:
        """The coverage in one sentence, such as `4,812 of 4,812 orders listed (complete)`."""
        if not self.read:
            return f"{self.subject}s were not listed: nothing at the exchange is verifiable"
        if self.complete:
            return f"{self.listed:,} of {self.total:,} {self.subject}s listed (complete)"
        why = f"{self.reason}; " if self.reason else ""
        return f'{self.listed:,} of {self.total:,} {self.subject}s listed (partial: {why}missing ones are "{Verdict.NOT_VERIFIABLE}")'


STATES_COMPARED = (State.ACCEPTED, State.SENDING, State.UNKNOWN, State.REFUSED)
"""States of entries that may have a record at the exchange."""

BY_STATE = {state: Verdict(verdict) for state, verdict in VERDICTS.items()}
"""The verdicts that follow from the state alone."""


@dataclass(slots=True)
class RecordState:
    """The state of a lane's record in the ledger: the last accepted entry (0: none) with its content hash, and whether
    it deleted the record; whether a call may have worked, and whether one was refused.
    """

    last: int = 0
    last_hash: str = ""
    deleted: bool = False
    may_exist: bool = False
    refused: bool = False

    @property
    def expected(self) -> bool:
        """Whether a listed record of this lane is expected."""
        return bool(self.last and not self.deleted) or self.may_exist

    def stands(self, entry: Entry) -> bool:
        """Whether the exchange's record should equal this entry: it was accepted last, or is unchanged from that."""
        return bool(self.last) and (entry.id == self.last or self.repeats(entry))

    def repeats(self, entry: Entry) -> bool:
        """Whether an unchanged entry equals the last accepted content. Others are duplicates of an entry not yet accepted."""
        same = bool(self.last) and entry.content_hash == self.last_hash
        return same and entry.state is State.UNCHANGED and entry.operation in LISTED_WRITES


UNKNOWN_RECORD = RecordState()


def record_states(heads: Iterable[EntryHead]) -> dict[str, RecordState]:
    """The state of each lane from its entries, which come in ledger order."""
    states: dict[str, RecordState] = {}
    for head in heads:
        if head.operation not in LISTED_WRITES:
            continue
        state = states.get(head.lane)
        if state is None:
            state = states[head.lane] = RecordState()
        if head.state is State.ACCEPTED:
            state.last, state.last_hash, state.deleted = head.id, head.content_hash, head.operation in DELETES
        elif head.state is State.REFUSED:
            state.refused = True
        else:
            state.may_exist = True
    return states


def by_rule(entry: Entry, lane: RecordState, coverage: ListingCoverage, times: int) -> Verdict | None:
    """The verdict on an entry whose record is listed `times` times; None if the contents decide. The first matching rule decides."""
    if (verdict := BY_STATE.get(entry.state)) is not None:  # not accepted
        return verdict
    unchanged = entry.state is State.UNCHANGED
    if unchanged and not lane.repeats(entry):
        return Verdict.UNCHANGED
    # accepted from here on: no listing for it, or not the version that should be listed now
    if entry.operation not in LISTED_WRITES:
        return Verdict.ACKNOWLEDGED
    if not lane.stands(entry):
        return Verdict.REPLACED
    deletes = entry.operation in DELETES
    if times:
        return Verdict.LISTED_TWICE if times > 1 else Verdict.STILL_LISTED if deletes else None
    absent = Verdict.MISSING if not deletes else Verdict.UNCHANGED if unchanged else Verdict.MATCHED
    return absent if coverage.complete else Verdict.NOT_VERIFIABLE


def as_only_listed(name: str, lane: RecordState, waiting: str) -> OnlyListed:
    """A listed record that was never accepted from here, or that was deleted from here. `waiting` is the state of this
    run's last entry on its lane (empty: none).
    """
    subject, _, key = name.partition(":")
    note = f"the document for it is {waiting}" if waiting else "loadsheet has no document for it"
    if lane.deleted or lane.refused:
        note = "it was deleted from here and exists again" if lane.deleted else "the document for it was refused"
    return OnlyListed(subject, key, note)


_IN_MEMORY_BYTES_MAX = 4_194_304
_NOTHING_FOUND = -1
_LENGTH_BYTES = 4

_VERDICTS, _STATES, _OPERATIONS = tuple(Verdict), tuple(State), tuple(BY_NAME)
_VERDICT_CODES = {verdict.value: code for code, verdict in enumerate(_VERDICTS)}
_STATE_CODES = {state.value: code for code, state in enumerate(_STATES)}
_OPERATION_CODES = {name: code for code, name in enumerate(_OPERATIONS)}

_Found = tuple[tuple[Difference, ...], tuple[Difference, ...]]
_NO_DIFFERENCES: _Found = ((), ())
_read_found = msgspec.msgpack.Decoder(_Found).decode


class Matches(Mapping[int, Match]):
    """One match per entry, by entry, in the order of addition. Lookups are fastest in that order."""

    def __init__(self) -> None:
        self._entries, self._found = array("q"), array("q")
        self._codes = (bytearray(), bytearray(), bytearray())
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES_MAX)  # noqa: SIM115 (closed when this goes)
        self._end = 0
        self._ascending = True
        self._next = 0
        weakref.finalize(self, self._file.close)

    def add(self, match: Match) -> None:
        """Add a match."""
        self._ascending = self._ascending and (not self._entries or self._entries[-1] < match.entry)
        self._entries.append(match.entry)
        verdicts, states, operations = self._codes
        verdicts.append(_VERDICT_CODES[match.verdict])
        states.append(_STATE_CODES[match.state])
        operations.append(_OPERATION_CODES[match.operation])
        found = _NOTHING_FOUND
        if match.differences or match.tolerated:
            found = self._end
            packed = msgspec.msgpack.encode((match.differences, match.tolerated))
            self._file.seek(found)
            self._end += self._file.write(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)
        self._found.append(found)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __getitem__(self, entry: int) -> Match:
        position = self._position(entry)
        self._next = position + 1
        verdict, state, operation = (codes[position] for codes in self._codes)
        found = self._found[position]
        differences, tolerated = _NO_DIFFERENCES
        if found != _NOTHING_FOUND:
            self._file.seek(found)
            length = int.from_bytes(self._file.read(_LENGTH_BYTES), "big")
            differences, tolerated = _read_found(self._file.read(length))
        return Match(entry, _OPERATIONS[operation], _STATES[state], _VERDICTS[verdict], differences, tolerated)

    def needing_someone(self) -> Iterator[int]:
        """The entries that need a person's attention."""
        wanted = bytes(code for code, verdict in enumerate(_VERDICTS) if verdict in VERDICTS_THAT_NEED_SOMEONE)
        codes = self._codes[0]
        return (entry for entry, code in zip(self._entries, codes, strict=True) if code in wanted)

    def verdicts(self) -> Counter[Verdict]:
        """The number of entries by verdict."""
        return Counter({_VERDICTS[code]: count for code, count in Counter(self._codes[0]).items()})

    def of_operations(self) -> Counter[tuple[str, Verdict]]:
        """The number of entries by operation and verdict."""
        verdicts, _, operations = self._codes
        counted = Counter(zip(operations, verdicts, strict=True))
        return Counter({(_OPERATIONS[one], _VERDICTS[code]): count for (one, code), count in counted.items()})

    def states(self) -> Counter[State]:
        """The number of entries by state."""
        return Counter({_STATES[code]: count for code, count in Counter(self._codes[1]).items()})

    def _position(self, entry: int) -> int:
        entries, position = self._entries, self._next
        if position < len(entries) and entries[position] == entry:
            return position
        if self._ascending:
            position = bisect_left(entries, entry)
            if position < len(entries) and entries[position] == entry:
                return position
            raise KeyError(entry)
        try:
            return entries.index(entry)
        except ValueError:
            raise KeyError(entry) from None


_SAMPLES = 3
_NO_PATHS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """How often a field was compared and equal, the largest difference of its numbers (None: none), and the keys of the
    first records in which it differs. The fields of list items count together: `packages[].weight`.
    """

    subject: str
    path: str
    compared: int
    tolerated: int
    different: int
    largest: Decimal | None
    samples: tuple[str, ...]

    @property
    def equal(self) -> int:
        """The number of equal comparisons."""
        return self.compared - self.tolerated - self.different


@dataclass
class _FieldDifferences:
    tolerated: int = 0
    different: int = 0
    largest: Decimal | None = None
    samples: list[str] = field(default_factory=list)


class FieldTally:
    """Counts compared fields while records stream by."""

    def __init__(self) -> None:
        # by operation: the number of records with each set of fields, and of items for each list
        self._shapes: dict[str, dict[str, Counter[tuple[str, ...]]]] = {}
        self._differing: dict[tuple[str, str], _FieldDifferences] = {}

    def add(
        self,
        operation: str,
        key: str,
        record: dict[str, Any],
        different: Sequence[Difference],
        tolerated: Sequence[Difference],
    ) -> None:
        """Count a compared record and its differences."""
        shapes = self._shapes.get(operation)
        if shapes is None:
            shapes = self._shapes[operation] = {name: Counter() for name in ("", *_lists_of(operation))}
        shapes[""][tuple(record)] += 1
        unlike = {one.path for one in different} if different else _NO_PATHS
        for name, counts in shapes.items():
            items = record.get(name)
            if isinstance(items, list) and name not in unlike:  # lists of different length are not compared by item
                for item in items:
                    if isinstance(item, dict):
                        counts[tuple(item)] += 1
        subject = BY_NAME[operation].subject
        for one in different:
            self._differ(subject, key, one).different += 1
        for one in tolerated:
            self._differ(subject, key, one).tolerated += 1

    def field_matches(self) -> tuple[FieldMatch, ...]:
        """All compared fields by subject, most differences first."""
        compared: Counter[tuple[str, str]] = Counter()
        for operation, shapes in self._shapes.items():
            subject = BY_NAME[operation].subject
            for holder, counts in shapes.items():
                prefix = f"{holder}[]." if holder else ""
                for names, count in counts.items():
                    compared.update({(subject, f"{prefix}{name}"): count for name in names})
        for place, differing in self._differing.items():  # nested fields, which the counted shapes do not name
            compared[place] = max(compared[place], differing.different + differing.tolerated)
        nowhere = _FieldDifferences()
        found = [
            FieldMatch(*place, count, one.tolerated, one.different, one.largest, tuple(one.samples))
            for place, count in compared.items()
            for one in [self._differing.get(place, nowhere)]
        ]
        return tuple(sorted(found, key=lambda one: (one.subject, -one.different, -one.tolerated, one.path)))

    def _differ(self, subject: str, key: str, found: Difference) -> _FieldDifferences:
        differing = self._differing.setdefault((subject, STEP.sub("[]", found.path)), _FieldDifferences())
        if len(differing.samples) < _SAMPLES and key not in differing.samples:
            differing.samples.append(key)
        gap = gap_of(found)
        if gap is not None and (differing.largest is None or abs(gap) > differing.largest):
            differing.largest = abs(gap)
        return differing


def gap_of(found: Difference) -> Decimal | None:
    """The exchange's value minus the sent one, if both are numbers."""
    try:
        gap = Decimal(found.held) - Decimal(found.sent)
    except ArithmeticError:
        return None
    return gap if is_calculable(gap) else None


def _lists_of(operation: str) -> Iterator[str]:
    for inner in BY_NAME[operation].record.fields:
        if inner.record is not None:
            yield from (inner.name, *inner.spellings)
