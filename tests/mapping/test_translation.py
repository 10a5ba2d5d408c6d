"""Documents: how values are written, where problems are said, and which cell a value came from."""

from dataclasses import replace

import pytest
from sheets import ASSUMED, cells, codes, decode, documents, load_text, made, of_text, table, texts

from loadsheet.contract import Assumptions, FlagForm
from loadsheet.errors import MappingError
from loadsheet.mapping.compile import load
from loadsheet.mapping.documents import Place, Source, locate

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
  zip:     {{label: Zip, pad_left: {{to: 5, with: "0", when: 'country == "DE"'}}, max_length: 6{zip}}}
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
PACKAGES = "packages: {each: rows, item: {package_type: {col: kind}, item_name: {value: x}}}"
CLOCK = Assumptions(offset_hours_form="clock")


@pytest.fixture
def orders(tmp_path):
    """Translates rows (dicts by label, ID given) with these payload lines and further sections."""

    def translated(payload, *rows, more="", zone="Europe/Berlin", zip_="", assumptions=ASSUMED, sheet=""):
        text = ORDER.format(zone=zone, zip=zip_, payload=payload.replace("\n", "\n  ")) + more
        mapping = load_text(tmp_path, text, assumptions)
        (plan,) = mapping.plan.tables
        labels = [column.label for column in plan.columns]
        written = [[row.get(label, "1" if label == "ID" else "") for label in labels] for row in rows or [{}]]
        return mapping, documents(mapping, table(plan, written, sheet=sheet))

    return translated


# ---- how values are written ----

OFFSET = "timeoffset: {utc_offset_of: pickup}"
OFFSETS = [  # zone, moment, in hours and as on a clock  (M18)
    ("Europe/Berlin", "2026-03-01 08:00", "1", "+01:00"),
    ("Europe/Berlin", "2026-07-01 08:00", "2", "+02:00"),
    ("Asia/Kolkata", "2026-07-01 08:00", "5.5", "+05:30"),
    ("Asia/Kathmandu", "2026-07-01 08:00", "5.75", "+05:45"),
    ("America/St_Johns", "2026-01-01 08:00", "-3.5", "-03:30"),
    ("UTC", "2026-01-01 08:00", "0", "+00:00"),
]
MANY = """\
total_weight: {col: weight, round: 2}
vehicle_type: {col: pickup, format: "%d.%m."}
dedicated_vehicle: {col: hazard, as: true/false}
pickup_pincode: {col: zip}
delivery_pincode: {col: weight, as: text}
goods_value: {expr: '(weight ?? 0) / 3', round: 2}
order_status: {value: HEAVY, when: '(weight ?? 0) > 100'}
currency: {value: EUR, when: 'city == "Bonn"'}"""
ROW = {
    "Weight": "10.005",
    "Pickup": "2026-03-01 08:00",
    "Hazard": "yes",
    "Zip": "1067",
    "Country": "Germany",
    "City": "Bonn",
}
MANY_WRITTEN = (
    '"total_weight":10.01,"vehicle_type":"01.03.","dedicated_vehicle":"true","pickup_pincode":"01067",'
    '"delivery_pincode":"10.005","goods_value":3.34,"currency":"EUR"'
)
HAZARD = "dedicated_vehicle: {col: hazard}"
BLANKS = 'pickup_city: {col: city}\npickup_address2: {value: ""}\npickup_province: {col: note, default: "-"}'
WRITTEN = [  # lines of the payload, a row, settings, and the fields that follow the three identifiers
    *((OFFSET, {"Pickup": at}, {"zone": zone}, f'"timeoffset":"{hours}"') for zone, at, hours, _ in OFFSETS),
    *((OFFSET, {"Pickup": at}, {"zone": zone, "assumptions": CLOCK}, f'"timeoffset":"{clock}"') for zone, at, _, clock in OFFSETS),
    ("order_status: {value: OPEN}", {}, {}, '"order_status":"OPEN"'),
    ("vehicle_type: {expr: 't\"PT23H59M\"', format: '%H:%M'}", {}, {}, '"vehicle_type":"23:59"'),
    (BLANKS, {}, {}, '"pickup_address2":"","pickup_province":"-"'),  # M23
    (PACKAGES.replace("x}}", "x}, inner_cargos: {value: []}}"), {}, {}, '"packages":[{"package_type":"Box","item_name":"x","inner_cargos":[]}]'),  # M24
    (MANY, ROW, {}, MANY_WRITTEN),
    ("pickup_pincode: {col: zip}", {"Zip": "1067", "Country": "AT"}, {}, '"pickup_pincode":"1067"'),
    (HAZARD, {"Hazard": "no"}, {}, '"dedicated_vehicle":"no"'),
    (HAZARD, {"Hazard": "no"}, {"assumptions": Assumptions(flag_form=FlagForm.TRUE_FALSE)}, '"dedicated_vehicle":"false"'),
    ("pickup_city: {col: city}", {"City": "=cmd|' /C calc'!A0"}, {}, '"pickup_city":"=cmd|\' /C calc\'!A0"'),  # M30
]  # fmt: skip


