"""Any valid record of the interface, typed into the template of a mapping that covers all of it, comes out as it went in.

The mapping is made from the contract: a column for every field, a sheet for every list and for every list within a list. What a
sheet cannot tell apart is taken as equal: lists and objects without content are left out, a number has one spelling, and hyphens that look
alike (U+2010, U+2011) are ordinary ones.
"""

import json
import unicodedata
from datetime import datetime
from decimal import Decimal

import openpyxl
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shipped_samples import NOW

from loadsheet.contract import BY_NAME, DATE_SHAPES, WRITES, Assumptions, FieldKind, NumberForm, When, plain_digits
from loadsheet.contract.kinds import flag_meaning
from loadsheet.mapping.compile import load
from loadsheet.mapping.notations import canonical
from loadsheet.mapping_tools.comparison import translate_files
from loadsheet.mapping_tools.template import write_template
from loadsheet.settings import Settings

ASSUMED = Assumptions()
TYPES = {
    FieldKind.NUMERIC: "decimal",
    FieldKind.FLAG: "yesno",
    FieldKind.TIMEZONE: "timezone",
    FieldKind.DATE: "date",
    FieldKind.TIME: "time",
    **dict.fromkeys((FieldKind.DATETIME, FieldKind.DATETIME_T, FieldKind.DATETIME_ISO), "datetime"),
}
HEAD = """\
mapping: whole
version: 1
target: {target}
source:
  files: ["whole*.xlsx"]
  locale: en_GB
  timezone: UTC
  tables:
"""
WARNED = {"K502", "C305", "C323"}  # words, rates and changes of random records
SHORT = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


class Whole:
    """A mapping for all of a record, and how a record is typed into the sheets that it reads."""

    def __init__(self, operation):
        self.operation = operation
        self.tables = {"main": {"nr": "text"}}
        self.joins = {}
        payload = "".join(self._fields(operation.record, "main", "  ", ""))
        sources, columns = "".join(self._sources()), "".join(self._columns())
        self.text = f"{HEAD.format(target=operation.name)}{sources}columns:\n{columns}payload:\n{payload}"

    def _fields(self, record, table, pad, prefix):
        for field in record.fields:
            if field.when is When.LISTED:
                continue
            if field.kind is FieldKind.ARRAY:
                inner = self._inner(table, field)
                self.tables[inner] = {"nr": "text", "item": "text"} | ({"within": "text"} if table != "main" else {})
                self.joins[inner] = table
                yield f"{pad}{field.name}:\n{pad}  each: {inner}\n{pad}  item:\n"
                yield from self._fields(field.record, inner, f"{pad}    ", "")
            elif field.kind is FieldKind.OBJECT:
                yield f"{pad}{field.name}:\n"
                yield from self._fields(field.record, table, f"{pad}  ", f"{prefix}{field.name}_")
            else:
                self.tables[table][f"f_{prefix}{field.name}"] = TYPES.get(field.kind, "text")
                yield f"{pad}{field.name}: {{col: {table}.f_{prefix}{field.name}}}\n"

    def _inner(self, table, field):
        return field.name if table == "main" else f"{table}_{field.name}"

    def _sources(self):
        for table in self.tables:
            to = self.joins.get(table)
            on = "{nr: nr}" if to == "main" else "{nr: nr, within: item}"
            join = f", join: {{to: {to}, on: {on}, missing: ignore}}" if to else ""
            yield f"    {table}: {{sheet: {table}{join}}}\n"

    def _columns(self):
        for table, columns in self.tables.items():
            yield f"  {table}:\n"
            for name, kind in columns.items():
                required = "" if name.startswith("f_") else ", required: true"
                yield f"    {name}: {{label: {name}, type: {kind}{required}}}\n"

    def rows(self, records):
        """The rows of each sheet for these records, as {heading: value}."""
        found = {table: [] for table in self.tables}
        for number, record in enumerate(records):
            self._spread(self.operation.record, record, "main", {"nr": f"0{number}"}, found)
        return found

    def _spread(self, shape, record, table, keys, found):
        row = dict(keys)
        found[table].append(row)
        self._cells(shape, record, "", row)
        for field in shape.fields:
            for number, item in enumerate(record.get(field.name, ()) if field.kind is FieldKind.ARRAY else ()):
                within = {"within": keys["item"]} if table != "main" else {}
                below = {"nr": keys["nr"], "item": f"{number}", **within}
                self._spread(field.record, item, self._inner(table, field), below, found)

    def _cells(self, shape, record, prefix, row):
        for field in shape.fields:
            if field.kind is FieldKind.OBJECT:
                self._cells(field.record, record.get(field.name, {}), f"{prefix}{field.name}_", row)
            elif field.name in record and field.kind is not FieldKind.ARRAY:
                row[f"f_{prefix}{field.name}"] = typed(field.kind, record[field.name])


