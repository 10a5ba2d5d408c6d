"""3 to 4: since when contents of entries, drops and looks are not kept any more, and what totals need of them."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    """Add the columns; of what is there nothing was removed yet."""
    for table in ("drops", "entries", "looks"):
        op.add_column(table, sa.Column("removed", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("figures", sa.LargeBinary, nullable=True))
