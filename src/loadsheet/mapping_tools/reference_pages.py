"""The reference as people read it: pages under `docs/mapping`, `loadsheet mapping help` on a terminal, and JSON.

Adds to each entry what the code knows: the values that a key takes, its default, the column types it is for. The texts are in `reference/*.md`.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic_core import PydanticUndefined

from loadsheet.contract import BY_NAME, KIND_DESCRIPTIONS, WRITES, Field, When
from loadsheet.mapping.schema import Column, ColumnType, keys
from loadsheet.mapping_tools.reference import (
    FIELDS,
    PAGES,
    Block,
    Entry,
    Json,
    entries,
    mapping_schema,
    page_source,
    parts_of,
)

GENERATED = "<!-- Made from src/loadsheet/mapping_tools/reference/{page}.md. Change that file, then run LOADSHEET_REWRITE=1 pytest {test}. -->"
TEST = "tests/mapping_tools/test_reference.py"

_WIDTH = 100
_SETTINGS_OF_EXAMPLES = ("frame", "given")
_MARKS = re.compile(r"\*\*|`")
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_NAMED_HEADING = re.compile(r"^#{1,4} `(.+)`$")


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
    return _either(list(dict.fromkeys(_options(owner["properties"][key.name]))))


def _options(schema: Mapping[str, Any]) -> Iterator[str]:
    """One word or a few for each kind of value."""
    if "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from _options(option)
    elif "enum" in schema or "const" in schema:
        yield from (f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    elif schema.get("type") == "boolean":
        yield from ("`true`", "`false`")
    elif schema.get("type") != "null":
        yield _kind_of_value(schema)


def _kind_of_value(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "object" if "$ref" in schema else "")
    if kind == "integer" and "maximum" in schema:
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    if kind == "integer" and schema.get("exclusiveMinimum") == 0:
        return "a whole number from 1"
    if kind == "string" and schema.get("maxLength") == 1:
        return "one character"
    if kind == "array":
        inner = schema.get("items", {})
        return {"string": "a list of texts", None: "a list of sections"}.get(inner.get("type"), "a list")
    if kind == "object":
        inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        named = "texts by name" if inner == {"type": "string"} else "entries by name"
        return named if inner else "a section"
    return {"string": "a text", "integer": "a whole number", "number": "a number"}.get(kind, "any value")


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


def fields_table(target: str) -> list[str]:
    """The fields of a target's record as a table in Markdown; of an update, what differs from its creation."""
    operation = BY_NAME[target]
    creation = BY_NAME.get(f"{operation.subject}.create")
    if creation is not None and creation is not operation and creation.record is operation.record:
        required = [f"`{field.name}`" for field in operation.record.fields if field.is_required(creates=False)]
        return [f"It has the fields of `{creation.name}`. Required: {_either(required, 'and')}."]
    fields = list(operation.record.walk())
    rows = [
        f"| `{path}` | {KIND_DESCRIPTIONS[field.kind]} | {'yes' if field.is_required(creates=operation.creates) else ''} | {field.meaning}{_known(field)} |"
        for path, field in fields
        if field.when is not When.LISTED
    ]
    listed = [f"`{path}`" for path, field in fields if field.when is When.LISTED]
    others = ["", f"{_ONLY_LISTED}: {', '.join(listed)}."] if listed else []
    return ["| Field | Holds | Required | Meaning |", "|---|---|---|---|", *rows, *others]


_ONLY_LISTED = "In listings only, unless the setting `assumptions.listing_only_fields` is `accept`"


def _known(field: Field) -> str:
    return f": {', '.join(field.known)}" if field.known else ""


def fields_named(name: str) -> list[Json]:
    """The fields of the interface with this name or path, each with the operations whose record has it. Empty if there is none."""
    found: dict[tuple[str, str], Json] = {}
    for operation in WRITES:
        for path, field in operation.record.walk():
            if name in (path, field.name, *field.spellings):
                text = f"{field.meaning}{_known(field)}. It holds {KIND_DESCRIPTIONS[field.kind]}."
                text += f" {_ONLY_LISTED}." if field.when is When.LISTED else ""
                known = found.setdefault((path, text), {"name": path, "text": text, "required": [], "optional": []})
                known["required" if field.is_required(creates=operation.creates) else "optional"].append(operation.name)
    return list(found.values())


def shown_field(found: Json) -> str:
    """A field of the interface for a terminal."""
    lines = [f"{found['name']}  (a field of the payload)", *textwrap.wrap(found["text"], _WIDTH)]
    lines += [f"Required in {_either(found['required'], 'and')}."] if found["required"] else []
    lines += [f"Optional in {_either(found['optional'], 'and')}."] if found["optional"] else []
    return "\n".join(lines)


# ---- pages ----


