"""Records a drop: its files and tables, its entries with their verdicts, and the rows that rules left out. Forecasts the same verdicts.

Owns: the statements of planning. Opens no transaction: the verbs of `Ledger` do. A forecast only reads.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    and_,
    bindparam,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)

from loadsheet.contract import BY_NAME, WRITES, Action
from loadsheet.ledger import codec
from loadsheet.ledger.planning import ON_LANE, Changed, Decision, Known, Verdict, decide, recognized, stands
from loadsheet.ledger.schema import attempts, drops, entries, events, files, ignored, mappings, runs, seen, tables
from loadsheet.ledger.statements import Chosen, fixed, insert_many
from loadsheet.ledger.states import BLANK_ROWS, UNUSED, Drop, Run, Settlement, State, Waits
from loadsheet.ledger.transitions import change, record_events
from loadsheet.mapping.documents import Document, Ignored, Lineage, TableNotes
from loadsheet.problems import Problem, Where

CHUNK = 500
STOPPED = "something is wrong with all of the files that it came with"
_LOOK_AFTER, _LOOK_AFTER_TIMES = 1000, 4
_ANALYZE = text("analyze entries")


def new_mapping(connection: Connection, drop: Drop, lineage: Lineage) -> Any:
    """The statement that records the drop's mapping, or fills in what an earlier schema did not keep of it, or changes nothing."""
    said = {
        "language": drop.language,
        "guide": codec.encode_guide(drop.guide),
        "source": codec.encode(drop.source),
    }
    known = connection.scalar(select(mappings.c.source).where(mappings.c.hash == drop.mapping_hash))
    if known is not None:
        refill = known == codec.NOTHING and bool(drop.source)
        return update(mappings).where(mappings.c.hash == drop.mapping_hash).values(said) if refill else select(1)
    row = {
        **said,
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
    row = {"run_id": run.id, "mapping_hash": drop.mapping_hash or None, "fixes": drop.fixes}
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
            "found": codec.encode(table.found),
            "rows": table.rows,
        }
        connection.execute(insert(tables).values(values))
    return identity


def noted(drop: Drop, name: str, notes: Mapping[str, TableNotes]) -> dict[str, str]:
    """The columns of a table of this drop that hold what was seen of it when its rows were read."""
    seen = notes.get(name) or TableNotes()
    more = {UNUSED: "\n".join(seen.unused), BLANK_ROWS: f"{seen.blank_rows:,}" if seen.blank_rows else ""}
    found = {**drop.table(name).found, **{what: how for what, how in more.items() if how}}
    return {"problems": codec.encode_problems(seen.problems), "found": codec.encode(found)}


def record_ignored(connection: Connection, drop: int, left_out: Sequence[Ignored]) -> None:
    """Record rows that rules left out."""
    records = [(drop, item.row.table, item.row.number, codec.encode(item.row.cells), item.rule) for item in left_out]
    if records:
        _IGNORED.run(connection, records)


def record_entries(
    connection: Connection, run: Run, drop: int, documents: Sequence[Document], now: str, *, changed: Changed = "hold"
) -> list[State]:
    """Judge documents by what their lanes hold, and record them as entries with an event each; returns their states. `changed`
    says what becomes of a create whose record was accepted with other content.
    """
    wanted = {document.lane for document in documents if document.usable}
    lanes, shown = known_lanes(connection, wanted), seen_lanes(connection, wanted)
    there = _accepted_versions(connection, documents)
    next_id = (connection.scalar(select(func.max(entries.c.id))) or 0) + 1  # safe: one writer at a time
    records, changes, states = [], [], []
    for identity, given in enumerate(documents, start=next_id):
        lane = lanes.setdefault(given.lane, [])
        decision = decide(recognized(given, lane), lane, changed=changed, seen=given.lane in shown)
        verdict = decision.verdict
        if verdict.state is State.INVALID and given.lane in there:
            values = {"key": given.key, "run": there[given.lane]}
            verdict = verdict._replace(problem=Problem("L616", values=values, level="warning"))
            decision = decision._replace(verdict=verdict)
        if verdict.stays_on_lane:
            lane.append(_known(identity, decision))
        records.append(_entry_record(identity, drop, decision, now))
        changes.append((identity, "", verdict.state.value, verdict.reason))
        states.append(verdict.state)
    if records:
        _ENTRY.run(connection, records)
        record_events(connection, run, now, changes)
    return states


