"""Reading behind a wall: every file is opened and read in a process of its own, and only its rows come back.

A file that makes its reader crash, loop, hang, or take more memory than it may is refused like any other that cannot be read; the
run goes on. What a reader may do is in `isolation_limits`, how rows travel in `isolation_wire`, the reader's own side in
`isolation_nursery`. This module does not know how any kind of file is read, and loads none of the libraries that do.

Where processes cannot be forked (Windows), or where `reading_process = "none"` says so, files are read in this process.
"""

import os
import signal
import socket
import stat
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, cast

import msgspec

from loadsheet.problems import FileRefused, Problem, ReadersUnavailable, Where
from loadsheet.reading import sandbox_messages as wire
from loadsheet.reading.bounds import bounds_of
from loadsheet.reading.disk_errors import DiskFault, disk_fault, rows_in_two_tries
from loadsheet.reading.layouts import Layout
from loadsheet.reading.tables import Row, Table

if TYPE_CHECKING:
    from loadsheet.settings import Settings

TARGET = "loadsheet.reading.opening:open_tables"
_PATIENCE_S = 10.0
_NURSERY_WAIT_S = 120.0  # it only forks and kills
_START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from loadsheet.reading.sandbox_child import serve; serve(int(sys.argv[1]), sys.argv[2])"
)
_SAVE_ANEW = "save it anew in the program it comes from and send it again, or send it as CSV"
_ENDED_BY_MEMORY = ("MemoryError", "OverflowError")
_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a process with threads must not fork


def open_tables(path: Path, name: str, layouts: Sequence[Layout], settings: "Settings") -> dict[str, Table]:
    """The tables that `layouts` want of the file at `path`, by layout name. `name` is the name it was dropped under, for problems.

    The file must stay as it is while the tables are used: `Table.rows` reads it anew each time. Raises FileRefused with the
    reason for what cannot be read, here or later while rows are read; bad rows are no reason, they come out of `rows` with
    their problem. Raises ReadersUnavailable if no process can be started, and DiskFault, here or later, if a disk fails twice.
    """
    if not _are_apart(settings):
        from loadsheet.reading import opening  # noqa: PLC0415 (the readers' libraries are loaded where files are read)

        return opening.open_tables(path, name, layouts, bounds_of(settings))
    return open_apart(path, name, layouts, settings, _nursery(os.getpid()))


def make_ready(settings: "Settings") -> None:
    """Start the process that readers come from while there is something else to do; else the first file waits for it."""
    if _are_apart(settings):
        _nursery(os.getpid()).start()


def _are_apart(settings: "Settings") -> bool:
    return settings.reading_process != "none" and hasattr(os, "fork")


@cache
def _nursery(_process: int) -> "Nursery":
    """The nursery of this process; one that was forked off needs one of its own."""
    return Nursery()


def open_apart(
    path: Path, name: str, layouts: Sequence[Layout], settings: "Settings", nursery: "Nursery"
) -> dict[str, Table]:
    """As `open_tables`, by a reader of this nursery. The reader lives as long as one of the tables does."""
    try:
        return _opened_once(path, name, layouts, settings, nursery)
    except DiskFault:
        return _opened_once(path, name, layouts, settings, nursery)


def _opened_once(
    path: Path, name: str, layouts: Sequence[Layout], settings: "Settings", nursery: "Nursery"
) -> dict[str, Table]:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(name, f"the system says: {error.strerror}") from error
    try:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode):
            raise _unreadable(name, "it is not a file but a folder, a pipe or a device")
        limits = _limits(settings, about.st_size)
        reader = _Reader(name, limits, nursery, opened)
    finally:
        os.close(opened)
    return reader.open((str(path.absolute()), name, tuple(layouts), bounds_of(settings), limits))


def _unreadable(name: str, reason: str) -> FileRefused:
    return FileRefused(
        Problem("R201", Where(name), "", {"reason": reason}, "check that the file is there and may be read")
    )


class _Limits(NamedTuple):
    """What one file may take, as `isolation_limits.Limits` has it."""

    memory_mb: int
    cpu_s: int
    wall_s: float


def _limits(settings: "Settings", size: int) -> _Limits:
    more = settings.reading_s_per_mb * size / 1_000_000
    return _Limits(
        settings.reading_memory_mb,
        int(settings.reading_cpu_s + more) + 1,
        settings.reading_wall_s + more,
    )


