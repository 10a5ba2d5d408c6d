"""The shipper's workbook: what is filled into it comes out of the mapping as it was meant."""

import json
import re
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import openpyxl
import pytest
from command_in_process import loadsheet
from shipped_samples import NOW, OF_ONE_KIND, ROOT, shipped_mapping

from loadsheet.contract import Assumptions
from loadsheet.errors import MappingError
from loadsheet.fix_files import without_totals
from loadsheet.languages import known_language, words_in
from loadsheet.mapping.compile import load
from loadsheet.mapping.texts import example_of
from loadsheet.mapping_tools.comparison import translate_files
from loadsheet.mapping_tools.template import template_sheets, write_template
from loadsheet.reading import open_tables
from loadsheet.settings import Settings

ASSUMED = Assumptions()

MAPPING = """\
mapping: everything
version: 1
target: order.update
source:
  files: ["everything*.xlsx"]
  locale: de_DE
  dates: ["%d.%m.%Y %H:%M"]
  timezone: UTC
columns:
  order:  {label: Auftrag, type: text, required: true, key: true}
  pickup: {label: Abholung, type: datetime, required: true}
  zip:    {label: PLZ, type: text, required: true}
  mode:   {label: Weg, type: text, one_of: {Strasse: ROAD, Luft: AIR}, required: true}
  kind:   {label: Verpackung, type: text, lookup: kinds, required: true}
  item:   {label: Artikel, type: text, required: true}
  qty:    {label: Anzahl, type: integer, min: 1, max: 999, required: true}
  weight: {label: Gewicht, type: quantity, unit: kg, required: true}
  value:  {label: Wert, type: decimal}
  land:   {label: Land, type: country, required: true}
  money:  {label: Währung, type: currency}
  danger: {label: Gefahrgut, type: yesno, yes: [ja], no: [nein], required: true}
lookups:
  kinds: {file: kinds.csv, key: code, value: meaning}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  pickup_startdatetime: {col: pickup}
  delivery_pincode: {col: zip}
  delivery_country: {col: land}
  transport_mode: {col: mode}
  goods_value: {col: value, unless_blank: true}
  currency: {col: money, unless_blank: true}
  packages:
    each: rows
    item:
      package_type: {col: kind}
      item_name: {col: item}
      quantity: {col: qty}
      weight: {col: weight}
      hazardous: {col: danger}
"""
KINDS = {"EUP": "Pallet/Skid", "KRT": "Carton/Piece"}


def loaded(folder, text=MAPPING, name="everything"):
    """The mapping of this text, with the code table of `MAPPING` beside it."""
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "kinds.csv").write_text("code,meaning\n" + "".join(f"{code},{what}\n" for code, what in KINDS.items()))
    return load(path, ASSUMED)


def template_of(mapping, folder):
    """The path of the mapping's template."""
    path = folder / f"{mapping.name}-1.xlsx"
    write_template(mapping, mapping.main_role, path)
    return path


def fill_in(path, row):
    """The row typed into the first sheet of a template, each value as a person's program would keep it."""
    book = openpyxl.load_workbook(path)
    sheet = book.worksheets[0]
    places = {str(cell.value).rstrip(" *"): cell.column for cell in sheet[1]}
    for label, value in row.items():
        cell = sheet.cell(2, places[label])
        cell.value = value
        if isinstance(value, str):
            cell.data_type = "s"
    book.save(path)


def decoded(payload):
    return json.loads(payload, parse_float=Decimal)


