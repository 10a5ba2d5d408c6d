"""What waits: children for their order or tender, later work for an earlier outcome. Who waits, until when, and what comes then.

Owns: when a waiting entry is held and when it is let go. A child is ready but waits while its create is on its way, and is held
once a run has ended without it; a held one that waits for an earlier outcome is judged anew when that is known. Opens no
transaction: the verbs of `Ledger` do.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, bindparam, insert, select, update

from loadsheet.contract import BY_NAME, WRITES, Action
from loadsheet.ledger import codec
from loadsheet.ledger.planning import Changed, Verdict, decide, parent_of, stands
from loadsheet.ledger.recording import known_lanes, seen_lanes
from loadsheet.ledger.schema import drops, entries, mappings, seen
from loadsheet.ledger.statements import Asked, Chosen, fixed
from loadsheet.ledger.states import Run, Settlement, State, Waits
from loadsheet.ledger.transitions import PreviousState, change, still_true
from loadsheet.mapping.documents import Document, Instead
from loadsheet.problems import Problem

CHUNK = 500
CREATES = tuple(write.name for write in WRITES if write.action is Action.CREATE)
DELETES = tuple(write.name for write in WRITES if write.action is Action.DELETE)
BUSY = (State.SENDING, State.UNKNOWN)
_COMING = (State.READY, State.SENDING)
_MAY_BE_MADE = (State.ACCEPTED, State.SENDING, State.UNKNOWN)


class Parent(NamedTuple):
    """A create or delete on a lane: what it made of the order or tender there, and when it was planned (by its id)."""

    id: int
    operation: str
    state: State


def let_children_go(connection: Connection, accepted: Sequence[PreviousState]) -> None:
    """Let the ready children of these entries go, as far as they are creates, and keep them back, as far as they are deletes:
    they were accepted.
    """
    created = {one.lane: one.id for one in accepted if one.operation in CREATES}
    deleted = {one.lane: one.id for one in accepted if one.operation in DELETES}
    if not deleted and (not created or not _ANY_CHILD.rows(connection)):
        return  # nearly always: one look at nothing, and none at each lane
    children = _CHILDREN.rows(connection, [*created, *deleted])
    go = [one for one in children if one.waits and _goes(one, created)]
    back = [one for one in children if not one.waits and one.id > deleted.get(one.lane, one.id)]
    for change_of_waits, some in ((_LET_GO, go), (_KEEP_BACK, back)):
        if some:
            connection.execute(change_of_waits, [{"entry": one.id} for one in some])


def keep_back(
    connection: Connection, run: Run, turned: Mapping[int, PreviousState], settled: Sequence[Settlement], now: str
) -> None:
    """Hold what was planned behind something that does not take place, as it was refused or is held: creates behind deletes, and upserts
    behind creates. What such a one means then is judged anew.
    """
    stopped = [turned[one.entry] for one in settled if one.state in (State.REFUSED, State.HELD)]
    for operations, counting_on, word in ((DELETES, _READY_CREATES, "delete"), (CREATES, _READY_UPSERTS, "create")):
        before = {one.lane: one.id for one in stopped if one.operation in operations}
        behind = [one for one in counting_on.rows(connection, list(before)) if one.id > before[one.lane]]
        change(
            connection, run, [_held_for_earlier(one, f"the {word} before it did not take place") for one in behind], now
        )


def _goes(child: Any, created: dict[str, int]) -> bool:
    return child.lane in created and (child.operation not in DELETES or child.id > created[child.lane])


def release(connection: Connection, run: Run, now: str, *, orphans: bool, updating: Collection[str] = ()) -> int:
    """Let go what need not wait any more; returns how many entries that are. `orphans` may go without their order or tender;
    creates of the mappings named in `updating` become updates where their record was accepted with other content.

    A child goes when its order or tender is known to be at the exchange, and is ready again when its create is on its way. What
    waits for an earlier outcome is judged anew when no entry of its lane is open.
    """
    released = _release_children(connection, run, now, orphans=orphans)
    return released + _judge_anew(connection, run, now, updating, orphans=orphans)


def hold(connection: Connection, run: Run, now: str) -> int:
    """Hold what is ready and cannot be sent: the end of a run's sending. Returns how many entries that are."""
    held = 0
    for rows in _chunks(connection, _waiting(Waits.PARENT, State.READY)):
        parents = _parents(connection, {row.lane for row in rows})
        settlements = [_held_for_parent(row, parents[row.lane]) for row in rows]
        change(connection, run, settlements, now)
        held += len(settlements)
    for rows in _chunks(connection, _BEHIND):
        settlements = [_held_for_earlier(row) for row in rows]
        change(connection, run, settlements, now)
        held += len(settlements)
    return held


