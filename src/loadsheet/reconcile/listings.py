"""The listings that entries are matched with. `ListingIndex` finds records in fresh listings, `RecordedListings` answers
from the records of earlier runs, and `ListingSnapshot` records what a run saw.

The index takes 25 bytes a record. Records stay in the listing and are decoded on access. The snapshot takes a few bytes
an entry: it stores only contents that differ. `verdicts` holds the rules.
"""

import zlib
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import (
    BY_NAME,
    LISTED_KEYS,
    LISTINGS,
    Listing,
    decode_record,
    encode_record,
    figures_only,
    listed_subject,
    measures_of,
)
from loadsheet.ledger import Entry, MissingRecords, Run
from loadsheet.reconcile.verdicts import ListingCoverage, OnlyListed

_OTHER_LISTING = (
    "check assumptions.tender_listing_query and assumptions.plain_listing: `loadsheet exchange probe` finds them out"
)


class ListingIndex:
    """The records of all listings. A listing without any record of its own kind is the wrong one and proves nothing."""

    def __init__(self, listings: Mapping[str, Listing | None]) -> None:
        """`listings` by subject; None or absent if there is no listing."""
        self.coverage: dict[str, ListingCoverage] = {}
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
            self.coverage[operation.subject] = _coverage(operation.subject, listing, len(marks) - before)
        self._claimed = bytearray(len(marks))
        if marks:
            import pandas as pd

            by_mark = pd.Series(marks, dtype="int64").sort_values(kind="stable")
            self._marks, self._numbers = by_mark.reset_index(drop=True), array("q", by_mark.index)

    def coverage_of(self, entry: Entry) -> ListingCoverage:
        """The coverage of the listing that should show the entry's record."""
        return self.coverage[BY_NAME[entry.operation].subject]

    def find(self, entries: Sequence[Entry]) -> list[range]:
        """The positions of each entry's listed records; `record` returns the first."""
        if not self._claimed:
            return [range(0)] * len(entries)
        wanted = [_mark(entry.lane) for entry in entries]
        first, end = (self._marks.searchsorted(wanted, side=side).tolist() for side in ("left", "right"))
        return [range(*span) for span in zip(first, end, strict=True)]

    def record(self, entry: Entry, found: range) -> dict[str, Any]:  # noqa: ARG002 (RecordedListings needs the entry)
        """The first of the records found for an entry, decoded."""
        return self._record(self._numbers[found[0]])

    def claim(self, found: range) -> None:
        """Mark these records as accounted for."""
        for position in found:
            self._claimed[position] = 1

    def unclaimed(self) -> Iterator[str]:
        """The lanes of unclaimed records; a lane that is listed twice appears twice."""
        left = sorted(self._numbers[position] for position, claimed in enumerate(self._claimed) if not claimed)
        for number in left:
            operation = LISTINGS[self._places[number] % len(LISTINGS)]
            yield operation.lane_of(self._record(number))

    def _record(self, number: int) -> dict[str, Any]:
        position, listing = divmod(self._places[number], len(LISTINGS))
        return self._results[listing][position]


def _mark(lane: str) -> int:
    # 64 bits, keyed per process: for a million lanes, fewer than one in ten million runs has a collision
    return hash(lane)


def _coverage(subject: str, listing: Listing | None, own: int) -> ListingCoverage:
    if listing is None:
        return ListingCoverage(subject, read=False)
    ours = bool(own or not listing.results)
    reason, todo = (listing.reason, listing.todo) if ours else (f"the listing has no {subject}s", _OTHER_LISTING)
    complete = listing.complete and ours
    return ListingCoverage(
        subject, read=True, listed=own, total=listing.total_count, complete=complete, reason=reason, todo=todo
    )


VERSION = 1
CONTENTS_BYTES_MAX = 33_554_432
"""Limit for the contents that differ. Entries beyond it are not recorded."""

_ABSENT, _AS_SENT, _DIFFERENT, _TWICE = range(4)


