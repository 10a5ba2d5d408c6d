"""Learning what became of unknown entries, before anything new is sent: what a listing shows was accepted.

Owns: what counts as evidence. Sends nothing again: an entry that no listing proves stays unknown, and its lane stays shut.
"""

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from loadsheet.contract import BY_NAME, WRITES, Action, Listing, Operation, Tolerances, different_fields, listed_subject
from loadsheet.dispatch.client import Client
from loadsheet.ledger import Entry, Ledger, Run, Settlement, State
from loadsheet.ledger.history import History
from loadsheet.settings import Settings

WITNESSES_TRIED = 100

_read_json = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class ResolvingReport:
    """How many unknown entries there were, and how many of them a listing proved to be accepted."""

    unknown: int
    accepted: int

    @property
    def left(self) -> int:
        """How many are still unknown."""
        return self.unknown - self.accepted


def resolve_unknown(ledger: Ledger, client: Client, run: Run, settings: Settings) -> ResolvingReport:
    """Settle unknown entries as accepted where a listing shows their effect; leave all others as they are.

    A create or update is shown by exactly one record with its key in which every sent field is equal in normal form, within
    the tolerances of the settings; a delete by the absence of its record from a complete listing that also shows a witness. Raises ExchangeUnreachable and TokenRefused.
    """
    by_listing: defaultdict[str, list[Entry]] = defaultdict(list)
    unknown = 0
    for entry in ledger.history.entries_in(State.UNKNOWN):
        unknown += 1
        proved_by = BY_NAME[entry.operation].proved_by
        if proved_by:
            by_listing[proved_by].append(entry)
    accepted = 0
    tolerances = Tolerances(Decimal(str(settings.weight_tolerance)), Decimal(str(settings.money_tolerance)))
    for name, entries in by_listing.items():
        evidence = _Evidence(ledger.history, BY_NAME[name], client.whole_listing(BY_NAME[name]), tolerances)
        shown = [entry for entry in entries if evidence.shows(entry)]
        ledger.settle(run, [Settlement(entry.id, State.ACCEPTED, "shown by the listing") for entry in shown])
        accepted += len(shown)
    return ResolvingReport(unknown, accepted)


class _Evidence:
    """What one listing proves."""

    def __init__(self, history: History, operation: Operation, listing: Listing, tolerances: Tolerances) -> None:
        self._tolerances = tolerances
        self._held: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for record in listing.results:
            if listed_subject(record) == operation.subject:
                self._held[operation.key_of(record)].append(record)
        self._absence_counts = listing.complete and _has_witness(history, operation, list(self._held))

    def shows(self, entry: Entry) -> bool:
        """Whether the effect of this entry is there to be seen."""
        operation = BY_NAME[entry.operation]
        records = self._held.get(entry.key, [])
        if operation.action is Action.DELETE:
            return self._absence_counts and not records
        if len(records) != 1:
            return False
        return not different_fields(operation.record, _read_json(entry.payload), records[0], self._tolerances)


def _has_witness(history: History, operation: Operation, keys: list[str]) -> bool:
    """Whether the listing shows a record that the exchange accepted from us: else it may be another kind or another view."""
    makes_it = {
        write.name for write in WRITES if write.proved_by == operation.name and write.action is not Action.DELETE
    }
    return any(
        entry.state is State.ACCEPTED and entry.operation in makes_it
        for key in reversed(keys[-WITNESSES_TRIED:])
        for entry in history.entries_by_key(key)
    )
