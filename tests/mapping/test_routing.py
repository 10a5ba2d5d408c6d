"""Which mapping a file belongs to: by patterns, never by first match, in whole sets (M7)."""

import re
from pathlib import Path

import pytest
from sheets import ASSUMED

from loadsheet.mapping import FixOf, load_folder, route
from loadsheet.mapping.routing import is_for
from loadsheet.mapping.schema import match, part_of
from loadsheet.problems import MappingError

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


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        return load_folder(tmp_path, ASSUMED)

    return write


def simple(name, *patterns, more=""):
    return SIMPLE.format(name=name, patterns=", ".join(f'"{pattern}"' for pattern in patterns), more=more)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("acme_*.csv", "acme_1.csv", {}),
        ("acme_*.csv", "ACME_1.CSV", {}),
        ("acme_*.csv", "deep/down/acme_1.csv", {}),
        ("acme_*.csv", "acme_1.csv.bak", None),
        ("acme_?.csv", "acme_12.csv", None),
        ("in/*.csv", "in/a.csv", {}),
        ("in/*.csv", "in/deep/a.csv", None),
        ("in/*.csv", "a.csv", None),
        ("in/**/a.csv", "in/x/y/a.csv", {}),
        ("in/**/a.csv", "in/a.csv", {}),
        ("a+b(1).csv", "a+b(1).csv", {}),
        ("{day}/orders.csv", "2026-03-04/orders.csv", {"day": "2026-03-04"}),
        ("{day}/{day}.csv", "x/x.csv", {"day": "x"}),
        ("{day}/{day}.csv", "x/y.csv", None),
        ("orders_{who}_{day}.csv", "orders_ACME_04.csv", {"who": "acme", "day": "04"}),
    ],
)
def test_patterns(pattern, name, expected):
    assert match(pattern, name) == expected


def test_files_go_to_the_mapping_that_names_them(folder):
    mappings = folder(a=simple("a", "a_*.csv", "a_*.xlsx"), b=simple("b", "b_*.csv"))
    routes = route(["a_1.csv", "b_1.csv", "a_2.xlsx"], mappings)
    assert [(drop.mapping.name, dict(drop.files)) for drop in routes.complete] == [
        ("a", {"main": "a_1.csv"}),
        ("a", {"main": "a_2.xlsx"}),
        ("b", {"main": "b_1.csv"}),
    ]


def test_m7_no_mapping_or_two_mappings_are_refused_and_never_the_first_match(folder):
    mappings = folder(a=simple("a", "*_x.csv"), b=simple("b", "orders_*.csv"))
    routes = route(["orders_x.csv", "other.csv"], mappings)
    assert routes.complete == ()
    assert routes.ambiguous["orders_x.csv"].text == "orders_x.csv matches more than one mapping: a, b"
    said = "no mapping matches other.csv; the closest patterns are: orders_*.csv, *_x.csv"
    assert routes.unmapped["other.csv"].text == said


SHARED = ", shared: true"


def test_a_file_that_several_mappings_match_goes_to_all_of_them_if_all_are_shared(folder):
    mappings = folder(
        b=simple("b", "both_*.csv", more=SHARED),
        a=simple("a", "both_*.csv", "a_*.csv", more=SHARED),
        c=simple("c", "both_c*.csv"),
    )
    routes = route(["both_1.csv", "both_2.csv", "a_1.csv", "both_c.csv"], mappings)
    assert {one.files["main"]: one.mapping.name for one in routes.complete} == {
        "a_1.csv": "a",
        "both_1.csv": "a + b",
        "both_2.csv": "a + b",
    }
    assert routes.ambiguous["both_c.csv"].hint.endswith("or set source.shared: true in all of them")


