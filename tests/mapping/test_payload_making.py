"""A payload is what the contract accepts and what the rows say, whatever the cells hold. Every field: mapping_tools/test_round_trips.py."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import (
    ASSUMED,
    DROPS,
    EXAMPLES,
    NOW,
    accounted,
    decode,
    documents,
    example,
    with_rows,
)
from sheets import table as table_of

from loadsheet.contract import BY_NAME, Assumptions, checker
from loadsheet.errors import FileRefused, MappingError
from loadsheet.mapping.compile import load
from loadsheet.mapping.documents import Document
from loadsheet.mapping.translator import translate
from loadsheet.reading import Native
from loadsheet.reading.tables import Row

# ---- whatever the cells hold ----

STRICT = Assumptions(known_values="closed", text_length_max=40, array_length_max=2)
FILLED = Assumptions(empty_required="reject", null_fields="absent")
OTHERWISE = Assumptions(number_forms="both", unknown_fields="ignore", listing_only_fields="accept", timezones="any")


@cache
def compiled(name, assumptions):
    """A mapping of the examples and the assumptions it loads under."""
    path = EXAMPLES / f"{name}.yaml"
    try:
        return load(path, assumptions), assumptions
    except MappingError:  # it sends what these assumptions refuse in every record
        return load(path, ASSUMED), ASSUMED


def assert_meets_contract(found, assumptions):
    """A document that is sent meets the contract in both its forms. Any other has an error that says why not."""
    if not found.usable:
        assert any(problem.level == "error" for problem in found.problems)
        return
    forms = [found, *([found.alternative] if found.alternative else [])]
    for form in forms:
        assert checker(BY_NAME[form.operation], assumptions)(decode(form.payload)) == ()


CELLS = st.one_of(
    st.sampled_from(
        [
            "", " ", "0", "-1", "1e3", "1.234,5", "2026-03-29 02:30", "2026-13-01", "x" * 41, "x" * 5_000, "#N/A", "ja", "\x00",
            Native("12.5", "number"), Native("7", "number"), Native("0", "number"), Native("2026-03-01 08:00:00", "datetime"),
            Native("true", "flag"), Native("false", "flag"), Native("#REF!", "error"),
        ]
    ),
    st.text(max_size=12),
)  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_records_meet_the_contract_whatever_the_cells_hold(data):
    name = data.draw(st.sampled_from(sorted(DROPS)))
    mapping, assumptions = compiled(name, data.draw(st.sampled_from([ASSUMED, STRICT, FILLED, OTHERWISE])))
    tables = {}
    for table, found in example(name)[1].items():
        rows = list(found.rows())
        places = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, len(found.header) - 1), CELLS)
        changed = [list(row.cells) for row in rows]
        for row, column, cell in data.draw(st.lists(places, max_size=4)):
            changed[row][column] = cell
        kept = [Row(row.number, tuple(cells)) for row, cells in zip(rows, changed, strict=True)]
        tables[table] = replace(with_rows(found, kept), sheet="Sheet1")
    try:
        found = list(translate(mapping, tables, now=NOW))
    except FileRefused:  # the totals of the file may be among the changed cells
        return
    numbers = Counter(number for _, number in accounted(found))
    assert set(numbers) >= {row.number for found in tables.values() for row in found.rows()}
    for one in found:
        if isinstance(one, Document):
            assert_meets_contract(one, assumptions)


# ---- every form of a leaf, by a second way that shares no code with the mapping ----

PLAUSIBLE = {
    "ID": ["1", "2", "3"],
    "Mode": ["ROAD", "SEA", "ZEPPELIN", ""],
    "At": ["2026-03-01 08:00", "2026-07-01 08:00", ""],
    "City": ["Bonn", "x" * 30, "", "ß"],
    "State": ["BY", ""],
    "Value": ["1", "3.50", "0", ""],
    "Flag": ["yes", "no", ""],
    "Item": ["Cable", ""],
    "Kind": ["Box", "Wardrobe", ""],
    "Weight": ["12.5", "0", ""],
    "Street": ["Weg 1", "y" * 30, ""],
}
SHEETS = st.lists(st.tuples(*(st.sampled_from(cells) for cells in PLAUSIBLE.values())), min_size=1, max_size=5)
ZONE = ZoneInfo("Europe/Berlin")
PLACES = {name: place for place, name in enumerate(PLAUSIBLE)}


def filled(**fields):
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def expected(rows):
    """The record of these rows of one order."""
    first = {name: rows[0][place] for name, place in PLACES.items()}
    at = datetime.fromisoformat(first["At"]).replace(tzinfo=ZONE) if first["At"] else None
    state = first["State"] or "NW"
    value = Decimal(first["Value"]) if first["Value"] else None
    weight = (Decimal(100) / (1 if value is None else value)).quantize(Decimal("0.01"), ROUND_HALF_UP)
    record = filled(
        order_id=first["ID"],
        sender_id=first["City"],
        receiver_id="R",
        timezone="Europe/Berlin",
        timeoffset=str(at.utcoffset().seconds // 3600) if at else None,
        pickup_startdatetime=at.strftime("%Y-%m-%d %H:%M:%S") if at else None,
        pickup_city=first["City"],
        pickup_province=state,
        pickup_address1=first["Street"] or "none",
        pickup_address2=first["Item"] or "none",
        transport_mode=first["Mode"],
        goods_value=value,
        total_packages=len(rows),
        total_weight=weight,
        dedicated_vehicle=first["Flag"],
        vehicle_type=first["Kind"] if (value or 0) > 2 else None,
        packages=[_package(row, rows[0]) for row in rows],
        order_references=[
            entry
            for entry in (
                filled(name=first["Kind"], value=first["Item"]) if first["Item"] else {},
                filled(name="Mode", value=first["Mode"]),
            )
            if entry
        ],
        involved_parties=[filled(party_type="Consignee", party_company=first["City"], city=state)],
    )
    return {**record, "pickup_pincode": first["Item"]}  # a derived text is sent as it is, even if it is empty


def _package(row, first):
    cell = {name: row[place] for name, place in PLACES.items()}
    record = filled(
        package_type=cell["Kind"],
        item_name=cell["Item"] or "thing",
        description=first[PLACES["Item"]] or "-",
        weight=Decimal(cell["Weight"]) if cell["Weight"] else None,
        length=Decimal(cell["Weight"] or "3") if cell["Kind"] else None,
        stackable=cell["Flag"],
    )
    return {**record, "inner_cargos": []}


@settings(deadline=None, max_examples=300)
@given(sheet=SHEETS)
def test_every_form_of_a_leaf_sends_what_the_rows_say(sheet):
    mapping, _ = compiled("forms", ASSUMED)
    for found in documents(mapping, table_of(mapping.plan.tables[0], sheet)):
        assert_meets_contract(found, ASSUMED)
        if found.usable:
            assert decode(found.payload) == expected([row.cells for row in found.rows])


def test_a_record_that_is_right_is_sent_whatever_its_neighbours_hold():
    mapping, _ = compiled("forms", ASSUMED)
    right = ["1", "ROAD", "2026-03-01 08:00", "Bonn", "", "3.50", "no", "Cable", "Box", "12.5", "Weg 1"]
    rows = [right, ["2", "ZEPPELIN", *right[2:]], ["3", *right[1:]], ["4", "ROAD", "2026-13-01 08:00", *right[3:]]]
    found = documents(mapping, table_of(mapping.plan.tables[0], rows))
    assert [one.usable for one in found] == [True, True, True, False]
    assert [len(one.problems) for one in found[:3]] == [0, 1, 0]
    assert decode(found[2].payload) == {**decode(found[0].payload), "order_id": "3"}
