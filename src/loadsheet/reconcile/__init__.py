"""Stage 6: reconcile. Matches source, sent and listed for every entry, and proves that every row is accounted for.

`reconcile_run` gives every entry of a run its verdict, with the row balance and the control totals; `Reconciliation` is the
result. Reads the ledger and the listings passed in. Does not know how listings are fetched, what reports look like, or
what a source file is. Entries come in batches with one ledger query per batch, so memory does not grow with them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from loadsheet.contract import (
    BY_NAME,
    EXACT,
    LISTED_WRITES,
    Difference,
    Listing,
    Tolerances,
    decode_record,
    different_fields,
    exact_sums,
    fields_of,
    first_field,
    measures_of,
)
from loadsheet.display_text import count_of
from loadsheet.ledger import Drop, Entry, Run, State
from loadsheet.ledger.planning import waits_as
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile.balance import (
    FATES,
    IGNORED,
    RED,
    WORST_FIRST,
    Adder,
    Balance,
    Share,
    TableBalance,
    Tally,
    Total,
    units_left_out,
    with_units,
)
from loadsheet.reconcile.exception_rules import Exceptions, follow_up, values_left
from loadsheet.reconcile.listings import ONLY_CHECKED, ListingIndex, ListingSnapshot, RecordedListings, RunNotes
from loadsheet.reconcile.verdicts import (
    AGREES,
    IN_ORDER,
    MEANINGS,
    REMEDIES,
    STATES_COMPARED,
    UNKNOWN_RECORD,
    VERDICTS_THAT_NEED_SOMEONE,
    FieldMatch,
    FieldTally,
    ListingCoverage,
    Match,
    Matches,
    OnlyListed,
    RecordState,
    Verdict,
    as_only_listed,
    by_rule,
    gap_of,
    record_states,
)
from loadsheet.settings import Settings

__all__ = [
    "AGREES",
    "FATES",
    "IGNORED",
    "IN_ORDER",
    "MEANINGS",
    "ONLY_CHECKED",
    "RED",
    "REMEDIES",
    "VERDICTS_THAT_NEED_SOMEONE",
    "WORST_FIRST",
    "Exceptions",
    "Match",
    "Reconciliation",
    "RecordedListings",
    "RunNotes",
    "Share",
    "TableBalance",
    "Total",
    "Verdict",
    "gap_of",
    "reconcile_run",
]

_SHOWN_BY_LISTINGS = frozenset(
    {
        Verdict.MATCHED,
        Verdict.WITHIN_TOLERANCE,
        Verdict.VALUE_DIFFERENCE,
        Verdict.UNCHANGED,
        Verdict.MISSING,
        Verdict.STILL_LISTED,
        Verdict.LISTED_TWICE,
        Verdict.NOT_VERIFIABLE,
    }
)


class Unverified(NamedTuple):
    """The number of entries, of `all` that a listing should show, that an incomplete listing leaves unverified."""

    coverage: ListingCoverage
    entries: int
    all: int


@dataclass(frozen=True)
class Reconciliation:
    """The reconciliation of a run over these drops. `matches` holds one match per entry, in ledger order. `notes` are
    further remarks of the run.
    """

    drops: tuple[Drop, ...]
    matches: Matches
    only_listed: tuple[OnlyListed, ...]
    coverage: tuple[ListingCoverage, ...]
    balance: Balance
    totals: tuple[Total, ...]
    exceptions: Exceptions
    fields: tuple[FieldMatch, ...]
    shares: tuple[Share, ...]
    seen: ListingSnapshot
    notes: RunNotes

    @cached_property
    def verdicts(self) -> Counter[Verdict]:
        """The number of entries by verdict."""
        return self.matches.verdicts()

    @cached_property
    def states(self) -> Counter[State]:
        """The number of entries by state."""
        return self.matches.states()

    @property
    def balances(self) -> bool:
        """Whether all rows read and all entries of the ledger are accounted for exactly once."""
        return self.balance.balances and self.balance.entries == self.verdicts.total()

    @cached_property
    def needs_someone(self) -> int:
        """The number of entries that still need attention."""
        resolved = self.exceptions.resolved
        return sum(entry not in resolved for entry in self.matches.needing_someone())

    @cached_property
    def unverified(self) -> tuple[Unverified, ...]:
        """The unverified entries of each subject whose listing was read and is incomplete."""
        totals, counts = Counter[str](), Counter[str]()
        for (operation, verdict), count in self.matches.of_operations().items():
            subject = BY_NAME[operation].subject
            totals[subject] += count if verdict in _SHOWN_BY_LISTINGS and BY_NAME[operation].proved_by else 0
            counts[subject] += count if verdict is Verdict.NOT_VERIFIABLE else 0
        partial = (one for one in self.coverage if one.read and not one.complete and counts[one.subject])
        return tuple(Unverified(one, counts[one.subject], totals[one.subject]) for one in partial)

    @property
    def red_totals(self) -> int:
        """The number of control totals that differ between legs."""
        return sum(total.result in RED for total in self.totals)

    def pack_snapshot(self) -> bytes:
        """What the listings showed of the entries, packed for the ledger with the run's notes (see `RecordedListings`)."""
        return self.seen.pack(self.coverage, self.only_listed, self.notes)

    def faults(self) -> Iterator[str]:
        """Why it does not balance, in sentences; none if it does."""
        yield from self.balance.faults()
        if self.balance.entries != self.verdicts.total():
            yield f"{count_of(self.balance.entries, 'entry', 'entries')} in the ledger, {count_of(self.verdicts.total(), 'verdict')}"


