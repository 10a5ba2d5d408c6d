"""Which page size an exchange takes that refuses a larger one, and why a listing does not show all records.

Owns: the file in the state folder that remembers it by exchange. An exchange that cuts a page to its maximum needs no memory: it
is asked for all records every time, and answers with what it lists.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from loadsheet import run_log
from loadsheet.contract import Listing

FILE = "page_sizes.json"
_DIGITS_MAX = 12
_ASK_THEM = "ask the operator of the exchange to raise its maximum page_size"
_ROUND = sorted((step * 10**power for power in range(1, _DIGITS_MAX) for step in (1, 2, 5)), reverse=True)


class PageSizes:
    """The page size that one exchange took after it had refused a larger one."""

    def __init__(self, state: Path, exchange: str) -> None:
        self._path, self._exchange = state / FILE, exchange

    def below(self, refused: int) -> Iterator[int]:
        """The sizes to try when one is refused: what was taken last time, then round numbers, down to 10."""
        known = self._read().get(self._exchange, 0)
        if 1 < known < refused:
            yield known
        yield from (size for size in _ROUND if size < (known or refused))

    def remember(self, taken: int) -> None:
        """Keep what the exchange took. That it cannot be kept costs only some more refused requests next time."""
        known = self._read()
        if known.get(self._exchange) == taken:
            return
        draft = self._path.with_name(f"{FILE}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.format(msgspec.json.encode({**known, self._exchange: taken})))
            draft.replace(self._path)
        except OSError as error:
            run_log.info("page size not kept", reason=error.strerror or "")

    def _read(self) -> dict[str, int]:
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        return {}


def explained(listing: Listing, *, asked: int, taken: int, allowed: int) -> Listing:
    """The same listing; one that is not complete says why, and what to do. It was asked for with a page size of `taken` after
    one of `asked` was refused (the same: it was not); our own setting allows `allowed` (0: any).
    """
    if listing.complete:
        return listing
    shown = len(listing.results)
    if taken < asked:
        reason, todo = f"the exchange refuses a page_size of more than {taken:,}", _ASK_THEM
    elif listing.page_size < taken:
        reason, todo = f"the exchange lists at most {shown:,} records", _ASK_THEM
    elif taken == allowed and shown >= taken:
        reason = f"assumptions.page_size_max is {allowed:,}"
        todo = "raise assumptions.page_size_max, or set it to 0, if the exchange lists more"
    else:
        reason = f"the exchange counts {listing.total_count:,} records but lists {shown:,}"
        todo = "`loadsheet report --ask` looks again; if it stays, ask the operator of the exchange"
    return replace(listing, reason=reason, todo=todo)
