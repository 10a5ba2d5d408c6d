"""Queries about runs and what they read: drops, files, tables, mappings, and which run reports whose work. Read-only except for
`mark_reported_by`.

A file's arrival is its last change. If that is before the previous run, which did not find it, its arrival is when it was found,
because some programs keep an older time. Fix files are not arrivals. The last version of a file is the latest earlier drop with the
same mapping and file names. A drop that shares less than half of its keys counts as another file. An unfinished run (killed, or out
of disk space) never gets an end; its summary names the later run that reports its work.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Engine, Select, desc, func, or_, select, true, update

from loadsheet import exit_codes
from loadsheet.ledger import codec
from loadsheet.ledger.ledger_tables import (
    Statement,
    at_one_moment,
    chunks,
    drops,
    entries,
    events,
    files,
    findings,
    ignored,
    looks,
    mappings,
    runs,
    stored_value,
    streamed,
)
from loadsheet.ledger.models import Drop, IgnoredRow, Origin, Run, SourceFile, SourceTable

SCHEDULES, MAPPINGS_FOLDER = "schedules", "mappings_folder"
"""The names of the stored values of `RunQueries.schedules_done` and `RunQueries.mappings_folder`."""

STORED_PREFIX = "remembered: "
"""The beginning of the names of the values of `RunQueries.stored_value`: they never collide with the ledger's own."""

ALLOWANCE = timedelta(minutes=15)
"""A file up to this much older than the run that did not find it keeps its own time: it may have been too young or open."""


class Arrival(NamedTuple):
    """An arrived file. `name` is its name in the inbox, `came` its arrival (aware, UTC), `run` the run that took it. `mapping` and
    `role` are empty if it was set aside. `records` counts the records of its drop; `number` is that of the drop.
    """

    name: str
    came: datetime
    run: str
    mapping: str
    role: str
    records: int
    number: int

    @property
    def set_aside(self) -> bool:
        """Whether it arrived but could not be used."""
        return not self.mapping


KEYS_MAX = 1_000
"""The number of keys of missing records listed per file. Further ones are only counted."""


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """The records of a file's last version, read by the run named `run`, that the new version lacks: their number and first keys."""

    run: str
    count: int
    keys: tuple[str, ...]


