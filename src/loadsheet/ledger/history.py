"""What the ledger knows, for dispatch, reconciliation, reports and the command line. Reads only.

Owns: every query that is not part of a change. Streams entries, so memory does not grow with their number.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Select, bindparam, desc, func, or_, select

from loadsheet.ledger import arrived, codec, exceptions, measures
from loadsheet.ledger.planning import ALREADY
from loadsheet.ledger.schema import (
    attempts,
    decisions,
    drops,
    entries,
    events,
    files,
    findings,
    ignored,
    looks,
    mappings,
    runs,
    tables,
)
from loadsheet.ledger.slices import Slice
from loadsheet.ledger.statements import Chosen
from loadsheet.ledger.states import (
    Attempt,
    Decision,
    Drop,
    Entry,
    Event,
    Finding,
    IgnoredRow,
    Origin,
    Run,
    SourceFile,
    State,
    Trace,
    Waits,
)
from loadsheet.mapping.documents import FIX_OF

_FETCH = 500
INTERRUPTED = "the process ended while this was being sent"
_STATES = {state.value: state for state in State}
_TRACE = [entries.c[name] for name in Trace._fields]


class History:
    """The reading side of the ledger."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def runs(self, limit: int = 20) -> list[Run]:
        """The latest runs, newest first."""
        query = select(runs).order_by(desc(runs.c.id)).limit(limit)
        with self._engine.connect() as connection:
            return [_run(row) for row in connection.execute(query)]

    def runs_named(self, name: str) -> list[Run]:
        """The run of this name, or all runs of this day (`2026-03-04`), oldest first; none if there is none."""
        matching = or_(runs.c.name == name, runs.c.name.startswith(f"{name}-", autoescape=True))
        with self._engine.connect() as connection:
            return [_run(row) for row in connection.execute(select(runs).where(matching).order_by(runs.c.id))]

    def arrivals(self, since: str, *, counted: bool = True) -> list[arrived.Arrival]:
        """The files that runs took which began at `since` (ISO 8601 UTC) or later, in the order in which they came; with their numbers
        of records, if they are to be `counted`.
        """
        with self._engine.connect() as connection:
            return arrived.arrivals(connection, since, counted=counted)

    def looks(self) -> tuple[str, str]:
        """When the first and the last of the runs that were finished began (ISO 8601 UTC); both empty if there was none."""
        with self._engine.connect() as connection:
            return arrived.looks(connection)

    def begun_before(self, when: str) -> str:
        """When the last run before this moment began (ISO 8601 UTC both); empty if there was none."""
        with self._engine.connect() as connection:
            return arrived.begun_before(connection, when)

    def shown_in(self, run: Run) -> bytes:
        """What the look of a run at the exchange showed, as it was given to `Ledger.end_run`; empty if there was none."""
        with self._engine.connect() as connection:
            return connection.scalar(select(looks.c.shown).where(looks.c.run_id == run.id)) or b""

    def standings(self, moments: Sequence[str]) -> measures.Standings:
        """How things stand in figures; of the open exceptions, how many were opened at each of these moments or before (ISO 8601 UTC)."""
        with self._engine.connect() as connection:
            return measures.standings(connection, moments)

    def calls_in(self, run: str, limits_s: Sequence[float]) -> tuple[dict[tuple[str, str], int], list[measures.Calls]]:
        """The calls of the run of this name: by operation and outcome, and how long they took, against these limits in seconds."""
        with self._engine.connect() as connection:
            return measures.calls_by_outcome(connection, run), measures.call_times(connection, run, limits_s)

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

    def mended(self, wanted: Sequence[int], known: dict[int, frozenset[int]] | None = None) -> set[int]:
        """Those of these entries whose rows came back in a fix file of their drop as a document that was accepted, or that the exchange
        had already: also where it bears another key, as the key itself was wrong. Who asks often passes `known`, to be filled.
        """
        known = {} if known is None else known
        with self._engine.connect() as connection:
            drop_of = {row.id: row.drop_id for row in _DROPS.rows(connection, wanted)}
        for drop in sorted({*drop_of.values()} - known.keys()):
            self._note_mended(drop, known)
        return {entry for entry, drop in drop_of.items() if entry in known[drop]}

    def _note_mended(self, drop: int, known: dict[int, frozenset[int]]) -> None:
        """Put into `known` the entries of a drop that are mended, and those of its fixes and of their fixes."""
        found: set[int] = set()
        unfinished: dict[int, dict[int, tuple[int, ...]]] = {}
        for row in self._stream(_FIXING.where(drops.c.fixes == drop)):
            mends = codec.decode_items(row.items).get(FIX_OF, ())
            if row.state == State.ACCEPTED or (row.state == State.UNCHANGED and row.reason.startswith(ALREADY)):
                found.update(mends)
            elif mends:
                unfinished.setdefault(row.drop_id, {})[row.id] = mends
        for fix, entries_of in unfinished.items():
            self._note_mended(fix, known)
            found.update(*(entries_of[entry] for entry in known[fix] & entries_of.keys()))
        known[drop] = frozenset(found)

    def keys_of(self, wanted: Sequence[int]) -> dict[int, str]:
        """The keys of these entries, as far as there are any."""
        with self._engine.connect() as connection:
            return {row.id: row.key for row in _KEYS.rows(connection, wanted) if row.key}

    def drops_of(self, *of: Run) -> list[Drop]:
        """The drops that these runs touched, oldest first: those they planned, and earlier ones with an entry that they changed or
        looked for.
        """
        wanted = [run.id for run in of]
        touched = [
            select(entries.c.drop_id).join(told, told.c.entry_id == entries.c.id).where(told.c.run_id.in_(wanted))
            for told in (events, findings)
        ]
        mine = or_(drops.c.run_id.in_(wanted), *(drops.c.id.in_(some) for some in touched))
        query = select(drops.c.id).where(mine).order_by(drops.c.id)
        with self._engine.connect() as connection:
            return [self._drop(connection, identity) for identity in connection.scalars(query).all()]

    def runs_changing(self, drop: int) -> list[str]:
        """The names of the runs that planned a drop or changed one of its entries, oldest first."""
        changing = select(events.c.run_id).join(entries, entries.c.id == events.c.entry_id)
        planned = select(drops.c.run_id).where(drops.c.id == drop)
        mine = or_(runs.c.id.in_(planned), runs.c.id.in_(changing.where(entries.c.drop_id == drop)))
        with self._engine.connect() as connection:
            return list(connection.scalars(select(runs.c.name).where(mine).order_by(runs.c.id)))

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

    def entries_of(self, drop: int, *states: State) -> Iterator[Entry]:
        """All entries of a drop, or those in these states, in the order in which they were planned."""
        query = select(entries).where(entries.c.drop_id == drop).order_by(entries.c.id)
        yield from self._entries(query.where(entries.c.state.in_(states)) if states else query)

    def entries_in(self, *states: State) -> Iterator[Entry]:
        """All entries in these states, oldest first."""
        yield from self._entries(select(entries).where(entries.c.state.in_(states)).order_by(entries.c.id))

    def count_in(self, *states: State) -> int:
        """How many entries are in these states."""
        query = select(func.count()).select_from(entries).where(entries.c.state.in_(states))
        with self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def count_unanswered(self) -> int:
        """How many entries are unknown because a call of theirs had no clear answer, and not because our own process ended."""
        unanswered = (entries.c.state == State.UNKNOWN) & (entries.c.reason != INTERRUPTED)
        with self._engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(entries).where(unanswered)) or 0

    def untried(self, held_reason: str) -> list[tuple[int, str]]:
        """The drops with ready entries, each with an operation of theirs, of whose mapping no entry of that operation was ever
        accepted, or none at all of the folder of the inbox that they came from: a shipper may have one. Not those of which entries
        were once held for this reason: then somebody has let them go since.
        """
        waiting = select(entries.c.drop_id, entries.c.operation).where(entries.c.state == State.READY).distinct()
        known: dict[str, bool] = {}
        with self._engine.connect() as connection:
            return [
                (drop, operation)
                for drop, operation in connection.execute(waiting).all()
                if connection.execute(_LET_GO, {"drop": drop, "reason": held_reason}).first() is None
                if connection.execute(_ACCEPTED, {"drop": drop, "operation": operation}).first() is None
                or not _is_from_known(connection, drop, known)
            ]

    def traces_of(self, drop: int) -> Iterator[Trace]:
        """The traces of all entries of a drop, in the order in which they were planned."""
        yield from self._traces(select(*_TRACE).where(entries.c.drop_id == drop).order_by(entries.c.id))

    def traces_on(self, lanes: Sequence[str], *states: State) -> Iterator[Trace]:
        """The traces of all entries on these lanes in these states; on each lane in the order in which they got there."""
        for start in range(0, len(lanes), _FETCH):
            chosen = entries.c.lane.in_(lanes[start : start + _FETCH]) & entries.c.state.in_(states)
            order = (entries.c.lane, entries.c.changed_at, entries.c.id)
            yield from self._traces(select(*_TRACE).where(chosen).order_by(*order))

    def traces_by_id(self, wanted: Sequence[int]) -> Iterator[Trace]:
        """The traces of these entries, in no order."""
        for some in exceptions.chunks(wanted):
            yield from self._traces(select(*_TRACE).where(entries.c.id.in_(some)))

    def entry(self, identity: int) -> Entry:
        """One entry."""
        (found,) = self._entries(select(entries).where(entries.c.id == identity))
        return found

    def entries_by_id(self, wanted: Sequence[int]) -> Iterator[Entry]:
        """These entries, in this order."""
        for some in exceptions.chunks(wanted):
            found = {entry.id: entry for entry in self._entries(select(entries).where(entries.c.id.in_(some)))}
            yield from (found[identity] for identity in some)

    def entries_by_key(self, key: str) -> list[Entry]:
        """All entries of a business key, or of all keys that begin with it and a slash, oldest first."""
        matching = or_(entries.c.key == key, entries.c.key.startswith(f"{key}/", autoescape=True))
        return list(self._entries(select(entries).where(matching).order_by(entries.c.id)))

    def waiting_lanes(self) -> list[str]:
        """The lanes of everything that waits for its order or tender."""
        waits = (entries.c.waits == Waits.PARENT) & entries.c.state.in_((State.READY, State.HELD))
        with self._engine.connect() as connection:
            return list(connection.scalars(select(entries.c.lane).where(waits).distinct()))

    def still_waiting(self, run: Run) -> tuple[int, str, str]:
        """How many entries of earlier runs are held for their order or tender, and the key and the time of the oldest."""
        chosen = (entries.c.waits == Waits.PARENT) & (entries.c.state == State.HELD) & (drops.c.run_id < run.id)
        query = select(entries.c.key, entries.c.created_at).join(drops, drops.c.id == entries.c.drop_id).where(chosen)
        with self._engine.connect() as connection:
            oldest = connection.execute(query.order_by(entries.c.id).limit(1)).first()
            if oldest is None:
                return 0, "", ""
            return connection.scalar(select(func.count()).select_from(query.subquery())) or 0, *oldest

    def findings_of(self, entry: int) -> list[Finding]:
        """What looks at listings showed of an entry, oldest first."""
        columns = [findings.c[name] for name in ("at", "shown", "counts", "text")]
        query = select(runs.c.name, *columns).join(runs, runs.c.id == findings.c.run_id)
        query = query.where(findings.c.entry_id == entry).order_by(findings.c.id)
        with self._engine.connect() as connection:
            return [
                Finding(entry, run, at, shown, bool(counts), text)
                for run, at, shown, counts, text in connection.execute(query)
            ]

    def decisions(self) -> Iterator[Decision]:
        """Everything that people decided, oldest first."""
        columns = [decisions.c[name] for name in ("entry_id", "at", "who", "choice", "comment", "evidence", "hash")]
        for row in self._stream(select(*columns).order_by(decisions.c.id)):
            yield Decision(*row)

    def witnesses(self, makes: Sequence[str], ends: Sequence[str], limit: int) -> list[tuple[str, str]]:
        """The latest entries that an answer of the exchange accepted, newest first, of operations that make or change a record
        and with none of those after them that end it: key, and accepted since when (ISO 8601 UTC).
        """
        later = entries.alias()
        answered = select(1).where(attempts.c.entry_id == entries.c.id, attempts.c.outcome == "accepted")
        ended = select(1).where(
            later.c.lane == entries.c.lane,
            later.c.state.in_((State.ACCEPTED, State.UNKNOWN, State.SENDING)),
            later.c.operation.in_(ends),
            later.c.id > entries.c.id,
        )
        query = select(entries.c.key, entries.c.changed_at).where(
            entries.c.state == State.ACCEPTED,
            entries.c.waits == Waits.DECISION,
            entries.c.operation.in_(makes),
            answered.exists(),
            ~ended.exists(),
        )
        with self._engine.connect() as connection:
            found = connection.execute(query.order_by(desc(entries.c.id)).limit(limit))
            return [(row.key, row.changed_at) for row in found]

    def entries_on(self, lane: str, *states: State) -> list[Entry]:
        """The entries of a lane in these states, in the order in which they got there."""
        chosen = (entries.c.lane == lane) & entries.c.state.in_(states)
        return list(self._entries(select(entries).where(chosen).order_by(entries.c.changed_at, entries.c.id)))

    def exceptions_at(self, run: Run) -> list[exceptions.Standing]:
        """The exceptions that were open when a run began, or opened by it, oldest first; those that it closed are told as closed."""
        with self._engine.connect() as connection:
            return exceptions.standing_at(connection, run)

    def exceptions_of(self, wanted: Sequence[int]) -> dict[int, exceptions.Standing]:
        """How the exceptions of these entries stand, as far as they ever were one."""
        with self._engine.connect() as connection:
            return exceptions.standings_of(connection, wanted)

    def remarks_on(self, wanted: Sequence[int]) -> dict[int, dict[str, exceptions.Remark]]:
        """What the analyst said last of these entries, by entry and by what it is (owner, reason, comment, status)."""
        with self._engine.connect() as connection:
            return exceptions.latest_remarks(connection, wanted)

    def origins_of(self, wanted: Sequence[int]) -> dict[int, tuple[int, int]]:
        """For each of these entries its drop, and the first one that this is a fix of, or a fix of a fix of (itself, if it is none)."""
        with self._engine.connect() as connection:
            return exceptions.origins_of(connection, wanted)

    def owners(self) -> list[str]:
        """Everybody whom the analyst ever named as the owner of an exception, the latest first."""
        with self._engine.connect() as connection:
            return exceptions.owners(connection)

    def workbooks_read(self) -> dict[str, exceptions.WorkbookRead]:
        """The workbooks that remarks were read from, by name, as they were then."""
        with self._engine.connect() as connection:
            return exceptions.workbooks_read(connection)

    def ignored_of(self, drop: int) -> Iterator[IgnoredRow]:
        """The rows of a drop that rules left out, in the order in which they were met."""
        query = select(ignored).where(ignored.c.drop_id == drop).order_by(ignored.c.id)
        for row in self._stream(query):
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

    def events_of(self, entry: int) -> list[Event]:
        """Every change of an entry's state, oldest first."""
        columns = (events.c.at, runs.c.name, events.c.before, events.c.after, events.c.reason)
        query = (
            select(*columns)
            .join(runs, runs.c.id == events.c.run_id)
            .where(events.c.entry_id == entry)
            .order_by(events.c.id)
        )
        with self._engine.connect() as connection:
            return [Event(*row) for row in connection.execute(query)]

    def attempts_of(self, entry: int) -> list[Attempt]:
        """Every attempt to send an entry, oldest first."""
        names = ("number", "started_at", "request_hash", "outcome", "status", "detail", "duration_ms")
        columns = [attempts.c[name] for name in names]
        query = select(runs.c.name.label("run"), *columns).join(runs, runs.c.id == attempts.c.run_id)
        query = query.where(attempts.c.entry_id == entry).order_by(attempts.c.number)
        with self._engine.connect() as connection:
            return [Attempt(**row._mapping) for row in connection.execute(query)]  # noqa: SLF001 (public name in SQLAlchemy)

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

    def _entries(self, query: Select[Any]) -> Iterator[Entry]:
        return map(codec.entry, self._stream(query))

    def _traces(self, query: Select[Any]) -> Iterator[Trace]:
        for row in self._stream(query):
            identity, operation, key, lane, state, content_hash = row
            yield Trace(identity, operation, key, lane, _STATES[state], content_hash)

    def _stream(self, query: Select[Any]) -> Iterator[Any]:
        with self._engine.connect().execution_options(yield_per=_FETCH) as connection:
            for partition in connection.execute(query).partitions():
                yield from partition


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


def _run(row: Any) -> Run:
    return Run(row.id, row.name, row.started_at, row.finished_at, row.exit_code, row.summary)


def _file(row: Any) -> SourceFile:
    problems = codec.decode_problems(row.problems)
    return SourceFile(row.role, row.name, row.sha256, row.size, row.arrived, row.kept_as, problems)


_DROPS = Chosen(select(entries.c.id, entries.c.drop_id), entries.c.id)
_FIXING = select(
    *(entries.c[name] for name in ("id", "drop_id", "state", "reason", "items")),
).join(drops, drops.c.id == entries.c.drop_id)
_KEYS = Chosen(select(entries.c.id, entries.c.key), entries.c.id)
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
