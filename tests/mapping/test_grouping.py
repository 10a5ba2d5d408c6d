"""Rows of one record come together wherever they stand, and every row comes out exactly once (M8, M9, M10, M27, M29)."""

import tempfile
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import (
    ASSUMED,
    accounted,
    codes,
    decode,
    documents,
    example,
    example_text,
    load_text,
    made,
    run,
    table,
    texts,
)

from loadsheet.mapping.compile import load
from loadsheet.mapping.documents import Document, Ignored
from loadsheet.mapping.translator import translate
from loadsheet.problems import Problem
from loadsheet.reading.tables import Native, Row, Table

FLAT = example_text("flat")


@pytest.fixture(scope="module")
def flat():
    return example("flat")[0]


@pytest.fixture(scope="module")
def joined():
    return example("joined")[0]


@pytest.fixture(scope="module")
def left_out(tmp_path_factory):
    """The three joined tables, without the orders for Bonn."""
    text = example_text("joined").replace(
        "orders: {file: orders}", "orders: {file: orders, ignore_rows: 'city == \"Bonn\"'}"
    )
    return load_text(tmp_path_factory.mktemp("left_out"), text)


def said(found):
    """What came of a drop: the key, the rows and the problems of each document."""
    return [(one.key, [row.number for row in one.rows], codes(one)) for one in found if isinstance(one, Document)]


# ---- one table ----


SHORTENED = ["1.23E+12", "1,5e+9", "4E+15", '="1.2E+12"']  # what a program leaves of a long number
WHOLE = ["5E10", "A1E+10", "12E+10", "1.23E+12-B", "E+10", "1+2"]


@pytest.mark.parametrize(
    ("target", "column", "group"),
    [
        ("order.update", "", "group: {by: id}"),
        ("order.update", "", ""),
        ("order.update", "key: true", ""),
        ("order.update", 'pad_left: {to: 11, with: "0"}', "group: {by: id}"),
        ("order.status", "", ""),
    ],
)
def test_the_number_of_a_record_that_a_program_shortened_is_refused_however_the_mapping_names_it(
    tmp_path, target, column, group
):
    rest = {
        "order.update": "sender_id: {value: A}, receiver_id: {value: B}",
        "order.status": "status_code: {value: PU}, status_datetime: {value: '2026-03-04T08:00:00'}",
    }
    text = f"""\
mapping: m
version: 1
target: {target}
source: {{files: ["*.csv"]}}
columns: {{id: {{label: ID, {column}}}, note: {{label: Note}}}}
{group}
payload: {{order_id: {{col: id}}, {rest[target]}}}
"""
    found = made(tmp_path, text, [[number, "4E+15"] for number in (*SHORTENED, *WHOLE)])
    refused = [one.rows[0].number for one in found if "C322" in codes(one)]
    assert refused == [2, 3, 4, 5]


def test_m8_rows_of_one_order_need_not_stand_together_and_come_in_the_order_of_their_first_rows(flat):
    rows = [["b", "", "x", "1"], ["a", "", "y", "1"], ["b", "", "z", "1"], ["c", "", "x", "1"]]
    for memory_rows in (0, 100):
        found = documents(flat, rows, memory_rows=memory_rows)
        assert said(found) == [("b", [2, 4], []), ("a", [3], []), ("c", [5], [])]
        assert [package["item_name"] for package in decode(found[0].payload)["packages"]] == ["x", "z"]


DISAGREE = (
    'drop.csv:3 City: G401 error: the rows of 1 disagree: City is row 2 "Bonn" and row 3 "Ulm" '
    "(all rows of one record must say the same here)"
)
HEAD = """\
mapping: head
version: 1
target: tender.create
source: {files: ["*.csv"], locale: en_GB}
columns:
  id:   {label: ID, required: true, key: true}
  city: {label: City}
  kg:   {label: Kg, type: decimal}
group: {by: [id]}
derived: {heavy: {type: yesno, expr: '(kg ?? 0) > 10'}}
payload:
  tender_id:     {col: id}
  sender_id:     {value: A}
  receiver_id:   {value: B}
  tender_status: {value: OPEN}
  %s
"""
_ROWS = "packages: {each: rows, item: {package_type: {value: Box}, item_name: {value: x}, %s}}"