class RunQueries:
    """The reading side of the ledger for runs and what they read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = at_one_moment(engine)

    def _all(self, query: Select[Any]) -> Sequence[Any]:
        """All rows of a query with few rows."""
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    def _value(self, query: Select[Any]) -> Any:
        """The first value of the first row of a query. None if it has no rows."""
        with self._engine.connect() as connection:
            return connection.scalar(query)

    def _rows_of(self, statement: Statement, wanted: Sequence[Any]) -> list[Any]:
        """The rows of a statement for the list `wanted`."""
        with self._engine.connect() as connection:
            return statement.rows_of(connection, wanted)

    def runs(self, limit: int = 20) -> list[Run]:
        """The latest runs, newest first."""
        return [_run(row) for row in self._all(select(runs).order_by(desc(runs.c.id)).limit(limit))]

    def runs_with_reports_missing(self, before: Run | None = None) -> list[Run]:
        """The latest ten runs (earlier than `before`, if given) that ended without some of their reports, oldest first."""
        query = select(runs).where(runs.c.finished_at != "", runs.c.summary.contains('"missing"', autoescape=True))
        query = query if before is None else query.where(runs.c.id < before.id)
        return [_run(row) for row in self._all(query.order_by(desc(runs.c.id)).limit(10))][::-1]

    def runs_named(self, name: str) -> list[Run]:
        """The run of this name, or all runs of this day (`2026-03-04`), oldest first. Empty if there are none."""
        matching = or_(runs.c.name == name, runs.c.name.startswith(f"{name}-", autoescape=True))
        return [_run(row) for row in self._all(select(runs).where(matching).order_by(runs.c.id))]

    def runs_of_day(self, day: str) -> list[Run]:
        """The runs that began on this day (`2026-03-04`) on the clock of this machine, oldest first."""
        begin = datetime.fromisoformat(day)
        first, last = (codec.stamp(when.astimezone()) for when in (begin, begin + timedelta(days=1)))
        mine = (runs.c.started_at >= first) & (runs.c.started_at < last)
        return [_run(row) for row in self._all(select(runs).where(mine).order_by(runs.c.id))]

    def runs_by_id(self, wanted: Sequence[int]) -> list[Run]:
        """These runs, oldest first."""
        return [_run(row) for row in self._all(select(runs).where(runs.c.id.in_(wanted)).order_by(runs.c.id))]

    def arrivals(self, since: str, *, counted: bool = True) -> list[Arrival]:
        """The files taken by runs that began at `since` (ISO 8601 UTC) or later, in the order of arrival. Without `counted` the
        numbers of records are 0, which saves a slow query.
        """
        recent = runs.c.started_at >= since
        with self._engine.connect() as connection:
            times = list(connection.scalars(_LOOKS.where(recent)))
            counts = {row.drop_id: row.records for row in connection.execute(_COUNTS.where(recent))} if counted else {}
            arrivals = [
                Arrival(
                    row.name,
                    _came(row.arrived, row.started_at, times),
                    row.run,
                    row.mapping or "",
                    row.role if row.mapping else "",
                    counts.get(row.drop_id, 0),
                    row.drop_id,
                )
                for row in connection.execute(_ARRIVALS.where(recent))
            ]
        return sorted(arrivals, key=lambda arrival: (arrival.came, arrival.name))

    def first_and_last_start(self) -> tuple[str, str]:
        """The starts of the first and last finished runs (ISO 8601 UTC). Both empty if there was none."""
        query = select(func.min(runs.c.started_at), func.max(runs.c.started_at)).where(runs.c.finished_at != "")
        ((first, last),) = self._all(query)
        return first or "", last or ""

    def begun_before(self, when: str) -> str:
        """The start of the last run before `when` (both ISO 8601 UTC). Empty if there was none."""
        return self._value(select(func.max(runs.c.started_at)).where(runs.c.started_at < when)) or ""

    def listing_snapshot(self, run: Run) -> bytes:
        """A run's snapshot of the listings, as passed to `Ledger.end_run`. Empty if there is none."""
        return self._value(select(looks.c.shown).where(looks.c.run_id == run.id)) or b""

    @contextmanager
    def at_one_moment(self) -> Iterator[Connection]:
        """A connection with a snapshot of the current data, for the `with` block."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def drop(self, identity: int) -> Drop:
        """One drop with its files and tables."""
        return self.drops_by_id([identity])[0]

    def drops_by_id(self, wanted: Iterable[int]) -> list[Drop]:
        """These drops with their files and tables, in this order."""
        with self._engine.connect() as connection:
            return _drops(connection, list(wanted))

    def original(self, drop: Drop) -> Drop:
        """The drop that a chain of fix files began with: the drop itself if it is no fix."""
        while drop.fixes is not None:
            drop = self.drop(drop.fixes)
        return drop

    def roots(self) -> dict[int, int]:
        """The original drop of each drop of a fix file, also where that fixes another fix file."""
        found: dict[int, int] = {}
        for row in self._all(FIXES.order_by(drops.c.id)):
            found[row.id] = found.get(row.fixes, row.fixes)
        return found

    def drop_of_run(self, run: str, identity: int) -> Drop | None:
        """The drop with this number if the run of this name planned it. None if this ledger has no such drop."""
        query = select(drops.c.id).join(runs, runs.c.id == drops.c.run_id)
        query = query.where(drops.c.id == identity, runs.c.name == run, drops.c.mapping_hash.is_not(None))
        return next(iter(self._drops(query)), None)

    def drop_of_entry(self, entry: int) -> Drop | None:
        """The drop of an entry. None if there is no such entry."""
        return next(iter(self._drops(select(entries.c.drop_id).where(entries.c.id == entry))), None)

    def drops_of(self, *of: Run) -> list[Drop]:
        """The drops of these runs, oldest first: those they planned, earlier ones with an entry that they changed or looked up, and
        the drops of unfinished runs that they report (see `Ledger.adopt_unfinished_runs`).
        """
        with self._engine.connect() as connection:
            wanted = with_adopted_runs(connection, of)
        mine = or_(drops.c.run_id.in_(wanted), *(drops.c.id.in_(some) for some in touched_by(wanted)))
        return self._drops(select(drops.c.id).where(mine).order_by(drops.c.id))

    def missing_records(self, read: Sequence[Drop]) -> dict[int, MissingRecords]:
        """By drop, the records of its file's last version that it lacks. All drops must be of one run."""
        usable = [drop for drop in read if _names(drop) and drop.fixes is None and not drop.set_aside]
        by_drop = {}
        with self._engine.connect() as connection:
            last = _latest(connection, usable) if usable else {}
            for drop in usable:
                identity = last.get((drop.mapping, drop.files[0].name))
                if identity is not None and _is_other_version(connection, identity, drop):
                    by_drop[drop.id] = _missing(connection, identity, drop.id)
        return {drop: missing for drop, missing in by_drop.items() if missing is not None}

    def runs_changing(self, drop: int) -> list[str]:
        """The names of the runs that planned a drop or changed one of its entries, oldest first. An unfinished run is replaced by
        the run that reports it.
        """
        changing = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        planned = select(drops.c.run_id).where(drops.c.id == drop)
        mine = or_(runs.c.id.in_(planned), runs.c.id.in_(changing.where(entries.c.drop_id == drop)))
        planning = self._all(select(runs.c.name, runs.c.finished_at, runs.c.summary).where(mine))
        reporting = {row.name if row.finished_at else _reporter(row.summary) or row.name for row in planning}
        ordered = self._all(select(runs.c.name).where(runs.c.name.in_(reporting)).order_by(runs.c.id))
        return [row.name for row in ordered]

    def first_with(self, sha256: str, before: int | None = None) -> Drop | None:
        """The first drop, or the first before this one, that has a file with these bytes, if any."""
        earlier = files.c.drop_id < before if before is not None else true()
        query = select(files.c.drop_id).where(files.c.sha256 == sha256, earlier)
        return next(iter(self._drops(query.order_by(files.c.drop_id).limit(1))), None)

    def drops_named(self, name: str) -> list[int]:
        """The drops that have a file of this name, with or without folders, oldest first."""
        named = or_(files.c.name == name, files.c.name.endswith(f"/{name}", autoescape=True))
        query = select(files.c.drop_id).where(named).distinct().order_by(files.c.drop_id)
        return [row.drop_id for row in self._all(query)]

    def drops_read_by(self, mapping: str, limit: int) -> list[Drop]:
        """The latest drops that this mapping read, newest first, at most `limit`. Excludes fix files, and drops of which a file is not kept."""
        gone = select(files.c.drop_id).where(files.c.kept_as == "")
        query = select(drops.c.id).join(mappings, mappings.c.hash == drops.c.mapping_hash)
        query = query.where(mappings.c.name == mapping, drops.c.fixes.is_(None), drops.c.id.not_in(gone))
        return self._drops(query.order_by(drops.c.id.desc()).limit(limit))

    def unfiled(self, work: str) -> list[Drop]:
        """The drops with a file whose stored place is still in this folder: the work area of killed runs, or the inbox in a store."""
        return self._drops(
            select(files.c.drop_id).where(files.c.kept_as.startswith(f"{work}/", autoescape=True)).distinct()
        )

    def ignored_of(self, drop: int) -> Iterator[IgnoredRow]:
        """The rows of a drop that rules excluded, in reading order."""
        query = select(ignored).where(ignored.c.drop_id == drop).order_by(ignored.c.id)
        for row in streamed(self._engine, query):
            yield IgnoredRow(row.table_name, row.number, codec.decode_cells(row.cells), row.rule)

    def origin(self, drop: int) -> Origin:
        """The tables of a drop and the lineage of its mapping."""
        query = (
            select(mappings.c.lineage).join(drops, drops.c.mapping_hash == mappings.c.hash).where(drops.c.id == drop)
        )
        lineage = codec.decode_lineage(self._value(query) or codec.NOTHING)
        return Origin({table.name: table for table in self.drop(drop).tables}, lineage)

    def mapping_source(self, digest: str) -> dict[str, str]:
        """The files of the mapping version with this hash (or prefix of a hash), by path relative to its folder, the mapping first.
        Empty if it was never used or its files were not kept.
        """
        query = select(mappings.c.source).where(mappings.c.hash.startswith(digest, autoescape=True))
        return codec.decode_texts_by_name(self._value(query) or codec.NOTHING)

    def stored_value(self, name: str) -> str:
        """The last value stored under this name. Empty if there is none. Callers must check it and work without it."""
        with self._engine.connect() as connection:
            return stored_value(connection, f"{STORED_PREFIX}{name}")

    def mappings_folder(self) -> str:
        """The absolute path of the folder whose mappings the latest run used. Empty before the first run."""
        with self._engine.connect() as connection:
            return stored_value(connection, MAPPINGS_FOLDER)

    def schedules_done(self) -> dict[str, str]:
        """The time (ISO 8601 UTC) up to which each schedule is done, by name, as `Ledger.store_schedules_done` stored it."""
        with self._engine.connect() as connection:
            return codec.decode_texts_by_name(stored_value(connection, SCHEDULES) or codec.NOTHING)

    def _drops(self, wanted: Select[Any]) -> list[Drop]:
        """The drops whose ids this query selects, in its order."""
        with self._engine.connect() as connection:
            return _drops(connection, connection.scalars(wanted).all())


