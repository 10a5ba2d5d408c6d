"""Rules for every test: how long it may take, how many examples it tries, and that the reports it leaves agree with each other.

At the end of a run the sweeps say what they tried, in whatever processes they ran: `record_property("kills", 312)`.
"""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings
from outcome_check import check_outcomes_below

os.environ.setdefault("LOADSHEET_ALLOW_ROOT", "true")  # containers of tests have no other user
os.environ.setdefault("LOADSHEET_QUIET", "false")  # a run prints as on a terminal

# Images of containers set this variable: each process, the tests start hundreds, would compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if not os.environ.get("CI"):  # where it is set, hypothesis has no deadline either
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # likewise, with nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

MEMORY = Path("/dev/shm")
NEEDED = 6 * 2**30  # bytes; a whole run leaves up to 2 GB


def _is_roomy(folder):
    """Whether a run of the tests fits into a folder, and programs may start from it."""
    if not folder.is_dir() or shutil.disk_usage(folder).free < NEEDED:
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and _is_roomy(MEMORY):
    # Each commit waits for the disk, and a test makes hundreds: in memory they cost nothing, and are made all the same.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

TOO_LONG_S = 1.5
CPU_MAX_S = 8.0  # CPU time doubles on a busy machine, and the first test of a process pays for what it loads
FAR_TOO_LONG_S = 60.0  # a busy machine, and one that stands still for a while, is not a reason to fail
LONG = {"journey", "sweep", "alone", "examples"}
_SETTINGS = "_hypothesis_internal_use_settings"  # where hypothesis keeps a test's settings; there is no public way to change them
_FEWER = set()
_CPU_S = pytest.StashKey[float]()

_UMASK = os.umask(0o022)


@pytest.fixture(autouse=True)
def _umask():
    """Commands that run in this process change its umask; each test, and each fixture of a module, begins with that of the start."""
    os.umask(_UMASK)
    yield
    os.umask(_UMASK)


@pytest.fixture
def workspace(tmp_path):
    """A folder as a shipper has it, with an empty inbox."""
    from workspace import Workspace

    return Workspace(tmp_path)


@pytest.fixture
def other_volume(tmp_path):
    """An empty folder on another volume than `tmp_path`."""
    for place in (MEMORY, Path("/var/tmp")):
        if place.is_dir() and place.stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(prefix="loadsheet-", dir=place) as folder:
                yield Path(folder)
            return
    pytest.skip("this machine has one volume only")


@pytest.fixture(autouse=True)
def _outcomes_agree(request):
    """Whatever a test is about: what its runs reported agrees with itself. `outcomes_differ(reason)` marks one in which it may not."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    if folder is not None and request.node.get_closest_marker("outcomes_differ") is None:
        check_outcomes_below(folder)


@pytest.fixture(scope="module")
def store():
    """A real S3-compatible server."""
    from object_store import running_store

    with running_store() as running:
        yield running


@pytest.fixture
def own_server():
    """A PostgreSQL that a test may stop if it starts it again."""
    from databases import forget_engines, stoppable_server

    yield stoppable_server()
    forget_engines()


@pytest.fixture
def bucket(store):
    """A bucket of one test in it."""
    return store.bucket()


def pytest_collection_modifyitems(items):
    """Tests of random examples are marked `examples`; without LOADSHEET_EXAMPLES=all they try a quarter of theirs."""
    for item in items:
        test = getattr(item, "obj", None)
        if is_hypothesis_test(test):
            item.add_marker("examples")
            if os.environ.get("LOADSHEET_EXAMPLES") != "all":
                _try_fewer(getattr(test, "__func__", test))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays: the collector need not look through it, then or later. The rest as `loadsheet` itself sets it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


def _try_fewer(test):
    chosen = getattr(test, _SETTINGS, None) or settings()
    if test not in _FEWER:  # the parameters of a test share its function
        _FEWER.add(test)
        setattr(test, _SETTINGS, settings(chosen, max_examples=max(1, chosen.max_examples // 4)))


def _cpu_s():
    """CPU seconds of this process and of the ended processes that it started."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Measure the CPU time of a test: unlike its duration, it hardly depends on what else the machine does."""
    began = _cpu_s()
    try:
        return (yield)
    finally:
        item.stash[_CPU_S] = _cpu_s() - began


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test without the mark of a journey fails if it needs too much CPU time, or lasts far too long."""
    report = yield
    report.cpu_s = item.stash.get(_CPU_S, 0.0)
    is_long = call.duration > FAR_TOO_LONG_S or report.cpu_s > CPU_MAX_S
    if report.passed and call.when == "call" and is_long and not LONG & set(report.keywords):
        report.outcome = "failed"
        report.longrepr = (
            f"it took {call.duration:.1f} s and {report.cpu_s:.1f} s of CPU; "
            f"a test should take {TOO_LONG_S} s at most, unless it is a journey"
        )
    return report


def pytest_terminal_summary(terminalreporter):
    """The tests that take too long; a line for each sweep that counted something, and the sums."""
    passed = [report for report in terminalreporter.getreports("passed") if report.when == "call"]
    slow = [each for each in passed if each.duration > TOO_LONG_S and not LONG & set(each.keywords)]
    if slow:
        terminalreporter.section(f"{len(slow)} tests over {TOO_LONG_S} s that are not journeys")
        for report in sorted(slow, key=lambda each: -each.duration):
            terminalreporter.line(f"{report.duration:.1f} s, {report.cpu_s:.1f} s of CPU: {report.nodeid}")
    done = [report for report in terminalreporter.getreports("passed") if report.user_properties]
    if not done:
        return
    terminalreporter.section("what the sweeps tried")
    total = Counter()
    for report in done:
        told = ", ".join(f"{value:,} {name}" for name, value in report.user_properties)
        terminalreporter.line(f"{report.nodeid.rpartition('::')[2]}: {told}")
        total.update(dict(report.user_properties))
    terminalreporter.line("in all: " + ", ".join(f"{count:,} {name}" for name, count in total.items()))
