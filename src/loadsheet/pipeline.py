"""The stages in order and nothing else. Read this first.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

Up to the ledger nothing touches the network; after it nothing touches a source file. After a crash everything is decided from
the ledger, so a run begins by learning what the last one left unknown, and only then sends anything new.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from loadsheet import reconcile, reports
from loadsheet.contract import BY_NAME, Listing
from loadsheet.dispatch import Client, Stop, resolve_unknown, send
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
from loadsheet.settings import Settings

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to: its exit code, its reports, why it stopped early (if it did), and what is left in the inbox."""

    exit_code: int
    reports: reports.Written
    stopped: LoadsheetError | None
    left: tuple[Problem, ...]


def run(settings: Settings, ledger: Ledger, client: Client, *, progress: Progress | None = None) -> Result:
    """One run: learn what became of the last one, take in every finished file, deliver what is ready, account for every row.

    Raises MappingError before anything is touched if a mapping is wrong, and LedgerError. What the exchange does ends in
    `Result.stopped`, never in an exception.
    """
    mappings = load_folder(settings.mappings, settings.assumptions)
    this_run = ledger.begin_run()
    stopped = learn(settings, ledger, client, this_run)
    taken = take_in(settings, ledger, this_run, mappings)
    stopped = stopped or deliver(settings, ledger, client, this_run, progress=progress)
    return account(settings, ledger, client, this_run, stopped=taken.fault or stopped, left=taken.left)


def learn(settings: Settings, ledger: Ledger, client: Client, this_run: Run) -> LoadsheetError | None:
    """What earlier runs left unknown, settled as far as the exchange shows it: before files are judged by what the ledger knows.

    Returns why the exchange could not be asked, if it could not: then nothing is sent either.
    """
    try:
        resolve_unknown(ledger, client, this_run, settings)
    except (ExchangeUnreachable, TokenRefused) as stopped:
        return stopped
    return None


def deliver(
    settings: Settings, ledger: Ledger, client: Client, this_run: Run, *, progress: Progress | None = None
) -> LoadsheetError | None:
    """Ready entries to settled ones: stage 5. Returns why it ended before everything was sent, if it did."""
    sent = send(ledger, client, this_run, settings, progress=progress)
    if sent.stopped is None:
        return None
    error = TokenRefused if sent.stopped is Stop.TOKEN_REFUSED else ExchangeUnreachable
    return error(f"{sent.stopped} ({sent.why}); what was not sent is still ready, run again")


def account(
    settings: Settings,
    ledger: Ledger,
    client: Client,
    this_run: Run,
    *,
    stopped: LoadsheetError | None,
    left: Sequence[Problem],
) -> Result:
    """Entries to reports: stages 6 and 7."""
    drops = ledger.history.drops_of(this_run)
    unheard = isinstance(stopped, ExchangeUnreachable | TokenRefused)
    listings = {} if unheard else _listings(client, drops)
    reconciliation = reconcile.settle(ledger.history, listings, this_run, settings)
    if not reconciliation.balances:
        stopped = DoesNotBalance("rows read and fates reported differ; see the reports")
    exit_code = _exit_code(ledger, drops, reconciliation, stopped)
    ended = replace(this_run, exit_code=exit_code, finished_at=ledger.now())
    written = reports.write(ledger.history, reconciliation, ended, settings)
    ledger.end_run(ended, exit_code=exit_code, summary={"entries": dict(written.summary.entries)})
    return Result(exit_code, written, stopped, tuple(left))


def _listings(client: Client, drops: Sequence[Drop]) -> dict[str, Listing | None]:
    """The listing of each subject that the run touched; None where it cannot be had, which proves nothing."""
    wanted = {BY_NAME[drop.operation].proved_by for drop in drops if drop.operation} - {None}
    listings: dict[str, Listing | None] = {}
    for operation in (BY_NAME[name] for name in sorted(filter(None, wanted))):
        try:
            listings[operation.subject] = client.whole_listing(operation)
        except (ExchangeUnreachable, TokenRefused):
            listings[operation.subject] = None
    return listings


def _exit_code(
    ledger: Ledger, drops: Sequence[Drop], reconciliation: reconcile.Reconciliation, stopped: LoadsheetError | None
) -> int:
    if stopped is not None:
        return stopped.exit_code
    states = {match.state for match in reconciliation.matches.values()}
    aside = any(drop.set_aside for drop in drops)
    if (aside or states) and states <= {State.INVALID}:
        return FileRefused.exit_code  # nothing usable in any file
    needed = any(match.verdict in reconcile.NEEDS_SOMEONE for match in reconciliation.matches.values())
    return int(needed or aside or ledger.history.count_in(State.UNKNOWN) > 0)
