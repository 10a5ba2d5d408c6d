"""How often each field of the sent and the listed records agreed, counted while records stream by."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from loadsheet.contract import BY_NAME, Difference, in_range
from loadsheet.mapping.documents import STEP

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
    return gap if in_range(gap) else None


def _lists_of(operation: str) -> Iterator[str]:
    for inner in BY_NAME[operation].record.fields:
        if inner.record is not None:
            yield from (inner.name, *inner.spellings)
