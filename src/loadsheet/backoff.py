"""Exponential backoff between retries."""


class Backoff:
    """Pauses in seconds. Each is twice the one before, up to a maximum."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def next(self) -> float:
        """The next pause in seconds."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Start again with the first pause."""
        self._next_s = self._first_s
