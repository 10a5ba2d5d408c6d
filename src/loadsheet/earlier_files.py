"""What differs between a table and those of earlier files of its mapping: columns that came or went, sheets that are new or were lost, and a last
line without its end.

A difference by which rows or values may be missing is a problem of the whole file: nothing of it is sent until a person decides. Others
are warnings, with the first file that has them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from shlex import quote

from loadsheet.problems import Problem, Where
from loadsheet.reading import Table
from loadsheet.reading.header import fold_label
from loadsheet.reading.tables import ALIKE_NOT_READ, LAST_LINE, NOT_READ, UNENDED
from loadsheet.row_counts import HeadingNotes, sheets_to_read
from loadsheet.similar_text import short_list
from loadsheet.workbook_marks import sheet_of


def new_sheets(table: Table, earlier: Iterable[Mapping[str, str]]) -> Problem | None:
    """The problem of a workbook with a sheet that is not read although it has the columns of the table and rows of its own, if no earlier file
    had it: its rows would be left out. `earlier` are the notes on the table in earlier files.
    """
    known = {title for found in earlier for title in _sheets_in(found, ALIKE_NOT_READ)}
    new = [title for title in _sheets_in(table.found, ALIKE_NOT_READ) if title not in known]
    if not new:
        return None
    hint = (
        f"{sheets_to_read(table, 'it')}, or hide or delete it, and drop the file again; "
        f"if it is not meant: loadsheet retry --file {quote(table.file)}"
    )
    return Problem("L623", table.where(table.header_row), ", ".join(new), {}, hint)


def lost_sheets(table: Table, names: Iterable[str], earlier: Iterable[Mapping[str, str]]) -> Problem | None:
    """The problem of a workbook with a sheet on which earlier files had the table, and which is not read: its headings may be gone. `names` are
    those of the table in earlier files, `earlier` the notes on it there.
    """
    read, known = set(map(sheet_of, names)), {title for found in earlier for title in _sheets_in(found, NOT_READ)}
    lost = [title for title in _sheets_in(table.found, NOT_READ) if title in read - known]
    if not lost:
        return None
    hint = (
        "restore its headings, or hide or delete it, and drop the file again; "
        f"if it is not to be read any more: loadsheet retry --file {quote(table.file)}"
    )
    return Problem("L624", table.where(table.header_row), ", ".join(lost), {}, hint)


def cut_off(table: Table, earlier: Iterable[Mapping[str, str]]) -> Problem | None:
    """The problem of a text file that ends within a line although earlier files of its mapping did not: a transfer may have cut it off within
    its last cell. `earlier` are the notes on the table in earlier files; versions before 0.6 did not note it.
    """
    ends = {found[LAST_LINE] for found in earlier if LAST_LINE in found}
    if table.found.get(LAST_LINE) != UNENDED or not ends or UNENDED in ends:
        return None
    hint = f"if it is, drop the complete file; if the file is complete: loadsheet retry --file {quote(table.file)}"
    return Problem("L625", Where(table.file), "", {}, hint)


def lost_columns(table: Table, headings: HeadingNotes, earlier: Iterable[str]) -> Problem | None:
    """The problem of a table that lacks a column that earlier files had, while a column that none of them had is not read: it may be the
    same one, and its values would be left out. `earlier` are the headings of earlier files.
    """
    known = {fold_label(heading) for heading in earlier}
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


def changed_columns(table: Table, headings: HeadingNotes, earlier: Sequence[Sequence[str]]) -> Iterator[Problem]:
    """The warnings of columns that are not read and that no earlier file had, whose values may change what a row means, and of missing ones
    that all of them had. `earlier` are the headings of each earlier file. Headings without a letter, such as a date, may differ each day.
    """
    misspelt = [problem.found for problem in headings.problems if problem.code == "R241"]
    files = [{fold_label(heading) for heading in header} for header in earlier]
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
    """The sheets that a note on a table names."""
    _, _, titles = found.get(note, "").removesuffix(")").partition(" (")
    return [title for title in titles.split(", ") if title]
