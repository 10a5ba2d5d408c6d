"""Jobs: what the queue (Procrastinate) is told of runs that are wanted, and the queue's own tables.

Owns: the name of the task and of the queues. A job says whose run is wanted, and since when; at most one of a shipper waits, and one is
being done. The queue only wakes workers: who may run a ledger is decided by its tenure, so a job that comes twice or late does no harm.
Each ledger has a queue of its own, because the queue selects jobs by nothing else: so a worker takes jobs of the ledgers it serves.
"""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, CursorResult, Engine, TextClause, insert, inspect, select, text, update

from loadsheet.ledger.postgres import Address, make_schema
from loadsheet.ledger.shared import schema
from loadsheet.problems import LedgerError, SettingsError

TASK = "run"
"""The one task; its arguments are `ledger` (the schema), `shipper`, `reason`, and since when it is wanted (`due`)."""
FILES, SCHEDULE, RESEND = "files", "schedule", "resend"
"""Why a run is wanted: files came, a schedule says so, or something is left of a run that ended early."""

_QUEUE_MAX = 40  # letters of a queue's name: the queue notifies on a channel of that name, which PostgreSQL cuts at 63
_DIGEST = 10
_UNIQUE_VIOLATION = "23505"  # PostgreSQL, appendix A
_VERSION, _TABLES = "queue_version", "tables_version"


class Wanted(NamedTuple):
    """The open job of a ledger: why a run is wanted, and whether a worker is doing it."""

    reason: str
    begun: bool


def want_run(connection: Connection, address: Address, reason: str, due: str) -> None:
    """Have a worker run a ledger; where a job of it waits already, that one is due now. `due` is ISO 8601 UTC."""
    run: dict[str, str | int] = {
        "queue": queue_of(address.schema),
        "task": TASK,
        "ledger": address.schema,
        "shipper": address.shipper,
    }
    run |= {"reason": reason, "due": due, "priority": int(reason == RESEND)}
    while not connection.execute(_IS_DUE, run).rowcount:
        if unless_another_waits(connection, _DEFER, run) is not None:
            return  # the queue itself tells workers of a new job
    wake(connection)


def unless_another_waits(
    connection: Connection, statement: TextClause, values: Mapping[str, Any]
) -> CursorResult[Any] | None:
    """Execute a statement that makes jobs wait; None, and nothing done, if meanwhile another job of the same ledger came to wait."""
    try:
        with connection.begin_nested():
            return connection.execute(statement, values)
    except LedgerError as error:
        if getattr(error.__cause__, "sqlstate", None) == _UNIQUE_VIOLATION:
            return None
        raise


def wanted(connection: Connection, address: Address) -> Wanted | None:
    """The open job of a ledger, if there is one; of two, the one that is being done."""
    row = connection.execute(_OPEN, {"ledger": address.schema}).first()
    return None if row is None else Wanted(row.reason, row.begun)


def wake(connection: Connection) -> None:
    """Have all workers look for jobs: the queue itself tells them of new ones only."""
    connection.execute(_NOTIFY)


def queue_of(ledger: str) -> str:
    """The queue of a ledger (its schema)."""
    name = f"runs:{ledger}"
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
        _upgrade(connection)
        _make_queue(connection)


def _upgrade(connection: Connection) -> None:
    """Bring tables that 0.5.0 made to the present: takeovers were those of batches, which are no more."""
    if connection.execute(_UPGRADED, {"name": _TABLES}).rowcount:
        schema.takeovers.drop(connection)
        schema.takeovers.create(connection)


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


_UPGRADED = text("insert into shared_meta (name, value) values (:name, '2') on conflict do nothing")
_IS_DUE = text(  # one that was put back begins anew
    "update procrastinate_jobs set attempts = 0, scheduled_at = null, "
    "args = args || jsonb_build_object('due', cast(:due as text), 'reason', cast(:reason as text)) "
    "where queueing_lock = 'run:' || :ledger and status = 'todo'"
)
_DEFER = text(
    "select procrastinate_defer_jobs_v1(array[row(cast(:queue as varchar), cast(:task as varchar), cast(:priority as integer), cast(:ledger as text), "
    "cast('run:' || :ledger as text), jsonb_build_object('ledger', cast(:ledger as text), 'shipper', cast(:shipper as text), "
    "'reason', cast(:reason as text), 'due', cast(:due as text)), null::timestamptz)::procrastinate_job_to_defer_v1])"
)
_NOTIFY = text(
    "select pg_notify('procrastinate_any_queue_v1', json_build_object('type', 'job_inserted', 'job_id', 0)::text)"
)
_OPEN = text(
    "select args ->> 'reason' as reason, status = 'doing' as begun from procrastinate_jobs "
    "where status in ('todo', 'doing') and args ->> 'ledger' = :ledger order by begun desc limit 1"
)
