"""Patterns of file names, such as `acme_*.xlsx` and `nordic/{batch}/orders.csv`, and the parts of a file's name."""

import re
from collections.abc import Iterable

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PIECE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}|\*\*/|\*|\?|[^*?{]+|\{")
_PACKED = re.compile(r"\.(gz|zip)$", re.IGNORECASE)
PARTS = ("name", "stem", "folder")
"""The parts of every name: the name after the last slash, the same without its ending, and the parent folder."""
SHEET = "sheet"
"""The name of the sheet of a table, beside the parts of its file's name, unless a placeholder of the file's name is called so."""


def match_file_name(pattern: str, name: str) -> dict[str, str] | None:
    """The values of a pattern's placeholders in a name, in lower case; None if the name does not match. A pattern without a slash is
    compared with the name without its folders. `orders.csv.gz` also matches as `orders.csv`. Case is ignored.
    """
    found = _groups_in(pattern, name)
    return {key: value.casefold() for key, value in found.items()} if found is not None else None


def common_placeholders(patterns: Iterable[str]) -> list[str]:
    """The names of the placeholders that all these patterns have."""
    each = [PLACEHOLDER.findall(pattern) for pattern in patterns]
    return [name for name in dict.fromkeys(each[0] if each else []) if all(name in names for names in each)]


def name_part(name: str, part: str, patterns: Iterable[str]) -> str:
    """A part of a file's name (relative to the inbox, with slashes), in its original case; empty if the name has no such part."""
    folders, _, bare = name.rpartition("/")
    if part in PARTS:
        return {"name": bare, "stem": bare.rpartition(".")[0] or bare, "folder": folders.rpartition("/")[2]}[part]
    for pattern in patterns:
        if found := _groups_in(pattern, name):
            return found.get(part, "")
    return ""


def _groups_in(pattern: str, name: str) -> dict[str, str] | None:
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
    wanted = re.compile("".join(parts), re.IGNORECASE)
    found = wanted.fullmatch(subject) or wanted.fullmatch(_PACKED.sub("", subject))
    return found.groupdict() if found else None