def page(name: str) -> str:
    """A page as it stands in `docs/mapping`: the texts, a list of its names, and what the code knows below each heading."""
    lines = [GENERATED.format(page=name, test=TEST), ""]
    in_block, is_listed, entry = False, False, ""
    for line in page_source(name).splitlines():
        if line.startswith("```"):
            in_block = not in_block
            lines += _opened(line) if in_block else [line]
            continue
        named = None if in_block else _NAMED_HEADING.match(line)
        if line.startswith("## ") and not in_block and not is_listed:
            lines += [*_contents(name), ""]
            is_listed = True
        entry = named[1] if named else entry
        lines += fields_table(entry) if line == FIELDS else [line]
        if named and (known := facts(entry)):
            lines += ["", f"*{known}*"]
    return "\n".join(lines) + "\n"


def _opened(fence: str) -> list[str]:
    """The first line of a block, and before it what the block is, if that is not clear."""
    kind, _, more = fence.removeprefix("```").partition(" ")
    label = "gives" if kind == "result" else f"`{more}`:" if more not in ("", *_SETTINGS_OF_EXAMPLES) else ""
    return [*([label, ""] if label else []), f"```{kind if kind in ('yaml', 'console') else ''}"]


def _contents(name: str) -> Iterator[str]:
    """The names of a page, each with a link to its heading."""
    yield from ("| Name | Meaning |", "|---|---|")
    anchors = _anchors(page_source(name))
    for entry in entries().values():
        if entry.page == name:
            anchor = anchors[f"`{entry.name}`"]
            shown_name = f"[`{entry.name}`](#{anchor})" if anchor else f"`{entry.name}`"
            yield f"| {shown_name} | {_first_sentence(entry)} |"


def _anchors(text: str) -> dict[str, str]:
    """The headings of a page with their anchors, as GitHub makes them. Empty for a heading without letters."""
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for heading in (line for part in parts_of(text) if isinstance(part, str) for line in part.splitlines()):
        if heading.startswith("#"):
            title = heading.lstrip("#").strip()
            slug = re.sub(r"[^\w -]", "", title.casefold()).replace(" ", "-")
            found[title] = (f"{slug}-{seen[slug]}" if seen[slug] else slug) if slug.strip("-") else ""
            seen[slug] += 1
    return found


# ---- the terminal ----


def shown(entry: Entry) -> str:
    """An entry for a terminal: plain text, examples indented."""
    lines = [entry.name, *([_plain(known)] if (known := facts(entry.name)) else []), ""]
    for part in parts_of(entry.text):
        if isinstance(part, Block):
            lines += [*_example(part), ""]
        else:
            fields = "\n".join(fields_table(entry.name)) if FIELDS in part else ""
            lines += _paragraphs(part.replace(FIELDS, fields))
    return "\n".join(lines).rstrip()


def _example(block: Block) -> Iterator[str]:
    label = "gives" if block.kind == "result" else f"{block.name}:" if block.name else ""
    yield from ([f"  {label}"] if label else [])
    yield from (f"    {line}" for line in block.text.splitlines())


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, (part.strip() for part in text.split("\n\n"))):
        if paragraph.startswith("|"):
            yield from _table([_plain(line).strip("| ").split(" | ") for line in paragraph.splitlines()])
        elif paragraph.startswith(("- ", "1. ")):
            yield from (_plain(line) for line in paragraph.splitlines())
        else:
            yield from textwrap.wrap(_plain(" ".join(paragraph.split())), _WIDTH)
        yield ""


def _table(rows: list[list[str]]) -> Iterator[str]:
    cells = [row for row in rows if len(row) == len(rows[0])]  # the line below the headings has no cells
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield f"  {'  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))}".rstrip()


def _plain(text: str) -> str:
    """Markdown without its marks. In a code span, the marks themselves stay."""
    return _MARKS.sub("", _LINK.sub(r"\1", text))


def overview() -> str:
    """All names with the first sentence of each, page by page."""
    lines = []
    for page_name in PAGES:
        title = page_source(page_name).partition("\n")[0].removeprefix("# ")
        own = [entry for entry in entries().values() if entry.page == page_name]
        width = max(len(entry.name) for entry in own)
        lines += [title, *(f"  {entry.name.ljust(width)}  {_plain(_first_sentence(entry))}" for entry in own), ""]
    return "\n".join(lines).rstrip()


def _first_sentence(entry: Entry) -> str:
    return re.split(r"(?<=[.!?:]) (?=[A-Z])", entry.summary)[0].rstrip(":")


def as_json(entry: Entry) -> Json:
    """An entry as JSON values."""
    key = keys().get(entry.name)
    known = {"values": _plain(_values(entry.name)), "required": key.field.is_required()} if key is not None else {}
    blocks = [{"kind": block.kind, "name": block.name, "text": block.text} for block in entry.blocks]
    return {"name": entry.name, "page": entry.page, **known, "text": _plain(entry.prose), "examples": blocks}
