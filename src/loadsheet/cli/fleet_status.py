"""The processes that share a ledger, as tables and as JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from loadsheet.cli.options import settings_or_raise
from loadsheet.cli.output import print_lines, print_table, say
from loadsheet.cluster.timetable import ScheduleStatus, schedule_statuses
from loadsheet.display_text import count_of
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.shared import cluster_status as overview
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.cluster_status import ClusterStatus, Worker
from loadsheet.ledger.shared.leases import PaceStatus
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_TAKEOVERS_SHOWN = 20  # the newest


def shared_profiles(every: Mapping[str, Settings | SettingsError]) -> dict[str, Settings]:
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


def read_status(profiles: Mapping[str, Settings]) -> tuple[ClusterStatus, list[ScheduleStatus]]:
    """The processes that share the ledger of these shippers, and their schedules. Raises LedgerGone if the server is unreachable."""
    settings = next(iter(profiles.values()))
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        fleet = overview.read_status(connection, settings.cluster.takeover_s)
        schedules = schedule_statuses(connection, profiles) if overview.has_shared_tables(connection) else []
    return fleet, schedules


def print_status(fleet: ClusterStatus, schedules: Sequence[ScheduleStatus]) -> None:
    """Print the processes, the queue, the shared rates and the schedules as tables."""
    oldest = f", the oldest for {_span(fleet.oldest_s)}" if fleet.waiting else ""
    wait = "waits" if fleet.waiting == 1 else "wait"
    takeovers = count_of(len(fleet.takeovers), "takeover")
    alive = count_of(fleet.alive, "live worker")
    print_lines([f"{alive}; {fleet.waiting:,} {wait} in the queue{oldest}; {takeovers} within a day"])
    place = ("Host", "Process", "Version", "Since", "Seen")
    tables: list[tuple[list[str], list[list[Any]]]] = [
        (["Worker", "State", *place, "Serves", "Does now", "Done"], [_worker(one, fleet.at) for one in fleet.workers]),
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
                for queue in fleet.queue
            ],
        ),
        (["Exchange", "Calls a second", "Connections", "Share", "Paused"], [_pace(pace) for pace in fleet.paces]),
        (["Shipper", "Schedule", "Last", "By", "Next"], [_schedule(status) for status in schedules]),
    ]
    for heads, rows in tables:
        if rows:
            print_lines([""])
            print_table(heads, rows)


def _worker(worker: Worker, now: datetime) -> list[Any]:
    seen = f"{_span(max((now - worker.seen).total_seconds(), 0))} ago"
    serves, doing = ", ".join(worker.serves) or "all", "; ".join(worker.doing) or "nothing"
    place = (worker.host, worker.process, worker.version, _minute(worker.since))
    return [worker.name, worker.state, *place, seen, serves, doing if worker.alive else "", worker.done]


def _pace(pace: PaceStatus) -> list[Any]:
    rate = f"{pace.leased_per_second:,} of {pace.per_second:,}" if pace.per_second else "no limit"
    connections = f"{pace.leased_connections:,} of {pace.connections:,}"
    paused = (f"for {_span(pace.paused_s)}" if pace.paused_s else "no") + (f": {pace.reason}" if pace.reason else "")
    return [pace.exchange, rate, connections, f"{pace.share:.0%}", paused]


def _schedule(status: ScheduleStatus) -> list[Any]:
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


def as_json(fleet: ClusterStatus, schedules: Sequence[ScheduleStatus]) -> dict[str, Any]:
    """The same as a JSON value."""
    takeovers = fleet.takeovers[:_TAKEOVERS_SHOWN]
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
        "takeovers": [{**takeover._asdict(), "at": stamp(takeover.at)} for takeover in takeovers],
        "paces": [{**pace._asdict(), "paused_s": round(pace.paused_s, 3)} for pace in fleet.paces],
        "schedules": [_schedule_json(status) for status in schedules],
    }


def _worker_json(worker: Worker) -> dict[str, Any]:
    values = {**worker._asdict(), "state": worker.state, "since": stamp(worker.since), "seen": stamp(worker.seen)}
    return {name: value for name, value in values.items() if name not in ("alive", "ended")}


def _schedule_json(status: ScheduleStatus) -> dict[str, Any]:
    last = status.last
    fired = last and {"due": stamp(last.due), "at": stamp(last.at), "by": last.by, "caught_up": last.caught_up}
    where = {"shipper": status.shipper, "schedule": status.schedule.expression, "zone": status.schedule.zone}
    return {**where, "last": fired, "next": stamp(status.next) if status.next else None}
