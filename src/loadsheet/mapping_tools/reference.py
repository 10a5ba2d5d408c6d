"""The texts of the language of mappings: one entry for every key, function, attribute and operator, with its examples.

Owns: the pages in `reference/*.md`, and which keys need an entry. An entry is a heading with a name in backticks (`columns.pad_left`, `$sum`)
and the text below it, up to the next heading. `mapping help`, the pages under `docs/mapping` and the JSON Schema show the same entries.
Every example has its result; `tests/mapping_tools/test_reference.py` runs them all.

An example is a row of fenced blocks: `yaml` (the lines of the mapping that matter), `csv` or `csv NAME` (the rows of a file), then `result` or
`cells`. `expression` has expressions with their values, `types` the types that an operator or function takes and gives.

The JSON Schema of mapping files (draft 2020-12) is made from the models that read a mapping, from the contract and from these texts: keys,
types and words of `mapping/schema.py`, and under `payload:` the fields of the record that `target` names. It is as strict as possible.
Checks across sections (does this column exist?) need `lint`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import BaseModel

from loadsheet.contract import KIND_DESCRIPTIONS, WRITES, Field, FieldKind, Operation, Record, When
from loadsheet.mapping.schema import SOURCES_OF_A_VALUE, Column, Derived, Leaf, MappingSpec, Target, ZoneSpec, keys
from loadsheet.mapping.yamlfile import yaml_values

PAGES = ("mapping", "source", "columns", "lookups", "payload", "targets", "checks", "expressions")
"""The pages in the order in which a reader wants them."""

TARGETS = (*(operation.name for operation in WRITES), "tender.upsert", "order.upsert")
"""The operations that a record may become."""

FIELDS = "{fields}"
"""The line of an entry of a target where the fields of its record are listed."""

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


# ---- the JSON Schema ----

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/"
_TEXTS: Json = {"type": "array", "items": {"type": "string"}}
_SETS: Json = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 200},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    ]
}


SCHEMA_FILE = "mapping.schema.json"
"""The name of the schema in a folder of mappings."""


def schema_text() -> str:
    """The schema of a whole mapping file as text."""
    return msgspec.json.format(msgspec.json.encode(mapping_schema()), indent=2).decode() + "\n"


def schema_line(mappings: Path, folder: Path) -> str:
    """The line by which editors find the schema of `mappings`, for a mapping in `folder`; empty if the schema is not there."""
    schema = mappings / SCHEMA_FILE
    return (
        f"# yaml-language-server: $schema={Path(os.path.relpath(schema, folder)).as_posix()}\n"
        if schema.is_file()
        else ""
    )


def mapping_schema() -> Json:
    """The schema of a whole mapping file."""
    defs: Json = {}
    schema = _model(MappingSpec, defs)
    for model in (Column, Derived, ZoneSpec, Leaf):
        defs[model.__name__] = _model(model, defs)
    properties = schema["properties"]
    properties["columns"] = _described("MappingSpec.columns", _by_table("Column"))
    properties["derived"] = _described("MappingSpec.derived", _by_table("Derived"))
    zone = {"anyOf": [{"type": "string"}, {"$ref": f"{_DEFS}ZoneSpec"}]}
    defs["Source"]["properties"]["timezone"] = _described("Source.timezone", zone)
    defs["Leaf"]["oneOf"] = [{"required": [source]} for source in SOURCES_OF_A_VALUE]
    if "Target" not in defs:
        defs["Target"] = _model(Target, defs)
    names = {"type": "string", "enum": list(TARGETS)}
    properties["target"] = _described("MappingSpec.target", {"anyOf": [names, {"$ref": f"{_DEFS}Target"}]})
    defs["TableSpec"]["properties"]["sets"] = _described("TableSpec.sets", _SETS)
    whole = {"required": schema.pop("required")}  # a mapping that extends another has only the differences
    branches = [{"if": {"required": ["extends"]}, "else": whole}, *(_branch(operation, defs) for operation in WRITES)]
    return {
        "$schema": DIALECT,
        "title": "loadsheet mapping",
        "description": "The columns of a shipper's sheet and the payload for the exchange.",
        **schema,
        "allOf": branches,
        "$defs": dict(sorted(defs.items())),
    }


def _branch(operation: Operation, defs: Json) -> Json:
    """The payload of a mapping for one operation, if this file contains it completely."""
    names = [operation.name, *([f"{operation.subject}.upsert"] if operation.creates else [])]
    name = _record(operation.record, defs, creates=operation.creates)
    here = {"properties": {"target": {"enum": names}}, "required": ["target"], "not": {"required": ["extends"]}}
    return {"if": here, "then": {"properties": {"payload": {"$ref": f"{_DEFS}{name}"}}}}


def _model(model: type[BaseModel], defs: Json) -> Json:
    """The schema of a section. The sections inside it become definitions."""
    found = model.model_json_schema(by_alias=True, ref_template=_DEFS + "{model}", mode="validation")
    for name, inner in found.pop("$defs", {}).items():
        defs[name] = _written(inner, name)
    return _written(found, model.__name__)


def _written(schema: Json, owner: str) -> Json:
    """A model's schema without pydantic's titles and defaults, with our descriptions and the allowed short forms."""
    properties = {name: _described(f"{owner}.{name}", _loosened(value)) for name, value in schema["properties"].items()}
    required = schema.get("required")
    return _object(properties, required, description=" ".join(schema.get("description", "").split()))


def _object(properties: Json, required: list[str] | None = None, **more: Any) -> Json:
    """The schema of a section with these keys only."""
    needed = {"required": required} if required is not None else {}
    return {"type": "object", **more, "properties": properties, **needed, "additionalProperties": False}


def _loosened(schema: Json) -> Json:
    bare = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if bare.get("type") == "array" and bare.get("items", {}).get("type") == "string":
        return {"anyOf": [bare["items"], bare]}
    if "anyOf" in bare:
        options = [_loosened(option) for option in bare["anyOf"]]
        # pydantic takes a Decimal as text as well
        is_number = any(option.get("type") == "number" for option in options)
        kept = [option for option in options if not (is_number and option.get("type") == "string")]
        nothing = {"type": "null"}
        kept = [option for option in kept if option != nothing] or kept
        return kept[0] if len(kept) == 1 else {**bare, "anyOf": kept}
    if isinstance(bare.get("additionalProperties"), dict):
        bare["additionalProperties"] = _loosened(bare["additionalProperties"])
    return bare


def _described(key: str, schema: Json) -> Json:
    """The schema of a key with its entry of the reference, as editors show it: its texts, and its values in the examples."""
    entry = meanings().get(key)
    if entry is None:
        return schema
    examples = {"examples": entry.values} if entry.values else {}
    return {"description": entry.prose.replace("`", ""), **examples, **schema}


def _by_table(definition: str) -> Json:
    """Entries by name for one table, or by table and name for several."""
    entry = {"$ref": f"{_DEFS}{definition}"}
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"anyOf": [entry, {"type": "object", "additionalProperties": entry}]},
    }


# ---- the payload, from the contract ----


def _record(record: Record, defs: Json, *, creates: bool) -> str:
    """The definition of a record's section under `payload:`; returns its name."""
    asks_for_more = any(field.when is When.ON_CREATE for field in record.fields)
    name = f"payload.{record.name.replace(' ', '')}{'OnCreate' if creates and asks_for_more else ''}"
    if name not in defs:
        defs[name] = {}  # ends the recursion for a record that contains itself
        required: list[str] = []
        properties: Json = {}
        for field in record.fields:
            if field.is_required(creates=creates):
                required.append(field.name)
            node = _field(field, defs, creates=creates)
            properties |= dict.fromkeys((field.name, *field.spellings), node)
        defs[name] = _object(properties, required, description=f"The record {record.name} of the exchange.")
    return name


