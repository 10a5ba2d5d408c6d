"""One sheet in every format: writers for xlsx, xls, xlsb and ods that take the same rows. xlsb and ods are written record by record
and tag by tag here, as nothing that can be installed writes them; python-calamine reads them too, which keeps these writers honest.
"""

import datetime as dt
import struct
import zipfile
from dataclasses import dataclass, field, replace
from functools import cache
from xml.sax.saxutils import escape, quoteattr

import xlsxwriter
import xlwt
from reading_corpus import PACKAGE, RELATIONS, write_parts

ERROR_CODES = {"#NULL!": 0, "#DIV/0!": 7, "#VALUE!": 15, "#REF!": 23, "#NAME?": 29, "#NUM!": 36, "#N/A": 42}


@dataclass(frozen=True)
class Typed:
    """A number, flag or error, with the number format it is shown in."""

    value: object
    code: str = "General"


@dataclass(frozen=True)
class Sheet:
    """A sheet to write: rows of texts, `Typed` and None; what is hidden (from 0) and merged (top, left, bottom, right)."""

    rows: list
    title: str = "Data"
    hidden: bool = False
    hidden_rows: tuple = ()
    hidden_columns: tuple = ()
    merged: tuple = ()
    filtered: bool = False


@dataclass
class Styles:
    """Format codes in the order they are met; 0 is General."""

    codes: list = field(default_factory=lambda: ["General"])

    def place(self, cell):
        code = cell.code if isinstance(cell, Typed) else "General"
        if code not in self.codes:
            self.codes.append(code)
        return self.codes.index(code)


def error(text):
    return Typed(text)


def is_error(cell):
    return isinstance(cell, Typed) and isinstance(cell.value, str)


def write_xlsx(path, sheets, *, from_1904=False):
    with xlsxwriter.Workbook(path, {"date_1904": from_1904}) as book:
        for sheet in sheets:
            page = book.add_worksheet(sheet.title)
            for row, cells in enumerate(sheet.rows):
                for column, cell in enumerate(cells):
                    _write_xlsx_cell(book, page, (row, column), cell)
            for row in sheet.hidden_rows:
                page.set_row(row, None, None, {"hidden": True})
            for column in sheet.hidden_columns:
                page.set_column(column, column, None, None, {"hidden": True})
            for top, left, bottom, right in sheet.merged:
                page.merge_range(top, left, bottom, right, sheet.rows[top][left])
            if sheet.filtered:
                page.autofilter(0, 0, len(sheet.rows) - 1, len(sheet.rows[0]) - 1)
            if sheet.hidden:
                page.hide()
    return path


def _write_xlsx_cell(book, page, place, cell):
    if is_error(cell):
        page.write_formula(*place, "=NA()", None, cell.value)
    elif isinstance(cell, Typed) and isinstance(cell.value, bool):
        page.write_boolean(*place, cell.value)
    elif isinstance(cell, Typed):
        page.write_number(*place, cell.value, book.add_format({"num_format": cell.code}))
    elif cell is not None:
        page.write_string(*place, cell)


def write_xls(path, sheets, *, from_1904=False):
    book = xlwt.Workbook()
    book.dates_1904 = from_1904
    for sheet in sheets:
        page = book.add_sheet(sheet.title)
        page.visibility = int(sheet.hidden)
        inner = {(row, column) for area in sheet.merged for row, column in _places(*area)}
        for row, cells in enumerate(sheet.rows):
            for column, cell in enumerate(cells):
                if cell is not None and (row, column) not in inner:
                    _write_xls_cell(page, row, column, cell)
        for row in sheet.hidden_rows:
            page.row(row).hidden = True
        for column in range(max(map(len, sheet.rows), default=0)):
            page.col(column).hidden = column in sheet.hidden_columns
        for top, left, bottom, right in sheet.merged:
            page.write_merge(top, bottom, left, right, sheet.rows[top][left])
    book.save(str(path))
    return path


def _places(top, left, bottom, right):
    return [(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)]


def _write_xls_cell(page, row, column, cell):
    if is_error(cell):
        page.row(row).set_cell_error(column, ERROR_CODES[cell.value])
    elif isinstance(cell, Typed):
        page.write(row, column, cell.value, _xls_style(cell.code))
    else:
        page.write(row, column, cell)


@cache
def _xls_style(code):
    return xlwt.easyxf(num_format_str=code)


