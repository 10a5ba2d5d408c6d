"""How report files are written: atomically, in order, and with foreign text that stays text.

Owns file names, the rules against formula injection (CWE-1236), and the limits of a workbook cell. Reports repeat what
shippers and the exchange wrote, so every text goes through here. Text for people has no control characters; data for
programs keeps its own.
"""

import csv
import errno
import io
import os
import re
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from itertools import chain, count
from pathlib import Path
from typing import IO, BinaryIO
from unicodedata import normalize

from loadsheet.contract import plain_digits
from loadsheet.display_text import has_control, show_controls
from loadsheet.errors import FolderError

_NAME_BYTES_MAX = 150
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|(COM|LPT)[0-9¹²³]) *(\.|$)", re.IGNORECASE)
_UNSAFE = re.compile(r"[^\w .()+,=@-]")


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Write `path` atomically: the block writes to the yielded path, which is then renamed. Leaves nothing behind if writing fails.

    Raises FolderError if the folder cannot be written to or the disk is full.
    """
    part = path.with_name(f"{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written ({error.strerror or error}); check the folder and the disk."
            " Nothing is lost: `loadsheet report` writes the reports again from the ledger"
        ) from error


class FailingOnce:
    """The file a workbook is written to. It raises OSError once; after that it accepts and drops everything.

    Python's archives try to complete themselves on deletion, long after the failure was reported. That would fail
    again, with a traceback that no caller can catch.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._failed = file, False
        self._place = 0  # archives ask for the position even after a failure

    def write(self, data: bytes) -> int:
        """Write, or drop the data after a failure."""
        self._place += len(data)
        if not self._failed:
            self._failed = True  # reset after success
            self._file.write(data)
            self._failed = False
        return len(data)

    def seek(self, offset: int) -> int:
        """Go to an offset from the beginning."""
        self._place = offset
        self._once(self._file.seek, offset)  # may have to write
        return offset

    def tell(self) -> int:
        """The position."""
        return self._place

    def flush(self) -> None:
        """Flush the file."""
        self._once(self._file.flush)

    def end(self) -> None:
        """Drop everything from now on."""
        self._failed = True

    def _once(self, act: Callable[..., object], *words: object) -> None:
        if not self._failed:
            self._failed = True  # reset after success
            act(*words)
            self._failed = False


def run_folders(folder: Path) -> list[str]:
    """The folders of runs in the outbox. Raises FolderError if the outbox cannot be read."""
    try:
        return [path.name for path in folder.iterdir() if path.is_dir()]
    except OSError as error:
        raise FolderError(
            f"the report folder {folder} cannot be read ({error.strerror}); check its permissions"
        ) from error


def check_writable(folder: Path) -> None:
    """Create the outbox if it does not exist. Raises FolderError if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it is read-only")
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
        raise FolderError(
            f"reports cannot be written to the folder {folder} ({why}); nothing was read or sent. Fix the folder or name"
            " another (--outbox), and run again"
        ) from error


def safe_name(text: str) -> str:
    """A shipper's file or sheet name as the beginning of a file name: folders flattened, no special characters of file systems, and no
    name that Windows reserves for a device.
    """
    flat = text.replace("\\", "/").strip("/").replace("/", "__")
    clean = _UNSAFE.sub("_", flat).strip(" .")
    short = clean.encode()[:_NAME_BYTES_MAX].decode(errors="ignore").strip(" .")
    return f"_{short}" if not short or _DEVICE.match(short) else short


def distinct_name(stem: str, suffix: str, taken: set[str], joint: str = "-") -> str:
    """The first of `stem`, `stem-2`, `stem-3` ... with its suffix that is not `taken`, ignoring case and how accents are
    composed, as file systems of Windows and macOS do. Adds it to `taken`.
    """
    names = chain((stem,), (f"{stem}{joint}{number}" for number in count(2)))
    name = next(name + suffix for name in names if _folded(name + suffix) not in taken)
    taken.add(_folded(name))
    return name


def _folded(name: str) -> str:
    return normalize("NFC", name).casefold()


CELL_MAX = 32_767
_CUT = " … (cut, {length} characters)"

# A spreadsheet reads a cell that begins with one of these as a formula, also in full width and after blanks or quotes.
_STARTS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(rf"[\t\r\n]|[\s\"'\u201c\u201d]*[{_STARTS}]")
# With another delimiter, a text may continue in the next cell or row, so text after a delimiter counts as a beginning.
_INNER = re.compile(rf"([;\t\r\n|]\s*)(?=[{_STARTS}])")
# For a whole line, with NUL before each text: every dangerous beginning follows one of a few characters.
_RISK = re.compile(rf"[\0;\t\r\n|](?:[\s\"'\u201c\u201d]*[{_STARTS}]|(?<=\0)[\t\r\n])")
_NEAR_RISK = re.compile(rf"\0[\s\"'\u201c\u201d{_STARTS}]")
_NUMBER = re.compile(r"[+-]?(\d[\d.,' \u00a0\u202f]*)?\d([eE][+-]?\d+)?%?")


def csv_line(texts: Sequence[str]) -> Sequence[str]:
    """The texts of one CSV line, each as by `csv_text`. One check clears nearly every line."""
    return [csv_text(text) for text in texts] if _RISK.search("\0".join(("", *texts))) else texts


def csv_row(texts: Sequence[str], delimiter: str = ",") -> str:
    """One line of a CSV report for people, each text as by `csv_text` and without control characters, with CRLF (RFC 4180)."""
    joined = "\0".join(texts)
    if _is_harmless(joined, len(texts), delimiter):
        return joined.replace("\0", delimiter) + "\r\n"
    line = io.StringIO(newline="")
    csv.writer(line, delimiter=delimiter).writerow(csv_line([show_controls(text) for text in texts]))
    return line.getvalue()


def _is_harmless(joined: str, count: int, delimiter: str) -> bool:
    """Whether these `count` texts, joined by NUL, need no quotes or escapes in a CSV report."""
    if '"' in joined or delimiter in joined or "\n" in joined or "\r" in joined or joined.count("\0") >= count:
        return False
    together = joined.replace("\0", "")
    marked = "\0" + joined
    # the first check is several times cheaper and clears nearly every line
    if together.isprintable() and not (";" in joined or "|" in joined or _NEAR_RISK.search(marked)):
        return True
    return not (has_control(together) or _RISK.search(marked))


def csv_text(text: str) -> str:
    """A text for a CSV report. One that a spreadsheet could read as a formula gets an apostrophe; plain numbers stay."""
    if _NUMBER.fullmatch(text):
        return text
    armed = f"'{text}" if _FORMULA.match(text) else text
    return _INNER.sub(r"\1'", armed)


_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}


def text_format(found: Mapping[str, str]) -> tuple[str, str]:
    """The delimiter and the encoding of a text file, from how it was found to be read: such as `semicolon`, and `UTF-8 (by its byte
    order mark)`. A comma, and UTF-8 with a byte order mark, if unknown. UTF-16 always gets its mark, without which Excel shows it garbled.
    """
    delimiter = found.get("delimiter", "")
    delimiter = _DELIMITERS.get(delimiter, delimiter if len(delimiter) == 1 else ",")
    name, _, how = found.get("encoding", "").partition(" (")
    try:
        "".encode(name or "utf-8-sig")
    except LookupError:
        return delimiter, "utf-8-sig"
    if name.lower().startswith("utf-16"):
        return delimiter, "utf-16"
    return delimiter, "utf-8-sig" if how and name.lower() == "utf-8" else name or "utf-8-sig"


def text_of(value: object) -> str:
    """A value of a row as exact text: numbers as digits, booleans as in JSON, null as empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain_digits(value) if isinstance(value, int | Decimal) else str(value)


