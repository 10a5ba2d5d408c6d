"""What the stages of a run do that need the exchange, or come after it: learn, deliver, account; and whose hands do them.

Owns: the values that they share and what a run came to. Their order stands in `pipeline`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from loadsheet import journal, reconcile, reports
from loadsheet.contract import BY_NAME
from loadsheet.dispatch import Client, Delivered, Patience, deliver, look, resolve_by, resolve_unknown
from loadsheet.intake import Elsewhere
from loadsheet.ledger import Drop, Ledger, Run, State
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
    run: Run
    patience: Patience
    updating: tuple[str, ...] = ()


class Hands(Protocol):
    """Who does the stages that need the exchange: this process, or workers that share its ledger."""

    def learn(self, work: Work) -> LoadsheetError | None: ...  # noqa: D102 (see the functions of these names)
    def elsewhere(self, work: Work) -> Elsewhere | None: ...  # noqa: D102
    def deliver(self, work: Work, *, progress: Progress | None) -> Delivered: ...  # noqa: D102
    def account(  # noqa: D102
        self, work: Work, sent: Delivered, *, fault: LoadsheetError | None, left: Sequence[Problem]
    ) -> Result: ...


class OwnHands(NamedTuple):
    """This process does all of it, over one client. Whoever handles signals himself passes `stopping`, which is filled when one asks to
    stop.
    """

    client: Client
    stopping: Sequence[int] | None = None

    def learn(self, work: Work) -> LoadsheetError | None:
        """Stage 5 for what earlier runs left."""
        return learn(work, self.client)

    def elsewhere(self, work: Work) -> Elsewhere | None:  # noqa: ARG002 (the hands of a fleet need it)
        """Nobody else translates."""
        return None

    def deliver(self, work: Work, *, progress: Progress | None) -> Delivered:
        """Stage 5."""
        return delivered(work, self.client, progress=progress, stopping=self.stopping)

    def account(self, work: Work, sent: Delivered, *, fault: LoadsheetError | None, left: Sequence[Problem]) -> Result:
        """Stages 6 and 7."""
        return account(work, self.client, sent, fault=fault, left=left)


@journal.stage("learn")
def learn(work: Work, client: Client) -> LoadsheetError | None:
    """What earlier runs left unknown, settled as far as the exchange shows it: before files are judged by what the ledger knows.

    Returns why the exchange could not be asked, if it could not: then nothing is sent either.
    """
    try:
        resolve_unknown(work.ledger, client, work.run, work.settings, patience=work.patience)
    except (ExchangeUnreachable, TokenRefused) as stopped:
        return stopped
    work.ledger.release(work.run, updating=work.updating)
    return None


@journal.stage("sending")
def delivered(
    work: Work, client: Client, *, progress: Progress | None = None, stopping: Sequence[int] | None = None
) -> Delivered:
    """Ready entries to settled ones: stage 5."""
    settings, ledger, this_run, patience, updating = work
    return deliver(
        ledger,
        client,
        this_run,
        settings,
        patience=patience,
        updating=updating,
        progress=progress,
        stopping=stopping,
    )


def account(
    work: Work, client: Client, sent: Delivered, *, fault: LoadsheetError | None, left: Sequence[Problem]
) -> Result:
    """Entries to reports: stages 6 and 7. `fault` is what ended the intake early, `left` what that has to say. Also told are runs that
    died, or failed, before their own reports.
    """
    settings, ledger, this_run, patience, _ = work
    stopped, seen = fault or sent.stopped, sent.seen
    unfinished = ledger.tell_of_unfinished(this_run)
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
    exit_code = _exit_code(ledger, drops, reconciliation, left, stopped)
    ended = replace(this_run, exit_code=exit_code, finished_at=ledger.now())
    said = (*_told_here(ledger, unfinished), *_still_waiting(ledger, this_run))
    lying = reports.left_in_inbox(left)
    with journal.stage("reports"):
        written = reports.write(
            ledger.history,
            reconciliation,
            ended,
            settings,
            remarks=said,
            forecast=sent.left,
            inbox=lying,
            allowed=ledger.still_mine,
        )
    shown = reconciliation.as_seen(tuple(map(str, said)), sent.left, lying)
    counted = {"entries": dict(written.summary.entries), "verdicts": dict(written.summary.verdicts)}
    ledger.end_run(ended, exit_code=exit_code, summary=counted, shown=shown)
    return Result(exit_code, written, stopped, (*left, *said), sent.late)


def _told_here(ledger: Ledger, unfinished: Sequence[Run]) -> Iterator[Problem]:
    for run in unfinished:
        if ledger.history.drops_of(run):
            yield Problem("L613", values={"run": run.name}, level="warning")


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
    ledger: Ledger,
    drops: Sequence[Drop],
    reconciliation: reconcile.Reconciliation,
    left: Sequence[Problem],
    stopped: LoadsheetError | None,
) -> int:
    if stopped is not None:
        return stopped.exit_code
    states = set(reconciliation.states)
    aside = any(drop.set_aside for drop in drops)
    if (aside or states) and states <= {State.INVALID}:
        return FileRefused.exit_code  # nothing usable in any file
    needed = reconciliation.needs_someone > 0 or any(one.level == "error" for one in left)  # such a file stays for ever
    return int(needed or aside or ledger.history.count_in(State.UNKNOWN) > 0)
