"""Runs that died or failed before they had told of anything, and the later runs whose reports tell of them.

Owns: how that is recorded: such a run never gets an end, and its summary names its teller. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, func, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import runs
from loadsheet.ledger.states import Run


class _Kept(msgspec.Struct):
    told_by: str = ""


_read = msgspec.json.Decoder(_Kept).decode


def teller_of(run: Run) -> str:
    """The name of the later run whose reports tell of this one, which did not get to its own; empty if there is none."""
    return _teller(run.summary) if not run.finished_at else ""


def untold_before(connection: Connection, run: Run) -> list[int]:
    """The runs before this one, oldest first, that did not end and of which no other run that ended has told. Who asks holds the ledger, so
    none of them is under way any more. What died before a run that wrote reports was told by that, or by nobody ever: versions of
    loadsheet before 0.5.0 told of nothing, and old nights are no news.
    """
    reported = runs.c.summary.contains('"verdicts"', autoescape=True)
    last = select(func.coalesce(func.max(runs.c.id), 0)).where(runs.c.id < run.id, runs.c.finished_at != "", reported)
    query = select(runs.c.id, runs.c.name, runs.c.summary).where(
        runs.c.id < run.id, runs.c.id > last.scalar_subquery(), runs.c.finished_at == ""
    )
    before = connection.execute(query.order_by(runs.c.id)).all()
    not_told = {"", run.name, *(row.name for row in before)}
    return [row.id for row in before if _teller(row.summary) in not_told]


def tell_of(connection: Connection, run: Run, untold: Sequence[int]) -> None:
    """From now on this run tells of these; if it does not end either, they are untold again."""
    connection.execute(update(runs).where(runs.c.id.in_(untold)).values(summary=_told_by(run.name)))


def told_with(connection: Connection, told: Sequence[Run]) -> list[int]:
    """These runs, and those of which they tell."""
    with_them = select(runs.c.id).where(
        runs.c.finished_at == "", runs.c.summary.in_([_told_by(run.name) for run in told])
    )
    return [*(run.id for run in told), *connection.scalars(with_them)]


def tellers(connection: Connection, names: Sequence[str]) -> list[str]:
    """The runs that tell of what the runs of these names did, oldest first: themselves, or their tellers."""
    query = select(runs.c.name, runs.c.finished_at, runs.c.summary).where(runs.c.name.in_(names))
    found = connection.execute(query)
    telling = {row.name if row.finished_at else _teller(row.summary) or row.name for row in found}
    return list(connection.scalars(select(runs.c.name).where(runs.c.name.in_(telling)).order_by(runs.c.id)))


def _teller(summary: str) -> str:
    return _read(summary).told_by if summary else ""


def _told_by(name: str) -> str:
    return codec.encode({"told_by": name})