ONE = {
    "Auftrag": "00012", "Abholung": datetime(2026, 3, 24, 8, 0), "PLZ": "01067", "Weg": "Luft", "Verpackung": "KRT",
    "Artikel": "=1+1", "Anzahl": 3, "Gewicht": Decimal("12.5"), "Wert": None, "Land": "NO", "Währung": "TRY", "Gefahrgut": "ja",
}  # fmt: skip
SENT = {
    "order_id": "00012", "sender_id": "A", "receiver_id": "B", "pickup_startdatetime": "2026-03-24 08:00:00",
    "delivery_pincode": "01067", "delivery_country": "NO", "transport_mode": "AIR", "currency": "TRY",
    "packages": [
        {"package_type": "Carton/Piece", "item_name": "=1+1", "quantity": 3, "weight": Decimal("12.5"), "hazardous": "yes"},
    ],
}  # fmt: skip


def test_the_real_commands_write_a_template_and_read_it_back(tmp_path):
    (tmp_path / "mappings").mkdir()
    loaded(tmp_path / "mappings")
    done = loadsheet(tmp_path, "mapping", "template", "everything", "--out", "everything-1.xlsx")
    assert (done.returncode, done.stdout) == (0, "everything-1.xlsx\n"), done.stderr
    fill_in(tmp_path / "everything-1.xlsx", ONE)
    told = loadsheet(tmp_path, "check", "--payloads", "everything-1.xlsx")
    assert told.returncode == 0, told.stderr
    (line,) = told.stdout.splitlines()
    assert decoded(line)["payload"] == SENT


@pytest.mark.parametrize("name", OF_ONE_KIND)
def test_an_untouched_template_is_found_and_holds_no_row_and_example_rows_differ(tmp_path, name):
    mapping = shipped_mapping(name)
    for role, layouts in mapping.layouts.items():
        out = tmp_path / f"{role}.xlsx"
        write_template(mapping, role, out)
        for table in open_tables(out, out.name, layouts, Settings()).values():
            assert list(table.rows()) == []
            wanted = next(layout for layout in layouts if layout.name == table.name)
            assert set(table.columns) == {column.name for column in wanted.columns}
        for form in template_sheets(mapping, role):
            for heading in form.headings:
                is_code = str(heading.example) in (*heading.codes, "") or heading.column.spec.type == "country"
                assert not heading.codes or is_code
                assert isinstance(heading.example, time | date | Decimal | int | str)
            rows = list(zip(*(heading.examples for heading in form.headings), strict=True))
            assert len(set(rows)) == len(rows) in (1, 2), form.title


def test_rows_of_several_kinds_get_no_template():
    mapping = shipped_mapping("kastell-records")
    with pytest.raises(MappingError, match="several kinds"):
        template_sheets(mapping, mapping.main_role)


DATED = """\
mapping: dated
version: 1
target: order.update
source:
  files: ["dated*.xlsx"]
  locale: de_DE
  dates: ["%d.%m.%Y %H:%M", "%d.%m.%Y"]
  timezone: UTC
columns:
  order:   {label: Order, type: text, required: true, key: true}
  pickup:  {label: Pickup, type: date, required: true}
  deliver: {label: Delivery, type: datetime, required: true}
  zip_city: {label: Zip and city, type: text, required: true, split: '(?P<zip>[0-9]{4,5}) +(?P<city>.+)'}
  zip:     {part_of: zip_city}
  city:    {part_of: zip_city}
  size:    {label: Size, type: text, required: true, split: '(?P<long>\\d+)x(?P<wide>\\d+) cm'}
  long:    {part_of: size, type: decimal}
  wide:    {part_of: size, type: decimal}
  lane:    {label: Lane, type: text, required: true, pattern: '[A-Z]{2}-[A-Z]{2}'}
  odd:     {label: Odd, type: text, required: true, split: '(?P<when>..[^a-zA-Z0-9 ./_-])'}
  when:    {part_of: odd, type: integer}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  pickup_startdatetime: {col: pickup}
  delivery_startdatetime: {col: deliver}
  delivery_pincode: {col: zip}
  delivery_city: {col: city}
  delivery_address1: {col: lane}
"""


