"""Outages: the database of a fleet is away for a while. Told once, and once more when it is back.

Owns: pauses between attempts, which grow.
"""

import threading
from collections.abc import Callable

FIRST_S = 0.25
LONGEST_S = 10.0


class Growing:
    """Pauses in seconds, each twice as long as the one before, up to a longest."""

    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def next(self) -> float:
        """The pause to make now."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin with the shortest again."""
        self._next_s = self._first_s


class Outage:
    """Whether the database is away, as far as any thread of a worker found out."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self.away = False

    def begins(self, why: str) -> None:
        """It could not be reached."""
        with self._lock:
            new, self.away = not self.away, True
        if new:
            self._say(f"the database cannot be used now ({why}); the worker waits, and goes on when it is back")

    def ends(self) -> None:
        """It answered."""
        if self.away:
            with self._lock:
                new, self.away = self.away, False
            if new:
                self._say("the database is back; the worker goes on")
