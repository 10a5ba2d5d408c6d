"""Stage 4: the ledger's verbs. Every change of state is guarded, leaves an event, and is one transaction with it.

Owns: every change to what is known. Refuses to know how documents come about and how calls are made.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, insert, update

from loadsheet import run_log
from loadsheet.ledger import codec, decisions, erasure, exceptions, queue, run_queries, versions
from loadsheet.ledger.decisions import Choice
from loadsheet.ledger.exporting import Row, put_in
from loadsheet.ledger.location import LastRun, Surroundings, back_up
from loadsheet.ledger.maintenance import Maintenance, Writing
from loadsheet.ledger.queries import INTERRUPTED, LedgerQueries
from loadsheet.ledger.queue import LeftOut, Part, Submission, submissions
from loadsheet.ledger.recording import (
    DEFAULT_RULES,
    Forecaster,
    PlanningRules,
    ReadTotals,
    free_run_name,
    record_drop,
    record_mapping,
    record_plan,
)
from loadsheet.ledger.schema import files, looks, runs
from loadsheet.ledger.statements import at_one_moment, store_value, stored_value
from loadsheet.ledger.states import Decision, Drop, Finding, Run, Settlement, SourceFile, State
from loadsheet.ledger.tenure import Fence
from loadsheet.ledger.transitions import (
    CHUNK,
    Intent,
    Transaction,
    begin_sending,
    change,
    doubt_unsent,
    interrupted,
    never_left,
    still_new,
)
from loadsheet.mapping.documents import Document, Ignored, Lineage
from loadsheet.problems import LedgerError, LedgerUnwritable

Done = TypeVar("Done")
_LOGGED = frozenset({State.REFUSED, State.UNKNOWN, State.HELD})


@dataclass
class _Group:
    """What is recorded at once: its transaction, once there is one, and what is logged when it is durable."""

    stack: ExitStack
    connection: Connection | None = None
    settled: list[Settlement] = field(default_factory=list)


class StoredValues:
    """Named values that one run leaves for the next. A name never collides with the ledger's own names in the table `meta`; the reader of a
    value checks it and works without it.
    """

    def __init__(self, engine: Engine, writing: Writing) -> None:
        self._engine, self._writing = engine, writing

    def value(self, name: str) -> str:
        """The last value stored under this name; empty if there is none."""
        with self._engine.connect() as connection:
            return stored_value(connection, f"remembered: {name}")

    def keep(self, name: str, value: str) -> None:
        """Store a value under this name, replacing the previous one."""
        with self._writing() as connection:
            store_value(connection, f"remembered: {name}", value)


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
        """Raise Superseded if another process has taken over: to be called before something is written beside the ledger."""
        if self._fence is not None:
            with self._writing():
                pass

    # runs

    def begin_run(self, taken: Collection[str] = ()) -> Run:
        """Start a run, by a name that no run has had of which the ledger, the record of the last run beside it or the caller knows (`taken`). Whatever a killed
        run left `sending` becomes `unknown`: nobody can say whether it arrived.

        Keeps space for outcomes back, and records the run beside the ledger. Raises LedgerUnwritable if there is no space.
        """
        self._place.keep_reserve()
        with self._writing() as connection:
            now = self.now()
            last = self._place.read_last_run()
            name = free_run_name(connection, now[:10], [*taken, *([last.name] if last else [])])
            key = connection.execute(insert(runs).values(name=name, started_at=now)).inserted_primary_key
            run = Run(key[0] if key else 0, name, now)
            transaction = Transaction(connection, run, now)
            change(transaction, interrupted(connection, INTERRUPTED))
            if self._older:
                doubt_unsent(transaction)
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
        """Have a run report the work of earlier runs that ended without their reports (see `LedgerQueries.drops_of`); returns these runs, oldest
        first. If it does not end either, the next one reports them all.
        """
        with self._engine.connect() as connection:
            if not run_queries.unreported_before(connection, run):
                return []
        with self._writing() as connection:
            unreported = run_queries.unreported_before(connection, run)
            run_queries.mark_reported_by(connection, run, unreported)
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
        items: Iterable[Document | Ignored | ReadTotals],
        rules: PlanningRules = DEFAULT_RULES,
    ) -> tuple[Drop, Counter[State]]:
        """Record a drop and all its documents in one transaction, each with its verdict. `drop.id` is given here. The last of the `items` says
        what was read in all. If too many of the documents are invalid (see `rules`), or there are doubts about all, the others are held.
        Raises DoesNotBalance, and records nothing, if a row ended in no document or in two.
        """
        stream = iter(items)
        # Nobody waits for a transaction in which nothing happens: some files are read whole before their first document is known.
        first = list(islice(stream, CHUNK))
        with self._changing(run) as transaction:
            record_mapping(transaction.connection, drop, lineage)
            identity, fates = record_plan(transaction, drop, chain(first, stream), rules)
        planned = self.queries.drop(identity)
        if fates[State.HELD]:
            self._log_held(planned)
        return planned, fates

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
        self, limit: int, *, parts_out: Collection[Part] = (), operations_out: Collection[str] = ()
    ) -> list[Submission]:
        """The oldest ready entries, at most `limit`, none on a lane where another one is being sent or unknown, and none that
        waits for its order or tender; without those of some drops and operations, and of some operations in all drops, nor any
        that would overtake one of these on its lane.
        """
        with self._reading() as connection:
            return submissions(connection, limit, LeftOut(parts_out, operations_out))

    def ready_of(self, part: Part, limit: int, *, parts_out: Collection[Part] = ()) -> list[Submission]:
        """The same of one drop and operation."""
        with self._reading() as connection:
            return submissions(connection, limit, LeftOut([one for one in parts_out if one != part]), part)

    def mark_sending(self, run: Run, calls: Sequence[tuple[Sequence[Submission], bytes]]) -> None:
        """Commit the intent to send, before any byte leaves: each call is its submissions and its request body.

        Raises LedgerError, and marks none, if one of them is no longer ready, and LedgerUnwritable if the disk is full.
        """
        self._place.keep_reserve()  # given back once the disk was full: then nothing is sent until there is space again
        intents = []
        for carried, body in calls:
            digest = hashlib.sha256(body).hexdigest()
            intents += [Intent(one.id, one.attempts, digest) for one in carried]
        with self._changing(run) as transaction:
            begin_sending(transaction, intents)

    def settle(self, run: Run, settlements: Sequence[Settlement]) -> None:
        """Commit what attempts, a listing or a person have settled, all in one transaction.

        On a full disk it uses the space that was kept back for it. Raises LedgerError, and changes nothing, if a transition is not
        in the table.
        """
        if self._group is not None:
            self._settle(run, settlements)
            self._group.settled += settlements
            return
        self._with_reserve(partial(self._settle, run, settlements))
        self._log(settlements)

    def settle_from_listing(self, run: Run, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Commit what a listing has settled of unknown entries, each with the attempt that was looked for; returns those that still counted:
        an outcome that was recorded late may have been faster than the look.
        """
        news = self._with_reserve(partial(self._settle, run, settlements, only_new=True))
        self._log(news)
        return news

    def settle_after_outage(self, run: Run, settlements: Sequence[Settlement], underway: Collection[int]) -> None:
        """Commit outcomes of which nobody knows whether they were committed, after the ledger could not be reached; what it says is being
        sent, and is not among the entries `underway`, never left. Each of them counts once.
        """
        with self._changing(run) as transaction:
            in_flight = {one.entry for one in settlements} | set(underway)
            news = still_new(transaction.connection, settlements)
            _apply(transaction, [*news, *never_left(transaction.connection, in_flight)])

    def settle_late(self, run: Run, settlements: Sequence[Settlement]) -> int:
        """Commit outcomes of calls that left before another process took the ledger over, as far as they still count; returns how many
        that are. No fence guards this: each says of which attempt it is.
        """
        with self._unfenced() as connection:
            news = still_new(connection, settlements)
            _apply(Transaction(connection, run, self.now()), news)
        self._log(news)
        return len(news)

    def _settle(self, run: Run, settlements: Sequence[Settlement], *, only_new: bool = False) -> list[Settlement]:
        with self._changing(run) as transaction:
            news = still_new(transaction.connection, settlements) if only_new else list(settlements)
            _apply(transaction, news)
        return news

    def _with_reserve(self, settle: Callable[[], Done]) -> Done:
        """Settle, on a full disk with the space that was kept back for it."""
        try:
            return settle()
        except LedgerUnwritable:
            if not self._place.give_reserve():
                raise
            return settle()

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
        self._log(group.settled)

    # waiting

    def release(self, run: Run, *, orphans: bool = False, updating: Collection[str] = ()) -> int:
        """Let go what waited for its order or tender, or for an earlier outcome, and need not any more; returns how many entries
        that are. `orphans` may go without their order or tender; `updating` names the mappings whose creates become updates where
        their record was accepted with other content.
        """
        with self._changing(run) as transaction:
            return queue.release(transaction, orphans=orphans, updating=updating)

    def hold_waiting(self, run: Run) -> int:
        """Hold what is ready but cannot be sent, saying what it waits for; returns how many entries that are."""
        with self._changing(run) as transaction:
            return queue.hold(transaction)

    def record_seen(self, run: Run, lanes: Collection[str]) -> None:
        """Record that a listing showed the orders or tenders of these lanes; `release` then lets their children go."""
        with self._changing(run) as transaction:
            queue.remember(transaction, lanes)

    # deciding

    def record_findings(self, run: Run, findings: Sequence[Finding]) -> None:
        """Record what a look at a listing showed of unknown entries; what each says stands with its entry from now on."""
        with self._writing() as connection:
            decisions.record_findings(connection, run, findings)

    def decide(self, run: Run, chosen: Sequence[Choice], *, who: str, choice: str, comment: str) -> None:
        """Commit what a person decided about entries as they were looked at, in one transaction, each in the chain of decisions.

        Raises LedgerError, and changes nothing, if one of them has changed meanwhile.
        """
        with self._changing(run) as transaction:
            connection, _, now = transaction
            before = decisions.apply_choices(transaction, chosen)
            made = [Decision(one.entry.id, now, who, choice, comment, one.evidence, "") for one in chosen]
            decisions.chain(connection, made)
            queue.follow(transaction, before, [one.settlement for one in chosen])

    # following up

    def record_exceptions(self, run: Run, statuses: Iterable[exceptions.ExceptionStatus]) -> None:
        """Record how exceptions stand after a run: new ones are opened by it, and those that say why they are closed are closed by it."""
        with self._writing() as connection:
            exceptions.record_exceptions(connection, run, statuses, self.now())

    def record_remarks(self, remarks: Sequence[exceptions.Remark], read: Mapping[str, exceptions.WorkbookRead]) -> int:
        """Record what the analyst wrote in workbooks, and all those that were read so far, by name. Returns how many remarks were
        news.
        """
        with self._writing() as connection:
            exceptions.note_workbooks(connection, read)
            return exceptions.keep_remarks(connection, remarks)

    def keep_schedules_done(self, done: Mapping[str, str]) -> None:
        """Remember up to when (ISO 8601 UTC) all of each schedule is done, by its name; others are forgotten."""
        with self._writing() as connection:
            store_value(connection, run_queries.SCHEDULES, codec.encode(dict(sorted(done.items()))))

    # looking after it

    def put_in(self, table: str, rows: Iterator[Row]) -> None:
        """Put rows of a slice of another ledger into a table of this one, which has none of them yet."""
        with self._writing() as connection:
            put_in(connection, table, rows)

    def change_whole(self, change: Callable[[Connection], Done]) -> Done:
        """Have all of this ledger changed in one transaction: what takes in another one does that."""
        with self._writing() as connection:
            return change(connection)

    def traces_of_key(self, key: str) -> erasure.KeyTraces:
        """Where a key stands."""
        with self._engine.connect() as connection:
            return erasure.traces_of_key(connection, key)

    def forget(self, run: Run, request: erasure.ErasureRequest) -> None:
        """Remove what a person wants forgotten, in one transaction, and chain the decision. Raises NotSettled, and changes nothing, if an
        entry of the key is not settled.
        """
        with self.maintenance.writing() as connection:
            erasure.forget(Transaction(connection, run, self.now()), request)

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

    def _log(self, settlements: Sequence[Settlement]) -> None:
        """Log those committed settlements that a person may have to look at."""
        logged = [one for one in settlements if one.state in _LOGGED]
        if not logged or not run_log.is_open():
            return
        keys = self.queries.keys_of([one.entry for one in logged])
        for one in logged:
            where = one.problems[0].where if one.problems else None
            run_log.entry(
                f"entry {one.state}",
                key=keys.get(one.entry, ""),
                file=where.file if where else "",
                row=where.row if where else None,
                status=one.status,
                duration_ms=one.duration_ms,
                reason=one.reason,
            )

    def _log_held(self, drop: Drop) -> None:
        """Log what was held as it was planned."""
        if not run_log.is_open():
            return
        for entry in islice(self.queries.entries_of(drop.id, State.HELD), run_log.ENTRIES_MAX + 1):
            row = entry.rows[0] if entry.rows else None
            file = drop.table(row.table).file if row else drop.name
            run_log.entry("entry held", key=entry.key, file=file, row=row.number if row else None, reason=entry.reason)

    @contextmanager
    def _changing(self, run: Run) -> Iterator[Transaction]:
        with self._writing() as connection:
            yield Transaction(connection, run, self.now())

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


def _apply(transaction: Transaction, settlements: Sequence[Settlement]) -> None:
    """Commit settlements, and do what they mean for others on their lanes."""
    queue.follow(transaction, change(transaction, settlements), settlements)