def test_mappings_that_treat_changed_records_differently_cannot_share_a_file(folder):
    texts = [(PROOFS / f"{name}.yaml").read_text(encoding="utf-8") for name in ("orders", "tenders")]
    orders, tenders = (re.sub(r"files: .*", 'files: ["*.csv"]\n  shared: true', text) for text in texts)
    same = route(["x.csv"], folder(orders=orders, tenders=tenders))
    assert [one.mapping.name for one in same.complete] == ["tenders + orders"]
    other = route(["x.csv"], folder(orders=orders, tenders=f"{tenders}changed: update\n"))
    assert other.ambiguous["x.csv"].hint.endswith("or set the same value for changed: in all of them")


def test_a_shipper_shares_its_files_with_nobody_else(tmp_path):
    (tmp_path / "nordic").mkdir()
    for path, name in (("all.yaml", "all"), ("nordic/a.yaml", "a"), ("nordic/b.yaml", "b")):
        text = simple(name, "{batch}/*.csv", more=SHARED).replace("columns: {", "columns: {batch: {file: batch}, ")
        (tmp_path / path).write_text(text, encoding="utf-8")
    (found,) = route(["nordic/7/x.csv"], load_folder(tmp_path, ASSUMED)).complete
    assert (found.mapping.name, found.mapping.shipper) == ("a + b", "nordic")
    plans = [plan for part in found.mapping.parts for plan in part.plan.tables]
    assert [part_of("nordic/7/x.csv", "batch", plan.patterns) for plan in plans] == ["7", "7"]


@pytest.mark.parametrize("more", ["companions: {lines: lines.csv}", "complete_when: READY"])
def test_files_that_come_in_sets_are_not_shared(folder, more):
    with pytest.raises(MappingError, match=f"a.yaml:4.*shared: must be false beside {more.partition(':')[0]}"):
        folder(a=simple("a", "a.csv", more=f", {more}{SHARED}"))


def test_of_many_patterns_the_three_closest_are_named(folder):
    many = {f"m{number}": simple(f"m{number}", f"x{number}_*.pdf") for number in range(50)}
    near = {name: simple(name, pattern) for name, pattern in (("a", "acme_order_*.csv"), ("b", "in/*/acme_orders.csv"))}
    text = route(["in/acme_ordres.csv"], folder(**many, **near)).unmapped["in/acme_ordres.csv"].text
    assert "are: in/*/acme_orders.csv, acme_order_*.csv, x" in text
    assert text.count(", ") == 2


def test_a_set_is_whole_with_its_companion_and_its_trigger(folder):
    names = [
        "nordic/1/orders.csv", "nordic/1/lines.csv", "Nordic/1/READY", "nordic/2/orders.csv", "nordic/2/READY",
        "nordic/3/lines.csv",
    ]  # fmt: skip
    routes = route(names, folder(sets=SETS))
    (drop,) = routes.complete
    assert dict(drop.files) == {"orders": "nordic/1/orders.csv", "lines": "nordic/1/lines.csv"}
    assert drop.trigger == "Nordic/1/READY"
    assert {name: problem.text for name, problem in routes.waiting.items()} == {
        "nordic/2/orders.csv": "nordic/2/orders.csv waits for its companion nordic/2/lines.csv",
        "nordic/2/READY": "nordic/2/READY waits for its companion nordic/2/lines.csv",
        "nordic/3/lines.csv": "nordic/3/lines.csv waits for its companion nordic/3/orders.csv",
    }


def test_a_set_without_its_trigger_waits(folder):
    routes = route(["nordic/1/orders.csv", "nordic/1/lines.csv"], folder(sets=SETS))
    assert routes.complete == ()
    assert routes.waiting["nordic/1/lines.csv"].values == {"companion": "nordic/1/READY"}


def test_one_companion_is_never_used_twice(folder):
    mappings = folder(
        a=simple("a", "orders_*.csv", more=', companions: {lines: "lines.csv"}, tables: {rows: {file: main}}')
    )
    routes = route(["orders_1.csv", "orders_2.csv", "lines.csv"], mappings)
    assert [drop.files["main"] for drop in routes.complete] == ["orders_1.csv"]
    assert list(routes.waiting) == ["orders_2.csv"]


