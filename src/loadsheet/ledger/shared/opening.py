"""What all ledgers of a database share, opened by itself: for who looks, and for who needs none of the ledgers."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.jobs import make_tables


@contextmanager
def shared(url: str, *, makes: bool = False) -> Iterator[Engine]:
    """What the ledger at a PostgreSQL URL shares with others, while the `with` block lasts; `makes` makes the tables that are not there yet.

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
