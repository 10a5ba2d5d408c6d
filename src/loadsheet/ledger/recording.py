"""Recording what a drop is made of: its files and tables, its entries with their verdicts, and the rows that rules left out.

Owns: the statements of planning. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select

from loadsheet.ledger import codec
from loadsheet.ledger.changing import event_record
from loadsheet.ledger.planning import Known, Verdict, judge
from loadsheet.ledger.schema import drops, entries, events, files, ignored, mappings, tables
from loadsheet.ledger.states import Drop, Event, Run, State
from loadsheet.mapping.documents import Document, Ignored, Lineage

ON_LANE = (State.READY, State.SENDING, State.ACCEPTED, State.REFUSED, State.UNKNOWN)
"""States of the entries that a new document of their lane is judged by."""


def new_mapping(connection: Connection, drop: Drop, lineage: Lineage) -> Any:
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


def record_drop(connection: Connection, run: Run, drop: Drop) -> int:
    """Record a drop with its files and tables; returns its id."""
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


def record_ignored(connection: Connection, drop: int, left_out: Sequence[Ignored]) -> None:
    """Record rows that rules left out."""
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


def record_entries(connection: Connection, run: Run, drop: int, documents: Sequence[Document], now: str) -> list[State]:
    """Judge documents by what their lanes hold, and record them as entries with an event each; returns their states."""
    lanes = known_lanes(connection, {document.lane for document in documents if document.usable})
    next_id = (connection.scalar(select(func.max(entries.c.id))) or 0) + 1  # safe: one writer at a time
    records, changes = [], []
    for identity, document in enumerate(documents, start=next_id):
        lane = lanes.setdefault(document.lane, [])
        verdict = judge(document, lane)
        if verdict.state in ON_LANE:
            lane.append(_known(identity, document, verdict))
        records.append(_entry_record(identity, drop, document, verdict, now))
        change = Event(now, run.name, "", verdict.state, verdict.reason)
        changes.append(event_record(run, identity, change))
    if records:
        connection.execute(insert(entries), records)
        connection.execute(insert(events), changes)
    return [State(record["state"]) for record in records]


def known_lanes(connection: Connection, wanted: set[str]) -> dict[str, list[Known]]:
    """What the ledger knows on these lanes, oldest first."""
    lanes: dict[str, list[Known]] = {}
    query = select(entries).where(entries.c.lane.in_(wanted), entries.c.state.in_(ON_LANE)).order_by(entries.c.id)
    for row in connection.execute(query):
        problems = codec.decode_problems(row.problems)
        known = Known(
            row.id, row.operation, row.key, State(row.state), row.content_hash, row.payload, row.receipt, problems
        )
        lanes.setdefault(row.lane, []).append(known)
    return lanes


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
        "waits": verdict.waits,
    }
