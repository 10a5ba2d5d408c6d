"""Judges a new document by the entries on its lane: pure decisions, no SQL.

The ledger, not the file, decides what is sent: the same file, a renamed copy and a merged file are planned the same way.
Owns: what counts as the same content, as a change, and as a parent order or tender at the exchange.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, Action, When, update_of
from loadsheet.display_text import as_argument
from loadsheet.ledger.content_changes import (
    OTHER_VERSION,
    TO_CLEAR,
    changed_values,
    fields_in,
    left_out,
    not_cleared,
    other_zone,
    recognized,
    sender_in,
    sets_other_fields,
    shortened,
)
from loadsheet.ledger.models import EarlierEntry, State, Waits
from loadsheet.ledger.returned_rows import CONTRADICTED, NOT_RETURNED, OLDER, Returned, older_values
from loadsheet.mapping.documents import AlternativeForm, Document
from loadsheet.problems import Problem

Changed = Literal["hold", "update"]
"""The mapping's treatment of a create whose record was accepted before with other content."""

ALREADY = "already with the exchange"
OTHER_SENDER = "another sender has this number"
DELETED = "deleted since it was accepted"
OTHER_ZONE = "its record has another time zone"

_WAITING_AS = re.compile(r"already waiting as entry (\d+)")

ON_LANE = (State.READY, State.SENDING, State.ACCEPTED, State.REFUSED, State.UNKNOWN)
"""States of the entries by which a new document of their lane is judged. Held entries that wait for an outcome or a parent count too."""

_MADE = (State.ACCEPTED, State.READY)
_REPLACING = (Action.CREATE, Action.UPDATE, Action.DELETE)
_SETTING = (Action.CREATE, Action.UPDATE)


class PlannedState(NamedTuple):
    """The state of a planned document, the reason, and additional problems."""

    state: State
    reason: str = ""
    problems: tuple[Problem, ...] = ()
    service_order: str = ""
    waits: Waits = Waits.DECISION

    @property
    def stays_on_lane(self) -> bool:
        """Whether this entry counts when later documents of the lane are planned."""
        return self.state in ON_LANE or (self.state is State.HELD and bool(self.waits))


class PlanningDecision(NamedTuple):
    """The document as it is sent, its planned state, and the unused form of an upsert while that may still change (see `kept_alternative`)."""

    document: Document
    planned: PlannedState
    alternative: AlternativeForm | None = None


_NEW = PlannedState(State.READY)
"""The planned state if the lane is empty, the usual case."""


def decide(
    given: Document,
    lane: Sequence[EarlierEntry],
    *,
    changed: Changed,
    is_listed: bool,
    later: Sequence[EarlierEntry] = (),
) -> PlanningDecision:
    """The decision on a document that is planned or judged again. `lane` holds the entries on its lane, oldest first.
    `is_listed`: a listing showed the lane's order or tender. `changed`: the treatment of a create whose record was accepted with other
    content. `later` are creates planned after the document, which matter only for the form of an upsert.
    """
    document = with_operation(given, [*lane, *later] if later else lane, is_listed=is_listed)
    if changed == "update":
        document = as_update(document, lane)
    return PlanningDecision(document, planned_state(document, lane, is_listed=is_listed))


class DocumentContext(NamedTuple):
    """What is known of a new document besides its lane. `is_listed`: a listing showed the lane's order or tender. `copies` are the earlier
    drops with the same bytes as its own (see `copies_of`). `newer` is the file of the same run that arrived later and holds its record,
    `zone` the time zone of its times; empty: none, or unknown. `fields` are those that its mapping can fill.
    """

    is_listed: bool
    copies: Mapping[int, bool]
    newer: str
    returned: Returned
    zone: str = ""
    fields: Collection[str] | None = None


