"""Stage 4: changes to the ledger. Every change of state is checked and committed in one transaction with its event.

Owns: every change to the ledger. Knows nothing about how documents are made or how calls are sent.
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
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, insert, update

from loadsheet import run_log
from loadsheet.errors import LedgerError, LedgerUnwritable
from loadsheet.ledger import codec, decisions, exception_status, run_queries, waiting
from loadsheet.ledger.decisions import Choice
from loadsheet.ledger.exception_status import WORKBOOKS_READ, ExceptionStatus, Remark, WorkbookRead, record_findings
from loadsheet.ledger.ledger_tables import at_one_moment, files, looks, runs, store_value
from loadsheet.ledger.location import LastRunRecord, LedgerFiles, back_up
from loadsheet.ledger.maintenance import Maintenance, faults_in
from loadsheet.ledger.models import Decision, Drop, ListingFinding, Run, Settlement, SourceFile, State
from loadsheet.ledger.postgres import Fence
from loadsheet.ledger.queries import INTERRUPTED, LedgerQueries
from loadsheet.ledger.queue import DropOperation, LeftOut, Submission, ready_submissions
from loadsheet.ledger.recording import (
    DEFAULT_RULES,
    PlanningRules,
    ReadTotals,
    free_run_name,
    record_drop,
    record_mapping,
    record_plan,
)
from loadsheet.ledger.transitions import (
    CHUNK,
    Intent,
    Transaction,
    begin_sending,
    change_states,
    interrupted_settlements,
    make_unsent_unknown,
    never_sent,
    still_applicable,
)
from loadsheet.mapping.documents import Document, Ignored, Lineage

if TYPE_CHECKING:
    from loadsheet.ledger import erasure
    from loadsheet.ledger.exporting import Row

Done = TypeVar("Done")
_LOGGED = frozenset({State.REFUSED, State.UNKNOWN, State.HELD})


@dataclass
class _Group:
    """One transaction for several changes: its connection, once open, and the settlements to log after the commit."""

    stack: ExitStack
    connection: Connection | None = None
    settled: list[Settlement] = field(default_factory=list)


class Ledger:
    """The durable ledger, to be used from one thread. `queries` reads it, the methods here change it, `maintenance` removes
    contents. See `open_ledger`.

    `fence` allows this process to change a shared ledger.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], datetime],
        ledger_files: LedgerFiles,
        *,
        older: bool = False,
        fence: Fence | None = None,
    ) -> None:
        self._engine, self._clock, self._files = engine, clock, ledger_files
        self._older = older  # the ledger is a restored backup, older than the last recorded run, and was accepted
        self._group: _Group | None = None
        self._fence = fence
        self.queries = LedgerQueries(engine)
        self.maintenance = Maintenance(engine, self._writing, self.now)

    @property
    def is_shared(self) -> bool:
        """Whether another process may take this ledger over."""
        return self._fence is not None

    def check_still_held(self) -> None:
        """Raise Superseded if another process has taken over. Call this before writing anything outside the ledger."""
        if self._fence is not None:
            with self._writing():
                pass

    # runs

    def begin_run(self, taken: Collection[str] = (), *, name: str = "") -> Run:
        """Start a run under this name, or a new one: not in the ledger, not in the record of the last run, not in `taken`. Entries that
        a killed run left `sending` become `unknown`.

        Reserves disk space for outcomes and writes the record of the last run. Raises LedgerUnwritable if there is no space.
        """
        self._files.reserve_space()
        with self._writing() as connection:
            now = self.now()
            last = self._files.read_last_run()
            name = name or free_run_name(connection, now[:10], [*taken, *([last.name] if last else [])])
            key = connection.execute(insert(runs).values(name=name, started_at=now)).inserted_primary_key
            run = Run(key[0] if key else 0, name, now)
            transaction = Transaction(connection, run, now)
            change_states(transaction, interrupted_settlements(connection, INTERRUPTED))
            if self._older:
                make_unsent_unknown(transaction)
        self._files.write_last_run(LastRunRecord(run.id, run.name, run.started_at))
        self._older = False
        run_log.run_started(name)
        return run

    def end_run(self, run: Run, *, exit_code: int, summary: Mapping[str, Any], snapshot: bytes = b"") -> None:
        """Close a run with its exit code and its summary (JSON values). It ends now unless `run.finished_at` is set. `snapshot` is
        its snapshot of the exchange's listings, for `LedgerQueries.listing_snapshot`.
        """
        closing = {
            "finished_at": run.finished_at or self.now(),
            "exit_code": exit_code,
            "summary": codec.encode(summary),
        }
        with self._writing() as connection:
            connection.execute(update(runs).where(runs.c.id == run.id).values(closing))
            if snapshot:
                connection.execute(insert(looks).values(run_id=run.id, shown=snapshot))
        self._checkpoint_log()
        run_log.run_ended(exit_code, summary.get("entries", {}))

    def record_late_reports(self, run: Run, summary: Mapping[str, Any], opened: Sequence[ExceptionStatus]) -> None:
        """Record the summary and the opened exceptions of a run whose reports were written after it ended."""
        known = self.queries.exceptions_of([status.entry for status in opened])
        with self._writing() as connection:
            connection.execute(update(runs).where(runs.c.id == run.id).values(summary=codec.encode(summary)))
            exception_status.record_exceptions(
                connection, run, [status for status in opened if status.entry not in known], self.now()
            )

    def adopt_unfinished_runs(self, run: Run) -> list[Run]:
        """Make this run report the work of earlier runs that died before writing reports (see `LedgerQueries.drops_of`). Returns
        those runs, oldest first. If this run dies too, the next one reports them all.
        """
        with self._engine.connect() as connection:
            if not run_queries.unreported_before(connection, run):
                return []
        with self._writing() as connection:
            unreported = run_queries.unreported_before(connection, run)
            run_queries.mark_reported_by(connection, run, unreported)
        return self.queries.runs_by_id(unreported)

    # planning

    def plan(
        self,
        run: Run,
        drop: Drop,
        lineage: Lineage,
        items: Iterable[Document | Ignored | ReadTotals],
        rules: PlanningRules = DEFAULT_RULES,
    ) -> tuple[Drop, Counter[State]]:
        """Record a drop and all its documents in their planned states in one transaction. Sets `drop.id`. The last of the `items`
        holds the totals. If too many documents are invalid (see `rules`), or a problem concerns all of them, the valid ones are
        held. Raises DoesNotBalance and records nothing if a row is in no document or in two.
        """
        stream = iter(items)
        # Some files are read completely before the first document is known: do not keep a transaction open meanwhile.
        first = list(islice(stream, CHUNK))
        with self._changing(run) as transaction:
            record_mapping(transaction.connection, drop, lineage)
            identity, fates = record_plan(transaction, drop, chain(first, stream), rules)
        planned = self.queries.drop(identity)
        if fates[State.HELD]:
            self._log_held(planned)
        return planned, fates

    def set_aside(self, run: Run, file: SourceFile) -> Drop:
        """Record a file that was set aside unread. `file.problems` holds the reasons."""
        with self._writing() as connection:
            identity = record_drop(connection, run, Drop(0, run.name, (file,)))
        return self.queries.drop(identity)

    def record_kept_as(self, drop: int, name: str, kept_as: str) -> None:
        """Record where the bytes of a drop's file are now."""
        with self._writing() as connection:
            matching = (files.c.drop_id == drop) & (files.c.name == name)
            connection.execute(update(files).where(matching).values(kept_as=kept_as))

    # sending

    def ready(
        self, limit: int, *, parts_out: Collection[DropOperation] = (), operations_out: Collection[str] = ()
    ) -> list[Submission]:
        """The oldest ready entries, at most `limit`. Skips lanes where an entry is being sent or unknown, and entries that wait
        for their order or tender. Skips `parts_out`, `operations_out`, and entries that would overtake one of these on its lane.
        """
        with self._reading() as connection:
            return ready_submissions(connection, limit, LeftOut(parts_out, operations_out))

    def ready_of(
        self,
        part: DropOperation,
        limit: int,
        *,
        parts_out: Collection[DropOperation],
        operations_out: Collection[str] = (),
    ) -> list[Submission]:
        """The same for one drop and operation."""
        left_out = LeftOut([other for other in parts_out if other != part], operations_out)
        with self._reading() as connection:
            return ready_submissions(connection, limit, left_out, part)

    def mark_sending(self, run: Run, calls: Sequence[tuple[Sequence[Submission], bytes]]) -> None:
        """Commit the intent to send before any byte leaves. Each call is its submissions and its request body.

        Raises LedgerError and marks none if a submission is no longer ready. Raises LedgerUnwritable if the disk is full.
        """
        self._files.reserve_space()  # released when the disk is full: nothing is sent until there is space again
        intents = []
        for carried, body in calls:
            digest = hashlib.sha256(body).hexdigest()
            intents += [Intent(submission.id, submission.attempts, digest) for submission in carried]
        with self._changing(run) as transaction:
            begin_sending(transaction, intents)

    def settle(self, run: Run, settlements: Sequence[Settlement]) -> None:
        """Commit settlements from attempts, a listing or a person in one transaction.

        On a full disk it uses the reserved space. Raises LedgerError and changes nothing if a transition is not allowed.
        """
        if self._group is not None:
            self._settle(run, settlements)
            self._group.settled += settlements
            return
        self._with_reserve(partial(self._settle, run, settlements))
        self._log(settlements)

    def settle_from_listing(self, run: Run, settlements: Sequence[Settlement]) -> list[Settlement]:
        """Commit settlements of unknown entries from a listing, each with the attempt it is about. Returns those that were
        still valid: a late outcome may have been recorded first.
        """
        valid = self._with_reserve(partial(self._settle, run, settlements, only_new=True))
        self._log(valid)
        return valid

    def settle_after_outage(self, run: Run, settlements: Sequence[Settlement], in_flight: Collection[int]) -> None:
        """Commit outcomes whose earlier commit may have failed because the ledger could not be reached; each counts once.
        Entries recorded as `sending` without an outcome that are not `in_flight` were never sent and become ready again.
        """
        with self._changing(run) as transaction:
            valid = still_applicable(transaction.connection, settlements)
            sent = {settlement.entry for settlement in settlements}.union(in_flight)
            _apply(transaction, [*valid, *never_sent(transaction.connection, sent)])

    def settle_late(self, run: Run, settlements: Sequence[Settlement]) -> int:
        """Commit outcomes of calls that left before another process took over the ledger, if they are still valid. Returns
        their number. The fence is not checked: each settlement names its attempt.
        """
        with self._unfenced() as connection:
            valid = still_applicable(connection, settlements)
            _apply(Transaction(connection, run, self.now()), valid)
        self._log(valid)
        return len(valid)

    def _settle(self, run: Run, settlements: Sequence[Settlement], *, only_new: bool = False) -> list[Settlement]:
        with self._changing(run) as transaction:
            valid = still_applicable(transaction.connection, settlements) if only_new else list(settlements)
            _apply(transaction, valid)
        return valid

    def _with_reserve(self, settle: Callable[[], Done]) -> Done:
        """Settle. On a full disk, release the reserved space and try once more."""
        try:
            return settle()
        except LedgerUnwritable:
            if not self._files.release_space():
                raise
            return settle()

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """Record everything in the `with` block in one transaction: all of it or nothing. `ready` in the block sees it. Raises
        LedgerUnwritable on a full disk. Only `settle` may use the reserved space.
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
        """Release entries that no longer wait for their order, tender or an earlier outcome. Returns their number. `orphans`: send
        entries without their order or tender. `updating`: mappings whose creates become updates if the record was accepted with
        other content.
        """
        with self._changing(run) as transaction:
            return waiting.release(transaction, orphans=orphans, updating=updating)

    def hold_waiting(self, run: Run, *, only_changed: bool = False) -> int:
        """Hold ready entries that cannot be sent, with what they wait for. Returns their number. `only_changed` leaves those that were held
        before alone on lanes that the run did not change.
        """
        with self._changing(run) as transaction:
            return waiting.hold_waiting(transaction, only_changed=only_changed)

    def record_seen(self, run: Run, lanes: Collection[str]) -> None:
        """Record that a listing showed the orders or tenders of these lanes. `release` then releases their children."""
        with self._changing(run) as transaction:
            waiting.record_seen(transaction, lanes)

    # deciding

    def record_findings(self, run: Run, findings: Sequence[ListingFinding]) -> None:
        """Record what a listing showed about unknown entries. Each text becomes the hint of its entry."""
        with self._writing() as connection:
            record_findings(connection, run, findings)

    def decide(self, run: Run, chosen: Sequence[Choice], *, who: str, choice: str, comment: str) -> None:
        """Commit a person's decisions in one transaction and add each to the chain of decisions.

        Raises LedgerError and changes nothing if one of the entries changed after the person looked at it.
        """
        with self._changing(run) as transaction:
            connection, _, now = transaction
            before = decisions.apply_choices(transaction, chosen)
            made = [Decision(item.entry.id, now, who, choice, comment, item.evidence, "") for item in chosen]
            decisions.append_to_chain(connection, made)
            waiting.apply_consequences(transaction, before, [item.settlement for item in chosen])

    # following up

    def record_exceptions(self, run: Run, statuses: Iterable[ExceptionStatus]) -> None:
        """Record the status of exceptions after a run: it opens new ones and closes those with a closing reason."""
        with self._writing() as connection:
            exception_status.record_exceptions(connection, run, statuses, self.now())

    def record_remarks(self, remarks: Sequence[Remark], read: Mapping[str, WorkbookRead]) -> int:
        """Record the analyst's remarks, and all workbooks read so far by name. Returns the number of new remarks."""
        with self._writing() as connection:
            store_value(connection, WORKBOOKS_READ, codec.encode(read))
            return exception_status.record_remarks(connection, remarks)

    def store_schedules_done(self, done: Mapping[str, str]) -> None:
        """Store the time (ISO 8601 UTC) up to which each schedule is done, by name. Other schedules are removed."""
        with self._writing() as connection:
            store_value(connection, run_queries.SCHEDULES, codec.encode(dict(sorted(done.items()))))

    def store_value(self, name: str, value: str) -> None:
        """Store a value that this run leaves for the next, replacing the previous one (see `LedgerQueries.stored_value`)."""
        with self._writing() as connection:
            store_value(connection, f"{run_queries.STORED_PREFIX}{name}", value)

    def store_mappings_folder(self, folder: str) -> None:
        """Store the absolute path of the folder whose mappings this run uses."""
        if folder != self.queries.mappings_folder():
            with self._writing() as connection:
                store_value(connection, run_queries.MAPPINGS_FOLDER, folder)

    # maintenance

    def insert_rows(self, table: str, rows: "Iterator[Row]") -> None:
        """Insert rows of a slice of another ledger into a table of this one, which has none of them yet."""
        from loadsheet.ledger.exporting import insert_rows

        with self._writing() as connection:
            insert_rows(connection, table, rows)

    def in_transaction(self, change: Callable[[Connection], Done]) -> Done:
        """Change the whole ledger in one transaction, as the import of another ledger does."""
        with self._writing() as connection:
            return change(connection)

    def traces_of_key(self, key: str) -> "erasure.KeyTraces":
        """All traces of a key in the ledger."""
        from loadsheet.ledger import erasure

        with self._engine.connect() as connection:
            return erasure.traces_of_key(connection, key)

    def erase_key(self, run: Run, request: "erasure.ErasureRequest") -> None:
        """Erase what a person requested in one transaction, and chain the decision. Raises NotSettled and changes nothing if an
        entry of the key is not settled.
        """
        from loadsheet.ledger import erasure

        with self.maintenance.writing() as connection:
            erasure.erase_key(Transaction(connection, run, self.now()), request)

    def check(self) -> list[str]:
        """All faults of the ledger, in words. Empty if it is sound. Reads everything: minutes for millions of rows."""
        with at_one_moment(self._engine).connect() as connection:
            return list(faults_in(connection))

    def back_up(self, target: Path) -> None:
        """Copy the ledger to a new file, durably. Raises LedgerUnwritable if that cannot be written."""
        with self._engine.connect() as connection:
            back_up(connection, target)

    def _checkpoint_log(self) -> None:
        """Copy the write-ahead log into the database as far as readers allow, so that it does not grow from run to run. If the disk fails, log a
        warning and release the reserved space: the next run does it.
        """
        if not self.maintenance.is_file:
            return  # a server manages its own log
        try:  # between transactions. A reader may keep it from finishing; the next one does the rest
            with self._engine.connect() as connection:
                connection.execution_options(bare=True).exec_driver_sql("pragma wal_checkpoint(passive)").all()
        except LedgerError as error:
            run_log.warning(
                "the ledger's write-ahead log could not be merged; the next run tries again", reason=str(error)
            )
            self._files.release_space()

    def _log(self, settlements: Sequence[Settlement]) -> None:
        """Log the committed settlements that a person may have to look at."""
        logged = [settlement for settlement in settlements if settlement.state in _LOGGED]
        if not logged or not run_log.log_is_open():
            return
        keys = self.queries.keys_of([settlement.entry for settlement in logged])
        for settlement in logged:
            where = settlement.problems[0].where if settlement.problems else None
            run_log.entry(
                f"entry {settlement.state}",
                key=keys.get(settlement.entry, ""),
                file=where.file if where else "",
                row=where.row if where else None,
                status=settlement.status,
                duration_ms=settlement.duration_ms,
                reason=settlement.reason,
            )

    def _log_held(self, drop: Drop) -> None:
        """Log the entries that planning held."""
        if not run_log.log_is_open():
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
                if self._fence is not None:
                    self._fence.check(connection)
                yield connection
            return
        if group.connection is None:
            group.connection = group.stack.enter_context(self._unfenced())
            if self._fence is not None:
                self._fence.check(group.connection)
        yield group.connection

    @contextmanager
    def _unfenced(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._group is not None and self._group.connection is not None:
            yield self._group.connection
        else:
            with self._engine.connect() as connection:
                yield connection

    def now(self) -> str:
        """The current time as the ledger writes it: ISO 8601 UTC."""
        return codec.stamp(self._clock())


def _apply(transaction: Transaction, settlements: Sequence[Settlement]) -> None:
    """Commit settlements and their consequences for other entries on their lanes."""
    waiting.apply_consequences(transaction, change_states(transaction, settlements), settlements)
