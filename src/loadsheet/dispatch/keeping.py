"""The body of an answer that may be long: kept in a file once it is more than memory should hold, and never with the token in it."""

import tempfile
from typing import IO, BinaryIO, cast

IN_MEMORY_BYTES_MAX = 8_388_608


class Kept:
    """Takes the pieces of one body as they arrive. An exchange that repeats our token must not get it into reports."""

    def __init__(self, secret: bytes, mask: bytes) -> None:
        """An empty `secret` stands for none."""
        self._secret, self._mask = secret, mask
        self._held = b""  # the end of what came, in which the secret may have begun
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX)  # noqa: SIM115 (whoever reads it closes it)

    def add(self, piece: bytes) -> None:
        """The next piece."""
        if not self._secret:
            self._file.write(piece)
            return
        whole = (self._held + piece).replace(self._secret, self._mask)
        begun = len(whole) - len(self._secret) + 1
        self._file.write(whole[: max(begun, 0)])
        self._held = whole[max(begun, 0) :]

    def finish(self) -> BinaryIO:
        """The body, whole, from its beginning."""
        self._file.write(self._held)
        self._held = b""
        self._file.seek(0)
        return cast("BinaryIO", self._file)

    def close(self) -> None:
        """Nobody wants it."""
        self._file.close()
