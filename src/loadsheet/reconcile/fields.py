"""How well each field agrees: compared, equal, within tolerance, different, over all records that were compared.

Counts which fields records have by their shapes, of which there are few, so that a record costs little however many fields it has.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

from loadsheet.contract import BY_NAME, Difference
from loadsheet.mapping.lineage import STEP

_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """How often a field was compared, and agreed; the largest difference of its numbers (None: there is none), and the keys of
    the first records in which it differs. The fields of list items count together: `packages[].weight`.
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
        """How often both sides were the same."""
        return self.compared - self.tolerated - self.different


@dataclass
class _Differing:
    tolerated: int = 0
    different: int = 0
    largest: Decimal | None = None
    samples: list[str] = field(default_factory=list)


class FieldTally:
    """Counts compared fields while records stream by."""

    def __init__(self) -> None:
        self._shapes: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
        self._differing: dict[tuple[str, str], _Differing] = {}

    def add(
        self,
        operation: str,
        key: str,
        record: dict[str, Any],
        different: Iterable[Difference],
        tolerated: Iterable[Difference],
    ) -> None:
        """Count a record that was compared, and what was found."""
        self._shapes[operation, "", tuple(record)] += 1
        unlike = {one.path for one in different}
        for name in _lists_of(operation):
            items = record.get(name)
            if isinstance(items, list) and name not in unlike:  # of unlike length, no item was compared
                for item in items:
                    if isinstance(item, dict):
                        self._shapes[operation, f"{name}[].", tuple(item)] += 1
        subject = BY_NAME[operation].subject
        for one in different:
            self._differ(subject, key, one).different += 1
        for one in tolerated:
            self._differ(subject, key, one).tolerated += 1

    def told(self) -> tuple[FieldMatch, ...]:
        """All fields that were compared, by subject, those with most differences first."""
        compared: Counter[tuple[str, str]] = Counter()
        for (operation, prefix, names), count in self._shapes.items():
            subject = BY_NAME[operation].subject
            compared.update({(subject, f"{prefix}{name}"): count for name in names})
        for place, differing in self._differing.items():  # deeper ones, which no shape names
            compared[place] = max(compared[place], differing.different + differing.tolerated)
        found = [
            FieldMatch(*place, count, one.tolerated, one.different, one.largest, tuple(one.samples))
            for place, count in compared.items()
            for one in [self._differing.get(place, _Differing())]
        ]
        return tuple(sorted(found, key=lambda one: (one.subject, -one.different, -one.tolerated, one.path)))

    def _differ(self, subject: str, key: str, found: Difference) -> _Differing:
        differing = self._differing.setdefault((subject, STEP.sub("[]", found.path)), _Differing())
        if len(differing.samples) < _SAMPLES and key not in differing.samples:
            differing.samples.append(key)
        gap = gap_of(found)
        if gap is not None and (differing.largest is None or abs(gap) > differing.largest):
            differing.largest = abs(gap)
        return differing


def gap_of(found: Difference) -> Decimal | None:
    """What the exchange shows more than was sent, if both are numbers."""
    try:
        gap = Decimal(found.held) - Decimal(found.sent)
    except InvalidOperation:
        return None
    return gap if gap.is_finite() else None


@cache
def _lists_of(operation: str) -> tuple[str, ...]:
    return tuple(_inner_names(operation))


def _inner_names(operation: str) -> Iterator[str]:
    for inner in BY_NAME[operation].record.fields:
        if inner.record is not None:
            yield from (inner.name, *inner.spellings)