def decide_new(
    given: Document, lane: Sequence[EarlierEntry], known: DocumentContext, *, changed: Changed
) -> PlanningDecision:
    """The decision on a document that was just read. It has the hash of an earlier entry with the same content (see `recognized`)."""
    own = recognized(given, lane)
    decision = decide(own, lane, changed=changed, is_listed=known.is_listed)
    decision = with_update_warnings(decision, own, lane, known.fields)
    decision = held_for_other_sender(decision, own, lane, is_listed=known.is_listed)
    decision = held_if_outdated(decision, own, lane, known.copies, known.returned)
    decision = held_if_newer_file_has_it(decision, known.newer)
    decision = held_if_time_zone_differs(decision, own, lane, known.zone)
    decision = with_run_times_as_sent(decision, lane)
    return decision._replace(alternative=kept_alternative(own, decision, lane))


def decide_again(
    given: Document,
    lane: Sequence[EarlierEntry],
    known: DocumentContext,
    *,
    later: Sequence[EarlierEntry],
    changed: Changed,
) -> PlanningDecision:
    """Like `decide_new`, for an entry that waited for an earlier outcome; `later` are the creates planned after it. Not judged again: what
    another file of its run holds, and its time zone.
    """
    decision = decide(given, lane, changed=changed, is_listed=known.is_listed, later=later)
    decision = with_update_warnings(decision, given, lane, known.fields)
    decision = held_for_other_sender(decision, given, lane, is_listed=known.is_listed)
    decision = held_if_outdated(decision, given, lane, known.copies, known.returned)
    return with_run_times_as_sent(decision, lane)


def with_update_warnings(
    decision: PlanningDecision, given: Document, lane: Sequence[EarlierEntry], fields: Collection[str] | None = None
) -> PlanningDecision:
    """Warn of what a document that is sent as an update leaves as it was, or removes. `fields` are those that its mapping can fill (None: all):
    others are not blank in its sheet.
    """
    document, planned = decision.document, decision.planned
    if planned.state is not State.READY or not lane or BY_NAME[document.operation].action is not Action.UPDATE:
        return decision
    versions = [one.payload for one in _versions(given, _since_delete(lane)) if one.state in _MADE]
    is_version = document.operation != given.operation and versions
    blank = not_cleared(document, versions[-1], given.payload, fields) if is_version else None
    found = (shortened(document, _sent(document, lane)), blank)
    return decision._replace(planned=planned._replace(problems=tuple(filter(None, found))))


def with_run_times_as_sent(decision: PlanningDecision, lane: Sequence[EarlierEntry]) -> PlanningDecision:
    """Give an unchanged document the run times as they were sent (none if those contents were removed): the exchange's record is compared
    with them.
    """
    document, names = decision.document, decision.document.links.times_of_run
    if decision.planned.state is not State.UNCHANGED or not names:
        return decision
    equal = (fields_in(one.payload) for one in reversed(lane) if _equal(document, one) and one.key == document.key)
    before = next(equal, {})
    own = {name: before.get(name) if name in names else value for name, value in fields_in(document.payload).items()}
    payload = msgspec.json.encode({name: value for name, value in own.items() if value is not None})
    return decision._replace(document=replace(document, payload=payload))


def held_if_outdated(
    decision: PlanningDecision,
    given: Document,
    lane: Sequence[EarlierEntry],
    copies: Mapping[int, bool],
    returned: Returned = NOT_RETURNED,
) -> PlanningDecision:
    """Hold a document whose file is an old one and would undo a later change, which only a person can want. `copies` are the earlier drops with
    the same bytes. The document is outdated if something else changed its record since the first of them that had this content, or that
    another version of the mapping read, or since the entry whose rows came back as they were. If only later rows of the same drops changed
    it, the document is unchanged.
    """
    document = decision.document
    is_deleted = decision.planned.reason == DELETED
    if not (copies or returned.uncorrected) or not (decision.planned.state is State.READY or is_deleted):
        return decision
    forms = {form.content_hash for form in (document, given, given.alternative) if form is not None}
    family = _family(document, lane)
    came = [earlier for earlier in family if earlier.drop in copies]
    same = [earlier.id for earlier in came if copies[earlier.drop] or earlier.content_hash in forms]
    first = min(filter(None, [*same, returned.uncorrected, returned.repeated]), default=0)
    since = (earlier for earlier in _since(first, family) if earlier.state is not State.REFUSED)
    is_older = first and any(earlier.drop not in copies for earlier in since)
    if not (is_older or returned.overruled):
        sent = next((one for one in came if one.state is State.ACCEPTED and one.content_hash in forms), None)
        own = given if sent and _equal(given, sent) else document
        return decision if sent is None else PlanningDecision(own, _judge_equal(own, sent))
    if is_deleted:
        return decision
    return decision._replace(planned=PlannedState(State.HELD, OLDER, (older_values(document.key),)))


