"""The files of a mapping: YAML 1.2 as plain values with line and column, `extends`, and the texts that the ledger keeps.

Numbers with a decimal point become Decimal, so that no binary float enters a mapping. Values that YAML would change silently are refused
with the hint to quote them: `01067` (a number without its zero), `2026-03-01` (a date). Tags (`!!python/...`), merge keys and duplicate
keys are refused too.

A mapping may extend another one: `extends: base/acme.yaml`. Sections are merged key by key. Any other value (also a list) replaces the
base's value, and an empty key (`note:`) removes it. A base cannot extend another file. A finding has the file and line of its key.

`read_part` reads one section as its model. Each wrong key and value becomes a finding that names the right one or its place.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from loadsheet.display_text import has_control
from loadsheet.errors import MappingError
from loadsheet.mapping.schema import SOURCES_OF_A_VALUE, keys, models_in
from loadsheet.similar_text import closest_or_known, did_you_mean, short_list
from loadsheet.yaml_nodes import DEEPEST, SCALARS, Node, NotYaml, compose

Loc = tuple[str | int, ...]
"""A place in the tree: keys and list positions from the top."""

KEY = "extends"
_MARKS = frozenset(":#,[]{}&*!|>'\"%@`\\")
_WORDS_OF_YAML = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_LARGEST_BYTES = 1_000_000
_NUMBER_LENGTH_MAX = 100
_MOST_NODES = 50_000  # aliases multiply; a mapping file has a few hundred
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")


@dataclass(slots=True)
class YamlFile:
    """The values of a file and its findings. Positions count from 1, as in editors. `base` is the file that it extends, `owners` the places
    whose values and positions come from the base, `texts` what the files say. Other files are read only from the folder `home`.
    """

    path: Path
    values: Any = None
    findings: dict[str, MappingError] = field(default_factory=dict)  # by their texts
    marks: dict[Loc, tuple[int, int]] = field(default_factory=dict)
    key_marks: dict[Loc, tuple[int, int]] = field(default_factory=dict)
    base: Path | None = None
    owners: dict[Loc, Path] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    home: Path | None = None

    def beside(self, named: str, loc: Loc) -> Path | None:
        """The path of a file that a value names, relative to the file with that value. None, with the finding, if it is outside the folder
        of mappings (links followed) or not a regular file.
        """
        folder = self.owner(loc).parent
        home = folder.parent if self.home is None else self.home
        path = folder / named
        try:
            inside = not Path(named).is_absolute() and path.resolve().is_relative_to(home.resolve())
            is_other = inside and path.exists() and not path.is_file()
        except (OSError, RuntimeError, ValueError):  # a link to itself, a NUL in the name
            inside, is_other = False, False
        if not inside:
            hint = "write a path relative to the mapping, to a file in the folder of mappings"
            self.refuse(loc, f"{named} is not in the folder of mappings", hint)
            return None
        if is_other:
            self.refuse(loc, f"{named} is not a regular file")
            return None
        return path

    def content_of(self, path: Path, named: str, loc: Loc) -> bytes | None:
        """The bytes of a text file in UTF-8 that the value at `loc` names; None, with the finding, if it cannot be read."""
        try:
            content = path.read_bytes()
            content.decode("utf-8-sig")
        except OSError as error:
            self.refuse(loc, f"{named} cannot be read: {error.strerror}", "the path is relative to this file")
        except UnicodeDecodeError as error:
            self.refuse(loc, f"{named} is not UTF-8: first bad byte at offset {error.start}")
        else:
            return content
        return None

    def refuse(self, loc: Loc, text: str, hint: str = "", *, at_key: bool = False) -> None:
        """Add a finding at a value (or at its key). A place that is missing in the file is replaced by its nearest parent."""
        marks = self.key_marks if at_key else self.marks
        while loc and loc not in marks:
            loc, marks = loc[:-1], self.marks
        self._add(loc, marks.get(loc, (1, 1)), text, hint)

    def refuse_within(self, loc: Loc, offset: int, text: str, hint: str) -> None:
        """Add a finding at a character of the text at `loc`, counted from 0."""
        if loc not in self.marks:
            self.refuse(loc, text, hint)
            return
        value, mark = str(_section_at(self.values, loc)), self.marks[loc]
        self._add(loc, _place_in_text(self.texts.get(self.owner(loc), ""), mark, value, offset) or mark, text, hint)

    def _add(self, loc: Loc, mark: tuple[int, int], text: str, hint: str) -> None:
        finding = MappingError(text, file=str(self.owner(loc)), line=mark[0], column=mark[1], hint=hint)
        self.findings[str(finding)] = finding  # sections used by several operations are checked several times

    def place(self, loc: Loc) -> str:
        """Where a key stands, such as `line 14`, with the name of the file if that is the one this file extends."""
        if loc not in self.key_marks:
            return ""
        line, owner = self.key_marks[loc][0], self.owner(loc)
        return f"line {line}" if owner == self.path else f"line {line} of {owner.name}"

    def owner(self, loc: Loc) -> Path:
        """The file that a value is from: this one, or the one it extends."""
        return self.owners.get(loc, self.path)


def _place_in_text(source: str, mark: tuple[int, int], value: str, offset: int) -> tuple[int, int] | None:
    """The line and column of a character of a YAML text that starts at `mark`. White space may differ, as in folded lines. None if it cannot be
    found, such as behind an escape.
    """
    lines = source.split("\n")
    at = sum(len(line) + 1 for line in lines[: mark[0] - 1]) + mark[1] - 1
    style = source[at : at + 1]
    if style in ("|", ">"):
        at = source.find("\n", at)
    elif style in ("'", '"'):
        at += 1
    is_behind = not value[offset:].strip()
    last = len(value.rstrip()) - 1 if is_behind else offset
    for count, letter in enumerate(value[: last + 1]):
        if letter.isspace():
            continue
        while source[at : at + 1].isspace():
            at += 1
        at += style == '"' and source[at : at + 1] == "\\"  # an escaped character
        if source[at : at + 1] != letter:
            return None
        if count == last:
            at += is_behind
            return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)
        at += 2 if letter == style == "'" else 1  # it is doubled
    return None


_compose = lru_cache(maxsize=64)(compose)  # nobody changes nodes, and a watch reads the same mappings for every run


def read_yaml(path: Path) -> YamlFile:
    """Read a file. Errors are in `findings`; `values` is None if it is not YAML."""
    file = YamlFile(path)
    try:
        content = path.read_bytes()
        if len(content) > _LARGEST_BYTES:
            file.refuse((), f"the file has {len(content)} bytes; the limit is {_LARGEST_BYTES}")
            return file
        file.texts[path] = content.decode("utf-8-sig")
        node = _compose(file.texts[path])
    except OSError as error:
        file.refuse((), f"the file cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        file.refuse((), f"the file is not UTF-8: first bad byte at offset {error.start}", "save it as UTF-8")
    except NotYaml as error:
        file.marks[()] = error.line, error.column
        lines = file.texts[path].split("\n")[: error.line]
        file.refuse((), f"not YAML: {error}", _yaml_hint(str(error), lines, error.column))
    else:
        if node is None:
            file.refuse((), "the file is empty")
        else:
            file.values = _Reader(file).value(node, ())
    return file


def _yaml_hint(error: str, lines: Sequence[str], column: int) -> str:
    """What to write instead of the last of these lines, at which reading a YAML text stopped."""
    if any(line[: len(line) - len(line.lstrip())].strip(" ") for line in lines[-2:]):
        return "begin each line with ordinary spaces, not with tabs or no-break spaces"
    if "cannot start any token" in error:
        return f"write a text that begins with {lines[-1][column - 1 : column]} in quotes"
    return next((hint for part, hint in _YAML_HINTS.items() if part in error), "")


_YAML_HINTS = {
    "alphabetic or numeric": 'write a star in quotes: "*"',  # the name of an alias is missing
    "expected ',' or": "close the bracket or the quotes, here or in the line above; a text with a colon, comma or quote needs quotes",
    "expected key": "begin all keys of a section in the same column; look at the line above too",
    "mapping values are not allowed": "a text with a colon needs quotes, and all keys of a section begin in the same column",
    "unexpected end of stream": "close the quotes",
}
_TYPOGRAPHIC = frozenset("“”„‟«»")
"""Quotes that a text editor or a mail program puts in place of plain ones."""


def yaml_values(text: str) -> Any:
    """The values of a YAML text that is known to be valid, such as an example of the reference."""
    node = _compose(text)
    return None if node is None else _Reader(YamlFile(Path())).value(node, ())


def flow(value: Any) -> str:
    """A value as YAML on one line. Texts are quoted where YAML could read them as another type."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    text = str(value)
    is_plain = _MARKS.isdisjoint(text) and text == text.strip() and text[:1].isalpha() and text.isprintable()
    if isinstance(value, int) or (is_plain and text.casefold() not in _WORDS_OF_YAML):
        return text
    return json.dumps(text.replace("\n", " ").replace("\t", " "), ensure_ascii=has_control(text))


