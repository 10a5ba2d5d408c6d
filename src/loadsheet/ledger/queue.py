"""The queue: which ready entries may be sent, oldest first and in order per key, which drops start with a canary, and what waits for what.

The `lane` of an entry is its key together with its kind of record. Owns: the queries of the queue, and when a waiting entry is held and when it
is let go. A child is ready but waits while its create is on its way, and is held once a run has ended without it; a held one that waits for
an earlier outcome is judged anew when that is known. Opens no transaction: the verbs of `Ledger` do.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from loadsheet.contract import BY_NAME, WRITES, Action
from loadsheet.ledger import codec
from loadsheet.ledger.planning import Changed, Verdict, decide, parent_of, stands
from loadsheet.ledger.recording import earlier_entries, seen_lanes
from loadsheet.ledger.statements import Statement
from loadsheet.ledger.states import Settlement, State, Waits
from loadsheet.ledger.transitions import CHUNK, PreviousState, Transaction, change, still_true
from loadsheet.mapping.documents import Document, Instead
from loadsheet.problems import Problem

CANARY_FAILED = "the first records of its drop were all refused"
"""The reason of entries that are held because the canary of their drop failed."""

Part = tuple[int, str]  # a drop and an operation of its entries

CREATES = [write.name for write in WRITES if write.action is Action.CREATE]
DELETES = [write.name for write in WRITES if write.action is Action.DELETE]
BUSY = (State.SENDING, State.UNKNOWN)
_COMING = (State.READY, State.SENDING)
_MAY_BE_MADE = (State.ACCEPTED, State.SENDING, State.UNKNOWN)


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


class LeftOut(NamedTuple):
    """What may not be sent now: drops and operations of theirs, and operations of all drops."""

    parts: Collection[Part] = ()
    operations: Collection[str] = ()


def submissions(connection: Connection, limit: int, left_out: LeftOut, part: Part | None = None) -> list[Submission]:
    """The oldest ready entries that may leave, at most `limit`, of all drops or of one part. None leaves on a lane where another one is
    being sent or unknown, none that waits for its order or tender, and none that would overtake something left out on its lane.
    """
    parts = [f"{drop} {operation}" for drop, operation in left_out.parts]
    given = {"most": limit, "parts": parts, "operations": list(left_out.operations)}
    if part is None:
        rows = _READY.rows(connection, **given)
    else:
        rows = _READY_OF_PART.rows(connection, **given, drop=part[0], operation=part[1])
    return [Submission._make(row) for row in rows]


def canary_candidates(connection: Connection) -> list[Part]:
    """The drops with ready entries, and the operation, whose first entries go alone (see `dispatch.canary`): no entry of that mapping
    and operation was ever accepted, or none at all from that folder of the inbox. Drops that a person released after a failed canary
    are left out.
    """
    known_folders: dict[str, bool] = {}
    return [
        (drop, operation)
        for drop, operation in _READY_PARTS.rows(connection)
        if not _CANARY_RELEASED.rows(connection, drop=drop, reason=CANARY_FAILED)
        if not _MAPPING_ACCEPTED.rows(connection, drop=drop, operation=operation)
        or not _is_from_known_folder(connection, drop, known_folders)
    ]


def _is_from_known_folder(connection: Connection, drop: int, known_folders: dict[str, bool]) -> bool:
    """Whether any entry from this drop's folder of the inbox was ever accepted. True for a fix file: it comes from any folder. Results
    are cached in `known_folders`.
    """
    (first,) = _FIRST_FILE.rows(connection, drop=drop)
    if first.fixes is not None:
        return True
    folder, slash, _ = first.name.partition("/")
    place = folder + slash if slash else ""
    if place not in known_folders:
        accepted = _FOLDER_ACCEPTED if place else _TOP_ACCEPTED
        given = {"folder": place, "length": len(place)} if place else {}
        known_folders[place] = bool(accepted.rows(connection, **given))
    return known_folders[place]


# what waits


class Parent(NamedTuple):
    """A create or delete on a lane: what it made of the order or tender there, and when it was planned (by its id)."""

    id: int
    operation: str
    state: State


def follow(transaction: Transaction, before: Mapping[int, PreviousState], settlements: Sequence[Settlement]) -> None:
    """Do what these settlements mean for others on their lanes: children go, or wait again; what counted on something that does not take
    place is held. `before` is what `change` returned.
    """
    _let_children_go(transaction.connection, [before[one.entry] for one in settlements if one.state is State.ACCEPTED])
    stopped = [before[one.entry] for one in settlements if one.state in (State.REFUSED, State.HELD)]
    if not stopped:
        return
    deletes = {one.lane: one.id for one in stopped if one.operation in DELETES}
    creates = {one.lane: one.id for one in stopped if one.operation in CREATES}
    ready = [row for row in _READY_ON_LANES.rows_of(transaction.connection, list(deletes)) if row.operation in CREATES]
    _hold_behind(transaction, deletes, ready, "delete")
    ready = [row for row in _READY_ON_LANES.rows_of(transaction.connection, list(creates)) if _is_upsert(row)]
    _hold_behind(transaction, creates, ready, "create")


def _let_children_go(connection: Connection, accepted: Sequence[PreviousState]) -> None:
    """Let the ready children of these accepted entries go, as far as they are creates, and keep them back, as far as they are deletes."""
    created = {one.lane: one.id for one in accepted if one.operation in CREATES}
    deleted = {one.lane: one.id for one in accepted if one.operation in DELETES}
    if not deleted and (not created or not _ANY_CHILD.rows(connection)):
        return  # nearly always: one look at nothing, and none at each lane
    children = [
        one for one in _READY_ON_LANES.rows_of(connection, [*created, *deleted]) if one.operation not in CREATES
    ]
    go = [{"entry": one.id} for one in children if one.waits and _goes(one, created)]
    back = [{"entry": one.id} for one in children if not one.waits and one.id > deleted.get(one.lane, one.id)]
    if go:
        _LET_GO.run(connection, go)
    if back:
        _KEEP_BACK.run(connection, back)


def _hold_behind(transaction: Transaction, stopped: Mapping[str, int], ready: Sequence[Any], word: str) -> None:
    """Hold what was planned behind a create or delete that does not take place (by lane): what it means then is judged anew."""
    behind = [row for row in ready if row.id > stopped[row.lane]]
    change(transaction, [_held_for_earlier(row, f"the {word} before it did not take place") for row in behind])


def _is_upsert(row: Any) -> bool:
    """Whether a ready entry is an update that would be a create if its record did not exist."""
    return row.instead is not None and row.operation not in CREATES


def _goes(child: Any, created: dict[str, int]) -> bool:
    return child.lane in created and (child.operation not in DELETES or child.id > created[child.lane])


def release(transaction: Transaction, *, orphans: bool, updating: Collection[str] = ()) -> int:
    """Let go what need not wait any more; returns how many entries that are. `orphans` may go without their order or tender;
    creates of the mappings named in `updating` become updates where their record was accepted with other content.

    A child goes when its order or tender is known to be at the exchange, and is ready again when its create is on its way. What
    waits for an earlier outcome is judged anew when no entry of its lane is open.
    """
    released = _release_children(transaction, orphans=orphans)
    return released + _judge_anew(transaction, updating, orphans=orphans)


def hold(transaction: Transaction) -> int:
    """Hold what is ready and cannot be sent: the end of a run's sending. Returns how many entries that are."""
    connection, held = transaction.connection, 0
    for rows in _waiting(connection, Waits.PARENT, State.READY):
        parents = _parents(connection, {row.lane for row in rows})
        change(transaction, [_held_for_parent(row, parents[row.lane]) for row in rows])
        held += len(rows)
    for rows in _chunks(connection, _READY_BEHIND_OPEN):
        change(transaction, [_held_for_earlier(row) for row in rows])
        held += len(rows)
    return held


