"""The file that a workbook is written into: it fails once, and from then on takes everything and keeps nothing.

Owns: why. Python's archives try to complete themselves when they are thrown away, long after the failure was told, and would fail
again with a traceback that no caller can catch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

_Done = TypeVar("_Done")


class Target:
    """As much of a binary file as an archive needs that is written from its beginning. Raises OSError, once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._failed = file, False
        self._place = 0  # an archive reckons with places also when nothing is kept any more

    def write(self, data: bytes) -> int:
        """Write these bytes."""
        self._place += len(data)
        return self._tried(lambda: self._file.write(data), len(data))

    def seek(self, offset: int) -> int:
        """Go to a place."""
        self._place = offset
        return self._tried(lambda: self._file.seek(offset), offset)

    def tell(self) -> int:
        """The place."""
        return self._place

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._tried(self._file.flush, None)

    def end(self) -> None:
        """Take nothing any more."""
        self._failed = True

    def _tried(self, act: Callable[[], _Done], instead: _Done) -> _Done:
        if self._failed:
            return instead
        try:
            return act()
        except OSError:
            self._failed = True
            raise


@contextmanager
def opened(path: Path) -> Iterator[Target]:
    """A new file at `path`, open while the `with` block lasts; afterwards it takes nothing any more. Raises OSError if it cannot be made or
    written.
    """
    with path.open("wb") as file:
        target = Target(file)
        try:
            yield target
        finally:
            target.end()
