"""The workbook that a shipper fills in: headings, lists of choices, notes, an example and a guide, all from the mapping.

Owns: the layout, and the fixed texts (`mapping.layouts` describes the columns), in the language of the mapping and in English. Text columns are formatted
as text to keep leading zeros. Lists are on a hidden sheet, because a list inside a cell is limited to 255 characters. The example is
on a separate sheet, so that it is never sent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import xlsxwriter  # type: ignore[import-untyped]  # has annotations but no py.typed
from xlsxwriter.format import Format  # type: ignore[import-untyped]  # as above
from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]  # as above

from loadsheet.errors import MappingError
from loadsheet.languages import LANGUAGES, Language, Words, known_language, words_in
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.file_patterns import SHEET, match_file_name
from loadsheet.mapping.layouts import expected_text
from loadsheet.mapping.notations import number_text
from loadsheet.mapping.plans import ColumnPlan
from loadsheet.mapping_tools.template_examples import Examples
from loadsheet.problems import column_letters
from loadsheet.reading import Layout
from loadsheet.workbook_marks import ANY_TEXT

_ROWS = 2_000  # rows that get formats and lists
_INK, _LINE, _REQUIRED, _OPTIONAL, _QUIET = "#1F2933", "#C9D1D9", "#1F4E79", "#5B7083", "#F4F6F8"
_WIDTHS = (8, 12, 40)  # of a column: the least, for a date, the most
_DATE_FORMATS = {"date": "yyyy-mm-dd", "datetime": "yyyy-mm-dd hh:mm", "time": "hh:mm"}
_TEXT, _GENERAL = "@", "General"
_LISTS = "Lists"
_DATA = {
    "en": "Data", "de": "Daten", "fr": "Données", "es": "Datos", "it": "Dati", "nl": "Gegevens", "pt": "Dados",
    "pl": "Dane", "sv": "Data", "da": "Data", "nb": "Data", "no": "Data", "fi": "Tiedot", "cs": "Data",
}  # fmt: skip
_EXCEL_DATES = {"%d": "dd", "%m": "mm", "%Y": "yyyy", "%y": "yy", "%H": "hh", "%M": "mm", "%S": "ss"}
_GUIDE_WIDTHS = (14, 24, 15, 58, 44, 22, 36)
_CODES_SHOWN = 12
_OF_THE_WORLD = frozenset({"country", "currency"})  # their lists are long and known


@dataclass(frozen=True, slots=True)
class Heading:
    """One column of the workbook: its heading, the mapping's column, whether it is required, its choices, and its example cells."""

    text: str
    column: ColumnPlan
    required: bool
    codes: tuple[str, ...]
    examples: tuple[Any, ...]

    @property
    def example(self) -> Any:
        """The cell of the first example row."""
        return self.examples[0]


@dataclass(frozen=True, slots=True)
class TableForm:
    """One sheet to fill in: its title, the row of its headings from 1, and the headings."""

    title: str
    header_row: int
    headings: tuple[Heading, ...]


def template_sheets(mapping: CompiledMapping, role: str) -> list[TableForm]:
    """The sheets of the workbook for one file of a mapping. Raises MappingError for a mapping with several kinds of rows."""
    if any(table.kind is not None for table in mapping.plan.tables):
        hint = "generate such files with a program"
        raise MappingError("a template cannot have rows of several kinds", file=str(mapping.path), hint=hint)
    columns = {
        (table.source or table.name, f"{table.prefix}{column.name}"): (table, column)
        for table in mapping.plan.tables
        for column in table.columns
    }
    examples = Examples(mapping)
    found = []
    for number, layout in enumerate(mapping.layouts[role]):
        headings: list[Heading] = []
        for wanted in sorted(layout.columns, key=lambda wanted: wanted.occurrence):
            table, column = columns[layout.name, wanted.name.split("#")[0]]
            nth = sum(other.column is column for other in headings)
            cells = examples.rows(table, column, nth if wanted.occurrence or table.sets is not None else 0)
            heading = Heading(wanted.labels[0], column, wanted.required, column.choices, cells)
            if wanted.occurrence or heading.text not in (other.text for other in headings):  # several may read one
                headings.append(heading)
        row = layout.header_row if isinstance(layout.header_row, int) else 1
        found.append(TableForm(_title(mapping, layout, number, len(mapping.layouts[role])), row, tuple(headings)))
    return found


