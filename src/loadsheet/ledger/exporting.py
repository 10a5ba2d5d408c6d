"""Exports from the ledger: plain tables for other programs, and the slice of one run for its archive. Streams rows, changes nothing.

Owns: the names and contents of exported columns. People and programs outside rely on them: columns may be added, never changed. Also
owns which rows determine a run's decisions and reports: its drops with their entries, and the entries on the same lanes. Exceptions
of that time, fixes, earlier drops of the same bytes and earlier runs belong to them too. `insert_rows` inserts a slice into an empty ledger.
And which earlier rows decide on the documents of a check: `EarlierRows` copies them into the ledger of the check.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from sqlalchemy import CompoundSelect, Connection, Select, Table, and_, func, insert, or_, select, union

from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import Content, with_contents
from loadsheet.ledger.ledger_tables import (
    attempts,
    chunks,
    decisions,
    drops,
    entries,
    events,
    exceptions,
    files,
    findings,
    ignored,
    looks,
    mappings,
    remarks,
    runs,
    seen,
    streamed_within,
    tables,
)
from loadsheet.ledger.models import Run, State
from loadsheet.ledger.run_queries import FIXES, RunQueries, touched_by, with_adopted_runs

Kind = Literal["text", "whole", "moment"]


_NOT_EXPORTED = ("id", "rows")  # needed to read a payload
_WHOLE = frozenset({"entry", "drop", "attempts", "exit_code", "number", "status", "duration_ms"})


class Column(NamedTuple):
    """A column: its name, and whether it contains texts, integers or times (ISO 8601 UTC texts)."""

    name: str
    kind: Kind


class Export(NamedTuple):
    """A table: its name, and the query for its rows. None represents an empty value."""

    name: str
    query: Select[Any]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of the query."""
        return tuple(
            Column(name, "moment" if name.endswith("_at") else "whole" if name in _WHOLE else "text")
            for name in self.query.selected_columns.keys()  # noqa: SIM118 (not a dict)
            if name not in _NOT_EXPORTED
        )

    def rows(self, connection: Connection) -> Iterator[tuple[Any, ...]]:
        """The rows, with their values in the order of the columns."""
        columns, rows = self.columns, streamed_within(connection, self.query)
        payloads = "payload" in self.query.selected_columns
        for row, content in with_contents(connection, rows) if payloads else ((row, Content(b"", b"")) for row in rows):
            values: list[Any] = []
            for column, value in zip(columns, row, strict=False):
                if column.name == "problems":
                    values.append(_codes(value))
                elif column.kind == "moment":
                    values.append(value or None)
                else:
                    values.append(content.payload.decode() if column.name == "payload" else value)
            yield tuple(values)


def exports(*, since: str = "", payloads: bool = False) -> tuple[Export, ...]:
    """All tables, for runs that began at `since` or later (ISO 8601 UTC; empty: all) and their entries. `payloads` adds payloads."""
    run, closed_run = runs.c.name.label("run"), runs.alias()
    recent = runs.c.started_at >= since
    every_run = select(run, *(runs.c[name] for name in ("started_at", "finished_at", "exit_code", "summary")))
    return (
        Export("runs", every_run.where(recent).order_by(runs.c.id)),
        Export("entries", _entries(payloads=payloads).where(recent)),
        Export(
            "attempts",
            select(attempts.c.entry_id.label("entry"), attempts.c.number, run, *_columns(attempts, _ATTEMPT))
            .join(runs, runs.c.id == attempts.c.run_id)
            .where(recent)
            .order_by(attempts.c.entry_id, attempts.c.number),
        ),
        Export(
            "exceptions",
            select(exceptions.c.entry_id.label("entry"), entries.c.key, run, exceptions.c.opened_at)
            .add_columns(exceptions.c.verdict, closed_run.c.name.label("closed_run"))
            .add_columns(exceptions.c.closed_at, exceptions.c.closed_because)
            .join(entries, entries.c.id == exceptions.c.entry_id)
            .join(runs, runs.c.id == exceptions.c.run_id)
            .outerjoin(closed_run, closed_run.c.id == exceptions.c.closed_run_id)
            .where(recent)
            .order_by(exceptions.c.entry_id),
        ),
    )


