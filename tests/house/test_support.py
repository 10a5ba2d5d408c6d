"""What the tests start ends with them, and their rules hold."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

SERVE = """
from postgres import running_server
with running_server() as server:
    print(server.folder, flush=True)
    input()
"""


@pytest.mark.sweep
def test_a_postgresql_server_ends_when_the_tests_are_killed():
    words = [sys.executable, "-c", SERVE]
    support = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | support
    ) as tests:
        folder = Path(tests.stdout.readline().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        tests.kill()
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()
    assert not Path(f"/proc/{server}").exists()


TESTS = """
import subprocess, sys, time
import pytest
from hypothesis import given, settings, strategies

COMPUTE = "import time\\nwhile time.process_time() < 0.4: pass"
tried = []

@settings(max_examples=40, database=None)
@given(strategies.integers())
def test_numbers(number):
    tried.append(number)

def test_how_many():
    print("tried", len(tried))

def test_computes():
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass

def test_starts_a_process_that_computes():
    subprocess.run([sys.executable, "-c", COMPUTE], check=True)

def test_waits():
    time.sleep(0.4)

def test_waits_too_long():
    time.sleep(1)

@pytest.mark.journey
def test_journey():
    time.sleep(1)
"""


@pytest.mark.sweep
def test_a_test_with_too_much_cpu_time_or_far_too_long_fails_and_random_examples_are_a_quarter(pytester, monkeypatch):
    """But a journey may take long, all examples are tried where that is asked for, and what is compiled is kept."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the rules need none, and to load them takes seconds
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("LOADSHEET_EXAMPLES", raising=False)
    rules = Path(__file__).parents[1].joinpath("conftest.py").read_text(encoding="utf-8")
    rules = re.sub(r"FAR_TOO_LONG_S = [\d.]+", "FAR_TOO_LONG_S = 0.8", rules)
    pytester.makeconftest(re.sub(r"CPU_MAX_S = [\d.]+", "CPU_MAX_S = 0.3", rules))
    pytester.makepyfile(TESTS)
    words = ["-s", "-p", "no:cacheprovider"]
    found = pytester.runpytest_subprocess(*words)
    found.assert_outcomes(passed=4, failed=3)
    found.stdout.fnmatch_lines(["*tried 10*", "*it took * s and 0.[4-9] s of CPU*", "*it took 1.* s and*"])
    assert [*pytester.path.glob("__pycache__/test_*.pyc")]
    monkeypatch.setenv("LOADSHEET_EXAMPLES", "all")
    pytester.runpytest_subprocess(*words, "-k", "numbers or how_many").stdout.fnmatch_lines(["*tried 40*"])
