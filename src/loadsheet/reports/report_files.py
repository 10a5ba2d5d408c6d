"""How report files are written: whole or not at all, in order, and with foreign text that stays text.

Owns: names of files, the rules against formula injection (CWE-1236), and the limits of a workbook cell. Reports echo what shippers and the
exchange wrote, so every text goes through here. What people read has no control characters either; data that programs read keeps its own.
"""

import csv
import errno
import io
import os
import re
import shutil
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from loadsheet.control_characters import has_control, visible
from loadsheet.problems import FolderError

_NAME_BYTES_MAX = 150
_UNSAFE = re.compile(r"[^\w .()+,=@-]")


@contextmanager
def placed(path: Path) -> Iterator[Path]:
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
            f"{path} cannot be written ({error.strerror or error}); see to its folder or disk, and try again: what a run knows is in"
            " the ledger, and `loadsheet report` writes its reports anew"
        ) from error


def run_folders(folder: Path) -> list[str]:
    """The folders of runs in the outbox. Raises FolderError if the outbox cannot be read."""
    try:
        return [path.name for path in folder.iterdir() if path.is_dir()]
    except OSError as error:
        raise FolderError(
            f"the folder of reports {folder} cannot be read ({error.strerror}); see to its rights"
        ) from error


def check_writable(folder: Path) -> None:
    """Create the outbox if it does not exist. Raises FolderError if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it may only be read")
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
        raise FolderError(
            f"reports cannot be written to the folder {folder} ({why}); nothing was taken or sent: see to the folder or name another"
            " (--outbox), and run again"
        ) from error


def safe_name(text: str) -> str:
    """A shipper's file or sheet name as a part of a file name: folders flattened, nothing that a file system might act on."""
    flat = text.replace("\\", "/").strip("/").replace("/", "__")
    clean = _UNSAFE.sub("_", flat).strip(" .")
    return clean.encode()[:_NAME_BYTES_MAX].decode(errors="ignore") or "_"


def distinct_name(stem: str, suffix: str, taken: set[str], joint: str = "-") -> str:
    """The first of `stem`, `stem-2`, `stem-3` ... that is not among the names that are `taken`, with its suffix; it is taken then. Names
    that differ in nothing but capitals are alike.
    """
    names = chain((stem,), (f"{stem}{joint}{number}" for number in count(2)))
    name = next(name + suffix for name in names if (name + suffix).casefold() not in taken)
    taken.add(name.casefold())
    return name


CELL_MAX = 32_767
_CUT = " … (cut, {length} characters)"

# A spreadsheet takes a cell that begins with one of these for a formula, also in full width, and after blanks or quotes.
_STARTS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(rf"[\t\r\n]|[\s\"'\u201c\u201d]*[{_STARTS}]")
# Read with another delimiter than ours, a text goes on in the next cell or row: what begins there is a beginning too.
_INNER = re.compile(rf"([;\t\r\n|]\s*)(?=[{_STARTS}])")
# For a whole line, each text behind a NUL: all that can be dangerous begins behind one of few signs, which are quickly found.
_RISK = re.compile(rf"[\0;\t\r\n|](?:[\s\"'\u201c\u201d]*[{_STARTS}]|(?<=\0)[\t\r\n])")
_NUMBER = re.compile(r"[+-]?(\d[\d.,' \u00a0\u202f]*)?\d([eE][+-]?\d+)?%?")


def csv_line(texts: Sequence[str]) -> Sequence[str]:
    """The texts of one line of a CSV report, each as `csv_text` gives it; nearly all lines are found harmless in one look."""
    return [csv_text(text) for text in texts] if _RISK.search("\0".join(("", *texts))) else texts


def csv_row(texts: Sequence[str]) -> str:
    """One line of a CSV report that people read, each text as `csv_text` gives it and without control characters: commas, CRLF
    (RFC 4180).
    """
    joined = "\0".join(texts)
    if _is_harmless(joined, len(texts)):
        return joined.replace("\0", ",") + "\r\n"
    line = io.StringIO(newline="")
    csv.writer(line).writerow(csv_line([visible(text) for text in texts]))
    return line.getvalue()


