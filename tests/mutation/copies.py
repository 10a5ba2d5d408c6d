"""Copies of the working tree in which tests run, over changed source or over source with a mark in each function."""

import ast
import atexit
import contextlib
import functools
import json
import mmap
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from tests.mutation.places import ROOT, functions, git

EXAMPLES_MAX = 20  # of a hypothesis test
KEEPS = type(functools.lru_cache(len))


class Plugin:
    """For pytest: few examples of hypothesis tests and, if functions are marked, which of them each test reaches."""

    def __init__(self, marks: mmap.mmap | None = None, report: Path | None = None) -> None:
        self.marks, self.report, self.tests, self.setups = marks, report, {}, defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        name = "_hypothesis_internal_use_settings"
        for function in {getattr(item, "function", None) for item in items}:
            if (given := getattr(function, name, None)) and given.max_examples > EXAMPLES_MAX:
                setattr(function, name, hypothesis.settings(given, max_examples=EXAMPLES_MAX))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.marks is not None:
            reached = {number for number, byte in enumerate(self.marks[:]) if byte}
            self.marks[:] = bytes(len(self.marks))
            test = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": True, "reached": set()})
            test["seconds"] += report.duration
            test["passed"] &= report.passed
            shared = self.setups[
                report.nodeid.partition("::")[0]
            ]  # any test of a file may hold what its fixtures reach
            (shared if report.when == "setup" else test["reached"]).update(reached)
            if report.when == "teardown":
                forget()

    def pytest_sessionfinish(self) -> None:
        if self.report is not None:
            for name, test in self.tests.items():
                test["reached"] = sorted(test["reached"] | self.setups[name.partition("::")[0]])
            self.report.write_text(json.dumps(self.tests), encoding="utf-8")


def forget() -> None:
    """Clear the caches of a bounded size, those of texts in files: each test then runs all that it depends on."""
    modules = [module for name, module in sys.modules.items() if name.startswith("loadsheet.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if isinstance(value, KEEPS) and value.cache_info().maxsize:
            value.cache_clear()


class Copy:
    """A copy of the working tree, in which one process at a time runs tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process, self.deadline, self.trying = folder, 0, 0.0, None
        for name in git("ls-files", "-co", "--exclude-standard").splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def write(self, path: str, text: str) -> None:
        """Replace a source file and drop what was compiled from it: that is told apart by size and second only."""
        (self.folder / path).write_text(text, encoding="utf-8")
        for compiled in (self.folder / path).parent.glob(f"__pycache__/{Path(path).stem}.*.pyc"):
            compiled.unlink()

    def start(self, tests: list[str], plugin: Plugin, limit_s: float) -> None:
        """Fork a pytest that runs tests in this order; the fork has libraries loaded, but nothing of the product."""
        self.deadline = time.monotonic() + limit_s
        (self.folder / "tests.txt").write_text("\n".join(tests), encoding="utf-8")
        self.process = os.fork()
        if self.process:
            return
        code = 3
        try:
            os.setsid()
            os.chdir(self.folder)
            output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            tempfile.tempdir = str(self.folder / "t")
            shutil.rmtree(tempfile.tempdir, ignore_errors=True)
            Path(tempfile.tempdir).mkdir()
            os.environ |= {"CI": "true", "PYTHONPATH": str(self.folder / "src"), "TMPDIR": tempfile.tempdir}
            words = ["-p", "no:randomly", "-p", "no:cacheprovider", "--assert=plain", "--rootdir=.", "@tests.txt"]
            code = pytest.main([*words, *([] if plugin.report else ["-x"])], [plugin])
            atexit._run_exitfuncs()
        except BaseException:  # noqa: BLE001 (a fork must not go on with what its parent does)
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)

    def ended(self) -> int | None:
        """The exit code of the tests, 1 after a timeout; None while they run."""
        done, status = os.waitpid(self.process, os.WNOHANG)
        if not done and time.monotonic() < self.deadline:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        if not done:
            os.waitpid(self.process, 0)
        self.process = 0
        return os.waitstatus_to_exitcode(status) if done else 1

    def output(self) -> str:
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")[-3000:]


def finished(copies: list[Copy]) -> Iterator[tuple[Copy, int]]:
    """Each copy with the exit code of its tests, as they end; a copy whose tests are started again comes again."""
    while busy := [copy for copy in copies if copy.process]:
        for copy in busy:
            if (code := copy.ended()) is not None:
                yield copy, code
        time.sleep(0.02)


MARKS = """\
import mmap
try:
    with open({path!r}, "r+b") as _file:
        MARKS = mmap.mmap(_file.fileno(), 0)  # memory that all processes share: walled-off readers cannot write files
except OSError:
    MARKS = bytearray({size})
"""


def marked(source: str, numbers: dict[int, int]) -> str:
    """The source with a mark at the beginning of each function."""
    tree = ast.parse(source)
    for node in functions(tree):
        at = int(ast.get_docstring(node) is not None and len(node.body) > 1)
        node.body[at:at] = ast.parse(f"_mutation_marks[{numbers[node.lineno]}] = 1").body
    future = [
        n for n, node in enumerate(tree.body, 1) if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    at = max(future, default=int(ast.get_docstring(tree) is not None))
    tree.body[at:at] = ast.parse("from loadsheet_marks import MARKS as _mutation_marks").body
    return ast.unparse(tree)