def _since(entry: int, family: Sequence[EarlierEntry]) -> Sequence[EarlierEntry]:
    """What was planned after this entry, or accepted after it."""
    places = [place for place, earlier in enumerate(family) if earlier.id == entry]
    return family[places[0] + 1 :] if places else [earlier for earlier in family if earlier.id > entry]


def held_for_other_sender(
    decision: PlanningDecision, given: Document, lane: Sequence[EarlierEntry], *, is_listed: bool
) -> PlanningDecision:
    """Hold a create or upsert (`given`) with the number of another sender's record, which it would overwrite. An update of some fields makes
    nobody the sender of the record: it may come from another party. One that waits for the record does not show that it exists.
    """
    document = decision.document
    is_other_version = any(problem.code in OTHER_VERSION for problem in decision.planned.problems)
    is_new = BY_NAME[given.operation].creates or given.alternative is not None
    if not is_new or (decision.planned.state is not State.READY and not is_other_version):
        return decision
    alive = _since_delete(lane)
    setting = [earlier for earlier in alive if BY_NAME[earlier.operation].action in _SETTING]
    exists = is_listed and alive is lane  # else it was deleted since
    exists = exists or any(earlier.state is State.ACCEPTED or earlier.has_unknown_outcome for earlier in setting)
    versions = _versions(given, alive) or (setting if exists else [])
    standing = [earlier for earlier in versions if earlier.state is not State.REFUSED]
    senders = list(filter(None, (sender_in(earlier.payload or earlier.figures) for earlier in standing)))
    own = sender_in(document.payload)
    if not own or not senders or own in senders:
        return decision
    hint = f"if both mean one record, to send it all the same: loadsheet retry {as_argument(document.key)}"
    problem = Problem("L622", values={"key": document.key, "other": senders[0]}, hint=hint)
    return decision._replace(planned=PlannedState(State.HELD, OTHER_SENDER, (problem,)))


def held_if_newer_file_has_it(decision: PlanningDecision, newer: str) -> PlanningDecision:
    """Hold the delete of a record that the file `newer` of the same run still has (empty: none has). Deletes are taken last, so the older
    file would win.
    """
    document = decision.document
    if not newer or decision.planned.state is not State.READY or not is_delete(document):
        return decision
    hint = f"to delete it all the same: loadsheet retry {as_argument(document.key)}"
    problem = Problem("L620", values={"key": document.key, "file": newer}, hint=hint)
    return decision._replace(planned=PlannedState(State.HELD, CONTRADICTED, (problem,)))


def held_if_time_zone_differs(
    decision: PlanningDecision, given: Document, lane: Sequence[EarlierEntry], zone: str
) -> PlanningDecision:
    """Hold an update of some times of a record with another time zone than `zone`, or than the one that the update itself names: the exchange
    keeps one zone for all times of a record. A new version gives all of them.
    """
    document = decision.document
    is_new_state = decision.planned.state is State.READY and document.operation == given.operation
    if not is_new_state or BY_NAME[document.operation].action is not Action.UPDATE:
        return decision
    problem = other_zone(document, zone, _sent(document, lane))
    return decision if problem is None else decision._replace(planned=PlannedState(State.HELD, OTHER_ZONE, (problem,)))


