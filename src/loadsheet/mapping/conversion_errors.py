"""Problems that a converter returns in place of a value. They do not know their cell yet: the row adds it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from loadsheet.problems import Level


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
"""Stands for a value that needs a refused one. The problem is reported once, at the refused value."""


def is_consequence(problem: CellProblem) -> bool:
    """Whether this only follows from another problem and is not reported."""
    return not problem.code


class SettingError(Exception):
    """An invalid column setting: its key, what is wrong, and what to do."""

    def __init__(self, key: str, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.key, self.text, self.hint = key, text, hint
