"""How a command reaches the ledger and the exchange that its settings name."""

import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from loadsheet import run_log
from loadsheet.cli.moments import clock
from loadsheet.cli.output import say
from loadsheet.credentials import another_token, required_token
from loadsheet.dispatch import Client
from loadsheet.inbox import files_outside
from loadsheet.ledger import Ledger, open_ledger
from loadsheet.ledger.opening import file_of
from loadsheet.problems import FolderError, SettingsError
from loadsheet.settings import EMBEDDED, Settings
from loadsheet.settings.places import shown
from loadsheet.stages import Dispatcher

STRAYS_SHOWN = 5


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


@contextmanager
def reached(settings: Settings) -> Iterator[Client]:
    """A client of the exchange that the settings name; the embedded one is started for it, with a token of its own.

    Raises SettingsError without a token.
    """
    if settings.exchange != EMBEDDED:
        renew = partial(another_token, settings)
        with Client(settings.exchange, required_token(settings), settings, renew=renew) as client:
            yield client
        return
    from loadsheet.exchange import Embedded  # noqa: PLC0415 (a whole server, which most installations never start)

    token = secrets.token_urlsafe(32)
    settings.state.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{settings.state / 'exchange.db'}"
    with Embedded(database, token, settings.assumptions) as served, Client(served.url, token, settings) as client:
        yield client


@contextmanager
def dispatcher_for(settings: Settings, stopping: Sequence[int] | None = None) -> Iterator[Dispatcher]:
    """What a run sends with: where others share the ledger, at the pace that all who send to the exchange share. Whoever handles signals
    himself passes `stopping`, which is filled when one asks to stop. Raises SettingsError.
    """
    if not settings.is_shared:
        with reached(settings) as client:
            yield Dispatcher(client, stopping=stopping)
        return
    from loadsheet.cluster.rate import shared_pace  # noqa: PLC0415 (needed where a ledger is shared)

    check_exchange(settings)
    with reached(settings) as client, shared_pace(settings, say) as pace:
        yield Dispatcher(client, pace, stopping)


def check_exchange(settings: Settings) -> None:
    """Raise SettingsError for an exchange that only one of the processes that share a ledger could reach."""
    if settings.is_shared and settings.exchange == EMBEDDED:
        told = "exchange: the embedded one lives in a single process, and a ledger on PostgreSQL is shared by several"
        raise SettingsError(f"{told}; give the URL of an exchange (`loadsheet exchange serve` is one)")


def say_strays(config: Path | None, shippers: Mapping[str, Settings | SettingsError]) -> None:
    """Say which files lie in the inbox of all, outside of the folders of these shippers: nobody takes them. The folder of one whose
    settings are wrong is taken to be where it would be by its name.
    """
    try:
        shared = Settings.load(config)
        lying = _lying(shared, shippers) if shared.inbox_address or shared.inbox.is_dir() else []
    except (FolderError, SettingsError) as error:
        say(f"loadsheet: {error}")
        return
    if lying:
        named = ", ".join(lying[:STRAYS_SHOWN]) + (" ..." if len(lying) > STRAYS_SHOWN else "")
        lies = "1 file lies" if len(lying) == 1 else f"{len(lying)} files lie"
        say(f"{lies} in {shown(shared.inbox)} outside of the shippers' folders, where nobody takes them: {named}")


def _lying(shared: Settings, shippers: Mapping[str, Settings | SettingsError]) -> list[str]:
    own = [one.inbox if isinstance(one, Settings) else shared.inbox / name for name, one in shippers.items()]
    return files_outside(shared, [folder for folder in own if folder.is_relative_to(shared.inbox)])
