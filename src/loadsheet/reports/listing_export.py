"""Exports a listing of the exchange for analysts: a workbook, CSV files or JSON. Exact, and clear about what is missing.

Owns the flattening of nested records into tables: one of the records, and one per array. The rows of an array name
their record. Every field of the record is a column, in the order of the interface. The last column holds all other
content as JSON, so nothing is lost. Records stream through twice: to count and to write. Does not know how a listing
is requested.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from loadsheet.contract import (
    BY_NAME,
    NUMBER_TEXT,
    Field,
    FieldKind,
    Listing,
    Operation,
    Record,
    encode_record,
    is_valid_date_text,
    listed_subject,
)
from loadsheet.display_text import escaped_json
from loadsheet.reports.report_files import csv_row, text_of, written_atomically
from loadsheet.reports.sheets import Cell, Column, Page, TableSheet, Tone, Value, open_book
from loadsheet.reports.sheets import Kind as CellKind

OTHERS = "other fields"
_SCALARS = (str, int, float, Decimal, bool, type(None))


class FlatColumn(NamedTuple):
    """A column: its heading, its kind, and its meaning."""

    head: str
    kind: FieldKind
    meaning: str


@dataclass(frozen=True)
class FlatTable:
    """A table: the array fields on the path to its record (none for the listed records themselves), and the fields that
    become columns. The key and the position in each array come first, all other content last.
    """

    key: Field
    record: Record
    path: tuple[Field, ...]
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Its array as a payload path: `packages.inner_cargos`; empty for the records."""
        return ".".join(field.name for field in self.path)

    @cached_property
    def columns(self) -> tuple[FlatColumn, ...]:
        """Its columns in order."""
        meaning = "The record that the row belongs to" if self.path else self.key.meaning
        columns = [FlatColumn(self.key.name, FieldKind.STRING_OR_NUMERIC, meaning)]
        for array in self.path:
            place = f"Its position in {array.name}, from 1: {array.meaning}"
            columns.append(FlatColumn(f"{array.name} no.", FieldKind.NUMERIC, place))
        columns += [FlatColumn(field.name, field.kind, field.meaning) for field in self.fields]
        return (*columns, FlatColumn(OTHERS, FieldKind.STRING, "Fields that the interface does not name, as JSON"))

    def rows(self, record: Mapping[str, Any]) -> Iterator[list[Any]]:
        """Its rows of a decoded record. Values are unchanged; arrays and objects are JSON texts."""
        key = _flat(record.get(self.key.name))
        for numbers, item in _items(record, self.path):
            if isinstance(item, Mapping):
                values = [_flat(item.get(field.name)) for field in self.fields]
                others = self._others_of(item)
            else:
                values, others = [None] * len(self.fields), _json(item)
            yield [key, *numbers, *values, others]

    def _others_of(self, item: Mapping[str, Any]) -> str | None:
        """The content that no column and no table shows, as JSON."""
        named = {field.name: field.record is not None for field in self.record.fields}
        others = {
            name: value
            for name, value in item.items()
            if name not in named or (named[name] and not isinstance(value, list | None))
        }
        return _json(others) if others else None


class Layout:
    """The tables of a listed record."""

    def __init__(self, record: Record) -> None:
        key = next(field for field in record.fields if field.name == record.key[0])
        self.tables = list(_tables(key, record, ()))

    def rows(self, record: Mapping[str, Any]) -> Iterator[tuple[int, list[Any]]]:
        """Every row of a decoded record with the position of its table."""
        for position, table in enumerate(self.tables):
            for row in table.rows(record):
                yield position, row


def _tables(key: Field, record: Record, path: tuple[Field, ...]) -> Iterator[FlatTable]:
    fields = (field for field in record.fields if field.record is None and (path or field is not key))
    yield FlatTable(key, record, path, tuple(fields))
    for field in record.fields:
        if field.record is not None:
            yield from _tables(key, field.record, (*path, field))


def _items(record: object, path: tuple[Field, ...]) -> Iterator[tuple[tuple[int, ...], object]]:
    if not path:
        yield (), record
        return
    inner = record.get(path[0].name) if isinstance(record, Mapping) else None
    for number, item in enumerate(inner if isinstance(inner, list) else [], start=1):
        for numbers, found in _items(item, path[1:]):
            yield (number, *numbers), found


