"""`loadsheet workers`: who takes part in a fleet and what each does, what waits in the queue, at what pace calls leave, when runs are due."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from loadsheet.cli.options import CONFIG, JSON, load_each, settings_or_raise, together
from loadsheet.cli.output import print_json, print_lines, print_table, say
from loadsheet.cluster.timetable import ScheduleStatus, schedule_statuses
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared import workers as overview
from loadsheet.ledger.shared.leases import PaceStatus
from loadsheet.ledger.shared.workers import ClusterStatus, QueueStatus, Takeover, Worker
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_TAKEOVERS_SHOWN = 20  # the newest
_ALONE = "the ledger is a file: one process at a time works on it, and there are no workers (database)"


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
    """The settings of the shippers with ledgers on the first one's PostgreSQL database. Wrong settings of one of several are reported."""
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
    live, wait, taken = ("s live", " lives")[alive == 1], ("wait", "waits")[waiting == 1], "s" * (day != 1)
    headline = f"{alive:,} worker{live}; {waiting:,} {wait} in the queue{oldest}; {day:,} takeover{taken} within a day"
    print_lines([headline])
    place = ("Host", "Process", "Version", "Since", "Seen")
    heads = ["Worker", "State", *place, "Serves", "Does now", "Done"]
    _table(heads, [_worker(one, fleet.at) for one in fleet.workers])
    heads = ["Shipper", "Why", "Waiting", "Under way", "Oldest"]
    _table(heads, [_queued(one) for one in fleet.queue])
    heads = ["Pace towards", "Calls a second", "Connections", "Share", "Paused"]
    _table(heads, [_pace(one) for one in fleet.paces])
    _table(["Shipper", "Schedule", "Last", "By", "Next"], [_schedule(one) for one in schedules])


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        print_lines([""])
        print_table(heads, rows)


def _worker(one: Worker, now: datetime) -> list[Any]:
    seen = f"{_span((now - one.seen).total_seconds())} ago"
    serves, doing = ", ".join(one.serves) or "all", "; ".join(one.doing) or "nothing"
    place = (one.host, one.process, one.version, _minute(one.since))
    return [one.name, one.state, *place, seen, serves, doing if one.alive else "", one.done]


def _queued(one: QueueStatus) -> list[Any]:
    return [one.shipper, one.reason, one.waiting, one.under_way, _span(one.oldest_s) if one.waiting else ""]


def _pace(one: PaceStatus) -> list[Any]:
    rate = f"{one.leased_per_second:,} of {one.per_second:,}" if one.per_second else "no limit"
    paused = f"for {_span(one.paused_s)}" if one.paused_s else "no"
    why = f": {one.reason}" if one.reason else ""
    return [
        one.exchange,
        rate,
        f"{one.leased_connections:,} of {one.connections:,}",
        f"{one.share:.0%}",
        f"{paused}{why}",
    ]


def _schedule(one: ScheduleStatus) -> list[Any]:
    last = "" if one.last is None else _minute(one.last.due)
    missed = f", {one.last.caught_up:,} missed before it" if one.last is not None and one.last.caught_up else ""
    by = "" if one.last is None else one.last.by
    return [one.shipper, one.schedule.name, f"{last}{missed}", by, "never" if one.next is None else _minute(one.next)]


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
        "workers": [_worker_json(one) for one in fleet.workers],
        "waiting": fleet.waiting,
        "oldest_s": round(fleet.oldest_s, 3),
        "queue": [{**one._asdict(), "oldest_s": round(one.oldest_s, 3)} for one in fleet.queue],
        "takeovers_of_day": len(fleet.takeovers),
        "takeovers_ever": fleet.takeovers_ever,
        "takeovers": [_takeover_json(one) for one in fleet.takeovers[:_TAKEOVERS_SHOWN]],
        "paces": [{**one._asdict(), "paused_s": round(one.paused_s, 3)} for one in fleet.paces],
        "schedules": [_schedule_json(one) for one in schedules],
    }


def _worker_json(one: Worker) -> dict[str, Any]:
    headline = {**one._asdict(), "state": one.state, "since": stamp(one.since), "seen": stamp(one.seen)}
    return {name: value for name, value in headline.items() if name not in ("alive", "ended")}


def _takeover_json(one: Takeover) -> dict[str, Any]:
    return {**one._asdict(), "at": stamp(one.at)}


def _schedule_json(one: ScheduleStatus) -> dict[str, Any]:
    last = one.last
    fired = last and {"due": stamp(last.due), "at": stamp(last.at), "by": last.by, "caught_up": last.caught_up}
    where = {"shipper": one.shipper, "schedule": one.schedule.expression, "zone": one.schedule.zone}
    return {**where, "last": fired, "next": stamp(one.next) if one.next else None}
