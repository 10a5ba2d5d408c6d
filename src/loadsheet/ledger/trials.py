"""What is on trial: drops of a mapping, or of a folder of the inbox, of which nothing was ever accepted.

Owns: which those are. Of each a few entries go first and alone (see `dispatch.canary`).
"""

from sqlalchemy import Connection, bindparam, select

from loadsheet.ledger.schema import drops, entries, events, files
from loadsheet.ledger.states import State

HELD = "the first records of its drop were all refused"
"""Why the rest of a drop is held whose trial went wrong."""

Part = tuple[int, str]  # a drop and an operation of its entries


def untried(connection: Connection) -> list[Part]:
    """The drops with ready entries, each with an operation of theirs, of whose mapping no entry of that operation was ever
    accepted, or none at all of the folder of the inbox that they came from: a shipper may have one. Not those of which entries
    were once held after a trial: then somebody has let them go since.
    """
    waiting = select(entries.c.drop_id, entries.c.operation).where(entries.c.state == State.READY).distinct()
    known: dict[str, bool] = {}
    return [
        (drop, operation)
        for drop, operation in connection.execute(waiting).all()
        if connection.execute(_LET_GO, {"drop": drop, "reason": HELD}).first() is None
        if connection.execute(_ACCEPTED, {"drop": drop, "operation": operation}).first() is None
        or not _is_from_known(connection, drop, known)
    ]


def _is_from_known(connection: Connection, drop: int, known: dict[str, bool]) -> bool:
    """Whether an entry was ever accepted from the folder of the inbox that a drop came from; a fix comes back from anywhere. What was
    found out is kept in `known`, by folder.
    """
    query = select(files.c.name, drops.c.fixes).join(drops, drops.c.id == files.c.drop_id)
    name, fixes = connection.execute(query.where(drops.c.id == drop).order_by(files.c.id).limit(1)).one()
    folder, slash, _ = name.partition("/")
    if fixes is not None:
        return True
    place = folder + slash if slash else ""
    if place not in known:
        there = files.c.name.startswith(place, autoescape=True) if place else files.c.name.not_like("%/%")
        accepted = select(entries.c.id).join(files, files.c.drop_id == entries.c.drop_id)
        found = connection.execute(accepted.where(there, entries.c.state == State.ACCEPTED).limit(1))
        known[place] = found.first() is not None
    return known[place]


_mapping = select(drops.c.mapping_hash).where(drops.c.id == bindparam("drop")).scalar_subquery()
_ACCEPTED = (
    select(entries.c.id)
    .join(drops, drops.c.id == entries.c.drop_id)
    .where(
        drops.c.mapping_hash == _mapping,
        entries.c.operation == bindparam("operation"),
        entries.c.state == State.ACCEPTED,
    )
    .limit(1)
)
_LET_GO = (
    select(events.c.entry_id)
    .join(entries, entries.c.id == events.c.entry_id)
    .where(entries.c.drop_id == bindparam("drop"), events.c.after == State.HELD, events.c.reason == bindparam("reason"))
    .limit(1)
)
