"""Opening a ledger on PostgreSQL: its schema made or upgraded, what all ledgers share beside it, and the tenure if somebody wants to run.

Owns: in which order that happens, and that engines are kept: a watch serves hundreds of ledgers over few connections.
"""

import os
import secrets
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, select

from loadsheet.ledger import tenure
from loadsheet.ledger.backup import is_older
from loadsheet.ledger.clock import Clock
from loadsheet.ledger.location import Surroundings
from loadsheet.ledger.moved import arrive, check_arrived, refuse_beside_a_file
from loadsheet.ledger.postgres import Address, address_of, check_server, ledger_engine, make_schema
from loadsheet.ledger.schema import runs
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.store import Ledger
from loadsheet.ledger.versions import check_version, has_tables, make_if_new, upgrade_within
from loadsheet.problems import LedgerMissing

_KEPT = 16
_engines: "OrderedDict[tuple[Address, bool], Engine]" = OrderedDict()
_lock = Lock()


def who() -> str:
    """How this process calls itself in the ledger."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def unique() -> str:
    """A name that no other process has, and this one not before."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@contextmanager
def joined(
    url: str,
    clock: Clock,
    *,
    exclusive: bool,
    accept_older: bool = False,
    state: Path | None = None,
    takeover_s: float = 30.0,
    arrives: bool = False,
) -> Iterator[Ledger]:
    """The ledger at a PostgreSQL URL, for a run (`exclusive`) or for reading; `arrives` is for the one who moves another one there. Raises
    what `open_ledger` raises.
    """
    address = address_of(url)
    place = surroundings_on(state, url)
    if not exclusive:
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
    older = _prepare(engine, address, place, accept_older=accept_older, arrives=arrives)
    with ExitStack() as stack:
        fence = stack.enter_context(tenure.held(engine, address, who(), takeover_s))
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
    if place.mark_path is not None:
        refuse_beside_a_file(place.mark_path.parent, str(address))


def _engine(address: Address, *, writes: bool) -> Engine:
    """An engine, the same for as long as it is among those that were used last."""
    with _lock:
        engine = _engines.pop((address, writes), None) or ledger_engine(address, writes=writes)
        _engines[address, writes] = engine
        while len(_engines) > _KEPT:
            _, oldest = _engines.popitem(last=False)
            oldest.dispose()
        return engine
