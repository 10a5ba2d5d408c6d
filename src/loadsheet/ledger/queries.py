"""Queries of the ledger for dispatch, reconciliation, reports and the command line. Read-only.

Owns: every query about entries that is not part of a change. Streams rows, so memory does not grow with their number.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, and_, case, desc, func, or_, select

from loadsheet import exit_codes
from loadsheet.contract import CREATES_AND_UPDATES
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import with_contents
from loadsheet.ledger.content_changes import sender_in
from loadsheet.ledger.decisions import all_decisions
from loadsheet.ledger.exception_status import (
    ExceptionFinding,
    ExceptionStatus,
    Remark,
    WorkbookRead,
    findings_of,
    latest_remarks,
    statuses_at,
    statuses_of,
    workbooks_read,
)
from loadsheet.ledger.ledger_tables import (
    Statement,
    attempts,
    chunks,
    entries,
    events,
    remarks,
    runs,
    streamed,
    streamed_within,
)
from loadsheet.ledger.ledger_tables import exceptions as exceptions_table
from loadsheet.ledger.models import (
    Attempt,
    Decision,
    Drop,
    Entry,
    EntryHead,
    Event,
    ListingFinding,
    Run,
    State,
    Waits,
)
from loadsheet.ledger.planning import OTHER_SENDER, waits_as
from loadsheet.ledger.queue import CANARY_FAILED, DropOperation
from loadsheet.ledger.run_queries import RunQueries, with_adopted_runs
from loadsheet.ledger.versions import EntryVersions
from loadsheet.workbook_marks import CLOSING_STATUSES, MOVED_ROW_CODES, SURPLUS_ROW_CODES, FixedEntry, table_of

INTERRUPTED = "the process ended while this was being sent"
_HELD_BECAUSE = Statement("select id, reason from entries where id in (:wanted) and state = 'held'")
_ACCEPTED_BEFORE = Statement(
    """
    select count(*) as count from entries where drop_id in (:drops) and state = 'accepted'
    and (select max(run_id) from events where entry_id = entries.id and after = 'accepted') < :first
    """
)
_EARLIER_TABLES = Statement(
    """
    select distinct tables.name, tables.header, tables.found from tables
    join drops on drops.id = tables.drop_id
    join mappings on mappings.hash = drops.mapping_hash
    where mappings.name = :mapping and tables.name like :name and exists (
        select 1 from entries where entries.drop_id = drops.id and entries.state not in ('invalid', 'held')
    )
    """
)
_HEAD = [entries.c[name] for name in EntryHead._fields]


class LedgerFigures(NamedTuple):
    """Figures about the ledger. `last_success` is the end of the last successful run (ISO 8601 UTC; empty: none). `opened_by`
    counts the open exceptions that were opened by each of the given times; `open` counts all. `oldest_unsent` is when the oldest
    ready or sending entry was planned (empty: none). `unknown` counts unknown entries.
    """

    last_success: str
    opened_by: tuple[int, ...]
    open: int
    oldest_unsent: str
    unknown: int


class CallTimes(NamedTuple):
    """The calls of one operation in a run: how many were answered or failed, their total seconds, and how many stayed within each
    of the given limits.
    """

    operation: str
    made: int
    seconds: float
    within: tuple[int, ...]


class LedgerQueries(RunQueries):
    """The reading side of the ledger: runs and what they read (see `RunQueries`), entries and their outcomes. `versions` knows the later
    versions of entries.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.versions = EntryVersions(self._engine, self)

    def repeats(self, unchanged: Sequence[int]) -> dict[int, State]:
        """The entries among these unchanged ones that repeat an entry that was not accepted at planning, each with the current
        state of that entry. If that entry is unchanged too, the state of the one it repeats.
        """
        states: dict[int, State] = {}
        with self._engine.connect() as connection:
            repeated = {row.id: row.id for row in _STATES_OF.rows_of(connection, list(unchanged))}
            while repeated:
                rows = {row.id: row for row in _STATES_OF.rows_of(connection, sorted({*repeated.values()}))}
                next_repeated: dict[int, int] = {}
                for entry, other in repeated.items():
                    row = rows[other]
                    before = waits_as(row.reason) if row.state == State.UNCHANGED else 0
                    if before:
                        next_repeated[entry] = before
                    elif other != entry:
                        states[entry] = State.ACCEPTED if row.state == State.UNCHANGED else State(row.state)
                repeated = next_repeated
        return states

    def keys_of(self, wanted: Sequence[int]) -> dict[int, str]:
        """The keys of these entries in this order, without empty ones."""
        keys = {row.id: row.key for row in self._rows_of(_KEYS, wanted)}
        return {entry: keys[entry] for entry in wanted if keys.get(entry)}

    def fixed_entries(self, wanted: Sequence[int]) -> dict[int, FixedEntry]:
        """The data that a fix file needs about these entries, for those that exist."""
        fixed = {}
        for row in self._rows_of(_KEYS, wanted):
            codes = {problem.code for problem in codec.decode_problems(row.problems) if problem.level == "error"}
            may_lose = not codes.isdisjoint(SURPLUS_ROW_CODES)
            fixed[row.id] = FixedEntry(row.key or "", may_lose, may_lose or not codes.isdisjoint(MOVED_ROW_CODES))
        return fixed

    def entries_of(self, drop: int, *states: State) -> Iterator[Entry]:
        """All entries of a drop, or those in these states, in planning order."""
        query = select(entries).where(entries.c.drop_id == drop).order_by(entries.c.id)
        yield from self._entries(query.where(entries.c.state.in_(states)) if states else query)

    def entries_in(self, *states: State) -> Iterator[Entry]:
        """All entries in these states, oldest first."""
        yield from self._entries(select(entries).where(entries.c.state.in_(states)).order_by(entries.c.id))

    def count_in(self, *states: State) -> int:
        """The number of entries in these states."""
        return int(self._value(select(func.count()).select_from(entries).where(entries.c.state.in_(states))))

    def heads_beside(self, entry: Entry) -> list[EntryHead]:
        """The heads on the lane of an entry. Later versions of other senders are left out if it is held because another sender has its number:
        they replace nothing of it.
        """
        lane = list(self.heads_on([entry.lane], *State))
        if entry.reason != OTHER_SENDER:
            return lane
        later = [head.id for head in lane if head.id > entry.id and head.operation in CREATES_AND_UPDATES]
        own = sender_in(entry.payload)
        others = {one.id for one in self.entries_by_id(later) if sender_in(one.payload) != own}
        return [head for head in lane if head.id not in others]

    def accepted_before(self, run: Run, touched: Sequence[Drop]) -> int:
        """The number of entries of these drops that were accepted before a run, or before the first run of a day."""
        if not (earlier := [drop for drop in touched if not run.holds(drop.run)]):
            return 0
        with self._engine.connect() as connection:
            named = connection.scalars(select(runs.c.id).where(runs.c.name.in_(run.parts)))
            first = min([*named] if run.parts else with_adopted_runs(connection, [run]))
            parts = chunks([drop.id for drop in earlier])
            found = (_ACCEPTED_BEFORE.rows(connection, drops=list(part), first=first) for part in parts)
            return sum(int(row.count) for rows in found for row in rows)

    def count_unanswered(self) -> int:
        """The number of entries that are unknown because a call had no clear answer, not because one of our processes ended."""
        unanswered = (entries.c.state == State.UNKNOWN) & (entries.c.reason != INTERRUPTED)
        return int(self._value(select(func.count()).select_from(entries).where(unanswered)))

    def canary_candidates(self) -> list[DropOperation]:
        """The drops and operations with ready entries whose first entries are sent alone, as a canary. No entry of their mapping and
        operation, or none from their inbox folder, was ever accepted. Excludes drops that a person released after a failed canary.
        """
        known_folders: dict[str, bool] = {}
        with self._engine.connect() as connection:
            return [
                (drop, operation)
                for drop, operation in _READY_PARTS.rows(connection)
                if not _CANARY_RELEASED.rows(connection, drop=drop, reason=CANARY_FAILED)
                if not _MAPPING_ACCEPTED.rows(connection, drop=drop, operation=operation)
                or not _is_from_known_folder(connection, drop, known_folders)
            ]

    def heads_of(self, drop: int) -> Iterator[EntryHead]:
        """The heads of all entries of a drop, in planning order."""
        yield from self._heads(select(*_HEAD).where(entries.c.drop_id == drop).order_by(entries.c.id))

    def heads_on(self, lanes: Sequence[str], *states: State) -> Iterator[EntryHead]:
        """The heads of all entries on these lanes in these states, per lane in the order in which they reached the state."""
        names = [state.value for state in states]
        with self._engine.connect() as connection:
            for some in chunks(lanes):
                yield from map(_head, _HEADS_ON.rows(connection, lanes=list(some), states=names))

    def heads_by_id(self, wanted: Sequence[int]) -> Iterator[EntryHead]:
        """The heads of these entries, in no order."""
        for some in chunks(wanted):
            yield from self._heads(select(*_HEAD).where(entries.c.id.in_(some)))

    def entry(self, identity: int) -> Entry:
        """One entry."""
        (found,) = self._entries(select(entries).where(entries.c.id == identity))
        return found

    def entries_by_id(self, wanted: Sequence[int]) -> Iterator[Entry]:
        """These entries, in this order."""
        for some in chunks(wanted):
            found = {entry.id: entry for entry in self._entries(select(entries).where(entries.c.id.in_(some)))}
            yield from (found[identity] for identity in some)

    def entries_by_key(self, key: str) -> list[Entry]:
        """All entries of a business key, or of all keys that begin with it and a slash, oldest first."""
        matching = or_(entries.c.key == key, entries.c.key.startswith(f"{key}/", autoescape=True))
        return list(self._entries(select(entries).where(matching).order_by(entries.c.id)))

    def keys_beginning(self, begun: str, states: Sequence[State], most: int) -> list[str]:
        """At most `most` keys that begin so, of entries in one of these states (none: in any state), those of the latest entries first."""
        matching = entries.c.key.startswith(begun, autoescape=True)
        matching = matching & entries.c.state.in_(states) if states else matching
        latest = self._all(select(entries.c.key).where(matching).order_by(desc(entries.c.id)).limit(10 * most))
        return list(dict.fromkeys(row.key for row in latest))[:most]

    def waiting_lanes(self) -> list[str]:
        """The lanes of all entries that wait for their order or tender."""
        waiting = (entries.c.waits == Waits.PARENT) & entries.c.state.in_((State.READY, State.HELD))
        return [row.lane for row in self._all(select(entries.c.lane).where(waiting).distinct())]

    def still_waiting(self, run: Run) -> tuple[int, str, str]:
        """The number of entries of earlier runs that are held for their order or tender, and the oldest one's key and time."""
        with self._engine.connect() as connection:
            oldest = _HELD_CHILDREN.rows(connection, run=run.id)
        return next((tuple(row) for row in oldest), (0, "", ""))

    def findings_of(self, entry: int) -> list[ListingFinding]:
        """The findings of listings about an entry, oldest first."""
        with self._engine.connect() as connection:
            return findings_of(connection, entry)

    def decisions(self) -> Iterator[Decision]:
        """All decisions of people, oldest first."""
        with self._engine.connect() as connection:
            yield from all_decisions(connection)

    def witnesses(self, makes: Sequence[str], ends: Sequence[str], limit: int) -> list[tuple[str, str]]:
        """The latest entries that an answer of the exchange accepted, newest first: key and time of acceptance (ISO 8601 UTC).
        Only operations in `makes`, and only without a later entry of the operations in `ends`.
        """
        with self._engine.connect() as connection:
            rows = _WITNESSES.rows(connection, makes=list(makes), ends=list(ends), most=limit)
            return [(row.key, row.changed_at) for row in rows]

    def entries_on(self, lane: str, *states: State) -> list[Entry]:
        """The entries of a lane in these states, in the order in which they reached the state."""
        chosen = (entries.c.lane == lane) & entries.c.state.in_(states)
        return list(self._entries(select(entries).where(chosen).order_by(entries.c.changed_at, entries.c.id)))

    def exceptions_at(self, run: Run) -> list[ExceptionStatus]:
        """The exceptions that were open at the start of a run or opened by it, oldest first. Those that it closed are listed as closed."""
        with self._engine.connect() as connection:
            statuses = statuses_at(connection, run)
        versions = self.versions.of({status.entry: status.verdict for status in statuses}, run)
        return [
            status._replace(versions=found.entries, resolved=found.resolved, current=found.current)
            for status in statuses
            for found in (versions[status.entry],)
        ]

    def exceptions_of(self, wanted: Sequence[int]) -> dict[int, ExceptionStatus]:
        """The status of the exceptions of these entries, for those that ever were one."""
        with self._engine.connect() as connection:
            return statuses_of(connection, wanted)

    def held_for_sender(self, wanted: Sequence[int]) -> set[int]:
        """The entries among these that are held because another sender has a record with their number."""
        with self._engine.connect() as connection:
            rows = _HELD_BECAUSE.rows_of(connection, wanted)
        return {row.id for row in rows if row.reason == OTHER_SENDER}

    def explained_before(self, wanted: Sequence[int]) -> dict[int, dict[ExceptionFinding, str]]:
        """The statuses with which the analyst closed findings about the same contents: for those of these entries whose record had them
        before, each such finding with its status.
        """
        found: dict[int, dict[ExceptionFinding, str]] = {}
        with self._engine.connect() as connection:
            pairs = [(row.id, row.other) for row in _SAME_CONTENTS.rows_of(connection, wanted)]
            others = sorted({other for _, other in pairs})
            statuses, latest = statuses_of(connection, others), latest_remarks(connection, others)
        for entry, other in pairs:
            remark, status = latest.get(other, {}).get("status"), statuses[other]
            if remark is not None and remark.value == status.closed and remark.value in CLOSING_STATUSES:
                found.setdefault(entry, {})[status.finding] = status.closed
        return found

    def remarks_on(self, wanted: Sequence[int]) -> dict[int, dict[str, Remark]]:
        """The analyst's latest remarks on these entries, by entry and kind (owner, reason, comment, status)."""
        with self._engine.connect() as connection:
            return latest_remarks(connection, wanted)

    def origins_of(self, wanted: Sequence[int]) -> dict[int, tuple[int, int]]:
        """For each entry, its drop and the original drop that it fixes, directly or through other fixes (itself if it is no fix)."""
        roots = self.roots()
        return {row.id: (row.drop_id, roots.get(row.drop_id, row.drop_id)) for row in self._rows_of(_DROPS_OF, wanted)}

    def earlier_tables(self, mapping: str, table: str) -> list[tuple[str, Sequence[str], Mapping[str, str]]]:
        """The name, the headings and the notes (`Table.reading_notes`) of a table of this mapping, on any sheet, in all files of which something went
        to the exchange, or is to go.
        """
        with self._engine.connect() as connection:
            rows = _EARLIER_TABLES.rows(connection, mapping=mapping, name=f"{table_of(table)}%")
        own = (row for row in rows if table_of(row.name) == table_of(table))
        return [(row.name, codec.decode_cells(row.header), codec.decode_texts_by_name(row.found)) for row in own]

    def owners(self) -> list[str]:
        """All owners of exceptions that the analyst ever named, the latest first."""
        named = select(remarks.c.value).where(remarks.c.name == "owner", remarks.c.value != "")
        return [row.value for row in self._all(named.group_by(remarks.c.value).order_by(desc(func.max(remarks.c.id))))]

    def workbooks_read(self) -> dict[str, WorkbookRead]:
        """The workbooks from which remarks were read, by name, as they were then."""
        with self._engine.connect() as connection:
            return workbooks_read(connection)

    def events_of(self, entry: int) -> list[Event]:
        """Every change of an entry's state, oldest first."""
        query = select(events.c.at, runs.c.name, events.c.before, events.c.after, events.c.reason)
        query = query.join(runs, runs.c.id == events.c.run_id).where(events.c.entry_id == entry)
        return [Event(*row) for row in self._all(query.order_by(events.c.id))]

    def attempts_of(self, entry: int) -> list[Attempt]:
        """Every attempt to send an entry, oldest first."""
        names = ("started_at", "request_hash", "outcome", "status", "detail", "duration_ms")
        query = select(attempts.c.number, runs.c.name, *(attempts.c[name] for name in names))
        query = query.join(runs, runs.c.id == attempts.c.run_id).where(attempts.c.entry_id == entry)
        return [Attempt(*row) for row in self._all(query.order_by(attempts.c.number))]

    def figures(self, moments: Sequence[str]) -> LedgerFigures:
        """Figures about the ledger, with the number of open exceptions opened by each of these times (ISO 8601 UTC)."""
        successful = runs.c.exit_code.in_(exit_codes.WORK_DONE)
        opened = [func.sum(case((exceptions_table.c.opened_at <= moment, 1), else_=0)) for moment in moments]
        unsent = entries.c.state.in_((State.READY, State.SENDING))
        with self._engine.connect() as connection:
            counted = connection.execute(select(func.count(), *opened).where(exceptions_table.c.closed_at == "")).one()
            return LedgerFigures(
                last_success=connection.scalar(select(func.max(runs.c.finished_at)).where(successful)) or "",
                opened_by=tuple(count or 0 for count in counted[1:]),
                open=counted[0],
                oldest_unsent=connection.scalar(select(func.min(entries.c.created_at)).where(unsent)) or "",
                unknown=connection.scalar(select(func.count()).where(entries.c.state == State.UNKNOWN)) or 0,
            )

    def calls_in(self, run: str, limits_s: Sequence[float]) -> tuple[dict[tuple[str, str], int], list[CallTimes]]:
        """The calls of the run with this name by operation and outcome (empty: unknown), and their durations against these limits
        in seconds. A call whose records have different outcomes counts once for each outcome.
        """
        calls = _calls(run, attempts.c.outcome).subquery()
        outcomes = select(calls.c.operation, calls.c.outcome, func.count()).group_by(calls.c.operation, calls.c.outcome)
        once = _calls(run).subquery()
        took = once.c.duration_ms
        within = [func.sum(case((took <= round(limit * 1000), 1), else_=0)) for limit in limits_s]
        times = select(once.c.operation, func.count(), func.sum(took), *within).where(took.is_not(None))
        return (
            {(operation, outcome): count for operation, outcome, count in self._all(outcomes)},
            [
                CallTimes(operation, made, float(total) / 1000, tuple(limits))
                for operation, made, total, *limits in self._all(
                    times.group_by(once.c.operation).order_by(once.c.operation)
                )
            ],
        )

    def _entries(self, query: Select[Any]) -> Iterator[Entry]:
        with self._engine.connect() as connection:
            for row, content in with_contents(connection, streamed_within(connection, query)):
                yield codec.entry(row, *content)

    def _heads(self, query: Select[Any]) -> Iterator[EntryHead]:
        return map(_head, streamed(self._engine, query))


