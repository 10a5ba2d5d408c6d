"""`loadsheet show`, `runs` and `expected`: show the content of the ledger, down to the origin of a single value; which files are expected,
whether they came, and expectations suggested from history.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from loadsheet import exit_codes
from loadsheet.cli.options import (
    CONFIG,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    clock,
    combined_options,
    grouped,
    keys_and_runs,
    ledger_to_read,
    load_each,
    settings_or_raise,
    with_settings,
)
from loadsheet.cli.output import local_time, print_json, print_lines, print_table, say
from loadsheet.errors import LedgerError, SettingsError
from loadsheet.mapping.documents import JOINT, main_path
from loadsheet.places import relative_to_here

if TYPE_CHECKING:
    from loadsheet.ledger import Drop, Entry, ExceptionStatus, Ledger, Run
    from loadsheet.ledger.queries import LedgerQueries
    from loadsheet.operations.expected_files import ExpectationStatus
    from loadsheet.schedules import Schedule
    from loadsheet.settings import Settings
    from loadsheet.settings.operations_sections import Expectation


_RUNS_SEARCHED = 100_000
_PUBLISHED = {"differences": "found", "resolved": "settled"}  # names of an exception's fields in JSON
_PLACE = ("what", "name", "place")
_RUN = re.compile(r"\d{4}-\d\d-\d\d-\d+")
_OUTCOMES: dict[str, frozenset[int | None]] = {
    "clean": frozenset({exit_codes.DONE}),
    "needs-attention": frozenset({exit_codes.NEEDS_SOMEONE}),
    "nothing-usable": frozenset({exit_codes.NOTHING_USABLE}),
    "try-again": frozenset({exit_codes.TRY_AGAIN}),
    "token-refused": frozenset({exit_codes.TOKEN_REFUSED}),
    "settings-wrong": frozenset({exit_codes.CONFIG_WRONG}),
    "internal-error": frozenset({exit_codes.INTERNAL_ERROR}),
    "not-finished": frozenset({None, exit_codes.INTERRUPTED, exit_codes.TERMINATED}),
}


@click.command()
@click.argument("key", metavar="KEY|RUN", shell_complete=keys_and_runs)
@click.option("--payload", is_flag=True, help="Also show the payload.")
@click.option(
    "--field", metavar="PATH", help="Trace one value, such as packages[0].weight, from its cell to the payload."
)
@with_settings(MAPPINGS, OUTBOX, STATE)
@JSON
def show(*, settings: "Settings", key: str, payload: bool, field: str | None, as_json: bool) -> int:
    """Show everything known about one order or tender, newest first: its cells, what was sent, and what the exchange answered.
    For a RUN, such as 2026-03-04-01: its verdict, files and problems, and where everything is.
    """
    with ledger_to_read(settings) as ledger:
        entries = ledger.queries.entries_by_key(key)
        if not entries and (run := next((one for one in ledger.queries.runs_named(key) if one.name == key), None)):
            return _show_run(settings, ledger, run, as_json=as_json)
        if field is not None:
            from loadsheet.cli.value_trace import trace_field

            described, statuses = trace_field(ledger, entries, field, settings), {}
        else:
            statuses = ledger.queries.exceptions_of([entry.id for entry in entries])
            described = [_entry_json(ledger, entry, statuses.get(entry.id)) for entry in entries]
    if as_json:
        print_json(described)
    elif described and field is not None:
        from loadsheet.cli.value_trace import trace_text

        print_lines(["\n\n".join(map(trace_text, described))])
    elif described:
        newest_first = reversed(described)  # the first line is how it stands now
        texts = (_entry_text(entry, statuses.get(entry["entry"]), payload=payload) for entry in newest_first)
        print_lines(["\n\n".join(texts)])
    else:
        is_run = _RUN.fullmatch(key) is not None
        say(f"there is no run {key}; `loadsheet runs` lists them" if is_run else f"nothing is known about {key}")
    return 0 if described else exit_codes.NOTHING_FOUND


def _show_run(settings: "Settings", ledger: "Ledger", run: "Run", *, as_json: bool) -> int:
    """Print what is known about a run. Without its reports, its verdict is the one in the ledger."""
    from loadsheet.ledger.run_queries import reported_at
    from loadsheet.places import place_text as place_shown
    from loadsheet.reports import read_written

    written, places = read_written(settings, run.name), list(_places(settings, ledger, run))
    if as_json:
        reports = [str(path) for path in written.paths] if written else []
        print_json(
            {**_run_json(run), "reports": reports, "places": [dict(zip(_PLACE, one, strict=True)) for one in places]}
        )
        return 0
    if written is not None:
        print_lines(replace(written, reported_at=reported_at(run)).lines(verbose=True))
    else:
        print_lines([f"{run.name}: {_result(run.summary) or 'it did not finish'}"])
        say(
            f"its reports are not in {place_shown(settings.outbox)}: loadsheet report --run {run.name} writes them again"
        )
    print_lines(["", *(f"  {what:<8} {name}: {place}" for what, name, place in places)])
    return 0


def _places(settings: "Settings", ledger: "Ledger", run: "Run") -> Iterator[tuple[str, str, str]]:
    """Where the originals, mappings and log of a run are: kind, name, place."""
    from loadsheet.places import from_stored_path

    for drop in ledger.queries.drops_of(run):
        for file in drop.files:
            place = from_stored_path(file.kept_as, settings.state) or "removed after retention.archive_days"
            yield "original", file.name, place
        if drop.mapping:
            yield "mapping", drop.mapping, _mapping_place(ledger, drop)
    for what, path in (
        ("log", settings.state / "logs" / f"{run.name}.jsonl"),
        ("capsule", settings.state / "capsules" / f"{run.name}.capsule.zip"),
    ):
        if path.exists():
            yield what, run.name, str(path)


def _mapping_place(ledger: "Ledger", drop: "Drop") -> str:
    """Where the mapping of a drop is, and the version that was read; several mappings are in one folder."""
    read = f"version {drop.mapping_version}, hash {drop.mapping_hash[:12]}"
    folder, source = ledger.queries.mappings_folder(), ledger.queries.mapping_source(drop.mapping_hash)
    if not folder or not source:
        return f"{read}, kept in the ledger"
    path = Path(folder) if JOINT in drop.mapping else Path(folder, main_path(list(source)))
    return f"{relative_to_here(path)}, read as {read}" if path.exists() else f"{read}, kept in the ledger"


def _run_json(run: "Run") -> dict[str, Any]:
    return {
        "run": run.name,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "exit_code": run.exit_code,
        "summary": msgspec.Raw(run.summary.encode() or b"null"),
    }


def _entry_json(ledger: "Ledger", entry: "Entry", status: "ExceptionStatus | None") -> dict[str, Any]:
    drop = ledger.queries.drop(entry.drop)
    rows = [
        {"file": drop.table(row.table).file, "sheet": drop.table(row.table).sheet, "row": row.number}
        for row in entry.rows
    ]
    return {
        "entry": entry.id,
        "run": drop.run,
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "reason": entry.reason,
        "service_order": entry.service_order,
        "mapping": f"{drop.mapping} {drop.mapping_version}",
        "mapping_hash": drop.mapping_hash,
        "rows": rows,
        "problems": [str(problem) for problem in entry.problems],
        "removed": entry.removed,
        "payload": msgspec.Raw(entry.payload or b"null"),
        "events": ledger.queries.events_of(entry.id),
        "attempts": ledger.queries.attempts_of(entry.id),
        "exception": {_PUBLISHED.get(name, name): value for name, value in status._asdict().items()}
        if status
        else None,
        "remarks": {name: one.value for name, one in ledger.queries.remarks_on([entry.id]).get(entry.id, {}).items()},
    }


def _entry_text(described: dict[str, Any], status: "ExceptionStatus | None", *, payload: bool) -> str:
    places = sorted({(row["file"], row["sheet"]) for row in described["rows"]})
    numbers = {
        place: [str(row["row"]) for row in described["rows"] if (row["file"], row["sheet"]) == place]
        for place in places
    }
    from_rows = "; ".join(
        f"{file}{f' {sheet}' if sheet else ''} row{'s' if len(numbers[file, sheet]) > 1 else ''} {', '.join(numbers[file, sheet])}"
        for file, sheet in places
    )
    lines = [
        f"{described['operation']} {described['key']}: {described['state']}"
        + (f", {described['reason']}" if described["reason"] else "")
    ]
    lines.append(
        f"  from     {from_rows} (mapping {described['mapping']} {described['mapping_hash'][:12]}, run {described['run']})"
    )
    if described["service_order"]:
        lines.append(f"  number   {described['service_order']} at the exchange")
    if described["removed"]:
        lines.append(f"  removed  payload and cells on {described['removed'][:10]}; hashes, states and totals stay")
    lines += [f"  problem  {problem}" for problem in described["problems"]]
    if status:
        lines += _listing_lines(status)
    if said := [f"{name}: {value}" for name, value in described["remarks"].items() if value]:
        lines.append(f"  remarks  {'; '.join(said)}")
    lines += [
        f"  {local_time(event.at)}  {event.before or 'planned'} -> {event.after}  {event.reason}".rstrip()
        for event in described["events"]
    ]
    lines += [
        f"  attempt {attempt.number}: {attempt.outcome or 'no answer known'} {attempt.status or ''}".rstrip()
        for attempt in described["attempts"]
    ]
    if payload:
        lines.append(msgspec.json.format(bytes(described["payload"]), indent=2).decode())
    return "\n".join(lines)


def _listing_lines(status: "ExceptionStatus") -> list[str]:
    """Why the exception was closed, or the difference found in the listing of the exchange, and what to do; empty if the state of the entry
    explains it.
    """
    from loadsheet.reconcile import REMEDIES, Verdict

    verdict = Verdict(status.verdict)
    if verdict not in REMEDIES:
        return [f"  closed   in run {status.closed_run}: {status.closed}"] if status.closed else []
    if status.closed:
        return [f"  listed   {verdict} since run {status.run}; closed in run {status.closed_run}: {status.closed}"]
    fields = [
        f"  differs  {difference.path}: sent {difference.sent}, there {difference.held}"
        for difference in status.differences
    ]
    return [f"  listed   {verdict} since run {status.run}: {REMEDIES[verdict]}", *fields]


class Wanted(NamedTuple):
    """Which runs to list: at most `limit`, of a day (local time), that read a file whose name matches a pattern, that did not end with 0,
    or that had an outcome. Empty values do not count.
    """

    limit: int
    day: str
    pattern: str
    needy: bool
    outcome: str | None

    def of(self, queries: "LedgerQueries") -> "list[Run]":
        """The runs, newest first."""
        if not any(self[1:]):
            return queries.runs(self.limit)
        pattern, with_file = self.pattern.casefold(), None
        if self.pattern:
            arrivals = queries.arrivals("", counted=False)
            with_file = {one.run for one in arrivals if fnmatchcase(one.name.casefold(), pattern)}
        return [
            run
            for run in queries.runs(_RUNS_SEARCHED)
            if local_time(run.started_at).startswith(self.day)
            and (with_file is None or run.name in with_file)
            and not (self.needy and run.exit_code == 0)
            and (self.outcome is None or run.exit_code in _OUTCOMES[self.outcome])
        ][: self.limit]


@click.command()
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="Show at most N runs, newest first."
)
@click.option(
    "--day",
    metavar="D",
    default="",
    help="Only runs that started on this day, such as 2026-03-04, in local time as shown.",
)
@click.option("--file", "pattern", metavar="PATTERN", default="", help="Only runs that read a file with such a name.")
@click.option("--needs-attention", "needy", is_flag=True, help="Only runs that did not end with 0.")
@click.option("--outcome", type=click.Choice([*_OUTCOMES]), help="Only runs with this outcome.")
@combined_options(STATE, CONFIG, JSON)
@grouped(wanted=Wanted)
def runs(*, wanted: Wanted, state: Path | None, config: Path | None, as_json: bool) -> None:
    """List the latest runs with their exit codes and results; of all shippers if none is named."""
    every = load_each(config, state=state)
    several = len(every) > 1
    latest = [(name, run) for name, settings in every.items() for run in _latest(settings, wanted, several=several)]
    found = sorted(latest, key=lambda found: found[1].started_at, reverse=True)[: wanted.limit]
    if not found:
        say("no run matches" if any(wanted[1:]) else "no run found")
    if as_json:
        print_json([{**({"shipper": name} if several else {}), **_run_json(run)} for name, run in found])
        return
    from loadsheet.ledger import reported_by

    unfinished = {
        shipper: {run.name for name, run in latest if name == shipper and not run.finished_at} for shipper in every
    }
    shipper_head = ["Shipper"] if several else []
    rows = [
        [
            *([name] if several else []),
            run.name,
            local_time(run.started_at)[:16],
            _took(run, unfinished[name]),
            "" if run.exit_code is None else run.exit_code,
            _result(run.summary),
        ]
        for name, run in found
    ]
    print_table([*shipper_head, "Run", "Started", "Took", "Exit code", "Result"], rows)
    for name, settings in every.items():
        newest = next((run for shipper, run in latest if shipper == name), None)
        if newest is not None and newest.name in unfinished[name] and not reported_by(newest):
            say(_unfinished(newest, settings_or_raise(settings)))


def _latest(settings: "Settings | SettingsError", wanted: Wanted, *, several: bool) -> "list[Run]":
    """The latest runs of one shipper. With several, a ledger or settings that cannot be read are reported and skipped."""
    try:
        with ledger_to_read(settings_or_raise(settings)) as ledger:
            return wanted.of(ledger.queries)
    except (LedgerError, SettingsError) as error:
        if not several:
            raise
        say(str(error))
        return []


def _unfinished(run: "Run", settings: "Settings") -> str:
    """What becomes of a newest run without an end: a process works on it, or what to do."""
    from loadsheet.run_resources import holder_of

    if holder := holder_of(settings):
        return f"run {run.name} is in progress, by {holder}"
    return f"run {run.name} did not finish: `loadsheet run` resumes and reports it"


def _took(run: "Run", unfinished: set[str]) -> str:
    """How long a run took with its reports; if it did not end, the run that reported it, unless that one is also in `unfinished`."""
    from loadsheet.ledger.run_queries import reported_at

    if run.finished_at:
        took = datetime.fromisoformat(reported_at(run) or run.finished_at) - datetime.fromisoformat(run.started_at)
        return f"{took.total_seconds():,.1f} s"
    from loadsheet.ledger import reported_by

    reporter = reported_by(run)
    return f"not finished, reported by {reporter}" if reporter and reporter not in unfinished else "not finished"


def _result(summary: str) -> str:
    """The headline of a run; for a run of an older version, its documents by state."""
    values = msgspec.json.decode(summary) if summary else {}
    return values.get("headline") or ", ".join(f"{count} {state}" for state, count in values.get("entries", {}).items())


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
    return exit_codes.NEEDS_SOMEONE if late else 0


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
