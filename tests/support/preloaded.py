"""Commands without their start: the process that forks has done a run already, each fork becomes one of them.

What is imported, compiled or remembered at its first use would else be so by each of them, which costs more than a small run.
"""

import gc
import importlib
import io
import os
import shutil
import sys
import tempfile
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

_COMMANDS = ("run", "resolve", "show", "doctor", "check", "exchange", "cluster", "report")
_ROOMS = (
    "pipeline",
    "exchange",
    "mapping.expressions",
    "mapping_tools",
    "cluster.worker_process",
    "credentials",
    "run_resources",
)
_LIBRARIES = ("pandas", "structlog", "psycopg", "procrastinate")  # else each command would load them again
_DIALECTS = ("sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite")
_NEEDED = (
    *(f"loadsheet.cli.{name}" for name in _COMMANDS),
    *(f"loadsheet.{name}" for name in _ROOMS),
    *_LIBRARIES,
    *_DIALECTS,
)


_MAPPINGS = Path(__file__).parents[1] / "proofs" / "mappings"


def prepare():
    """Import what any command needs, and do a run with one good and one wrong order."""
    for name in _NEEDED:
        importlib.import_module(name)
    from loadsheet.cli import invoke

    here, variables, umask = Path.cwd(), dict(os.environ), os.umask(0o022)
    with tempfile.TemporaryDirectory() as place, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        shutil.copytree(_MAPPINGS, Path(place, "mappings"))
        Path(place, "inbox").mkdir()
        Path(place, "inbox", "orders.csv").write_text("Order,City,Weight\nA-1,Bonn,1\nA-2,,x\n", encoding="utf-8")
        os.environ |= {
            "LOADSHEET_TOKEN": "token",
            "LOADSHEET_ARRIVAL__SETTLE_S": "0",
            "LOADSHEET_READING__PROCESS": "none",
        }
        os.chdir(place)
        code = invoke(["run"])
        os.chdir(here)
    os.umask(umask)
    importlib.import_module(
        "loadsheet.places"
    )._umask_before.clear()  # a process is closed to others at its first command
    os.environ.clear()
    os.environ.update(variables)
    assert code == 1, code
    assert threading.active_count() == 1, "a fork would miss the other threads"
    gc.collect()
    gc.freeze()  # what is here now stays shared with every fork


def become(folder, words, variables, files, before=lambda: None):
    """Be `loadsheet WORDS` in a folder, with these variables and nothing else of the environment; `files` are the descriptors of its
    stdin, stdout and stderr. `before` is called when all of that is so. Never returns.
    """
    from loadsheet.cli import invoke

    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (a descriptor; the process ends with it)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    code = 70
    try:
        before()
        code = invoke(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