class _Kept(msgspec.Struct, array_like=True):
    version: int
    steps: list[int]
    codes: bytes
    contents: dict[int, bytes]
    coverage: tuple[ListingCoverage, ...]
    only_listed: tuple[OnlyListed, ...]
    remarks: tuple[str, ...]
    remaining_text: str
    inbox: dict[str, Any] = {}
    missing_records: dict[int, MissingRecords] = {}
    stopped: str = ""
    ready: int = 0


ONLY_CHECKED = "only checked, nothing was sent"
"""Why the run of files that are only checked stopped, in its notes and reports."""


class RunNotes(NamedTuple):
    """A run's notes besides its listings: remarks and the remaining sending time as sentences, the files left in the inbox (JSON
    values), missing records by drop, why it ended early (empty: it did not), and how many entries of all runs were ready then.
    """

    remarks: Sequence[str] = ()
    remaining_text: str = ""
    inbox: Mapping[str, Any] = MappingProxyType({})
    missing_records: Mapping[int, MissingRecords] = MappingProxyType({})
    stopped: str = ""
    ready: int = 0


class ListingSnapshot:
    """Records what the listings show of each entry: nine bytes per entry, plus the contents that differ."""

    def __init__(self) -> None:
        self._entries, self._codes = array("q"), bytearray()
        self._contents: dict[int, bytes] = {}
        self._room = CONTENTS_BYTES_MAX

    def add(self, entry: Entry, times: int, different: Collection[str], listed: Mapping[str, Any] | None) -> None:
        """Record how often an entry's record was listed (`times`).

        `listed` is the record if it was compared with what was sent; `different` are the fields that differed.
        """
        code = (_ABSENT, _AS_SENT)[times] if times < 2 else _TWICE
        if listed is not None and different:
            content = encode_record({name: listed.get(name) for name in different})
            self._room -= len(content)
            if self._room < 0:
                return
            code, self._contents[entry.id] = _DIFFERENT, content
        self._entries.append(entry.id)
        self._codes.append(code)

    def pack(self, coverage: Sequence[ListingCoverage], only_listed: Sequence[OnlyListed], notes: RunNotes) -> bytes:
        """Pack everything for the ledger, with the run's other notes."""
        steps = [after - before for before, after in pairwise([0, *self._entries])]
        packed = (tuple(notes.remarks), notes.remaining_text, dict(notes.inbox), dict(notes.missing_records))
        values = (tuple(coverage), tuple(only_listed), *packed, notes.stopped, notes.ready)
        return zlib.compress(msgspec.msgpack.encode(_Kept(VERSION, steps, bytes(self._codes), self._contents, *values)))


def abridged(shown: bytes, operations: Mapping[int, str]) -> tuple[bytes, bool]:
    """The snapshot without the contents of these entries (given with their operations), except what totals need. Also
    whether it still holds contents of other entries. An unreadable snapshot is returned unchanged.
    """
    kept = _read(shown)
    if kept is None:
        return shown, False
    for entry in kept.contents.keys() & operations.keys():
        figures = figures_only(measures_of(BY_NAME[operations[entry]]), decode_record(kept.contents[entry]))
        kept.contents[entry] = encode_record(figures)
    left = bool(kept.contents.keys() - operations.keys())
    return zlib.compress(msgspec.msgpack.encode(kept)), left


def entries_with_contents(shown: bytes) -> list[int]:
    """The entries for which a snapshot holds differing contents."""
    kept = _read(shown)
    return sorted(kept.contents) if kept is not None else []


class _RecordedRun:
    """What one run saw. It is not used for entries that changed after that run."""

    def __init__(self, kept: _Kept, until: str) -> None:
        self.kept, self._until = kept, until
        self.coverage = {one.subject: one for one in kept.coverage}
        self._codes = dict(zip(accumulate(kept.steps), kept.codes, strict=True))

    def code(self, entry: Entry) -> int | None:
        return self._codes.get(entry.id) if entry.changed_at <= self._until else None


