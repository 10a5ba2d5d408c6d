"""Fix files: recognised under any name, and read like their originals.

Owns: which drop a fix file fixes, the mapping of that drop (in its old version if it changed), and the conversion of the sheets of a fix
workbook to the tables of its original. Only reads the ledger and moves no file.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from loadsheet.errors import FileRefused, FolderError, MappingError
from loadsheet.inbox import Candidate
from loadsheet.ledger import Drop
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import (
    COUNTED_IN,
    MEANT_FOR,
    MEANT_IN,
    Document,
    Ignored,
    SourceRow,
    main_path,
    part_of_table,
)
from loadsheet.mapping.mapping_folder import of_shipper
from loadsheet.mapping.routing import FixOf, Route, Routes, current_mapping, is_for, load_kept, route
from loadsheet.mapping.yamlfile import write_source
from loadsheet.problems import Problem, Where
from loadsheet.reading import Layout, Table, Top, open_tables, read_tops
from loadsheet.reading.encoding import WIDE
from loadsheet.reading.fix_file_tables import (
    ADD_ROW,
    Fixed,
    FixFileMarks,
    OriginalTable,
    as_original,
    as_originals,
    first_mark,
    has_row_marks,
    holds_workbook,
    mark_of,
    mark_of_text,
    mark_of_top,
    numbers_text,
)
from loadsheet.reading.header import fold_label
from loadsheet.reading.refusals import SAVE_AS_XLSX, file_refusal
from loadsheet.reading.tables import RowFilters
from loadsheet.settings import Settings
from loadsheet.workbook_marks import FixedEntry, RowMark, sheet_titles, table_of

FIX_ROLE = "fix"
"""The role of a fix workbook: it replaces all files of its original."""

_TEXT_ENDINGS = (".csv", ".txt", ".tsv")
_AGAIN = "drop the original file again, with your corrections in it"
_AS_TEXT = "it is a fix workbook saved as text, in which numbers and dates can change"
_HEADINGS_BACK = "give the columns back the headings that they have in the fix workbook that you received"
_COPY_BACK = "copy that sheet back from the fix workbook that you received, also if nothing is wrong in it"
_NO_HEADINGS = frozenset({"R202", "R204", "R215"})
_OF_TWO_RECORDS = frozenset({"G401", "G402"})  # their advice is to delete rows, which would lose one of the records
_MOVED = "enter {0} in this row again, or drop the fix file that comes back as it is if the row belongs to {1}"


class FixFile(NamedTuple):
    """A fix workbook: its name, the drop that it fixes, and its route with the mapping of that drop."""

    name: str
    drop: Drop
    route: Route


@dataclass(frozen=True, slots=True)
class FixFiles:
    """The fix workbooks of an inbox by name, and the problems of those that cannot be used."""

    files: Mapping[str, FixFile]
    refused: Mapping[str, Problem]

    def __contains__(self, name: str) -> bool:
        """Whether this file is one of them."""
        return name in self.files or name in self.refused

    def merged_with(self, others: Self) -> Self:
        """These and others."""
        return replace(self, files={**self.files, **others.files}, refused={**self.refused, **others.refused})


@dataclass(frozen=True, slots=True)
class FixFileFinder:
    """Finds the fix files in an inbox, and their originals in the ledger. The order is: the properties of the document; if no mapping takes the
    file, the marks in its first rows; for text files, which mappings take like others, their first mark.
    """

    queries: LedgerQueries
    mappings: Sequence[CompiledMapping]
    settings: Settings

    def by_document_properties(self, candidates: Iterable[Candidate]) -> FixFiles:
        """The fix workbooks among these files by the properties of the document. Reads nothing else of them."""
        found: dict[str, FixFile | Problem] = {}
        for candidate in candidates:
            if is_text(candidate.name):
                continue
            mark = mark_of(candidate.path, self.settings.reading.inflated_bytes_max)
            if mark is None:
                continue
            drop = self.queries.drop_of_run(mark.run, mark.drop)
            if drop is None or not drop.mapping_hash.startswith(mark.mapping_hash):
                reason = f"this ledger does not know the files of run {mark.run}"
                found[candidate.name] = _original_unknown(candidate.name, reason)
            else:
                found[candidate.name] = self._fix_of(candidate.name, drop)
        return _split_refused(found)

    def by_row_marks(self, candidates: Iterable[Candidate]) -> FixFiles:
        """The fix workbooks among these files by the marks in their first rows: spreadsheets on the web keep no document properties."""
        found: dict[str, FixFile | Problem] = {}
        for candidate in candidates:
            if not holds_workbook(candidate.path):
                continue
            try:
                tops = read_tops(candidate.path, candidate.name, self.settings)
            except FileRefused:
                continue
            mark = next((mark for top in tops if (mark := mark_of_top(top)) is not None), None)
            drop = self.queries.drop_of_entry(mark.entry) if mark is not None else None
            if drop is not None:
                found[candidate.name] = self._fix_of(candidate.name, drop)
        return _split_refused(found)

    def text_originals(self, candidates: Iterable[Candidate]) -> dict[str, FixOf]:
        """The originals of the fix files among these text files, by their row marks. Reads the beginning of each file."""
        found = {candidate.name: self._text_original(candidate) for candidate in candidates}
        return {name: fix_of for name, fix_of in found.items() if fix_of is not None}

    def with_original_mappings(self, routes: Routes, texts: Mapping[str, FixOf]) -> Routes:
        """The routes, with the original's mapping for each text fix file in a folder of that mapping. Where it changed and no copy was kept,
        the files are unmapped, and so are texts of which the original is a workbook.
        """
        routes = self._with_absent_mappings(routes, texts)
        complete: list[Route] = []
        unmapped = dict(routes.unmapped)
        for chosen in routes.complete:
            name = chosen.files[chosen.mapping.main_role]
            if name not in texts:
                complete.append(chosen)
                continue
            drop = self.queries.drop(texts[name].drop)
            mapping = self._mapping_of(drop)
            if mapping is None:
                unmapped |= {file: _mapping_changed(file, chosen.mapping.name) for file in chosen.files.values()}
            elif not is_for(mapping, name, self.mappings):
                complete.append(chosen)
            elif any(table.sheet for table in self.queries.original(drop).tables):
                meant = {MEANT_FOR: mapping.name, MEANT_IN: mapping.language}
                problems = (file_refusal(file, _AS_TEXT, SAVE_AS_XLSX).problem for file in chosen.files.values())
                unmapped |= {one.where.file: replace(one, values={**meant, **one.values}) for one in problems}
            else:
                complete.append(_as_route(chosen, _mapping_for_texts(without_totals(mapping))))
        return replace(routes, complete=tuple(complete), unmapped=unmapped)

    def _with_absent_mappings(self, routes: Routes, texts: Mapping[str, FixOf]) -> Routes:
        """The routes, also of text fix files that none of these mappings takes: the original's mapping was removed or lies in another folder."""
        complete, waiting, unmapped = list(routes.complete), dict(routes.waiting), dict(routes.unmapped)
        for drop in sorted({texts[name].drop for name in unmapped if name in texts}):
            names = [name for name in unmapped if name in texts and texts[name].drop == drop]
            mapping = self._mapping_of(self.queries.drop(drop))
            if mapping is None:
                unmapped |= {name: _mapping_changed(name, texts[name].mapping) for name in names}
                continue
            own = route(names, [mapping], texts)
            complete += own.complete
            waiting |= own.waiting
            unmapped = {
                name: problem for name, problem in unmapped.items() if name not in names or name in own.unmapped
            }
        return replace(routes, complete=tuple(complete), waiting=waiting, unmapped=unmapped)

    def _fix_of(self, name: str, drop: Drop) -> FixFile | Problem:
        mapping = self._mapping_of(drop)
        if mapping is None:
            return _mapping_changed(name, drop.mapping)
        if not is_for(mapping, name, self.mappings):
            folder = f"the folder {mapping.shipper}" if mapping.shipper else "no shipper's folder"
            return _original_unknown(
                name, f"mapping {mapping.name} is for {folder}", f"drop it where {drop.name} was dropped"
            )
        return FixFile(name, drop, Route(without_totals(mapping), dict.fromkeys(mapping.layouts, name)))

    def _text_original(self, candidate: Candidate) -> FixOf | None:
        """The original of a text file by its first mark and the headings above; None if it is not a fix file known to this ledger."""
        found = mark_of_text(candidate.path)
        drop = self.queries.drop_of_entry(found.mark.entry) if found is not None else None
        if found is None or drop is None:
            return None
        nearest = max(drop.tables, key=lambda table: sum(label in found.headings for label in table.header))
        return FixOf(self.queries.original(drop).table(nearest.name).file, drop.mapping, drop.id)

    def _mapping_of(self, drop: Drop) -> CompiledMapping | None:
        """The mapping of a drop in the version it was read with; None if it changed and no copy was kept."""
        same = current_mapping(drop.mapping, self.mappings)
        if same is not None and same.hash == drop.mapping_hash:
            return same
        source = self.queries.mapping_source(drop.mapping_hash)
        with tempfile.TemporaryDirectory(prefix="mapping-", dir=self.settings.state) as folder:
            try:
                revived = load_kept(write_source(source, Path(folder)), self.settings.assumptions)
            except (ValueError, MappingError):
                return None
            except OSError as error:
                raise FolderError(f"{self.settings.state}: {error.strerror}") from error
        if revived.hash != drop.mapping_hash:
            return None
        shipper = same.shipper if same is not None else _shipper_of(self.queries.original(drop), main_path([*source]))
        return revived if not shipper else of_shipper(revived, shipper)


