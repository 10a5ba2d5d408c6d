"""2 to 3: what a mapping says to its senders and how it was written, the analyst's exceptions, fixes of drops, and what looks showed."""

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    """Add the columns and the tables; mappings get theirs when they are used next."""
    for name, default in (("language", ""), ("guide", "{}"), ("source", "{}")):
        op.add_column("mappings", sa.Column(name, sa.Text, nullable=False, server_default=default))
    op.add_column("drops", sa.Column("fixes", sa.Integer, nullable=True))
    op.create_table(
        "exceptions",
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entries.id"), primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("opened_at", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False, server_default=""),
        sa.Column("found", sa.Text, nullable=False, server_default="[]"),
        sa.Column("closed_run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=True),
        sa.Column("closed_at", sa.Text, nullable=False, server_default=""),
        sa.Column("closed_because", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("ix_exceptions_closed_at", "exceptions", ["closed_at"])
    op.create_table(
        "remarks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entries.id"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "who", "name", "value")),
    )
    op.create_index("ix_remarks_entry_id", "remarks", ["entry_id"])
    op.create_table(
        "looks",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("shown", sa.LargeBinary, nullable=False),
    )