class RecordedListings:
    """The snapshots of earlier runs in place of listings. For each entry the latest snapshot of its current state
    counts; without one, the entry is not verifiable.
    """

    def __init__(self, recorded_runs: Sequence[tuple[Run, bytes]]) -> None:
        """`recorded_runs` are runs with their snapshots from the ledger (empty: none), oldest first. A snapshot that
        cannot be read, or that a newer program wrote in another format, is ignored.
        """
        read = ((run, _read(shown)) for run, shown in reversed(recorded_runs))
        self._recorded = [_RecordedRun(kept, run.finished_at) for run, kept in read if kept is not None]
        self.coverage = {
            operation.subject: self._coverage_in_any_run(operation.subject) for operation in BY_NAME.values()
        }
        self.only_listed = tuple(sorted(self._only_listed(), key=lambda one: f"{one.subject}:{one.key}"))
        self.notes = self._notes()

    def coverage_of(self, entry: Entry) -> ListingCoverage:
        """The coverage of the listing that should show the entry's record."""
        subject = BY_NAME[entry.operation].subject
        recorded = self._recorded_run(entry)
        return (
            recorded.coverage.get(subject, ListingCoverage(subject, read=False))
            if recorded
            else ListingCoverage(subject, read=False)
        )

    def find(self, entries: Sequence[Entry]) -> list[range]:
        """For each entry a range as long as the number of times its record was listed."""
        recorded_runs = ((entry, self._recorded_run(entry)) for entry in entries)
        codes = (recorded.code(entry) if recorded else None for entry, recorded in recorded_runs)
        return [
            range({_AS_SENT: 1, _DIFFERENT: 1, _TWICE: 2}.get(_ABSENT if code is None else code, 0)) for code in codes
        ]

    def record(self, entry: Entry, found: range) -> dict[str, Any]:  # noqa: ARG002 (ListingIndex needs the place)
        """The listed record of an entry, as far as it was compared."""
        recorded = self._recorded_run(entry)
        shown = recorded.kept.contents.get(entry.id, b"{}") if recorded else b"{}"
        return {**decode_record(entry.payload or entry.figures or b"{}"), **decode_record(shown)}

    def is_different(self, entry: Entry) -> bool:
        """Whether the record was listed with other contents than sent. They may have been removed since."""
        recorded = self._recorded_run(entry)
        return recorded is not None and recorded.code(entry) == _DIFFERENT

    def claim(self, found: range) -> None:
        """Do nothing: unclaimed records were recorded already."""

    def _recorded_run(self, entry: Entry) -> _RecordedRun | None:
        return next((recorded for recorded in self._recorded if recorded.code(entry) is not None), None)

    def _notes(self) -> RunNotes:
        """The notes of the latest run, with the missing records of all runs."""
        if not self._recorded:
            return RunNotes()
        latest, missing = self._recorded[0].kept, dict[int, MissingRecords]()
        for recorded in self._recorded:
            missing |= recorded.kept.missing_records
        return RunNotes(latest.remarks, latest.remaining_text, latest.inbox, missing, latest.stopped, latest.ready)

    def _coverage_in_any_run(self, subject: str) -> ListingCoverage:
        values = (recorded.coverage[subject] for recorded in self._recorded if subject in recorded.coverage)
        return next((one for one in values if one.read), ListingCoverage(subject, read=False))

    def _only_listed(self) -> Iterator[OnlyListed]:
        """The records that the latest snapshot of each subject showed."""
        for subject in self.coverage:
            recorded = next(
                (one for one in self._recorded if subject in one.coverage and one.coverage[subject].read), None
            )
            yield from (one for one in recorded.kept.only_listed if one.subject == subject) if recorded else ()


def _read(shown: bytes) -> _Kept | None:
    try:
        version, *_ = values = msgspec.msgpack.decode(zlib.decompress(shown), type=list[Any])
        return msgspec.convert(values, _Kept) if version == VERSION else None
    except (zlib.error, msgspec.MsgspecError, ValueError):
        return None
