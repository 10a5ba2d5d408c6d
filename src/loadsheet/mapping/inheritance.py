"""A mapping that extends another: `extends: base/acme.yaml` and what is different.

Owns: the merging. Sections are merged key by key, everything else (also a list) replaces what the base has, and a key set to nothing
(`note:`) takes the base's away. One level: a base extends nothing. Findings stand at the file and line that the key is from.
"""

from pathlib import Path
from typing import Any

from loadsheet.mapping.yamlfile import Loc, YamlFile, read_yaml

KEY = "extends"


def read_with_base(path: Path, home: Path | None = None) -> YamlFile:
    """Reads a mapping file and the one it extends, if it does, as one. Other files are read from the folder `home` alone (without one:
    from the mapping's own folder and the one above).
    """
    file = read_yaml(path)
    file.home = home
    if not isinstance(file.values, dict) or KEY not in file.values:
        return file
    named, base = file.values.pop(KEY), None
    if not isinstance(named, str) or not named.lower().endswith((".yaml", ".yml")):
        file.refuse((KEY,), f"extends takes the path of a mapping, relative to this one, found {named}")
    elif place := file.beside(named, (KEY,)):
        base = read_yaml(place)
        if isinstance(base.values, dict) and KEY in base.values:
            text = f"a mapping that others extend cannot extend one itself (it is extended by {path.name})"
            base.refuse((KEY,), text, at_key=True)
        elif base.values is not None and not isinstance(base.values, dict):
            base.refuse((), "must be a mapping of keys to values")
        file.findings += base.findings
    if base is None or not isinstance(base.values, dict) or KEY in base.values:
        file.values = None  # half a mapping: what else is wrong with it would only follow
        return file
    file.base = base.path
    _merge(file, base, ())
    return file


def _merge(file: YamlFile, base: YamlFile, loc: Loc) -> None:
    """Puts into the file's section at `loc` what only the base has there."""
    own, theirs = _at(file.values, loc), _at(base.values, loc)
    for key, value in theirs.items():
        here = (*loc, key)
        if key not in own:
            own[key] = value
            _borrow(file, base, here, value)
        elif own[key] is None:
            del own[key]
        elif isinstance(own[key], dict) and isinstance(value, dict) and not _is_leaf(value):
            _merge(file, base, here)
    ordered = {key: own[key] for key in (*theirs, *own) if key in own}  # fields are sent in the base's order
    own.clear()
    own.update(ordered)


_SOURCES = frozenset({"col", "const", "value", "expr", "utc_offset_of"})


def _is_leaf(value: dict[str, Any]) -> bool:
    """Whether a section is a value of the payload, which is replaced as a whole."""
    return not _SOURCES.isdisjoint(value) and all(not isinstance(inner, dict) for inner in value.values())


def _borrow(file: YamlFile, base: YamlFile, loc: Loc, value: object) -> None:
    file.owners[loc] = base.path
    if loc in base.key_marks:
        file.key_marks[loc] = base.key_marks[loc]
    file.marks[loc] = base.marks[loc]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        _borrow(file, base, (*loc, key), member)


def _at(values: Any, loc: Loc) -> dict[str, Any]:
    for step in loc:
        values = values[step]
    found: dict[str, Any] = values
    return found
