"""The durable store: tables, one writer that commits calls in groups, the pages of listings, tokens, and sessions.

Owns: all SQL of the exchange but what the page for people reads (`browsing`): SQLAlchemy Core, one set of statements for SQLite
and PostgreSQL. And the promise that an effect handed back is on disk. Knows no HTTP; what an operation does stands in `effects`.
"""

from loadsheet.exchange.store.session_rows import OpenSession
from loadsheet.exchange.store.store import BUSY_TIMEOUT_S, GROUP_MAX, Store, StoreFailed, Witness
from loadsheet.exchange.store.token_admin import TokenOffice

__all__ = ["BUSY_TIMEOUT_S", "GROUP_MAX", "OpenSession", "Store", "StoreFailed", "TokenOffice", "Witness"]
