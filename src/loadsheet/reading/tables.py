"""The values of reading: the layout that a mapping expects (`Layout`), the table with its rows and cells, and row checks.

A cell is text. A number, date or flag of a workbook is also text (`Native`), in one canonical form, with its kind. Converters
need not guess: a text cell "1.234" is read by the mapping's locale, while a number cell 1.234 is already exact.

The mapping builds the layouts; reading never sees a mapping file.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from loadsheet.problems import Problem, Where, column_letters
from loadsheet.workbook_marks import ANY_TEXT

if TYPE_CHECKING:
    from loadsheet.settings import Settings  # slow to load, so never imported in a reader's process

INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]|[\u200c\u200d](?![\u0600-\u1fff])")
"""Characters that nobody sees. A joiner is none before a letter of a script that needs it, such as Persian."""
_LOOK_TYPED = str.maketrans(
    "\N{NO-BREAK SPACE}\N{FIGURE SPACE}\N{NARROW NO-BREAK SPACE}\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}\N{HYPHEN}\N{NON-BREAKING HYPHEN}",
    "   \n\n--",
)


def as_typed(text: str) -> str:
    """A text without invisible characters, and with the spaces and hyphens of a keyboard for those that look like them."""
    return text if text.isascii() else INVISIBLE.sub("", text).translate(_LOOK_TYPED).strip()


# ---- the layout ----


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column of the mapping: its name there, its possible labels (label, then aliases), and whether the header must have it.
    Labels are compared folded (see `header.fold_label`). For a label that repeats, `occurrence` says which of its columns is meant (from 1), and
    `count` how many there must be (for one of column sets, `in_set`: at most).
    """

    name: str
    labels: tuple[str, ...]
    required: bool = True
    occurrence: int = 0
    count: int = 0
    in_set: bool = False

    @property
    def accepted(self) -> tuple[str, ...]:
        """The labels, and those with the numbers that a fix file gives to labels that repeat."""
        return (
            *self.labels,
            *(numbered_label(label, number) for label in self.labels for number in range(2, self.count + 1)),
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """The labels as the header of a table shows them."""
        return tuple(numbered_label(label, self.occurrence) for label in self.labels)


def numbered_label(label: str, occurrence: int) -> str:
    """A label that repeats, with the number of its column from the second on: Item, Item (2)."""
    return f"{label} ({occurrence})" if occurrence > 1 else label


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """How a column is read: as text, number or moment; the width to which shorter values are padded (0: no padding); its date formats in
    words, each with a function that parses a text (None: the text does not match); whether its texts, as they are, identify records; and
    which of `ABSENT` it sends as they are.
    """

    kind: Literal["text", "number", "moment"] = "text"
    pads_to: int = 0
    formats: tuple[tuple[str, Callable[[str], object | None]], ...] = ()
    is_key: bool = False
    sends: tuple[str, ...] = ()


ABSENT = ("NULL", "null", "(null)", "nan", "NaN", "NaT", "<NA>", "undefined", "[object Object]")
"""What programs write for no value."""


@dataclass(frozen=True, slots=True)
class RowFilters:
    """Rules for rows that are not part of the table. Rows that match a rule are ignored, never lost.

    `units_row`: whether the first row under the header holds units ("auto": detect). `comment` starts the first cell of a comment.
    `totals` are words that start the first text of a total row, in any column. The table ends at the first row that starts with
    one of `footer`, and with `stop_at_blank` at a blank row. `hidden_rows` and `hidden_columns`: whether hidden ones are read; None: they
    are, with a warning.
    """

    units_row: Literal["auto"] | bool = "auto"
    comment: str = ""
    totals: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()
    stop_at_blank: bool = False
    hidden_rows: Literal["read", "ignore"] | None = None
    hidden_columns: Literal["read", "ignore"] = "read"


@dataclass(frozen=True, slots=True)
class Layout:
    """One table as a mapping expects it; `name` is the mapping's name for it.

    `sheets`: the first existing one is read, and of a name with a star all visible ones that fit and have the header; empty: the visible
    sheet with the header. `header_row` is a row number from 1, or
    "auto": the first row near the top with every required label. `header_rows` is the number of rows that the labels span ("auto":
    one, or two or three if only together they hold every label). Text files: `encodings` and `delimiters` are tried strictly in
    this order; a byte order mark overrides the encodings, a `sep=` line the delimiters. `quote` encloses values and is doubled
    inside them (empty: none); `escape` makes the next character literal (empty: none). `row_filters` exclude rows.
    """

    name: str
    columns: tuple[WantedColumn, ...]
    sheets: tuple[str, ...] = ()
    header_row: int | Literal["auto"] = "auto"
    encodings: tuple[str, ...] = ("utf-8-sig",)
    delimiters: tuple[str, ...] = (",", ";", "\t", "|")
    quote: str = '"'
    escape: str = ""
    header_rows: int | Literal["auto"] = "auto"
    row_filters: RowFilters = RowFilters()

    @property
    def reads_several_sheets(self) -> bool:
        """Whether it is read from several sheets, as one table for each of them (see `table_on_sheet`)."""
        return any(ANY_TEXT in title for title in self.sheets)


class Bounds(NamedTuple):
    """Settings of the same names, in rows, characters, columns, unpacked bytes, and lines of one record."""

    blank_rows_max: int
    cell_length_max: int
    columns_max: int
    inflated_bytes_max: int
    record_lines_max: int


def bounds_of(settings: "Settings") -> Bounds:
    """The bounds in the settings."""
    return Bounds(*(getattr(settings.reading, name) for name in Bounds._fields))


# ---- the content of a file ----

NativeKind = Literal["number", "datetime", "date", "time", "flag", "error", "formula", "object"]

_FORMULA_SHOWN_MAX = 1_000  # characters
_VALUELESS = frozenset({"error", "formula", "object"})


class Native(str):
    """A typed workbook cell as canonical text: number `12.5` (no exponent, no trailing `.0`), datetime `2026-03-01 08:00:00`,
    date `2026-03-01`, time `08:00:00`, flag `true`/`false`, error `#N/A`, `=` for a `formula` without a saved value, or
    `<list>` for an `object` of a frame that no cell can hold.

    `displayed` is the cell as its sender sees it, if the number format adds to the value: `01067` for 1067 in `00000`, `$12.5`, `27 lb` for
    27 in `0.0" lb"`, `1.5 t` for 1500 in `0.0," t"`, and the text of a formula, `=SUM(B2:B9)`, if the file has it. `without_currency` is the
    same without the currency that the format adds: `12.5`.
    """

    __slots__ = ("displayed", "kind", "without_currency")
    kind: NativeKind
    without_currency: str
    displayed: str

    def __new__(
        cls, text: str, kind: NativeKind, without_currency: str | None = None, displayed: str | None = None
    ) -> Self:
        """A cell of this kind; `without_currency` is `text` unless given, and `displayed` is `without_currency`."""
        cell = super().__new__(cls, text)
        cell.kind = kind
        cell.without_currency = text if without_currency is None else without_currency
        cell.displayed = cell.without_currency if displayed is None else displayed
        return cell


def cell_of(value: object) -> str:
    """A value of Python as a cell; an empty text for None. An object of any other type is one of kind `object`, with its type as text."""
    if value is None or isinstance(value, str):
        return str(value or "")
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # the second is numpy's
        return Native(str(value).lower(), "flag")
    if isinstance(value, Decimal | Real):
        number = Decimal(str(value))
        return Native(format(number.normalize(), "f"), "number") if number.is_finite() else str(value)
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo else Native(value.isoformat(" "), "datetime")
    if isinstance(value, date | time):
        return Native(value.isoformat(), "date" if isinstance(value, date) else "time")
    return Native(f"<{type(value).__name__}>", "object")


def formula_cell(text: str) -> Native:
    """The cell of a formula without a saved value; `text` begins with `=`."""
    return Native("=", "formula", text[:_FORMULA_SHOWN_MAX])


class Row(NamedTuple):
    """One row: its number from 1 as the sender's program counts lines or rows, and its cells (exactly as many as the table has
    columns). `problem` makes it unusable; `cells` then hold the readable part. `ignored` is the rule, in words, that excludes it
    from the table, such as a unit, a total or a note; it then has no problem. `beside` is the first cell to the right of the table,
    behind a blank column: its position from 0 and its text. It is not part of the row.
    """

    number: int
    cells: tuple[str, ...]
    problem: Problem | None = None
    ignored: str = ""
    beside: tuple[int, str] | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The cells as plain texts, as their sender sees them. The ledger and the reports use these."""
        return tuple([cell.displayed if isinstance(cell, Native) else cell for cell in self.cells])

    @property
    def natives(self) -> tuple[tuple[int, NativeKind, str], ...]:
        """The typed cells except errors and formulas, as position from 0, kind and canonical text."""
        return tuple(
            [
                (position, cell.kind, str(cell))
                for position, cell in enumerate(self.cells)
                if isinstance(cell, Native) and cell.kind not in _VALUELESS
            ]
        )


@dataclass(frozen=True, slots=True)
class Table:
    """The rows under one header. `rows()` streams them from the file on each call, without blank rows.

    `name` is the table's name in the mapping; `file` is the original file name; `sheet` is empty for text files; `columns` maps
    the mapping's column names to positions in `header`; `reading_notes` describe for the reports how the file was read: encoding,
    delimiter, header row, rows skipped above it, hidden sheets, sheets that are not read.

    A table of a fix file has the form of the original (see `fix_file_tables`). `fix_positions` then holds the positions of its columns in the
    fix file (-1: missing), and `first_name` and `first_sheet` the names of the original file and sheet.
    """

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    rows: Callable[[], Iterator[Row]]
    reading_notes: dict[str, str]
    fix_positions: tuple[int, ...] = ()
    first_name: str = ""
    first_sheet: str = ""

    def where(self, row: int, column: int | None = None, path: str = "") -> Where:
        """The place of a row or, with a column position, of a cell."""
        where = place_of_cell(self.file, self.sheet, self.header, row, column)
        if self.fix_positions and column is not None and self.sheet:
            position = self.fix_positions[column] if column < len(self.fix_positions) else column
            where = replace(where, cell=f"{column_letters(position)}{row}" if position >= 0 else "")
        return replace(where, path=path) if path else where


class Top(NamedTuple):
    """The first rows of a sheet, or of a text file (empty `sheet`), as number and cells, without blank rows. `encoding` and
    `delimiter` are the most plausible ones of a text file.
    """

    sheet: str
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    encoding: str = ""
    delimiter: str = ""

    @classmethod
    def of(cls, table: Table) -> Self:
        """The first rows that `as_table` made a table of."""
        widths = map(int, table.reading_notes["widths"].split())
        rows = tuple((row.number, row.cells[:width]) for row, width in zip(table.rows(), widths, strict=True))
        return cls(table.sheet, rows, table.reading_notes["encoding"], table.reading_notes["delimiter"])

    def as_table(self, name: str, file: str) -> Table:
        """The rows as a table without headings; short rows are filled up, because the rows of a table have one width."""
        widths = [len(cells) for _, cells in self.rows]
        width = max(widths, default=0)
        rows = [Row(number, (*cells, *[""] * (width - len(cells)))) for number, cells in self.rows]
        found = {"encoding": self.encoding, "delimiter": self.delimiter, "widths": " ".join(map(str, widths))}
        return Table(name, file, self.sheet, ("",) * width, 0, {}, lambda: iter(rows), found)


def place_of_cell(file: str, sheet: str, header: tuple[str, ...], row: int, column: int | None = None) -> Where:
    """The place of a row or, with a column position, of a cell under this header."""
    if column is None:
        return Where(file, sheet, row)
    label = header[column] if column < len(header) else ""
    address = f"{column_letters(column)}{row}" if sheet else ""
    return Where(file, sheet, row, label, address)


CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Control characters except tab and line breaks."""

NOT_READ, ALIKE_NOT_READ = "sheets not read", "sheets with the same columns, not read"
"""Keys of `Table.reading_notes`: visible sheets of the workbook that no table of the mapping reads."""

WITHOUT_ROWS = "sheets without rows"
"""The key of `Table.reading_notes` for sheets that have the header of a table that is read from several sheets, and nothing below it."""

STRUCK_OUT = "rows struck out"
"""The key of `Table.reading_notes` for the first rows below the header that are struck out."""

HIDDEN_READ = "rows hidden"
"""The key of `Table.reading_notes` for the first rows below the header that are hidden, if the mapping does not say what becomes of them."""

LAST_LINE, UNENDED = "last line", "without a line end"
"""The key of `Table.reading_notes` for the end of a text file, and its value if the last line may be cut off."""

_DELIMITERS = ",;\t|"

OF_ONE_CELL = frozenset({"R209", "R212"})
"""Problems of a single cell; the other cells of the row are readable."""


@dataclass(frozen=True, slots=True)
class RowChecks:
    """Checks that the rows of a table are as wide as its header and that their cells are undamaged. `cell_length_max` is in characters."""

    file: str
    sheet: str
    header: tuple[str, ...]
    cell_length_max: int

    def where(self, row: int, column: int | None = None) -> Where:
        """The place of a row or a cell."""
        return place_of_cell(self.file, self.sheet, self.header, row, column)

    def fit_width(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The cells, cut or padded with blanks to the width of the header."""
        width = len(self.header)
        return (*cells[:width], *("",) * (width - len(cells)))

    def ragged(self, number: int, cells: Sequence[str], *, is_cut: bool = False) -> Row:
        """A row with too few or too many cells. In a text file any value may be in the wrong column, so the problem names all cells. `is_cut`:
        the file ends within it.
        """
        width = len(self.header)
        beyond = [place for place in range(width, len(cells)) if cells[place].strip()]
        surplus = ", ".join(cells[place] for place in beyond)[:100]
        if len(cells) == 1 and width > 2 and any(cells[0].count(mark) >= width - 1 for mark in _DELIMITERS):
            hint = "the whole row is one value in quotes: export the file again from its source"
        elif len(cells) < width and is_cut:
            hint = "the file ends within this row; send the complete file again"
        elif len(cells) < width:
            hint = "a cell is missing, so it is not clear which column each value belongs to"
        elif self.sheet:
            hint = "a value stands beyond the last column of the header; delete it, or give its column a label"
        else:
            hint = (
                "a value stands beyond the last column of the header; a delimiter inside a value needs quotes around it"
            )
        where = self.where(number, beyond[0] if self.sheet and beyond else None)
        values = {"cells": len(cells), "columns": width}
        also = () if self.sheet else self.every_cell(number)
        return Row(number, self.fit_width(cells), Problem("R205", where, surplus, values, hint, also=also))

    def every_cell(self, number: int) -> tuple[Where, ...]:
        """The places of all cells of a row."""
        return tuple(self.where(number, column) for column in range(len(self.header)))

    def find_damage(self, number: int, cells: Sequence[str]) -> Problem | None:
        """The problem of the cells: the first control character, else the first cell that is too long; None if all are fine."""
        damaged = [column for column, cell in enumerate(cells) if CONTROL.search(cell)]
        long = [column for column, cell in enumerate(cells) if len(cell) > self.cell_length_max]
        if not damaged and not long:
            return None
        first, *others = [self.where(number, column) for column in damaged or long]
        cell, also = cells[(damaged or long)[0]], tuple(others)
        if found := CONTROL.search(cell):
            shown = CONTROL.sub("\N{REPLACEMENT CHARACTER}", cell)[:100]
            hint = "the file may be damaged; remove the character and send it again"
            return Problem("R209", first, shown, {"character": ord(found[0])}, hint, also=also)
        values = {"length": len(cell), "limit": self.cell_length_max}
        return Problem("R212", first, cell[:100], values, "shorten it", also=also)


def with_line_feeds(cells: Sequence[str]) -> list[str]:
    """The cells with all line ends (CR LF, CR or LF, depending on the program that saved the file) as LF."""
    return [cell.replace("\r\n", "\n").replace("\r", "\n") if "\r" in cell else cell for cell in cells]


def is_blank(cells: Sequence[str]) -> bool:
    """Whether the cells hold only white space, or the mark that DOS and AS/400 write at the end of a file."""
    return not any(cells) or "".join(cells).strip() in ("", "\x1a")
