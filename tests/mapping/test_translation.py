"""Documents: how values are written, where problems are said, and which cell a value came from."""

import pytest
from sheets import ASSUMED, codes, decode, documents, load_text, run, table

from loadsheet.contract import Assumptions, FlagForm
from loadsheet.mapping import Document, Place, Source, load, locate
from loadsheet.problems import MappingError

ORDER = """\
mapping: orders
version: 1
target: order.update
source:
  files: ["*.csv"]
  locale: en_GB
  dates: ["%Y-%m-%d %H:%M", "%Y-%m-%d"]
  timezone: {zone}
columns:
  id:      {{label: ID, required: true, key: true}}
  pickup:  {{label: Pickup, type: datetime}}
  deliver: {{label: Deliver, type: datetime}}
  city:    {{label: City}}
  zip:     {{label: Zip, pad_left: {{to: 5, with: "0", when: 'country == "DE"'}}, max_length: 6}}
  country: {{label: Country, type: country}}
  kind:    {{label: Kind, default: Box}}
  item:    {{label: Item}}
  weight:  {{label: Weight, type: quantity, unit: kg, min: 0.001}}
  hazard:  {{label: Hazard, type: yesno}}
  note:    {{label: Note}}
  second:  {{label: Second}}
  tz:      {{label: TZ, type: timezone}}
payload:
  order_id:    {{col: id}}
  sender_id:   {{value: 7}}
  receiver_id: {{value: "007"}}
{payload}
"""


SMALL = """\
mapping: small
version: 1
target: tender.create
source: {files: ["*.csv"], locale: en_GB}
columns:
  no: {label: No, required: true, key: true}
%s
payload:
  tender_id:     {col: no}
  sender_id:     {value: A}
  receiver_id:   {value: B}
  tender_status: {value: OPEN}
  %s
"""

DELETES = """\
mapping: deletes
version: 1
target: order.delete
source: {files: "*.csv"}
columns: {order: {label: Order, required: true}}
payload: {order_id: {expr: 'order + "-A"'}}
"""


@pytest.fixture
def orders(tmp_path):
    """Translates rows (dicts by label, ID given) with these payload lines and further sections."""

    def translated(payload, *rows, more="", zone="Europe/Berlin", assumptions=ASSUMED, sheet=""):
        text = ORDER.format(zone=zone, payload="\n".join(f"  {line}" for line in payload.splitlines())) + more
        mapping = load_text(tmp_path, text, assumptions)
        (plan,) = mapping.plan.tables
        labels = [column.label for column in plan.columns]
        cells = [[row.get(label, "1" if label == "ID" else "") for label in labels] for row in rows or [{}]]
        return mapping, documents(mapping, table(plan, cells, sheet=sheet))

    return translated


def payload_of(orders, payload, row, **more):
    _, (document,) = orders(payload, row, **more)
    assert document.usable, list(map(str, document.problems))
    return {
        name: value
        for name, value in decode(document.payload).items()
        if name not in {"order_id", "sender_id", "receiver_id"}
    }


# ---- how values are written ----


def test_identifiers_keep_their_zeros_and_constants_their_form(orders):
    _, (document,) = orders("order_status: {value: OPEN}", {"ID": "00012"})
    assert document.payload == b'{"order_id":"00012","sender_id":"7","receiver_id":"007","order_status":"OPEN"}'


@pytest.mark.parametrize(
    ("zone", "pickup", "decimal", "clock"),
    [  # M18
        ("Europe/Berlin", "2026-03-01 08:00", "1", "+01:00"),
        ("Europe/Berlin", "2026-07-01 08:00", "2", "+02:00"),
        ("Asia/Kolkata", "2026-07-01 08:00", "5.5", "+05:30"),
        ("Asia/Kathmandu", "2026-07-01 08:00", "5.75", "+05:45"),
        ("America/St_Johns", "2026-01-01 08:00", "-3.5", "-03:30"),
        ("UTC", "2026-01-01 08:00", "0", "+00:00"),
    ],
)
def test_m18_the_offset_is_that_of_the_zone_at_that_date(orders, zone, pickup, decimal, clock):
    line = "timeoffset: {utc_offset_of: pickup}"
    assert payload_of(orders, line, {"Pickup": pickup}, zone=zone) == {"timeoffset": decimal}
    written = payload_of(
        orders, line, {"Pickup": pickup}, zone=zone, assumptions=Assumptions(offset_hours_form="clock")
    )
    assert written == {"timeoffset": clock}


