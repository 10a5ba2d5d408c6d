"""What a file is, is judged by its bytes; what cannot be read is refused in one sentence that says what it is and what to do."""

import gzip
import io
import lzma
import os
import random
import zipfile

import pytest
from reading_corpus import attempt, cells_of, inline, layout, open_one, refusal, text_file, workbook_parts, write_parts
from reading_writers import WRITERS, Sheet, Typed
from xlwt.CompoundDoc import XlsDoc

from loadsheet.errors import FileRefused
from loadsheet.languages import words_in
from loadsheet.problems import Problem
from loadsheet.reading import read_tops
from loadsheet.reports.fix_workbook.wording import word_problem
from loadsheet.settings import Settings

ASKED = layout("Order")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)


def zipped(parts):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return content.getvalue()


KIND = "application/vnd.oasis.opendocument.spreadsheet"
LOCKED = '<m:manifest xmlns:m="x"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'
FILEPASS = b"\x2f\x00\x06\x00\x00\x00\x01\x02\x03\x04"


def bare_xls(*records):
    """An .xls of Excel 5 outside of an OLE file: BOF, what is given, EOF."""
    return b"".join([b"\x09\x08\x08\x00\x00\x05\x05\x00\x2c\x12\xcd\x07", *records, b"\x0a\x00\x00\x00"])


def renamed_xls():
    """An OLE file whose one stream is not a workbook."""
    content = io.BytesIO()
    XlsDoc().save(content, bare_xls())
    return content.getvalue().replace("Workbook".encode("utf-16-le"), "Wurkbook".encode("utf-16-le"))


