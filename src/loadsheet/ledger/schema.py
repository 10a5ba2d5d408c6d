"""The tables of the ledger, for SQLite and PostgreSQL.

Times are ISO 8601 UTC texts, lists and objects are JSON texts. Only two things are ever overwritten: the state of an entry, where
each change adds a row to `events`, and contents removed by retention, where `removed` keeps the time (see `maintenance`).
"""

from sqlalchemy import DDL, BigInteger, CheckConstraint, Column, ForeignKey, Index, LargeBinary, MetaData, Table, event
from sqlalchemy import Integer as AnyInteger
from sqlalchemy import Text as AnyText

from loadsheet.ledger.states import State, Waits

SCHEMA_VERSION = 6

metadata = MetaData()

# As in SQLite: 64-bit integers, and texts compared by code points, whatever the server's collation.
Integer = AnyInteger().with_variant(BigInteger(), "postgresql")
Text = AnyText().with_variant(AnyText(collation="C"), "postgresql")

_states = ", ".join(f"'{state.value}'" for state in State)

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text, nullable=False, default=""),
    Column("exit_code", Integer),
    Column("summary", Text, nullable=False, default=""),
)

mappings = Table(  # one row for each version of a mapping that was ever used
    "mappings",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("batch_size", Integer),
    Column("lineage", Text, nullable=False),
    Column("language", Text, nullable=False, server_default=""),
    Column("guide", Text, nullable=False, server_default="{}"),
    Column("source", Text, nullable=False, server_default="{}"),
)

drops = Table(  # the files that one mapping read together
    "drops",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False, index=True),
    Column("mapping_hash", ForeignKey("mappings.hash")),
    Column("fixes", Integer),  # the drop that this fix workbook corrects, if it is one
    Column("removed", Text, nullable=False, server_default=""),  # when all its payloads and cells were removed
)

files = Table(
    "files",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("drop_id", ForeignKey("drops.id"), nullable=False, index=True),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("sha256", Text, nullable=False, index=True),
    Column("size", Integer, nullable=False),
    Column("arrived", Text, nullable=False),
    Column("kept_as", Text, nullable=False),
    Column("problems", Text, nullable=False),
)

tenures = Table(  # the holder of a shared ledger, in one row
    "tenures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("holder", Text, nullable=False),  # empty: none
    Column("since", Text, nullable=False),
    Column("seen_at", Text, nullable=False),  # by the database's clock
)

tables = Table(
    "tables",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("drop_id", ForeignKey("drops.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("sheet", Text, nullable=False),
    Column("header", Text, nullable=False),
    Column("header_row", Integer, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("found", Text, nullable=False, server_default="{}"),
    Column("problems", Text, nullable=False, server_default="[]"),
)

entries = Table(
    "entries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("drop_id", ForeignKey("drops.id"), nullable=False, index=True),
    Column("operation", Text, nullable=False),
    Column("key", Text, nullable=False, index=True),
    Column("lane", Text, nullable=False),
    Column("state", Text, CheckConstraint(f"state in ({_states})", name="known_state"), nullable=False),
    Column("reason", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("rows", LargeBinary, nullable=False),
    Column("items", Text, nullable=False),
    Column("problems", Text, nullable=False),
    Column("receipt", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
    Column("waits", Text, nullable=False, default=Waits.DECISION.value, server_default=""),
    Column("removed", Text, nullable=False, server_default=""),  # when payload and cells were removed
    Column("figures", LargeBinary),  # the part of a removed payload that control totals need
    Column("instead", LargeBinary),  # the other form of an upsert (create or update)
    Index("entries_by_lane", "lane", "state"),
    Index("entries_by_state", "state", "waits", "id"),
)

ignored = Table(
    "ignored",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("drop_id", ForeignKey("drops.id"), nullable=False, index=True),
    Column("table_name", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("cells", Text, nullable=False),
    Column("rule", Text, nullable=False),
)

attempts = Table(  # inserted before the call leaves, completed when its outcome is known
    "attempts",
    metadata,
    Column("entry_id", ForeignKey("entries.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("started_at", Text, nullable=False),
    Column("request_hash", Text, nullable=False),
    Column("outcome", Text, nullable=False, default=""),
    Column("status", Integer),
    Column("detail", Text, nullable=False, default=""),
    Column("duration_ms", Integer),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("entry_id", ForeignKey("entries.id"), nullable=False, index=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False, index=True),
    Column("at", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

findings = Table(  # what listings showed about entries of unknown outcome
    "findings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("entry_id", ForeignKey("entries.id"), nullable=False, index=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("at", Text, nullable=False),
    Column("shown", Text, nullable=False),
    Column("counts", Integer, nullable=False),
    Column("text", Text, nullable=False),
)

decisions = Table(  # decisions of people; each row's hash covers the previous one
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("entry_id", ForeignKey("entries.id"), nullable=False, index=True),
    Column("at", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("choice", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

seen = Table(  # lanes whose order or tender a listing showed although none of our accepted entries created it
    "seen",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("at", Text, nullable=False),
)

exceptions = Table(  # entries that need or needed a person, until the run that closed them
    "exceptions",
    metadata,
    Column("entry_id", ForeignKey("entries.id"), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),  # the run that first listed it
    Column("opened_at", Text, nullable=False),
    Column("verdict", Text, nullable=False, server_default=""),  # its last verdict, and which fields differ
    Column("found", Text, nullable=False, server_default="[]"),
    Column("closed_run_id", ForeignKey("runs.id")),
    Column("closed_at", Text, nullable=False, server_default="", index=True),
    Column("closed_because", Text, nullable=False, server_default=""),
)

looks = Table(  # a run's snapshot of the listings, as `reconcile.listings` packs it
    "looks",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("shown", LargeBinary, nullable=False),
    Column("removed", Text, nullable=False, server_default=""),  # when the values of the exchange were removed
)

remarks = Table(  # the analyst's remarks on exceptions, one row for each change of a cell
    "remarks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("entry_id", ForeignKey("entries.id"), nullable=False, index=True),
    Column("at", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
)

# Keys may be too long for a B-tree index on a server. Hash indexes suffice, because only equality is tested.
for _table, _made in (
    (entries, "drop index ix_entries_key; create index ix_entries_key on entries using hash (key)"),
    (entries, "drop index entries_by_lane; create index entries_by_lane on entries using hash (lane)"),
    (seen, "alter table seen drop constraint seen_pkey; create index seen_by_lane on seen using hash (lane)"),
):
    event.listen(_table, "after_create", DDL(_made).execute_if(dialect="postgresql"))  # type: ignore[no-untyped-call]