class Nursery:
    """The process that forks readers, started when the first is needed and again if it should die. `target` is what reads:
    module and function. Safe for threads.
    """

    def __init__(self, target: str = TARGET) -> None:
        self._target = target
        self._lock = RLock()
        self._channel: _Channel | None = None
        self._ending: weakref.finalize[..., Nursery] | None = None

    def start(self) -> None:
        """Start the process, and do not wait for it. One that cannot be started is told of when it is needed."""
        with self._lock, suppress(OSError):
            self._channel = self._channel or self._start()

    def hatch(self, file: int, control: int) -> int:
        """Fork a reader of the file behind a descriptor, that listens to the other one. Returns its process id."""
        with self._lock:
            for last in (False, True):
                try:
                    channel = self._channel or self._start()
                    channel.send(wire.HATCH, b"", [file, control])
                    return msgspec.msgpack.decode(channel.receive()[1], type=int)
                except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
                    self.close()
                    if last:
                        why = "it ended at once" if isinstance(error, EOFError) else str(error)
                        text = f"no process for reading files can be started: {why}"
                        raise ReadersUnavailable(f"{text}; reading_process = none reads them in this one") from error
        raise AssertionError  # the second turn ended above

    def fate(self, pid: int) -> wire.Fate:
        """Kill a reader with all it has forked, if it lives, and say how it ended."""
        with self._lock:
            if self._channel is None:
                return wire.Fate(0, 0, 0, 0.0)
            try:
                self._channel.send(wire.FATE, msgspec.msgpack.encode(pid))
                return wire.read_fate(self._channel.receive()[1])
            except (OSError, EOFError, ValueError):
                self.close()
                return wire.Fate(0, 0, 0, 0.0)

    def close(self) -> None:
        """End the nursery and its readers."""
        with self._lock:
            if self._ending:
                self._ending()
            self._channel = self._ending = None

    def _start(self) -> "_Channel":
        mine, theirs = socket.socketpair()
        kept = {what: os.environ[what] for what in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if what in os.environ}
        paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 (a zip or "" is no Path)
        with theirs:
            process = subprocess.Popen(  # noqa: S603 (this very interpreter)
                [sys.executable, "-I", "-X", "utf8", "-c", _START, str(theirs.fileno()), self._target, *paths],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_QUIET | kept,  # no token, no password
                start_new_session=True,  # Ctrl-C is for us
            )
        self._channel = _Channel(mine, _NURSERY_WAIT_S)
        self._ending = weakref.finalize(self, _end, process, self._channel)
        return self._channel


