"""What all ledgers of one PostgreSQL database share: workers, the rate limit, claims of objects, schedules that fired, and the queue.

Each shipper's ledger lies in a schema of its own beside it; see `loadsheet.ledger.opening`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.jobs import make_tables

__all__ = ["Connection", "Engine", "open_shared"]  # two types for rooms that only pass them on


@contextmanager
def open_shared(url: str, *, makes: bool = False) -> Iterator[Engine]:
    """The tables shared by the ledger at a PostgreSQL URL, while the `with` block lasts; `makes` creates missing tables.

    Raises LedgerGone if the server cannot be reached, and SettingsError for a URL that cannot be used.
    """
    address = address_of(url)
    engine = shared_engine(address)
    try:
        if makes:
            make_tables(engine, address)
        yield engine
    finally:
        engine.dispose()
