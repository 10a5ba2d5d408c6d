"""Patterns that texts are held against: `pattern` and `split` of a column.

Owns: RE2, which needs time linear in the text for every pattern it takes; look-around and back references, which cannot be
matched so, are refused when the mapping is loaded. Knows no column and no cell.
"""

from collections.abc import Callable, Mapping
from typing import Any

import re2  # type: ignore[import-untyped]  # it ships no types

_MEMORY_BYTES = 8_000_000


class PatternError(ValueError):
    """A pattern that cannot be used, and why."""


def matcher(pattern: str) -> Callable[[str], Mapping[str, str | None] | None]:
    """A function from a whole text to the texts of the pattern's named groups (None: a group that took no part), or to None if
    the text does not match. Raises PatternError.
    """
    compiled = _compiled(pattern)
    names = tuple(compiled.groupindex)

    def match(text: str) -> Mapping[str, str | None] | None:
        found = compiled.fullmatch(text)
        return None if found is None else {name: found[name] for name in names}

    return match


def group_names(pattern: str) -> tuple[str, ...]:
    """The names of its groups, in their order. Raises PatternError."""
    index: Mapping[str, int] = _compiled(pattern).groupindex
    return tuple(sorted(index, key=index.__getitem__))


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        if "perl operator" in text or "escape sequence: \\" in text:
            raise PatternError("look-around and back references are not available") from None
        raise PatternError(f"not a pattern: {text}") from None
