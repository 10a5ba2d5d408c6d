"""Looking after the ledger: what is not kept any longer, what a person wants forgotten, the space it takes.

Owns: the transactions of keeping; each is small, and whatever a killed one has not done is found again by the next. What is removed
is overwritten where it stood.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, func, insert, or_, select, update

from loadsheet.ledger import codec, erasure, exporting, purging
from loadsheet.ledger.exporting import Export
from loadsheet.ledger.schema import decisions, drops, entries, exceptions, files, looks, meta, runs
from loadsheet.ledger.statements import at_one_moment, streamed
from loadsheet.ledger.states import Run, State
from loadsheet.problems import LedgerError
from loadsheet.settings.places import shown as place_shown

KEPT = "kept"
_NEEDED = (State.READY, State.SENDING, State.UNKNOWN, State.HELD)
Writing = Callable[[], AbstractContextManager[Connection]]


class KeptFile(NamedTuple):
    """A file of a drop: its run, its name, and where its bytes should be."""

    run: str
    name: str
    kept_as: str


class Maintenance:
    """The verbs of keeping. Made by `Ledger`, which has to be held for those that change something."""

    def __init__(self, engine: Engine, writing: Writing, now: Callable[[], str]) -> None:
        self._engine, self._transaction, self._now = at_one_moment(engine), writing, now

    def correct_end(self, run: str, *, exit_code: int, summary: Mapping[str, Any]) -> None:
        """Have a run that ended say with what it ended after all: something failed after its end had been recorded."""
        values = {"exit_code": exit_code, "summary": codec.encode(summary)}
        with self._writing() as connection:
            connection.execute(update(runs).where(runs.c.name == run).values(values))

    # by rule

    def old_drops(self, before: str) -> list[int]:
        """The drops of runs that began before a time (ISO 8601 UTC) and of which contents are still kept, oldest first."""
        with self._engine.connect() as connection:
            return purging.old_drops(connection, before)

    def empty(self, drop: int, before: str) -> int:
        """Remove the contents of a drop's entries that were settled before a time and that nobody can need any more, a few hundred in
        each transaction; returns how many that were.
        """
        removed = 0
        while True:
            with self._writing() as connection:
                some = purging.removable(connection, drop, before)
                removed += purging.empty(connection, some, self._now())
                if not some:
                    purging.close_drop(connection, drop, self._now())
                    return removed

    def old_looks(self, before: str) -> list[int]:
        """The ids of the runs that began before a time and whose look at the exchange may still hold values."""
        with self._engine.connect() as connection:
            return purging.old_looks(connection, before)

    def listing_snapshot(self, run: int) -> bytes:
        """What the listings of a run showed, packed; empty if nothing is stored."""
        with self._engine.connect() as connection:
            return connection.scalar(select(looks.c.shown).where(looks.c.run_id == run)) or b""

    def emptied(self, wanted: Sequence[int]) -> dict[int, str]:
        """Those of these entries whose contents were removed, with their operations."""
        with self._engine.connect() as connection:
            return purging.removed_among(connection, wanted)

    def store_snapshot(self, run: int, shown: bytes, *, complete: bool) -> None:
        """Store what is left of the listing snapshot of a run; `complete` means that no value is left in it."""
        values = {"shown": shown, "removed": self._now() if complete else ""}
        with self._writing() as connection:
            connection.execute(update(looks).where(looks.c.run_id == run).values(values))

    def originals_needed(self) -> set[Path]:
        """Where the originals of all entries lie that may still be sent or decided on, or that are open exceptions."""
        opened = select(entries.c.drop_id).join(exceptions, exceptions.c.entry_id == entries.c.id)
        opened = opened.where(exceptions.c.closed_run_id.is_(None))
        waiting = select(entries.c.drop_id).where(entries.c.state.in_(_NEEDED))
        query = select(files.c.kept_as).where(or_(files.c.drop_id.in_(opened), files.c.drop_id.in_(waiting)))
        with self._engine.connect() as connection:
            return {Path(place) for place in connection.scalars(query) if place}

    def let_go(self, places: Sequence[Path]) -> None:
        """Record that the bytes of files are not kept any longer, before they are removed."""
        with self._writing() as connection:
            for path in places:
                same = files.c.kept_as.in_((place_shown(path), str(path.absolute())))
                connection.execute(update(files).where(same).values(kept_as=""))

    def runs_before(self, before: str) -> list[str]:
        """The names of the runs that ended and began before a time, but for those with an exception that is still open: theirs, or of a
        drop that they planned. Oldest first.
        """
        still_open = exceptions.c.closed_run_id.is_(None)
        named = select(exceptions.c.run_id).where(still_open)
        planned = select(drops.c.run_id).join(entries, entries.c.drop_id == drops.c.id)
        planned = planned.join(exceptions, exceptions.c.entry_id == entries.c.id).where(still_open)
        query = select(runs.c.name).where(runs.c.started_at < before, runs.c.finished_at != "")
        query = query.where(runs.c.id.not_in(named), runs.c.id.not_in(planned)).order_by(runs.c.id)
        with self._engine.connect() as connection:
            return list(connection.scalars(query))

    # at a person's request

    def entries_of_key(self, key: str) -> list[erasure.KeyEntry]:
        """All entries that belong to a key, oldest first."""
        with self._engine.connect() as connection:
            return erasure.entries_of_key(connection, key)

    def originals_of(self, mine: Sequence[erasure.KeyEntry]) -> list[erasure.Original]:
        """The files that these entries came from, as far as they are kept."""
        with self._engine.connect() as connection:
            return erasure.originals_of(connection, mine)

    def runs_of(self, mine: Sequence[erasure.KeyEntry], names: Sequence[erasure.FileName] = ()) -> list[str]:
        """The names of the runs in whose reports these entries, or these file names, may stand, oldest first."""
        with self._engine.connect() as connection:
            return erasure.runs_of(connection, mine, names)

    def file_names_of(self, key: str, mine: Sequence[erasure.KeyEntry]) -> list[erasure.FileName]:
        """The names of the files that these entries of a key came in, and those that contain the key, with their pseudonyms."""
        with self._engine.connect() as connection:
            return erasure.names_of(connection, key, [one.id for one in mine])

    def keep_as(self, file: int, place: str) -> None:
        """Record where the bytes of a file lie now (empty: nowhere)."""
        with self._writing() as connection:
            connection.execute(update(files).where(files.c.id == file).values(kept_as=place))

    def forget(self, run: Run, request: erasure.ErasureRequest) -> list[erasure.KeyEntry]:
        """Remove what a person wants forgotten, in one transaction, and chain the decision. Raises NotSettled, and changes nothing, if an
        entry of the key is not settled.
        """
        with self._writing() as connection:
            return erasure.forget(connection, run, request, self._now())

    # what others read

    def originals(self) -> Iterator[KeptFile]:
        """All files whose bytes should be there, oldest first."""
        query = select(runs.c.name, files.c.name, files.c.kept_as)
        query = query.join(drops, drops.c.id == files.c.drop_id).join(runs, runs.c.id == drops.c.run_id)
        query = query.where(files.c.kept_as != "").order_by(files.c.id)
        return (KeptFile(*row) for row in streamed(self._engine, query))

    def counts(self) -> dict[str, int]:
        """How many runs, entries and decisions there are."""
        with self._engine.connect() as connection:
            return {
                table.name: connection.scalar(select(func.count()).select_from(table)) or 0
                for table in (runs, entries, decisions)
            }

    def rows_of(self, table: Export) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of `exporting`, streamed."""
        return exporting.rows(self._engine, table)

    # what was done, and the space it takes

    def count_removed(self) -> tuple[int, str]:
        """How many entries have lost their contents, and when the last one did (ISO 8601 UTC; empty: none)."""
        with self._engine.connect() as connection:
            return purging.count_removed(connection)

    def note(self, counts: Mapping[str, int]) -> None:
        """Add to what keeping has removed so far, by what it was."""
        with self._transaction() as connection:
            before = connection.scalar(select(meta.c.value).where(meta.c.name == KEPT))
            removed = json.loads(before) if before else {}
            sums = {name: removed.get(name, 0) + count for name, count in counts.items()}
            value = json.dumps({**removed, **sums, "at": self._now()})
            if before is None:
                connection.execute(insert(meta).values(name=KEPT, value=value))
            else:
                connection.execute(update(meta).where(meta.c.name == KEPT).values(value=value))

    def noted(self) -> dict[str, int | str]:
        """What keeping has removed so far, by what it was, and when it did so last (`at`); empty if nothing ever was."""
        with self._engine.connect() as connection:
            removed: dict[str, int | str] = json.loads(
                connection.scalar(select(meta.c.value).where(meta.c.name == KEPT)) or "{}"
            )
            return removed

    @property
    def is_file(self) -> bool:
        """Whether the ledger is a SQLite file, which we copy and write anew ourselves; a PostgreSQL server does that by its own means."""
        return self._engine.dialect.name == "sqlite"

    def empty_log(self) -> bool:
        """Cut the write-ahead log back, in which what was removed may still stand; whether it is empty, which a reader can prevent. SQLite
        only: PostgreSQL looks after its own.
        """
        if not self.is_file:
            return True
        with self._bare("the write-ahead log") as connection:
            return not connection.exec_driver_sql("pragma wal_checkpoint(truncate)").one()[0]

    def vacuum(self) -> tuple[int, int]:
        """Write the database anew without its gaps; returns its size in bytes before and after. SQLite only, and needs as much space again
        while it lasts. Raises LedgerUnwritable if there is none, and LedgerError if somebody who reads the ledger keeps the old pages there.
        """
        with self._bare("vacuum") as connection:
            before = _size(connection)
            connection.exec_driver_sql("vacuum")
            after = _size(connection)
        if not self.empty_log():
            raise LedgerError(
                "another program reads the ledger, so that its old pages are still there; try again without it"
            )
        return before, after

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction in which what is removed is overwritten."""
        with self._transaction() as connection:
            _overwrite(connection, wanted=True)
            try:
                yield connection
            finally:
                _overwrite(connection, wanted=False)

    @contextmanager
    def _bare(self, what: str) -> Iterator[Connection]:
        if not self.is_file:
            raise LedgerError(f"{what}: this is for a ledger in a SQLite file; a PostgreSQL server does it by itself")
        with self._engine.connect() as connection:
            yield connection.execution_options(bare=True)


def _overwrite(connection: Connection, *, wanted: bool) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"pragma secure_delete={'ON' if wanted else 'OFF'}").all()


def _size(connection: Connection) -> int:
    pages, size = (connection.exec_driver_sql(f"pragma {name}").scalar() or 0 for name in ("page_count", "page_size"))
    return int(pages) * int(size)
