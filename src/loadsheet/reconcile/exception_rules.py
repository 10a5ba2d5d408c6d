"""Exceptions: which entries need attention, from this run and earlier ones, and what closes them; and which calls later ones replaced.

An exception is closed by the first of these rules that applies:

1. The analyst marked exactly this finding as `explained` or `accepted difference`. If no other rule applies, that mark on an earlier
   document for the same record with the same contents counts too.
2. The entry agrees now; or it was accepted since, and no listing was read that could show a difference.
3. The entry was not accepted, and its rows are in order in a fix file or a later version of the file (see `ledger.versions`).
4. The entry was not accepted, and a later document corrects it. Such a document
   a. is accepted, or unchanged from an accepted one, unless its rows came back unchanged in a fix file;
   b. is for the same record: by its key, or for a status event, which no key identifies, by its key and the file that both fix;
   c. comes from a later drop: rows of the same drop correct nothing. A copy of a file is as old as the first file with its bytes, and an
      entry whose rows came back unchanged in a fix file as old as the first entry that had them. What is unchanged in a copy does not
      correct its first file. Nothing accepted earlier corrects an entry that the exchange refused later;
   d. comes through the same mapping or has the same sender; an order of another sender with the same number is another order. A call
      without a sender, such as a delete, or one whose sender is no longer known, may be of any sender. If the exception is "another sender
      has this number", only the same mapping counts;
   e. may correct this operation: a create corrects no update or delete, because these may have waited for that very record; only a
      delete corrects a delete;
   f. replaces the whole document. Updates do so only if together they carry every field of it, or of the create of its record: the
      rest was never sent. A later call whose contents were removed counts as a whole, and so does an update through the same mapping if
      nothing is kept of the create.

Otherwise it stays open. A record is one exception, however often it comes: the latest document for it that was not sent decides what it
shows. A difference that a listing showed stays until another listing shows the record: a listing that is partial or was not read proves nothing.

A replaced call is one that later calls for the same record followed. The control totals compare what the exchange should hold now, so
its figures are not in them, except for values that no later call carries.

Does not know how the ledger stores exceptions or how a workbook looks.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from loadsheet.contract import (
    BY_NAME,
    CREATES_AND_UPDATES,
    DELETES,
    EVENTS,
    LISTED_WRITES,
    Action,
    Difference,
    decode_record,
    different_fields,
)
from loadsheet.ledger import AT_EXCHANGE, Entry, EntryHead, ExceptionStatus, Run, State
from loadsheet.ledger.content_changes import sender_in
from loadsheet.ledger.ledger_tables import chunks
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.versions import Versions
from loadsheet.mapping.documents import Lineage, filled_fields
from loadsheet.reconcile.verdicts import (
    AGREES,
    BY_STATE,
    STATES_COMPARED,
    Match,
    Matches,
    Verdict,
)
from loadsheet.workbook_marks import CLOSING_STATUSES, exception_id

LATER = "a later document was accepted"
"""The reason for closing an exception whose own entry was never accepted."""

SINCE = "accepted since"
"""The reason for closing an exception whose entry was accepted, if no listing was read."""

MERGED = "it is the same record as {exception}"
"""The reason for closing an exception whose record has an older one."""

_STATES_SAY = frozenset(BY_STATE.values())
_STATES_FOLLOWED = (*STATES_COMPARED, State.UNCHANGED)

Judge = Callable[[Sequence[Entry]], Iterable[Match]]


@dataclass(frozen=True)
class Exceptions:
    """The exceptions of a run, oldest first: open ones, and those that have been closed. `closed_later` are closed ones that a run
    after the reported one closed. `needing` are the entries of the run that need attention, or did.
    """

    statuses: tuple[ExceptionStatus, ...] = ()
    closed_later: frozenset[int] = frozenset()
    needing: frozenset[int] = frozenset()

    @cached_property
    def by_entry(self) -> dict[int, bool]:
        """The entries that are exceptions or their latest versions, and whether each is open."""
        return {entry: not one.closed for one in self.statuses for entry in (one.entry, *one.versions)}

    @cached_property
    def resolved(self) -> frozenset[int]:
        """The entries that were exceptions and no longer needed anyone at the end: theirs was closed, or a later version of them shows it.
        A version of an earlier run shows nothing in this one: then its last entry here does, such as that of an old file that came again.
        """
        still = [one for one in self.statuses if not one.closed or one.entry in self.closed_later]
        shown = {entry for one in still for entry in one.current or (one.latest,)}
        here = filter(None, map(self._here, still))
        shown |= {some[-1] for some in here if shown.isdisjoint(some)}
        return frozenset(entry for entry in self.by_entry if entry not in shown)

    def is_of_earlier_runs(self, one: ExceptionStatus) -> bool:
        """Whether no entry of the run that needs attention belongs to an exception."""
        return not self._here(one)

    def _here(self, one: ExceptionStatus) -> tuple[int, ...]:
        return tuple(entry for entry in (one.entry, *one.versions) if entry in self.needing)

    @property
    def open(self) -> Iterator[ExceptionStatus]:
        """The open exceptions."""
        return (one for one in self.statuses if not one.closed)

    @property
    def closed(self) -> Iterator[ExceptionStatus]:
        """The closed exceptions."""
        return (one for one in self.statuses if one.closed)


def follow_up(queries: LedgerQueries, run: Run, matches: Matches, judge: Judge) -> Exceptions:
    """The exceptions after a run: those open before, and all entries of its matches that need attention. `judge` returns
    the verdicts on accepted entries of earlier runs by the current listings.
    """
    kept = {one.entry: one for one in queries.exceptions_at(run)}
    shown = {entry for one in kept.values() for entry in (one.entry, *one.versions)}
    needing = frozenset(matches.needing_someone())
    fresh = sorted(needing - shown)
    earlier = queries.exceptions_of(fresh)
    versions = queries.versions.of({entry: earlier[entry].verdict if entry in earlier else "" for entry in fresh}, run)
    versions |= {one.entry: Versions(one.versions, one.resolved, one.current) for one in kept.values()}
    merged, wanted = _merged(versions, kept)
    statuses: list[ExceptionStatus] = []
    for some in chunks(wanted):
        batch = _ExceptionBatch(
            queries, {entry: versions[entry] for entry in some}, {**earlier, **kept}, matches, judge
        )
        statuses += batch.statuses(run)
    closed = (
        one._replace(closed=MERGED.format(exception=exception_id(merged[one.entry])), versions=())
        if one.entry in merged and not one.closed
        else one
        for one in statuses
    )
    later = (one.entry for one in kept.values() if one.closed_run not in ("", run.name) and not run.parts)
    return Exceptions(tuple(sorted(closed, key=lambda one: (one.opened_at, one.entry))), frozenset(later), needing)


def _merged(versions: Mapping[int, Versions], kept: Collection[int]) -> tuple[dict[int, int], list[int]]:
    """Of the entries that need attention or did: those that belong to the exception of an earlier one, or have the same last version, with
    that one; and all that are exceptions. An exception that the ledger has already is one of these also if it belongs to an earlier one.
    """
    first: dict[int, int] = {}
    for entry in sorted(versions):
        if (last := first.get(versions[entry].entries[-1])) is not None:
            first.setdefault(entry, last)
        for later in versions[entry].entries if entry not in first else ():
            if later != entry:
                first.setdefault(later, entry)
    merged = {entry: first[entry] for entry in versions if entry in first}
    return merged, [entry for entry in sorted(versions) if entry not in merged or entry in kept]


class _CurrentVerdict(NamedTuple):
    verdict: Verdict
    differences: tuple[Difference, ...] = ()


class _ExceptionBatch:
    """A batch of a few hundred entries, with what the ledger knows about them."""

    def __init__(
        self,
        queries: LedgerQueries,
        versions: Mapping[int, Versions],
        known: Mapping[int, ExceptionStatus],
        matches: Matches,
        judge: Judge,
    ) -> None:
        self._known, self._versions = known, versions
        some = sorted(versions)
        self._latest = {entry: versions[entry].entries[-1] for entry in some}
        latest = sorted({*self._latest.values()})
        self._heads = {head.id: head for head in queries.heads_by_id(sorted({*some, *latest}))}
        lanes = sorted({head.lane for head in self._heads.values()})
        at_exchange = _at_exchange(queries, lanes)
        self._on_lanes: dict[str, list[EntryHead]] = defaultdict(list)
        for head in at_exchange:
            self._on_lanes[head.lane] += [head] if head.operation in LISTED_WRITES else []
        self._queries = queries
        self._held_for_other_sender = queries.held_for_sender(latest)
        self._mapping_of = cache(lambda drop: queries.drop(drop).mapping)
        self._sender_of, self._sender_of_drop = cache(self._find_sender), cache(self._find_sender_of_drop)
        self._sources: dict[int, tuple[Lineage, dict[str, tuple[str, ...]]]] = {}
        self._origins = queries.origins_of([head.id for head in (*at_exchange, *self._heads.values())])
        first = queries.versions.as_they_came(latest)
        origins = queries.origins_of(sorted({*first.values()}))
        self._origins |= {entry: origins[one] for entry, one in first.items()}
        heads = {head.id: head for head in queries.heads_by_id(sorted({*first.values()}))}
        self._original_heads = {
            entry: heads[one] for entry, one in first.items()
        }  # those whose rows came back as they were
        self._drop_ages = queries.versions.ages({drop for drop, _ in self._origins.values()})
        self._later_entries = self._by_record(at_exchange)
        changes = [head for head in at_exchange if not BY_NAME[head.operation].creates]
        self._corrections_of = {
            Action.UPDATE: self._by_record(changes),
            Action.DELETE: self._by_record(head for head in changes if head.operation in DELETES),
        }
        remarked = queries.remarks_on([entry for entry in some if entry in known])
        self._analyst_statuses = {
            entry: remarks["status"].value for entry, remarks in remarked.items() if "status" in remarks
        }
        self._earlier_statuses = queries.explained_before([self._latest[entry] for entry in some if entry not in known])
        matched = ((entry, matches.get(entry)) for entry in latest)
        self._current_verdicts = {
            entry: _CurrentVerdict(one.verdict, one.differences) for entry, one in matched if one is not None
        }
        rest = [
            entry
            for entry in latest
            if entry not in self._current_verdicts and self._heads[entry].state not in BY_STATE
        ]
        for match in judge(list(queries.entries_by_id(rest))) if rest else ():
            self._current_verdicts[match.entry] = _CurrentVerdict(match.verdict, match.differences)

    def statuses(self, run: Run) -> Iterator[ExceptionStatus]:
        """The current status of each exception."""
        for entry, latest in sorted(self._latest.items()):
            head = self._heads[entry]
            now = self._current_verdicts.get(latest) or _CurrentVerdict(BY_STATE[self._heads[latest].state])
            versions, resolved, current = self._versions[entry]
            if (kept := self._known.get(entry)) is None:
                opened = ExceptionStatus(entry, run.name, run.started_at, now.verdict.value, now.differences)
                earlier_status = self._earlier_statuses.get(latest, {}).get(opened.finding, "")
                now_status = opened._replace(closed=self._closed(head, now) or earlier_status)
            else:
                now_status = self._updated(head, kept, now)
            yield now_status._replace(versions=versions, resolved=resolved, current=current)

    def _updated(self, head: EntryHead, kept: ExceptionStatus, now: _CurrentVerdict) -> ExceptionStatus:
        before = kept._replace(closed="", closed_run="")
        if now.verdict is Verdict.NOT_VERIFIABLE and kept.verdict not in _STATES_SAY:
            now = _CurrentVerdict(
                Verdict(kept.verdict), kept.differences
            )  # an unread listing does not undo what an earlier one showed
        finding = (now.verdict.value, now.differences)
        status = self._analyst_statuses.get(head.id, "")
        if status in CLOSING_STATUSES and finding == kept.finding:
            return before._replace(closed=status, closed_run=kept.closed_run)
        closed = self._closed(head, now)
        if now.verdict in AGREES or now.verdict is Verdict.NOT_VERIFIABLE:
            return before._replace(closed=closed, closed_run=kept.closed_run)
        return before._replace(
            verdict=finding[0], differences=finding[1], closed=closed, closed_run=kept.closed_run if closed else ""
        )

    def _closed(self, head: EntryHead, now: _CurrentVerdict) -> str:
        """Why an exception is closed now; empty if it is open."""
        if now.verdict in AGREES:
            return now.verdict.value
        if now.verdict is Verdict.NOT_VERIFIABLE:
            return SINCE
        return LATER if self._is_superseded(head, now) else ""

    def _is_superseded(self, head: EntryHead, now: _CurrentVerdict) -> bool:
        if now.verdict not in _STATES_SAY:
            return False
        return self._versions[head.id].resolved or self._has_later(self._heads[self._latest[head.id]])

    def _has_later(self, head: EntryHead) -> bool:
        """Whether a document of a later drop for the same record was accepted or is unchanged."""
        _, root = self._origins[head.id]
        later = self._corrections_of.get(BY_NAME[head.operation].action, self._later_entries)
        if head.id in self._held_for_other_sender:
            return any(
                self._is_later(one, head) and self._is_of_mapping(one, head) for one in self._on_lanes[head.lane]
            )
        return any(
            self._is_later(one, head) and self._is_of_sender(one, head) for one in later.get(_record_of(head, root), ())
        ) and self._is_carried(head)

    def _is_later(self, one: EntryHead, head: EntryHead) -> bool:
        """Whether a document is newer than another one: its file, and the first copy of it. What was refused is newer than all that was
        accepted before.
        """
        own, first = self._drop_ages[self._origins[head.id][0]]
        later, later_first = self._drop_ages[self._origins[one.id][0]]
        is_accepted, tried = one.state is State.ACCEPTED, self._original_heads.get(head.id, head)
        if tried.state is State.REFUSED and is_accepted and one.changed_at < tried.changed_at:
            return False
        return later > own and (later_first > first or (later_first == first and is_accepted))

    def _is_of_mapping(self, one: EntryHead, head: EntryHead) -> bool:
        return self._mapping_of(self._origins[one.id][0]) == self._mapping_of(self._origins[head.id][0])

    def _is_of_sender(self, one: EntryHead, head: EntryHead) -> bool:
        """Whether a later document can be of the same sender as this one. If they came through one mapping, or one of them is a call without
        a sender, they are.
        """
        if self._is_of_mapping(one, head) or not {one.operation, head.operation} <= CREATES_AND_UPDATES:
            return True
        own, other = self._sender_of(head.id), self._sender_of(one.id)
        return own == other or None in (own, other)

    def _find_sender(self, wanted: int) -> str | None:
        """The sender of an entry; of one that could not be built, that of its file, or of the first file that it fixes. None: not known any
        more.
        """
        (entry,) = self._queries.entries_by_id([wanted])
        own, (_, root) = sender_in(entry.payload or entry.figures), self._origins[wanted]
        return own or (None if entry.removed else self._sender_of_drop(root))

    def _find_sender_of_drop(self, drop: int) -> str:
        """The sender of the first entry of a drop that was built; empty if none was."""
        known = (one.payload or one.figures for one in self._queries.entries_of(drop))
        return sender_in(next(filter(None, known), b""))

    @cached_property
    def _fields(self) -> dict[int, Collection[str]]:
        """The fields of the calls on lanes that were updated, by entry; of all lanes of the batch at once."""
        updated = {
            lane
            for lane, heads in self._on_lanes.items()
            if any(BY_NAME[one.operation].action is Action.UPDATE for one in heads)
        }
        wanted = {head.id for head in self._heads.values() if head.lane in updated}
        wanted |= {one.id for lane in updated for one in self._on_lanes[lane]}
        return {call.id: self._fields_of(call) for call in self._queries.entries_by_id(sorted(wanted))}

    def _fields_of(self, entry: Entry) -> Collection[str]:
        """The fields of a call. An update that could not be built has those that its filled cells were to set; so that it can be compared,
        every update has them.
        """
        sent = _sent_by(entry).keys()
        if entry.removed or BY_NAME[entry.operation].action is not Action.UPDATE:
            return sent
        if entry.drop not in self._sources:
            origin = self._queries.origin(entry.drop)
            headers = {name: table.header for name, table in origin.tables.items()}
            self._sources[entry.drop] = origin.lineage, headers
        return sent | filled_fields(entry.rows, *self._sources[entry.drop])

    def _is_carried(self, head: EntryHead) -> bool:
        """Whether the documents of later drops carry the whole of a create or update. A later one whose contents were removed does; a create
        that has no contents of its own is carried by what its mapping sent.
        """
        lane = self._on_lanes[head.lane] if head.operation in LISTED_WRITES and head.operation not in DELETES else []
        later = [one for one in lane if self._is_later(one, head) and self._is_of_sender(one, head)]
        if not later or any(BY_NAME[one.operation].action is not Action.UPDATE for one in later):
            return True
        fields = self._fields
        created = [fields[one.id] for one in lane if BY_NAME[one.operation].creates][-1:]
        carried = {name for one in later for name in fields[one.id]}
        if not all(fields[one.id] for one in later) or any(one and carried.issuperset(one) for one in created):
            return True
        if fields[head.id] or not BY_NAME[head.operation].creates:
            return carried.issuperset(fields[head.id])
        return any(self._is_of_mapping(one, head) for one in later)

    def _by_record(self, heads: Iterable[EntryHead]) -> dict[Hashable, list[EntryHead]]:
        """The entries of each record that were accepted, or are unchanged from an accepted one."""
        found: dict[Hashable, list[EntryHead]] = defaultdict(list)
        for head in heads:
            found[_record_of(head, self._origins[head.id][1])].append(head)
        return found


def _at_exchange(queries: LedgerQueries, lanes: Sequence[str]) -> list[EntryHead]:
    """The entries of these lanes that were accepted or equal an accepted one. Duplicates of waiting entries do not count, and neither do
    those whose rows came back in a fix file as they were.
    """
    heads = [head for head in queries.heads_on(lanes, *_STATES_FOLLOWED) if head.state in AT_EXCHANGE]
    unchanged = [head.id for head in heads if head.state is State.UNCHANGED]
    repeats, old = queries.repeats(unchanged), queries.versions.returned_as_they_were(unchanged)
    return [head for head in heads if repeats.get(head.id, State.ACCEPTED) is State.ACCEPTED and head.id not in old]


def _record_of(head: EntryHead, root: int) -> Hashable:
    """What identifies a document's record. For an event this is its key and its original drop `root`."""
    if head.operation in EVENTS:
        return head.key, root
    return BY_NAME[head.operation].record_id(head.key)