def sheet_text(text: str) -> str:
    """A text for a workbook cell, cut with a mark to the cell's limit. XlsxWriter escapes control characters itself."""
    if len(text) * 2 > CELL_MAX and not fits_cell(text):
        length = _units(text)
        mark = _CUT.format(length=length)
        text = text.encode("utf-16-le")[: 2 * (CELL_MAX - len(mark))].decode("utf-16-le", "ignore") + mark
    if text.startswith("<r>") and text.endswith("</r>"):
        text += " "  # XlsxWriter would take such a text for rich-text markup and write it into the XML unescaped
    return text


def fits_cell(text: str) -> bool:
    """Whether a text fits into a workbook cell."""
    return len(text) * 2 <= CELL_MAX or _units(text) <= CELL_MAX


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_BLOCK_BYTES = 262_144
_LINES_AT_ONCE = 256


def spooled_file(stack: ExitStack) -> IO[bytes]:
    """A file for bytes that go into a report later: in memory up to a block, then on disk. `stack` closes it."""
    return stack.enter_context(tempfile.SpooledTemporaryFile(_BLOCK_BYTES))


def copy_spooled(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy everything from a roll to a file."""
    source.seek(0)
    shutil.copyfileobj(source, target)


class Spool:
    """Numbered lines, sorted by number. Lines with the same number keep their order. Read them after the last one is added."""

    def __init__(self, stack: ExitStack) -> None:
        """`stack` closes the temporary file."""
        self._roll = spooled_file(stack)
        self._fresh: list[bytes] = []  # lines that are not yet in the file
        self._numbers, self._ends = array("L"), array("Q")
        self._end, self._last, self._in_order = 0, 0, True

    def add(self, number: int, line: bytes) -> None:
        """Add a line."""
        self._fresh.append(line)
        self._end += len(line)
        if number < self._last:
            self._in_order = False
        self._last = number
        self._numbers.append(number)
        self._ends.append(self._end)
        if len(self._fresh) == _LINES_AT_ONCE:
            self._flush()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """All lines with their numbers, sorted by number."""
        self._flush()
        file, start = self._roll, 0
        file.seek(0)
        if not self._in_order:
            for position in sorted(range(len(self._numbers)), key=self._numbers.__getitem__):
                start = self._ends[position - 1] if position else 0
                file.seek(start)
                yield self._numbers[position], file.read(self._ends[position] - start)
            return
        for first in range(0, len(self._numbers), _LINES_AT_ONCE):
            some = slice(first, first + _LINES_AT_ONCE)
            block, at = file.read(self._ends[some][-1] - start), 0
            for number, end in zip(self._numbers[some], self._ends[some], strict=True):
                yield number, block[at : end - start]
                at = end - start
            start += at

    def _flush(self) -> None:
        self._roll.write(b"".join(self._fresh))
        self._fresh.clear()
