"""Signs of life of whoever holds something of a shared ledger.

Owns: how often they are given. What a sign is, and when somebody is taken for dead, is known to the thing that is held.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from loadsheet.problems import LedgerError

BEATS = 4
"""So many signs of life in the time after which one is taken for dead."""


@contextmanager
def beating(name: str, beat: Callable[[], None], takeover_s: float) -> Iterator[None]:
    """Give a sign of life again and again, in a thread of this name, while the `with` block lasts: `BEATS` times in `takeover_s`. One
    that raises LedgerError is tried again soon.
    """
    ended = threading.Event()

    def keep_on() -> None:
        while not ended.wait(takeover_s / BEATS):
            with suppress(LedgerError):
                beat()

    thread = threading.Thread(target=keep_on, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
