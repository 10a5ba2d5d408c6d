"""Real files for the tests of reading: text by its bytes, workbooks by openpyxl, XlsxWriter, or part by part."""

import zipfile

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem
from loadsheet.reading import Layout, WantedColumn, open_tables
from loadsheet.settings import Settings

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
STRICT_MAIN = "http://purl.oclc.org/ooxml/spreadsheetml/main"
STRICT_RELATIONS = "http://purl.oclc.org/ooxml/officeDocument/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def wanted(*labels, optional=()):
    """Columns named by their labels."""
    return tuple(WantedColumn(label, (label,), label not in optional) for label in labels)


def layout(*labels, optional=(), **more):
    return Layout("rows", wanted(*labels, optional=optional), **more)


def open_one(path, asked, reading_process="none", **settings):
    """The table of a file, read in this process unless a test is about another one."""
    chosen = Settings(reading_process=reading_process, **settings)
    return open_tables(path, path.name, [asked], chosen)[asked.name]


def rows_of(path, asked, **settings):
    return list(open_one(path, asked, **settings).rows())


def cells_of(path, asked, **settings):
    rows = rows_of(path, asked, **settings)
    assert [row.problem for row in rows if row.problem] == []
    return [list(row.cells) for row in rows]


def attempt(path, asked, **settings):
    """The rows of a file, or the problem it is refused with."""
    try:
        return rows_of(path, asked, **settings)
    except FileRefused as refused:
        str(refused.problem)  # its template must find its values
        return refused.problem


def refusal(path, asked, **settings):
    """The problem a file is refused with."""
    problem = attempt(path, asked, **settings)
    assert isinstance(problem, Problem), f"{path.name} was read: {problem}"
    return problem


def text_file(folder, text, name="orders.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def workbook_parts(
    rows_xml="",
    *,
    texts=(),
    styles="",
    sheets=(("Sheet1", "visible"),),
    strict=False,
    prefix="",
    properties="",
    dimension="",
    before='<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
):
    """The parts of a small workbook; `rows_xml` is the sheet data of its first sheet."""
    main, relations = (STRICT_MAIN, STRICT_RELATIONS) if strict else (MAIN, RELATIONS)
    p = f"{prefix}:" if prefix else ""
    names = f'xmlns{":" + prefix if prefix else ""}="{main}" xmlns:r="{relations}"'
    listed = "".join(
        f'<{p}sheet name="{title}" sheetId="{number}" state="{state}" r:id="rId{number}"/>'
        for number, (title, state) in enumerate(sheets, 1)
    )
    targets = "".join(
        f'<Relationship Id="rId{number}" Type="{relations}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        for number in range(1, len(sheets) + 1)
    )
    targets += f'<Relationship Id="rIdS" Type="{relations}/sharedStrings" Target="sharedStrings.xml"/>'
    targets += f'<Relationship Id="rIdF" Type="{relations}/styles" Target="styles.xml"/>'
    strings = "".join(f"<{p}si>{text if text.startswith('<') else f'<{p}t>{text}</{p}t>'}</{p}si>" for text in texts)
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="rId1" Type="{relations}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f"{before}<{p}workbook {names}>{properties}<{p}sheets>{listed}</{p}sheets></{p}workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">{targets}</Relationships>',
        "xl/sharedStrings.xml": f"{before}<{p}sst {names}>{strings}</{p}sst>",
        "xl/styles.xml": f"{before}<{p}styleSheet {names}>{styles}</{p}styleSheet>",
    }
    for number in range(1, len(sheets) + 1):
        data = rows_xml if number == 1 else ""
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f"{before}<{p}worksheet {names}>{dimension}<{p}sheetData>{data}</{p}sheetData></{p}worksheet>"
        )
    return parts


def write_parts(path, parts, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def inline(*texts, number, prefix=""):
    """A row of inline texts."""
    p = f"{prefix}:" if prefix else ""
    cells = "".join(
        f'<{p}c r="{chr(65 + place)}{number}" t="inlineStr"><{p}is><{p}t>{text}</{p}t></{p}is></{p}c>'
        for place, text in enumerate(texts)
    )
    return f'<{p}row r="{number}">{cells}</{p}row>'
