"""The runs of a worker, each in a process of its own: a crash or memory leak in a run does not affect the worker.

Owns: how the process starts and what its exit code means to the queue. It is forked from `multiprocessing`'s fork server, which has
already loaded the modules of a run (`preload`): loading takes two CPU seconds. The run itself writes log, reports and notices.
"""

import os
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from multiprocessing import forkserver, get_context
from pathlib import Path
from threading import Event

from loadsheet import exit_codes, run_log
from loadsheet.cluster.job_queue import Requeue
from loadsheet.problems import LedgerBusy, RunKilled
from loadsheet.settings import Settings

Command = Callable[[list[str]], int]
"""Runs this command line and returns its exit code. Another process must be able to import it."""

_POLL_S = 0.2


def keep_fork_server() -> None:
    """Start the fork server unless it runs. It loads in the background, so the first run starts as fast as the others."""
    get_context("forkserver").set_forkserver_preload(["loadsheet.cluster.preload"])
    forkserver.ensure_running()


def run_due(settings: Settings, due: datetime, stopping: Event, *, command: Command) -> int:
    """Run the ledger of a shipper, due since `due` (aware), through the command line in another process. Returns the exit code.

    Raises LedgerBusy on exit code 75 (try again later), RunKilled if a signal ended the process, and Requeue if the worker has to
    stop. The process has ended by then, and the next run continues its work.
    """
    run_log.info("a run begins", shipper=settings.shipper, due=due.isoformat())
    keep_fork_server()
    process = get_context("forkserver").Process(target=_run, args=(command, arguments(settings), dict(os.environ)))
    process.start()
    stop_requested = False
    while process.is_alive():
        process.join(_POLL_S)
        if stopping.is_set() and not stop_requested:
            process.terminate()
            stop_requested = True
    code = process.exitcode
    run_log.info("a run ended", shipper=settings.shipper, exit_code=code)
    if stop_requested or (stopping.is_set() and code):  # Ctrl-C reaches the run before we can ask it
        raise Requeue
    if code == exit_codes.TRY_AGAIN:
        raise LedgerBusy(f"the run of {settings.shipper or 'the ledger'} could not continue (exit code 75)")
    if code is not None and code < 0:
        raise RunKilled(f"the run of {settings.shipper or 'the ledger'} was killed ({signal.Signals(-code).name})")
    return code or 0


def _run(command: Command, arguments: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(command(arguments))


def arguments(settings: Settings) -> list[str]:
    """The command line of a run with these settings, after `loadsheet`."""
    config = settings.file
    named = ["--config", str(Path(config).absolute())] if config and Path(config).is_file() else []
    return ["run", "--quiet", *named, *(["--shipper", settings.shipper] if settings.shipper else [])]