def test_m18_each_row_may_have_its_own_zone(orders):
    zone = "{col: tz, default: Europe/London}"
    payload = "pickup_startdatetime: {col: pickup}\ntimeoffset: {utc_offset_of: pickup}"
    _, found = orders(
        payload, {"ID": "1", "Pickup": "2026-07-01 08:00", "TZ": "Asia/Tokyo"}, {"ID": "2", "Pickup": "2026-07-01 08:00"},
        {"ID": "3", "Pickup": "2026-03-29 02:30", "TZ": "Europe/Berlin"}, zone=zone,
    )  # fmt: skip
    assert [decode(document.payload)["timeoffset"] for document in found[:2]] == ["9", "1"]
    assert {decode(document.payload)["pickup_startdatetime"] for document in found[:2]} == {"2026-07-01 08:00:00"}
    assert codes(found[2]) == ["C314"]


@pytest.mark.parametrize(("fold", "written"), [("", None), ("first", "+02:00"), ("second", "+01:00")])
def test_m17_source_fold_holds_for_calculated_times_as_for_written_ones(orders, fold, written):
    zone = f"Europe/Berlin\n  fold: {fold}" if fold else "Europe/Berlin"
    more = "derived: {start: {type: datetime, expr: '(pickup ?? $now) + t\"P1D\"'}}\n"
    clock = Assumptions(offset_hours_form="clock")
    _, (document,) = orders(
        "timeoffset: {utc_offset_of: start}", {"Pickup": "2026-10-24 02:30"}, zone=zone, more=more, assumptions=clock
    )
    if written is None:
        assert codes(document) == ["G407"]
        assert "start cannot be calculated: 2026-10-25 02:30 occurs twice in this time zone" in str(
            document.problems[0]
        )
    else:
        assert decode(document.payload)["timeoffset"] == written


def test_m23_blank_is_left_out_and_an_empty_text_is_sent_where_the_mapping_writes_it(orders):
    payload = 'pickup_city: {col: city}\npickup_address2: {value: ""}\npickup_province: {col: note, default: "-"}'
    assert payload_of(orders, payload, {}) == {"pickup_address2": "", "pickup_province": "-"}


def test_m24_an_array_is_sent_empty_where_the_mapping_writes_it(orders):
    payload = (
        "packages:\n  each: rows\n  item: {package_type: {col: kind}, item_name: {value: x}, inner_cargos: {value: []}}"
    )
    assert payload_of(orders, payload, {})["packages"] == [
        {"package_type": "Box", "item_name": "x", "inner_cargos": []}
    ]


def test_rounding_formats_forms_and_conditions(orders):
    payload = """\
total_weight: {col: weight, round: 2}
vehicle_type: {col: pickup, format: "%d.%m."}
dedicated_vehicle: {col: hazard, as: true/false}
pickup_pincode: {col: zip}
delivery_pincode: {col: weight, as: text}
goods_value: {expr: '(weight ?? 0) / 3', round: 2}
order_status: {value: HEAVY, when: '(weight ?? 0) > 100'}
currency: {value: EUR, when: 'city == "Bonn"'}"""
    row = {
        "Weight": "10.005",
        "Pickup": "2026-03-01 08:00",
        "Hazard": "yes",
        "Zip": "1067",
        "Country": "Germany",
        "City": "Bonn",
    }
    _, (document,) = orders(payload, row)
    assert document.payload.decode().partition('"007",')[2] == (
        '"total_weight":10.01,"vehicle_type":"01.03.","dedicated_vehicle":"true","pickup_pincode":"01067",'
        '"delivery_pincode":"10.005","goods_value":3.34,"currency":"EUR"}'
    )


def test_padding_follows_the_rule_of_its_row(orders):
    assert payload_of(orders, "pickup_pincode: {col: zip}", {"Zip": "1067", "Country": "AT"}) == {
        "pickup_pincode": "1067"
    }
    _, (document,) = orders("pickup_pincode: {col: zip}", {"Zip": "1234567", "Country": "AT"})
    assert codes(document) == ["C312"]


