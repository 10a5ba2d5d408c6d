"""Stage 4: the ledger's verbs. Every change of state is guarded, leaves an event, and is one transaction with it.

Owns: every change to what is known. Refuses to know how documents come about and how calls are made.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, insert, update

from loadsheet import run_log
from loadsheet.ledger import (
    between_runs,
    codec,
    decisions,
    exceptions,
    versions,
    waiting,
)
from loadsheet.ledger.backup import back_up, doubt_unsent
from loadsheet.ledger.between_runs import StoredValues
from loadsheet.ledger.decisions import Choice
from loadsheet.ledger.entry_log import note, note_held
from loadsheet.ledger.location import LastRun, Surroundings
from loadsheet.ledger.maintenance import Maintenance
from loadsheet.ledger.planning import Changed
from loadsheet.ledger.queries import INTERRUPTED, LedgerQueries
from loadsheet.ledger.queue import LEFT_SENDING, Submission, Which, submissions
from loadsheet.ledger.recording import (
    Forecaster,
    Planner,
    free_run_name,
    new_mapping,
    noted,
    record_drop,
    record_entries,
    record_ignored,
    stop_drop,
    stop_reasons,
)
from loadsheet.ledger.run_slices import Row, put_in
from loadsheet.ledger.schema import files, looks, runs, tables
from loadsheet.ledger.statements import at_one_moment
from loadsheet.ledger.states import Decision, Drop, Finding, Run, Settlement, SourceFile, State
from loadsheet.ledger.tenure import Fence
from loadsheet.ledger.transitions import Intent, PreviousState, begin_sending, change, never_left, still_new
from loadsheet.mapping.documents import Document, Ignored, Lineage, TableNotes
from loadsheet.problems import DoesNotBalance, LedgerError, LedgerUnwritable, Problem

CHUNK = 500
Done = TypeVar("Done")


@dataclass
class _Group:
    """What is recorded at once: its transaction, once there is one, and what is to be told when it is durable."""

    stack: ExitStack
    connection: Connection | None = None
    settled: list[Settlement] = field(default_factory=list)


class Ledger:
    """What is known, durably. Use one from one thread; `queries` reads, the verbs here change, `maintenance` removes and forgets. See
    `open_ledger`.

    `fence` is what lets this process change a ledger that several share.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], datetime],
        place: Surroundings,
        *,
        older: bool = False,
        fence: Fence | None = None,
    ) -> None:
        self._engine, self._clock, self._place = engine, clock, place
        self._older = older  # than the last run that was marked: put back from a backup, and accepted
        self._group: _Group | None = None
        self._fence = fence
        self.queries = LedgerQueries(engine)
        self.maintenance = Maintenance(engine, self._writing, self.now)
        self.stored_values = StoredValues(engine, self._writing)

    @property
    def is_shared(self) -> bool:
        """Whether another process may take this ledger over."""
        return self._fence is not None

    def check_still_held(self) -> None:
        """Raise Superseded if another process has taken over: whoever is about to put something beside the ledger asks before."""
        if self._fence is not None:
            with self._writing():
                pass

    # runs

    def begin_run(self, taken: Collection[str] = ()) -> Run:
        """Start a run, by a name that no run has had of which the ledger, the mark beside it or who asks knows (`taken`). Whatever a killed
        run left `sending` becomes `unknown`: nobody can say whether it arrived.

        Keeps space for outcomes back, and marks the run beside the ledger. Raises LedgerUnwritable if there is no space.
        """
        self._place.keep_reserve()
        with self._writing() as connection:
            now = self.now()
            mark = self._place.read_last_run()
            name = free_run_name(connection, now[:10], [*taken, *([mark.name] if mark else [])])
            key = connection.execute(insert(runs).values(name=name, started_at=now)).inserted_primary_key
            run = Run(key[0] if key else 0, name, now)
            left = connection.scalars(LEFT_SENDING).all()
            change(connection, run, [_interrupted(entry) for entry in left], now)
            if self._older:
                doubt_unsent(connection, run, now)
        self._place.write_last_run(LastRun(run.id, run.name, run.started_at))
        self._older = False
        run_log.began(name)
        return run

    def end_run(self, run: Run, *, exit_code: int, summary: Mapping[str, Any], shown: bytes = b"") -> None:
        """Close a run with its exit code and its summary (JSON values); it ends now unless it says when it ended. `shown` is what
        its look at the exchange showed, for `LedgerQueries.listing_snapshot`.
        """
        closing = {
            "finished_at": run.finished_at or self.now(),
            "exit_code": exit_code,
            "summary": codec.encode(summary),
        }
        with self._writing() as connection:
            connection.execute(update(runs).where(runs.c.id == run.id).values(closing))
            if shown:
                connection.execute(insert(looks).values(run_id=run.id, shown=shown))
        self._empty_log()
        run_log.ended(exit_code, summary.get("entries", {}))

    def record_late_reports(
        self, run: Run, summary: Mapping[str, Any], opened: Sequence[exceptions.ExceptionStatus]
    ) -> None:
        """The reports that a run ended without were made since then: its summary is this one, and what it opened is recorded."""
        known = self.queries.exceptions_of([one.entry for one in opened])
        with self._writing() as connection:
            connection.execute(update(runs).where(runs.c.id == run.id).values(summary=codec.encode(summary)))
            exceptions.record_exceptions(connection, run, [one for one in opened if one.entry not in known], self.now())

    def adopt_unfinished_runs(self, run: Run) -> list[Run]:
        """Have a run tell of all that earlier runs did which ended without their reports, as if it had done it (see `LedgerQueries.drops_of`);
        returns these runs, oldest first. Should it not end either, the next one tells of them, and of it.
        """
        with self._engine.connect() as connection:
            if not between_runs.unreported_before(connection, run):
                return []
        with self._writing() as connection:
            unreported = between_runs.unreported_before(connection, run)
            between_runs.mark_reported_by(connection, run, unreported)
        return self.queries.runs_by_id(unreported)

    # planning

    def forecaster(self) -> Forecaster:
        """For looking ahead at what planning would decide."""
        return Forecaster(self._engine)

    def plan(
        self,
        run: Run,
        drop: Drop,
        lineage: Lineage,
        documents: Iterable[Document | Ignored],
        rows_read: Callable[[], Mapping[str, int]],
        *,
        changed: Changed = "hold",
        notes: Callable[[], Mapping[str, TableNotes]] = dict,
        doubts: Callable[[], Sequence[Problem]] = tuple,
        error_share_max: float = 1.0,
    ) -> tuple[Drop, Counter[State]]:
        """Record a drop and all its documents in one transaction, each with its verdict. `drop.id` is given here.

        `rows_read` is asked afterwards how many rows each table had, and `notes` what was seen of them;
        `changed` says what becomes of a create whose record was accepted with other content. If more than `error_share_max` (0 to 1)
        of the documents are invalid, or there are `doubts` about all (asked afterwards), the others are held. Raises DoesNotBalance, and records nothing, if a row ended in no document or in two.
        """
        stream = iter(documents)
        # Nobody waits for a transaction in which nothing happens: some files are read whole before their first document is known.
        first = list(islice(stream, CHUNK))
        with self._writing() as connection:
            connection.execute(new_mapping(connection, drop, lineage))
            identity = record_drop(connection, run, drop)
            rows: Counter[str] = Counter()
            fates: Counter[State] = Counter()
            planner = Planner(connection)
            for chunk in chain([first], iter(lambda: list(islice(stream, CHUNK)), [])):
                left_out = [item for item in chunk if isinstance(item, Ignored)]
                planned = [item for item in chunk if isinstance(item, Document)]
                rows.update(item.row.table for item in left_out)
                rows.update(row.table for document in planned for row in document.own_rows)
                record_ignored(connection, identity, left_out)
                fates.update(record_entries(connection, run, identity, planned, self.now(), changed=changed))
                planner.added(len(planned))
            planner.over()
            read = Counter(rows_read())
            if +read != +rows:
                told = f"rows read {dict(read)}, rows accounted for {dict(rows)}"
                raise DoesNotBalance(f"{drop.name}: {told}; nothing was recorded")
            if why := stop_reasons(drop.name, fates, error_share_max, doubts()):
                stop_drop(connection, run, replace(drop, id=identity), fates, self.now(), why=why)
            seen = notes()
            for name, count in read.items():
                matching = (tables.c.drop_id == identity) & (tables.c.name == name)
                connection.execute(update(tables).where(matching).values(rows=count, **noted(drop, name, seen)))
        planned_drop = self.queries.drop(identity)
        if fates[State.HELD]:
            note_held(self.queries, planned_drop)
        return planned_drop, fates

    def set_aside(self, run: Run, file: SourceFile) -> Drop:
        """Record a file that was put aside unread; `file.problems` say why."""
        with self._writing() as connection:
            identity = record_drop(connection, run, Drop(0, run.name, (file,)))
        return self.queries.drop(identity)

    def archived(self, drop: int, name: str, kept_as: str) -> None:
        """Record where the bytes of a drop's file are kept now."""
        with self._writing() as connection:
            matching = (files.c.drop_id == drop) & (files.c.name == name)
            connection.execute(update(files).where(matching).values(kept_as=kept_as))

    # sending

    def ready(
        self, limit: int, *, parts_out: Collection[tuple[int, str]] = (), operations_out: Collection[str] = ()
    ) -> list[Submission]:
        """The oldest ready entries, at most `limit`, none on a lane where another one is being sent or unknown, and none that
        waits for its order or tender; without those of some drops and operations, and of some operations in all drops, nor any
        that would overtake one of these on its lane.
        """
        if not parts_out and not operations_out:
            return self._submissions(Which.ALL, {"most": limit})
        left_out = {"parts": list(parts_out), "operations": list(operations_out)}
        return self._submissions(Which.BUT, {"most": limit, **left_out})

    def ready_of(
        self, part: tuple[int, str], limit: int, *, parts_out: Collection[tuple[int, str]] = ()
    ) -> list[Submission]:
        """The same of one drop and operation."""
        mine = {"drop": part[0], "operation": part[1], "parts": [one for one in parts_out if one != part]}
        return self._submissions(Which.OF, {"most": limit, **mine, "operations": []})

    def _submissions(self, which: Which, values: Mapping[str, Any]) -> list[Submission]:
        with self._reading() as connection:
            return submissions(connection, which, values)

    def mark_sending(self, run: Run, calls: Sequence[tuple[Sequence[Submission], bytes]]) -> None:
        """Commit the intent to send, before any byte leaves: each call is its submissions and its request body.

        Raises LedgerError, and marks none, if one of them is no longer ready, and LedgerUnwritable if the disk is full.
        """
        self._place.keep_reserve()  # given back once the disk was full: then nothing is sent until there is space again
        intents = []
        for carried, body in calls:
            digest = hashlib.sha256(body).hexdigest()
            intents += [Intent(one.id, one.attempts, digest) for one in carried]
        with self._writing() as connection:
            begin_sending(connection, run, intents, self.now())

    def settle(self, run: Run, settlements: Sequence[Settlement]) -> None:
        """Commit what attempts, a listing or a person have settled, all in one transaction.

        On a full disk it uses the space that was kept back for it. Raises LedgerError, and changes nothing, if a transition is not
        in the table.
        """
        if self._group is not None:
            self._settle(run, settlements)
            self._group.settled += settlements
            return
        try:
            self._settle(run, settlements)
        except LedgerUnwritable:
            if not self._place.give_reserve():
                raise
            self._settle(run, settlements)
        note(self.queries, settlements)

    def settle_from_listing(self, run: Run, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Commit what a listing has settled of unknown entries, each with the attempt that was looked for; returns those that still counted:
        an outcome that was recorded late may have been faster than the look.
        """
        try:
            news = self._settle_from_listing(run, settlements)
        except LedgerUnwritable:
            if not self._place.give_reserve():
                raise
            news = self._settle_from_listing(run, settlements)
        note(self.queries, news)
        return news

    def _settle_from_listing(self, run: Run, settlements: Sequence[Settlement]) -> list[Settlement]:
        with self._writing() as connection:
            news, now = still_new(connection, settlements), self.now()
            _pass_on(connection, run, change(connection, run, news, now), news, now)
        return news

    def _settle(self, run: Run, settlements: Sequence[Settlement]) -> None:
        with self._writing() as connection:
            now = self.now()
            _pass_on(connection, run, change(connection, run, settlements, now), settlements, now)

    def settle_after_outage(self, run: Run, settlements: Sequence[Settlement], underway: Collection[int]) -> None:
        """Commit outcomes of which nobody knows whether they were committed, after the ledger could not be reached; what it says is being
        sent, and is not among the entries `underway`, never left. Each of them counts once.
        """
        with self._writing() as connection:
            spoken = {one.entry for one in settlements} | set(underway)
            news = [*still_new(connection, settlements), *never_left(connection, spoken)]
            now = self.now()
            _pass_on(connection, run, change(connection, run, news, now), news, now)

    def settle_late(self, run: Run, settlements: Sequence[Settlement]) -> int:
        """Commit outcomes of calls that left before another process took the ledger over, as far as they still count; returns how many
        that are. No fence guards this: each says of which attempt it is.
        """
        with self._unfenced() as connection:
            news = still_new(connection, settlements)
            now = self.now()
            _pass_on(connection, run, change(connection, run, news, now), news, now)
        note(self.queries, news)
        return len(news)

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """What is recorded within is one transaction: at the end all of it is durable, or, whatever went wrong, nothing of it is there.
        `ready` within sees it. On a full disk it raises LedgerUnwritable; what kept its space back is used by `settle` alone.
        """
        self._group = group = _Group(ExitStack())
        try:
            with group.stack:
                yield
        finally:
            self._group = None
        note(self.queries, group.settled)

    # waiting

    def release(self, run: Run, *, orphans: bool = False, updating: Collection[str] = ()) -> int:
        """Let go what waited for its order or tender, or for an earlier outcome, and need not any more; returns how many entries
        that are. `orphans` may go without their order or tender; `updating` names the mappings whose creates become updates where
        their record was accepted with other content.
        """
        with self._writing() as connection:
            return waiting.release(connection, run, self.now(), orphans=orphans, updating=updating)

    def hold_waiting(self, run: Run) -> int:
        """Hold what is ready but cannot be sent, saying what it waits for; returns how many entries that are."""
        with self._writing() as connection:
            return waiting.hold(connection, run, self.now())

    def record_seen(self, run: Run, lanes: Collection[str]) -> None:
        """Record that a listing showed the orders or tenders of these lanes; `release` then lets their children go."""
        with self._writing() as connection:
            waiting.remember(connection, run, lanes, self.now())

    # deciding

    def record_findings(self, run: Run, findings: Sequence[Finding]) -> None:
        """Record what a look at a listing showed of unknown entries; what each says stands with its entry from now on."""
        with self._writing() as connection:
            decisions.record_findings(connection, run, findings)

    def decide(self, run: Run, chosen: Sequence[Choice], *, who: str, choice: str, comment: str) -> None:
        """Commit what a person decided about entries as they were looked at, in one transaction, each in the chain of decisions.

        Raises LedgerError, and changes nothing, if one of them is not as it was: somebody else was faster.
        """
        with self._writing() as connection:
            now = self.now()
            turned = decisions.apply_choices(connection, run, chosen, now)
            made = [Decision(one.entry.id, now, who, choice, comment, one.evidence, "") for one in chosen]
            decisions.chain(connection, made)
            _pass_on(connection, run, turned, [one.settlement for one in chosen], now)

    # following up

    def record_exceptions(self, run: Run, standings: Iterable[exceptions.ExceptionStatus]) -> None:
        """Record how exceptions stand after a run: new ones are opened by it, and those that say why they are closed are closed by it."""
        with self._writing() as connection:
            exceptions.record_exceptions(connection, run, standings, self.now())

    def record_remarks(self, said: Sequence[exceptions.Remark], read: Mapping[str, exceptions.WorkbookRead]) -> int:
        """Record what the analyst wrote in workbooks, and all those that were read so far, by name. Returns how many remarks were
        news.
        """
        with self._writing() as connection:
            exceptions.note_workbooks(connection, read)
            return exceptions.keep_remarks(connection, said)

    def keep_schedules_done(self, done: Mapping[str, str]) -> None:
        """Remember up to when (ISO 8601 UTC) all of each schedule is done, by its name; others are forgotten."""
        with self._writing() as connection:
            between_runs.keep_schedules_done(connection, done)

    # looking after it

    def put_in(self, table: str, rows: Iterator[Row]) -> None:
        """Put rows of a slice of another ledger into a table of this one, which has none of them yet."""
        with self._writing() as connection:
            put_in(connection, table, rows)

    def change_whole(self, change: Callable[[Connection], Done]) -> Done:
        """Have all of this ledger changed in one transaction: what takes in another one does that."""
        with self._writing() as connection:
            return change(connection)

    def check(self) -> list[str]:
        """Everything that is wrong with the ledger, in words; empty if it is sound. Reads all of it: minutes for millions of rows."""
        with at_one_moment(self._engine).connect() as connection:
            return list(versions.faults_in(connection))

    def back_up(self, target: Path) -> None:
        """Copy the ledger as it stands to a new file, durably. Raises LedgerUnwritable if that cannot be written."""
        with self._engine.connect() as connection:
            back_up(connection, target)

    def _empty_log(self) -> None:
        """Have the write-ahead log not grow from run to run. Failing in it loses nothing: the next run does it."""
        try:
            self._checkpoint()
        except LedgerError as error:
            run_log.warning("the ledger's log was not emptied", reason=str(error))
            self._place.give_reserve()

    def _checkpoint(self) -> None:
        if not self.maintenance.is_file:
            return  # a server looks after its own
        # Between transactions. A reader may keep it from finishing, which loses nothing: the next one does the rest.
        with self._engine.connect() as connection:
            connection.execution_options(bare=True).exec_driver_sql("pragma wal_checkpoint(passive)").all()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        group = self._group
        if group is None:
            with self._unfenced() as connection:
                self._check_fence(connection)
                yield connection
            return
        if group.connection is None:
            group.connection = group.stack.enter_context(self._unfenced())
            self._check_fence(group.connection)
        yield group.connection

    @contextmanager
    def _unfenced(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    def _check_fence(self, connection: Connection) -> None:
        if self._fence is not None:
            self._fence.check(connection)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._group is not None and self._group.connection is not None:
            yield self._group.connection
        else:
            with self._engine.connect() as connection:
                yield connection

    def now(self) -> str:
        """The present moment as the ledger writes it: ISO 8601 UTC."""
        return codec.stamp(self._clock())


def _pass_on(
    connection: Connection, run: Run, turned: Mapping[int, PreviousState], settlements: Sequence[Settlement], now: str
) -> None:
    """Do what these settlements mean for others on their lanes."""
    waiting.let_children_go(connection, [turned[one.entry] for one in settlements if one.state is State.ACCEPTED])
    waiting.keep_back(connection, run, turned, settlements, now)


def _interrupted(entry: int) -> Settlement:
    died = INTERRUPTED
    return Settlement(entry, State.UNKNOWN, died, problems=(Problem("X702", values={"text": died}),), outcome="unknown")