class Forecaster:
    """Forecasts the verdicts on the documents of drops that come one after the other. Records nothing: what it forecast for earlier
    documents counts as known for later ones.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._forecast: defaultdict[str, list[Known]] = defaultdict(list)

    def verdicts(self, documents: Iterable[Document], *, changed: Changed) -> Iterator[tuple[Document, Verdict]]:
        """Each document as it would be sent, with its verdict. `changed` says what becomes of a create whose record was accepted with
        other content. A child whose order or tender would be sent waits for nothing.
        """
        stream = iter(documents)
        while chunk := list(islice(stream, CHUNK)):
            wanted = {document.lane for document in chunk if document.usable}
            with self._engine.connect() as connection:
                lanes, shown = known_lanes(connection, wanted), seen_lanes(connection, wanted)
            for given in chunk:
                seen_there = given.lane in shown
                lane = [*lanes.get(given.lane, ()), *self._forecast[given.lane]] if given.usable else []
                decision = decide(recognized(given, lane), lane, changed=changed, seen=seen_there)
                verdict = decision.verdict
                if verdict.waits is Waits.PARENT and any(_is_coming(known) for known in lane):
                    verdict = verdict._replace(waits=Waits.DECISION)
                if verdict.stays_on_lane:  # without its record, to save memory: differences of fields stay unknown
                    known = _known(0, decision._replace(verdict=verdict))
                    self._forecast[given.lane].append(known._replace(payload=b"", problems=()))
                yield decision.document, _as_reported(decision.document, verdict, lane, seen=seen_there)


def _as_reported(document: Document, verdict: Verdict, lane: Sequence[Known], *, seen: bool) -> Verdict:
    """The verdict as the reports count it: what repeats a held entry is held as that one is, unless its order or tender is coming."""
    if not verdict.waits_again:
        return verdict
    if BY_NAME[document.operation].creates or stands(((one.operation, one.state) for one in lane), seen=seen):
        return verdict._replace(state=State.HELD)
    return verdict if any(map(_is_coming, lane)) else verdict._replace(state=State.HELD, waits=Waits.PARENT)


def _is_coming(known: Known) -> bool:
    return known.state is State.READY and BY_NAME[known.operation].creates


class Planner:
    """Keeps the server's picture of the entries true while a plan adds many: without it, it takes the table for empty until the transaction
    is over, and reads all of it again and again. SQLite needs none.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._added = connection, 0
        self._due = _LOOK_AFTER if connection.dialect.name == "postgresql" else sys.maxsize

    def added(self, count: int) -> None:
        """So many entries more were recorded."""
        self._added += count
        if self._added >= self._due:
            self._due = self._added * _LOOK_AFTER_TIMES
            self._connection.execute(_ANALYZE)

    def over(self) -> None:
        """All are recorded."""
        if self._due > _LOOK_AFTER and self._added < self._due != sys.maxsize:
            self._connection.execute(_ANALYZE)


def known_lanes(connection: Connection, wanted: Collection[str]) -> dict[str, list[Known]]:
    """What the ledger knows on these lanes, oldest first; of what is held only what waits for something to end, or was given up."""
    lanes: dict[str, list[Known]] = {}
    for row in sorted(_ON_LANES.rows(connection, list(wanted)), key=itemgetter(0)):
        lanes.setdefault(row.lane, []).append(known_of(row))
    return lanes


def known_of(row: Any) -> Known:
    """An entry of the entries table as the verdicts on later ones see it."""
    problems = codec.decode_problems(row.problems)
    state = State(row.state)
    given_up = state is State.HELD and row.waits == Waits.DECISION  # see _GIVEN_UP
    return Known(row.id, row.operation, row.key, state, row.content_hash, row.payload, row.receipt, problems, given_up)


def _accepted_versions(connection: Connection, documents: Sequence[Document]) -> dict[str, str]:
    """For the records of invalid documents that the exchange has: by lane, the run in which the version there was accepted."""
    wanted = {one.lane for one in documents if not one.usable and one.key and one.operation in _VERSIONS}
    last: dict[str, tuple[int, str]] = {}
    for row in sorted(_ACCEPTED.rows(connection, sorted(wanted)), key=itemgetter(0)) if wanted else ():
        last[row.lane] = (row.id, row.operation)
    versions = {entry: lane for lane, (entry, operation) in last.items() if operation in _VERSIONS}
    found = _ACCEPTED_IN.rows(connection, sorted(versions)) if versions else ()
    return {versions[row.entry_id]: row.name for row in found}


def seen_lanes(connection: Connection, wanted: Collection[str]) -> set[str]:
    """Those of these lanes whose order or tender a listing showed."""
    return {row.lane for row in _SEEN.rows(connection, list(wanted))}


def _known(identity: int, decision: Decision) -> Known:
    """The entry of a decision as the verdicts on later documents see it."""
    document, verdict, _ = decision
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


