"""The values of cells and rows: their types, the problems that replace a value, and the input of expressions.

Parses, converts and calculates nothing. `expressions.py` makes an `Expression` from a text and a `Scope`. The caller sets the
attributes of a `Frame` row by row and evaluates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from loadsheet.problems import Level

Fold = Literal["error", "first", "second"]
"""Which of two moments with the same local time to use."""


class Type(StrEnum):
    """The type of a value in expressions and payload fields."""

    TEXT = "a text"
    NUMBER = "a number"
    MOMENT = "a date"
    SPAN = "a time of day"
    FLAG = "yes or no"
    CODES = "a row of a code table"
    ANY = "any value"


class CellProblem(NamedTuple):
    """A refused cell: the problem code, the values of its message, and what to do."""

    code: str
    values: Mapping[str, Any] = {}
    hint: str = ""
    level: Level = "error"


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


@dataclass(frozen=True, slots=True)
class Slot:
    """One value of a row: its position, its type, whether it may be blank; for a row of a code table, its columns."""

    index: int
    type: Type
    blank: bool = False
    codes: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The values of a table's rows by name, and the `fold` for local times that occur twice."""

    table: str
    slots: Mapping[str, Slot]
    fold: Fold = "error"


@dataclass(frozen=True, slots=True)
class Scope:
    """The names an expression may use. Bare names are values of the current row (`here`). `main` is the first row of the main table, under
    that table's name. `lists` are all rows of a table in the document: name -> (position in Frame.lists, shape).
    """

    here: Shape
    main: Shape | None = None
    lists: Mapping[str, tuple[int, Shape]] = field(default_factory=dict)


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
    empty column means the rows themselves, for example to count them.
    """

    table: str
    column: str
    rows: Literal["here", "first", "around", "all"]


Evaluate = Callable[[Frame], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `evaluate` gives Decimal, str, bool, aware datetime, timedelta or None."""

    text: str
    evaluate: Evaluate
    type: Type
    blank: bool
    uses: frozenset[Use]


class ExpressionError(Exception):
    """An expression that cannot be used; a finding about the mapping file, placed by the caller."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.text, self.hint = text, hint