class Replacement(NamedTuple):
    """A replaced entry and the last call that replaced it. `changed` are the values that differ: `sent` by the entry, `held` after
    the later calls; none if one of them deleted the record or the contents are no longer kept.
    """

    entry: Entry
    by: Entry
    changed: tuple[Difference, ...]


def replacements(queries: LedgerQueries, entries: Sequence[Entry]) -> Iterator[Replacement]:
    """The replacements of these entries, in their order. Entries that no later call replaced are left out."""
    for entry, followers in _with_followers(queries, entries):
        now = _values_of(followers)
        carried = {name: value for name, value in _sent_by(entry).items() if now and name in now}
        changed = different_fields(BY_NAME[entry.operation].record, carried, now or {}, ordered=entry.ordered)
        yield Replacement(entry, followers[-1], tuple(changed))


def kept_values(queries: LedgerQueries, entries: Sequence[Entry]) -> dict[int, dict[str, Any] | None]:
    """The values of replaced entries that no later call carries, by entry. Entries without any are left out, such as those of a
    deleted record. None: not known, because the contents of the entry or of a later call are no longer kept.
    """
    kept: dict[int, dict[str, Any] | None] = {}
    for entry, followers in _with_followers(queries, entries):
        if any(call.operation in DELETES for call in followers):
            continue
        kept[entry.id] = None
        if entry.payload and (now := _values_of(followers)) is not None:
            kept[entry.id] = {name: value for name, value in _sent_by(entry).items() if name not in now}
    return {entry: values for entry, values in kept.items() if values != {}}


