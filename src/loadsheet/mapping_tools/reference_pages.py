"""The reference as people read it: pages under `docs/mapping`, `loadsheet mapping help` on a terminal, and JSON.

Adds to each entry what the code knows: the values that a key takes, its default, the column types it is for. The texts are in `reference/*.md`.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic_core import PydanticUndefined

from loadsheet.mapping.schema import Column, ColumnType
from loadsheet.mapping_tools.json_schema import Json, mapping_schema
from loadsheet.mapping_tools.reference import PAGES, Block, Entry, entries, keys, page_source, parts_of

GENERATED = "<!-- Made from src/loadsheet/mapping_tools/reference/{page}.md. Change that file, then run LOADSHEET_REWRITE=1 pytest {test}. -->"
TEST = "tests/mapping_tools/test_reference.py"

_WIDTH = 100
_MARKS = re.compile(r"\*\*|`")
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_NAMED_HEADING = re.compile(r"^#{1,4} `(.+)`$")
_WORDS = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "`true` or `false`", "object": "a section", "array": "a list"}


# ---- what the code knows ----


def facts(name: str) -> str:
    """The values of a key, its default, and the column types it is for, in one line of Markdown; empty for other names."""
    key = keys().get(name)
    if key is None:
        return ""
    known = [f"Values: {_values(name)}.", f"{_default(name)}."]
    types = _types_of(key.name) if key.model is Column else []
    return " ".join([*known, *([f"For {_either(types, 'and')}."] if types else [])])


def _types_of(option: str) -> list[str]:
    """The column types that an option is for, in backticks; empty if it is for all."""
    every = get_args(ColumnType)
    fitting = [type_ for type_ in every if not Column.model_construct({option}, type=type_).misplaced()]
    return [f"`{type_}`" for type_ in fitting] if len(fitting) < len(every) else []


@cache
def _schema() -> Json:
    return mapping_schema()


def _values(name: str) -> str:
    key = keys()[name]
    owner = _schema() if "." not in name else _schema()["$defs"][key.model.__name__]
    return _in_words(owner["properties"][key.name])


def _in_words(schema: Mapping[str, Any]) -> str:
    """The values that a JSON Schema takes, in words."""
    if "enum" in schema or "const" in schema:
        return _either([f"`{value}`" for value in schema.get("enum", [schema.get("const")])])
    if options := [option for option in schema.get("anyOf", ()) if option.get("type") != "null" and "pattern" not in option]:
        return _either(list(dict.fromkeys(_in_words(option) for option in options)))
    kind = schema.get("type", "any value" if "$ref" not in schema else "object")
    if kind == "integer" and "maximum" in schema:
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    if kind == "integer" and schema.get("exclusiveMinimum") == 0:
        return "a whole number from 1"
    if kind == "string" and schema.get("maxLength") == 1:
        return "one character"
    if kind == "array" and schema.get("items", {}).get("type") == "string":
        return "a list of texts"
    if kind == "array" and "enum" in schema.get("items", {}):
        return f"a list of {_in_words(schema['items'])}"
    if kind == "object" and schema.get("additionalProperties"):
        return "texts by name" if schema["additionalProperties"] == {"type": "string"} else "entries by name"
    return _WORDS.get(kind, kind)


def _default(name: str) -> str:
    value: Any = keys()[name].field.default
    if value is PydanticUndefined:
        return "Required"
    if isinstance(value, bool):
        return f"Default: `{str(value).lower()}`"
    return f"Default: `{value}`" if isinstance(value, str) and value else "Default: none"


def _either(words: list[str], link: str = "or") -> str:
    *first, last = words
    return f"{', '.join(first)} {link} {last}" if first else last


# ---- pages ----


def page(name: str) -> str:
    """A page as it stands in `docs/mapping`: the texts, a list of its names, and the facts below each heading."""
    lines = [GENERATED.format(page=name, test=TEST), ""]
    in_block, listed = False, False
    for line in page_source(name).splitlines():
        in_block ^= line.startswith("```")
        if line.startswith("## ") and not in_block and not listed:
            lines += [*_contents(name), ""]
            listed = True
        named = None if in_block else _NAMED_HEADING.match(line)
        if line.startswith("```") and in_block:
            kind, _, more = line.removeprefix("```").partition(" ")
            lines += [f"`{more}`:", ""] if kind in ("csv", "yaml") and more not in ("", "frame", "given") else []
            line = f"```{kind if kind in ('yaml', 'console') else ''}"
        lines.append(line)
        if named and (known := facts(named[1])):
            lines += ["", f"*{known}*"]
    return "\n".join(lines) + "\n"


def _contents(name: str) -> Iterator[str]:
    yield from ("| Name | Meaning |", "|---|---|")
    for entry in entries().values():
        if entry.page == name:
            anchor = re.sub(r"[^\w-]", "", entry.name.casefold().replace(" ", "-"))
            shown_name = f"[`{entry.name}`](#{anchor})" if anchor.strip("-") else f"`{entry.name}`"
            yield f"| {shown_name} | {_first_sentence(entry)} |"


# ---- the terminal ----


def shown(entry: Entry) -> str:
    """An entry for a terminal: plain text, examples indented."""
    lines = [entry.name, *([_plain(known)] if (known := facts(entry.name)) else []), ""]
    for part in parts_of(entry.text):
        lines += [*_example(part), ""] if isinstance(part, Block) else _paragraphs(part)
    return "\n".join(lines).rstrip()


def _example(block: Block) -> Iterator[str]:
    if block.name:
        yield f"    {block.name}:"
    yield from (f"    {line}" for line in block.text.splitlines())


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, (part.strip() for part in text.split("\n\n"))):
        if paragraph.startswith(("|", "- ", "1. ")):
            yield from (_plain(line) for line in paragraph.splitlines())
        else:
            yield from textwrap.wrap(_plain(" ".join(paragraph.split())), _WIDTH)
        yield ""


def _plain(text: str) -> str:
    """Markdown without its marks. In a code span, the marks themselves stay."""
    return _MARKS.sub("", _LINK.sub(r"\1", text))


def overview() -> str:
    """All names with the first sentence of each, page by page."""
    lines = []
    for page_name in PAGES:
        title = page_source(page_name).partition("\n")[0].removeprefix("# ")
        own = [entry for entry in entries().values() if entry.page == page_name]
        width = max((len(entry.name) for entry in own), default=0)
        lines += [title, *(f"  {entry.name.ljust(width)}  {_plain(_first_sentence(entry))}" for entry in own), ""]
    return "\n".join(lines).rstrip()


def _first_sentence(entry: Entry) -> str:
    return re.split(r"(?<=[.!?:]) (?=[A-Z])", entry.summary, maxsplit=1)[0].rstrip(":")


def as_json(entry: Entry) -> Json:
    """An entry as JSON values."""
    key = keys().get(entry.name)
    known = {"values": _plain(_values(entry.name)), "required": key.field.is_required()} if key is not None else {}
    blocks = [{"kind": block.kind, "name": block.name, "text": block.text} for block in entry.blocks]
    return {"name": entry.name, "page": entry.page, **known, "text": _plain(entry.prose), "examples": blocks}
