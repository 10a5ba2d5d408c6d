"""The stages in order and nothing else. Read this first.

    inbox -> reading -> mapping -> ledger -> dispatch -> reconcile -> reports

Nothing before the ledger touches the network; nothing after it touches a source file. After a crash, the ledger decides everything: a run
first resolves the unknown outcomes of earlier runs, and only then sends new entries. If we did not send the order or tender of an entry,
the entry is sent once a listing shows that parent. Entries that still wait at the end are held for the next run. Stages 5 to 7 are in
`stages`.
"""

from loadsheet import reports
from loadsheet.dispatch import DeliveryResult, Dispatcher, Listings, RunContext, UnknownTimer
from loadsheet.ledger import Ledger
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping import load_folder
from loadsheet.settings import Settings
from loadsheet.stages import Progress, Result, deliver_ready, reconcile_and_report, resolve_earlier


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
        sent = deliver_ready(context, progress=progress)
    return reconcile_and_report(context, sent, ingested)
