"""What is recorded once more: outcomes of which nobody knows whether they were recorded, and those of a process whose ledger was taken over.

Owns: when such an outcome still counts: the attempt that it is of has to be its entry's last one, and nothing else may have settled
that. Whatever came in between decides; recording an outcome twice changes nothing.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from loadsheet.ledger.schema import entries
from loadsheet.ledger.states import Settlement, State
from loadsheet.ledger.transitions import CURRENT, PreviousState

NEVER_LEFT = "it never left: the ledger could not be reached before"
_OPEN = (State.SENDING, State.UNKNOWN)


def still_new(connection: Connection, settlements: Sequence[Settlement]) -> list[Settlement]:
    """Those that say something that the ledger does not know yet and that still counts."""
    if not settlements:
        return []
    found = {row[0]: PreviousState._make(row) for row in CURRENT.rows(connection, [one.entry for one in settlements])}
    return [one for one in settlements if _counts(one, found[one.entry])]


def never_left(connection: Connection, underway: Collection[int]) -> list[Settlement]:
    """What brings back the entries that are recorded as being sent although the run does not send them."""
    sending = select(entries.c.id, entries.c.attempts).where(entries.c.state == State.SENDING)
    return [
        Settlement(row.id, State.READY, NEVER_LEFT, outcome="not sent", attempt=row.attempts)
        for row in connection.execute(sending)
        if row.id not in underway
    ]


def _counts(one: Settlement, now: PreviousState) -> bool:
    if one.attempt != now.attempts or now.state not in _OPEN:
        return False
    return now.state == State.SENDING or one.state is not State.UNKNOWN  # as the database has it: a text, no member
