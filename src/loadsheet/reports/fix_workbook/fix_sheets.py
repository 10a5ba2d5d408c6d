"""A sheet of a fix workbook: the sender's own rows and headings in source order, with what to fix in front.

Assigns each problem to a cell and numbers the rows (see `workbook_marks.RowMark`). Rows and remarks are spooled while
entries pass, so memory does not grow with the cells. A row shared by several documents appears once, with all remarks.
Owns the look of wrong cells, warnings and rows that only belong to wrong ones, and notes, drop-downs and the opening
view. A cell reads back exactly as in the source: texts stay texts; numbers, dates, times and flags keep their type.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from decimal import Decimal
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import msgspec
from xlsxwriter.utility import quote_sheetname, xl_col_to_name  # type: ignore[import-untyped]  # has annotations but no py.typed

from loadsheet.languages import Words
from loadsheet.ledger import ColumnGuide, Drop, Entry, IgnoredRow, SourceTable
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Level, Problem
from loadsheet.reports.fix_workbook.wording import line_of, takes_of
from loadsheet.reports.report_files import Spool, sheet_text
from loadsheet.reports.sheets import LINES_MAX, Book, Kind, Tone, fit_height, fit_paper, head_width, write_cell
from loadsheet.workbook_marks import ROW_COLUMN, RowMark

_encode = msgspec.json.Encoder().encode


class RowRemark(NamedTuple):
    """A remark on a row or one of its cells (position from 0, and heading): what is wrong and what to do."""

    position: int | None
    column: str
    level: Level
    text: str
    todo: str
    code: str


@dataclass(frozen=True, slots=True)
class FixRow:
    """One row: its source number, its cells and native values from the ledger, its mark, the key of its document, and
    its remarks.
    """

    number: int
    cells: tuple[str, ...]
    natives: tuple[tuple[int, str, str], ...]
    mark: str
    key: str
    remarks: tuple[RowRemark, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether the row has something to fix."""
        return any(remark.level == "error" for remark in self.remarks)


class Place(NamedTuple):
    """The place of a problem: table, row, and the position of the cell, if any."""

    table: SourceTable
    row: SourceRow
    position: int | None


class _Record(NamedTuple):
    cells: tuple[str, ...]
    natives: tuple[tuple[int, str, str], ...]
    mark: str
    key: str


_records = msgspec.json.Decoder(_Record)
_remarks = msgspec.json.Decoder(RowRemark)