FOREIGN = {
    "xz": (lzma.compress(b"Order\nA1\n"), "an xz archive"),
    "zip of pictures": (zipped({"a.png": "x", "b.png": "y"}), "a zip archive without a table: a.png, b.png"),
    "zip of two tables": (zipped({"a.csv": "x", "b.xlsx": "y"}), "a zip archive with 2 tables: a.csv, b.xlsx"),
    "zip of ten tables": (zipped({f"{n}.csv": "x" for n in range(10)}), "6.csv, 7.csv, 8.csv, 9.csv"),
    "zip of eleven tables": (zipped({f"{n}.csv": "x" for n in range(11)}), "8.csv, 9.csv and 1 more"),
    "empty zip": (zipped({}), "a zip archive without a table: it is empty"),
    "zip in a zip": (zipped({"a.zip": zipped({"a.csv": "Order\nA1\n"})}), "an archive inside an archive"),
    "gzip in a gzip": (gzip.compress(gzip.compress(b"Order\nA1\n")), "an archive inside an archive"),
    "pdf in a zip": (zipped({"a.csv": "%PDF-1.7"}), "a PDF document"),
    "cut gzip": (gzip.compress(b"Order\nA1\n" * 99)[:-9], "incomplete or damaged"),
    "gzip with a flipped bit": (gzip.compress(b"Order\nA1\n")[:-6] + bytes(6), "incomplete or damaged"),
    "docx": (zipped({"word/document.xml": "<w/>"}), "a Word document"),
    "odt": (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}), "an OpenDocument file that is not a spreadsheet"),
    "locked ods": (zipped({"mimetype": KIND, "META-INF/manifest.xml": LOCKED, "content.xml": "?"}), "password-protected"),
    "doc": (OLE + "WordDocument".encode("utf-16-le") + bytes(48), "an old Word document"),
    "damaged xls": (OLE + "Workbook".encode("utf-16-le") + bytes(48), "incomplete or damaged"),
    "locked xls": (bare_xls(FILEPASS), "password-protected"),
    "excel 5 without sheets": (bare_xls(), "a workbook without a worksheet"),
    "locked xlsx": (OLE + bytes(1 << 20) + "EncryptedPackage".encode("utf-16-le") + bytes(48), "password-protected"),
    "other OLE": (renamed_xls(), "an old Office file, but no workbook"),
    "damaged OLE": (OLE, "incomplete or damaged"),
    "excel 4": (b"\x09\x04\x06\x00\x00\x00\x10\x00", "a workbook of Excel 4"),
    "excel 2": (b"\x09\x00\x04\x00\x00\x00\x10\x00", "a workbook of Excel 2"),
    "excel 3": (b"\x09\x02\x06\x00\x00\x00\x10\x00", "a workbook of Excel 3"),
    "excel 4 in OLE": (b"\x09\x08\x08\x00\x00\x04\x05\x00" + bytes(4) + b"\x0a\x00\x00\x00", "incomplete or damaged"),
    "pdf": (b"%PDF-1.7\n", "a PDF document"),
    "encrypted for a company": (b"\x9b DRMONE  This Document is encrypted and protected by Fasoo DRM \r\n" + bytes(range(256)), "encrypted by Fasoo DRM"),
    "png": (b"\x89PNG\r\n\x1a\n", "a picture"),
    "html": (b"\xef\xbb\xbf \n<HTML><table><tr><td>Order</td></tr></table>", "a web page (HTML)"),
    "html with XML head": (b'<?xml version="1.0"?>\n<!DOCTYPE html><html>', "a web page (HTML)"),
    "html in UTF-16": ("<table><tr><td>Order".encode("utf-16"), "a web page (HTML)"),
    "a login page": (b"<!DOCTYPE html><html><title>Sign in</title>", "a web page (HTML)"),
    "an e-mail": (b"Received: from x\r\nFrom: a@b.c\r\nMessage-ID: <1>\r\n\r\nOrders attached", "an e-mail"),
    "an e-mail with parts": (b"MIME-Version: 1.0\r\nFrom: a@b.c\r\n\r\n", "an e-mail"),
    "xml": (b'<?xml version="1.0"?><Workbook/>', "an XML document"),
    "xml without its head": (b'<orders a="1">\n <order><id>A1</id></order></orders>', "an XML document"),
    "json": (b'[\n  {"Order": "A1"}]', "a JSON document"),
    "a line of json for each row": (b'{"Order": "A1"}\n{"Order": "A2"}', "a JSON document"),
    "edifact": (b"UNA:+.? 'UNB+UNOC:3+S+R+261126:1200+1'UNH+1+IFTMIN:D:04A:UN'", "an EDI message"),
    "edifact without its head": (b"UNB+UNOA:1+S+R+261126:1200+1'", "an EDI message"),
    "x12": (b"ISA*00*          *00*          *ZZ*S              *ZZ*R", "an EDI message"),
    "XML of Excel 2003": (b'<?xml version="1.0"?>\n<?mso-application progid="Excel.Sheet"?><Workbook/>', "an XML spreadsheet of Excel 2003"),
    "flat ods": (b'<?xml version="1.0"?>\n<office:document xmlns:office="x">', "a flat OpenDocument file"),
    "mhtml": (b"MIME-Version: 1.0\nContent-Type: multipart/related", "a web archive (MHTML)"),
    "sylk": (b"ID;PWXL;N;E\nB;Y2;X1", "a SYLK file"),
    "noise": (bytes(range(256)) * 20, "the text is not UTF-8"),
    "zeros": (bytes(5000), "binary data"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_read_is_named_with_what_to_do(tmp_path, kind):
    content, what = FOREIGN[kind]
    for name, process in (("orders.csv", "child"), ("orders.xls", "none"), ("orders.xlsx", "none")):
        problem = refusal(text_file(tmp_path, content, name), ASKED, reading_process=process)
        assert what in problem.text
        assert " 0 more" not in problem.text
        assert problem.hint
        assert problem.where.file == name


def test_the_name_does_not_matter_for_what_is_read(tmp_path):
    assert cells_of(text_file(tmp_path, "Order\nA1\n", "orders.xls"), ASKED) == [["A1"]]
    parts = workbook_parts(inline("Order", number=1) + inline("A1", number=2))
    assert cells_of(write_parts(tmp_path / "orders.csv", parts), ASKED) == [["A1"]]


PACKED = {
    "gzip of text": lambda inner: gzip.compress(b"Order\nA1\n"),
    "zip of text": lambda inner: zipped({"orders.csv": "Order\nA1\n"}),
    "zip of text in a folder, with clutter": lambda inner: zipped(
        {"to_send/orders.txt": "Order\nA1\n", "__MACOSX/to_send/._orders.txt": "?", "to_send/Thumbs.db": "?", "read.me": "?"}
    ),
    "zip of text with a readme": lambda inner: zipped({"readme.txt": "?", "x/ReadMe_first.TXT": "?", "orders.txt": "Order\nA1\n"}),
    "zip of text with a German readme": lambda inner: zipped({"LIESMICH.txt": "?", "orders.csv": "Order\nA1\n"}),
    "zip of a readme alone": lambda inner: zipped({"readme.txt": "Order\nA1\n"}),
    "zip of one file with another name": lambda inner: zipped({"orders": "Order\nA1\n"}),
    "gzip of a workbook": gzip.compress,
    "zip of a workbook": lambda inner: zipped({"orders.xlsx": inner}),
}  # fmt: skip


@pytest.mark.parametrize("kind", PACKED)
def test_the_one_table_in_an_archive_is_read(tmp_path, kind):
    parts = workbook_parts(inline("Order", number=1) + inline("A1", number=2))
    inner = write_parts(tmp_path / "inner.xlsx", parts).read_bytes()
    table = open_one(text_file(tmp_path, PACKED[kind](inner), "orders.csv"), ASKED)
    for _ in range(2):
        assert [row.cells for row in table.rows()] == [("A1",)]
    assert table.reading_notes["archive"].startswith(kind.split()[0])
    assert table.file == "orders.csv"


@pytest.mark.parametrize("form", WRITERS)
def test_every_format_is_read_from_an_archive_and_its_first_rows_shown_without_a_mapping(tmp_path, form):
    plain = WRITERS[form](tmp_path / "plain", [Sheet([["Order", "City"], ["A1", "Ulm"]])])
    packed = text_file(tmp_path, gzip.compress(plain.read_bytes()), "a.gz")
    assert cells_of(packed, ASKED) == [["A1", "Ulm"]]
    for path in (plain, packed):
        (top,) = read_tops(path, path.name, Settings())
        assert top.sheet
        assert top.rows == ((1, ("Order", "City")), (2, ("A1", "Ulm")))


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("Order;City\nA1;Ulm, Süd\n", ";"),
        ("a;b,c\nd;e,f\n", ";"),
        ("a;b,c,d\ne;f,g,h\n", ","),
        ("a;b,c\nd;e\n", ";"),
        ("a;b,c\nd,e\n", ","),
        ("a\tb;c\n", "\t"),
        ("sep=|\na|b,c,d\n", "|"),
    ],
)
def test_the_first_rows_of_a_text_are_shown_under_the_delimiter_that_makes_most_cells(tmp_path, text, delimiter):
    (top,) = read_tops(text_file(tmp_path, text), "orders.csv", Settings())
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line[:4] != "sep="]
    assert (top.sheet, top.delimiter) == ("", delimiter)
    assert top.rows == tuple((number, tuple(line.split(delimiter))) for number, line in lines)


