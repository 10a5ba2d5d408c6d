"""What files are that are not read: by their first bytes, the streams of an OLE file or the parts of a zip, with what to do.

Owns the sentences that name them. Decides nothing: `opening` does.
"""

import re

Kind = tuple[str, str]
"""What a file is, and what its sender should do."""

SAVE_AS = "open it in the program it comes from and save it as .xlsx or as 'CSV UTF-8'"
_SEND_TABLE = "send the table itself as .xlsx or CSV"
_EXPORT = "export the table as CSV"
_UNPACK = "unpack it and send the file inside"
_UNLOCK = "save it without a password and send it again"

NESTED: Kind = ("an archive inside an archive", _UNPACK)
SIGNATURES: dict[bytes, Kind] = {
    b"\x1f\x8b": NESTED,
    b"BZh": ("a bzip2 archive", _UNPACK),
    b"\xfd7zXZ\0": ("an xz archive", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("a Zstandard archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", _UNPACK),
    b"Rar!\x1a\x07": ("a RAR archive", _UNPACK),
    b"\x09\x00\x04\x00": ("a workbook of Excel 2", SAVE_AS),
    b"\x09\x00\x06\x00": ("a workbook of Excel 2", SAVE_AS),
    b"\x09\x02\x06\x00": ("a workbook of Excel 3", SAVE_AS),
    b"\x09\x04\x06\x00": ("a workbook of Excel 4", SAVE_AS),
    b"%PDF-": ("a PDF document", "send the table it was made from as .xlsx or CSV"),
    b"\x89PNG": ("a picture (PNG)", _SEND_TABLE),
    b"\xff\xd8\xff": ("a picture (JPEG)", _SEND_TABLE),
    b"GIF8": ("a picture (GIF)", _SEND_TABLE),
    b"II*\0": ("a picture (TIFF)", _SEND_TABLE),
    b"MM\0*": ("a picture (TIFF)", _SEND_TABLE),
    b"{\\rtf": ("an RTF document", SAVE_AS),
    b"SQLite format 3\0": ("an SQLite database", _EXPORT),
    b"PAR1": ("a Parquet file", _EXPORT),
    b"TABLE\r\n0,1": ("a DIF file", SAVE_AS),
    b"MIME-Version:": ("a web archive (MHTML)", SAVE_AS),
}
ALSO_WORDS = (b"BZh", b"PAR1", b"GIF8")
"""Signatures that a text may begin with too; what is meant by them holds zero bytes."""

PACKAGES: dict[str, Kind] = {  # a part that tells
    "xl/workbook.bin": ("a binary workbook (.xlsb)", SAVE_AS),
    "word/document.xml": ("a Word document", SAVE_AS),
    "ppt/presentation.xml": ("a presentation", _SEND_TABLE),
    "index/document.iwa": ("a document of Apple's iWork", SAVE_AS),
}
OTHER_ODF: Kind = ("an OpenDocument file that is no spreadsheet", SAVE_AS)
OTHER_PACKAGE: Kind = ("an Office document without a workbook", SAVE_AS)
MARKUP = (  # how a text begins, in lower case
    (
        re.compile(r"<\?xml.{0,600}(urn:schemas-microsoft-com:office:spreadsheet|excel\.sheet)", re.DOTALL),
        "an XML spreadsheet of Excel 2003",
    ),
    (re.compile(r"<\?xml.{0,3000}<office:document\b", re.DOTALL), "a flat OpenDocument file (.fods)"),
    (
        re.compile(
            r"(<\?xml[^>]*>\s*)?(<!--.{0,2000}?-->\s*)?<(!doctype html|html|head|body|table|meta|style)\b", re.DOTALL
        ),
        "a web page (HTML)",
    ),
    (re.compile(r"<\?xml"), "an XML document"),
    (re.compile(r"id;p(wxl|scalc|calcooo)"), "a SYLK file (.slk)"),
)

_OLE_NAMES: dict[str, Kind] = {  # the name of a stream
    "EncryptedPackage": ("a password-protected workbook", _UNLOCK),
    "WordDocument": ("an old Word document (.doc)", SAVE_AS),
    "PowerPoint Document": ("an old presentation (.ppt)", _SEND_TABLE),
    "__properties_version1.0": ("a saved e-mail (.msg)", "send the table that is attached to it"),
}


def refusal_of(kind: Kind) -> tuple[str, str]:
    """The reason and the hint of a refusal."""
    return f"it is {kind[0]}", kind[1]


def ole_kind(content: bytes) -> Kind | None:
    """What an OLE file is that holds no workbook, by the names in its directory, which stand there in UTF-16."""
    for name, kind in _OLE_NAMES.items():
        if name.encode("utf-16-le") + b"\0\0" in content:
            return kind
    return None
