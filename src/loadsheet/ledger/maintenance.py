"""Maintenance of the ledger: removal of old contents, disk space, and the check of the whole ledger.

Owns: which entries lose their contents by rule (payloads, cells, answers), and the transactions of the removal. Each is small, and
the next one continues after a kill. Hashes, keys, states, events and the figures for totals stay, so old runs still balance and the
same content is recognized. Removed contents are overwritten on disk.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Engine, func, or_, select, update

from loadsheet.contract import BY_NAME, PARTY_FIELDS, decode_record, encode_record, figures_only, measures_of
from loadsheet.errors import LedgerError
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import Content, damaged, with_contents
from loadsheet.ledger.content_blocks import replace as replace_contents
from loadsheet.ledger.decisions import all_decisions, first_broken_decision
from loadsheet.ledger.ledger_tables import (
    Statement,
    at_one_moment,
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
    runs,
    store_value,
    stored_value,
    streamed,
    tables,
)
from loadsheet.ledger.models import State

if TYPE_CHECKING:
    from loadsheet.ledger.exporting import Export

GONE = "…"
"""The text in place of a removed value."""

_REMOVED_COUNTS = "kept"
"""The name of the stored value of `removed_by_rule`."""

_PLACES = "places of files"
FAULTS_SHOWN = 5
REFUSED_BEFORE = "refused; the exchange's answer has been removed"
ENTRIES_AT_ONCE = 500

_NEEDED = (State.READY, State.SENDING, State.UNKNOWN, State.HELD)
Writing = Callable[[], AbstractContextManager[Connection]]


class StoredOriginal(NamedTuple):
    """A file of a drop: its run, its name, and where its bytes should be."""

    run: str
    name: str
    kept_as: str


class Maintenance:
    """The maintenance methods of a ledger. Those that change something require that this process holds the ledger."""

    def __init__(self, engine: Engine, writing: Writing, now: Callable[[], str]) -> None:
        self._engine, self._transaction, self._now = at_one_moment(engine), writing, now

    def correct_end(self, run: str, *, exit_code: int, summary: Mapping[str, Any]) -> None:
        """Correct the exit code and summary of an ended run, because something failed after its end was recorded."""
        values = {"exit_code": exit_code, "summary": codec.encode(summary)}
        with self.writing() as connection:
            connection.execute(update(runs).where(runs.c.name == run).values(values))

    # by rule

    def old_drops(self, before: str) -> list[int]:
        """The drops of runs that began before a time (ISO 8601 UTC) and still have contents, oldest first."""
        query = select(drops.c.id).join(runs, runs.c.id == drops.c.run_id)
        query = query.where(drops.c.removed == "", runs.c.started_at < before, drops.c.mapping_hash.is_not(None))
        with self._engine.connect() as connection:
            return list(connection.scalars(query.order_by(drops.c.id)))

    def remove_contents_of_drop(self, drop: int, before: str) -> int:
        """Remove the contents of a drop's entries that were settled before a time and are no longer needed, a few hundred per
        transaction. Returns their number. Excludes entries of records that are an open exception, or may still be sent or looked up, and
        invalid and refused entries without a closed exception.
        """
        removed = 0
        while True:
            with self.writing() as connection:
                rows = _REMOVABLE.rows(connection, drop=drop, before=before, most=ENTRIES_AT_ONCE)
                some = [row.id for row in rows]
                removed += remove_contents(connection, some, self._now())
                if not some:
                    _close_drop(connection, drop, self._now())
                    return removed

    def old_snapshots(self, before: str) -> list[int]:
        """The ids of the runs that began before a time and whose listing snapshot may still contain values."""
        query = select(looks.c.run_id).join(runs, runs.c.id == looks.c.run_id)
        with self._engine.connect() as connection:
            return list(connection.scalars(query.where(looks.c.removed == "", runs.c.started_at < before)))

    def without_contents(self, wanted: Sequence[int]) -> dict[int, str]:
        """The entries among these whose contents were removed, with their operations."""
        with self._engine.connect() as connection:
            return {row.id: row.operation for row in _CONTENTS.rows_of(connection, wanted) if row.removed}

    def store_snapshot(self, run: int, snapshot: bytes, *, complete: bool) -> None:
        """Store the rest of a run's listing snapshot. `complete`: it contains no values any more."""
        values = {"shown": snapshot, "removed": self._now() if complete else ""}
        with self.writing() as connection:
            connection.execute(update(looks).where(looks.c.run_id == run).values(values))

    def originals_needed(self) -> set[str]:
        """The stored paths of the originals of all entries that may still be sent or decided, or that are open exceptions."""
        opened = select(entries.c.drop_id).join(exceptions, exceptions.c.entry_id == entries.c.id)
        opened = opened.where(exceptions.c.closed_run_id.is_(None))
        waiting = select(entries.c.drop_id).where(entries.c.state.in_(_NEEDED))
        query = select(files.c.kept_as).where(or_(files.c.drop_id.in_(opened), files.c.drop_id.in_(waiting)))
        with self._engine.connect() as connection:
            return {place for place in connection.scalars(query) if place}

    def record_originals_removed(self, places: Sequence[str]) -> None:
        """Record, before the removal, that the bytes of files (their stored paths) are no longer kept."""
        with self.writing() as connection:
            for some in chunks(places):
                connection.execute(update(files).where(files.c.kept_as.in_(some)).values(kept_as=""))

    def record_kept_as(self, file: int, kept_as: str) -> None:
        """Record where the bytes of a file are now (empty: nowhere)."""
        with self.writing() as connection:
            connection.execute(update(files).where(files.c.id == file).values(kept_as=kept_as))

    def rewrite_places_once(self, rewritten: Callable[[str], str]) -> None:
        """Replace the stored paths of all files by their new forms, once for each ledger: earlier versions stored other ones."""
        with self._engine.connect() as connection:
            if stored_value(connection, _PLACES):
                return
        with self.writing() as connection:
            known = connection.execute(select(files.c.id, files.c.kept_as).where(files.c.kept_as != "")).all()
            for file, before in known:
                if (after := rewritten(before)) != before:
                    connection.execute(update(files).where(files.c.id == file).values(kept_as=after))
            store_value(connection, _PLACES, "relative to the state folder")

    def runs_before(self, before: str) -> list[str]:
        """The names of the ended runs that began before a time, oldest first. Excludes runs with an exception that is still open:
        one that they opened, or one of a drop that they planned.
        """
        still_open = exceptions.c.closed_run_id.is_(None)
        named = select(exceptions.c.run_id).where(still_open)
        planned = select(drops.c.run_id).join(entries, entries.c.drop_id == drops.c.id)
        planned = planned.join(exceptions, exceptions.c.entry_id == entries.c.id).where(still_open)
        query = select(runs.c.name).where(runs.c.started_at < before, runs.c.finished_at != "")
        query = query.where(runs.c.id.not_in(named), runs.c.id.not_in(planned)).order_by(runs.c.id)
        with self._engine.connect() as connection:
            return list(connection.scalars(query))

    # reading

    def originals(self) -> Iterator[StoredOriginal]:
        """All files whose bytes should be kept, oldest first."""
        query = select(runs.c.name, files.c.name, files.c.kept_as)
        query = query.join(drops, drops.c.id == files.c.drop_id).join(runs, runs.c.id == drops.c.run_id)
        query = query.where(files.c.kept_as != "").order_by(files.c.id)
        return (StoredOriginal(*row) for row in streamed(self._engine, query))

    def counts(self) -> dict[str, int]:
        """The numbers of runs, entries and decisions."""
        with self._engine.connect() as connection:
            return {
                table.name: connection.scalar(select(func.count()).select_from(table)) or 0
                for table in (runs, entries, decisions)
            }

    def rows_of(self, table: "Export") -> Iterator[tuple[Any, ...]]:
        """The rows of an exported table, in the order of its columns."""
        with self._engine.connect() as connection:
            yield from table.rows(connection)

    # removal statistics and disk space

    def count_removed(self) -> tuple[int, str]:
        """The number of entries without contents, and when the last one lost them (ISO 8601 UTC; empty: none)."""
        query = select(func.count(), func.max(entries.c.removed)).where(entries.c.removed != "")
        with self._engine.connect() as connection:
            count, last = connection.execute(query).one()
            return count, last or ""

    def record_removed(self, counts: Mapping[str, int]) -> None:
        """Add to the counts of what retention has removed so far, by kind."""
        with self._transaction() as connection:
            removed = json.loads(stored_value(connection, _REMOVED_COUNTS) or "{}")
            sums = {name: removed.get(name, 0) + count for name, count in counts.items()}
            store_value(connection, _REMOVED_COUNTS, json.dumps({**removed, **sums, "at": self._now()}))

    def removed_by_rule(self) -> dict[str, int | str]:
        """The counts of what retention has removed so far, by kind, and the time of the last removal (`at`). Empty if none."""
        with self._engine.connect() as connection:
            removed: dict[str, int | str] = json.loads(stored_value(connection, _REMOVED_COUNTS) or "{}")
            return removed

    @property
    def is_file(self) -> bool:
        """Whether the ledger is a SQLite file, which we back up and vacuum ourselves. A PostgreSQL server has its own means."""
        return self._engine.dialect.name == "sqlite"

    def truncate_log(self) -> bool:
        """Truncate the write-ahead log, which may still contain removed contents. Returns whether it is empty: a reader can prevent
        that. Always True on PostgreSQL, which manages its own log.
        """
        if not self.is_file:
            return True
        with self._bare("the write-ahead log") as connection:
            return not connection.exec_driver_sql("pragma wal_checkpoint(truncate)").one()[0]

    def vacuum(self) -> tuple[int, int]:
        """Rewrite the database without its gaps. Returns its size in bytes before and after. SQLite only. Needs as much free space
        as the database. Raises LedgerUnwritable without it, and LedgerError if another program reads the ledger and keeps old pages.
        """
        with self._bare("vacuum") as connection:
            before = size_of(connection)
            connection.exec_driver_sql("vacuum")
            after = size_of(connection)
        if not self.truncate_log():
            raise LedgerError(
                "another program reads the ledger, so its old pages still exist; close that program and try again"
            )
        return before, after

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction in which removed contents are overwritten on disk."""
        with self._transaction() as connection:
            _overwrite(connection, wanted=True)
            try:
                yield connection
            finally:
                _overwrite(connection, wanted=False)

    @contextmanager
    def _bare(self, what: str) -> Iterator[Connection]:
        if not self.is_file:
            raise LedgerError(f"{what}: only for a ledger in a SQLite file; a PostgreSQL server does this by itself")
        with self._engine.connect() as connection:
            yield connection.execution_options(bare=True)


def _overwrite(connection: Connection, *, wanted: bool) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"pragma secure_delete={'ON' if wanted else 'OFF'}").all()


def size_of(connection: Connection) -> int:
    """The size of a SQLite database in bytes."""
    pages, size = (connection.exec_driver_sql(f"pragma {name}").scalar() or 0 for name in ("page_count", "page_size"))
    return int(pages) * int(size)


def remove_contents(connection: Connection, wanted: Sequence[int], now: str) -> int:
    """Remove the contents of these entries and the values in answers, findings and problems about them. Returns their number."""
    known = list(with_contents(connection, _CONTENTS.rows_of(connection, wanted)))
    changes = [
        {
            "entry": row.id,
            "reason": REFUSED_BEFORE if row.state == State.REFUSED else row.reason,
            "problems": _without_stored_values(row.problems),
            "now": now,
            "figures": row.figures or figures_of(row.operation, content.payload),
        }
        for row, content in known
    ]
    if changes:
        _EMPTY.run(connection, changes)
        replace_contents(connection, {row.id: Content(b"", _without_cells(content.rows)) for row, content in known})
    answered = (events.c.before == State.SENDING) & (events.c.after != State.ACCEPTED)
    for some in chunks(wanted):
        connection.execute(update(attempts).where(attempts.c.entry_id.in_(some)).values(detail=""))
        connection.execute(update(events).where(events.c.entry_id.in_(some), answered).values(reason=""))
        connection.execute(update(findings).where(findings.c.entry_id.in_(some)).values(text=""))
        connection.execute(update(exceptions).where(exceptions.c.entry_id.in_(some)).values(found="[]"))
    return len(changes)


def _close_drop(connection: Connection, drop: int, now: str) -> None:
    """Remove the cells of ignored rows and the values in table problems, if no entry of the drop has contents any more."""
    kept = select(entries.c.id).where(entries.c.drop_id == drop, entries.c.removed == "").limit(1)
    if connection.scalar(kept) is not None:
        return
    connection.execute(update(ignored).where(ignored.c.drop_id == drop).values(cells="[]"))
    for row in connection.execute(select(tables.c.id, tables.c.problems).where(tables.c.drop_id == drop)).all():
        connection.execute(
            update(tables).where(tables.c.id == row.id).values(problems=_without_stored_values(row.problems))
        )
    connection.execute(update(drops).where(drops.c.id == drop).values(removed=now))


def figures_of(operation: str, payload: bytes) -> bytes:
    """The part of a payload that control totals need, and its parties. Empty if there is nothing to add up."""
    measures = measures_of(BY_NAME[operation])
    if not (payload and measures):
        return b""
    record = decode_record(payload)
    return encode_record(
        figures_only(measures, record) | {name: record[name] for name in PARTY_FIELDS if name in record}
    )


def _without_cells(rows: bytes) -> bytes:
    return codec.encode_rows([row._replace(cells=(), natives=()) for row in codec.decode_rows(rows)])


def _without_stored_values(problems: str) -> str:
    """The stored problems of an entry without the values in them."""
    return codec.encode_problems(
        [
            replace(problem, found=GONE if problem.found else "", values=dict.fromkeys(problem.values, GONE), hint="")
            for problem in codec.decode_problems(problems)
        ]
    )


def faults_in(connection: Connection) -> Iterator[str]:
    """All faults of the ledger, in words. Nothing if it is sound. Reads all of it."""
    if connection.dialect.name == "sqlite":  # PostgreSQL checks its pages and keys itself
        lines = list(connection.exec_driver_sql(f"pragma integrity_check({FAULTS_SHOWN})").scalars())
        if lines != ["ok"]:
            yield from (f"the database is damaged: {line}" for line in lines)
            return  # further checks of a damaged database mean nothing
        for row in connection.exec_driver_sql("pragma foreign_key_check").fetchmany(FAULTS_SHOWN):
            yield f"a row of {row[0]} belongs to a row of {row[2]} that does not exist"
    for row in _STATE_DIFFERS.rows(connection, most=FAULTS_SHOWN):
        yield f"the state of entry {row.id} does not match its last event"
    for row in _ATTEMPTS_DIFFER.rows(connection, most=FAULTS_SHOWN):
        yield f"the attempt count of entry {row.id} does not match its recorded attempts"
    for row in _CONTENTS_LEFT.rows(connection, most=FAULTS_SHOWN):
        yield f"entry {row.id} has a payload although it is marked as removed"
    yield from islice(damaged(connection), FAULTS_SHOWN)
    broken = first_broken_decision(all_decisions(connection))
    if broken is not None:
        yield f"the decision of {broken.who} of {broken.at} on entry {broken.entry} was altered, or one before it is missing"


_REMOVABLE = Statement(  # an entry of a fix file that is still wrong has the exception of the entry that it fixes
    """
    with recursive fixed(id) as (
        select drops.id from drops where drops.id = :drop
        union all
        select drops.fixes from drops join fixed on drops.id = fixed.id where drops.fixes is not null
    )
    select id from entries
    where drop_id = :drop and removed = '' and changed_at < :before
    and not exists (
        select 1 from exceptions where exceptions.entry_id = entries.id and exceptions.closed_run_id is null
    )
    and not exists (
        select 1 from entries other
        where other.lane = entries.lane and entries.lane <> '' and (
            other.state in ('held', 'ready', 'sending', 'unknown')
            or exists (select 1 from exceptions where exceptions.entry_id = other.id and exceptions.closed_run_id is null)
        )
    )
    and (
        state in ('accepted', 'unchanged')
        or state in ('invalid', 'refused') and exists (
            select 1 from exceptions where exceptions.entry_id = entries.id and exceptions.closed_run_id is not null
        )
        or state in ('invalid', 'refused') and (select count(*) from fixed) > 1 and not exists (
            select 1 from exceptions join entries first on first.id = exceptions.entry_id
            where first.drop_id in (select id from fixed) and exceptions.closed_run_id is null
        )
    )
    order by id limit :most
    """
)
_CONTENTS = Statement(
    """
    select id, operation, state, reason, payload, rows, problems, removed, figures from entries where id in (:wanted)
    """
)
_EMPTY = Statement(
    """
    update entries set reason = :reason, problems = :problems, removed = :now, figures = :figures, instead = null
    where id = :entry
    """
)
_STATE_DIFFERS = Statement(
    """
    select id from entries
    where state <> coalesce((select after from events where entry_id = entries.id order by events.id desc limit 1), '')
    limit :most
    """
)
_ATTEMPTS_DIFFER = Statement(
    "select id from entries where attempts <> (select count(*) from attempts where entry_id = entries.id) limit :most"
)
_CONTENTS_LEFT = Statement(
    "select id from entries where removed <> '' and (length(payload) > 0 or instead is not null) limit :most"
)