@pytest.mark.parametrize(("payload", "row", "settings", "written"), WRITTEN)
def test_values_are_written_in_the_form_of_their_field(orders, payload, row, settings, written):
    _, (document,) = orders(payload, {"ID": "00012"} | row, **settings)
    assert texts(document) == []
    assert document.payload.decode() == f'{{"order_id":"00012","sender_id":"7","receiver_id":"007",{written}}}'


def test_m18_each_row_may_have_its_own_zone(orders):
    rows = [
        {"ID": str(number), "Pickup": "2026-07-01 08:00", "TZ": zone} for number, zone in enumerate(["Asia/Tokyo", ""])
    ]
    rows.append({"ID": "3", "Pickup": "2026-03-29 02:30", "TZ": "Europe/Berlin"})
    payload = f"pickup_startdatetime: {{col: pickup}}\n{OFFSET}"
    _, (*found, skipped) = orders(payload, *rows, zone="{col: tz, default: Europe/London}")
    assert [decode(document.payload)["timeoffset"] for document in found] == ["9", "1"]
    assert {decode(document.payload)["pickup_startdatetime"] for document in found} == {"2026-07-01 08:00:00"}
    assert codes(skipped) == ["C314"]


@pytest.mark.parametrize(("fold", "written"), [("", None), ("first", "+02:00"), ("second", "+01:00")])
def test_m17_source_fold_holds_for_calculated_times_as_for_written_ones(orders, fold, written):
    zone = f"Europe/Berlin\n  fold: {fold}" if fold else "Europe/Berlin"
    more = "derived: {start: {type: datetime, expr: '(pickup ?? $now) + t\"P1D\"'}}\n"
    line = OFFSET.replace("pickup", "start")
    _, (document,) = orders(line, {"Pickup": "2026-10-24 02:30"}, zone=zone, more=more, assumptions=CLOCK)
    if written is None:
        assert codes(document) == ["G407"]
        assert "start cannot be calculated: 2026-10-25 02:30 occurs twice in this time zone" in texts(document)[0]
    else:
        assert decode(document.payload)["timeoffset"] == written


@pytest.mark.parametrize(
    ("zip_", "row", "sent", "said"),
    [
        ("", {"Zip": "123456", "Country": "AT"}, "123456", []),
        ("", {"Zip": "1234567", "Country": "AT"}, None, ['error: "1234567" has 7 characters; at most 6 are allowed']),
        (", on_too_long: cut_and_warn", {"Zip": "1234567", "Country": "DE"}, "123456", [
            'warning: "1234567" has 7 characters; at most 6 are allowed (cut to 6 characters)'
        ]),
    ],
)  # fmt: skip
def test_a_text_that_is_too_long_when_its_row_is_known_is_refused_or_said_to_be_cut(orders, zip_, row, sent, said):
    _, (document,) = orders("pickup_pincode: {col: zip}", row, zip_=zip_)
    assert texts(document) == [f"drop.csv:2 Zip: C312 {text}" for text in said]
    assert document.usable is (sent is not None)
    assert sent is None or decode(document.payload)["pickup_pincode"] == sent


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
    assert (document.usable, decode(document.payload)["statusHistory"]) == (True, [{sent: "here"}])


