"""The body of an answer that may be long: kept in a file once it is more than memory should hold, and never with the token in it."""

import tempfile
from typing import IO, BinaryIO, cast

from loadsheet.dispatch.token_masking import TokenMask

IN_MEMORY_BYTES_MAX = 8_388_608


class Kept:
    """Takes the pieces of one body as they arrive. An exchange that repeats our token must not get it into reports."""

    def __init__(self, mask: TokenMask) -> None:
        self._mask = mask
        self._held = b""  # the end of what came, in which a token may have begun
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX)  # noqa: SIM115 (whoever reads it closes it)

    def add(self, piece: bytes) -> None:
        """The next piece."""
        whole = self._mask.masked(self._held + piece)
        begun = max(len(whole) - self._mask.reach, 0)
        self._file.write(whole[:begun])
        self._held = whole[begun:]

    def finish(self) -> BinaryIO:
        """The body, whole, from its beginning."""
        self._file.write(self._held)
        self._held = b""
        self._file.seek(0)
        return cast("BinaryIO", self._file)

    def close(self) -> None:
        """Nobody wants it."""
        self._file.close()
