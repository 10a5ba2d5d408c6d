"""Drafts of shipped samples, held against the mappings that people wrote for them; headings in nine languages; any table; the command."""

import json
import re
from datetime import datetime
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from command_in_process import loadsheet
from drafting import fields_of, mapping_of, mistakes, orders, translated, written
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from layouts.made_layouts import FLAT, LANGUAGES, made
from layouts.sheet_layouts import Layout, Sheet
from shipped_samples import INBOX, NOW, sample

from loadsheet.contract import WRITES, Assumptions
from loadsheet.errors import FileRefused
from loadsheet.mapping.compile import lint
from loadsheet.mapping.documents import Ignored
from loadsheet.mapping.translator import translate
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.mapping_tools.best_pairs import best_pairs
from loadsheet.mapping_tools.drafts import FILL_IN
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.yaml_writer import marks_in, write_draft
from loadsheet.reading import open_tables
from loadsheet.settings import Settings

KEPT = Path(__file__).with_name("kept")
SAMPLES = [
    "acme-flat", "harbour-two-sheets", "nordic-join", "carrier-status", "spring-tenders", "carrier7-quotes",
    "quote-confirmations", "order-updates", "order-deletes", "tender-updates", "tender-withdrawals",
]  # fmt: skip
FLOOR = 0.95  # of the columns that the shipped mappings send


