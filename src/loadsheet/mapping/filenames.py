"""Patterns of file names, such as `acme_*.xlsx` or `nordic/{batch}/orders.csv`, and the parts of a name that columns may hold.

Knows names only, no file and no mapping.
"""

import re
from collections.abc import Iterable

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PIECE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}|\*\*/|\*|\?|[^*?{]+|\{")
PARTS = ("name", "stem", "folder")
"""The parts of every name: all behind the last slash, the same without its ending, and the folder right above."""


def match(pattern: str, name: str) -> dict[str, str] | None:
    """The values of a pattern's placeholders in a name, in lower case; None if the name does not match. A pattern without a slash is
    compared with the name without its folders. Case is ignored.
    """
    found = _found(pattern, name)
    return {key: value.casefold() for key, value in found.items()} if found is not None else None


def placeholders(patterns: Iterable[str]) -> list[str]:
    """The names of the placeholders that every one of these patterns has."""
    each = [PLACEHOLDER.findall(pattern) for pattern in patterns]
    return [name for name in dict.fromkeys(each[0] if each else []) if all(name in names for names in each)]


def part_of(name: str, part: str, patterns: Iterable[str]) -> str:
    """A part of a file's name (relative to the inbox, with slashes) as it is written there; empty if the name has no such part."""
    folders, _, bare = name.rpartition("/")
    if part in PARTS:
        return {"name": bare, "stem": bare.rpartition(".")[0] or bare, "folder": folders.rpartition("/")[2]}[part]
    for pattern in patterns:
        if found := _found(pattern, name):
            return found.get(part, "")
    return ""


def _found(pattern: str, name: str) -> dict[str, str] | None:
    subject = name if "/" in pattern else name.rsplit("/", 1)[-1]
    seen: set[str] = set()
    parts = []
    for piece in _PIECE.findall(pattern):
        placeholder = PLACEHOLDER.fullmatch(piece)
        if placeholder is None:
            parts.append({"*": "[^/]*", "?": "[^/]", "**/": "(?:.*/)?"}.get(piece) or re.escape(piece))
        elif placeholder[1] in seen:
            parts.append(f"(?P={placeholder[1]})")
        else:
            seen.add(placeholder[1])
            parts.append(f"(?P<{placeholder[1]}>[^/]+)")
    found = re.fullmatch("".join(parts), subject, re.IGNORECASE)
    return found.groupdict() if found else None
