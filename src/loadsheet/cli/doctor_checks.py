"""The doctor's findings, and its checks on this machine: folders, disk, mappings, ledger, time zone data and versions.

A LoadsheetError in a check becomes a finding and does not end the doctor. Owns: how much free space is too little, which permissions are too
open, when the last success is too long ago, and when time zone data are too old.
"""

import os
import platform
import re
import sqlite3
import stat
import sys
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from loadsheet import exit_codes, extras, object_storage, reports
from loadsheet.cli.doctor import DoctorFinding, ok, warning, wrong
from loadsheet.cli.options import held_ledger, ledger_to_read
from loadsheet.contract import zone_names
from loadsheet.errors import FolderError, LedgerBusy, LedgerError, SettingsError
from loadsheet.inbox.files import needs_polling
from loadsheet.ledger import Ledger, State
from loadsheet.ledger.ledger_opening import OLDER, ledger_files_of
from loadsheet.ledger.location import LastRunRecord, SqliteLedgerFiles, holder_of_file, refuse_beside_a_file
from loadsheet.ledger.postgres import server_status
from loadsheet.mapping.compile import CompiledMapping, lint
from loadsheet.mapping.mapping_folder import load_folder, mapping_files
from loadsheet.operations import expected_files
from loadsheet.places import address_of, file_system_of, place_text
from loadsheet.settings import Settings, every_field
from loadsheet.settings.sources import from_file, is_world_readable, read

LITTLE_BYTES, NEARLY_NO_BYTES = 1 << 30, 64 << 20
LITTLE_FILES, NEARLY_NO_FILES = 20_000, 500
_GB = 10**9
_PASSWORD = re.compile(r"://[^/@]*:[^/@]+@|[?&]\w*password=")
SUCCESS_AGE = timedelta(hours=48)
_RUNS = 200
CLOCKS_APART_S = 3.0
"""A larger difference (seconds) between the clocks of the server and this machine is a warning."""
_SQLITE = "sqlite:///"
_LIBRARIES = ("click", "openpyxl", "pandas", "pydantic", "requests", "sqlalchemy", "tzdata")