def test_a_moment_whose_formats_have_no_clock_is_described_as_a_date(tmp_path):
    book = openpyxl.load_workbook(template_of(loaded(tmp_path, DATED.replace('"%d.%m.%Y %H:%M", ', "")), tmp_path))
    guide = {row[1]: row[3] for row in book["Guide"].iter_rows(values_only=True)}
    assert guide["Delivery"] == "a date, such as 24.03.2026"


def test_the_example_is_a_row_that_the_mapping_takes(tmp_path):
    """In: a mapping with dates of both kinds and columns of several parts. Out: its example, copied into the sheet, translates."""
    without = "\n".join(line for line in DATED.splitlines() if " odd: " not in line and " when: " not in line)
    mapping = loaded(tmp_path, without)
    out = template_of(mapping, tmp_path)
    book = openpyxl.load_workbook(out)
    cells = [cell.value for cell in book["Beispiel"][2]]
    assert cells[1:] == [datetime(2026, 3, 2), datetime(2026, 3, 5, 7), "1234 Abc", "123x123 cm", "AB-AB"]
    for position, value in enumerate(cells, 1):
        book["Daten"].cell(2, position, value)
    book.save(out)
    (document,) = translate_files(mapping, [out], Settings(), now=NOW).documents
    assert [str(problem) for problem in document.problems] == []
    guide = {row[1]: row for row in book["Guide"].iter_rows(values_only=True)}
    assert guide["Pickup"][3] == "a date, such as 24.03.2026"
    assert guide["Delivery"][3] == "a date and time, such as 24.03.2026 08:00"
    assert guide["Zip and city"][3:6:2] == ("a text, made of zip, city", "1234 Abc")
    whole = openpyxl.load_workbook(template_of(loaded(tmp_path, DATED), tmp_path))["Guide"]
    examples = {row[1]: row[5] for row in whole.iter_rows(values_only=True)}
    assert examples["Odd"] == "no example: ask the author of this workbook"


@pytest.mark.parametrize(
    ("locale", "title", "head", "number"),
    [
        ("en_GB", "Example", "e.g. Gewicht *", "1480.5"),
        ("de_DE", "Beispiel", "z. B. Gewicht *", "1480,5"),
        ("fr_FR", "Exemple", "p. ex. Gewicht *", "1480,5"),
        ("es_ES", "Ejemplo", "p. ej. Gewicht *", "1480,5"),
    ],
)
def test_the_example_is_in_the_language_and_the_notation_of_the_mapping(tmp_path, locale, title, head, number):
    mapping = loaded(tmp_path, MAPPING.replace("locale: de_DE", f"locale: {locale}"))
    book = openpyxl.load_workbook(template_of(mapping, tmp_path))
    assert head in [cell.value for cell in book[title][1]]
    assert book[title].column_dimensions["C"].number_format == "@"  # of the postcode, also below the example
    words = words_in(known_language(mapping.language))
    told = {row[1]: row[5] for row in book[words.say("Guide")].iter_rows(values_only=True)}
    assert told["Gewicht"] == number
    column = next(one for one in mapping.plan.tables[0].columns if one.name == "weight")
    assert column.convert(number) == Decimal("1480.5")
    rules = [row[0] for row in book[words.say("Guide")].iter_rows(values_only=True) if row[0]]
    assert any(title in rule for rule in rules)
    assert any("everything*.xlsx" in rule for rule in rules)


def test_the_workbook_has_a_name_that_the_mapping_takes_if_it_takes_workbooks(tmp_path):
    named = {
        '["everything*.xlsx"]': "everything.xlsx",
        '["all_*.csv", "all_*.xlsx"]': "all_.xlsx",
        '["all_{day}.xlsx"]': "everything.xlsx",
        '["all_*.csv"]': "everything.xlsx",
    }
    for files, name in named.items():
        loaded(tmp_path, MAPPING.replace('["everything*.xlsx"]', files))
        done = loadsheet(tmp_path, "mapping", "template", "everything.yaml")
        assert (done.returncode, done.stdout) == (0, f"{name}\n"), (files, done.stderr)
        (tmp_path / name).unlink()


