"""The contract says what the interface specification says, field by field, wherever the specification lies beside the checkout."""

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from loadsheet.contract import BY_NAME, DATE_SHAPES, OPERATIONS, FieldKind, Record, When, records, register

SPEC_FILE = Path(__file__).parents[3] / "shared" / "spec" / "interface.md"

if not SPEC_FILE.exists() and not os.environ.get("CI"):
    pytest.skip("the interface specification does not lie beside this checkout", allow_module_level=True)

SPEC = SPEC_FILE.read_text(encoding="utf-8")

KINDS = {
    "String": {FieldKind.STRING, FieldKind.FLAG, FieldKind.OFFSET_HOURS},
    "String/Numeric": {FieldKind.STRING_OR_NUMERIC, FieldKind.OFFSET_MINUTES},
    "Numeric": {FieldKind.NUMERIC},
    "Timezone": {FieldKind.TIMEZONE},
    "Datetime": {FieldKind.DATETIME, FieldKind.DATETIME_T},
    "String (ISO 8601)": {FieldKind.DATETIME_ISO},
    "Date": {FieldKind.DATE},
    "Time": {FieldKind.TIME},
    "Object": {FieldKind.OBJECT},
}
WHENS = {
    "yes": {When.ALWAYS},
    "no": {When.OPTIONAL},
    "required": {When.ALWAYS, When.ON_CREATE},
    "optional": {When.OPTIONAL},
    "per package rules": {When.OPTIONAL},
}
TABLES = [
    ("Tender", records.TENDER),
    ("Order", records.ORDER),
    ("Carrier quote (request record)", records.QUOTE),
    ("Order status update (request record)", records.ORDER_STATUS),
]
PROSE = [  # records that the specification gives in a sentence of names
    ("InnerCargo (inside an order package)", records.INNER_CARGO),
    ("Reference (`tender_references` and `order_references`)", records.REFERENCE),
    ("Carrier (`involved_carriers`)", records.CARRIER),
    ("Involved party (`involved_parties`, orders)", records.INVOLVED_PARTY),
]
ANSWER_WORDS = {  # back-ticked words that are not fields of a request record
    "Authorization",
    "Date",
    "Time",
    "data",
}


def section(heading):
    return SPEC.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]


def table(heading):
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    for line in lines[2:]:  # after the header and its rule
        names, kind, required, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        yield from ((name, kind, required) for name in names.split(", "))


def disagreements(heading, record: Record):
    stated = {name: (kind, required) for name, kind, required in table(heading)}
    declared = {field.name: field for field in record.fields if field.when is not When.LISTED}
    yield from stated.keys() ^ declared.keys()
    for name in stated.keys() & declared.keys():
        kind, required = stated[name]
        allowed = {FieldKind.ARRAY} if kind.startswith("Array of") else KINDS[kind]
        if declared[name].kind not in allowed or declared[name].when not in WHENS[required]:
            yield name


@pytest.mark.parametrize(("heading", "record"), TABLES)
def test_the_contract_says_what_the_specification_says(heading, record):
    assert list(disagreements(heading, record)) == []


def test_the_check_finds_a_changed_name_a_changed_kind_and_a_dropped_requirement():
    fields = records.TENDER.fields
    for wrong in (
        replace(fields[0], name="tenderid"),
        replace(fields[0], kind=FieldKind.NUMERIC),
        replace(fields[0], when=When.OPTIONAL),
    ):
        assert list(disagreements("Tender", replace(records.TENDER, fields=(wrong, *fields[1:]))))


def test_packages_of_tenders_and_orders_together_have_the_stated_fields():
    both = (*records.TENDER_PACKAGE.fields, *records.ORDER_PACKAGE.fields)
    together = replace(records.ORDER_PACKAGE, fields=tuple({field.name: field for field in both}.values()))
    assert list(disagreements("Package (in a tender or an order)", together)) == []


@pytest.mark.parametrize(("heading", "record"), PROSE)
def test_records_given_in_prose_have_the_named_fields(heading, record):
    named = re.findall(r"`(\w+)`", section(heading))
    assert named == [field.name for field in record.fields]
    assert all(field.when is When.OPTIONAL for field in record.fields)


def test_the_quote_confirmation_is_the_quote_without_services_but_with_the_decision():
    quote = {field.name for field in records.QUOTE.fields}
    confirmation = {field.name: field for field in records.CONFIRMATION.fields}
    assert confirmation.keys() == quote - {"additional_services"} | {"status"}
    assert confirmation["status"].when is When.ALWAYS


def test_fields_of_the_tender_listing_only_are_the_named_ones():
    sentence = SPEC.split("Fields that appear only in the tender listing response:", 1)[1].split("(all strings", 1)[0]
    named = re.findall(r"`(\w+)`", sentence)
    assert named == [field.name for field in records.TENDER.fields if field.when is When.LISTED]


def test_the_eleven_operations_have_the_stated_methods_and_paths():
    always = [field.name for field in BY_NAME["order.update"].record.fields if field.when is When.ALWAYS]
    assert always == ["order_id", "sender_id", "receiver_id"]
    rows = re.findall(r"^\| [A-Z][\w ]+ \| (GET|POST) \| (\S+) \|$", SPEC, re.MULTILINE)
    assert rows == [(operation.method, operation.path) for operation in OPERATIONS]


def test_every_back_ticked_name_of_the_resources_is_declared():
    resources = SPEC.split("## Resources and their fields", 1)[1].split("## States and transitions", 1)[0]
    stated = set(re.findall(r"`([A-Za-z_]+)`", resources))
    declared = {
        name
        for operation in OPERATIONS
        for _, field in operation.record.walk()
        for name in (field.name, *field.spellings)
    }
    assert stated - declared - ANSWER_WORDS == set()
    assert declared - {"status-description"} <= set(re.findall(r"[A-Za-z_]+[12]?", SPEC))


def test_each_date_shape_stands_in_the_specification():
    words = {
        FieldKind.DATETIME: "`YYYY-MM-DD HH:MM:SS`",
        FieldKind.DATETIME_T: "`YYYY-MM-DDTHH:MM:SS`",
        FieldKind.DATETIME_ISO: "`YYYY-MM-DDTHH:MM:SSZ`",
        FieldKind.DATE: "`YYYY-MM-DD`",
        FieldKind.TIME: "`HH:MM:SS`",
    }
    assert words.keys() == DATE_SHAPES.keys()
    assert [word for word in words.values() if word not in SPEC] == []


def test_every_open_point_of_the_specification_has_an_entry_in_the_register():
    entries = Counter(section for entry in register() for section in entry.section.split(", "))
    heading = ""
    stated: Counter[str] = Counter()
    for line in SPEC.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        stated[heading] += len(re.findall(r"not shown|not stated", line))
    assert sum(stated.values()) >= 16
    for section_name, count in stated.items():
        assert entries[section_name] >= count, section_name
