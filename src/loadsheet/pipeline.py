"""The run, from top to bottom. Read this first.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

Nothing before the ledger touches the network; nothing after it touches a source file. After a crash, the ledger decides everything: a run
first resolves the unknown outcomes of earlier runs, and only then sends new entries. If we did not send the order or tender of an entry,
the entry is sent once a listing shows that parent. Entries that still wait at the end are held for the next run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from loadsheet import exit_codes, reconcile, reports, run_log
from loadsheet.annotations import import_annotations
from loadsheet.contract import BY_NAME
from loadsheet.dispatch import (
    DeliveryResult,
    Dispatcher,
    Listings,
    RunContext,
    UnknownTimer,
    deliver,
    fetch_listings,
    verify_unknown,
    verify_with,
)
from loadsheet.dispatch.sending import Progress
from loadsheet.errors import (
    DoesNotBalance,
    ExchangeUnreachable,
    FolderError,
    LedgerUnwritable,
    LoadsheetError,
    NotAllSent,
    ReportsIncomplete,
    TokenRefused,
)
from loadsheet.ingest import IngestResult
from loadsheet.internal_errors import isolated
from loadsheet.ledger import Drop, Ledger, MissingRecords, Run, State
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.problems import NOT_EXAMINED, WAITS_FOR_MAPPING, Problem
from loadsheet.settings import Settings


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run: exit code, reports, the reason if it stopped early, and the problems of files that stay or wait.
    `late` says that the rest cannot be sent by `finish_by`. `undone` maps each step that failed after the recorded end to its reason.
    """

    exit_code: int
    reports: reports.Written
    stopped: LoadsheetError | None
    inbox_problems: tuple[Problem, ...]
    late: str = ""
    undone: Mapping[str, str] = field(default_factory=dict)

    def with_failed_steps(self, failed: Mapping[str, str]) -> "Result":
        """The result with these steps added to those that failed (name: reason). The exit code becomes 70."""
        if not failed:
            return self
        return replace(self, exit_code=exit_codes.INTERNAL_ERROR, undone={**self.undone, **failed})


def run(settings: Settings, ledger: Ledger, dispatcher: Dispatcher, *, progress: Progress | None = None) -> Result:
    """One run: resolve earlier unknown outcomes, ingest every finished file, deliver ready entries, account for every row.

    Raises MappingError and FolderError before it changes anything if a mapping is wrong or the outbox is not writable. Later it raises
    LedgerError, and FolderError if reports cannot be written: the next run then reports this one. Errors of the exchange end up in
    `Result.stopped`, never in an exception.
    """
    mappings = load_folder(settings.mappings, settings.assumptions)
    reports.check_writable(settings.outbox_here)
    this_run = ledger.begin_run(reports.run_folders(settings.outbox_here))
    updating = tuple(mapping.name for mapping in mappings if mapping.changed == "update")
    context = RunContext(settings, ledger, this_run, dispatcher, UnknownTimer(ledger.now), updating)
    sent = DeliveryResult(resolve_earlier(context), Listings())
    ingested = ingest_files(settings, ledger, this_run, mappings)
    if sent.stopped is None:
        sent = deliver(context, progress)
    return reconcile_and_report(context, sent, ingested)


@run_log.stage("learn")
def resolve_earlier(context: RunContext) -> LoadsheetError | None:
    """Resolve the unknown outcomes of earlier runs from the listings, before new files are compared with the ledger.

    Returns the error if the exchange could not be queried; nothing is sent then.
    """
    try:
        verify_unknown(context)
    except (ExchangeUnreachable, TokenRefused) as stopped:
        return stopped
    context.ledger.release(context.run, updating=context.updating)
    return None


def reconcile_and_report(context: RunContext, sent: DeliveryResult, ingested: IngestResult) -> Result:
    """Reconcile and write the reports: stages 6 and 7. Runs that died or failed before their reports are reported here as well.

    An internal error never fails the run: it then ends with exit code 70 and minimal reports, and the ledger lists the missing ones.
    """
    unfinished = context.ledger.adopt_unfinished_runs(context.run)
    stopped = ingested.fault or sent.stopped
    faults: dict[str, str] = {}
    result: Result | None = None
    with isolated(reports.ALL, faults):  # an internal error is in `faults` afterwards, and there is no result
        result = _end_run(context, sent, unfinished, stopped, ingested.inbox_problems)
    if result is not None:
        return result
    if unfinished:  # they may be the cause: report each with minimal reports, and this run without them
        for run in unfinished:
            _write_minimal(context, run, faults)
        return reconcile_and_report(context, sent, ingested)
    written = _write_minimal(context, context.run, faults)
    return Result(
        exit_codes.INTERNAL_ERROR, written, _stop_reason(written, stopped), ingested.inbox_problems, sent.late
    )


