"""systemd notifications of a watch (sd_notify): ready, status, watchdog, stopping.

Does nothing outside systemd, where NOTIFY_SOCKET is not set. Lost messages are ignored.
"""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from loadsheet import run_log
from loadsheet.operations.monitoring.watch_status import WatchStatus


class Notifier:
    """Sends messages to the supervisor that the environment names, if it names one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))

    @property
    def is_supervised(self) -> bool:
        """Whether there is a supervisor."""
        return bool(self._address)

    def send(self, *lines: str) -> None:
        """Send these lines (`READY=1`) as one message."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)  # a supervisor that is busy must not hold up a run
            sender.sendto("\n".join(lines).encode(), self._address)

    def ready(self) -> None:
        """Report that the watch has started."""
        self.send("READY=1", "STATUS=watching")

    def status(self, text: str) -> None:
        """Report in a line what the watch does."""
        self.send(f"STATUS={run_log.clean(text)}")


def _address(name: str) -> str | bytes:
    """The address of a socket by its name in the environment: a path, or an abstract one that is written with @."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    return name if name.startswith("/") else ""


@contextmanager
def report_to_systemd(watch_status: WatchStatus, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Report this watch to systemd while the `with` block lasts: ready at the first check, each status, stopping at the end. Sends the
    watchdog signal twice per WATCHDOG_USEC while the heartbeat is recent.
    """
    notifier = Notifier(environment)
    if not notifier.is_supervised:
        yield
        return
    over = threading.Event()
    pulse = threading.Thread(
        target=_send_watchdog, args=(notifier, watch_status, over, _pause_s(environment)), daemon=True
    )
    watch_status.on_ready, watch_status.on_status = notifier.ready, notifier.status
    pulse.start()
    try:
        yield
    finally:
        notifier.send("STOPPING=1", "STATUS=stopping")
        over.set()
        pulse.join()


def _pause_s(environment: Mapping[str, str]) -> float:
    """Half the watchdog interval; 0 if the supervisor wants no signal from this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    wanted = environment.get("WATCHDOG_USEC", "")
    return int(wanted) / 2_000_000 if wanted.isascii() and wanted.isdigit() else 0.0


def _send_watchdog(notifier: Notifier, watch_status: WatchStatus, over: threading.Event, pause_s: float) -> None:
    while pause_s and not over.is_set():
        if watch_status.ready and watch_status.liveness.is_healthy:
            notifier.send("WATCHDOG=1")
        over.wait(pause_s)