def _split_refused(found: Mapping[str, FixFile | Problem]) -> FixFiles:
    files = {name: one for name, one in found.items() if isinstance(one, FixFile)}
    return FixFiles(files, {name: one for name, one in found.items() if isinstance(one, Problem)})


def is_text(name: str) -> bool:
    """Whether a fix file of this name is a text file, which is routed like any other file."""
    return name.casefold().endswith(_TEXT_ENDINGS)


def _as_route(chosen: Route, mapping: CompiledMapping) -> Route:
    """The route with this version of its mapping, which may have read the file with others or name the file otherwise."""
    if mapping.companions:
        return replace(chosen, mapping=mapping)
    return replace(chosen, mapping=mapping, files={mapping.main_role: chosen.files[chosen.mapping.main_role]})


def _mapping_for_texts(mapping: CompiledMapping) -> CompiledMapping:
    """The mapping for fix files that are texts, as we write them, or as a spreadsheet program saves them: with another delimiter, or as
    UTF-8.
    """
    return replace(mapping, layouts={role: tuple(map(_layout_for_texts, own)) for role, own in mapping.layouts.items()})


def _layout_for_texts(layout: Layout) -> Layout:
    plain, own = _as_written(layout, None), layout.encodings
    is_wide = any(encoding.lower().startswith(WIDE) for encoding in own)
    delimiters = dict.fromkeys((*layout.delimiters, *Layout("", ()).delimiters))
    encodings = own if is_wide else tuple(dict.fromkeys(("utf-8-sig", *own)))
    return replace(plain, encodings=encodings, delimiters=tuple(delimiters), quote='"', escape="")


