"""A watch hands its runs to the workers: it queues a run while a worker that serves the ledger is alive."""

from datetime import datetime

from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import Connection, jobs, open_shared
from loadsheet.ledger.shared.workers import alive_workers
from loadsheet.settings import Settings


def enqueue_run(settings: Settings, now: datetime) -> bool:
    """Queue a run of this ledger. Returns False and does nothing if no live worker serves it. Raises LedgerGone."""
    with open_shared(settings.database_url) as engine, engine.begin() as connection:
        if not _is_served(connection, settings):
            return False
        jobs.request_run(connection, address_of(settings.database_url), jobs.FILES, stamp(now))
        return True


def is_run_pending(settings: Settings) -> bool:
    """Whether a run of this ledger is queued or in progress, and a worker that serves it is alive. Raises LedgerGone."""
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        is_open = jobs.open_job(connection, address_of(settings.database_url)) is not None
        return is_open and _is_served(connection, settings)


def _is_served(connection: Connection, settings: Settings) -> bool:
    return bool(alive_workers(connection, settings.cluster.takeover_s, settings.shipper))
