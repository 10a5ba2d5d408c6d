"""What the stages of a run do that need the exchange, or come after it: learn, deliver, account.

Owns: the values that they share and what a run came to. Their order stands in `pipeline`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from loadsheet import reconcile, reports, run_log
from loadsheet.annotations import read_back
from loadsheet.contract import BY_NAME
from loadsheet.dispatch import (
    Client,
    DeliveryResult,
    SharedRate,
    UnknownTimer,
    deliver,
    fetch_listings,
    verify_unknown,
    verify_with,
)
from loadsheet.internal_errors import isolated
from loadsheet.ledger import Drop, Ledger, MissingRecords, Run, State
from loadsheet.problems import (
    NOT_EXAMINED,
    WAITS_FOR_MAPPING,
    DoesNotBalance,
    ExchangeUnreachable,
    FileRefused,
    FolderError,
    LedgerUnwritable,
    LoadsheetError,
    MappingError,
    NotAllSent,
    Problem,
    ReportsIncomplete,
    TokenRefused,
)
from loadsheet.settings import Settings

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to: its exit code, its reports, why it stopped early (if it did), and what is left in the inbox or still waits;
    `late` says that the rest does not fit the night, if it does not; `undone` is what failed after its end was recorded, each with why.
    """

    exit_code: int
    reports: reports.Written
    stopped: LoadsheetError | None
    left: tuple[Problem, ...]
    late: str = ""
    undone: Mapping[str, str] = field(default_factory=dict)

    def without(self, faults: Mapping[str, str]) -> "Result":
        """The same after faults of our own in what comes after its end."""
        if not faults:
            return self
        return replace(self, exit_code=LoadsheetError.exit_code, undone={**self.undone, **faults})


class Work(NamedTuple):
    """What the stages of one run share. `timer` measures how long outcomes have been unknown; `updating` names the mappings whose
    changed records go out as updates.
    """

    settings: Settings
    ledger: Ledger
    run: Run
    timer: UnknownTimer
    updating: tuple[str, ...] = ()


class Dispatcher(NamedTuple):
    """What a run sends with: a client of the exchange, the pace that it shares with others (None: it is alone), and the signals that ask to
    stop (None: sending notes them itself).
    """

    client: Client
    pace: SharedRate | None = None
    stopping: Sequence[int] | None = None


@run_log.stage("learn")
def learn(work: Work, client: Client) -> LoadsheetError | None:
    """What earlier runs left unknown, settled as far as the exchange shows it: before files are judged by what the ledger knows.

    Returns why the exchange could not be asked, if it could not: then nothing is sent either.
    """
    try:
        verify_unknown(work.ledger, client, work.run, work.settings, timer=work.timer)
    except (ExchangeUnreachable, TokenRefused) as stopped:
        return stopped
    work.ledger.release(work.run, updating=work.updating)
    return None


@run_log.stage("sending")
def delivered(work: Work, dispatcher: Dispatcher, *, progress: Progress | None = None) -> DeliveryResult:
    """Ready entries to settled ones: stage 5."""
    settings, ledger, this_run, timer, updating = work
    client, pace, stopping = dispatcher
    return deliver(
        ledger,
        client,
        this_run,
        settings,
        timer=timer,
        updating=updating,
        progress=progress,
        stopping=stopping,
        shared_rate=pace,
    )


def account(
    work: Work, client: Client, sent: DeliveryResult, *, fault: LoadsheetError | None, left: Sequence[Problem]
) -> Result:
    """Entries to reports: stages 6 and 7. `fault` is what ended the intake early, `left` what that has to say. Also told are runs that
    died, or failed, before their own reports.

    A fault of our own in here never fails the run: it ends, with exit code 70, as few reports as can be, and their names in the ledger.
    """
    unfinished = work.ledger.adopt_unfinished_runs(work.run)
    faults: dict[str, str] = {}
    with isolated(reports.ALL, faults):
        return _accounted(work, client, sent, unfinished=unfinished, stopped=fault or sent.stopped, left=left)
    if unfinished:  # it may be they that cannot be told: each gets the least, and this run is told without them
        for run in unfinished:
            _least(work, run, faults)
        return account(work, client, sent, fault=fault, left=left)
    written = _least(work, work.run, faults)
    stopped = _stopped(written, fault or sent.stopped)
    return Result(ReportsIncomplete.exit_code, written, stopped, tuple(left), sent.late)


