"""A document that lacks a required field has an error, whatever way it was made; parts of a split come from the finished value."""

from dataclasses import replace

import pytest
from sheets import codes, decode, documents, findings, load_text

HEAD = """\
mapping: m
version: 1
target: order.update
source: {files: ["*.csv"], locale: de_DE}
lookups: {places: {file: places.csv, key: code, value: place}, both: {file: places.csv, key: code, value: [code, place]}}
payload: {order_id: {col: no}, sender_id: {value: A}, receiver_id: {value: B}, pickup_city: {col: city}}
columns:
"""
PLACES = "code,place\n01,HH-Hamburg\n02,HB-Bremen\n03,Kiel\n"


def made(folder, columns, *rows):
    mapping = load_text(folder, HEAD + columns, places=PLACES)
    return documents(mapping, [list(row) for row in rows])


@pytest.mark.parametrize(
    ("steps", "cell", "order"),
    [
        ("case: upper, split: '(?P<no>[A-Z]+[0-9]+) (?P<city>.+)'", "ab1 ulm", {"order_id": "AB1", "pickup_city": "ULM"}),
        ("pad_left: {to: 6}, split: '(?P<no>[0-9]{4})(?P<city>.+)'", "10ul", {"order_id": "0010", "pickup_city": "ul"}),
        ("lookup: places, split: '(?P<no>H[A-Z])-(?P<city>.+)'", "01", {"order_id": "HH", "pickup_city": "Hamburg"}),
        ("one_of: {x: HH-Ulm}, split: '(?P<no>H[A-Z])-(?P<city>.+)'", "x", {"order_id": "HH", "pickup_city": "Ulm"}),
        ("default: H-Ulm, split: '(?P<no>H[A-Z]*)-(?P<city>.+)'", "", {"order_id": "H", "pickup_city": "Ulm"}),
    ],
)  # fmt: skip
def test_parts_are_cut_from_the_finished_value(tmp_path, steps, cell, order):
    columns = f"  both: {{label: Both, {steps}}}\n  no: {{part_of: both, key: true, required: true}}\n  city: {{part_of: both}}\n"
    (document,) = made(tmp_path, columns, [cell])
    assert codes(document) == []
    assert decode(document.payload).items() >= order.items()


def test_a_value_that_does_not_match_the_split_is_said_once(tmp_path):
    columns = "  both: {label: Both, lookup: places, split: '(?P<no>H[A-Z])-(?P<city>.+)'}\n  no: {part_of: both, key: true, required: true}\n  city: {part_of: both}\n"
    (document,) = made(tmp_path, columns, ["03"])
    assert (codes(document), document.usable) == (["C313"], False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("lookup: both, split: '(?P<no>.).*'", "8:31: lookup both gives several values, but split needs one text (name one value)"),
        ("pad_left: {to: 3, when: 'city != null'}, split: '(?P<no>.).*'", "8:58: split cannot be combined with pad_left.when (pad the part instead)"),
        ("lookup: places, one_of: [a]", "8:33: one_of and lookup cannot be combined (keep one of them)"),
        ("case: upper, one_of: [a, B]", "8:30: no cell can match a after case (change the codes)"),
        ("max_length: 2, one_of: [a, abc]", "8:32: no cell can match abc after max_length (change the codes)"),
        ('blank: ["-"], one_of: ["-", b]', '8:31: "-" is also listed under blank, so no cell can have this value (remove it from one of the two)'),
        ("ignore_case: true", "8:17: ignore_case needs one_of (it compares the cell with the codes of one_of)"),
        ("on_too_long: cut_and_warn", "8:17: on_too_long needs max_length"),
        ("pad_left: {to: 5}, max_length: 3", "8:36: pad_left pads to 5 characters, but max_length is 3 (no value fits)"),
        ("split: '(?P<city>.).*'}\n  no: {part_of: x, split: '(?P<city>.).*'", "9:20: a part of a split cannot be split again (name all parts at x)"),
    ],
)  # fmt: skip
def test_settings_of_a_column_that_contradict_each_other_are_refused(tmp_path, settings, said):
    text = f"{HEAD}  x: {{label: X, {settings}}}\n  no: {{label: No}}\n  city: {{label: City}}\n"
    assert f"m.yaml:{said}" in findings(tmp_path, text, places=PLACES)


# ---- the last guard ----

PLAIN = "  no: {label: No, key: true, required: true}\n  city: {label: City}\n"


def lacking(mapping, name, *, instead=False):
    """The mapping, its compiled way to one of the records broken on purpose: it leaves the field out."""

    def broken(make):
        return lambda draft: {key: value for key, value in make(draft).items() if key != name}

    fixed = mapping.plan.targets.fixed
    variant = replace(fixed, make=broken(fixed.make))
    fixed = replace(fixed, instead=variant) if instead else variant
    return replace(mapping, plan=replace(mapping.plan, targets=replace(mapping.plan.targets, fixed=fixed)))


@pytest.mark.parametrize("instead", [False, True])
def test_a_required_field_that_is_absent_is_an_error_of_the_document(tmp_path, instead):
    mapping = load_text(tmp_path, HEAD + PLAIN, places=PLACES)
    (document,) = documents(lacking(mapping, "sender_id", instead=instead), [["1", "Ulm"]])
    assert not document.usable
    (problem,) = document.problems
    assert (problem.code, problem.values["path"], problem.values["text"]) == ("K501", "sender_id", "is required")
