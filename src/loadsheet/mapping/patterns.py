"""Patterns (`pattern` and `split` of a column): matching texts, and describing a pattern to people.

The engine is RE2, which needs time linear in the text. Look-around and back references cannot be matched that way, so they are refused
when the mapping is loaded. People never see a pattern as it is written: they see the names of its parts and an example. A pattern
that Python's parser does not know has no example. Knows no column and no cell.
"""

import re
from collections.abc import Callable, Mapping
from re import _constants as ops  # type: ignore[attr-defined]  # typeshed has it not
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

import re2  # type: ignore[import-untyped]  # it ships no types

_MEMORY_BYTES = 8_000_000


class PatternError(ValueError):
    """An invalid pattern, and why."""


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
        detail = error.args[0]
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        if "perl operator" in text or "escape sequence: \\" in text:
            raise PatternError("look-around and back references are not available") from None
        raise PatternError(f"not a pattern: {text}") from None


_TRIED = "1234567890ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz -./_"  # in order of preference
_ANY = "Abcdefghij"
_USUAL = 3  # repetitions of a character, if allowed


class _UnknownError(Exception):
    """A part of a pattern that has no example."""


def describe_pattern(pattern: str, example: object = None) -> str:
    """A pattern in words: `expected: street, zip, city; example: Kade 8, 9711 LM Groningen`. The example comes from the mapping, or is made
    up if the pattern has no named parts.
    """
    parts = group_names(pattern)
    shown = str(example) if example is not None else "" if parts else example_of(pattern)
    form_parts = [f"expected: {', '.join(parts)}"] if parts else []
    return "; ".join([*form_parts, *([f"example: {shown}"] if shown else [])])


def example_of(pattern: str) -> str:
    """A short text that matches the whole pattern; empty if none is found."""
    try:
        text = _sequence(parser.parse(pattern))
        return text if matcher(pattern)(text) is not None else ""
    except (re.error, PatternError, _UnknownError):
        return ""


def _sequence(nodes: Any) -> str:
    return "".join(_text(op, value) for op, value in nodes)


def _text(op: Any, value: Any) -> str:
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        low, high, inner = value
        return _repeated(low, high, list(inner))
    if op is ops.SUBPATTERN:
        return _sequence(value[3])
    if op is ops.BRANCH:
        return _sequence(value[1][0])
    return "" if op is ops.AT else _characters(op, value)[0]


def _repeated(low: int, high: int, inner: list[Any]) -> str:
    op, value = inner[0]
    if len(inner) > 1 or op not in (ops.IN, ops.ANY, ops.NOT_LITERAL):
        return _sequence(inner) * low
    characters = _characters(op, value)
    count = max(low, min(_USUAL, int(high)))
    return "".join(characters[place % len(characters)] for place in range(count))


def _characters(op: Any, value: Any) -> str:
    """The characters of its first kind (digits, capitals, ...) that a part matches."""
    if op is ops.LITERAL:
        return chr(value)
    if op is ops.ANY:
        return _ANY
    found = "".join(one for one in _TRIED if _matches(op, value, one))
    if not found:
        raise _UnknownError
    alike = [one for one in found if (one.isdigit(), one.isupper()) == (found[0].isdigit(), found[0].isupper())]
    return "".join(alike)


def _matches(op: Any, value: Any, one: str) -> bool:
    if op is ops.NOT_LITERAL:
        return chr(value) != one
    if op is not ops.IN:
        raise _UnknownError
    negated = value[0][0] is ops.NEGATE
    return negated is not any(_holds(part, inner, one) for part, inner in value[negated:])


def _holds(part: Any, inner: Any, one: str) -> bool:
    if part is ops.LITERAL:
        return chr(inner) == one
    if part is ops.RANGE:
        return bool(inner[0] <= ord(one) <= inner[1])
    kinds: dict[Any, tuple[bool, bool]] = {
        ops.CATEGORY_DIGIT: (one.isdigit(), True),
        ops.CATEGORY_NOT_DIGIT: (one.isdigit(), False),
        ops.CATEGORY_SPACE: (one.isspace(), True),
        ops.CATEGORY_NOT_SPACE: (one.isspace(), False),
        ops.CATEGORY_WORD: (one.isalnum() or one == "_", True),
        ops.CATEGORY_NOT_WORD: (one.isalnum() or one == "_", False),
    }
    if part is not ops.CATEGORY or inner not in kinds:
        raise _UnknownError
    held, wanted = kinds[inner]
    return held is wanted
