"""What the listings show, findable by lane: seventeen bytes a record, whatever the record holds.

Owns: which record of a listing is of which subject and lane, and which of them were claimed by an entry. The records stay where
the listing keeps them and are decoded when they are looked at.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from loadsheet.contract import BY_NAME, Action, Listing, listed_subject
from loadsheet.reconcile.verdicts import Leg

LISTINGS = tuple(operation for operation in BY_NAME.values() if operation.action is Action.LIST)
NOWHERE = -1


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
            for position, record in enumerate(self._results[number]):
                if listed_subject(record) == operation.subject:
                    marks.append(_mark(operation.lane_of(record)))
                    self._places.append(position * len(LISTINGS) + number)
            self.legs[operation.subject] = _leg(operation.subject, listing, len(marks) - before)
        self._marks = pd.Series(marks, dtype="int64").sort_values(kind="stable")
        self._claimed = bytearray(len(marks))

    def look_up(self, lanes: "pd.Series[str]") -> pd.DataFrame:
        """For each lane how often it is listed (`times`), and where its first record is (`place`, NOWHERE without one)."""
        first, end = self._span(lanes)
        times = end - first
        place = pd.Series(NOWHERE, index=lanes.index, dtype="int64")
        there = times > 0
        if there.any():
            numbers = self._marks.index.take(first[there])
            place[there] = [self._places[number] for number in numbers]
        return pd.DataFrame({"times": times, "place": place})

    def record(self, place: int) -> dict[str, Any]:
        """The decoded record at a place."""
        position, number = divmod(place, len(LISTINGS))
        return self._results[number][position]

    def claim(self, lanes: "pd.Series[str]") -> None:
        """Say that the records of these lanes are accounted for."""
        first, end = self._span(lanes)
        for number in {one for start, stop in zip(first, end, strict=True) for one in range(start, stop)}:
            self._claimed[self._marks.index[number]] = 1

    def unclaimed(self) -> Iterator[str]:
        """The lanes of the records that nothing claimed; one that is listed twice comes twice."""
        for number, claimed in enumerate(self._claimed):
            if not claimed:
                place = self._places[number]
                yield LISTINGS[place % len(LISTINGS)].lane_of(self.record(place))

    def _span(self, lanes: "pd.Series[str]") -> tuple["pd.Series[int]", "pd.Series[int]"]:
        wanted = lanes.map(_mark).astype("int64")
        first, end = (self._marks.searchsorted(wanted, side=side) for side in ("left", "right"))
        return pd.Series(first, index=lanes.index), pd.Series(end, index=lanes.index)


def _mark(lane: str) -> int:
    # 64 bits keyed anew in each process: that two of a million lanes share one happens in none of ten million runs
    return hash(lane)


def _leg(subject: str, listing: Listing | None, own: int) -> Leg:
    if listing is None:
        return Leg(subject, read=False)
    complete = listing.complete and bool(own or not listing.results)
    return Leg(subject, read=True, listed=own, total=listing.total_count, complete=complete)
