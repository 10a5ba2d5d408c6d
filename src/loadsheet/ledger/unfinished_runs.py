"""Runs that ended without their reports: killed, or out of disk space. A later run reports their work as its own.

Owns: how that is recorded: an unfinished run never gets an end, and its summary names the run that reports its work. Opens no transaction:
the methods of `Ledger` do.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, func, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import runs
from loadsheet.ledger.states import Run


class _Summary(msgspec.Struct):
    told_by: str = ""


_read_summary = msgspec.json.Decoder(_Summary).decode


def reported_by(run: Run) -> str:
    """The name of the later run that reports the work of this unfinished run; empty if there is none."""
    return _reporter(run.summary) if not run.finished_at else ""


def unreported_before(connection: Connection, run: Run) -> list[int]:
    """The unfinished runs before this one that no finished run has reported, oldest first.

    The caller holds the ledger, so none of them is still active. A run that died before the last run with verdicts is left out: that
    run reported it, or nothing ever did, because versions before 0.5.0 reported no unfinished runs.
    """
    has_verdicts = runs.c.summary.contains('"verdicts"', autoescape=True)
    last = select(func.coalesce(func.max(runs.c.id), 0)).where(
        runs.c.id < run.id, runs.c.finished_at != "", has_verdicts
    )
    query = select(runs.c.id, runs.c.name, runs.c.summary).where(
        runs.c.id < run.id, runs.c.id > last.scalar_subquery(), runs.c.finished_at == ""
    )
    before = connection.execute(query.order_by(runs.c.id)).all()
    not_reported = {"", run.name, *(row.name for row in before)}
    return [row.id for row in before if _reporter(row.summary) in not_reported]


def mark_reported_by(connection: Connection, run: Run, unreported: Sequence[int]) -> None:
    """Record that this run reports these unfinished runs. If it does not finish either, they are unreported again."""
    connection.execute(update(runs).where(runs.c.id.in_(unreported)).values(summary=_reported_by(run.name)))


def with_adopted_runs(connection: Connection, reporting: Sequence[Run]) -> list[int]:
    """The ids of these runs and of the unfinished runs that they report."""
    adopted = select(runs.c.id).where(
        runs.c.finished_at == "", runs.c.summary.in_([_reported_by(run.name) for run in reporting])
    )
    return [*(run.id for run in reporting), *connection.scalars(adopted)]


def reporting_runs(connection: Connection, names: Sequence[str]) -> list[str]:
    """The names of the runs that report the work of these runs, oldest first: the runs themselves, or those that adopted them."""
    query = select(runs.c.name, runs.c.finished_at, runs.c.summary).where(runs.c.name.in_(names))
    rows = connection.execute(query)
    reporting = {row.name if row.finished_at else _reporter(row.summary) or row.name for row in rows}
    return list(connection.scalars(select(runs.c.name).where(runs.c.name.in_(reporting)).order_by(runs.c.id)))


def _reporter(summary: str) -> str:
    return _read_summary(summary).told_by if summary else ""


def _reported_by(name: str) -> str:
    return codec.encode({"told_by": name})