def _end(process: subprocess.Popen[bytes], channel: "_Channel") -> None:
    """The nursery ends when it sees that nobody asks any more; it kills its readers first."""
    channel.close()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Channel:
    """A socket with frames on it."""

    def __init__(self, end: socket.socket, wait_s: float | None = None) -> None:
        end.settimeout(wait_s)
        self._socket = end
        self._stream = cast("BinaryIO", end.makefile("rb", 1 << 16))

    def send(self, kind: bytes, body: bytes, files: Sequence[int] = ()) -> None:
        socket.send_fds(self._socket, [wire.head_of(kind, body)], files)
        self._socket.sendall(body)

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises EOFError, TimeoutError, and ValueError for what is no frame."""
        return wire.read_frame(self._stream)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class _Reader:
    """One file's reader, seen from here. Asks, waits no longer than it may, and turns every way to die into a refusal."""

    def __init__(self, name: str, limits: _Limits, nursery: Nursery, file: int) -> None:
        self._name, self._limits, self._nursery = name, limits, nursery
        self._lock = RLock()
        self._numbers = count()
        mine, theirs = socket.socketpair()
        self._channel = _Channel(mine, limits.wall_s)
        weakref.finalize(self, self._channel.close)  # the reader ends when it sees that
        with theirs:
            self._pid = nursery.hatch(file, theirs.fileno())

    def open(self, order: object) -> dict[str, Table]:
        """The tables of the file."""
        kind, body = self._ask(wire.OPEN, msgspec.msgpack.encode(order))
        if kind != wire.TABLES:
            self._refuse(kind, body)
        try:
            told = wire.read_tables(body)
        except ValueError as error:
            self._distrust(error)
        return {
            table.name: Table(*table[:6], rows=_Rows(self, table.name, len(table.header)), found=table.found)
            for table in told
        }

    def rows(self, table: str, width: int, only: frozenset[int] | None = None) -> Iterator[Row]:
        """One pass over the rows of a table, by a process of its own; with only the cells at these positions, if they are given."""
        number = next(self._numbers)
        mine, theirs = socket.socketpair()
        with closing(_Channel(mine, self._limits.wall_s)) as channel:
            with theirs, self._lock:
                self._send(wire.ROWS, msgspec.msgpack.encode((number, table, only)), [theirs.fileno()])
            made = wire.RowReader(width)
            while True:
                try:
                    kind, body = channel.receive()
                    if kind in (wire.PLAIN, wire.TYPED):
                        yield from made.rows(kind, body)
                        continue
                except TimeoutError:
                    self._give_up()
                except (EOFError, OSError):
                    self._explain(self._fate_of_stream(number))
                except ValueError as error:
                    self._distrust(error)
                if kind == wire.END:
                    return
                self._refuse(kind, body)

    def _send(self, kind: bytes, body: bytes, files: Sequence[int] = ()) -> None:
        try:
            self._channel.send(kind, body, files)
        except TimeoutError:
            self._give_up()
        except OSError:
            self._explain(self._nursery.fate(self._pid))

    def _ask(self, kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        with self._lock:
            self._send(kind, body)
            try:
                return self._channel.receive()
            except TimeoutError:
                self._give_up()
            except (EOFError, OSError):
                self._explain(self._nursery.fate(self._pid))
            except ValueError as error:
                self._distrust(error)

    def _fate_of_stream(self, number: int) -> wire.Fate:
        kind, body = self._ask(wire.FATE, msgspec.msgpack.encode(number))
        if kind != wire.DONE:
            self._refuse(kind, body)
        try:
            return wire.read_fate(body)
        except ValueError as error:
            self._distrust(error)

    def _refuse(self, kind: bytes, body: bytes) -> NoReturn:
        """What the reader itself says against the file."""
        try:
            if kind == wire.REFUSED:
                raise FileRefused(wire.read_problem(body))
            what, text = wire.read_failure(body) if kind == wire.FAILED else ("", "an answer that was not asked for")
        except ValueError as error:
            self._distrust(error)
        if what == wire.DISK:
            raise disk_fault(self._name, text)
        if what in _ENDED_BY_MEMORY:
            self._stopped(f"it needs more memory than {self._limits.memory_mb:,} MB", "reading_memory_mb")
        self._failed(f"{what}: {text}"[:300] if what else text)

    def _explain(self, fate: wire.Fate) -> NoReturn:
        """What a reader's death says against the file."""
        late = fate.cpu_s >= self._limits.cpu_s
        if fate.signal == signal.SIGXCPU or (fate.signal == signal.SIGKILL and late):
            taken = f"it took {fate.cpu_s:,.0f} s of computing; at most {self._limits.cpu_s:,} s are allowed"
            self._stopped(taken, "reading_cpu_s")
        if fate.signal == signal.SIGKILL:
            taken = f"the system ended it at {fate.peak_mb:,} MB of memory; the limit is {self._limits.memory_mb:,} MB"
            self._stopped(taken, "reading_memory_mb")
        if not fate.signal:
            self._failed(f"it ended with code {fate.code}")
        with suppress(ValueError):
            self._failed(f"it was ended by {signal.Signals(fate.signal).name}")
        self._failed(f"it was ended by signal {fate.signal}")

    def _give_up(self) -> NoReturn:
        self._nursery.fate(self._pid)
        self._stopped(f"nothing came of it for {self._limits.wall_s:,.0f} s", "reading_wall_s")

    def _distrust(self, error: ValueError) -> NoReturn:
        self._nursery.fate(self._pid)
        self._failed(str(error)[:300])

    def _stopped(self, reason: str, setting: str) -> NoReturn:
        hint = f"send it in several files, or as CSV; or raise {setting}"
        raise FileRefused(Problem("R232", Where(self._name), "", {"reason": reason, "setting": setting}, hint))

    def _failed(self, reason: str) -> NoReturn:
        raise FileRefused(Problem("R233", Where(self._name), "", {"reason": reason}, _SAVE_ANEW))


@dataclass(frozen=True, slots=True)
class _Rows:
    """`Table.rows` of a file that is read apart; keeps its reader alive."""

    reader: _Reader
    table: str
    width: int

    def __call__(self) -> Iterator[Row]:
        """The rows, read anew. Raises FileRefused for what becomes of the reader on the way."""
        return rows_in_two_tries(partial(self.reader.rows, self.table, self.width))

    def partial_rows(self, positions: frozenset[int]) -> Iterator[Row]:
        """The same with only the cells at these positions."""
        return rows_in_two_tries(partial(self.reader.rows, self.table, self.width, positions))
