"""What a watch leaves to the workers: the runs of a ledger that they serve, while one of them lives."""

from datetime import datetime

from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import Connection, jobs
from loadsheet.ledger.shared.opening import shared
from loadsheet.ledger.shared.workers import living
from loadsheet.settings import Settings


def want(settings: Settings, now: datetime) -> bool:
    """Have a worker run this ledger; False, and nothing done, if none lives that serves it. Raises LedgerGone."""
    with shared(settings.database_url) as engine, engine.begin() as connection:
        if not _is_served(connection, settings):
            return False
        jobs.want_run(connection, address_of(settings.database_url), jobs.FILES, stamp(now))
        return True


def is_wanted(settings: Settings) -> bool:
    """Whether a run of this ledger waits for a worker, or is being done by one, and one lives. Raises LedgerGone."""
    with shared(settings.database_url) as engine, engine.connect() as connection:
        is_open = jobs.wanted(connection, address_of(settings.database_url)) is not None
        return is_open and _is_served(connection, settings)


def _is_served(connection: Connection, settings: Settings) -> bool:
    return bool(living(connection, settings.takeover_s, settings.shipper))
