"""Nested records become flat rows, and nothing of them is lost on the way."""

import csv
import io
import tracemalloc
from decimal import Decimal

import msgspec
import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import order, tender

from loadsheet.contract import BY_NAME, Listing, scan_listing
from loadsheet.reports import sheets
from loadsheet.reports.listing_export import Pulled, layout, write_pulled, write_table
from loadsheet.reports.report_files import text_of

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.one_of(st.integers(-(10**20), 10**20), st.decimals(allow_nan=False, allow_infinity=False, places=5))
scalars = st.one_of(texts, numbers, st.booleans(), st.none())
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2))


def records_of(record):
    """Records as the contract has them, and with anything in any of their fields, and with fields of nobody."""
    fields = {}
    for field in record.fields:
        usual = st.lists(records_of(field.record), max_size=3) if field.record else scalars
        fields[field.name] = st.one_of(usual, usual, usual, anything)
    return st.tuples(st.fixed_dictionaries({}, optional=fields), st.dictionaries(texts, anything, max_size=2)).map(
        lambda both: {**both[1], **both[0]}
    )


def leaves(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif value is not None:
        yield text_of(value)


def shown(rows):
    """All values of rows; a value that is JSON counts as what it holds."""
    for _, row in rows:
        for value in row:
            yield text_of(value)
            if isinstance(value, str):
                try:
                    yield from leaves(msgspec.json.Decoder(float_hook=Decimal).decode(value.encode()))
                except msgspec.DecodeError:
                    continue


@pytest.mark.parametrize("subject", ["order", "tender"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_value_of_a_record_is_in_a_row(subject, data):
    """Every field of the contract has a column of its own, which says what it means."""
    contract, laid_out = BY_NAME[f"{subject}.list"].record, layout(subject)
    columns = [(table.name, column) for table in laid_out.tables for column in table.columns]
    heads = {f"{table}.{column.head}".strip(".") for table, column in columns}
    assert {path.replace("[]", "") for path, field in contract.walk() if not field.record} <= heads
    assert all(column.meaning for _, column in columns)
    record = data.draw(records_of(contract))
    rows = list(laid_out.rows(record))
    assert set(leaves(record)) <= set(shown(rows))
    assert all(len(row) == len(laid_out.tables[position].columns) for position, row in rows)
    assert [position for position, _ in rows].count(0) == 1


def pulled(records, total=None):
    found = Listing(records, 1000, len(records) if total is None else total, 1)
    return Pulled(BY_NAME["order.list"], found)


@pytest.mark.parametrize(
    ("records", "total", "says", "complete"),
    [
        ([order(1), order(2)], None, "2 of 2 orders listed: complete", True),
        ([order(1), order(2)], 4812, "2 of 4,812 orders listed: partial", False),
        ([], None, "0 of 0 orders listed: complete", True),
        ([tender(1), tender(2)], None, "0 orders and 2 other records listed of 2: partial", False),
        ([tender(1), order(2)], None, "1 order and 1 other record listed of 2: complete", True),
    ],
)
def test_one_sentence_says_how_much_was_listed(records, total, says, complete):
    found = pulled(records, total)
    assert (found.coverage_text, found.complete) == (says, complete)


def test_numbers_that_a_workbook_cannot_hold_stay_texts(tmp_path):
    odd = [Decimal("0.1"), 10**15, 10**16 + 1, Decimal("1234567890.1234567"), "7.50", "007", "1e3", Decimal("1E+9999")]
    odd += [123456789012345, 1234567890123456]
    found = pulled([order(number, goods_value=value) for number, value in enumerate(odd)])
    write_pulled(found, tmp_path / "o.xlsx", layout("order"), source="x", at="now")
    (values,) = (
        [cell.value for cell in column[1:]]
        for column in openpyxl.load_workbook(tmp_path / "o.xlsx")["Orders"].columns
        if column[0].value == "goods_value"
    )
    assert values == [
        0.1,
        10**15,
        "10000000000000001",
        "1234567890.1234567",
        7.5,
        "007",
        1000,
        "1E+9999",
        123456789012345,
        "1234567890123456",
    ]
    exact = io.StringIO()
    write_table(found, exact, layout("order"))
    assert [row["goods_value"] for row in csv.DictReader(io.StringIO(exact.getvalue()))] == [
        str(value) for value in odd
    ]


def test_csv_for_people_has_no_control_characters_wherever_it_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(sheets, "ROWS_MAX", 2)
    found = pulled([order(number, delivery_city="Ulm\x1b]0;x\x07\u202e\x9b2J") for number in range(3)])
    laid_out, pipe = layout("order"), io.StringIO()
    write_table(found, pipe, laid_out)
    for name in ("o.csv", "o.xlsx"):
        write_pulled(found, tmp_path / name, laid_out, source="x", at="now")
    texts = [
        pipe.getvalue(),
        *((tmp_path / name).read_text(encoding="utf-8-sig") for name in ("o.csv", "o.Orders.csv")),
    ]
    assert all(",Ulm\ufffd]0;x\ufffd\ufffd\ufffd2J," in text for text in texts), texts


def test_rows_that_do_not_fit_a_sheet_go_on_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sheets, "ROWS_MAX", 5)
    found = pulled([order(number) for number in range(6)])
    written = write_pulled(found, tmp_path / "o.xlsx", layout("order"), source="x", at="now")
    assert [path.name for path in written] == ["o.xlsx", "o.Orders.csv", "o.Packages.csv"]
    assert len((tmp_path / "o.Orders.csv").read_text(encoding="utf-8-sig").splitlines()) == 1 + 2
    front = openpyxl.load_workbook(tmp_path / "o.xlsx")["Listing"]
    said = [cell.value for cell in front["A"]]
    assert "rows that do not fit into a sheet continue in o.Orders.csv" in said


def test_memory_does_not_grow_with_the_listing(tmp_path):
    peaks = []
    for count in (30, 150):
        records = b",".join(msgspec.json.Encoder(decimal_format="number").encode(order(n)) for n in range(count))
        path = tmp_path / f"{count}.json"
        path.write_bytes(b'{"page_size":9,"results":[%b],"total_count":%d,"total_pages":1}' % (records, count))
        with path.open("rb") as body:
            found = Pulled(BY_NAME["order.list"], scan_listing(body))
            tracemalloc.start()
            for name in ("o.csv", "o.json", "o.xlsx"):
                write_pulled(found, tmp_path / name, layout("order"), source="x", at="now")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]
