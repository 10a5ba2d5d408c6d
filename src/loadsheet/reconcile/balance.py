"""What must balance: every row read is accounted for once, and the figures of the records add up on each leg.

The tie-out: rows read = rows of accepted + refused + invalid + held + unchanged + unknown + sending + ready entries + ignored rows,
for each table of each file and in all.

Control totals count the records in creates and updates; units and currencies are never mixed. The contract declares which fields add up.
An update that omits a unit is counted in the unit of its record, from the earlier accepted calls, else from its listing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from loadsheet.contract import (
    BY_NAME,
    MEASURES,
    Action,
    Measure,
    Operation,
    Scale,
    Tolerances,
    amounts,
    decode_record,
    fields_of,
    measures_of,
    units_in,
    units_lacking,
)
from loadsheet.ledger import Drop, Entry, EntryHead, IgnoredRow, SourceTable, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile.verdicts import ListingCoverage, Verdict

IGNORED = "ignored"
FATES: tuple[str, ...] = (
    State.ACCEPTED,
    State.REFUSED,
    State.INVALID,
    State.HELD,
    State.UNCHANGED,
    State.UNKNOWN,
    State.SENDING,
    State.READY,
    IGNORED,
)
"""The possible fates of a row, in report order."""

WORST_FIRST: tuple[str, ...] = (
    State.UNKNOWN,
    State.SENDING,
    State.REFUSED,
    State.INVALID,
    State.HELD,
    State.READY,
    State.ACCEPTED,
    State.UNCHANGED,
    IGNORED,
)
"""The fates by urgency. A row that several documents are made from has the most urgent of their fates."""


class TableBalance(NamedTuple):
    """The balance of one table: rows read, rows by fate, and rows counted for more than one entry (should be none)."""

    drop: int
    table: str
    file: str
    sheet: str
    read: int
    rows: dict[str, int]
    twice: int

    @property
    def accounted(self) -> int:
        """Rows with a fate."""
        return sum(self.rows.values())

    @property
    def balances(self) -> bool:
        """Whether every row read has exactly one fate."""
        return self.read == self.accounted and not self.twice


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of all tables, and the number of entries behind it."""

    tables: tuple[TableBalance, ...]
    entries: int

    @property
    def read(self) -> int:
        """Rows read in all."""
        return sum(table.read for table in self.tables)

    @property
    def rows(self) -> dict[str, int]:
        """Rows by fate in all; includes every fate."""
        return {fate: sum(table.rows[fate] for table in self.tables) for fate in FATES}

    @property
    def balances(self) -> bool:
        """Whether every table balances."""
        return all(table.balances for table in self.tables)

    def faults(self) -> Iterator[str]:
        """The tables that do not balance, in sentences."""
        for table in self.tables:
            place = f"{table.file} {table.sheet}".strip()
            if table.read != table.accounted:
                yield f"{place}: {table.read} rows read, {table.accounted} accounted for"
            if table.twice:
                yield f"{place}: {table.twice} rows are accounted for more than once"


class Tally:
    """Counts the rows of a run's drops while its entries stream by."""

    def __init__(self) -> None:
        self._tables: dict[int, dict[str, _TableTally]] = {}  # by drop
        self._counting: dict[int, dict[str, _TableTally]] = {}  # the tally that counts the rows of each table
        self._entries = 0

    def open(self, drop: Drop) -> None:
        """Begin with a drop."""
        own = self._tables[drop.id] = {table.name: _TableTally(drop.id, table) for table in drop.tables}
        self._counting[drop.id] = {name: own[counting] for name, counting in drop.counted_in.items()}

    def add(self, entry: Entry) -> None:
        """Count the rows of an entry under its state. A row shared by several entries counts once, under the worst."""
        self._entries += 1
        tables, rank = self._counting[entry.drop], _RANKS[entry.state]
        for row in entry.links.own(entry.rows):
            tables[row.table].add(row.number, rank)
        for index in entry.links.shared:
            tables[entry.rows[index].table].share(entry.rows[index].number, rank)

    def leave_out(self, drop: Drop, rows: Iterable[IgnoredRow]) -> None:
        """Count the rows that rules ignored."""
        for row in rows:
            self._counting[drop.id][row.table].add(row.number, _RANKS[IGNORED])

    def balance(self) -> Balance:
        """The counts so far."""
        tallies = (tally for tables in self._tables.values() for tally in tables.values())
        return Balance(tuple(tally.balance() for tally in tallies), self._entries)


_RANKS = {fate: rank for rank, fate in enumerate(WORST_FIRST, start=1)}