def _reconcile(context: RunContext, sent: DeliveryResult, stopped: LoadsheetError | None) -> reconcile.Reconciliation:
    """Match the entries with the latest listings, and import the analyst's comments: stage 6."""
    settings, ledger, this_run = context.settings, context.ledger, context.run
    seen = sent.seen
    if not isinstance(stopped, ExchangeUnreachable | TokenRefused):
        fresh = fetch_listings(context.client, _subjects(ledger.queries.drops_of(this_run)) - seen.keys())
        verify_with(fresh, context)
        seen = seen | fresh
    import_annotations(settings, ledger)
    with run_log.stage("reconcile"):
        reconciliation = reconcile.reconcile_run(ledger.queries, seen, this_run, settings)
    ledger.record_exceptions(this_run, reconciliation.exceptions.statuses)
    return reconciliation


def _end_run(
    context: RunContext,
    sent: DeliveryResult,
    unfinished: Sequence[Run],
    stopped: LoadsheetError | None,
    inbox_problems: Sequence[Problem],
) -> Result:
    """Reconcile, choose the exit code, write the reports, and record the end of the run. Raises LedgerError and FolderError."""
    settings, ledger, this_run = context.settings, context.ledger, context.run
    reconciliation = _reconcile(context, sent, stopped)
    if not reconciliation.balances:
        stopped = DoesNotBalance("the rows read and the rows accounted for differ; the reports show where")
    stopped = stopped or damage_check_error(reconciliation.drops, this_run) or _unsent_error(ledger, sent)
    unknown = ledger.queries.count_in(State.UNKNOWN)
    exit_code = exit_code_of(reconciliation, settings, inbox_problems, stopped=stopped, unknown=unknown)
    ended = replace(this_run, exit_code=exit_code, finished_at=ledger.now())
    warnings = tuple(_warnings(ledger, this_run, unfinished, reconciliation))
    reconciliation = replace(
        reconciliation,
        notes=reconcile.RunNotes(
            tuple(map(str, warnings)),
            sent.remaining_text,
            reports.left_in_inbox(inbox_problems),
            _missing_records(ledger, reconciliation.drops, (this_run, *unfinished)),
            "" if stopped is None or not reconciliation.balances else stopped.found,
            ledger.queries.count_in(State.READY),
        ),
    )
    snapshot = reconciliation.pack_snapshot()
    with run_log.stage("reports"):
        written = reports.write(
            ledger.queries, reconciliation, ended, settings, check_still_held=ledger.check_still_held
        )
    written = replace(written, reported_at=ledger.now())
    if written.incomplete:
        exit_code, stopped = exit_codes.INTERNAL_ERROR, _stop_reason(written, stopped)
    try:
        ledger.end_run(ended, exit_code=exit_code, summary=written.in_ledger, snapshot=snapshot)
    except LedgerUnwritable as full:  # the next run reports this one
        with suppress(FolderError):
            reports.rewrite_summary(
                written.with_failed_steps(full.exit_code, {"the end of the run in the ledger": str(full)}), settings
            )
        raise
    return Result(exit_code, written, stopped, (*inbox_problems, *warnings), sent.late)


def _warnings(
    ledger: Ledger, this_run: Run, unfinished: Sequence[Run], reconciliation: reconcile.Reconciliation
) -> Iterator[Problem]:
    """What an operator should know besides the problems of this run's files."""
    yield from _unfinished_runs(ledger, unfinished)
    yield from _still_waiting(ledger, this_run)
    yield from _still_missing(ledger, this_run)
    yield from _unverified(reconciliation)


def _write_minimal(context: RunContext, run: Run, missing: Mapping[str, str]) -> reports.Written:
    """End a run with minimal reports."""
    settings, ledger = context.settings, context.ledger
    ledger.check_still_held()
    ended = replace(run, exit_code=exit_codes.INTERNAL_ERROR, finished_at=ledger.now())
    written = reports.write_fallback(ledger.queries, ended, settings, missing=missing)
    ledger.end_run(ended, exit_code=exit_codes.INTERNAL_ERROR, summary=written.in_ledger)
    return written


