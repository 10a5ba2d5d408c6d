"""Backups: copying the ledger while others read it, and using a ledger that was restored from a copy.

Owns: how a copy is made (it appears under its name only when it is complete), and what a restored ledger may still claim. What it would
send may have been sent since the backup, so it is unknown until a listing or a person says more; what waits is not released by itself.
What was accepted or refused before stays so. Records first sent after the backup are missing: their files must not be dropped again
unseen.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from loadsheet.ledger.location import LastRun, Surroundings, sync_folder
from loadsheet.ledger.schema import entries, runs
from loadsheet.ledger.states import Run, Settlement, State, Waits
from loadsheet.ledger.transitions import Intent, begin_sending, change
from loadsheet.problems import LedgerError, LedgerUnwritable, Problem

CHUNK = 500
_LOST = "the ledger was put back from a backup; it may have been sent since"


def back_up(connection: Connection, target: Path) -> None:
    """Copy the database of a connection to a new file. Raises LedgerUnwritable if it cannot be written; nothing is left then."""
    part = target.with_name(f"{target.name}.part")
    source: Any = connection.connection.dbapi_connection
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            copy.execute("pragma journal_mode=DELETE")  # one file, to be carried elsewhere
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
        sync_folder(target.parent)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise LedgerUnwritable(
            f"the backup {target} cannot be written ({error}); make room for a copy and run again"
        ) from error


def is_older(connection: Connection, place: Surroundings, where: str, *, accepted: bool) -> bool:
    """Whether the ledger is older than the last one used on this machine. Raises LedgerError if it is and that was not `accepted`."""
    mark = place.read_last_run()
    if mark is None or has_run(connection, mark):
        return False
    if accepted:
        return True
    message = f"the ledger {where} does not know run {mark.name} of {mark.started_at}, which was recorded here"
    accept = "set ledger.accept_older for one run: what it would have sent is then unknown and looked for first"
    todo = f"put the newest back (`loadsheet ledger restore FILE`), or {accept}"
    raise LedgerError(f"{message}: it is an older copy, or another one", todo=todo)


def has_run(connection: Connection, mark: LastRun) -> bool:
    """Whether the ledger contains the run of this mark."""
    same = (runs.c.id == mark.id) & (runs.c.started_at == mark.started_at)
    return connection.scalar(select(runs.c.id).where(same)) is not None


def doubt_unsent(connection: Connection, run: Run, now: str) -> None:
    """Set ready entries to `unknown` and hold waiting ones until a person decides; `now` is ISO 8601 UTC."""
    waiting = entries.c.state.in_((State.HELD, State.READY)) & (entries.c.waits != Waits.DECISION)
    hold = select(entries.c.id).where(waiting)
    change(connection, run, [Settlement(one, State.HELD, _LOST) for one in connection.scalars(hold)], now)
    ready = select(entries.c.id, entries.c.attempts).where(entries.c.state == State.READY)
    chosen = connection.execute(ready).all()
    for start in range(0, len(chosen), CHUNK):
        part = chosen[start : start + CHUNK]
        begin_sending(connection, run, [Intent(one, tried, "") for one, tried in part], now)
        problems = (Problem("X702", values={"text": _LOST}),)
        unknown = [Settlement(one, State.UNKNOWN, _LOST, problems=problems, outcome="unknown") for one, _ in part]
        change(connection, run, unknown, now)
