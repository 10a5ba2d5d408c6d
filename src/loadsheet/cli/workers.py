"""`loadsheet workers`: the processes of a fleet and what each does, the queue, the shared rate, and when runs are due."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from loadsheet.cli.options import CONFIG, JSON, load_each, settings_or_raise, together
from loadsheet.cli.output import print_json, print_lines, print_table, say
from loadsheet.cluster.timetable import ScheduleStatus, schedule_statuses
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.shared import cluster_status as overview
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.cluster_status import ClusterStatus, QueueStatus, Takeover, Worker
from loadsheet.ledger.shared.leases import PaceStatus
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_TAKEOVERS_SHOWN = 20  # the newest
_ALONE = "the ledger is a file, which one process uses at a time: there are no workers (setting database)"


@click.command()
@together(CONFIG, JSON)
def workers(*, config: Path | None, as_json: bool) -> None:
    """Show the processes that share a ledger on PostgreSQL, what each one does, the queue, the takeovers of the last day, the shared
    rate and the schedules.

    A process without a heartbeat for `cluster.takeover_s` counts as dead. Exits with 75 if the database cannot be reached.
    """
    profiles = _shared_profiles(load_each(config))
    if not profiles:
        if as_json:
            print_json({"shared": False})
        else:
            print_lines([_ALONE])
        return
    settings = next(iter(profiles.values()))
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        fleet = overview.read_status(connection, settings.cluster.takeover_s)
        schedules = schedule_statuses(connection, profiles) if overview.has_shared_tables(connection) else []
    if as_json:
        print_json(_as_json(fleet, schedules))
    else:
        _print(fleet, schedules)


def _shared_profiles(every: Mapping[str, Settings | SettingsError]) -> dict[str, Settings]:
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


def _print(fleet: ClusterStatus, schedules: Sequence[ScheduleStatus]) -> None:
    alive, waiting, day = fleet.alive, fleet.waiting, len(fleet.takeovers)
    oldest = f", the oldest for {_span(fleet.oldest_s)}" if waiting else ""
    workers, wait, taken = "s" * (alive != 1), ("wait", "waits")[waiting == 1], "s" * (day != 1)
    headline = (
        f"{alive:,} live worker{workers}; {waiting:,} {wait} in the queue{oldest}; {day:,} takeover{taken} within a day"
    )
    print_lines([headline])
    place = ("Host", "Process", "Version", "Since", "Seen")
    heads = ["Worker", "State", *place, "Serves", "Does now", "Done"]
    _table(heads, [_worker(worker, fleet.at) for worker in fleet.workers])
    heads = ["Shipper", "Reason", "Waiting", "Running", "Oldest"]
    _table(heads, [_queued(queue) for queue in fleet.queue])
    heads = ["Exchange", "Calls a second", "Connections", "Share", "Paused"]
    _table(heads, [_pace(pace) for pace in fleet.paces])
    _table(["Shipper", "Schedule", "Last", "By", "Next"], [_schedule(status) for status in schedules])


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        print_lines([""])
        print_table(heads, rows)


def _worker(worker: Worker, now: datetime) -> list[Any]:
    seen = f"{_span((now - worker.seen).total_seconds())} ago"
    serves, doing = ", ".join(worker.serves) or "all", "; ".join(worker.doing) or "nothing"
    place = (worker.host, worker.process, worker.version, _minute(worker.since))
    return [worker.name, worker.state, *place, seen, serves, doing if worker.alive else "", worker.done]


def _queued(queue: QueueStatus) -> list[Any]:
    return [queue.shipper, queue.reason, queue.waiting, queue.under_way, _span(queue.oldest_s) if queue.waiting else ""]


def _pace(pace: PaceStatus) -> list[Any]:
    rate = f"{pace.leased_per_second:,} of {pace.per_second:,}" if pace.per_second else "no limit"
    paused = f"for {_span(pace.paused_s)}" if pace.paused_s else "no"
    why = f": {pace.reason}" if pace.reason else ""
    return [
        pace.exchange,
        rate,
        f"{pace.leased_connections:,} of {pace.connections:,}",
        f"{pace.share:.0%}",
        f"{paused}{why}",
    ]


def _schedule(status: ScheduleStatus) -> list[Any]:
    last = "" if status.last is None else _minute(status.last.due)
    missed = (
        f", {status.last.caught_up:,} missed before it" if status.last is not None and status.last.caught_up else ""
    )
    by = "" if status.last is None else status.last.by
    return [
        status.shipper,
        status.schedule.name,
        f"{last}{missed}",
        by,
        "never" if status.next is None else _minute(status.next),
    ]


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _span(seconds: float) -> str:
    """A duration as text."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.0f} h" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.0f} days"


def _as_json(fleet: ClusterStatus, schedules: Sequence[ScheduleStatus]) -> dict[str, Any]:
    return {
        "shared": True,
        "at": stamp(fleet.at),
        "alive": fleet.alive,
        "workers": [_worker_json(worker) for worker in fleet.workers],
        "waiting": fleet.waiting,
        "oldest_s": round(fleet.oldest_s, 3),
        "queue": [{**queue._asdict(), "oldest_s": round(queue.oldest_s, 3)} for queue in fleet.queue],
        "takeovers_of_day": len(fleet.takeovers),
        "takeovers_ever": fleet.takeovers_ever,
        "takeovers": [_takeover_json(takeover) for takeover in fleet.takeovers[:_TAKEOVERS_SHOWN]],
        "paces": [{**pace._asdict(), "paused_s": round(pace.paused_s, 3)} for pace in fleet.paces],
        "schedules": [_schedule_json(status) for status in schedules],
    }


def _worker_json(worker: Worker) -> dict[str, Any]:
    headline = {**worker._asdict(), "state": worker.state, "since": stamp(worker.since), "seen": stamp(worker.seen)}
    return {name: value for name, value in headline.items() if name not in ("alive", "ended")}


def _takeover_json(takeover: Takeover) -> dict[str, Any]:
    return {**takeover._asdict(), "at": stamp(takeover.at)}


def _schedule_json(status: ScheduleStatus) -> dict[str, Any]:
    last = status.last
    fired = last and {"due": stamp(last.due), "at": stamp(last.at), "by": last.by, "caught_up": last.caught_up}
    where = {"shipper": status.shipper, "schedule": status.schedule.expression, "zone": status.schedule.zone}
    return {**where, "last": fired, "next": stamp(status.next) if status.next else None}