def _flat(value: object) -> object:
    return value if isinstance(value, _SCALARS) else _json(value)


def _json(value: object) -> str:
    return escaped_json(encode_record(value)).decode()


FORMS = (".xlsx", ".csv", ".json")
"""The supported file extensions."""

_DIGITS_MAX = 15  # digits that a number in a workbook keeps
_SIZE_MAX = 300  # largest power of ten, just below a workbook's limit
_FIRST_YEAR = 1900  # of workbook dates; their first weeks are off by a day
_WIDTHS = (28, 30, 18, 60)


@dataclass(frozen=True)
class Pulled:
    """A listing of one subject."""

    operation: Operation
    listing: Listing

    def records(self) -> Iterator[dict[str, Any]]:
        """The records of the subject, decoded, in the exchange's order."""
        for record in self.listing.results:
            if listed_subject(record) == self.operation.subject:
                yield record

    @cached_property
    def count(self) -> int:
        """The number of records of the subject."""
        return sum(1 for _ in self.records())

    @property
    def complete(self) -> bool:
        """Whether absence from the listing is proof: it holds all records, and some of its own kind."""
        return self.listing.complete and bool(self.count or not self.listing.results)

    @property
    def coverage_text(self) -> str:
        """The coverage of the listing, such as `500 of 4,812 orders listed: partial`."""
        count, subject = self.count, self.operation.subject
        foreign = len(self.listing.results) - count
        if foreign:
            others = f"and {foreign:,} other record{'' if foreign == 1 else 's'} "
            there = f"{count:,} {subject}{'' if count == 1 else 's'} {others}listed of {self.listing.total_count:,}"
        else:
            there = f"{count:,} of {self.listing.total_count:,} {subject}s listed"
        why = f" ({self.listing.reason})" if self.listing.reason else ""
        return f"{there}: {'complete' if self.complete else f'partial{why}'}"


def layout(subject: str) -> Layout:
    """The tables of the records of a subject, `order` or `tender`."""
    return Layout(BY_NAME[f"{subject}.list"].record)


def write_pulled(pulled: Pulled, target: Path, laid_out: Layout, *, source: str, at: str) -> list[Path]:
    """Write a listing to a file in the format of its extension. Returns the files written.

    A CSV export has one file per table; files for arrays carry the array's name. `source` names the exchange, and `at`
    is when it was listed (ISO 8601 UTC). Each file is written atomically. Raises LoadsheetError.
    """
    if target.suffix.lower() == ".xlsx":
        return _write_workbook(pulled, target, laid_out, f"{source}, listed at {at}")
    if target.suffix.lower() == ".csv":
        return _write_csv(pulled, target, laid_out)
    with written_atomically(target) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        write_json(pulled, file)
    return [target]


def write_json(pulled: Pulled, file: TextIO) -> None:
    """Write the listing as one JSON document, one record per line, numbers unchanged. The first line gives its coverage."""
    listing = pulled.listing
    counts = {
        "listed": pulled.coverage_text,
        "complete": pulled.complete,
        "page_size": listing.page_size,
        "total_count": listing.total_count,
        "total_pages": listing.total_pages,
    }
    file.write(f"{_json(counts)[:-1]},\n")
    file.write('"results":[')
    file.writelines(f"{',' if position else ''}\n{_json(record)}" for position, record in enumerate(pulled.records()))
    file.write("\n]}\n")


def write_table(pulled: Pulled, file: TextIO, laid_out: Layout) -> None:
    """Write the first table as CSV. If the listing is partial, a line above the heading says so."""
    _head(file, laid_out.tables[0], pulled)
    for record in pulled.records():
        for position, row in laid_out.rows(record):
            if position == 0:
                file.write(csv_row([text_of(value) for value in row]))


def _write_csv(pulled: Pulled, target: Path, laid_out: Layout) -> list[Path]:
    paths = [target.with_suffix(f".{table.name}{target.suffix}") if table.name else target for table in laid_out.tables]
    with ExitStack() as stack:
        files = []
        for path, table in zip(paths, laid_out.tables, strict=True):
            part = stack.enter_context(written_atomically(path))
            files.append(stack.enter_context(part.open("w", encoding="utf-8-sig", newline="")))
            _head(files[-1], table, pulled)
        for record in pulled.records():
            for position, row in laid_out.rows(record):
                files[position].write(csv_row([text_of(value) for value in row]))
    return paths


