"""Waiting entries: when a child waits for its order or tender, when an entry waits for an earlier outcome, and what ends the wait.

A child is ready but waits while its create is being sent. It is held if the run ends without that create. A held entry that waits for an
earlier outcome is judged again when that is known. A waiting delete or update that a later create has overtaken stays held: sent then, it
would undo what a newer file says. A delete would remove the newer record. An update would set fields back to older values; one of the
same file, or of one whose fix file holds the create, is no older. Opens no transaction: the methods of `Ledger` do.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from loadsheet.contract import BY_NAME, CREATES, DELETES, Action, decode_record, different_fields
from loadsheet.display_text import as_argument
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import Content, with_contents
from loadsheet.ledger.content_blocks import replace as replace_contents
from loadsheet.ledger.content_changes import MEANT
from loadsheet.ledger.ledger_tables import Statement
from loadsheet.ledger.models import WITHOUT_OUTCOME, Parent, Settlement, State, Waits
from loadsheet.ledger.planning import (
    Changed,
    DocumentContext,
    PlannedState,
    decide_again,
    parent_exists,
    parent_of,
)
from loadsheet.ledger.recording import earlier_entries, in_order, seen_lanes
from loadsheet.ledger.returned_rows import OLDER, FixFileRows, copies_of, find_returned, older_values
from loadsheet.ledger.transitions import CHUNK, PreviousState, Transaction, change_states, still_valid
from loadsheet.mapping.documents import JOINT, AlternativeForm, Document
from loadsheet.problems import Problem
from loadsheet.similar_text import lookalikes

_COMING = (State.READY, State.SENDING)
_MAY_BE_MADE = (State.ACCEPTED, State.SENDING, State.UNKNOWN)


def apply_consequences(
    transaction: Transaction, before: Mapping[int, PreviousState], settlements: Sequence[Settlement]
) -> None:
    """Apply the consequences of these settlements on their lanes: children are released or wait again, and entries that relied
    on a create or delete that failed are held. `before` is the result of `change_states`.
    """
    _update_ready_children(
        transaction.connection,
        [before[settlement.entry] for settlement in settlements if settlement.state is State.ACCEPTED],
    )
    stopped = [
        before[settlement.entry] for settlement in settlements if settlement.state in (State.REFUSED, State.HELD)
    ]
    if not stopped:
        return
    deletes = {settlement.lane: settlement.id for settlement in stopped if settlement.operation in DELETES}
    creates = {settlement.lane: settlement.id for settlement in stopped if settlement.operation in CREATES}
    ready = [row for row in _READY_ON_LANES.rows_of(transaction.connection, list(deletes)) if row.operation in CREATES]
    _hold_behind(transaction, deletes, ready, "delete")
    upserts_as_updates = [
        row
        for row in _READY_ON_LANES.rows_of(transaction.connection, list(creates))
        if row.instead is not None and row.operation not in CREATES
    ]
    _hold_behind(transaction, creates, upserts_as_updates, "create")


def _update_ready_children(connection: Connection, accepted: Sequence[PreviousState]) -> None:
    """Let the ready children of accepted creates be sent, and make the children of accepted deletes wait."""
    created = {entry.lane: entry.id for entry in accepted if entry.operation in CREATES}
    deleted = {entry.lane: entry.id for entry in accepted if entry.operation in DELETES}
    if not deleted and (not created or not _ANY_CHILD.rows(connection)):
        return  # the usual case: one query instead of one per lane
    children = [
        entry for entry in _READY_ON_LANES.rows_of(connection, [*created, *deleted]) if entry.operation not in CREATES
    ]
    waiting = [entry for entry in children if entry.waits and entry.lane in created]
    late = _overtaken(connection, waiting, _parents(connection, {entry.lane for entry in waiting}))
    released = [{"entry": entry.id} for entry in waiting if entry.id not in late]
    made_waiting = [
        {"entry": entry.id} for entry in children if not entry.waits and entry.id > deleted.get(entry.lane, entry.id)
    ]
    if released:
        _RELEASE.run(connection, released)
    if made_waiting:
        _MAKE_WAIT.run(connection, made_waiting)


def _hold_behind(transaction: Transaction, stopped: Mapping[str, int], ready: Sequence[Any], word: str) -> None:
    """Hold the entries that were planned after a failed create or delete (by lane), to be judged again."""
    behind = [row for row in ready if row.id > stopped[row.lane]]
    change_states(transaction, [_held_for_earlier(row, f"the {word} before it did not take place") for row in behind])


def release(transaction: Transaction, *, orphans: bool, updating: Collection[str] = ()) -> int:
    """Release entries that no longer need to wait. Returns their number. `orphans`: send entries without their order or tender.
    `updating`: mappings whose creates become updates if the record was accepted with other content.

    A child is released when its order or tender is at the exchange, and is ready again when its create is being sent. An entry
    that waits for an earlier outcome is judged again when no entry on its lane is open.
    """
    released = _release_children(transaction, orphans=orphans)
    return released + _judge_again(transaction, updating, orphans=orphans)


def hold_waiting(transaction: Transaction, *, only_changed: bool = False) -> int:
    """Hold ready entries that cannot be sent, at the end of a run's sending. Returns their number. Entries that were held for their
    order or tender before get a new reason if theirs no longer holds: a delete whose order was created since. `only_changed`: not on lanes
    without their order or tender that the run did not change, because the ledger lacks those with similar numbers.
    """
    connection, held = transaction.connection, 0
    changed = {row.lane for row in _CHANGED_LANES.rows(connection, run=transaction.run.id)} if only_changed else None
    for rows, settlements in _with_reasons(connection, State.HELD):
        known = ([(old.text, old.hint) for old in codec.decode_problems(row.problems)] for row in rows)
        found = zip(rows, settlements, known, strict=True)
        if changed is not None:
            changed |= _parents(connection, {row.lane for row in rows}).keys()
        change_states(
            transaction,
            [
                settlement
                for row, settlement, known_texts in found
                if any((new.text, new.hint) not in known_texts for new in settlement.problems)
                and (changed is None or row.lane in changed)
            ],
        )
    for rows, settlements in _with_reasons(connection, State.READY):
        change_states(transaction, settlements)
        held += len(rows)
    for rows in _chunks(connection, _READY_BEHIND_OPEN):
        change_states(transaction, [_held_for_earlier(row) for row in rows])
        held += len(rows)
    return held


def _with_reasons(connection: Connection, state: State) -> Iterator[tuple[Sequence[Any], Sequence[Settlement]]]:
    """The entries in this state that wait for their order or tender, and the settlements that hold them and say why, in chunks."""
    for rows in _waiting(connection, Waits.PARENT, state):
        parents = _parents(connection, {row.lane for row in rows})
        because = _faults(connection, {row.lane for row in rows})
        unknown = {
            lane for lane in {row.lane for row in rows} - because.keys() if not any(map(_was_there, parents[lane]))
        }
        near = _near_parents(connection, unknown)
        late = _overtaken(connection, rows, parents)
        yield (
            rows,
            [
                _held_as_overtaken(row)
                if row.id in late
                else _held_for_parent(row, _waits_for(row, parents[row.lane], near, because.get(row.lane)))
                for row in rows
            ],
        )


def record_seen(transaction: Transaction, lanes: Collection[str]) -> None:
    """Record that a listing showed the orders or tenders of these lanes."""
    connection, run, now = transaction
    known = seen_lanes(connection, lanes)
    new = [{"lane": lane, "run": run.id, "now": now} for lane in sorted(lanes) if lane not in known]
    if new:
        _INSERT_SEEN.run(connection, new)


def _waiting(connection: Connection, waits: Waits, state: State) -> Iterator[Sequence[Any]]:
    """The entries in this state that wait for this, in chunks."""
    return _chunks(connection, _WAITING, waits=waits.value, state=state.value)


def _chunks(connection: Connection, statement: Statement, **values: Any) -> Iterator[Sequence[Any]]:
    after = 0
    while rows := statement.rows(connection, **values, after=after, most=CHUNK):
        after = rows[-1].id
        yield rows


def _parents(connection: Connection, lanes: Collection[str]) -> defaultdict[str, list[Parent]]:
    """The creates and deletes of these lanes, oldest first (see `in_order`)."""
    by_lane: defaultdict[str, list[Parent]] = defaultdict(list)
    for row in in_order(_ON_LANES.rows_of(connection, sorted(lanes))):
        if row.operation in CREATES or row.operation in DELETES:
            by_lane[row.lane].append(Parent(row.id, row.operation, State(row.state)))
    return by_lane


def _release_children(transaction: Transaction, *, orphans: bool) -> int:
    connection, released, fixes = transaction.connection, 0, FixFileRows()
    for state in (State.READY, State.HELD):  # in this order: a released held entry becomes ready
        for rows in _waiting(connection, Waits.PARENT, state):
            lanes = {row.lane for row in rows}
            parents, shown = _parents(connection, lanes), seen_lanes(connection, lanes)
            late = _overtaken(connection, rows, parents, soon=True)
            corrected = fixes.corrected(connection, {row.id for row in rows}) if state is State.HELD else set()
            change_states(transaction, [_held_as_older(row) for row in rows if row.id in corrected])
            settlements, go = [], []
            for row in rows:
                if row.id in late or row.id in corrected:
                    continue
                family: Sequence[Parent] = parents[row.lane]
                if row.operation in DELETES:  # planned before the create, it must not delete the created record
                    family = [parent for parent in family if parent.id < row.id]
                there = parent_exists(
                    ((parent.operation, parent.state) for parent in family), is_listed=row.lane in shown
                )
                if there or orphans:
                    go.append({"entry": row.id})
                if state is State.HELD and (settled := _made_ready(row, family, there=there, orphans=orphans)):
                    settlements.append(settled)
            change_states(transaction, settlements)
            if go:
                _RELEASE.run(connection, go)
            released += len(settlements) if state is State.HELD else len(go)
    return released


def _made_ready(row: Any, family: Sequence[Parent], *, there: bool, orphans: bool) -> Settlement | None:
    """The settlement that makes a held child ready: to be sent, or to wait for its create that is being sent. Else None."""
    if there:
        return Settlement(row.id, State.READY, f"{parent_of(row.lane)} is at the exchange")
    if orphans:
        return Settlement(row.id, State.READY, _SENT_WITHOUT.format(parent=parent_of(row.lane)))
    if any(parent.operation in CREATES and parent.state in _COMING for parent in family):
        return Settlement(row.id, State.READY, f"waits for {parent_of(row.lane)}", waits=Waits.PARENT)
    return None


def _judge_again(transaction: Transaction, updating: Collection[str], *, orphans: bool) -> int:
    """Judge entries again whose lane has no unknown outcome any more. Returns the number of those that got a new state. Each counts for
    the later ones on its lane.
    """
    connection, judged, fixes = transaction.connection, 0, FixFileRows()
    together = [row.name for row in _JOINT_MAPPINGS.rows(connection, joint=f"%{JOINT}%")] if updating else []
    updating = [*updating, *(name for name in together if not set(updating).isdisjoint(name.split(JOINT)))]
    policies = {row.id for row in _DROPS_OF_MAPPINGS.rows_of(connection, updating)}
    for rows in _waiting(connection, Waits.EARLIER, State.HELD):
        lanes = earlier_entries(connection, {row.lane for row in rows})
        shown = seen_lanes(connection, list(lanes))
        copies = copies_of(connection, {row.drop_id for row in rows})
        settlements, updates, contents = [], [], {}
        found = list(with_contents(connection, rows))
        documents = [_document(row, content) for row, content in found]
        returned = find_returned(connection, documents, [copies[row.drop_id] for row in rows], fixes)
        for (row, content), given, same in zip(found, documents, returned, strict=True):
            lane = lanes[row.lane]
            if any(earlier.state in WITHOUT_OUTCOME for earlier in lane):
                continue
            place = next(place for place, earlier in enumerate(lane) if earlier.id == row.id)
            # if a create follows later, an upsert creates nothing
            later = [entry for entry in lane[place + 1 :] if BY_NAME[entry.operation].creates]
            known = DocumentContext(row.lane in shown, copies[row.drop_id], "", same)
            changed: Changed = "update" if row.drop_id in policies else "hold"
            document, planned, _ = decide_again(given, lane[:place], known, later=later, changed=changed)
            if planned.waits is Waits.EARLIER:
                continue  # an earlier entry was abandoned: its outcome is unknown until a person decides
            if orphans and planned.waits is Waits.PARENT and row.instead is not None:
                planned = PlannedState(State.READY, _SENT_WITHOUT.format(parent=parent_of(row.lane)))
            sent_as = {name: getattr(document, name) for name in ("operation", "payload", "content_hash")}
            lane[place : place + 1] = (
                [lane[place]._replace(state=planned.state, **sent_as)] if planned.stays_on_lane else []
            )
            settlements.append(_judged(row, planned))
            if (document.operation, document.payload) != (row.operation, content.payload):
                previous = AlternativeForm(row.operation, content.payload, row.content_hash)  # in case it changes back
                instead = None if row.instead is None else codec.encode_alternative(previous)
                updates.append({"entry": row.id, **sent_as, "instead": instead})
                contents[row.id] = content._replace(payload=document.payload)
        if updates:
            _SEND_AS.run(connection, updates)
            replace_contents(connection, contents)
        change_states(transaction, settlements)
        judged += len(settlements)
    return judged


def _judged(row: Any, planned: PlannedState) -> Settlement:
    return Settlement(
        row.id, planned.state, planned.reason, planned.service_order, planned.problems, waits=planned.waits
    )


def _document(row: Any, content: Content) -> Document:
    """The document of a row and its contents, with both forms of an upsert as the mapping produced them."""
    problems = still_valid(codec.decode_problems(row.problems))
    payload, cells, links = content.payload, codec.decode_rows(content.rows), codec.decode_links(row.items)
    document = Document(row.operation, row.key, row.lane, payload, row.content_hash, cells, problems, links)
    if row.instead is None:
        return document
    other = codec.decode_alternative(row.instead)
    if BY_NAME[row.operation].creates:
        return replace(document, alternative=other)
    return replace(document, **other._asdict(), alternative=AlternativeForm(row.operation, payload, row.content_hash))


def _faults(connection: Connection, lanes: Collection[str]) -> dict[str, Problem]:
    """Why the creates of these lanes are invalid: by lane, the problem that the first error of the latest one follows from, or that error."""
    found: dict[str, Problem] = {}
    for row in sorted(_INVALID_ON_LANES.rows_of(connection, sorted(lanes))):
        errors = [problem for problem in codec.decode_problems(row.problems) if problem.level == "error"]
        if row.operation in CREATES and errors:
            found[row.lane] = replace(errors[0].because or errors[0], hint="", also=(), because=None)
    return found


def _near_parents(connection: Connection, lanes: Collection[str]) -> dict[str, str]:
    """For lanes without an order or tender: the key of the only one whose key looks like theirs."""
    meant: defaultdict[str, list[str]] = defaultdict(list)
    for lane in lanes:
        subject, _, key = lane.partition(":")
        for other in lookalikes(key):
            meant[f"{subject}:{other}"].append(lane)
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for other, entries in _parents(connection, meant).items():
        for lane in meant[other] if any(entry.operation in CREATES for entry in entries) else ():
            keys[lane].add(other.partition(":")[2])
    return {lane: found.pop() for lane, found in keys.items() if len(found) == 1}


def _was_there(parent: Parent) -> bool:
    return parent.operation in CREATES or parent.state is State.ACCEPTED


def _waits_for(row: Any, parents: Sequence[Parent], near: Mapping[str, str], because: Problem | None) -> Problem:
    """The problem of an entry whose order or tender is not there. `near`: by lane, the key of the one that may be meant."""
    hint = _HINT.format(key=as_argument(row.key)) if row.instead is None else _JUDGED_AGAIN
    meant = near.get(row.lane, "")
    values = {"parent": parent_of(row.lane), "why": _why(parents)}
    if meant:
        return Problem("L607", values={**values, MEANT: meant}, hint=f"did you mean {meant}?", because=because)
    return Problem("L607", values=values, hint=hint, because=because)


def _held_as_overtaken(row: Any) -> Settlement:
    """The settlement that holds an entry that a later create has overtaken. Even an upsert waits for a person then."""
    harm = "delete the newer record" if row.operation in DELETES else "undo values of the newer record"
    values = {"parent": parent_of(row.lane), "why": _CREATED_AFTER}
    problem = Problem("L607", values=values, hint=_OVERTAKEN.format(harm=harm, key=as_argument(row.key)))
    return Settlement(row.id, State.HELD, problem.text, problems=(problem,), waits=Waits.PARENT)


def _held_as_older(row: Any) -> Settlement:
    """The settlement that holds an entry whose row came back in a fix file with other cells: it must not follow when its parent comes."""
    return Settlement(row.id, State.HELD, OLDER, problems=(older_values(row.key),))


def _held_for_parent(row: Any, problem: Problem) -> Settlement:
    waits = Waits.PARENT if row.instead is None else Waits.EARLIER  # an upsert may have to create what it waits for
    return Settlement(row.id, State.HELD, problem.text, problems=(problem,), waits=waits)


def _held_for_earlier(row: Any, reason: str = "earlier outcome unknown") -> Settlement:
    problem = Problem(
        "L602", values={"key": row.key}, hint=f"to see what is known: loadsheet resolve {as_argument(row.key)}"
    )
    return Settlement(row.id, State.HELD, reason, problems=(problem,), waits=Waits.EARLIER)


def _why(parents: Sequence[Parent]) -> str:
    """The reason why the order or tender is not at the exchange, in words."""
    done = [parent for parent in parents if parent.state is State.ACCEPTED]
    if done and done[-1].operation in DELETES:
        return "it was deleted"
    creates = [parent for parent in parents if parent.operation in CREATES]
    if done:
        return _CREATED_AFTER
    return _WHY[creates[-1].state] if creates else "it has not been sent yet"


def _overtaken(
    connection: Connection, rows: Sequence[Any], parents: Mapping[str, Sequence[Parent]], *, soon: bool = False
) -> set[int]:
    """The entries among these that a later create of their lane has overtaken. `parents` are the creates and deletes by lane. `soon`:
    updates that a create will overtake once it is sent count too.
    """
    found: set[int] = set()
    updates: dict[int, int] = {}
    for row in rows:
        action = BY_NAME[row.operation].action
        if action not in (Action.DELETE, Action.UPDATE):
            continue
        states = (*_MAY_BE_MADE, State.READY) if soon and action is Action.UPDATE else _MAY_BE_MADE
        made = [
            parent.id
            for parent in parents.get(row.lane, ())
            if BY_NAME[parent.operation].creates and parent.state in states and parent.id > row.id
        ]
        if made and action is Action.DELETE:
            found.add(row.id)
        elif made:
            updates[row.id] = made[-1]
    return found | _undoing(connection, updates) if updates else found


def _undoing(connection: Connection, updates: Mapping[int, int]) -> set[int]:
    """The updates whose create (by update) came in a newer file and has other values in the same fields."""
    rows = _CONTENTS.rows_of(connection, sorted({*updates, *updates.values()}))
    known = {row.id: (row, content.payload) for row, content in with_contents(connection, rows)}
    fixed = {row.id: row.fixes for row in _FIXES.rows(connection)}
    undoing = set()
    for update, create in updates.items():
        (own, before), (later, after) = known[update], known[create]
        drop = later.drop_id
        while drop in fixed:
            drop = fixed[drop]
        if drop > own.drop_id and _differ(own.operation, before, after):
            undoing.add(update)
    return undoing


def _differ(operation: str, before: bytes, after: bytes) -> bool:
    """Whether two JSON records have different values in a field that both have. True if the contents of one were removed."""
    if not before or not after:
        return True
    old, new = decode_record(before), decode_record(after)
    shared = {name: value for name, value in old.items() if name in new}
    return bool(different_fields(BY_NAME[operation].record, shared, new))


_JUDGED_AGAIN = "the next run decides whether it creates or updates"
_SENT_WITHOUT = "sent without {parent}, as the settings allow"
_HINT = "sent automatically once the other is at the exchange; to send it now: loadsheet retry {key}"
_CREATED_AFTER = "it was created after this"
_OVERTAKEN = "not sent automatically, because it would {harm}; to send it now: loadsheet retry {key}"
_WHY = {
    State.INVALID: "the sender must fix it first",
    State.HELD: "it is held too",
    State.READY: "it has not been sent yet",
    State.SENDING: "its outcome is unknown",
    State.UNKNOWN: "its outcome is unknown",
    State.REFUSED: "the exchange refused it",
    State.UNCHANGED: "it waits too",
}


_WAITING = Statement(
    """
    select id, drop_id, operation, key, lane, state, payload, rows, content_hash, items, problems, receipt, waits, instead
    from entries where waits = :waits and state = :state and id > :after order by id limit :most
    """
)
_CHANGED_LANES = Statement(
    "select distinct lane from entries join events on events.entry_id = entries.id where events.run_id = :run"
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
_JOINT_MAPPINGS = Statement("select distinct name from mappings where name like :joint")
_ANY_CHILD = Statement(
    "select id from entries where state = 'ready' and waits in ('parent', 'earlier outcome') limit 1"
)
_READY_ON_LANES = Statement(
    "select id, operation, lane, key, waits, instead from entries where state = 'ready' and lane in (:wanted)"
)
_ON_LANES = Statement("select id, operation, state, lane, changed_at from entries where lane in (:wanted)")
_INVALID_ON_LANES = Statement(
    "select id, operation, lane, problems from entries where state || '' = 'invalid' and lane in (:wanted)"
)
_RELEASE = Statement("update entries set waits = '' where id = :entry and state = 'ready'")
_MAKE_WAIT = Statement("update entries set waits = 'parent' where id = :entry and state = 'ready'")
_SEND_AS = Statement(
    """
    update entries set operation = :operation, content_hash = :content_hash, instead = :instead where id = :entry
    """
)
_INSERT_SEEN = Statement("insert into seen (lane, run_id, at) values (:lane, :run, :now)")
_CONTENTS = Statement("select id, drop_id, operation, payload, rows from entries where id in (:wanted)")
_FIXES = Statement("select id, fixes from drops where fixes < id")
