"""0 to 1: the first schema, as ledgers had it before there were migrations."""

from typing import Any

import sqlalchemy as sa
from alembic import op

_STATES = ("invalid", "held", "ready", "sending", "accepted", "refused", "unknown", "unchanged")


def upgrade() -> None:
    """Make the ten tables."""
    op.create_table("meta", sa.Column("name", sa.Text, primary_key=True), *_texts("value"))
    op.create_table(
        "runs",
        _id(),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        *_texts("started_at", "finished_at"),
        sa.Column("exit_code", sa.Integer),
        *_texts("summary"),
    )
    op.create_table(
        "mappings",
        sa.Column("hash", sa.Text, primary_key=True),
        *_texts("name", "version", "operation"),
        sa.Column("batch_size", sa.Integer),
        *_texts("lineage"),
    )
    op.create_table("drops", _id(), _of("runs"), sa.Column("mapping_hash", sa.Text, sa.ForeignKey("mappings.hash")))
    _files_and_tables()
    _entries()
    op.create_table("ignored", _id(), _of("drops"), *_texts("table_name"), _number("number"), *_texts("cells", "rule"))
    op.create_table(
        "attempts",
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entries.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        _of("runs"),
        *_texts("started_at", "request_hash", "outcome"),
        sa.Column("status", sa.Integer),
        *_texts("detail"),
        sa.Column("duration_ms", sa.Integer),
    )
    op.create_table("events", _id(), _of("entries"), _of("runs"), *_texts("at", "before", "after", "reason"))
    for table, column in _INDEXED:
        op.create_index(f"ix_{table}_{column}", table, [column])


def _files_and_tables() -> None:
    op.create_table(
        "files",
        _id(),
        _of("drops"),
        *_texts("role", "name", "sha256"),
        _number("size"),
        *_texts("arrived", "kept_as", "problems"),
    )
    op.create_table(
        "tables",
        _id(),
        _of("drops"),
        *_texts("name", "file", "sheet", "header"),
        _number("header_row"),
        _number("rows"),
    )


def _entries() -> None:
    known = ", ".join(f"'{state}'" for state in _STATES)
    op.create_table(
        "entries",
        _id(),
        _of("drops"),
        *_texts("operation", "key", "lane", "state", "reason"),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        *_texts("content_hash"),
        sa.Column("rows", sa.LargeBinary, nullable=False),
        *_texts("items", "problems", "receipt"),
        _number("attempts"),
        *_texts("created_at", "changed_at"),
        sa.CheckConstraint(f"state in ({known})", name="known_state"),
    )
    op.create_index("entries_by_lane", "entries", ["lane", "state"])
    op.create_index("entries_by_state", "entries", ["state", "id"])


_INDEXED = (
    ("drops", "run_id"),
    ("files", "drop_id"),
    ("files", "sha256"),
    ("tables", "drop_id"),
    ("entries", "drop_id"),
    ("entries", "key"),
    ("ignored", "drop_id"),
    ("attempts", "run_id"),
    ("events", "entry_id"),
    ("events", "run_id"),
)
_ONE = {"runs": "run_id", "drops": "drop_id", "entries": "entry_id"}


def _id() -> sa.Column[Any]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _of(table: str) -> sa.Column[Any]:
    return sa.Column(_ONE[table], sa.Integer, sa.ForeignKey(f"{table}.id"), nullable=False)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=False)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]