def remember(transaction: Transaction, lanes: Collection[str]) -> None:
    """Record that a listing showed the orders or tenders of these lanes."""
    connection, run, now = transaction
    known = seen_lanes(connection, lanes)
    new = [{"lane": lane, "run": run.id, "now": now} for lane in sorted(lanes) if lane not in known]
    if new:
        _INSERT_SEEN.run(connection, new)


def _waiting(connection: Connection, waits: Waits, state: State) -> Iterator[Sequence[Any]]:
    """What waits so, in this state, in chunks."""
    return _chunks(connection, _WAITING, waits=waits.value, state=state.value)


def _chunks(connection: Connection, statement: Statement, **values: Any) -> Iterator[Sequence[Any]]:
    after = 0
    while rows := statement.rows(connection, **values, after=after, most=CHUNK):
        after = rows[-1].id
        yield rows


def _parents(connection: Connection, lanes: Collection[str]) -> defaultdict[str, list[Parent]]:
    """The creates and deletes of these lanes, oldest first."""
    found: defaultdict[str, list[Parent]] = defaultdict(list)
    for row in sorted(_ON_LANES.rows_of(connection, sorted(lanes))):
        if row.operation in CREATES or row.operation in DELETES:
            found[row.lane].append(Parent(row.id, row.operation, State(row.state)))
    return found