def typed(kind, value):
    """A value as a spreadsheet program keeps it when it is typed in."""
    if kind in DATE_SHAPES:
        moment = datetime.strptime(value, DATE_SHAPES[kind][0])
        return moment.time() if kind is FieldKind.TIME else moment
    return Decimal(value) if kind is FieldKind.NUMERIC else value


def settled(shape, record):
    """A record as a sheet can say it: see the docstring of the module."""
    found = {}
    for field in shape.fields:
        if field.name not in record:
            continue
        value = record[field.name]
        if field.kind is FieldKind.ARRAY:
            value = [item for one in value if (item := settled(field.record, one))]
        elif field.kind is FieldKind.OBJECT:
            value = settled(field.record, value)
        elif field.kind is FieldKind.NUMERIC:
            number = canonical(Decimal(value))
            value = number if shape.numbers is NumberForm.JSON_NUMBER else plain_digits(number)
        elif field.kind is FieldKind.FLAG:
            value = "yes" if flag_meaning(value) else "no"
        elif field.kind is FieldKind.STRING:
            kept = "".join(letter for letter in value if unicodedata.category(letter)[0] in "LNPS" or letter == " ")
            kept = kept.replace("\N{HYPHEN}", "-").replace("\N{NON-BREAKING HYPHEN}", "-")
            value = unicodedata.normalize("NFC", kept).strip() or "x"
        if value not in ({}, []):
            found[field.name] = value
    return found


class House:
    """A folder with the mapping of an operation and its template, opened once and filled in again and again."""

    def __init__(self, folder, operation):
        self.folder, self.operation = folder, operation
        self.whole = Whole(operation)
        (folder / "mappings").mkdir()
        path = folder / "mappings" / "whole.yaml"
        path.write_text(self.whole.text, encoding="utf-8")
        self.mapping = load(path, ASSUMED)
        write_template(self.mapping, self.mapping.main_role, folder / "blank.xlsx")
        self.book = openpyxl.load_workbook(folder / "blank.xlsx")

    def filled(self, records):
        """The path of the workbook with these records typed into it."""
        written = []
        for table, rows in self.whole.rows(records).items():
            sheet = self.book[table]
            places = {str(cell.value).rstrip(" *"): cell.column for cell in sheet[1]}
            for number, row in enumerate(rows, 2):
                for label, value in row.items():
                    cell = sheet.cell(number, places[label])
                    cell.value = value
                    if isinstance(value, str):
                        cell.data_type = "s"
                    written.append(cell)
        path = self.folder / "whole-1.xlsx"
        self.book.save(path)
        for cell in written:
            cell.value = None
        return path

    def translated(self, records):
        """The documents of the filled workbook."""
        return translate_files(self.mapping, [self.filled(records)], Settings(), now=NOW).documents

    def check(self, drawn):
        """Fills records in and holds what comes out against them."""
        records = [settled(self.operation.record, record) for record in drawn]
        documents = self.translated(records)
        said = [str(problem) for document in documents for problem in document.problems if problem.code not in WARNED]
        assert said == []
        assert [decoded(document.payload) for document in documents] == records