def is_delete(one: Document | EarlierEntry) -> bool:
    """Whether it deletes its record."""
    return BY_NAME[one.operation].action is Action.DELETE


def planned_state(document: Document, lane: Sequence[EarlierEntry], *, is_listed: bool = False) -> PlannedState:
    """The planned state of one document. `lane` holds the entries on its lane, oldest first. `is_listed`: a listing showed the lane's order
    or tender.
    """
    if not document.usable:
        return PlannedState(State.INVALID, "it has problems that the sender must fix")
    planned = _judge(document, lane) if lane else _NEW
    if planned.state is not State.READY or BY_NAME[document.operation].creates:
        return planned
    if parent_exists(((earlier.operation, earlier.state) for earlier in lane), is_listed=is_listed):
        return planned
    return planned._replace(reason=f"waits for {parent_of(document.lane)}", waits=Waits.PARENT)


def as_update(document: Document, lane: Sequence[EarlierEntry]) -> Document:
    """The update in place of a create whose record was accepted, or is ready to be sent, with other content.

    Returns any other document unchanged, also a create while an outcome on its lane is unknown.
    """
    updating = update_of(BY_NAME[document.operation])
    if not document.usable or updating is None:
        return document
    family = [earlier for earlier in _since_delete(lane) if earlier.operation in (document.operation, updating.name)]
    standing = [earlier for earlier in family if earlier.state is not State.REFUSED]
    made = any(earlier.operation == document.operation and earlier.state in _MADE for earlier in standing)
    if not made or any(earlier.has_unknown_outcome for earlier in standing):
        return document
    same = standing[-1].content_hash == document.content_hash and standing[-1].operation == document.operation
    return document if same else replace(document, operation=updating.name)


def with_operation(document: Document, lane: Sequence[EarlierEntry], *, is_listed: bool = False) -> Document:
    """The document with the operation of its upsert: update if the record exists, else create. If the content equals the record's
    last change, it keeps that change's operation, so that it counts as unchanged. Updates that wait for the record do not show that it
    exists.
    """
    if document.alternative is None:
        return document
    alive = _since_delete(lane)
    standing = [
        earlier
        for earlier in alive
        if earlier.state is not State.REFUSED and BY_NAME[earlier.operation].action in _SETTING
    ]
    exists = (is_listed and alive is lane) or any(
        BY_NAME[earlier.operation].creates or earlier.state is State.ACCEPTED or earlier.has_unknown_outcome
        for earlier in standing
    )
    if not standing or not exists:
        return document
    last = standing[-1]
    if (last.operation, last.content_hash) == (document.operation, document.content_hash):
        return document
    return replace(document, **document.alternative._asdict(), alternative=None)


def kept_alternative(
    given: Document, decision: PlanningDecision, lane: Sequence[EarlierEntry]
) -> AlternativeForm | None:
    """The unused form of an upsert (see `with_operation`), or the create that was sent as an update, while an outcome on its lane may still
    require it, or a person who releases it after a delete. Else None.
    """
    document = decision.document
    if decision.planned.state is not State.HELD and all(one.state in (State.ACCEPTED, State.REFUSED) for one in lane):
        return None
    if document.alternative is not None or document.operation == given.operation:
        return document.alternative
    return AlternativeForm(given.operation, given.payload, given.content_hash)


def parent_exists(lane: Iterable[tuple[str, State]], *, is_listed: bool) -> bool:
    """Whether the order or tender of a lane is at the exchange. `lane` holds operations with their states, oldest first. `is_listed`:
    a listing showed it.
    """
    there = is_listed
    for operation, state in lane:
        action = BY_NAME[operation].action
        if state is State.ACCEPTED and action in (Action.CREATE, Action.DELETE):
            there = action is Action.CREATE
    return there


