"""Control totals: the figures of all records, added up on each leg. Units and currencies are never mixed.

Counts the records in creates and updates. The contract declares which fields add up. An update that omits a unit is
counted in the unit of its record, from the earlier accepted calls, else from its listing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import (
    BY_NAME,
    MEASURES,
    Action,
    Difference,
    Measure,
    Operation,
    Scale,
    Tolerances,
    amounts,
    fields_of,
    measures_of,
    units_in,
    units_lacking,
)
from loadsheet.ledger import Entry, State, Trace
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import STEP
from loadsheet.reconcile.verdicts import Leg

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def units_left_out(
    queries: LedgerQueries, entries: Sequence[Entry], traces: Sequence[Trace]
) -> dict[int, Mapping[str, str]]:
    """The units of records at the time of updates that omit the unit of a figure, by field. `traces` are the entries of
    their lanes in ledger order.
    """
    lacking = {one.id: one.lane for one in entries if _lacks(one)}
    if not lacking:
        return {}
    lanes = {*lacking.values()}
    made = [one for one in traces if one.lane in lanes and one.state is State.ACCEPTED and _has_figures(one.operation)]
    contents = {one.id: _units(one) for one in queries.entries_by_id([one.id for one in made])}
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


def _lacks(entry: Entry) -> bool:
    operation, content = BY_NAME[entry.operation], entry.payload or entry.figures
    if operation.action is not Action.UPDATE or not content:
        return False
    return bool(units_lacking(measures_of(operation), _decode(content)))


def _has_figures(operation: str) -> bool:
    return bool(measures_of(BY_NAME[operation]))


def _units(entry: Entry) -> dict[str, str]:
    content = entry.payload or entry.figures
    return units_in(measures_of(BY_NAME[entry.operation]), _decode(content)) if content else {}


_DOCUMENTS = Measure("documents", Scale.COUNT, "")
_NONE, _ONE = Decimal(0), Decimal(1)


_SOURCE, _NOT_SENT, _SENT, _ACKNOWLEDGED, _LISTED = range(5)


NOT_LISTED, PARTIAL, UNEVEN = "not listed", "listing partial", "does not add up"
AGREEING, DIFFERS = "agrees", "differs"
RED = frozenset({UNEVEN, DIFFERS})
"""The results of a control total that need attention."""


@dataclass(frozen=True, slots=True)
class Total:
    """One figure on each leg. `source` is everything requested; `not_sent` the part without a call; `sent` the part
    with calls; `acknowledged` what was accepted and not replaced later; `listed` what the exchange shows of that; `says`
    the result over all legs (see `judged`).
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
    tolerance: Decimal = Decimal(0)
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
        return AGREEING if abs(self.acknowledged - self.listed) <= tolerance else DIFFERS

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
        self._sums: dict[tuple[str, str, tuple[int, ...]], dict[tuple[str, str], Decimal]] = {}

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
        legs = _legs(entry, stands=stands)
        shown = listed if stands else None
        sent = list(amounts(measures, record))
        if shown is None:
            self._book((subject, verdict, legs), sent, documents=_ONE)
            return False
        if list(map(record.get, names)) == list(map(shown.get, names)):
            self._book((subject, verdict, (*legs, _LISTED)), sent, documents=_ONE)
            return False
        # an update that omits a figure must not be compared with the figure of the whole record
        carried = {measure.name for measure, _, _ in sent}
        compared = measures if len(carried) == len(measures) else tuple(one for one in measures if one.name in carried)
        seen = list(amounts(compared, shown))
        self._book((subject, verdict, (*legs, _LISTED)), (), documents=_ONE)
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
                sums = sums_of.setdefault((subject, figures[subject, name][0], unit), [Decimal(0)] * 5)
                for leg in legs:
                    sums[leg] += amount
        named = {(subject, rank): measure for (subject, _), (rank, measure) in figures.items()}
        return tuple(
            Total(subject, named[subject, rank].name, unit, named[subject, rank].scale, *sums)
            for (subject, rank, unit), sums in sorted(sums_of.items())
        )

    def shares(self) -> tuple[Share, ...]:
        """The amounts requested by creates and updates, by verdict, figure and unit, over all subjects."""
        sums: dict[tuple[str, str, str], Decimal] = {}
        for (_, verdict, legs), booked in self._sums.items():
            for (name, unit), amount in booked.items() if legs[0] == _SOURCE else ():
                sums[verdict, name, unit] = sums.get((verdict, name, unit), _NONE) + amount
        return tuple(Share(*place, amount) for place, amount in sorted(sums.items()))

    def _book(
        self,
        way: tuple[str, str, tuple[int, ...]],
        figures: Iterable[tuple[Measure, str, Decimal]],
        *,
        documents: Decimal | None = None,
    ) -> None:
        booked = self._sums.get(way)
        if booked is None:
            booked = self._sums[way] = {}
        if documents is not None:
            booked[_DOCUMENTS.name, ""] = booked.get((_DOCUMENTS.name, ""), _NONE) + documents
        for measure, unit, amount in figures:
            place = (measure[0], unit)
            booked[place] = booked.get(place, _NONE) + amount


@cache
def _figures_of(operation: str) -> tuple[str, tuple[Measure, ...], tuple[str, ...]]:
    """The subject of an operation, the figures of its records, and the fields that hold them."""
    measures = measures_of(BY_NAME[operation])
    return BY_NAME[operation].subject, measures, fields_of(measures)


def _legs(entry: Entry, *, stands: bool) -> tuple[int, ...]:
    called = entry.attempts > 0 and entry.state is not State.READY  # a ready entry was certainly never sent
    if not called:
        return (_SOURCE, _NOT_SENT)
    return (_SOURCE, _SENT, _ACKNOWLEDGED) if stands else (_SOURCE, _SENT)


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
        found = [
            FieldMatch(*place, count, one.tolerated, one.different, one.largest, tuple(one.samples))
            for place, count in compared.items()
            for one in [self._differing.get(place, _FieldDifferences())]
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
    except InvalidOperation:
        return None
    return gap if gap.is_finite() else None


def _lists_of(operation: str) -> Iterator[str]:
    for inner in BY_NAME[operation].record.fields:
        if inner.record is not None:
            yield from (inner.name, *inner.spellings)
