"""5 to 6: no batches any more: a run is done by one process, and what was handed out is its own again."""

import sqlite3

from alembic import op

_DROPS_COLUMNS = (3, 35)


def upgrade() -> None:
    """Remove the tables and the column. What was being sent of a batch becomes unknown when the next run begins."""
    op.drop_index("ix_entries_batch_id", table_name="entries")
    if op.get_bind().dialect.name != "sqlite" or sqlite3.sqlite_version_info >= _DROPS_COLUMNS:
        op.drop_column("entries", "batch_id")  # an older SQLite keeps it, and nobody looks at it
    op.drop_table("staged")
    op.drop_table("batches")