def test_a_text_that_is_cut_when_its_row_is_known_is_said_to_be_cut(tmp_path):
    land = "  land: {label: Land}"
    cut = "  zip: {label: Zip, max_length: 5, on_too_long: cut_and_warn, pad_left: {to: 5, when: 'land == \"DE\"'}}"
    mapping = load_text(tmp_path, SMALL % (f"{land}\n{cut}", "delivery_pincode: {col: zip}"))
    (made,) = documents(mapping, [["1", "DE", "0106799"]])
    assert decode(made.payload)["delivery_pincode"] == "01067"
    assert [str(problem) for problem in made.problems] == [
        'drop.csv:2 Zip: C312 warning: "0106799" has 7 characters; at most 5 are allowed (cut to 5 characters)'
    ]


def test_flags_take_the_assumed_form(orders):
    line = "dedicated_vehicle: {col: hazard}"
    assert payload_of(orders, line, {"Hazard": "no"}) == {"dedicated_vehicle": "no"}
    assumed = Assumptions(flag_form=FlagForm.TRUE_FALSE)
    assert payload_of(orders, line, {"Hazard": "no"}, assumptions=assumed) == {"dedicated_vehicle": "false"}


HISTORY = """\
mapping: events
version: 1
target: order.status
source: {files: ["*.csv"]}
columns: {id: {label: ID}, text: {label: Text}}
payload:
  order_id: {col: id}
  statusHistory: {list: [{%s: {col: text}}]}
"""


@pytest.mark.parametrize("written", ["status_description", "status-description"])
@pytest.mark.parametrize("sent", ["status_description", "status-description"])
def test_m25_the_history_description_is_spelled_as_assumed(tmp_path, written, sent):
    mapping = load_text(tmp_path, HISTORY % written, Assumptions(history_description=sent))
    (document,) = documents(mapping, [["1", "here"]])
    assert decode(document.payload)["statusHistory"] == [{sent: "here"}]
    assert document.usable


def test_m26_an_order_may_have_ten_thousand_packages(orders):
    payload = "packages: {each: rows, item: {package_type: {col: kind}, item_name: {value: x}}}"
    _, (document,) = orders(payload, *[{"ID": "1"}] * 10_000, more="group: {by: [id]}\n")
    assert document.usable
    assert len(decode(document.payload)["packages"]) == 10_000


def test_m30_formula_like_text_is_data(orders):
    assert payload_of(orders, "pickup_city: {col: city}", {"City": "=cmd|' /C calc'!A0"}) == {
        "pickup_city": "=cmd|' /C calc'!A0"
    }


# ---- what is said, and where ----


def test_all_problems_of_a_row_are_said_in_one_pass_at_their_cells(orders):
    payload = "pickup_startdatetime: {col: pickup}\ndelivery_country: {col: country}\ntotal_weight: {expr: '(weight ?? 0) * 2'}"
    row = {"Pickup": "1.3.2026", "Country": "Germny", "Weight": "heavy"}
    _, (document,) = orders(payload, row, sheet="Orders")
    assert [str(problem).split(" (")[0] for problem in document.problems] == [
        'drop.csv:Orders!B2: C304 error: "1.3.2026" is not a valid date or time; expected 2026-03-31 14:05 or 2026-03-31',
        'drop.csv:Orders!F2: C308 error: "Germny" is not a country',
        'drop.csv:Orders!I2: C302 error: "heavy" is not a number',
    ]
    assert document.problems[1].hint == "did you mean Germany?"


def test_what_only_follows_from_another_problem_is_not_said(orders):
    more = "derived: {double: {expr: '(weight ?? 0) * 2'}}\nchecks: [{id: c, rule: 'double < 5', say: too heavy}]\n"
    payload = "total_weight: {expr: '$sum([r.double for r in rows])'}\ntotal_volume: {col: weight}\nvehicle_type: {value: X, when: 'double > 1'}"
    _, (document,) = orders(payload, {"Weight": "x"}, more=more)
    assert codes(document) == ["C302"]
    _, (document,) = orders(payload, {"Weight": "3"}, more=more)
    assert codes(document) == ["G406"]


