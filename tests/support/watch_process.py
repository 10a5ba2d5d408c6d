"""A real `loadsheet watch` in a process of its own, and what it says."""

import signal
import time
from contextlib import contextmanager

from command_processes import shared_nursery

PATIENCE_S = 90


class Watched:
    """A running watch, forked from a process that has imported everything."""

    def __init__(self, child):
        self.process = child

    out = property(lambda self: _lines(self.process.says))
    err = property(lambda self: _lines(self.process.errs))

    def until(self, happened):
        """Wait until something holds; fails with what was said if it does not, or if the watch is gone."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, (self.out, self.err)
            assert self.process.poll() is None, (self.process.code, self.out, self.err)
            time.sleep(0.02)

    def says(self, text):
        """Whether a line on stderr holds a text."""
        return any(text in line for line in self.err)

    def stop(self, number=signal.SIGTERM):
        """Stop it with a signal; returns its exit code."""
        self.process.send(number)
        return self.ended()

    def ended(self):
        """Wait for its end; returns its exit code."""
        return self.process.wait(PATIENCE_S)


def _lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]  # the last one is not whole yet


@contextmanager
def watching(folder, *words, **more):
    """`loadsheet watch` in a folder, quick to settle; killed at the end if it still lives."""
    quick = {
        "LOADSHEET_ARRIVAL__SETTLE_S": "0.2",
        "LOADSHEET_WATCH__POLL_S": "0.05",
        "LOADSHEET_WATCH__RETRY_S": "0.1",
    }
    watched = Watched(shared_nursery().start(folder, "watch", *words, apart=True, **quick | more))
    try:
        yield watched
    finally:
        watched.process.kill()
