"""The doctor's checks of mappings, ledger, time zone data and versions.

Owns: when the last success is too long ago, and when time zone data are too old.
"""

import platform
import sqlite3
import sys
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from loadsheet import exit_codes, reports
from loadsheet.cli.doctor.findings import Finding, ok, warning, wrong
from loadsheet.cli.ledger_access import held_ledger, holder_of_file, ledger_to_read
from loadsheet.ledger import Ledger, Run, State
from loadsheet.ledger.ledger_opening import OLDER, surroundings_on
from loadsheet.ledger.location import refuse_beside_a_file
from loadsheet.ledger.postgres import look
from loadsheet.mapping import Mapping, lint, load_folder, mapping_files
from loadsheet.operations import expected_files
from loadsheet.problems import LedgerBusy, LedgerError
from loadsheet.settings import Settings

SUCCESS_AGE = timedelta(hours=48)
_RUNS = 200
CLOCKS_APART_S = 3.0
"""A larger difference (seconds) between the clocks of the server and this machine is a warning."""
_SQLITE = "sqlite:///"
_LIBRARIES = ("click", "duckdb", "openpyxl", "pandas", "pydantic", "requests", "sqlalchemy", "tzdata")


def mappings(settings: Settings) -> Iterator[Finding]:
    """Each mapping file by itself, then all together."""
    folder = settings.mappings
    found = (
        {path: lint(path, settings.assumptions, folder) for path in mapping_files(folder)} if folder.is_dir() else {}
    )
    for path, faults in found.items():
        if faults:
            more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
            yield wrong("mapping", f"{faults[0]}{more}", f"loadsheet mapping lint {path}")
    if any(found.values()):
        return
    loaded = load_folder(folder, settings.assumptions)
    for mapping in loaded:
        yield ok(
            "mapping",
            f"{mapping.name}: version {mapping.version}, {_operations(mapping)} from {', '.join(mapping.files)}",
        )
    if not loaded:
        yield warning("mapping", f"{folder} contains no mapping", "loadsheet mapping suggest FILE drafts one")
    yield from _zones(settings, loaded)


def _operations(mapping: Mapping) -> str:
    return " or ".join(operation.name for operation in mapping.operations)


# ---- ledger ----


def ledger(settings: Settings, now: datetime, *, quick: bool) -> Iterator[Finding]:
    """Whether the ledger is the right one and intact, who holds it, when the last successful run was, and what is late."""
    if settings.is_shared:
        yield from _on_server(settings, now, quick=quick)
        return
    path = Path(settings.database_url.removeprefix(_SQLITE))
    known = path.exists() or path.with_name(f"last_run_of_{path.name}.json").exists()
    if settings.database_url.startswith(_SQLITE) and not known:
        yield ok("ledger", f"{path} does not exist yet; the first run creates it")
        return
    size = path.stat().st_size if path.exists() else 0
    yield from _opened(settings, _Place(str(path), size, holder_of_file(path)), now, quick=quick)


def _on_server(settings: Settings, now: datetime, *, quick: bool) -> Iterator[Finding]:
    """The same for a ledger on PostgreSQL, and whether its server is suitable."""
    found = look(settings.database_url, settings.cluster.takeover_s)
    if found.faults:
        yield from (wrong("server", fault) for fault in found.faults)
        return
    yield ok("server", f"PostgreSQL {found.version}")
    if abs(found.ahead_s) > CLOCKS_APART_S:
        text = f"this machine's clock is {abs(found.ahead_s):,.0f} s {'behind' if found.ahead_s > 0 else 'ahead of'} that of the ledger's server"
        yield warning(
            "clock", text, "synchronise both with the same time server: the times in the reports depend on them"
        )
    if not found.there:
        refuse_beside_a_file(settings.state, found.place)
        surroundings_on(settings.state, settings.database_url).refuse_gone(found.place)
        yield ok("ledger", f"{found.place} does not exist yet; the first run creates it")
        return
    yield from _opened(settings, _Place(found.place, found.size, found.holder), now, quick=quick)


class _Place(NamedTuple):
    """Where a ledger is, its size in bytes, and who holds it (empty: no process)."""

    name: str
    size: int
    holder: str


def _opened(settings: Settings, place: _Place, now: datetime, *, quick: bool) -> Iterator[Finding]:
    try:
        with ledger_to_read(settings) as opened:
            held_by = place.holder if quick else _held_by(settings)
            yield _state(opened, f"{place.name}, {place.size / 1e6:,.1f} MB", held_by, quick=quick)
            yield from _latest(settings, opened, now)
            yield from _missing(opened)
            yield from _late(settings, opened, now)
    except LedgerError as error:
        if error.todo != OLDER:
            raise
        yield warning("ledger", error.found, error.todo)


