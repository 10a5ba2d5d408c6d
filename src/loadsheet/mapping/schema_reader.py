"""Reads one section of a mapping file as its model, with a finding at each wrong key and value.

A finding names the closest key or value that exists. Knows no section's meaning.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from loadsheet.mapping.schema import FixedZone, ZoneSpec, as_zone
from loadsheet.mapping.suggestions import did_you_mean, some
from loadsheet.mapping.yamlfile import Loc, YamlFile

P = TypeVar("P", bound=BaseModel)


def read_part(model: type[P], file: YamlFile, value: object, loc: Loc) -> P | None:
    """One section as its model, or None with every wrong key and value among the file's findings."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        placed = {
            _real_steps(details["loc"], loc, file): details for details in reversed(error.errors(include_url=False))
        }
        for steps, details in reversed(placed.items()):
            if not any(other[: len(steps)] == steps and other != steps for other in placed):
                _explain(model, file, details, loc, steps)
    return None


def read_zone(file: YamlFile, value: object, loc: Loc) -> FixedZone | ZoneSpec | None:
    """The zone setting in either of its two forms: a name, or {col, default}."""
    model: type[FixedZone | ZoneSpec] = FixedZone if isinstance(value, str) else ZoneSpec
    return read_part(model, file, as_zone(value), loc)


def _explain(model: type[BaseModel], file: YamlFile, details: ErrorDetails, base: Loc, steps: Loc) -> None:
    name, found = str(steps[-1]) if steps else "", details["input"]
    kind = details["type"]
    if kind == "extra_forbidden":
        options = _keys_of(model, steps[len(base) : -1])
        file.refuse(
            steps, f'unknown key "{name}"', did_you_mean(name, options) or f"known: {some(options, 30)}", at_key=True
        )
    elif kind == "missing":
        file.refuse(steps[:-1], f'the key "{name}" is missing')
    elif kind == "string_type":
        hint = f'write "{_plain(found)}"' if isinstance(found, int | Decimal | bool) else ""
        file.refuse(steps, f"{name} takes a text, found {_plain(found)}", hint)
    elif kind == "literal_error":
        expected = str(details["ctx"]["expected"])
        options = [word.strip(" '") for word in expected.replace(" or ", ", ").split(", ")]
        file.refuse(
            steps, f"{name}: {_plain(found)} is not one of {some(options, 15)}", did_you_mean(str(found), options)
        )
    else:
        file.refuse(steps, f"{name}: {_WORDS.get(kind, details['msg'])}, found {_plain(found)}")


_WORDS = {
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "is_instance_of": "must be a number",
    "decimal_type": "must be a number",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "may hold letters, digits, dots, hyphens and underscores only",
    "too_short": "must not be empty",
    "greater_than": "must be greater than 0",
}


def _real_steps(found: tuple[int | str, ...], base: Loc, file: YamlFile) -> Loc:
    """Pydantic's location without the names of union branches and key markers it puts in between."""
    steps: Loc = base
    for position, step in enumerate(found):
        is_last = position == len(found) - 1
        if isinstance(step, int) or is_last or (*steps, step) in file.marks:
            steps = (*steps, step)
    if found and found[-1] == "[key]":
        return steps[:-1]
    if len(steps) > len(base) and steps not in file.marks and _is_branch(steps[-1]):
        return steps[:-1]
    return steps


def _is_branch(step: int | str) -> bool:
    return step in {"str", "constrained-int", "int", "bool"} or (isinstance(step, str) and ("[" in step or "-" in step))


def _keys_of(model: type[BaseModel], steps: Loc) -> list[str]:
    """The keys that a section knows, found by following `steps` from the model through fields, dicts and lists."""
    for step in steps:
        info = model.model_fields.get(str(step))
        nested = [part for part in _flatten(info.annotation) if issubclass(part, BaseModel)] if info else []
        model = nested[0] if nested else model
    return [info.alias or name for name, info in model.model_fields.items()]


def _flatten(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation]
    return [part for argument in get_args(annotation) for part in _flatten(argument)]


def _plain(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list) else str(value)
