"""The tables of the exchange after all migrations.

Owns: the names of tables and columns. Identifiers are stored in the form of `effects.key_text`, complete records in `content`. A
change here needs a migration (`exchange/migrations`); a test compares the two.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, UniqueConstraint

VERSIONS = ("0001", "0002", "0003")  # of the migrations; databases without a stored version have the first
VERSION = VERSIONS[-1]
VERSION_TABLE = "exchange_version"
PARTIES = ("sender", "receiver")

METADATA = MetaData()

# SQLite's row ids must be Integer; elsewhere 32 bits would run out within the life of an exchange.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *keys: Column[Any], parties: bool = False, unique: bool = True) -> Table:
    """A table of records: number, key and content (JSON text). Numbers ascend in order of creation."""
    number = Column("number", _NUMBER, primary_key=True, autoincrement=False)
    columns = [*keys, *(_party(side) for side in PARTIES if parties)]
    table = Table(name, METADATA, number, *columns, Column("content", Text, nullable=False))
    if unique:
        table.append_constraint(UniqueConstraint(*(key.name for key in keys)))
    for side in PARTIES if parties else ():
        Index(f"{name}_by_{side}", table.c[side], number)
    return table


def _key(name: str, *, index: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=False, index=index)


def _party(name: str) -> Column[Any]:
    return Column(name, Text, nullable=False, server_default="")


TENDERS = _table("tenders", _key("tender"), parties=True)
ORDERS = _table("orders", _key("order_ref"), parties=True)  # number is the service's own order number
QUOTES = _table("quotes", _key("tender"), _key("carrier"))
CONFIRMATIONS = _table("confirmations", _key("tender", index=True), _key("carrier"), unique=False)
EVENTS = _table("status_events", _key("order_ref", index=True), unique=False)
COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("last", _NUMBER, nullable=False),  # last number used; numbers are never reused, even after a delete
    Column("held", _NUMBER, nullable=False, server_default="0"),  # present tenders and orders
)
TOKENS = Table(
    "tokens",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the token, in hex; the token itself is not stored
    Column("party", Text, nullable=False),  # empty: an operator's
    Column("created", Text, nullable=False),  # moments are ISO 8601, UTC, to the second
    Column("expires", Text),
    Column("revoked", Text),
    UniqueConstraint("name"),
    UniqueConstraint("digest"),
)
SESSIONS = Table(
    "sessions",
    METADATA,
    Column("name", Text, primary_key=True),  # SHA-256 of the cookie, in hex
    Column("mark", Text, nullable=False),  # of the token that opened it
    Column("form", Text, nullable=False),  # the proof in its forms
    Column("ends", _NUMBER, nullable=False),  # seconds since 1970, UTC
    Index("sessions_by_end", "ends"),
)
NUMBERED = (TENDERS, ORDERS, QUOTES, CONFIRMATIONS, EVENTS, TOKENS)
BY_SUBJECT = {"tender": TENDERS, "order": ORDERS}


def owner_of(table: Table) -> Column[Any]:
    """The column with the row's order or tender: the first of its key."""
    return table.c[1]
