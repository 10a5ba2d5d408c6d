"""The reports without which the others are whole: a fault of our own in one of them costs that one alone.

Owns: which these are. Who writes the reports writes them again without one that failed.
"""

from collections.abc import Callable, Container
from functools import partial
from typing import Any

from loadsheet.internal_errors import guarded

CAUSES, FIXES, ACKNOWLEDGEMENTS, WORKBOOK, PAGE, INDEX = (
    "causes",
    "fix files",
    "acknowledgements",
    "workbook",
    "page",
    "index of runs",
)


class Optional:
    """An optional report that `make` makes; its verbs raise Fault. One that is `without` has the same verbs, and they do nothing."""

    def __init__(self, report: str, make: Callable[[], Any], without: Container[str]) -> None:
        self._report = report
        self._made = None if report in without else guarded(report, make)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return _nothing if self._made is None else partial(guarded, self._report, getattr(self._made, verb))


def _nothing(*_words: Any) -> tuple[()]:
    return ()
