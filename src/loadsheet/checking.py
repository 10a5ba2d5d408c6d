"""Check: forecasts the outcome of files without a ledger. Nothing is sent, stored or moved.

Owns: the sink of a check, and the counts of its findings. Files have the names that they would have in the inbox. Fix files are read like
any other file, because only a ledger knows their originals.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from loadsheet import exit_codes
from loadsheet.display_text import count_of
from loadsheet.drop_translation import DropTranslation
from loadsheet.inbox import Candidate, InboxFile, Scan
from loadsheet.inbox.files import shown_name
from loadsheet.ingest import FilesInPlace, IngestContext, ReadDrop, RoutedFiles, ingest, route_files
from loadsheet.ledger import State
from loadsheet.ledger.recording import stop_reasons
from loadsheet.mapping.compile import CompiledMapping, part_reading
from loadsheet.mapping.documents import LOOKUP_RULE, Document, Ignored, TableNotes
from loadsheet.mapping.routing import route
from loadsheet.problem_groups import Causes
from loadsheet.problems import NOT_EXAMINED, PROPOSING_VALUES, WAITS_FOR_MAPPING, Problem
from loadsheet.reading import Row, Table
from loadsheet.reading.fix_file_tables import mark_of
from loadsheet.reading.tables import NOT_READ, WITHOUT_ROWS
from loadsheet.settings import Settings
from loadsheet.similar_text import proposed_value

_SHOWN = 3  # rows for each rule


class Checked(NamedTuple):
    """A document with the mapping that made it and its source tables."""

    document: Document
    tables: dict[str, Table]
    mapping: CompiledMapping


class Unusable(NamedTuple):
    """Why a file cannot be used, or why none of its documents is sent. `withdrawn` counts the sendable documents of it that were reported and
    are not sent.
    """

    problem: Problem
    withdrawn: int


CheckEvent = Checked | Problem | Unusable


@dataclass(slots=True)
class _Rows:
    """The number of rows that one rule ignored, and the row number and first text of the first ones."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)


class LeftOut:
    """The rows that rules ignored, counted by rule. Memory does not grow with the number of rows."""

    def __init__(self) -> None:
        self._by_rule: dict[tuple[str, str, str], _Rows] = {}
        self.tables: list[dict[str, Any]] = []
        """The tables that were read, as JSON values: unused columns, blank rows, and findings of the reader."""

    def add(self, ignored: Ignored, file: str, sheet: str) -> None:
        """Count a row of this file and sheet (empty in text files)."""
        rows = self._by_rule.setdefault((file, sheet, ignored.rule), _Rows())
        rows.count += 1
        if len(rows.first) < _SHOWN:
            text = next((cell.strip() for cell in ignored.row.cells if cell.strip()), "")
            rows.first.append((ignored.row.number, text))

    def note(self, table: Table, notes: TableNotes) -> None:
        """Store the findings about a table whose rows were read."""
        self.tables.append(
            {
                "file": table.file,
                "sheet": table.sheet,
                "table": table.name,
                "unused": list(notes.unused),
                "blank_rows": notes.blank_rows,
                "found": dict(table.reading_notes),
            }
        )

    @property
    def count(self) -> int:
        """The number of ignored rows."""
        return sum(rows.count for rows in self._by_rule.values())

    def sentences(self) -> Iterator[str]:
        """A line for each file and rule: the number of ignored rows, and the first ones."""
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
        """The counts by file, sheet and rule as JSON values."""
        return [
            {"file": file, "sheet": sheet, "rule": rule, "count": rows.count, "rows": [row for row, _ in rows.first]}
            for (file, sheet, rule), rows in self._by_rule.items()
        ]


def _table_notes(table: dict[str, Any]) -> Iterator[str]:
    if unused := table["unused"]:
        yield f"{count_of(len(unused), 'column')} not used ({', '.join(unused)})"
    if blank := table["blank_rows"]:
        yield f"{count_of(blank, 'blank row')} skipped"
    for name, text in table["found"].items():
        if name.startswith("hidden") or name in (NOT_READ, WITHOUT_ROWS) or "ignored" in text:
            yield f"{name}: {text}"


