"""The migrations of the schema, from the first version to the present one, with Alembic's operations.

Owns: the steps, their order, and running them in an open transaction. A migration never changes after its release: add a new one and
name it in `database.VERSIONS`.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection

from loadsheet.contract import parties_of
from loadsheet.exchange.database import STORED_VERSION, VERSIONS
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.wire import stored

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_GROUP = 1000
_KEYS = {
    "tenders": ("tender",),
    "orders": ("order_ref",),
    "quotes": ("tender", "carrier"),
    "confirmations": ("tender", "carrier"),
    "status_events": ("order_ref",),
}
_OWNED = ("tenders", "orders")


def upgrade(connection: Connection, version: str) -> None:
    """Upgrade the schema from this version to the present one and store each version reached, within the transaction of the connection.

    `version`: "" for an empty database.
    """
    STORED_VERSION.create(connection, checkfirst=True)
    if connection.scalar(sa.select(STORED_VERSION)) is None:  # the first databases do not store theirs
        connection.execute(sa.insert(STORED_VERSION), {"version_num": version})
    with Operations.context(MigrationContext.configure(connection)):
        for reached in VERSIONS:
            if reached > version:
                STEPS[reached]()
                connection.execute(sa.update(STORED_VERSION), {"version_num": reached})


def _make_tables() -> None:
    """0001: the first schema, from before the migrations: six tables."""
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


def _add_parties() -> None:
    """0002: the parties of records, keys that every database can index, record counts, and tokens, filled from the present records."""
    for name in _OWNED:
        for side in ("sender", "receiver"):
            op.add_column(name, sa.Column(side, sa.Text, nullable=False, server_default=""))
    op.add_column("counters", sa.Column("held", _NUMBER, nullable=False, server_default="0"))
    _make_tokens()
    for name, keys in _KEYS.items():
        _fill(name, keys)
    for name in _OWNED:
        for side in ("sender", "receiver"):
            op.create_index(f"{name}_by_{side}", name, [side, "number"])
        held = sa.select(sa.func.count()).select_from(sa.table(name)).scalar_subquery()
        counters = sa.table("counters", sa.column("name"), sa.column("held"))
        op.get_bind().execute(sa.update(counters).where(counters.c.name == name).values(held=held))


def _make_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "digest", "party", "created")),
        sa.Column("expires", sa.Text),
        sa.Column("revoked", sa.Text),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("digest"),
    )


def _fill(name: str, keys: Sequence[str]) -> None:
    """Set sender and receiver from the content, and keys in their new form."""
    sides = ("sender", "receiver") if name in _OWNED else ()
    table = sa.table(name, *(sa.column(column) for column in ("number", *keys, *sides, "content")))
    change = (
        sa.update(table)
        .where(table.c.number == sa.bindparam("at"))
        .values({column: sa.bindparam(f"new_{column}") for column in (*keys, *sides)})
    )
    for rows in _groups(table):
        changes = []
        for row in rows:
            values = {key: key_text(row[key]) for key in keys}
            if sides:
                values |= zip(sides, map(key_text, parties_of(stored(row["content"]))), strict=True)
            if sides or any(values[key] != row[key] for key in keys):
                changes.append({"at": row["number"], **{f"new_{column}": value for column, value in values.items()}})
        if changes:
            op.get_bind().execute(change, changes)


def _groups(table: sa.TableClause) -> Iterator[Sequence[sa.RowMapping]]:
    """All rows in groups, to bound memory; each group is read before it is changed."""
    last = 0
    page = sa.select(table).where(table.c.number > sa.bindparam("last")).order_by(table.c.number).limit(_GROUP)
    while rows := op.get_bind().execute(page, {"last": last}).mappings().all():
        yield rows
        last = rows[-1]["number"]


def _add_sessions() -> None:
    """0003: sessions of the pages, shared by all processes on one database."""
    op.create_table(
        "sessions",
        *(sa.Column(name, sa.Text, nullable=False, primary_key=name == "name") for name in ("name", "mark", "form")),
        sa.Column("ends", _NUMBER, nullable=False),
    )
    op.create_index("sessions_by_end", "sessions", ["ends"])


STEPS = {"0001": _make_tables, "0002": _add_parties, "0003": _add_sessions}
"""By the version that each reaches, oldest first."""
