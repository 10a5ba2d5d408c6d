"""The texts of the language of mappings: one entry for every key, function, attribute and operator, with its examples.

Owns: the pages in `reference/*.md`, and which keys need an entry. An entry is a heading with a name in backticks (`columns.pad_left`, `$sum`)
and the text below it, up to the next heading. `mapping help`, the pages under `docs/mapping` and the JSON Schema show the same entries.
Every example has its result; `tests/mapping_tools/test_reference.py` runs them all.

An example is a row of fenced blocks: `yaml` (the lines of the mapping that matter), `csv` or `csv NAME` (the rows of a file), then `result` or
`cells`. `expression` has expressions with their values, `types` the types that an operator or function takes and gives.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loadsheet.contract import WRITES
from loadsheet.mapping.schema import Column, Derived, Leaf, MappingSpec, Target, ZoneSpec
from loadsheet.mapping.yamlfile import yaml_values

PAGES = ("mapping", "source", "columns", "lookups", "payload", "targets", "checks", "expressions")
"""The pages in the order in which a reader wants them."""

PLAIN_SECTIONS: Mapping[str, type[BaseModel]] = {
    "columns": Column,
    "derived": Derived,
    "payload": Leaf,
    "target": Target,
    "source.timezone": ZoneSpec,
}
"""The sections that `MappingSpec` holds as plain values, and what is written in them."""

TARGETS = (*(operation.name for operation in WRITES), "order.upsert", "tender.upsert")
"""The operations that a record may become."""

FIELDS = "{fields}"
"""The line of an entry of a target where the fields of its record are listed."""

OF_LISTS = ("payload.each", "payload.item", "payload.ordered", "payload.list")
"""The keys of lists under `payload`, which have no model."""

_HEADING = re.compile(r"^(#{1,4}) (.+)$")
_NAMED = re.compile(r"^`(.+)`$")
_FENCE = "```"


class Block(NamedTuple):
    """A fenced block of an entry: its kind (`yaml`, `csv`, `cells` ...), the name behind the kind (a file), and its lines."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What one name means. `level` is that of its heading, `text` the Markdown below it."""

    name: str
    page: str
    level: int
    text: str

    @property
    def summary(self) -> str:
        """Its first paragraph, in one line."""
        return " ".join(next((part for part in self.text.split("\n\n") if not part.startswith(_FENCE)), "").split())

    @property
    def prose(self) -> str:
        """Its paragraphs without examples and tables, one line each."""
        texts = (part for part in parts_of(self.text) if isinstance(part, str))
        paragraphs = (" ".join(paragraph.split()) for text in texts for paragraph in text.split("\n\n"))
        return "\n".join(paragraph for paragraph in paragraphs if paragraph and not paragraph.startswith(("|", FIELDS)))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its fenced blocks, in order."""
        return tuple(part for part in parts_of(self.text) if isinstance(part, Block))

    @property
    def values(self) -> list[Any]:
        """The values that its key has in the examples."""
        section, *steps = self.name.split(".")
        wholes = [yaml_values(block.text) for block in self.blocks if block.kind == "yaml"]
        found = [whole[section] for whole in wholes if section in whole]
        for step in steps:
            found = [value for one in found for value in _at(one, step)]
        return [value for place, value in enumerate(found) if value not in found[:place]]


class Key(NamedTuple):
    """A key of the mapping format: where it stands, and the model that reads it."""

    path: str
    model: type[BaseModel]
    field: FieldInfo
    name: str  # as it is written: `from`, not `from_`


def parts_of(text: str) -> Iterator[str | Block]:
    """The texts between fenced blocks, and the blocks."""
    lines: list[str] = []
    opened: str | None = None
    for line in text.splitlines():
        if not line.startswith(_FENCE):
            lines.append(line)
            continue
        body = "\n".join(lines)
        if opened is None:
            yield body
        else:
            kind, _, name = opened.partition(" ")
            yield Block(kind, name, body)
        opened, lines = (line.removeprefix(_FENCE) if opened is None else None), []
    yield "\n".join(lines)


def page_source(page: str) -> str:
    """The Markdown of a page as it is written."""
    return (resources.files(__package__) / "reference" / f"{page}.md").read_text(encoding="utf-8")


@cache
def entries() -> Mapping[str, Entry]:
    """All entries by name, in the order of the pages."""
    found = [entry for page in PAGES for entry in _entries_of(page)]
    return {entry.name: entry for entry in found}


def _entries_of(page: str) -> Iterator[Entry]:
    opened: tuple[str, int] | None = None
    lines: list[str] = []
    in_block = False
    for line in (*page_source(page).splitlines(), "# "):
        in_block ^= line.startswith(_FENCE)
        heading = None if in_block else _HEADING.match(line)
        if heading is None and line != "# ":
            lines.append(line)
            continue
        if opened is not None:
            yield Entry(opened[0], page, opened[1], "\n".join(lines).strip())
        named = _NAMED.match(heading[2]) if heading is not None else None
        opened, lines = ((named[1], len(heading[1])) if heading is not None and named is not None else None), []


def find(name: str) -> list[Entry]:
    """The entries of a name: the one with exactly this name, otherwise those whose last part it is (`pad_left`, `totals.sum`), in any
    case, without `$` or `.` as well. Empty if there is none.
    """
    known = entries()
    if name in known:
        return [known[name]]
    wanted = name.casefold().removesuffix("()")
    return [
        entry
        for entry in known.values()
        if wanted in (folded := entry.name.casefold(), folded.lstrip("$.")) or folded.endswith(f".{wanted}")
    ]


@cache
def keys() -> Mapping[str, Key]:
    """Every key of the format by its path, such as `source.tables.join.on`. A model that several keys hold counts at its first place."""
    found: dict[str, Key] = {}
    seen: set[type[BaseModel]] = set()

    def walk(model: type[BaseModel], above: str) -> None:
        if model in seen:
            return
        seen.add(model)
        for attribute, field in model.model_fields.items():
            name = field.alias or attribute
            path = f"{above}{name}"
            found[path] = Key(path, model, field, name)
            inner = [PLAIN_SECTIONS[path]] if path in PLAIN_SECTIONS else _models_in(field.annotation)
            for one in inner:
                walk(one, f"{path}.")

    walk(MappingSpec, "")
    return found


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def meanings() -> dict[str, Entry]:
    """The entries of keys by model and key, such as `Column.pad_left`."""
    known = entries()
    return {f"{key.model.__name__}.{key.name}": known[path] for path, key in keys().items() if path in known}


def _at(value: Any, key: str) -> list[Any]:
    """The values of this key anywhere in a value."""
    if isinstance(value, Mapping):
        own = [value[key]] if key in value else []
        return own + [found for one in value.values() for found in _at(one, key)]
    return [found for one in value for found in _at(one, key)] if isinstance(value, list) else []
