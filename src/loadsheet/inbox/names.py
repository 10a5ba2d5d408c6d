"""Names of files, which come from outside: data, shown harmless and never part of a path before they were looked at."""

import hashlib
import os
import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath

from loadsheet.problems import FolderError

_NAME_BYTES_MAX = 240  # file systems take 255; `.why.txt` and a number must still fit
_TURNS_TEXT_AROUND = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PLACE = "{name}"


def shown_name(path: PurePath) -> str:
    """A relative path as a name: POSIX, with control characters, undecodable bytes and characters that turn text around as %XX,
    and endless parts cut and marked by their hash.
    """
    return "/".join(_shown_part(part) for part in path.parts)


def relative_path(name: str) -> PurePosixPath:
    """A name as a path below a folder of ours. Raises FolderError for one that would leave it."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise FolderError(f"{name!r} is not a name below the inbox; nothing was moved")
    return path


def is_ignored(name: str, patterns: Sequence[str]) -> bool:
    """Whether a bare name fits one of the patterns, without regard to case."""
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def done_marker_name(name: str, pattern: str) -> str:
    """The bare name of the file that says that `name` is complete; `pattern` as in the setting `done_marker`."""
    return pattern.replace(_PLACE, name)


def is_done_marker(name: str, pattern: str) -> bool:
    """Whether a bare name is that of a done-marker."""
    before, _, after = pattern.partition(_PLACE)
    return bool(pattern) and name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)


def free_path(target: Path) -> Path:
    """The target, or if there is one already the same name with a number."""
    number = 1
    found = target
    while os.path.lexists(found):
        number += 1
        found = target.with_name(f"{target.stem}~{number}{target.suffix}")
    return found


def _shown_part(part: str) -> str:
    if part.isascii() and part.isprintable() and len(part) <= _NAME_BYTES_MAX:
        return part
    shown = "".join(character if _is_harmless(character) else _escaped(character) for character in part)
    if len(os.fsencode(shown)) <= _NAME_BYTES_MAX:
        return shown
    mark = hashlib.sha256(os.fsencode(part)).hexdigest()[:8]
    suffix = PurePosixPath(shown).suffix[:20]
    kept = os.fsencode(shown)[: _NAME_BYTES_MAX - 60].decode("utf-8", "ignore")
    return f"{kept}~{mark}{suffix}"


def _is_harmless(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") and character not in _TURNS_TEXT_AROUND


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))
