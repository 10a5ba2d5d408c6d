"""What `loadsheet mapping preview`, `test` and `diff` do: show the result of a mapping, test it with golden cases, compare it with another.

Files are translated with one mapping, independent of their names. `preview --watch` shows the result again at each save of a file, after the
pause in which an editor completes it.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from loadsheet import exit_codes, object_storage
from loadsheet.checking import name_in_inbox
from loadsheet.cli.mapping import DiffOptions, PreviewOptions
from loadsheet.cli.options import ledger_to_read
from loadsheet.cli.output import print_json, print_lines, say
from loadsheet.display_text import count_of, printable
from loadsheet.errors import FileRefused, FolderError, LoadsheetError, MappingError
from loadsheet.ledger import Drop, SourceFile
from loadsheet.mapping.compile import CompiledMapping, version_of
from loadsheet.mapping.compile import load as load_mapping
from loadsheet.mapping.mapping_folder import LoadedMappings, load_folder
from loadsheet.mapping.routing import load_kept, route
from loadsheet.mapping.yamlfile import write_source
from loadsheet.mapping_tools.comparison import (
    CASES_FOLDER,
    Case,
    Comparison,
    PairVerdict,
    compare,
    differences_from_expectation,
    expectation_text,
    find_cases,
    matches_bare_name,
    now_of,
    roles_of,
    translate_files,
    translate_files_by_role,
)
from loadsheet.mapping_tools.value_origins import Preview, TracedCell, ValueOrigin
from loadsheet.mapping_tools.value_origins import preview as make_preview
from loadsheet.problems import Problem, Where
from loadsheet.settings import Settings

_SHORT = 48  # characters of a cell
_SHOWN = 20  # documents shown one by one; --json has them all

_CHANGES = frozenset({"created", "modified", "moved", "deleted"})  # reading a file is no change
_OF_MAPPINGS = frozenset({".yaml", ".yml", ".csv"})
_SETTLES_S = 0.2  # an editor writes a file in several steps


def mapping_named(name: str, settings: Settings) -> CompiledMapping:
    """The mapping file at this path, otherwise the mapping of this name in the folder. Raises MappingError, click.BadParameter."""
    if is_mapping_file(name):
        return load_mapping(Path(name), settings.assumptions, home_of(Path(name), settings))
    return mapping_among(load_folder(settings.mappings, settings.assumptions), name, settings)


def is_mapping_file(name: str) -> bool:
    """Whether this is the path of a mapping file, not the name of a mapping."""
    return Path(name).suffix in {".yaml", ".yml"} and Path(name).is_file()


def mapping_among(loaded_mappings: LoadedMappings, name: str, settings: Settings) -> CompiledMapping:
    """The mapping of this name in the folder. Raises MappingError, click.BadParameter."""
    loaded = {mapping.name: mapping for mapping in loaded_mappings}
    if name not in loaded:
        if broken := next((mapping for mapping in loaded_mappings.broken if name == mapping.name), None):
            raise broken.finding
        known = ", ".join(loaded) or "none"
        raise click.BadParameter(
            f"{name} is neither a mapping file nor a mapping in {settings.mappings}; known: {known}"
        )
    return loaded[name]


def home_of(path: Path, settings: Settings) -> Path | None:
    """The folder of mappings, if it contains this mapping file."""
    return settings.mappings if path.resolve().is_relative_to(settings.mappings.resolve()) else None


def mapping_for(files: Sequence[Path], settings: Settings) -> CompiledMapping:
    """The mapping of the folder that matches the first of these files. Raises MappingError, and FileRefused if none or several match."""
    loaded = load_folder(settings.mappings, settings.assumptions)
    name = name_in_inbox(files[0], loaded)
    routes = route([name], loaded)
    waiting = (mapping for mapping in loaded if name in route([name], [mapping]).waiting)
    if named := next((found.mapping for found in routes.complete), None) or next(waiting, None):
        return named
    if broken := next((mapping for mapping in loaded.broken if mapping.takes(name)), None):
        raise broken.finding
    raise FileRefused({**routes.unmapped, **routes.ambiguous, **routes.blocked}[name])


def show_preview(files: tuple[Path, ...], options: PreviewOptions, settings: Settings, *, as_json: bool) -> int:
    """Show the first records of files with these options. Returns the exit code."""
    name = options.name
    show = partial(_preview, files, name, settings, options.records, as_json=as_json)
    if not options.watching:
        return show()
    folders = [settings.mappings, *([Path(name).parent] if name and is_mapping_file(name) else [])]
    return show_at_each_save(show, files, folders)


def _preview(files: tuple[Path, ...], name: str | None, settings: Settings, records: int, *, as_json: bool) -> int:
    mapping = mapping_named(name, settings) if name else mapping_for(files, settings)
    shown, now = list[Preview](), datetime.now(UTC)
    for part in mapping.parts or (mapping,):
        found = translate_files(part, files, settings, now=now, documents_max=records)
        shown += [make_preview(part, document, found.tables) for document in found.documents]
    if as_json:
        print_json({**_heading(mapping), "records": [_preview_json(record) for record in shown]})
    elif sys.stdout.isatty():
        console = Console()
        for record in shown:
            console.print(_grid(record))
    else:
        for record in shown:
            click.echo(printable("\n".join(_lines(record))))
    wrong = any(problem.level == "error" for record in shown for problem in record.problems)
    return exit_codes.NEEDS_SOMEONE if wrong else 0


def _grid(document: Preview) -> Grid:
    rows = "; ".join(document.rows)
    grid = Grid("Cell", "Heading", "As sent", "", "Field", "Value", title_justify="left", header_style="bold")
    grid.title = _plain(f"{document.operation} {document.key}  ({rows})")
    at = {str(problem.where): problem for problem in document.problems}
    for value in document.values:
        place, label, text = _source(value)
        style = "yellow" if place in at else "dim" if not value.cells else ""
        near = _place(value.cells[0].where) if value.cells else ""
        grid.add_row(*map(_plain, (near, label, text, "->", value.path, value.value)), style=style)
    for cell in document.unused:
        style = "dim" if document.values else "yellow" if str(cell.where) in at else ""
        use = "not used" if document.values else ""
        grid.add_row(*map(_plain, (_place(cell.where), cell.label, _short(cell.text), "", use, "")), style=style)
    for problem in document.problems:
        style = "bold red" if problem.level == "error" else "yellow"
        hint = f" ({problem.hint})" if problem.hint else ""
        grid.add_row(
            _plain(_place(problem.where)), _plain(problem.where.column), _plain(_short(problem.found)), "!!",
            problem.code, _plain(f"{problem.text}{hint}"), style=style,
        )  # fmt: skip
    return grid


def _plain(text: str) -> str:
    """A text in which neither markup nor control characters have an effect."""
    return escape(printable(text))


def _lines(document: Preview) -> Iterator[str]:
    for value in document.values:
        place, label, text = _source(value)
        yield f"{document.key}\t{value.path}\t{value.value}\t{place}\t{label}\t{text}"
    for cell in document.unused:
        yield "\t".join((document.key, "", "", str(cell.where), cell.label, _short(cell.text)))
    yield from (f"{document.key}\t{problem}" for problem in document.problems)


def _source(value: ValueOrigin) -> tuple[str, str, str]:
    """Place, heading and text of the cells behind a value, in one line."""
    if not value.cells:
        return "", "", "(the mapping)"
    first, more = value.cells[0], value.cells_in_all - 1
    return str(first.where), first.label, _short(first.text) + (f" and {more} more" if more else "")


def _place(where: Where) -> str:
    """A short place: the sheet and cell, or the file and row."""
    return f"{where.sheet}!{where.cell}" if where.cell else f"{where.file}:{where.row}"


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHORT else f"{plain[: _SHORT - 3]}..."


def _preview_json(document: Preview) -> dict[str, Any]:
    return {
        "operation": document.operation,
        "key": document.key,
        "rows": list(document.rows),
        "values": [
            {"field": value.path, "value": value.value, "cells": [_cell(cell) for cell in value.cells]}
            for value in document.values
        ],
        "unused": [_cell(cell) for cell in document.unused],
        "problems": [problem.to_json() for problem in document.problems],
    }


def _cell(cell: TracedCell) -> dict[str, str]:
    return {"place": str(cell.where), "label": cell.label, "text": cell.text}


def run_tests(settings: Settings, folder: Path | None, *, update: bool, as_json: bool) -> int:
    """Run the golden tests in a folder (None: that of the mappings) and show what differs; returns the exit code. Raises MappingError."""
    place = folder or settings.mappings / CASES_FOLDER
    cases = find_cases(place) if place.is_dir() else []
    if not cases:
        raise MappingError("no cases found", file=str(place), hint="put files into MAPPING/ and use --update")
    loaded = load_folder(settings.mappings, settings.assumptions)
    differences = {
        case: _run_case(case, mapping_among(loaded, case.mapping, settings), settings, update=update) for case in cases
    }
    failed = {case: texts for case, texts in differences.items() if texts}
    if as_json:
        print_json(
            [{"mapping": case.mapping, "case": case.name, "differences": texts} for case, texts in differences.items()]
        )
    else:
        for case, texts in differences.items():
            print_lines([f"{'wrong' if texts else 'ok'}\t{case.mapping}/{case.name}"])
            for text in texts:
                print_lines([f"\t{text}"])
        say(f"{count_of(len(cases), 'case')}, {len(failed)} not as expected{', all rewritten' if update else ''}")
    return exit_codes.NEEDS_SOMEONE if failed else 0


def _run_case(case: Case, mapping: CompiledMapping, settings: Settings, *, update: bool) -> list[str]:
    now = now_of(case)
    try:
        found = translate_files(mapping, case.files, settings, now=now)
    except FileRefused as refused:
        return [str(refused.problem)]
    if not update:
        return differences_from_expectation(case, found.items)
    case.expected.write_text(expectation_text(mapping, now, found.items), encoding="utf-8")
    return []


def show_differences(settings: Settings, options: DiffOptions, *, as_json: bool) -> int:
    """Translate the files, or the last originals, with both mappings, and show what differs; returns the exit code. Raises FileRefused if
    there is nothing to compare.
    """
    old, new, files, last = options
    before, after = (load_mapping(path, settings.assumptions, home_of(path, settings)) for path in (old, new or old))
    now = datetime.now(UTC)
    total, used = Comparison(), dict[str, CompiledMapping]()
    drops = _last_originals(before, last, settings, as_read=new is None) if last else _drops(files, before, after)
    for drop, mapping in drops:
        used.setdefault(mapping.hash, mapping)
        roles = ((side, _named_roles(side, drop)) for side in (mapping, after))
        old_side, new_side = (translate_files_by_role(side, named, settings, now=now) for side, named in roles)
        total.merge(compare(old_side.documents, new_side.documents))
    if not total.counts:
        raise _nothing_in(files or [settings.archive_place], before, after)
    if as_json:
        print_json(_as_json([*used.values()], after, total))
    else:
        _print([*used.values()], after, total)
    return 0 if total.same else exit_codes.NEEDS_SOMEONE


def _last_originals(
    mapping: CompiledMapping, last: int, settings: Settings, *, as_read: bool
) -> list[tuple[dict[str, Path], CompiledMapping]]:
    """The files of the last drops that the mapping of this name read, by role, newest first, with this mapping or with the version that
    read them (`as_read`). Raises FolderError, LedgerError and MappingError.
    """
    with ledger_to_read(settings) as ledger:
        drops = ledger.queries.drops_read_by(mapping.name, last)
        versions = {drop.mapping_hash: mapping for drop in drops}
        for drop in drops if as_read else ():
            if versions[drop.mapping_hash] is mapping:
                source = ledger.queries.mapping_source(drop.mapping_hash)
                versions[drop.mapping_hash] = _version_of_run(drop, source, settings)
    return [
        (
            {file.role: _original(file, settings) for file in drop.data_files},
            versions[drop.mapping_hash],
        )
        for drop in drops
    ]


def _version_of_run(drop: Drop, source: dict[str, str], settings: Settings) -> CompiledMapping:
    """The version of a mapping that read a drop, from the files that the ledger kept. Raises MappingError."""
    with tempfile.TemporaryDirectory(prefix="loadsheet-") as folder:
        try:
            return load_kept(write_source(source, Path(folder)), settings.assumptions)
        except (ValueError, OSError, MappingError) as error:
            message = f"version {drop.mapping_version} as run {drop.run} used it cannot be loaded from the ledger"
            hint = "name a copy of it: mapping diff OLD NEW --last N"
            raise MappingError(message, file=drop.mapping, hint=hint) from error


def _original(file: SourceFile, settings: Settings) -> Path:
    path = object_storage.local_copy(file.kept_as, settings)
    if not path.is_file():
        raise FolderError(
            f"the original {file.name} is missing at {path}", todo="`loadsheet ledger check` lists all such files"
        )
    return path


def _named_roles(mapping: CompiledMapping, drop: Sequence[Path] | dict[str, Path]) -> dict[str, Path]:
    """The files of a drop by role of the mapping: as they were read, if the roles have the same names."""
    if isinstance(drop, dict):
        if drop.keys() == {mapping.main_role, *mapping.companions}:
            return drop
        drop = list(drop.values())
    return roles_of(mapping, drop)


def _drops(
    files: Sequence[Path], before: CompiledMapping, after: CompiledMapping
) -> list[tuple[tuple[Path, ...], CompiledMapping]]:
    """One drop for each file, or one for all files if the mapping has several, with the mapping before; a folder is one drop."""
    alone = [path for path in files if path.is_file()]
    folders = [sorted(inner for inner in path.iterdir() if inner.is_file()) for path in files if path.is_dir()]
    if before.companions:
        return [(tuple(drop), before) for drop in (alone, *folders) if drop]
    patterns = (*before.files, *after.files)
    return [
        ((path,), before)
        for path in [*alone, *(inner for folder in folders for inner in folder if matches_bare_name(patterns, inner))]
    ]


def _nothing_in(files: Sequence[Path], before: CompiledMapping, after: CompiledMapping) -> FileRefused:
    """The error that these files and folders have no document for either mapping."""
    patterns = ", ".join(dict.fromkeys((*before.files, *before.companions.values(), *after.files)))
    found = ", ".join(map(str, files))
    hint = "nothing to compare: give a file, or a folder with files of these names"
    return FileRefused(Problem("A101", Where(found), found, {"patterns": patterns}, hint))


def _print(old: Sequence[CompiledMapping], new: CompiledMapping, comparison: Comparison) -> None:
    for used in old:
        names = (f"{mapping.name} version {mapping.version} ({mapping.hash[:12]})" for mapping in (used, new))
        print_lines([" -> ".join(names)])
    for verdict in PairVerdict:
        if comparison.counts[verdict]:
            print_lines([f"{comparison.counts[verdict]:>8}  {verdict}"])
    for path, count in comparison.fields.most_common():
        print_lines([f"{count:>8}  differ in {path}"])
    shown = [pair for pair in comparison.pairs if pair.verdict is not PairVerdict.STILL_FAILING]
    for pair in shown[:_SHOWN]:
        print_lines([f"{pair.verdict}\t{pair.operation} {pair.key}"])
        for change in pair.changes:
            print_lines([f"\t{change.path}\t{change.old or 'nothing'} -> {change.new or 'nothing'}"])
        for problem in pair.problems:
            print_lines([f"\t{problem}"])
    if len(shown) > _SHOWN:
        print_lines([f"and {len(shown) - _SHOWN} more documents; --json shows all"])


def _heading(mapping: CompiledMapping) -> dict[str, Any]:
    version = mapping.version if not mapping.parts else version_of(mapping)
    return {"mapping": mapping.name, "version": version, "hash": mapping.hash}


def _as_json(old: Sequence[CompiledMapping], new: CompiledMapping, found: Comparison) -> dict[str, Any]:
    return {
        "old": _heading(old[0]),
        "older": [_heading(mapping) for mapping in old[1:]],
        "new": _heading(new),
        "counts": {verdict.value: found.counts[verdict] for verdict in PairVerdict},
        "fields": dict(found.fields.most_common()),
        "documents": [
            {
                "operation": pair.operation,
                "key": pair.key,
                "verdict": pair.verdict.value,
                "changes": [change._asdict() for change in pair.changes],
                "problems": list(pair.problems),
            }
            for pair in found.pairs
        ],
    }


def show_at_each_save(show: Callable[[], object], files: Iterable[Path], folders: Iterable[Path]) -> int:
    """Show now and after each save of one of `files`, or of a mapping or code table in `folders`. Returns 0 after Ctrl-C. Errors are
    shown, and the watch goes on.
    """
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            names = [name for name in (event.src_path, event.dest_path) if name]
            saves.note(event.event_type, {Path(os.fsdecode(name)) for name in names})

    saves, observer, handler = _Saves(files, folders), Observer(), Handler()

    def watch_folders() -> None:
        observer.unschedule_all()
        for folder, recursive in saves.folders():
            observer.schedule(handler, str(folder), recursive=recursive)

    watch_folders()
    observer.start()
    try:
        while True:
            _show(show)
            if saves.wait():
                watch_folders()
    except KeyboardInterrupt:
        return 0
    finally:
        observer.stop()
        observer.join()


class _Saves:
    """The saves since the last `wait`: of one of `files`, or of a mapping or code table in `trees`."""

    def __init__(self, files: Iterable[Path], trees: Iterable[Path]) -> None:
        self._files, self._trees = {path.resolve() for path in files}, {path.resolve() for path in trees}
        self._saved, self._replaced = threading.Event(), threading.Event()

    def folders(self) -> Iterator[tuple[Path, bool]]:
        """The folders to watch that are there, and whether with the folders in them."""
        yield from ((tree, True) for tree in self._trees if tree.is_dir())
        parents = {path.parent for path in self._files | self._trees} - self._trees
        yield from ((parent, False) for parent in parents if parent.is_dir())

    def note(self, change: str, paths: set[Path]) -> None:
        """Note a change of these paths, if it is a save. A tree that came, went or was renamed counts."""
        if change not in _CHANGES:
            return
        if change != "modified" and paths & self._trees:
            self._replaced.set()
            self._saved.set()
        if any(path in self._files or self._is_of_mappings(path) for path in paths):
            self._saved.set()

    def _is_of_mappings(self, path: Path) -> bool:
        return path.suffix.lower() in _OF_MAPPINGS and any(path.is_relative_to(tree) for tree in self._trees)

    def wait(self) -> bool:
        """Wait for a save. Returns whether the folders have to be watched anew, because one was replaced."""
        self._saved.wait()
        time.sleep(_SETTLES_S)
        self._saved.clear()
        replaced = self._replaced.is_set()
        self._replaced.clear()
        return replaced


def _show(show: Callable[[], object]) -> None:
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        click.clear()
    try:
        show()
    except click.ClickException as error:
        say(error.format_message())
    except LoadsheetError as error:
        say(str(error))
    except OSError as error:  # a file can be missing while it is saved
        say(f"{error.filename}: {error.strerror}")
    sys.stdout.flush()
    if on_terminal:
        say(f"Shown at {datetime.now().astimezone():%H:%M:%S}. Waits for the next save; Ctrl-C ends.")
