"""Whether a zip is what it says, before anything of it is unpacked.

Everything here is known from the archive's directory and the headers in front of its parts, so a bomb costs no more than its
directory does. What passes can still be damaged inside: that is found while it is read, as the module zipfile gives no more of a part
than the directory declares and checks its sum.
"""

import struct
import zipfile
from collections.abc import Sequence
from typing import IO

from loadsheet.problems import FileRefused, Problem, Where

PARTS_MAX = 10_000
RATIO_MAX = 100  # what shrinks more than this ...
RATIO_OF_TABLES_MAX = 500  # ... or, if it holds a table, whose rows may repeat much of each other, than this ...
RATIO_GRACE = 10_000_000  # ... and unpacks to more than this is a bomb
_SHEETS = "worksheets/"  # their readers bear whatever they unpack to: only their size counts

_SPLIT = "send it in several files, or as CSV"
_SAVE_ANEW = "save it anew in the program it comes from and send it again"
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED = 0x1
_LOCAL = struct.Struct("<4s5H3L2H")  # APPNOTE 4.3.7
_END = struct.Struct("<4s4H2LH")  # APPNOTE 4.3.16
_END_64 = struct.Struct("<4sQ2H2L4Q")  # APPNOTE 4.3.14
_LOCATOR_64 = struct.Struct("<4sLQL")  # APPNOTE 4.3.15
_COMMENT_MAX = 0xFFFF
_DIRECTORY_MAX = 1_000 * PARTS_MAX  # bytes
_IN_EXTRA_FIELD = 0xFFFFFFFF  # how zip64 says that a size stands elsewhere; 0: it follows the part


def over_limit(name: str, reason: str, limit: int | str, setting: str, hint: str = _SPLIT) -> FileRefused:
    """The refusal of a file that is over a limit: what was measured, what is read at most, and the setting that says so."""
    return FileRefused(Problem("R231", Where(name), "", {"reason": reason, "limit": limit, "setting": setting}, hint))


def check_directory(stream: IO[bytes], name: str) -> None:
    """Raises FileRefused if the directory of a zip is larger than that of any workbook, before it is read. Says nothing of what
    is no zip.
    """
    size = stream.seek(0, 2)
    tail_length = min(size, _END.size + _COMMENT_MAX + _LOCATOR_64.size)
    stream.seek(size - tail_length)
    tail = stream.read(tail_length)
    place = tail.rfind(b"PK\x05\x06")
    stream.seek(0)
    if place < 0 or len(tail) - place < _END.size:
        return
    _, _, _, _, parts, length, _, _ = _END.unpack_from(tail, place)
    if place >= _LOCATOR_64.size and tail.startswith(b"PK\x06\x07", place - _LOCATOR_64.size):
        _, _, at, _ = _LOCATOR_64.unpack_from(tail, place - _LOCATOR_64.size)
        stream.seek(min(at, size))
        head = stream.read(_END_64.size)
        stream.seek(0)
        if head.startswith(b"PK\x06\x06") and len(head) == _END_64.size:
            _, _, _, _, _, _, _, parts_64, length_64, _ = _END_64.unpack(head)
            parts, length = max(parts % 0xFFFF, parts_64), max(length % _IN_EXTRA_FIELD, length_64)
    if parts > PARTS_MAX:
        raise _too_many(parts, name)
    if length > _DIRECTORY_MAX:
        raise over_limit(name, f"its directory takes {length:,} bytes", _DIRECTORY_MAX, "a fixed limit", _SAVE_ANEW)


def check_parts(archive: zipfile.ZipFile, stream: IO[bytes], name: str, inflated_bytes_max: int) -> None:
    """Raises FileRefused if the parts are too many or too large, shrink as only a bomb does, overlap, are not what the headers in
    front of them say, are locked with a password, or are packed as workbooks never are.
    """
    entries = archive.infolist()
    if len(entries) > PARTS_MAX:
        raise _too_many(len(entries), name)
    for entry in entries:
        if entry.flag_bits & _ENCRYPTED:
            raise _refused(name, "it is locked with a password", "send it without a password")
        if entry.compress_type not in _METHODS:
            raise _refused(name, f"its part {entry.filename} is packed in a way that workbooks do not use")
    inflated = sum(entry.file_size for entry in entries)
    if inflated > inflated_bytes_max:
        raise over_limit(name, f"it unpacks to {inflated:,} bytes", inflated_bytes_max, "inflated_bytes_max")
    _check_ratios(entries, name)
    _check_places(entries, stream, archive.start_dir, name)


def _check_ratios(entries: Sequence[zipfile.ZipInfo], name: str) -> None:
    """Raises FileRefused if a part, or all together, shrink as only a bomb does. Sheets do not count: honest ones may hold much the same
    in each row.
    """
    tables = [entry for entry in entries if entry.filename == "content.xml" or _has_rows(entry.filename)]
    others = [entry for entry in entries if entry not in tables and _SHEETS not in entry.filename]
    told = [(f"its part {entry.filename}", [entry], RATIO_OF_TABLES_MAX) for entry in tables]
    told += [(f"its part {entry.filename}", [entry], RATIO_MAX) for entry in others]
    for what, parts, ratio in [*told, ("it", others, RATIO_MAX)]:
        large, small = sum(part.file_size for part in parts), sum(part.compress_size for part in parts)
        if large > RATIO_GRACE and large > ratio * max(small, 1):
            reason = f"{what} unpacks to {large:,} bytes from {small:,}, as a zip bomb does"
            raise over_limit(name, reason, f"{ratio} bytes for each packed one", "a fixed limit", "send it as CSV")


def _has_rows(part: str) -> bool:
    """Whether a part is a table by itself, as in an archive of one."""
    return part.lower().endswith((".csv", ".tsv", ".tab", ".txt"))


def _too_many(parts: int, name: str) -> FileRefused:
    return over_limit(name, f"it holds {parts:,} parts", PARTS_MAX, "a fixed limit", _SAVE_ANEW)


def _refused(name: str, reason: str, hint: str = _SAVE_ANEW) -> FileRefused:
    return FileRefused(Problem("R201", Where(name), "", {"reason": reason}, hint))


def _check_places(entries: Sequence[zipfile.ZipInfo], stream: IO[bytes], start_of_directory: int, name: str) -> None:
    """Each part has bytes of its own, and the header in front of it says the same of it as the directory."""
    free_from = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        stream.seek(max(entry.header_offset, 0))
        header = stream.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\x03\x04"):
            raise _lies(name, f"there is no part where {entry.filename} should be")
        _, _, _, method, _, _, checksum, packed, inflated, name_length, extra_length = _LOCAL.unpack(header)
        end = entry.header_offset + _LOCAL.size + name_length + extra_length + entry.compress_size
        if entry.header_offset < free_from or end > start_of_directory:
            raise _lies(name, f"its part {entry.filename} shares bytes with another one, as in a zip bomb")
        free_from = end
        pairs = ((checksum, entry.CRC), (packed, entry.compress_size), (inflated, entry.file_size))
        if method != entry.compress_type or any(told not in (known, 0, _IN_EXTRA_FIELD) for told, known in pairs):
            raise _lies(name, f"its part {entry.filename} is not of the size that its directory says")


def _lies(name: str, reason: str) -> FileRefused:
    return FileRefused(Problem("R235", Where(name), "", {"reason": reason}, _SAVE_ANEW))
