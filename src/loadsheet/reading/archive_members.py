"""Archives: the one table inside a zip or gzip file. Nothing is unpacked to disk, and no name from inside ever becomes a path.

Text is unpacked while it is read, workbooks into memory (up to 256 MB). Knows nothing of tables; an archive in an archive is not opened.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from loadsheet.reading.archive import RATIO_GRACE, RATIO_OF_TABLES_MAX, over_limit
from loadsheet.reading.encoding import refused
from loadsheet.reading.package import DAMAGED, FAULTS, SEND_AGAIN, open_package
from loadsheet.reading.sources import Gzipped, Loaded, Source, Zipped

_TABLES = {".csv", ".tsv", ".tab", ".txt", ".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"}
_CLUTTER = {".ds_store", "thumbs.db", "desktop.ini"}
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x09\x08")
_LOADED_MAX = 1 << 28
_SHOWN_MAX = 10
_CHUNK = 1 << 18


def unpack(path: Path, name: str, member: str, inflated_bytes_max: int) -> Source:
    """The table in an archive: `member` of a zip, or all there is in a gzip file (no name). It is read to its end once.

    Raises FileRefused if it is damaged, or unpacks to too much.
    """
    packed_size = path.stat().st_size
    packed = Zipped(path, member) if member else Gzipped(path)
    limit = min(inflated_bytes_max, max(RATIO_GRACE, RATIO_OF_TABLES_MAX * packed_size))
    content = bytearray()
    size = 0
    try:
        with packed.open("rb") as stream:
            while size <= limit and (chunk := stream.read(_CHUNK)):
                if not size and chunk.startswith(_WORKBOOKS):
                    limit = min(limit, _LOADED_MAX)
                    content += chunk
                elif content:
                    content += chunk
                size += len(chunk)
    except FAULTS as error:
        raise refused(name, f"{DAMAGED} ({error or type(error).__name__})", SEND_AGAIN) from error
    if size > limit:
        setting = "inflated_bytes_max" if limit == inflated_bytes_max else "a fixed limit"
        reason = f"it unpacks to more than {limit:,} bytes from {packed_size:,}"
        raise over_limit(name, reason, limit, setting, "send it unpacked")
    return Loaded(bytes(content)) if content else packed


def find_member(path: Path, name: str, inflated_bytes_max: int) -> tuple[str, int]:
    """The name of the one table in a zip archive, and how many files beside it are ignored. Raises FileRefused naming what is inside unless there is exactly one."""
    with open_package(path, name, inflated_bytes_max) as package:
        files = [entry.filename for entry in package.archive.infolist() if _counts(entry)]
    tables = [file for file in files if PurePosixPath(file.lower()).suffix in _TABLES]
    chosen = tables or files
    if len(chosen) == 1:
        return chosen[0], len(files) - 1
    what = f"a zip archive with {len(tables)} tables" if tables else "a zip archive without a table"
    raise refused(name, f"it is {what}: {_some(chosen)}", "send one archive for each table, or the files themselves")


def _counts(entry: zipfile.ZipInfo) -> bool:
    """Whether an entry is a file of the sender's, and not what their system adds."""
    folder, _, base = entry.filename.replace("\\", "/").rpartition("/")
    clutter = base.startswith("._") or base.lower() in _CLUTTER or folder.split("/")[0] == "__MACOSX"
    return bool(base) and not clutter


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(name[-100:] for name in names[:_SHOWN_MAX])
    return (shown or "it is empty") + (f" and {len(names) - _SHOWN_MAX:,} more" if len(names) > _SHOWN_MAX else "")
