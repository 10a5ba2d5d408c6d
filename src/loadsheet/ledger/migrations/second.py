"""1 to 2: what a held entry waits for, findings, decisions, lanes that a listing showed, and remarks on tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op


def upgrade() -> None:
    """Add the column and the tables; entries that were held behind an unknown outcome wait for it from now on."""
    if "batch_size" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("mappings")}:
        op.add_column("mappings", sa.Column("batch_size", sa.Integer))  # the very first ledgers had none
    op.add_column("entries", sa.Column("waits", sa.Text, nullable=False, server_default=""))
    entries = sa.table("entries", *(sa.column(name) for name in ("state", "reason", "waits")))
    behind = (entries.c.state == "held") & (entries.c.reason == "earlier outcome unknown")
    op.execute(sa.update(entries).where(behind).values(waits="earlier outcome"))
    op.add_column("tables", sa.Column("found", sa.Text, nullable=False, server_default="{}"))
    op.add_column("tables", sa.Column("problems", sa.Text, nullable=False, server_default="[]"))
    op.drop_index("entries_by_state", "entries")
    op.create_index("entries_by_state", "entries", ["state", "waits", "id"])
    op.drop_index("ix_attempts_run_id", "attempts")
    _of_entry(
        "findings",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        _text("at"),
        _text("shown"),
        sa.Column("counts", sa.Integer, nullable=False),
        _text("text"),
    )
    _of_entry("decisions", *(_text(name) for name in ("at", "who", "choice", "comment", "evidence", "hash")))
    op.create_table(
        "seen",
        sa.Column("lane", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        _text("at"),
    )


def _of_entry(name: str, *columns: sa.Column[Any]) -> None:
    entry: sa.Column[Any] = sa.Column("entry_id", sa.Integer, sa.ForeignKey("entries.id"), nullable=False)
    op.create_table(name, sa.Column("id", sa.Integer, primary_key=True), entry, *columns)
    op.create_index(f"ix_{name}_entry_id", name, ["entry_id"])


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)
