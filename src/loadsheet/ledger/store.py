"""Stage 4: the ledger's verbs. Every change of state is guarded, leaves an event, and is one transaction with it.

Owns: every change to what is known. Refuses to know how documents come about and how calls are made.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, bindparam, func, insert, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.changing import begin_attempts, change
from loadsheet.ledger.history import History
from loadsheet.ledger.recording import new_mapping, record_drop, record_entries, record_ignored
from loadsheet.ledger.schema import drops, entries, files, mappings, runs, tables
from loadsheet.ledger.states import Drop, Run, Settlement, SourceFile, State
from loadsheet.mapping.documents import Document, Ignored, Lineage
from loadsheet.problems import DoesNotBalance, Problem

CHUNK = 500
_ON_LANE = (State.READY, State.SENDING, State.ACCEPTED, State.REFUSED, State.UNKNOWN)


class Submission(NamedTuple):
    """What dispatch needs of a ready entry in order to send it; `batch_size` is its mapping's wish, if there is one."""

    id: int
    drop: int
    operation: str
    key: str
    lane: str
    payload: bytes
    attempts: int
    batch_size: int | None = None


class Ledger:
    """What is known, durably. Use one from one thread; `history` reads, the verbs here change. See `open_ledger`."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime]) -> None:
        self._engine = engine
        self._clock = clock
        self.history = History(engine)

    # runs

    def begin_run(self) -> Run:
        """Start a run. Whatever a killed run left `sending` becomes `unknown`: nobody can say whether it arrived."""
        with self._writing() as connection:
            now = self.now()
            day = now[:10]
            count = connection.scalar(select(func.count()).select_from(runs).where(runs.c.name.startswith(day))) or 0
            name = f"{day}-{count + 1:02}"
            key = connection.execute(insert(runs).values(name=name, started_at=now)).inserted_primary_key
            run = Run(key[0] if key else 0, name, now)
            left = connection.scalars(select(entries.c.id).where(entries.c.state == State.SENDING)).all()
            change(connection, run, [_interrupted(entry) for entry in left], now)
        return run

    def end_run(self, run: Run, *, exit_code: int, summary: Mapping[str, Any]) -> None:
        """Close a run with its exit code and its summary (JSON values); it ends now unless it says when it ended."""
        closing = {
            "finished_at": run.finished_at or self.now(),
            "exit_code": exit_code,
            "summary": codec.encode(summary),
        }
        with self._writing() as connection:
            connection.execute(update(runs).where(runs.c.id == run.id).values(closing))

    # planning

    def plan(
        self,
        run: Run,
        drop: Drop,
        lineage: Lineage,
        documents: Iterable[Document | Ignored],
        rows_read: Callable[[], Mapping[str, int]],
    ) -> tuple[Drop, Counter[State]]:
        """Record a drop and all its documents in one transaction, each with its verdict. `drop.id` is given here.

        `rows_read` is asked afterwards how many rows each table had. Raises DoesNotBalance, and records nothing, if a row
        ended in no document or in two.
        """
        with self._writing() as connection:
            connection.execute(new_mapping(connection, drop, lineage))
            identity = record_drop(connection, run, drop)
            rows: Counter[str] = Counter()
            fates: Counter[State] = Counter()
            stream = iter(documents)
            while chunk := list(islice(stream, CHUNK)):
                left_out = [item for item in chunk if isinstance(item, Ignored)]
                planned = [item for item in chunk if isinstance(item, Document)]
                rows.update(item.row.table for item in left_out)
                rows.update(row.table for document in planned for row in document.rows)
                record_ignored(connection, identity, left_out)
                fates.update(record_entries(connection, run, identity, planned, self.now()))
            read = Counter(rows_read())
            if +read != +rows:
                told = f"rows read {dict(read)}, rows accounted for {dict(rows)}"
                raise DoesNotBalance(f"{drop.name}: {told}; nothing was recorded")
            for name, count in read.items():
                matching = (tables.c.drop_id == identity) & (tables.c.name == name)
                connection.execute(update(tables).where(matching).values(rows=count))
        return self.history.drop(identity), fates

    def set_aside(self, run: Run, file: SourceFile) -> Drop:
        """Record a file that was put aside unread; `file.problems` say why."""
        with self._writing() as connection:
            identity = record_drop(connection, run, Drop(0, run.name, (file,)))
        return self.history.drop(identity)

    def archived(self, drop: int, name: str, kept_as: str) -> None:
        """Record where the bytes of a drop's file are kept now."""
        with self._writing() as connection:
            matching = (files.c.drop_id == drop) & (files.c.name == name)
            connection.execute(update(files).where(matching).values(kept_as=kept_as))

    # sending

    def ready(self, limit: int) -> list[Submission]:
        """The oldest ready entries, at most `limit`, none on a lane where another one is being sent or unknown."""
        with self._engine.connect() as connection:
            return [Submission._make(row) for row in connection.execute(_READY, {"most": limit})]

    def mark_sending(self, run: Run, calls: Sequence[tuple[Sequence[Submission], bytes]]) -> None:
        """Commit the intent to send, before any byte leaves: each call is its submissions and its request body.

        Raises LedgerError, and marks none, if one of them is no longer ready.
        """
        now = self.now()
        intents, begun = [], []
        for submissions, body in calls:
            digest = hashlib.sha256(body).hexdigest()
            for submission in submissions:
                intents.append(Settlement(submission.id, State.SENDING, "being sent"))
                begun.append((submission.id, submission.attempts + 1, digest))
        with self._writing() as connection:
            change(connection, run, intents, now, counts_attempt=True)
            begin_attempts(connection, run, begun, now)

    def settle(self, run: Run, settlements: Sequence[Settlement]) -> None:
        """Commit what attempts, a listing or a person have settled, all in one transaction.

        Raises LedgerError, and changes nothing, if a transition is not in the table.
        """
        with self._writing() as connection:
            change(connection, run, settlements, self.now())

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    def now(self) -> str:
        """The present moment as the ledger writes it: ISO 8601 UTC."""
        return codec.stamp(self._clock())


_others = entries.alias()
_busy = _others.c.state.in_((State.SENDING, State.UNKNOWN)) & (_others.c.lane == entries.c.lane)

# Built once: putting a statement together costs more than running it.
_READY = (
    select(
        *(entries.c[name] for name in ("id", "drop_id", "operation", "key", "lane", "payload", "attempts")),
        mappings.c.batch_size,
    )
    .join(drops, drops.c.id == entries.c.drop_id)
    .join(mappings, mappings.c.hash == drops.c.mapping_hash)
    .where(entries.c.state == State.READY, ~select(1).select_from(_others).where(_busy).exists())
    .order_by(entries.c.id)
    .limit(bindparam("most"))
)


def _interrupted(entry: int) -> Settlement:
    died = "the process ended while this was being sent"
    return Settlement(entry, State.UNKNOWN, died, problems=(Problem("X702", values={"text": died}),), outcome="unknown")
