"""The durable store: tables, one writer that commits calls in groups, the pages of listings, and tokens.

Owns: all SQL of the exchange but what the pages for people read (`browsing`) and their sessions: SQLAlchemy Core, one set of
statements for SQLite and PostgreSQL. And the promise that an effect handed back is on disk. Knows no HTTP; what an operation does stands in `effects`.
"""

from loadsheet.exchange.store.store import BUSY_TIMEOUT_S, GROUP_MAX, Store, StoreFailed
from loadsheet.exchange.store.token_admin import TokenOffice

__all__ = ["BUSY_TIMEOUT_S", "GROUP_MAX", "Store", "StoreFailed", "TokenOffice"]
