"""OLE files, the containers of old Office files: which streams are inside, and what they make of the file.

By way of olefile, which follows chains of sectors only as far as the file reaches (xlrd's own reader can be led in circles).
"""

from io import BytesIO

import olefile

from loadsheet.problems import FileRefused
from loadsheet.reading.encoding import refused
from loadsheet.reading.package import DAMAGED, SEND_AGAIN
from loadsheet.reading.unsupported_files import Kind, it_is, ole_kind

_WORKBOOKS = ("Workbook", "Book")  # of Excel 97 and later, and of Excel 5 and 95
_FAULTS = (EOFError, OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError)


def workbook_stream(content: bytes, name: str) -> bytes:
    """The records of the workbook in an OLE file. Raises FileRefused naming what the file is instead, or that it is damaged."""
    try:
        with olefile.OleFileIO(BytesIO(content), raise_defects=olefile.DEFECT_FATAL) as ole:
            inside = {path[0].lower() for path in ole.listdir()}
            for stream in _WORKBOOKS:
                if stream.lower() in inside:
                    records = bytes(ole.openstream(stream).read())
                    if len(records) == ole.get_size(stream):
                        return records
                    raise EOFError("the workbook in it is cut off")
    except _FAULTS as error:
        raise _named(name, ole_kind(content), error) from error
    kind = ole_kind(content)
    raise refused(
        name, *it_is(kind or ("an old Office file, but no workbook", "save the table as .xlsx or as 'CSV UTF-8'"))
    )


def _named(name: str, kind: Kind | None, error: Exception) -> FileRefused:
    """The refusal of a damaged OLE file: by what it seems to be, where that is not to be read anyway."""
    if kind is not None:
        return refused(name, *it_is(kind))
    return refused(name, f"{DAMAGED} ({str(error)[:200] or type(error).__name__})", SEND_AGAIN)
