"""What the ledger knows of runs and of what they read: drops, files, tables, mappings. Reads only.

Owns: the queries that are about no entry in particular; those are in `queries`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, and_, case, desc, func, or_, select

from loadsheet import exit_codes
from loadsheet.ledger import between_runs, codec, file_queries
from loadsheet.ledger.run_slices import Slice
from loadsheet.ledger.schema import (
    attempts,
    drops,
    entries,
    events,
    exceptions,
    files,
    findings,
    ignored,
    looks,
    mappings,
    runs,
    tables,
)
from loadsheet.ledger.statements import at_one_moment, streamed
from loadsheet.ledger.states import Drop, IgnoredRow, Origin, Run, SourceFile, State


class LedgerFigures(NamedTuple):
    """How things stand: when the last run that did its work ended (ISO 8601 UTC; empty: none did), how many exceptions were opened at each
    of the asked moments or before, how many are open in all, when the oldest entry that is ready or being sent was planned (empty: there
    is none), and how many entries are unknown.
    """

    last_success: str
    opened_by: tuple[int, ...]
    open: int
    oldest_unsent: str
    unknown: int


class CallTimes(NamedTuple):
    """The calls of one operation in a run: how many had an answer or failed, their seconds in all, and how many took no longer than
    each of the asked limits.
    """

    operation: str
    made: int
    seconds: float
    within: tuple[int, ...]


class RunQueries:
    """The reading side of the ledger, as far as it is about runs and what they read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = at_one_moment(engine)

    def runs(self, limit: int = 20) -> list[Run]:
        """The latest runs, newest first."""
        query = select(runs).order_by(desc(runs.c.id)).limit(limit)
        with self._engine.connect() as connection:
            return [_run(row) for row in connection.execute(query)]

    def runs_with_reports_missing(self, before: Run | None = None, limit: int = 10) -> list[Run]:
        """The latest runs, before this one if one is given, that ended without some of their reports, oldest first."""
        query = select(runs).where(runs.c.finished_at != "", runs.c.summary.contains('"missing"', autoescape=True))
        query = query if before is None else query.where(runs.c.id < before.id)
        with self._engine.connect() as connection:
            found = connection.execute(query.order_by(desc(runs.c.id)).limit(limit))
            return [_run(row) for row in found][::-1]

    def runs_named(self, name: str) -> list[Run]:
        """The run of this name, or all runs of this day (`2026-03-04`), oldest first; none if there is none."""
        matching = or_(runs.c.name == name, runs.c.name.startswith(f"{name}-", autoescape=True))
        with self._engine.connect() as connection:
            return [_run(row) for row in connection.execute(select(runs).where(matching).order_by(runs.c.id))]

    def runs_by_id(self, wanted: Sequence[int]) -> list[Run]:
        """These runs, oldest first."""
        with self._engine.connect() as connection:
            return [
                _run(row) for row in connection.execute(select(runs).where(runs.c.id.in_(wanted)).order_by(runs.c.id))
            ]

    def arrivals(self, since: str, *, counted: bool = True) -> list[file_queries.Arrival]:
        """The files that runs took which began at `since` (ISO 8601 UTC) or later, in the order in which they came; with their numbers
        of records, if they are to be `counted`.
        """
        with self._engine.connect() as connection:
            return file_queries.arrivals(connection, since, counted=counted)

    def looks(self) -> tuple[str, str]:
        """When the first and the last of the runs that were finished began (ISO 8601 UTC); both empty if there was none."""
        with self._engine.connect() as connection:
            return file_queries.looks(connection)

    def begun_before(self, when: str) -> str:
        """When the last run before this moment began (ISO 8601 UTC both); empty if there was none."""
        with self._engine.connect() as connection:
            return file_queries.begun_before(connection, when)

    def listing_snapshot(self, run: Run) -> bytes:
        """What the look of a run at the exchange showed, as it was given to `Ledger.end_run`; empty if there was none."""
        with self._engine.connect() as connection:
            return connection.scalar(select(looks.c.shown).where(looks.c.run_id == run.id)) or b""

    def figures(self, moments: Sequence[str]) -> LedgerFigures:
        """How things stand in figures; of the open exceptions, how many were opened at each of these moments or before (ISO 8601 UTC)."""
        with self._engine.connect() as connection:
            return ledger_figures(connection, moments)

    def calls_in(self, run: str, limits_s: Sequence[float]) -> tuple[dict[tuple[str, str], int], list[CallTimes]]:
        """The calls of the run of this name: by operation and outcome, and how long they took, against these limits in seconds."""
        with self._engine.connect() as connection:
            return calls_by_outcome(connection, run), call_times(connection, run, limits_s)

    @contextmanager
    def at_one_moment(self) -> Iterator[Connection]:
        """A connection that sees everything as it is now, while the `with` block lasts."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def slice_of(self, run: Run) -> Iterator[Slice]:
        """The rows of a run and of all that it was judged by, as the ledger keeps them at one moment, while the `with` block lasts."""
        with self._engine.connect() as connection, connection.begin():
            yield Slice(connection, run)

    def drop(self, identity: int) -> Drop:
        """One drop with its files and tables."""
        with self._engine.connect() as connection:
            return self._drop(connection, identity)

    def drop_of_run(self, run: str, identity: int) -> Drop | None:
        """The drop with this number if the run of this name planned it; None if this ledger knows no such drop."""
        query = select(drops.c.id).join(runs, runs.c.id == drops.c.run_id)
        query = query.where(drops.c.id == identity, runs.c.name == run, drops.c.mapping_hash.is_not(None))
        with self._engine.connect() as connection:
            return self._drop(connection, identity) if connection.scalar(query) is not None else None

    def drop_of_entry(self, entry: int) -> Drop | None:
        """The drop that an entry is from; None if there is no such entry."""
        with self._engine.connect() as connection:
            found = connection.scalar(select(entries.c.drop_id).where(entries.c.id == entry))
            return self._drop(connection, found) if found is not None else None

    def drops_of(self, *of: Run) -> list[Drop]:
        """The drops that these runs touched, oldest first: those they planned, and earlier ones with an entry that they changed or
        looked for; and the drops of runs that did not end, of which these tell (see `Ledger.adopt_unfinished_runs`).
        """
        with self._engine.connect() as connection:
            wanted = between_runs.with_adopted_runs(connection, of)
            touched = [
                select(entries.c.drop_id).join(told, told.c.entry_id == entries.c.id).where(told.c.run_id.in_(wanted))
                for told in (events, findings)
            ]
            mine = or_(drops.c.run_id.in_(wanted), *(drops.c.id.in_(some) for some in touched))
            query = select(drops.c.id).where(mine).order_by(drops.c.id)
            return [self._drop(connection, identity) for identity in connection.scalars(query).all()]

    def missing_records(self, read: Sequence[Drop]) -> dict[int, file_queries.MissingRecords]:
        """By drop, the records of the last version of its file that are missing from it; these drops are of one run."""
        with self._engine.connect() as connection:
            return file_queries.missing_records(connection, read)

    def runs_changing(self, drop: int) -> list[str]:
        """The names of the runs that planned a drop or changed one of its entries, oldest first; in the place of one that did not end, that
        of the run that tells of it.
        """
        changing = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        planned = select(drops.c.run_id).where(drops.c.id == drop)
        mine = or_(runs.c.id.in_(planned), runs.c.id.in_(changing.where(entries.c.drop_id == drop)))
        with self._engine.connect() as connection:
            return between_runs.reporting_runs(connection, connection.scalars(select(runs.c.name).where(mine)).all())

    def first_with(self, sha256: str, before: int) -> Drop | None:
        """The first drop before this one that holds a file of these bytes, if there is one."""
        query = select(func.min(files.c.drop_id)).where(files.c.sha256 == sha256, files.c.drop_id < before)
        with self._engine.connect() as connection:
            first = connection.scalar(query)
            return None if first is None else self._drop(connection, first)

    def drops_named(self, name: str) -> list[int]:
        """The drops that hold a file of this name, with or without its folders, oldest first."""
        named = or_(files.c.name == name, files.c.name.endswith(f"/{name}", autoescape=True))
        with self._engine.connect() as connection:
            return list(connection.scalars(select(files.c.drop_id).where(named).distinct().order_by(files.c.drop_id)))

    def unfiled(self, work: str) -> list[Drop]:
        """The drops with a file that still lies in this folder, the work area of killed runs, as far as the ledger knows."""
        query = select(files.c.drop_id).where(files.c.kept_as.startswith(f"{work}/", autoescape=True)).distinct()
        with self._engine.connect() as connection:
            return [self._drop(connection, identity) for identity in connection.scalars(query).all()]

    def ignored_of(self, drop: int) -> Iterator[IgnoredRow]:
        """The rows of a drop that rules left out, in the order in which they were met."""
        query = select(ignored).where(ignored.c.drop_id == drop).order_by(ignored.c.id)
        for row in streamed(self._engine, query):
            yield IgnoredRow(row.table_name, row.number, codec.decode_cells(row.cells), row.rule)

    def origin(self, drop: int) -> Origin:
        """The tables of a drop and the lineage of its mapping."""
        query = (
            select(mappings.c.lineage).join(drops, drops.c.mapping_hash == mappings.c.hash).where(drops.c.id == drop)
        )
        with self._engine.connect() as connection:
            lineage = codec.decode_lineage(connection.scalar(query) or "{}")
            return Origin({table.name: table for table in self._drop(connection, drop).tables}, lineage)

    def mapping_source(self, digest: str) -> dict[str, str]:
        """The files of a mapping as they were when it had this hash (or a hash that begins so), by their paths from its folder, the
        mapping first; empty if it was never used or its files were not kept then.
        """
        query = select(mappings.c.source).where(mappings.c.hash.startswith(digest, autoescape=True))
        with self._engine.connect() as connection:
            return codec.decode_texts_by_name(connection.scalar(query) or codec.NOTHING)

    def schedules_done(self) -> dict[str, str]:
        """Up to when (ISO 8601 UTC) all of each schedule is done, by its name, as `Ledger.keep_schedules_done` was told."""
        with self._engine.connect() as connection:
            return between_runs.schedules_done(connection)

    def _drop(self, connection: Connection, identity: int) -> Drop:
        query = (
            select(runs.c.name.label("run"), mappings, drops.c.fixes)
            .select_from(drops)
            .join(runs, runs.c.id == drops.c.run_id)
            .outerjoin(mappings, mappings.c.hash == drops.c.mapping_hash)
            .where(drops.c.id == identity)
        )
        row = connection.execute(query).one()
        file_rows = connection.execute(select(files).where(files.c.drop_id == identity).order_by(files.c.id))
        table_rows = connection.execute(select(tables).where(tables.c.drop_id == identity).order_by(tables.c.id))
        return Drop(
            id=identity,
            run=row.run,
            files=tuple(_file(file) for file in file_rows),
            tables=tuple(codec.table(table) for table in table_rows),
            mapping=row.name or "",
            mapping_version=row.version or "",
            mapping_hash=row.hash or "",
            operation=row.operation or "",
            batch_size=row.batch_size,
            language=row.language or "",
            guide=codec.decode_guide(row.guide or codec.NOTHING),
            fixes=row.fixes,
        )


def _run(row: Any) -> Run:
    return Run(row.id, row.name, row.started_at, row.finished_at, row.exit_code, row.summary)


def _file(row: Any) -> SourceFile:
    problems = codec.decode_problems(row.problems)
    return SourceFile(row.role, row.name, row.sha256, row.size, row.arrived, row.kept_as, problems)


def ledger_figures(connection: Connection, moments: Sequence[str]) -> LedgerFigures:
    """How things stand; `moments` are ISO 8601 UTC."""
    success = select(func.max(runs.c.finished_at)).where(
        runs.c.exit_code.in_((exit_codes.DONE, exit_codes.NEEDS_SOMEONE))
    )
    opened = [func.sum(case((exceptions.c.opened_at <= moment, 1), else_=0)) for moment in moments]
    counted = connection.execute(select(func.count(), *opened).where(exceptions.c.closed_at == "")).one()
    unsent = select(func.min(entries.c.created_at)).where(entries.c.state.in_((State.READY, State.SENDING)))
    unknown = select(func.count()).select_from(entries).where(entries.c.state == State.UNKNOWN)
    return LedgerFigures(
        last_success=connection.scalar(success) or "",
        opened_by=tuple(count or 0 for count in counted[1:]),
        open=counted[0],
        oldest_unsent=connection.scalar(unsent) or "",
        unknown=connection.scalar(unknown) or 0,
    )


def calls_by_outcome(connection: Connection, run: str) -> dict[tuple[str, str], int]:
    """The calls of the run of this name by operation and by what became of them (empty: nobody knows). A call whose records fared
    differently counts once for each outcome.
    """
    calls = _calls(run, attempts.c.outcome).subquery()
    query = select(calls.c.operation, calls.c.outcome, func.count()).group_by(calls.c.operation, calls.c.outcome)
    return {(operation, outcome): count for operation, outcome, count in connection.execute(query)}


def call_times(connection: Connection, run: str, limits_s: Sequence[float]) -> list[CallTimes]:
    """How long the calls of the run of this name took, by operation."""
    calls = _calls(run).subquery()
    took = calls.c.duration_ms
    within = [func.sum(case((took <= round(limit * 1000), 1), else_=0)) for limit in limits_s]
    query = select(calls.c.operation, func.count(), func.sum(took), *within).where(took.is_not(None))
    rows = connection.execute(query.group_by(calls.c.operation).order_by(calls.c.operation))
    return [CallTimes(row[0], row[1], float(row[2]) / 1000, tuple(row[3:])) for row in rows]


def _calls(run: str, *more: Any) -> Select[Any]:
    """The calls of a run, each once however many records it carried: they share their body and the moment of their intent."""
    sent = and_(events.c.run_id == runs.c.id, events.c.after == State.SENDING)
    query = (
        select(entries.c.operation, attempts.c.request_hash, attempts.c.started_at, attempts.c.duration_ms, *more)
        .select_from(runs)
        .join(events, sent)
        .join(entries, entries.c.id == events.c.entry_id)
        .join(attempts, and_(attempts.c.entry_id == events.c.entry_id, attempts.c.run_id == runs.c.id))
    )
    return query.where(runs.c.name == run).distinct()