PARTS_OF_NAMES = {"depot": "AAR", "service": "express", "day": "20260309", "batch": "7", "site": "ams"}


def filled_with_its_examples(mapping, role, folder):
    """The template of a role under a name that the mapping takes, with its example rows in the sheets to fill in."""
    pattern = mapping.files[0] if role == mapping.main_role else mapping.companions[role]
    name = re.sub(r"\{(\w+)\}|\*+", lambda found: PARTS_OF_NAMES.get(found[1] or "", "x"), pattern)
    path = folder / f"{role}.xlsx"
    write_template(mapping, role, path)
    book, sheets = openpyxl.load_workbook(path), template_sheets(mapping, role)
    title = words_in(known_language(mapping.language) or "en").say("Example")
    for form in sheets:
        examples = book[title if len(sheets) == 1 else f"{title} {form.title}"[:31]]
        for number, line in enumerate(examples.iter_rows(min_row=2), start=form.header_row + 1):
            for cell in line:
                book[form.title].cell(number, cell.column, cell.value).number_format = cell.number_format
    book.save(path)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return path.rename(folder / name)


COOKBOOK = sorted((ROOT / "docs" / "cookbook").glob("*/mapping.yaml"))


@pytest.mark.parametrize(
    "source", [*OF_ONE_KIND, *COOKBOOK], ids=lambda one: one if isinstance(one, str) else one.parent.name
)
def test_the_examples_of_every_mapping_translate_without_problems(tmp_path, source):
    """Without totals: a template has no row for them."""
    mapping = without_totals(shipped_mapping(source) if isinstance(source, str) else load(source, ASSUMED))
    if any(table.kind is not None for table in mapping.plan.tables):
        return  # rows of several kinds have no template
    for language in ("en", "de", "fr", "es") if isinstance(source, str) else (mapping.language,):
        mapping = replace(mapping, language=language)
        paths = [filled_with_its_examples(mapping, role, tmp_path) for role in mapping.layouts]
        documents = translate_files(mapping, paths, Settings(), now=NOW).documents
        assert documents
        assert [str(problem) for document in documents for problem in document.problems] == []


def examples_of(name):
    """The examples of a shipped mapping by the headings of each sheet."""
    sheets = template_sheets(shipped_mapping(name), "main")
    return [{heading.text: heading.examples for heading in form.headings} for form in sheets]


def test_the_rows_of_an_example_are_packages_of_one_order_or_orders_to_two_places():
    """In: packages in sets of columns, cartons on pallets, and orders in rows. Out: what a real shipment would say."""
    (sets,) = examples_of("brightwater-pairs")
    assert [sets[f"Item {number}"] for number in (1, 2, 3)] == [
        ("Centrifugal pumps CP-40", "Spare seals CP-40"),
        ("Spare seals CP-40", ""),
        ("", ""),
    ]
    assert [sheet.get("Palet") for sheet in examples_of("terracotta-nested")] == [None, ("P-1", "P-2"), ("P-1", "P-2")]
    (rows,) = examples_of("lindqvist-changes")
    assert [rows[label][1] for label in ("Order", "Postnr", "Ort", "Land")] == ["SO-2026-0418", "69003", "Lyon", "FR"]
    assert rows["Leverans"][1] - rows["Leverans"][0] == timedelta(days=1)


def test_a_text_like_a_pattern():
    examples = {
        "[0-9]{5}": "12345", "A-[0-9]{3}|B": "A-123", r"(?P<a>\w+)/(?P<b>[^/]*)": "123/123", r"(?i)lot *\d+": "lot123",
        r"\pL+": "", "(ab){2}c?": "abab", "(": "",
    }  # fmt: skip
    assert {pattern: example_of(pattern) for pattern in examples} == examples


# ---- where rules begin and end: one case on each side ----

