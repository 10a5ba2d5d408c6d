"""Copies of the ledger: backups, exports of its tables to files, and the check of the ledger with its originals and backups.

One backup a day goes to STATE/backups, compressed; the newest few stay. Owns: the names of backups, and the results of the check. A backup
appears under its name only when it is complete, so each can be restored. The check finds faults (the ledger contradicts itself),
tasks for a person (an original is missing, the newest backup is old), and remarks. It changes nothing.

Exports are Parquet, or CSV that is safe to open in a spreadsheet program, written in bounded memory. DuckDB writes Parquet from JSON
lines on disk.
"""

import csv
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from loadsheet import object_storage
from loadsheet.display_text import count_of
from loadsheet.errors import FolderError
from loadsheet.extras import need
from loadsheet.ledger import Ledger
from loadsheet.places import from_stored_path
from loadsheet.reports.report_files import csv_line, written_atomically
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.exporting import Column

BY_THE_SERVER = "the ledger is on PostgreSQL, whose own tools make the backups"
_ELSEWHERE = "elsewhere.txt"  # in the backup folder: the paths of copies elsewhere, one a line
_DAILY = re.compile(r"ledger-\d{4}-\d\d-\d\d\.db(\.gz)?")


def back_up_daily(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Copy the ledger if this day (UTC) has no backup yet, and remove all but the newest `retention.backups` daily ones. Returns the
    number of new backups. Raises LedgerUnwritable and FolderError.
    """
    if not settings.retention.backups or not ledger.maintenance.is_file:
        return 0
    folder = backup_folder(settings)
    target = folder / f"ledger-{now.astimezone(UTC):%Y-%m-%d}.db.gz"
    if target.exists():
        return 0
    make_backup(ledger, target)
    for path in daily_backups(folder)[: -settings.retention.backups]:
        with suppress(OSError):  # removed the next time
            path.unlink()
    return 1


def make_backup(ledger: Ledger, target: Path) -> None:
    """Copy a ledger file to a file in a private folder, compressed if its name ends with `.gz`. Raises LedgerUnwritable and FolderError."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"the folder {target.parent} cannot be created ({error.strerror})") from error
    ledger.back_up(target)


def backup_folder(settings: Settings) -> Path:
    """The folder of the daily backups."""
    return settings.state / "backups"


def daily_backups(folder: Path) -> list[Path]:
    """The daily backups, oldest first."""
    return sorted(path for path in folder.glob("ledger-*.db*") if _DAILY.fullmatch(path.name))


def note_copy(settings: Settings, target: Path) -> None:
    """Record the path of a copy outside the backup folder, so that `ledger forget` can name it. Errors are ignored."""
    folder, path = backup_folder(settings), target.absolute()
    if path.parent == folder.absolute():
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / _ELSEWHERE).open("a", encoding="utf-8", errors="surrogateescape") as noted:
            noted.write(f"{path}\n")


def copies_elsewhere(settings: Settings) -> list[Path]:
    """The copies outside the backup folder that are still where `ledger backup --to` wrote them."""
    try:
        noted = (backup_folder(settings) / _ELSEWHERE).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [path for path in map(Path, dict.fromkeys(noted.splitlines())) if path.is_file()]


def copies(settings: Settings, ledger_file: Path) -> list[Path]:
    """All existing copies of the ledger that we made: daily backups, and copies from before an upgrade, a restore or a move."""
    beside = [*ledger_file.parent.glob(f"{ledger_file.name}.schema-*.backup")]
    beside += [
        path for kind in ("replaced", "moved") for path in ledger_file.parent.glob(f"{ledger_file.name}.{kind}-*")
    ]
    made = [path for end in ("db", "db.gz") for path in backup_folder(settings).glob(f"*.{end}") if path.is_file()]
    return sorted({*beside, *made})


NAMED_MAX = 5
BACKUP_DAYS_MAX = 3


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """The result of the check: faults, tasks for a person, and hints."""

    faults: tuple[str, ...]
    tasks: tuple[str, ...]
    hints: tuple[str, ...]


def check(settings: Settings, ledger: Ledger, now: datetime) -> LedgerCheck:
    """Check the whole ledger, the originals it names, and its backups. Takes minutes for millions of rows. `now` is aware."""
    wrong = ledger.check()
    if wrong:
        return LedgerCheck(tuple(wrong), (), ())
    return LedgerCheck(
        (), (*_missing(settings, ledger), *_old_backups(settings, ledger, now)), tuple(_remarks(settings, ledger))
    )


def _missing(settings: Settings, ledger: Ledger) -> list[str]:
    """Originals that are missing although no rule removed them."""
    missing = [
        f"the original {original.name} of run {original.run} is missing at {from_stored_path(original.kept_as, settings.state)}, although no rule removed it"
        for original in ledger.maintenance.originals()
        if not object_storage.is_kept(original.kept_as, settings)
    ]
    more = [f"and {len(missing) - NAMED_MAX:,} more originals"] if len(missing) > NAMED_MAX else []
    return [*missing[:NAMED_MAX], *more]


