"""Batches: work of a run that is handed to whoever is free, where several processes share a ledger.

Owns: which ready entries travel in one batch, and what taking and closing one mean. A batch is taken by raising its epoch: what its
former owner was sending is `unknown` from then on, and he can record no more of it (see `fences`). A batch is made, and announced to
the queue, in the transaction that made its work.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, bindparam, insert, or_, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.changing import change
from loadsheet.ledger.fences import OPEN
from loadsheet.ledger.history import TAKEN_OVER
from loadsheet.ledger.leaving import before_on_lane, busy_on_lane, others
from loadsheet.ledger.schema import batches, entries, runs
from loadsheet.ledger.statements import streamed_within
from loadsheet.ledger.states import Run, Settlement, State, Waits
from loadsheet.ledger.trials import tried, untried
from loadsheet.problems import Problem

DONE = "done"

Writing = Callable[[], AbstractContextManager[Connection]]
Announce = Callable[[Connection, Sequence["Batch"]], None]
"""Tells the queue of batches, within the transaction that made them."""


class Kind(StrEnum):
    """What is to be done for a batch."""

    CALLS = "calls"  # its entries are sent
    RESOLUTION = "resolution"  # unknown outcomes of earlier runs are looked for
    LOOKUP = "lookup"  # what something waits for is looked for
    RECONCILIATION = "reconciliation"  # the run is reconciled, and its reports are written
    TRANSLATION = "translation"  # a part of a big file becomes documents


class Batch(NamedTuple):
    """A batch as it was made."""

    id: int
    kind: Kind
    run: int


class Taken(NamedTuple):
    """A batch as its owner has it: for which run, what was given with it (JSON values), the epoch that is his fence, who had it before
    (empty: nobody), and how many of its entries are unknown because of that.
    """

    id: int
    kind: Kind
    run: Run
    given: Mapping[str, Any]
    epoch: int
    before: str
    unknown: int


class Closed(NamedTuple):
    """A batch that is done, and what it came to (JSON values)."""

    id: int
    kind: Kind
    answer: Mapping[str, Any]


class Sharing(NamedTuple):
    """How work is handed to others: what tells them of it, how many entries a batch has at most, and how many of what is on trial go first."""

    announce: Announce
    entries: int = 200
    canary: int = 0


class Batches:
    """The verbs of handing out. Made by `Ledger`; without `sharing` nobody else takes anything from it."""

    def __init__(self, engine: Engine, writing: Writing, now: Callable[[], str], sharing: Sharing | None) -> None:
        self._engine, self._writing, self._now, self._sharing = engine, writing, now, sharing
        self.plans_go_out = sharing is not None
        """Whether what is planned is handed out at once, in the transaction of the plan."""

    # who plans

    def hand_out(self, run: Run, kind: Kind, given: Mapping[str, Any]) -> int:
        """Make a batch and tell the queue; returns its id."""
        with self._writing() as connection:
            made = _make(connection, run, kind, given, self._now())
            self._tell(connection, [made])
            return made.id

    def batch_up(self, run: Run, *, most: int | None = None) -> int:
        """Put ready entries that are in no batch into batches, and tell the queue; returns how many entries (`most` at most) that are. Of
        what is on trial only the first go, and the rest when one of them was accepted.
        """
        with self._writing() as connection:
            return self.batch_up_within(connection, run, most=most)

    def batch_up_within(self, connection: Connection, run: Run, *, most: int | None = None) -> int:
        """The same within the transaction of a plan."""
        if self._sharing is None:
            return 0
        made: list[Batch] = []
        count = 0
        for group in _groups(connection, run, self._sharing, most):
            batch = _make(connection, run, Kind.CALLS, {"entries": len(group)}, self._now())
            for start in range(0, len(group), _AT_ONCE):
                mine = entries.c.id.in_(group[start : start + _AT_ONCE])
                connection.execute(update(entries).where(mine).values(batch_id=batch.id))
            made.append(batch)
            count += len(group)
        self._tell(connection, made)
        return count

    def adopt(self, connection: Connection, run: Run) -> None:
        """Within the transaction that begins a run: batches of calls of earlier runs are this run's, all other open ones are void."""
        still_open = batches.c.state == OPEN
        mine = still_open & (batches.c.kind == Kind.CALLS)
        connection.execute(update(batches).where(mine).values(run_id=run.id))
        void = {"state": DONE, "epoch": batches.c.epoch + 1, "closed_at": self._now(), "answer": '{"void": true}'}
        connection.execute(update(batches).where(still_open, batches.c.kind != Kind.CALLS).values(void))

    def open_of(self, run: Run) -> list[Batch]:
        """The batches of a run that are not done, oldest first."""
        query = select(batches.c.id, batches.c.kind).where(batches.c.run_id == run.id, batches.c.state == OPEN)
        with self._engine.connect() as connection:
            return [Batch(row.id, Kind(row.kind), run.id) for row in connection.execute(query.order_by(batches.c.id))]

    def closed_of(self, run: Run, after: int = 0) -> list[Closed]:
        """The batches of a run that are done, as far as their ids are greater than `after`."""
        query = select(batches.c.id, batches.c.kind, batches.c.answer)
        query = query.where(batches.c.run_id == run.id, batches.c.state == DONE, batches.c.id > after)
        with self._engine.connect() as connection:
            found = connection.execute(query.order_by(batches.c.id))
            return [Closed(row.id, Kind(row.kind), json.loads(row.answer or "{}")) for row in found]

    def answer_of(self, batch: int) -> Mapping[str, Any] | None:
        """What a batch came to; None while it is open."""
        query = select(batches.c.answer).where(batches.c.id == batch, batches.c.state == DONE)
        with self._engine.connect() as connection:
            found = connection.scalar(query)
        return None if found is None else dict(json.loads(found or "{}"))

    def drop_untaken(self, run: Run, because: str) -> int:
        """Close the batches of calls that nobody has: their entries stay ready. Returns how many that were."""
        with self._writing() as connection:
            untaken = (batches.c.run_id == run.id) & (batches.c.state == OPEN) & (batches.c.owner == "")
            untaken &= batches.c.kind == Kind.CALLS
            closed = connection.scalars(select(batches.c.id).where(untaken)).all()
            for start in range(0, len(closed), _AT_ONCE):
                _close(connection, closed[start : start + _AT_ONCE], {"dropped": because}, self._now())
            return len(closed)

    # who works

    def take(self, batch: int, owner: str) -> Taken | None:
        """Take a batch, from whoever had it; None if it is done. What was being sent of it is `unknown`."""
        with self._writing() as connection:
            taking = update(batches).where(batches.c.id == batch, batches.c.state == OPEN)
            before = connection.scalar(select(batches.c.owner).where(batches.c.id == batch))
            taking = taking.values(epoch=batches.c.epoch + 1, owner=owner, taken_at=self._now())
            if not connection.execute(taking).rowcount:
                return None
            row = connection.execute(_TAKEN, {"batch": batch}).one()
            run = Run(row.run_id, row.name, row.started_at)
            sending = (entries.c.batch_id == batch) & (entries.c.state == State.SENDING)
            left = connection.scalars(select(entries.c.id).where(sending)).all()
            change(connection, run, [_taken_over(entry) for entry in left], self._now())
            return Taken(batch, Kind(row.kind), run, json.loads(row.given), row.epoch, before or "", len(left))

    def put_back(self, taken: Taken) -> None:
        """Let somebody else go on with a batch of which nothing is under way: that is no takeover."""
        with self._writing() as connection:
            connection.execute(update(batches).where(batches.c.id == taken.id).values(owner=""))

    def close(self, taken: Taken, answer: Mapping[str, Any], *, go_on: bool = False) -> None:
        """Record what a batch came to; its entries that are still ready are in none any more, and, if calls are to `go_on`, whatever may
        leave now goes into new ones. Its fence is checked like that of any change.
        """
        with self._writing() as connection:
            _close(connection, [taken.id], answer, self._now())
            if go_on:
                self.batch_up_within(connection, taken.run)

    def _tell(self, connection: Connection, made: Sequence[Batch]) -> None:
        if made and self._sharing is not None:
            self._sharing.announce(connection, made)


