"""Each word of the format in each section of the shipped mappings, misspelt, given a value of another type or taken away: refused at load, at its line (M1)."""

import re
import shutil
from functools import cache
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel
from sheets import ASSUMED
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from loadsheet.mapping import schema
from loadsheet.mapping.compile import lint

MAPPINGS = Path(__file__).parents[2] / "mappings"
SHIPPED = sorted(path.name for path in MAPPINGS.glob("*.yaml"))
QUICK = {"carrier-status.yaml", "quayline-milestones.yaml"}  # the others take minutes: by make sweep
MUTATED = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.sweep], id=name) for name in SHIPPED]
PARTS = [part for part in vars(schema).values() if isinstance(part, type) and issubclass(part, BaseModel)]
KEYS = {field.alias or name for part in PARTS for name, field in part.model_fields.items()}
NAMED = {
    "columns", "derived", "constants", "lookups", "tables", "companions", "units", "one_of", "on", "sets", "payload_of",
}  # fmt: skip
FREE = {"default", "example", "const", "value"}  # they take what the column or field takes


@pytest.fixture(scope="module")
def lint_of(tmp_path_factory):
    """What lint says of a shipped mapping with another text."""
    folder = tmp_path_factory.mktemp("mutated") / "mappings"
    shutil.copytree(MAPPINGS, folder)

    def found(name, text):
        (folder / name).write_text(text, encoding="utf-8")
        findings = lint(folder / name, ASSUMED)
        shutil.copy(MAPPINGS / name, folder / name)
        return findings

    return found


@cache
def keys(name):
    """The text of a mapping file, and (loc, key node, value node) of every key."""

    def walk(node, loc):
        if isinstance(node, MappingNode):
            for key, value in node.value:
                yield (*loc, key.value), key, value
                yield from walk(value, (*loc, key.value))
        elif isinstance(node, SequenceNode):
            for position, value in enumerate(node.value):
                yield from walk(value, (*loc, position))

    text = (MAPPINGS / name).read_text(encoding="utf-8")
    return text, list(walk(yaml.compose(text), ()))


def words(name):
    """The first key of each word in each section of a mapping, by section and word, except for names that it gives itself."""
    _, found = keys(name)
    columns = {
        loc for loc, _, value in found if loc[0] == "columns" and isinstance(value, MappingNode) and holds_words(value)
    }
    firsts = {}
    for loc, key, value in found:
        if is_key(loc) and loc not in columns:
            firsts.setdefault((loc[0], loc[-1]), (loc, key, value))
    return firsts


def fields(name):
    """The one-line fields of a mapping's payload, by its target and their names."""
    text, found = keys(name)
    target = re.search(r"^target: (.*)", text, re.MULTILINE)
    return {
        (target and target[1], loc[1]): (loc, key, value)
        for loc, key, value in found
        if loc[0] == "payload" and len(loc) == 2 and key.start_mark.line == value.end_mark.line
    }


@cache
def shared_out(of):
    """Which of these each mapping is mutated at, so that none is at what another one has been: the quick ones first, then the short."""
    order = sorted(SHIPPED, key=lambda name: (name not in QUICK, len((MAPPINGS / name).read_bytes())))
    taken, shares = set(), {}
    for name in order:
        found = of(name)
        shares[name] = [found[what] for what in found.keys() - taken]
        taken |= found.keys()
    return shares


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


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_mappings_are_as_they_should_be(name):
    assert lint(MAPPINGS / name, ASSUMED) == []


@pytest.mark.parametrize("name", MUTATED)
def test_a_misspelt_key_or_a_value_of_another_type_is_refused_at_its_line(lint_of, name):
    text, _ = keys(name)
    for loc, key, value in shared_out(words)[name]:
        at = key.start_mark.index
        mutants = [f"{text[:at]}x{text[at:]}"]
        if loc[-1] not in FREE and isinstance(value, ScalarNode):
            start, end = value.start_mark.index, value.end_mark.index
            mutants.append(f"{text[:start]}{{no: [{{no: no}}]}}{text[end:]}")
        for mutant in mutants:
            said = lint_of(name, mutant)
            assert key.start_mark.line + 1 in {finding.line for finding in said}, (loc, list(map(str, said)))


@pytest.mark.parametrize("name", MUTATED)
def test_a_field_taken_away_is_refused_where_it_is_required(lint_of, name):
    """And a field that is not, or a column that nothing needs, may go: the mapping is refused or is still whole."""
    text, found = keys(name)
    is_single = sum(loc[0] == "payload" and len(loc) == 2 for loc, _, _ in found) == 1  # without it there is no payload
    lines = text.splitlines(keepends=True)
    for loc, key, _ in shared_out(fields)[name]:
        number = key.start_mark.line
        said = lint_of(name, "".join([*lines[:number], *lines[number + 1 :]]))
        assert all(loc[1] in finding.text and "lacks" in finding.text for finding in said) or is_single, said
