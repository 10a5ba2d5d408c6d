"""A listing of the exchange as files for analysts: a workbook, CSV files, or JSON, as exact as it came and honest about what it lacks.

Owns: how much of the exchange's records a listing holds, in words, and the forms in which it is written. Records stream through and
are looked at twice: once to count them, once to write them. Refuses to know how a listing is asked for.
"""

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec

from loadsheet.contract import BY_NAME, NUMBER_TEXT, Kind, Listing, Operation, in_date_shape, listed_subject
from loadsheet.reports.atomic_files import placed
from loadsheet.reports.flattening import FlatColumn, FlatTable, Layout, text_of
from loadsheet.reports.page import Cell, Page
from loadsheet.reports.safety import csv_line
from loadsheet.reports.sheets import ROWS_MAX, Column, TableSheet, Tone, Value, open_book
from loadsheet.reports.sheets import Kind as CellKind

FORMS = (".xlsx", ".csv", ".json", ".jsonl")
"""The endings of the files that can be written."""

_DIGITS_MAX = 15  # as many as a number of a workbook keeps
_SIZE_MAX = 300  # and a little less than as many powers of ten
_FIRST_YEAR = 1900  # of a workbook; its first weeks are a day off
_WIDTHS = (28, 30, 18, 60)

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class Pulled:
    """A listing of one subject, as it was looked at. `keys` are the records that are wanted (none: all)."""

    operation: Operation
    listing: Listing
    keys: frozenset[str] = frozenset()

    def records(self) -> Iterator[dict[str, Any]]:
        """The records that are wanted, decoded, in the exchange's order; what is of another subject is not among them."""
        for record in self.listing.results:
            wanted = not self.keys or self.operation.key_of(record) in self.keys
            if wanted and listed_subject(record) == self.operation.subject:
                yield record

    @cached_property
    def counted(self) -> "Counted":
        """How many records there are of which kind."""
        own = 0
        found = Counter(dict.fromkeys(self.keys, 0))
        for record in self.listing.results:
            if listed_subject(record) == self.operation.subject:
                own += 1
                if self.keys and (key := self.operation.key_of(record)) in self.keys:
                    found[key] += 1
        lacking = sorted(key for key, times in found.items() if not times)
        return Counted(len(self.listing.results), own, found.total() if self.keys else own, tuple(lacking))

    @property
    def complete(self) -> bool:
        """Whether absence from it means anything: it holds as many records as there are, and some of its own kind."""
        return self.listing.complete and bool(self.counted.own or not self.listing.results)

    @property
    def says(self) -> str:
        """How much of the exchange's records it holds, such as `500 of 4,812 orders listed: partial`."""
        counted, subject = self.counted, self.operation.subject
        foreign = counted.all - counted.own
        if foreign:
            others = f"and {foreign:,} other record{'' if foreign == 1 else 's'} "
            there = f"{counted.own:,} {subject}{'' if counted.own == 1 else 's'} {others}listed of {self.listing.total_count:,}"
        else:
            there = f"{counted.own:,} of {self.listing.total_count:,} {subject}s listed"
        why = f" ({self.listing.reason})" if self.listing.reason else ""
        text = f"{there}: {'complete' if self.complete else f'partial{why}'}"
        return f"{text}; {counted.wanted:,} of them chosen by key" if self.keys else text


class Counted(NamedTuple):
    """How many records a listing holds: in all, of its own subject, and of the wanted keys; and the keys that it does not hold."""

    all: int
    own: int
    wanted: int
    lacking: tuple[str, ...]


def layout(subject: str, chosen: Collection[str] = ()) -> Layout:
    """The tables of the records of a subject, `order` or `tender`."""
    return Layout(BY_NAME[f"{subject}.list"].record, chosen)


def write_pulled(
    pulled: Pulled, target: Path, laid_out: Layout, *, source: str, at: str, sheet_rows_max: int = ROWS_MAX
) -> list[Path]:
    """Write a listing to the file, in the form that its ending names; returns what was written.

    A CSV is one file for each table, those of arrays with the array's name in theirs. `source` and `at` say of which exchange
    it is and when it was looked at (ISO 8601 UTC). Each file appears whole or not at all. Raises LoadsheetError.
    """
    if target.suffix.lower() == ".xlsx":
        return _write_workbook(pulled, target, laid_out, f"{source}, looked at {at}", sheet_rows_max)
    if target.suffix.lower() == ".csv":
        return _write_csv(pulled, target, laid_out)
    with placed(target) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        (write_lines if target.suffix.lower() == ".jsonl" else write_json)(pulled, file)
    return [target]


def write_json(pulled: Pulled, file: TextIO) -> None:
    """The listing as one JSON document, a record a line, numbers as they came. Its first line says how much it holds."""
    listing = pulled.listing
    counts = {
        "listed": pulled.says,
        "complete": pulled.complete,
        "page_size": listing.page_size,
        "total_count": listing.total_count,
        "total_pages": listing.total_pages,
    }
    file.write(f"{_encode(counts).decode()[:-1]},\n")
    file.write('"results":[')
    file.writelines(
        f"{',' if position else ''}\n{_encode(record).decode()}" for position, record in enumerate(pulled.records())
    )
    file.write("\n]}\n")


