"""Opening a ledger on PostgreSQL: its schema made or upgraded, the shared tables beside it, the tenure for a run; and the state of the server.

Owns: the order of these steps, that engines are kept (a watch serves hundreds of ledgers over few connections), and what a server has to be
and to allow. `look` reads only and makes nothing.
"""

import os
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from sqlalchemy import Connection, Engine, select, text

from loadsheet.ledger import tenure
from loadsheet.ledger.backup import is_older
from loadsheet.ledger.clock import Clock
from loadsheet.ledger.location import Surroundings, arrive, check_arrived, refuse_beside_a_file
from loadsheet.ledger.postgres import Address, address_of, check_server, ledger_engine, make_schema
from loadsheet.ledger.schema import runs, tenures
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.store import Ledger
from loadsheet.ledger.versions import check_version, has_tables, make_if_new, upgrade_within
from loadsheet.problems import LedgerError, LedgerMissing

_KEPT = 16
_engines: "OrderedDict[tuple[Address, bool], Engine]" = OrderedDict()
_lock = Lock()


def who() -> str:
    """How this process calls itself in the ledger."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def unique() -> str:
    """A name that no other process has, and this one not before."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Opening:
    """How a ledger on PostgreSQL is opened: for a run (`exclusive`) or for reading, and whether an older copy is accepted. `state` is the folder
    of this machine's record of the last run; a holder without a heartbeat for `takeover_s` seconds counts as dead. `arrives` is for the move
    of another ledger into this one.
    """

    exclusive: bool = True
    accept_older: bool = False
    state: Path | None = None
    takeover_s: float = 30.0
    arrives: bool = False


@contextmanager
def joined(url: str, clock: Clock, opening: Opening) -> Iterator[Ledger]:
    """The ledger at a PostgreSQL URL. Raises what `open_ledger` raises."""
    address = address_of(url)
    place = surroundings_on(opening.state, url)
    if not opening.exclusive:
        engine = _engine(address, writes=False)
        with engine.connect() as connection, connection.begin():
            if not has_tables(connection):
                place.refuse_gone(str(address))
                _refuse_beside_a_file(place, address)
                raise LedgerMissing(f"there is no ledger at {address} yet", todo="`loadsheet run` makes one")
            check_version(connection, str(address))
            check_arrived(connection, str(address))
            if _is_empty(connection):
                _refuse_beside_a_file(place, address)
        yield Ledger(engine, clock, place)
        return
    engine = _engine(address, writes=True)
    older = _prepare(engine, address, place, accept_older=opening.accept_older, arrives=opening.arrives)
    with ExitStack() as stack:
        fence = stack.enter_context(tenure.held(engine, address, who(), opening.takeover_s))
        yield Ledger(engine, clock, place, older=older, fence=fence)


def surroundings_on(state: Path | None, url: str) -> Surroundings:
    """What lies on this machine beside the ledger at a PostgreSQL URL, in the folder of its state. Raises SettingsError."""
    return Surroundings(state / f"last_run_of_{address_of(url).schema}.json" if state else None)


def make(url: str) -> None:
    """Make or upgrade the ledger at a PostgreSQL URL, and what all share, without holding it. Raises what `open_ledger` raises."""
    address = address_of(url)
    _prepare(_engine(address, writes=True), address, Surroundings(None), accept_older=False, arrives=True)


def forget_engines() -> None:
    """Close all connections that nobody uses now: before a process forks, and at its end."""
    with _lock:
        for engine in _engines.values():
            engine.dispose()
        _engines.clear()


def _prepare(engine: Engine, address: Address, place: Surroundings, *, accept_older: bool, arrives: bool) -> bool:
    """Make or upgrade the tables; whether the ledger is an older one than this machine knew, and that was accepted."""
    make_tables(engine, address)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_server(connection, str(address))
        make_schema(connection, address.schema)
        make_if_new(connection)
        upgrade_within(connection, str(address))
        check_version(connection, str(address))
        if arrives:
            return False
        arrive(connection, place, str(address))
        if _is_empty(connection):
            _refuse_beside_a_file(place, address)
        return is_older(connection, place, str(address), accepted=accept_older)


def _is_empty(connection: Connection) -> bool:
    return connection.scalar(select(runs.c.id).limit(1)) is None


def _refuse_beside_a_file(place: Surroundings, address: Address) -> None:
    if place.last_run_path is not None:
        refuse_beside_a_file(place.last_run_path.parent, str(address))


def _engine(address: Address, *, writes: bool) -> Engine:
    """An engine, the same for as long as it is among those that were used last."""
    with _lock:
        engine = _engines.pop((address, writes), None) or ledger_engine(address, writes=writes)
        _engines[address, writes] = engine
        while len(_engines) > _KEPT:
            _, oldest = _engines.popitem(last=False)
            oldest.dispose()
        return engine


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
