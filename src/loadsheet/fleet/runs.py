"""The runs of a worker, each in a process of its own: what goes wrong in one, memory included, is not the worker's.

Owns: the words that start it and what its exit code means to the queue. The run itself says the rest: log, reports, notices.
"""

import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from loadsheet import journal
from loadsheet.fleet.queue import PutBack
from loadsheet.problems import LedgerBusy
from loadsheet.settings import Settings

LOOK_S = 0.2
TRY_AGAIN = 75


def run_due(settings: Settings, due: datetime, stopping: Sequence[int]) -> int:
    """The run of a shipper that is wanted since a moment (aware); returns its exit code.

    Raises LedgerBusy for what may go well later (exit code 75), and PutBack if we were asked to stop before it was over: it has ended then,
    and whoever begins it anew goes on from there.
    """
    journal.info("a run begins", shipper=settings.shipper, due=due.isoformat())
    process = subprocess.Popen(words(settings), stdin=subprocess.DEVNULL)  # noqa: S603 (our own words)
    asked = False
    while True:
        try:
            code = process.wait(LOOK_S)
            break
        except subprocess.TimeoutExpired:
            if stopping and not asked:
                process.terminate()
                asked = True
    journal.info("a run ended", shipper=settings.shipper, exit_code=code)
    if asked:
        raise PutBack
    if code == TRY_AGAIN:
        raise LedgerBusy(f"the run of {settings.shipper or 'the ledger'} could not go on (exit code 75)")
    return code


def words(settings: Settings) -> list[str]:
    """The command line of a run with these settings."""
    config = type(settings).file
    named = ["--config", str(Path(config).absolute())] if config and Path(config).is_file() else []
    return [sys.executable, "-m", "loadsheet", "run", "--quiet", *named, *_shipper(settings)]


def _shipper(settings: Settings) -> list[str]:
    return ["--shipper", settings.shipper] if settings.shipper else []
