"""What the ledger forgets at a person's request: the contents of every entry of a key, of the cells that others share with it, and the
words of people about it. Counts, states and hashes stay; the deed is a decision in the chain, without the key.

Owns: what belongs to a key, and the statements that take it away. Opens no transaction: the verbs of `Maintenance` do.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, or_, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.decisions import FORGET, chain
from loadsheet.ledger.erased_names import FileName, rename, runs_listing, runs_naming
from loadsheet.ledger.exceptions import chunks
from loadsheet.ledger.purging import GONE, empty
from loadsheet.ledger.schema import decisions, drops, entries, events, files, ignored, remarks, runs, seen
from loadsheet.ledger.statements import streamed_within
from loadsheet.ledger.states import Decision, Run, Settlement, State
from loadsheet.ledger.transitions import change
from loadsheet.problems import LedgerError

FORGOTTEN = "its contents were removed at a person's request"
UNSETTLED = (State.READY, State.SENDING, State.UNKNOWN)

Place = tuple[str, int]
"""A table of a drop and the number of a row."""


class Mine(NamedTuple):
    """An entry that belongs to a key: enough to say what would go. `removed` is when its contents were (empty: they are there)."""

    id: int
    drop: int
    operation: str
    key: str
    lane: str
    state: State
    removed: str


class Original(NamedTuple):
    """A file in which the key stood: its drop, name and place, and whether rows of others, or rows left out, stand in the same drop."""

    drop: int
    name: str
    kept_as: str
    sha256: str
    shared: bool


def entries_of_key(connection: Connection, key: str) -> list[Mine]:
    """All entries of a key, of keys that begin with it and a slash, and of everything on their lanes, oldest first."""
    named = or_(entries.c.key == key, entries.c.key.startswith(f"{key}/", autoescape=True))
    lanes = [lane for lane in connection.scalars(select(entries.c.lane).where(named).distinct()) if lane[-1:] != ":"]
    query = select(*(entries.c["drop_id" if name == "drop" else name] for name in Mine._fields))
    found = connection.execute(query.where(or_(named, entries.c.lane.in_(lanes))).order_by(entries.c.id))
    return [Mine(row.id, row.drop_id, row.operation, row.key, row.lane, State(row.state), row.removed) for row in found]


def originals_of(connection: Connection, mine: Sequence[Mine]) -> list[Original]:
    """The files of the drops of these entries, as far as they are kept."""
    own = {one.id for one in mine}
    found: list[Original] = []
    for drop in sorted({one.drop for one in mine}):
        all_of = set(connection.scalars(select(entries.c.id).where(entries.c.drop_id == drop)))
        left_out = connection.scalar(select(ignored.c.id).where(ignored.c.drop_id == drop).limit(1)) is not None
        query = select(files.c.name, files.c.kept_as, files.c.sha256).where(
            files.c.drop_id == drop, files.c.kept_as != ""
        )
        shared = left_out or bool(all_of - own)
        kept = connection.execute(query.order_by(files.c.id)).all()
        found += [Original(drop, row.name, row.kept_as, row.sha256, shared) for row in kept]
    return found


def runs_of(connection: Connection, mine: Sequence[Mine], names: Sequence[FileName] = ()) -> list[str]:
    """The names of the runs in whose reports these entries, or these names, may stand, oldest first."""
    touching = runs_naming(connection, names)
    touching |= set(connection.scalars(select(drops.c.run_id).where(drops.c.id.in_({one.drop for one in mine}))))
    for some in chunks([one.id for one in mine]):
        touching |= set(connection.scalars(select(events.c.run_id).where(events.c.entry_id.in_(some))))
    # a run tells of whole drops: of those that another entry of theirs was changed by as well
    for drop in {one.drop for one in mine}:
        beside = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        touching |= set(connection.scalars(beside.where(entries.c.drop_id == drop).distinct()))
        touching |= runs_listing(connection, select(drops.c.id).where(drops.c.id == drop))
    return list(connection.scalars(select(runs.c.name).where(runs.c.id.in_(touching)).order_by(runs.c.id)))


class NotSettled(LedgerError):  # noqa: N818 (named for what it is about)
    """An entry may still be sent or looked for: nothing of it can be forgotten yet."""

    exit_code = 1


def refuse_unsettled(mine: Sequence[Mine], key: str) -> None:
    """Raise NotSettled if one of these entries may still be sent or looked for."""
    waiting = [one for one in mine if one.state in UNSETTLED]
    if waiting:
        told = f"{waiting[0].operation} {waiting[0].key} is {waiting[0].state}: what became of it is not known yet"
        raise NotSettled(f"{told}; run `loadsheet run`, or loadsheet resolve {key}, and forget it then")


def forget(
    connection: Connection,
    run: Run,
    key: str,
    now: str,
    *,
    who: str,
    because: str,
    with_key: bool,
    names: Sequence[FileName] = (),
) -> list[Mine]:
    """Remove everything that was said in and of the entries of a key, and record who did so and why, with a hash for the key. What was
    held can never be sent any more and becomes invalid. With `with_key` the key itself goes too. Pseudonyms take the place of these
    file names. Returns the entries. Raises NotSettled if one of them is not settled.
    """
    mine = entries_of_key(connection, key)
    refuse_unsettled(mine, key)
    held = [Settlement(one.id, State.INVALID, FORGOTTEN) for one in mine if one.state is State.HELD]
    change(connection, run, held, now)
    wanted = [one.id for one in mine]
    shared = list(_sharing(connection, mine))
    for some in chunks(wanted):
        empty(connection, some, now)
    for entry, rows in shared:
        connection.execute(update(entries).where(entries.c.id == entry).values(rows=rows))
    wordless = [one for some in chunks(wanted) for one in _take_words(connection, some)]
    told = f"key sha256 {hashlib.sha256(key.encode()).hexdigest()[:16]}; contents of {len(mine)} entries removed"
    if with_key:
        _take_key(connection, mine, key)
        told += ", and the key"
    if names:
        rename(connection, names)
        told += f"; file names replaced by {', '.join(one.pseudonym for one in names)}"
    if wordless:
        told += f"; without their words: {', '.join(wordless)}"
    chain(connection, [Decision(one.id, now, who, FORGET, because, told, "") for one in mine])
    return mine


def _sharing(connection: Connection, mine: Sequence[Mine]) -> Iterator[tuple[int, bytes]]:
    """Entries of other keys that were made from one of the same rows, with their rows as they are without these cells."""
    own = {one.id for one in mine}
    for drop in sorted({one.drop for one in mine}):
        rows = select(entries.c.id, entries.c.rows).where(entries.c.drop_id == drop)
        places = {place for row in streamed_within(connection, rows) if row.id in own for place in _places(row.rows)}
        for row in streamed_within(connection, rows):
            if row.id not in own and places & _places(row.rows):
                kept = [
                    one._replace(cells=(), natives=()) if (one.table, one.number) in places else one
                    for one in codec.decode_rows(row.rows)
                ]
                yield row.id, codec.encode_rows(kept)


def _places(rows: bytes) -> set[Place]:
    return {(row.table, row.number) for row in codec.decode_rows(rows)}


def _take_words(connection: Connection, some: Sequence[int]) -> list[str]:
    """Remove what people said of these entries; returns the hashes of the decisions that have lost their words."""
    accepted = (entries.c.state == State.ACCEPTED) & entries.c.id.in_(some)
    connection.execute(update(entries).where(accepted).values(reason="accepted"))
    changed = events.c.entry_id.in_(some) & events.c.before.not_in(("", State.READY.value))
    connection.execute(update(events).where(changed).values(reason=""))
    said = remarks.c.entry_id.in_(some) & (remarks.c.name == "comment") & (remarks.c.value != "")
    connection.execute(update(remarks).where(said).values(value=GONE))
    worded = decisions.c.entry_id.in_(some) & (decisions.c.choice != FORGET)
    worded &= or_(decisions.c.comment != "", decisions.c.evidence != "")
    hashes = list(connection.scalars(select(decisions.c.hash).where(worded).order_by(decisions.c.id)))
    connection.execute(update(decisions).where(worded).values(comment="", evidence=""))
    return hashes


def _take_key(connection: Connection, mine: Sequence[Mine], key: str) -> None:
    """Give these entries another key and lane: the same for all, of which nobody can tell what it was."""
    name = f"forgotten-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    for one in mine:
        lane = f"{one.lane.partition(':')[0]}:{name}"
        connection.execute(update(entries).where(entries.c.id == one.id).values(key=name, lane=lane))
    lanes: Collection[str] = {one.lane for one in mine}
    for lane in lanes:
        still = select(seen.c.lane).where(seen.c.lane == f"{lane.partition(':')[0]}:{name}")
        if connection.scalar(still) is None:
            moved = update(seen).where(seen.c.lane == lane)
            connection.execute(moved.values(lane=f"{lane.partition(':')[0]}:{name}"))
