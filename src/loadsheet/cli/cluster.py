"""`loadsheet worker` and `workers`: do the runs that shippers share, and show who does them.

A worker handles signals itself. A second signal to stop ends it at once; other workers take over its runs.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadsheet import exit_codes
from loadsheet.cli import invoke
from loadsheet.cli.options import (
    CONFIG,
    JSON,
    combined_options,
    load_each,
    settings_or_raise,
    shipper_given,
    shipper_names,
)
from loadsheet.cli.output import print_json, print_lines, print_table, say
from loadsheet.display_text import count_of
from loadsheet.errors import SettingsError
from loadsheet.places import write_privately

if TYPE_CHECKING:
    from loadsheet.cluster.timetable import ScheduleStatus
    from loadsheet.ledger.shared.cluster_status import ClusterStatus, Worker
    from loadsheet.ledger.shared.leases import RateLimitStatus
    from loadsheet.settings import Settings


_ALONE = "the ledger is a file, which one process uses at a time: there are no workers (setting database)"

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_TAKEOVERS_SHOWN = 20  # the newest


@click.command()
@combined_options(CONFIG)
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
        from loadsheet.cluster.job_queue import keep_fork_server, run_due
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
@combined_options(CONFIG, JSON)
def workers(*, config: Path | None, as_json: bool) -> None:
    """Show the processes that share a ledger on PostgreSQL, what each one does, the queue, the takeovers of the last day, the shared
    rate and the schedules.

    A process without a heartbeat for `cluster.takeover_s` counts as dead. Exits with 75 if the database cannot be reached.
    """
    profiles = shared_profiles(load_each(config))
    if not profiles:
        if as_json:
            print_json({"shared": False})
        else:
            print_lines([_ALONE])
        return
    cluster, schedules = read_status(profiles)
    if as_json:
        print_json(status_json(cluster, schedules))
    else:
        print_status(cluster, schedules)


def shared_profiles(every: "Mapping[str, Settings | SettingsError]") -> "dict[str, Settings]":
    """The settings of the shippers whose ledger is in the same PostgreSQL database as the first. Wrong settings are reported if there are
    several shippers.
    """
    found: dict[str, Settings] = {}
    for name, settings in every.items():
        if isinstance(settings, SettingsError):
            say(f"{name}: {settings}")
        elif settings.is_shared and settings.database == next(iter(found.values()), settings).database:
            found[name] = settings
    if not found and all(isinstance(settings, SettingsError) for settings in every.values()):
        settings_or_raise(next(iter(every.values())))
    return found


def read_status(profiles: "Mapping[str, Settings]") -> "tuple[ClusterStatus, list[ScheduleStatus]]":
    """The processes that share the ledger of these shippers, and their schedules. Raises LedgerGone if the server is unreachable."""
    from loadsheet.cluster.timetable import schedule_statuses
    from loadsheet.ledger.shared import cluster_status as overview
    from loadsheet.ledger.shared import open_shared

    settings = next(iter(profiles.values()))
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        cluster = overview.read_status(connection, settings.cluster.takeover_s)
        schedules = schedule_statuses(connection, profiles) if overview.has_shared_tables(connection) else []
    return cluster, schedules


def print_status(cluster: "ClusterStatus", schedules: "Sequence[ScheduleStatus]") -> None:
    """Print the processes, the queue, the shared rates and the schedules as tables."""
    oldest = f", the oldest for {_span(cluster.oldest_s)}" if cluster.waiting else ""
    wait = "waits" if cluster.waiting == 1 else "wait"
    takeovers = count_of(len(cluster.takeovers), "takeover")
    alive = count_of(cluster.alive, "live worker")
    print_lines([f"{alive}; {cluster.waiting:,} {wait} in the queue{oldest}; {takeovers} within a day"])
    place = ("Host", "Process", "Version", "Since", "Seen")
    tables: list[tuple[list[str], list[list[Any]]]] = [
        (
            ["Worker", "State", *place, "Serves", "Does now", "Done"],
            [_worker(one, cluster.at) for one in cluster.workers],
        ),
        (
            ["Shipper", "Reason", "Waiting", "Running", "Oldest"],
            [
                [
                    queue.shipper,
                    queue.reason,
                    queue.waiting,
                    queue.under_way,
                    _span(queue.oldest_s) * bool(queue.waiting),
                ]
                for queue in cluster.queue
            ],
        ),
        (["Exchange", "Calls a second", "Connections", "Share", "Paused"], [_pace(pace) for pace in cluster.paces]),
        (["Shipper", "Schedule", "Last", "By", "Next"], [_schedule(status) for status in schedules]),
    ]
    for heads, rows in tables:
        if rows:
            print_lines([""])
            print_table(heads, rows)


def _worker(worker: "Worker", now: datetime) -> list[Any]:
    seen = f"{_span(max((now - worker.seen).total_seconds(), 0))} ago"
    serves, doing = ", ".join(worker.serves) or "all", "; ".join(worker.doing) or "nothing"
    place = (worker.host, worker.process, worker.version, _minute(worker.since))
    return [worker.name, worker.state, *place, seen, serves, doing if worker.alive else "", worker.done]


def _pace(pace: "RateLimitStatus") -> list[Any]:
    rate = f"{pace.leased_per_second:,} of {pace.per_second:,}" if pace.per_second else "no limit"
    connections = f"{pace.leased_connections:,} of {pace.connections:,}"
    paused = (f"for {_span(pace.paused_s)}" if pace.paused_s else "no") + (f": {pace.reason}" if pace.reason else "")
    return [pace.exchange, rate, connections, f"{pace.share:.0%}", paused]


def _schedule(status: "ScheduleStatus") -> list[Any]:
    upcoming = "never" if status.next is None else _minute(status.next)
    if (last := status.last) is None:
        return [status.shipper, status.schedule.name, "", "", upcoming]
    missed = f", {last.caught_up:,} missed before it" if last.caught_up else ""
    return [status.shipper, status.schedule.name, f"{_minute(last.due)}{missed}", last.by, upcoming]


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _span(seconds: float) -> str:
    """A duration as text."""
    for unit_s, unit, limit_s in ((1, "s", 2 * _MINUTE_S), (_MINUTE_S, "min", 2 * _HOUR_S), (_HOUR_S, "h", 2 * _DAY_S)):
        if seconds < limit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / _DAY_S:.0f} days"


def status_json(cluster: "ClusterStatus", schedules: "Sequence[ScheduleStatus]") -> dict[str, Any]:
    """The same as a JSON value."""
    from loadsheet.ledger.codec import stamp

    takeovers = cluster.takeovers[:_TAKEOVERS_SHOWN]
    return {
        "shared": True,
        "at": stamp(cluster.at),
        "alive": cluster.alive,
        "workers": [_worker_json(worker) for worker in cluster.workers],
        "waiting": cluster.waiting,
        "oldest_s": round(cluster.oldest_s, 3),
        "queue": [{**queue._asdict(), "oldest_s": round(queue.oldest_s, 3)} for queue in cluster.queue],
        "takeovers_of_day": len(cluster.takeovers),
        "takeovers_ever": cluster.takeovers_ever,
        "takeovers": [{**takeover._asdict(), "at": stamp(takeover.at)} for takeover in takeovers],
        "paces": [{**pace._asdict(), "paused_s": round(pace.paused_s, 3)} for pace in cluster.paces],
        "schedules": [_schedule_json(status) for status in schedules],
    }


def _worker_json(worker: "Worker") -> dict[str, Any]:
    from loadsheet.ledger.codec import stamp

    values = {**worker._asdict(), "state": worker.state, "since": stamp(worker.since), "seen": stamp(worker.seen)}
    return {name: value for name, value in values.items() if name not in ("alive", "ended")}


def _schedule_json(status: "ScheduleStatus") -> dict[str, Any]:
    from loadsheet.ledger.codec import stamp

    last = status.last
    fired = last and {"due": stamp(last.due), "at": stamp(last.at), "by": last.by, "caught_up": last.caught_up}
    where = {"shipper": status.shipper, "schedule": status.schedule.expression, "zone": status.schedule.zone}
    return {**where, "last": fired, "next": stamp(status.next) if status.next else None}