def test_an_archive_that_unpacks_to_too_much_is_refused_with_the_limit(tmp_path):
    bomb = gzip.compress(b"Order\n" + b"A1\n" * 8_000_000, 6)
    assert "(a fixed limit)" in refusal(text_file(tmp_path, bomb, "a.csv.gz"), ASKED).text
    small = text_file(tmp_path, gzip.compress(b"Order\n" + b"A1\n" * 500), "b.csv.gz")
    assert "more than 1,000 bytes" in refusal(small, ASKED, inflated_bytes_max=1_000).text


@pytest.mark.parametrize("form", ["xls", "xlsb", "ods"])
def test_a_file_cut_off_anywhere_is_refused_or_read_as_it_was(tmp_path, form):
    rows = [["Order", "Text"], *([f"A{number}", f"text {number}"] for number in range(60))]
    whole = WRITERS[form](tmp_path / "whole", [Sheet(rows)]).read_bytes()
    for end in range(0, len(whole), max(len(whole) // 60, 1)):
        problem = attempt(text_file(tmp_path, whole[:end], f"a.{form}"), ASKED)
        assert isinstance(problem, Problem) or [list(row.cells) for row in problem] == rows[1:], end


MARKUP = [b"", *b'< > " & 0 -1 99999999999999999999 <row> </row> <c> <v> \xc3\xa9 \x01'.split(), b"<!DOCTYPE x>"]


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("form", WRITERS)
def test_damaged_bytes_give_tables_or_one_refusal(tmp_path, form, count):
    """Bytes of the file, and of a package also bytes and pieces of markup in the parts of a sound one."""
    rows = [["Order", "Text"], *([f"A{number}", Typed(number + 0.5)] for number in range(30))]
    path, chance = WRITERS[form](tmp_path / "whole", [Sheet(rows)]), random.Random(5)

    def damaged(content, pieces, most=1):
        for _ in range(chance.choice([1, 1, most])):
            place = chance.randrange(len(content))
            end = place + chance.choice([1, 1, 8, len(content)])
            content = content[:place] + chance.choice(pieces) + content[end:]
        return content

    def attempted(path):
        found = attempt(path, ASKED)
        assert isinstance(found, Problem) or all(row.cells and str(row.problem) for row in found)

    letters = [bytes([letter]) for letter in range(256)]
    for _ in range(count):
        attempted(text_file(tmp_path, damaged(path.read_bytes(), letters, most=4), f"a.{form}"))
    if form != "xls":
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        for part in [name for name in parts if parts[name]]:
            pieces = letters if part.endswith(".bin") else MARKUP
            for _ in range(count // 2):
                attempted(write_parts(tmp_path / f"a.{form}", parts | {part: damaged(parts[part], pieces)}))


@pytest.mark.parametrize("label", ["ID;Price", "PAR1;x", "BZhl;x", "GIF8;x", "PK;x", "MM*;x", "Table;x"])
def test_texts_that_begin_like_something_else_are_read(tmp_path, label):
    assert cells_of(text_file(tmp_path, f"{label}\n1;2\n"), layout(label.split(";")[0])) == [["1", "2"]]


def test_a_title_of_words_that_mails_begin_with_is_no_mail(tmp_path):
    titled = "Date: 2026-03-01\nReceived: 2 orders\nOrder\nA1\n"
    assert cells_of(text_file(tmp_path, titled), ASKED) == [["A1"]]
    assert "an e-mail" in refusal(text_file(tmp_path, titled.replace("2 orders", "from mx by mail")), ASKED).text


GERMAN = layout("Id", "City", encodings=("utf-8", "cp1252"), delimiters=(",",))
HEAD, ROW = ["Id", "City"], ["A1", "Ulm"]
IN_GERMAN = {  # what is wrong with a file: the sheets of a workbook or the bytes of a text; words of the refusal
    "two sheets": (
        [Sheet([HEAD, ROW], "Week 10"), Sheet([HEAD, ROW], "Week 11")],
        ("Mehrere Blätter enthalten Zeilen der Tabelle: Week 10, Week 11", "blenden Sie die Blätter aus"),
    ),
    "a cell beyond the columns": (
        [Sheet([HEAD, [*ROW, "x"]])],
        ("rechts der letzten Spalte", "tragen Sie ihn unter seiner Überschrift ein, wenn er gebraucht wird"),
    ),
    "another delimiter": (
        b"Id;City\nA1;Ulm\n",
        ("mit einem anderen Trennzeichen", "mit dem vereinbarten Trennzeichen"),
    ),
    "cut off": (
        "Id,City\nA1,Skövde\nA2,Malmö".encode()[:-1],
        ("alles Übrige darin ist UTF-8", "speichern Sie sie als „CSV UTF-8“"),
    ),
}


@pytest.mark.parametrize("case", IN_GERMAN)
def test_refusals_are_worded_in_german(tmp_path, case):
    content, parts = IN_GERMAN[case]
    path = tmp_path / "a"
    text_file(tmp_path, content, "a") if isinstance(content, bytes) else WRITERS["xlsx"](path, content)
    found = attempt(path, GERMAN)
    message = word_problem(found if isinstance(found, Problem) else found[0].problem, words_in("de"), {})
    whole = f"{message.text} {message.todo}".casefold()
    assert [part for part in parts if part.casefold() not in whole] == [], whole
    assert " the " not in whole


def test_what_is_empty_missing_or_a_folder_is_refused(tmp_path):
    assert refusal(text_file(tmp_path, b""), ASKED).code == "R202"
    os.mkfifo(tmp_path / "pipe.csv")  # which nothing waits for
    for process in ("none", "child"):
        assert "No such file" in refusal(tmp_path / "missing.csv", ASKED, reading_process=process).text
        assert refusal(tmp_path, ASKED, reading_process=process).code == "R201"
    assert "not a file" in refusal(tmp_path / "pipe.csv", ASKED, reading_process="child").text


def test_a_file_that_vanishes_between_two_passes_is_refused(tmp_path):
    for path in (
        text_file(tmp_path, "Order\nA1\n"),
        write_parts(tmp_path / "a.xlsx", workbook_parts(inline("Order", number=1) + inline("A1", number=2))),
    ):
        table = open_one(path, ASKED)
        assert len(list(table.rows())) == 1
        path.unlink()
        with pytest.raises(FileRefused):
            list(table.rows())
