"""The child's side of isolation: a process that forks one reader for each file, and readers that fork one process for each pass
over the rows.

The nursery imports the readers once, has one thread, no secrets in its environment, and never touches a file. A reader puts itself
under its limits (`isolation_limits`) before it looks at the first byte, opens the file, tells its tables, and waits; for each pass
over the rows it forks a process that streams them, so that what it learnt when it opened the file (shared texts, encoding) need
not be learnt again. All of them end when loadsheet does, however it ends: their sockets close.
"""

import gc
import os
import pkgutil
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from loadsheet.problems import FileRefused
from loadsheet.reading import sandbox_messages as wire
from loadsheet.reading.bounds import Bounds
from loadsheet.reading.disk_errors import fault_behind
from loadsheet.reading.layouts import Layout
from loadsheet.reading.sandbox_limits import Limits, confine, confine_further
from loadsheet.reading.tables import Table, partial

Target = Callable[[Path, str, Sequence[Layout], Bounds], dict[str, Table]]
"""What reads a file: `opening.open_tables`, or what a test puts in its place."""

_FATES_MAX = 1_000


class Order(NamedTuple):
    """What a reader is asked to open, within which bounds, and within which limits of the process. `path` is used only where a
    descriptor cannot be opened anew.
    """

    path: str
    name: str
    layouts: tuple[Layout, ...]
    bounds: Bounds
    limits: Limits


def serve(control: int, target: str) -> None:
    """The nursery, from its first request to the end of `control`. `target` is a module and a function in it, as in `json:loads`."""
    sys.modules["numpy"] = None  # type: ignore[assignment]  # openpyxl imports it if it is there, and nothing here needs it
    function: Target = pkgutil.resolve_name(target)
    os.chdir("/")
    gc.collect()
    gc.freeze()  # what is here now stays shared with every reader
    gc.set_threshold(50_000)  # rows make many objects and no cycles
    readers = _Readers()
    with socket.socket(fileno=control) as channel:
        while (request := _receive(channel)) is not None:
            kind, body, files = request
            if kind == wire.HATCH:
                file, channel_of_reader = files
                pid = os.fork()
                if not pid:
                    channel.close()
                    _live(file, channel_of_reader, function)
                os.close(file)
                os.close(channel_of_reader)
                readers.born(pid)
                wire.write_frame(channel.sendall, wire.DONE, pid)
            else:
                wire.write_frame(channel.sendall, wire.DONE, readers.end(msgspec.msgpack.decode(body, type=int)))
    readers.end_all()


class _Readers:
    """The readers of this nursery: those that live, and how the others ended."""

    def __init__(self) -> None:
        self._living: set[int] = set()
        self._fates: dict[int, wire.Fate] = {}

    def born(self, pid: int) -> None:
        """Take note of a new reader, and of those that have ended meanwhile."""
        self._living.add(pid)
        with suppress(ChildProcessError):  # none is left
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                self._buried(ended)
        while len(self._fates) > _FATES_MAX:
            del self._fates[next(iter(self._fates))]

    def end(self, pid: int) -> wire.Fate:
        """Kill a reader and all it has forked, if it is not dead yet, and say how it ended."""
        if pid in self._living:
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
            self._buried(os.wait4(pid, 0))
        return self._fates.pop(pid, wire.Fate(0, 0, 0, 0.0))

    def end_all(self) -> None:
        """Kill what is left."""
        for pid in list(self._living):
            self.end(pid)

    def _buried(self, ended: tuple[int, int, resource.struct_rusage]) -> None:
        pid, status, used = ended
        self._fates[pid] = _fate(status, used)
        self._living.discard(pid)


class _LastWords:
    """Ends the process, whatever happens within: nobody above is there to catch anything. What was raised is told first."""

    def __init__(self, write: wire.Write) -> None:
        self._write = write

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            fault = fault_behind(error)
            if fault is not None:
                wire.write_frame(self._write, wire.FAILED, (wire.DISK, str(fault.strerror)))
            elif isinstance(error, FileRefused):
                wire.write_frame(self._write, wire.REFUSED, error.problem)
            elif kind is not None:
                wire.write_frame(self._write, wire.FAILED, (kind.__name__, str(error)[:500]))
        finally:
            os._exit(error is not None)


def _live(file: int, control: int, target: Target) -> None:
    """A reader, from birth to death."""
    os.setsid()
    channel = socket.socket(fileno=control)
    streams: dict[int, int] = {}
    with _LastWords(channel.sendall):
        request = _receive(channel)
        if request is None:
            return
        order = msgspec.msgpack.decode(request[1], type=Order)
        confine(order.limits, file)
        anew = Path(f"/proc/self/fd/{file}")  # opens the file behind a descriptor, whatever its name leads to by now
        path = anew if anew.exists() else Path(order.path)
        tables = target(path, order.name, order.layouts, order.bounds)
        wire.write_frame(channel.sendall, wire.TABLES, [wire.tell(table) for table in tables.values()])
        while (request := _receive(channel)) is not None:
            kind, body, files = request
            if kind == wire.ROWS:
                number, name, only = msgspec.msgpack.decode(body, type=tuple[int, str, frozenset[int] | None])
                streams[number] = _fork_stream(channel, files[0], tables[name], only)
            else:
                number = msgspec.msgpack.decode(body, type=int)
                wire.write_frame(channel.sendall, wire.DONE, _fate(*os.wait4(streams.pop(number), 0)[1:]))
        with suppress(PermissionError):  # where seccomp is, the streams die with us anyway
            os.killpg(0, signal.SIGKILL)


def _fork_stream(channel: socket.socket, out: int, table: Table, only: frozenset[int] | None) -> int:
    """Fork a process that streams the rows of a table into `out`, perhaps with only the cells at some positions."""
    pid = os.fork()
    if pid:
        os.close(out)
        return pid

    def write(content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(out, rest) :]

    channel.close()
    with _LastWords(write):
        confine_further()
        rows = table.rows()
        wire.write_rows(write, rows if only is None else partial(rows, only, len(table.header)))
        wire.write_frame(write, wire.END)
    raise AssertionError  # the process has ended


def _receive(channel: socket.socket) -> tuple[bytes, bytes, list[int]] | None:
    """The next request with the descriptors that came with it; None at the end."""
    head, files, _, _ = socket.recv_fds(channel, wire.HEAD_LENGTH, 2)
    while head and len(head) < wire.HEAD_LENGTH:
        more = channel.recv(wire.HEAD_LENGTH - len(head))
        if not more:
            return None
        head += more
    if not head:
        return None
    kind, length = wire.read_head(head)
    body = b""
    while len(body) < length:
        more = channel.recv(length - len(body))
        if not more:
            return None
        body += more
    return kind, body, files


def _fate(status: int, used: resource.struct_rusage) -> wire.Fate:
    code = os.waitstatus_to_exitcode(status)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10  # ru_maxrss counts bytes there, KiB elsewhere
    return wire.Fate(max(-code, 0), max(code, 0), used.ru_maxrss // unit, used.ru_utime + used.ru_stime)