@pytest.mark.parametrize(
    "field",
    [
        "pickup_city: {col: city}",
        "pickup_city: {expr: 'city ?? \"none\"'}",
        "pickup_city: {value: Rome, when: 'city == \"Bonn\"'}",
        "packages: {list: [{when: 'city != null', package_type: {value: Box}, item_name: {value: x}}]}",
        "tender_references: {list: [{name: {value: City}, value: {col: city}}]}",
    ],
)
def test_a_column_of_which_the_record_takes_one_value_must_say_the_same_in_all_rows(tmp_path, field):
    rows = [["1", "Bonn", ""], ["1", "Ulm", ""], ["2", "Rom", ""], ["2", "Rom", ""]]
    assert [texts(one) for one in made(tmp_path, HEAD % field, rows)] == [[DISAGREE], []]


@pytest.mark.parametrize(
    "field",
    [
        "pickup_city: {expr: '[r.city for r in rows][0]'}",
        "pickup_city: {expr: '$join([r.city for r in rows])'}",
        _ROWS % "description: {col: city}",
        _ROWS % "description: {expr: city, when: 'city == \"Bonn\"'}",
    ],
)
def test_rows_may_differ_where_the_record_takes_all_their_values(tmp_path, field):
    assert made(tmp_path, HEAD % field, [["1", "Bonn", ""], ["1", "Ulm", ""]])[0].usable


CITY = HEAD % "pickup_city: {col: city}"
COUNTED = (
    HEAD
    % 'pickup_city: {value: Rome}\nchecks: [{id: total, rule: "kg == $count(rows)", say: Kg is the number of rows}]'
)
FIRST_ROW_ONLY = [["1", "Bonn", ""], ["1", "", ""], ["2", "", ""], ["2", "Ulm", ""]]


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        (CITY, FIRST_ROW_ONLY, [[], ["G401"]]),  # a first row without it would lose it
        (CITY.replace("by: [id]", "by: [id], one_value: [city]"), FIRST_ROW_ONLY, [["G401"], ["G401"]]),
        (HEAD % "pickup_city: {value: Rome, when: heavy}", [["1", "", "8"], ["1", "", "18"], ["2", "", "8"], ["2", "", "9"]], [["G401"], []]),
        (COUNTED, [["1", "", "2"], ["1", "", "3"], ["2", "", "2"], ["2", "", ""], ["3", "", "1"], ["3", "", "1"]], [["G401"], [], ["G406"]]),
    ],
    ids=["its first row", "one_value", "derived", "check"],
)  # fmt: skip
def test_what_the_record_takes_may_stand_in_its_first_row_alone_unless_one_value_names_it(
    tmp_path, text, rows, expected
):
    found = made(tmp_path, text, rows)
    assert [codes(document) for document in found] == expected
    shown = {COUNTED: 'Kg is row 2 "2" and row 3 "3"', CITY: ""}.get(text, "is row 2 ")
    assert not expected[0] or shown in found[0].problems[0].text


@pytest.mark.parametrize(
    ("named", "to_fill"), [(", one_value: [city]", [3]), ("", [])], ids=["one_value", "its first row"]
)
def test_a_required_value_that_all_rows_must_say_is_missing_in_each_of_them(tmp_path, named, to_fill):
    text = (HEAD % "pickup_city: {value: Rome}").replace("tender_status: {value: OPEN}", "tender_status: {col: city}")
    (document,) = made(tmp_path, text.replace("by: [id]", f"by: [id]{named}"), [["1", "", "8"], ["1", "", "9"]])
    (problem,) = document.problems
    assert (problem.code, problem.where.row, [where.row for where in problem.also]) == ("K501", 2, to_fill)


