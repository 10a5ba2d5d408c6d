"""`convert: NAME`: functions of other packages in a column, found by their entry points."""

import pytest
from sheets import ASSUMED, NOW

import loadsheet
from loadsheet.mapping import lint, load
from loadsheet.mapping.conversion import converter

MAPPING = """\
mapping: items
version: 1
target: order.update
source: {{files: ["*.csv"]}}
columns:
  id:   {{label: ID, required: true, key: true}}
  item: {{label: Item, convert: {name}, required: true}}
payload:
  order_id: {{col: id}}
  sender_id: {{value: S}}
  receiver_id: {{value: R}}
  pickup_company: {{col: item}}
"""


@pytest.fixture
def written(tmp_path):
    def write(name):
        path = tmp_path / "items.yaml"
        path.write_text(MAPPING.format(name=name), encoding="utf-8")
        return path

    return write


def test_a_bad_value_is_a_problem_of_its_cell_with_the_message_of_the_converter(written, tmp_path):
    (tmp_path / "one.csv").write_text("ID,Item\n1,4006381333931\n2,4006381333932\n3,17\n4,\n", encoding="utf-8")
    found = loadsheet.translate(tmp_path / "one.csv", written("gtin"), now=NOW)
    assert [document.usable for document in found] == [True, False, False, False]
    assert found.documents[0].record["pickup_company"] == "04006381333931"
    said = [(problem.code, problem.hint) for problem in found.problems]
    assert said == [
        ("C313", "its last digit does not agree with the others: a digit is wrong"),
        ("C313", "a GTIN has 8 to 14 digits"),
        ("C301", ""),
    ]


def test_a_fault_of_a_converter_is_a_problem_of_the_cell_that_names_it(written, tmp_path):
    (tmp_path / "one.csv").write_text("ID,Item\n1,x\n2,-\n", encoding="utf-8")
    fault, blank = loadsheet.translate(tmp_path / "one.csv", written("swapped"), now=NOW).problems
    assert (fault.code, fault.hint) == ("C313", "the converter swapped fails on it (InvalidOperation)")
    assert blank.code == "C301"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gtn", 'no converter "gtn" is installed (did you mean gtin?)'),
        ("gone", "the converter gone cannot be loaded: module 'example_converters' has no attribute 'gone'"),
    ],
)
def test_a_converter_that_is_not_there_is_found_when_the_mapping_loads(written, name, text):
    (found,) = lint(written(name), ASSUMED)
    assert (found.line, str(found).split(": ", 1)[1]) == (7, text)


def test_another_version_of_a_converter_is_another_mapping(written, monkeypatch):
    path = written("gtin")
    before = load(path, ASSUMED).hash
    assert load(path, ASSUMED).hash == before
    assert converter("gtin").version == "example-converters 1.0"
    monkeypatch.setattr("loadsheet.mapping.conversion._version", lambda _entry: "example-converters 1.1")
    assert load(path, ASSUMED).hash != before
