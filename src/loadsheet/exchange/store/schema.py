"""The tables of the exchange, as they are when all migrations have run.

Owns: the names of tables and columns. Identifiers are kept in the form that `effects.key_text` gives them; what was sent stands
whole in `content`. A change here needs a migration beside it (`exchange/migrations`); a test compares the two.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, UniqueConstraint

VERSIONS = ("0001", "0002", "0003")  # of the migrations; the first also is that of databases that say nothing of theirs
VERSION = VERSIONS[-1]
VERSION_TABLE = "exchange_version"
PARTIES = ("sender", "receiver")

METADATA = MetaData()

# SQLite knows a table by one kind of number only; elsewhere 32 bits would end within the life of an exchange.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def _table(name: str, *keys: Column[Any], parties: bool = False, unique: bool = True) -> Table:
    """A table of records: their own number, key and content (JSON text). Numbers rise in the order of creation."""
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
    Column("last", _NUMBER, nullable=False),  # number given out: none is given twice, also not after a delete
    Column("held", _NUMBER, nullable=False, server_default="0"),  # tenders and orders that are there
)
TOKENS = Table(
    "tokens",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the token, in hex: the token itself is kept nowhere
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
    Column("form", Text, nullable=False),  # what its own forms carry
    Column("ends", _NUMBER, nullable=False),  # seconds since 1970, UTC
    Index("sessions_by_end", "ends"),
)
NUMBERED = (TENDERS, ORDERS, QUOTES, CONFIRMATIONS, EVENTS, TOKENS)
BY_SUBJECT = {"tender": TENDERS, "order": ORDERS}


def owner_of(table: Table) -> Column[Any]:
    """The column that names the order or tender that a row is about: the first of its key."""
    return table.c[1]
