"""4 to 5: batches, which several processes work off, what they translated, and who may plan; upserts keep both their forms."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    """Make the tables and the column; nothing is handed out yet."""
    op.create_table(
        "batches",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False, index=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("given", sa.Text, nullable=False, server_default="{}"),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("owner", sa.Text, nullable=False, server_default=""),
        sa.Column("answer", sa.Text, nullable=False, server_default=""),
        sa.Column("opened_at", sa.Text, nullable=False),
        sa.Column("taken_at", sa.Text, nullable=False, server_default=""),
        sa.Column("closed_at", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("batches_by_state", "batches", ["state", "id"])
    op.create_table(
        "staged",
        sa.Column("batch_id", sa.Integer, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("documents", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tenures",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("since", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Text, nullable=False),
    )
    op.add_column("entries", sa.Column("batch_id", sa.Integer, nullable=True))
    op.create_index("ix_entries_batch_id", "entries", ["batch_id"])
    op.add_column("entries", sa.Column("instead", sa.LargeBinary, nullable=True))
