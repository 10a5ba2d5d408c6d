"""Records a drop: its files and tables, its entries in their planned states, and the rows that rules excluded.

Owns: the statements of planning. Opens no transaction: the methods of `Ledger` do.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from loadsheet.contract import CREATES_AND_UPDATES, DELETES
from loadsheet.errors import DoesNotBalance
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import Content, store, with_contents
from loadsheet.ledger.ledger_tables import Statement, drops, files, mappings, runs, tables
from loadsheet.ledger.models import BLANK_ROWS, UNUSED, Drop, EarlierEntry, Run, Settlement, State, Waits
from loadsheet.ledger.planning import (
    Changed,
    DocumentContext,
    PlanningDecision,
    decide_new,
    is_delete,
)
from loadsheet.ledger.returned_rows import FixFileRows, copies_of, find_returned
from loadsheet.ledger.transitions import CHUNK, Transaction, change_states, record_events
from loadsheet.mapping.documents import JOINT, Document, Ignored, Lineage, TableNotes
from loadsheet.problems import Problem, Where

if TYPE_CHECKING:
    from loadsheet.ledger.exporting import EarlierRows

_SENT_OR_READY = (State.ACCEPTED, State.READY, State.SENDING)
STOPPED = "a problem concerns all files of its drop"
_ANALYZE_AFTER, _ANALYZE_FACTOR = 1000, 4


class ReadTotals(NamedTuple):
    """The totals of a drop after reading, the last item of its documents: the number of rows and the notes of each table. If
    `doubts`, problems that concern all documents, are given, no document is sent.
    """

    rows: Mapping[str, int] = {}
    notes: Mapping[str, TableNotes] = {}
    doubts: Sequence[Problem] = ()


class PlanningRules(NamedTuple):
    """How the documents of a drop are planned. `changed`: the treatment of a create whose record was accepted with other
    content. `error_share_max`: the share (0 to 1) of invalid documents above which none is sent. `known`: the rows of another ledger
    by which a check judges them, copied first. `zone`: the time zone of the times of its files; empty if there is no single one. `fields`:
    the fields of records that its mapping can fill; None: all.
    """

    changed: Changed = "hold"
    error_share_max: float = 1.0
    known: "EarlierRows | None" = None
    zone: str = ""
    fields: Collection[str] | None = None


DEFAULT_RULES = PlanningRules()


def record_plan(
    transaction: Transaction, drop: Drop, items: Iterable[Document | Ignored | ReadTotals], rules: PlanningRules
) -> tuple[int, Counter[State]]:
    """Record a drop, whose mapping is already recorded, with all its documents. Returns its id and the number of entries in each
    state. Raises DoesNotBalance if a row is in no document or in two.
    """
    connection, run, _ = transaction
    identity = record_drop(connection, run, drop)
    rows: Counter[str] = Counter()
    fates: Counter[State] = Counter()
    totals, stream = ReadTotals(), iter(items)
    analyze_at, fixes = _ANALYZE_AFTER, FixFileRows()
    while chunk := list(islice(stream, CHUNK)):
        ignored = [item for item in chunk if isinstance(item, Ignored)]
        documents = [item for item in chunk if isinstance(item, Document)]
        totals = next((item for item in chunk if isinstance(item, ReadTotals)), totals)
        rows.update(item.row.table for item in ignored)
        rows.update(row.table for document in documents for row in document.own_rows)
        _record_ignored(connection, identity, ignored)
        if rules.known is not None:
            rules.known.copy(connection, {document.lane for document in documents}, drop.fixes)
            fixes = FixFileRows()  # those that were copied now are new here
        fates.update(_record_entries(transaction, identity, documents, rules, fixes))
        if fates.total() >= analyze_at:
            analyze_at = fates.total() * _ANALYZE_FACTOR
            _analyze(connection)
    if analyze_at > _ANALYZE_AFTER:
        _analyze(connection)
    read, counted_in = Counter(totals.rows), drop.counted_in
    for name, counting in counted_in.items():
        if counting != name:
            rows[counting] += rows.pop(name, 0)
    if +read != +rows:
        wrong = (name for name in sorted(read | rows) if read[name] != rows[name])
        counts = "; ".join(f"{name}: {read[name]:,} rows read, {rows[name]:,} accounted for" for name in wrong)
        raise DoesNotBalance(f"{drop.name}: {counts}; nothing was recorded")
    if why := stop_reasons(drop.name, fates, rules.error_share_max, totals.doubts):
        fates = _stop(transaction, identity, fates, why)
    for name, count in read.items():
        matching = (tables.c.drop_id == identity) & (tables.c.name == name)
        noted = _notes_of(drop, name, totals.notes.get(name) or TableNotes())
        connection.execute(update(tables).where(matching).values(rows=count, **noted))
    return identity, fates


def record_mapping(connection: Connection, drop: Drop, lineage: Lineage) -> None:
    """Record the mapping of a drop, or fill in the columns that an earlier schema did not have."""
    explained = {
        "language": drop.language,
        "guide": codec.encode(drop.guide),
        "source": codec.encode(drop.source),
    }
    source = connection.scalar(select(mappings.c.source).where(mappings.c.hash == drop.mapping_hash))
    if source is not None:
        if source == codec.NOTHING and drop.source:
            connection.execute(update(mappings).where(mappings.c.hash == drop.mapping_hash).values(explained))
        return
    row = {
        **explained,
        "hash": drop.mapping_hash,
        "name": drop.mapping,
        "version": drop.mapping_version,
        "operation": drop.operation,
        "batch_size": drop.batch_size,
        "lineage": codec.encode(lineage),
    }
    connection.execute(insert(mappings).values(row))


def record_drop(connection: Connection, run: Run, drop: Drop) -> int:
    """Record a drop with its files and tables. Returns its id."""
    row: dict[str, Any] = {"run_id": run.id, "mapping_hash": drop.mapping_hash or None, "fixes": drop.fixes}
    key = connection.execute(insert(drops).values(row)).inserted_primary_key
    identity = int(key[0]) if key else 0
    for file in drop.files:
        plain = {name: getattr(file, name) for name in ("role", "name", "sha256", "size", "arrived", "kept_as")}
        row = {"drop_id": identity, **plain, "problems": codec.encode_problems(file.problems)}
        connection.execute(insert(files).values(row))
    for table in drop.tables:
        plain = {name: getattr(table, name) for name in ("name", "file", "sheet", "header_row", "rows")}
        row = {
            "drop_id": identity,
            **plain,
            "header": codec.encode(table.header),
            "found": codec.encode(table.reading_notes),
        }
        connection.execute(insert(tables).values(row))
    return identity


def _notes_of(drop: Drop, name: str, notes: TableNotes) -> dict[str, str]:
    """The values of the columns of a table that hold the notes about its rows."""
    more = {UNUSED: "\n".join(notes.unused), BLANK_ROWS: f"{notes.blank_rows:,}" if notes.blank_rows else ""}
    reading_notes = {**drop.table(name).reading_notes, **{title: text for title, text in more.items() if text}}
    return {"problems": codec.encode_problems(notes.problems), "found": codec.encode(reading_notes)}


def _record_ignored(connection: Connection, drop: int, ignored: Sequence[Ignored]) -> None:
    """Record the rows that rules excluded."""
    rows = [
        {
            "drop": drop,
            "table": item.row.table,
            "number": item.row.number,
            "cells": codec.encode(item.row.cells),
            "rule": item.rule,
        }
        for item in ignored
    ]
    if rows:
        _INSERT_IGNORED.run(connection, rows)


def _record_entries(
    transaction: Transaction, drop: int, documents: Sequence[Document], rules: PlanningRules, fixes: FixFileRows
) -> list[State]:
    """Judge documents by the entries on their lanes, and record each as an entry with an event. Returns their states."""
    connection = transaction.connection
    wanted = {document.lane for document in documents if document.usable}
    lanes, seen = earlier_entries(connection, wanted), seen_lanes(connection, wanted)
    others, copies = _other_versions(connection, documents, drop), copies_of(connection, [drop])[drop]
    newer = _newer_files(connection, documents, drop)
    returned = find_returned(connection, documents, [copies] * len(documents), fixes)
    (last,) = _LAST_ENTRY.rows(connection)
    records, contents, events, states = [], {}, [], []
    pairs = zip(documents, returned, strict=True)
    for identity, (given, same) in enumerate(pairs, start=(last.id or 0) + 1):  # safe: one writer at a time
        lane = lanes.setdefault(given.lane, [])
        known = DocumentContext(given.lane in seen, copies, newer.get(given.lane, ""), same, rules.zone, rules.fields)
        decision = decide_new(given, lane, known, changed=rules.changed)
        planned = decision.planned
        if planned.state is State.INVALID and given.lane in others:
            code, where = others[given.lane]
            warning = Problem(code, values={"key": given.key, **where}, level="warning")
            planned = planned._replace(problems=(warning,))
            decision = decision._replace(planned=planned)
        if planned.stays_on_lane:
            lane.append(_as_earlier(identity, drop, given, decision))
        records.append(_entry_record(identity, drop, decision, transaction.now))
        contents[identity] = Content(decision.document.payload, codec.encode_rows(given.rows))
        events.append((identity, "", planned.state.value, planned.reason))
        states.append(planned.state)
    if records:
        _INSERT_ENTRY.run(connection, records)
        store(connection, contents)
        record_events(transaction, events)
    return states


def _analyze(connection: Connection) -> None:
    """Update the server's statistics while a plan adds many entries. Otherwise the server assumes an empty table until the
    transaction ends, and scans it for every query. SQLite does not need this.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("analyze entries")


