"""The bytes of a file from any source, and the encoding of a text file, verified over the whole file.

The encoding is not guessed: a byte order mark decides, else the encodings that the mapping declares, in order and strictly. A guess is for
the author of a mapping alone.
Also here: the refusal of a file that cannot be read.
"""

import codecs
import html
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import IncrementalNewlineDecoder, TextIOWrapper
from typing import IO

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where
from loadsheet.reading.refusals import file_refusal
from loadsheet.reading.tables import CONTROL

OpenBytes = Callable[[], IO[bytes]]
"""Opens bytes at their start, any number of times. Raises OSError, and for a damaged archive the exceptions of its module."""

_CHUNK = 1 << 18
_CONTROLS = bytes(code for code in range(128) if CONTROL.match(chr(code)))
LINE_LENGTH_MAX = 1 << 20
"""The longest line of text in characters: files are read line by line, so this bounds memory."""

_BYTE_ORDER_MARKS = (  # the longer ones first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITHOUT_MARK = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf16": "utf-16-le", "utf-32": "utf-32-le"}
WIDE = ("utf-16", "utf_16", "utf16", "utf-32", "utf_32", "utf32")
_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257")
_BEYOND_LATIN = ("cp1251", "cp1253", "cp1255", "cp1256", "cp874", "cp932", "gb18030", "big5", "cp949")
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#[0-9]{2,5}|#x[0-9A-Fa-f]{2,4});")
_TAG = re.compile(
    r"</?(?:a|b|br|div|em|font|h[1-6]|i|img|li|ol|p|span|strong|su[bp]|t[dr]|table|u|ul)(?: [^<>]*)?/?>|_x000[9ad]_",
    re.IGNORECASE,
)  # and the line breaks of a workbook's XML
_HIGH = re.compile(rb"[\x80-\xff]+")
_HIGH_LEAST = 8
_IN_RUNS = 0.3  # share of the bytes beyond ASCII that stand beside another one, in scripts other than Latin
_AT_THE_END = " \t\0\x1a"  # what may stand below the last line, such as Ctrl-Z of DOS
_NOT_WESTERN = b"\x81\x8d\x8f\x90\x9d"
_PLAIN = 0.5  # share of the characters of a table
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # from "surrogateescape"
_BREAKS = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Survey:
    """A text file that was read once completely. `bom_length` is that of its byte order mark in bytes; `has_quotes` includes escapes,
    `has_controls` means control characters; `longest_line` is in characters. `unended_line` is the number of the last line if it has no line
    end, else 0.
    """

    source: OpenBytes
    encoding: str
    bom_length: int
    is_blank: bool
    has_quotes: bool
    has_controls: bool
    longest_line: int
    unended_line: int

    @property
    def shown_encoding(self) -> str:
        """The encoding for reports, and whether a byte order mark declares it."""
        return self.encoding.upper() + (" (by its byte order mark)" if self.bom_length else "")

    def open(self) -> TextIOWrapper:
        """The text after its byte order mark; lines end with CR, LF or CR LF and keep them."""
        raw = self.source()
        raw.seek(self.bom_length)
        return TextIOWrapper(raw, self.encoding, "strict", newline="")


def survey_text(source: OpenBytes, name: str, encodings: Sequence[str], quote_chars: str = '"') -> Survey:
    """Find the encoding of a file by reading it completely. `quote_chars` are the characters that count as quotes.

    Raises FileRefused if none of `encodings` fits (the first failure is reported, with offset and line), if the file is damaged
    UTF-8 that only a later encoding accepts, contradicts its byte order mark, holds binary data, or has an overlong line.
    """
    with source() as raw:
        head = raw.read(4096)
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            if _contradicts(head[len(mark) :], encoding):
                reason = f"its byte order mark says {encoding[:6].upper()}, but its content is not"
                raise file_refusal(name, reason, "save it as 'CSV UTF-8'")
            return _survey_as(source, name, encoding, len(mark), quote_chars)
    if head.count(0) * 8 > len(head) and not any(encoding.lower().startswith(WIDE) for encoding in encodings):
        raise file_refusal(name, "it holds binary data, or UTF-16 without a byte order mark", "save it as 'CSV UTF-8'")
    failures: list[FileRefused] = []
    narrow = [encoding for encoding in encodings if not encoding.lower().startswith(WIDE)]
    # a table in UTF-16 has NULs, in its delimiters at least
    for encoding in encodings if 0 in head else narrow or encodings:
        try:
            surveyed = _survey_as(
                source, name, _WITHOUT_MARK.get(encoding.lower().replace("_", "-"), encoding), 0, quote_chars
            )
        except FileRefused as failure:
            if failure.problem.code != "R203":
                raise
            failures.append(failure)
            continue
        if failures:
            _refuse_damaged_utf_8(source, failures)
        return surveyed
    if not failures:
        raise file_refusal(name, "no encoding is declared for it", "set source.encoding in the mapping")
    _refuse_damaged_utf_8(source, failures)
    raise failures[0]


def guess_encoding(source: OpenBytes) -> str:
    """The most likely encoding of a text if it is not UTF-8: by its letters that of a language beyond Latin script, else that of Western
    Europe, or of Central Europe if a byte has no meaning in it.
    """
    with source() as raw:
        start = raw.read(_CHUNK)
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(start)
        return "cp1252"
    runs = [len(run) for run in _HIGH.findall(start)]
    if sum(runs) < _HIGH_LEAST or sum(length for length in runs if length > 1) < sum(runs) * _IN_RUNS:
        return _latin(start)  # letters with accents are few, and mostly stand alone
    from charset_normalizer import from_bytes  # takes 70 ms, and only drafts of such files need it

    found = from_bytes(start[: start.rfind(b"\n") + 1] or start, cp_isolation=[*_LATIN, *_BEYOND_LATIN]).best()
    if found is not None and found.encoding in _BEYOND_LATIN:
        return found.encoding
    return _latin(start)


def _latin(start: bytes) -> str:
    return "cp1252" if start == start.translate(None, _NOT_WESTERN) else "cp1250"


def _contradicts(start: bytes, marked: str) -> bool:
    """Whether the start of a text contradicts its byte order mark: decoding gives NULs, or no ASCII while another encoding gives
    plain text. Every table has some ASCII: delimiters, line ends, digits.
    """
    text = start.decode(marked, "ignore")
    if text.count("\0") * 8 > len(text):
        return True
    if _plain_share(start, marked):
        return False
    starts = (start, start[2:])  # the second: without NULs that were read as part of the mark
    return any(_plain_share(text, other) > _PLAIN for _, other in _BYTE_ORDER_MARKS for text in starts)


def _plain_share(start: bytes, encoding: str) -> float:
    """The share of printable ASCII at the start of a text in an encoding; 0 if it cannot be decoded."""
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(start)
    except UnicodeDecodeError:
        return 0.0
    plain = sum(character.isascii() and (character.isprintable() or character in "\t\r\n") for character in text)
    return plain / len(text) if text and "\0" not in text else 0.0


def _refuse_damaged_utf_8(source: OpenBytes, failures: Sequence[FileRefused]) -> None:
    """Raises the failure of UTF-8 if the text is UTF-8 except for a few bytes. Another encoding would accept it and garble every
    letter beyond ASCII.
    """
    by_encoding = {codecs.lookup(failure.problem.values["encoding"]).name: failure for failure in failures}
    failed = by_encoding.get("utf-8")
    if failed is not None and _is_mostly_utf_8(source):
        hint = (
            "all else in it is UTF-8, so it was damaged or cut off here: send it again; "
            "if it is in another encoding, name that one alone in source.encoding of the mapping"
        )
        raise FileRefused(replace(failed.problem, hint=hint))


def _is_mostly_utf_8(source: OpenBytes) -> bool:
    """Whether there are at least as many valid UTF-8 characters beyond ASCII as invalid bytes. Other encodings have hardly any."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    valid = bad = 0
    with source() as raw:
        chunk = b"-"
        while chunk:
            chunk = raw.read(_CHUNK)
            text = decoder.decode(chunk, final=not chunk)
            if not text.isascii():
                invalid = len(_BAD_BYTE.findall(text))
                bad += invalid
                valid += len(text) - len(text.encode("ascii", "ignore")) - invalid
    return valid >= bad


def _survey_as(source: OpenBytes, name: str, encoding: str, bom_length: int, quote_chars: str) -> Survey:
    blank, quotes, controls = True, False, False
    longest = line = 0  # the longest line, and the length of the last chunk's unfinished line
    number, is_open = 1, False  # the number of that line, and whether it says something
    with source() as raw:
        raw.seek(bom_length)
        for text in _decode(raw, name, encoding):
            blank = blank and not text.strip()
            quotes = quotes or any(char in text for char in quote_chars)
            pieces = text.split("\n")
            if not controls:  # twice as fast as a search
                encoded = text.encode("utf-8", "replace")
                controls = len(encoded.translate(None, _CONTROLS)) != len(encoded)
            longest = max(longest, line + len(pieces[0]), *map(len, pieces[1:]))
            line = len(pieces[-1]) + (line if len(pieces) == 1 else 0)
            is_open = bool(pieces[-1].strip(_AT_THE_END)) or (is_open and len(pieces) == 1)
            number += len(pieces) - 1
            if longest > LINE_LENGTH_MAX:
                raise file_refusal(
                    name, f"a line holds more than {LINE_LENGTH_MAX:,} characters", "check that it is a table"
                )
    return Survey(source, encoding, bom_length, blank, quotes, controls, longest, number if is_open else 0)


def _decode(raw: IO[bytes], name: str, encoding: str) -> Iterator[str]:
    """The text in pieces, every line end as LF. Raises FileRefused (R203) at the first byte that is not in the encoding."""
    try:
        b"a".decode(encoding, "ignore")  # refuses codecs that do not return text
        inner = codecs.getincrementaldecoder(encoding)("strict")
    except (LookupError, UnicodeError):
        raise file_refusal(
            name, f"its encoding {encoding} is not known", "correct source.encoding in the mapping"
        ) from None
    decoder = IncrementalNewlineDecoder(inner, translate=True)
    position, line = raw.tell(), 1
    while True:
        chunk = raw.read(_CHUNK)
        position += len(chunk)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, "ignore")
            offset = position - len(error.object) + error.start
            line += len(_BREAKS.findall(before))
            values = {"encoding": encoding.upper(), "offset": offset, "line": line}
            hint = "save it as 'CSV UTF-8', or set source.encoding in the mapping to its encoding, such as cp1252"
            raise FileRefused(Problem("R203", Where(name, row=line), "", values, hint)) from None
        line += text.count("\n")
        yield text
        if not chunk:
            return


def repair_encoding(text: str) -> str:
    """The text before a program wrote it for HTML (`<b>M&uuml;ller</b>`) or XML (`1 Main St_x000D_Leeds`), or decoded UTF-8 as a Western code page or Windows-1252 as Latin-1; the same
    text if none of it happened.
    """
    if _ENTITY.search(text) or _TAG.search(text):
        return " ".join(html.unescape(_TAG.sub(" ", text)).split())
    for read_as, written_in in (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("latin-1", "cp1252")):
        try:
            return text.encode(read_as).decode(written_in)
        except UnicodeError:
            continue
    return text
