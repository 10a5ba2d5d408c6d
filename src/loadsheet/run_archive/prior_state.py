"""What the ledger knew when a run planned its files, from what it knew when the capsule was made: every change left an event.

Owns: the way back. Streams: entries and their events lie in the same order.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from loadsheet.ledger import State, Waits
from loadsheet.run_archive.contents import Manifest, rows_of
from loadsheet.run_archive.hash_chain import Members

Row = dict[str, Any]


class Before:
    """The ledger's rows as they were just before the run planned its first file."""

    def __init__(self, members: Members, manifest: Manifest) -> None:
        self._members, self._manifest = members, manifest
        own = {drop.id for drop in manifest.drops}
        mine = own_entries(members, own)
        self._first_entry = min(mine, default=None)
        planned = (row for row in rows_of(members, "events") if row["entry_id"] in mine and not row["before"])
        first = min(planned, key=itemgetter("id"), default=None)
        self._cut = first["id"] if first else None
        self._at = first["at"] if first else manifest.started_at
        self._own = own

    def rows(self, table: str) -> Iterator[Row]:
        """Those of a table's rows that were there, as they were; of attempts, exceptions and the like none: nothing is judged by them."""
        rows = rows_of(self._members, table)
        kept = self._RULES.get(table)
        if table == "entries":
            yield from self._entries(rows)
        elif kept is not None:
            yield from (row for row in rows if kept(self, row))

    def _is_earlier_drop(self, row: Row) -> bool:
        return bool(row["id"] < min(self._own))

    def _is_of_earlier_drop(self, row: Row) -> bool:
        return bool(row["drop_id"] < min(self._own))

    def _is_seen(self, row: Row) -> bool:
        return bool(row["run_id"] <= self._manifest.run_id and row["at"] < self._at)

    def _is_earlier_event(self, row: Row) -> bool:
        if self._first_entry is None or self._cut is None:
            return False  # nothing was planned that could be judged by them
        return bool(row["entry_id"] < self._first_entry and row["id"] < self._cut)

    def _is_begun(self, row: Row) -> bool:
        return bool(row["id"] <= self._manifest.run_id)

    def _all(self, _: Row) -> bool:
        return True

    _RULES: dict[str, Callable[["Before", Row], bool]] = {  # noqa: RUF012 (never changed)
        "runs": _is_begun,
        "mappings": _all,
        "drops": _is_earlier_drop,
        "files": _is_of_earlier_drop,
        "tables": _is_of_earlier_drop,
        "seen": _is_seen,
        "events": _is_earlier_event,  # they say in which run an earlier version was accepted
    }

    def _entries(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row, events in with_events(rows, rows_of(self._members, "events")):
            if self._first_entry is not None and row["id"] >= self._first_entry:
                return
            if row["drop_id"] < min(self._own):
                yield _as_it_was(row, [event for event in events if self._cut is None or event["id"] < self._cut])


def own_entries(members: Members, own: Collection[int]) -> range:
    """The entries of these drops: one run plans them one after the other."""
    first, last = 0, -1
    for row in rows_of(members, "entries"):
        if row["drop_id"] in own:
            first, last = first or row["id"], row["id"]
    return range(first, last + 1)


def with_events(entries: Iterable[Row], events: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Entries, each with its events, oldest first; both come ordered by entry."""
    yield from ((entry, rows) for entry, rows in beside(entries, events))


def beside(entries: Iterable[Row], *others: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
    """Entries, each with its rows of other tables; all come ordered by entry, and rows of other entries are passed over."""
    groups = [_Groups(rows) for rows in others]
    for row in entries:
        yield (row, *(group.of(row["id"]) for group in groups))


class _Groups:
    """Rows of a table, an entry at a time."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._groups = groupby(rows, key=itemgetter("entry_id"))
        self._entry: int | None = None
        self._rows: Iterator[Row] = iter(())
        self._next()

    def of(self, entry: int) -> list[Row]:
        """The rows of an entry that comes after the one before."""
        while self._entry is not None and self._entry < entry:
            self._next()
        return list(self._rows) if self._entry == entry else []

    def _next(self) -> None:
        self._entry, self._rows = next(self._groups, (None, iter(())))


def _as_it_was(row: Row, events: list[Row]) -> Row:
    """An entry as it was after these events. Problems and receipt are as they are now: what it is judged by only grows."""
    last = events[-1] if events else None
    if last is None or (last["after"], last["reason"]) == (row["state"], row["reason"]):
        return row
    was = {"state": last["after"], "reason": last["reason"], "changed_at": last["at"], "waits": _waits(last)}
    return row | was


def _waits(event: Row) -> str:
    """What an entry waited for, as its reason says: events do not keep it."""
    if event["after"] not in (State.HELD, State.READY):
        return Waits.DECISION.value
    if event["reason"].startswith("waits for "):
        return Waits.PARENT.value
    earlier = ("earlier outcome unknown", "the delete before it")
    return Waits.EARLIER.value if event["reason"].startswith(earlier) else Waits.DECISION.value
