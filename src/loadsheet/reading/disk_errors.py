"""Disks that fail while a file is read: no fault of the file, so it is no refusal. Reading is tried once more, and then the run halts.

Owns: what counts as such a fault, wherever a reader met it, and the second try. Knows no format and no process.
"""

import errno
from collections.abc import Callable, Iterator
from itertools import islice

from loadsheet.problems import FolderError
from loadsheet.reading.tables import Row

_FAULTS = frozenset({errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE})


class DiskFault(FolderError):  # noqa: N818
    """A disk did not give the bytes of a file. The file stays where it was."""


def fault_behind(error: BaseException | None) -> OSError | None:
    """What a disk said, if that is behind an error, however far; None if it is an error of another kind."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in _FAULTS:
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def disk_fault(name: str, said: str) -> DiskFault:
    """The fault in words, for the file that was dropped as `name`."""
    return DiskFault(f"{name} cannot be read from its disk ({said}); nothing of it was used, it stays where it was")


def rows_in_two_tries(rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows, read anew; where the disk fails, once more from the beginning up to where it failed, and on from there. Raises
    DiskFault if it fails again.
    """
    given = 0
    try:
        for given, row in enumerate(rows(), start=1):  # noqa: B007 (the count is for the second try)
            yield row
    except DiskFault:
        yield from islice(rows(), given, None)