_NOTHING: dict[str, Any] = {}
_BATCH = 1_000
_NOT_LISTED = ListingCoverage("", read=False)

_Item = TypeVar("_Item")


@exact_sums()
def reconcile_run(
    queries: LedgerQueries,
    listings: Mapping[str, Listing | None] | RecordedListings | None,
    run: Run,
    settings: Settings,
    *,
    drops: Sequence[Drop] | None = None,
) -> Reconciliation:
    """Reconcile a run: all entries of the drops it touched, or of the given `drops`.

    `listings` holds the listing of each subject (`order`, `tender`), decoded with exact numbers. A subject is None or
    absent if its listing was not fetched or could not be read. Or `listings` are what earlier runs recorded, or None for a
    check, which compares nothing: what the ledger already has is unchanged. The caller
    checks whether the result balances (`Reconciliation.balances`).
    """
    listed = listings if isinstance(listings, RecordedListings) else ListingIndex(listings or {})
    judge = _Judge(queries, listed, settings)
    judge.compares, judge.sends_now = listings is not None, run.in_progress
    drops = tuple(queries.drops_of(run) if drops is None else drops)
    for drop in drops:
        judge.tally.open(drop)
        for batch in _batches(queries.entries_of(drop.id)):
            judge.add_batch(batch)
        judge.tally.leave_out(drop, queries.ignored_of(drop.id))
    coverage = tuple(one for name, one in sorted(listed.coverage.items()) if one.read or name in judge.subjects)
    only_listed = listed.only_listed if isinstance(listed, RecordedListings) else judge.only_listed_records(listed)
    return Reconciliation(
        drops,
        judge.matches,
        only_listed,
        coverage,
        judge.tally.balance(),
        tuple(judge.totals()),
        follow_up(queries, run, judge.matches, judge.verdicts_of_earlier),
        judge.fields.field_matches(),
        judge.adder.shares(),
        judge.snapshot,
        listed.notes if isinstance(listed, RecordedListings) else RunNotes(),
    )