def test_a_folder_with_wrong_mappings_says_all_of_it(folder, tmp_path):
    with pytest.raises(MappingError) as raised:
        folder(
            a=simple("a", "a.csv").replace("order.delete", "order.delet"),
            b=simple("b", "b.csv").replace("col: id", "col: ix"),
        )
    assert "a.yaml:3:9" in str(raised.value)
    assert "b.yaml:6:27" in str(raised.value)
    with pytest.raises(MappingError, match="no such folder"):
        load_folder(tmp_path / "none", ASSUMED)


def test_two_files_cannot_give_one_mapping(folder):
    loaded = folder(a=simple("same", "a.csv"), b=simple("same", "b.csv"))
    assert [mapping.path.name for mapping in loaded] == ["a.yaml"]
    (broken,) = loaded.broken  # its own files wait, and no others
    assert (broken.path, broken.finding.text) == ("b.yaml", '"same" is already the name of a.yaml')


def test_a_shipper_with_mappings_of_its_own_is_judged_by_them_alone(tmp_path):
    (tmp_path / "Nordic").mkdir()
    (tmp_path / "lookups").mkdir()
    (tmp_path / "lookups" / "codes.csv").write_text("a,b\n", encoding="utf-8")
    for path, name, patterns in [
        ("all.yaml", "all", ["*.csv"]),
        ("Nordic/flat.yaml", "nordic-flat", ["orders_*.csv"]),
        ("Nordic/deep.yaml", "nordic-deep", ["sets/{batch}/*.csv"]),
    ]:
        (tmp_path / path).write_text(simple(name, *patterns), encoding="utf-8")
    mappings = load_folder(tmp_path, ASSUMED)
    assert [(mapping.name, mapping.shipper) for mapping in mappings] == [
        ("all", ""), ("nordic-deep", "Nordic"), ("nordic-flat", "Nordic"),
    ]  # fmt: skip
    names = ["orders_1.csv", "acme/a.csv", "nordic/orders_1.csv", "NORDIC/x/orders_2.csv", "nordic/sets/7/a.csv"]
    found = route([*names, "nordic/a.csv"], mappings)
    assert {one.files["main"]: one.mapping.name for one in found.complete} == {
        "orders_1.csv": "all",
        "acme/a.csv": "all",
        "nordic/orders_1.csv": "nordic-flat",
        "NORDIC/x/orders_2.csv": "nordic-flat",
        "nordic/sets/7/a.csv": "nordic-deep",
    }
    assert (found.ambiguous, list(found.unmapped)) == ({}, ["nordic/a.csv"])
    assert "orders_*.csv" in str(found.unmapped["nordic/a.csv"])
    assert "*.csv, " not in str(found.unmapped["nordic/a.csv"]).replace("orders_*.csv, ", "").replace("/*.csv, ", "")


def test_what_a_shippers_mapping_takes_from_a_files_name_counts_from_its_folder(tmp_path):
    (tmp_path / "nordic").mkdir()
    text = simple("deep", "{batch}/**/*.csv").replace("columns: {", "columns: {batch: {file: batch}, ")
    (tmp_path / "nordic" / "deep.yaml").write_text(text, encoding="utf-8")
    (mapping,) = load_folder(tmp_path, ASSUMED)
    (plan,) = mapping.plan.tables
    assert part_of("Nordic/7/x/a.csv", "batch", plan.patterns) == "7"


def test_what_mappings_extend_lies_in_a_folder_of_no_shipper(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "flat.yaml").write_text(simple("flat", "*.csv"), encoding="utf-8")
    (tmp_path / "own.yaml").write_text("extends: base/flat.yaml\nmapping: own\n", encoding="utf-8")
    assert [(mapping.name, mapping.shipper) for mapping in load_folder(tmp_path, ASSUMED)] == [("own", "")]


def test_a_mistake_in_a_shippers_mapping_is_found_like_any_other(tmp_path):
    (tmp_path / "nordic").mkdir()
    (tmp_path / "nordic" / "a.yaml").write_text("mapping: a\n", encoding="utf-8")
    with pytest.raises(MappingError) as raised:
        load_folder(tmp_path, ASSUMED)
    assert str(tmp_path / "nordic" / "a.yaml") in str(raised.value)


