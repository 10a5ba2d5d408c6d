"""How well each field agrees: compared, equal, within tolerance, different, over all records that were compared.

Counts which fields records have by their shapes, of which there are few, so that a record costs little however many fields it has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from loadsheet.contract import BY_NAME, Difference
from loadsheet.mapping.lineage import STEP

_SAMPLES = 3
_NO_PATHS: frozenset[str] = frozenset()


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
        # by operation: how many records have which fields, and in each list of theirs, how many items
        self._shapes: dict[str, dict[str, Counter[tuple[str, ...]]]] = {}
        self._differing: dict[tuple[str, str], _Differing] = {}

    def add(
        self,
        operation: str,
        key: str,
        record: dict[str, Any],
        different: Sequence[Difference],
        tolerated: Sequence[Difference],
    ) -> None:
        """Count a record that was compared, and what was found."""
        shapes = self._shapes.get(operation)
        if shapes is None:
            shapes = self._shapes[operation] = {name: Counter() for name in ("", *_lists_of(operation))}
        shapes[""][tuple(record)] += 1
        unlike = {one.path for one in different} if different else _NO_PATHS
        for name, counts in shapes.items():
            items = record.get(name)
            if isinstance(items, list) and name not in unlike:  # of unlike length, no item was compared
                for item in items:
                    if isinstance(item, dict):
                        counts[tuple(item)] += 1
        subject = BY_NAME[operation].subject
        for one in different:
            self._differ(subject, key, one).different += 1
        for one in tolerated:
            self._differ(subject, key, one).tolerated += 1

    def field_matches(self) -> tuple[FieldMatch, ...]:
        """All fields that were compared, by subject, those with most differences first."""
        compared: Counter[tuple[str, str]] = Counter()
        for operation, shapes in self._shapes.items():
            subject = BY_NAME[operation].subject
            for holder, counts in shapes.items():
                prefix = f"{holder}[]." if holder else ""
                for names, count in counts.items():
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


def _lists_of(operation: str) -> Iterator[str]:
    for inner in BY_NAME[operation].record.fields:
        if inner.record is not None:
            yield from (inner.name, *inner.spellings)