def write_template(mapping: CompiledMapping, role: str, path: Path) -> None:
    """Write the workbook for one file of a mapping to `path`. Raises MappingError, OSError."""
    tables = template_sheets(mapping, role)
    as_texts = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
    book = xlsxwriter.Workbook(str(path), as_texts)
    book.set_properties(
        {
            "title": f"{mapping.name} version {mapping.version}",
            "comments": f"mapping {mapping.name}, version {mapping.version}, hash {mapping.hash}",
            "created": datetime(2026, 1, 1),  # noqa: DTZ001 (the same mapping makes the same workbook)
        }
    )
    writer = _Writer(book, mapping, role)
    for table in tables:
        writer.table(table)
    for table in tables:
        writer.example(table, alone=len(tables) == 1)
    for language in writer.languages:
        writer.guide(language, tables)
    writer.lists()
    book.close()


def file_name(mapping: CompiledMapping, role: str) -> str:
    """A name for the workbook that the mapping takes: its own, else that of a pattern; its own also if only the shipper can complete one."""
    own = f"{mapping.name}.xlsx" if len(mapping.layouts) == 1 else f"{mapping.name}-{role}.xlsx"
    patterns = [pattern.rpartition("/")[2] for pattern in _patterns(mapping, role)]
    complete = (pattern.replace("*", "") for pattern in patterns if "{" not in pattern and pattern.endswith(".xlsx"))
    names = [own, *(name for name in complete if name != ".xlsx")]
    return next(
        (name for name in names if any(match_file_name(pattern, name) is not None for pattern in patterns)), own
    )


def _patterns(mapping: CompiledMapping, role: str) -> Sequence[str]:
    """The patterns of the names of a mapping's files."""
    return mapping.files if role == mapping.main_role else (mapping.companions[role],)


def _title(mapping: CompiledMapping, layout: Layout, number: int, of: int) -> str:
    """The title of a sheet: one that a column takes as its value, the agreed one, else one in the language of the sheet."""
    columns = (column for table in mapping.plan.tables for column in table.columns if column.spec.file == SHEET)
    if choices := next((column.choices for column in columns if column.choices), ()):
        return choices[0][:31]
    if agreed := [title.replace(ANY_TEXT, "1")[:31] for title in layout.sheets if title != ANY_TEXT]:
        return agreed[0]
    named = _DATA.get(mapping.language, _DATA["en"])
    return named if of == 1 else f"{layout.name.capitalize()}"[:31] or f"{named} {number + 1}"


_RULES = (
    "Fill in the coloured sheets, one row after the other, below the headings. Keep the headings as they are.",
    "Columns with a star are required. Blank rows and your own columns are ignored.",
    "Cells with a small arrow have a list: choose from it. Point at a heading to see what is expected.",
    "The sheet {example} shows correct rows. It is not read.",
    "The file must have a name such as {files}. A star or a word in braces stands for any text.",
    "If a row is rejected, you get the file back with the reason in the cell.",
)
_GUIDE_HEADS = ("Sheet", "Column", "Required", "What is expected", "Allowed", "Example", "Remark")
_EXAMPLE_HEAD = "e.g. {heading}"
_NO_EXAMPLE = "no example: ask the author of this workbook"
_GROUPED = "Rows with the same {key} are one record. These columns must be equal in all of them: {same}."


