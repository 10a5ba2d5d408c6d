"""What one run leaves for the next: named values, the progress of schedules, and the work of runs that ended without their reports.

Owns: that a stored name never collides with the ledger's own names in the table `meta` (the reader of a value checks it and works without it);
and how a later run reports the work of a run that was killed or ran out of disk space. An unfinished run never gets an end; its summary
names the run that reports it. Opens no transaction for that: the verbs of `Ledger` do.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import msgspec
from sqlalchemy import Connection, Engine, func, insert, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import meta, runs
from loadsheet.ledger.states import Run

_SCHEDULES = "schedules"


class StoredValues:
    """The named values. Made by `Ledger`; `keep` needs its lock."""

    def __init__(self, engine: Engine, writing: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._engine, self._writing = engine, writing

    def value(self, name: str) -> str:
        """The last value stored under this name; empty if there is none."""
        with self._engine.connect() as connection:
            return connection.scalar(select(meta.c.value).where(meta.c.name == _stored(name))) or ""

    def keep(self, name: str, value: str) -> None:
        """Store a value under this name, replacing the previous one."""
        with self._writing() as connection:
            if not connection.execute(update(meta).where(meta.c.name == _stored(name)).values(value=value)).rowcount:
                connection.execute(insert(meta).values(name=_stored(name), value=value))


def schedules_done(connection: Connection) -> dict[str, str]:
    """The time (ISO 8601 UTC) up to which each schedule is done, by its name."""
    return codec.decode_texts_by_name(
        connection.scalar(select(meta.c.value).where(meta.c.name == _SCHEDULES)) or codec.NOTHING
    )


def keep_schedules_done(connection: Connection, done: Mapping[str, str]) -> None:
    """Store what `schedules_done` returns."""
    value = msgspec.json.encode(dict(sorted(done.items()))).decode()
    if not connection.execute(update(meta).where(meta.c.name == _SCHEDULES).values(value=value)).rowcount:
        connection.execute(insert(meta).values(name=_SCHEDULES, value=value))


def _stored(name: str) -> str:
    return f"remembered: {name}"


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
