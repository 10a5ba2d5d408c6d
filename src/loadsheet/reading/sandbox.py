"""The sandbox of the readers: each file is opened and read in a separate process, and only its rows come back.

If a reader crashes, loops, hangs or takes too much memory, its file is refused and the run continues. `sandbox_child` is the
reader's side with its limits. This module knows no file format and loads no library that reads one. Files are read in this
process where processes cannot be forked (Windows), and with `reading.process = "none"`.

A reader answers each request with one message (`messages`). The next batch of rows is requested before the last one is used, so
both processes work at once.

A disk error does not refuse a file: the file is read once more, then the run halts.

The fork server is our own, because the one of `multiprocessing` has five drawbacks. It inherits the whole environment, so readers
would hold the token. Every reader keeps it alive, so a reader that hangs outlives a killed run. It reports neither CPU time nor
peak memory, which show the limit that ended a reader. The program that imports loadsheet shares it. It fails in a forked process.
"""

import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, NoReturn

from loadsheet.errors import FileRefused, FolderError, ReadersUnavailable
from loadsheet.problems import Problem, Where
from loadsheet.reading.messages import (
    BATCH,
    CLOSE,
    DISK,
    END,
    FAILED,
    FORK,
    KILL,
    OPEN,
    REFUSED,
    ROWS,
    TABLES,
    ExitStatus,
    Limits,
    Message,
    OpenRequest,
    TableDescription,
    check_problem,
    decode,
    receive,
    send,
    unpack_rows,
)
from loadsheet.reading.tables import Layout, Row, Table, Top, bounds_of

if TYPE_CHECKING:
    from loadsheet.settings import Settings

TARGET = "loadsheet.reading.opening:open_in_this_process"
_SHUTDOWN_TIMEOUT_S = 10.0
_FORK_TIMEOUT_S = 120.0  # the fork server only forks and kills
_BOOTSTRAP = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from loadsheet.reading.sandbox_child import serve; serve(int(sys.argv[1]), sys.argv[2])"
)
_SAVE_AGAIN = "save it again in the program that made it, then send it again, or send it as CSV"
_MEMORY_ERRORS = ("MemoryError", "OverflowError")
_SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a multi-threaded process must not fork


def open_tables(path: Path, name: str, layouts: Sequence[Layout], settings: "Settings") -> dict[str, Table]:
    """The tables of the file at `path` for `layouts`, by layout name. `name` is the file's original name, for problems.

    The file must not change while the tables are used: `Table.rows` reads it again each time. `rows` yields bad rows with their
    problems. Raises FileRefused, here or in `rows`, if the file cannot be read, DiskFault if a disk fails twice, and
    ReadersUnavailable if no process can be started.
    """
    if not _uses_sandbox(settings):
        from loadsheet.reading import opening

        return opening.open_in_this_process(path, name, layouts, bounds_of(settings))
    return open_in_sandbox(path, name, layouts, settings, _fork_server(os.getpid()))


def read_tops(path: Path, name: str, settings: "Settings") -> list[Top]:
    """The first rows of every possible table in a file of any format, without a mapping. Raises like `open_tables`."""
    return [Top.of(table) for table in open_tables(path, name, (), settings).values()]


def start_fork_server(settings: "Settings") -> None:
    """Start the fork server in the background, so that the first file does not wait for it."""
    if _uses_sandbox(settings):
        _fork_server(os.getpid()).start()


def _uses_sandbox(settings: "Settings") -> bool:
    return settings.reading.process != "none" and hasattr(os, "fork")


@cache
def _fork_server(_process: int) -> "ForkServer":
    """The fork server of this process. A forked process needs its own, hence the argument."""
    return ForkServer()


def open_in_sandbox(
    path: Path, name: str, layouts: Sequence[Layout], settings: "Settings", fork_server: "ForkServer"
) -> dict[str, Table]:
    """Like `open_tables`, with a reader of this fork server. The reader lives as long as one of the tables."""
    try:
        return _open_once(path, name, layouts, settings, fork_server)
    except DiskFault:
        return _open_once(path, name, layouts, settings, fork_server)


def _open_once(
    path: Path, name: str, layouts: Sequence[Layout], settings: "Settings", fork_server: "ForkServer"
) -> dict[str, Table]:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(name, f"the system reports: {error.strerror}") from error
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(name, "it is a folder, a pipe or a device, not a file")
        limits = _limits(settings, status.st_size)
        reader = _Reader(name, limits, fork_server, opened)
    finally:
        os.close(opened)
    request = OpenRequest(os.fsencode(path.absolute()), name, tuple(layouts), bounds_of(settings), limits)
    return reader.open(request)


def _unreadable(name: str, reason: str) -> FileRefused:
    return FileRefused(
        Problem("R201", Where(name), "", {"reason": reason}, "check that the file is there and may be read")
    )