def record(kind, content=b""):
    """A BIFF12 record."""
    head = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return head + length + bytes([size]) + content


def wide(text):
    units = text.encode("utf-16-le")
    return struct.pack("<I", len(units) // 2) + units


def xlsb_parts(sheets, *, from_1904=False, shared=True):
    styles, texts = Styles(), []
    numbered = list(enumerate(sheets, 1))
    pages = {
        f"xl/worksheets/sheet{n}.bin": _xlsb_sheet(sheet, styles, texts if shared else None) for n, sheet in numbered
    }
    bundles = [
        record(156, struct.pack("<II", int(sheet.hidden), n) + wide(f"rId{n}") + wide(sheet.title))
        for n, sheet in numbered
    ]
    properties = record(153, struct.pack("<II", int(from_1904), 0) + wide(""))
    count = struct.pack("<I", len(styles.codes))
    formats = [record(44, struct.pack("<H", 164 + n) + wide(code)) for n, code in enumerate(styles.codes)]
    looks = [_xlsb_look(164 + n if n else 0) for n in range(len(styles.codes))]
    strings = [record(19, b"\0" + wide(text)) for text in texts]
    targets = [(f"rId{n}", "worksheet", f"worksheets/sheet{n}.bin") for n, _ in numbered]
    targets += [("rIdS", "sharedStrings", "sharedStrings.bin"), ("rIdF", "styles", "styles.bin")]
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": _relations([("rId1", "officeDocument", "xl/workbook.bin")]),
        "xl/workbook.bin": b"".join(
            [record(131), properties, record(143), *bundles, record(144), record(132)],
        ),
        "xl/_rels/workbook.bin.rels": _relations(targets),
        "xl/styles.bin": b"".join(
            [
                *(record(278), record(615, count), *formats, record(616)),
                *(record(626, struct.pack("<I", 1)), _xlsb_look(0), record(627)),
                *(record(617, count), *looks, record(618), record(279)),
            ]
        ),
        "xl/sharedStrings.bin": b"".join([record(159, struct.pack("<II", *[len(texts)] * 2)), *strings, record(160)]),
    }
    return pages | parts


def write_xlsb(path, sheets, **more):
    return write_parts(path, xlsb_parts(sheets, **more))


def _xlsb_look(number_format):
    return record(47, struct.pack("<HH", 0xFFFF, number_format) + bytes(12))


def _relations(targets):
    listed = "".join(
        f'<Relationship Id="{key}" Type="{RELATIONS}/{kind}" Target="{target}"/>' for key, kind, target in targets
    )
    return f'<Relationships xmlns="{PACKAGE}">{listed}</Relationships>'


def _xlsb_sheet(sheet, styles, texts):
    width, bottom = max(map(len, sheet.rows), default=1) or 1, max(len(sheet.rows) - 1, 0)
    hidden = [record(60, struct.pack("<IIIIH", column, column, 2000, 0, 1)) for column in sheet.hidden_columns]
    content = [record(129), record(148, struct.pack("<IIII", 0, bottom, 0, width - 1))]
    content += [record(390), *hidden, record(391), record(145)]
    for row, cells in enumerate(sheet.rows):
        flags = 0x10 if row in sheet.hidden_rows else 0
        content.append(record(0, struct.pack("<IIHBBBI", row, 0, 300, 0, flags, 0, 0)))
        content += [
            _xlsb_cell(struct.pack("<II", column, styles.place(cell)), cell, texts)
            for column, cell in enumerate(cells)
            if cell is not None
        ]
    content.append(record(146))
    if sheet.filtered:
        content += [record(161, struct.pack("<IIII", 0, bottom, 0, width - 1)), record(162)]
    content.append(record(177, struct.pack("<I", len(sheet.merged))))
    content += [
        record(176, struct.pack("<IIII", top, bottom, left, right)) for top, left, bottom, right in sheet.merged
    ]
    return b"".join([*content, record(178), record(130)])


def _xlsb_cell(head, cell, texts):
    if is_error(cell):
        return record(3, head + bytes([ERROR_CODES[cell.value]]))
    if isinstance(cell, Typed) and isinstance(cell.value, bool):
        return record(4, head + bytes([cell.value]))
    if isinstance(cell, Typed) and isinstance(cell.value, int) and -(2**29) <= cell.value < 2**29:
        return record(2, head + struct.pack("<i", cell.value << 2 | 2))
    if isinstance(cell, Typed):
        return record(5, head + struct.pack("<d", cell.value))
    if texts is None:
        return record(6, head + wide(cell))
    texts.append(cell)
    return record(7, head + struct.pack("<I", len(texts) - 1))


