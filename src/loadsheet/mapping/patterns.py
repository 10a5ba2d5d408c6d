"""Patterns of mapping files: `pattern`, `split`, `$matches` and `$replace`, matched by RE2 in time linear in the text.

Owns: RE2 (no other module imports it). RE2 has no look-around and no back references, so these are refused at load. Messages never
show a pattern, only the names of its parts and an example. A pattern that Python's parser cannot read has no example.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from re import _compiler as compiler  # type: ignore[attr-defined]  # missing in typeshed
from re import _constants as ops  # type: ignore[attr-defined]  # missing in typeshed
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

import re2  # type: ignore[import-untyped]  # it ships no types

from loadsheet.mapping.plans import Incalculable

_MEMORY_BYTES = 8_000_000


class PatternError(Incalculable):
    """An invalid pattern, and why."""


@lru_cache(maxsize=256)
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


_GROUP = re.compile(r"\\(.?)", re.DOTALL)  # in the text that replaces a match


@lru_cache(maxsize=256)
def replacer(pattern: str, replacement: str) -> Callable[[str], str]:
    r"""A function that replaces every match of the pattern in a text. In the replacement, `\1` is the text of the first group (empty if it
    took no part) and `\0` the whole match; a backslash is doubled. Raises PatternError.
    """
    compiled = _compiled(pattern)
    pieces: list[str | int] = []
    end = 0
    for found in _GROUP.finditer(replacement):
        if found[1] != "\\" and not found[1].isdecimal():
            raise PatternError(
                f"in the replacement, a backslash is followed by a digit or a backslash, not by {found[1] or 'its end'}"
            )
        if found[1].isdecimal() and int(found[1]) > compiled.groups:
            raise PatternError(f"the replacement names group {found[1]}, but the pattern has {compiled.groups}")
        pieces += [replacement[end : found.start()], int(found[1]) if found[1].isdecimal() else "\\"]
        end = found.end()
    pieces.append(replacement[end:])

    def expand(match: Any) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)

    def replace(text: str) -> str:
        replaced: str = compiled.sub(expand, text)
        return replaced

    return replace


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
            raise PatternError("look-around and back references are not supported") from None
        raise PatternError(f"invalid pattern: {text}") from None


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
    return "".join(_text(op, value, nodes.state) for op, value in nodes)


def _text(op: Any, value: Any, state: Any) -> str:
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        return _repeated(*value)
    if op is ops.SUBPATTERN:
        return _sequence(value[3])
    if op is ops.BRANCH:
        return _sequence(value[1][0])
    return "" if op is ops.AT else _characters(op, value, state)[0]


def _repeated(low: int, high: int, inner: Any) -> str:
    op, value = inner[0]
    if len(inner) > 1 or op not in (ops.IN, ops.ANY, ops.NOT_LITERAL):
        return _sequence(inner) * low
    characters = _characters(op, value, inner.state)
    count = max(low, min(_USUAL, int(high)))
    return "".join(characters[place % len(characters)] for place in range(count))


def _characters(op: Any, value: Any, state: Any) -> str:
    """The characters of its first kind (digits, capitals, ...) that a part matches."""
    if op is ops.LITERAL:
        return chr(value)
    if op is ops.ANY:
        return _ANY
    part = compiler.compile(parser.SubPattern(state, [(op, value)]))
    found = [letter for letter in _TRIED if part.fullmatch(letter)]
    if not found:
        raise _UnknownError
    kind = found[0].isdigit(), found[0].isupper()
    return "".join(letter for letter in found if (letter.isdigit(), letter.isupper()) == kind)
