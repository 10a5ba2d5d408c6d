"""Opening a file for the tables that a mapping wants of it: what the file is, judged by its bytes and never by its name."""

from collections.abc import Sequence
from pathlib import Path

from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.delimited import delimited_top, open_delimited
from loadsheet.reading.encoding import refused
from loadsheet.reading.layouts import Layout
from loadsheet.reading.package import Package, open_package
from loadsheet.reading.tables import Table, Top
from loadsheet.reading.workbook import open_workbook, workbook_tops
from loadsheet.settings import Settings

_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SAVE_AS = "open it in the program it comes from and save it as .xlsx or as 'CSV UTF-8'"
_UNPACK = "unpack it and send the file inside"
_FOREIGN: dict[bytes, tuple[str, str]] = {  # first bytes: what it is, what to do
    b"\x1f\x8b": ("a gzip archive", _UNPACK),
    b"BZh": ("a bzip2 archive", _UNPACK),
    b"\xfd7zXZ\0": ("an xz archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", _UNPACK),
    b"Rar!\x1a\x07": ("a RAR archive", _UNPACK),
    b"\x09\x00\x04\x00": ("a workbook of Excel 2", _SAVE_AS),
    b"\x09\x02\x06\x00": ("a workbook of Excel 3", _SAVE_AS),
    b"\x09\x04\x06\x00": ("a workbook of Excel 4", _SAVE_AS),
    b"%PDF-": ("a PDF document", "send the table it was made from as .xlsx or CSV"),
    b"\x89PNG": ("a picture (PNG)", "send the table itself as .xlsx or CSV"),
    b"\xff\xd8\xff": ("a picture (JPEG)", "send the table itself as .xlsx or CSV"),
    b"{\\rtf": ("an RTF document", _SAVE_AS),
    b"SQLite format 3\0": ("an SQLite database", "export the table as CSV"),
    b"PAR1": ("a Parquet file", "export the table as CSV"),
}
_PACKAGES: dict[str, tuple[str, str]] = {  # a part that tells: what it is, what to do
    "xl/workbook.bin": ("a binary workbook (.xlsb)", _SAVE_AS),
    "word/document.xml": ("a Word document", _SAVE_AS),
    "ppt/presentation.xml": ("a presentation", "send the table itself as .xlsx or CSV"),
    "index/document.iwa": ("a document of Apple's iWork", _SAVE_AS),
}
_OLE_NAMES: dict[str, tuple[str, str]] = {  # a stream's name: what it is, what to do
    "EncryptedPackage": ("a password-protected workbook", "save it without a password and send it again"),
    "Workbook": ("an old Excel workbook (.xls)", _SAVE_AS),
    "Book": ("a workbook of Excel 5 or 95 (.xls)", _SAVE_AS),
    "WordDocument": ("an old Word document (.doc)", _SAVE_AS),
}
_MARKUP: dict[bytes, str] = {b"<?xml": "an XML document", b"<!doctype html": "a web page (HTML)"} | dict.fromkeys(
    (b"<html", b"<head", b"<body", b"<table", b"<meta", b"<style"), "a web page (HTML)"
)


def open_tables(path: Path, name: str, layouts: Sequence[Layout], settings: Settings) -> dict[str, Table]:
    """The tables that `layouts` want of the file at `path`, by layout name. `name` is the name it was dropped under, for problems.

    The file must stay as it is while the tables are used: `Table.rows` reads it anew each time. Raises FileRefused with the
    reason for what cannot be read; bad rows are no reason, they come out of `rows` with their problem.
    """
    if _is_workbook(path, name, settings):
        return open_workbook(path, name, layouts, settings)
    return open_delimited(path, name, layouts, settings)


def glimpse(path: Path, name: str, settings: Settings) -> list[Top]:
    """The first rows of everything in a file that can be a table, before any mapping is known. Raises FileRefused like
    `open_tables`.
    """
    if _is_workbook(path, name, settings):
        return workbook_tops(path, name, settings)
    return [delimited_top(path, name, settings)]


def _is_workbook(path: Path, name: str, settings: Settings) -> bool:
    """Whether a file is a workbook; else it is text. Raises FileRefused for what is neither."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise refused(
            name, f"the system says: {error.strerror}", "check that the file is there and may be read"
        ) from error
    if not head:
        raise FileRefused(Problem("R202", Where(name), hint="it has 0 bytes; send it again"))
    if head.startswith(_ZIP):
        _refuse_other_packages(path, name, settings)
        return True
    if head.startswith(_OLE):
        raise refused(name, *_it_is(_ole_kind(path)))
    for signature, kind in _FOREIGN.items():
        if head.startswith(signature):
            raise refused(name, *_it_is(kind))
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for signature, what in _MARKUP.items():
        if start.startswith(signature):
            raise refused(name, *_it_is((what, _SAVE_AS)))
    return False


def _it_is(kind: tuple[str, str]) -> tuple[str, str]:
    return f"it is {kind[0]}", kind[1]


def _refuse_other_packages(path: Path, name: str, settings: Settings) -> None:
    with open_package(path, name, settings.inflated_bytes_max) as package:
        if _holds_workbook(package):
            return
        for part, kind in _PACKAGES.items():
            if package.has(part):
                raise refused(name, *_it_is(kind))
        if package.has("mimetype"):
            with package.opened("mimetype") as stream:
                if stream.read(100).startswith(b"application/vnd.oasis.opendocument"):
                    raise refused(name, *_it_is(("an OpenDocument file (.ods)", _SAVE_AS)))
        raise refused(name, *_it_is(("a zip archive", _UNPACK)))


def _holds_workbook(package: Package) -> bool:
    if package.has("xl/workbook.xml"):
        return True
    main = [part for kind, part in package.relations("").values() if kind == "officeDocument"]
    return any(
        part.endswith(".xml") and package.has(f"{part.rpartition('/')[0]}/worksheets/sheet1.xml") for part in main
    )


def _ole_kind(path: Path) -> tuple[str, str]:
    """What an OLE file is, by the names in its directory, which stand there in UTF-16."""
    names = {name.encode("utf-16-le") + b"\0\0": kind for name, kind in _OLE_NAMES.items()}
    longest = max(map(len, names))
    rest = b""
    found: set[bytes] = set()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            found.update(name for name in names if name in rest + chunk)
            rest = chunk[-longest:]
    return next(
        (kind for name, kind in names.items() if name in found), ("an old Office file or a locked one", _SAVE_AS)
    )
