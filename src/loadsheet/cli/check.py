"""`loadsheet check`: what would become of files, without sending or keeping anything."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from loadsheet import exit_codes
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.inbox import InboxFile
from loadsheet.ingest import error_share_max, far_dates, open_route
from loadsheet.ledger import State
from loadsheet.ledger.recording import stop_reasons
from loadsheet.mapping import Document, Ignored, Mapping, Route, load_folder, route, translate
from loadsheet.mapping.documents import TableNotes
from loadsheet.mapping.plausibility import NotationCheck
from loadsheet.problem_groups import Cause, Causes
from loadsheet.problems import NOT_EXAMINED, WAITS_FOR_MAPPING, FileRefused, Problem
from loadsheet.reading import Table, start_fork_server
from loadsheet.settings import Settings
from loadsheet.translation import CountedTables

_LINES_AT_A_TIME = 64
_SHOWN = 3  # rows of each rule


class Checked(NamedTuple):
    """A document, with the mapping that made it and the tables that it comes from."""

    document: Document
    tables: dict[str, Table]
    mapping: Mapping


class Unusable(NamedTuple):
    """Why a file cannot be used, or nothing of it goes, and how many documents that could be sent were told of before that was known."""

    problem: Problem
    before: int


@dataclass(slots=True)
class _Rows:
    """How many rows there are, and the numbers and first texts of the first of them."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)


class LeftOut:
    """Takes the rows one after the other; keeps few of them, however many there are."""

    def __init__(self) -> None:
        self._by_rule: dict[tuple[str, str, str], _Rows] = {}
        self.tables: list[dict[str, Any]] = []
        """The tables that were read, as JSON values: columns that are not used, blank rows, and what reading found."""

    def add(self, found: Ignored, file: str, sheet: str) -> None:
        """Counts a row of this file and sheet (empty in text files)."""
        rows = self._by_rule.setdefault((file, sheet, found.rule), _Rows())
        rows.count += 1
        if len(rows.first) < _SHOWN:
            text = next((cell.strip() for cell in found.row.cells if cell.strip()), "")
            rows.first.append((found.row.number, text))

    def note(self, table: Table, notes: TableNotes) -> None:
        """Keeps what was seen of a table whose rows were read."""
        found = dict(table.found)
        self.tables.append(
            {
                "file": table.file,
                "sheet": table.sheet,
                "table": table.name,
                "unused": list(notes.unused),
                "blank_rows": notes.blank_rows,
                "found": found,
            }
        )

    @property
    def count(self) -> int:
        """How many rows were left out."""
        return sum(rows.count for rows in self._by_rule.values())

    def sentences(self) -> Iterator[str]:
        """A line for each file and rule: how many rows it leaves out, and which are the first."""
        for (file, sheet, rule), rows in self._by_rule.items():
            place = f"{file}:{sheet}" if sheet else file
            shown = ", ".join(f'{number} "{text}"' if text else str(number) for number, text in rows.first)
            more = f" and {rows.count - len(rows.first):,} more" if rows.count > len(rows.first) else ""
            plural = "" if rows.count == 1 else "s"
            yield f"{place}: {rows.count:,} row{plural} left out, {rule} (row{plural} {shown}{more})"
        for table in self.tables:
            if counts := list(_table_notes(table)):
                place = f"{table['file']}:{table['sheet']}" if table["sheet"] else table["file"]
                yield f"{place}: {'; '.join(counts)}"

    def to_json(self) -> list[dict[str, Any]]:
        """The same as JSON values."""
        return [
            {"file": file, "sheet": sheet, "rule": rule, "count": rows.count, "rows": [row for row, _ in rows.first]}
            for (file, sheet, rule), rows in self._by_rule.items()
        ]


def _table_notes(table: dict[str, Any]) -> Iterator[str]:
    if unused := table["unused"]:
        yield f"{len(unused)} column{'' if len(unused) == 1 else 's'} not used ({', '.join(unused)})"
    if blank := table["blank_rows"]:
        yield f"{blank:,} blank row{'' if blank == 1 else 's'} skipped"
    for what, how in table["found"].items():
        if what.startswith("hidden") or "ignored" in how:
            yield f"{what}: {how}"


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
            say(describe_cause(cause))
        for line in left_out.sentences():
            say(line)
        counts = f"{_counted(errors, 'error')}, {_counted(count - errors, 'warning')}"
        say(f"{_counted(usable, 'document')} could be sent; {counts}")
    return _exit_code(usable, errors, codes)


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _exit_code(usable: int, errors: int, codes: set[str]) -> int:
    return exit_codes.exit_code(
        stopped=exit_codes.INTERNAL_ERROR if NOT_EXAMINED in codes else None,
        lacks_mapping=bool(codes & WAITS_FOR_MAPPING),
        nothing_usable=bool(errors) and not usable,
        needs_someone=bool(errors),  # as a run ends: a file without a row needs nobody
    )


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


def describe_cause(cause: Cause) -> str:
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
