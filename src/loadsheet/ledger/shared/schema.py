"""The tables that all ledgers of one PostgreSQL database share, in a schema of their own: workers, paces, claims, fired schedules.

Times are seconds since 1970 by the database's clock (`clock.now`), because machine clocks differ. Times that people also read are
ISO 8601 UTC texts. Procrastinate's tables are in the same schema but not declared here.
"""

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

metadata = MetaData()

shared_meta = Table(  # not `meta`: each ledger has a table of that name, and names are looked up without a schema
    "shared_meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False)
)

workers = Table(  # worker processes, alive or ended recently
    "workers",
    metadata,
    Column("name", Text, primary_key=True),  # host, process and a random part: unique per start
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("serves", Text, nullable=False, default="[]"),  # names of shippers; empty: all
    Column("places", Integer, nullable=False),  # concurrent runs
    Column("doing", Text, nullable=False, default="[]"),
    Column("done", Integer, nullable=False, default=0, server_default="0"),  # finished runs
    Column("started", Float, nullable=False),
    Column("seen", Float, nullable=False, index=True),
    Column("ended", Float),
)

takeovers = Table(  # ledgers taken over from a process without heartbeat
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
    Column("name", Text, primary_key=True),  # a digest of both, which reveals neither
    Column("exchange", Text, nullable=False),
    Column("per_second", Integer, nullable=False),  # 0: no limit
    Column("connections", Integer, nullable=False),
    Column("share", Float, nullable=False, default=1.0),  # part of both limits left after protests of the exchange
    Column("paused_until", Float, nullable=False, default=0.0),
    Column("setback_at", Float, nullable=False, default=0.0),
    Column("reason", Text, nullable=False, default=""),
)

leases = Table(  # the part of a pace that each worker may use, and until when
    "leases",
    metadata,
    Column("pace", ForeignKey("paces.name"), primary_key=True),
    Column("worker", Text, primary_key=True),
    Column("number", Integer, nullable=False),  # number of the worker's lease, which its next ask repeats
    Column("wanted", Integer, nullable=False),  # calls a second that the worker can make
    Column("wanted_connections", Integer, nullable=False),
    Column("per_second", Integer, nullable=False),
    Column("connections", Integer, nullable=False),
    Column("charged", Integer, nullable=False),  # calls a second that the worker may make until it knows this lease
    Column("charged_connections", Integer, nullable=False),
    Column("until", Float, nullable=False),
)

claims = Table(  # who processes which version of an inbox object; the row is deleted when that is done
    "claims",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("shipper", Text, nullable=False),
    Column("place", Text, nullable=False),  # the inbox
    Column("name", Text, nullable=False),
    Column("version", Text, nullable=False),  # etag and size, as the store reports them
    Column("run", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("at", Float, nullable=False),  # the holder's last heartbeat
    Index("claims_once", "place", "name", "version", unique=True),
)

fires = Table(  # due times of schedules that fired; the first process to record one runs it
    "fires",
    metadata,
    Column("shipper", Text, primary_key=True),
    Column("schedule", Text, primary_key=True),
    Column("due", Text, primary_key=True),  # ISO 8601 UTC
    Column("at", Float, nullable=False),
    Column("by", Text, nullable=False),
    Column("caught_up", Integer, nullable=False, default=0),  # missed runs that it catches up
)

notices = Table(  # sent notices by shipper: the state of `operations.notifications`
    "notices",
    metadata,
    Column("shipper", Text, primary_key=True),
    Column("memory", Text, nullable=False),
)