def _entry_record(identity: int, drop: int, decision: Decision, now: str) -> tuple[Any, ...]:
    """The row of `entries` for a document, in the order of the table's columns."""
    document, verdict, other = decision
    problems = (*document.problems, verdict.problem) if verdict.problem else document.problems
    return (
        identity,
        drop,
        document.operation,
        document.key,
        document.lane,
        verdict.state.value,
        verdict.reason,
        document.payload,
        document.content_hash,
        codec.encode_rows(document.rows),
        codec.encode(document.items) if document.items else "{}",
        codec.encode_problems(problems),
        verdict.receipt,
        0,
        now,
        now,
        verdict.waits.value,
        codec.encode_instead(other),
    )


def free_run_name(connection: Connection, day: str, taken: Collection[str]) -> str:
    """The name of the next run of a day, such as 2026-03-04-01 for 2026-03-04. Its number is higher than that of any run of the day in the ledger
    and in `taken`: a restored ledger knows less than was reported, and report folders have these names.
    """
    known = connection.scalars(select(runs.c.name).where(runs.c.name.startswith(f"{day}-")))
    numbers = (name[len(day) + 1 :] for name in (*known, *taken) if name.startswith(f"{day}-"))
    return f"{day}-{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1:02}"


def stop_reasons(
    name: str, fates: Mapping[State, int], share_max: float, doubts: Sequence[Problem] = ()
) -> tuple[Problem, ...]:
    """Why nothing of this drop may be sent; empty if it may. Either more than a share (0 to 1) of its documents is invalid, or there
    are `doubts` about all of them.
    """
    invalid, count = fates.get(State.INVALID, 0), sum(fates.values())
    errors = (_too_many_errors(name, invalid, count, share_max),) if invalid > share_max * count else ()
    return (*errors, *doubts)


def stop_drop(
    connection: Connection, run: Run, drop: Drop, fates: Counter[State], now: str, *, why: Sequence[Problem]
) -> None:
    """Hold all ready entries of a drop and update `fates`; `now` is ISO 8601 UTC. A person can still send them: every row is accounted for."""
    problems, after = tuple(why), 0
    while found := connection.execute(_READY_OF, {"drop": drop.id, "after": after}).scalars().all():
        change(connection, run, [Settlement(one, State.HELD, STOPPED, problems=problems) for one in found], now)
        fates.subtract({State.READY: len(found)})
        fates.update({State.HELD: len(found)})
        after = found[-1]


def _too_many_errors(name: str, invalid: int, count: int, share_max: float) -> Problem:
    """The problem of a drop with too many invalid documents."""
    hint = f"correct the file and drop it again, or send what is right of it: loadsheet retry --file {name}"
    values = {"invalid": invalid, "count": count, "limit": f"{share_max * 100:.4g} %"}
    return Problem("L611", Where(name), name, values, hint)


_KNOWN = tuple(
    entries.c[name]
    for name in ("id", "lane", "operation", "key", "state", "content_hash", "payload", "receipt", "problems", "waits")
)
_STAYS = entries.c.state.in_(fixed(*(state.value for state in ON_LANE)))
_WAITS = entries.c.state.in_(fixed(State.HELD.value)) & entries.c.waits.not_in(fixed(Waits.DECISION.value))
_GIVEN_UP = and_(
    entries.c.state.in_(fixed(State.HELD.value)),
    entries.c.attempts > literal_column("0"),
    exists().where(attempts.c.entry_id == entries.c.id, attempts.c.outcome.in_(fixed("", "unknown"))),
)
_ON_LANES = Chosen(select(*_KNOWN).where(or_(_STAYS, _WAITS, _GIVEN_UP)), entries.c.lane)
_VERSIONS = frozenset(write.name for write in WRITES if write.action in (Action.CREATE, Action.UPDATE))
_RECORDS = (*sorted(_VERSIONS), *(write.name for write in WRITES if write.action is Action.DELETE))
_ACCEPTED = Chosen(
    select(*(entries.c[name] for name in ("id", "lane", "operation"))).where(
        entries.c.state.in_(fixed(State.ACCEPTED.value)), entries.c.operation.in_(fixed(*_RECORDS))
    ),
    entries.c.lane,
)
_ACCEPTED_IN = Chosen(
    select(events.c.entry_id, runs.c.name)
    .join(runs, runs.c.id == events.c.run_id)
    .where(events.c.after.in_(fixed(State.ACCEPTED.value))),
    events.c.entry_id,
)
_SEEN = Chosen(select(seen.c.lane), seen.c.lane)
_ENTRY = insert_many(entries, "removed", "figures")
_IGNORED = insert_many(ignored, "id")
_READY_OF = (
    select(entries.c.id)
    .where(entries.c.drop_id == bindparam("drop"), entries.c.state == State.READY, entries.c.id > bindparam("after"))
    .order_by(entries.c.id)
    .limit(CHUNK)
)
