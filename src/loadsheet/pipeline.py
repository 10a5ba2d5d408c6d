"""The stages in order and nothing else. Read this first.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

Up to the ledger nothing touches the network; after it nothing touches a source file. After a crash everything is decided from
the ledger, so a run begins by learning what the last one left unknown, and only then sends anything new. What waits for an order or
tender that nobody sent is sent when a listing shows it; what still waits at the end is held, and the next run goes on from there.
Stages 5 to 7 are in `stages`.
"""

from collections.abc import Sequence

from loadsheet import reports
from loadsheet.dispatch import DeliveryResult, Listings, UnknownTimer
from loadsheet.ingest import take_in
from loadsheet.ledger import Ledger
from loadsheet.mapping import Mapping, load_folder
from loadsheet.settings import Settings
from loadsheet.stages import Dispatcher, Progress, Result, Work, account, delivered, learn


def run(settings: Settings, ledger: Ledger, dispatcher: Dispatcher, *, progress: Progress | None = None) -> Result:
    """One run: learn what became of the last one, take in every finished file, deliver what is ready, account for every row.

    Raises MappingError and FolderError before anything is touched if a mapping is wrong or the outbox cannot be written, and later
    LedgerError, and FolderError if reports cannot be written: the next run tells of this one then. What the exchange does ends in
    `Result.stopped`, never in an exception.
    """
    mappings = load_folder(settings.mappings, settings.assumptions)
    reports.check_writable(settings.outbox_here)
    this_run = ledger.begin_run(reports.run_folders(settings.outbox_here))
    work = Work(settings, ledger, this_run, UnknownTimer(ledger.now), updating_of(mappings))
    sent = DeliveryResult(learn(work, dispatcher.client), Listings())
    taken = take_in(settings, ledger, work.run, mappings)
    if sent.stopped is None:
        sent = delivered(work, dispatcher, progress=progress)
    return account(work, dispatcher.client, sent, fault=taken.fault, left=taken.left)


def updating_of(mappings: Sequence[Mapping]) -> tuple[str, ...]:
    """The names of the mappings whose changed records go out as updates."""
    return tuple(mapping.name for mapping in mappings if mapping.changed == "update")
