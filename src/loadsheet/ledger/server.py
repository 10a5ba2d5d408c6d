"""What there is to say of the server of a PostgreSQL ledger, for whoever looks whether all is in place. Reads only; makes nothing.

Owns: what a server has to be and to allow before a ledger can lie there.
"""

import time
from importlib.util import find_spec
from typing import NamedTuple

from sqlalchemy import Connection, select, text

from loadsheet.ledger.postgres import Address, address_of, check_server, ledger_engine
from loadsheet.ledger.schema import tenures
from loadsheet.ledger.versions import has_tables
from loadsheet.problems import LedgerError


class Server(NamedTuple):
    """The server of a ledger: where it is, without a password; its version; what is wrong with it, in words; whether the ledger is there,
    how many bytes it has and who holds it (empty: nobody); by how many seconds the server's clock is ahead of ours, at least.
    """

    place: str
    version: str
    faults: tuple[str, ...]
    there: bool
    size: int
    holder: str
    ahead_s: float


def look(url: str, takeover_s: float) -> Server:
    """How the server of a ledger stands. Raises SettingsError for a URL that cannot be used, and LedgerGone if it cannot be reached."""
    address = address_of(url)
    engine = ledger_engine(address, writes=False)
    try:
        with engine.connect() as connection, connection.begin():
            there = has_tables(connection)
            return Server(
                str(address),
                str(connection.exec_driver_sql("show server_version").scalar()),
                tuple(_faults(connection, address)),
                there,
                int(connection.scalar(_SIZE, {"schema": address.schema}) or 0),
                _holder(connection, takeover_s) if there else "",
                _ahead(connection),
            )
    finally:
        engine.dispose()


def is_there(url: str) -> bool:
    """Whether there is a ledger at a PostgreSQL URL. Raises what `look` raises."""
    engine = ledger_engine(address_of(url), writes=False)
    try:
        with engine.connect() as connection, connection.begin():
            return has_tables(connection)
    finally:
        engine.dispose()


def _faults(connection: Connection, address: Address) -> list[str]:
    faults = []
    try:
        check_server(connection, str(address))
    except LedgerError as error:
        faults.append(str(error))
    known = set(connection.scalars(_SCHEMAS))
    missing = [name for name in (address.shared, address.schema) if name not in known]
    if missing and not connection.scalar(text("select has_database_privilege(current_database(), 'create')")):
        faults.append(
            f"this user may not make the schema {' or '.join(missing)}: grant create on the database, or make it"
        )
    barred = [name for name in (address.shared, address.schema) if name in known and not _may_use(connection, name)]
    if barred:
        faults.append(
            f"this user may not make tables in the schema {' or '.join(barred)}: grant usage and create on it"
        )
    if find_spec("procrastinate") is None:
        faults.append("the extra `fleet` is not installed: pip install 'loadsheet[fleet]'")
    return faults


def _may_use(connection: Connection, schema: str) -> bool:
    return bool(connection.scalar(text("select has_schema_privilege(:schema, 'usage, create')"), {"schema": schema}))


def _holder(connection: Connection, takeover_s: float) -> str:
    found = connection.execute(select(tenures.c.holder, tenures.c.seen_at)).first()
    now = float(connection.scalar(_NOW) or 0)
    return found.holder if found is not None and now - float(found.seen_at) < takeover_s else ""


def _ahead(connection: Connection) -> float:
    """By how much the server's clock is ahead of ours (below 0: behind), at least: it was read at some moment of a call."""
    began = time.time()
    theirs = float(connection.scalar(_NOW) or 0)
    ended = time.time()
    return theirs - ended if theirs > ended else min(theirs - began, 0.0)


_NOW = text("select extract(epoch from clock_timestamp())")
_SCHEMAS = text("select schema_name from information_schema.schemata")
_SIZE = text(
    "select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
    " where n.nspname = :schema and c.relkind = 'r'"
)