def _field(field: Field, defs: Json, *, creates: bool) -> Json:
    meaning = f"{field.meaning}; {KIND_DESCRIPTIONS.get(field.kind, 'a text')}"
    meaning += f", such as {', '.join(field.known)}" if field.known else ""
    if field.record is None:
        return {"description": meaning, "$ref": f"{_DEFS}Leaf"}
    inner = {"$ref": f"{_DEFS}{_record(field.record, defs, creates=creates)}"}
    return {
        "description": meaning,
        **(inner if field.kind is FieldKind.OBJECT else _list_of(inner, field.record, defs)),
    }


def _list_of(item: Json, record: Record, defs: Json) -> Json:
    """The three ways to write a list: an item for each row, entries written out, or none."""
    entry = {**defs[item["$ref"].removeprefix(_DEFS)]}
    when = {"type": "string", "description": "The entry is sent if this condition holds."}
    name = f"payload.{record.name.replace(' ', '')}.entry"
    defs[name] = {**entry, "properties": {"when": when, **entry["properties"]}}
    said = {key: entries()[f"payload.{key}"].prose.replace("`", "") for key in ("each", "ordered", "list")}
    ordered = {"type": "boolean", "description": said["ordered"]}
    rows = {"type": "string", "description": said["each"]}
    each = _object({"each": rows, "ordered": ordered, "item": item}, ["each", "item"])
    written = {"type": "array", "description": said["list"], "items": {"$ref": f"{_DEFS}{name}"}}
    written_out = _object({"list": written}, ["list"])
    return {"anyOf": [each, written_out, _object({"value": {"const": []}}, ["value"])]}