def remember(connection: Connection, run: Run, lanes: Collection[str], now: str) -> None:
    """Record that a listing showed the orders or tenders of these lanes."""
    wanted = sorted(lanes)
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        known = seen_lanes(connection, part)
        new = [{"lane": lane, "run_id": run.id, "at": now} for lane in part if lane not in known]
        if new:
            connection.execute(insert(seen), new)


def _waiting(waits: Waits, state: State) -> Select[Any]:
    """What waits so, in this state; a chunk of it after the id `after`."""
    chosen = (entries.c.waits == waits) & (entries.c.state == state) & (entries.c.id > bindparam("after"))
    return select(*_COLUMNS).where(chosen).order_by(entries.c.id).limit(CHUNK)


def _chunks(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    after = 0
    while rows := connection.execute(query, {"after": after}).all():
        after = rows[-1].id
        yield rows


def _parents(connection: Connection, lanes: Collection[str]) -> defaultdict[str, list[Parent]]:
    """The creates and deletes of these lanes, oldest first."""
    found: defaultdict[str, list[Parent]] = defaultdict(list)
    for row in connection.execute(_PARENTS, {"wanted": sorted(lanes)}):
        found[row.lane].append(Parent(row.id, row.operation, State(row.state)))
    return found


def _release_children(connection: Connection, run: Run, now: str, *, orphans: bool = False) -> int:
    released = 0
    for state in (State.READY, State.HELD):  # in this order: what is held becomes ready when it is let go
        for rows in _chunks(connection, _waiting(Waits.PARENT, state)):
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
            change(connection, run, settlements, now)
            if go:
                connection.execute(_LET_GO, go)
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


def _judge_anew(connection: Connection, run: Run, now: str, updating: Collection[str], *, orphans: bool) -> int:
    judged = 0
    policies = _policies(connection, updating)
    for rows in _chunks(connection, _waiting(Waits.EARLIER, State.HELD)):
        lanes = known_lanes(connection, {row.lane for row in rows})
        shown = seen_lanes(connection, list(lanes))
        settlements, updates = [], []
        for row in rows:
            lane = lanes[row.lane]
            if any(known.state in BUSY for known in lane):
                continue
            place = next(place for place, known in enumerate(lane) if known.id == row.id)
            # beside a later create, an upsert creates nothing
            later = [known for known in lane[place + 1 :] if BY_NAME[known.operation].creates]
            changed: Changed = "update" if row.drop_id in policies else "hold"
            decision = decide(_document(row), lane[:place], changed=changed, seen=row.lane in shown, later=later)
            document, verdict = decision.document, decision.verdict
            if verdict.waits is Waits.EARLIER:
                continue  # an earlier one was given up, and is in doubt for as long as nobody decides otherwise
            if orphans and verdict.waits is Waits.PARENT and row.instead is not None:
                verdict = Verdict(State.READY, _SENT_WITHOUT.format(parent=parent_of(row.lane)))
            now_said = {name: getattr(document, name) for name in ("operation", "payload", "content_hash")}
            lane[place : place + 1] = (
                [lane[place]._replace(state=verdict.state, **now_said)] if verdict.stays_on_lane else []
            )
            settlements.append(_judged(row, verdict))
            if document.operation != row.operation:
                updates.append({"entry": row.id, **now_said, "instead": _as_it_was(row)})
        if updates:
            connection.execute(_SEND_AS, updates)
        change(connection, run, settlements, now)
        judged += len(settlements)
    return judged


def _judged(row: Any, verdict: Verdict) -> Settlement:
    problems = (verdict.problem,) if verdict.problem else ()
    return Settlement(row.id, verdict.state, verdict.reason, verdict.receipt, problems, waits=verdict.waits)


def _policies(connection: Connection, updating: Collection[str]) -> set[int]:
    """The drops whose mappings are among these."""
    return set(connection.scalars(_DROPS_OF, {"names": list(updating)})) if updating else set()


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
    return _WHY[creates[-1].state] if creates else "nobody has sent it yet"


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

# Built once: putting a statement together costs more than running it.
_COLUMNS = tuple(
    entries.c[name]
    for name in (
        *("id", "drop_id", "operation", "key", "lane", "state"),
        *("payload", "content_hash", "problems", "receipt", "waits", "instead"),
    )
)
_NAMES: BindParameter[Any] = bindparam("names", expanding=True)
_DROPS_OF = (
    select(drops.c.id)
    .join(mappings, mappings.c.hash == drops.c.mapping_hash)
    .where(
        mappings.c.name.in_(_NAMES),
        select(1).where(entries.c.drop_id == drops.c.id, entries.c.waits == Waits.EARLIER).exists(),
    )
)
_SEND_AS = (
    update(entries)
    .where(entries.c.id == bindparam("entry"))
    .values({name: bindparam(name) for name in ("operation", "payload", "content_hash", "instead")})
)
_WANTED: BindParameter[Any] = bindparam("wanted", expanding=True)
_ANY_CHILD = Asked(
    select(entries.c.id)
    .where(
        entries.c.state == State.READY.value,
        entries.c.waits.in_(fixed(Waits.PARENT.value, Waits.EARLIER.value)),
    )
    .limit(1)
)
_CHILDREN = Chosen(
    select(*(entries.c[name] for name in ("id", "operation", "lane", "waits"))).where(
        entries.c.state.in_(fixed(State.READY.value)), entries.c.operation.not_in(fixed(*CREATES))
    ),
    entries.c.lane,
)
_READY_CREATES = Chosen(
    select(*(entries.c[name] for name in ("id", "lane", "key"))).where(
        entries.c.state.in_(fixed(State.READY.value)), entries.c.operation.in_(fixed(*CREATES))
    ),
    entries.c.lane,
)
_READY_UPSERTS = Chosen(
    select(*(entries.c[name] for name in ("id", "lane", "key"))).where(
        entries.c.state.in_(fixed(State.READY.value)),
        entries.c.operation.not_in(fixed(*CREATES)),
        entries.c.instead.is_not(None),
    ),
    entries.c.lane,
)
_LET_GO = (
    update(entries)
    .where(entries.c.id == bindparam("entry"), entries.c.state == State.READY)
    .values(waits=Waits.DECISION.value)
)
_KEEP_BACK = (
    update(entries)
    .where(entries.c.id == bindparam("entry"), entries.c.state == State.READY)
    .values(waits=Waits.PARENT.value)
)
_PARENTS = (
    select(entries.c.id, entries.c.lane, entries.c.operation, entries.c.state)
    .where(entries.c.lane.in_(_WANTED), entries.c.operation.in_(CREATES + DELETES))
    .order_by(entries.c.id)
)
_others = entries.alias()
_BEHIND = (
    select(*_COLUMNS)
    .where(
        entries.c.state == State.READY,
        entries.c.waits == Waits.DECISION,
        entries.c.id > bindparam("after"),
        select(1).where(_others.c.lane == entries.c.lane, _others.c.state.in_(BUSY)).exists(),
    )
    .order_by(entries.c.id)
    .limit(CHUNK)
)
