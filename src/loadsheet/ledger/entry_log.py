"""Log lines of entries: those that need someone, by key and row."""

from collections.abc import Sequence
from itertools import islice

from loadsheet import run_log
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.states import Drop, Settlement, State

_LOGGED = frozenset({State.REFUSED, State.UNKNOWN, State.HELD})


def note(queries: LedgerQueries, settlements: Sequence[Settlement]) -> None:
    """Log those committed settlements that somebody may have to look at."""
    logged = [one for one in settlements if one.state in _LOGGED]
    if not logged or not run_log.is_open():
        return
    keys = queries.keys_of([one.entry for one in logged])
    for one in logged:
        where = one.problems[0].where if one.problems else None
        run_log.entry(
            f"entry {one.state}",
            key=keys.get(one.entry, ""),
            file=where.file if where else "",
            row=where.row if where else None,
            status=one.status,
            duration_ms=one.duration_ms,
            reason=one.reason,
        )


def note_held(queries: LedgerQueries, drop: Drop) -> None:
    """Tell of what was held as it was planned."""
    if not run_log.is_open():
        return
    for entry in islice(queries.entries_of(drop.id, State.HELD), run_log.ENTRIES_MAX + 1):
        row = entry.rows[0] if entry.rows else None
        file = drop.table(row.table).file if row else drop.name
        run_log.entry("entry held", key=entry.key, file=file, row=row.number if row else None, reason=entry.reason)
