"""The sheet of changes in a fix workbook: what was sent with another meaning than the cell has, in the language of the sender."""

import msgspec
import pytest
from openpyxl import load_workbook

from loadsheet.languages import words_in
from loadsheet.ledger import Entry, Origin, SourceTable, State
from loadsheet.mapping.documents import NO_LINKS, Source, SourceRow
from loadsheet.reports.fix_workbook.fix_sheets import FixBook
from loadsheet.reports.fix_workbook.other_sheets import DOCUMENTS_MOST, changed_page, changes_of, difference_in_meaning
from loadsheet.reports.sheets import open_book

HEADER = ("Order", "Weight", "Country", "Ready", "Until")
LINEAGE = {
    "order_id": (Source("orders", "order", "Order", "first"),),
    "packages[].weight": (Source("orders", "weight", "Weight", "each"),),
    "total_weight": (Source("orders", "weight", "Weight", "all"),),
    "pickup_country": (Source("orders", "country", "Country", "first"),),
    "pickup_startdatetime": (Source("orders", "ready", "Ready", "first"),),
    "pickup_enddatetime": (Source("orders", "ready", "Ready", "first"), Source("orders", "until", "Until", "first")),
    "timeoffset": (Source("orders", "ready", "Ready", "first"),),
    "currency": (),
}


def entry(rows, **payload):
    rows = tuple(SourceRow("orders", number, cells) for number, cells in enumerate(rows, start=2))
    body = msgspec.json.encode(payload) if payload else b""
    return Entry(
        *(1, 1, "order.create", "A", "order:A", State.ACCEPTED, "", body, "", rows, NO_LINKS, (), "", 0, "", "")
    )


def changes(*entries):
    table = SourceTable("orders", "in.xlsx", "Blatt", HEADER, 1)
    return changes_of(entries, Origin({"orders": table}, LINEAGE))


SAME, NUMBER, WORD, MOMENT, BLANK, TEXT = None, "number", "word", "moment", "blank", "text"


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("  Köln ", "Köln", SAME),
        ("KÖLN", "Köln", SAME),
        ("412,5", "412.5", SAME),
        ("1.234,50", "1234.5", SAME),
        ("1 234.50", "1234.50", SAME),
        ("1'234.5", "1234.5", SAME),
        ("'4", "4.000", SAME),
        ("12,5 kg", "12.5", SAME),
        ("£1,234.50", "1234.50", SAME),
        ("EUR 99", "99", SAME),
        ("USD 99", "98.5", NUMBER),
        ("04.03.2026 08:00", "2026-03-04 08:00:00", SAME),
        ("3/4/26 8:00 PM", "2026-03-04T20:00:00", SAME),
        ("4 Mar 2026", "2026-03-04", SAME),
        ("20260304", "2026-03-04 00:00:00", SAME),
        ("04.03.2026 18:12:48", "18:12:48", SAME),
        ("ja", "yes", SAME),
        ("12, Main St, 3512 PH Utrecht", "Utrecht", SAME),
        ("", "", SAME),
        ("27 lb", "12.247", NUMBER),
        ("412,567", "412.57", NUMBER),
        ("Deutschland", "DE", WORD),
        ("India", "IN", WORD),
        ("€", "EUR", WORD),
        ("EUP", "Pallet/Skid", WORD),
        ("04.03.2026 08:00", "2026-03-04T07:00:00Z", MOMENT),
        ("04.03.2026 00:30", "2026-03-03T23:30:00Z", MOMENT),
        ("", "EUR", BLANK),
        ("1067", "01067", TEXT),
        ("a rather long sentence with words", "another one", TEXT),
    ],
)
def test_another_meaning_is_a_change_and_another_way_to_write_the_same_is_none(text, value, kind):
    assert difference_in_meaning(text, value) == kind


