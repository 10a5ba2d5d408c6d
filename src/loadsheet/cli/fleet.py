"""`loadsheet worker` and `workers`: do the runs that shippers share, and show who does them.

A worker handles signals itself. A second signal to stop ends it at once; other workers take over its runs.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from loadsheet import exit_codes
from loadsheet.cli import invoke
from loadsheet.cli.options import CONFIG, JSON, load_each, shipper_given, shipper_names, together
from loadsheet.cli.output import print_json, print_lines, say
from loadsheet.file_modes import write_privately
from loadsheet.problems import SettingsError

_ALONE = "the ledger is a file, which one process uses at a time: there are no workers (setting database)"


@click.command()
@together(CONFIG)
@click.option(
    "--only",
    multiple=True,
    metavar="SHIPPER",
    shell_complete=shipper_names,
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
    from loadsheet import run_log
    from loadsheet.operations.health import serve_status
    from loadsheet.settings import Settings

    settings = Settings.load(config)
    write_privately(say, allow_root=settings.allow_root)
    names = only or tuple(filter(None, (shipper_given(),)))
    try:
        from loadsheet.cluster import worker_process
        from loadsheet.cluster.runs import keep_fork_server, run_due
    except ModuleNotFoundError as missing:
        message = f"a worker needs the extra `fleet` ({missing.name} is not installed): pip install 'loadsheet[fleet]'"
        raise SettingsError(message) from None
    with run_log.opened(settings), _signals_handled() as requests, serve_status(settings, say) as status:

        def turn() -> None:
            if not once:
                keep_fork_server()
            status.checked()

        served = worker_process.Worker(config, names, partial(run_due, command=invoke), say, places)
        code = served.serve(requests.stopping, once=once, reread=requests.reread, on_turn=turn)
    return requests.exit_code or code


class _Requests:
    """The requests received as signals."""

    def __init__(self) -> None:
        self.stopping, self.reread = threading.Event(), threading.Event()
        self.exit_code = 0

    def stop(self, number: int, _frame: object) -> None:
        """Stop; end at once on the second signal, without waiting for calls in progress."""
        code = exit_codes.TERMINATED if number == signal.SIGTERM else exit_codes.INTERRUPTED
        if self.exit_code:
            os._exit(code)
        self.exit_code = code
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


@click.command()
@together(CONFIG, JSON)
def workers(*, config: Path | None, as_json: bool) -> None:
    """Show the processes that share a ledger on PostgreSQL, what each one does, the queue, the takeovers of the last day, the shared
    rate and the schedules.

    A process without a heartbeat for `cluster.takeover_s` counts as dead. Exits with 75 if the database cannot be reached.
    """
    from loadsheet.cli.fleet_status import as_json as status_json
    from loadsheet.cli.fleet_status import print_status, read_status, shared_profiles

    profiles = shared_profiles(load_each(config))
    if not profiles:
        if as_json:
            print_json({"shared": False})
        else:
            print_lines([_ALONE])
        return
    fleet, schedules = read_status(profiles)
    if as_json:
        print_json(status_json(fleet, schedules))
    else:
        print_status(fleet, schedules)
