"""The compiled tables of a mapping, as values: columns, derived values, keys, and how rows of a file become rows of a table.

`tables.py` makes them from the mapping file, `views.py` and `rows.py` bind them to a file.
"""

from dataclasses import dataclass
from typing import Literal
from zoneinfo import ZoneInfo

from loadsheet.mapping.conversion import ColumnPlan
from loadsheet.mapping.moments import Fold
from loadsheet.mapping.schema import SET
from loadsheet.mapping.scopes import Expression, Shape


@dataclass(frozen=True, slots=True)
class DerivedPlan:
    """A value computed for every row: its name, place and expression, and the places of the values it is computed from."""

    name: str
    index: int
    expression: Expression
    needs: frozenset[int]


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """A text that is completed when its row is read: the column, the rule for padding it (if it is padded so) with the places of the
    values that this reads, and the places of the further keys of its code table.
    """

    column: ColumnPlan
    when: Expression | None
    needs: frozenset[int]
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SetsPlan:
    """Column sets: each word as it stands in the labels, with what it means; `columns` are those that every set has, `filled_by` those
    of them of which one must be filled for a set to count (places in `columns`), `required` the others that cannot be left out: a value
    other than zero in one of them makes the set count as well.
    """

    words: tuple[tuple[str, str], ...]
    columns: tuple[ColumnPlan, ...]
    filled_by: tuple[int, ...]
    required: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KindPlan:
    """The rows of one kind: the heading that tells, the texts that mean this kind and those that mean any kind. The table with
    `others` set answers for rows of no kind. `above` are the cells taken from the last row above of another kind, as (its texts, the
    column's name in the layout).
    """

    label: str
    own: frozenset[str]
    known: tuple[str, ...]
    others: Literal["error", "ignore"] | None
    above: tuple[tuple[frozenset[str], str], ...] = ()


@dataclass(frozen=True, slots=True)
class TotalsPlan:
    """Rows that state sums: the rule that tells them, the columns it reads, the columns summed, and whether sums begin anew after one."""

    where: Expression
    needs: tuple[int, ...]
    sums: tuple[int, ...]
    by_block: bool


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a table belongs to another one: its position, the columns that agree as (here, there), and what happens to rows without a
    partner.
    """

    to: int
    on: tuple[tuple[int, int], ...]
    missing: Literal["error", "ignore"]
    extra: Literal["error", "ignore"]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One compiled table. `zone` is the column that names each row's time zone; `key` the columns that say which record a
    row belongs to, `fills_by` those that name the record even where each row is one of its own; `order` those it is sorted by; `ignore` the rule for rows to leave out, with the columns it reads.

    `source` is the table of the file that its rows are read from, `prefix` stands before the names of its columns there; `made_of` is
    the position of the table whose rows its column sets are in, `joined_to` of the one it is joined to; `patterns` are those of the file's name.
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
        """The position of the table to whose single rows its own belong, if they do."""
        return self.made_of if self.joined_to in (None, 0) else self.joined_to

    @property
    def is_view(self) -> bool:
        """Whether its rows are not simply those of its table in the file."""
        return self.sets is not None or self.kind is not None

    @property
    def fills(self) -> tuple[ColumnPlan, ...]:
        """The columns whose blank cells take what stands above."""
        return tuple(column for column in self.columns if column.spec.fill_down)


def in_every_set(column: ColumnPlan) -> bool:
    """Whether a column stands in the header once for each set."""
    return not column.spec.whereabouts() and SET in column.label