class _Reader:
    """Turns one node tree into values, marks and findings."""

    def __init__(self, file: YamlFile) -> None:
        self._file = file
        self._left = _MOST_NODES

    def value(self, node: Node, loc: Loc) -> Any:
        self._file.marks[loc] = node.line, node.column
        self._left -= 1
        if len(loc) > DEEPEST or self._left < 0:
            if self._left >= -1:
                self._file.refuse(loc, "the file is nested too deeply or its aliases repeat too much")
            return None
        if node.kind == "map":
            return self._mapping(node, loc)
        if node.kind == "seq":
            return [self.value(item, (*loc, position)) for position, item in enumerate(node.value)]
        return self._scalar(node, loc)

    def _mapping(self, node: Node, loc: Loc) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = key_node.line, key_node.column
            if key_node.kind != "str":
                self._refuse_key(key_node, loc)
                continue
            key = str(key_node.value)
            here = (*loc, key)
            if key in values:
                first = self._file.key_marks[here][0]
                self._file.marks[(*here, "again")] = mark
                self._file.refuse((*here, "again"), f'duplicate key "{key}"', f"first used in line {first}")
                continue
            self._file.key_marks[here] = mark
            values[key] = self.value(value_node, here)
        return values

    def _refuse_key(self, node: Node, loc: Loc) -> None:
        mark = (*loc, "(key)")
        self._file.marks[mark] = node.line, node.column
        raw = node.value if isinstance(node.value, str) else "..."
        if node.kind == "merge":
            self._file.refuse(mark, "merge keys (<<) are not part of the format", "write the keys out")
        else:
            self._file.refuse(mark, f"a key must be a text, found {raw}", f'write "{raw}"')

    def _scalar(self, node: Node, loc: Loc) -> Any:
        raw, kind = str(node.value), node.kind
        read = SCALARS.get(kind)
        if kind == "timestamp" and loc[:1] == ("calendars",):  # the days of a calendar need no quotes
            return raw
        if read is None:
            what = "an unquoted date" if kind == "timestamp" else f"the tag {kind}"
            self._file.refuse(loc, f"{what} is not allowed: {raw}", f'write "{raw}"')
            return raw if kind == "timestamp" else None  # as if it had been written so
        if kind in ("int", "float") and len(raw) > _NUMBER_LENGTH_MAX:
            self._file.refuse(loc, f"a number of {len(raw):,} characters; the limit is {_NUMBER_LENGTH_MAX}")
            return None
        if kind == "int" and _LEADING_ZERO.fullmatch(raw):
            self._file.refuse(loc, f"this number would lose its leading zero: {raw}", f'write "{raw}"')
            return raw
        value = read(raw)
        if kind == "str" and raw[:1] in _TYPOGRAPHIC and raw[-1:] in _TYPOGRAPHIC and self._is_plain(node):
            self._file.refuse(loc, f"these quotes are part of the text: {raw}", f'write "{raw[1:-1]}"')
        if isinstance(value, Decimal) and not value.is_finite():
            self._file.refuse(loc, f"not a finite number: {raw}")
            return None
        return value

    def _is_plain(self, node: Node) -> bool:
        """Whether a text of one line or its beginning stands without quotes of YAML."""
        lines = self._file.texts.get(self._file.path, "").split("\n")[node.line - 1 : node.line]
        return any(line[node.column - 1 : node.column] == node.value[:1] for line in lines)


