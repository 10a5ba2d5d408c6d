"""The runs of a worker, each in a process of its own: what goes wrong in one, memory included, is not the worker's.

Owns: how that process comes about and what its exit code means to the queue. It is forked from a server (`multiprocessing`'s) that has loaded
what a run needs, which takes a second or two of a core each time it is done anew. The run itself says the rest: log, reports, notices.
"""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path

from loadsheet import run_log
from loadsheet.cluster.queue import PutBack
from loadsheet.problems import LedgerBusy
from loadsheet.settings import Settings

Command = Callable[[list[str]], int]
"""Does what these words say and returns the exit code; a function that another process can import."""

LOOK_S = 0.2
TRY_AGAIN = 75
_LOADED = (
    "loadsheet.cli.run",
    "loadsheet.pipeline",
    "loadsheet.cluster.rate",
    "loadsheet.reports",
    "psycopg",
    "pandas",
)


def run_due(settings: Settings, due: datetime, stopping: Sequence[int], *, command: Command) -> int:
    """The run of a shipper that is wanted since a moment (aware), by the command line in another process; returns its exit code.

    Raises LedgerBusy for what may go well later (exit code 75), and PutBack if we were asked to stop before it was over: it has ended then,
    and whoever begins it anew goes on from there.
    """
    run_log.info("a run begins", shipper=settings.shipper, due=due.isoformat())
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    process = context.Process(target=_run, args=(command, words(settings), dict(os.environ)))
    process.start()
    asked = False
    while process.is_alive():
        process.join(LOOK_S)
        if stopping and not asked:
            process.terminate()
            asked = True
    code = process.exitcode
    run_log.info("a run ended", shipper=settings.shipper, exit_code=code)
    if asked or (stopping and code):  # Ctrl-C reaches the run before we can ask it
        raise PutBack
    if code == TRY_AGAIN:
        raise LedgerBusy(f"the run of {settings.shipper or 'the ledger'} could not go on (exit code 75)")
    return code or 0


def _run(command: Command, words: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(command(words))


def words(settings: Settings) -> list[str]:
    """The command line of a run with these settings, after `loadsheet`."""
    config = type(settings).file
    named = ["--config", str(Path(config).absolute())] if config and Path(config).is_file() else []
    return ["run", "--quiet", *named, *_shipper(settings)]


def _shipper(settings: Settings) -> list[str]:
    return ["--shipper", settings.shipper] if settings.shipper else []