_ATTEMPT = ("started_at", "request_hash", "outcome", "status", "detail", "duration_ms")


def _columns(table: Table, names: Sequence[str]) -> list[Any]:
    return [table.c[name] for name in names]


def _entries(*, payloads: bool) -> Select[Any]:
    first = select(func.min(files.c.name)).where(files.c.drop_id == entries.c.drop_id).scalar_subquery()
    query = select(
        entries.c.id.label("entry"),
        runs.c.name.label("run"),
        entries.c.drop_id.label("drop"),
        first.label("file"),
        mappings.c.name.label("mapping"),
        *_columns(entries, ("operation", "key", "lane", "state", "reason", "waits", "problems")),
        exceptions.c.verdict.label("exception"),
        entries.c.receipt.label("service_order"),
        *_columns(entries, ("attempts", "content_hash", "created_at", "changed_at")),
        entries.c.removed.label("removed_at"),
        *_columns(entries, ("payload", *_NOT_EXPORTED) if payloads else ()),
    )
    return (
        query.join(drops, drops.c.id == entries.c.drop_id)
        .join(runs, runs.c.id == drops.c.run_id)
        .join(mappings, mappings.c.hash == drops.c.mapping_hash)
        .outerjoin(exceptions, exceptions.c.entry_id == entries.c.id)
        .order_by(entries.c.id)
    )


def _codes(stored: str) -> str:
    """The codes of stored problems, each once. Values of cells do not belong in an export."""
    return " ".join(dict.fromkeys(problem.code for problem in codec.decode_problems(stored)))


Row = dict[str, Any]
"""A row as a mapping from column names to the ledger's values."""

RUNS_BEFORE = 120
"""The number of earlier runs in a slice, which reports look back at."""

_TABLES = {
    table.name: table
    for table in (
        *(runs, mappings, drops, files, tables, entries, ignored, attempts, events),
        *(findings, decisions, seen, exceptions, looks, remarks),
    )
}
TABLES = tuple(_TABLES)
"""The tables of a slice, in insertion order."""


class RowColumn(NamedTuple):
    """A column of a table of a slice: its name, the type of its values (int, str or bytes; None too if `is_nullable`), and whether rows of
    older ledgers may lack it: its value is `default` then.
    """

    name: str
    kind: type
    is_nullable: bool
    may_be_missing: bool
    default: Any


def row_columns(table: str) -> Iterator[RowColumn]:
    """The columns of one of `TABLES`, in their order."""
    for column in _TABLES[table].columns:
        default = getattr(column.server_default, "arg", None)
        missing = default is not None or bool(column.nullable)
        yield RowColumn(str(column.name), column.type.python_type, bool(column.nullable), missing, default)


_HISTORY = tuple(name for name, table in _TABLES.items() if "entry_id" in table.c)

_PUT_AT_ONCE = 500