def test_six_thousand_sets_are_put_together(folder):
    mappings = folder(sets=SETS)
    names = [f"nordic/{batch}/{name}" for name in ("orders.csv", "lines.csv", "READY") for batch in range(6_000)]
    found = route(names, mappings)
    assert len(found.complete) == 6_000
    assert all(len({name.split("/")[1] for name in (*one.files.values(), one.trigger)}) == 1 for one in found.complete)


# ---- where fix files go ----


def files_of(routes):
    return [sorted(found.files.values()) for found in routes.complete]


def test_originals_and_fix_files_do_not_make_a_set(folder):
    names = [
        "nordic/a/orders.csv",
        "nordic/a/lines.fix.csv",
        "nordic/a/orders.fix.csv",
        "nordic/a/lines.csv",
        "nordic/a/READY",
    ]
    assert files_of(route(names, folder(sets=SETS))) == [
        ["nordic/a/lines.csv", "nordic/a/orders.csv"],
        ["nordic/a/lines.fix.csv", "nordic/a/orders.fix.csv"],
    ]


def test_a_fix_file_waits_for_the_fix_file_beside_it_and_for_no_trigger(folder):
    mappings = folder(sets=SETS)
    found = route(["nordic/a/orders.csv", "nordic/a/lines.csv", "nordic/b/orders.fix.csv"], mappings)
    assert found.waiting["nordic/a/orders.csv"].values["companion"] == "nordic/a/READY"
    assert found.waiting["nordic/b/orders.fix.csv"].values["companion"] == "nordic/b/lines.fix.csv"
    names = ["nordic/b/lines.fix.csv", "nordic/b/orders.fix.csv"]
    assert files_of(route(names, mappings)) == [names]


def test_fix_files_that_are_known_go_where_their_originals_went_whatever_they_are_called(folder):
    of = {
        "x.fix.csv": FixOf("nordic/a/orders.csv", "sets", 1),
        "y.fix.csv": FixOf("nordic/a/lines.csv", "sets", 2),
        "z.fix.csv": FixOf("nordic/a/lines.csv", "sets", 1),
        "w.fix.csv": FixOf("nordic/a/orders.csv", "sets", 2),
    }
    found = route(list(of), folder(sets=SETS), of)
    assert files_of(found) == [["x.fix.csv", "z.fix.csv"], ["w.fix.csv", "y.fix.csv"]]


def test_a_fix_file_is_for_the_mapping_that_read_its_original(folder):
    found = route(["x.csv"], folder(sets=SETS), {"x.csv": FixOf("nordic/a/orders.csv", "another", 1)})
    assert list(found.unmapped) == ["x.csv"]


def test_a_fix_file_of_several_mappings_goes_to_all_of_them(folder):
    mappings = folder(a=simple("a", "both_*.csv", more=SHARED), b=simple("b", "both_*.csv", more=SHARED))
    (found,) = route(["x.csv"], mappings, {"x.csv": FixOf("both_1.csv", "a + b", 1)}).complete
    assert (found.mapping.name, dict(found.files)) == ("a + b", {"main": "x.csv"})


def test_a_mapping_is_for_the_files_of_its_own_shipper(folder, tmp_path):
    (tmp_path / "nordic").mkdir()
    (tmp_path / "nordic" / "sets.yaml").write_text(SETS, encoding="utf-8")
    own, nordic = folder(own=simple("own", "*.csv"))
    assert is_for(nordic, "Nordic/x/fix.xlsx", [own, nordic])
    assert not is_for(own, "nordic/fix.xlsx", [own, nordic])
    assert not is_for(nordic, "fix.xlsx", [own, nordic])
    assert is_for(own, "fix.xlsx", [own, nordic])
    assert is_for(own, "elsewhere/fix.xlsx", [own, nordic])
