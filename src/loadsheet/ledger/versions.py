"""The schema version of a ledger, its upgrade, and its integrity checks.

Owns: when an upgrade step runs: after a backup, in one transaction per step, so a killed upgrade leaves the schema before or after a
step. Also owns when a quick check is due: once a day while the file is small, and after a run that did not end.
"""

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, desc, inspect, select

from loadsheet.ledger import schema
from loadsheet.ledger.decisions import first_broken_decision
from loadsheet.ledger.location import back_up
from loadsheet.ledger.schema import decisions, runs
from loadsheet.ledger.statements import Statement, store_value, stored_value
from loadsheet.ledger.states import Decision
from loadsheet.problems import LedgerError

OLDER = "`loadsheet run` upgrades it"
"""The advice for a ledger that an earlier version made."""

_VERSION = "schema_version"


def has_tables(connection: Connection) -> bool:
    """Whether the database has any tables; on a server, whether the schema holds a ledger."""
    found = inspect(connection)
    return bool(found.get_table_names()) if connection.dialect.name == "sqlite" else found.has_table(schema.meta.name)


def make_if_new(connection: Connection) -> None:
    """Create the tables of an empty database, in the connection's transaction."""
    if not has_tables(connection):
        schema.metadata.create_all(connection)
        store_value(connection, _VERSION, str(schema.SCHEMA_VERSION))


def check_version(connection: Connection, path: Path | str) -> None:
    """Raise LedgerError if this is not a ledger, or its schema is not the current one."""
    version = _version(connection, path)
    if version != schema.SCHEMA_VERSION:
        message = f"the ledger {path} has schema version {version}, this program knows version {schema.SCHEMA_VERSION}"
        newer = version > schema.SCHEMA_VERSION
        raise LedgerError(message, todo="use the program that wrote it, or a newer one" if newer else OLDER)


def upgrade_within(connection: Connection, place: str) -> None:
    """Upgrade an older ledger on a server to the current schema in the connection's transaction: all steps or none. Makes no
    backup, which is the server's task.
    """
    for number in range(_version(connection, place), schema.SCHEMA_VERSION):
        _step(connection, number)


def upgrade(engine: Engine, path: Path, now: str) -> None:
    """Upgrade an older ledger file to the current schema, with a backup beside it. `now` is ISO 8601 UTC.

    Raises LedgerError. The ledger is then unchanged or between two complete steps.
    """
    with engine.connect() as connection, connection.begin():
        version = _version(connection, path)
    if version >= schema.SCHEMA_VERSION:
        return
    stamp = now[:19].replace("-", "").replace(":", "")
    with engine.connect() as connection:
        back_up(connection, path.with_name(f"{path.name}.schema-{version}.{stamp}Z.backup"))
    for number in range(version, schema.SCHEMA_VERSION):
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            _step(connection, number)


def _step(connection: Connection, version: int) -> None:
    """Upgrade the schema from this version to the next, in the connection's transaction."""
    from loadsheet.ledger.migrations import step

    step(connection, version)
    store_value(connection, _VERSION, str(version + 1))


def _version(connection: Connection, path: Path | str) -> int:
    stored = stored_value(connection, _VERSION) if inspect(connection).has_table(schema.meta.name) else ""
    if not stored.isdecimal():
        raise LedgerError(f"{path} is not a ledger", todo="move it away, or give another path for the database")
    return int(stored)


LARGE_BYTES = 256 * 1024 * 1024
_LOOKED = "looked_at"
_SHOWN = 5


def quick_check_if_due(connection: Connection, now: str) -> None:
    """Check the structure of the database if that is due. `now` is ISO 8601 UTC. Raises LedgerError if it is damaged."""
    checked_at = stored_value(connection, _LOOKED)
    ended = connection.scalar(select(runs.c.finished_at).order_by(desc(runs.c.id)).limit(1))
    small = _size(connection) <= LARGE_BYTES
    if ended != "" and (ended is None or not small or checked_at[:10] == now[:10]):
        return
    lines = list(connection.exec_driver_sql(f"pragma quick_check({_SHOWN})").scalars())
    if lines != ["ok"]:
        raise LedgerError(f"it is damaged ({'; '.join(lines)}); nothing was sent")
    store_value(connection, _LOOKED, now)


def faults_in(connection: Connection) -> Iterator[str]:
    """All faults of the ledger, in words. Nothing if it is sound. Reads all of it."""
    if connection.dialect.name == "sqlite":  # PostgreSQL checks its pages and keys itself
        lines = list(connection.exec_driver_sql(f"pragma integrity_check({_SHOWN})").scalars())
        if lines != ["ok"]:
            yield from (f"the database is damaged: {line}" for line in lines)
            return  # further checks of a damaged database mean nothing
        for row in connection.exec_driver_sql("pragma foreign_key_check").fetchmany(_SHOWN):
            yield f"a row of {row[0]} belongs to a row of {row[2]} that does not exist"
    for row in _STATE_DIFFERS.rows(connection, most=_SHOWN):
        yield f"the state of entry {row.id} does not match its last event"
    for row in _ATTEMPTS_DIFFER.rows(connection, most=_SHOWN):
        yield f"the attempt count of entry {row.id} does not match its recorded attempts"
    for row in _CONTENTS_LEFT.rows(connection, most=_SHOWN):
        yield f"entry {row.id} has a payload although it is marked as removed"
    columns = [decisions.c[name] for name in ("entry_id", "at", "who", "choice", "comment", "evidence", "hash")]
    broken = first_broken_decision(
        Decision(*row) for row in connection.execute(select(*columns).order_by(decisions.c.id))
    )
    if broken is not None:
        yield f"the decision of {broken.who} of {broken.at} on entry {broken.entry} was altered, or one before it is missing"


def _size(connection: Connection) -> int:
    pages, size = (connection.exec_driver_sql(f"pragma {name}").scalar() or 0 for name in ("page_count", "page_size"))
    return int(pages) * int(size)


_STATE_DIFFERS = Statement(
    """
    select id from entries
    where state <> coalesce((select after from events where entry_id = entries.id order by events.id desc limit 1), '')
    limit :most
    """
)
_ATTEMPTS_DIFFER = Statement(
    "select id from entries where attempts <> (select count(*) from attempts where entry_id = entries.id) limit :most"
)
_CONTENTS_LEFT = Statement(
    "select id from entries where removed <> '' and (length(payload) > 0 or instead is not null) limit :most"
)