def test_changes_are_folded_by_column_with_the_first_different_examples():
    cells = [("A", "27 lb", "Deutschland"), ("A", "27 lb", ""), ("A", "3 lb", "")]
    rows = [(*row, "04.03.2026 08:00", "") for row in cells]
    weights = [{"weight": "12.247"}, {"weight": "12.247"}, {"weight": "1.361"}]
    found = changes(entry(rows, order_id="A", packages=weights, pickup_country="DE", currency="EUR")).folded()
    assert [(one.column, one.kind, one.count) for one in found] == [("Weight", "number", 3), ("Country", "word", 1)]
    assert [(one.found, one.became, one.where.cell) for one in found[0].examples] == [
        ("27 lb", "12.247", "B2"),
        ("3 lb", "1.361", "B4"),
    ]


@pytest.mark.parametrize(
    "day", ["04.03.2026", "04. 03. 2026", "04-Mar-26", "4. März 2026", "Mar 4, 2026", "Wed, 4 March 2026"]
)
def test_what_is_calculated_from_a_cell_that_arrived_is_no_change(day):
    row = ("A", "1", "DE", f"{day} 08:00", "")
    sent = {
        "pickup_startdatetime": "2026-03-04 08:00:00",
        "pickup_enddatetime": "2026-03-04 12:00:00",
        "timeoffset": "1",
    }
    assert changes(entry([row], **sent)).folded() == []
    moved = {**sent, "pickup_startdatetime": "2026-03-04 07:00:00"}
    del moved["pickup_enddatetime"]
    assert [one.kind for one in changes(entry([row], **moved)).folded()] == ["moment"]


def test_changes_are_looked_for_in_a_limited_number_of_documents_that_could_be_built():
    one = entry([("A", "1", "Deutschland", "", "")], pickup_country="DE")
    found = changes(*[one] * (DOCUMENTS_MOST + 5), entry([]))
    assert (found.is_cut, found.folded()[0].count) == (True, DOCUMENTS_MOST)
    assert not changes(*[one] * DOCUMENTS_MOST).is_cut
    assert changes(entry([("A", "27 lb", "", "", "")])).folded() == []


@pytest.mark.parametrize(
    ("value", "kind", "german", "english"),
    [
        ("40.143", "number", "40,143", "40.143"),
        ("12345.6", "number", "12345,6", "12345.6"),
        ("2026-03-04 09:00:00", "moment", "04.03.2026 09:00", "2026-03-04 09:00"),
        ("2026-03-04T09:00:30Z", "moment", "04.03.2026 09:00:30 UTC", "2026-03-04 09:00:30 UTC"),
        ("2026-03-04T09:00:00Z", "moment", "04.03.2026 09:00 UTC", "2026-03-04 09:00 UTC"),
        ("2026-03-04T09:00:00+01:00", "moment", "04.03.2026 09:00+01:00", "2026-03-04 09:00+01:00"),
        ("2026-03-04", "blank", "04.03.2026", "2026-03-04"),
        ("18:12:48", "moment", "18:12:48", "18:12:48"),
        ("0.5", "blank", "0,5", "0.5"),
        ("01067", "blank", "01067", "01067"),
        ("1.5", "text", "1.5", "1.5"),
        ("DE", "word", "DE", "DE"),
    ],
)
def test_a_new_value_is_written_as_in_the_language(value, kind, german, english):
    assert words_in("de").payload_value(value, kind) == german
    assert words_in("en").payload_value(value, kind) == english


def test_the_sheet_of_changes_is_in_the_language_of_the_sender(tmp_path):
    row = ("A", "88,5 lb", "Deutschland", "04.03.2026 08:00", "")
    sent = {"packages": [{"weight": "40.143"}], "pickup_country": "DE", "pickup_startdatetime": "2026-03-04 09:00:00"}
    with open_book(tmp_path / "fix.xlsx", title="a", footer="a") as book:
        changed_page(FixBook(book, words_in("de")), "Für Sie geändert", changes(entry([row], **sent)))
    sheet = load_workbook(tmp_path / "fix.xlsx")["Für Sie geändert"]
    assert {sheet.cell(number, 5).value for number in range(4, 7)} == {"40,143", "DE", "04.03.2026 09:00"}
