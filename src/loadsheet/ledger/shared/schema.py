"""The tables that all ledgers of one PostgreSQL database share, in a schema of their own: who works, at what pace, what was claimed.

Moments are seconds since 1970 by the database's own clock (`clock.now`), because the clocks of machines differ; those that people
read as well are ISO 8601 UTC texts. The tables of the queue (Procrastinate's) lie in the same schema and are not declared here.
"""

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

metadata = MetaData()

shared_meta = Table(  # not `meta`: each ledger has one of that name, and both are looked for without a schema
    "shared_meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False)
)

workers = Table(  # processes that take runs, while they live, and for a day after
    "workers",
    metadata,
    Column("name", Text, primary_key=True),  # host, process and a random part: unique for each start
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("serves", Text, nullable=False, default="[]"),  # names of shippers; empty: all
    Column("places", Integer, nullable=False),  # runs at the same time
    Column("doing", Text, nullable=False, default="[]"),
    Column("done", Integer, nullable=False, default=0, server_default="0"),  # runs that it finished
    Column("started", Float, nullable=False),
    Column("seen", Float, nullable=False, index=True),
    Column("ended", Float),
)

takeovers = Table(  # ledgers that were taken over from a process that had fallen silent
    "takeovers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False, index=True),
    Column("shipper", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
)

paces = Table(  # one row for each exchange and token
    "paces",
    metadata,
    Column("name", Text, primary_key=True),  # a digest of both: neither stands here
    Column("exchange", Text, nullable=False),
    Column("per_second", Integer, nullable=False),  # 0: no limit
    Column("connections", Integer, nullable=False),
    Column("share", Float, nullable=False, default=1.0),  # of both, after the exchange asked for less
    Column("paused_until", Float, nullable=False, default=0.0),
    Column("setback_at", Float, nullable=False, default=0.0),
    Column("reason", Text, nullable=False, default=""),
)

leases = Table(  # what each worker may use of a pace, and until when
    "leases",
    metadata,
    Column("pace", ForeignKey("paces.name"), primary_key=True),
    Column("worker", Text, primary_key=True),
    Column("number", Integer, nullable=False),  # which of his leases it is: he says it when he asks again
    Column("wanted", Integer, nullable=False),  # calls a second that he could make
    Column("wanted_connections", Integer, nullable=False),
    Column("per_second", Integer, nullable=False),
    Column("connections", Integer, nullable=False),
    Column("charged", Integer, nullable=False),  # calls a second that he may be making until he knows of this lease
    Column("charged_connections", Integer, nullable=False),
    Column("until", Float, nullable=False),
)

claims = Table(  # objects of inboxes, which cannot be renamed: who is taking which version of what; a row goes when that is done
    "claims",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("shipper", Text, nullable=False),
    Column("place", Text, nullable=False),  # the inbox
    Column("name", Text, nullable=False),
    Column("version", Text, nullable=False),  # etag and size, as the store reports them
    Column("run", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("at", Float, nullable=False),  # when its holder was heard of last
    Index("claims_once", "place", "name", "version", unique=True),
)

fires = Table(  # moments at which a schedule fired; the process that records one first runs it
    "fires",
    metadata,
    Column("shipper", Text, primary_key=True),
    Column("schedule", Text, primary_key=True),
    Column("due", Text, primary_key=True),  # ISO 8601 UTC
    Column("at", Float, nullable=False),
    Column("by", Text, nullable=False),
    Column("caught_up", Integer, nullable=False, default=0),  # moments missed before it, which it stands for
)

notices = Table(  # notices that were sent, by shipper: the state of `operations.notifications`
    "notices",
    metadata,
    Column("shipper", Text, primary_key=True),
    Column("memory", Text, nullable=False),
)