def _release_children(transaction: Transaction, *, orphans: bool) -> int:
    connection, released = transaction.connection, 0
    for state in (State.READY, State.HELD):  # in this order: what is held becomes ready when it is let go
        for rows in _waiting(connection, Waits.PARENT, state):
            lanes = {row.lane for row in rows}
            parents, shown = _parents(connection, lanes), seen_lanes(connection, lanes)
            settlements, go = [], []
            for row in rows:
                if _is_overtaken(row, parents[row.lane]):
                    continue
                family = _of_child(row, parents[row.lane])
                there = stands(((one.operation, one.state) for one in family), seen=row.lane in shown)
                if there or orphans:
                    go.append({"entry": row.id})
                if state is State.HELD and (settled := _let_in(row, family, there=there, orphans=orphans)):
                    settlements.append(settled)
            change(transaction, settlements)
            if go:
                _LET_GO.run(connection, go)
            released += len(settlements) if state is State.HELD else len(go)
    return released


def _let_in(row: Any, family: Sequence[Parent], *, there: bool, orphans: bool) -> Settlement | None:
    """How a held child is ready again, if it is: to go, or to wait for its create that is on its way."""
    if there:
        return Settlement(row.id, State.READY, f"{parent_of(row.lane)} is there")
    if orphans:
        return Settlement(row.id, State.READY, _SENT_WITHOUT.format(parent=parent_of(row.lane)))
    if any(one.operation in CREATES and one.state in _COMING for one in family):
        return Settlement(row.id, State.READY, f"waits for {parent_of(row.lane)}", waits=Waits.PARENT)
    return None


def _is_overtaken(row: Any, parents: Sequence[Parent]) -> bool:
    """Whether a delete waited until what came after it may have been created: what a listing shows now is not what it meant."""
    return row.operation in DELETES and any(
        one.id > row.id and one.operation in CREATES and one.state in _MAY_BE_MADE for one in parents
    )


def _of_child(row: Any, parents: Sequence[Parent]) -> Sequence[Parent]:
    # A delete that came before the create must not take away what was created after it.
    return [one for one in parents if one.id < row.id] if row.operation in DELETES else parents


