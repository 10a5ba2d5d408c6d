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
    """One thing that was looked at. `text` says what was found, `todo` what to do about it (empty: nothing, or the text says it)."""

    check: str
    level: Level
    text: str
    todo: str = ""


def ok(check: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, todo: str = "") -> Finding:
    """Runs continue, but somebody should look at it."""
    return Finding(check, "warning", text, todo)


def wrong(check: str, text: str, todo: str = "") -> Finding:
    """Runs fail because of it, or something is open that must not be."""
    return Finding(check, "wrong", text, todo)


def checked(check: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of `look`; a LoadsheetError ends it as one more finding."""
    try:
        yield from look()
    except LoadsheetError as error:
        yield wrong(check, error.found, error.todo)