def _drops(connection: Connection, identities: Sequence[int]) -> list[Drop]:
    drop_files: dict[int, list[SourceFile]] = defaultdict(list)
    drop_tables: dict[int, list[SourceTable]] = defaultdict(list)
    for row in _FILES.rows_of(connection, identities):
        drop_files[row.drop_id].append(codec.file(row))
    for row in _TABLES.rows_of(connection, identities):
        drop_tables[row.drop_id].append(codec.table(row))
    found = {
        row.id: Drop(
            id=row.id,
            run=row.run,
            files=tuple(drop_files[row.id]),
            tables=tuple(drop_tables[row.id]),
            mapping=row.name or "",
            mapping_version=row.version or "",
            mapping_hash=row.hash or "",
            operation=row.operation or "",
            batch_size=row.batch_size,
            language=row.language or "",
            guide=codec.decode_guide(row.guide or codec.NOTHING),
            fixes=row.fixes,
        )
        for row in _DROPS.rows_of(connection, identities)
    }
    return [found[identity] for identity in identities]


def _run(row: Any) -> Run:
    return Run(row.id, row.name, row.started_at, row.finished_at, row.exit_code, row.summary)


class _Summary(msgspec.Struct):
    reported_by: str = msgspec.field(name="told_by", default="")
    reported_at: str = ""