def _accounted(
    work: Work,
    client: Client,
    sent: DeliveryResult,
    *,
    unfinished: Sequence[Run],
    stopped: LoadsheetError | None,
    left: Sequence[Problem],
) -> Result:
    settings, ledger, this_run, timer, _ = work
    seen = sent.seen
    if not isinstance(stopped, ExchangeUnreachable | TokenRefused):
        fresh = fetch_listings(client, _subjects(ledger.queries.drops_of(this_run)) - seen.keys())
        verify_with(fresh, ledger, this_run, settings, timer=timer)
        seen = seen | fresh
    drops = ledger.queries.drops_of(this_run)
    read_back(settings, ledger)
    with run_log.stage("reconcile"):
        reconciliation = reconcile.settle(ledger.queries, seen, this_run, settings)
    ledger.record_exceptions(this_run, reconciliation.exceptions.standings)
    if not reconciliation.balances:
        stopped = DoesNotBalance("rows read and fates reported differ; see the reports")
    stopped = stopped or _not_examined(drops, this_run) or _not_all_sent(ledger, sent)
    exit_code = stopped.exit_code if stopped else _exit_code(ledger, drops, reconciliation, left, settings)
    exit_code = _lacking_mappings(exit_code, left)
    ended = replace(this_run, exit_code=exit_code, finished_at=ledger.now())
    said = (
        *_told_here(ledger, unfinished),
        *_still_waiting(ledger, this_run),
        *_still_missing(ledger, this_run),
        *_unverified(reconciliation),
    )
    lying, missing = reports.left_in_inbox(left), _missing_records(ledger, drops, (this_run, *unfinished))
    shown = reconciliation.pack_snapshot(tuple(map(str, said)), sent.left, lying, missing)
    with run_log.stage("reports"):
        written = reports.write(
            ledger.queries,
            reconciliation,
            ended,
            settings,
            remarks=said,
            forecast=sent.left,
            inbox=lying,
            missing_records=missing,
            allowed=ledger.check_still_held,
        )
    if written.incomplete:
        exit_code, stopped = ReportsIncomplete.exit_code, _stopped(written, stopped)
    try:
        ledger.end_run(ended, exit_code=exit_code, summary=written.in_ledger, shown=shown)
    except LedgerUnwritable as full:  # the next run tells of this one
        with suppress(FolderError):
            reports.rewrite_summary(
                written.with_failed_steps(full.exit_code, {"the end of the run in the ledger": str(full)}), settings
            )
        raise
    return Result(exit_code, written, stopped, (*left, *said), sent.late)


def _least(work: Work, run: Run, missing: Mapping[str, str]) -> reports.Written:
    """End a run with the reports of last resort."""
    settings, ledger = work.settings, work.ledger
    ledger.check_still_held()
    ended = replace(run, exit_code=ReportsIncomplete.exit_code, finished_at=ledger.now())
    written = reports.write_fallback(ledger.queries, ended, settings, missing=missing)
    ledger.end_run(ended, exit_code=ReportsIncomplete.exit_code, summary=written.in_ledger)
    return written


def _stopped(written: reports.Written, stopped: LoadsheetError | None) -> LoadsheetError | None:
    """Why a run whose reports are incomplete ended so; what had stopped it before is said as well."""
    incomplete = written.incomplete
    return ReportsIncomplete(f"{incomplete}; {stopped}") if incomplete and stopped else incomplete


