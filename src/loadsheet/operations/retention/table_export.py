"""Exports the ledger's tables to files: Parquet, or CSV that is safe to open in a spreadsheet program, in bounded memory.

Owns: the files, and DuckDB, which writes Parquet from JSON lines on disk.
"""

import csv
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import duckdb
import msgspec

from loadsheet.ledger import Ledger
from loadsheet.ledger.exporting import Column, Export, exports
from loadsheet.problems import FolderError
from loadsheet.reports.report_files import csv_line, placed

Format = Literal["parquet", "csv"]

_MEMORY = "200MB"
_TYPES = {"text": "VARCHAR", "whole": "BIGINT", "moment": "TIMESTAMP"}
_encode = msgspec.json.Encoder().encode


def export(ledger: Ledger, target: Path, kind: Format, *, since: str = "", payloads: bool = False) -> dict[Path, int]:
    """Write runs, entries, attempts and exceptions into a folder, one file each. If the target is a file (`.parquet` or `.csv`),
    write only the entries. Returns the number of rows per file. `since` is ISO 8601 UTC. Raises FolderError.
    """
    tables = exports(since=since, payloads=payloads)
    if target.suffix.lower() == f".{kind}":
        chosen = {target: next(table for table in tables if table.name == "entries")}
    else:
        chosen = {target / f"{table.name}.{kind}": table for table in tables}
    return {path: _write(ledger, path, table, kind) for path, table in chosen.items()}


def _write(ledger: Ledger, path: Path, table: Export, kind: Format) -> int:
    rows = ledger.maintenance.rows_of(table)
    with placed(path) as part:
        return _write_parquet(part, table.columns, rows) if kind == "parquet" else _write_csv(part, table.columns, rows)


def _write_csv(part: Path, columns: Iterable[Column], rows: Iterable[tuple[Any, ...]]) -> int:
    count = 0
    with part.open("w", encoding="utf-8-sig", newline="", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow([column.name for column in columns])
        for row in rows:
            writer.writerow(csv_line(["" if value is None else str(value) for value in row]))
            count += 1
    return count


def _write_parquet(part: Path, columns: Iterable[Column], rows: Iterable[tuple[Any, ...]]) -> int:
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
                written = f"'{_quoted(part)}' (format parquet, row_group_size 8192)"
                engine.execute(f"copy ({lines_read}) to {written}", [str(lines)])
        except duckdb.Error as error:
            raise FolderError(f"{part} cannot be written ({error})") from error
    return count


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