_read_summary = msgspec.json.Decoder(_Summary).decode


def reported_by(run: Run) -> str:
    """The name of the later run that reports this unfinished run's work. Empty if there is none."""
    return _reporter(run.summary) if not run.finished_at else ""


def reported_at(run: Run) -> str:
    """When the reports of a run were complete (ISO 8601 UTC). Empty if that is not known."""
    return _read_summary(run.summary).reported_at if run.summary else ""


def unreported_before(connection: Connection, run: Run) -> list[int]:
    """The unfinished runs before this one that no finished run has reported, oldest first.

    The caller holds the ledger, so none of them is still active. A run that died before the last run with verdicts is excluded: that
    run reported it, or none did, because versions before 0.5.0 did not report unfinished runs.
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


def touched_by(wanted: Sequence[int]) -> list[Select[tuple[int]]]:
    """Selects the drops with an entry that these runs changed or looked up."""
    return [
        select(entries.c.drop_id).join(table, table.c.entry_id == entries.c.id).where(table.c.run_id.in_(wanted))
        for table in (events, findings)
    ]


def _reporter(summary: str) -> str:
    return _read_summary(summary).reported_by if summary else ""


def _reported_by(name: str) -> str:
    return codec.encode({"told_by": name})


def _came(arrived: str, taken: str, looked: list[str]) -> datetime:
    changed_at, taken_at = _moment(arrived), _moment(taken)
    before = bisect_left(looked, taken)
    if before and changed_at < _moment(looked[before - 1]) - ALLOWANCE:
        return taken_at
    return min(changed_at, taken_at)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


FIXES = select(drops.c.id, drops.c.fixes).where(drops.c.fixes < drops.c.id)
"""The query for the fix workbooks: each drop with the earlier drop that it corrects."""

_DROPS = Statement(
    "select drops.id, runs.name as run, mappings.hash, mappings.name, mappings.version, mappings.operation, mappings.batch_size,"
    " mappings.language, mappings.guide, drops.fixes from drops join runs on runs.id = drops.run_id"
    " left join mappings on mappings.hash = drops.mapping_hash where drops.id in (:wanted)"
)
_FILES = Statement("select * from files where drop_id in (:wanted) order by id")
_TABLES = Statement("select * from tables where drop_id in (:wanted) order by id")
_LOOKS = select(runs.c.started_at).where(runs.c.exit_code.in_(exit_codes.WORK_DONE)).order_by(runs.c.id)
_ARRIVALS = (
    select(
        files.c.name,
        files.c.arrived,
        files.c.role,
        files.c.drop_id,
        runs.c.started_at,
        runs.c.name.label("run"),
        mappings.c.name.label("mapping"),
    )
    .join(drops, drops.c.id == files.c.drop_id)
    .join(runs, runs.c.id == drops.c.run_id)
    .outerjoin(mappings, mappings.c.hash == drops.c.mapping_hash)
    .where(drops.c.fixes.is_(None))
)
_COUNTS = (
    select(entries.c.drop_id, func.count().label("records"))
    .join(drops, drops.c.id == entries.c.drop_id)
    .join(runs, runs.c.id == drops.c.run_id)
    .group_by(entries.c.drop_id)
)


def _names(drop: Drop) -> list[tuple[str, str]]:
    return sorted((file.name, file.sha256) for file in drop.files) if drop.mapping else []


def _latest(connection: Connection, read: Sequence[Drop]) -> dict[tuple[str, str], int]:
    """The latest earlier drop that has the first file of each of these, by mapping and name."""
    first = min(drop.id for drop in read)
    latest: dict[tuple[str, str], int] = {}
    query = (
        select(mappings.c.name.label("mapping"), files.c.name, func.max(drops.c.id).label("drop"))
        .select_from(files)
        .join(drops, drops.c.id == files.c.drop_id)
        .join(mappings, mappings.c.hash == drops.c.mapping_hash)
        .where(drops.c.id < first, drops.c.fixes.is_(None), files.c.problems == "[]")
        .group_by(mappings.c.name, files.c.name)
    )
    for some in chunks(sorted({drop.files[0].name for drop in read})):
        rows = connection.execute(query.where(files.c.name.in_(some)))
        latest |= {(row.mapping, row.name): row.drop for row in rows}
    return latest


def _is_other_version(connection: Connection, last: int, new: Drop) -> bool:
    """Whether two drops have files of the same names but not the same bytes."""
    rows = connection.execute(select(files.c.name, files.c.sha256).where(files.c.drop_id == last))
    before, now = sorted((row.name, row.sha256) for row in rows), _names(new)
    return before != now and [name for name, _ in before] == [name for name, _ in now]


def _missing(connection: Connection, last: int, new: int) -> MissingRecords | None:
    """The keys of the last version that the new one lacks. None if there are none, or if less than half of its keys are shared."""
    before, now = (select(entries.c.key).where(entries.c.drop_id == drop, entries.c.key != "") for drop in (last, new))
    missing = before.except_(now).subquery()
    first = select(missing.c.key, func.count().over()).order_by(missing.c.key).limit(KEYS_MAX)
    rows = connection.execute(first).all()
    if not rows:
        return None
    if not shares_keys(connection, last, new):
        return None
    run = select(runs.c.name).join(drops, drops.c.run_id == runs.c.id).where(drops.c.id == last)
    return MissingRecords(connection.scalar(run) or "", rows[0][1], tuple(key for key, _ in rows))


def shares_keys(connection: Connection, last: int, new: int) -> bool:
    """Whether a later drop shares keys with an earlier one, at least half of its own: both are versions of one file."""
    before, now = (
        select(entries.c.key).where(entries.c.drop_id == drop, entries.c.key != "").distinct() for drop in (last, new)
    )
    shared, own = (
        connection.scalar(select(func.count()).select_from(some.subquery())) or 0
        for some in (before.intersect(now), now)
    )
    return shared > 0 and own <= 2 * shared
