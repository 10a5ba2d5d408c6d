"""`loadsheet worker`: does the runs of all shippers with a ledger in one PostgreSQL database, until it is stopped.

Owns: the handling of signals. A second signal to stop ends the process at once; other workers take over its runs.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from loadsheet import exit_codes, run_log
from loadsheet.cli import invoke
from loadsheet.cli.options import CONFIG, shipper_given, together
from loadsheet.cli.output import say
from loadsheet.file_modes import write_privately
from loadsheet.operations import monitoring
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings


@click.command()
@together(CONFIG)
@click.option(
    "--only",
    multiple=True,
    metavar="SHIPPER",
    help="Serve only this shipper; may be given several times (default: all declared shippers).",
)
@click.option("--places", type=click.IntRange(1), help="Number of concurrent runs (default: cluster.worker_places).")
@click.option("--once", is_flag=True, help="Exit when nothing is left to do.")
def worker(*, config: Path | None, only: tuple[str, ...], places: int | None, once: bool) -> int:
    """Do the runs that schedules and watches request, each in its own process. Needs a ledger on PostgreSQL.

    Any number of workers on any number of machines share the runs. A shipper has one run at a time. A worker waits while the
    database is unavailable. SIGTERM ends it once the calls in flight are finished; other workers take the rest at once. A second
    signal ends it immediately; they then take over after cluster.takeover_s. SIGHUP reloads the settings.
    """
    settings = Settings.load(config)
    write_privately(say, allow_root=settings.allow_root)
    names = only or tuple(filter(None, (shipper_given(),)))
    try:
        from loadsheet.cluster.runs import keep_fork_server, run_due
        from loadsheet.cluster.worker_process import Worker
    except ModuleNotFoundError as missing:
        message = f"a worker needs the extra `fleet` ({missing.name} is not installed): pip install 'loadsheet[fleet]'"
        raise SettingsError(message) from None
    with run_log.opened(settings), _signals_handled() as requests, monitoring.serve_status(settings, say) as status:

        def turn() -> None:
            if not once:
                keep_fork_server()
            status.checked()

        served = Worker(config, names, partial(run_due, command=invoke), say, places)
        code = served.serve(requests.stopping, once=once, reread=requests.reread, on_turn=turn)
    if requests.signal:
        return exit_codes.TERMINATED if requests.signal == signal.SIGTERM else exit_codes.INTERRUPTED
    return code


class _Requests:
    """The requests received as signals."""

    def __init__(self) -> None:
        self.stopping, self.reread = threading.Event(), threading.Event()
        self.signal = 0

    def stop(self, number: int, _frame: object) -> None:
        """Stop; end at once on the second signal, without waiting for calls in progress."""
        if self.signal:
            os._exit(exit_codes.TERMINATED if number == signal.SIGTERM else exit_codes.INTERRUPTED)
        self.signal = number
        self.stopping.set()

    def read_again(self, _number: int, _frame: object) -> None:
        """Read the settings again."""
        self.reread.set()


@contextmanager
def _signals_handled() -> Iterator[_Requests]:
    requests = _Requests()
    handlers = {number: signal.signal(number, requests.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, requests.read_again)
    try:
        yield requests
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
