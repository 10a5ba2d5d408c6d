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
from loadsheet.ledger.history import History
from loadsheet.ledger.planning import Known, Verdict, judge
from loadsheet.ledger.schema import attempts, drops, entries, events, files, ignored, mappings, runs, tables
from loadsheet.ledger.states import TRANSITIONS, Drop, Event, Run, Settlement, SourceFile, State
from loadsheet.mapping.documents import Document, Ignored, Lineage
from loadsheet.problems import DoesNotBalance, LedgerError, Problem

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
            self._change(connection, run, [_interrupted(entry) for entry in left])
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
            connection.execute(_new_mapping(connection, drop, lineage))
            identity = self._record_drop(connection, run, drop)
            rows: Counter[str] = Counter()
            fates: Counter[State] = Counter()
            stream = iter(documents)
            while chunk := list(islice(stream, CHUNK)):
                left_out = [item for item in chunk if isinstance(item, Ignored)]
                planned = [item for item in chunk if isinstance(item, Document)]
                rows.update(item.row.table for item in left_out)
                rows.update(row.table for document in planned for row in document.rows)
                self._record_ignored(connection, identity, left_out)
                fates.update(self._record_entries(connection, run, identity, planned))
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
            identity = self._record_drop(connection, run, Drop(0, run.name, (file,)))
        return self.history.drop(identity)

    def archived(self, drop: int, name: str, kept_as: str) -> None:
        """Record where the bytes of a drop's file are kept now."""
        with self._writing() as connection:
            matching = (files.c.drop_id == drop) & (files.c.name == name)
            connection.execute(update(files).where(matching).values(kept_as=kept_as))

    def _record_drop(self, connection: Connection, run: Run, drop: Drop) -> int:
        row = {"run_id": run.id, "mapping_hash": drop.mapping_hash or None}
        key = connection.execute(insert(drops).values(row)).inserted_primary_key
        identity = int(key[0]) if key else 0
        for file in drop.files:
            values = {
                "drop_id": identity,
                "role": file.role,
                "name": file.name,
                "sha256": file.sha256,
                "size": file.size,
                "arrived": file.arrived,
                "kept_as": file.kept_as,
                "problems": codec.encode_problems(file.problems),
            }
            connection.execute(insert(files).values(values))
        for table in drop.tables:
            values = {
                "drop_id": identity,
                "name": table.name,
                "file": table.file,
                "sheet": table.sheet,
                "header": codec.encode(table.header),
                "header_row": table.header_row,
                "rows": table.rows,
            }
            connection.execute(insert(tables).values(values))
        return identity

    def _record_ignored(self, connection: Connection, drop: int, left_out: Sequence[Ignored]) -> None:
        records = [
            {
                "drop_id": drop,
                "table_name": item.row.table,
                "number": item.row.number,
                "cells": codec.encode(item.row.cells),
                "rule": item.rule,
            }
            for item in left_out
        ]
        if records:
            connection.execute(insert(ignored), records)

    def _record_entries(
        self, connection: Connection, run: Run, drop: int, documents: Sequence[Document]
    ) -> list[State]:
        now = self.now()
        lanes = self._known_lanes(connection, {document.lane for document in documents if document.usable})
        next_id = (connection.scalar(select(func.max(entries.c.id))) or 0) + 1  # safe: one writer at a time
        records, changes = [], []
        for identity, document in enumerate(documents, start=next_id):
            lane = lanes.setdefault(document.lane, [])
            verdict = judge(document, lane)
            if verdict.state in _ON_LANE:
                lane.append(_known(identity, document, verdict))
            records.append(_entry_record(identity, drop, document, verdict, now))
            change = Event(now, run.name, "", verdict.state, verdict.reason)
            changes.append(_event_record(run, identity, change))
        if records:
            connection.execute(insert(entries), records)
            connection.execute(insert(events), changes)
        return [State(record["state"]) for record in records]

    def _known_lanes(self, connection: Connection, wanted: set[str]) -> dict[str, list[Known]]:
        lanes: dict[str, list[Known]] = {}
        query = select(entries).where(entries.c.lane.in_(wanted), entries.c.state.in_(_ON_LANE)).order_by(entries.c.id)
        for row in connection.execute(query):
            problems = codec.decode_problems(row.problems)
            known = Known(
                row.id, row.operation, row.key, State(row.state), row.content_hash, row.payload, row.receipt, problems
            )
            lanes.setdefault(row.lane, []).append(known)
        return lanes

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
                number = submission.attempts + 1
                begun.append(_attempt_record(run, submission.id, number, now, digest))
        with self._writing() as connection:
            self._change(connection, run, intents, counts_attempt=True)
            if begun:
                connection.execute(insert(attempts), begun)

    def settle(self, run: Run, settlements: Sequence[Settlement]) -> None:
        """Commit what attempts, a listing or a person have settled, all in one transaction.

        Raises LedgerError, and changes nothing, if a transition is not in the table.
        """
        with self._writing() as connection:
            self._change(connection, run, settlements)

    def _change(
        self, connection: Connection, run: Run, settlements: Sequence[Settlement], *, counts_attempt: bool = False
    ) -> None:
        if not settlements:
            return
        now = self.now()
        current = self._current(connection, [settlement.entry for settlement in settlements])
        changes, history, outcomes = [], [], []
        for settlement in settlements:
            row = current[settlement.entry]
            before = State(row.state)
            if settlement.state not in TRANSITIONS[before]:
                raise LedgerError(f"entry {settlement.entry} is {before} and cannot become {settlement.state}")
            problems = _still_true(codec.decode_problems(row.problems)) + settlement.problems
            changes.append(
                {
                    "entry": settlement.entry,
                    "before": before,
                    "state": settlement.state,
                    "reason": settlement.reason,
                    "receipt": settlement.receipt or row.receipt,
                    "problems": codec.encode_problems(problems),
                    "attempts": row.attempts + counts_attempt,
                    "changed_at": now,
                }
            )
            change = Event(now, run.name, before, settlement.state, settlement.reason)
            history.append(_event_record(run, settlement.entry, change))
            if settlement.outcome and row.attempts:
                outcomes.append(_outcome_record(settlement, row.attempts))
        changed = connection.execute(_CHANGE, changes).rowcount
        if changed != len(changes):
            raise LedgerError(f"{len(changes) - changed} entries changed under our hands; nothing was recorded")
        connection.execute(insert(events), history)
        if outcomes:
            connection.execute(_OUTCOME, outcomes)

    def _current(self, connection: Connection, wanted: Sequence[int]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for start in range(0, len(wanted), CHUNK):
            chosen = {"wanted": wanted[start : start + CHUNK]}
            found.update((row.id, row) for row in connection.execute(_CURRENT, chosen))
        return found

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
_CURRENT = select(*(entries.c[name] for name in ("id", "state", "receipt", "problems", "attempts"))).where(
    entries.c.id.in_(bindparam("wanted", expanding=True))
)
_CHANGE = (
    update(entries)
    .where(entries.c.id == bindparam("entry"), entries.c.state == bindparam("before"))
    .values({name: bindparam(name) for name in ("state", "reason", "receipt", "problems", "attempts", "changed_at")})
)
_OUTCOME = (
    update(attempts)
    .where(attempts.c.entry_id == bindparam("entry"), attempts.c.number == bindparam("attempt"))
    .values({name: bindparam(f"new_{name}") for name in ("outcome", "status", "detail", "duration_ms")})
)


def _interrupted(entry: int) -> Settlement:
    died = "the process ended while this was being sent"
    return Settlement(entry, State.UNKNOWN, died, problems=(Problem("X702", values={"text": died}),), outcome="unknown")


def _still_true(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    # What the exchange said belongs to the state that it led to, and is over with it.
    return tuple(problem for problem in problems if not problem.code.startswith("X"))


def _new_mapping(connection: Connection, drop: Drop, lineage: Lineage) -> Any:
    """The statement that records the drop's mapping, or one that changes nothing if it is known."""
    if connection.scalar(select(mappings.c.hash).where(mappings.c.hash == drop.mapping_hash)):
        return select(1)
    row = {
        "hash": drop.mapping_hash,
        "name": drop.mapping,
        "version": drop.mapping_version,
        "operation": drop.operation,
        "batch_size": drop.batch_size,
        "lineage": codec.encode_lineage(lineage),
    }
    return insert(mappings).values(row)


def _known(identity: int, document: Document, verdict: Verdict) -> Known:
    return Known(
        identity,
        document.operation,
        document.key,
        verdict.state,
        document.content_hash,
        document.payload,
        verdict.receipt,
        document.problems,
    )


def _entry_record(identity: int, drop: int, document: Document, verdict: Verdict, now: str) -> dict[str, Any]:
    problems = (*document.problems, verdict.problem) if verdict.problem else document.problems
    return {
        "id": identity,
        "drop_id": drop,
        "operation": document.operation,
        "key": document.key,
        "lane": document.lane,
        "state": verdict.state,
        "reason": verdict.reason,
        "payload": document.payload,
        "content_hash": document.content_hash,
        "rows": codec.encode_rows(document.rows),
        "items": codec.encode(document.items),
        "problems": codec.encode_problems(problems),
        "receipt": verdict.receipt,
        "attempts": 0,
        "created_at": now,
        "changed_at": now,
    }


def _event_record(run: Run, entry: int, change: Event) -> dict[str, Any]:
    told = {"at": change.at, "before": change.before, "after": change.after, "reason": change.reason}
    return {"entry_id": entry, "run_id": run.id, **told}


def _attempt_record(run: Run, entry: int, number: int, at: str, digest: str) -> dict[str, Any]:
    return {
        "entry_id": entry,
        "number": number,
        "run_id": run.id,
        "started_at": at,
        "request_hash": digest,
        "outcome": "",
        "detail": "",
    }


def _outcome_record(settlement: Settlement, attempt: int) -> dict[str, Any]:
    return {
        "entry": settlement.entry,
        "attempt": attempt,
        "new_outcome": settlement.outcome,
        "new_status": settlement.status,
        "new_detail": settlement.reason,
        "new_duration_ms": settlement.duration_ms,
    }
