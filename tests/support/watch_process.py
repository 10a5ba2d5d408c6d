"""A real `loadsheet watch` in a process of its own, and what it says."""

import signal
import subprocess
import threading
import time
from contextlib import contextmanager

from command_processes import shared_nursery

PATIENCE_S = 90


class Watched:
    """A running watch: its process and the lines it has said so far."""

    def __init__(self, process):
        self.process, self.out, self.err = process, [], []
        streams = ((process.stdout, self.out), (process.stderr, self.err))
        self._readers = [threading.Thread(target=self._read, args=each, daemon=True) for each in streams]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def until(self, happened):
        """Wait until something holds; fails with what was said if it does not, or if the watch is gone."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, (self.out, self.err)
            assert self.process.poll() is None, (self.process.returncode, self.out, self.err)
            time.sleep(0.02)

    def says(self, text):
        """Whether a line on stderr holds a text."""
        return any(text in line for line in self.err)

    def stop(self, number=signal.SIGTERM):
        """Stop it with a signal; returns its exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self):
        """Wait for its end; returns its exit code."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(timeout=10)
        return code


class Forked(Watched):
    """The same in a process forked from one that has imported everything."""

    def __init__(self, child):
        self.process, self._readers = child, []

    out = property(lambda self: _lines(self.process.says))
    err = property(lambda self: _lines(self.process.errs))


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
    watched = Forked(shared_nursery().start(folder, "watch", *words, apart=True, **quick | more))
    try:
        yield watched
    finally:
        watched.process.kill()


def started(folder, command, environment):
    """A watch started by another command, such as one that sets limits first."""
    return Watched(
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    )
