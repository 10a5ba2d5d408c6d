"""Which mapping a file belongs to: by patterns, never by first match, in whole sets (M7)."""

import re
from pathlib import Path

import pytest
from sheets import ASSUMED

from loadsheet.errors import MappingError
from loadsheet.mapping.file_patterns import match_file_name, name_part
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.mapping.routing import FixOf, route

PROOFS = Path(__file__).parents[1] / "proofs" / "mappings"
SIMPLE = """\
mapping: {name}
version: 1
target: order.delete
source: {{files: [{patterns}]{more}}}
columns: {{id: {{label: ID, required: true}}}}
payload: {{order_id: {{col: id}}}}
"""
SETS = """\
mapping: sets
version: 1
target: order.delete
source:
  files: ["nordic/{batch}/orders.csv"]
  companions: {lines: "nordic/{batch}/lines.csv"}
  complete_when: "nordic/{batch}/READY"
  tables:
    orders: {file: orders}
    lines: {file: lines, join: {to: orders, on: {id: id}}}
columns: {orders: {id: {label: ID}}, lines: {id: {label: ID}}}
payload: {order_id: {col: id}}
"""
SHARED = ", shared: true"


@pytest.fixture
def folder(tmp_path):
    """Loads a folder with these mappings: their texts by path without suffix."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / f"{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return load_folder(tmp_path, ASSUMED)

    return write


def simple(name, *patterns, more=""):
    return SIMPLE.format(name=name, patterns=", ".join(f'"{pattern}"' for pattern in patterns), more=more)


def batched(text):
    """The mapping with a column that takes the batch from the name of the file."""
    return text.replace("columns: {", "columns: {batch: {file: batch}, ")


def mapping_of(routes):
    return {one.files["main"]: one.mapping.name for one in routes.complete}


PATTERNS = {  # names of files, and what the pattern takes from them (None: it does not match)
    "acme_*.csv": {
        "acme_1.csv": {},
        "ACME_1.CSV": {},
        "deep/down/acme_1.csv": {},
        "acme_1.csv.bak": None,
        "acme_1.csv.GZ": {},
        "acme_1.csv.zip": {},
    },
    "acme_?.csv": {"acme_12.csv": None, "acme_1.gz": None},
    "acme_*.gz": {"acme_1.csv.gz": {}, "acme_1.csv": None},
    "in/*.csv": {"in/a.csv": {}, "in/deep/a.csv": None, "a.csv": None},
    "in/**/a.csv": {"in/x/y/a.csv": {}, "in/a.csv": {}},
    "a+b(1).csv": {"a+b(1).csv": {}},
    "{day}/orders.csv": {"2026-03-04/orders.csv": {"day": "2026-03-04"}},
    "{day}/{day}.csv": {"x/x.csv": {"day": "x"}, "x/y.csv": None},
    "orders_{who}_{day}.csv": {
        "orders_ACME_04.csv": {"who": "acme", "day": "04"},
        "orders_B_05.csv.gz": {"who": "b", "day": "05"},
    },
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern):
    assert {name: match_file_name(pattern, name) for name in PATTERNS[pattern]} == PATTERNS[pattern]


def test_m7_a_file_of_no_mapping_or_of_two_is_refused_and_never_goes_to_the_first_match(folder):
    mappings = folder({"a": simple("a", "*_x.csv", "a_*.xlsx"), "b": simple("b", "orders_*.csv")})
    routes = route(["1_x.csv", "orders_1.csv", "a_2.xlsx", "orders_x.csv", "other.csv"], mappings)
    assert mapping_of(routes) == {"1_x.csv": "a", "a_2.xlsx": "a", "orders_1.csv": "b"}
    assert routes.ambiguous["orders_x.csv"].text == "orders_x.csv matches more than one mapping: a, b"
    said = "no mapping matches other.csv; the closest patterns are: orders_*.csv, *_x.csv, a_*.xlsx"
    assert routes.unmapped["other.csv"].text == said


def test_of_many_patterns_the_three_closest_are_named(folder):
    many = {f"m{number}": simple(f"m{number}", f"x{number}_*.pdf") for number in range(50)}
    near = {"a": simple("a", "acme_order_*.csv"), "b": simple("b", "in/*/acme_orders.csv")}
    text = route(["in/acme_ordres.csv"], folder(many | near)).unmapped["in/acme_ordres.csv"].text
    assert "are: in/*/acme_orders.csv, acme_order_*.csv, x" in text
    assert text.count(", ") == 2


# ---- files of several mappings ----


def test_a_file_that_several_mappings_match_goes_to_all_of_them_if_all_are_shared(folder):
    mappings = folder({
        "b": simple("b", "both_*.csv", more=SHARED),
        "a": simple("a", "both_*.csv", "a_*.csv", more=SHARED),
        "c": simple("c", "both_c*.csv"),
    })  # fmt: skip
    routes = route(["both_1.csv", "both_2.csv", "a_1.csv", "both_c.csv"], mappings)
    assert mapping_of(routes) == {"a_1.csv": "a", "both_1.csv": "a + b", "both_2.csv": "a + b"}
    assert routes.ambiguous["both_c.csv"].hint.endswith("or set source.shared: true in all of them")
    fixed = route(["x.csv"], mappings, {"x.csv": FixOf("both_1.csv", "a + b", 1)})
    assert mapping_of(fixed) == {"x.csv": "a + b"}


def test_mappings_that_treat_changed_records_differently_cannot_share_a_file(folder):
    texts = {name: (PROOFS / f"{name}.yaml").read_text(encoding="utf-8") for name in ("orders", "tenders")}
    texts = {name: re.sub(r"files: .*", 'files: ["*.csv"]\n  shared: true', text) for name, text in texts.items()}
    assert mapping_of(route(["x.csv"], folder(texts))) == {"x.csv": "tenders + orders"}
    texts["tenders"] += "changed: update\n"
    other = route(["x.csv"], folder(texts))
    assert other.ambiguous["x.csv"].hint.endswith("or set the same value for changed: in all of them")


@pytest.mark.parametrize("more", ["companions: {lines: lines.csv}", "complete_when: READY"])
def test_files_that_come_in_sets_are_not_shared(folder, more):
    with pytest.raises(MappingError, match=f"a.yaml:4.*shared: must be false beside {more.partition(':')[0]}"):
        folder({"a": simple("a", "a.csv", more=f", {more}{SHARED}")})


# ---- files that come in sets, and their fix files ----


def files_of(routes):
    return [sorted(found.files.values()) for found in routes.complete]


def test_a_set_is_whole_with_its_companion_and_its_trigger(folder):
    names = [
        "nordic/1/orders.csv", "nordic/1/lines.csv", "Nordic/1/READY", "nordic/2/orders.csv", "nordic/2/READY",
        "nordic/3/lines.csv", "nordic/4/orders.csv", "nordic/4/lines.csv",
    ]  # fmt: skip
    routes = route(names, folder({"sets": SETS}))
    (drop,) = routes.complete
    assert dict(drop.files) == {"orders": "nordic/1/orders.csv", "lines": "nordic/1/lines.csv"}
    assert drop.trigger == "Nordic/1/READY"
    lacks = {
        "2/orders.csv": "2/lines.csv", "2/READY": "2/lines.csv", "3/lines.csv": "3/orders.csv",
        "4/orders.csv": "4/READY", "4/lines.csv": "4/READY",
    }  # fmt: skip
    assert {name: problem.text for name, problem in routes.waiting.items()} == {
        f"nordic/{name}": f"nordic/{name} waits for its companion nordic/{other}" for name, other in lacks.items()
    }


def test_one_companion_is_never_used_twice(folder):
    more = ', companions: {lines: "lines.csv"}, tables: {rows: {file: main}}'
    routes = route(["orders_1.csv", "orders_2.csv", "lines.csv"], folder({"a": simple("a", "orders_*.csv", more=more)}))
    assert [drop.files["main"] for drop in routes.complete] == ["orders_1.csv"]
    assert list(routes.waiting) == ["orders_2.csv"]


def test_six_thousand_sets_are_put_together(folder):
    names = [f"nordic/{batch}/{name}" for name in ("orders.csv", "lines.csv", "READY") for batch in range(6_000)]
    found = route(names, folder({"sets": SETS}))
    assert len(found.complete) == 6_000
    assert all(len({name.split("/")[1] for name in (*one.files.values(), one.trigger)}) == 1 for one in found.complete)


def test_originals_and_fix_files_do_not_make_a_set_and_fix_files_wait_for_no_trigger(folder):
    mappings = folder({"sets": SETS})
    originals = ["nordic/a/lines.csv", "nordic/a/orders.csv"]
    fixes = ["nordic/a/lines.fix.csv", "nordic/a/orders.fix.csv"]
    mixed = [originals[1], *fixes, originals[0], "nordic/a/READY"]
    assert files_of(route(mixed, mappings)) == [originals, fixes]
    assert files_of(route(fixes, mappings)) == [fixes]
    found = route([*originals, "nordic/b/orders.fix.csv"], mappings)
    assert found.waiting["nordic/a/orders.csv"].values["companion"] == "nordic/a/READY"
    assert found.waiting["nordic/b/orders.fix.csv"].values["companion"] == "nordic/b/lines.fix.csv"


def test_fix_files_that_are_known_go_where_their_originals_went_whatever_they_are_called(folder):
    mappings = folder({"sets": SETS})
    of = {
        "x.fix.csv": FixOf("nordic/a/orders.csv", "sets", 1),
        "y.fix.csv": FixOf("nordic/a/lines.csv", "sets", 2),
        "z.fix.csv": FixOf("nordic/a/lines.csv", "sets", 1),
        "w.fix.csv": FixOf("nordic/a/orders.csv", "sets", 2),
    }
    assert files_of(route(list(of), mappings, of)) == [["x.fix.csv", "z.fix.csv"], ["w.fix.csv", "y.fix.csv"]]
    found = route(["x.csv"], mappings, {"x.csv": FixOf("nordic/a/orders.csv", "another", 1)})
    assert list(found.unmapped) == ["x.csv"], "only to the mapping that read the original"
    mappings = folder({name: simple(name, f"{name}_*.csv") for name in "ab"})
    found = route(["b_1.csv"], mappings, {"b_1.csv": FixOf("a_1.csv", "a", 1)})
    assert mapping_of(found) == {"b_1.csv": "a"}, "also under a name that another mapping takes"


# ---- folders of mappings, and those of shippers ----


def test_a_folder_with_wrong_mappings_says_all_of_it(folder, tmp_path):
    with pytest.raises(MappingError) as raised:
        folder({
            "a": simple("a", "a.csv").replace("order.delete", "order.delet"),
            "b": simple("b", "b.csv").replace("col: id", "col: ix"),
            "nordic/c": "mapping: c\n",
        })  # fmt: skip
    assert "a.yaml:3:9" in str(raised.value)
    assert "b.yaml:6:27" in str(raised.value)
    assert str(tmp_path / "nordic" / "c.yaml") in str(raised.value)
    with pytest.raises(MappingError, match="no such folder"):
        load_folder(tmp_path / "none", ASSUMED)


def test_two_files_cannot_give_one_mapping(folder):
    loaded = folder({"a": simple("same", "a.csv"), "b": simple("same", "b.csv")})
    assert [mapping.path.name for mapping in loaded] == ["a.yaml"]
    (broken,) = loaded.broken  # its own files wait, and no others
    assert (broken.path, broken.finding.text) == ("b.yaml", '"same" is already the name of a.yaml')


@pytest.mark.parametrize(
    ("files", "patterns", "all_known"),
    [
        ('["x_*.csv", "y.csv"]', ("x_*.csv", "y.csv"), True),
        ('["x_*.csv", 7]', ("x_*.csv", "7"), False),
        ('["x_*.csv", ""]', ("x_*.csv",), False),
        ("\n    - x_*.csv # the first\n    - 'y.csv'\n  unclosed: [", ("x_*.csv", "y.csv"), False),
    ],
)
def test_the_files_of_a_mapping_that_does_not_load_are_known_as_far_as_they_can_be_read(
    folder, files, patterns, all_known
):
    text = (
        simple("x", "x.csv")
        .replace('["x.csv"]', files)
        .replace("source: {", "source:\n  ")
        .replace("}\ncolumns", "\ncolumns")
    )
    loaded = folder({"good": simple("good", "good.csv"), "x": text.replace("order.delete", "order.delet")})
    (broken,) = loaded.broken
    assert (broken.patterns, broken.all_known) == (patterns, all_known)
    assert list(route(["x_1.csv"], loaded).blocked) == ["x_1.csv"]


def test_a_shipper_with_mappings_of_its_own_is_judged_by_them_alone(folder, tmp_path):
    (tmp_path / "lookups").mkdir()
    (tmp_path / "lookups" / "codes.csv").write_text("a,b\n", encoding="utf-8")
    mappings = folder({
        "all": simple("all", "*.csv"),
        "Nordic/flat": simple("nordic-flat", "orders_*.csv"),
        "Nordic/deep": simple("nordic-deep", "sets/{batch}/*.csv"),
        "base/kept": simple("kept", "*.csv"),  # what mappings extend lies in a folder of no shipper
        "own": "extends: base/kept.yaml\nmapping: own\nsource: {files: [own.txt]}\n",
    })  # fmt: skip
    shippers = {mapping.name: mapping.shipper for mapping in mappings}
    assert shippers == {"all": "", "nordic-deep": "Nordic", "nordic-flat": "Nordic", "own": ""}
    names = ["orders_1.csv", "acme/a.csv", "nordic/orders_1.csv", "NORDIC/x/orders_2.csv", "nordic/sets/7/a.csv"]
    found = route([*names, "nordic/a.csv"], mappings)
    assert mapping_of(found) == {
        "orders_1.csv": "all",
        "acme/a.csv": "all",
        "nordic/orders_1.csv": "nordic-flat",
        "NORDIC/x/orders_2.csv": "nordic-flat",
        "nordic/sets/7/a.csv": "nordic-deep",
    }
    assert (found.ambiguous, list(found.unmapped)) == ({}, ["nordic/a.csv"])
    said = found.unmapped["nordic/a.csv"].text
    assert said.endswith("the closest patterns are: sets/{batch}/*.csv, orders_*.csv"), "its own only"


def test_what_a_shippers_mapping_takes_from_a_files_name_counts_from_its_folder_and_is_shared_with_nobody_else(folder):
    texts = {path: batched(simple(path[-1], "{batch}/*.csv", more=SHARED)) for path in ("all", "nordic/a", "nordic/b")}
    (found,) = route(["nordic/7/x.csv"], folder(texts)).complete
    assert (found.mapping.name, found.mapping.shipper) == ("a + b", "nordic")
    plans = [plan for part in found.mapping.parts for plan in part.plan.tables]
    assert [name_part("Nordic/7/x.csv", "batch", plan.patterns) for plan in plans] == ["7", "7"]
