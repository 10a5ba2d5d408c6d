"""Parts translated by new processes on this machine. Their chunks arrive through pipes as they are made.

The processes get no token and no password, write no file except the spill of a sort, and end when their pipe is closed. A problem of a
file is raised here as usual. A process that fails in any other way is a lost part. Both sides of the pipe are in this module.
"""

import heapq
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, NoReturn, Self, cast

import msgspec

from loadsheet.contract import Assumptions
from loadsheet.problems import FileRefused, Problem
from loadsheet.reading.messages import END, FAILED, MESSAGE_BYTES_MAX, OPEN, REFUSED, check_problem, decode
from loadsheet.settings import Settings
from loadsheet.translation.parts import (
    Chunk,
    MergedParts,
    PartJob,
    PartsLost,
    PartSummary,
    PartTranslation,
    pack,
    unpack,
)

_START = "import sys; sys.path[:] = sys.argv[1:]; from loadsheet.translation.processes import serve; serve()"
_CHUNK = b"c"
_HEAD = struct.Struct(">cI")  # of a frame: its kind and the length of its body
_PIPE_BYTES = 1 << 20  # limits how far a part runs ahead of planning
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT")


class _Task(NamedTuple):
    """The input of a process. `settings` holds only numbers and words from fixed lists, no secrets."""

    job: PartJob
    settings: dict[str, Any]
    assumptions: dict[str, Any]
    spill_folder: str


class PartProcesses(MergedParts):
    """The parts of a drop, each translated by its own process. Leaving the context ends all processes."""

    def __init__(self, jobs: Sequence[PartJob], settings: Settings) -> None:
        self._jobs, self._settings = jobs, settings
        self._ending = ExitStack()
        self._ended: dict[int, PartSummary] = {}
        super().__init__((), lambda: [self._ended[job.part] for job in jobs])

    def __enter__(self) -> Self:
        with ExitStack() as ending:
            spill = ending.enter_context(tempfile.TemporaryDirectory(prefix="loadsheet-", ignore_cleanup_errors=True))
            streams = []
            for job in self._jobs:
                process = _started(_Task(job, *_harmless(self._settings), spill))
                ending.callback(_end, process)
                streams.append(self._stream(job.part, cast("BinaryIO", process.stdout)))
            self._chunks = heapq.merge(*streams, key=itemgetter(0))
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def _stream(self, part: int, pipe: BinaryIO) -> Iterator[Chunk]:
        while True:
            try:
                kind, body = _read_frame(pipe)
                if kind == END:
                    self._ended[part] = msgspec.msgpack.decode(body, type=PartSummary)
                    return
                if kind != _CHUNK:
                    _refuse(part, kind, body)
                chunk = unpack(body)
            except EOFError as error:
                raise PartsLost(f"the process of part {part + 1} ended early") from error
            except (OSError, ValueError, msgspec.DecodeError) as error:
                raise PartsLost(f"part {part + 1} sent invalid data: {error}") from error
            yield chunk


def _refuse(part: int, kind: bytes, body: bytes) -> NoReturn:
    """Raise the problem of a file, or the failure that ended a process."""
    if kind == REFUSED:
        raise FileRefused(check_problem(decode(body, Problem)))
    what, text = decode(body, tuple[str, str])
    raise PartsLost(f"part {part + 1} failed: {what}: {text}")


def _harmless(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that translation needs, without possible secrets, and the assumptions that were set."""
    plain = settings.model_dump(mode="json", include={"reading", "translation"})
    return plain, settings.assumptions.model_dump(mode="json", exclude_unset=True)


def _started(task: _Task) -> subprocess.Popen[bytes]:
    kept = {what: os.environ[what] for what in _KEPT if what in os.environ}
    paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 (a zip or "" is not a Path)
    try:
        process = subprocess.Popen(  # noqa: S603 (runs this interpreter)
            [sys.executable, "-I", "-X", "utf8", "-c", _START, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept,  # no token, no password
            start_new_session=True,  # Ctrl-C must reach only the parent
        )
        stdin, stdout = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)
        with suppress(ImportError, AttributeError, OSError):  # where pipes can be made larger
            import fcntl

            fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with suppress(BrokenPipeError), stdin:  # the failure is read from the other pipe
            _write_frame(stdin.write, OPEN, task)
    except OSError as error:
        raise PartsLost(f"no process can be started: {error}") from error
    return process


def _read_frame(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The kind and the body of the next frame. Raises EOFError if the stream ends before or in it, and ValueError if it is too long.

    The frames are our own because a connection of `multiprocessing` cannot use the pipes of a subprocess on Windows.
    """
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    kind, length = _HEAD.unpack(head)
    if length > MESSAGE_BYTES_MAX:
        raise ValueError("a frame is too long")
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return kind, body


def _write_frame(write: Callable[[bytes], object], kind: bytes, content: object) -> None:
    """Write one frame. Values that MessagePack has no form for are written as text."""
    body = msgspec.msgpack.encode(content, enc_hook=str)
    write(_HEAD.pack(kind, len(body)) + body)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that is done or no longer needed."""
    cast("BinaryIO", process.stdout).close()
    process.kill()
    process.wait()


# ---- in the process ----


def serve() -> None:
    """Translate the part whose job arrives on standard input."""
    with os.fdopen(os.dup(1), "wb") as pipe:
        os.dup2(2, 1)  # keeps a library's output out of the chunks
        with _FailureReport(pipe.write):
            _, body = _read_frame(sys.stdin.buffer)
            task = msgspec.msgpack.decode(body, type=_Task)
            assumptions = Assumptions.model_validate(task.assumptions)
            settings = Settings(**task.settings, assumptions=assumptions)
            part = PartTranslation(task.job, settings, Path(task.spill_folder))
            for chunk in part.chunks():
                packed = pack(chunk)
                if len(packed) > MESSAGE_BYTES_MAX:
                    raise OverflowError("a chunk is larger than the limit of a frame")
                pipe.write(_HEAD.pack(_CHUNK, len(packed)))
                pipe.write(packed)
                pipe.flush()
            _write_frame(pipe.write, END, part.summary())


class _FailureReport:
    """Writes an exception to the pipe and swallows it: no caller could catch it."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        with suppress(OSError):  # the reader is gone
            if isinstance(error, FileRefused):
                _write_frame(self._write, REFUSED, error.problem)
            elif kind is not None:
                _write_frame(self._write, FAILED, (kind.__name__, str(error)[:500]))
        return True