def _head(row: Any) -> EntryHead:
    identity, operation, key, lane, state, content_hash, changed_at = row
    return EntryHead(identity, operation, key, lane, codec.STATES[state], content_hash, changed_at)


def _is_from_known_folder(connection: Connection, drop: int, known_folders: dict[str, bool]) -> bool:
    """Whether an entry from this drop's inbox folder was ever accepted. True for a fix file, which may come from any folder.
    Results are cached in `known_folders`.
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


def _calls(run: str, *more: Any) -> Select[Any]:
    """The calls of a run, each once. All records of a call share its body and the time of its intent."""
    sent = and_(events.c.run_id == runs.c.id, events.c.after == State.SENDING)
    query = (
        select(entries.c.operation, attempts.c.request_hash, attempts.c.started_at, attempts.c.duration_ms, *more)
        .select_from(runs)
        .join(events, sent)
        .join(entries, entries.c.id == events.c.entry_id)
        .join(attempts, and_(attempts.c.entry_id == events.c.entry_id, attempts.c.run_id == runs.c.id))
    )
    return query.where(runs.c.name == run).distinct()


_STATES_OF = Statement("select id, state, reason from entries where id in (:wanted)")
_DROPS_OF = Statement("select id, drop_id from entries where id in (:wanted)")
_SAME_CONTENTS = Statement(
    """
    select entries.id, before.id as other from entries
    join entries before on before.lane = entries.lane and before.operation = entries.operation and before.key = entries.key
    and before.content_hash = entries.content_hash and before.id < entries.id
    join exceptions on exceptions.entry_id = before.id
    where entries.id in (:wanted) and entries.content_hash <> '' and exceptions.closed_because <> ''
    """
)
_KEYS = Statement("select id, key, problems from entries where id in (:wanted)")
_HELD_CHILDREN = Statement(
    """
    select count(*) over (), entries.key, entries.created_at from entries join drops on drops.id = entries.drop_id
    where entries.waits = 'parent' and entries.state = 'held' and drops.run_id < :run
    order by entries.id limit 1
    """
)
_WITNESSES = Statement(
    """
    select key, changed_at from entries
    where state = 'accepted' and waits = '' and operation in (:makes)
    and exists (select 1 from attempts where attempts.entry_id = entries.id and attempts.outcome = 'accepted')
    and not exists (
        select 1 from entries later
        where later.lane = entries.lane and later.id > entries.id
        and later.state in ('accepted', 'unknown', 'sending') and later.operation in (:ends)
    )
    order by id desc limit :most
    """
)
_HEADS_ON = Statement(
    """
    select id, operation, key, lane, state, content_hash, changed_at from entries
    where lane in (:lanes) and state in (:states) order by lane, changed_at, id
    """
)
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
