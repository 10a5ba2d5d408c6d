"""Opens a file and finds the tables that a mapping wants. The file type is detected by content, never by name.

Also here: archives, which are zip or gzip files with one table inside. Text is unpacked while it is read, workbooks into memory
(up to 256 MB). Nothing is unpacked to disk, no name in an archive becomes a path, and nested archives are not opened.
"""

import gzip
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, cast

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where
from loadsheet.reading.delimited import delimited_top, open_delimited
from loadsheet.reading.encoding import OpenBytes
from loadsheet.reading.ods import open_ods
from loadsheet.reading.package import (
    DAMAGED,
    FAULTS,
    RATIO_GRACE,
    RATIO_OF_TABLES_MAX,
    SEND_AGAIN,
    Package,
    open_package,
    over_limit,
)
from loadsheet.reading.refusals import OPEN_IN_EXCEL, SAVE_AS, SEND_TABLE, RefusedFormat, file_refusal, refuse_format
from loadsheet.reading.tables import Bounds, Layout, Table
from loadsheet.reading.workbook import Book, open_workbook, workbook_tops
from loadsheet.reading.xls import OLE, open_xls
from loadsheet.reading.xlsb import MAIN_PART, open_xlsb
from loadsheet.reading.xlsx import open_xlsx

_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ODF = "application/vnd.oasis.opendocument."
_GZIP = b"\x1f\x8b"
_BIFF = (b"\x09\x08\x10\x00", b"\x09\x08\x08\x00")  # an .xls without an OLE container

_EXPORT = "export the table as CSV"
_UNPACK = "unpack it and send the file inside"