def waits_as(reason: str) -> int:
    """The id of the entry that an unchanged one repeats, from its reason, if that entry was not yet accepted. Else 0."""
    found = _WAITING_AS.fullmatch(reason)
    return int(found[1]) if found else 0


def parent_of(lane: str) -> str:
    """The order or tender of a lane in words: `order SO-1`."""
    return lane.replace(":", " ", 1)


def _judge(document: Document, lane: Sequence[EarlierEntry]) -> PlannedState:
    operation = BY_NAME[document.operation]
    if operation.repeatable and not document.links.times_of_run:  # else one that repeats the last is the same
        return _judge_by_content(document, _same(document, lane))
    if operation.action is Action.CREATE:
        if deletes := [earlier for earlier in lane if is_delete(earlier) and earlier.has_unknown_outcome]:
            return _in_doubt(document, deletes)  # the earlier record may still exist
        return _judge_create(document, lane)
    return _judge_latest(document, _family(document, lane))


def _family(document: Document, lane: Sequence[EarlierEntry]) -> list[EarlierEntry]:
    """The earlier entries that the document replaces, or that replace each other like it. A delete takes quotes and decisions along."""
    operation = BY_NAME[document.operation]
    if operation.action in _REPLACING:
        return [earlier for earlier in lane if BY_NAME[earlier.operation].action in _REPLACING]
    same = _same(document, lane)
    return same if operation.repeatable else [one for one in lane if one in same or _has_deleted(one)]


def _same(document: Document, lane: Sequence[EarlierEntry]) -> list[EarlierEntry]:
    return [earlier for earlier in lane if earlier.operation == document.operation and earlier.key == document.key]


def _versions(document: Document, lane: Sequence[EarlierEntry]) -> list[EarlierEntry]:
    """The earlier entries that set the whole record: its creates, and later updates with every field of the create, or every one that only
    creates require (fields may be blank now). If there is none of those, or contents were removed, the mapping decides.
    """
    updates = getattr(update_of(BY_NAME[document.operation]), "name", "")
    required = {field.name for field in BY_NAME[document.operation].record.fields if field.when is When.ON_CREATE}
    versions: list[EarlierEntry] = []
    created: set[str] | None = None
    for earlier in lane:
        if earlier.key != document.key:
            continue
        if earlier.operation == document.operation:
            created = set(fields_in(earlier.payload))
            versions.append(earlier)
        elif earlier.operation == updates and created is not None and _sets_all(earlier, created, required):
            versions.append(earlier)
    return versions


def _sets_all(update: EarlierEntry, created: set[str], required: set[str]) -> bool:
    names = set(fields_in(update.payload))
    return (required <= names if required and names else update.is_whole) or (bool(created) and created <= names)


def _since_delete(lane: Sequence[EarlierEntry]) -> Sequence[EarlierEntry]:
    deletes = [place for place, earlier in enumerate(lane) if _has_deleted(earlier)]
    return lane[deletes[-1] + 1 :] if deletes else lane


def _has_deleted(earlier: EarlierEntry) -> bool:
    return is_delete(earlier) and earlier.state in _MADE


def _judge_by_content(document: Document, same: Sequence[EarlierEntry]) -> PlannedState:
    for earlier in reversed(same):
        if earlier.content_hash == document.content_hash and earlier.state is not State.REFUSED:
            return _judge_equal(document, earlier)
    return PlannedState(State.READY)


def _judge_create(document: Document, lane: Sequence[EarlierEntry]) -> PlannedState:
    same = _versions(document, _since_delete(lane))
    standing = [earlier for earlier in same if earlier.state is not State.REFUSED]
    if standing:
        last = standing[-1]
        equal = last.content_hash == document.content_hash
        doubts = [earlier for earlier in standing if earlier.has_unknown_outcome]
        if doubts and not (last.state is State.HELD and equal and not last.abandoned):
            return _in_doubt(document, doubts)
        return _judge_equal(document, last) if equal else _judge_different(document, last)
    if not same and _is_of_deleted(document, lane):
        hint = f"to create it again: loadsheet retry {as_argument(document.key)}"
        deleted = Problem("L618", values={"key": document.key}, hint=hint)
        return PlannedState(State.HELD, DELETED, (deleted,))
    if same and _equal(document, same[-1]):
        answer = "; ".join(problem.text for problem in same[-1].problems if problem.code == "X701")
        hint = f"once the cause is fixed: loadsheet retry {as_argument(document.key)}"
        before = Problem("L604", values={"key": document.key, "text": answer}, hint=hint)
        return PlannedState(State.REFUSED, "refused before", (before,))
    return PlannedState(State.READY)