def read_with_base(path: Path, home: Path | None = None) -> YamlFile:
    """Read a mapping file and the one it extends as one file. Other files are read only from the folder `home` (default: the mapping's own
    folder and the one above).
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
            text = f"a base mapping cannot extend another mapping ({path.name} extends it)"
            base.refuse((KEY,), text, at_key=True)
        elif base.values is not None and not isinstance(base.values, dict):
            base.refuse((), "must be a mapping of keys to values")
        file.findings |= base.findings
    if base is None or not isinstance(base.values, dict) or KEY in base.values:
        file.values = None  # half a mapping: further findings would only be consequences
        return file
    file.base = base.path
    file.texts |= base.texts
    _merge(file, base, ())
    return file


def _merge(file: YamlFile, base: YamlFile, loc: Loc) -> None:
    """Add the keys that only the base has to the file's section at `loc`."""
    own, theirs = _section_at(file.values, loc), _section_at(base.values, loc)
    for key, value in theirs.items():
        here = (*loc, key)
        if key not in own:
            own[key] = value
            _take_marks(file, base, here, value)
        elif own[key] is None:
            del own[key]
        elif isinstance(own[key], dict) and isinstance(value, dict):
            is_leaf = not value.keys().isdisjoint(SOURCES_OF_A_VALUE)  # it is replaced as a whole
            if not is_leaf or any(isinstance(inner, dict) for inner in value.values()):
                _merge(file, base, here)
    ordered = {key: own[key] for key in (*theirs, *own) if key in own}  # fields are sent in the base's order
    own.clear()
    own.update(ordered)


