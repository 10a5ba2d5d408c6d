"""Outages: the database of a fleet is away for a while. Told once, and once more when it is back."""

import threading
from collections.abc import Callable


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
