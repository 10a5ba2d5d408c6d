"""What files cost whoever reads them, in a process of its own with the children that read for it."""

import json
import subprocess
import sys
from typing import NamedTuple

_READING = """
import json, os, resource, sys
from pathlib import Path
from loadsheet.errors import FileRefused
from loadsheet.reading import Layout, WantedColumn, open_tables, sandbox
from loadsheet.settings import Settings

asked, codes = Layout("rows", (WantedColumn("Order", ("Order",)),)), []
for path in map(Path, sys.argv[1:]):
    try:
        codes.append(sum(1 for _ in open_tables(path, path.name, [asked], Settings())["rows"].rows()))
    except FileRefused as refused:
        codes.append(refused.problem.code)
sandbox._fork_server(os.getpid()).close()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
print(json.dumps([codes, cpu_s, used[1].ru_maxrss / 1024, used[0].ru_maxrss / 1024]))
"""


class Cost(NamedTuple):
    """The code by which each file was refused (a number: so many rows were read), CPU seconds of all together, start included, the
    largest memory of a reader in MB, and that of the process which the rows come to.
    """

    codes: list
    cpu_s: float
    peak_mb: float
    own_mb: float


def cost_of(paths):
    """Read files one after the other; what it cost."""
    words = [sys.executable, "-c", _READING, *map(str, paths)]
    return Cost(*json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout))
