"""What a mapping asks of one table: where to look for it, and which columns its header must hold. Also the bounds of its content.

The mapping builds the layouts; reading never sees a mapping file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from loadsheet.settings import (
        Settings,  # a reader's process never loads it: it takes longer than all that reads CSV
    )


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column of the mapping: its name there, the labels it may stand under (label, then aliases), and whether the header
    must hold it. Labels are compared folded (see `header.fold`).
    """

    name: str
    labels: tuple[str, ...]
    required: bool = True


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """How a column is read: as text, number or moment; the width that shorter values are padded to (0: they are not); and its date
    formats in words, each with what reads a text of this format (None: the text is not of it).
    """

    kind: Literal["text", "number", "moment"] = "text"
    pads_to: int = 0
    formats: tuple[tuple[str, Callable[[str], object | None]], ...] = ()


@dataclass(frozen=True, slots=True)
class RowFilters:
    """Which rows around and between those of a table are not part of it. Rows that match a rule are ignored, never lost.

    `units_row`: the first row under the header holds units (True), holds none (False), or is looked at ("auto"). `comment` is
    what the first cell of a comment begins with. `totals` are words that the first text of a total row begins with, wherever
    it stands; at the first row that begins with one of `footer` the table ends. `stop_at_blank`: it ends at a blank row.
    `hidden_rows` and `hidden_columns` say whether what a workbook hides is read like the rest.
    """

    units_row: Literal["auto"] | bool = "auto"
    comment: str = ""
    totals: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()
    stop_at_blank: bool = False
    hidden_rows: Literal["read", "ignore"] = "read"
    hidden_columns: Literal["read", "ignore"] = "read"


@dataclass(frozen=True, slots=True)
class Layout:
    """One table as a mapping wants it; `name` is the mapping's name for it.

    `sheets` are names of which the first that exists is read; empty: the visible sheet with the header. `header_row`
    is a row number from 1, or "auto": the first row of a file's top with every required label; `header_rows` is over how many
    rows the labels are spread ("auto": one, or two or three if only together they hold every label). `encodings` and `delimiters`
    are for text files: tried strictly in this order; a byte order mark wins over the encodings, a `sep=` line over the delimiters.
    `quote` is what values of text files are quoted with, doubled inside them (empty: nothing is); `escape` is what makes the
    character after it an ordinary one (empty: nothing does). `row_filters` says which rows are none of the table's.
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

    def __post_init__(self) -> None:
        """Raises ValueError for what can never be read: no column, no encoding, a delimiter that is not one character, or one
        character with two meanings.
        """
        if not self.columns or not self.encodings or not self.delimiters:
            raise ValueError(f"table {self.name} needs a column, an encoding and a delimiter at least")
        for delimiter in self.delimiters:
            if len(delimiter) != 1 or delimiter in "\r\n" or delimiter in (self.quote, self.escape):
                raise ValueError(f"table {self.name}: {delimiter!r} cannot be a delimiter")
        for mark in filter(None, (self.quote, self.escape)):
            if len(mark) > 1 or mark in "\r\n " or self.quote == self.escape:
                raise ValueError(f"table {self.name}: {mark!r} cannot be a quote or an escape")


class Bounds(NamedTuple):
    """Settings of the same names: rows, characters, columns, unpacked bytes, and lines of one record."""

    blank_rows_max: int
    cell_length_max: int
    columns_max: int
    inflated_bytes_max: int
    record_lines_max: int


def bounds_of(settings: "Settings") -> Bounds:
    """The bounds in the settings."""
    return Bounds(*(getattr(settings.reading, name) for name in Bounds._fields))
