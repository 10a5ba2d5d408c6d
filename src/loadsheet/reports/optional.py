"""The optional reports: if one of them fails, the others are still written.

The caller writes the reports again without the one that failed.
"""

from collections.abc import Callable, Container
from functools import partial
from typing import Any

from loadsheet.internal_errors import raising_fault

CAUSES, FIXES, ACKNOWLEDGEMENTS, WORKBOOK, PAGE, INDEX = (
    "causes",
    "fix files",
    "acknowledgements",
    "workbook",
    "page",
    "index of runs",
)


class Optional:
    """An optional report, made by `make`. Its methods raise Fault. If `without` contains it, its methods do nothing."""

    def __init__(self, report: str, make: Callable[[], Any], without: Container[str]) -> None:
        self._report = report
        self._made = None if report in without else raising_fault(report, make)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return _nothing if self._made is None else partial(raising_fault, self._report, getattr(self._made, verb))


def _nothing(*_words: Any) -> tuple[()]:
    return ()