def _judge_anew(transaction: Transaction, updating: Collection[str], *, orphans: bool) -> int:
    connection, judged = transaction.connection, 0
    policies = {row.id for row in _DROPS_OF_MAPPINGS.rows_of(connection, list(updating))}
    for rows in _waiting(connection, Waits.EARLIER, State.HELD):
        lanes = earlier_entries(connection, {row.lane for row in rows})
        shown = seen_lanes(connection, list(lanes))
        settlements, updates = [], []
        for row in rows:
            lane = lanes[row.lane]
            if any(earlier.state in BUSY for earlier in lane):
                continue
            place = next(place for place, earlier in enumerate(lane) if earlier.id == row.id)
            # beside a later create, an upsert creates nothing
            later = [one for one in lane[place + 1 :] if BY_NAME[one.operation].creates]
            changed: Changed = "update" if row.drop_id in policies else "hold"
            decision = decide(_document(row), lane[:place], changed=changed, seen=row.lane in shown, later=later)
            document, verdict = decision.document, decision.verdict
            if verdict.waits is Waits.EARLIER:
                continue  # an earlier one was given up, and is in doubt for as long as nobody decides otherwise
            if orphans and verdict.waits is Waits.PARENT and row.instead is not None:
                verdict = Verdict(State.READY, _SENT_WITHOUT.format(parent=parent_of(row.lane)))
            sent_as = {name: getattr(document, name) for name in ("operation", "payload", "content_hash")}
            lane[place : place + 1] = (
                [lane[place]._replace(state=verdict.state, **sent_as)] if verdict.stays_on_lane else []
            )
            settlements.append(_judged(row, verdict))
            if document.operation != row.operation:
                updates.append({"entry": row.id, **sent_as, "instead": _as_it_was(row)})
        if updates:
            _SEND_AS.run(connection, updates)
        change(transaction, settlements)
        judged += len(settlements)
    return judged


def _judged(row: Any, verdict: Verdict) -> Settlement:
    problems = (verdict.problem,) if verdict.problem else ()
    return Settlement(row.id, verdict.state, verdict.reason, verdict.receipt, problems, waits=verdict.waits)


def _document(row: Any) -> Document:
    """What a row was made from: of an upsert both its forms, as its mapping gave them."""
    problems = still_true(codec.decode_problems(row.problems))
    document = Document(row.operation, row.key, row.lane, row.payload, row.content_hash, (), problems)
    if row.instead is None:
        return document
    other = codec.decode_instead(row.instead)
    if BY_NAME[row.operation].creates:
        return replace(document, instead=other)
    return replace(document, **other._asdict(), instead=Instead(row.operation, row.payload, row.content_hash))


def _as_it_was(row: Any) -> bytes | None:
    """Of an upsert that is the other one now: what it was, in case it turns once more."""
    if row.instead is None:
        return None
    return codec.encode_instead(Instead(row.operation, row.payload, row.content_hash))


def _held_for_parent(row: Any, parents: Sequence[Parent]) -> Settlement:
    parent, why = parent_of(row.lane), _why(parents)
    is_upsert = row.instead is not None  # it may have to make what it waits for
    hint = _JUDGED_ANEW if is_upsert else _HINT.format(key=row.key)
    problem = Problem("L607", values={"parent": parent, "why": why}, hint=hint)
    waits = Waits.EARLIER if is_upsert else Waits.PARENT
    return Settlement(row.id, State.HELD, f"waits for {parent}: {why}", problems=(problem,), waits=waits)


def _held_for_earlier(row: Any, reason: str = "earlier outcome unknown") -> Settlement:
    problem = Problem("L602", values={"key": row.key}, hint=f"to see what is known: loadsheet resolve {row.key}")
    return Settlement(row.id, State.HELD, reason, problems=(problem,), waits=Waits.EARLIER)


def _why(parents: Sequence[Parent]) -> str:
    """Why the order or tender is not there, in words."""
    done = [one for one in parents if one.state is State.ACCEPTED]
    if done and done[-1].operation in DELETES:
        return "it was deleted"
    creates = [one for one in parents if one.operation in CREATES]
    if done:
        return "it was created after this"
    return _WHY[creates[-1].state] if creates else "it has not been sent yet"


_JUDGED_ANEW = "the next run decides whether it creates or updates"
_SENT_WITHOUT = "sent without {parent}, as the setting says"
_HINT = "it goes by itself once the other is there; to send it all the same: loadsheet retry {key}"
_WHY = {
    State.INVALID: "its sender has to fix it first",
    State.HELD: "it is held itself",
    State.READY: "it is not sent yet",
    State.SENDING: "whether it arrived is not known",
    State.UNKNOWN: "whether it arrived is not known",
    State.REFUSED: "the exchange refused it",
    State.UNCHANGED: "it waits itself",
}