def open_fix(fix: FixFile, path: Path, settings: Settings, queries: LedgerQueries) -> dict[str, Table]:
    """The tables of a fix workbook by the mapping's names, each from the sheet written for it. If sheets were renamed, their headings
    decide, or their row marks where the mapping reads several sheets. Raises FileRefused.
    """
    titles = sheet_titles((table.name, table.file, table.sheet) for table in fix.drop.tables)
    layouts = [layout for own in fix.route.mapping.layouts.values() for layout in own]
    several = {layout.name: layout for layout in layouts if layout.reads_several_sheets}
    written = [_as_written(layout, titles.get(layout.name)) for layout in layouts if layout.name not in several]
    there = _sheets_there(fix, read_tops(path, fix.name, settings), titles, queries) if several else {}
    names = (name for name in there if table_of(name) in several)
    written += [_as_written(replace(several[table_of(name)], name=name), there[name]) for name in names]
    try:
        return open_tables(path, fix.name, written, settings)
    except FileRefused as refused:
        if refused.problem.code == "R204":
            raise FileRefused(replace(refused.problem, hint=_HEADINGS_BACK)) from refused
        if refused.problem.code != "R210":
            raise
        unnamed = refused.problem
    by_headings = [one if table_of(one.name) in several else replace(one, sheets=()) for one in written]
    try:
        return open_tables(path, fix.name, by_headings, settings)
    except FileRefused as refused:
        if refused.problem.code not in _NO_HEADINGS:
            raise
    missing = [titles.get(one.name, one.name) for one in by_headings if not _is_there(one, path, fix.name, settings)]
    raise FileRefused(replace(unnamed, values={**unnamed.values, "expected": ", ".join(missing)}, hint=_COPY_BACK))


def _sheets_there(fix: FixFile, tops: list[Top], titles: Mapping[str, str], queries: LedgerQueries) -> dict[str, str]:
    """The sheets of a fix workbook that hold rows of its original, by the original's table. Raises FileRefused if there are none."""
    there = {top.sheet.casefold(): top.sheet for top in tops}
    found = {name: there[title.casefold()] for name, title in titles.items() if title.casefold() in there}
    marks = {top.sheet: mark for top in tops if (mark := mark_of_top(top)) and top.sheet not in found.values()}
    entries = queries.entries_by_id([mark.entry for mark in marks.values()]) if marks else ()
    tables = {entry.id: entry.rows[0].table for entry in entries if entry.rows}
    found = {tables[mark.entry]: sheet for sheet, mark in marks.items() if mark.entry in tables} | found
    if not found:
        values = {"expected": ", ".join(titles.values()), "sheets": ", ".join(there.values())}
        raise FileRefused(Problem("R210", Where(fix.name), "", values, _COPY_BACK))
    return found