class Slice:
    """The rows of one run, read in one transaction, so that they are consistent while another run is active. Entries planned after
    the run are included only if they are on the same lanes. `own` are the drops that the run planned; `touched` those that it reports,
    oldest first: those that it, or an unfinished run that it reports, planned or changed.
    """

    def __init__(self, connection: Connection, run: Run) -> None:
        self._connection, self._run = connection, run
        planned = select(drops.c.id).where(drops.c.run_id == run.id).order_by(drops.c.id)
        self.own = list(connection.scalars(planned))
        self.touched = sorted(_drops_of(connection, with_adopted_runs(connection, [run])))
        self._drops, whole, fixed = _drops_for(connection, run, self.touched)
        self._entries = _entries_for(run, self.touched, whole, fixed, _entry_before(connection, self.own))

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of one of `TABLES`: events and attempts ordered by entry, all others in recording order."""
        return _as_records(self._connection, table, streamed_within(self._connection, self._query(table)))

    def _query(self, table: str) -> Select[Any]:
        rows, mine = _TABLES[table], drops.c.id.in_(self._drop_ids())
        conditions: dict[str, Any] = {
            "runs": runs.c.id.in_(self._run_ids()),
            "mappings": _used_by(mine),
            "drops": mine,
            "files": files.c.drop_id.in_(self._drop_ids()),
            "tables": tables.c.drop_id.in_(self._drop_ids()),
            "entries": entries.c.id.in_(self._entries),
            "ignored": ignored.c.drop_id.in_(self.touched),
            "looks": looks.c.run_id == self._run.id,
            "seen": seen.c.lane.in_(self._lanes()),
        }
        if table in conditions:
            return select(rows).where(conditions[table]).order_by(*rows.primary_key.columns)
        return _of_entries(rows, rows.c.entry_id.in_(self._entries))

    def _drop_ids(self) -> CompoundSelect[Any]:
        of_entries = select(entries.c.drop_id).where(entries.c.id.in_(self._entries))
        return union(of_entries, select(drops.c.id).where(drops.c.id.in_(self._drops)))

    def _lanes(self) -> Select[Any]:
        return select(entries.c.lane).where(entries.c.id.in_(self._entries))

    def _run_ids(self) -> CompoundSelect[Any]:
        before = select(runs.c.id).where(runs.c.id <= self._run.id, runs.c.id > self._run.id - RUNS_BEFORE)
        of_drops = select(drops.c.run_id).where(drops.c.id.in_(self._drop_ids()))
        of_lanes = select(seen.c.run_id).where(seen.c.lane.in_(self._lanes()))
        return union(before, of_drops, of_lanes, *_runs_of_entries(self._entries))


class EarlierRows:
    """The rows of a ledger, read at one moment, that decide on the documents of a check. They are copied into the ledger of the check,
    in a file, when their lanes come up: the cost grows with the documents and what was corrected around them, not with the ledger. Ids
    stay, and new ones continue after the last of the source.
    """

    def __init__(self, source: Connection) -> None:
        self._source = source
        self._lanes: set[str] = set()  # copied ones
        self._entries: set[int] = set()
        self._drops: set[int] = set()
        self._fixed: set[int] = set()  # drops whose fix files were copied

    def begin(self, target: Connection) -> None:
        """Copy the last run, drop and entry, after which new ids continue."""
        last_run = self._source.scalar(select(func.max(runs.c.id)))
        last_drop, last_entry = (self._source.scalar(select(func.max(rows.c.id))) for rows in (drops, entries))
        self._copy(target, "runs", runs.c.id == last_run)
        self._copy_drops(target, {last_drop} if last_drop else set())
        self._copy_lanes_of(target, entries.c.id == last_entry)

    def copy_open(self, target: Connection) -> None:
        """Copy the entries on the lanes of those that the next run sends, and of those that wait and that it judges again."""
        waits = (entries.c.state == State.HELD.value) & (entries.c.waits != "")
        self._copy_lanes_of(target, (entries.c.state == State.READY.value) | waits)

    def copy_whole(self, target: Connection, wanted: Collection[int]) -> None:
        """Copy all entries and ignored rows of drops of which only some were copied."""
        for some in chunks(sorted(wanted)):
            self._copy_lanes_of(target, entries.c.drop_id.in_(some))
            self._copy(target, "ignored", ignored.c.drop_id.in_(some))

    def copy(self, target: Connection, lanes: Collection[str], fixes: int | None) -> None:
        """Copy the entries on these lanes with their histories and drops, those of the fix files of these drops, and the drops that a fix
        file corrects: `fixes`, the drop that that one fixes, and so on.
        """
        chain: set[int] = set()
        while fixes is not None:
            chain.add(fixes)
            fixes = self._source.scalar(select(drops.c.fixes).where(drops.c.id == fixes))
        self._copy_drops(target, chain)
        self._copy_lanes(target, lanes)

    def _copy_lanes_of(self, target: Connection, which: Any) -> None:
        self._copy_lanes(target, set(self._source.scalars(select(entries.c.lane).where(which))))

    def _copy_lanes(self, target: Connection, lanes: Collection[str]) -> None:
        """Copy the entries on these lanes, and on those of the fix files of their drops."""
        while new := {*lanes} - self._lanes:
            self._lanes |= new
            for some in chunks(sorted(new)):
                self._copy(target, "runs", runs.c.id.in_(select(seen.c.run_id).where(seen.c.lane.in_(some))))
                self._copy(target, "seen", seen.c.lane.in_(some))
                self._copy_entries(target, entries.c.lane.in_(some))
            lanes = self._lanes_of_fix_files()

    def _lanes_of_fix_files(self) -> set[str]:
        """The lanes of the fix files of the drops that were copied since the last time."""
        lanes = set[str]()
        new, self._fixed = sorted(self._drops - self._fixed), {*self._drops}
        for some in chunks(new):
            of_fix = select(entries.c.lane).join(drops, drops.c.id == entries.c.drop_id).where(drops.c.fixes.in_(some))
            lanes.update(self._source.scalars(of_fix))
        return lanes

    def _copy_entries(self, target: Connection, which: Any) -> None:
        of_drop = {
            row.id: row.drop_id for row in self._source.execute(select(entries.c.id, entries.c.drop_id).where(which))
        }
        new = sorted(of_drop.keys() - self._entries)
        self._entries.update(new)
        self._copy_drops(target, {of_drop[entry] for entry in new})
        for some in chunks(new):
            self._copy(target, "runs", runs.c.id.in_(union(*_runs_of_entries(some))))
            self._copy(target, "entries", entries.c.id.in_(some))
            for table in _HISTORY:
                self._copy(target, table, _TABLES[table].c.entry_id.in_(some))

    def _copy_drops(self, target: Connection, wanted: set[int]) -> None:
        new = sorted(wanted - self._drops)
        self._drops.update(new)
        for some in chunks(new):
            mine = drops.c.id.in_(some)
            self._copy(target, "runs", runs.c.id.in_(select(drops.c.run_id).where(mine)))
            self._copy(target, "mappings", _used_by(mine))
            self._copy(target, "drops", mine)
            for table in ("files", "tables"):
                self._copy(target, table, _TABLES[table].c.drop_id.in_(some))

    def _copy(self, target: Connection, table: str, which: Any) -> None:
        """Copy rows; those of shared tables may be there already. Rows that nothing refers to get ids of the target, and runs have no
        summary, because a check shows no earlier runs.
        """
        rows = _TABLES[table]
        order = _of_entries(rows, which) if table in _HISTORY else select(rows).where(which).order_by(*rows.primary_key)
        left_out = {"runs": "summary"}.get(table, "" if table in ("drops", "entries") else "id")
        found = [
            {name: value for name, value in record.items() if name != left_out}
            for record in _as_records(self._source, table, self._source.execute(order))
        ]
        if found:
            target.execute(insert(rows).prefix_with("or ignore"), found)


@contextmanager
def slice_of(queries: RunQueries, run: Run) -> Iterator[Slice]:
    """The rows of a run and of everything that its decisions depend on, from one snapshot, for the `with` block."""
    with queries.at_one_moment() as connection:
        yield Slice(connection, run)


def _as_records(connection: Connection, table: str, rows: Iterable[Any]) -> Iterator[Row]:
    """Rows as values by column; entries have their contents in the columns where older ledgers kept them."""
    if table == entries.name:
        return (row._asdict() | content._asdict() for row, content in with_contents(connection, rows))
    return (row._asdict() for row in rows)


def _used_by(mine: Any) -> Any:
    """The condition for the mappings of drops."""
    return mappings.c.hash.in_(select(drops.c.mapping_hash).where(mine, drops.c.mapping_hash.is_not(None)))


def _of_entries(rows: Table, which: Any) -> Select[Any]:
    """The query for rows of a table in which every row belongs to an entry: by entry, in recording order."""
    order = [rows.c.entry_id, *(rows.c[name] for name in ("number", "id") if name in rows.c)]
    return select(rows).where(which).order_by(*order)


def _runs_of_entries(wanted: Any) -> Iterator[Select[Any]]:
    """The queries for the runs that made, changed or looked up entries, given as a query for their ids or as a list."""
    for rows, name in (
        (attempts, "run_id"),
        (events, "run_id"),
        (findings, "run_id"),
        (exceptions, "run_id"),
        (exceptions, "closed_run_id"),
    ):
        yield select(rows.c[name]).where(rows.c.entry_id.in_(wanted), rows.c[name].is_not(None))


def insert_rows(connection: Connection, table: str, rows: Iterator[Row]) -> None:
    """Insert rows unchanged into one of `TABLES`."""
    statement, some = insert(_TABLES[table]), []
    for row in rows:
        some.append(row)
        if len(some) == _PUT_AT_ONCE:
            connection.execute(statement, some)
            some = []
    if some:
        connection.execute(statement, some)


def _drops_of(connection: Connection, wanted: Sequence[int]) -> set[int]:
    """The drops that these runs planned or touched."""
    planned = select(drops.c.id).where(drops.c.run_id.in_(wanted))
    return set(connection.scalars(union(planned, *touched_by(wanted))))


def _drops_for(connection: Connection, run: Run, touched: Sequence[int]) -> tuple[set[int], set[int], set[int]]:
    """The drops of the slice; among them those with all their entries, and those with their exceptions only."""
    fixes = {row.id: row.fixes for row in connection.execute(FIXES)}
    with_open = (
        select(entries.c.drop_id).join(exceptions, exceptions.c.entry_id == entries.c.id).where(_exception_open_at(run))
    )
    begun = {*touched, *connection.scalars(with_open.distinct())}
    whole = {drop for drop in fixes if not begun.isdisjoint(_chain(drop, fixes))} | set(touched)
    fixed = {earlier for drop in begun | whole for earlier in _chain(drop, fixes)} - whole
    same_bytes = select(files.c.sha256).where(files.c.drop_id.in_(touched), files.c.size > 0)
    first = select(func.min(files.c.drop_id)).where(files.c.sha256.in_(same_bytes)).group_by(files.c.sha256)
    before = connection.scalar(select(func.max(drops.c.id)).where(drops.c.id < min(touched, default=0)))
    anchor = {before} if before is not None else set()  # new ids continue after it
    return begun | whole | fixed | set(connection.scalars(first)) | anchor, whole, fixed


def _chain(drop: int, fixes: Mapping[int, int]) -> Iterator[int]:
    """A drop, the drop that it fixes, the drop that that one fixes, and so on."""
    yield drop
    while drop in fixes:
        drop = fixes[drop]
        yield drop


def _exception_open_at(run: Run) -> Any:
    later = or_(exceptions.c.closed_run_id.is_(None), exceptions.c.closed_run_id >= run.id)
    return and_(exceptions.c.run_id <= run.id, later)


def _entry_before(connection: Connection, own: Sequence[int]) -> int:
    """The entry before those of these drops, after which their ids continue. 0 if there is none."""
    first = connection.scalar(select(func.min(entries.c.id)).where(entries.c.drop_id.in_(own))) or 0
    return connection.scalar(select(func.max(entries.c.id)).where(entries.c.id < first)) or 0


def _entries_for(
    run: Run, touched: Sequence[int], whole: Collection[int], fixed: Collection[int], before: int
) -> CompoundSelect[Any]:
    """The query for the ids of the entries in the slice."""
    with_open = select(exceptions.c.entry_id).where(_exception_open_at(run))
    lanes = union(
        select(entries.c.lane).where(entries.c.drop_id.in_(touched)),
        select(entries.c.lane).where(entries.c.id.in_(with_open)),
    )
    were_wrong = select(exceptions.c.entry_id).join(entries, entries.c.id == exceptions.c.entry_id)
    named = select(func.max(remarks.c.id)).where(remarks.c.name == "owner", remarks.c.value != "")
    return union(
        select(entries.c.id).where(entries.c.drop_id.in_({*touched, *whole})),
        select(entries.c.id).where(entries.c.lane.in_(lanes)),
        with_open,
        were_wrong.where(entries.c.drop_id.in_(fixed)),
        select(remarks.c.entry_id).where(remarks.c.id.in_(named.group_by(remarks.c.value))),
        select(entries.c.id).where(entries.c.id == before),
    )