def _head(file: TextIO, table: FlatTable, pulled: Pulled) -> None:
    if not pulled.complete:
        file.write(csv_row([f"# {pulled.coverage_text}"]))
    file.write(csv_row([column.head for column in table.columns]))


def _write_workbook(pulled: Pulled, target: Path, laid_out: Layout, source: str) -> list[Path]:
    titles = _titles(f"{pulled.operation.subject}s", laid_out)
    counts = [0] * len(laid_out.tables)
    with open_book(target, title=f"{pulled.operation.subject}s of {source}", footer=pulled.coverage_text) as book:
        front = Page(book, "Listing", _WIDTHS)
        sheets = [
            TableSheet(book, title, _columns(table), overflow=target.with_suffix(f".{title}.csv"))
            for title, table in zip(titles, laid_out.tables, strict=True)
        ]
        for record in pulled.records():
            for position, row in laid_out.rows(record):
                columns = laid_out.tables[position].columns
                sheets[position].add([_cell(column, value) for column, value in zip(columns, row, strict=True)])
                counts[position] += 1
        more = [beyond for sheet in sheets if (beyond := sheet.finish("none"))]
        notes = (source, *(f"rows that do not fit into a sheet continue in {name}" for name in more))
        _front(front, pulled, laid_out, dict(zip(titles, counts, strict=True)), notes)
    return [target, *(target.with_name(name) for name in more)]


def _front(page: Page, pulled: Pulled, laid_out: Layout, counts: dict[str, int], notes: tuple[str, ...]) -> None:
    """Write the first sheet: the coverage, the contents of the other sheets, and the meanings of their columns."""
    tone = Tone.GOOD if pulled.complete else Tone.BAD
    page.line(pulled.coverage_text, tone, band=True, height=24, bold=True)
    if not pulled.complete:
        page.line("Records that are not on these sheets may still be at the exchange.", Tone.BAD)
    for line in notes:
        page.line(line, Tone.MUTED)
    page.section("Sheets")
    rows = [[Cell(title), Cell(count)] for title, count in counts.items()]
    page.table("tblSheets", [Column("Sheet"), Column("Rows", CellKind.COUNT)], rows)
    page.section("Columns")
    legend = [
        [Cell(title), Cell(column.head), Cell(column.kind), Cell(column.meaning)]
        for title, table in zip(counts, laid_out.tables, strict=True)
        for column in table.columns
    ]
    page.table("tblColumns", [Column("On sheet"), Column("Column"), Column("Kind"), Column("Meaning")], legend)
    page.finish()


def _titles(name: str, laid_out: Layout) -> list[str]:
    """The titles of the sheets: the names of the arrays as words."""
    titles: list[str] = []
    for table in laid_out.tables:
        title = (table.path[-1].name if table.path else name).replace("_", " ").capitalize()
        titles.append(title if title not in titles else table.name.replace("_", " ").capitalize())
    return titles


def _columns(table: FlatTable) -> list[Column]:
    kinds = {FieldKind.NUMERIC: CellKind.NUMBER, FieldKind.DATETIME: CellKind.MOMENT}
    return [Column(column.head, kinds.get(column.kind, CellKind.TEXT)) for column in table.columns]


def _cell(column: FlatColumn, value: object) -> Value:
    """A value for a workbook: a number or time where that is lossless, else text. Identifiers are always text."""
    if value is None:
        return None
    if column.kind is FieldKind.NUMERIC:
        number = _number(value)
        return number if number is not None else text_of(value)
    if column.kind is FieldKind.DATETIME and isinstance(value, str):
        return _moment(value) or value
    return text_of(value)


def _number(value: object) -> int | Decimal | None:
    """The number, also from a text, if a workbook can hold it exactly."""
    number = Decimal(value) if isinstance(value, str) and NUMBER_TEXT.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        return None
    exact = Decimal(number)
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    return number if len(digits) <= _DIGITS_MAX and abs(exact.adjusted()) < _SIZE_MAX else None


def _moment(text: str) -> datetime | None:
    moment = datetime.fromisoformat(text) if is_valid_date_text(FieldKind.DATETIME, text) else None
    return moment if moment is not None and moment.year > _FIRST_YEAR else None
