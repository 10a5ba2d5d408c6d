"""Control totals: the figures of all records added up on each leg, units and currencies never mixed.

Counts the records that creates and updates carry; what adds up, and under which field names, is the contract's to say.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from loadsheet.contract import BY_NAME, MEASURES, Measure, Scale, amounts, measures_of
from loadsheet.ledger import Entry, State

_DOCUMENTS = Measure("documents", Scale.COUNT, "")
_NONE, _ONE = Decimal(0), Decimal(1)


_SOURCE, _NOT_SENT, _SENT, _ACKNOWLEDGED, _LISTED = range(5)


@dataclass(frozen=True, slots=True)
class Total:
    """One figure on each leg. `source` is everything asked for; `not_sent` what no call was made for now; `sent` what calls
    were made for; `acknowledged` what was accepted and not replaced later; `listed` what the exchange shows of that.
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

    @property
    def legs(self) -> tuple[Decimal, ...]:
        """The figures in the order in which a document goes through them."""
        return (self.source, self.not_sent, self.sent, self.acknowledged, self.listed)


class Share(NamedTuple):
    """How much of a figure the documents with one verdict carry, as their source asked for it."""

    verdict: str
    figure: str
    unit: str
    amount: Decimal


class Adder:
    """Adds figures up while entries stream by."""

    def __init__(self) -> None:
        # by subject, figure, unit, verdict and the way that a document went: its legs are told apart at the end only
        self._sums: dict[tuple[str, str, str, str, tuple[int, ...]], Decimal] = {}

    def add(
        self, entry: Entry, record: dict[str, Any], listed: dict[str, Any] | None, *, stands: bool, verdict: str = ""
    ) -> bool:
        """Count one entry, with its verdict. `record` is its decoded payload (empty if there is none), `listed` the one record that the listing
        shows of it, `stands` says that it was accepted and nothing replaced it since. Returns whether the listed record adds
        other figures, or in other units, than the payload.
        """
        operation = BY_NAME[entry.operation]
        measures = measures_of(operation)
        if not measures:
            return False
        legs = _legs(entry, stands=stands)
        shown = listed if stands else None
        subject = operation.subject
        self._book(subject, _DOCUMENTS, "", (verdict, legs if shown is None else (*legs, _LISTED)), _ONE)
        sent = list(amounts(measures, record))
        for measure, unit, amount in sent:
            self._book(subject, measure, unit, (verdict, legs), amount)
        if shown is None:
            return False
        # an update that leaves a figure alone must not be compared with the whole record's
        carried = {measure.name for measure, _, _ in sent}
        compared = measures if len(carried) == len(measures) else tuple(one for one in measures if one.name in carried)
        seen = list(amounts(compared, shown))
        for measure, unit, amount in seen:
            self._book(subject, measure, unit, (verdict, (_LISTED,)), amount)
        return seen != sent

    def totals(self) -> tuple[Total, ...]:
        """All figures, by subject, in the order of the contract, then by unit."""
        figures = {
            (subject, measure.name): (rank, measure)
            for subject in MEASURES
            for rank, measure in enumerate((_DOCUMENTS, *MEASURES[subject]))
        }
        told: dict[tuple[str, int, str], list[Decimal]] = {}
        for (subject, name, unit, _, legs), amount in self._sums.items():
            sums = told.setdefault((subject, figures[subject, name][0], unit), [Decimal(0)] * 5)
            for leg in legs:
                sums[leg] += amount
        named = {(subject, rank): measure for (subject, _), (rank, measure) in figures.items()}
        return tuple(
            Total(subject, named[subject, rank].name, unit, named[subject, rank].scale, *sums)
            for (subject, rank, unit), sums in sorted(told.items())
        )

    def shares(self) -> tuple[Share, ...]:
        """What creates and updates ask for, by verdict, figure and unit, all subjects together."""
        sums: dict[tuple[str, str, str], Decimal] = {}
        for (_, name, unit, verdict, legs), amount in self._sums.items():
            if legs[0] == _SOURCE:
                sums[verdict, name, unit] = sums.get((verdict, name, unit), _NONE) + amount
        return tuple(Share(*place, amount) for place, amount in sorted(sums.items()))

    def _book(
        self, subject: str, measure: Measure, unit: str, way: tuple[str, tuple[int, ...]], amount: Decimal
    ) -> None:
        booked = (subject, measure.name, unit, *way)
        self._sums[booked] = self._sums.get(booked, _NONE) + amount


def _legs(entry: Entry, *, stands: bool) -> tuple[int, ...]:
    called = entry.attempts > 0 and entry.state is not State.READY  # what came back as ready was surely never sent
    if not called:
        return (_SOURCE, _NOT_SENT)
    return (_SOURCE, _SENT, _ACKNOWLEDGED) if stands else (_SOURCE, _SENT)
