"""A draft of any table loads when its marks are filled in, and accounts for every row."""

from datetime import UTC, datetime

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from test_suggest import ASSUMED, filled_in

from loadsheet.contract import BY_NAME, WRITES
from loadsheet.mapping import Ignored, load, translate
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.yaml_writer import write_draft
from loadsheet.problems import FileRefused
from loadsheet.reading import open_tables
from loadsheet.settings import Settings

NOW = datetime(2026, 3, 6, 2, 15, tzinfo=UTC)
HERE = Settings(reading={"process": "none"})  # no process for each of many small files
CELLS = {  # texts as people and systems write them, some of them wrong
    "day": ["24.03.2026", "25.03.2026", "31.03.2026 24:00", "TBC", ""],
    "either day": ["03/04/2026 08:00", "04/04/2026 09:30", "05/04/26"],
    "named day": ["03-Mar-26", "28-Feb-26", "1 April 2026", ""],
    "stamp": ["2026-03-24T08:00:00Z", "2026-03-25T09:30:00+02:00"],
    "time": ["07:30", "8:15", "24:00", "7:30 PM", ""],
    "amount": ["1.234,5", "12,25", "-3", "9999", "zwölf", ""],
    "english": ["1,234.50", "12.25", "0.5 lb", "12 kg", "x"],
    "whole": ["1", "2", "12", "999", "-1", ""],
    "money": ["€ 12,50", "12 EUR", "$3"],
    "place": ["Köln", "Malmö", "O'Hare", ""],
    "zip": ["01067", "LS1 4DY", "9711 LM", "61-001", "1110"],
    "country": ["DE", "Sverige", "Narnia", ""],
    "currency": ["EUR", "sek", "??"],
    "pack": ["EUP", "KRT", "no", "null", "X1", "Pallet: big", "~", ""],
    "flag": ["ja", "nein", "x", ""],
    "tick": ["x", "", "X"],
    "zone": ["Europe/Berlin", "America/New_York", ""],
    "mail": ["a@b.example", "c.d@e.example", ""],
    "action": ["C", "U", "X", "new"],
    "blank": [""],
    "odd": ['say "hi"', "{set}", "a: b # c", "'", "Summe", "=1+1", "\\", "%d"],
}
HEADINGS = [
    "Mode", "TZ", "Picked up", "Departed", "Delivered", "Booked", "ETA", "Ladedatum", "Ladezeit", "Liefertermin", "Liefern bis", "Empfänger",
    "Consignee", "PLZ", "Ort", "Land", "Loading city", "Pickup country", "VPE", "Type of packaging", "Artikel", "Item 1", "Qty 1", "Item 2",
    "Qty 2", "Item {set}", "Gewicht (kg)", "Weight", "Weight class", "Volume (ft3)", "Length", "Width", "Height", "Stackable", "ADR", "Anzahl",
    "Warenwert EUR", "Currency", "Status", "Action", "Date", "Reference", "Carrier 1", "Carrier 2", "Carrier id", "Decision", "Quote",
    "Email consent", "Contact", "Phone", "E-mail", "Freight payer", "Total weight", "Number of packages", "null", "12", "a: b", "Qty '#'", "in",
]  # fmt: skip
COLUMNS = st.lists(
    st.tuples(st.sampled_from(HEADINGS), st.sampled_from(sorted(CELLS))),
    min_size=1,
    max_size=10,
    unique_by=lambda column: column[0].casefold(),
)
KEYS = {
    "each its own": [f"A-{number:03}" for number in range(12)],
    "several rows": [f"{number // 3:05}" for number in range(12)],
    "once": [f"B{number}" if number % 3 == 0 else "" for number in range(12)],
    "some blank": [f"{number}" if number % 5 else "" for number in range(12)],
    "some twice": [f"C{min(number, 10)}" for number in range(12)],
}


@settings(
    max_examples=16,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a table says enough without being shrunk
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    columns=COLUMNS,
    key=st.tuples(st.sampled_from(["Order no", "Tender", "Nr", "qwx"]), st.sampled_from(sorted(KEYS))),
    target=st.sampled_from([None, *(one.name for one in WRITES)]),
    data=st.data(),
)
@example(
    [("Item 1", "place"), ("Qty 1", "whole"), ("Item 2", "place"), ("Qty 2", "whole")],
    ("Order no", "each its own"),
    None,
    None,
)
@example([("Consignee", "place"), ("Artikel", "odd"), ("Anzahl", "whole")], ("Order no", "once"), "order.create", None)
@example(
    [("Picked up", "either day"), ("Delivered", "named day"), ("Action", "action")],
    ("Order no", "some twice"),
    None,
    None,
)
def test_a_draft_of_any_table_loads_and_accounts_for_every_row(tmp_path, columns, key, target, data):
    """In: headings over cells of any kind. Out: nothing that lint finds once the marks are filled in, and each row in a record or left out."""
    path = tmp_path / "sheet.csv"
    path.write_text(sheet(columns, *key, data), encoding="utf-8")
    try:
        made = draft(observe([path], HERE), target)
    except FileRefused:
        return  # nothing that looks like headings
    text = write_draft(made)
    (tmp_path / "draft.yaml").write_text(filled_in(text, BY_NAME[made.operation.name]), encoding="utf-8")
    mapping = load(tmp_path / "draft.yaml", ASSUMED)
    (layouts,) = mapping.layouts.values()
    tables = open_tables(path, path.name, layouts, HERE)
    rows = set()
    for found in translate(mapping, tables, now=NOW):
        rows |= {found.row.number} if isinstance(found, Ignored) else {row.number for row in found.rows}
    assert rows == set(range(2, 14)), text


def sheet(columns, heading, keys, data):
    """A text file with these columns. Without `data`, the cells of a column take turns."""
    lines = [";".join(quoted(text) for text in [heading, *(label for label, _ in columns)])]
    for number in range(12):
        choices = [CELLS[kind] for _, kind in columns]
        cells = [own[number % len(own)] if data is None else data.draw(st.sampled_from(own)) for own in choices]
        lines.append(";".join(quoted(text) for text in [KEYS[keys][number], *cells, f"row {number}"]))
    return "\n".join([f"{lines[0]};Remarks", *lines[1:]]) + "\n"


def quoted(text):
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if any(mark in text for mark in ';"\n') else text
