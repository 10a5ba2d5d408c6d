"""The stages in order and nothing else. Read this first.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

Up to the ledger nothing touches the network; after it nothing touches a source file. After a crash everything is decided from
the ledger, so a run begins by learning what the last one left unknown, and only then sends anything new. What waits for an order or
tender that nobody sent is sent when a listing shows it; what still waits at the end is held, and the next run goes on from there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from loadsheet import journal, reconcile, reports
from loadsheet.contract import BY_NAME
from loadsheet.dispatch import Client, Delivered, Listings, Patience, deliver, look, resolve_by, resolve_unknown
from loadsheet.intake import take_in
from loadsheet.ledger import Drop, Ledger, Run, State
from loadsheet.mapping import load_folder
from loadsheet.problems import (
    DoesNotBalance,
    ExchangeUnreachable,
    FileRefused,
    LoadsheetError,
    Problem,
    TokenRefused,
)
from loadsheet.readback import read_back
from loadsheet.settings import Settings

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to: its exit code, its reports, why it stopped early (if it did), and what is left in the inbox or still waits;
    `late` says that the rest does not fit the night, if it does not.
    """

    exit_code: int
    reports: reports.Written
    stopped: LoadsheetError | None
    left: tuple[Problem, ...]
    late: str = ""


class Work(NamedTuple):
    """What the stages of one run share. `patience` measures how long outcomes have been unknown; `updating` names the mappings whose
    changed records go out as updates.
    """

    settings: Settings
    ledger: Ledger
    client: Client
    run: Run
    patience: Patience
    updating: tuple[str, ...] = ()


def run(settings: Settings, ledger: Ledger, client: Client, *, progress: Progress | None = None) -> Result:
    """One run: learn what became of the last one, take in every finished file, deliver what is ready, account for every row.

    Raises MappingError before anything is touched if a mapping is wrong, and LedgerError. What the exchange does ends in
    `Result.stopped`, never in an exception.
    """
    mappings = load_folder(settings.mappings, settings.assumptions)
    updating = tuple(mapping.name for mapping in mappings if mapping.changed == "update")
    work = Work(settings, ledger, client, ledger.begin_run(), Patience(ledger.now), updating)
    sent = Delivered(learn(work), Listings())
    taken = take_in(settings, ledger, work.run, mappings)
    if sent.stopped is None:
        sent = delivered(work, progress=progress)
    return account(work, sent, fault=taken.fault, left=taken.left)


@journal.stage("learn")
def learn(work: Work) -> LoadsheetError | None:
    """What earlier runs left unknown, settled as far as the exchange shows it: before files are judged by what the ledger knows.

    Returns why the exchange could not be asked, if it could not: then nothing is sent either.
    """
    try:
        resolve_unknown(work.ledger, work.client, work.run, work.settings, patience=work.patience)
    except (ExchangeUnreachable, TokenRefused) as stopped:
        return stopped
    work.ledger.release(work.run, updating=work.updating)
    return None


@journal.stage("sending")
def delivered(work: Work, *, progress: Progress | None = None) -> Delivered:
    """Ready entries to settled ones: stage 5."""
    settings, ledger, client, this_run, patience, updating = work
    return deliver(ledger, client, this_run, settings, patience=patience, updating=updating, progress=progress)


def account(work: Work, sent: Delivered, *, fault: LoadsheetError | None, left: Sequence[Problem]) -> Result:
    """Entries to reports: stages 6 and 7. `fault` is what ended the intake early, `left` what that has to say."""
    settings, ledger, client, this_run, patience, _ = work
    stopped, seen = fault or sent.stopped, sent.seen
    if not isinstance(stopped, ExchangeUnreachable | TokenRefused):
        fresh = look(client, _subjects(ledger.history.drops_of(this_run)) - seen.keys())
        resolve_by(fresh, ledger, this_run, settings, patience=patience)
        seen = seen | fresh
    drops = ledger.history.drops_of(this_run)
    read_back(settings, ledger)
    with journal.stage("reconcile"):
        reconciliation = reconcile.settle(ledger.history, seen, this_run, settings)
    ledger.follow(this_run, reconciliation.exceptions.standings)
    if not reconciliation.balances:
        stopped = DoesNotBalance("rows read and fates reported differ; see the reports")
    exit_code = _exit_code(ledger, drops, reconciliation, stopped)
    ended = replace(this_run, exit_code=exit_code, finished_at=ledger.now())
    waiting = tuple(_still_waiting(ledger, this_run))
    with journal.stage("reports"):
        written = reports.write(ledger.history, reconciliation, ended, settings, remarks=waiting, forecast=sent.left)
    shown = reconciliation.as_seen(tuple(map(str, waiting)), sent.left)
    counted = {"entries": dict(written.summary.entries), "verdicts": dict(written.summary.verdicts)}
    ledger.end_run(ended, exit_code=exit_code, summary=counted, shown=shown)
    return Result(exit_code, written, stopped, (*left, *waiting), sent.late)


def _still_waiting(ledger: Ledger, this_run: Run) -> Iterator[Problem]:
    count, oldest, since = ledger.history.still_waiting(this_run)
    if count:
        values = {"count": count, "oldest": oldest, "since": since[:10]}
        yield Problem("L610", values=values, hint="loadsheet retry --held --dry-run lists them", level="warning")


def _subjects(drops: Sequence[Drop]) -> set[str]:
    """Of which subjects these drops hold records that a listing can show."""
    operations = [BY_NAME[drop.operation] for drop in drops if drop.operation]
    return {operation.subject for operation in operations if operation.proved_by}


def _exit_code(
    ledger: Ledger, drops: Sequence[Drop], reconciliation: reconcile.Reconciliation, stopped: LoadsheetError | None
) -> int:
    if stopped is not None:
        return stopped.exit_code
    states = set(reconciliation.states)
    aside = any(drop.set_aside for drop in drops)
    if (aside or states) and states <= {State.INVALID}:
        return FileRefused.exit_code  # nothing usable in any file
    needed = reconciliation.needs_someone > 0
    return int(needed or aside or ledger.history.count_in(State.UNKNOWN) > 0)
