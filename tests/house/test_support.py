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


@pytest.fixture
def rules(monkeypatch):
    """The text of the rules for tests, which can be imported by the tests of a test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the rules need none, and to load them takes seconds
    return Path(__file__).parents[1].joinpath("conftest.py").read_text(encoding="utf-8")


def test_a_test_that_needs_too_much_cpu_time_fails_and_one_that_waits_does_not(pytester, rules):
    pytester.makeconftest(re.sub(r"CPU_MAX_S = [\d.]+", "CPU_MAX_S = 0.3", rules))
    pytester.makepyfile(
        """
        import subprocess, sys, time

        def test_computes():
            until = time.process_time() + 0.4
            while time.process_time() < until:
                pass

        def test_starts_a_process_that_computes():
            subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.4: pass"], check=True)

        def test_waits():
            time.sleep(0.4)
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1, failed=2)


def test_random_examples_are_a_quarter_unless_all_are_asked_for_and_a_test_that_takes_far_too_long_fails(
    pytester, rules, monkeypatch
):
    """But a journey may."""
    pytester.makeconftest(re.sub(r"TOO_LONG_S = [\d.]+", "TOO_LONG_S = 0.25", rules))
    pytester.makepyfile(
        """
        import time
        import pytest
        from hypothesis import given, settings, strategies

        tried = []

        @settings(max_examples=40, database=None)
        @given(strategies.integers())
        def test_numbers(number):
            tried.append(number)

        def test_how_many():
            print("tried", len(tried))

        def test_waits():
            time.sleep(0.3)

        @pytest.mark.journey
        def test_walks():
            time.sleep(0.3)
        """
    )
    words = ["-s", "-p", "no:cacheprovider"]
    monkeypatch.delenv("LOADSHEET_EXAMPLES", raising=False)
    found = pytester.runpytest_subprocess(*words)
    found.assert_outcomes(passed=3, failed=1)
    found.stdout.fnmatch_lines(["*tried 10*", "*it took 0.3 s and*"])
    monkeypatch.setenv("LOADSHEET_EXAMPLES", "all")
    pytester.runpytest_subprocess(*words).stdout.fnmatch_lines(["*tried 40*"])