def _old_backups(settings: Settings, ledger: Ledger, now: datetime) -> list[str]:
    runs = ledger.queries.runs(1)
    if not settings.retention.backups or not runs or not ledger.maintenance.is_file:
        return []
    made = daily_backups(backup_folder(settings))
    if not made:
        return [f"there is no backup in {backup_folder(settings)}; the next run makes one"]
    last, newest = date.fromisoformat(runs[0].started_at[:10]), date.fromisoformat(made[-1].name[len("ledger-") :][:10])
    if min(last, now.astimezone(UTC).date()).toordinal() - newest.toordinal() > BACKUP_DAYS_MAX:
        return [
            f"the newest backup is {made[-1]}, although there were runs since: look for backup errors in their output"
        ]
    return []


def _remarks(settings: Settings, ledger: Ledger) -> list[str]:
    counts = ledger.maintenance.counts()
    runs, entries = count_of(counts["runs"], "run"), count_of(counts["entries"], "entry", "entries")
    remarks = [
        f"{runs}, {entries}, {count_of(counts['decisions'], 'decision')} in one chain",
    ]
    removed, last = ledger.maintenance.count_removed()
    if removed:
        remarks.append(
            f"contents of {count_of(removed, 'entry', 'entries')} removed, the last on {last[:10]}; hashes and totals are kept"
        )
    noted = ledger.maintenance.removed_by_rule()
    if noted:
        sums = ", ".join(
            f"{count:,} {name}" for name, count in noted.items() if name != "at" and isinstance(count, int)
        )
        remarks.append(f"removed by rule so far: {sums}; the last on {str(noted['at'])[:10]}")
    made = daily_backups(backup_folder(settings)) if ledger.maintenance.is_file else []
    if not ledger.maintenance.is_file:
        remarks.append(BY_THE_SERVER)
    if made:
        remarks.append(f"{count_of(len(made), 'daily backup')}, the newest is {made[-1]}")
    return remarks


# exports


Format = Literal["parquet", "csv"]

_MEMORY = "200MB"
_TYPES = {"text": "VARCHAR", "whole": "BIGINT", "moment": "TIMESTAMP"}
_encode = msgspec.json.Encoder().encode


def export(ledger: Ledger, target: Path, kind: Format, *, since: str = "", payloads: bool = False) -> dict[Path, int]:
    """Write runs, entries, attempts and exceptions into a folder, one file each. If the target is a file (`.parquet` or `.csv`),
    write only the entries. Returns the number of rows per file. `since` is ISO 8601 UTC. Raises FolderError.
    """
    from loadsheet.ledger.exporting import exports

    tables = exports(since=since, payloads=payloads)
    if target.suffix.lower() == f".{kind}":
        chosen = {target: next(table for table in tables if table.name == "entries")}
    else:
        chosen = {target / f"{table.name}.{kind}": table for table in tables}
    write, counts = _write_parquet if kind == "parquet" else _write_csv, {}
    for path, table in chosen.items():
        with written_atomically(path) as part:
            counts[path] = write(part, table.columns, ledger.maintenance.rows_of(table))
    return counts


def _write_csv(part: Path, columns: "Iterable[Column]", rows: Iterable[tuple[Any, ...]]) -> int:
    count = 0
    with part.open("w", encoding="utf-8-sig", newline="", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow([column.name for column in columns])
        for row in rows:
            writer.writerow(csv_line(["" if value is None else str(value) for value in row]))
            count += 1
    return count


def _write_parquet(part: Path, columns: "Iterable[Column]", rows: Iterable[tuple[Any, ...]]) -> int:
    need("parquet", "an export as Parquet")
    import duckdb

    names = [column.name for column in columns]
    types = ", ".join(f"{column.name}: '{_TYPES[column.kind]}'" for column in columns)
    count = 0
    with tempfile.TemporaryDirectory(prefix=".export-", dir=part.parent) as folder:
        lines = Path(folder) / "rows.ndjson"
        with lines.open("wb") as file:
            for row in rows:
                file.write(_encode(dict(zip(names, row, strict=True))) + b"\n")
                count += 1
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "threads": "1",
            "temp_directory": folder,
        }
        try:
            with duckdb.connect(config=config) as engine:
                form = "format = 'newline_delimited', maximum_object_size = 67108864"
                lines_read = f"select * from read_json(?, {form}, columns = {{{types}}})"  # noqa: S608 (names of our own)
                path = str(part).replace("'", "''")
                written = f"'{path}' (format parquet, row_group_size 8192)"
                engine.execute(f"copy ({lines_read}) to {written}", [str(lines)])
        except duckdb.Error as error:
            raise FolderError(f"{part} cannot be written ({error})") from error
    return count