def test_m26_an_order_may_have_ten_thousand_packages(orders):
    _, (document,) = orders(PACKAGES, *[{"ID": "1"}] * 10_000, more="group: {by: [id]}\n")
    assert document.usable
    assert len(decode(document.payload)["packages"]) == 10_000


BOTH = """\
mapping: m
version: 1
target: order.update
source: {files: ["*.csv"], locale: de_DE}
lookups: {places: {file: places.csv, key: code, value: place}}
payload: {order_id: {col: no}, sender_id: {value: A}, receiver_id: {value: B}, pickup_city: {col: city}}
columns:
  both: {label: Both, %s}
  no: {part_of: both, key: true, required: true}
  city: {part_of: both}
"""
PLACES = {"places": "code,place\n01,HH-Hamburg\n02,HB-Bremen\n03,Kiel\n"}


@pytest.mark.parametrize(
    ("steps", "cell", "order"),
    [
        ("case: upper, split: '(?P<no>[A-Z]+[0-9]+) (?P<city>.+)'", "ab1 ulm", ["AB1", "ULM"]),
        ("pad_left: {to: 6}, split: '(?P<no>[0-9]{4})(?P<city>.+)'", "10ul", ["0010", "ul"]),
        ("lookup: places, split: '(?P<no>H[A-Z])-(?P<city>.+)'", "01", ["HH", "Hamburg"]),
        ("lookup: places, split: '(?P<no>H[A-Z])-(?P<city>.+)'", "03", None),
        ("one_of: {x: HH-Ulm}, split: '(?P<no>H[A-Z])-(?P<city>.+)'", "x", ["HH", "Ulm"]),
        ("default: H-Ulm, split: '(?P<no>H[A-Z]*)-(?P<city>.+)'", "", ["H", "Ulm"]),
    ],
)
def test_parts_are_cut_from_the_finished_value(tmp_path, steps, cell, order):
    (document,) = made(tmp_path, BOTH % steps, [[cell]], lookups=PLACES)
    assert codes(document) == ([] if order else ["C313"]), "said once"
    if order:
        payload = decode(document.payload)
        assert [payload["order_id"], payload["pickup_city"]] == order


@pytest.mark.parametrize("alternative", [False, True])
def test_a_required_field_that_is_absent_is_an_error_of_the_document(orders, alternative):
    """The last guard: the compiled way to one of the records is broken on purpose, it leaves a field out."""

    def broken(make):
        return lambda draft: {key: value for key, value in make(draft).items() if key != "sender_id"}

    mapping, _ = orders(PACKAGES)
    fixed = mapping.plan.targets.fixed
    variant = replace(fixed, make=broken(fixed.make))
    fixed = replace(fixed, alternative=variant) if alternative else variant
    lacking = replace(mapping, plan=replace(mapping.plan, targets=replace(mapping.plan.targets, fixed=fixed)))
    (document,) = documents(lacking, [["1", *[""] * 12]])
    (problem,) = document.problems
    assert (document.usable, problem.code, problem.text) == (False, "K501", "sender_id is required")


# ---- what is said, and where ----

BOTH_ENDS = "delivery_startdatetime: {col: pickup}\ndelivery_enddatetime: {col: deliver}"
HALF = "only one end of the time window is given; the exchange keeps the other one as it was"


