"""`loadsheet check`: what would become of files, without sending or keeping anything."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.inbox import InboxFile
from loadsheet.intake import open_route
from loadsheet.mapping import Document, Ignored, Mapping, load_folder, route, translate
from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading import Row, Sentinel, Table
from loadsheet.settings import Settings

NEEDS_SOMEONE, NOTHING_USABLE = 1, FileRefused.exit_code


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--payloads", is_flag=True, help="One JSON line for each document: operation, key, payload, source rows.")
@together(MAPPINGS, CONFIG, JSON)
def check(files: tuple[Path, ...], *, payloads: bool, mappings: Path | None, config: Path | None, as_json: bool) -> int:
    """Read, map and validate FILES and say what is wrong. Nothing is sent, nothing is kept, no file is moved."""
    settings = load(config, mappings=mappings)
    loaded = load_folder(settings.mappings, settings.assumptions)
    usable, problems = 0, []
    for found in documents_of(files, loaded, settings):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        document, tables = found
        problems += document.problems
        usable += document.usable
        if payloads and document.usable:
            sys.stdout.buffer.write(_line(document, tables))
    errors = sum(problem.level == "error" for problem in problems)
    if as_json and not payloads:
        print_json({"usable": usable, "errors": errors, "problems": [problem.to_json() for problem in problems]})
    else:
        for problem in problems:
            say(str(problem))
        say(f"{usable} documents could be sent; {errors} errors, {len(problems) - errors} warnings")
    if not usable:
        return NOTHING_USABLE
    return NEEDS_SOMEONE if errors else 0


def documents_of(
    files: Sequence[Path], mappings: Sequence[Mapping], settings: Settings
) -> Iterator[tuple[Document, dict[str, Table]] | Problem]:
    """Every document of these files with the tables it comes from; a Problem for each file that cannot be used, and warnings of
    what looks damaged in one.
    """
    by_name = {_name(path, mappings): path for path in files}
    routes = route(list(by_name), mappings)
    yield from (*routes.unmapped.values(), *routes.ambiguous.values(), *routes.waiting.values())
    for chosen in routes.complete:
        opened = {role: _unclaimed(name, by_name[name]) for role, name in chosen.files.items()}
        try:
            tables = open_route(chosen, opened, settings)
            sentinels = {name: Sentinel(table) for name, table in tables.items()}
            watched = {
                name: replace(table, rows=partial(_watched, sentinels[name], table)) for name, table in tables.items()
            }
            for found in translate(chosen.mapping, watched, now=datetime.now(UTC)):
                if not isinstance(found, Ignored):
                    yield found, tables
            yield from (problem for sentinel in sentinels.values() for problem in sentinel.problems())
        except FileRefused as refused:
            yield refused.problem


def _watched(sentinel: Sentinel, table: Table) -> Iterator[Row]:
    return sentinel.watch(table.rows())


def _name(path: Path, mappings: Sequence[Mapping]) -> str:
    """The name a file would have in the inbox: the longest end of its path that a mapping names, else its bare name."""
    parts = path.absolute().parts[1:]
    ends = ["/".join(parts[start:]) for start in range(len(parts))]
    named = (end for end in ends if "/" in end and end not in route([end], mappings).unmapped)
    # a pattern without a slash matches the bare name in any folder: then every end fits, and the shortest is meant
    fits = list(named)
    return min(fits, key=len) if fits and path.name in route([path.name], mappings).unmapped else path.name


def _unclaimed(name: str, path: Path) -> InboxFile:
    status = path.stat()
    return InboxFile(name, path, status.st_size, "", datetime.fromtimestamp(status.st_mtime, UTC))


def _line(document: Document, tables: dict[str, Table]) -> bytes:
    rows = [_place(tables[row.table].where(row.number)) for row in document.rows]
    told = {
        "operation": document.operation,
        "key": document.key,
        "payload": msgspec.Raw(document.payload),
        "rows": rows,
    }
    return msgspec.json.encode(told) + b"\n"


def _place(where: Where) -> dict[str, Any]:
    return {"file": where.file, "sheet": where.sheet, "row": where.row}