class _Judge:
    """Processes entries in batches: gives each its verdict, counts its rows and adds up its figures."""

    def __init__(self, queries: LedgerQueries, listed: ListingIndex | RecordedListings, settings: Settings) -> None:
        self._queries, self._listed = queries, listed
        self._tolerances = settings.tolerances
        self._waiting: dict[str, str] = {}  # listed lanes without an accepted entry: the state of this run's entry
        self._left: dict[int, dict[str, Any]] = {}  # of this batch, see `_values_left`
        self.compares, self.sends_now = True, False
        self.subjects: set[str] = set()  # subjects with entries that a listing could show
        self.fields = FieldTally()
        self.matches, self.tally, self.adder, self.snapshot = Matches(), Tally(), Adder(), ListingSnapshot()

    def add_batch(self, entries: Sequence[Entry]) -> None:
        """Process the next entries."""
        entries = self._with_effective_states(entries)
        heads = list(self._queries.heads_on(sorted({entry.lane for entry in entries}), *STATES_COMPARED))
        lanes, units = record_states(heads), units_left_out(self._queries, entries, heads)
        places = self._listed.find(entries)
        self._left = {entry: values for entry, values in self._values_left(entries, lanes).items() if values}
        for entry, found in zip(entries, places, strict=True):
            lane = lanes.get(entry.lane, UNKNOWN_RECORD)
            if found and (lane.expected or entry.id == lane.last):  # a deletion of this run has its own verdict
                self._listed.claim(found)
            elif found and entry.operation in LISTED_WRITES:
                self._waiting[entry.lane] = entry.state
            given = units.get(entry.id, {})
            coverage = self._listed.coverage_of(entry)
            ruled = by_rule(entry, lane, coverage, len(found))
            if ruled is Verdict.NOT_VERIFIABLE and not self.compares:
                ruled = Verdict.UNCHANGED
            alike = ruled is None
            if alike and entry.removed:
                ruled = self._without_contents(entry)
            partly = bool(found) and entry.id in self._left
            compared = partly or (alike and ruled is not Verdict.NOT_VERIFIABLE)
            listed = self._listed.record(entry, found) if compared else None
            different = self._add(entry, ruled, listed, lane, given)
            if coverage.read and (alike or partly or _listing_decides(entry, lane)) and not (alike and entry.removed):
                self.snapshot.add(entry, len(found), different, listed)

    def verdicts_of_earlier(self, entries: Sequence[Entry]) -> Iterator[Match]:
        """The verdicts on earlier runs' entries that were accepted or are unchanged. They count for nothing else here."""
        entries = self._with_effective_states(entries)
        lanes = record_states(self._queries.heads_on(sorted({entry.lane for entry in entries}), *STATES_COMPARED))
        left = self._values_left(entries, lanes)
        for entry, place in zip(entries, self._listed.find(entries), strict=True):
            coverage = self._listed.coverage_of(entry)
            lane = lanes.get(entry.lane, UNKNOWN_RECORD)
            ruled = by_rule(entry, lane, coverage, len(place))
            if ruled is None and entry.removed:
                yield Match(entry.id, entry.operation, entry.state, self._without_contents(entry))
            elif ruled is None or (place and left.get(entry.id)):
                listed = self._listed.record(entry, place)
                sent = left.get(entry.id) or decode_record(entry.payload)
                found = _compare(entry, sent, listed, self._tolerances)
                yield Match(entry.id, entry.operation, entry.state, _verdict(found, entry.state, ruled), *found)
                self.snapshot.add(entry, len(place), _fields(found), listed)
            else:
                unseen = entry.id in left and not (left[entry.id] and coverage.complete)
                yield Match(entry.id, entry.operation, entry.state, Verdict.NOT_VERIFIABLE if unseen else ruled)
                if coverage.read and _listing_decides(entry, lane):
                    self.snapshot.add(entry, len(place), (), None)

    def _values_left(
        self, entries: Sequence[Entry], lanes: Mapping[str, RecordState]
    ) -> dict[int, dict[str, Any] | None]:
        """The values of replaced entries that no later call carries (None: not known): the exchange should still show them."""
        ruled = ((entry, by_rule(entry, lanes.get(entry.lane, UNKNOWN_RECORD), _NOT_LISTED, 0)) for entry in entries)
        replaced = [entry for entry, verdict in ruled if verdict is Verdict.REPLACED]
        return values_left(self._queries, replaced) if replaced else {}

    def _with_effective_states(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries, each with the state that decides its verdict: for a duplicate of a waiting entry, the state of that entry. What a process
        sends now is still waiting.
        """
        unchanged = [one.id for one in entries if one.state is State.UNCHANGED and waits_as(one.reason)]
        states = self._queries.repeats(unchanged) if unchanged else {}
        # if the original was accepted meanwhile, the exchange has the duplicate's content
        waiting = {entry: state for entry, state in states.items() if state is not State.ACCEPTED}
        if self.sends_now:  # a call in progress is no lost answer
            waiting = {entry: State.READY if state is State.SENDING else state for entry, state in waiting.items()}
            waiting |= {one.id: State.READY for one in entries if one.state is State.SENDING}
        return [one._replace(state=waiting.get(one.id, one.state)) for one in entries] if waiting else list(entries)

    def _without_contents(self, entry: Entry) -> Verdict:
        """The verdict on a listed entry whose contents were removed: what its run recorded, if that is reported. Today's
        listing cannot be compared with anything.
        """
        if not isinstance(self._listed, RecordedListings):
            return Verdict.NOT_VERIFIABLE
        if not self._listed.is_different(entry):
            return _verdict(_AS_SENT, entry.state)
        if self._queries.exceptions_of([entry.id]):
            return Verdict.VALUE_DIFFERENCE
        return Verdict.UNCHANGED if entry.state is State.UNCHANGED else Verdict.WITHIN_TOLERANCE

    def totals(self) -> Iterator[Total]:
        """The control totals, each with its result over all legs."""
        tolerated = self.matches.verdicts()[Verdict.WITHIN_TOLERANCE]
        for total in self.adder.totals():
            yield total.with_result(self._listed.coverage.get(total.subject), self._tolerances, tolerated)

    def only_listed_records(self, listed: ListingIndex) -> tuple[OnlyListed, ...]:
        """The listed records that no entry accounts for, by subject and key."""
        found: set[OnlyListed] = set()
        for names in _batches(listed.unclaimed()):
            lanes = record_states(self._queries.heads_on(sorted(set(names)), *STATES_COMPARED))
            for name in names:
                lane = lanes.get(name, UNKNOWN_RECORD)
                if not lane.expected:
                    found.add(as_only_listed(name, lane, self._waiting.get(name, "")))
        return tuple(sorted(found, key=lambda one: f"{one.subject}:{one.key}"))

    def _add(
        self,
        entry: Entry,
        ruled: Verdict | None,
        listed: dict[str, Any] | None,
        lane: RecordState,
        units: Mapping[str, str],
    ) -> tuple[str, ...]:
        """Process an entry. Returns the fields that the listing must keep: those that differ, and those of differing figures."""
        operation = BY_NAME[entry.operation]
        if operation.proved_by:
            self.subjects.add(operation.subject)
        self.tally.add(entry)
        content = entry.payload or entry.figures
        needed = content and (listed is not None or measures_of(operation))
        record = decode_record(content) if needed else _NOTHING
        stands = entry.state is State.ACCEPTED and entry.id == lane.last
        compared = listed if not entry.removed else None
        sent = self._left.get(entry.id, record)
        found = _AS_SENT if compared is None else _compare(entry, sent, compared, self._tolerances)
        verdict = _verdict(found, entry.state, ruled)
        listed = listed if sent is record else None  # the totals have the calls that replaced it
        added = with_units(operation, record, units, listed)
        if listed is not None and isinstance(self._listed, RecordedListings):  # it lacks the units that were not sent
            listed = {**{name: added[name] for name in added.keys() - record.keys()}, **listed}
        other_figures = self.adder.add(entry, added, listed, stands=stands, verdict=verdict)
        if compared is not None:
            self.fields.add(entry.operation, entry.key, sent, *found)
        self.matches.add(Match(entry.id, entry.operation, entry.state, verdict, *found))
        figures = fields_of(measures_of(operation)) if other_figures else ()
        return (*figures, *_fields(found))


def _listing_decides(entry: Entry, lane: RecordState) -> bool:
    return by_rule(entry, lane, _NOT_LISTED, 0) is Verdict.NOT_VERIFIABLE


class _Content(NamedTuple):
    different: tuple[Difference, ...]
    tolerated: tuple[Difference, ...]


_AS_SENT = _Content((), ())


def _fields(found: _Content) -> tuple[str, ...]:
    return tuple(first_field(one.path) for differences in found for one in differences)


def _compare(entry: Entry, record: dict[str, Any], listed: dict[str, Any], tolerances: Tolerances) -> _Content:
    # equality in every field is the usual case and quick to check; true and false compare equal to 1 and 0
    sent = record.values()
    if record.items() <= listed.items() and 1 not in sent and 0 not in sent:
        return _AS_SENT
    operation, ordered = BY_NAME[entry.operation], entry.ordered
    differences = different_fields(operation.record, record, listed, EXACT, ordered)
    if not differences:
        return _AS_SENT
    beyond = different_fields(operation.record, record, listed, tolerances, ordered)
    return _Content(tuple(beyond), tuple(found for found in differences if found not in beyond))


def _verdict(found: _Content, state: State, ruled: Verdict | None = None) -> Verdict:
    if found.different:
        return Verdict.VALUE_DIFFERENCE
    if ruled is not None:
        return ruled
    if state is State.UNCHANGED:
        return Verdict.UNCHANGED
    return Verdict.WITHIN_TOLERANCE if found.tolerated else Verdict.MATCHED


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    items = iter(items)
    while batch := list(islice(items, _BATCH)):
        yield batch
