"""`loadsheet expected`: which files are expected, whether they came, and expectations suggested from history."""

from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import click

from loadsheet.cli.options import JSON, STATE, clock, ledger_to_read, with_settings
from loadsheet.cli.output import print_json, print_lines, print_table, say

if TYPE_CHECKING:
    from loadsheet.ledger.queries import LedgerQueries
    from loadsheet.operations.expected_files import ExpectationStatus
    from loadsheet.schedules import Schedule
    from loadsheet.settings import Settings
    from loadsheet.settings.operations_sections import Expectation

LATE = 1
_LAST = _NEXT = 3  # arrivals and runs shown


@click.command()
@click.option("--suggest", "suggesting", is_flag=True, help="Print expectations based on the last 90 days, as TOML.")
@click.option("--timezone", default="", help="With --suggest: time zone of the suggestions (default: this machine's).")
@with_settings(STATE)
@JSON
def expected(*, settings: "Settings", suggesting: bool, timezone: str, as_json: bool) -> int:
    """List the expected files, the last one received of each, and the next scheduled runs. Exits with 1 if a file or run is late.

    --suggest prints tables for loadsheet.toml, for files that came regularly, with the evidence for each.
    """
    with ledger_to_read(settings) as ledger:
        if suggesting:
            return _suggest(settings, ledger.queries, clock()(), timezone, as_json=as_json)
        return _print_status(settings, ledger.queries, clock()(), as_json=as_json)


def _print_status(settings: "Settings", queries: "LedgerQueries", now: datetime, *, as_json: bool) -> int:
    from loadsheet.ledger.codec import stamp
    from loadsheet.operations import expected_files
    from loadsheet.operations.expected_files import has_holidays, local_text, zone_of

    awaited = expected_files.statuses(settings, queries)
    late = expected_files.overdue(settings, queries, now)
    missing = [overdue.text for overdue in late if overdue.is_one_off]
    if as_json:
        print_json(
            {
                "expected": [_as_json(status) for status in awaited],
                "late": [{"what": overdue.name, "text": overdue.text} for overdue in late],
                "schedules": [
                    {
                        "schedule": schedule.expression,
                        "zone": schedule.zone,
                        "next": [stamp(when) for when in _nexts(schedule, now)],
                    }
                    for schedule in settings.schedules.timetable
                ],
            }
        )
    elif not settings.expected_files.expect:
        say(
            "nothing is expected: no [[expected_files.expect]] in the settings; `loadsheet expected --suggest` proposes some"
        )
    elif not awaited:
        say("no run has finished yet; each due time is checked by the first run after it")
    else:
        pairs = list(zip(settings.expected_files.expect, awaited, strict=True))
        print_table(["Expected", "Due", "Now", "Next due", "Last came"], [_row(*pair) for pair in pairs])
    countries = {
        expectation.holidays or settings.reports.working_days for expectation in settings.expected_files.expect
    } - {"none"}
    for country in sorted(country for country in countries if not has_holidays(country)):
        say(f"no public holidays are known for {country}: files are expected on every day")
    for text in (*(status.text for status in awaited if status.late), *missing):
        say(f"late: {text}")
    if settings.schedules.timetable and not as_json:
        rows = []
        for schedule in settings.schedules.timetable:
            nexts = [local_text(moment, zone_of(schedule.zone)) for moment in _nexts(schedule, now)]
            rows.append([schedule.expression, schedule.zone, "; ".join(nexts) or "never"])
        print_table(["Schedule", "Zone", "Next runs"], rows)
    return LATE if late else 0


def _row(expectation: "Expectation", status: "ExpectationStatus") -> list[str]:
    from loadsheet.operations.expected_files import local_text, zone_of

    zone = zone_of(expectation.timezone)
    judged = local_text(status.due, zone) if status.due else "not yet"
    upcoming = local_text(status.next_due, zone) if status.next_due else "never"
    now = "late" if status.late else "in order" if status.due else "not checked yet"
    last = [
        f"{local_text(came.came, zone)} {came.name}{' (set aside)' if came.set_aside else ''}"
        for came in status.came[-_LAST:]
    ]
    return [status.name, judged, now, upcoming, "; ".join(last) or "nothing"]


def _as_json(status: "ExpectationStatus") -> dict[str, object]:
    from loadsheet.ledger.codec import stamp

    came = [
        {"name": came.name, "came": stamp(came.came), "run": came.run, "set_aside": came.set_aside}
        for came in status.came
    ]
    dues = {name: stamp(when) if when else None for name, when in (("due", status.due), ("next_due", status.next_due))}
    return {"name": status.name, **dues, "late": status.late, "text": status.text, "came": came}


def _nexts(schedule: "Schedule", now: datetime) -> list[datetime]:
    return list(islice(schedule.after(now), _NEXT))


def _suggest(settings: "Settings", queries: "LedgerQueries", now: datetime, timezone: str, *, as_json: bool) -> int:
    from loadsheet.ledger.codec import stamp
    from loadsheet.operations.expected_files import DAYS, as_toml, suggest, zone_of

    try:
        zone = zone_of(timezone)
    except (KeyError, ValueError, OSError):
        raise click.BadParameter(f"there is no time zone {timezone!r}; write a name such as Europe/Berlin") from None
    came = queries.arrivals(stamp(now - timedelta(days=DAYS)))
    found = suggest(came, now, zone, settings.reports.working_days)
    if as_json:
        print_json(found)
    elif found:
        print_lines(["\n".join(as_toml(suggestion, timezone) for suggestion in found).rstrip()])
    else:
        say("there is not enough history yet; suggestions need four weeks of regular files")
    return 0