def _take_marks(file: YamlFile, base: YamlFile, loc: Loc, value: object) -> None:
    file.owners[loc] = base.path
    if loc in base.key_marks:
        file.key_marks[loc] = base.key_marks[loc]
    file.marks[loc] = base.marks[loc]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        _take_marks(file, base, (*loc, key), member)


def _section_at(values: Any, loc: Loc) -> dict[str, Any]:
    for step in loc:
        values = values[step]
    found: dict[str, Any] = values
    return found


def source_texts(used: Mapping[Path, bytes]) -> dict[str, str]:
    """The texts of a mapping's files (UTF-8, byte for byte), the mapping first, by their paths with slashes from their common folder;
    empty without a common folder, such as on two drives.
    """
    paths = [os.path.abspath(path) for path in used]  # noqa: PTH100 (Path.resolve would follow links)
    try:
        root = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120 (as above)
    except ValueError:
        return {}
    return {
        PurePath(os.path.relpath(path, root)).as_posix(): content.decode()
        for path, content in zip(paths, used.values(), strict=True)
    }


def write_source(source: Mapping[str, str], folder: Path) -> Path:
    """Write the files from `source_texts` into an empty folder and return the path of the mapping. Raises OSError, and ValueError for paths
    outside the folder or without any files.
    """
    if not source:
        raise ValueError("no files of the mapping were kept")
    root = folder.resolve()
    for name, text in source.items():
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"{name} is outside the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root / next(iter(source))


# ---- sections as models ----

