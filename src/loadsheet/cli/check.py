"""`loadsheet check`: what would become of files, without sending or keeping anything."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from loadsheet.cli.left_out import LeftOut
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.inbox import InboxFile
from loadsheet.ingest import error_share_max, far_dates, open_route
from loadsheet.ledger import State
from loadsheet.ledger.recording import stop_reasons
from loadsheet.mapping import Document, Ignored, Mapping, Route, load_folder, route, translate
from loadsheet.mapping.plausibility import NotationCheck
from loadsheet.problem_groups import Cause, Causes
from loadsheet.problems import (
    NOT_EXAMINED,
    WAITS_FOR_MAPPING,
    FileRefused,
    LoadsheetError,
    MappingError,
    Problem,
)
from loadsheet.reading import Table, start_fork_server
from loadsheet.settings import Settings
from loadsheet.translation import CountedTables

NEEDS_SOMEONE, NOTHING_USABLE = 1, FileRefused.exit_code

_LINES_AT_A_TIME = 64


class Checked(NamedTuple):
    """A document, with the mapping that made it and the tables that it comes from."""

    document: Document
    tables: dict[str, Table]
    mapping: Mapping


class Unusable(NamedTuple):
    """Why a file cannot be used, or nothing of it goes, and how many documents that could be sent were told of before that was known."""

    problem: Problem
    before: int


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--payloads", is_flag=True, help="One JSON line for each document: operation, key, payload, source rows.")
@click.option(
    "--all", "every", is_flag=True, help="Every problem, a line each, before they are folded by their causes."
)
@together(MAPPINGS, CONFIG, JSON)
def check(
    files: tuple[Path, ...], *, payloads: bool, every: bool, mappings: Path | None, config: Path | None, as_json: bool
) -> int:
    """Read, map and validate FILES and say what is wrong. Nothing is sent, nothing is kept, no file is moved."""
    settings = load(config, mappings=mappings)
    start_fork_server(settings)
    loaded = load_folder(settings.mappings, settings.assumptions)
    usable, count, errors, causes, problems, lines = 0, 0, 0, Causes(), [], _Lines()
    left_out, codes = LeftOut(), set[str]()
    for found in documents_of(files, loaded, settings, left_out):
        for problem in _problems_of(found):
            causes.add(problem, found.document.key if isinstance(found, Checked) else "")
            count, errors = count + 1, errors + (problem.level == "error")
            codes.add(problem.code)
            if as_json and not payloads:
                problems.append(problem.to_json())
            elif every:
                say(str(problem))
        usable += _sendable(found)
        if payloads and isinstance(found, Checked) and found.document.usable:
            lines.add(_line(found))
    lines.flush()
    if as_json and not payloads:
        told = {"left_out": left_out.count, "left_out_by": left_out.to_json(), "tables": left_out.tables}
        print_json({"usable": usable, "errors": errors, **told, "causes": causes.ranked(), "problems": problems})
    else:
        for cause in causes.ranked():
            say(sentences_on(cause))
        for line in left_out.sentences():
            say(line)
        said = f"{_counted(errors, 'error')}, {_counted(count - errors, 'warning')}"
        say(f"{_counted(usable, 'document')} could be sent; {said}")
    return _exit_code(usable, errors, codes)


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _exit_code(usable: int, errors: int, codes: set[str]) -> int:
    if NOT_EXAMINED in codes:
        return LoadsheetError.exit_code
    if codes & WAITS_FOR_MAPPING:
        return MappingError.exit_code
    if not errors:
        return 0  # as a run ends: a file without a row needs nobody
    return NEEDS_SOMEONE if usable else NOTHING_USABLE


def _problems_of(found: Checked | Problem | Unusable) -> Sequence[Problem]:
    if isinstance(found, Problem):
        return (found,)
    return found.document.problems if isinstance(found, Checked) else (found.problem,)


def _sendable(found: Checked | Problem | Unusable) -> int:
    """By how many the documents that could be sent become more, or less again."""
    if isinstance(found, Checked):
        return int(found.document.usable)
    return -found.before if isinstance(found, Unusable) else 0


def documents_of(
    files: Sequence[Path], mappings: Sequence[Mapping], settings: Settings, left_out: LeftOut | None = None
) -> Iterator[Checked | Problem | Unusable]:
    """Every document of these files; Unusable for each file that cannot be used when it is opened or read, or of which nothing would go, a
    Problem for one that nothing takes or that waits, and warnings of what looks damaged in one. `left_out` takes what is left out
    of the files.
    """
    by_name = {_name(path, mappings): path for path in files}
    routes = route(list(by_name), mappings)
    aside = (routes.blocked, routes.unmapped, routes.ambiguous, routes.waiting)
    yield from (problem for problems in aside for problem in problems.values())
    for chosen in routes.complete:
        opened = {role: unclaimed(name, by_name[name]) for role, name in chosen.files.items()}
        before = 0
        try:
            for found in _documents(chosen, opened, settings, left_out or LeftOut()):
                before += isinstance(found, Checked) and found.document.usable
                yield found
        except FileRefused as refused:
            yield Unusable(refused.problem, before)


def _documents(
    chosen: Route, opened: dict[str, InboxFile], settings: Settings, left_out: LeftOut
) -> Iterator[Checked | Problem | Unusable]:
    """What one mapping makes of the files of a route."""
    tables = open_route(chosen, opened, settings)
    fates: Counter[State] = Counter()
    notation_check = NotationCheck()
    counted = CountedTables(chosen.mapping, tables)
    now = datetime.now(UTC)
    made = far_dates(settings, now).watch(
        translate(chosen.mapping, counted.tables, now=now), chosen.mapping.lineage, tables
    )
    for found in notation_check.watch(made):
        if isinstance(found, Ignored):
            table = tables[found.row.table]
            left_out.add(found, table.file, table.sheet)
        else:
            fates[State.READY if found.usable else State.INVALID] += 1
            yield Checked(found, tables, chosen.mapping)
    for name, notes in counted.notes().items():
        left_out.note(tables[name], notes)
        yield from notes.problems
    name, share_max = next(iter(opened.values())).name, error_share_max(chosen.mapping, settings)
    for problem in stop_reasons(name, fates, share_max, notation_check.problems(tables)):
        yield Unusable(problem, fates.pop(State.READY, 0))


def sentences_on(cause: Cause) -> str:
    """A cause in up to three lines: what it is, where, and what to do."""
    lines = [f"{cause.code} {cause.level}: {cause.say}"]
    if cause.places:
        more = f" and {cause.count - len(cause.places):,} more" if cause.count > len(cause.places) else ""
        values = f": {', '.join(cause.found)}" if cause.found and cause.count > 1 else ""
        lines.append(f"    at {', '.join(cause.places)}{more}{values}")
    if cause.proposal:
        lines.append(f"    {cause.proposal}")
    return "\n".join(lines)


def _name(path: Path, mappings: Sequence[Mapping]) -> str:
    """The name a file would have in the inbox: the longest end of its path that a mapping names, else its bare name."""
    parts = path.absolute().parts[1:]
    ends = ["/".join(parts[start:]) for start in range(len(parts))]
    named = (end for end in ends if "/" in end and end not in route([end], mappings).unmapped)
    # a pattern without a slash matches the bare name in any folder: then every end fits, and the shortest is meant
    fits = list(named)
    return min(fits, key=len) if fits and path.name in route([path.name], mappings).unmapped else path.name


def unclaimed(name: str, path: Path) -> InboxFile:
    """A file that stays where it is, as reading wants it."""
    status = path.stat()
    return InboxFile(name, path, status.st_size, "", datetime.fromtimestamp(status.st_mtime, UTC))


class _Lines:
    """Lines for stdout, written many at a time: each by itself would be a call of the system."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Takes a line; it is written now or later."""
        self._waiting.append(line)
        if len(self._waiting) == _LINES_AT_A_TIME:
            self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        sys.stdout.buffer.write(b"".join(self._waiting))
        self._waiting.clear()


def _line(checked: Checked) -> bytes:
    document, tables, mapping = checked
    rows = [
        {"file": (table := tables[row.table]).file, "sheet": table.sheet, "row": row.number} for row in document.rows
    ]
    told = {
        "operation": document.operation,
        "key": document.key,
        "payload": msgspec.Raw(document.payload),
        "rows": rows,
        "mapping": {"name": mapping.name, "version": mapping.version, "hash": mapping.hash},
    }
    return msgspec.json.encode(told) + b"\n"