NAMES = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{uri}:1.0"'
    for name, uri in zip(
        ("office", "table", "text", "style", "number"), ("office", "table", "text", "style", "datastyle"), strict=True
    )
)
NAMES += ' xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"'
KIND = "application/vnd.oasis.opendocument.spreadsheet"
DATA_STYLES = {
    "00": '<number:number-style style:name="N1"><number:number number:min-integer-digits="2" number:decimal-places="0"/></number:number-style>',
    "00000": '<number:number-style style:name="N2"><number:number number:min-integer-digits="5" number:decimal-places="0"/></number:number-style>',
    "00000-0000": '<number:number-style style:name="N3"><number:number number:min-integer-digits="9" number:decimal-places="0">'
    '<number:embedded-text number:position="4">-</number:embedded-text></number:number></number:number-style>',
    "000-0000-000": '<number:number-style style:name="N4"><number:number number:min-integer-digits="10" number:decimal-places="0">'
    '<number:embedded-text number:position="3">-</number:embedded-text><number:embedded-text number:position="7">-</number:embedded-text>'
    "</number:number></number:number-style>",
    "yyyy-mm-dd": '<number:date-style style:name="N5"><number:year/><number:text>-</number:text><number:month/><number:day/></number:date-style>',
    "yyyy-mm-dd hh:mm": '<number:date-style style:name="N6"><number:year/><number:month/><number:day/><number:hours/><number:minutes/></number:date-style>',
    "hh:mm:ss": '<number:time-style style:name="N7"><number:hours/><number:minutes/><number:seconds/></number:time-style>',
    "[h]:mm:ss": '<number:time-style style:name="N8" number:truncate-on-overflow="false"><number:hours/></number:time-style>',
    "00%": '<number:percentage-style style:name="N9"><number:number number:min-integer-digits="2"/><number:text>%</number:text></number:percentage-style>',
    "#,##0.00": '<number:number-style style:name="N10"><number:number number:min-integer-digits="4" number:decimal-places="2" number:grouping="true"/></number:number-style>',
    '"D-"00000" x"': '<number:number-style style:name="N11"><number:text>D-</number:text>'
    '<number:number number:min-integer-digits="5" number:decimal-places="0"/><number:text> x</number:text></number:number-style>',
    '0.0" lb"': '<number:number-style style:name="N12"><number:number number:min-integer-digits="1" number:decimal-places="1"/>'
    "<number:text> lb</number:text></number:number-style>",
    "[$USD] #,##0.00": '<number:currency-style style:name="N13"><number:currency-symbol>USD</number:currency-symbol><number:text> </number:text>'
    '<number:number number:min-integer-digits="1" number:decimal-places="2" number:grouping="true"/></number:currency-style>',
    '#,##0.00\\ "€";-#,##0.00\\ "€"': '<number:currency-style style:name="N14P0"><number:number number:min-integer-digits="1"/>'
    '<number:text> </number:text><number:currency-symbol number:language="de" number:country="DE">€</number:currency-symbol></number:currency-style>'
    '<number:currency-style style:name="N14"><number:text>-</number:text><number:number number:min-integer-digits="1"/><number:text> </number:text>'
    '<number:currency-symbol>€</number:currency-symbol><style:map style:condition="value()&gt;=0" style:apply-style-name="N14P0"/></number:currency-style>',
    '[>=1000]0.0," t";0" kg"': '<number:number-style style:name="N15P0"><number:number number:min-integer-digits="1" number:decimal-places="1"'
    ' number:display-factor="1000"/><number:text> t</number:text></number:number-style>'
    '<number:number-style style:name="N15"><number:number number:min-integer-digits="1"/><number:text> kg</number:text>'
    '<style:map style:condition="value()&gt;=1000" style:apply-style-name="N15P0"/></number:number-style>',
}