P = TypeVar("P", bound=BaseModel)


def read_part(model: type[P], file: YamlFile, value: object, loc: Loc) -> P | None:
    """One section as its model, or None with every wrong key and value among the file's findings."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        placed = {
            _file_location(details["loc"], loc, file): details for details in reversed(error.errors(include_url=False))
        }
        outer = {steps[:length] for steps in placed for length in range(len(steps))}
        for steps, details in reversed(placed.items()):
            if steps not in outer:
                _explain(model, file, details, loc, steps)
    return None


def _explain(model: type[BaseModel], file: YamlFile, details: ErrorDetails, base: Loc, steps: Loc) -> None:
    names = [step for step in steps if isinstance(step, str)]  # an entry of a list is named after the list
    name, found = names[-1] if names else "", details["input"]
    kind = details["type"]
    if kind == "extra_forbidden":
        file.refuse(steps, f'unknown key "{name}"', _hint(name, _keys_of(model, steps[len(base) : -1])), at_key=True)
    elif kind == "missing":
        file.refuse(steps[:-1], f'the key "{name}" is missing')
    elif kind == "string_type":
        hint = f'write "{_plain(found)}"' if isinstance(found, int | Decimal | bool) else ""
        file.refuse(steps, f"{name} takes a text, found {_plain(found)}", hint)
    elif kind == "literal_error":
        expected = str(details["ctx"]["expected"])
        options = [word.strip(" '") for word in expected.replace(" or ", ", ").split(", ")]
        file.refuse(
            steps, f"{name}: {_plain(found)} is not one of {short_list(options, 15)}", did_you_mean(str(found), options)
        )
    else:
        file.refuse(steps, f"{name}: {_WORDS.get(kind, details['msg'])}, found {_plain(found)}")


_REMOVED_KEYS = {
    "control_total": "remove it: the reports total packages, weights, volumes and goods values of all records",
}
_WORDS = {
    **dict.fromkeys(("dict_type", "model_type"), "must be a mapping of keys to values"),
    **dict.fromkeys(("is_instance_of", "decimal_type"), "must be a number"),
    **dict.fromkeys(("string_too_short", "too_short"), "must not be empty"),
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "string_pattern_mismatch": "may hold letters, digits, dots, hyphens and underscores only",
    "greater_than": "must be greater than 0",
}


def _file_location(found: tuple[int | str, ...], base: Loc, file: YamlFile) -> Loc:
    """Pydantic's location without the names of union branches and key markers."""
    steps: Loc = base
    for position, step in enumerate(found):
        is_last = position == len(found) - 1
        if isinstance(step, int) or is_last or (*steps, step) in file.marks:
            steps = (*steps, step)
    if found and found[-1] == "[key]":
        return steps[:-1]
    if len(steps) > len(base) and steps not in file.marks:
        last = str(steps[-1])
        is_branch = last in {"str", "constrained-int", "int", "bool"} or "[" in last or "-" in last
        return steps[:-1] if is_branch and isinstance(steps[-1], str) else steps
    return steps


def _hint(name: str, options: Iterable[str]) -> str:
    """What to write instead of a key that is not among these: a similar one, or the same one in its own section."""
    sections = [key.section and f"under {key.section}" for key in keys().values() if key.name == name]
    places = " or ".join(where or "at the top level of the file" for where in sections)
    if not places:
        return _REMOVED_KEYS.get(name) or closest_or_known(name, options)
    close = did_you_mean(name, options)
    return f"{close} Otherwise write it {places}" if close else f"write it {places}"


def _keys_of(model: type[BaseModel], steps: Loc) -> list[str]:
    """The keys of a section, found by following `steps` from the model through fields, dicts and lists."""
    for step in steps:
        info = model.model_fields.get(str(step))
        model = next(iter(models_in(info.annotation) if info else ()), model)
    return [info.alias or name for name, info in model.model_fields.items()]


def _plain(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list) else str(value)