def _is_harmless(joined: str, count: int) -> bool:
    """Whether so many texts, joined by NUL, can stand in a CSV report just as they are, with a comma between them."""
    quoted = '"' in joined or "," in joined or "\n" in joined or "\r" in joined or joined.count("\0") >= count
    return not (quoted or has_control(joined.replace("\0", "")) or _RISK.search("\0" + joined))


def csv_text(text: str) -> str:
    """A text for a CSV report: one that a spreadsheet could take for a formula gets an apostrophe; plain numbers stay."""
    if _NUMBER.fullmatch(text):
        return text
    armed = f"'{text}" if _FORMULA.match(text) else text
    return _INNER.sub(r"\1'", armed)


def sheet_text(text: str) -> str:
    """A text for a workbook cell: cut, with a mark, to what a cell can hold. XlsxWriter escapes control characters itself."""
    if len(text) * 2 > CELL_MAX and not fits(text):
        length = _units(text)
        mark = _CUT.format(length=length)
        text = text.encode("utf-16-le")[: 2 * (CELL_MAX - len(mark))].decode("utf-16-le", "ignore") + mark
    if text.startswith("<r>") and text.endswith("</r>"):
        text += " "  # XlsxWriter takes such a text for rich-text markup and would write it into the XML as it is
    return text


def fits(text: str) -> bool:
    """Whether a workbook cell holds all of a text."""
    return len(text) * 2 <= CELL_MAX or _units(text) <= CELL_MAX


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_BLOCK_BYTES = 262_144


class Roll:
    """Bytes that go into a report later, in the same order. A block stays in memory; more goes to a temporary file."""

    def __init__(self, stack: ExitStack) -> None:
        """`stack` closes the file, which is created on demand."""
        self._stack = stack
        self._file: BinaryIO | None = None
        self._block: list[bytes] = []
        self._room = _BLOCK_BYTES

    def add(self, piece: bytes) -> None:
        """Add bytes."""
        self._block.append(piece)
        self._room -= len(piece)
        if self._room < 0:
            self.file()

    def file(self) -> BinaryIO:
        """The file, with everything added so far."""
        if self._file is None:
            self._file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
        self._file.seek(0, 2)
        self._file.write(b"".join(self._block))
        self._block.clear()
        self._room = _BLOCK_BYTES
        return self._file

    def pour(self, target: BinaryIO) -> None:
        """Copy everything to a file."""
        if self._file is None:
            target.writelines(self._block)
            return
        file = self.file()
        file.seek(0)
        shutil.copyfileobj(file, target)


class Spool:
    """Numbered lines, sorted by number. Lines with the same number keep their order."""

    def __init__(self, stack: ExitStack) -> None:
        """`stack` closes the temporary file."""
        self._roll = Roll(stack)
        self._numbers, self._ends = array("L"), array("Q")
        self._end, self._last, self._in_order = 0, 0, True

    def add(self, number: int, line: bytes) -> None:
        """Add a line."""
        self._roll.add(line)
        self._end += len(line)
        if number < self._last:
            self._in_order = False
        self._last = number
        self._numbers.append(number)
        self._ends.append(self._end)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """All lines with their numbers, sorted by number."""
        if not self._numbers:
            return
        order = range(len(self._numbers))
        start = 0
        file = self._roll.file()
        file.seek(0)
        for position in order if self._in_order else sorted(order, key=self._numbers.__getitem__):
            if not self._in_order:
                start = self._ends[position - 1] if position else 0
                file.seek(start)
            yield self._numbers[position], file.read(self._ends[position] - start)
            start = self._ends[position]

    def pour(self, target: BinaryIO) -> None:
        """Write all lines, sorted by number, to a file."""
        if self._in_order:
            self._roll.pour(target)
        else:
            target.writelines(line for _, line in self.lines())