ONE_COLUMN = """\
mapping: orders
version: 1
target: order.update
source: {{files: ["*.xlsx"], tables: {{rows: {{sheet: {sheet}}}}}, locale: de_DE, timezone: UTC, dates: ["%d.%m.%Y"]}}
columns:
  order: {{label: Order, required: true, key: true}}
  value: {{label: Postcode, {column}}}
payload:
  order_id: {{col: order}}
  sender_id: {{value: A}}
  receiver_id: {{value: B}}
"""


def one_column(folder, column="type: text", sheet="Orders"):
    return loaded(folder, ONE_COLUMN.format(column=column, sheet=sheet))


EXAMPLES = {  # the settings of a column under the heading Postcode: its example
    "type: text": "Postcode", "type: text, example: '04109'": "04109", "type: text, one_of: [B, A]": "B",
    "type: text, pad_left: {to: 4, with: '0'}": "Postcode", "type: text, pad_left: {to: 5, with: '0'}": "01067",
    "type: text, pad_left: {to: 7, with: '0'}": "0001067",
    "type: text, max_length: 4": "Post", "type: text, max_length: 7": "Postcod", "type: text, max_length: 8": "Postcode",
    "type: integer": Decimal(10), "type: integer, min: 11": Decimal(11), "type: integer, min: 1, max: 9": Decimal(9),
    "type: decimal": Decimal("12.5"), "type: decimal, max: 12.4": Decimal("12.4"),
    "type: country": "DE", "type: currency": "EUR", "type: timezone": "Europe/Berlin",
    "type: time": time(10), "type: date": date(2026, 3, 24), "type: datetime": datetime(2026, 3, 24, 10),
}  # fmt: skip


@pytest.mark.parametrize("column", EXAMPLES)
def test_the_example_of_a_column_follows_from_its_settings(tmp_path, column):
    mapping = one_column(tmp_path, column)
    (form,) = template_sheets(mapping, mapping.main_role)
    assert form.headings[1].example == EXAMPLES[column]


@pytest.mark.parametrize(("length", "title"), [(30, 30), (31, 31), (32, 31), (60, 31)])
def test_the_title_of_a_sheet_has_31_characters_at_most(tmp_path, length, title):
    mapping = one_column(tmp_path, sheet="x" * length)
    book = openpyxl.load_workbook(template_of(mapping, tmp_path))
    assert book.sheetnames[0] == "x" * title


def rules_of(mapping, folder):
    """The rules for the cells of the first sheet of a template."""
    return openpyxl.load_workbook(template_of(mapping, folder)).worksheets[0].data_validations.dataValidation


def test_bounds_of_a_column_are_bounds_of_its_cells(tmp_path):
    limits = {"both": "min: 1, max: 9", "least": "min: 0", "most": "max: 9", "zero": "max: 0"}
    columns = "\n".join(f"  {name}: {{label: {name}, type: integer, {said}}}" for name, said in limits.items())
    rules = rules_of(one_column(tmp_path, f"type: text}}\n{columns[:-1]}"), tmp_path)
    assert [(rule.type, rule.operator, rule.formula1, rule.formula2) for rule in rules if rule.type] == [
        ("whole", None, "1.0", "9.0"),  # between, as nothing else is said
        ("whole", "greaterThanOrEqual", "0.0", None),
        ("whole", "lessThanOrEqual", "9.0", None),
        ("whole", "lessThanOrEqual", "0.0", None),
    ]
    assert next(rule for rule in rules if rule.type).prompt.startswith("eine ganze Zahl, mindestens 1, höchstens 9")


def test_a_long_list_of_codes_still_gets_its_list(tmp_path):
    codes = ", ".join(f"CODE-{number:04d}" for number in range(200))
    assert "Lists!$A$1:$A$200" in [
        rule.formula1 for rule in rules_of(one_column(tmp_path, f"one_of: [{codes}]"), tmp_path)
    ]
