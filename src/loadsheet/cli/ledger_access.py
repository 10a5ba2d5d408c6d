"""Access to the ledger of the settings: for reading, for changes, and who holds it; and the clock of a command."""

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import click

from loadsheet import run_log
from loadsheet.ledger import Clock, Ledger, Opening, open_ledger, read_ledger, utc_now
from loadsheet.ledger.ledger_opening import file_of
from loadsheet.settings import Settings


def ledger_to_read(settings: Settings) -> AbstractContextManager[Ledger]:
    """The ledger of the settings, for reading only: a run may be in progress. Raises what `open_ledger` raises."""
    return read_ledger(settings.database_url, settings.state, clock=clock())


def clock() -> Clock:
    """The clock of this command: the one given to `invoke`, else the current time in UTC."""
    ctx = click.get_current_context(silent=True)
    given: Clock | None = ctx.find_root().obj if ctx else None
    return given or utc_now


@contextmanager
def held_ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger of the settings, held by this process alone. Raises what `open_ledger` raises."""
    opening = Opening(
        state=settings.state,
        takeover_s=settings.cluster.takeover_s,
        allow_network=settings.ledger.allow_network,
        accept_older=settings.ledger.accept_older,
    )
    held = open_ledger(settings.database_url, opening, clock=clock())
    with run_log.opened(settings, reuse=True), held as ledger:
        yield ledger


def holder_of_file(path: Path) -> str:
    """The live process that holds a ledger file, as text (empty: none). Does not try the lock, because that could block a run that
    begins now.
    """
    try:
        holder = Path(f"{path}.holder").read_text(encoding="utf-8")
        number = int(holder.split()[1])
        if f" on {socket.gethostname()} " in holder and os.name == "posix":
            os.kill(number, 0)
    except (OSError, ValueError, IndexError):
        return ""
    return holder


def holder_of(settings: Settings) -> str:
    """The live process that holds the ledger of the settings, as text; empty if none does. Raises LedgerGone if the server is unreachable."""
    if not settings.is_shared:
        return holder_of_file(file_of(settings.database_url))
    from loadsheet.ledger.postgres import look

    return look(settings.database_url, settings.cluster.takeover_s).holder
