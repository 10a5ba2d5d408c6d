"""The published schema of mapping files agrees with what `lint` takes, as far as a schema can say it."""

import copy
import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
from command_in_process import loadsheet

from loadsheet.contract import WRITES, Assumptions
from loadsheet.mapping.compile import lint
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.mapping_tools.reference import DIALECT, SCHEMA_FILE, mapping_schema, meanings, schema_text

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "mappings").glob("*.yaml"))
SCHEMA = mapping_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def faults(values):
    return [error.json_path for error in VALIDATOR.iter_errors(values)]


def test_the_schema_is_one_of_its_dialect():
    assert SCHEMA["$schema"] == DIALECT == "https://json-schema.org/draft/2020-12/schema"
    VALIDATOR.check_schema(SCHEMA)


def test_every_shipped_mapping_is_valid():
    assert {path.name: found for path in SHIPPED if (found := faults(read_yaml(path).values))} == {}


def test_the_mapping_of_the_readme_is_valid(tmp_path):
    path = tmp_path / "readme.yaml"
    path.write_text(
        (ROOT / "README.md").read_text(encoding="utf-8").split("```yaml\n", 1)[1].split("```", 1)[0], encoding="utf-8"
    )
    assert faults(read_yaml(path).values) == []


def broken(values):
    """Mutations of a mapping's values that must be refused, by name: a key dropped, misspelt, or of another type."""
    for key in ("mapping", "version", "target", "source", "columns", "payload"):
        dropped = copy.deepcopy(values)
        del dropped[key]
        yield f"without {key}", dropped
    for key in list(values):
        misspelt = {(f"{name}x" if name == key else name): value for name, value in copy.deepcopy(values).items()}
        yield f"misspelt {key}", misspelt
    for key, wrong in {
        "version": "one",
        "source": [],
        "columns": 3,
        "payload": "x",
        "target": "order.creat",
        "checks": {},
    }.items():
        yield f"wrong {key}", {**copy.deepcopy(values), key: wrong}
    yield "no columns", {**copy.deepcopy(values), "columns": {}}
    first = next(iter(values["payload"]))
    for leaf in ({"coll": "x"}, {"col": "a", "value": 1}, {}, "x", {"col": 1}):
        changed = copy.deepcopy(values)
        changed["payload"][first] = leaf
        yield f"leaf {leaf}", changed
    unknown = copy.deepcopy(values)
    unknown["payload"]["no_such_field"] = {"value": 1}
    yield "unknown field", unknown


@pytest.mark.parametrize("name", ["carrier-status", "order-deletes"])
def test_what_the_schema_refuses_lint_refuses_too(tmp_path, name):
    path = tmp_path / "mutated.yaml"
    for what, changed in broken(read_yaml(ROOT / "mappings" / f"{name}.yaml").values):
        path.write_text(json.dumps(changed, default=float, ensure_ascii=False), encoding="utf-8")
        assert faults(changed), what
        assert lint(path, Assumptions()), what


def sections():
    """The sections by the name of their model, with the whole file as `MappingSpec`."""
    found = {name: found for name, found in SCHEMA["$defs"].items() if not name.startswith("payload.")}
    return {**found, "MappingSpec": SCHEMA}


def test_every_key_is_explained_with_the_words_of_the_reference():
    properties = {
        f"{name}.{key}": one for name, found in sections().items() for key, one in found["properties"].items()
    }
    explained = meanings()
    assert {name for name, found in properties.items() if not found.get("description")} == set()
    assert properties.keys() == explained.keys()
    pad = properties["Column.pad_left"]
    assert pad["description"].startswith("Fills a text up on the left. This brings back the zeros")
    assert pad["examples"] == [{"to": 5, "with": "0"}]


def test_the_examples_that_editors_show_are_valid_values():
    wrong = []
    for name, found in sections().items():
        for key, one in found["properties"].items():
            validator = jsonschema.Draft202012Validator({**one, "$defs": SCHEMA["$defs"]})
            wrong += [f"{name}.{key}: {value}" for value in one.get("examples", []) if not validator.is_valid(value)]
    assert wrong == []


def test_editors_know_the_fields_of_each_operation():
    for operation in WRITES:
        branch = next(
            one
            for one in SCHEMA["allOf"]
            if operation.name in one["if"].get("properties", {}).get("target", {}).get("enum", [])
        )
        name = branch["then"]["properties"]["payload"]["$ref"].rpartition("/")[2]
        properties = SCHEMA["$defs"][name]["properties"]
        assert {field.name for field in operation.record.fields} <= set(properties)
        assert all(found["description"] for found in properties.values())


def test_the_command_prints_or_writes_it(tmp_path):
    printed = loadsheet(tmp_path, "mapping", "schema")
    assert json.loads(printed.stdout) == SCHEMA
    written = loadsheet(tmp_path, "mapping", "schema", "--out", "mapping.schema.json")
    assert json.loads((tmp_path / "mapping.schema.json").read_text(encoding="utf-8")) == SCHEMA
    assert "yaml-language-server: $schema=mapping.schema.json" in written.stderr


def schema_of(path):
    """The schema that the first line of a mapping names, as an editor finds it."""
    reference = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text(encoding="utf-8"))
    return json.loads((path.parent / reference[1]).read_text(encoding="utf-8"))


def test_the_shipped_mappings_name_the_schema_beside_them():
    if os.environ.get("LOADSHEET_REWRITE"):
        (ROOT / "mappings" / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
    assert {path.name for path in SHIPPED if schema_of(path) != SCHEMA} == set()


def test_a_new_folder_has_the_schema_and_drafts_name_it(tmp_path):
    loadsheet(tmp_path, "init")
    example = tmp_path / "mappings" / "orders.yaml"
    assert schema_of(example) == SCHEMA
    assert faults(read_yaml(example).values) == []
    for draft in ("mappings/drafted.yaml", "mappings/acme/drafted.yaml", "elsewhere/drafted.yaml"):
        loadsheet(tmp_path, "mapping", "suggest", "inbox/orders_sample.csv", "--to", draft)
        assert schema_of(tmp_path / draft) == SCHEMA
    printed = loadsheet(tmp_path, "mapping", "suggest", "inbox/orders_sample.csv").stdout
    assert printed.startswith(f"# yaml-language-server: $schema={SCHEMA_FILE}\n")


def test_a_draft_names_no_schema_that_is_not_there(tmp_path):
    (tmp_path / "orders.csv").write_text("Order,Weight (kg)\nA-1,12.5\nA-2,3\n", encoding="utf-8")
    assert "$schema" not in loadsheet(tmp_path, "mapping", "suggest", "orders.csv").stdout
