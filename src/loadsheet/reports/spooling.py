"""Lines that come in any order and are wanted by their number: spooled to a file, with sixteen bytes a line kept in memory."""

import shutil
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO


class Spool:
    """Lines with a number each. Those of the same number come back in the order in which they came."""

    def __init__(self, stack: ExitStack) -> None:
        """`stack` closes the file, which nobody else sees and which is there from the first line on."""
        self._stack = stack
        self._file: BinaryIO | None = None
        self._numbers, self._ends = array("L"), array("Q")
        self._end, self._in_order = 0, True

    def add(self, number: int, line: bytes) -> None:
        """Take a line."""
        if self._file is None:
            self._file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
        self._file.write(line)
        self._end += len(line)
        self._in_order = self._in_order and (not self._numbers or self._numbers[-1] <= number)
        self._numbers.append(number)
        self._ends.append(self._end)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """All lines with their numbers, by number."""
        if self._file is None:
            return
        order = range(len(self._numbers))
        start = 0
        self._file.seek(0)
        for position in order if self._in_order else sorted(order, key=self._numbers.__getitem__):
            if not self._in_order:
                start = self._ends[position - 1] if position else 0
                self._file.seek(start)
            yield self._numbers[position], self._file.read(self._ends[position] - start)
            start = self._ends[position]

    def pour(self, target: BinaryIO) -> None:
        """Write all lines by number into a file."""
        if self._file is None:
            return
        if self._in_order:
            self._file.seek(0)
            shutil.copyfileobj(self._file, target)
        else:
            target.writelines(line for _, line in self.lines())