def test_all_problems_of_a_row_are_said_in_one_pass_at_their_cells(orders):
    payload = "pickup_startdatetime: {col: pickup}\ndelivery_country: {col: country}\ntotal_weight: {expr: '(weight ?? 0) * 2'}"
    _, (document,) = orders(payload, {"Pickup": "1.3.2026", "Country": "Germny", "Weight": "heavy"}, sheet="Orders")
    assert texts(document) == [
        'drop.csv:Orders!B2: C304 error: "1.3.2026" is not a valid date or time; expected 2026-03-31 14:05 or 2026-03-31',
        'drop.csv:Orders!F2: C308 error: "Germny" is not a country (did you mean Germany?)',
        'drop.csv:Orders!I2: C302 error: "heavy" is not a number (write it like 1,234.5)',
    ]
    assert (document.usable, document.payload, document.content_hash) == (False, b"", "")


def test_what_only_follows_from_another_problem_is_not_said(orders):
    more = "derived: {double: {expr: '(weight ?? 0) * 2'}}\nchecks: [{id: c, rule: 'double < 5', say: too heavy}]\n"
    payload = "total_weight: {expr: '$sum([r.double for r in rows])'}\ntotal_volume: {col: weight}\nvehicle_type: {value: X, when: 'double > 1'}"
    found = [orders(payload, {"Weight": weight}, more=more)[1][0] for weight in ("x", "3")]
    assert [codes(document) for document in found] == [["C302"], ["G406"]]


def test_a_verdict_of_the_contract_is_said_at_the_cell_behind_the_field(orders):
    payload = PACKAGES.replace("{value: x}", "{col: item}")
    _, (document,) = orders(payload, {"Item": "a"}, {"Item": ""}, more="group: {by: [id]}\n", sheet="S")
    (problem,) = document.problems
    assert (problem.code, problem.text) == ("K501", "packages[1].item_name is required")
    assert (problem.where.path, problem.where.cell, problem.where.column) == ("packages[1].item_name", "H3", "Item")


def test_a_blank_cell_is_one_problem_however_many_fields_need_it(orders):
    payload = PACKAGES.replace("{value: x}", "{col: item}").replace("{col: kind}", "{col: item}")
    _, (document,) = orders(payload, {"Item": ""}, {"Item": ""}, more="group: {by: [id]}\n", sheet="S")
    assert [(problem.code, problem.where.cell, problem.text) for problem in document.problems] == [
        ("K501", f"H{row}", f"packages[{at}].package_type (also packages[{at}].item_name) is required")
        for at, row in enumerate((2, 3))
    ]


def test_a_value_outside_the_named_ones_is_a_warning_or_refused_if_the_list_is_closed(orders):
    mapping, (document,) = orders(f"{PACKAGES}\ntransport_mode: {{value: BIKE}}", {"Kind": "Sack"})
    (problem,) = document.problems
    assert (problem.code, problem.level, problem.where.column, problem.found) == ("K502", "warning", "Kind", "Sack")
    assert document.usable
    assert mapping.notes[0].endswith('transport_mode is "BIKE"; the interface names ROAD, AIR, SEA, RAIL')
    _, (document,) = orders(PACKAGES, {"Kind": "Sack"}, assumptions=Assumptions(known_values="closed"))
    assert codes(document) == ["K501"]


def test_m12_an_empty_required_constant_is_noted_or_refused_where_an_empty_text_satisfies_nothing(tmp_path):
    text = (HISTORY % "status_description").replace("order_id: {col: id}", 'order_id: {value: ""}')
    note = "order_id is required and sent empty (assumptions.empty_required)"
    base = load_text(tmp_path, text)
    assert base.notes == (f"line 7: {note}",)
    base.path.rename(tmp_path / "base.yaml")
    assert load_text(tmp_path, "extends: base.yaml\nversion: 2\n").notes == (f"line 7 of base.yaml: {note}",)
    with pytest.raises(MappingError, match="order_id must be a value, not an empty text"):
        load_text(tmp_path, text, Assumptions(empty_required="reject"))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_a_fixed_offset_is_noted_where_clocks_change(orders, zone):
    mapping, _ = orders('timeoffset: {value: "1"}', zone=zone)
    said = "timeoffset is 1 all year, but clocks in Europe/Berlin change; utc_offset_of follows them"
    assert [said in note for note in mapping.notes] == [True] * (zone != "UTC")