class FixRows:
    """The rows of one drop by table: `add` entries, then read each table with `of`."""

    def __init__(self, drop: Drop, stack: ExitStack, *, marked: bool) -> None:
        self._marked = marked
        self._spools = {table.name: Spool(stack) for table in drop.tables}
        self._taken = {table.name: bytearray() for table in drop.tables}
        sheets = list(dict.fromkeys((table.file, table.sheet) for table in drop.tables))
        self._sheets = {table.name: sheets.index((table.file, table.sheet)) for table in drop.tables}
        self.count = 0

    def holds(self, entry: Entry) -> bool:
        """Whether an earlier entry already added one of this entry's rows."""
        return any(self._has(row) for row in entry.rows)

    def add(self, entry: Entry, remarks: Sequence[tuple[Place, RowRemark]]) -> None:
        """Add the new rows of an entry, and the remarks on any of its rows. Their marks count in the order of the file, in which a head stands
        above its lines: rows that a sender has sorted go back into that order.
        """
        fresh = [row for row in dict.fromkeys(entry.rows) if not self._has(row)]
        fresh.sort(key=lambda row: (self._sheets[row.table], row.number))
        for number, row in enumerate(fresh, start=1):
            self._take(row, str(RowMark(entry.id, number, len(fresh))) if self._marked else "", entry.key)
        for place, remark in remarks:
            self._spools[place.row.table].add(place.row.number, b"S" + _encode(remark))

    def add_looked_up(self, rows: Iterable[IgnoredRow]) -> None:
        """Add rows of other tables that the corrected rows may need. They belong to no entry."""
        for row in rows:
            source = SourceRow(row.table, row.number, row.cells)
            if not self._has(source):
                self._take(source, "", "")

    def of(self, table: str) -> Iterator[FixRow]:
        """The rows of a table in source order."""
        for number, lines in groupby(self._spools[table].lines(), key=itemgetter(0)):
            encoded = [line for _, line in lines]
            record = next(_records.decode(line[1:]) for line in encoded if line[:1] == b"R")
            remarks = dict.fromkeys(_remarks.decode(line[1:]) for line in encoded if line[:1] == b"S")
            yield FixRow(number, *record[:4], remarks=tuple(remarks))

    def numbers(self, table: str) -> list[int]:
        """The row numbers of a table, in order."""
        taken = self._taken[table]
        return [number for number, is_here in enumerate(taken) if is_here]

    def _take(self, row: SourceRow, mark: str, key: str) -> None:
        taken = self._taken[row.table]
        if row.number >= len(taken):
            taken.extend(bytes(row.number + 1 - len(taken) + len(taken) // 2))
        taken[row.number] = 1
        self._spools[row.table].add(row.number, b"R" + _encode(_Record(row.cells, row.natives, mark, key)))
        self.count += 1

    def _has(self, row: SourceRow) -> bool:
        taken = self._taken[row.table]
        return row.number < len(taken) and bool(taken[row.number])


def cell_of_problem(problem: Problem, entry: Entry, tables: Mapping[str, SourceTable]) -> Place:
    """The row and cell of a problem; the entry's first row if the problem names none. `tables` are the drop's, by name."""
    where, best = problem.where, Place(tables[entry.rows[0].table], entry.rows[0], None)
    for row in entry.rows if where.row else ():
        table = tables[row.table]
        if (row.number, table.file, table.sheet) == (where.row, where.file, where.sheet):
            best = Place(table, row, table.position(where))
            if best.position is not None or not where.column:
                break
    return best


def also_of(problem: Problem, entry: Entry, tables: Mapping[str, SourceTable]) -> list[Place]:
    """The other cells that are part of a problem."""
    if not problem.also:
        return []
    rows = {(tables[row.table].file, tables[row.table].sheet, row.number): row for row in entry.rows}
    found = ((where, rows.get((where.file, where.sheet, where.row))) for where in problem.also)
    return [
        Place(tables[row.table], row, position)
        for where, row in found
        if row is not None and (position := tables[row.table].position(where)) is not None
    ]


def placed_at(problem: Problem, place: Place) -> Problem:
    """The problem with its place completed: the row it is shown at, if it names none."""
    if problem.where.row == place.row.number and problem.where.file:
        return problem
    label = "" if place.position is None else place.table.header[place.position]
    return replace(problem, where=place.table.where(place.row.number, label, problem.where.path))


NOTES_MOST = 2_000  # per workbook; each note is a shape, and thousands make a workbook slow to open
LISTS = "Lists"

_BAD = {"border": 2, "border_color": "#C62828", "bg_color": "#FBD5D5"}
_WARNED = {"border": 1, "border_color": "#C99700", "bg_color": "#FFF1B8"}
_PLAIN: Mapping[str, Any] = {}
_BELONGS = {"bg_color": "#F1F3F5", "italic": True}
_REMARK_WIDTH, _WIDTH_MIN, _WIDTH_MAX = 52, 7, 34
_WRONG_UNIT = "C307"
_SAID_LENGTH = 60  # characters per line at that width, in a proportional font
_DIGITS_EXACT = 15  # spreadsheet programs keep 15 digits of a typed number
_SHAPE = re.compile(r"[0-9][0-9 ()-]*[0-9]")
_SHAPE_LENGTH_MAX = 60
_DURATION = re.compile("[0-9]{2,}:[0-9]{2}:[0-9]{2}")
_DIGIT, _NO_DIGIT, _PADDED = re.compile("[0-9]"), re.compile("[^0-9]"), re.compile("-?0[0-9]")
_WORDED = re.compile(r"([^0-9]*?)(-?[0-9]+(?:\.[0-9]+)?)(.*)", re.DOTALL)
_THOUSANDS_MAX = 4  # each trailing comma of a number format divides the shown number by 1,000
_WORD = re.compile(r"[^\W\d_]|[\"'″$¢-¥฿₠-⃀]")  # letters, signs of feet and inches, of currencies
_ROWS_TO_COME = 200
_TITLE_MOST, _MESSAGE_MOST = 32, 255
_NOTE_LINE = 42
_YEAR_FIRST = 1900
_ALLOWED = dict.fromkeys(
    (
        *("objects", "scenarios", "format_cells", "format_columns", "format_rows", "insert_columns", "insert_rows"),
        *("insert_hyperlinks", "delete_columns", "delete_rows", "sort", "autofilter", "pivot_tables"),
    ),
    True,
)
"""What a shipper may do on the sheets that only explain. Those with rows are not protected: a cell that is pasted from elsewhere would
be locked, and programs neither sort nor delete rows that have one. Rules guard their headings and what only explains.
"""


def lines_of(row: FixRow, words: Words) -> list[str]:
    """The texts about a row without repeats. Each names its columns unless the text does, or says that the row is fine."""
    columns: dict[RowRemark, list[str]] = {}
    for remark in row.remarks:
        unplaced = remark._replace(position=None, column="", code="")
        columns.setdefault(unplaced, [])
        if remark.column not in (*columns[unplaced], "") and remark.column not in remark.text:
            columns[unplaced].append(remark.column)
    lines = []
    for remark, named in columns.items():
        line = line_of(remark.text, remark.todo)
        line = words.say("{place}: {text}", place=", ".join(named), text=line) if named else line
        lines.append(words.say("Warning: {text}", text=line) if remark.level == "warning" else line)
    if row.is_wrong or not row.key:
        return lines
    return [*lines, words.say("No change needed; listed because the row belongs to {key}", key=row.key)]


@dataclass
class Lists:
    """The drop-down lists, one column of a hidden sheet per distinct list."""

    columns: list[tuple[str, ...]] = field(default_factory=list)

    def of(self, choices: tuple[str, ...]) -> str:
        """The place of a list, as a formula."""
        if choices not in self.columns:
            self.columns.append(choices)
        letters = xl_col_to_name(self.columns.index(choices))
        return f"={LISTS}!${letters}$1:${letters}${len(choices)}"

    def write(self, book: Book) -> None:
        """Write the hidden sheet if it has any lists."""
        if not self.columns:
            return
        sheet = book.sheet(LISTS)
        sheet.hide()
        protect(sheet)
        for row in range(max(len(column) for column in self.columns)):
            for place, column in enumerate(self.columns):
                if row < len(column):
                    sheet.write_string(row, place, sheet_text(column[row]), book.style(line=False))


@dataclass
class FixBook:
    """A fix workbook in progress, and what its sheets share: texts, lists, the note count, and the first sheet with a problem."""

    book: Book
    words: Words
    lists: Lists = field(default_factory=Lists)
    notes: int = 0
    first: Any = None


class FixSheet:
    """One table of a drop. `add` its rows in order, then call `finish`."""

    def __init__(self, fix: FixBook, title: str, labels: Sequence[str], guide: Mapping[str, ColumnGuide]) -> None:
        self._book, self._words, self._labels, self._guide, self._shared = fix.book, fix.words, labels, guide, fix
        self._sheet = fix.book.sheet(title)
        self._sheet.hide_gridlines(1)
        self._row = 0
        self._first: tuple[int, int] | None = None
        self._widths = [head_width(label) + 1 for label in labels]
        self._mark_at = len(labels) + 1
        self._styles: dict[tuple[int, str], Any] = {}
        self._sheet.set_row(0, 30)
        for position, label in enumerate((fix.words.say("What to fix"), *labels, ROW_COLUMN)):
            style = fix.book.head_style(Kind.TEXT)
            self._sheet.write_string(0, position, sheet_text(label), style)

    def add(self, row: FixRow) -> None:
        """Write a row. Positions of cells and remarks follow the labels."""
        self._row += 1
        for position, cell in enumerate(row.cells):
            self._widths[position] = max(self._widths[position], min(len(cell), _WIDTH_MAX))
        text = "\n".join(lines_of(row, self._words))
        fit_height(self._sheet, self._row, sum(1 + len(line) // _SAID_LENGTH for line in text.split("\n")))
        by_cell: dict[int | None, list[RowRemark]] = {}
        for remark in row.remarks:
            by_cell.setdefault(remark.position, []).append(remark)
        whole = by_cell.get(None, ())
        if self._first is None and any(remark.level == "error" for remark in whole):
            self._first = (self._row, 0)
        look = _look(whole, belongs=not row.remarks)
        said = {"bold": False, "bg_color": "#FFFFFF", **look}
        style = self._book.style(tone=Tone.BAD if row.is_wrong else Tone.MUTED, wrap=True, **said)
        self._sheet.write_string(self._row, 0, sheet_text(text), style)
        natives = {position: (kind, text) for position, kind, text in row.natives}
        for position, cell in enumerate(row.cells):
            remarks, native = by_cell.get(position, ()), natives.get(position)
            if native and native[1] != cell and any(remark.code == _WRONG_UNIT for remark in remarks):
                native = None  # as a text: a number typed over it would keep the wrong unit of the format
            self._write(position + 1, cell, native, _look(remarks, belongs=not row.remarks))
            if position in by_cell:
                self._note(position + 1, by_cell[position])
        self._sheet.write_string(self._row, self._mark_at, row.mark, self._book.style(tone=Tone.MUTED))

    def finish(self) -> None:
        """Complete the sheet: widths, filter, drop-downs, guarded cells and opening view."""
        sheet, last = self._sheet, max(1, self._row)
        text = self._book.style(line=False)
        widths = [_REMARK_WIDTH + 2, *(max(_WIDTH_MIN, min(width, _WIDTH_MAX)) + 2 for width in self._widths)]
        for position, width in enumerate(widths):
            sheet.set_column(position, position, width, text)
        sheet.set_column(self._mark_at, self._mark_at, 12, text, {"hidden": True})
        sheet.freeze_panes(1, min(2, self._mark_at))
        sheet.autofilter(0, 0, last, self._mark_at)
        sheet.repeat_rows(0)
        fit_paper(sheet, widths, 1)
        whole = f"A1:{xl_col_to_name(self._mark_at)}{last + _ROWS_TO_COME + 1}"
        sheet.ignore_errors(
            {"number_stored_as_text": whole, "two_digit_text_year": whole, "list_data_validation": whole}
        )
        for position, label in enumerate(self._labels, start=1):
            if label in self._guide and label.strip():
                self._offer(position, label, self._guide[label], last + _ROWS_TO_COME)
        self._refuse(
            (0, 0, 0, self._mark_at), self._words.say("Leave the headings as they are: they say what each column is.")
        )
        explains = self._words.say("This column only explains. Correct the red cells to the right of it.")
        self._refuse((1, 0, last, 0), explains)
        chosen = self._first or (1, 0)
        sheet.set_selection(*chosen, *chosen)
        if self._first:
            sheet.set_tab_color(_BAD["border_color"])
            if self._shared.first is None:
                self._shared.first = sheet

    def _refuse(self, cells: tuple[int, int, int, int], why: str) -> None:
        """Have the program refuse typing in these cells (first row and column, last row and column)."""
        title = self._words.say("What to fix")[:_TITLE_MOST]
        rule = {"validate": "custom", "value": "=FALSE", "error_title": title, "error_message": why}
        self._sheet.data_validation(*cells, rule)

    def _write(self, column: int, cell: str, native: tuple[str, str] | None, look: Mapping[str, Any]) -> None:
        if look is _BAD and self._first is None:
            self._first = (self._row, column)
        value, code = native_value(cell, native, self._words.date_format) if native else (cell, "@")
        style = self._style(look, "" if isinstance(value, str) else code)
        if isinstance(value, str) and value.startswith("<r>") and value.endswith("</r>"):
            # XlsxWriter would take it for rich-text markup
            value = f'<r><t xml:space="preserve">{escape(value)}</t></r>'
            self._sheet.write_string(self._row, column, value, style)
        else:
            write_cell(self._sheet, self._row, column, value, style)

    def _style(self, look: Mapping[str, Any], code: str = "") -> Any:
        """The format of a cell: text, unless `code` is a number format."""
        key = (id(look), code)  # looks are constants of this module
        if key not in self._styles:
            tone = Tone.BAD if look is _BAD else Tone.MUTED if look is _BELONGS else Tone.PLAIN
            typed_as: dict[str, Any] = {"num_format": code, "align": "right", "indent": 0} if code else {}
            self._styles[key] = self._book.style(tone=tone, **typed_as, **look)
        return self._styles[key]

    def _note(self, column: int, remarks: Sequence[RowRemark]) -> None:
        if self._shared.notes >= NOTES_MOST:
            return
        self._shared.notes += 1
        text = "\n".join(
            f"{remark.text.rstrip('.')}. {remark.todo}".strip() + f" [{remark.code}]" for remark in remarks
        )
        lines = sum(1 + len(line) // _NOTE_LINE for line in text.split("\n"))
        size = {"width": 280, "height": 14 + 16 * min(lines, LINES_MAX), "font_size": 9, "author": "loadsheet"}
        self._sheet.write_comment(self._row, column, text[:2000], size)

    def _offer(self, column: int, label: str, guide: ColumnGuide, last: int) -> None:
        """Add a column's drop-down and input message. The list suggests values; other values are allowed."""
        text = takes_of(guide, self._words)
        takes = [text[:1].upper() + text[1:]] if text else []
        takes += [self._words.say("Must be filled in")] if guide.required else []
        takes += [self._words.say("Choose from the list, or type.")] if guide.choices else []
        rule: dict[str, Any] = {"validate": "any"}
        if guide.choices:
            source = self._shared.lists.of(guide.choices)
            rule = {"validate": "list", "source": source, "error_type": "warning", "ignore_blank": True}
        elif not takes:
            return
        message = ". ".join(takes)
        message = message if len(message) <= _MESSAGE_MOST else f"{message[: _MESSAGE_MOST - 2]} …"
        prompt = {"input_title": label[:_TITLE_MOST], "input_message": message} if takes else {}
        self._sheet.data_validation(1, column, last, column, {**rule, **prompt})


class _Exact(float):
    """A number written with all digits needed to read back the same number; the library writes only 16."""

    __slots__ = ()

    def __format__(self, _spec: str) -> str:
        return repr(float(self))


def native_value(cell: str, native: tuple[str, str], day: str) -> tuple[str | bool | float | datetime | time, str]:
    """The value to write for a native cell, with its number format. Returns the shown text if no value would read
    back the same. `day` is the format of dates.
    """
    kind, text = native
    if kind == "flag":
        return text == "true", "General"
    if kind == "number":
        return _number(cell, text)
    if kind == "time":
        if text == "24:00:00":  # no time of day, but a duration
            return 1.0, "[h]:mm"
        clock = time.fromisoformat(text)
        return clock, "hh:mm:ss" if clock.second else "hh:mm"
    moment = datetime.fromisoformat(text)
    if moment.year < _YEAR_FIRST:
        return cell, "@"
    clocks = "" if kind == "date" else " hh:mm:ss" if moment.second else " hh:mm"
    return moment, f"{day}{clocks}"


def protect(sheet: Any) -> None:
    """Lock a sheet except for its unlocked cells, without a password. All that is not typing stays allowed."""
    sheet.protect("", _ALLOWED)


def link_to(title: str, row: int, column: int) -> str:
    """The address of a cell within the workbook, for a link. Row and column count from 0."""
    return f"internal:{quote_sheetname(title)}!{xl_col_to_name(column)}{row + 1}"


def _number(cell: str, text: str) -> tuple[str | float, str]:
    number = float(text)
    digits = len(text.lstrip("-").replace(".", "").strip("0"))
    is_long = digits > _DIGITS_EXACT and "." not in text
    if is_long or not math.isfinite(number) or Decimal(repr(number)) != Decimal(text):
        return cell, "@"
    if cell == text:
        return _Exact(number), "General"
    if _DURATION.fullmatch(cell) and number >= 1:  # below 1 it is a time of day
        return _Exact(number), "[h]:mm:ss"
    code = _code_with_text(cell, text) or _code_of(cell, text)
    if not code and _WORD.search(cell):
        return cell, "@"
    return _Exact(number), code or "General"


def _code_of(cell: str, number: str) -> str:
    """The number format that shows a whole number like the cell: `01067` for 1067, `D-00012` for 12; empty if none fits."""
    if not number.isdecimal() or '"' in cell or len(cell) > _SHAPE_LENGTH_MAX:
        return ""
    parts = combinations(range(len(cell) + 1), 2)
    for start, end in sorted(parts, key=lambda part: part[0] - part[1]):  # longest first
        digits = cell[start:end]
        if _SHAPE.fullmatch(digits) and _NO_DIGIT.sub("", digits).lstrip("0") == number.lstrip("0"):
            shape = re.sub(r"([ ()-])", r"\\\1", re.sub("[0-9]", "0", digits))
            return f"{_quoted(cell[:start])}{shape}{_quoted(cell[end:])}"
    return ""


def _code_with_text(cell: str, number: str) -> str:
    """The number format that shows a number like the cell: `27 lb` for 27, `1.5 t` for 1500, `($5)` for -5; empty if none fits."""
    found = _WORDED.fullmatch(cell) if len(cell) <= _SHAPE_LENGTH_MAX else None
    if found is None or _PADDED.match(found[2]) or not _WORD.search(found[1] + found[3]):
        return ""
    before, digits, after = found.groups()
    for thousands in range(1 if _DIGIT.search(after) else _THOUSANDS_MAX):
        shown, exact = Decimal(digits).scaleb(3 * thousands), Decimal(number)
        is_same = shown == exact and shown.is_signed() == exact.is_signed()  # -0 of `K-0-0` is no zero
        if is_same or (exact < 0 and shown == -exact):
            places = re.sub("[0-9]", "0", digits.partition(".")[2])
            shape = f"0{places and '.'}{places}{',' * thousands}" if thousands else "General"
            return f"{'' if is_same else 'General;'}{_quoted(before)}{shape}{_quoted(after)}"
    return ""


def _quoted(text: str) -> str:
    """A literal text in a number format."""
    return r"\"".join(f'"{part}"' if part else "" for part in text.split('"'))


def _look(remarks: Sequence[RowRemark], *, belongs: bool) -> Mapping[str, Any]:
    if any(remark.level == "error" for remark in remarks):
        return _BAD
    if remarks:
        return _WARNED
    return _BELONGS if belongs else _PLAIN
