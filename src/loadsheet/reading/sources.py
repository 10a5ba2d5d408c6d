"""Where bytes come from: a file, a table inside an archive, or bytes that are in memory already. All are opened anew for each pass."""

import gzip
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Literal, Protocol


class Source(Protocol):
    """Bytes that can be read from the beginning as often as is needed; a `Path` is one."""

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:
        """A stream at the beginning. Raises OSError, and where an archive is damaged what its module raises."""
        ...


@dataclass(frozen=True, slots=True)
class Gzipped:
    """The file inside a gzip file, unpacked while it is read."""

    path: Path

    def open(self, _mode: Literal["rb"], /) -> IO[bytes]:
        """See `Source`."""
        return gzip.open(self.path)  # type: ignore[return-value]  # all that a stream of bytes needs is there


@dataclass(frozen=True, slots=True)
class Zipped:
    """A file inside a zip archive, unpacked while it is read."""

    path: Path
    member: str

    def open(self, _mode: Literal["rb"], /) -> IO[bytes]:
        """See `Source`."""
        with zipfile.ZipFile(self.path) as archive:  # the archive stays open until the member is closed
            return archive.open(self.member)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Bytes in memory: for what has to be read back and forth but lies inside an archive."""

    content: bytes

    def open(self, _mode: Literal["rb"], /) -> IO[bytes]:
        """See `Source`."""
        return BytesIO(self.content)
