"""Units and currencies that updates leave out: totals add a figure up in the unit that the record has as it stands.

Owns: where such a unit comes from. The record's accepted calls say it; where they do not, as others made the record, its listing does.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from loadsheet.contract import BY_NAME, Action, Operation, measures_of, units_in, units_lacking
from loadsheet.ledger import Entry, State, Trace
from loadsheet.ledger.queries import LedgerQueries

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def units_left_out(
    queries: LedgerQueries, entries: Sequence[Entry], traces: Sequence[Trace]
) -> dict[int, Mapping[str, str]]:
    """For each update that names no unit of one of its figures: the units that its record had then, by their fields. `traces` are those of
    its lane, in the order in which they got there.
    """
    lacking = {one.id: one.lane for one in entries if _lacks(one)}
    if not lacking:
        return {}
    lanes = {*lacking.values()}
    made = [one for one in traces if one.lane in lanes and one.state is State.ACCEPTED and _has_figures(one.operation)]
    contents = {one.id: _units(one) for one in queries.entries_by_id([one.id for one in made])}
    stands: dict[str, dict[str, str]] = {lane: {} for lane in lanes}
    found: dict[int, Mapping[str, str]] = {}
    for one in made:
        stands[one.lane] = {**stands[one.lane], **contents[one.id]}
        if one.id in lacking:
            found[one.id] = stands[one.lane]
    return {entry: found.get(entry, stands[lane]) for entry, lane in lacking.items()}


def with_units(
    operation: Operation, record: dict[str, Any], units: Mapping[str, str], listed: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A record with the units that it leaves out beside its figures."""
    if operation.action is not Action.UPDATE:
        return record
    names = units_lacking(measures_of(operation), record)
    given = {name: units.get(name) or (listed or {}).get(name) for name in names}
    return {**record, **{name: unit for name, unit in given.items() if unit}} if names else record


def _lacks(entry: Entry) -> bool:
    operation, content = BY_NAME[entry.operation], entry.payload or entry.figures
    if operation.action is not Action.UPDATE or not content:
        return False
    return bool(units_lacking(measures_of(operation), _decode(content)))


def _has_figures(operation: str) -> bool:
    return bool(measures_of(BY_NAME[operation]))


def _units(entry: Entry) -> dict[str, str]:
    content = entry.payload or entry.figures
    return units_in(measures_of(BY_NAME[entry.operation]), _decode(content)) if content else {}
