"""The durable store: tables, one writer that commits calls in groups, the pages of listings, and tokens.

Owns: all SQL of the exchange except the queries of the pages (`browsing`) and their sessions: SQLAlchemy Core, one set of statements
for SQLite and PostgreSQL. A returned effect is guaranteed to be on disk. Knows no HTTP; `effects` holds the effects of operations.
"""

from loadsheet.exchange.store.store import BUSY_TIMEOUT_S, GROUP_MAX, Store, StoreFailed
from loadsheet.exchange.store.token_admin import TokenOffice

__all__ = ["BUSY_TIMEOUT_S", "GROUP_MAX", "Store", "StoreFailed", "TokenOffice"]
