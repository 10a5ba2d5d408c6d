"""A labelled sheet: how its files are written, and what an expert says of each column.

A column is written as `heading | field | cells | more`. Layouts that are held out (`held_out`) nobody tunes `suggest` to.

- `field` is a path of the interface without the positions of lists (`packages.weight`). `a/b` accepts both. `-` means that the column
  fills no field. Other uses: `join` (the column joins two sheets), `kind` (record types) and `target` (the operation of the row).
- `cells` says how the cells are made (see `_MAKERS`). The cells depend on the layout, the heading and the row, so every run makes the
  same files.
- `more` has words: `key` (the key of the record), `line` (one value for each row, not for each record), `always` (not blank in merged
  rows), `set` (a milestone), `side=S` (another place), `with=W` (blank together), `blank=N` (percent) and `dirt=VALUE@ROW` (`_` is a
  blank).

Labels were written before the first draft was read.
"""

import csv
import io
import random
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import openpyxl

from loadsheet.yaml_nodes import values_of

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
BETWEEN = " / "  # between the rows of a heading


@dataclass(frozen=True)
class Col:
    """One column of a sheet with its label."""

    heading: str
    fields: tuple[str, ...]
    cells: str = ""
    more: tuple[str, ...] = ()

    def word(self, name):
        """The value of a word `name=value`; empty if there is none."""
        return next((word.partition("=")[2] for word in self.more if word.startswith(f"{name}=")), "")

    @property
    def is_key(self):
        return "key" in self.more

    @property
    def is_line(self):
        return "line" in self.more or self.fields[0].startswith(("packages", "additional_services"))


@dataclass(frozen=True)
class Sheet:
    """One table: its file, its sheet, its columns, and what surrounds them. `per` rows make a record. `raw` is the text of a file that is
    written by hand; `first` is the number of its first data row and `rows` the number of its data rows. `heads` are the numbers of rows that
    may be left out, because the rows below take their values.
    """

    file: str
    columns: tuple[Col, ...]
    rows: int = 24
    per: int = 1
    title: str = ""
    above: tuple[tuple[str, ...], ...] = ()
    units_row: tuple[str, ...] = ()
    total: str = ""
    footer: tuple[str, ...] = ()
    fill_down: bool = False
    encoding: str = "utf-8"
    delimiter: str = ";"
    lang: str = "en"
    raw: str = ""
    first: int = 2
    heads: tuple[int, ...] = ()
    unrelated: bool = False

    @property
    def data_rows(self):
        """The numbers of the rows that belong to records."""
        return [number for number in range(self._first, self._first + self.rows) if number not in self.heads]

    @property
    def _heads(self):
        return 1 if self.raw else max(column.heading.count(BETWEEN) for column in self.columns) + 1

    @property
    def _first(self):
        return self.first if self.raw else len(self.above) + self._heads + bool(self.units_row) + 1


@dataclass(frozen=True)
class Layout:
    """Sheets that belong together, and the accepted targets: none if `suggest` has to refuse the files (65)."""

    name: str
    targets: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    held_out: bool = False

    @property
    def files(self):
        return list(dict.fromkeys(sheet.file for sheet in self.sheets))

    def write(self, folder, *, backwards=False):
        """Write the files; `backwards`: the sheets of each workbook in the opposite order. Returns their paths."""
        paths = []
        for file in self.files:
            tables = [(sheet, self._cells(sheet)) for sheet in self.sheets if sheet.file == file]
            path = folder / file
            if file.endswith(".xlsx"):
                _write_workbook(path, tables[::-1] if backwards else tables)
            else:
                sheet, cells = tables[0]
                path.write_bytes((sheet.raw or _text(cells, sheet.delimiter)).encode(sheet.encoding))
            paths.append(path)
        return paths

    def keys(self):
        """The keys of the records, as texts; empty for files written by hand."""
        sheet = self.sheets[0]
        column = next((column for column in sheet.columns if column.is_key), None)
        if column is None or sheet.raw:
            return set()
        return {str(self._cell(sheet, column, row)) for row in range(sheet.rows)} - {""}

    def _cells(self, sheet):
        if sheet.raw:
            return []
        width = len(sheet.columns)
        lines = [[*line, *[""] * (width - len(line))] for line in sheet.above]
        parts = [column.heading.split(BETWEEN) for column in sheet.columns]
        for level in range(sheet._heads):
            names = [part[level - sheet._heads] if len(part) >= sheet._heads - level else "" for part in parts]
            if level < sheet._heads - 1:  # a merged cell has its text in the first column only
                names = [
                    "" if at and parts[at - 1][: level + 1] == parts[at][: level + 1] else name
                    for at, name in enumerate(names)
                ]
            lines.append(names)
        lines += [list(sheet.units_row)] if sheet.units_row else []
        lines += [[self._shown(sheet, column, row) for column in sheet.columns] for row in range(sheet.rows)]
        if sheet.total:
            sums = ["9.999" if column.cells.startswith(("num", "int")) else "" for column in sheet.columns]
            lines.append([sheet.total, *sums[1:]])
        return lines + [[note, *[""] * (width - 1)] for note in sheet.footer]

    def _shown(self, sheet, column, row):
        if sheet.fill_down and row % sheet.per and not column.is_line and "always" not in column.more:
            return ""
        return self._cell(sheet, column, row)

    def _cell(self, sheet, column, row):
        for word in column.more:
            name, _, value = word.partition("=")
            if name == "dirt" and value.endswith(f"@{row}"):
                return value.rpartition("@")[0].replace("_", " ")
        number = row if column.is_line else row // sheet.per
        blank = random.Random(f"{self.name}/{column.word('with') or column.heading}/{number}/blank").random()
        if column.word("blank") and blank * 100 < int(column.word("blank")):
            return ""
        rng = random.Random(f"{self.name}/{column.heading}/{number}")
        kind, _, rest = column.cells.partition(" ")
        return _MAKERS[kind](_Making(self.name, column, sheet.lang, number, rng), rest)


