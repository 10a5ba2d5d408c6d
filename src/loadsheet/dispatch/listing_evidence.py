"""What one listing shows of an entry whose outcome is unknown, and whether absence from it would mean anything.

Owns: the tests of a listing (complete, of the right kind, with a witness, a fresh one) and the comparison of a record with what was
sent and with what was there before. Pure; what follows from a sight is for `protocol` to say.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import (
    BY_NAME,
    LISTED_KEYS,
    Action,
    Listing,
    Operation,
    Tolerances,
    different_fields,
    listed_subject,
)
from loadsheet.ledger import Entry
from loadsheet.settings import Settings

FIELDS_TOLD = 4

_read_json = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class Shown(StrEnum):
    """What a listing shows of the record of an entry."""

    AS_SENT = "as it was sent"
    AS_BEFORE = "as it was before"
    OTHERWISE = "with other content"
    TWICE = "more than once"
    ALIKE = "under a key that is written otherwise"
    ABSENT = "not at all"
    NO_LISTING = "no listing shows it"


class Witness(NamedTuple):
    """A record that the exchange accepted from here with an answer of its own: its key, and since when (ISO 8601 UTC)."""

    key: str
    since: str


class Sight(NamedTuple):
    """What was seen of one entry. `counts` says whether absence from this listing means anything, `why` why it does not;
    `detail` names the fields that differ.
    """

    shown: Shown
    counts: bool = False
    why: str = ""
    detail: str = ""


NO_LISTING = Sight(Shown.NO_LISTING)


class Evidence:
    """What one listing proves of the records of these keys. `witnesses` are the latest records of its kind that the exchange accepted,
    newest first. Of all others nothing is kept, so that a listing may be as long as it will.
    """

    def __init__(
        self,
        operation: Operation,
        listing: Listing,
        keys: Collection[str],
        witnesses: Sequence[Witness],
        settings: Settings,
    ) -> None:
        self._operation = operation
        self._freshness = settings.fresh_witness
        self._tolerances = Tolerances(Decimal(str(settings.weight_tolerance)), Decimal(str(settings.money_tolerance)))
        self._listing = listing
        self._held: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._alike: set[str] = set()
        wanted, folded, shown = set(keys), {_folded(key) for key in keys}, set[str]()
        since = {one.key: one.since for one in reversed(witnesses)}
        for position, head in enumerate(listing.heads(LISTED_KEYS)):
            if listed_subject(head) != operation.subject:
                continue
            key = operation.key_of(head)
            if key in wanted:
                self._held[key].append(listing.results[position])
            if _folded(key) in folded:
                self._alike.add(_folded(key))
            if key in since:
                shown.add(key)
        self._newest = max((since[key] for key in shown), default="")

    def of(self, entry: Entry, before: Mapping[str, Any] | None) -> Sight:
        """What is seen of an entry. `before` is the record as it was before this entry, None if nobody knows."""
        why = self._why_not(entry)
        records = self._held.get(entry.key, [])
        if len(records) > 1:
            return Sight(Shown.TWICE, not why, why)
        if not records:
            shown = Shown.ALIKE if _folded(entry.key) in self._alike else Shown.ABSENT
            return Sight(shown, not why, why)
        shown, detail = self._compared(entry, records[0], before)
        return Sight(shown, not why, why, detail)

    def _why_not(self, entry: Entry) -> str:
        """Why absence from this listing would mean nothing for the entry; empty if it does."""
        listing = self._listing
        if not listing.complete:
            return f"the listing shows {len(listing.results)} of {listing.total_count} records"
        if listing.total_pages > 1:
            return f"the listing is one of {listing.total_pages} pages"
        if not self._newest:
            return f"the listing shows no {self._operation.subject} that is known to be there (a witness)"
        if self._freshness == "required" and self._newest <= entry.changed_at:
            return f"the listing shows no {self._operation.subject} accepted since then (fresh_witness = required)"
        return ""

    def _compared(self, entry: Entry, record: dict[str, Any], before: Mapping[str, Any] | None) -> tuple[Shown, str]:
        operation = BY_NAME[entry.operation]
        sent = _read_json(entry.payload)
        if operation.action is Action.DELETE:
            if before is None:
                return Shown.OTHERWISE, "nobody knows what it was"
            different = different_fields(self._operation.record, before, record, self._tolerances)
            return (Shown.OTHERWISE, _told(different)) if different else (Shown.AS_BEFORE, "")
        was = None
        if before is not None and operation.action is Action.UPDATE:
            was = {name: before.get(name) for name in sent}
        for ordered in (None, entry.ordered):  # in another order of its lines it may be either: the same order decides
            different = different_fields(operation.record, sent, record, self._tolerances, ordered)
            if not different:
                return Shown.AS_SENT, ""
            if was is not None and not different_fields(operation.record, was, record, self._tolerances, ordered):
                return Shown.AS_BEFORE, ""
        return Shown.OTHERWISE, _told(different)


def content_before(accepted: Iterable[Entry]) -> dict[str, Any] | None:
    """The record that these accepted entries of a lane made, in their order; None if no create of ours is among them."""
    record: dict[str, Any] | None = None
    for entry in accepted:
        action = BY_NAME[entry.operation].action
        if entry.removed and action in (Action.CREATE, Action.UPDATE):
            record = None  # what it made of the record is not kept any more
        elif action is Action.CREATE:
            record = _read_json(entry.payload)
        elif action is Action.UPDATE and record is not None:
            record = {**record, **_read_json(entry.payload)}
        elif action is Action.DELETE:
            record = None
    return record


def _folded(key: str) -> str:
    """A key without what a system may change of it: blanks around it, case, zeros in front of digits."""
    text = key.strip().casefold()
    return text.lstrip("0") or "0" if text.isdecimal() else text


def _told(different: Sequence[Any]) -> str:
    shown = [f"{one.path} {one.sent or 'nothing'} / {one.held or 'nothing'}" for one in different[:FIELDS_TOLD]]
    more = len(different) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)
