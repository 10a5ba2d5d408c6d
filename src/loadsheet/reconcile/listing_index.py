"""What the listings show, findable by lane: twenty-five bytes a record, whatever the record holds.

Owns: which record of a listing is of which subject and lane, and which of them were claimed by an entry. The records stay where
the listing keeps them and are decoded when they are looked at.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadsheet.contract import BY_NAME, LISTED_KEYS, Action, Listing, listed_subject
from loadsheet.ledger import Entry
from loadsheet.reconcile.verdicts import Leg

LISTINGS = tuple(operation for operation in BY_NAME.values() if operation.action is Action.LIST)
_OTHER_LISTING = (
    "check assumptions.tender_listing_query and assumptions.plain_listing: `loadsheet exchange probe` finds them out"
)


class Listed:
    """The records of all listings. A listing without one record of its own kind is the wrong one: it proves nothing."""

    def __init__(self, listings: Mapping[str, Listing | None]) -> None:
        """`listings` by subject; None or absent where there is none."""
        self.legs: dict[str, Leg] = {}
        self._results: list[Sequence[dict[str, Any]]] = []
        self._places = array("q")
        marks = array("q")
        for number, operation in enumerate(LISTINGS):
            listing = listings.get(operation.subject)
            self._results.append(listing.results if listing else ())
            before = len(marks)
            for position, record in enumerate(listing.heads(LISTED_KEYS) if listing else ()):
                if listed_subject(record) == operation.subject:
                    marks.append(_mark(operation.lane_of(record)))
                    self._places.append(position * len(LISTINGS) + number)
            self.legs[operation.subject] = _leg(operation.subject, listing, len(marks) - before)
        self._claimed = bytearray(len(marks))
        if marks:
            import pandas as pd  # noqa: PLC0415 (a run that lists nothing need not wait for it)

            by_mark = pd.Series(marks, dtype="int64").sort_values(kind="stable")
            self._marks, self._numbers = by_mark.reset_index(drop=True), array("q", by_mark.index)

    def leg_of(self, entry: Entry) -> Leg:
        """How much was seen of the records among which that of an entry should be."""
        return self.legs[BY_NAME[entry.operation].subject]

    def find(self, entries: Sequence[Entry]) -> list[range]:
        """For each entry where the records of its lane stand; `record` gives the first."""
        if not self._claimed:
            return [range(0)] * len(entries)
        wanted = [_mark(entry.lane) for entry in entries]
        first, end = (self._marks.searchsorted(wanted, side=side).tolist() for side in ("left", "right"))
        return [range(*span) for span in zip(first, end, strict=True)]

    def record(self, entry: Entry, found: range) -> dict[str, Any]:  # noqa: ARG002 (what is recalled needs the entry)
        """The first of the records that were found for an entry, decoded."""
        return self._record(self._numbers[found[0]])

    def claim(self, found: range) -> None:
        """Say that these records are accounted for."""
        for position in found:
            self._claimed[position] = 1

    def unclaimed(self) -> Iterator[str]:
        """The lanes of the records that nothing claimed; one that is listed twice comes twice."""
        left = sorted(self._numbers[position] for position, claimed in enumerate(self._claimed) if not claimed)
        for number in left:
            operation = LISTINGS[self._places[number] % len(LISTINGS)]
            yield operation.lane_of(self._record(number))

    def _record(self, number: int) -> dict[str, Any]:
        position, listing = divmod(self._places[number], len(LISTINGS))
        return self._results[listing][position]


def _mark(lane: str) -> int:
    # 64 bits keyed anew in each process: that two of a million lanes share one happens in none of ten million runs
    return hash(lane)


def _leg(subject: str, listing: Listing | None, own: int) -> Leg:
    if listing is None:
        return Leg(subject, read=False)
    ours = bool(own or not listing.results)
    reason, todo = (
        (listing.reason, listing.todo) if ours else (f"not one of the records is of the {subject}s", _OTHER_LISTING)
    )
    complete = listing.complete and ours
    return Leg(subject, read=True, listed=own, total=listing.total_count, complete=complete, reason=reason, todo=todo)