def test_rows_sorted_after_an_export_give_one_cause_for_a_record_whose_values_are_further_down(tmp_path):
    """Web shops write the values of an order in its first row only. A required value is not missing then: it is further down."""
    text = (HEAD % "order_id: {col: kg}").replace("{value: OPEN}", "{col: city}").replace(", type: decimal", "")
    text = text.replace("derived: {heavy: {type: yesno, expr: '(kg ?? 0) > 10'}}", "")
    found = made(tmp_path, text, [["1", "", ""], ["2", "Ulm", "9"], ["1", "Bonn", "8"], ["2", "", ""], ["3", "", ""]])
    assert [codes(document) for document in found] == [["G401", "G401"], [], ["K501"]]
    first, second = found[0].problems
    assert first.hint == "a row below has the value: if the rows were sorted, send them in the order of the export"
    assert (first.because, second.because) == (None, first)
    # of two different values, sorting is no cause
    (differing,) = made(tmp_path, text, [["1", "", ""], ["1", "Bonn", ""], ["1", "Ulm", ""]])
    assert "must say the same" in differing.problems[0].hint


def test_an_unreadable_cell_is_no_reason_to_leave_its_row_out(tmp_path):
    text = FLAT.replace('item == "Total"', "(weight ?? 0) == 0").replace("min: 0, required: true", "min: 0")
    found = run(load_text(tmp_path, text), [["1", "", "a", "x"], ["2", "", "b", ""], ["3", "", "c", "1"]])
    assert [item.row.number for item in found if isinstance(item, Ignored)] == [3]


def test_a_row_is_left_out_if_no_column_that_the_mapping_reads_is_filled_in(flat):
    """Formulas that are filled in down to the end of a template leave such rows. With a value more, or a text, they may be a record."""
    plan = flat.plan.tables[0]
    header = [*(column.label for column in plan.columns), "Sum"]
    rows = [
        ["1", "Bonn", "a", "1", "5"],
        ["", "", " ", "", "0"],
        ["", "", "", "2", "0"],
        ["", "", "", "", "#N/A"],
        ["", "", "", "", "see mail"],
    ]
    found = run(flat, table(plan, rows, header=header))
    left_out = {item.row.number: item.rule for item in found if isinstance(item, Ignored)}
    assert left_out == dict.fromkeys([3, 5], "no column that the mapping reads is filled in")
    assert sorted("G405" in codes(item) for item in found if isinstance(item, Document)) == [False, True, True]


def test_a_row_that_reading_refused_makes_its_order_invalid(flat):
    """An order must not be sent without one of its rows."""
    problem = Problem("R205", values={"cells": 3, "columns": 4})
    rows = [["1", "Bonn", "a", "1"], ["1", "Bonn", "b", ""], ["", "", "", ""]]
    found = documents(flat, table(flat.plan.tables[0], rows, problems={3: problem, 4: problem}))
    assert said(found) == [("", [4], ["R205"]), ("1", [2, 3], ["R205"])]


def test_m10_an_identifier_twice_refuses_all_its_rows_where_rows_are_not_grouped(tmp_path):
    alone = FLAT.replace("group: {by: [id], one_value: [city]}\n", "")
    found = made(tmp_path, alone, [["1", "Bonn", "a", "1"], ["2", "Ulm", "b", "1"], ["1", "Bonn", "c", "1"]])
    assert [(document.key, codes(document)) for document in found] == [("1", ["G402"]), ("2", [])]
    assert found[0].problems[0].text == "1 is in more than one row: 2, 4"


# ---- several tables ----


def test_a_typed_key_meets_the_text_that_shows_the_same(joined):
    orders = table(joined.plan.tables[0], [[Native("7", "number", "007"), "Bonn"]], sheet="Orders")
    (found,) = documents(joined, orders, [["007", "a", "1"]], [])
    assert (found.key, codes(found)) == ("007", [])


# ---- in memory and on disk it is the same ----


