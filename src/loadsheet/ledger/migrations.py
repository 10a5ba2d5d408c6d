"""The migrations of the schema from its first version to the current one, with Alembic's operations.

Owns: the steps and their order. A released step is never changed. A new step is added and raises `ledger_tables.SCHEMA_VERSION`. The
version is stored in the ledger's table `meta` and changes with each step.
"""

import sqlite3
from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection

_STATES = ("invalid", "held", "ready", "sending", "accepted", "refused", "unknown", "unchanged")
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
_DROPS_COLUMNS = (3, 35)  # the first SQLite that can drop a column


def upgrade_one_version(connection: Connection, version: int) -> None:
    """Upgrade the schema from this version to the next, in the connection's transaction. The caller updates the version."""
    with Operations.context(MigrationContext.configure(connection)):
        STEPS[version]()


def _first() -> None:
    """0 to 1: the first schema, from before migrations existed. Creates its tables."""
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


def _second() -> None:
    """1 to 2: what a held entry waits for, findings, decisions, lanes that a listing showed, and notes about tables. Entries that
    are held behind an unknown outcome now wait for it.
    """
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
        *_texts("at", "shown"),
        sa.Column("counts", sa.Integer, nullable=False),
        *_texts("text"),
    )
    _of_entry("decisions", *_texts("at", "who", "choice", "comment", "evidence", "hash"))
    op.create_table(
        "seen",
        sa.Column("lane", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        *_texts("at"),
    )


def _of_entry(name: str, *columns: sa.Column[Any]) -> None:
    entry: sa.Column[Any] = sa.Column("entry_id", sa.Integer, sa.ForeignKey("entries.id"), nullable=False)
    op.create_table(name, sa.Column("id", sa.Integer, primary_key=True), entry, *columns)
    op.create_index(f"ix_{name}_entry_id", name, ["entry_id"])


def _third() -> None:
    """2 to 3: a mapping's language, guide and source, exceptions and remarks, fixes of drops, and listing snapshots. Existing
    mappings get their values at their next use.
    """
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


def _fourth() -> None:
    """3 to 4: when contents of entries, drops and snapshots were removed, and the figures for totals. Removes nothing."""
    for table in ("drops", "entries", "looks"):
        op.add_column(table, sa.Column("removed", sa.Text, nullable=False, server_default=""))
    op.add_column("entries", sa.Column("figures", sa.LargeBinary, nullable=True))


def _fifth() -> None:
    """4 to 5: batches for several processes, staged translations, tenures, and both forms of upserts."""
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


def _sixth() -> None:
    """5 to 6: drops batches, because one process does a run. Entries that a batch was sending become unknown in the next run."""
    op.drop_index("ix_entries_batch_id", table_name="entries")
    if op.get_bind().dialect.name != "sqlite" or sqlite3.sqlite_version_info >= _DROPS_COLUMNS:
        op.drop_column("entries", "batch_id")  # an older SQLite keeps the unused column
    op.drop_table("staged")
    op.drop_table("batches")


def _seventh() -> None:
    """6 to 7: the contents of new entries are packed in blocks. Those of existing entries stay where they are."""
    op.create_table(
        "contents",
        sa.Column(
            "block", sa.Integer().with_variant(sa.BigInteger(), "postgresql"), primary_key=True, autoincrement=False
        ),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )


def _id() -> sa.Column[Any]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _of(table: str) -> sa.Column[Any]:
    return sa.Column(_ONE[table], sa.Integer, sa.ForeignKey(f"{table}.id"), nullable=False)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=False)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


STEPS = {0: _first, 1: _second, 2: _third, 3: _fourth, 4: _fifth, 5: _sixth, 6: _seventh}
"""Each step by the version it starts from."""
