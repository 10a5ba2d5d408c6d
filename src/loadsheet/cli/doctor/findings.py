"""A finding of the doctor: what was checked, its level, and what to do.

Owns: the three levels. A LoadsheetError in a check becomes a finding and does not end the doctor.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from loadsheet.problems import LoadsheetError

Level = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `text` says what was found, `todo` what to do about it (empty: nothing, or it is in `text`)."""

    check: str
    level: Level
    text: str
    todo: str = ""


def ok(check: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, todo: str = "") -> Finding:
    """Runs continue, but this needs attention."""
    return Finding(check, "warning", text, todo)


def wrong(check: str, text: str, todo: str = "") -> Finding:
    """Runs fail because of this, or it is a security risk."""
    return Finding(check, "wrong", text, todo)


def checked(check: str, run_check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of `run_check`; a LoadsheetError ends it and becomes the last finding."""
    try:
        yield from run_check()
    except LoadsheetError as error:
        yield wrong(check, error.found, error.todo)
