"""What a file is, is judged by its bytes; what cannot be read is refused in one sentence that says what it is and what to do."""

import gzip
import io
import lzma
import zipfile

import pytest
from reading_corpus import cells_of, inline, layout, refusal, text_file, workbook_parts, write_parts

from loadsheet.problems import FileRefused
from loadsheet.reading import open_tables
from loadsheet.settings import Settings

ASKED = layout("Order")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)


def zipped(**parts):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), text)
    return content.getvalue()


FOREIGN = {
    "gzip": (gzip.compress(b"Order\nA1\n"), "a gzip archive"),
    "xz": (lzma.compress(b"Order\nA1\n"), "an xz archive"),
    "zip of a CSV": (zipped(orders_dot_csv="Order\nA1\n"), "a zip archive"),
    "xlsb": (zipped(xl__workbook_dot_bin="x"), "a binary workbook (.xlsb)"),
    "docx": (zipped(word__document_dot_xml="<w/>"), "a Word document"),
    "ods": (zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet"), "an OpenDocument file (.ods)"),
    "xls": (OLE + "Workbook".encode("utf-16-le") + bytes(48), "an old Excel workbook (.xls)"),
    "locked xlsx": (OLE + bytes(1 << 20) + "EncryptedPackage".encode("utf-16-le") + bytes(48), "password-protected"),
    "other OLE": (OLE, "an old Office file"),
    "excel 4": (b"\x09\x04\x06\x00\x00\x00\x10\x00", "a workbook of Excel 4"),
    "pdf": (b"%PDF-1.7\n", "a PDF document"),
    "png": (b"\x89PNG\r\n\x1a\n", "a picture"),
    "html": (b"\xef\xbb\xbf \n<HTML><table><tr><td>Order</td></tr></table>", "a web page (HTML)"),
    "xml": (b'<?xml version="1.0"?><Workbook/>', "an XML document"),
    "noise": (bytes(range(256)) * 20, "the text is not UTF-8"),
    "zeros": (bytes(5000), "binary data"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_read_is_named_with_what_to_do(tmp_path, kind):
    content, what = FOREIGN[kind]
    for name in ("orders.csv", "orders.xls", "orders.xlsx"):
        problem = refusal(text_file(tmp_path, content, name), ASKED)
        assert what in problem.text
        assert problem.hint
        assert problem.where.file == name


def test_the_name_does_not_matter_for_what_is_read(tmp_path):
    assert cells_of(text_file(tmp_path, "Order\nA1\n", "orders.xls"), ASKED) == [["A1"]]
    parts = workbook_parts(inline("Order", number=1) + inline("A1", number=2))
    assert cells_of(write_parts(tmp_path / "orders.csv", parts), ASKED) == [["A1"]]


def test_an_empty_file_says_so(tmp_path):
    assert refusal(text_file(tmp_path, b""), ASKED).code == "R202"


def test_a_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "gone.csv", ASKED).text
    assert refusal(tmp_path, ASKED).code == "R201"


def test_a_file_that_vanishes_between_two_passes_is_refused(tmp_path):
    for path in (
        text_file(tmp_path, "Order\nA1\n"),
        write_parts(tmp_path / "a.xlsx", workbook_parts(inline("Order", number=1) + inline("A1", number=2))),
    ):
        table = open_tables(path, path.name, [ASKED], Settings())["rows"]
        assert len(list(table.rows())) == 1
        path.unlink()
        with pytest.raises(FileRefused):
            list(table.rows())
