"""What is not kept any longer: payloads, cells and answers of entries that nobody needs any more. Hashes, keys, states, events and
what totals need stay, so that the books of old runs balance and the same content is known again.

Owns: which entries may lose their contents by rule, and the statements that take them away. Opens no transaction: the verbs of
`Maintenance` do.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, func, null, or_, select, update

from loadsheet.contract import BY_NAME, figures_only, measures_of
from loadsheet.ledger import codec
from loadsheet.ledger.exceptions import chunks
from loadsheet.ledger.schema import attempts, drops, entries, events, exceptions, findings, ignored, looks, runs, tables
from loadsheet.ledger.statements import Chosen, Many
from loadsheet.ledger.states import State
from loadsheet.problems import Problem

GONE = "…"
"""What stands for a value that is not kept any more."""

REFUSED_BEFORE = "refused; what the exchange said is not kept any more"
ENTRIES_AT_ONCE = 500

_NEEDED = (State.HELD, State.READY, State.SENDING, State.UNKNOWN)
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


def old_drops(connection: Connection, before: str) -> list[int]:
    """The drops of runs that began before a time (ISO 8601 UTC) and of which contents are still kept, oldest first."""
    query = select(drops.c.id).join(runs, runs.c.id == drops.c.run_id)
    query = query.where(drops.c.removed == "", runs.c.started_at < before, drops.c.mapping_hash.is_not(None))
    return list(connection.scalars(query.order_by(drops.c.id)))


def removable(connection: Connection, drop: int, before: str) -> list[int]:
    """Entries of a drop, some at a time, that were settled before a time and that nobody can need any more: not open exceptions, none
    whose record may still be sent or looked for, and of invalid and refused ones only those whose exception was closed.
    """
    query = select(entries.c.id).where(
        entries.c.drop_id == drop, entries.c.removed == "", entries.c.changed_at < before
    )
    query = query.where(~_OPEN.exists(), ~_BUSY.exists(), or_(_DONE, _TOLD & _CLOSED.exists()))
    return list(connection.scalars(query.order_by(entries.c.id).limit(ENTRIES_AT_ONCE)))


def empty(connection: Connection, wanted: Sequence[int], now: str) -> int:
    """Remove the contents of these entries, and what answers, listings and problems said of values; returns how many there were."""
    changes = []
    for row in _CONTENTS.rows(connection, wanted):
        reason = REFUSED_BEFORE if row.state == State.REFUSED else row.reason
        figures = row.figures or figures_of(row.operation, row.payload)
        changes.append((reason, b"", without_cells(row.rows), without_values(row.problems), now, figures, row.id))
    if changes:
        _EMPTY.run(connection, changes)
    answered = (events.c.before == State.SENDING) & (events.c.after != State.ACCEPTED)
    for some in chunks(wanted):
        connection.execute(update(attempts).where(attempts.c.entry_id.in_(some)).values(detail=""))
        connection.execute(update(events).where(events.c.entry_id.in_(some), answered).values(reason=""))
        connection.execute(update(findings).where(findings.c.entry_id.in_(some)).values(text=""))
        connection.execute(update(exceptions).where(exceptions.c.entry_id.in_(some)).values(found="[]"))
    return len(changes)


def close_drop(connection: Connection, drop: int, now: str) -> bool:
    """Remove the cells of ignored rows and the values in the problems of tables, once no entry of a drop has contents any more; whether
    that is so.
    """
    kept = select(entries.c.id).where(entries.c.drop_id == drop, entries.c.removed == "").limit(1)
    if connection.scalar(kept) is not None:
        return False
    connection.execute(update(ignored).where(ignored.c.drop_id == drop).values(cells="[]"))
    for row in connection.execute(select(tables.c.id, tables.c.problems).where(tables.c.drop_id == drop)).all():
        connection.execute(update(tables).where(tables.c.id == row.id).values(problems=without_values(row.problems)))
    connection.execute(update(drops).where(drops.c.id == drop).values(removed=now))
    return True


def old_looks(connection: Connection, before: str) -> list[int]:
    """The runs that began before a time and whose look at the exchange may still hold values."""
    query = select(looks.c.run_id).join(runs, runs.c.id == looks.c.run_id)
    return list(connection.scalars(query.where(looks.c.removed == "", runs.c.started_at < before)))


def removed_among(connection: Connection, wanted: Sequence[int]) -> dict[int, str]:
    """Those of these entries whose contents were removed, with their operations."""
    return {row.id: row.operation for row in _CONTENTS.rows(connection, wanted) if row.removed}


def count_removed(connection: Connection) -> tuple[int, str]:
    """How many entries have lost their contents, and when the last one did (ISO 8601 UTC; empty: none)."""
    query = select(func.count(), func.max(entries.c.removed)).where(entries.c.removed != "")
    count, last = connection.execute(query).one()
    return count, last or ""


def figures_of(operation: str, payload: bytes) -> bytes:
    """So much of a payload that control totals stay what they were; empty if there is nothing to add up."""
    measures = measures_of(BY_NAME[operation])
    figures = figures_only(measures, _decode(payload)) if payload and measures else {}
    return _encode(figures) if figures else b""


def without_cells(rows: bytes) -> bytes:
    """The stored rows of an entry: which they were, and nothing of what stood in them."""
    return codec.encode_rows([row._replace(cells=(), natives=()) for row in codec.decode_rows(rows)])


def without_values(problems: str) -> str:
    """The stored problems of an entry: what was wrong where, and nothing of what stood there."""
    return codec.encode_problems([_without_values(problem) for problem in codec.decode_problems(problems)])


def _without_values(problem: Problem) -> Problem:
    return replace(problem, found=GONE if problem.found else "", values=dict.fromkeys(problem.values, GONE), hint="")


_others = entries.alias()
_OPEN = select(1).where(exceptions.c.entry_id == entries.c.id, exceptions.c.closed_run_id.is_(None))
_CLOSED = select(1).where(exceptions.c.entry_id == entries.c.id, exceptions.c.closed_run_id.is_not(None))
_BUSY = select(1).select_from(_others).where(_others.c.lane == entries.c.lane, _others.c.state.in_(_NEEDED))
_DONE = entries.c.state.in_((State.ACCEPTED, State.UNCHANGED))
_TOLD = entries.c.state.in_((State.INVALID, State.REFUSED))
_CONTENTS = Chosen(
    select(
        *(
            entries.c[name]
            for name in ("id", "operation", "state", "reason", "payload", "rows", "problems", "removed", "figures")
        )
    ),
    entries.c.id,
)
_EMPTY = Many(
    update(entries)
    .where(entries.c.id == bindparam("entry"))
    .values(
        {name: bindparam(f"new_{name}") for name in ("reason", "payload", "rows", "problems", "removed", "figures")}
        | {"instead": null()}
    ),
    ("new_reason", "new_payload", "new_rows", "new_problems", "new_removed", "new_figures", "entry"),
)
