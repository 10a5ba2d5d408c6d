"""Checks the headings of a table: unused, missing, misspelt and renamed columns, and how each column is read.

Unused columns are information. A heading that looks like a misspelling of a missing column gives a warning, as does a missing column
beside unused ones, which may be it under a new heading, and a control character in a heading. `drop_checks` compares them with earlier files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.conversion import NUMBERS
from loadsheet.mapping.layouts import columns_by_heading, wanted_columns
from loadsheet.mapping.notations import format_parser
from loadsheet.mapping.plans import ColumnPlan, TablePlan
from loadsheet.mapping.rows import TableView
from loadsheet.problems import Problem, column_letters
from loadsheet.reading import Table
from loadsheet.reading.header import fold_label
from loadsheet.reading.tables import (
    ABSENT,
    ALIKE_NOT_READ,
    CONTROL,
    HIDDEN_READ,
    STRUCK_OUT,
    ColumnUse,
    WantedColumn,
)
from loadsheet.similar_text import one_typo_away, short_list
from loadsheet.workbook_marks import table_of

_MOMENTS = frozenset({"date", "datetime", "time"})
_BRACKETED = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_WORDS = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%b": "month", "%B": "month", "%a": "weekday", "%A": "weekday", "%H": "hh", "%I": "hh", "%M": "mm", "%S": "ss",
    "%f": "fraction", "%p": "AM/PM", "%z": "zone", "%s": "seconds since 1970", "%E": "day number", "%%": "%",
}  # fmt: skip
_IN_DOUBT = {STRUCK_OUT: "R252", HIDDEN_READ: "R256"}
_RENAMED = (
    "if one of these is that column under a new heading, correct the heading, or add it to the aliases of the column"
)
_CORRECT = "if so, correct the heading; if not, there is nothing to do"


class HeadingNotes(NamedTuple):
    """The unused columns of a table: heading or letter by position. The missing ones for which nothing else gives a value, each as the
    headings that it may have. The warnings about headings.
    """

    unused: Mapping[int, str]
    missing: Sequence[tuple[str, ...]]
    problems: tuple[Problem, ...]


def column_uses(mapping: CompiledMapping) -> dict[str, dict[str, ColumnUse]]:
    """How a mapping reads the columns of each table, by their names in the table's layout."""
    uses: dict[str, dict[str, ColumnUse]] = {}
    for plan in mapping.plan.tables:
        own = {column.name: _column_use(column, is_key=column.slot.index in plan.key) for column in plan.columns}
        found = {wanted.name: own[column.name] for wanted, column in columns_by_heading(plan)}
        uses.setdefault(plan.source, {}).update(found)
    return uses


def headings_of(
    mapping: CompiledMapping, table: Table, same_sheet: Sequence[Table], filled: frozenset[int]
) -> HeadingNotes:
    """Check the headings of a table. `same_sheet` are the tables read from its sheet, this one among them; `filled` are the positions of
    columns that have values but no heading.
    """
    used = {place for other in same_sheet for place in other.columns.values()}
    for other in same_sheet:
        used |= {
            place
            for plan in mapping.plan.tables
            if plan.source == table_of(other.name)
            for place in _by_number(plan, other)
        }
    plans = [plan for plan in mapping.plan.tables if plan.source == table_of(table.name)]
    free = {place: _clean(label) for place, label in enumerate(table.header) if place not in used}
    shown = {
        place: label or f"column {column_letters(place)}" for place, label in free.items() if label or place in filled
    }
    missing = [column for plan in plans for column in wanted_columns(plan) if column.name not in table.columns]
    labels = {fold_label(label): column.labels[0] for column in missing for label in column.labels}
    lacking = _without_value(plans, missing)
    misspelt = list(_misspelt_headings(table, shown, labels))
    renamed = _renamed_columns(table, shown, [label for label, *_ in lacking], misspelt)
    problems = [*_control_characters(table), *misspelt, *renamed, *_sheets_not_read(table)]
    problems += rows_in_doubt(table, STRUCK_OUT, HIDDEN_READ)
    return HeadingNotes(shown, lacking, tuple(problems))


def sheets_to_read(table: Table, them: str) -> str:
    """How to have sheets read that are not. If the mapping reads several, these lack a heading or have other names."""
    if table_of(table.name) != table.name:
        return "correct the headings and the name of the sheet, as the mapping has them"
    return f'have the mapping read {them} (sheet: "*", or source.shared)'


