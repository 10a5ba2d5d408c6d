"""What later calls replaced: for an accepted entry, the last call for the same record, the values that changed since, and those
that the exchange should still hold because no later call carries them.

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
    for entry, followers in _with_followers(queries, entries):
        now = _values_of(followers)
        carried = {name: value for name, value in _sent_by(entry).items() if now and name in now}
        changed = different_fields(BY_NAME[entry.operation].record, carried, now or {}, ordered=entry.ordered)
        yield Replacement(entry, followers[-1], tuple(changed))


def values_left(queries: LedgerQueries, entries: Sequence[Entry]) -> dict[int, dict[str, Any] | None]:
    """The values of replaced entries that no later call carries, by entry. Entries without any are left out, such as those of a
    deleted record. None: not known, because the contents of the entry or of a later call are no longer kept.
    """
    left: dict[int, dict[str, Any] | None] = {}
    for entry, followers in _with_followers(queries, entries):
        if any(call.operation in DELETES for call in followers):
            continue
        left[entry.id] = None
        if entry.payload and (now := _values_of(followers)) is not None:
            left[entry.id] = {name: value for name, value in _sent_by(entry).items() if name not in now}
    return {entry: values for entry, values in left.items() if values != {}}


def _with_followers(queries: LedgerQueries, entries: Sequence[Entry]) -> Iterator[tuple[Entry, list[Entry]]]:
    """Each entry that later calls replaced, with these calls."""
    accepted: dict[str, list[int]] = defaultdict(list)
    for trace in queries.traces_on(sorted({entry.lane for entry in entries}), State.ACCEPTED):
        accepted[trace.lane] += [trace.id] if trace.operation in PROVABLE else []
    later = {entry.id: _after(entry, accepted[entry.lane]) for entry in entries}
    calls = {call.id: call for call in queries.entries_by_id(sorted({one for ids in later.values() for one in ids}))}
    for entry in entries:
        if followers := [calls[one] for one in later[entry.id]]:
            yield entry, followers


def _after(entry: Entry, accepted: Sequence[int]) -> Sequence[int]:
    """The accepted entries of a lane after this one. An unchanged entry is not among them: it repeats an earlier one."""
    if entry.id in accepted:
        return accepted[accepted.index(entry.id) + 1 :]
    return [one for one in accepted if one > entry.id]


def _values_of(followers: Sequence[Entry]) -> dict[str, Any] | None:
    """The values that these calls set together; None if one deleted the record or its content is no longer kept."""
    now: dict[str, Any] = {}
    for call in followers:
        if call.operation in DELETES or not call.payload:
            return None
        now |= _decode(call.payload)
    return now


def _sent_by(entry: Entry) -> dict[str, Any]:
    return _decode(entry.payload) if entry.payload else {}