# The state of another entry is an expression, so that no index of states is used: on a lane there are a few, in a state there may be all.
_MAY_BE_SENT = """
    select entries.id, entries.drop_id, entries.operation, entries.key, entries.lane, entries.payload, entries.attempts,
        mappings.batch_size
    from entries
    join drops on drops.id = entries.drop_id
    join mappings on mappings.hash = drops.mapping_hash
    where entries.state = 'ready' and entries.waits = ''
    and not exists (
        select 1 from entries other where other.lane = entries.lane and (
            other.state || '' in ('sending', 'unknown')
            or (
                other.state || '' = 'ready' and other.waits = '' and other.id < entries.id
                and (other.operation in (:operations) or other.drop_id || ' ' || other.operation in (:parts))
            )
        )
    )
"""
_NOT_LEFT_OUT = """
    and entries.operation not in (:operations) and entries.drop_id || ' ' || entries.operation not in (:parts)
    order by entries.id limit :most
"""
_OF_PART = """
    and entries.drop_id = :drop and entries.operation = :operation
    order by entries.id limit :most
"""
_READY = Statement(_MAY_BE_SENT + _NOT_LEFT_OUT)
_READY_OF_PART = Statement(_MAY_BE_SENT + _OF_PART)
_READY_PARTS = Statement("select distinct drop_id, operation from entries where state = 'ready'")
_CANARY_RELEASED = Statement(
    """
    select 1 from events join entries on entries.id = events.entry_id
    where entries.drop_id = :drop and events.after = 'held' and events.reason = :reason limit 1
    """
)
_MAPPING_ACCEPTED = Statement(
    """
    select 1 from entries join drops on drops.id = entries.drop_id
    where drops.mapping_hash = (select mapping_hash from drops where id = :drop)
    and entries.operation = :operation and entries.state = 'accepted' limit 1
    """
)
_FIRST_FILE = Statement(
    """
    select files.name, drops.fixes from files join drops on drops.id = files.drop_id
    where drops.id = :drop order by files.id limit 1
    """
)
_FOLDER_ACCEPTED = Statement(
    """
    select 1 from entries join files on files.drop_id = entries.drop_id
    where entries.state = 'accepted' and substr(files.name, 1, :length) = :folder limit 1
    """
)
_TOP_ACCEPTED = Statement(
    """
    select 1 from entries join files on files.drop_id = entries.drop_id
    where entries.state = 'accepted' and replace(files.name, '/', '') = files.name limit 1
    """
)
_WAITING = Statement(
    """
    select id, drop_id, operation, key, lane, state, payload, content_hash, problems, receipt, waits, instead
    from entries where waits = :waits and state = :state and id > :after order by id limit :most
    """
)
_READY_BEHIND_OPEN = Statement(
    """
    select id, key, lane from entries
    where state = 'ready' and waits = '' and id > :after
    and exists (select 1 from entries other where other.lane = entries.lane and other.state in ('sending', 'unknown'))
    order by id limit :most
    """
)
_DROPS_OF_MAPPINGS = Statement(
    """
    select drops.id from drops join mappings on mappings.hash = drops.mapping_hash
    where mappings.name in (:wanted)
    and exists (select 1 from entries where entries.drop_id = drops.id and entries.waits = 'earlier outcome')
    """
)
_ANY_CHILD = Statement(
    "select id from entries where state = 'ready' and waits in ('parent', 'earlier outcome') limit 1"
)
_READY_ON_LANES = Statement(
    "select id, operation, lane, key, waits, instead from entries where state = 'ready' and lane in (:wanted)"
)
_ON_LANES = Statement("select id, operation, state, lane from entries where lane in (:wanted)")
_LET_GO = Statement("update entries set waits = '' where id = :entry and state = 'ready'")
_KEEP_BACK = Statement("update entries set waits = 'parent' where id = :entry and state = 'ready'")
_SEND_AS = Statement(
    """
    update entries set operation = :operation, payload = :payload, content_hash = :content_hash, instead = :instead
    where id = :entry
    """
)
_INSERT_SEEN = Statement("insert into seen (lane, run_id, at) values (:lane, :run, :now)")
