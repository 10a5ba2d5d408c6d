"""Jobs: what the queue (Procrastinate) is told of batches, in the transaction that made them, and the queue's own tables.

Owns: the names of tasks and queues, and that a job holds ids alone. The queue only has to hand each batch to somebody at least once;
everything else is guarded by the ledger. Each ledger has queues of its own, because the queue selects jobs by nothing else: so a worker
takes jobs of the ledgers it serves, and each kind in its own places. What was lost of it is found again by `recovery`.
"""

import hashlib
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select, text, update

from loadsheet.ledger.batches import Announce, Batch, Kind
from loadsheet.ledger.postgres import Address, make_schema
from loadsheet.ledger.shared import schema
from loadsheet.problems import SettingsError

TASK = "work"
"""The one task of batches; its arguments are `ledger` (the schema), `shipper`, `kind` and `batch`."""
RUN_TASK = "run"
"""The task of a scheduled run; its arguments are `shipper` and `due`."""

CALLS, REST, RUNS = "calls", "rest", "runs"
"""The groups of queues, one for each sort of places that a worker has: of calls, of everything else of a run, and of whole runs."""
GROUPS = {kind: CALLS if kind is Kind.CALLS else REST for kind in Kind}
_QUEUE_MAX = 40  # letters of a queue's name: the queue notifies on a channel of that name, which PostgreSQL cuts at 63
_DIGEST = 10
_FIRST = {Kind.RESOLUTION: 2, Kind.LOOKUP: 2, Kind.RECONCILIATION: 2, Kind.TRANSLATION: 1, Kind.CALLS: 0}
_VERSION = "queue_version"


def announcing(address: Address) -> Announce:
    """What tells the queue of a ledger's batches."""
    return partial(_announce, address)


def _announce(address: Address, connection: Connection, made: Sequence[Batch]) -> None:
    connection.execute(_DEFER, [_job(address, batch) for batch in made])


def announce_again(connection: Connection, address: Address, found: Sequence[Batch]) -> int:
    """Tell the queue of those of these batches of which it has no job that waits or is being done; returns how many that were."""
    lost = [job for job in (_job(address, batch) for batch in found) if connection.scalar(_KNOWN, job) is None]
    if lost:
        connection.execute(_DEFER, lost)
    return len(lost)


def announce_run(connection: Connection, address: Address, due: str) -> None:
    """Tell the queue of a scheduled run; where one of the shipper waits already, that is it from now on. `due` is ISO 8601 UTC."""
    run = {"queue": queue_of(RUNS, address.schema), "task": RUN_TASK, "shipper": address.shipper, "due": due}
    connection.execute(_ONE_RUN, run)  # whoever announces one at the same moment waits for us
    connection.execute(_IS_DUE, run)
    connection.execute(_DEFER_RUN, run)


def queue_of(group: str, ledger: str) -> str:
    """The queue of a ledger (its schema) for jobs of this group."""
    name = f"{group}:{ledger}"
    if len(name) <= _QUEUE_MAX:
        return name
    return f"{name[: _QUEUE_MAX - _DIGEST - 1]}~{hashlib.sha256(ledger.encode()).hexdigest()[:_DIGEST]}"


def make_tables(engine: Engine, address: Address) -> None:
    """Make the schema and tables that all ledgers of a database share, and those of the queue, unless they are there; brings those of an
    older queue to the present. Raises SettingsError if the queue's library is not installed.
    """
    if find_spec("procrastinate") is None:
        raise SettingsError("a ledger on PostgreSQL needs the extra `fleet`: pip install 'loadsheet[fleet]'")
    with engine.connect() as connection, connection.begin():
        make_schema(connection, address.shared)
        connection.exec_driver_sql(f'set local search_path to "{address.shared}"')
        if not inspect(connection).has_table(schema.shared_meta.name, schema=address.shared):
            schema.metadata.create_all(connection)
        _make_queue(connection)


def _make_queue(connection: Connection) -> None:
    from procrastinate import __version__ as newest  # noqa: PLC0415 (needed with PostgreSQL alone)
    from procrastinate.schema import SchemaManager, migrations_path  # noqa: PLC0415

    known = connection.scalar(select(schema.shared_meta.c.value).where(schema.shared_meta.c.name == _VERSION))
    if known == newest:
        return
    if known is None:
        _run(connection, SchemaManager.get_schema())
        connection.execute(insert(schema.shared_meta).values(name=_VERSION, value=newest))
        return
    for script in sorted(Path(str(migrations_path)).glob("*.sql")):
        if _parts(known) < _parts(script.name.split("_")[0]) <= _parts(newest):
            _run(connection, script.read_text(encoding="utf-8"))
    if _parts(newest) > _parts(known):
        connection.execute(update(schema.shared_meta).where(schema.shared_meta.c.name == _VERSION).values(value=newest))


def _run(connection: Connection, script: str) -> None:
    connection.connection.dbapi_connection.execute(script)  # type: ignore[union-attr]  # several statements at once


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


def _job(address: Address, batch: Batch) -> dict[str, object]:
    return {
        "queue": queue_of(GROUPS[batch.kind], address.schema),
        "task": TASK,
        "priority": _FIRST[batch.kind],
        "once": f"{address.schema}:{batch.id}",
        "ledger": address.schema,
        "shipper": address.shipper,
        "kind": batch.kind.value,
        "batch": batch.id,
    }


_ARGS = (
    "jsonb_build_object('ledger', cast(:ledger as text), 'shipper', cast(:shipper as text), "
    "'kind', cast(:kind as text), 'batch', cast(:batch as bigint))"
)
_DEFER = text(
    "select procrastinate_defer_jobs_v1(array[row(cast(:queue as varchar), cast(:task as varchar), cast(:priority as integer), "
    f"null::text, cast(:once as text), {_ARGS}, null::timestamptz)::procrastinate_job_to_defer_v1])"
)
_DEFER_RUN = text(
    "select procrastinate_defer_jobs_v1(array[row(cast(:queue as varchar), cast(:task as varchar), 0, null::text, "
    "cast('run:' || :shipper as text), jsonb_build_object('shipper', cast(:shipper as text), 'due', cast(:due as text)), "
    "null::timestamptz)::procrastinate_job_to_defer_v1]) where not exists "
    "(select 1 from procrastinate_jobs where queueing_lock = 'run:' || :shipper and status = 'todo')"
)
_IS_DUE = text(  # one that was put back, until it is too late for its own moment
    "update procrastinate_jobs set args = args || jsonb_build_object('due', cast(:due as text)), attempts = 0 "
    "where queueing_lock = 'run:' || :shipper and status = 'todo'"
)
_ONE_RUN = text("select pg_advisory_xact_lock(hashtextextended('run:' || :shipper, 2))")
_KNOWN = text("select 1 from procrastinate_jobs where status in ('todo', 'doing') and queueing_lock = :once limit 1")
