"""What later calls replaced: for an accepted entry, the last call for the same record, and the values that changed since.

The control totals compare what the exchange should hold now, so the figures of a replaced call are not in them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, Difference, different_fields
from loadsheet.ledger import Entry, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile.verdicts import DELETES, PROVABLE

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class Replacement(NamedTuple):
    """A replaced entry and the last call that replaced it. `changed` are the values that differ: `sent` by the entry, `held` after
    the later calls; none if one of them deleted the record or the contents are no longer kept.
    """

    entry: Entry
    by: Entry
    changed: tuple[Difference, ...]


def replacements(queries: LedgerQueries, entries: Sequence[Entry]) -> Iterator[Replacement]:
    """The replacements of these entries, in their order. Entries that no later call replaced are left out."""
    accepted: dict[str, list[int]] = defaultdict(list)
    for trace in queries.traces_on(sorted({entry.lane for entry in entries}), State.ACCEPTED):
        accepted[trace.lane] += [trace.id] if trace.operation in PROVABLE else []
    later = {entry.id: _after(entry, accepted[entry.lane]) for entry in entries}
    calls = {call.id: call for call in queries.entries_by_id(sorted({one for ids in later.values() for one in ids}))}
    for entry in entries:
        if followers := [calls[one] for one in later[entry.id]]:
            yield Replacement(entry, followers[-1], tuple(_changed(entry, followers)))


def _after(entry: Entry, accepted: Sequence[int]) -> Sequence[int]:
    """The accepted entries of a lane after this one. An unchanged entry is not among them: it repeats an earlier one."""
    if entry.id in accepted:
        return accepted[accepted.index(entry.id) + 1 :]
    return [one for one in accepted if one > entry.id]


def _changed(entry: Entry, followers: Sequence[Entry]) -> Sequence[Difference]:
    """The values of an entry that later calls replaced. Only fields that these calls carry are compared."""
    now: dict[str, Any] = {}
    for call in followers:
        if call.operation in DELETES or not call.payload:
            return ()
        now |= _decode(call.payload)
    sent = _decode(entry.payload) if entry.payload else {}
    carried = {name: value for name, value in sent.items() if name in now}
    return different_fields(BY_NAME[entry.operation].record, carried, now, ordered=entry.ordered)