def _stop_reason(written: reports.Written, stopped: LoadsheetError | None) -> LoadsheetError | None:
    """The error of a run with incomplete reports, together with the error that had stopped it before."""
    incomplete = written.incomplete
    return ReportsIncomplete(f"{incomplete}; {stopped}") if incomplete and stopped else incomplete


def _missing_records(ledger: Ledger, drops: Sequence[Drop], runs: Sequence[Run]) -> dict[int, MissingRecords]:
    """By drop id, the records that the previous version of its file had and this one lacks, for the drops of these runs."""
    found: dict[int, MissingRecords] = {}
    for run in runs:
        found |= ledger.queries.missing_records([drop for drop in drops if drop.run == run.name])
    return found


def _unfinished_runs(ledger: Ledger, unfinished: Sequence[Run]) -> Iterator[Problem]:
    for run in unfinished:
        if ledger.queries.drops_of(run):
            yield Problem("L613", values={"run": run.name}, level="warning")


def damage_check_error(drops: Sequence[Drop], this_run: Run) -> LoadsheetError | None:
    """The error if an internal error prevented the damage checks of a table; its rows were processed without them."""
    problems = (
        found for drop in drops if drop.run == this_run.name for table in drop.tables for found in table.problems
    )
    return next((ReportsIncomplete(str(found)) for found in problems if found.code == NOT_EXAMINED), None)


def _unsent_error(ledger: Ledger, sent: DeliveryResult) -> LoadsheetError | None:
    """The error if ready records remain that this run could have sent, for example after a late proof of a lost answer."""
    if sent.ended_early or not ledger.ready(1):
        return None
    return NotAllSent("some records became ready after sending had ended", todo="the next run sends them")


def _still_missing(ledger: Ledger, this_run: Run) -> Iterator[Problem]:
    for run in ledger.queries.runs_with_reports_missing(this_run):
        hint = f"loadsheet report --run {run.name} writes them"
        yield Problem(
            "L615", values={"run": run.name, "lacks": reports.missing_reports(run)}, hint=hint, level="warning"
        )


def _still_waiting(ledger: Ledger, this_run: Run) -> Iterator[Problem]:
    count, oldest, since = ledger.queries.still_waiting(this_run)
    if count:
        values = {"count": count, "oldest": oldest, "since": since[:10]}
        yield Problem("L610", values=values, hint="loadsheet retry --held --dry-run lists them", level="warning")


def _unverified(reconciliation: reconcile.Reconciliation) -> Iterator[Problem]:
    for leg, entries, total in reconciliation.unverified:
        values = {"count": f"{entries:,}", "total": f"{total:,}", "listed": f"{leg.listed:,}", "held": f"{leg.total:,}"}
        values |= {"subject": leg.subject, "why": leg.reason or "the listing is not complete"}
        yield Problem("L614", values=values, hint=leg.todo, level="warning")


def _subjects(drops: Sequence[Drop]) -> set[str]:
    """The subjects of these drops whose records appear in listings."""
    operations = [BY_NAME[name] for drop in drops for name in drop.operations]
    return {operation.subject for operation in operations if operation.proved_by}


def exit_code_of(
    reconciliation: reconcile.Reconciliation,
    settings: Settings,
    inbox_problems: Sequence[Problem],
    *,
    stopped: LoadsheetError | None,
    unknown: int,
) -> int:
    """The exit code of a run, or of one that is only forecast. `inbox_problems` are those of files that stay in the inbox, `unknown` is the
    number of entries whose outcome is unknown.
    """
    states = set(reconciliation.states)
    aside = any(drop.set_aside for drop in reconciliation.drops)
    share = settings.reconcile.unverified_share_max
    needs_someone = (
        aside
        or reconciliation.needs_someone > 0
        or reconciliation.red_totals > 0
        or any(problem.level == "error" for problem in inbox_problems)  # such a file stays until someone acts
        or any(leg.entries > share * leg.listable for leg in reconciliation.unverified)
        or unknown > 0
    )
    return exit_codes.exit_code(
        stopped=stopped.exit_code if stopped else None,
        lacks_mapping=any(problem.code in WAITS_FOR_MAPPING for problem in inbox_problems),
        nothing_usable=needs_someone and (aside or bool(states)) and states <= {State.INVALID},
        needs_someone=needs_someone,
    )