def earlier_entries(connection: Connection, wanted: Collection[str]) -> dict[str, list[EarlierEntry]]:
    """The entries on these lanes, oldest first (see `in_order`). Held ones only if they wait for an outcome or a parent, or were abandoned."""
    lanes: dict[str, list[EarlierEntry]] = {}
    rows = in_order(_ON_LANES.rows_of(connection, list(wanted)))
    for row, content in with_contents(connection, rows):
        state = State(row.state)
        abandoned = state is State.HELD and row.waits == Waits.DECISION
        problems = codec.decode_problems(row.problems)
        entry = EarlierEntry(
            row.id,
            row.operation,
            row.key,
            state,
            row.content_hash,
            content.payload,
            row.receipt,
            problems,
            abandoned,
            row.drop_id,
            row.figures or b"",
            is_whole=row.operation not in row.mapped.split(JOINT),
        )
        lanes.setdefault(row.lane, []).append(entry)
    return lanes


def in_order(rows: Iterable[Any]) -> list[Any]:
    """These rows of `entries` in the order of planning, but those of a lane that were accepted in the order in which the exchange took
    them, before those that are to be sent: an entry that a person released was planned long before.
    """
    planned, sent = sorted(rows, key=attrgetter("id")), defaultdict[str, list[Any]](list)
    for row in planned:
        if row.state in _SENT_OR_READY:
            sent[row.lane].append(row)
    in_turn = {lane: iter(sorted(some, key=_turn)) for lane, some in sent.items()}
    return [next(in_turn[row.lane]) if row.state in _SENT_OR_READY else row for row in planned]


