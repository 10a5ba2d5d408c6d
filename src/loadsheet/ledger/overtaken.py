"""Which waiting deletes and updates a later create has overtaken: sent now, they would undo what a newer file says.

Owns: when that is so. A delete would remove the newer record. An update would set fields back to older values; one of the same file, or
of one whose fix file holds the create, is no older. Only reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from loadsheet.contract import BY_NAME, Action, decode_record, different_fields
from loadsheet.ledger.content_blocks import with_contents
from loadsheet.ledger.ledger_tables import Statement
from loadsheet.ledger.planning import Parent
from loadsheet.ledger.states import State

_MAY_BE_MADE = (State.ACCEPTED, State.SENDING, State.UNKNOWN)


def overtaken(
    connection: Connection, rows: Sequence[Any], parents: Mapping[str, Sequence[Parent]], *, soon: bool = False
) -> set[int]:
    """The entries among these that a later create of their lane has overtaken. `parents` are the creates and deletes by lane. `soon`:
    updates that a create will overtake once it is sent count too.
    """
    found: set[int] = set()
    updates: dict[int, int] = {}
    for row in rows:
        action = BY_NAME[row.operation].action
        if action not in (Action.DELETE, Action.UPDATE) or row.instead is not None:  # an upsert is judged again
            continue
        states = (*_MAY_BE_MADE, State.READY) if soon and action is Action.UPDATE else _MAY_BE_MADE
        made = [
            parent.id
            for parent in parents.get(row.lane, ())
            if BY_NAME[parent.operation].creates and parent.state in states and parent.id > row.id
        ]
        if made and action is Action.DELETE:
            found.add(row.id)
        elif made:
            updates[row.id] = made[-1]
    return found | _undoing(connection, updates) if updates else found


def _undoing(connection: Connection, updates: Mapping[int, int]) -> set[int]:
    """The updates whose create (by update) came in a newer file and has other values in the same fields."""
    rows = _ENTRIES.rows_of(connection, sorted({*updates, *updates.values()}))
    known = {row.id: (row, content.payload) for row, content in with_contents(connection, rows)}
    fixed = {row.id: row.fixes for row in _FIXES.rows(connection)}
    undoing = set()
    for update, create in updates.items():
        (own, before), (later, after) = known[update], known[create]
        drop = later.drop_id
        while drop in fixed:
            drop = fixed[drop]
        if drop > own.drop_id and _differ(own.operation, before, after):
            undoing.add(update)
    return undoing


def _differ(operation: str, before: bytes, after: bytes) -> bool:
    """Whether two JSON records have different values in a field that both have. True if the contents of one were removed."""
    if not before or not after:
        return True
    old, new = decode_record(before), decode_record(after)
    shared = {name: value for name, value in old.items() if name in new}
    return bool(different_fields(BY_NAME[operation].record, shared, new))


_ENTRIES = Statement("select id, drop_id, operation, payload, rows from entries where id in (:wanted)")
_FIXES = Statement("select id, fixes from drops where fixes < id")
