"""Dates far from the day of a run are pointed out in every record, however its values were made."""

import json
from datetime import UTC, datetime

import pytest

from loadsheet.cli import invoke
from loadsheet.mapping import Document
from loadsheet.mapping.documents import Source, SourceRow
from loadsheet.mapping.plausibility import DateRangeCheck
from loadsheet.reading import Table

DAY = datetime(2026, 3, 10, 12, tzinfo=UTC)
LINEAGE = {"pickup_startdatetime": (Source("rows", "pickup", "Pickup", "first"),)}
TABLE = Table("rows", "a.xlsx", "Data", ("Order", "Pickup"), 1, {}, lambda: iter(()), {})


def warnings_about(day, **bounds):
    row = SourceRow("rows", 2, ("A1", day))
    payload = json.dumps({"order_id": "A1", "pickup_startdatetime": f"{day} 08:00:00"}, separators=(",", ":"))
    document = Document("order.update", "A1", "order:A1", payload.encode(), "", (row,), ())
    far = DateRangeCheck.around(DAY, **{"years_back": 10, "years_ahead": 5} | bounds)
    (found,) = far.watch([document], LINEAGE, {"rows": TABLE})
    assert found.payload == document.payload
    return found.problems


@pytest.mark.parametrize("day", ["1899-12-31", "1900-01-01", "2016-03-09", "2031-03-11", "2206-03-01"])
def test_a_date_outside_the_bounds_is_a_warning_at_its_cell(day):
    (warning,) = warnings_about(day)
    assert (warning.code, warning.level, warning.where.cell, warning.found) == ("C318", "warning", "B2", day)
    assert day in warning.text


@pytest.mark.parametrize("day", ["2016-03-10", "2026-03-10", "2031-03-10"])
def test_a_date_within_the_bounds_is_silent(day):
    assert warnings_about(day) == ()


def test_a_bound_of_no_years_is_none():
    assert warnings_about("1900-01-01", years_back=0) == ()
    assert warnings_about("2999-01-01", years_ahead=0) == ()


def test_the_29_of_february_has_bounds_too():
    leap = datetime(2028, 2, 29, tzinfo=UTC)
    assert DateRangeCheck.around(leap, years_back=1, years_ahead=1) == DateRangeCheck("2027-02-29", "2029-02-29")


def test_check_folds_them_by_column(tmp_path, capfd):
    (tmp_path / "mappings").mkdir()
    (tmp_path / "mappings/acme.yaml").write_text(
        """\
mapping: acme
version: 1
target: order.update
source: {files: ["a.csv"], locale: en_GB, dates: ["%Y-%m-%d"], timezone: Europe/Berlin}
columns:
  order:  {label: Order, type: text, required: true, key: true}
  pickup: {label: Pickup, type: datetime}
constants: {sender_id: ACME, receiver_id: CARRIER1}
payload:
  order_id: {col: order}
  sender_id: {const: sender_id}
  receiver_id: {const: receiver_id}
  pickup_startdatetime: {col: pickup}
"""
    )
    (tmp_path / "a.csv").write_text("Order,Pickup\nA1,1900-01-01\nA2,2999-01-01\nA3,\n")
    assert invoke(["check", str(tmp_path / "a.csv"), "--mappings", str(tmp_path / "mappings"), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [(cause["code"], cause["column"], cause["count"]) for cause in told["causes"]] == [("C318", "Pickup", 2)]
    assert told["usable"] == 3
