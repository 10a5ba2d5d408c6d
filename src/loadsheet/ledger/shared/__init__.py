"""What all ledgers of one PostgreSQL database share: workers, the pace, claims of objects, schedules that fired, and the queue.

Each shipper's ledger lies in a schema of its own beside it; see `loadsheet.ledger.opening`.
"""

from sqlalchemy import Connection, Engine

__all__ = ["Connection", "Engine"]  # for rooms that hand them on and ask nothing by them