class _TableTally:
    """Counts the rows of one table by the rank of their fates."""

    def __init__(self, drop: int, table: SourceTable) -> None:
        self._drop, self._table = drop, table
        self._ranks = bytearray()  # one byte per row number (0: none yet), to prove that no row has two fates
        self._early: dict[int, int] = {}  # rows seen before their own document: the worst rank so far
        self._again: Counter[int] = Counter()  # ranks of rows that were added once more

    def add(self, number: int, rank: int) -> None:
        if self._early:
            rank = min(rank, self._early.pop(number, rank))
        ranks = self._ranks
        if number >= len(ranks):
            ranks.extend(bytes(max(number + 1 - len(ranks), len(ranks))))  # doubles, so that few rows extend it
        if before := ranks[number]:
            self._again[before] += 1
        ranks[number] = rank

    def share(self, number: int, rank: int) -> None:
        """Another document shares a row that its own document counts: the worse fate wins."""
        before = self._ranks[number] if number < len(self._ranks) else 0
        if not before:
            self._early[number] = min(rank, self._early.get(number, rank))
        elif before > rank:
            self._ranks[number] = rank

    def balance(self) -> TableBalance:
        table = self._table
        rows = {fate: self._ranks.count(_RANKS[fate]) + self._again[_RANKS[fate]] for fate in FATES}
        return TableBalance(self._drop, table.name, table.file, table.sheet, table.rows, rows, self._again.total())


def units_left_out(
    queries: LedgerQueries, entries: Sequence[Entry], heads: Sequence[EntryHead]
) -> dict[int, Mapping[str, str]]:
    """The units of records at the time of updates that omit the unit of a figure, by field. `heads` are the entries of
    their lanes in ledger order.
    """
    lacking = {}
    for entry in entries:
        operation, content = BY_NAME[entry.operation], entry.payload or entry.figures
        if (
            operation.action is Action.UPDATE
            and content
            and units_lacking(measures_of(operation), decode_record(content))
        ):
            lacking[entry.id] = entry.lane
    if not lacking:
        return {}
    lanes = {*lacking.values()}
    made = [
        one
        for one in heads
        if one.lane in lanes and one.state is State.ACCEPTED and measures_of(BY_NAME[one.operation])
    ]
    contents: dict[int, dict[str, str]] = {}
    for entry in queries.entries_by_id([one.id for one in made]):
        content = entry.payload or entry.figures
        contents[entry.id] = units_in(measures_of(BY_NAME[entry.operation]), decode_record(content)) if content else {}
    stands: dict[str, dict[str, str]] = {lane: {} for lane in lanes}
    found: dict[int, Mapping[str, str]] = {}
    for one in made:
        stands[one.lane] = {**stands[one.lane], **contents[one.id]}
        if one.id in lacking:
            found[one.id] = stands[one.lane]
    return {entry: found.get(entry, stands[lane]) for entry, lane in lacking.items()}