@dataclass(slots=True)
class CheckResult:
    """The result of a check: numbers of documents, sendable documents, errors and warnings; problems by cause; rows left out."""

    documents: int = 0
    usable: int = 0
    errors: int = 0
    warnings: int = 0
    causes: Causes = field(default_factory=Causes)
    left_out: LeftOut = field(default_factory=LeftOut)
    codes: set[str] = field(default_factory=set)

    def add(self, found: CheckEvent) -> None:
        """Count a finding."""
        if isinstance(found, Checked):
            self.documents += 1
            self.usable += found.document.usable
        elif isinstance(found, Unusable):
            self.usable -= found.withdrawn
        for problem in problems_of(found):
            self.causes.add(problem, self.documents if isinstance(found, Checked) else 0)
            self.codes.add(problem.code)
            if problem.level == "error":
                self.errors += 1
            else:
                self.warnings += 1

    @property
    def exit_code(self) -> int:
        """The exit code. As in a run, a file without rows needs no attention."""
        return exit_codes.exit_code(
            stopped=exit_codes.INTERNAL_ERROR if NOT_EXAMINED in self.codes else None,
            lacks_mapping=bool(self.codes & WAITS_FOR_MAPPING),
            nothing_usable=bool(self.errors) and not self.usable,
            needs_someone=bool(self.errors),
        )


def problems_of(found: CheckEvent) -> Sequence[Problem]:
    """The problems of a finding."""
    if isinstance(found, Problem):
        return (found,)
    return found.document.problems if isinstance(found, Checked) else (found.problem,)


class Corrections:
    """Values to try in place of those in the cells: of cells with a problem that proposes one (`propose`), and `given` ones (the text of a
    cell: the new text) in all columns. `cells` counts the cells in which a value was replaced, by old and new text.
    """

    def __init__(self, given: dict[str, str] | None) -> None:
        self._given = given or {}
        self._proposed: dict[tuple[str, str, str], dict[str, str]] = {}  # by file, sheet and heading
        self.cells: Counter[tuple[str, str]] = Counter()
        self._counted: set[tuple[str, str, int, int]] = set()  # cells; a table may be read more than once

    def propose(self, found: CheckEvent) -> None:
        """Note the values that the errors of a finding propose."""
        for problem in problems_of(found):
            where, meant = problem.where, proposed_value(problem.hint) if problem.code in PROPOSING_VALUES else ""
            if meant and problem.level == "error" and where.row and where.column and problem.found:
                self._proposed.setdefault((where.file, where.sheet, where.column), {})[problem.found] = meant

    def applied_to(self, table: Table) -> Table:
        """The table with the corrected cells. Nothing is written."""
        at = {
            position: {**self._given, **self._proposed.get((table.file, table.sheet, label), {})}
            for position, label in enumerate(table.header)
        }
        at = {position: values for position, values in at.items() if values}

        def rows() -> Iterator[Row]:
            for row in table.rows():
                yield self._corrected(table, row, at)

        return replace(table, rows=rows) if at else table

    def _corrected(self, table: Table, row: Row, at: dict[int, dict[str, str]]) -> Row:
        cells, shown = list(row.cells), row.shown
        for position, values in at.items():
            if (new := values.get(shown[position])) is not None:
                cells[position] = new
                cell = (table.file, table.sheet, row.number, position)
                self.cells[shown[position], new] += cell not in self._counted
                self._counted.add(cell)
        return row._replace(cells=tuple(cells))


def check_files(
    files: Sequence[Path],
    mappings: Sequence[CompiledMapping],
    settings: Settings,
    show: Callable[[CheckEvent], object] = lambda _found: None,
    corrections: Corrections | None = None,
) -> CheckResult:
    """Translate files and count the findings. `show` gets each finding at once: every document; Unusable for each file that cannot be
    used or whose documents would all be held; a Problem for a file that has no mapping or waits, and for damage in a table. The cells are
    read with the `corrections`.
    """
    context = IngestContext(settings, mappings, None, datetime.now(UTC))
    sink = CheckSink(show, corrections)
    for candidates in _without_equal_names(files, mappings, settings.inbox):
        found = _with_fix_file_hints(route_files(Scan(candidates), context), settings)
        for problem in (*found.routes.blocked.values(), *found.routes.waiting.values()):
            sink.report(problem)
        ingest(found, sink, context)
    return sink.result


def _with_fix_file_hints(found: RoutedFiles, settings: Settings) -> RoutedFiles:
    """The same, but a fix workbook under a name of its own is said to be one: only a run knows its original."""
    aside = {
        name: replace(
            problem, hint="this is a fix file: drop it into the inbox under any name; `run --dry-run` checks it"
        )
        if problem.code == "A101" and mark_of(found.candidates[name].path, settings.reading.inflated_bytes_max)
        else problem
        for name, problem in found.aside.items()
    }
    return replace(found, aside=aside)


