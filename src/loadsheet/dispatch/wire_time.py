"""Wire time: from the last byte of a request handed to the kernel to the first byte of the answer there.

Delays of this process do not count. While it computes, commits or waits for a CPU, answers wait in the kernel, so the time
of reading says little. Linux records when each packet arrives (SO_TIMESTAMPNS), with and without TLS: that time counts. On
other systems, an answer that was waited for arrived when the wait ended. If the answer was already there, its time is
uncertain by the span since the last poll. If that is a large part, the wire time is unknown. Seconds are those of
`time.perf_counter`.
"""

import socket
import struct
import sys
import time
from contextlib import suppress
from typing import NamedTuple

_SO_TIMESTAMPNS = 35  # Linux; missing in the module `socket`
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = 64  # room for the kernel's timestamp
_AT_ONCE_S = 0.001  # a shorter poll did not wait
_UNCERTAIN_MAX = 0.25  # the uncertain share of a wire time: half of the growth that counts (`concurrency`)


class Poll(NamedTuple):
    """A poll of all connections: its end, and by how many seconds the arrival of its answers is uncertain."""

    ended: float
    uncertain_s: float


def next_poll(before: Poll, began: float, ended: float) -> Poll:
    """The poll after `before`. If it waited, answers arrived as it ended; else at any time since the previous poll."""
    return Poll(ended, 0.0 if ended - began > _AT_ONCE_S else ended - before.ended)


class WireTime:
    """Measures the wire time of a connection's calls, one after the other. The caller passes the time."""

    def __init__(self) -> None:
        self._sent_at = 0.0
        self._received_at: float | None = None

    def sent(self, now: float) -> None:
        """Note that bytes of a request went to the kernel. The last ones count."""
        self._sent_at, self._received_at = now, None

    def received(self, now: float, waited_s: float | None) -> None:
        """Note that the first bytes of the answer were read `waited_s` after they arrived; None: unknown."""
        self._received_at = None if waited_s is None else now - waited_s

    def seconds(self, poll: Poll) -> float | None:
        """The wire time of the call whose answer was read in this poll; None if unknown."""
        if (
            self._received_at is not None and self._received_at >= self._sent_at
        ):  # otherwise the system clock was changed
            return self._received_at - self._sent_at
        took = max(0.0, poll.ended - self._sent_at)
        return took if poll.uncertain_s <= took * _UNCERTAIN_MAX else None


def timestamp_arrivals(connected: socket.socket) -> None:
    """Have the kernel timestamp the bytes that arrive on this connection (Linux only)."""
    if sys.platform == "linux":
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def waited_s(connected: socket.socket) -> float | None:
    """Seconds since the next bytes to read arrived; None if the kernel does not record it. Reads nothing and does not block."""
    if sys.platform != "linux":
        return None
    try:
        _, messages, _, _ = connected.recvmsg(1, _ANCILLARY_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return None
    now_ns = time.time_ns()  # the clock of the kernel's timestamps
    for level, kind, data in messages:
        if (level, kind, len(data)) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS, _TIMESPEC.size):
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            waited = (now_ns - nanoseconds) / 1e9 - seconds
            return waited if waited >= 0 else None
    return None
