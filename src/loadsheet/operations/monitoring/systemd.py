"""What systemd is told of a watch: that it is ready, what it does, that it is alive, and that it stops.

Owns: the few lines of its notify protocol (sd_notify). Outside systemd, where NOTIFY_SOCKET is not set, nothing happens. A message that
does not arrive changes nothing.
"""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from loadsheet import run_log
from loadsheet.operations.monitoring.watch_status import Board


class Notifier:
    """Sends messages to the supervisor that the environment names, if it names one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))

    @property
    def heard(self) -> bool:
        """Whether there is a supervisor."""
        return bool(self._address)

    def tell(self, *lines: str) -> None:
        """Send these lines (`READY=1`) as one message."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)  # a supervisor that is busy must not hold up a run
            sender.sendto("\n".join(lines).encode(), self._address)

    def ready(self) -> None:
        """Say that the watch has begun."""
        self.tell("READY=1", "STATUS=watching")

    def status(self, text: str) -> None:
        """Say in a line what the watch does."""
        self.tell(f"STATUS={run_log.clean(text)}")


def _address(name: str) -> str | bytes:
    """The address of a socket by its name in the environment: a path, or an abstract one that is written with @."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    return name if name.startswith("/") else ""


@contextmanager
def supervised(board: Board, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Tell the supervisor of this watch for as long as the block takes: ready when it looks for the first time, stopping at the end,
    in between what is on the board, and that it is alive, twice in the time that WATCHDOG_USEC gives, for as long as the watch turns.
    """
    notifier = Notifier(environment)
    if not notifier.heard:
        yield
        return
    over = threading.Event()
    pulse = threading.Thread(target=_pulse, args=(notifier, board, over, _pause_s(environment)), daemon=True)
    board.on_ready, board.on_status = notifier.ready, notifier.status
    pulse.start()
    try:
        yield
    finally:
        notifier.tell("STOPPING=1", "STATUS=stopping")
        over.set()
        pulse.join()


def _pause_s(environment: Mapping[str, str]) -> float:
    """Half the time within which the supervisor wants a sign of life from us; 0 if it wants none."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    wanted = environment.get("WATCHDOG_USEC", "")
    return int(wanted) / 2_000_000 if wanted.isascii() and wanted.isdigit() else 0.0


def _pulse(notifier: Notifier, board: Board, over: threading.Event, pause_s: float) -> None:
    while pause_s and not over.is_set():
        if board.ready and board.turns.well:
            notifier.tell("WATCHDOG=1")
        over.wait(pause_s)