def _with_followers(queries: LedgerQueries, entries: Sequence[Entry]) -> Iterator[tuple[Entry, list[Entry]]]:
    """Each entry that later calls replaced, with these calls."""
    accepted: dict[str, list[int]] = defaultdict(list)
    for head in queries.heads_on(sorted({entry.lane for entry in entries}), State.ACCEPTED):
        accepted[head.lane] += [head.id] if head.operation in LISTED_WRITES else []
    later = {entry.id: _after(entry, accepted[entry.lane]) for entry in entries}
    calls = {call.id: call for call in queries.entries_by_id(sorted({one for ids in later.values() for one in ids}))}
    for entry in entries:
        if followers := [calls[one] for one in later[entry.id]]:
            yield entry, followers


def _after(entry: Entry, accepted: Sequence[int]) -> Sequence[int]:
    """The accepted entries of a lane after this one. An unchanged entry is not among them: it repeats an earlier one."""
    if entry.id in accepted:
        return accepted[accepted.index(entry.id) + 1 :]
    return [one for one in accepted if one > entry.id]


def _values_of(followers: Sequence[Entry]) -> dict[str, Any] | None:
    """The values that these calls set together; None if one deleted the record or its content is no longer kept."""
    now: dict[str, Any] = {}
    for call in followers:
        if call.operation in DELETES or not call.payload:
            return None
        now |= decode_record(call.payload)
    return now


def _sent_by(entry: Entry) -> dict[str, Any]:
    return decode_record(entry.payload) if entry.payload else {}