def ods_parts(sheets, *, tables=""):
    styles = Styles()
    body = "".join(_ods_table(sheet, styles) for sheet in sheets)
    names = {code: f"N{place}" for place, code in enumerate(DATA_STYLES, 1)}
    cells = "".join(
        f'<style:style style:name="ce{place}" style:family="table-cell" style:data-style-name="{names[code]}"/>'
        for place, code in enumerate(styles.codes)
        if place
    )
    shown = "".join(
        f'<style:style style:name="ta{place}" style:family="table"><style:table-properties table:display="{"true" if place else "false"}"/></style:style>'
        for place in (0, 1)
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content{NAMES} office:version="1.3"><office:automatic-styles>'
        f"{shown}{cells}</office:automatic-styles><office:body><office:spreadsheet>{body}{tables}</office:spreadsheet></office:body></office:document-content>"
    )
    return {
        "mimetype": KIND,
        "content.xml": content,
        "styles.xml": f"<office:document-styles{NAMES}><office:styles>{''.join(DATA_STYLES.values())}</office:styles></office:document-styles>",
        "META-INF/manifest.xml": '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{KIND}"/></manifest:manifest>',
    }


def write_ods(path, sheets, *, from_1904=False):
    return write_parts(path, ods_parts([_without_serials(sheet, from_1904) for sheet in sheets]), zipfile.ZIP_STORED)


def _without_serials(sheet, from_1904):
    """The sheet with what ods stores instead of serial numbers."""
    epoch = dt.datetime(1904, 1, 1) if from_1904 else dt.datetime(1899, 12, 30)

    def changed(cell):
        if not isinstance(cell, Typed) or is_error(cell) or not any(letter in cell.code for letter in "yhs"):
            return cell
        if "y" in cell.code:
            return Typed(epoch + dt.timedelta(seconds=round(cell.value * 86_400)), cell.code)
        return Typed(dt.timedelta(seconds=round(cell.value * 86_400)), cell.code)

    return replace(sheet, rows=[[changed(cell) for cell in cells] for cells in sheet.rows])


def _ods_table(sheet, styles):
    width = max(map(len, sheet.rows), default=1) or 1
    columns = "".join(
        "<table:table-column" + (' table:visibility="collapse"/>' if column in sheet.hidden_columns else "/>")
        for column in range(width)
    )
    spans = {(top, left): (bottom - top + 1, right - left + 1) for top, left, bottom, right in sheet.merged}
    rows = ""
    for row, cells in enumerate(sheet.rows):
        state = ("filter" if sheet.filtered else "collapse") if row in sheet.hidden_rows else "visible"
        written = "".join(_ods_cell(cell, styles, spans.get((row, column))) for column, cell in enumerate(cells))
        rows += f'<table:table-row table:visibility="{state}">{written or "<table:table-cell/>"}</table:table-row>'
    rows += '<table:table-row table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    return f'<table:table table:name={quoteattr(sheet.title)} table:style-name="ta{int(not sheet.hidden)}">{columns}{rows}</table:table>'


def _ods_cell(cell, styles, span):
    if cell is None:
        return "<table:table-cell/>"
    place = styles.place(cell)
    given = f' table:style-name="ce{place}"' if place else ""
    if span:
        given += f' table:number-rows-spanned="{span[0]}" table:number-columns-spanned="{span[1]}"'
    return f"<table:table-cell{given}{_ods_value(cell)}</table:table-cell>"


def _ods_value(cell):
    if is_error(cell):
        return f' table:formula="of:=NA()" office:value-type="string" office:string-value="" calcext:value-type="error"><text:p>{cell.value}</text:p>'
    if not isinstance(cell, Typed):
        return f' office:value-type="string">{ods_text(cell)}'
    value = cell.value
    if isinstance(value, bool):
        return f' office:value-type="boolean" office:boolean-value="{str(value).lower()}"><text:p>?</text:p>'
    if isinstance(value, dt.datetime):
        text = value.isoformat() if value.time() != dt.time() else value.date().isoformat()
        return f' office:value-type="date" office:date-value="{text}"><text:p>?</text:p>'
    if isinstance(value, dt.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f' office:value-type="time" office:time-value="PT{minutes // 60:02}H{minutes % 60:02}M{seconds:02}S"><text:p>?</text:p>'
    kind = "percentage" if "%" in cell.code else "float"
    return f' office:value-type="{kind}" office:value="{value!r}"><text:p>?</text:p>'


def ods_text(text):
    """A text as paragraphs, with tabs and further spaces as elements."""
    marked = escape(text).replace("\t", "<text:tab/>").replace("  ", ' <text:s text:c="1"/>')
    return "".join(f"<text:p>{line}</text:p>" for line in marked.split("\n"))


WRITERS = {"xlsx": write_xlsx, "xls": write_xls, "xlsb": write_xlsb, "ods": write_ods}