def _without_equal_names(
    files: Sequence[Path], mappings: Sequence[CompiledMapping], inbox: Path
) -> list[tuple[Candidate, ...]]:
    """The files in as few groups as possible. Names are unique in a group: files of several folders may have the same name. Files of the inbox
    have the names that they have there.
    """
    groups: list[dict[str, Candidate]] = []
    for path in dict.fromkeys(path.absolute() for path in files):
        lies_there = path.is_relative_to(inbox.absolute())
        name = shown_name(path.relative_to(inbox.absolute())) if lies_there else name_in_inbox(path, mappings)
        group = next((group for group in groups if name not in group), None)
        if group is None:
            groups.append(group := {})
        group[name] = Candidate(name, path)
    return [tuple(group.values()) for group in groups]


class CheckSink(FilesInPlace):
    """Reports the documents and problems of drops to `show`, and counts them in `result`. With `corrections`, the cells are read with them."""

    def __init__(self, show: Callable[[CheckEvent], object], corrections: Corrections | None = None) -> None:
        self._show, self._corrections = show, corrections
        self._sendable = 0
        self.result = CheckResult()

    def report(self, found: CheckEvent) -> None:
        """Count and show a finding."""
        self.result.add(found)
        self._show(found)

    def set_aside(self, _file: InboxFile, problem: Problem) -> None:
        """Report the problem of a file that no mapping can read."""
        self.report(problem)

    def refuse(self, _files: Sequence[InboxFile], problem: Problem) -> None:
        """Report that a drop cannot be used. This overrides its earlier findings."""
        self.report(Unusable(problem, self._sendable))
        self._sendable = 0

    def take(self, drop: ReadDrop) -> None:
        """Report every document of a drop, then the problems of the whole drop. Raises FileRefused."""
        self._sendable = 0
        if self._corrections is not None:
            corrected = {name: self._corrections.applied_to(table) for name, table in drop.tables.items()}
            drop = replace(drop, translated=DropTranslation(drop.mapping, corrected, drop.context.now))
        fates = self._report_documents(drop)
        for name, notes in drop.notes().items():
            self.result.left_out.note(drop.tables[name], notes)
            for problem in notes.problems:
                self.report(problem)
        for problem in stop_reasons(drop.files[0].name, fates, drop.error_share_max, drop.doubts()):
            self.report(Unusable(problem, fates.pop(State.READY, 0)))
        self._sendable = 0

    def _report_documents(self, drop: ReadDrop) -> Counter[State]:
        """Report every document, and count the rows that are left out. Returns the number of documents by their fate."""
        tables, left_out = dict(drop.tables), self.result.left_out
        fates: Counter[State] = Counter()
        looked_up: dict[tuple[str, int], Ignored] = {}  # what no row of another table uses at the end is left out
        for found in drop.documents():
            if isinstance(found, Ignored) and found.rule.startswith(LOOKUP_RULE):
                looked_up[found.row.table, found.row.number] = found
            elif isinstance(found, Ignored):
                left_out.add(found, tables[found.row.table].file, tables[found.row.table].sheet)
            else:
                for index in found.links.looked_up:
                    looked_up.pop((found.rows[index].table, found.rows[index].number), None)
                fates[State.READY if found.usable else State.INVALID] += 1
                self._sendable = fates[State.READY]
                self.report(Checked(found, tables, part_reading(found.rows[0].table, drop.mapping)))
        for unused in looked_up.values():
            rule = f"{LOOKUP_RULE}not used by any row"
            left_out.add(unused._replace(rule=rule), tables[unused.row.table].file, tables[unused.row.table].sheet)
        return fates


def name_in_inbox(path: Path, mappings: Sequence[CompiledMapping]) -> str:
    """The name a file would have in the inbox: the shortest end of its path that matches one mapping, or one that does not load; else its
    bare name.
    """
    parts, blocked = shown_name(PurePath(*path.absolute().parts[1:])).split("/"), ""
    for start in reversed(range(len(parts))):
        name = "/".join(parts[start:])
        routes = route([name], mappings)
        if routes.complete or routes.waiting:
            return name
        blocked = blocked or (name if routes.blocked else "")
    return blocked or parts[-1]