def test_a_verdict_of_the_contract_is_said_at_the_cell_behind_the_field(orders):
    payload = "packages: {each: rows, item: {package_type: {col: kind}, item_name: {col: item}}}"
    _, (document,) = orders(payload, {"Item": "a"}, {"Item": ""}, more="group: {by: [id]}\n", sheet="S")
    (problem,) = document.problems
    assert (problem.code, problem.where.path, problem.where.cell, problem.where.column) == (
        "K501",
        "packages[1].item_name",
        "H3",
        "Item",
    )
    assert problem.text == "packages[1].item_name is required"


def test_a_value_outside_the_named_ones_is_a_warning_while_the_list_is_open(orders):
    payload = "packages: {each: rows, item: {package_type: {col: kind}, item_name: {value: x}}}\ntransport_mode: {value: BIKE}"
    mapping, (document,) = orders(payload, {"Kind": "Sack"})
    (problem,) = document.problems
    assert (problem.code, problem.level, problem.where.column, problem.found) == ("K502", "warning", "Kind", "Sack")
    assert document.usable
    assert mapping.notes[0].endswith('transport_mode is "BIKE"; the interface names ROAD, AIR, SEA, RAIL')


def test_a_value_outside_the_named_ones_is_refused_where_the_list_is_closed(orders):
    payload = "packages: {each: rows, item: {package_type: {col: kind}, item_name: {value: x}}}"
    _, (document,) = orders(payload, {"Kind": "Sack"}, assumptions=Assumptions(known_values="closed"))
    assert codes(document) == ["K501"]


def test_m12_an_empty_required_constant_is_refused_where_an_empty_text_satisfies_nothing(tmp_path):
    text = (HISTORY % "status_description").replace("order_id: {col: id}", 'order_id: {value: ""}')
    assert load_text(tmp_path, text).notes == (
        "line 7: order_id is required and sent empty (assumptions.empty_required)",
    )
    with pytest.raises(MappingError, match="order_id must be a value, not an empty text"):
        load_text(tmp_path, text, Assumptions(empty_required="reject"))


def test_a_note_names_the_base_that_it_is_about(tmp_path):
    (tmp_path / "base.yaml").write_text(
        (HISTORY % "status_description").replace("{col: id}", '{value: ""}'), encoding="utf-8"
    )
    assert load_text(tmp_path, "extends: base.yaml\nversion: 2\n").notes == (
        "line 7 of base.yaml: order_id is required and sent empty (assumptions.empty_required)",
    )


def test_a_calculation_that_fails_names_its_field(orders):
    payload = "total_weight: {expr: '10 / (weight ?? 0)'}"
    _, (document,) = orders(payload, {})
    assert (
        str(document.problems[0])
        == "drop.csv:2 Weight: G407 error: total_weight cannot be calculated: division by zero"
    )


def test_m20_a_window_that_ends_before_it_starts_is_refused_or_warned_of(orders):
    check = "checks: [{{id: window, rule: 'deliver == null or pickup == null or (deliver ?? pickup ?? $now) > (pickup ?? $now)', columns: [deliver], say: Deliver must be later, level: {level}}}]\n"
    row = {"Pickup": "2026-03-02 08:00", "Deliver": "2026-03-01 08:00"}
    for level in ("error", "warning"):
        _, (document,) = orders("order_status: {value: X}", row, more=check.format(level=level))
        (problem,) = document.problems
        assert (problem.code, problem.level, problem.where.column) == ("G406", level, "Deliver")
        assert problem.text == "Deliver must be later"
        assert document.usable is (level == "warning")


def test_a_check_on_columns_that_may_differ_is_made_for_each_row(orders):
    more = "group: {by: [id], one_value: [city]}\nchecks: [{id: h, rule: '(weight ?? 0) < 5', columns: [weight], say: heavy}]\n"
    _, (document,) = orders("order_status: {value: X}", {"Weight": "1"}, {"Weight": "9"}, {"Weight": "8"}, more=more)
    assert [problem.where.row for problem in document.problems] == [3, 4]
    more = more.replace("(weight ?? 0) < 5", 'city != "Bonn"').replace("[weight]", "[city]")
    _, (document,) = orders("order_status: {value: X}", {"City": "Bonn"}, {"City": "Bonn"}, more=more)
    assert [problem.where.row for problem in document.problems] == [2]


