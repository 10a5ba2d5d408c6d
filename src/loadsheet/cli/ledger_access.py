"""How a command opens the ledger that its settings name, to read or to hold it; who holds it; and what time it is for the command."""

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import click

from loadsheet import run_log
from loadsheet.ledger import Clock, Ledger, open_ledger, utc_now
from loadsheet.ledger.opening import file_of
from loadsheet.settings import Settings


def ledger_to_read(settings: Settings) -> AbstractContextManager[Ledger]:
    """The ledger of the settings, only to be read: a run may be under way meanwhile. Raises what `open_ledger` raises."""
    return open_ledger(settings.database_url, clock=clock(), exclusive=False, state=settings.state)


def clock() -> Clock:
    """What tells this command the time: the present moment in UTC, or what `invoke` was given."""
    ctx = click.get_current_context(silent=True)
    given: Clock | None = ctx.find_root().obj if ctx else None
    return given or utc_now


@contextmanager
def held_ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger of the settings, for this process alone. Raises what `open_ledger` raises."""
    held = open_ledger(
        settings.database_url,
        clock=clock(),
        allow_network=settings.allow_network_ledger,
        accept_older=settings.accept_older_ledger,
        state=settings.state,
        takeover_s=settings.takeover_s,
    )
    with run_log.opened(settings, anew=False), held as ledger:
        yield ledger


def holder_of_file(path: Path) -> str:
    """Who says to hold the ledger in a file and lives (empty: nobody), without asking for the lock: a run that begins now must not meet
    us there.
    """
    try:
        told = Path(f"{path}.holder").read_text(encoding="utf-8")
        number = int(told.split()[1])
        if f" on {socket.gethostname()} " in told and os.name == "posix":
            os.kill(number, 0)
    except (OSError, ValueError, IndexError):
        return ""
    return told


def holder_of(settings: Settings) -> str:
    """Who holds the ledger of the settings and lives, in words; empty if nobody does. Raises LedgerGone if its server cannot be reached."""
    if not settings.is_shared:
        return holder_of_file(file_of(settings.database_url))
    from loadsheet.ledger.server import look  # noqa: PLC0415 (needed where a ledger is shared)

    return look(settings.database_url, settings.takeover_s).holder
