"""YAML texts as nodes: what unquoted values mean in YAML 1.2, the places of nodes, and what is refused."""

from decimal import Decimal

import pytest

from loadsheet.yaml_nodes import NotYaml, compose, values_of

MEANT = {  # YAML 1.1, which most libraries follow, reads the first ten otherwise
    "no": "no",
    "On": "On",
    "y": "y",
    "1:30": "1:30",
    "0o17": 15,
    "1e3": Decimal(1000),
    "1_000": 1000,
    "12:30:45": "12:30:45",
    "=": "=",
    ".5e+1": Decimal(5),
    "true": True,
    "~": None,
    "": None,
    "0x1F": 31,
    "-7": -7,
    "+1.50": Decimal("1.50"),
    "'01067'": "01067",
    "!!str 7": "7",
    '"a\\u00e9\\/b"': "aé/b",
    "10.1.2": "10.1.2",
    "2026-3-1": "2026-3-1",
}


@pytest.mark.parametrize("text", MEANT)
def test_values_mean_what_yaml_1_2_says(text):
    found = values_of(f"a: {text}")["a"]
    assert (found, type(found)) == (MEANT[text], type(MEANT[text]))


def test_nodes_have_their_places_also_behind_letters_beyond_ascii():
    node = compose('größe: "\N{GRINNING FACE}"\nlist:\n  - {ä: b, c: d}\n')
    (_, (name, rows)) = node.value
    (row,) = rows.value
    assert [(part.kind, part.line, part.column) for part in (name, rows, row)] == [("str", 2, 1), ("seq", 3, 3), ("map", 3, 5)]  # fmt: skip
    assert [(key.value, key.column, value.column) for key, value in row.value] == [("ä", 6, 9), ("c", 12, 15)]


def test_an_alias_is_the_node_that_it_names():
    assert values_of("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("a: [1", "expected", (2, 1)),
        ("a: b: c", "mapping values are not allowed", (1, 5)),
        ("a: *x", "undefined alias", (1, 4)),
        ("a: 1\n---\nb: 2", "several documents", (3, 1)),
        ("a: 1\na: 2", "the key a cannot be used, or is there twice", (2, 1)),
        ("<<: {a: 1}", "the key << cannot be used", (1, 1)),
        ("a: 2026-03-01", "write it in quotes", (1, 4)),
        ("a: !!python/name:os.system x", "write it in quotes", (1, 4)),
        ("a: &x [*x]", "nested more than 40 levels deep", (1, 4)),
        ("a: \x01", "not allowed", (1, 1)),
        ("[" * 300_000, "nested more than 40 levels deep", (1, 42)),
        ("- " * 300_000, "nested more than 40 levels deep", (1, 83)),
        ("a: {" * 300_000, "nested more than 40 levels deep", (1, 164)),
    ],
)
def test_what_is_no_yaml_is_refused_at_its_place(text, said, place):
    with pytest.raises(NotYaml, match=said) as refused:
        values_of(text)
    assert (refused.value.line, refused.value.column) == place
    assert str(refused.value)


@pytest.mark.parametrize("text", ["!!python/object:x {}", "a: !!set {b}", "a: !x [1]"])
def test_a_map_or_list_with_a_tag_of_another_value_is_refused(text):
    with pytest.raises(NotYaml, match="is not known; remove it"):
        values_of(text)


def test_a_map_or_list_may_be_tagged_as_what_it_is():
    assert values_of("!!map {a: !!seq [1]}") == {"a": [1]}