def _column_use(column: ColumnPlan, *, is_key: bool) -> ColumnUse:
    kind = column.spec.type
    pad = column.spec.pad_left
    changes = (
        pad,
        column.spec.case,
        column.spec.one_of,
        column.spec.lookup,
        column.spec.split,
        column.spec.convert,
        column.spec.pattern,
    )
    return ColumnUse(
        "number" if kind in NUMBERS else "moment" if kind in _MOMENTS else "text",
        pad.to if pad is not None else 0,
        tuple(
            # a readable format such as `DD.MM.YYYY hh:mm`
            (re.sub("%.", lambda found: _WORDS.get(found[0], found[0]), format_), format_parser(format_, column.locale))
            for format_ in column.formats
        ),
        is_key and kind == "text" and not any(changes),
        tuple(word for word in ABSENT if kind == "text" and column.convert(word) == word),
    )


def _by_number(plan: TablePlan, table: Table) -> Iterator[int]:
    """The positions read by number, or by a column set beyond the last one."""
    view = TableView(plan, table)
    yield from (place for place in view.positions.values() if place is not None)
    yield from view.overflow_positions


def _clean(label: str) -> str:
    return " ".join(CONTROL.sub("\N{REPLACEMENT CHARACTER}", label).split())


def _control_characters(table: Table) -> Iterator[Problem]:
    for place, label in enumerate(table.header):
        if found := CONTROL.search(label):
            values = {"character": ord(found[0])}
            hint = "remove the character from the heading"
            yield Problem("R209", table.where(table.header_row, place), _clean(label), values, hint, "warning")


def _misspelt_headings(table: Table, unused: Mapping[int, str], labels: Mapping[str, str]) -> Iterator[Problem]:
    """A warning for each unused column whose heading is similar to a missing label."""
    for place, shown in unused.items():
        heading = table.header[place]
        bare = fold_label(CONTROL.sub("", heading))
        like = next(
            (form for form in (bare, fold_label(_BRACKETED.sub("", bare))) if form in labels), ""
        ) or one_typo_away(bare, labels)
        if heading.strip() and like in labels:
            at = table.where(table.header_row, place)
            cell = at.cell or f"column {column_letters(place)}"
            values = {"heading": shown, "cell": cell, "meant": labels[like]}
            yield Problem("R241", at, shown, values, _CORRECT, "warning")


def _without_value(plans: Sequence[TablePlan], missing: Iterable[WantedColumn]) -> list[tuple[str, ...]]:
    """The labels of missing columns for which nothing else gives a value. Sets may be fewer than the mapping can read."""
    given = {
        f"{plan.prefix}{column.name}" for plan in plans for column in plan.columns if column.spec.default is not None
    }
    labels = (tuple(column.labels) for column in missing if "#" not in column.name and column.name not in given)
    return list(dict.fromkeys(labels))


def _renamed_columns(
    table: Table, unused: Mapping[int, str], missing: Sequence[str], misspelt: Sequence[Problem]
) -> Iterator[Problem]:
    """A warning if columns are missing and others, not misspelt ones of them, are not read: one may be the other under a new heading."""
    known = {problem.values[name] for problem in misspelt for name in ("heading", "meant")}
    lacks = [label for label in missing if label not in known]
    others = [shown for place, shown in unused.items() if table.header[place].strip() and shown not in known]
    if lacks and others:
        values = {"missing": short_list(lacks, 5), "unused": short_list(others, 5)}
        yield Problem("R250", table.where(table.header_row), "", values, _RENAMED, "warning")


def _sheets_not_read(table: Table) -> Iterator[Problem]:
    if sheets := table.reading_notes.get(ALIKE_NOT_READ):
        hint = f"hide or delete them, or {sheets_to_read(table, 'them')}"
        yield Problem("R245", table.where(table.header_row), "", {"sheets": sheets}, hint, "warning")


def rows_in_doubt(table: Table, *notes: str) -> Iterator[Problem]:
    """A warning for each of these notes that names rows, because they may not be meant."""
    hint = "if they are not meant to be sent, delete them, and cancel what was already sent"
    for note in notes:
        if rows := table.reading_notes.get(note):
            first, *others = [table.where(int(row)) for row in rows.split(", ") if row.isdigit()]
            yield Problem(_IN_DOUBT[note], first, "", {"rows": rows}, hint, "warning", also=tuple(others))
