"""A compiled mapping as values: cells and rows, the input of expressions, columns, tables, joins.

Parses and converts nothing. `expressions.py` makes an `Expression` from a text and a `Scope`. The caller sets the
attributes of a `Frame` row by row and evaluates. `table_planning.py` makes the plans from the mapping file; `rows.py` binds them to a file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from loadsheet.mapping.schema import SET, Column, LookupSpec
from loadsheet.problems import Level, Problem
from loadsheet.reading.tables import numbered_label

if TYPE_CHECKING:
    from loadsheet.mapping.calculation import Calendar

Fold = Literal["error", "first", "second"]
"""Which of two moments with the same local time to use."""


class Type(StrEnum):
    """The type of a value in expressions and payload fields."""

    TEXT = "a text"
    NUMBER = "a number"
    MOMENT = "a date"
    SPAN = "a time of day"
    FLAG = "yes or no"
    CODE_ROW = "a row of a code table"
    ANY = "any value"


class CellProblem(NamedTuple):
    """A refused cell: the problem code, the values of its message, what to do, and the problem that it follows from."""

    code: str
    values: Mapping[str, Any] = {}
    hint: str = ""
    level: Level = "error"
    because: Problem | None = None


class ValueWithWarning(NamedTuple):
    """A value that is accepted with a warning."""

    value: Any
    warning: CellProblem


CONSEQUENCE = CellProblem("")
"""Replaces a value that needs a refused one. The problem is reported once, at the refused value."""


class SettingError(Exception):
    """An invalid column setting: its key, what is wrong, and what to do."""

    def __init__(self, key: str, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.key, self.text, self.hint = key, text, hint


DEEPEST = 4
"""How many lists within lists an expression may have."""


class CodeColumn(NamedTuple):
    """A column of a code table's row: its name, whether it may be blank, and its type. `declared_at` is where the mapping declares the type, such as `line 14`."""

    name: str
    nullable: bool
    type: Type = Type.TEXT
    declared_at: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """One value of a row: its position, its type, whether it may be blank; for a row of a code table, its columns. `declared_at` is where the
    mapping declares it, such as `line 14`; `is_code` says whether a text is the meaning of a code, so that its column has no other type.
    """

    index: int
    type: Type
    nullable: bool = False
    code_columns: tuple[CodeColumn, ...] = ()
    declared_at: str = ""
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The values of a table's rows by name, and what the days of its file are: the `fold` for local times that occur twice, the `zone`
    (None: each row has its own) and the calendars by name.
    """

    table: str
    slots: Mapping[str, Slot]
    fold: Fold = "error"
    zone: ZoneInfo | None = None
    calendars: "Mapping[str, Calendar]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names an expression may use. Bare names are values of the current row (`here`). `main` is the first row of the main table, under
    that table's name. `lists` are all rows of a table in the document: name -> (position in Frame.lists, shape). With `of_cells`, the
    expression is a condition on the cells of a row: a blank text counts as an empty text, and comparing a blank number is false.
    """

    here: Shape
    main: Shape | None = None
    lists: Mapping[str, tuple[int, Shape]] = field(default_factory=dict)
    of_cells: bool = False


class Frame:
    """The input of an expression. Made once for each pass over a file; its attributes are set row by row."""

    __slots__ = ("lists", "main", "now", "outer", "row", "variables")

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.row: Sequence[Any] = ()
        self.outer: Sequence[Any] = ()  # the row of the surrounding list
        self.main: Sequence[Any] = ()
        self.lists: Sequence[Sequence[Sequence[Any]]] = ()
        self.variables: list[Any] = [None] * DEEPEST  # current rows of the running comprehensions


class Use(NamedTuple):
    """A value that is read: of the current row, the main table's first row, the row of the surrounding list, or all rows of a table. An
    empty column means the rows themselves, for example to count them. `part` is the column of a code table's row, if only that is read.
    """

    table: str
    column: str
    rows: Literal["here", "first", "around", "all"]
    part: str = ""


