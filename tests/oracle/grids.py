"""Files as grids of cells that can be turned over and saved again in another form: a text file as one sheet, a workbook as it is."""

import csv
import io
import re
import zipfile
from dataclasses import dataclass, replace
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import openpyxl

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
ODS = "application/vnd.oasis.opendocument.spreadsheet"


class Cell(NamedTuple):
    """A value and its number format. A blank cell has an empty text."""

    value: object
    shown: str = "General"

    @property
    def is_blank(self):
        return not str(self.value).strip()


@dataclass(frozen=True)
class Grid:
    """The rows of each sheet by its title, and how many of them belong to the header and what stands above."""

    sheets: dict
    tops: dict
    encoding: str = ""
    delimiter: str = ""
    quote: str = '"'
    escape: str | None = None

    @property
    def is_text(self):
        return bool(self.delimiter)

    def labels(self, title):
        """The last row of the header."""
        return [cell.value for cell in self.sheets[title][self.tops[title] - 1]]

    def changed(self, change):
        """The grid with other rows: `change` takes a title, the rows up to the header and those below, and gives all of them."""
        sheets = {
            title: change(title, rows[: self.tops[title]], rows[self.tops[title] :])
            for title, rows in self.sheets.items()
        }
        return replace(self, sheets=sheets)


def read(raw, tables, quote='"', escape_=None):
    """The grid of a file; `tables` are the tables that loadsheet finds in it."""
    first = tables[0]
    if not first.sheet:
        encoding = {"UTF-8": "utf-8-sig", "UTF-16-LE": "utf-16"}.get(
            word := first.reading_notes["encoding"].split()[0], word
        )
        delimiter = DELIMITERS.get(first.reading_notes["delimiter"], first.reading_notes["delimiter"])
        content = io.StringIO(raw.decode(encoding), newline="")
        reader = csv.reader(
            content, delimiter=delimiter, quotechar=quote, escapechar=escape_, doublequote=escape_ is None
        )
        rows, top = [], 0
        for row in reader:
            rows.append([Cell(text, "@") for text in row])
            top = len(rows) if reader.line_num <= first.header_row else top
        return Grid({"": rows}, {"": top}, encoding, delimiter, quote, escape_)
    book = openpyxl.load_workbook(io.BytesIO(raw), data_only=True)
    sheets = {page.title: [[_cell(cell) for cell in row] for row in page.iter_rows()] for page in book}
    tops = {table.sheet: table.header_row for table in tables}
    return Grid(sheets, {title: tops.get(title, len(rows)) for title, rows in sheets.items()})


def _cell(cell):
    return Cell("" if cell.value is None else cell.value, cell.number_format)


# ---- saved again ----


def saved(grid):
    """The grid in its own form."""
    return text(grid) if grid.is_text else xlsx(grid)


def text(grid, *, end="\r\n", encoding=None):
    """A text file."""
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=grid.delimiter,
        quotechar=grid.quote,
        escapechar=grid.escape,
        doublequote=grid.escape is None,
        lineterminator=end,
    )
    writer.writerows([re.sub("\r?\n", end, cell.value) for cell in row] for row in grid.sheets[""])
    return out.getvalue().encode(encoding or grid.encoding)


def xlsx(grid):
    """A workbook; of a text file all cells are texts."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in grid.sheets.items():
        page = book.create_sheet(title or "Sheet1")
        for place, row in enumerate(rows, 1):
            for column, cell in enumerate(row, 1):
                if cell.value != "":
                    made = page.cell(place, column)
                    made.value, made.number_format = cell
                    if grid.is_text:
                        made.data_type = "s"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def ods(grid):
    """An OpenDocument sheet of texts."""
    rows = "".join(
        f"<table:table-row>{''.join(map(_ods_cell, row)) or '<table:table-cell/>'}</table:table-row>"
        for row in grid.sheets[""]
    )
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    content = f"<office:document-content{names}><office:body><office:spreadsheet><table:table table:name={quoteattr('T')}>{rows}</table:table></office:spreadsheet></office:body></office:document-content>"
    manifest = f'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry manifest:full-path="/" manifest:media-type="{ODS}"/></manifest:manifest>'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in (("mimetype", ODS), ("content.xml", content), ("META-INF/manifest.xml", manifest)):
            archive.writestr(name, part)
    return out.getvalue()


def _ods_cell(cell):
    if not cell.value:
        return "<table:table-cell/>"
    spaced = escape(cell.value).replace("\t", "<text:tab/>")
    while "  " in spaced:
        spaced = spaced.replace("  ", " <text:s/>")
    spaced = f"<text:s/>{spaced[1:]}" if spaced.startswith(" ") else spaced
    lines = spaced.replace("\r\n", "\n").split("\n")
    return f'<table:table-cell office:value-type="string">{"".join(f"<text:p>{line}</text:p>" for line in lines)}</table:table-cell>'