def drafted(name):
    """The draft of a sample: test_kept_texts.py proves that it is the one that is kept."""
    return (KEPT / f"{name}.draft.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """The mapping that each draft with its marks filled in is, by the name of the shipped one."""
    folder = tmp_path_factory.mktemp("drafts")
    return cache(lambda name: mapping_of(folder, drafted(name), sample(name).mapping.operation.name))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_draft_is_for_the_operation_of_its_file_and_lint_finds_marked_places_alone(tmp_path, name):
    text = drafted(name)
    assert re.search(r"^target: (\S+)", text, re.MULTILINE)[1] == sample(name).mapping.operation.name
    assert mistakes(tmp_path, text) == []
    assert list(read_yaml(tmp_path / "draft.yaml").findings) == []
    lines, found = text.splitlines(), {finding.line for finding in lint(tmp_path / "draft.yaml", Assumptions())}
    first = lines.index("constants:") if "constants:" in lines else len(lines)
    marked = {number for number, line in enumerate(lines, 1) if number > first and f": null   # {FILL_IN}" in line}
    # as long as a column is wrong, nothing is said of the payload
    assert "the meaning of the codes" in text or marked <= found
    heads = re.findall(r"^# (FILL IN|CHECK) marks \((\d+)\)", text, re.MULTILINE)
    assert {mark: int(count) for mark, count in heads} == marks_in(text), "the head counts what the command says"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_draft_with_its_marks_filled_in_translates_most_of_the_file(completed, name):
    documents = translated(completed(name), sample(name).files)
    usable = sum(document.usable for document in documents)
    assert usable >= 0.5 * len(documents), [str(one) for found in documents for one in found.problems][:10]


def test_the_share_of_columns_suggested_as_the_shipped_mappings_have_them(completed):
    found = {}
    for name in SAMPLES:
        own = fields_of(completed(name))
        for label, paths in fields_of(sample(name).mapping).items():
            found[f"{name}: {label}"] = own.get(label, set()) & paths, paths, own.get(label)
    assert sum(bool(hit) for hit, _, _ in found.values()) >= FLOOR * len(found), found


@pytest.mark.parametrize("language", LANGUAGES)
def test_headings_are_understood_in(tmp_path, language):
    columns = made(language, f"{FLAT} volume stack contact phone")
    paths = Layout("orders", (), (Sheet("orders.csv", columns, lang=language),)).write(tmp_path)
    text = write_draft(draft(observe(paths, Settings()), "order.create"))
    found = fields_of(mapping_of(tmp_path, text))
    wrong = {
        one.heading: found.get(one.heading) for one in columns if not found.get(one.heading, set()) & {*one.fields}
    }
    assert (wrong, len(columns)) == ({}, 24)


# ---- any table ----

MOMENTS = "moments"  # cells of a workbook
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
    "shared": ["01067 Dresden", "1110 Wien", ""],
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
    MOMENTS: [datetime(2026, 3, 28, 8), datetime(2026, 3, 29), "2026-03-27 08:00", "TBC", 1, 2.5, ""],
}
LABELS = [
    "Mode", "TZ", "Picked up", "Departed", "Delivered", "Booked", "ETA", "Ladedatum", "Ladezeit", "Liefertermin", "Liefern bis", "Empfänger",
    "Consignee", "PLZ", "PLZ/Ort", "Ort", "Land", "Loading city", "Pickup country", "VPE", "Type of packaging", "Artikel", "Item 1", "Qty 1",
    "Item 2", "Qty 2", "Item {set}", "Gewicht (kg)", "Weight", "Weight class", "Volume (ft3)", "Length", "Width", "Height", "Stackable", "ADR",
    "Anzahl", "Warenwert EUR", "Currency", "Status", "Action", "Date", "Reference", "Carrier 1", "Carrier 2", "Carrier id", "Decision", "Quote",
    "Email consent", "Contact", "Phone", "E-mail", "Freight payer", "Total weight", "Number of packages", "null", "12", "a: b", "Qty '#'", "in",
]  # fmt: skip
COLUMNS = st.lists(
    st.tuples(st.sampled_from(LABELS), st.sampled_from(sorted(CELLS))),
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
SETS = [("Item 1", "place"), ("Qty 1", "whole"), ("Item 2", "place"), ("Qty 2", "whole")]
EVENTS = [("Picked up", "either day"), ("Delivered", "named day"), ("Action", "action")]
HERE = Settings(reading={"process": "none"})  # no process for each of many small files


@settings(
    max_examples=24,
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
@example(SETS, ("Order no", "each its own"), None, None)
@example([("Consignee", "place"), ("Artikel", "odd"), ("Anzahl", "whole")], ("Order no", "once"), "order.create", None)
@example(EVENTS, ("Order no", "some twice"), None, None)
@example([("Picked up", MOMENTS), ("Reference", MOMENTS)], ("Order no", "each its own"), "order.update", None)
def test_a_draft_of_any_table_loads_and_accounts_for_every_row(tmp_path, columns, key, target, data):
    """In: headings over cells of any kind. Out: nothing that lint finds but for the marks, and nothing at all once they are filled in; each
    row in a record or left out.
    """
    kinds = [kind for _, kind in columns]
    rows = [[key[0], *(label for label, _ in columns), "Remarks"]]
    for number, own in enumerate(KEYS[key[1]]):
        cells = [
            CELLS[kind][number % len(CELLS[kind])] if data is None else data.draw(st.sampled_from(CELLS[kind]))
            for kind in kinds
        ]
        rows.append([own, *cells, f"row {number}"])
    (path,) = written(tmp_path, rows if MOMENTS in kinds else "\n".join(";".join(map(quoted, row)) for row in rows))
    try:
        made = draft(observe([path], HERE), target)
    except FileRefused:
        return  # nothing that looks like headings
    text = write_draft(made)
    assert mistakes(tmp_path, text) == [], text
    mapping = mapping_of(tmp_path, text, made.operation.name)
    (layouts,) = mapping.layouts.values()
    found = set()
    for one in translate(mapping, open_tables(path, path.name, layouts, HERE), now=NOW):
        found |= {one.row.number} if isinstance(one, Ignored) else {row.number for row in one.rows}
    assert found == set(range(2, 14)), text


def quoted(text):
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if any(mark in text for mark in ';"\n') else text


# ---- the command ----


def test_the_command_writes_a_draft_once(tmp_path):
    words = ("mapping", "suggest", INBOX / "quotes_carrier7.csv", "--out", "quotes.yaml")
    first = loadsheet(tmp_path, *words)
    assert (first.returncode, " marked FILL IN, " in first.stderr) == (0, True)
    assert "target: tender.quote" in (tmp_path / "quotes.yaml").read_text(encoding="utf-8")
    (tmp_path / "quotes.yaml").write_text("mine", encoding="utf-8")
    again = loadsheet(tmp_path, *words)
    assert again.returncode == 2
    assert "already exists" in again.stderr
    assert "choose another --out" in again.stderr
    assert (tmp_path / "quotes.yaml").read_text(encoding="utf-8") == "mine"


def test_the_command_takes_an_operation_or_a_subject(tmp_path):
    words = ("mapping", "suggest", INBOX / "order_deletes.csv", "--target")
    assert "order_id: {col: order}" in loadsheet(tmp_path, *words, "order.delete").stdout
    assert re.search("^target: tender", loadsheet(tmp_path, *words, "tender").stdout, re.MULTILINE)
    wrong = loadsheet(tmp_path, *words, "order.remove")
    assert wrong.returncode == 2
    assert "order.remove is none of tender, order, " in wrong.stderr
    assert "order.delete" in wrong.stderr


def test_the_command_prints_a_draft_as_json(tmp_path):
    written(tmp_path, {"orders.csv": orders("Weight class;A")})
    done = loadsheet(tmp_path, "mapping", "suggest", "orders.csv", "--json")
    found = json.loads(done.stdout)
    columns = {column["label"]: column for column in found["columns"]}
    assert (done.returncode, found["target"]) == (0, "order.create")
    assert (columns["Order no"]["fields"], columns["Order no"]["is_key"]) == (["order_id"], True)
    assert (columns["Weight class"]["fields"], columns["Weight class"]["used"]) == ([], False)
    assert found["draft"].startswith("# A draft from orders.csv")


def test_a_file_that_is_not_read_is_named_on_stderr_and_in_the_draft(tmp_path):
    written(tmp_path, {"orders.csv": orders(keys=3), "packages.csv": "Order no;Type\nB;EUP\nC;EUP\nD;EUP\n"})
    done = loadsheet(tmp_path, "mapping", "suggest", "orders.csv", "packages.csv")
    said = "not read: packages.csv: both have Order no, but too few of its values match"
    assert (said in done.stderr, said in done.stdout) == (True, True)


NO_TABLES = {
    "a form": "Order no:;A-1\nConsignee:;Acme GmbH\nStreet:;Prager Str. 1\nCity:;Dresden\nCountry:;Deutschland\nWeight:;12\n",
    "a form with two fields in a line": "Abholauftrag;;;\nName:;;Datum:;\n;;;\nGrund der Abholung;;;\nAbholadresse:;Ufer 3;;\nUnterschrift:;;;\n",
    "a form with words that nobody knows": "Zyxo:;City\nFoobar:;Ulm\nQuux:;Bonn\nBlip:;Kiel\nWurg:;Wien\n",
    "no headings": orders(keys=6).partition("\n")[2],
    "words without headings": "Acme;Dresden;Pump\nBeta;Ulm;Valve\nAcme;Ulm;Pump\n",
    "words of headings in the cells": "A1;Pickup;Delivery;Ulm;10\nA2;Pickup;Delivery;Ulm;12\nA3;Pickup;Delivery;Bonn;14\n",
    "a letter": "Dear Sirs\nplease pick up three pallets tomorrow\nKind regards\n",
}


@pytest.mark.parametrize("text", NO_TABLES.values(), ids=NO_TABLES)
def test_a_sheet_without_a_table_is_refused(tmp_path, text):
    written(tmp_path, text)
    done = loadsheet(tmp_path, "mapping", "suggest", "sheet.csv")
    assert (done.returncode, done.stdout) == (65, "")
    assert "no row looks like headings above a table" in done.stderr


def test_unknown_headings_above_texts_with_digits_are_found(tmp_path):
    """Most columns hold texts, and no word of the headings is known."""
    lines = "".join(f"ORD-24-{at};甲社;店{at};김수;010-12{at};가로 {at};상품;{at};빠른\n" for at in range(3))
    written(tmp_path, f"주문번호;화주사;판매채널;수취인;연락처;주소;상품명;수량;배송메모\n{lines}")
    done = loadsheet(tmp_path, "mapping", "suggest", "sheet.csv")
    assert done.returncode == 0, done.stderr
    assert "{label: 주문번호, type: text, required: true, key: true}" in done.stdout


WITHOUT_ROWS = {
    "Delivery list\n\nOrder no;Consignee;Street;City;Weight (kg)\n": "there are no rows below the headings (fill in a few rows as they will come)",
    "Order no,City,Weight kg,Remark\nA-1,Hull,3\nA-2,York,4\n": "no row below the headings has a cell for each of them (write every cell of a row",
}


@pytest.mark.parametrize(("text", "said"), WITHOUT_ROWS.items(), ids=["a template", "a last cell that no row has"])
def test_headings_without_rows_that_can_be_read_are_refused_as_such(tmp_path, text, said):
    written(tmp_path, text)
    done = loadsheet(tmp_path, "mapping", "suggest", "sheet.csv")
    assert (done.returncode, done.stdout) == (65, "")
    assert said in done.stderr


@pytest.mark.parametrize("mark", [",", "."])
def test_columns_of_a_fixed_width_are_refused_as_such(tmp_path, mark):
    rows = [("Order", "City", "Weight"), ("A-1", "Bad Homburg", f"12{mark}5"), ("A-2", "Ulm", "7")]
    written(tmp_path, "".join(f"{order:<8}{city:<20}{weight:>8}\n" for order, city, weight in rows))
    done = loadsheet(tmp_path, "mapping", "suggest", "sheet.csv")
    assert (done.returncode, done.stdout) == (65, "")
    assert "its columns are separated by spaces alone (save it as CSV or .xlsx)" in done.stderr


# ---- the assignment of columns to fields has the highest sum of scores ----

SCORES = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(10, 13)), st.integers(1, 100).map(lambda number: number / 64), max_size=12
)


@given(scores=SCORES)
def test_no_other_assignment_has_a_higher_sum(scores):
    """In: scores of up to four columns for up to four fields. Out: pairs that have scores, each side once, with the sum of the best try."""
    pairs = best_pairs(scores)
    assert len(set(pairs.values())) == len(pairs)
    goals = [*range(10, 14), *[None] * 4]
    best = max(sum(scores.get(pair, 0) for pair in enumerate(chosen)) for chosen in set(permutations(goals, 4)))
    assert sum(scores[pair] for pair in pairs.items()) == best


def test_a_column_gives_way_where_another_has_no_choice():
    assert best_pairs({(0, 0): 1.0, (0, 1): 0.75, (1, 0): 0.5}) == {0: 1, 1: 0}