Evaluate = Callable[[Frame], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `evaluate` gives Decimal, str, bool, aware datetime, timedelta or None."""

    text: str
    evaluate: Evaluate
    type: Type
    nullable: bool
    uses: frozenset[Use]


class ExpressionError(Exception):
    """An expression that cannot be used; a finding about the mapping file, placed by the caller. `at` is the place of the wrong part in
    the expression, in characters from its start.
    """

    def __init__(self, text: str, hint: str = "", at: int = 0) -> None:
        super().__init__(text)
        self.text, self.hint, self.at = text, hint, at


CALCULATION_ERRORS = (ArithmeticError, TypeError, ValueError, LookupError)
"""What evaluating may raise: a division by zero, the largest of no values, a blank where a value is needed."""


class Incalculable(ValueError):
    """A value that cannot be calculated, with the reason in words."""


class NoSuchTime(Incalculable):
    """A local time that a clock change skips or repeats."""


def reason_text(error: BaseException) -> str:
    """Why an evaluation failed, in words for the person who wrote the expression."""
    if isinstance(error, Incalculable):
        return str(error)
    if isinstance(error, OverflowError):
        return "the result is out of range"
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, TypeError):
        return "a value is blank or has the wrong type"
    if isinstance(error, LookupError):
        return "there are fewer rows than the expression needs"
    return "the result is not a number"


# ---- columns and tables ----

Convert = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class RowStep:
    """The part of a conversion that needs other cells of the row. Pads a text with `letter` to `to` characters where the rule `when` holds (empty:
    never), then calls `apply` with it and the values of the columns `others`: texts, but with `searched` the last one is a value of that type.
    """

    apply: Callable[[Any, Sequence[Any]], Any]
    others: tuple[str, ...]
    when: str = ""
    to: int = 0
    letter: str = ""
    searched: Type | None = None


@dataclass(frozen=True, slots=True)
class TableLookup:
    """How columns find a row of a table of the drop: the lookup's name and settings, and the position of the table. There, `columns` has the
    indexes of the keys and `bounds` those of a range. `code_columns` are those of its rows, in their order. `searched` is the type of the number
    or date that a range is searched for.
    """

    name: str
    spec: LookupSpec
    position: int
    columns: tuple[int, ...]
    bounds: tuple[int, int] | None
    code_columns: tuple[CodeColumn, ...]
    searched: Type | None
    of_days: bool

    @property
    def missing(self) -> Literal["error", "keep", "blank"]:
        """The rule for a key without a row."""
        return self.spec.missing

    @property
    def more_keys(self) -> int:
        """How many columns `lookup_with` names."""
        return len(self.columns) - 1 + (self.bounds is not None)


class FoundRow(NamedTuple):
    """What a row looks up in another table: the values of the row there, or None or a problem; and the rows there, as `rows.ReadRow`."""

    value: Any
    rows: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One compiled column. `convert` takes a cell (text, or a typed workbook cell) and returns a value, None for a blank, `CellProblem` for a
    refused cell, or `ValueWithWarning`.

    - `cells`: the column whose cells it reads (its own name, except for a part of a split column)
    - `zoned`: `convert` returns its moments without a zone
    - `choices`: the texts that a cell may hold, if the mapping lists them
    - `reference`: the table in which the row of its value is found
    - `formats`: the declared formats of dates and times, with the `locale` of their month names
    - `writes`: the first of them (of a date: the first without a time of day)
    """

    name: str
    spec: Column
    slot: Slot
    convert: Convert
    zoned: bool
    row_step: RowStep | None
    cells: str
    heading: str = ""
    choices: tuple[str, ...] = ()
    writes: str = ""
    formats: tuple[str, ...] = ()
    locale: str | None = None
    reference: TableLookup | None = None

    @property
    def label(self) -> str:
        """The heading that the shipper sees, with its number if it repeats."""
        return numbered_label(self.plain_label, self.spec.occurrence or 1)

    @property
    def labels(self) -> tuple[str, ...]:
        """The heading and its aliases, as the header of a table shows them."""
        return (self.label, *(numbered_label(alias, self.spec.occurrence or 1) for alias in self.spec.aliases))

    @property
    def plain_label(self) -> str:
        """The heading as the sheet has it."""
        return self.heading or self.spec.label or self.name


@dataclass(frozen=True, slots=True)
class DerivedPlan:
    """A value computed for every row: its name, index and expression, and the indexes of its source values."""

    name: str
    index: int
    expression: Expression
    needs: frozenset[int]


@dataclass(frozen=True, slots=True)
class RowStepPlan:
    """A value that is completed when its row is read: the column, the condition for padding it (if any) with the indexes it reads, and the
    indexes of the further keys of its code table, or of its unit.
    """

    column: ColumnPlan
    when: Expression | None
    needs: frozenset[int]
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetsPlan:
    """Column sets: each word in the labels with its meaning. `columns` are those of every set. A set counts if one of `filled_by` is filled,
    or one of `required` holds a value other than zero (both are indexes in `columns`). `repeated`: the labels of all sets are the same.
    """

    words: tuple[tuple[str, str], ...]
    columns: tuple[ColumnPlan, ...]
    filled_by: tuple[int, ...]
    required: tuple[int, ...]
    repeated: bool

    def heading(self, label: str, number: int) -> str:
        """The heading of a column of the sets in one of them, counted from 0. `label` holds the placeholder."""
        if self.repeated:
            return numbered_label(" ".join(label.replace(SET, " ").split()), number + 1)
        return label.replace(SET, self.words[number][0])


@dataclass(frozen=True, slots=True)
class KindPlan:
    """The rows of one kind: the heading of the kind column, the texts of this kind, and the texts of all kinds. The table with `others` set
    leaves out rows of unknown kinds; `is_strict`: they are problems of the table that `takes_unknown`, as misspelt ones always are. `above` are cells from the last row
    above of another kind, as (its texts, the column's layout name).
    """

    label: str
    own: frozenset[str]
    known: tuple[str, ...]
    others: Literal["error", "ignore"] | None
    above: tuple[tuple[frozenset[str], str], ...]
    is_strict: bool
    takes_unknown: bool


@dataclass(frozen=True, slots=True)
class TotalsPlan:
    """Rows that state sums: the rule for such rows, the columns it reads, the summed columns, and whether sums restart after one."""

    where: Expression
    needs: tuple[int, ...]
    sums: tuple[int, ...]
    by_block: bool


class JoinedRows(NamedTuple):
    """The result of a join: for each row of the other table the indexes of the rows here, and the rows without a partner."""

    of: list[list[int]]
    unmatched: list[int]


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a table is joined to another: the other's position, the matching columns as (here, there), and what happens to rows without a
    partner.
    """

    to: int
    on: tuple[tuple[int, int], ...]
    missing: Literal["error", "ignore"]
    extra: Literal["error", "ignore"]

    def match(self, here: Sequence[Sequence[Any]], there: Sequence[Sequence[Any]]) -> JoinedRows:
        """Match the rows of one document by their values. A blank matches nothing."""
        own, other = [pair[0] for pair in self.on], [pair[1] for pair in self.on]
        by_key: dict[tuple[Any, ...], list[int]] = {}
        for index, values in enumerate(here):
            by_key.setdefault(tuple([values[place] for place in own]), []).append(index)
        of: list[list[int]] = []
        met: set[int] = set()
        for values in there:
            key = tuple([values[place] for place in other])
            mine = [] if None in key else by_key.get(key, [])
            of.append(mine)
            met.update(mine)
        return JoinedRows(of, [index for index in range(len(here)) if index not in met])


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
    - `lookups`: how its rows are found, if other tables look them up; its rows are no records
    """

    name: str
    position: int
    columns: tuple[ColumnPlan, ...]
    derived: tuple[DerivedPlan, ...]
    row_steps: tuple[RowStepPlan, ...]
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
    lookups: tuple[TableLookup, ...] = ()

    def label(self, index: int) -> str:
        """The heading of a value, or the name of a derived one."""
        if index < len(self.columns):
            return self.columns[index].label
        return next((name for name, slot in self.shape.slots.items() if slot.index == index), "")

    def column(self, name: str) -> ColumnPlan | None:
        """The column of this name; None if there is none."""
        slot = self.shape.slots.get(name)
        return self.columns[slot.index] if slot is not None and slot.index < len(self.columns) else None

    def derived_as(self, name: str) -> DerivedPlan | None:
        """The derived value of this name; None if there is none."""
        return next((plan for plan in self.derived if plan.name == name), None)

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

    def columns_behind(self, indexes: Iterable[int]) -> set[int]:
        """The columns among these values, and those that the derived ones among them are computed from."""
        made_from = {derived.index: derived.needs for derived in self.derived}
        found: set[int] = set()
        for index in indexes:
            found |= self.columns_behind(made_from[index]) if index in made_from else {index}
        return found


def in_every_set(column: ColumnPlan) -> bool:
    """Whether the header has this column once for each set."""
    return not column.spec.whereabouts() and SET in column.label
