"""The state that all ledgers of one PostgreSQL database share: workers, rate limit, object claims, fired schedules, job queue.

Each shipper's ledger is in a schema of its own; see `loadsheet.ledger.ledger_opening`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from loadsheet.ledger.postgres import address_of, shared_engine

__all__ = ["Connection", "Engine", "open_shared"]  # two types for packages that only pass them on


@contextmanager
def open_shared(url: str, *, makes: bool = False) -> Iterator[Engine]:
    """The shared tables of the ledger at a PostgreSQL URL, for the `with` block. `makes` creates missing tables.

    Raises LedgerGone if the server cannot be reached, and SettingsError for a URL that cannot be used.
    """
    address = address_of(url)
    engine = shared_engine(address)
    try:
        if makes:
            from loadsheet.ledger.shared.jobs import make_tables

            make_tables(engine, address)
        yield engine
    finally:
        engine.dispose()