def _is_there(layout: Layout, path: Path, name: str, settings: Settings) -> bool:
    """Whether a sheet has the headings of this table."""
    try:
        open_tables(path, name, [layout], settings)
    except FileRefused as refused:
        return refused.problem.code not in _NO_HEADINGS
    return True


class _RowWithMark(NamedTuple):
    row: SourceRow
    mark: RowMark


@dataclass(frozen=True, slots=True)
class FixedEntries:
    """The entries that the documents of a fix file fix, by the marks in the rows of its tables. `look_up` returns entries by number."""

    tables: Mapping[str, Table]
    marks: FixFileMarks
    look_up: Callable[[Sequence[int]], Mapping[int, FixedEntry]]

    def named(self, document: Document) -> Document:
        """The document with the entries that it fixes, and the problems of rows whose identifier is now that of another record."""
        if not (marked := self._marked(document, document.links.looked_up)):
            return document
        entries = tuple(sorted({mark.entry for _, mark in marked}))
        moved = self._moved_rows(document)
        others = (one for one in document.problems if not moved or one.code not in _OF_TWO_RECORDS)
        return replace(document, links=replace(document.links, fix_of=entries), problems=(*others, *moved))

    def _marked(self, document: Document, without: Sequence[int]) -> list[_RowWithMark]:
        """The marked rows of a document, except those that belong to other documents as well."""
        rows = (row for index, row in enumerate(document.rows) if index not in without)
        return [
            _RowWithMark(row, mark) for row in rows if (mark := self.marks.mark_of(row.table, row.number)) is not None
        ]

    def _moved_rows(self, document: Document) -> list[Problem]:
        """The problems of a document with rows of another record, or without all of its own, as when an identifier was filled down too far.
        Rows that hold several records side by side are passed over, and rows that were copied.
        """
        marked = self._marked(document, document.links.shared)
        is_copied = any(problem.code == "R236" for problem in document.problems)
        if not document.key or is_copied or any(row.table in document.links.sets for row, _ in marked):
            return []
        lost = {entry: self._lost(entry, document, marked) for entry in {mark.entry for _, mark in marked}}
        if len(lost) == 1 and not any(lost.values()):
            return []
        entries = self.look_up(sorted(lost))
        problems = []
        for row, mark in marked:
            record = entries.get(mark.entry, FixedEntry(""))
            rows, hint = numbers_text(lost[mark.entry]), ADD_ROW  # those of this record in other documents
            if record.key != document.key:  # the row of another record
                rows, hint = str(mark.number), _MOVED.format(record.key, document.key)
            if rows and record.key and not record.may_move_rows:
                values = {"rows": rows, "of": mark.of, "key": record.key}
                problems.append(Problem("R237", self.tables[row.table].where(row.number), "", values, hint))
        return problems

    def _lost(self, entry: int, document: Document, marked: Sequence[_RowWithMark]) -> list[int]:
        """The rows of an entry in the tables of these rows that are in other documents, by number."""
        tables = {row.table for row, _ in marked}
        here = {(row.table, row.number) for row in document.rows}
        there = (place for place in self.marks.rows_of(entry) if place[0] in tables and place not in here)
        return sorted(mark.number for place in there if (mark := self.marks.mark_of(*place)) is not None)


