"""`loadsheet check`: what would become of files, without sending or keeping anything."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from loadsheet.causes import Cause, Causes
from loadsheet.cli.left_out import LeftOut
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.inbox import InboxFile
from loadsheet.intake import error_share_max, open_route
from loadsheet.ledger import State
from loadsheet.ledger.stopping import why_stopped
from loadsheet.mapping import Document, Ignored, Mapping, Route, load_folder, route, translate
from loadsheet.mapping.misread import Misreadings
from loadsheet.problems import FileRefused, Problem
from loadsheet.reading import Row, Sentinel, Table, make_ready
from loadsheet.settings import Settings

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
    make_ready(settings)
    loaded = load_folder(settings.mappings, settings.assumptions)
    usable, count, errors, causes, problems, lines = 0, 0, 0, Causes(), [], _Lines()
    left_out = LeftOut()
    for found in documents_of(files, loaded, settings, left_out):
        for problem in _problems_of(found):
            causes.add(problem, found.document.key if isinstance(found, Checked) else "")
            count, errors = count + 1, errors + (problem.level == "error")
            if as_json and not payloads:
                problems.append(problem.to_json())
            elif every:
                say(str(problem))
        usable += _sendable(found)
        if payloads and isinstance(found, Checked) and found.document.usable:
            lines.add(_line(found))
    lines.flush()
    if as_json and not payloads:
        told = {"left_out": left_out.count, "left_out_by": left_out.to_json()}
        print_json({"usable": usable, "errors": errors, **told, "causes": causes.ranked(), "problems": problems})
    else:
        for cause in causes.ranked():
            say(sentences_on(cause))
        for line in left_out.sentences():
            say(line)
        say(f"{usable} documents could be sent; {errors} errors, {count - errors} warnings")
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
    Problem for one that nothing takes or that waits, and warnings of what looks damaged in one. `left_out` takes the rows that rules
    leave out.
    """
    by_name = {_name(path, mappings): path for path in files}
    routes = route(list(by_name), mappings)
    yield from (*routes.unmapped.values(), *routes.ambiguous.values(), *routes.waiting.values())
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
    warnings: list[Problem] = []
    misreadings = Misreadings()
    for found in misreadings.watch(translated(chosen.mapping, tables, warnings.append)):
        if isinstance(found, Ignored):
            table = tables[found.row.table]
            left_out.add(found, table.file, table.sheet)
        else:
            fates[State.READY if found.usable else State.INVALID] += 1
            yield Checked(found, tables, chosen.mapping)
    yield from warnings
    name, share_max = next(iter(opened.values())).name, error_share_max(chosen.mapping, settings)
    for problem in why_stopped(name, fates, share_max, misreadings.problems(tables)):
        yield Unusable(problem, fates.pop(State.READY, 0))


def translated(
    mapping: Mapping, tables: dict[str, Table], note: Callable[[Problem], object]
) -> Iterator[Document | Ignored]:
    """What a mapping makes of tables, row by row; when they are through, `note` hears what looks damaged in them."""
    sentinels = {name: Sentinel(table) for name, table in tables.items()}
    watched = {name: table.watched(partial(_watched, sentinels[name], table)) for name, table in tables.items()}
    yield from translate(mapping, watched, now=datetime.now(UTC))
    for sentinel in sentinels.values():
        for problem in sentinel.problems():
            note(problem)


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
