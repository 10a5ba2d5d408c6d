"""0003: sessions of the pages, shared by all processes on one database."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "sessions",
        *(sa.Column(name, sa.Text, nullable=False, primary_key=name == "name") for name in ("name", "mark", "form")),
        sa.Column("ends", _NUMBER, nullable=False),
    )
    op.create_index("sessions_by_end", "sessions", ["ends"])