def _turn(row: Any) -> tuple[bool, str, int]:
    is_accepted = row.state == State.ACCEPTED
    return not is_accepted, row.changed_at if is_accepted else "", row.id


def _other_versions(
    connection: Connection, documents: Sequence[Document], drop: int
) -> dict[str, tuple[str, dict[str, str]]]:
    """For invalid documents of whose record another version, which the same mapping read, was accepted, or is ready in another drop: by
    lane, the code of the remark, and the run that accepted it or the file that holds it.
    """
    wanted = {
        document.lane
        for document in documents
        if not document.usable and document.key and document.operation in CREATES_AND_UPDATES
    }
    last: dict[str, Any] = {}
    for row in in_order(_VALID_ON_LANES.rows(connection, wanted=sorted(wanted), drop=drop) if wanted else ()):
        if row.operation in DELETES or (row.operation in CREATES_AND_UPDATES and row.is_of_mapping):
            last[row.lane] = row
    versions = {row.id: row for row in last.values() if row.operation in CREATES_AND_UPDATES}
    accepted = {row.entry_id: row.name for row in _ACCEPTED_IN.rows_of(connection, sorted(versions))}
    return {
        row.lane: ("L616", {"run": accepted[row.id]}) if row.id in accepted else ("L617", {"file": row.file})
        for row in versions.values()
    }


def _newer_files(connection: Connection, documents: Sequence[Document], drop: int) -> dict[str, str]:
    """For documents that delete: by lane, the file of the same run, or of one that was killed before, that holds a version of the record and
    arrived after their drop.
    """
    wanted = sorted({document.lane for document in documents if document.usable and is_delete(document)})
    rows = _NEWER_IN_RUN.rows(connection, wanted=wanted, made=sorted(CREATES_AND_UPDATES), drop=drop) if wanted else ()
    return {row.lane: row.file for row in rows}


def seen_lanes(connection: Connection, wanted: Collection[str]) -> set[str]:
    """The lanes among these whose order or tender a listing showed."""
    return {row.lane for row in _SEEN.rows_of(connection, list(wanted))}


def _as_earlier(identity: int, drop: int, given: Document, decision: PlanningDecision) -> EarlierEntry:
    """The entry of a decision, as an earlier entry for the planning of later documents."""
    document, planned, _ = decision
    return EarlierEntry(
        identity,
        document.operation,
        document.key,
        planned.state,
        document.content_hash,
        document.payload,
        planned.service_order,
        document.problems,
        drop=drop,
        is_whole=document.operation != given.operation,
    )


def _entry_record(identity: int, drop: int, decision: PlanningDecision, now: str) -> dict[str, Any]:
    """The row of `entries` for a document."""
    document, planned, alternative = decision
    problems = (*document.problems, *planned.problems)
    return {
        "id": identity,
        "drop": drop,
        "operation": document.operation,
        "key": document.key,
        "lane": document.lane,
        "state": planned.state.value,
        "reason": planned.reason,
        "content_hash": document.content_hash,
        "items": codec.encode_links(document.links),
        "problems": codec.encode_problems(problems),
        "receipt": planned.service_order,
        "now": now,
        "waits": planned.waits.value,
        "instead": codec.encode_alternative(alternative),
        "elsewhere": b"",
    }


