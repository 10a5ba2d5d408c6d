"""What a converter answers where a plain value is not enough: a problem of the catalogue that does not know its cell yet."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from loadsheet.problems import Level


class CellProblem(NamedTuple):
    """A refused cell: code of the catalogue, the values of its message, and what to do. The row adds place and cell text."""

    code: str
    values: Mapping[str, Any] = {}
    hint: str = ""
    level: Level = "error"


class ValueWithWarning(NamedTuple):
    """A value that was accepted with a warning."""

    value: Any
    warning: CellProblem


CONSEQUENCE = CellProblem("")
"""A value that cannot be made because one it needs was refused: said once, at that value."""


def is_consequence(problem: CellProblem) -> bool:
    """Whether this only follows from another refusal and is not to be said."""
    return not problem.code


class SettingError(Exception):
    """A setting of a column that cannot be used: its key, what is wrong, and what to do."""

    def __init__(self, key: str, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.key, self.text, self.hint = key, text, hint