class _Writer:
    """Writes the sheets of one workbook."""

    def __init__(self, book: xlsxwriter.Workbook, mapping: CompiledMapping, role: str) -> None:
        self._book = book
        self._mapping = mapping
        self._role = role
        own = known_language(mapping.language)
        self.languages: tuple[Language, ...] = tuple(dict.fromkeys((own, "en"))) if own else LANGUAGES
        self._own = words_in(self.languages[0])
        self._lists: list[tuple[str, ...]] = []
        self._formats: dict[tuple[tuple[str, Any], ...], Format] = {}

    def table(self, form: TableForm) -> None:
        """A sheet to fill in: headings with notes, formats and lists below them."""
        sheet = self._sheet(form.title)
        sheet.set_tab_color(_REQUIRED)
        top = form.header_row - 1
        sheet.freeze_panes(top + 1, 1)
        sheet.set_row(top, 32)
        for position, heading in enumerate(form.headings):
            self._head(sheet, top, position, heading)
            sheet.set_column(position, position, _width(heading), self._cell_format(heading))
            sheet.set_comments_author("loadsheet")
            rule = {"validate": "any", "input_message": self._note(heading)[:255], **self._rule(heading)}
            sheet.data_validation(top + 1, position, top + _ROWS, position, rule)
        sheet.repeat_rows(top)

    def example(self, form: TableForm, *, alone: bool) -> None:
        """The same headings with two example rows, on a sheet that is not read."""
        title = self._own.say("Example")
        sheet = self._sheet(title if alone else f"{title} {form.title}"[:31])
        sheet.freeze_panes(1, 1)
        sheet.set_row(0, 32)
        for position, heading in enumerate(form.headings):
            style = self._format(bold=True, bg_color=_QUIET, border=1, border_color=_LINE, text_wrap=True, valign="top")
            text = self._own.say(_EXAMPLE_HEAD, heading=heading.text)
            sheet.write_string(0, position, f"{text}{' *' if heading.required else ''}", style)
            sheet.set_column(position, position, _width(heading) + 4, self._cell_format(heading))
            for row, value in enumerate(heading.examples, start=1):
                self._write(sheet, row, position, heading, value)

    def guide(self, language: Language, tables: Sequence[TableForm]) -> None:
        """The page that explains the workbook."""
        words = words_in(language)
        sheet = self._sheet(words.say("Guide"))
        sheet.hide_gridlines(2)
        for position, width in enumerate(_GUIDE_WIDTHS):
            sheet.set_column(position, position, width)
        title = self._format(bold=True, font_size=16, font_color=_REQUIRED)
        sheet.write_string(0, 0, words.say("How to fill in this workbook"), title)
        own = self._mapping
        named = f"{own.description or own.name}  ({own.name}, version {own.version}, {own.hash[:12]})"
        sheet.write_string(1, 0, named, self._format(font_color=_OPTIONAL))
        row = 3
        named_in_rules = {"example": self._own.say("Example"), "files": ", ".join(_patterns(own, self._role))}
        for rule in [*(words.say(rule, **named_in_rules) for rule in _RULES), *self._grouped(words)]:
            sheet.write_string(row, 0, rule)
            row += 1
        self._guide_table(sheet, row + 1, language, tables)

    def lists(self) -> None:
        """The hidden sheet with the lists."""
        if not self._lists:
            return
        sheet = self._book.add_worksheet(_LISTS)
        sheet.hide()
        for position, codes in enumerate(self._lists):
            sheet.write_column(0, position, list(codes), self._format(num_format=_TEXT))

    # ---- parts ----

    def _sheet(self, title: str) -> Worksheet:
        """A new sheet, printed across on A4, as wide as a page."""
        sheet = self._book.add_worksheet(title)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.fit_to_pages(1, 0)
        return sheet

    def _head(self, sheet: Worksheet, row: int, position: int, heading: Heading) -> None:
        color = _REQUIRED if heading.required else _OPTIONAL
        look = {"bold": True, "font_color": "#FFFFFF", "bg_color": color, "border": 1, "border_color": _LINE}
        style = self._format(**look, text_wrap=True, valign="vcenter")
        sheet.write_string(row, position, f"{heading.text}{' *' if heading.required else ''}", style)
        text = self._note(heading)
        lines = sum(1 + len(line) // 40 for line in text.splitlines())
        sheet.write_comment(row, position, text, {"x_scale": 2.2, "y_scale": max(0.6, 0.24 * lines), "font_size": 9})

    def _note(self, heading: Heading) -> str:
        """The note of a heading, short and in each language."""
        lines = []
        for language in self.languages:
            words = words_in(language)
            need = words.say("required") if heading.required else words.say("may be blank")
            lines.append(f"{expected_text(heading.column, language)}; {need}")
        lines += [allowed] if (allowed := _allowed(heading)) else []
        lines += [heading.column.spec.note] if heading.column.spec.note else []
        return "\n".join(lines)

    def _rule(self, heading: Heading) -> dict[str, Any]:
        """The validation of a cell during typing. Only lists and whole numbers block input; the mapping checks other types."""
        spec = heading.column.spec
        if heading.codes:
            if heading.codes not in self._lists:
                self._lists.append(heading.codes)
            letters = column_letters(self._lists.index(heading.codes))
            source = f"={_LISTS}!${letters}$1:${letters}${len(heading.codes)}"
            warns = spec.ignore_case or spec.lookup is not None or spec.type != "text"
            return {
                "validate": "list",
                "source": source,
                "error_type": "warning" if warns else "stop",
                "error_title": heading.text[:32],
                "error_message": _allowed(heading)[:250],
            }
        if spec.type == "integer" and (spec.min is not None or spec.max is not None):
            return {"validate": "integer", "error_type": "warning", **_bounds(spec.min, spec.max)}
        if spec.type == "text" and spec.max_length is not None:
            return {"validate": "length", "criteria": "<=", "value": spec.max_length, "error_type": "warning"}
        return {}

    def _cell_format(self, heading: Heading) -> Format:
        spec = heading.column.spec
        if spec.type in _DATE_FORMATS:
            return self._format(num_format=_date_format(heading.column))
        # quantities stay General: 12.5 is a number, "27 lb" a text
        return self._format(num_format=_GENERAL if spec.type in {"integer", "decimal", "quantity"} else _TEXT)

    def _write(self, sheet: Worksheet, row: int, position: int, heading: Heading, value: Any) -> None:
        style = self._cell_format(heading)
        if isinstance(value, Decimal | int) and not isinstance(value, bool):
            sheet.write_number(row, position, value, style)
        elif heading.column.spec.type in _DATE_FORMATS and not isinstance(value, str):
            sheet.write_datetime(row, position, value, style)
        else:
            sheet.write_string(row, position, str(value), style)

    def _grouped(self, words: Words) -> list[str]:
        plan, main = self._mapping.plan, self._mapping.plan.tables[0]
        if not plan.is_grouped:
            return []
        key = ", ".join(main.label(index) for index in main.key)
        return [words.say(_GROUPED, key=key, same=", ".join(main.label(index) for index in plan.one_value))]

    def _guide_table(self, sheet: Worksheet, row: int, language: Language, tables: Sequence[TableForm]) -> None:
        words = words_in(language)
        head = self._format(bold=True, font_color="#FFFFFF", bg_color=_REQUIRED, border=1, border_color=_LINE)
        cell = self._format(text_wrap=True, valign="top", border=1, border_color=_LINE, num_format=_TEXT)
        for position, text in enumerate(map(words.say, _GUIDE_HEADS)):
            sheet.write_string(row, position, text, head)
        for form in tables:
            for heading in form.headings:
                row += 1
                cells = (
                    form.title,
                    heading.text,
                    words.say("required") if heading.required else words.say("may be blank"),
                    expected_text(heading.column, language),
                    _allowed(heading),
                    _shown(heading.example, heading.column) or (words.say(_NO_EXAMPLE) if heading.required else ""),
                    heading.column.spec.note,
                )
                for position, text in enumerate(cells):
                    sheet.write_string(row, position, text, cell)
                lines = [1 + len(text) // width for text, width in zip(cells, _GUIDE_WIDTHS, strict=True)]
                sheet.set_row(row, 15.5 * max(lines))  # some programs do not adjust the row height

    def _format(self, **look: Any) -> Format:
        """A format, made once for the same look."""
        key = tuple(sorted(look.items()))
        if key not in self._formats:
            self._formats[key] = self._book.add_format(
                {"font_name": "Calibri", "font_size": 11, "font_color": _INK, **look}
            )
        return self._formats[key]


def _date_format(column: ColumnPlan) -> str:
    """The number format that shows a date in the agreed notation, so that it is also right in a workbook saved as text."""
    code = re.sub("%.", lambda found: _EXCEL_DATES.get(found[0], "?"), column.writes)
    return _DATE_FORMATS[column.spec.type] if not code or "?" in code or re.search("[a-z]{5}", code) else code


def _bounds(low: Decimal | None, high: Decimal | None) -> Mapping[str, Any]:
    if low is not None and high is not None:
        return {"criteria": "between", "minimum": float(low), "maximum": float(high)}
    return {"criteria": ">=", "value": float(low)} if low is not None else {"criteria": "<=", "value": float(high or 0)}


def _width(heading: Heading) -> float:
    least, date, most = _WIDTHS
    longest = max(
        len(heading.text) + 3,
        date + 6 if heading.column.spec.type == "datetime" else 0,
        *(len(text) for text in heading.codes if heading.column.spec.type not in _OF_THE_WORLD),
        *(len(_shown(cell, heading.column)) for cell in heading.examples),
    )
    return min(most, max(least, longest + 1))


def _shown(value: Any, column: ColumnPlan) -> str:
    """An example as text, numbers, dates and times in the agreed notation."""
    if isinstance(value, Decimal):
        return number_text(value, column.locale, grouped=False)
    if not isinstance(value, date | time):
        return str(value)
    return (
        value.strftime(column.writes) if column.writes else f"{value:%H:%M}" if isinstance(value, time) else str(value)
    )


def _allowed(heading: Heading) -> str:
    """The codes of a column as one short list; empty for the countries and currencies of the world."""
    if heading.column.spec.type in _OF_THE_WORLD:
        return ""
    shown = ", ".join(heading.codes[:_CODES_SHOWN])
    return f"{shown}, ... ({len(heading.codes)})" if len(heading.codes) > _CODES_SHOWN else shown