class OpenedDrop(NamedTuple):
    """Opened tables by the mapping's names. Those of a fix file have the form of its original: `fixes` is the drop that it fixes (None if
    unknown), and `entries` are those that its documents fix.
    """

    tables: dict[str, Table]
    fixes: Drop | None = None
    entries: FixedEntries | None = None

    def with_fixed_entries(self, documents: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        """The documents; those of a fix file carry the ids of the entries they fix."""
        if (entries := self.entries) is None:
            return iter(documents)
        return (found if isinstance(found, Ignored) else entries.named(found) for found in documents)


def as_original_drop(
    tables: Mapping[str, Table], queries: LedgerQueries, mapping: CompiledMapping, fixed: Drop | None = None
) -> OpenedDrop:
    """The tables of a fix file in the form of its original; it fixes the drop `fixed`, or else the one that its first mark names. Other
    tables are returned unchanged, also those whose marks name a drop of another `mapping`, which may be another shipper's. Raises
    FileRefused.
    """
    if fixed is None:
        if not any(has_row_marks(table) for table in tables.values()):
            return OpenedDrop(dict(tables))
        marks = (first_mark(table) for table in tables.values() if has_row_marks(table))
        mark = next((mark for mark in marks if mark is not None), None)
        fixed = queries.drop_of_entry(mark.entry) if mark is not None else None
        if fixed is not None and fixed.mapping != mapping.name:
            return OpenedDrop(dict(tables))
    originals = {}
    if fixed is not None:
        first = {table.name: (table.file, table.sheet) for table in queries.original(fixed).tables}
        originals = {
            table.name: OriginalTable(table.header, *first.get(table.name, ("", ""))) for table in fixed.tables
        }
    given = [_with_needed(as_original(table, originals.get(name)), mapping) for name, table in tables.items()]
    for fixed_table in given:
        _check_headings(fixed_table.table, mapping)
    if fixed is not None and any(COUNTED_IN in table.reading_notes for table in tables.values()):
        given = _by_mapping(given, fixed, queries)
    found = as_originals(given, queries.fixed_entries)
    entries = FixedEntries(found.tables, found.marks, queries.fixed_entries)
    return OpenedDrop(found.tables, fixed, entries)


def _check_headings(table: Table, mapping: CompiledMapping) -> None:
    """Raises FileRefused if the table lacks a column that the mapping reads and the original had: its values would be left out."""
    layouts = (layout for own in mapping.layouts.values() for layout in own if layout.name == table_of(table.name))
    read = {fold_label(label) for layout in layouts for column in layout.columns for label in column.labels}
    placed = zip(table.header, table.fix_positions, strict=True)
    lost = [label for label, place in placed if place < 0 and fold_label(label) in read]
    if lost:
        values = {"row": table.header_row, "missing": ", ".join(lost)}
        raise FileRefused(Problem("R204", table.where(table.header_row), "", values, _HEADINGS_BACK))


def _with_needed(fixed: Fixed, mapping: CompiledMapping) -> Fixed:
    """The table with the columns that each of its rows must fill in. None are known of rows of several kinds, or of several mappings."""
    table = fixed.table
    plans = [plan for plan in mapping.plan.tables if plan.source == table_of(table.name)]
    names = [
        f"{plan.prefix}{column.cells}"
        for plan in plans[: len(plans) == 1]
        for column in plan.columns
        if column.spec.required and column.spec.default is None and not column.spec.fill_down
    ]
    needed = {table.columns[name] for name in names if name in table.columns}
    return replace(fixed, needed=frozenset(needed))


def _by_mapping(given: Sequence[Fixed], fixed: Drop, queries: LedgerQueries) -> list[Fixed]:
    """The tables of a fix file in which several mappings read one sheet. Each gets the rows of its own entries, and new rows."""
    parts = {entry.id: part_of_table(entry.rows[0].table) for entry in queries.entries_of(fixed.id) if entry.rows}

    def only(part: str) -> Callable[[int], bool]:
        return lambda entry: parts.get(entry, part) == part

    return [replace(table, takes=only(part_of_table(table.table.name))) for table in given]


def without_totals(mapping: CompiledMapping) -> CompiledMapping:
    """The mapping without checks of totals: total rows of a fix file are those of the whole original."""
    tables = tuple(
        replace(table, totals=replace(table.totals, sums=())) if table.totals is not None else table
        for table in mapping.plan.tables
    )
    parts = tuple(map(without_totals, mapping.parts))
    return replace(mapping, plan=replace(mapping.plan, tables=tables), parts=parts)


def _mapping_changed(name: str, mapping: str) -> Problem:
    return _original_unknown(name, f"mapping {mapping} has changed since, and the old version was not kept")


def _original_unknown(name: str, reason: str, hint: str = _AGAIN) -> Problem:
    return Problem("A112", Where(name), name, {"reason": reason}, hint)


def _shipper_of(first: Drop, path: str) -> str:
    """The shipper of a removed mapping, if the mapping and its files were in folders of the same name."""
    above, here = path.rpartition("/")[0].rpartition("/")[2], first.name.partition("/")[0]
    return above if "/" in first.name and above.casefold() == here.casefold() else ""


def _as_written(layout: Layout, title: str | None) -> Layout:
    """The layout of a table in a fix workbook: a plain table below one header row."""
    return replace(
        layout,
        sheets=(title,) if title is not None else (),
        header_row="auto",
        header_rows=1,
        row_filters=RowFilters(units_row=False),
    )
