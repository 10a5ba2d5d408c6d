"""Every effect of a process on files and connections, one by one: counted, recorded, made to fail, or made its last.

`effects.c`, compiled once and preloaded, stands between a process and the C library. A `Workshop` is a process with it that has
imported the product and forks a fresh worker for each task, so that a kill costs a tenth of a second and not a start.
"""

import ctypes
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

CHANGE, SYNC, NETWORK = 1, 2, 4
HERE = Path(__file__).parent
EVERY = int(os.environ.get("LOADSHEET_SWEEP_EVERY", "16"))
"""Sweeps over all effects of a run take every so many of them; `make deep` takes all, which is a matter of an hour."""
SHIFT = int(os.environ.get("LOADSHEET_SWEEP_SHIFT", date.today().toordinal()))
"""Which of them: another part of all effects each day. A failure names the effect, so it can be tried alone."""


def every(count: int, step: int) -> range:
    """Every so many of the effects 1 to `count`, from the day's own first one."""
    return range(SHIFT % step + 1, count + 1, step)


@dataclass(frozen=True)
class Trap:
    """Where a worker ends or fails: at the `at`-th effect (from 1) of these kinds, before it or after it; 0 only counts.

    With `error`, an errno, the effect fails instead; so do all later ones if it is negative.
    """

    at: int = 0
    kinds: int = CHANGE | SYNC | NETWORK
    after: bool = False
    error: int = 0


class Effect(NamedTuple):
    """One recorded effect: write, sync, truncate, unlink, rename, mkdir or send, with its bytes."""

    what: str
    offset: int
    name: str
    data: bytes


class Done(NamedTuple):
    """How a worker ended: its exit code (negative: the signal), the effects it had, and what it said."""

    code: int
    seen: int
    said: str


def preload(folder: Path) -> Path:
    """The compiled library; skips where no C compiler can be had, which never happens in CI."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        if os.environ.get("CI"):
            pytest.fail("CI needs a C compiler on Linux")
        pytest.skip("the effects of a process are watched with a library that needs Linux and a C compiler")
    library = folder / "effects.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "effects.c"), "-ldl", "-lpthread"]
    subprocess.run(words, check=True)
    return library


class Workshop:
    """A process with the library preloaded that forks a worker for each task of `worker`, a module of tests/support with `work(task)`."""

    def __init__(self, library: Path, worker: str) -> None:
        environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, __file__, worker],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def do(self, task: dict, under: Path, trap: Trap = Trap(), *, record: Path | None = None) -> Done:
        """Have a worker do a task that starts in the folder `under`, whose files are watched."""
        order = {"task": task, "under": str(under), "trap": asdict(trap), "record": record and str(record)}
        return Done(*self._ask(order))

    @contextmanager
    def serving(self, task: dict, under: Path) -> Iterator[str]:
        """Have a worker go on with a task meanwhile; the first line that it says, once it says one."""
        says = under / "says"
        says.unlink(missing_ok=True)
        order = {"task": {**task, "say": str(says)}, "under": str(under), "meanwhile": True}
        worker = self._ask(order)
        try:
            while not (says.exists() and says.read_text().endswith("\n")):
                time.sleep(0.005)
            yield says.read_text().splitlines()[0]
        finally:
            self._ask({"stop": worker})

    def _ask(self, order: dict) -> Any:
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def read_record(path: Path) -> list[Effect]:
    """The effects that `do(..., record=path)` wrote down, in their order."""
    found, record = [], path.read_bytes()
    at = 0
    while at < len(record):
        end = record.index(b"\n", at)
        what, offset, length, name = record[at:end].decode().split(" ", 3)
        size = int(length) if what in ("write", "send", "rename") else 0
        found.append(Effect(what, int(offset), name, record[end + 1 : end + 1 + size]))
        at = end + 1 + size
    return found


def _serve(worker: str) -> None:
    """The workshop's side: one line in, one worker, one line out."""
    module = importlib.import_module(worker)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(_answer(module, json.loads(line))), file=answers, flush=True)


def _answer(module: Any, order: dict) -> Any:
    if "stop" in order:
        os.kill(order["stop"], signal.SIGTERM)
        os.waitpid(order["stop"], 0)
        return None
    out, count = os.memfd_create("said"), os.memfd_create("count")
    child = os.fork()
    if not child:
        _be_worker(module, order, out, count)
    try:
        if order.get("meanwhile"):
            return child
        _, status = os.waitpid(child, 0)
        said = os.pread(out, 1_000_000, 0).decode("utf-8", "replace")
        return [os.waitstatus_to_exitcode(status), int(os.pread(count, 20, 0) or b"0"), said]
    finally:
        os.close(out)
        os.close(count)


def _be_worker(module: Any, order: dict, out: int, count: int) -> None:
    library = ctypes.CDLL(None)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(order["under"])
    under = order["under"].encode()
    if order.get("record"):
        library.effects_record(under, order["record"].encode())
    elif trap := order.get("trap"):
        library.effects_arm(under, trap["kinds"], ctypes.c_long(trap["at"]), int(trap["after"]), trap["error"])
    code = 70
    try:
        code = module.work(order["task"])
    finally:
        seen = library.effects_seen()
        library.effects_arm(under, 0, ctypes.c_long(0), 0, 0)
        os.pwrite(count, str(seen).encode(), 0)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
