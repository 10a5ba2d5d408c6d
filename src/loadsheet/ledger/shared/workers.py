"""The register of workers: what is written into it. What is read from it is in `overview`.

Owns: who counts as living when it is asked whether somebody runs the ledger of a shipper: who was heard of within some seconds, by the
database's clock.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.ledger import clock
from loadsheet.ledger.shared.schema import takeovers, workers

_DAY_S = 86_400


class WorkerInfo(NamedTuple):
    """What a worker tells of itself when it begins: its name (unique), where it is, the shippers it serves (an empty name: the only one),
    and how many runs it does at the same time.
    """

    name: str
    host: str
    process: int
    version: str
    serves: Sequence[str]
    places: int


def record_heartbeat(connection: Connection, enrolled: WorkerInfo, doing: Sequence[str], done: int) -> None:
    """Say that a worker lives, what it has in hand (in words), and how many jobs it finished; enters it if it is not in the register."""
    now = clock.now(connection)
    told = {
        "host": enrolled.host,
        "process": enrolled.process,
        "version": enrolled.version,
        "serves": json.dumps(list(enrolled.serves)),
        "places": enrolled.places,
        "doing": json.dumps(list(doing)),
        "done": done,
        "seen": now,
        "ended": None,
    }
    entered = insert(workers).values(name=enrolled.name, started=now, **told)
    connection.execute(entered.on_conflict_do_update(index_elements=[workers.c.name], set_=told))


def record_end(connection: Connection, name: str) -> None:
    """A worker has ended."""
    now = clock.now(connection)
    connection.execute(update(workers).where(workers.c.name == name).values(doing="[]", seen=now, ended=now))


def alive_workers(connection: Connection, within_s: float, shipper: str) -> list[str]:
    """The names of the workers that serve this shipper and were heard of within so many seconds."""
    heard = select(workers.c.name, workers.c.serves).where(
        workers.c.ended.is_(None), workers.c.seen > clock.NOW - within_s
    )
    found = [(row.name, json.loads(row.serves)) for row in connection.execute(heard)]
    return [name for name, serves in found if shipper in serves or not serves]


def forget(connection: Connection, days: int) -> int:
    """Forget workers that ended, or were not heard of, and takeovers, so many days ago; returns how many."""
    before = clock.NOW - days * _DAY_S
    gone = connection.execute(delete(workers).where(workers.c.seen < before)).rowcount
    return gone + connection.execute(delete(takeovers).where(takeovers.c.at < before)).rowcount
