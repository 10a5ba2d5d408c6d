"""The one way to measure: what a process costs, a table of lines with the ratio to the first one, and a folder for it.

CPU is that of a process with all that it has started. Peak memory is what they hold together, looked at twenty times a second (Linux).
Commands take turns for a number of rounds: a line has the median, and the spread of the CPU from the lowest to the highest.
"""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil


class Contender(NamedTuple):
    """A command that is measured: its title, its words, its exit code, and the aim for its ratio to the first one."""

    title: str
    command: list
    status: int = 0
    aim: str = ""


class Cost(NamedTuple):
    """What something took: wall and CPU seconds, and the peak of its memory in MB."""

    wall_s: float
    cpu_s: float
    peak_mb: float = 0.0


@contextmanager
def scratch():
    """A folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _family(pid=None):
    """A process (this one without `pid`) and all that it has started."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        yield parent
        yield from parent.children(recursive=True)


def cpu_s(pid=None):
    """CPU seconds so far of a process (of this one without `pid`), of all that it has started, and of what is over of these."""
    found = 0.0
    for member in _family(pid):
        with suppress(psutil.Error):  # it has just ended
            found += sum(member.cpu_times()[:4])
    return found


def memory_mb(pid):
    """What a process holds with all that it has started, pages that they share counted once."""
    found = 0
    for member in _family(pid):
        with suppress(psutil.Error):
            found += member.memory_full_info().pss
    return found / 1_000_000


class Clock:
    """Wall and CPU seconds of this process and its children since the last look."""

    def __init__(self):
        self._wall, self._cpu = time.perf_counter(), cpu_s()

    def lap(self):
        wall, cpu = time.perf_counter(), cpu_s()
        passed = Cost(wall - self._wall, cpu - self._cpu)
        self._wall, self._cpu = wall, cpu
        return passed


def measured(command, *, status=0, out=os.devnull, cwd=None):
    """The cost of a command, whose stdout goes to `out`. Raises AssertionError with its stderr unless it ends with `status`."""
    began, peak, ended = time.perf_counter(), 0.0, 0
    with Path(out).open("wb") as target, tempfile.TemporaryFile() as wrong:
        child = subprocess.Popen([str(word) for word in command], stdout=target, stderr=wrong, cwd=cwd)
        while not ended:
            peak = max(peak, memory_mb(child.pid))
            time.sleep(0.05)
            ended, code, used = os.wait4(child.pid, os.WNOHANG)
        wall, child.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(code)
        wrong.seek(0)
        assert child.returncode == status, wrong.read().decode()
    return Cost(wall, used.ru_utime + used.ru_stime, peak)


def head(item):
    """The headings of a table whose costs are for each `item`."""
    print(f"{'':38}{'wall s':>8}{'CPU s':>8}{'spread':>13}{f'us/{item}':>11}{'peak MB':>9}{'ratio':>7}")


def line(title, costs, count, *, first=None, aim=""):
    """A line of a table: the medians of some costs over `count` items, and the ratio to the CPU of `first` beside its aim.

    Returns the median of the CPU in seconds.
    """
    wall, cpu, peak = (median(column) for column in zip(*costs, strict=True))
    spread = (
        f"{min(cost.cpu_s for cost in costs):.2f}-{max(cost.cpu_s for cost in costs):.2f}" if len(costs) > 1 else ""
    )
    ratio = f"{cpu / first:7.2f}" if first else " " * 7
    memory = f"{peak:9.0f}" if peak else " " * 9
    print(
        f"{title:38}{wall:8.2f}{cpu:8.2f}{spread:>13}{cpu / count * 1e6:11.0f}{memory}{ratio}  {aim}".rstrip(),
        flush=True,
    )
    return cpu


def compare(contenders, count, *, rounds=1, folder=None):
    """Measure contenders by turns. Prints a line each, with the ratio to the first; `folder` gets what each printed as `TITLE.out`."""
    costs = {}
    for _ in range(rounds):
        for one in contenders:
            out = os.devnull if folder is None else folder / f"{one.title}.out"
            costs.setdefault(one.title, []).append(measured(one.command, status=one.status, out=out))
    first = None
    for one in contenders:
        cpu = line(one.title, costs[one.title], count, first=first, aim=one.aim)
        first = first or cpu