def _make(connection: Connection, run: Run, kind: Kind, given: Mapping[str, Any], now: str) -> Batch:
    row = {"run_id": run.id, "kind": kind.value, "given": codec.encode(given), "state": OPEN, "opened_at": now}
    key = connection.execute(insert(batches).values(row)).inserted_primary_key
    return Batch(int(key[0]) if key else 0, kind, run.id)


def _close(connection: Connection, closed: Sequence[int], answer: Mapping[str, Any], now: str) -> None:
    values = {"state": DONE, "answer": codec.encode(answer), "closed_at": now}
    connection.execute(update(batches).where(batches.c.id.in_(closed), batches.c.state == OPEN).values(values))
    left = entries.c.batch_id.in_(closed) & (entries.c.state == State.READY)
    connection.execute(update(entries).where(left).values(batch_id=None))


def _groups(connection: Connection, run: Run, sharing: Sharing, most: int | None) -> list[list[int]]:
    """The ready entries that may leave and are in no batch, oldest first, in groups; of what is on trial as many as may be tried. What comes
    after another one on its lane goes with it, or later: in a batch of its own it could not leave.
    """
    size, first = sharing.entries, sharing.canary
    places = {part: first - tried(connection, part, run) for part in untried(connection)} if first else {}
    groups: list[list[int]] = []
    left = sys.maxsize if most is None else most
    lanes: set[str] = set()  # of the last group
    for identity, drop, operation, lane, follows in streamed_within(connection, _FREE):
        if left <= 0:
            break
        full = not groups or len(groups[-1]) >= size
        if follows and (full or lane not in lanes):
            continue
        if (part := (drop, operation)) in places:
            if places[part] <= 0:
                continue
            places[part] -= 1
        if full:
            groups.append([])
            lanes.clear()
        groups[-1].append(identity)
        lanes.add(lane)
        left -= 1
    return groups


def _taken_over(entry: int) -> Settlement:
    problems = (Problem("X702", values={"text": TAKEN_OVER}),)
    return Settlement(entry, State.UNKNOWN, TAKEN_OVER, problems=problems, outcome="unknown")


_AT_ONCE = 500
_open = select(batches.c.id).where(batches.c.state == OPEN)
_blocked = or_(busy_on_lane, before_on_lane & others.c.batch_id.in_(_open))
_FREE = (
    select(
        *(entries.c[name] for name in ("id", "drop_id", "operation", "lane")),
        select(1).select_from(others).where(before_on_lane).exists(),
    )
    .where(
        entries.c.state == State.READY,
        entries.c.waits == Waits.DECISION,
        or_(entries.c.batch_id.is_(None), entries.c.batch_id.not_in(_open)),
        ~select(1).select_from(others).where(_blocked).exists(),
    )
    .order_by(entries.c.id)
)
_TAKEN = (
    select(*(batches.c[name] for name in ("kind", "run_id", "given", "epoch")), runs.c.name, runs.c.started_at)
    .join(runs, runs.c.id == batches.c.run_id)
    .where(batches.c.id == bindparam("batch"))
)