def _is_of_deleted(document: Document, lane: Sequence[EarlierEntry]) -> bool:
    """Whether a create repeats the last version of a record whose delete was accepted: an old file that comes again must not bring it
    back. Behind a delete that is still to be sent, both were planned together, and the later one counts.
    """
    made = [earlier for earlier in _versions(document, lane) if earlier.state is State.ACCEPTED]
    deletes = [earlier.state for earlier in lane if is_delete(earlier)]
    return bool(made) and made[-1].content_hash == document.content_hash and deletes[-1:] == [State.ACCEPTED]


def _judge_latest(document: Document, family: Sequence[EarlierEntry]) -> PlannedState:
    standing = [earlier for earlier in family if earlier.state is not State.REFUSED]
    while standing and sets_other_fields(standing[-1], document):
        standing.pop()
    return _judge_equal(document, standing[-1]) if standing and _equal(document, standing[-1]) else _NEW


def _equal(document: Document, earlier: EarlierEntry) -> bool:
    return earlier.operation == document.operation and earlier.content_hash == document.content_hash


def _judge_equal(document: Document, earlier: EarlierEntry) -> PlannedState:
    if earlier.has_unknown_outcome:
        return _in_doubt(document, [earlier])
    if earlier.state is State.ACCEPTED:
        return PlannedState(State.UNCHANGED, f"{ALREADY} (entry {earlier.id})", service_order=earlier.service_order)
    waiting = Problem("L603", values={"key": document.key}, level="warning")
    return PlannedState(State.UNCHANGED, f"already waiting as entry {earlier.id}", (waiting,))


def _in_doubt(document: Document, doubts: Sequence[EarlierEntry]) -> PlannedState:
    look = f"to see what is known: loadsheet resolve {as_argument(document.key)}"
    choices = f"loadsheet resolve --send-again {as_argument(document.key)}, or --accepted if the exchange has it"
    not_verified = f"it was abandoned, so it is not verified: {choices}"
    hint = not_verified if all(earlier.abandoned for earlier in doubts) else look
    problem = Problem("L602", values={"key": document.key}, hint=hint)
    return PlannedState(State.HELD, "earlier outcome unknown", (problem,), waits=Waits.EARLIER)


def _sent(document: Document, lane: Sequence[EarlierEntry]) -> list[bytes]:
    """The JSON records that were sent, or will be, for the record of a document since it was deleted, newest first."""
    alive = reversed(_since_delete(lane))
    return [earlier.payload for earlier in alive if earlier.key == document.key and earlier.state in _MADE]


def _judge_different(document: Document, earlier: EarlierEntry) -> PlannedState:
    values = changed_values(document, earlier.payload, document.payload)
    if earlier.state is not State.ACCEPTED:
        hint = f"once that one is sent, to send this one too: loadsheet retry {as_argument(document.key)}"
        return PlannedState(State.HELD, "an older version came first", (Problem("L605", values=values, hint=hint),))
    hint = f"to send it as an update: loadsheet retry {as_argument(document.key)}, or always: changed: update in the mapping"
    if blank := left_out(earlier.payload, document.payload):
        hint += f"; the update leaves {', '.join(blank)} as before; {TO_CLEAR}"
    return PlannedState(State.HELD, "changed since it was accepted", (Problem("L601", values=values, hint=hint),))