_NESTED = RefusedFormat("an archive inside an archive", _UNPACK)
_SIGNATURES: dict[bytes, RefusedFormat] = {
    b"\x1f\x8b": _NESTED,
    b"BZh": RefusedFormat("a bzip2 archive", _UNPACK),
    b"\xfd7zXZ\0": RefusedFormat("an xz archive", _UNPACK),
    b"\x28\xb5\x2f\xfd": RefusedFormat("a Zstandard archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": RefusedFormat("a 7-Zip archive", _UNPACK),
    b"Rar!\x1a\x07": RefusedFormat("a RAR archive", _UNPACK),
    b"\x09\x00\x04\x00": RefusedFormat("a workbook of Excel 2", OPEN_IN_EXCEL),
    b"\x09\x00\x06\x00": RefusedFormat("a workbook of Excel 2", OPEN_IN_EXCEL),
    b"\x09\x02\x06\x00": RefusedFormat("a workbook of Excel 3", OPEN_IN_EXCEL),
    b"\x09\x04\x06\x00": RefusedFormat("a workbook of Excel 4", OPEN_IN_EXCEL),
    b"\x9b DRMONE": RefusedFormat(
        "a document encrypted by Fasoo DRM", "save it without a password or encryption and send it again"
    ),
    b"%PDF-": RefusedFormat("a PDF document", "send the table it was made from as .xlsx or CSV"),
    b"\x89PNG": RefusedFormat("a picture (PNG)", SEND_TABLE),
    b"\xff\xd8\xff": RefusedFormat("a picture (JPEG)", SEND_TABLE),
    b"GIF8": RefusedFormat("a picture (GIF)", SEND_TABLE),
    b"II*\0": RefusedFormat("a picture (TIFF)", SEND_TABLE),
    b"MM\0*": RefusedFormat("a picture (TIFF)", SEND_TABLE),
    b"{\\rtf": RefusedFormat("an RTF document", SAVE_AS),
    b"SQLite format 3\0": RefusedFormat("an SQLite database", _EXPORT),
    b"PAR1": RefusedFormat("a Parquet file", _EXPORT),
    b"TABLE\r\n0,1": RefusedFormat("a DIF file", OPEN_IN_EXCEL),
}
_ALSO_WORDS = (b"BZh", b"PAR1", b"GIF8")
"""Signatures that a text may begin with as well; the binary formats contain zero bytes."""

_PACKAGES: dict[str, RefusedFormat] = {  # by the part that identifies them
    "word/document.xml": RefusedFormat("a Word document", SAVE_AS),
    "ppt/presentation.xml": RefusedFormat("a presentation", SEND_TABLE),
    "index/document.iwa": RefusedFormat("a document of Apple's iWork", SAVE_AS),
}
_OTHER_ODF = RefusedFormat("an OpenDocument file that is not a spreadsheet", SAVE_AS)
_OTHER_PACKAGE = RefusedFormat("an Office document without a workbook", SAVE_AS)
_OPEN_AND_SEE = "open it in Excel or LibreOffice; if you see your table, save it as .xlsx; if you see a login or an error, download it again"
_ATTACHED = RefusedFormat("an e-mail", "send the table that is attached to it")
_MARKUP: tuple[tuple[re.Pattern[str], RefusedFormat], ...] = (  # the start of a text, in lower case
    (
        re.compile(r"<\?xml.{0,600}(urn:schemas-microsoft-com:office:spreadsheet|excel\.sheet)", re.DOTALL),
        RefusedFormat("an XML spreadsheet of Excel 2003", OPEN_IN_EXCEL),
    ),
    (
        re.compile(r"<\?xml.{0,3000}<office:document\b", re.DOTALL),
        RefusedFormat("a flat OpenDocument file (.fods)", OPEN_IN_EXCEL),
    ),
    (
        re.compile(
            r"(<\?xml[^>]*>\s*)?(<!--.{0,2000}?-->\s*)?<(!doctype html|html|head|body|table|meta|style)\b", re.DOTALL
        ),
        RefusedFormat("a web page (HTML)", _OPEN_AND_SEE),
    ),
    (re.compile(r"<\?xml|<[a-z_][^<>\s]*(\s[^<>]*)?>\s*<"), RefusedFormat("an XML document", SAVE_AS)),
    (re.compile(r'(\[\s*)?\{\s*"[^"]*"\s*:'), RefusedFormat("a JSON document", _EXPORT)),
    (
        re.compile(r"(una.{6}\s*)?unb.uno[a-y]|isa([^\w\s])[0-9]{2}\2"),
        RefusedFormat("an EDI message (EDIFACT or X12)", SEND_TABLE),
    ),
    (re.compile(r"id;p(wxl|scalc|calcooo)"), RefusedFormat("a SYLK file (.slk)", OPEN_IN_EXCEL)),
    (re.compile(r"mime-version:.*\n(from|subject):", re.DOTALL), _ATTACHED),
    (re.compile(r"mime-version:"), RefusedFormat("a web archive (MHTML)", OPEN_IN_EXCEL)),
    (
        re.compile(
            r"(from|to|subject|date|received|return-path|delivered-to|message-id|x-[a-z-]+):.*"
            r"\n((mime-version|message-id|content-type):|received: *(from|by) )",
            re.DOTALL,
        ),
        _ATTACHED,
    ),
)


def open_in_this_process(path: Path, name: str, layouts: Sequence[Layout], bounds: Bounds) -> dict[str, Table]:
    """The tables of the file at `path` for `layouts`, by layout name. `name` is the file's original name, for problems.

    The file must not change while the tables are used: `Table.rows` reads it again each time. `rows` yields bad rows with their
    problems. Raises FileRefused if the file cannot be read. Without layouts, the tables are the first rows of every possible table.
    """
    source, archive = _unpack(path, name, bounds)
    book = _open_book(source, name, bounds, archive)
    if not layouts:
        tops = workbook_tops(book) if book is not None else [delimited_top(source, name, bounds)]
        return {str(number): top.as_table(str(number), name) for number, top in enumerate(tops)}
    tables = open_workbook(book, layouts, bounds) if book is not None else open_delimited(source, name, layouts, bounds)
    notes = {"archive": archive} if archive else {}
    return {key: replace(table, reading_notes=notes | table.reading_notes) for key, table in tables.items()}


def _unpack(path: Path, name: str, bounds: Bounds) -> tuple[OpenBytes, str]:
    """The file itself or the one in an archive, and a description of the archive (empty: none)."""

    def file() -> IO[bytes]:
        return path.open("rb")

    head = _head(file, name)
    limit = bounds.inflated_bytes_max
    if head.startswith(_GZIP):
        return unpack(path, name, "", limit), "gzip"
    if head.startswith(_ZIP) and not _is_document(file, name, limit):
        member, others = find_member(file, name, limit)
        ignored = f"; {others} other file{'' if others == 1 else 's'} ignored" if others else ""
        return unpack(path, name, member, limit), f"zip: {member}{ignored}"
    return file, ""


def _head(source: OpenBytes, name: str) -> bytes:
    try:
        with source() as file:
            head = file.read(4096)
    except OSError as error:
        hint = "check that the file is there and may be read"
        raise file_refusal(name, f"the system reports: {error.strerror}", hint) from error
    if not head:
        raise FileRefused(Problem("R202", Where(name), hint="it has 0 bytes; send it again"))
    return head


def _open_book(source: OpenBytes, name: str, bounds: Bounds, archive: str) -> Book | None:
    """The workbook in a file; None for text. Raises FileRefused for anything else."""
    head, limit = _head(source, name), bounds.inflated_bytes_max
    if head.startswith(_ZIP):
        if archive and not _is_document(source, name, limit):
            raise refuse_format(name, _NESTED)
        return _open_package(source, name, limit)
    if head.startswith((OLE, *_BIFF)):
        return open_xls(source, name)
    _refuse_foreign(name, head)
    return None


def _refuse_foreign(name: str, head: bytes) -> None:
    for signature, kind in _SIGNATURES.items():
        if head.startswith(signature) and (signature not in _ALSO_WORDS or 0 in head):
            raise refuse_format(name, kind)
    start = _as_text(head)
    for pattern, kind in _MARKUP:
        if pattern.match(start):
            raise refuse_format(name, kind)


def _as_text(head: bytes) -> str:
    """The ASCII characters at the start of a file in any encoding, in lower case."""
    return head.replace(b"\0", b"").decode("utf-8-sig", "ignore").lstrip("\ufeff \t\r\n").lower()


def _is_document(source: OpenBytes, name: str, inflated_bytes_max: int) -> bool:
    """Whether a zip file is a document rather than an archive of files."""
    with open_package(source, name, inflated_bytes_max) as package:
        marking_parts = ("mimetype", "[Content_Types].xml", MAIN_PART, *_PACKAGES)
        return any(package.has(part) for part in marking_parts) or _holds_workbook(package)


def _open_package(source: OpenBytes, name: str, inflated_bytes_max: int) -> Book:
    """The workbook in a zip package. Raises FileRefused naming the kind of any other package."""
    with open_package(source, name, inflated_bytes_max) as package:
        if _holds_workbook(package):
            opener = open_xlsx
        elif package.has(MAIN_PART):
            opener = open_xlsb
        elif _odf_kind(package).startswith("spreadsheet"):
            opener = open_ods
        else:
            raise refuse_format(name, _package_kind(package))
    return opener(source, name, inflated_bytes_max)


def _package_kind(package: Package) -> RefusedFormat:
    for part, kind in _PACKAGES.items():
        if package.has(part):
            return kind
    if _odf_kind(package):
        return _OTHER_ODF
    return _OTHER_PACKAGE if package.has("[Content_Types].xml") else _NESTED


def _odf_kind(package: Package) -> str:
    """The kind of an OpenDocument file (`spreadsheet`, `text`, ...); empty for other packages."""
    if not package.has("mimetype"):
        return ""
    with package.opened("mimetype") as stream:
        kind = stream.read(100).decode("ascii", "ignore")
    return kind.removeprefix(_ODF) if kind.startswith(_ODF) else ""


def _holds_workbook(package: Package) -> bool:
    """Whether the main part of a package is a workbook, whatever its name."""
    if package.has("xl/workbook.xml"):
        return True
    main = [part for kind, part in package.relations("").values() if kind == "officeDocument"]
    return any(
        next((tag for tag, _ in package.elements(part)), "") == "workbook"
        for part in main
        if part.endswith(".xml") and package.has(part)
    )


_TABLE_SUFFIXES = {".csv", ".tsv", ".tab", ".txt", ".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"}
_README = re.compile(r"(read.?me|lies.?mich|lisez.?moi|l[eé]eme|leggimi|lees.?mij)[^/]*\.txt")
_CLUTTER = {".ds_store", "thumbs.db", "desktop.ini"}
_WORKBOOK_SIGNATURES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x09\x08")
_LOADED_MAX = 1 << 28
_SHOWN_MAX = 10
_CHUNK = 1 << 18


def unpack(path: Path, name: str, member: str, inflated_bytes_max: int) -> OpenBytes:
    """The table in an archive: `member` of a zip file, or the content of a gzip file (empty name). Reads it once completely.

    Raises FileRefused if it is damaged, or unpacks to too much.
    """
    packed_size = path.stat().st_size
    packed = partial(_open_member, path, member) if member else cast("OpenBytes", partial(gzip.open, path))
    limit = min(inflated_bytes_max, max(RATIO_GRACE, RATIO_OF_TABLES_MAX * packed_size))
    content = bytearray()
    size = 0
    try:
        with packed() as stream:
            while size <= limit and (chunk := stream.read(_CHUNK)):
                if not size and chunk.startswith(_WORKBOOK_SIGNATURES):
                    limit = min(limit, _LOADED_MAX)
                    content += chunk
                elif content:
                    content += chunk
                size += len(chunk)
    except FAULTS as error:
        raise file_refusal(name, f"{DAMAGED} ({error or type(error).__name__})", SEND_AGAIN) from error
    if size > limit:
        setting = "reading.inflated_bytes_max" if limit == inflated_bytes_max else "a fixed limit"
        reason = f"it unpacks to more than {limit:,} bytes from {packed_size:,}"
        raise over_limit(name, reason, limit, setting, "send it unpacked")
    return partial(BytesIO, bytes(content)) if content else packed


def _open_member(path: Path, member: str) -> IO[bytes]:
    with zipfile.ZipFile(path) as archive:  # the archive stays open until the member is closed
        return archive.open(member)


def find_member(file: OpenBytes, name: str, inflated_bytes_max: int) -> tuple[str, int]:
    """The name of the only table in a zip archive, and the number of ignored files, such as a readme. Raises FileRefused listing the
    content if there is not exactly one.
    """
    with open_package(file, name, inflated_bytes_max) as package:
        files = [entry.filename for entry in package.archive.infolist() if _is_senders_file(entry)]
    names = {file: PurePosixPath(file.lower()) for file in files}
    tables = [
        file for file in files if names[file].suffix in _TABLE_SUFFIXES and not _README.fullmatch(names[file].name)
    ]
    chosen = tables or files
    if len(chosen) == 1:
        return chosen[0], len(files) - 1
    what = f"a zip archive with {len(tables)} tables" if tables else "a zip archive without a table"
    raise file_refusal(
        name, f"it is {what}: {_listed(chosen)}", "send one archive for each table, or the files themselves"
    )


def _is_senders_file(entry: zipfile.ZipInfo) -> bool:
    """Whether an entry is the sender's own file, not one that their system added."""
    folder, _, base = entry.filename.replace("\\", "/").rpartition("/")
    clutter = base.startswith("._") or base.lower() in _CLUTTER or folder.split("/")[0] == "__MACOSX"
    return bool(base) and not clutter


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[-100:] for name in names[:_SHOWN_MAX])
    return (shown or "it is empty") + (f" and {len(names) - _SHOWN_MAX:,} more" if len(names) > _SHOWN_MAX else "")