@pytest.mark.parametrize(
    ("zone", "fits"), [("Europe/Vienna", True), ("Europe/London", False), ("Africa/Algiers", False)]
)
def test_the_zone_of_a_record_is_that_of_its_local_times(orders, zone, fits):
    """Berlin and Algiers show the same time in winter only."""
    if fits:
        assert orders(f"timezone: {{value: {zone}}}")[1]
        return
    with pytest.raises(MappingError, match=f"timezone is {zone}, but times are sent as clocks in Europe/Berlin show"):
        orders(f"timezone: {{value: {zone}}}")


def test_a_calculation_that_fails_names_its_field(orders):
    _, (document,) = orders("total_weight: {expr: '10 / (weight ?? 0)'}", {})
    said = "drop.csv:2 Weight: G407 error: total_weight cannot be calculated: division by zero"
    assert texts(document) == [said]


@pytest.mark.parametrize(
    ("payload", "row", "said"),
    [
        ("vehicle_type: {col: item}", {"Item": ""}, [("order_id", "nothing that is sent changes the record")]),
        ("vehicle_type: {col: item}", {"Item": "Van"}, []),
        ("timezone: {value: Europe/Berlin}", {}, [("order_id", "nothing that is sent changes the record")]),
        (BOTH_ENDS, {"Pickup": "2026-03-02 08:00", "Deliver": "2026-03-03 08:00"}, []),
        (BOTH_ENDS, {"Pickup": "2026-03-02 08:00", "Deliver": ""}, [("delivery_startdatetime", HALF)]),
        (BOTH_ENDS, {"Pickup": "", "Deliver": "2026-03-02 08:00"}, [("delivery_enddatetime", HALF)]),
        (BOTH_ENDS.partition("\n")[0], {"Pickup": "2026-03-02 08:00"}, []),  # lint says it
    ],
)
def test_a_change_of_nothing_or_of_half_a_window_is_a_warning(orders, payload, row, said):
    mapping, (document,) = orders(payload, row)
    assert [(one.where.path, one.text) for one in document.problems] == said
    assert (document.usable, {one.level for one in document.problems} <= {"warning"}) == (True, True)
    notes = ["delivery_startdatetime without delivery_enddatetime: the exchange keeps the old one"]
    assert [note.partition(": ")[2] for note in mapping.notes] == notes * (payload.count("datetime") == 1)


@pytest.mark.parametrize(
    ("rate", "said"), [("0,00", ["C305"]), ("0", ["C305"]), ("0,01", []), ("100", []), ("", ["K501"])]
)
def test_a_rate_of_zero_is_a_warning(tmp_path, rate, said):
    quotes = """mapping: quotes
version: 1
target: tender.quote
source: {files: ["*.csv"], locale: de_DE}
columns:
  id:   {label: Tender, key: true, required: true}
  rate: {label: Rate, type: decimal}
payload: {tender_id: {col: id}, sender_id: {value: S}, receiver_id: {value: R}, carrier_id: {value: C}, tenderRate: {col: rate}}
"""
    (document,) = of_text(load_text(tmp_path, quotes), tmp_path, f"Tender;Rate\nT1;{rate}\n")
    assert (codes(document), document.usable) == (said, bool(rate))