def spread(found):
    """What came out, without the order of documents."""
    return Counter(
        (item.key, item.payload, item.content_hash, tuple(sorted(row[:2] for row in item.rows)), tuple(codes(item)))
        if isinstance(item, Document)
        else (item.row[:2], item.rule)
        for item in found
    )


def check_accounted(mapping, rows_of_tables, memory_rows):
    """Every row comes out once, and the same comes out of a sort in memory and of one on disk."""
    found = run(mapping, *rows_of_tables, memory_rows=memory_rows)
    plans = mapping.plan.tables
    numbers = [
        (plan.name, n) for plan, rows in zip(plans, rows_of_tables, strict=True) for n in range(2, len(rows) + 2)
    ]
    assert accounted(found) == sorted(numbers)
    assert spread(found) == spread(run(mapping, *rows_of_tables))


KEYS = st.sampled_from(["1", "2", "3", "10", "", " 1 "])
CELLS = st.sampled_from(["", "1", "2.5", "x", "Total", "Bonn", "#"])
CITIES = st.sampled_from(["Bonn", "Bonn", "Ulm"])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(KEYS, CITIES, CELLS, CELLS), max_size=14), st.sampled_from([0, 3, 100]))
def test_every_row_is_accounted_for_however_broken_its_cells_are(flat, rows, memory_rows):
    check_accounted(flat, [rows], memory_rows)


JOIN_KEYS = st.sampled_from(["1", "2", "3", "10", ""])
JOIN_ROWS = st.tuples(
    st.lists(st.tuples(JOIN_KEYS, CELLS), max_size=6),
    st.lists(st.tuples(JOIN_KEYS, CELLS, CELLS), max_size=10),
    st.lists(st.tuples(JOIN_KEYS, CELLS), max_size=4),
)


@settings(deadline=None, max_examples=60)
@given(JOIN_ROWS, st.sampled_from([0, 4]), st.booleans())
def test_every_row_of_every_table_is_accounted_for(joined, left_out, rows, memory_rows, leaves_out):
    check_accounted(left_out if leaves_out else joined, rows, memory_rows)


@pytest.mark.parametrize("memory_rows", [0, 100])
@pytest.mark.parametrize("lines", ["12239", "93212"], ids=["one order of keys", "another order"])
def test_the_rows_of_all_tables_are_left_out_with_the_order_that_a_rule_leaves_out(left_out, lines, memory_rows):
    """Order 2 is left out with its lines and its note; the line of order 9, which is nowhere, is an error."""
    orders = [["1", "Ulm"], ["2", "Bonn"], ["3", "Kiel"]]
    found = run(left_out, orders, [[key, "Tea", "1"] for key in lines], [["2", "fragile"]], memory_rows=memory_rows)
    assert {one.key: codes(one) for one in found if isinstance(one, Document)} == {"1": [], "3": [], "9": ["G404"]}
    ignored = sorted((item.row.table, item.row.number, item.rule) for item in found if isinstance(item, Ignored))
    rule = 'ignore_rows: city == "Bonn"'
    with_it = [("lines", number, f"{rule} (in orders)") for number, key in enumerate(lines, 2) if key == "2"]
    assert ignored[:-1] == [*with_it, ("notes", 2, "extra: ignore (orders has no partner)")]
    assert ignored[-1] == ("orders", 3, rule)


