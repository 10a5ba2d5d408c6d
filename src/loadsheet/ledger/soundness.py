"""Whether the ledger is whole: a quick look when it is opened, everything when somebody asks.

Owns: when a look is due. A ledger whose last run ended well is looked at once a day while it is small; a large one, which takes
longer, only after a run that did not end, and by `check`.
"""

from collections.abc import Iterator

from sqlalchemy import Connection, desc, func, insert, select, update

from loadsheet.ledger.decisions import first_broken_decision
from loadsheet.ledger.schema import attempts, decisions, entries, events, meta, runs
from loadsheet.ledger.states import Decision
from loadsheet.problems import LedgerError

LARGE_BYTES = 256 * 1024 * 1024
_LOOKED = "looked_at"
_SHOWN = 5


def look_if_due(connection: Connection, now: str) -> None:
    """Look at the database's structure if that is due; `now` is ISO 8601 UTC. Raises LedgerError if it is damaged."""
    looked = connection.scalar(select(meta.c.value).where(meta.c.name == _LOOKED))
    ended = connection.scalar(select(runs.c.finished_at).order_by(desc(runs.c.id)).limit(1))
    small = _size(connection) <= LARGE_BYTES
    if ended != "" and (ended is None or not small or (looked or "")[:10] == now[:10]):
        return
    found = list(connection.exec_driver_sql(f"pragma quick_check({_SHOWN})").scalars())
    if found != ["ok"]:
        raise LedgerError(f"it is damaged ({'; '.join(found)}); nothing was sent")
    if looked is None:
        connection.execute(insert(meta).values(name=_LOOKED, value=now))
    else:
        connection.execute(update(meta).where(meta.c.name == _LOOKED).values(value=now))


def check(connection: Connection) -> Iterator[str]:
    """Everything that is wrong with the ledger, in words; nothing if it is sound. Reads all of it."""
    if connection.dialect.name == "sqlite":  # PostgreSQL sees to its pages and keys itself
        found = list(connection.exec_driver_sql(f"pragma integrity_check({_SHOWN})").scalars())
        if found != ["ok"]:
            yield from (f"the database is damaged: {line}" for line in found)
            return  # what a damaged one says of the rest is worth nothing
        for row in connection.exec_driver_sql("pragma foreign_key_check").fetchmany(_SHOWN):
            yield f"a row of {row[0]} belongs to a row of {row[2]} that does not exist"
    last = (
        select(events.c.after).where(events.c.entry_id == entries.c.id).order_by(desc(events.c.id)).limit(1)
    ).scalar_subquery()
    for identity in connection.scalars(
        select(entries.c.id).where(func.coalesce(last, "") != entries.c.state).limit(_SHOWN)
    ):
        yield f"entry {identity} is in another state than its last event says"
    tried = select(func.count()).where(attempts.c.entry_id == entries.c.id).scalar_subquery()
    for identity in connection.scalars(select(entries.c.id).where(tried != entries.c.attempts).limit(_SHOWN)):
        yield f"entry {identity} has another number of attempts than are recorded"
    held = (func.length(entries.c.payload) > 0) | entries.c.instead.is_not(None)
    kept = (entries.c.removed != "") & held
    for identity in connection.scalars(select(entries.c.id).where(kept).limit(_SHOWN)):
        yield f"entry {identity} has a payload although it says that it was removed"
    columns = [decisions.c[name] for name in ("entry_id", "at", "who", "choice", "comment", "evidence", "hash")]
    broken = first_broken_decision(
        Decision(*row) for row in connection.execute(select(*columns).order_by(decisions.c.id))
    )
    if broken is not None:
        yield f"the decision of {broken.who} of {broken.at} on entry {broken.entry} is not as it was recorded, or one before it is missing"


def _size(connection: Connection) -> int:
    pages, size = (connection.exec_driver_sql(f"pragma {name}").scalar() or 0 for name in ("page_count", "page_size"))
    return int(pages) * int(size)
