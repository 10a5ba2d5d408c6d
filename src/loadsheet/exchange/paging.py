"""The answer of a listing: read in one transaction, written in groups of records, and sent in pieces, so that memory stays flat.

Owns: where a large answer lies until its client has taken it: in a file without a name, in the system's folder for temporary
files. So a transaction is as short as the database allows, however slow a client reads, and the length of the answer is known
before its first byte leaves. Knows no field, no query and no token.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from tempfile import TemporaryFile
from typing import IO

import msgspec
from starlette.types import Scope, Send

from loadsheet.contract import Operation, Record, When, as_listed, listing
from loadsheet.exchange.overload import turn_away
from loadsheet.exchange.store import Store, StoreFailed
from loadsheet.exchange.wire import encode, stored

MEMORY_MAX = 1_000_000  # bytes of an answer; a larger one goes into a file
FILES_MAX = 32  # at the same time: their clients may be slow, and the disk is not without end
RETRY_S = 5

_GROUP = 100  # records
_PIECE = 262_144  # bytes
_GAP = msgspec.Raw(b"0")  # where in an answer the records stand
_FULL = f"comes while {FILES_MAX} large pages are still being read; try again, or ask for a smaller page_size"


class Pages:
    """The pages of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._room = threading.BoundedSemaphore(FILES_MAX)

    async def answer(self, scope: Scope, send: Send, operation: Operation, page_size: int, party: str) -> None:
        """Answer a request for the first page of a listing; 429 if too many large ones are on their way. Raises StoreFailed."""

        def written(total: int, contents: Iterable[str]) -> _Page:
            with ExitStack() as failing:
                page = failing.enter_context(closing(_Page(self._room)))
                try:
                    _write(page, operation.record, contents, page_size, total)
                except OSError as error:
                    raise StoreFailed(f"a page cannot be kept ({error.strerror})") from error
                failing.pop_all()
            return page

        try:
            page = await self._store.read_page(operation.subject, page_size, party, written)
        except _TooManyFiles:
            await turn_away(scope, send, 429, _FULL, RETRY_S)
            return
        with closing(page):
            await _send(page, send)


class _TooManyFiles(Exception):  # noqa: N818 (named for what happened)
    """There is no room for one more large page."""


class _Page:
    """Bytes that are first written and then read once; beyond `MEMORY_MAX` in a file, for which `room` has to have a place."""

    def __init__(self, room: threading.BoundedSemaphore) -> None:
        self._room = room
        self._kept: list[bytes] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    def write(self, some: bytes) -> None:
        self.size += len(some)
        if self._file:
            self._file.write(some)
            return
        self._kept.append(some)
        if self.size > MEMORY_MAX:
            if not self._room.acquire(blocking=False):
                raise _TooManyFiles
            try:
                self._file = TemporaryFile()  # noqa: SIM115 (closed with the page)
            except OSError:
                self._room.release()
                raise
            self._file.writelines(self._kept)
            self._kept.clear()

    def pieces(self) -> Iterator[bytes]:
        if self._file is None:
            yield b"".join(self._kept)
            return
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
            self._room.release()


def _write(page: _Page, record: Record, contents: Iterable[str], page_size: int, total: int) -> None:
    head, _, tail = encode(listing([_GAP], page_size=page_size, total_count=total)).partition(b"[0]")  # type: ignore[list-item]  # any JSON will do
    page.write(head + b"[")
    rest, between = iter(contents), b""
    while group := list(islice(rest, _GROUP)):
        page.write(between + b",".join(_listed(record, group)))
        between = b","
    page.write(b"]" + tail)


def _listed(record: Record, contents: Sequence[str]) -> Iterator[bytes]:
    if any(field.when is When.LISTED for field in record.fields):
        return (encode(as_listed(record, stored(content))) for content in contents)
    return (content.encode() for content in contents)  # as stored, without being read again


async def _send(page: _Page, send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % page.size)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    left = page.size
    for piece in page.pieces():
        left -= len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
