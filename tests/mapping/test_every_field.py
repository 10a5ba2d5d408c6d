"""Every field of every record of the interface can be filled from the columns of a file."""

import pytest
from sheets import ASSUMED, decode, documents, load_text

from loadsheet.contract import BY_NAME, WRITES, Kind, NumberForm, When, checker

CELLS = {
    Kind.STRING: ("text", "some text", "some text"),
    Kind.STRING_OR_NUMERIC: ("text", "00123", "00123"),
    Kind.NUMERIC: ("decimal", "1.234,5", "1234.5"),
    Kind.FLAG: ("yesno", "ja", "yes"),
    Kind.TIMEZONE: ("timezone", "Asia/Kolkata", "Asia/Kolkata"),
    Kind.DATETIME: ("datetime", "03.04.2026 08:15", "2026-04-03 08:15:00"),
    Kind.DATETIME_T: ("datetime", "03.04.2026 08:15", "2026-04-03T08:15:00"),
    Kind.DATETIME_ISO: ("datetime", "03.04.2026 08:15", "2026-04-03T06:15:00Z"),
    Kind.DATE: ("date", "03.04.2026", "2026-04-03"),
    Kind.TIME: ("time", "08:15", "08:15:00"),
}
OFFSETS = {Kind.OFFSET_HOURS: "2", Kind.OFFSET_MINUTES: "120"}
HEAD = """\
mapping: every-field
version: 1
target: {target}
source:
  files: ["all.csv"]
  locale: de_DE
  dates: ["%d.%m.%Y %H:%M", "%d.%m.%Y"]
  timezone: Europe/Berlin
columns:
"""


def cell_of(field):
    """A column's type, a cell and what it becomes; a field whose list of words is closed by default takes one of them."""
    if field.closed_by == "decision_words":
        return ("text", field.known[0], field.known[0])
    return CELLS[field.kind]


def is_required(field, operation):
    return field.when is When.ALWAYS or (field.when is When.ON_CREATE and operation.creates)


class Filling:
    """A mapping that fills every field of a record from a column of its own, the cells, and what has to come out."""

    def __init__(self, operation):
        self.columns = {"moment": "datetime"}
        self.cells = ["03.04.2026 08:15"]
        self.payload = self._record(operation.record, "payload:\n", 1)
        self.expected = self._expected(operation.record)
        columns = "".join(f"  {name}: {{type: {kind}}}\n" for name, kind in self.columns.items())
        self.text = HEAD.format(target=operation.name) + columns + self.payload

    def _record(self, record, start, depth, *, as_entry=False):
        lines, pad = [start], "  " * depth
        for field in record.fields:
            if field.when is When.LISTED:
                continue
            first = f"{pad[:-2]}- " if as_entry and len(lines) == 1 else pad
            if field.record is not None and field.kind is Kind.ARRAY:
                lines.append(
                    self._record(field.record, f"{first}{field.name}:\n{pad}  list:\n", depth + 3, as_entry=True)
                )
            elif field.record is not None:
                lines.append(self._record(field.record, f"{first}{field.name}:\n", depth + 1))
            elif field.kind in OFFSETS:
                lines.append(f"{first}{field.name}: {{utc_offset_of: moment}}\n")
            else:
                lines.append(f"{first}{field.name}: {{col: {self._column(field)}}}\n")
        return "".join(lines)

    def _column(self, field):
        name = f"c{len(self.columns)}"
        kind, cell, _ = cell_of(field)
        self.columns[name] = kind
        self.cells.append(cell)
        return name

    def _expected(self, record):
        found = {}
        for field in record.fields:
            if field.when is When.LISTED:
                continue
            if field.record is not None:
                inner = self._expected(field.record)
                found[field.name] = [inner] if field.kind is Kind.ARRAY else inner
            else:
                found[field.name] = OFFSETS.get(field.kind) or cell_of(field)[2]
                if field.kind is Kind.NUMERIC and record.numbers is NumberForm.JSON_NUMBER:
                    found[field.name] = float(found[field.name])
        return found


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_m13_every_field_can_be_filled_from_a_column(tmp_path, operation):
    filling = Filling(operation)
    mapping = load_text(tmp_path, filling.text)
    (document,) = documents(mapping, [filling.cells])
    assert {problem.code for problem in document.problems} <= {"K502"}, list(map(str, document.problems))
    payload = decode(document.payload)
    assert payload == filling.expected
    assert checker(operation, ASSUMED)(payload) == ()


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_a_blank_row_sends_no_optional_field(tmp_path, operation):  # M23
    filling = Filling(operation)
    required = [field for field in operation.record.fields if is_required(field, operation)]
    mapping = load_text(tmp_path, filling.text)
    names = list(filling.columns)
    kept = {"moment"}
    for line in filling.payload.splitlines():
        name, _, rest = line.strip().partition(": {col: ")
        if line.startswith("  ") and not line.startswith("   ") and name in {field.name for field in required}:
            kept.add(rest.rstrip("}"))
    cells = [cell if name in kept else "" for name, cell in zip(names, filling.cells, strict=True)]
    (document,) = documents(mapping, [cells])
    assert document.usable, list(map(str, document.problems))
    offsets = {field.name for field in operation.record.fields if field.kind in OFFSETS}
    assert set(decode(document.payload)) == {field.name for field in required} | offsets


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_m12_each_required_field_that_is_blank_is_refused(tmp_path, operation):
    filling = Filling(operation)
    mapping = load_text(tmp_path, filling.text)
    names = list(filling.columns)
    for path, sources in mapping.lineage.items():
        field = operation.record.field(path)
        if field is None or not is_required(field, operation):
            continue
        cells = list(filling.cells)
        cells[names.index(sources[0].column)] = ""
        (document,) = documents(mapping, [cells])
        errors = [problem for problem in document.problems if problem.level == "error"]
        assert {problem.where.path for problem in errors if problem.code == "K501"} >= {path}
        assert not document.usable


def test_a_word_that_is_refused_is_not_warned_of_as_well(tmp_path):
    filling = Filling(BY_NAME["tender.confirm"])
    place = next(number for number, cell in enumerate(filling.cells) if cell == "accept")
    filling.cells[place] = "perhaps"
    (document,) = documents(load_text(tmp_path, filling.text), [filling.cells])
    assert [problem.code for problem in document.problems] == ["K501"]
