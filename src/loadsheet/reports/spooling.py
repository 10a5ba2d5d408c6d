"""Spool files for report lines: blocks of bytes in a temporary file. `Spool` sorts lines by number and keeps 16 bytes a line in memory."""

import shutil
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO

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
