"""What readers do that fail or mean harm: functions with the signature of `opening.open_in_this_process`, run in the child's place."""

import ctypes
import errno
import io
import mmap
import os
import signal
import socket
import subprocess
import time
import zlib
from pathlib import Path

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where
from loadsheet.reading.opening import open_in_this_process
from loadsheet.reading.tables import Native, Row, Table


class PanicException(BaseException):
    pass


def panic():
    raise PanicException("called `Option::unwrap()` on a `None` value")


def loop():
    while True:
        pass


def allocate():
    taken = []
    while True:
        taken.append(bytearray(64 << 20))


def recurse():
    recurse()


def refuse():
    raise FileRefused(Problem("R202", Where("given.csv"), hint="send it again"))


DEEDS = {
    **{deed.__name__: deed for deed in (panic, loop, allocate, recurse, refuse)},
    "crash": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "end": lambda: os._exit(7),
    "hang": lambda: time.sleep(3_600),
    "killed": lambda: signal.raise_signal(signal.SIGKILL),
}


def misbehave(path, name, layouts, bounds):
    """The file says what to do, and when: while it is opened, or while its rows are read."""
    deed, when = path.read_text().split()
    if when == "open":
        DEEDS[deed]()

    def rows():
        yield Row(2, ("first",))
        DEEDS[deed]()

    return {"rows": Table("rows", name, "", ("Order",), 1, {"Order": 0}, rows, {})}


def lie(path, name, layouts, bounds):
    """The file says how its table is wrong."""
    lie = path.read_text()
    if lie == "columns":
        return {"rows": Table("rows", name, "", ("Order",), 1, {"Order": 5}, lambda: iter([]), {})}
    rows = {
        "width": Row(2, ("a", "b")),
        "code": Row(2, ("a",), Problem("R999")),
        "values": Row(2, ("a",), Problem("R212", Where(name), "", {})),
        "kind": Row(2, (Native("1", "spell"),)),
        "number": Row("two", ("a",)),
        "cell": Row(2, (None,)),
        "place": Row(2, (Native("1", "number"), 7)),
        "endless": Row(2, ("x" * (65 << 20),)),
    }
    return {"rows": Table("rows", name, "", ("Order",), 1, {"Order": 0}, lambda: iter([rows[lie]]), {})}


def wander(path, name, layouts, bounds):
    """Tries what a reader has no business doing, in Python and past it. The rows say what came of it. The file names a canary,
    a port and our own process.
    """
    canary, port, process = path.read_text().split()
    system = ctypes.CDLL(None, use_errno=True)
    system.socket, system.open, system.kill, system.execve, system.chmod  # noqa: B018 (found now: later they cannot be)

    def rows():
        attempts = {
            "read the canary": lambda: Path(canary).read_text(),
            "read the canary past Python": lambda: _raised(system.open(canary.encode(), 0)),
            "list its folder": lambda: list(Path(canary).parent.iterdir()),
            "write": lambda: Path(canary).write_text("changed"),
            "write past Python": lambda: _raised(system.open(canary.encode(), 1)),
            "make a file past Python": lambda: _raised(system.open(f"{canary}.new".encode(), 0o101, 0o600)),
            "delete": lambda: Path(canary).unlink(),
            "delete past Python": lambda: _raised(system.unlink(canary.encode())),
            "open it to others": lambda: _raised(system.chmod(canary.encode(), 0o777)),
            "give it to others": lambda: _raised(system.lchown(canary.encode(), -1, -1)),
            "change its times": lambda: _raised(system.utimes(canary.encode(), None)),
            "mark it": lambda: _raised(system.setxattr(canary.encode(), b"user.mark", b"1", 1, 0)),
            "cut it": lambda: _raised(system.truncate(canary.encode(), 0)),
            "connect": lambda: socket.create_connection(("127.0.0.1", int(port))),
            "connect past Python": lambda: _raised(system.socket(2, 1, 0)),
            "start a program": lambda: subprocess.run(["true"], check=False),
            "start a program past Python": lambda: _raised(system.execve(b"/bin/true", None, None)),
            "kill": lambda: os.kill(int(process), signal.SIGTERM),
            "kill past Python": lambda: _raised(system.kill(int(process), 0)),
            "signal a thread": lambda: _raised(system.tgkill(int(process), int(process), 0)),
            "hold a process": lambda: _raised(system.pidfd_open(int(process), 0)),
            "slow a process": lambda: _raised(system.setpriority(0, int(process), 19)),
            "fork": os.fork,
            "fork past Python": lambda: _raised(system.syscall(57, 0, 0, 0, 0)),
            "read another's environment": lambda: Path(f"/proc/{process}/environ").read_bytes(),
            "take four gigabytes": lambda: bytearray(4 << 30),
            "raise a limit": lambda: _raised(system.setrlimit(9, (ctypes.c_ulong * 2)(1 << 62, 1 << 62))),
            "raise another limit": lambda: _raised(
                system.prlimit64(0, 0, (ctypes.c_ulong * 2)(1 << 40, 1 << 40), None)
            ),
            "open many files": lambda: [open(path, "rb") for _ in range(100)],  # noqa: PTH123, SIM115
            "hold a secret": lambda: os.environ["LOADSHEET_TOKEN"],
        }
        for number, (what, attempt) in enumerate(attempts.items(), 2):
            yield Row(number, (what, _came_of(attempt)))
        yield Row(99, ("bounds", " ".join(map(str, bounds))))

    return {"rows": Table("rows", name, "", ("What", "Came of it"), 1, {}, rows, {})}


def _raised(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused by the system")
    return result


def _came_of(attempt):
    try:
        return f"done: {str(attempt())[:50]}"
    except (OSError, MemoryError, LookupError) as error:
        return f"refused: {type(error).__name__}"


class FailingPath(type(Path())):
    """A file on a disk that fails at its reads from number `first` on, for `most` of them; it counts them across processes."""

    reads = mmap.mmap(-1, 8)  # what children count, their siblings know

    def open(self, mode="r", *more, **options):
        if mode != "rb":
            return super().open(mode, *more, **options)
        return io.BufferedReader(_Failing(super().open("rb", 0)))


class _Failing(io.RawIOBase):
    def __init__(self, raw):
        self._raw = raw

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return self._raw.seek(offset, whence)

    def tell(self):
        return self._raw.tell()

    def readinto(self, buffer):
        count, first, most = FailingPath.reads[:3]
        FailingPath.reads[0] = min(count + 1, 255)
        if first <= count < first + most:
            raise OSError(errno.EIO, "Input/output error")
        return self._raw.readinto(buffer)


def fail(path, name, layouts, bounds):
    """The disk fails at the read, and as often, as the name says: `3 times 1 a.csv`."""
    first, _, most, _ = name.split()
    asked = bytes([int(first), int(most), zlib.crc32(name.encode()) % 256])
    if FailingPath.reads[1:4] != asked:
        FailingPath.reads[:4] = b"\0" + asked
    return open_in_this_process(FailingPath(path), name, layouts, bounds)
