"""The client of the exchange for a command; and the files in a shared inbox that belong to no shipper."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from loadsheet.cli.output import say
from loadsheet.credentials import another_token, required_token
from loadsheet.dispatch import Client
from loadsheet.inbox import files_outside
from loadsheet.problems import FolderError, SettingsError
from loadsheet.settings import EMBEDDED, Settings
from loadsheet.settings.places import shown
from loadsheet.stages import Dispatcher

STRAYS_SHOWN = 5


@contextmanager
def exchange_client(settings: Settings) -> Iterator[Client]:
    """A client of the exchange in the settings. The embedded exchange is started for it, with its own token.

    Raises SettingsError without a token.
    """
    if settings.exchange != EMBEDDED:
        renew = partial(another_token, settings)
        with Client(settings.exchange, required_token(settings), settings, renew=renew) as client:
            yield client
        return
    from loadsheet.exchange import Embedded

    token = secrets.token_urlsafe(32)
    settings.state.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{settings.state / 'exchange.db'}"
    with Embedded(database, token, settings.assumptions) as served, Client(served.url, token, settings) as client:
        yield client


@contextmanager
def dispatcher_for(settings: Settings, stopping: Sequence[int] | None = None) -> Iterator[Dispatcher]:
    """The dispatcher of a run; with a shared ledger it uses the shared rate. A caller with its own signal handlers passes `stopping`, the
    signals received so far. Raises SettingsError.
    """
    if not settings.is_shared:
        with exchange_client(settings) as client:
            yield Dispatcher(client, stopping=stopping)
        return
    from loadsheet.cluster.rate import shared_pace

    check_exchange(settings)
    with exchange_client(settings) as client, shared_pace(settings, say) as pace:
        yield Dispatcher(client, pace, stopping)


def check_exchange(settings: Settings) -> None:
    """Raise SettingsError if the ledger is shared but the exchange is embedded, which only one process can reach."""
    if settings.is_shared and settings.exchange == EMBEDDED:
        message = "exchange: the embedded exchange runs in a single process, but several share a ledger on PostgreSQL"
        raise SettingsError(f"{message}; give the URL of an exchange (`loadsheet exchange serve` is one)")


def say_strays(config: Path | None, shippers: Mapping[str, Settings | SettingsError]) -> None:
    """Report the files in the shared inbox that are outside the shippers' folders, because no run processes them. For a shipper with wrong
    settings, its default folder counts.
    """
    try:
        shared = Settings.load(config)
        names = _stray_names(shared, shippers) if shared.inbox_address or shared.inbox.is_dir() else []
    except (FolderError, SettingsError) as error:
        say(f"loadsheet: {error}")
        return
    if names:
        named = ", ".join(names[:STRAYS_SHOWN]) + (" ..." if len(names) > STRAYS_SHOWN else "")
        count = "1 file is" if len(names) == 1 else f"{len(names)} files are"
        say(f"{count} in {shown(shared.inbox)}, outside the shippers' folders, and no run processes them: {named}")


def _stray_names(shared: Settings, shippers: Mapping[str, Settings | SettingsError]) -> list[str]:
    own = [found.inbox if isinstance(found, Settings) else shared.inbox / name for name, found in shippers.items()]
    return files_outside(shared, [folder for folder in own if folder.is_relative_to(shared.inbox)])
