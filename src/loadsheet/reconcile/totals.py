"""The control totals: figures of the records are added up on each leg.

Control totals count the records in creates and updates; units and currencies are never mixed. The contract declares which fields add up.
An update that omits a unit is counted in the unit of its record, from the earlier accepted calls, else from its listing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
from loadsheet.ledger import Entry, EntryHead, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile.verdicts import Leg, Verdict


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
    figures, so these are missing from all legs. `says` is the result over all legs (see `with_result`).
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
    says: str = field(default="", kw_only=True)

    def with_result(self, leg: Leg | None, tolerances: Tolerances, tolerated: int) -> "Total":
        """A copy with its result over all legs. Each of the `tolerated` documents may differ by the tolerance."""
        each = {Scale.WEIGHT: tolerances.weight, Scale.MONEY: tolerances.money}.get(self.scale, Decimal(0))
        tolerance = each * max(1, tolerated)
        return replace(self, tolerance=tolerance, says=self._says(leg, tolerance))

    def _says(self, leg: Leg | None, tolerance: Decimal) -> str:
        if leg is None or not leg.read:
            return NOT_LISTED
        if not leg.complete:
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
