"""Memory stays flat: five times the orders need hardly more."""

import shutil
import subprocess
import sys

import pytest
from command import environment
from orders import MAPPINGS, write_orders

pytestmark = [pytest.mark.sweep, pytest.mark.alone]

MEASURED = """
import resource, sys
from loadsheet.cli import invoke
code = invoke(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, code, file=sys.stderr)
"""


def peak_mb(folder, count):
    write_orders(folder / "inbox", count)
    shutil.copytree(MAPPINGS, folder / "mappings")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "run", "--settle", "0"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    peak, code = done.stderr.rsplit("peak", 1)[1].split()
    assert code == "0", done.stderr
    return int(peak)


def test_ten_thousand_orders_need_hardly_more_memory_than_two_thousand(tmp_path):
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    small, large = peak_mb(few, 2_000), peak_mb(many, 10_000)
    assert large < small + 120, (small, large)