def folders(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether each folder exists and can be used, and whether its permissions are too open."""
    for name in ("inbox", "outbox", "state", *(("archive",) if settings.archive else ())):
        folder = getattr(settings, name)
        if address_of(folder):
            yield _store(name, folder)
            continue
        fault = _fault(name, folder)
        yield fault or _too_open(name, folder) or ok(name, _describe(name, folder))
    yield from _volumes(settings)


def _store(name: str, place: Path) -> DoctorFinding:
    """Whether a place in an object store can be listed."""
    try:
        object_storage.names_in(place_text(place))
    except (FolderError, SettingsError) as error:
        return wrong(name, str(error), f"change {name}, or check the store and its credentials")
    return ok(name, f"{place_text(place)} is in an object store and can be listed")


def _describe(name: str, folder: Path) -> str:
    if not folder.exists():
        return f"{folder} does not exist yet; the first run creates it"
    kind = file_system_of(folder)
    if name == "inbox" and needs_polling(kind):
        return f"{folder} is on a network share or a shared folder ({kind}): a watch polls it"
    return str(folder)


def _fault(name: str, folder: Path) -> DoctorFinding | None:
    who = _user()
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        if os.access(parent, os.W_OK | os.X_OK) and parent.is_dir():
            return None
        return wrong(name, f"{folder} does not exist, and {parent} cannot be written to", f"create it for {who}")
    if not folder.is_dir():
        return wrong(name, f"{folder} is not a folder", f"change {name}, or move the file away")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return wrong(name, f"{folder} cannot be read and written", f"let {who} read, write and enter it")
    return None


def _too_open(name: str, folder: Path) -> DoctorFinding | None:
    if os.name != "posix" or not folder.exists():
        return None
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not (mode & stat.S_ISVTX and name == "inbox"):
        text = f"every user of this machine can write to {folder}"
        finding = wrong if name == "state" else warning
        return finding(name, text, f"chmod o-w {folder}" + (f", or chmod o+t {folder}" if name == "inbox" else ""))
    if name == "state" and mode & (stat.S_IROTH | stat.S_IXOTH):
        return warning(name, f"every user of this machine can list {folder}", f"chmod o-rx {folder}")
    return None


def _volumes(settings: Settings) -> Iterator[DoctorFinding]:
    if not (settings.inbox.is_dir() and settings.state.is_dir()):
        return
    try:
        is_one = _mount(settings.inbox) == _mount(settings.state)
    except PermissionError:  # the folder has a finding of its own
        return
    if is_one:
        yield ok("volume", "inbox and state are on the same volume: files are claimed by renaming")
        return
    yield warning(
        "volume",
        "inbox and state are on different volumes or mounts: each file is claimed by copying it and verifying the copy",
        "this is safe, but slower and needs twice the space; put both under one mount to claim by renaming",
    )


def _mount(folder: Path) -> tuple[int, str]:
    """The device of a folder, and its mount if known: a file cannot be renamed between two mounts of the same device."""
    device = folder.stat().st_dev
    if not Path("/proc/self/fdinfo").is_dir():
        return device, ""
    opened = os.open(folder, os.O_RDONLY)
    try:
        lines = Path(f"/proc/self/fdinfo/{opened}").read_text(encoding="ascii").splitlines()
    finally:
        os.close(opened)
    return device, next((line for line in lines if line.startswith("mnt_id")), "")


def free_space(settings: Settings) -> Iterator[DoctorFinding]:
    """Free space and free inodes, once for each volume."""
    if not hasattr(os, "statvfs"):
        return
    ledger_file = settings.state / "ledger.db"  # an upgrade needs its size again for the backup
    ledger_bytes = ledger_file.stat().st_size if ledger_file.is_file() else 0
    volumes: dict[int, dict[str, Path]] = {}
    for name in ("state", "inbox", "outbox"):
        if not address_of(getattr(settings, name)):
            path = getattr(settings, name).absolute()
            folder = next(folder for folder in (path, *path.parents) if folder.exists())
            volumes.setdefault(folder.stat().st_dev, {})[name] = folder
    for found in volumes.values():
        needed = ledger_bytes if "state" in found else 0
        yield _space_finding(", ".join(found), next(iter(found.values())), needed)


def _space_finding(names: str, folder: Path, needed: int) -> DoctorFinding:
    volume = os.statvfs(folder)
    space = volume.f_bavail * volume.f_frsize
    files = volume.f_favail if volume.f_files else None  # some file systems create inodes on demand
    text = f"{names}: {space / _GB:,.1f} GB" + (f" and room for {files:,} files" if files is not None else "") + " free"
    todo = f"free space on the volume of {folder}"
    if space < NEARLY_NO_BYTES or (files is not None and files < NEARLY_NO_FILES):
        return wrong("space", text, f"{todo}: a run stops if it cannot write")
    if space < max(LITTLE_BYTES, 2 * needed) or (files is not None and files < LITTLE_FILES):
        retention = "shorten the retention (retention.archive_days, retention.reports_days)"
        return warning("space", text, f"{todo}, or {retention}")
    return ok("space", text)


def settings_file(settings: Settings) -> Iterator[DoctorFinding]:
    """Which file the settings come from, and whether others can read the secrets in it."""
    file = settings.file
    if file is None or not file.is_file():
        yield ok("settings", "no settings file; only environment, command line and defaults")
        return
    if is_world_readable(file) and (secrets := _secrets(file)):
        text = f"{file} holds secrets ({', '.join(secrets)}), and every user of this machine can read it"
        yield wrong("settings", text, f"chmod 600 {file}")
        return
    yield ok("settings", str(file))


def _secrets(file: Path) -> list[str]:
    """The names, not the values, of the settings in a file that hold secrets."""
    tables = [from_file(file), *(from_file(file, name) for name in read(file).get("shippers", {}))]
    known = [path for path, field in every_field() if "SecretStr" in str(field.annotation)]
    named = []
    for path, found in (item for table in tables for item in table.items()):
        has_password = path == ("database",) and _PASSWORD.search(str(found.value)) is not None
        if found.value and (has_password or any(path[: len(secret)] == secret for secret in known)):
            named.append(".".join(path[:2]))
    return list(dict.fromkeys(named))


def user(*, root_allowed: bool) -> Iterator[DoctorFinding]:
    """The user of this process."""
    if not root_allowed and hasattr(os, "geteuid") and os.geteuid() == 0:
        yield warning("user", "running as root", "create a user for loadsheet (loadsheet deploy systemd names one)")
        return
    yield ok("user", _user().removeprefix("the user "))


def _user() -> str:
    """The user this process runs as, by name or number."""
    if not hasattr(os, "geteuid"):
        return os.environ.get("USERNAME", "this user")
    try:
        import pwd

        return f"the user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:  # a container's user may have no name
        return f"the user {os.geteuid()}"


def mappings(settings: Settings) -> Iterator[DoctorFinding]:
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
        operations = " or ".join(operation.name for operation in mapping.operations)
        text = f"{mapping.name}: version {mapping.version}, {operations} from {', '.join(mapping.files)}"
        yield ok("mapping", text)
    yield from _zones(settings, loaded)


# ---- ledger ----


def ledger(settings: Settings, now: datetime, *, quick: bool) -> Iterator[DoctorFinding]:
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
    place = _Place(str(path), size, holder_of_file(path), SqliteLedgerFiles(path).read_last_run())
    yield from _opened(settings, place, now, quick=quick)


def _on_server(settings: Settings, now: datetime, *, quick: bool) -> Iterator[DoctorFinding]:
    """The same for a ledger on PostgreSQL, and whether its server is suitable."""
    found = server_status(settings.database_url, settings.cluster.takeover_s)
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
        ledger_files_of(settings.state, settings.database_url).refuse_gone(found.place)
        yield ok("ledger", f"{found.place} does not exist yet; the first run creates it")
        return
    last_run = ledger_files_of(settings.state, settings.database_url).read_last_run()
    yield from _opened(settings, _Place(found.place, found.size, found.holder, last_run), now, quick=quick)


class _Place(NamedTuple):
    """Where a ledger is, its size in bytes, who holds it (empty: no process), and the last run that this machine recorded in it."""

    name: str
    size: int
    holder: str
    last_run: LastRunRecord | None


def _opened(settings: Settings, place: _Place, now: datetime, *, quick: bool) -> Iterator[DoctorFinding]:
    try:
        with ledger_to_read(settings) as opened:
            held_by = place.holder if quick else _held_by(settings)
            last = None if settings.ledger.accept_older else place.last_run
            if last and last.started_at not in {run.started_at for run in opened.queries.runs_named(last.name)}:
                raise last.unknown_to(place.name)
            yield _state(opened, f"{place.name}, {place.size / 1e6:,.1f} MB", held_by, quick=quick)
            yield from _latest(settings, opened, now)
            for run in opened.queries.runs_with_reports_missing():
                yield warning(
                    "reports", f"run {run.name} {reports.missing_reports(run)}", f"loadsheet report --run {run.name}"
                )
            for late in expected_files.overdue(settings, opened.queries, now):
                todo = "ask the sender, or change the expectation ([[expected_files.expect]])"
                yield warning("late", late.text, todo)
    except LedgerError as error:
        if error.todo != OLDER:
            raise
        yield warning("ledger", error.found, error.todo)


def _state(opened: Ledger, place: str, holder: str, *, quick: bool) -> DoctorFinding:
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


def _latest(settings: Settings, opened: Ledger, now: datetime) -> Iterator[DoctorFinding]:
    runs = opened.queries.runs(_RUNS)
    done = next((run for run in runs if run.exit_code in exit_codes.WORK_DONE), None)
    if done is None:
        text = "no run was successful yet" if runs else "no run yet"
        yield warning("latest run", text, "loadsheet runs lists them") if runs else ok("latest run", text)
        return
    age = now - datetime.fromisoformat(done.finished_at or done.started_at)
    limit = timedelta(seconds=settings.expected_files.runs_due_s) if settings.expected_files.runs_due_s else SUCCESS_AGE
    text = f"latest successful run: {done.name}, {_hours(age)} ago, exit code {done.exit_code}"
    if age > limit:
        yield warning("latest run", text, f"it should be at most {_hours(limit)} ago: is the schedule active?")
    else:
        yield ok("latest run", text)
    unknown = opened.queries.count_in(State.UNKNOWN)
    if unknown:
        yield warning("unknown", f"{unknown} sent records have an unknown outcome", "loadsheet resolve lists them")


def _hours(age: timedelta) -> str:
    hours = age / timedelta(hours=1)
    return f"{hours:.0f} h" if hours >= 1 else f"{max(hours * 60, 0):.0f} min"


# ---- time zones ----


def _zones(settings: Settings, loaded: tuple[CompiledMapping, ...]) -> Iterator[DoctorFinding]:
    """Every time zone in settings and mappings, and the age of the time zone data."""
    named = {table.default_zone.key for mapping in loaded for table in mapping.plan.tables if table.default_zone}
    named |= {expected.timezone for expected in settings.expected_files.expect if expected.timezone}
    unknown = sorted(name for name in named if name not in zone_names())
    if unknown:
        yield wrong("time zones", f"{', '.join(unknown)}: unknown time zone", "install tzdata, or use another zone")
        return
    year, number, *_ = version("tzdata").split(".")
    shipped = f"{year}{chr(ord('a') + int(number) - 1)}"  # as IANA writes it: 2026.6 is 2026f
    system = system_version()
    text = f"data of {system or shipped} ({'this system' if system else 'the package tzdata'})"
    text += f"; in use: {', '.join(sorted(named))}" if named else ""
    if system and system < shipped:
        todo = "update this system's tzdata, or set PYTHONTZPATH to an empty value for loadsheet"
        yield warning("time zones", f"{text}; the package tzdata has {shipped}", todo)
    else:
        yield ok("time zones", text)


def system_version() -> str:
    """The version of this system's time zone data that Python uses, such as 2026a; empty if it uses none, or if unknown."""
    for folder in map(Path, zoneinfo.TZPATH):
        try:
            with (folder / "tzdata.zi").open(encoding="ascii") as file:
                first = file.readline()
        except OSError:
            continue
        return first.removeprefix("# version").strip()
    return ""


def installed_extras(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether the libraries are installed that a run with these settings needs."""
    extras.check(settings)
    yield ok("extras", "every library that these settings need is installed")


def versions() -> Iterator[DoctorFinding]:
    """The versions of loadsheet, Python, SQLite and the libraries."""
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    system = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {sys.platform}"
    yield ok("versions", f"loadsheet {version('loadsheet')}, {system}, {libraries}")
