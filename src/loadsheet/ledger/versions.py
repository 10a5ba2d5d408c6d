"""Which schema the ledger has, and its way to the present one: a backup first, then one transaction for each step.

Owns: when a step runs. Killed anywhere, the ledger has the schema before a step or after it, and the next run goes on from there.
"""

from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select, update

from loadsheet.ledger import schema
from loadsheet.ledger.backup import back_up
from loadsheet.problems import LedgerError

OLDER = "`loadsheet run` upgrades it"
"""What to do about a ledger that an earlier version made."""

_VERSION = "schema_version"


def has_tables(connection: Connection) -> bool:
    """Whether there is anything at all; on a server, whether there is a ledger in its schema."""
    found = inspect(connection)
    return bool(found.get_table_names()) if connection.dialect.name == "sqlite" else found.has_table(schema.meta.name)


def make_if_new(connection: Connection) -> None:
    """Make the tables of an empty database, in the connection's transaction."""
    if not has_tables(connection):
        schema.metadata.create_all(connection)
        connection.execute(insert(schema.meta).values(name=_VERSION, value=str(schema.SCHEMA_VERSION)))


def check_version(connection: Connection, path: Path | str) -> None:
    """Raise LedgerError if this is no ledger, or one whose schema is not the present one."""
    version = _version(connection, path)
    if version != schema.SCHEMA_VERSION:
        told = f"the ledger {path} has schema version {version}, this program knows {schema.SCHEMA_VERSION}"
        newer = version > schema.SCHEMA_VERSION
        raise LedgerError(told, todo="use the program that wrote it, or a newer one" if newer else OLDER)


def upgrade_within(connection: Connection, place: str) -> None:
    """Bring an older ledger on a server to the present schema within the connection's transaction: all steps or none. A backup before it
    is the server's affair.
    """
    version = _version(connection, place)
    if version >= schema.SCHEMA_VERSION:
        return
    from loadsheet.ledger.migrations import step  # noqa: PLC0415 (slow to import and seldom needed)

    for number in range(version, schema.SCHEMA_VERSION):
        step(connection, number)
    reached = update(schema.meta).where(schema.meta.c.name == _VERSION).values(value=str(schema.SCHEMA_VERSION))
    connection.execute(reached)


def upgrade(engine: Engine, path: Path, now: str) -> Path | None:
    """Bring an older ledger to the present schema; returns the backup of what it was, beside it, or None if it was not older.

    `now` is ISO 8601 UTC. Raises LedgerError, with the ledger as it was or between two steps, each of which is whole.
    """
    with engine.connect() as connection, connection.begin():
        if not has_tables(connection):
            return None
        version = _version(connection, path)
        if version >= schema.SCHEMA_VERSION:
            return None
        stamp = now[:19].replace("-", "").replace(":", "")
        kept = path.with_name(f"{path.name}.schema-{version}.{stamp}Z.backup")
    with engine.connect() as connection:
        back_up(connection, kept)
    from loadsheet.ledger.migrations import step  # noqa: PLC0415 (slow to import and seldom needed)

    for number in range(version, schema.SCHEMA_VERSION):
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            step(connection, number)
            reached = update(schema.meta).where(schema.meta.c.name == _VERSION).values(value=str(number + 1))
            connection.execute(reached)
    return kept


def _version(connection: Connection, path: Path | str) -> int:
    stored = None
    if inspect(connection).has_table(schema.meta.name):
        stored = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.name == _VERSION))
    if stored is None or not stored.isdecimal():
        raise LedgerError(f"{path} is no ledger", todo="move it away, or give another path for the database")
    return int(stored)
