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
from loadsheet.ledger import Drop, Entry, EntryHead, Run, State
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
from loadsheet.reconcile.exception_rules import Exceptions, follow_up, kept_values
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
    """The number of entries that an incomplete listing leaves unverified, of the `listable` ones, which it should show."""

    coverage: ListingCoverage
    entries: int
    listable: int


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
    judge = _Judge(queries, listed, settings, compares=listings is not None, sends_now=run.in_progress)
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


class _Case(NamedTuple):
    """An entry, with everything that decides its verdict: what stands on its lane, the `places` of its record in the listings, and how
    completely these show its subject. If a later call replaced only a part of it, `keeps_values`: `kept` are the values that no later
    call carries (None: not known), which the exchange should still show.
    """

    entry: Entry
    lane: RecordState
    coverage: ListingCoverage
    places: range
    keeps_values: bool
    kept: dict[str, Any] | None
    record: dict[str, Any]


class _Judgement(NamedTuple):
    """The verdict on an entry, and how its contents compare with the listed record (if that was needed). `by_listing`: a listing decided."""

    verdict: Verdict
    content: "_Content"
    listed: dict[str, Any] | None
    by_listing: bool


class _Judge:
    """Processes entries in batches: gives each its verdict, counts its rows and adds up its figures. `compares`: there are listings to
    compare with. `sends_now`: a process still sends the entries of this run.
    """

    def __init__(
        self,
        queries: LedgerQueries,
        listed: ListingIndex | RecordedListings,
        settings: Settings,
        *,
        compares: bool,
        sends_now: bool,
    ) -> None:
        self._queries, self._listed = queries, listed
        self._tolerances, self._compares, self._sends_now = settings.tolerances, compares, sends_now
        self._waiting: dict[str, str] = {}  # listed lanes without an accepted entry: the state of this run's entry
        self.subjects: set[str] = set()  # subjects with entries that a listing could show
        self.fields = FieldTally()
        self.matches, self.tally, self.adder, self.snapshot = Matches(), Tally(), Adder(), ListingSnapshot()

    def add_batch(self, entries: Sequence[Entry]) -> None:
        """Process the next entries."""
        entries = self._with_effective_states(entries)
        heads = list(self._queries.heads_on(sorted({entry.lane for entry in entries}), *STATES_COMPARED))
        units = units_left_out(self._queries, entries, heads)
        for case in self._cases(entries, heads):
            self._claim(case)
            judgement = self._judge(case)
            if judgement.verdict is Verdict.NOT_VERIFIABLE and not self._compares:
                judgement = judgement._replace(verdict=Verdict.UNCHANGED)
            figures = self._add(case, judgement, units.get(case.entry.id, {}))
            self._add_to_snapshot(case, judgement, figures)

    def verdicts_of_earlier(self, entries: Sequence[Entry]) -> Iterator[Match]:
        """The verdicts on earlier runs' entries that were accepted or are unchanged. They count for nothing else here."""
        entries = self._with_effective_states(entries)
        heads = self._queries.heads_on(sorted({entry.lane for entry in entries}), *STATES_COMPARED)
        for case in self._cases(entries, heads):
            judgement = self._judge(case)
            if case.keeps_values and not (case.kept and (case.places or case.coverage.complete)):
                judgement = judgement._replace(verdict=Verdict.NOT_VERIFIABLE)
            yield Match(case.entry.id, case.entry.operation, case.entry.state, judgement.verdict, *judgement.content)
            self._add_to_snapshot(case, judgement)

    def _cases(self, entries: Sequence[Entry], heads: Iterable[EntryHead]) -> Iterator[_Case]:
        lanes = record_states(heads)
        kept = self._kept_values(entries, lanes)
        for entry, places in zip(entries, self._listed.find(entries), strict=True):
            content = entry.payload or entry.figures
            needed = content and (places or measures_of(BY_NAME[entry.operation]))
            yield _Case(
                entry,
                lanes.get(entry.lane, UNKNOWN_RECORD),
                self._listed.coverage_of(entry),
                places,
                entry.id in kept,
                kept.get(entry.id),
                decode_record(content) if needed else _NOTHING,
            )

    def _claim(self, case: _Case) -> None:
        """Note that an entry accounts for its listed records, or that it may."""
        entry, lane = case.entry, case.lane
        if case.places and (lane.expected or entry.id == lane.last):  # a deletion of this run has its own verdict
            self._listed.claim(case.places)
        elif case.places and entry.operation in LISTED_WRITES:
            self._waiting[entry.lane] = entry.state

    def _judge(self, case: _Case) -> _Judgement:
        """The verdict by the rules; if these leave it to the contents, or values are kept that no later call carries, by comparison."""
        entry = case.entry
        ruled = by_rule(entry, case.lane, case.coverage, len(case.places))
        if ruled is None and entry.removed:
            verdict = self._without_contents(entry)
            listed = None if verdict is Verdict.NOT_VERIFIABLE else self._listed.record(entry, case.places)
            return _Judgement(verdict, _AS_SENT, listed, by_listing=False)
        if ruled is not None and not (case.places and case.kept):
            by_listing = case.coverage.read and _listing_decides(entry, case.lane)
            return _Judgement(ruled, _AS_SENT, None, by_listing)
        listed = self._listed.record(entry, case.places)
        content = _compare(entry, case.kept or case.record, listed, self._tolerances)
        return _Judgement(_verdict(content, entry.state, ruled), content, listed, by_listing=True)

    def _add_to_snapshot(self, case: _Case, judgement: _Judgement, figures: Sequence[str] = ()) -> None:
        """Record what the listing showed: the fields that differ, and these of differing figures."""
        if judgement.by_listing:
            different = (*figures, *_fields(judgement.content))
            self.snapshot.add(case.entry, len(case.places), different, judgement.listed)

    def _kept_values(
        self, entries: Sequence[Entry], lanes: Mapping[str, RecordState]
    ) -> dict[int, dict[str, Any] | None]:
        """The values of replaced entries that no later call carries (None: not known): the exchange should still show them."""
        ruled = ((entry, by_rule(entry, lanes.get(entry.lane, UNKNOWN_RECORD), _NOT_LISTED, 0)) for entry in entries)
        replaced = [entry for entry, verdict in ruled if verdict is Verdict.REPLACED]
        return kept_values(self._queries, replaced) if replaced else {}

    def _with_effective_states(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries, each with the state that decides its verdict: for a duplicate of a waiting entry, the state of that entry. What a process
        sends now is still waiting.
        """
        unchanged = [one.id for one in entries if one.state is State.UNCHANGED and waits_as(one.reason)]
        states = self._queries.repeats(unchanged) if unchanged else {}
        # if the original was accepted meanwhile, the exchange has the duplicate's content
        waiting = {entry: state for entry, state in states.items() if state is not State.ACCEPTED}
        if self._sends_now:  # a call in progress is no lost answer
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

    def _add(self, case: _Case, judgement: _Judgement, units: Mapping[str, str]) -> tuple[str, ...]:
        """Add an entry to the matches, the row balance and the totals. Returns the fields of figures that the listing shows differently."""
        entry, (verdict, content, listed, _) = case.entry, judgement
        operation = BY_NAME[entry.operation]
        if operation.proved_by:
            self.subjects.add(operation.subject)
        self.tally.add(entry)
        self.matches.add(Match(entry.id, entry.operation, entry.state, verdict, *content))
        if listed is not None and not entry.removed:
            self.fields.add(entry.operation, entry.key, case.kept or case.record, *content)
        listed = None if case.kept else listed  # the totals have the calls that replaced it
        added = with_units(operation, case.record, units, listed)
        if listed is not None and isinstance(self._listed, RecordedListings):  # it lacks the units that were not sent
            listed = {**{name: added[name] for name in added.keys() - case.record.keys()}, **listed}
        stands = entry.state is State.ACCEPTED and entry.id == case.lane.last
        other_figures = self.adder.add(entry, added, listed, stands=stands, verdict=verdict)
        return fields_of(measures_of(operation)) if other_figures else ()


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