# ---- cells ----


@dataclass(frozen=True)
class _Making:
    """What a cell is made from: the layout's name, its column, the language, and the number of its record or row."""

    layout: str
    column: Col
    lang: str
    number: int
    rng: random.Random

    @property
    def late(self):
        """Hours after the pickup."""
        name = self.column.fields[0]
        side = 50 if any(word in name for word in ("deliver", "Deliver")) else 0
        return side + (6 if "end" in name else 0)

    @property
    def site(self):
        """The place of this row: city, postcode, street, province, company, country. The columns of one side agree."""
        places = PLACES[self.lang]
        side = self.column.word("side") or self.column.fields[0].partition("_")[0]
        return places[zlib.crc32(f"{self.layout}/{side}/{self.number}".encode()) % len(places)]


WORDS = values_of(Path(__file__).with_name("vocabulary.yaml").read_text(encoding="utf-8"))
PLACES = {lang: [place.split(",") for place in places] for lang, places in WORDS["places"].items()}
_PLACE_OF = {"city": 0, "zip": 1, "street": 2, "province": 3, "company": 4}
_ISO = {
    "United Kingdom": "GB", "Ireland": "IE", "United States": "US", "Deutschland": "DE", "Österreich": "AT", "France": "FR", "España": "ES",
    "Nederland": "NL", "België": "BE", "Sverige": "SE", "Norge": "NO", "Italia": "IT", "Polska": "PL", "Portugal": "PT",
}  # fmt: skip
_MARKS = {
    "en": (",", "."),
    "de": (".", ","),
    "fr": ("\u202f", ","),
    "ch": ("'", "."),
    "plain": ("", "."),
    "comma": ("", ","),
}


def number_text(value, places, marks):
    """A number as a language writes it."""
    group, decimal = _MARKS[marks]
    return f"{value:,.{places}f}".replace(",", "G").replace(".", decimal).replace("G", group)


def _num(making, rest):
    low, high, places, marks, *unit = rest.split()
    value = round(making.rng.uniform(float(low), float(high)), int(places))
    if marks == "native":
        return value
    return " ".join(
        [number_text(value, int(places), marks), *(making.rng.choice(unit[0].split(";")) for _ in unit[:1])]
    )


def _int(making, rest):
    low, high, *native = rest.split()
    value = making.rng.randint(int(low), int(high))
    return value if native else str(value)


def _day(making, rest):
    """A date that rises with the records; the formats of a column alternate. `native` is a date cell of a workbook."""
    hours = 24 * (making.number * 3 // 2 % 45) + making.rng.randint(6, 11) + making.late
    moment = datetime(2026, 3, 2) + timedelta(hours=hours)
    formats = rest.split(";")
    chosen = formats[making.number % len(formats)]
    if chosen == "native":
        return moment
    if chosen == "nativeday":
        return moment.replace(hour=0)
    return moment.strftime(chosen.replace("%b", MONTHS[moment.month - 1]))


def _of(making, rest):
    return making.rng.choice([word.strip() for word in rest.split(";")])


_MAKERS = {
    "seq": lambda making, rest: rest.format(471 + making.number),
    "num": _num,
    "int": _int,
    "day": _day,
    "clock": lambda making, rest: datetime(2026, 3, 2, making.rng.randint(6, 17), making.rng.choice((0, 30))).strftime(rest),
    "of": _of,
    "yes": lambda making, rest: making.rng.choice(rest.split("/")),
    "same": lambda making, rest: rest,
    "": lambda making, rest: "",
    "blank": lambda making, rest: "",
    "rows": lambda making, rest: rest.split(";")[making.number % len(rest.split(";"))].strip(),
    "country": lambda making, rest: _ISO[making.site[5]] if rest == "iso" else making.site[5],
    "place": lambda making, rest: " ".join(making.site[_PLACE_OF[part]] for part in rest.split("+")),
    "person": lambda making, rest: making.rng.choice(("A. Kern", "M. Rossi", "J. Smit", "P. Nowak", "L. Silva")),
    "phone": lambda making, rest: f"+49 351 {making.rng.randint(10_000, 99_999)}",
    "mail": lambda making, rest: f"{making.rng.choice(('dock', 'store', 'office'))}@example.org",
}  # fmt: skip


# ---- files ----


def _text(cells, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(cells)
    return out.getvalue()


def _write_workbook(path, tables):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for sheet, cells in tables:
        page = book.create_sheet(sheet.title or "Sheet1")
        for line in cells:
            page.append([None if cell == "" else cell for cell in line])
        for number, line in enumerate(cells[: sheet._heads - 1 + len(sheet.above)], 1):
            if number > len(sheet.above):
                _merge(page, number, line)
    book.save(path)


def _merge(page, number, line):
    """Merge each filled cell of an upper heading row with the blank cells to its right."""
    starts = [at for at, cell in enumerate(line) if cell != ""]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        if end - start > 1:
            page.merge_cells(start_row=number, end_row=number, start_column=start + 1, end_column=end)


# ---- building ----


def cols(text):
    """Columns, one a line."""
    found = []
    for line in text.strip().splitlines():
        heading, fields, *rest = (part.strip() for part in line.split("|"))
        cells, more = (*rest, "", "")[:2]
        found.append(Col(heading, tuple(fields.split("/")), cells, tuple(more.split())))
    return tuple(found)
