"""Wire time: how long a call was on its way, from the last byte of its request given to the kernel to the first byte of the answer there.

Owns: that no delay of this process counts. While it computes, commits or waits for a CPU, answers lie in the kernel, so when the program
sees one says little. Linux notes when each packet came (SO_TIMESTAMPNS), TLS or not, and that is what counts. Elsewhere an answer that
was waited for came when the wait ended; one that was there before the program looked came at a moment that nobody knows, and where that
may be much of its time, its wire time is unknown. Seconds are those of `time.perf_counter`.
"""

import socket
import struct
import sys
import time
from contextlib import suppress
from typing import NamedTuple

_SO_TIMESTAMPNS = 35  # Linux; the module `socket` does not name it
_TIMESPEC = struct.Struct("@ll")
_ROOM_BYTES = 64  # for what the kernel says beside the bytes
_AT_ONCE_S = 0.001  # a look that took no longer waited for nothing
_UNSURE_MAX = 0.25  # this share of a wire time may be unknown: half of what its growth has to be (`concurrency`)


class Poll(NamedTuple):
    """A look at all connections: when it ended, and for how many seconds before nobody had looked while answers came."""

    ended: float
    unsure_s: float


def next_poll(before: Poll, began: float, ended: float) -> Poll:
    """The look after `before`. If it had to wait, answers came as it ended; else at any time since the one before."""
    return Poll(ended, 0.0 if ended - began > _AT_ONCE_S else ended - before.ended)


class Wire:
    """The wire time of a connection's calls, one after the other. Takes the time from whoever asks."""

    def __init__(self) -> None:
        self._left = 0.0
        self._came: float | None = None

    def leaves(self, now: float) -> None:
        """Bytes of a request are given to the kernel. The last ones count."""
        self._left, self._came = now, None

    def came(self, now: float, waited_s: float | None) -> None:
        """The first bytes of the answer were read, after they had waited for so long; None: the kernel does not say."""
        self._came = None if waited_s is None else now - waited_s

    def seconds(self, seen: Poll) -> float | None:
        """The wire time of the call whose answer was read at this look; None if nobody knows."""
        if self._came is not None and self._came >= self._left:  # else the system's clock was set
            return self._came - self._left
        took = max(0.0, seen.ended - self._left)
        return took if seen.unsure_s <= took * _UNSURE_MAX else None


def note_arrivals(connected: socket.socket) -> None:
    """Have the kernel note when bytes come on this connection, where it does so."""
    if sys.platform == "linux":
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def waited_s(connected: socket.socket) -> float | None:
    """For how many seconds the bytes to be read next have been there; None if the kernel does not say. Reads nothing, waits for nothing."""
    if sys.platform != "linux":
        return None
    try:
        _, said, _, _ = connected.recvmsg(1, _ROOM_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return None
    now_ns = time.time_ns()  # by the clock of the kernel's notes
    for level, kind, data in said:
        if (level, kind, len(data)) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS, _TIMESPEC.size):
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            waited = (now_ns - nanoseconds) / 1e9 - seconds
            return waited if waited >= 0 else None
    return None