def with_units(
    operation: Operation, record: dict[str, Any], units: Mapping[str, str], listed: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A record with the units that it omits for its figures."""
    if operation.action is not Action.UPDATE:
        return record
    names = units_lacking(measures_of(operation), record)
    given = {name: units.get(name) or (listed or {}).get(name) for name in names}
    return {**record, **{name: unit for name, unit in given.items() if unit}} if names else record


_DOCUMENTS = Measure("documents", Scale.COUNT, "")
_DOCUMENT = (_DOCUMENTS, "", Decimal(1))
_Way = tuple[str, str, tuple[int, ...]]
_SOURCE, _NOT_SENT, _SENT, _ACKNOWLEDGED, _LISTED, _REPLACED, _UNSEEN = range(7)

NOT_LISTED, PARTIAL, UNEVEN = "not listed", "listing partial", "does not add up"
AGREEING, DIFFERS, UNVERIFIED = "agrees", "differs", Verdict.NOT_VERIFIABLE.value
RED = frozenset({UNEVEN, DIFFERS})
"""The results of a control total that need attention."""


@dataclass(frozen=True, slots=True)
class Total:
    """One figure on each leg. `source` is everything requested; `not_sent` the part without a call; `sent` the part
    with calls; `acknowledged` what was accepted and not replaced later; `listed` what the exchange shows of that;
    `replaced` what was accepted and replaced or deleted by a later call; `unseen` the part of `acknowledged` that is not
    verifiable. `not_built` documents of the subject have no
    figures, so these are missing from all legs. `result` is that over all legs (see `with_result`).
    """

    subject: str
    figure: str
    unit: str
    scale: Scale
    source: Decimal
    not_sent: Decimal
    sent: Decimal
    acknowledged: Decimal
    listed: Decimal
    replaced: Decimal
    unseen: Decimal
    tolerance: Decimal = Decimal(0)
    not_built: int = field(default=0, kw_only=True)
    result: str = field(default="", kw_only=True)

    def with_result(self, coverage: ListingCoverage | None, tolerances: Tolerances, tolerated: int) -> "Total":
        """A copy with its result over all legs. Each of the `tolerated` documents may differ by the tolerance."""
        each = {Scale.WEIGHT: tolerances.weight, Scale.MONEY: tolerances.money}.get(self.scale, Decimal(0))
        tolerance = each * max(1, tolerated)
        return replace(self, tolerance=tolerance, result=self._result_of(coverage, tolerance))

    def _result_of(self, coverage: ListingCoverage | None, tolerance: Decimal) -> str:
        if coverage is None or not coverage.read:
            return NOT_LISTED
        if not coverage.complete:
            return PARTIAL
        if self.source != self.not_sent + self.sent:
            return UNEVEN
        if abs(self.acknowledged - self.unseen - self.listed) > tolerance:
            return DIFFERS
        return UNVERIFIED if self.unseen else AGREEING

    @property
    def legs(self) -> tuple[Decimal, ...]:
        """The figures of the legs in order."""
        return (self.source, self.not_sent, self.sent, self.acknowledged, self.listed)


class Share(NamedTuple):
    """The part of a figure that belongs to documents with one verdict, as requested by the source."""

    verdict: str
    figure: str
    unit: str
    amount: Decimal


class Adder:
    """Adds figures up while entries stream by."""

    def __init__(self) -> None:
        # by subject, verdict and a document's path (legs are separated only at the end), then by figure and unit
        self._sums: dict[_Way, defaultdict[tuple[str, str], Decimal]] = defaultdict(lambda: defaultdict(Decimal))
        self._not_built: Counter[str] = Counter()

    def add(
        self, entry: Entry, record: dict[str, Any], listed: dict[str, Any] | None, *, stands: bool, verdict: str = ""
    ) -> bool:
        """Count one entry with its verdict. `record` is its decoded payload (empty if none), `listed` the single listed
        record, and `stands` means that it was accepted and not replaced since. Returns whether the listed record has
        other figures or units than the payload.
        """
        subject, measures, names = _figures_of(entry.operation)
        if not measures:
            return False
        called = entry.attempts > 0 and entry.state is not State.READY  # a ready entry was certainly never sent
        legs: tuple[int, ...] = (_SOURCE, _NOT_SENT)
        if called:
            unseen = (_UNSEEN,) if verdict == UNVERIFIED else ()
            accepted = (_ACKNOWLEDGED, *unseen) if stands else (_REPLACED,)
            legs = (_SOURCE, _SENT, *(accepted if entry.state is State.ACCEPTED else ()))
        self._not_built[subject] += not record and not called
        shown = listed if stands else None
        sent = list(amounts(measures, record))
        if shown is None:
            self._book((subject, verdict, legs), [_DOCUMENT, *sent])
            return False
        if list(map(record.get, names)) == list(map(shown.get, names)):
            self._book((subject, verdict, (*legs, _LISTED)), [_DOCUMENT, *sent])
            return False
        # an update that omits a figure must not be compared with the figure of the whole record
        carried = {measure.name for measure, _, _ in sent}
        compared = measures if len(carried) == len(measures) else tuple(one for one in measures if one.name in carried)
        seen = list(amounts(compared, shown))
        self._book((subject, verdict, (*legs, _LISTED)), [_DOCUMENT])
        self._book((subject, verdict, legs), sent)
        self._book((subject, verdict, (_LISTED,)), seen)
        return seen != sent

    def totals(self) -> tuple[Total, ...]:
        """All figures, by subject, in the order of the contract, then by unit."""
        figures = {
            (subject, measure.name): (rank, measure)
            for subject in MEASURES
            for rank, measure in enumerate((_DOCUMENTS, *MEASURES[subject]))
        }
        sums_of: dict[tuple[str, int, str], list[Decimal]] = {}
        for (subject, _, legs), booked in self._sums.items():
            for (name, unit), amount in booked.items():
                sums = sums_of.setdefault((subject, figures[subject, name][0], unit), [Decimal(0)] * 7)
                for leg in legs:
                    sums[leg] += amount
        named = {(subject, rank): measure for (subject, _), (rank, measure) in figures.items()}
        return tuple(
            Total(
                subject,
                named[subject, rank].name,
                unit,
                named[subject, rank].scale,
                *sums,
                not_built=self._not_built[subject],
            )
            for (subject, rank, unit), sums in sorted(sums_of.items())
        )

    def shares(self) -> tuple[Share, ...]:
        """The amounts requested by creates and updates, by verdict, figure and unit, over all subjects."""
        sums: defaultdict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
        for (_, verdict, legs), booked in self._sums.items():
            for (name, unit), amount in booked.items() if legs[0] == _SOURCE else ():
                sums[verdict, name, unit] += amount
        return tuple(Share(*place, amount) for place, amount in sorted(sums.items()))

    def _book(self, way: _Way, figures: Iterable[tuple[Measure, str, Decimal]]) -> None:
        booked = self._sums[way]
        for measure, unit, amount in figures:
            booked[measure[0], unit] += amount


@cache
def _figures_of(operation: str) -> tuple[str, tuple[Measure, ...], tuple[str, ...]]:
    """The subject of an operation, the figures of its records, and the fields that hold them."""
    measures = measures_of(BY_NAME[operation])
    return BY_NAME[operation].subject, measures, fields_of(measures)
