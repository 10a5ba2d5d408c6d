"""The checks of a drop while it is read: its documents as they pass, and its tables once the last one has passed.

A problem of one document goes with that document, a warning on a table into its notes. A doubt concerns all documents: nothing is sent then
until a person decides. Doubts are a wrong notation, and differences from earlier files of the mapping by which rows or values may be missing:
columns that came or went, sheets that are new or were lost, and a last line without its end. Owns: which checks there are, and which of two
says the same.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from shlex import quote

from loadsheet.drop_translation import DropTranslation
from loadsheet.heading_checks import HeadingNotes, sheets_to_read
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import Document, Ignored, SourceRow, TableNotes
from loadsheet.mapping.plausibility import DateRangeCheck, NotationCheck, PostcodeCheck, RepeatedLineCheck
from loadsheet.problems import Problem, Where
from loadsheet.reading import Table, begins_like_totals, end_of_subtotal, places_of_totals
from loadsheet.reading.header import fold_label
from loadsheet.reading.tables import ALIKE_NOT_READ, LAST_LINE, NOT_READ, UNENDED
from loadsheet.similar_text import short_list
from loadsheet.workbook_marks import sheet_of

_WARNINGS_IMPLIED_BY = {"L621": ("R250", "R255", "R257"), "L623": ("R245",)}
"""By doubt, the warnings on a table that say no more than it."""


class DropChecks:
    """The checks of one drop. A fix workbook holds only the wrong records of a drop whose tables were checked before: it is not compared with
    earlier files, and there are no doubts about it.
    """

    def __init__(
        self, mapping: CompiledMapping, tables: Mapping[str, Table], queries: LedgerQueries | None, *, is_fix: bool
    ) -> None:
        self._lineage, self._tables, self._is_fix = mapping.lineage, tables, is_fix
        self._earlier = EarlierFiles(None if is_fix else queries, mapping.name)
        self._notation = NotationCheck()
        self._postcodes = PostcodeCheck.of(mapping.lineage, mapping.plan.tables)
        self._repeated_lines = RepeatedLineCheck()
        self._totals_named: Counter[str] = Counter()

    def watch(
        self, documents: Iterable[Document | Ignored], dates: DateRangeCheck | None
    ) -> Iterator[Document | Ignored]:
        """The documents with their warnings. `dates` warns of dates far from now; None: nothing does."""
        documents = self._postcodes.watch(documents, self._lineage, self._tables)
        if dates is not None:
            documents = dates.watch(documents, self._lineage, self._tables)
        return self._notation.watch(self._repeated_lines.watch(self._counting_totals(documents)))

    def notes(self, translated: DropTranslation) -> Mapping[str, TableNotes]:
        """The notes on each table. No row of totals is suspected if a rule of the mapping names it."""
        return {name: self._with_warnings(name, notes, translated) for name, notes in translated.notes().items()}

    def doubts(self, translated: DropTranslation) -> Sequence[Problem]:
        """The problems of columns read in the wrong notation, and of what earlier files had or had not."""
        if self._is_fix:
            return ()
        missing = (doubt for name in self._tables for doubt in self._doubts_about(name, translated))
        return [*self._notation.problems(self._tables), *missing]

    def _doubts_about(self, name: str, translated: DropTranslation) -> list[Problem]:
        return self._earlier.doubts(name, self._tables[name], translated.headings(name))

    def _with_warnings(self, name: str, notes: TableNotes, translated: DropTranslation) -> TableNotes:
        table = self._tables[name]
        implied = {
            code
            for problem in self._doubts_about(name, translated)
            for code in _WARNINGS_IMPLIED_BY.get(problem.code, ())
        }
        found = [problem for problem in notes.problems if not self._is_named(name, problem)]
        found += self._earlier.warnings(name, table, translated.headings(name))
        found = [problem for problem in found if problem.code not in implied]
        if not self._is_fix:
            known = {problem.where.column for problem in found if problem.code == "R223"}
            short = [problem for problem in self._postcodes.problems(name) if problem.where.column not in known]
            found += [*self._repeated_lines.problems(name, table), *short]
        return notes._replace(problems=tuple(found))

    def _counting_totals(self, documents: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        for found in documents:
            for row in _rows_of_totals(found):
                first = min(self._tables[row.table].columns.values(), default=0)
                self._totals_named[row.table] += any(
                    begins_like_totals(row.cells[place]) or end_of_subtotal(row.cells[place])
                    for place in places_of_totals(first, len(row.cells))
                )
            yield found

    def _is_named(self, table: str, problem: Problem) -> bool:
        return problem.code == "R242" and problem.values["count"] <= self._totals_named[table]


def _rows_of_totals(found: Document | Ignored) -> Sequence[SourceRow]:
    """The rows that a rule of the mapping left out or compared as totals."""
    if isinstance(found, Ignored):
        return (found.row,) if found.rule.startswith(("totals:", "ignore_rows:")) else ()
    return found.rows if any(problem.code == "G408" for problem in found.problems) else ()


class EarlierFiles:
    """The tables of a mapping in earlier files of which something went to the exchange, or is to go. `queries`: the ledger; None: none is known."""

    def __init__(self, queries: LedgerQueries | None, mapping: str) -> None:
        self._queries, self._mapping = queries, mapping

    def doubts(self, name: str, table: Table, headings: HeadingNotes) -> list[Problem]:
        """The problems of the whole file by which rows or values may be missing. `name` is that of the table."""
        may_lose = bool(headings.missing and headings.unused)
        may_lose_sheets = (NOT_READ if sheet_of(name) else ALIKE_NOT_READ) in table.reading_notes
        if not (may_lose or may_lose_sheets or table.reading_notes.get(LAST_LINE) == UNENDED):
            return []
        names, headers, notes = self._tables(name)
        if not names:
            return []
        lost = _lost_columns(table, headings, chain.from_iterable(headers)) if may_lose else None
        found = (lost, _new_sheets(table, notes), _lost_sheets(table, names, notes), _cut_off(table, notes))
        return [problem for problem in found if problem is not None]

    def warnings(self, name: str, table: Table, headings: HeadingNotes) -> list[Problem]:
        """The warnings of columns that came or went."""
        if not (headings.unused or headings.missing):
            return []
        _, headers, _ = self._tables(name)
        return list(_changed_columns(table, headings, headers)) if headers else []

    def _tables(self, name: str) -> tuple[list[str], list[Sequence[str]], list[Mapping[str, str]]]:
        """The names of a table in earlier files, its headings and the notes on it there."""
        found = [] if self._queries is None else self._queries.earlier_tables(self._mapping, name)
        return [name for name, _, _ in found], [header for _, header, _ in found], [notes for _, _, notes in found]


def _new_sheets(table: Table, earlier_notes: Iterable[Mapping[str, str]]) -> Problem | None:
    """The problem of a workbook with a sheet that is not read although it has the columns of the table and rows of its own, if no earlier file
    had it: its rows would be left out. `earlier_notes` are those on the table in earlier files.
    """
    known = {title for found in earlier_notes for title in _sheets_in(found, ALIKE_NOT_READ)}
    new = [title for title in _sheets_in(table.reading_notes, ALIKE_NOT_READ) if title not in known]
    if not new:
        return None
    hint = (
        f"{sheets_to_read(table, 'it')}, or hide or delete it, and drop the file again; "
        f"if it is not meant: loadsheet retry --file {quote(table.file)}"
    )
    return Problem("L623", table.where(table.header_row), ", ".join(new), {}, hint)


def _lost_sheets(
    table: Table, earlier_names: Iterable[str], earlier_notes: Collection[Mapping[str, str]]
) -> Problem | None:
    """The problem of a workbook with a sheet on which earlier files had the table, and which is not read: its headings may be gone."""
    read = dict.fromkeys(filter(None, map(sheet_of, earlier_names)))
    known = [title for title in read if any(_has_sheet(found, NOT_READ, title) for found in earlier_notes)]
    lost = [title for title in read if title not in known and _has_sheet(table.reading_notes, NOT_READ, title)]
    if not lost:
        return None
    hint = (
        "restore its headings, or hide or delete it, and drop the file again; "
        f"if it is not to be read any more: loadsheet retry --file {quote(table.file)}"
    )
    return Problem("L624", table.where(table.header_row), ", ".join(lost), {}, hint)


def _cut_off(table: Table, earlier_notes: Iterable[Mapping[str, str]]) -> Problem | None:
    """The problem of a text file that ends within a line although earlier files of its mapping did not: a transfer may have cut it off within
    its last cell. Versions before 0.6 did not note how a file ends.
    """
    ends = {found[LAST_LINE] for found in earlier_notes if LAST_LINE in found}
    if table.reading_notes.get(LAST_LINE) != UNENDED or not ends or UNENDED in ends:
        return None
    hint = f"if it is, drop the complete file; if the file is complete: loadsheet retry --file {quote(table.file)}"
    return Problem("L625", Where(table.file), "", {}, hint)


def _lost_columns(table: Table, headings: HeadingNotes, earlier_headings: Iterable[str]) -> Problem | None:
    """The problem of a table that lacks a column that earlier files had, while a column that none of them had is not read: it may be the
    same one, and its values would be left out.
    """
    known = {fold_label(heading) for heading in earlier_headings}
    lost = [labels[0] for labels in headings.missing if any(fold_label(label) in known for label in labels)]
    new = _unknown_columns(table, headings, known)
    if not (lost and new):
        return None
    hint = (
        "correct the headings, or add the new ones to `aliases` in the mapping, and drop the file again; "
        f"if nothing is to be sent for the missing columns: loadsheet retry --file {quote(table.file)}"
    )
    values = {"missing": short_list(lost, 5)}
    return Problem("L621", table.where(table.header_row), short_list(new, 5), values, hint)


def _changed_columns(
    table: Table, headings: HeadingNotes, earlier_headers: Sequence[Sequence[str]]
) -> Iterator[Problem]:
    """The warnings of columns that are not read and that no earlier file had, whose values may change what a row means, and of missing ones
    that all of them had. Headings without a letter, such as a date, may differ each day.
    """
    misspelt = [problem.found for problem in headings.problems if problem.code == "R241"]
    files = [{fold_label(heading) for heading in header} for header in earlier_headers]
    known = {"", *chain.from_iterable(files), *map(fold_label, misspelt)}
    if new := [label for label in _unknown_columns(table, headings, known) if any(map(str.isalpha, label))]:
        hint = "if they matter, add them to the mapping"
        yield Problem("R255", table.where(table.header_row), short_list(new, 5), {}, hint, "warning")
    if misspelt or any(problem.code == "R250" for problem in headings.problems):
        return
    wanted = [(labels[0], {fold_label(label) for label in labels}) for labels in headings.missing]
    if gone := [label for label, folded in wanted if not any(folded.isdisjoint(header) for header in files)]:
        hint = "if they are not missing on purpose, restore them and drop the file again"
        yield Problem("R257", table.where(table.header_row), short_list(gone, 5), {}, hint, "warning")


def _unknown_columns(table: Table, headings: HeadingNotes, known: Collection[str]) -> list[str]:
    """The columns that are not read and whose headings are not `known`."""
    return [shown for place, shown in headings.unused.items() if fold_label(table.header[place]) not in known]


def _sheets_in(found: Mapping[str, str], note: str) -> list[str]:
    """The sheets that a note on a table names; a title with a comma is several."""
    return [title for title in _titles(found, note).split(", ") if title]


def _has_sheet(found: Mapping[str, str], note: str, title: str) -> bool:
    return f", {title}, " in f", {_titles(found, note)}, "


def _titles(found: Mapping[str, str], note: str) -> str:
    return found.get(note, "").removesuffix(")").partition(" (")[2]