def _state(opened: Ledger, place: str, holder: str, *, quick: bool) -> Finding:
    if faults := [] if quick else opened.check():
        text = f"{place}: {'; '.join(faults)}"
        return wrong("ledger", text, "restore a backup (`loadsheet ledger restore FILE`), or find out what changed it")
    text = f"{place}: {'can be opened' if quick else 'intact'}"
    return ok("ledger", text + (f"; a run or a watch holds it ({holder})" if holder else ""))


def _held_by(settings: Settings) -> str:
    """Who holds the ledger, as text; empty if it is free. Also checks that it is the ledger of the last run."""
    try:
        with held_ledger(settings):
            return ""
    except LedgerBusy as busy:
        return str(busy).partition(" is held by ")[2].partition(";")[0]


def _missing(opened: Ledger) -> Iterator[Finding]:
    """Runs that ended without some of their reports."""
    for run in opened.queries.runs_with_reports_missing():
        yield warning("reports", f"run {run.name} {reports.missing_reports(run)}", f"loadsheet report --run {run.name}")


def _latest(settings: Settings, opened: Ledger, now: datetime) -> Iterator[Finding]:
    runs = opened.queries.runs(_RUNS)
    done = next((run for run in runs if run.exit_code in exit_codes.WORK_DONE), None)
    if done is None:
        text = f"none of the {len(runs)} runs was successful" if runs else "no run yet"
        yield warning("latest run", text, "loadsheet runs lists them") if runs else ok("latest run", text)
        return
    age = now - _ended(done)
    limit = timedelta(seconds=settings.expected_files.runs_due_s) if settings.expected_files.runs_due_s else SUCCESS_AGE
    text = f"latest successful run: {done.name}, {_hours(age)} ago, exit code {done.exit_code}"
    if age > limit:
        yield warning("latest run", text, f"it should be at most {_hours(limit)} ago: is the schedule active?")
    else:
        yield ok("latest run", text)
    unknown = opened.queries.count_in(State.UNKNOWN)
    if unknown:
        yield warning("unknown", f"{unknown} sent records have an unknown outcome", "loadsheet resolve lists them")


def _ended(run: Run) -> datetime:
    return datetime.fromisoformat(run.finished_at or run.started_at)


def _hours(age: timedelta) -> str:
    hours = age / timedelta(hours=1)
    return f"{hours:.0f} h" if hours >= 1 else f"{max(hours * 60, 0):.0f} min"


def _late(settings: Settings, opened: Ledger, now: datetime) -> Iterator[Finding]:
    for late in expected_files.overdue(settings, opened.queries, now):
        yield warning("late", late.text, "ask the sender, or change the expectation ([[expected_files.expect]])")


# ---- time zones ----


def _zones(settings: Settings, loaded: tuple[Mapping, ...]) -> Iterator[Finding]:
    """Every time zone in settings and mappings, and the age of the time zone data."""
    named = {table.default_zone.key for mapping in loaded for table in mapping.plan.tables if table.default_zone}
    named |= {expected.timezone for expected in settings.expected_files.expect if expected.timezone}
    unknown = sorted(name for name in named if name not in zoneinfo.available_timezones())
    if unknown:
        yield wrong("time zones", f"{', '.join(unknown)}: unknown time zone", "install tzdata, or use another zone")
        return
    shipped = _packaged_version()
    system = system_version()
    text = f"data of {system or shipped} ({'this system' if system else 'the package tzdata'})"
    text += f"; in use: {', '.join(sorted(named))}" if named else ""
    if system and system < shipped:
        todo = "update this system's tzdata, or set PYTHONTZPATH to an empty value for loadsheet"
        yield warning("time zones", f"{text}; the package tzdata has {shipped}", todo)
    else:
        yield ok("time zones", text)


def system_version(paths: tuple[str, ...] | None = None) -> str:
    """The version of this system's time zone data that Python uses, such as 2026a; empty if it uses none, or if unknown."""
    for folder in map(Path, zoneinfo.TZPATH if paths is None else paths):
        try:
            with (folder / "tzdata.zi").open(encoding="ascii") as file:
                first = file.readline()
        except OSError:
            continue
        return first.removeprefix("# version").strip()
    return ""


def _packaged_version() -> str:
    """The version of the package tzdata as IANA writes it: 2026.6 is 2026f."""
    year, number, *_ = version("tzdata").split(".")
    return f"{year}{chr(ord('a') + int(number) - 1)}"


def versions() -> Iterator[Finding]:
    """The versions of loadsheet, Python, SQLite and the libraries."""
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    system = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {sys.platform}"
    yield ok("versions", f"loadsheet {version('loadsheet')}, {system}, {libraries}")