class ForkServer:
    """The process that forks readers. It starts with the first reader and restarts if it dies. `target` is the function that
    reads a file, as `module:function`. Thread-safe.
    """

    def __init__(self, target: str = TARGET) -> None:
        self._target = target
        self._lock = RLock()
        self._connection: Connection | None = None
        self._finalizer: weakref.finalize[..., ForkServer] | None = None

    def start(self) -> None:
        """Start the process without waiting for it. On failure, `fork_reader` tries again and raises."""
        with self._lock, suppress(OSError):
            self._connection = self._connection or self._start()

    def fork_reader(self, file: int, control: int) -> int:
        """Fork a reader for the file behind the descriptor `file`; it takes requests on `control`. Returns its process id."""
        with self._lock:
            for last in (False, True):
                try:
                    connection = self._connection or self._start()
                    send(connection, FORK)
                    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
                        socket.send_fds(end, [b"f"], [file, control])
                    return decode(receive(connection)[1], int)
                except (OSError, EOFError, ValueError) as error:
                    self.close()
                    if last:
                        reason = "it ended immediately" if isinstance(error, EOFError) else str(error)
                        text = f"the process that reads files cannot be started: {reason}"
                        raise ReadersUnavailable(
                            f"{text}; set reading.process = none to read files without it"
                        ) from error
        raise AssertionError  # unreachable: the second attempt returns or raises

    def kill(self, pid: int) -> ExitStatus:
        """Kill a reader, if it still runs, and return its exit status."""
        with self._lock:
            with suppress(OSError, EOFError, ValueError):
                if self._connection is not None:
                    send(self._connection, KILL, pid)
                    return decode(receive(self._connection)[1], ExitStatus)
            self.close()
            return ExitStatus(0, 0, 0, 0.0)

    def close(self) -> None:
        """End the fork server and its readers."""
        with self._lock:
            if self._finalizer:
                self._finalizer()
            self._connection = self._finalizer = None

    def _start(self) -> Connection:
        own_end, child_end = _connected_pair(_FORK_TIMEOUT_S)
        inherited = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
        paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 (a zip or "" is not a Path)
        with child_end:
            process = subprocess.Popen(  # noqa: S603 (this very interpreter)
                [sys.executable, "-I", "-X", "utf8", "-c", _BOOTSTRAP, str(child_end.fileno()), self._target, *paths],
                pass_fds=(child_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_SINGLE_THREADED | inherited,  # no token, no password
                start_new_session=True,  # Ctrl-C must not reach it
            )
        self._connection = own_end
        self._finalizer = weakref.finalize(self, _shut_down, process, own_end)
        return own_end


def _shut_down(process: subprocess.Popen[bytes], connection: Connection) -> None:
    """Close the connection, which makes the fork server kill its readers and end."""
    connection.close()
    try:
        process.wait(_SHUTDOWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _connected_pair(wait_s: float) -> tuple[Connection, Connection]:
    """Our end and the child's end of a connection. At our end each wait times out after `wait_s`, even within a message."""
    own_end, child_end = socket.socketpair()
    for end in (own_end, child_end):
        end.settimeout(None)
    seconds, microseconds = divmod(max(int(wait_s * 1e6), 1), 1_000_000)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        own_end.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", seconds, microseconds))
    return Connection(own_end.detach()), Connection(child_end.detach())


def _limits(settings: "Settings", size: int) -> Limits:
    extra_s = settings.reading.s_per_mb * size / 1_000_000
    return Limits(
        settings.reading.memory_mb,
        int(settings.reading.cpu_s + extra_s) + 1,
        settings.reading.wall_s + extra_s,
    )


class _Reader:
    """The reader of one file, seen from the parent process. Turns timeouts and every kind of exit into FileRefused. Thread-safe."""

    def __init__(self, name: str, limits: Limits, fork_server: ForkServer, file: int) -> None:
        self._name, self._limits, self._fork_server = name, limits, fork_server
        self._lock = RLock()
        self._numbers = count()
        self._due: deque[int] = deque()  # the passes that the next replies belong to
        self._replies: dict[int, Message | None] = {}  # by open pass; None: not received yet
        self._exited: ExitStatus | None = None
        self._connection, child_end = _connected_pair(limits.wall_s)
        weakref.finalize(self, self._connection.close)  # the reader ends when its connection closes
        with child_end:
            self._pid = fork_server.fork_reader(file, child_end.fileno())

    def open(self, request: OpenRequest) -> dict[str, Table]:
        """The tables of the file."""
        with self._failures():
            send(self._connection, OPEN, request)
            kind, body = receive(self._connection)
            if kind != TABLES:
                self._raise_reported(kind, body)
            descriptions = decode(body, list[TableDescription])
            for table in descriptions:
                table.check()
        return {
            table.name: Table(
                *table[:6],
                rows=partial(_rows_with_retry, self, table.name, len(table.header)),
                reading_notes=table.reading_notes,
            )
            for table in descriptions
        }

    def rows(self, table: str, width: int) -> Iterator[Row]:
        """One pass over the rows of a table."""
        number = next(self._numbers)
        self._replies[number] = None
        try:
            with self._failures():
                self._request(number, table)
                while True:
                    kind, body = self._reply(number)
                    if kind == END:
                        return
                    if kind != BATCH:
                        self._raise_reported(kind, body)
                    self._request(number, table)  # the reader works on it while these rows are used
                    yield from unpack_rows(body, width)
        finally:
            with self._lock, suppress(OSError):
                del self._replies[number]
                send(self._connection, CLOSE, number)

    def _request(self, number: int, table: str) -> None:
        """Request the next rows of a pass."""
        with self._lock:
            send(self._connection, ROWS, (number, table))
            self._due.append(number)

    def _reply(self, number: int) -> Message:
        """The next reply for a pass. Replies come in the order of requests; those for other passes are kept until asked for."""
        with self._lock:
            while (reply := self._replies[number]) is None:
                received = receive(self._connection)
                owner = self._due.popleft()
                if owner in self._replies:
                    self._replies[owner] = received
            self._replies[number] = None
            return reply

    def _kill(self) -> ExitStatus:
        if self._exited is None:
            self._exited = self._fork_server.kill(self._pid)
        return self._exited

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn failures of the connection and invalid messages into FileRefused."""
        try:
            yield
        except TimeoutError:
            self._kill()
            self._raise_over_limit(f"reading it took longer than {self._limits.wall_s:,.0f} s", "reading.wall_s")
        except (EOFError, OSError):
            self._raise_for_exit(self._kill())
        except ValueError as error:
            self._kill()
            self._raise_crashed(str(error)[:300])

    def _raise_reported(self, kind: bytes, body: memoryview) -> NoReturn:
        """Raise what the reader reported about the file. Raises ValueError for an invalid report."""
        if kind == REFUSED:
            raise FileRefused(check_problem(decode(body, Problem)))
        if kind != FAILED:
            raise ValueError("an unexpected reply")
        failure, text = decode(body, tuple[str, str])
        if failure == DISK:
            raise DiskFault(
                f"{self._name} cannot be read because its disk failed ({text}). "
                "Nothing from it was used, and it stays where it was"
            )
        if failure in _MEMORY_ERRORS:
            self._raise_over_limit(f"it needs more memory than {self._limits.memory_mb:,} MB", "reading.memory_mb")
        self._raise_crashed(f"{failure}: {text}"[:300])

    def _raise_for_exit(self, exited: ExitStatus) -> NoReturn:
        """Raise the FileRefused for a reader's exit status."""
        is_over_cpu_limit = exited.cpu_s >= self._limits.cpu_s
        if exited.signal == signal.SIGXCPU or (exited.signal == signal.SIGKILL and is_over_cpu_limit):
            reason = f"it took {exited.cpu_s:,.0f} s of CPU time; at most {self._limits.cpu_s:,} s are allowed"
            self._raise_over_limit(reason, "reading.cpu_s")
        if exited.signal == signal.SIGKILL:
            reason = (
                f"the system killed it at {exited.peak_mb:,} MB of memory; the limit is {self._limits.memory_mb:,} MB"
            )
            self._raise_over_limit(reason, "reading.memory_mb")
        if not exited.signal:
            self._raise_crashed(f"it ended with code {exited.code}")
        with suppress(ValueError):
            self._raise_crashed(f"it was killed by {signal.Signals(exited.signal).name}")
        self._raise_crashed(f"it was killed by signal {exited.signal}")

    def _raise_over_limit(self, reason: str, setting: str) -> NoReturn:
        hint = f"send it in several files, or as CSV; or raise {setting}"
        raise FileRefused(Problem("R232", Where(self._name), "", {"reason": reason, "setting": setting}, hint))

    def _raise_crashed(self, reason: str) -> NoReturn:
        raise FileRefused(Problem("R233", Where(self._name), "", {"reason": reason}, _SAVE_AGAIN))


class DiskFault(FolderError):
    """A disk failed to read a file. The file stays where it was."""


def _rows_with_retry(reader: _Reader, table: str, width: int) -> Iterator[Row]:
    """The rows of a table, with one retry: if the disk fails, they are read again from the start, without those yielded before.
    Raises DiskFault if it fails again, and FileRefused if the reader fails.
    """
    count = 0
    try:
        for count, row in enumerate(reader.rows(table, width), start=1):  # noqa: B007 (the retry needs the count)
            yield row
    except DiskFault:
        yield from islice(reader.rows(table, width), count, None)