def free_run_name(connection: Connection, day: str, taken: Collection[str]) -> str:
    """The name of the next run of a day, such as 2026-03-04-01 for 2026-03-04. Its number is above that of any run of the day in
    the ledger or in `taken`: a restored ledger may lack runs whose report folders exist.
    """
    known = connection.scalars(select(runs.c.name).where(runs.c.name.startswith(f"{day}-")))
    numbers = (name[len(day) + 1 :] for name in (*known, *taken) if name.startswith(f"{day}-"))
    return f"{day}-{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1:02}"


def stop_reasons(
    name: str, fates: Mapping[State, int], share_max: float, doubts: Sequence[Problem]
) -> tuple[Problem, ...]:
    """The reasons why nothing of this drop may be sent (empty: it may). Either the share (0 to 1) of invalid documents is too
    high, or there are `doubts`, problems that concern all of them.
    """
    invalid, count = fates.get(State.INVALID, 0), sum(fates.values())
    if invalid <= share_max * count:
        return tuple(doubts)
    hint = f"correct the file and drop it again, or send only its valid rows: loadsheet retry --file {quote(name)}"
    values = {"invalid": invalid, "count": count, "limit": f"{share_max * 100:.4g} %"}
    return (Problem("L611", Where(name), name, values, hint), *doubts)


def _stop(transaction: Transaction, drop: int, fates: Counter[State], why: Sequence[Problem]) -> Counter[State]:
    """Hold all ready entries of a drop. Returns the new number of entries in each state. A person can still send them."""
    problems, ready = tuple(why), fates[State.READY]
    while rows := _READY_OF_DROP.rows(transaction.connection, drop=drop, most=CHUNK):
        change_states(transaction, [Settlement(row.id, State.HELD, STOPPED, problems=problems) for row in rows])
    return +(fates - Counter({State.READY: ready}) + Counter({State.HELD: ready}))


_LAST_ENTRY = Statement("select max(id) as id from entries")
_ON_LANES = Statement(  # also held entries that wait for an outcome or a parent, or were abandoned
    """
    select id, lane, operation, key, state, content_hash, payload, rows, receipt, problems, waits, drop_id, changed_at, figures, (
        select mappings.operation from drops join mappings on mappings.hash = drops.mapping_hash where drops.id = entries.drop_id
    ) as mapped
    from entries where lane in (:wanted) and (
        state in ('ready', 'sending', 'accepted', 'refused', 'unknown')
        or state = 'held' and waits <> ''
        or state = 'held' and attempts > 0 and exists (
            select 1 from attempts where attempts.entry_id = entries.id and attempts.outcome in ('', 'unknown')
        )
    )
    """
)
_VALID_ON_LANES = Statement(
    """
    select entries.id, lane, entries.operation, state, changed_at, (
        select name from files where files.drop_id = entries.drop_id order by files.id limit 1
    ) as file, mappings.name = (
        select own.name from drops join mappings own on own.hash = drops.mapping_hash where drops.id = :drop
    ) as is_of_mapping
    from entries join drops on drops.id = entries.drop_id join mappings on mappings.hash = drops.mapping_hash
    where state in ('accepted', 'ready') and lane in (:wanted) and entries.drop_id <> :drop
    """
)
_ACCEPTED_IN = Statement(
    """
    select events.entry_id, runs.name from events join runs on runs.id = events.run_id
    where events.after = 'accepted' and events.entry_id in (:wanted)
    """
)
_NEWER_IN_RUN = Statement(
    """
    select entries.lane, files.name as file from entries
    join files on files.drop_id = entries.drop_id join drops on drops.id = entries.drop_id
    where entries.lane in (:wanted) and entries.operation in (:made)
    and (
        drops.run_id = (select run_id from drops where id = :drop)
        or drops.run_id in (select id from runs where finished_at = '')
    )
    and files.arrived > (select max(arrived) from files where drop_id = :drop)
    """
)
_SEEN = Statement("select lane from seen where lane in (:wanted)")
_INSERT_ENTRY = Statement(
    """
    insert into entries (
        id, drop_id, operation, key, lane, state, reason, payload, content_hash, rows, items, problems, receipt,
        attempts, created_at, changed_at, waits, instead
    ) values (
        :id, :drop, :operation, :key, :lane, :state, :reason, :elsewhere, :content_hash, :elsewhere, :items, :problems, :receipt,
        0, :now, :now, :waits, :instead
    )
    """
)
_INSERT_IGNORED = Statement(
    "insert into ignored (drop_id, table_name, number, cells, rule) values (:drop, :table, :number, :cells, :rule)"
)
_READY_OF_DROP = Statement("select id from entries where drop_id = :drop and state = 'ready' order by id limit :most")
