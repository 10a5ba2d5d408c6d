"""Every example of the reference gives the same on each of two sheets as on a sheet alone."""

import re
from copy import deepcopy

import pytest
from reference_examples import examples_of, loaded, results, write_workbook

from loadsheet.mapping.yamlfile import yaml_values


def suits(example):
    """Whether an example is one sheet, and not about the notation of text files."""
    kinds = [block.kind for block in example.given]
    sheets = [block for block in example.given if block.kind == "csv"]
    is_text = example.entry.name in ("source.delimiter", "source.quote", "source.escape", "source.encoding")
    is_plain = kinds == ["yaml", "csv"] and not sheets[0].name and not is_text
    return is_plain and example.outcome.kind == "result" and not example.outcome.text.startswith("refused at load")


EXAMPLES = [
    pytest.param(example, id=str(example))
    for page in ("mapping", "source", "columns", "payload", "checks")
    for example in examples_of(page)
    if suits(example)
]


def outcome(fragment, folder, **sheets):
    (folder / "inbox").mkdir(parents=True)
    (folder / "mappings").mkdir()
    write_workbook(folder / "inbox" / "orders.xlsx", sheets)
    lines = results(loaded(fragment, folder), fragment, folder / "inbox")
    return [line for line in lines if not line.startswith("(up to ")]  # the size of a batch


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_gives_on_each_sheet_what_it_gives_alone(example, tmp_path):
    fragment = deepcopy(yaml_values(example.given[0].text))
    text = example.given[1].text
    source = fragment.setdefault("source", {})
    source["files"] = ["orders.xlsx"]
    tables = source.setdefault("tables", {"rows": {}})
    for table in tables.values():
        if "from" not in table:
            table["sheet"] = "*"
    other = re.sub(r"\b[AT](?=[0-9])", "B", text)  # other orders and tenders
    alone = outcome(fragment, tmp_path / "one", One=text) + outcome(fragment, tmp_path / "two", Two=other)
    assert outcome(fragment, tmp_path / "both", One=text, Two=other) == alone