def decoded(payload):
    return json.loads(payload, parse_float=Decimal)


@pytest.fixture(scope="module", params=WRITES, ids=lambda operation: operation.name)
def house(request, tmp_path_factory):
    return House(tmp_path_factory.mktemp("house"), request.param)


# ---- every field, and each that is required ----

ONE_OF_EACH = {
    **{kind: datetime(2026, 4, 3, 8, 15).strftime(shape) for kind, (shape, *_) in DATE_SHAPES.items()},
    FieldKind.STRING: "some text",
    FieldKind.STRING_OR_NUMERIC: "00123",
    FieldKind.NUMERIC: "1234.5",
    FieldKind.FLAG: "yes",
    FieldKind.TIMEZONE: "Asia/Kolkata",
    FieldKind.OFFSET_HOURS: "2",
    FieldKind.OFFSET_MINUTES: "120",
}


def is_required(field, operation):
    return field.when is When.ALWAYS or (field.when is When.ON_CREATE and operation.creates)


def one_of_each(shape, wanted=lambda _: True):
    """A record of this shape with every field that is wanted."""
    found = {}
    for field in shape.fields:
        if field.when is When.LISTED or not wanted(field):
            continue
        value = field.known[0] if field.closed_by == "decision_words" else ONE_OF_EACH.get(field.kind)
        if field.record is not None:
            inner = one_of_each(field.record, wanted)
            value = [inner] if field.kind is FieldKind.ARRAY else inner
        found[field.name] = value
    return found


def lacking(shape, record, operation, prefix=""):
    """The path of each required field, and the record without it."""
    for field in shape.fields:
        if field.name in record and is_required(field, operation):
            yield f"{prefix}{field.name}", {name: value for name, value in record.items() if name != field.name}
        if field.name in record and field.record is not None:
            is_list = field.kind is FieldKind.ARRAY
            inner, place = (record[field.name][0], "[0].") if is_list else (record[field.name], ".")
            for path, less in lacking(field.record, inner, operation, f"{prefix}{field.name}{place}"):
                yield path, {**record, field.name: [less] if is_list else less}


def test_m13_every_field_can_be_filled_from_a_column(house):
    house.check([one_of_each(house.operation.record)])


def test_a_blank_row_sends_no_optional_field(house):  # M23
    house.check([one_of_each(house.operation.record, lambda field: is_required(field, house.operation))])


def test_m12_each_required_field_that_is_blank_is_refused(house):
    shape = house.operation.record
    paths, records = zip(*lacking(shape, one_of_each(shape), house.operation), strict=True)
    keys = [{name: f"K{number}" for name in shape.key if name in one} for number, one in enumerate(records)]
    documents = house.translated([{**one, **own} for one, own in zip(records, keys, strict=True)])
    found = {document.rows[0].number: document for document in documents}
    for row, path in enumerate(paths, 2):
        assert path in {problem.where.path for problem in found[row].problems if problem.code == "K501"}
        assert not found[row].usable


def test_a_word_that_is_refused_is_not_warned_of_as_well(tmp_path):
    house = House(tmp_path, BY_NAME["tender.confirm"])
    (document,) = house.translated([{**one_of_each(house.operation.record), "status": "perhaps"}])
    assert [problem.code for problem in document.problems] == ["K501"]


# ---- any records ----


def records_of(house, most):
    """Some valid records of the operation, told apart by their keys."""
    key = house.operation.record.key
    drawn = strategies.payloads(house.operation)
    return st.lists(drawn, min_size=1, max_size=most, unique_by=lambda record: tuple(record[name] for name in key))


@SHORT
@given(data=st.data())
def test_any_record_typed_into_a_template_comes_out_as_it_went_in(house, data):
    house.check(data.draw(records_of(house, 4)))


@pytest.mark.sweep
@LONG
@given(data=st.data())
def test_many_records_typed_into_a_template_come_out_as_they_went_in(house, data):
    house.check(data.draw(records_of(house, 12)))
