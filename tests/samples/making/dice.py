"""Reproducible chance. Of `random` only `random()` itself promises the same numbers in every Python, so only that is used."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """A seeded source of choices."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed).random

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._draw() * (high - low + 1))

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self._draw() * len(items))]

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items, in random order."""
        left = list(items)
        return [left.pop(int(self._draw() * len(left))) for _ in range(count)]

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self._draw() < share

    def near(self, value: float, spread: float = 0.06, places: int = 1) -> float:
        """A measured value within a share of the nominal one."""
        return round(value * (1 + spread * (2 * self._draw() - 1)), places)


def at(day: str, hour: int, minute: int = 0) -> datetime:
    """A moment of 2026; `day` is written `03-04`."""
    return datetime.fromisoformat(f"2026-{day}T00:00:00") + timedelta(hours=hour, minutes=minute)
