"""The three mappings of the design document load unchanged, and one for each kind of layout; they give these payloads, byte for byte."""

import pytest
from sheets import ASSUMED, DROPS, EXAMPLES, NOW, copied_examples, decode, example

from loadsheet.contract import BY_NAME, checker
from loadsheet.mapping import Ignored, load, translate


def written(found):
    """A document as lines: its key and rows, its payload, its problems."""
    if isinstance(found, Ignored):
        return [f"ignored {found.row.table}:{found.row.number} {found.rule}"]
    rows = " ".join(f"{row.table}:{row.number}" for row in found.rows)
    return [
        f"{found.operation} {found.key} ({found.lane}) from {rows}",
        *([found.payload.decode()] if found.payload else []),
        *([f"or {found.instead.operation} {found.instead.payload.decode()}"] if found.instead else []),
        *map(str, found.problems),
    ]


@pytest.mark.parametrize("name", DROPS)
def test_an_example_gives_its_golden_payloads(name):
    found = list(translate(*example(name), now=NOW))
    lines = [line for item in found for line in written(item)]
    golden = (EXAMPLES / "golden" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert lines == golden
    usable = [item for item in found if not isinstance(item, Ignored) and item.usable]
    assert usable
    for document in usable:
        assert checker(BY_NAME[document.operation], ASSUMED)(decode(document.payload)) == ()


def test_a_mapping_says_what_it_assumes():
    notes = load(EXAMPLES / "acme-flat.yaml", ASSUMED).notes
    assert notes[0] == "line 62: pickup_address2 is required and sent empty (assumptions.empty_required)"


def test_a_mapping_offers_what_the_stages_after_it_need():
    mapping = load(EXAMPLES / "nordic-join.yaml", ASSUMED)
    assert (mapping.name, mapping.version, mapping.operation.name) == ("nordic-join", 1, "order.create")
    assert len(mapping.hash) == 64
    assert {role: [layout.name for layout in layouts] for role, layouts in mapping.layouts.items()} == {
        "orders": ["orders"],
        "packages": ["packages"],
    }
    assert load(EXAMPLES / "carrier-status.yaml", ASSUMED).batch_size == 50


def test_a_changed_code_table_changes_the_hash(tmp_path):
    copied_examples(tmp_path)
    before = load(tmp_path / "carrier-status.yaml", ASSUMED).hash
    assert before == load(EXAMPLES / "carrier-status.yaml", ASSUMED).hash
    codes = tmp_path / "lookups" / "status_codes.csv"
    codes.write_text(codes.read_text(encoding="utf-8") + "DEP,DEP,Departed\n", encoding="utf-8")
    assert load(tmp_path / "carrier-status.yaml", ASSUMED).hash != before