def _lacking_mappings(exit_code: int, left: Sequence[Problem]) -> int:
    """The exit code of a run that could not use every mapping: whatever else is wrong with files, that comes first."""
    lacking = any(one.code in WAITS_FOR_MAPPING for one in left)
    return MappingError.exit_code if lacking and exit_code in (0, 1, FileRefused.exit_code) else exit_code


def _missing_records(ledger: Ledger, drops: Sequence[Drop], told: Sequence[Run]) -> dict[int, MissingRecords]:
    """By drop, what the last version of its file had and it has not, of the drops that these runs read."""
    found: dict[int, MissingRecords] = {}
    for run in told:
        found |= ledger.queries.missing_records([drop for drop in drops if drop.run == run.name])
    return found


def _told_here(ledger: Ledger, unfinished: Sequence[Run]) -> Iterator[Problem]:
    for run in unfinished:
        if ledger.queries.drops_of(run):
            yield Problem("L613", values={"run": run.name}, level="warning")


def _not_examined(drops: Sequence[Drop], this_run: Run) -> LoadsheetError | None:
    """That a fault of our own kept a table of this run from being examined for damage, if one did: its rows went on without."""
    found = (one for drop in drops if drop.run == this_run.name for table in drop.tables for one in table.problems)
    return next((ReportsIncomplete(str(one)) for one in found if one.code == NOT_EXAMINED), None)


def _not_all_sent(ledger: Ledger, sent: DeliveryResult) -> LoadsheetError | None:
    """That records are ready which this run could have sent, if there are any: a lost answer was proved too late for it, for instance."""
    if sent.limited or not ledger.ready(1):
        return None
    return NotAllSent("records became ready to be sent only at the end of this run", todo="the next run sends them")


def _still_missing(ledger: Ledger, this_run: Run) -> Iterator[Problem]:
    for run in ledger.queries.runs_with_reports_missing(this_run):
        hint = f"loadsheet report --run {run.name} makes them"
        yield Problem(
            "L615", values={"run": run.name, "lacks": reports.missing_reports(run)}, hint=hint, level="warning"
        )


def _still_waiting(ledger: Ledger, this_run: Run) -> Iterator[Problem]:
    count, oldest, since = ledger.queries.still_waiting(this_run)
    if count:
        values = {"count": count, "oldest": oldest, "since": since[:10]}
        yield Problem("L610", values=values, hint="loadsheet retry --held --dry-run lists them", level="warning")


def _unverified(reconciliation: reconcile.Reconciliation) -> Iterator[Problem]:
    for leg, entries, every in reconciliation.unverified:
        values = {"count": f"{entries:,}", "total": f"{every:,}", "listed": f"{leg.listed:,}", "held": f"{leg.total:,}"}
        values |= {"subject": leg.subject, "why": leg.reason or "the listing is not complete"}
        yield Problem("L614", values=values, hint=leg.todo, level="warning")


def _subjects(drops: Sequence[Drop]) -> set[str]:
    """Of which subjects these drops hold records that a listing can show."""
    operations = [BY_NAME[drop.operation] for drop in drops if drop.operation]
    return {operation.subject for operation in operations if operation.proved_by}


def _exit_code(
    ledger: Ledger,
    drops: Sequence[Drop],
    reconciliation: reconcile.Reconciliation,
    left: Sequence[Problem],
    settings: Settings,
) -> int:
    states = set(reconciliation.states)
    aside = any(drop.set_aside for drop in drops)
    if (aside or states) and states <= {State.INVALID}:
        return FileRefused.exit_code  # nothing usable in any file
    needed = reconciliation.needs_someone > 0 or reconciliation.red_totals > 0
    needed = needed or any(one.level == "error" for one in left)  # such a file stays for ever
    share = settings.unverified_share_max
    needed = needed or any(one.entries > share * one.all for one in reconciliation.unverified)
    return int(needed or aside or ledger.queries.count_in(State.UNKNOWN) > 0)