def write_lines(pulled: Pulled, file: TextIO) -> None:
    """A record a line, as JSON. What is partial says so in a line before the first."""
    if not pulled.complete:
        file.write(f"{_encode({'listed': pulled.says, 'complete': False}).decode()}\n")
    file.writelines(f"{_encode(record).decode()}\n" for record in pulled.records())


def write_table(pulled: Pulled, file: TextIO, laid_out: Layout) -> None:
    """The first table as CSV. What is partial says so in a line before the heading."""
    first = csv.writer(file)
    _head(first.writerow, laid_out.tables[0], pulled)
    for record in pulled.records():
        for position, row in laid_out.rows(record):
            if position == 0:
                first.writerow(csv_line([text_of(value) for value in row]))


def _write_csv(pulled: Pulled, target: Path, laid_out: Layout) -> list[Path]:
    paths = [target.with_suffix(f".{table.name}{target.suffix}") if table.name else target for table in laid_out.tables]
    with ExitStack() as stack:
        writers = []
        for path, table in zip(paths, laid_out.tables, strict=True):
            part = stack.enter_context(placed(path))
            file = stack.enter_context(part.open("w", encoding="utf-8-sig", newline=""))
            writers.append(csv.writer(file))
            _head(writers[-1].writerow, table, pulled)
        for record in pulled.records():
            for position, row in laid_out.rows(record):
                writers[position].writerow(csv_line([text_of(value) for value in row]))
    return paths


def _head(write: Callable[[list[str]], object], table: FlatTable, pulled: Pulled) -> None:
    if not pulled.complete:
        write([f"# {pulled.says}"])
    write([column.head for column in table.columns])


def _write_workbook(pulled: Pulled, target: Path, laid_out: Layout, source: str, rows_max: int) -> list[Path]:
    titles = _titles(f"{pulled.operation.subject}s", laid_out)
    counts = [0] * len(laid_out.tables)
    with open_book(target, title=f"{pulled.operation.subject}s of {source}", footer=pulled.says) as book:
        front = Page(book, "Listing", _WIDTHS)
        sheets = [
            TableSheet(book, title, _columns(table), rows_max=rows_max, overflow=target.with_suffix(f".{title}.csv"))
            for title, table in zip(titles, laid_out.tables, strict=True)
        ]
        for record in pulled.records():
            for position, row in laid_out.rows(record):
                columns = laid_out.tables[position].columns
                sheets[position].add([_cell(column, value) for column, value in zip(columns, row, strict=True)])
                counts[position] += 1
        more = [beyond for sheet in sheets if (beyond := sheet.finish("none"))]
        notes = (source, *(f"rows that do not fit a sheet go on in {name}" for name in more))
        _front(front, pulled, laid_out, dict(zip(titles, counts, strict=True)), notes)
    return [target, *(target.with_name(name) for name in more)]


def _front(page: Page, pulled: Pulled, laid_out: Layout, counts: dict[str, int], notes: tuple[str, ...]) -> None:
    """The first sheet: how much it is of what, what stands on the others, and what their columns mean."""
    tone = Tone.GOOD if pulled.complete else Tone.BAD
    page.line(pulled.says, tone, band=True, height=24, bold=True)
    if not pulled.complete:
        page.line("What is not on these sheets may be at the exchange all the same.", Tone.BAD)
    for line in notes:
        page.line(line, Tone.MUTED)
    for key in pulled.counted.lacking:
        page.line(f"not listed: {key}", Tone.NOTE)
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
    """The titles of the sheets: the arrays' own names as words."""
    titles: list[str] = []
    for table in laid_out.tables:
        title = (table.path[-1] if table.path else name).replace("_", " ").capitalize()
        titles.append(title if title not in titles else table.name.replace("_", " ").capitalize())
    return titles


def _columns(table: FlatTable) -> list[Column]:
    kinds = {Kind.NUMERIC: CellKind.NUMBER, Kind.DATETIME: CellKind.MOMENT}
    return [Column(column.head, kinds.get(column.kind, CellKind.TEXT)) for column in table.columns]


def _cell(column: FlatColumn, value: object) -> Value:
    """A value for a workbook: numbers and times as such where nothing of them is lost, all else as text; identifiers always."""
    if value is None:
        return None
    if column.kind is Kind.NUMERIC:
        number = _number(value)
        return number if number is not None else text_of(value)
    if column.kind is Kind.DATETIME and isinstance(value, str):
        return _moment(value) or value
    return text_of(value)


def _number(value: object) -> int | Decimal | None:
    """A number, or a text that is one, if a workbook can hold it as exactly as it is written."""
    number = Decimal(value) if isinstance(value, str) and NUMBER_TEXT.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        return None
    exact = Decimal(number)
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0")
    return number if len(digits) <= _DIGITS_MAX and abs(exact.adjusted()) < _SIZE_MAX else None


def _moment(text: str) -> datetime | None:
    moment = datetime.fromisoformat(text) if in_date_shape(Kind.DATETIME, text) else None
    return moment if moment is not None and moment.year > _FIRST_YEAR else None
