"""Each key of each shipped mapping, misspelt, given a value of another type or taken away: refused at load, at its line (M1)."""

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from sheets import ASSUMED

from loadsheet.mapping import lint
from loadsheet.mapping.language import (
    Batch,
    Check,
    Column,
    Derived,
    Errors,
    Group,
    Join,
    Kind,
    Leaf,
    LookupSpec,
    MappingSpec,
    Pad,
    Source,
    TableSpec,
    Target,
    Totals,
    ZoneSpec,
)

MAPPINGS = Path(__file__).parents[2] / "mappings"
SHIPPED = sorted(path.name for path in MAPPINGS.glob("*.yaml"))
QUICK = {
    "alder-parcels.yaml",
    "carrier-status.yaml",
    "quayline-milestones.yaml",
}  # the others take minutes: by make sweep
MUTATED = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.sweep], id=name) for name in SHIPPED]
PARTS = (
    Batch,
    Check,
    Column,
    Derived,
    Errors,
    Group,
    Join,
    Kind,
    Leaf,
    LookupSpec,
    MappingSpec,
    Pad,
    Source,
    TableSpec,
    Target,
    Totals,
    ZoneSpec,
)
KEYS = {field.alias or name for part in PARTS for name, field in part.model_fields.items()}
NAMED = {
    "columns",
    "derived",
    "constants",
    "lookups",
    "tables",
    "companions",
    "units",
    "one_of",
    "on",
    "sets",
    "payload_of",
}
FREE = {"default", "example", "const", "value"}  # they take what the column or field takes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    copy = tmp_path_factory.mktemp("mutated") / "mappings"
    shutil.copytree(MAPPINGS, copy)
    return copy


def keys(name):
    """(loc, key node, value node) of every key of a mapping file."""

    def walk(node, loc):
        if isinstance(node, MappingNode):
            for key, value in node.value:
                yield (*loc, key.value), key, value
                yield from walk(value, (*loc, key.value))
        elif isinstance(node, SequenceNode):
            for position, value in enumerate(node.value):
                yield from walk(value, (*loc, position))

    text = (MAPPINGS / name).read_text(encoding="utf-8")
    return text, list(walk(YAML(typ="safe", pure=True).compose(text), ()))


def each_word(found):
    """The first key of each word in each section of a mapping, except for names that it gives itself."""
    columns = {
        loc for loc, _, value in found if loc[0] == "columns" and isinstance(value, MappingNode) and holds_words(value)
    }
    firsts = {}
    for loc, key, value in found:
        if is_key(loc) and loc not in columns:
            firsts.setdefault((loc[0], loc[-1]), (loc, key, value))
    return list(firsts.values())


def holds_words(node):
    return all(key.value in KEYS for key, _ in node.value) and not any(
        isinstance(value, MappingNode) and key.value not in {"one_of", "pad_left"} for key, value in node.value
    )


def is_key(loc):
    """Whether the last step is a word of the format, not a name that the mapping gives."""
    if len(loc) > 1 and loc[-2] in NAMED and loc[:-1] != ("payload", "value"):
        return False
    in_table = len(loc) > 2 and loc[0] == "columns" and loc[-1] in KEYS
    return loc[-1] in KEYS and loc[0] != "constants" and (loc[0] != "columns" or in_table)


def findings(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    found = lint(path, ASSUMED)
    path.write_text((MAPPINGS / name).read_text(encoding="utf-8"), encoding="utf-8")
    return found


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_mappings_are_as_they_should_be(name):
    assert lint(MAPPINGS / name, ASSUMED) == []


@pytest.mark.parametrize("name", MUTATED)
def test_a_misspelt_key_is_refused_at_its_line(folder, name):
    text, found = keys(name)
    for loc, key, _ in each_word(found):
        at = key.start_mark.index
        said = findings(folder, name, f"{text[:at]}x{text[at:]}")
        assert key.start_mark.line + 1 in {finding.line for finding in said}, (loc, list(map(str, said)))


@pytest.mark.parametrize("name", MUTATED)
def test_a_value_of_another_type_is_refused_at_its_line(folder, name):
    text, found = keys(name)
    for loc, key, value in each_word(found):
        if loc[-1] in FREE or not isinstance(value, ScalarNode):
            continue
        start, end = value.start_mark.index, value.end_mark.index
        said = findings(folder, name, f"{text[:start]}{{no: [{{no: no}}]}}{text[end:]}")
        assert key.start_mark.line + 1 in {finding.line for finding in said}, (loc, list(map(str, said)))


@pytest.mark.parametrize("name", MUTATED)
def test_a_field_taken_away_is_refused_where_it_is_required(folder, name):
    """And a field that is not, or a column that nothing needs, may go: the mapping is refused or is still whole."""
    text, found = keys(name)
    lines = text.splitlines(keepends=True)
    for loc, key, value in found:
        if loc[0] != "payload" or len(loc) != 2 or key.start_mark.line != value.end_mark.line:
            continue
        number = key.start_mark.line
        said = findings(folder, name, "".join([*lines[:number], *lines[number + 1 :]]))
        assert (
            all(loc[1] in finding.text and "misses" in finding.text for finding in said)
            or sum(other[0][0] == "payload" and len(other[0]) == 2 for other in found) == 1
        ), list(map(str, said))
