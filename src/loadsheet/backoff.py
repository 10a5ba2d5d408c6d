"""Pauses between attempts at what may be over by itself."""


class Backoff:
    """Pauses in seconds, each twice as long as the one before, up to a longest."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def next(self) -> float:
        """The pause to make now."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin with the shortest again."""
        self._next_s = self._first_s