def test_m20_a_window_that_ends_before_it_starts_is_refused_or_warned_of(orders):
    check = "checks: [{{id: window, rule: 'deliver == null or pickup == null or (deliver ?? pickup ?? $now) > (pickup ?? $now)', columns: [deliver], say: Deliver must be later, level: {level}}}]\n"
    row = {"Pickup": "2026-03-02 08:00", "Deliver": "2026-03-01 08:00"}
    for level in ("error", "warning"):
        _, (document,) = orders("order_status: {value: X}", row, more=check.format(level=level))
        assert texts(document) == [f"drop.csv:2 Deliver: G406 {level}: Deliver must be later"]
        assert document.usable is (level == "warning")


def test_a_check_on_columns_that_may_differ_is_made_for_each_row(orders):
    check = "group: {{by: [id], one_value: [city]}}\nchecks: [{{id: h, rule: '{}', columns: [{}], say: no}}]\n"
    weights, cities = [{"Weight": "1"}, {"Weight": "9"}, {"Weight": "8"}], [{"City": "Bonn"}, {"City": "Bonn"}]
    for rule, column, rows, expected in (
        ("(weight ?? 0) < 5", "weight", weights, [3, 4]),
        ('city != "Bonn"', "city", cities, [2]),
    ):
        _, (document,) = orders("order_status: {value: X}", *rows, more=check.format(rule, column))
        assert [problem.where.row for problem in document.problems] == expected


def test_a_column_that_the_file_lacks_is_blank_or_missing_by_its_label(orders):
    mapping, _ = orders("pickup_city: {col: city}")
    plan = mapping.plan.tables[0]
    (document,) = documents(mapping, table(plan, [["1"]], header=["ID"]))
    assert document.usable
    (document,) = documents(mapping, table(plan, [["Bonn"]], header=["City"]))
    assert texts(document) == ["drop.csv:2 ID: G405 error: ID is blank, so the row belongs to no record"]


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
    rows = [{"City": "Bonn", "Second": "s"}, {"City": "Bonn", "Weight": "2"}]
    mapping, (document,) = orders(payload, *rows, more=more)
    expected = {
        "sender_id": (),
        "pickup_city": (Source("rows", "city", "City", "first"),),
        "total_weight": (Source("rows", "weight", "Weight", "all"),),
        "total_packages": (Source("rows", "", "", "all"),),
        "packages[].weight": (Source("rows", "weight", "Weight", "each"),),
        "order_references[1].value": (Source("rows", "second", "Second", "first"),),
    }
    assert {path: mapping.lineage[path] for path in expected} == expected
    assert document.links.present == {"order_references": (1,)}  # the first entry was left out
    places = {
        "packages[1].weight": [("rows", 3, "Weight")],
        "pickup_city": [("rows", 2, "City")],
        "total_weight": [("rows", 2, "Weight"), ("rows", 3, "Weight")],
        "order_references[0].value": [("rows", 2, "Second")],
        "sender_id": [],
        "nothing.there": [],
    }
    assert {path: cells(mapping, document, path) for path in places} == places
    (place,) = locate(mapping.lineage, document.rows, document.links, "packages[1].weight")
    assert place == Place("rows", 1, "weight", "Weight")


def test_the_hash_does_not_depend_on_the_order_of_keys(tmp_path):
    head, _, payload = (HISTORY % "status_description").partition("payload:\n")
    turned = f"{head}payload:\n" + "\n".join(reversed(payload.splitlines())) + "\n"
    (first,), (second,) = (made(tmp_path, text, [["1", "x"]]) for text in (f"{head}payload:\n{payload}", turned))
    assert first.payload != second.payload
    assert first.content_hash == second.content_hash != ""


def test_m4_a_mapping_edited_while_it_is_used_changes_nothing(tmp_path):
    text = (HISTORY % "status_description").replace("{col: id}", '{expr: \'(id ?? "") + "-A"\'}')
    mapping = load_text(tmp_path, text)
    mapping.path.write_text(text.replace("-A", "-B"), encoding="utf-8")
    edited = load(mapping.path, ASSUMED)
    assert edited.hash != mapping.hash
    assert [documents(one, [["7", "x"]])[0].key for one in (mapping, edited)] == ["7-A", "7-B"]