def test_typed_cells_survive_the_sort_on_disk_which_leaves_no_file_behind(flat, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [
        [Native("7", "number", "007"), "", "x", Native("1.5", "number")],
        ["a", "", "x", "1"],
        ["007", "", "y", "2"],
    ]
    source = {"rows": table(flat.plan.tables[0], rows, sheet="Orders")}
    found = translate(flat, source, now=None, memory_rows=0)
    first = next(found)
    assert (first.key, [package["weight"] for package in decode(first.payload)["packages"]]) == ("007", ["1.5", "2"])
    assert list(tmp_path.iterdir()) != []
    found.close()
    assert list(tmp_path.iterdir()) == []


SORTED = """\
mapping: events
version: 1
target: order.status
source: {files: ["*.csv"], dates: ["%Y-%m-%d %H:%M"], timezone: {col: zone, default: UTC}}
columns:
  id:   {label: ID, required: true}
  at:   {label: At, type: datetime, required: true}
  zone: {label: Zone, type: timezone}
order: [id, at]
payload: {order_id: {col: id}, status_datetime: {col: at}}
"""


BY_DAY_AND_TIME = """\
mapping: events
version: 1
target: order.status
source: {files: ["*.csv"], dates: ["%Y-%m-%d"], timezone: UTC}
columns:
  id:   {label: ID, required: true}
  day:  {label: Day, type: date, required: true}
  time: {label: Time, type: time}
order: [id, day, time]
payload: {order_id: {col: id}, status_datetime: {expr: 'day + (time ?? t"PT0H")'}}
"""
IN_ZONES = [
    ["b", "2026-03-01 08:00", ""],
    ["a", "2026-03-01 12:00", "Asia/Tokyo"],  # 03:00 in UTC
    ["a", "2026-03-01 04:00", "UTC"],
    ["b", "2026-03-01 08:00", ""],
]
IN_TWO_CELLS = [
    ["b", "2026-03-01", "8:00"],
    ["a", "2026-03-01", ""],
    ["a", "2026-03-01", "10:00"],
    ["b", "2026-03-01", "8:00"],
]


@pytest.mark.parametrize("memory_rows", [0, 100])
@pytest.mark.parametrize(
    ("mapping", "rows"),
    [
        (SORTED, IN_ZONES),
        (BY_DAY_AND_TIME, IN_TWO_CELLS),
        (
            BY_DAY_AND_TIME,
            [
                ["b", "2026-03-01", "23:59"],
                ["a", "2026-03-01", "9:30"],
                ["a", "2026-03-01", "10:15"],
                ["b", "2026-03-02", ""],
            ],
        ),
    ],
)
def test_events_are_sorted_by_instant_and_never_merged(tmp_path, mapping, rows, memory_rows):
    found = made(tmp_path, mapping, rows, memory_rows=memory_rows)
    assert said(found) == [("a", [3], []), ("a", [4], []), ("b", [2], []), ("b", [5], [])]


def test_events_already_in_order_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "never made"))
    rows = [["a", f"2026-03-01 08:{number // 2:02d}", ""] for number in range(50)]  # two of each minute
    found = made(tmp_path, SORTED, rows, memory_rows=0)
    assert [document.rows[0].number for document in found] == list(range(2, 52))


def test_adjacent_rows_stream_in_flat_memory(joined):
    def peak(count):
        tables = {}
        for plan, width, tail in zip(
            joined.plan.tables, (1, 3, 1), (("Bonn",), ("item", "1.5"), ("text",)), strict=True
        ):

            def rows(width=width, tail=tail):
                return (Row(n + 2, (f"{n // width:06d}", *tail)) for n in range(count * width))

            header = tuple(column.label for column in plan.columns)
            places = {column.name: place for place, column in enumerate(plan.columns)}
            tables[plan.name] = Table(plan.name, "f.csv", "", header, 1, places, rows, {})
        tracemalloc.start()
        usable = sum(1 for found in translate(joined, tables, now=None) if found.usable)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert usable == count
        return highest

    small, large = peak(300), peak(1_500)
    assert large < small + 1_500_000  # five times the rows, no more than the bounded memories of columns


def test_m29_the_same_input_gives_the_same_bytes_however_its_numbers_are_written(flat, joined):
    rows = [["1", "Bonn", "a", "1"], ["2", "Ulm", "b", "2.50"]]
    assert run(flat, rows) == run(flat, rows)
    tables = [["1", "Bonn"]], [["1", "a", "2"]], []
    assert run(joined, *tables) == run(load(joined.path, ASSUMED), *tables)
    one, two = (documents(flat, [["1", "Bonn", "a", text]])[0] for text in ("12.50", "12.5"))
    assert (one.content_hash, one.payload) == (two.content_hash, two.payload)