def test_a_column_that_the_file_lacks_is_blank_or_missing_by_its_label(orders, tmp_path):
    mapping, _ = orders("pickup_city: {col: city}")
    plan = mapping.plan.tables[0]
    (document,) = documents(mapping, table(plan, [["1"]], header=["ID"]))
    assert document.usable
    (document,) = documents(mapping, table(plan, [["Bonn"]], header=["City"]))
    assert [(problem.code, str(problem)) for problem in document.problems] == [
        ("G405", "drop.csv:2 ID: G405 error: ID is blank, so the row belongs to no record")
    ]


# ---- lineage ----


def test_lineage_says_for_every_payload_path_where_it_comes_from(orders):
    more = "group: {by: [id], one_value: [city]}\nderived: {double: {expr: '(weight ?? 0) * 2'}}\n"
    payload = """\
pickup_city: {col: city}
total_packages: {expr: '$count(rows)'}
total_weight: {expr: '$sum([r.double for r in rows])'}
packages: {each: rows, item: {package_type: {col: kind}, item_name: {value: x}, weight: {col: weight}}}
order_references:
  list:
    - {when: 'note != null', name: {value: Note}, value: {col: note}}
    - {name: {value: Second}, value: {col: second}}"""
    rows = [{"ID": "1", "City": "Bonn", "Second": "s"}, {"ID": "1", "City": "Bonn", "Weight": "2"}]
    mapping, (document,) = orders(payload, *rows, more=more)
    assert mapping.lineage["sender_id"] == ()
    assert mapping.lineage["pickup_city"] == (Source("rows", "city", "City", "first"),)
    assert mapping.lineage["total_weight"] == (Source("rows", "weight", "Weight", "all"),)
    assert mapping.lineage["total_packages"] == (Source("rows", "", "", "all"),)
    assert mapping.lineage["packages[].weight"] == (Source("rows", "weight", "Weight", "each"),)
    assert mapping.lineage["order_references[1].value"] == (Source("rows", "second", "Second", "first"),)

    def places(path):
        return locate(mapping.lineage, document.rows, document.items, path)

    assert places("packages[1].weight") == (Place("rows", 1, "weight", "Weight"),)
    assert places("pickup_city") == (Place("rows", 0, "city", "City"),)
    assert places("total_weight") == (Place("rows", 0, "weight", "Weight"), Place("rows", 1, "weight", "Weight"))
    assert document.items == {"order_references": (1,)}  # the first entry was left out
    assert places("order_references[0].value") == (Place("rows", 0, "second", "Second"),)
    assert places("sender_id") == ()
    assert places("nothing.there") == ()


def test_problems_travel_with_their_documents_and_never_alone(orders):
    _, found = orders("pickup_startdatetime: {col: pickup}", {"ID": "1", "Pickup": "x"}, {"ID": "2"})
    assert [(document.usable, bool(document.payload), bool(document.content_hash)) for document in found] == [
        (False, False, False),
        (True, True, True),
    ]


def test_the_hash_does_not_depend_on_the_order_of_keys(tmp_path):
    base = HISTORY % "status_description"
    one = load_text(tmp_path, base)
    (first,) = [found for found in run(one, [["1", "x"]]) if isinstance(found, Document)]
    head, _, tail = base.partition("payload:\n")
    lines = tail.splitlines()
    two = load_text(tmp_path, head + "payload:\n" + "\n".join(reversed(lines)) + "\n")
    (second,) = documents(two, [["1", "x"]])
    assert first.payload != second.payload
    assert first.content_hash == second.content_hash


def test_m4_a_mapping_edited_while_it_is_used_changes_nothing(tmp_path):
    mapping = load_text(tmp_path, DELETES)
    mapping.path.write_text(DELETES.replace("-A", "-B"), encoding="utf-8")
    (document,) = documents(mapping, [["7"]])
    assert document.key == "7-A"
    edited = load(mapping.path, ASSUMED)
    assert edited.hash != mapping.hash
    (document,) = documents(edited, [["7"]])
    assert document.key == "7-B"
