"""0001: the first schema, from before the migrations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the six tables."""
    _table("tenders", "tender")
    _table("orders", "order_ref")
    _table("quotes", "tender", "carrier")
    _table("confirmations", "tender", "carrier", unique=False)
    _table("status_events", "order_ref", unique=False)
    op.create_index("ix_confirmations_tender", "confirmations", ["tender"])
    op.create_index("ix_status_events_order_ref", "status_events", ["order_ref"])
    op.create_table(
        "counters", sa.Column("name", sa.Text, primary_key=True), sa.Column("last", _NUMBER, nullable=False)
    )


def _table(name: str, *keys: str, unique: bool = True) -> None:
    op.create_table(
        name,
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
        *(sa.Column(key, sa.Text, nullable=False) for key in keys),
        sa.Column("content", sa.Text, nullable=False),
        *([sa.UniqueConstraint(*keys)] if unique else []),
    )
