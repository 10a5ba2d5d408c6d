"""The compiled tables of a mapping as values: columns, derived values, keys, and how file rows become table rows.

`tables.py` makes them from the mapping file; `views.py` and `rows.py` bind them to a file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal
from zoneinfo import ZoneInfo

from loadsheet.mapping.schema import SET, Column
from loadsheet.mapping.texts import Finish
from loadsheet.mapping.values import Expression, Fold, Shape, Slot

Convert = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One compiled column. `convert` takes a cell (text, or a typed workbook cell) and returns a value, None for a blank, `CellProblem` for a
    refused cell, or `ValueWithWarning`.

    - `cells`: the column whose cells it reads (its own name, except for a part of a split column)
    - `zoned`: `convert` returns its moments without a zone
    - `choices`: the texts that a cell may hold, if the mapping lists them
    - `formats`: the declared formats of dates and times, with the `locale` of their month names
    - `writes`: the first of them (of a date: the first without a time of day)
    """

    name: str
    spec: Column
    slot: Slot
    convert: Convert
    zoned: bool = False
    finish: Finish | None = None
    cells: str = ""
    heading: str = ""
    choices: tuple[str, ...] = ()
    writes: str = ""
    formats: tuple[str, ...] = ()
    locale: str | None = None

    @property
    def label(self) -> str:
        """The heading that the shipper sees."""
        return self.heading or self.spec.label or self.name


@dataclass(frozen=True, slots=True)
class DerivedPlan:
    """A value computed for every row: its name, index and expression, and the indexes of its source values."""

    name: str
    index: int
    expression: Expression
    needs: frozenset[int]


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """A text that is completed when its row is read: the column, the condition for padding it (if any) with the indexes it reads, and the
    indexes of the further keys of its code table.
    """

    column: ColumnPlan
    when: Expression | None
    needs: frozenset[int]
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SetsPlan:
    """Column sets: each word in the labels with its meaning. `columns` are those of every set. A set counts if one of `filled_by` is filled,
    or one of `required` holds a value other than zero (both are indexes in `columns`).
    """

    words: tuple[tuple[str, str], ...]
    columns: tuple[ColumnPlan, ...]
    filled_by: tuple[int, ...]
    required: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KindPlan:
    """The rows of one kind: the heading of the kind column, the texts of this kind, and the texts of all kinds. The table with `others` set
    handles rows of unknown kinds. `above` are cells from the last row above of another kind, as (its texts, the column's layout name).
    """

    label: str
    own: frozenset[str]
    known: tuple[str, ...]
    others: Literal["error", "ignore"] | None
    above: tuple[tuple[frozenset[str], str], ...] = ()


@dataclass(frozen=True, slots=True)
class TotalsPlan:
    """Rows that state sums: the rule for such rows, the columns it reads, the summed columns, and whether sums restart after one."""

    where: Expression
    needs: tuple[int, ...]
    sums: tuple[int, ...]
    by_block: bool


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a table is joined to another: the other's position, the matching columns as (here, there), and what happens to rows without a
    partner.
    """

    to: int
    on: tuple[tuple[int, int], ...]
    missing: Literal["error", "ignore"]
    extra: Literal["error", "ignore"]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One compiled table.

    - `zone`: the column with each row's time zone
    - `key`: the columns of the record's key; `fills_by`: those that name the record even if each row is a separate record
    - `order`: the columns it is sorted by
    - `ignore`: the rule for rows to leave out; `ignore_needs`: the columns it reads
    - `source`: the table of the file its rows are read from; `prefix` is put before its column names there
    - `made_of`: the position of the table whose rows hold its column sets; `joined_to`: the position of the table it is joined to
    - `patterns`: the patterns of the file's name
    """

    name: str
    position: int
    columns: tuple[ColumnPlan, ...]
    derived: tuple[DerivedPlan, ...]
    finishes: tuple[FinishPlan, ...]
    shape: Shape
    key: tuple[int, ...] = ()
    fills_by: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    ignore: Expression | None = None
    ignore_needs: tuple[int, ...] = ()
    zone: int | None = None
    default_zone: ZoneInfo | None = None
    fold: Fold = "error"
    source: str = ""
    prefix: str = ""
    patterns: tuple[str, ...] = ()
    sets: SetsPlan | None = None
    kind: KindPlan | None = None
    totals: TotalsPlan | None = None
    made_of: int | None = None
    joined_to: int | None = None

    def label(self, index: int) -> str:
        """The heading of a value, or the name of a derived one."""
        if index < len(self.columns):
            return self.columns[index].label
        return next((name for name, slot in self.shape.slots.items() if slot.index == index), "")

    @property
    def belongs_to(self) -> int | None:
        """The position of the table to whose rows its own rows belong, if any."""
        return self.made_of if self.joined_to in (None, 0) else self.joined_to

    @property
    def is_view(self) -> bool:
        """Whether its rows differ from the rows of the file."""
        return self.sets is not None or self.kind is not None

    @property
    def fills(self) -> tuple[ColumnPlan, ...]:
        """The columns whose blank cells are filled from above."""
        return tuple(column for column in self.columns if column.spec.fill_down)


def in_every_set(column: ColumnPlan) -> bool:
    """Whether the header has this column once for each set."""
    return not column.spec.whereabouts() and SET in column.label
