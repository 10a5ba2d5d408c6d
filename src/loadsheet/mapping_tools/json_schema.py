"""The JSON Schema of the mapping format (draft 2020-12), made from the models that read a mapping and from the contract.

Owns: the combination of both into one schema for editors: keys, types and words of `mapping/schema.py`, and under `payload:` the fields of
the record that `target` names. The texts and examples come from `reference.py`. The schema is as strict as possible. Checks across
sections (does this column exist?) need `lint`.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from loadsheet.contract import EXPECTED, WRITES, Field, Kind, Operation, Record, When
from loadsheet.mapping.schema import SOURCES_OF_A_VALUE, Column, Derived, Leaf, MappingSpec, Target, ZoneSpec
from loadsheet.mapping_tools.reference import entries, meanings

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
    upserts = [f"{operation.subject}.upsert" for operation in WRITES if operation.creates]
    names = {"type": "string", "enum": [*(operation.name for operation in WRITES), *upserts]}
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
        is_number = any(
            option.get("type") == "number" for option in options
        )  # pydantic takes a Decimal as text as well
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
        "additionalProperties": {
            "anyOf": [entry, {"type": "object", "minProperties": 1, "additionalProperties": entry}],
        },
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
            if field.when is When.ALWAYS or (creates and field.when is When.ON_CREATE):
                required.append(field.name)
            node = _field(field, defs, creates=creates)
            properties |= dict.fromkeys((field.name, *field.spellings), node)
        defs[name] = _object(properties, required, description=f"The record {record.name} of the exchange.")
    return name


def _field(field: Field, defs: Json, *, creates: bool) -> Json:
    meaning = f"{field.meaning}; {EXPECTED.get(field.kind, 'a text')}"
    meaning += f", such as {', '.join(field.known)}" if field.known else ""
    if field.record is None:
        return {"description": meaning, "$ref": f"{_DEFS}Leaf"}
    inner = {"$ref": f"{_DEFS}{_record(field.record, defs, creates=creates)}"}
    return {"description": meaning, **(inner if field.kind is Kind.OBJECT else _list_of(inner, field.record, defs))}


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
