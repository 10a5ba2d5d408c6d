"""What a run opens: the ledger, held by this process alone, and the exchange.

Libraries that only calls need are imported on use.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from loadsheet import run_log
from loadsheet.ledger import Clock, Ledger, Opening, open_ledger, utc_now
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED, Settings

if TYPE_CHECKING:
    from loadsheet.dispatch import Client, Dispatcher


@contextmanager
def held_ledger(settings: Settings, clock: Clock = utc_now) -> Iterator[Ledger]:
    """The ledger of the settings, held by this process alone. Raises what `open_ledger` raises."""
    opening = Opening(
        state=settings.state,
        takeover_s=settings.cluster.takeover_s,
        allow_network=settings.ledger.allow_network,
        accept_older=settings.ledger.accept_older,
    )
    held = open_ledger(settings.database_url, opening, clock=clock)
    with run_log.opened(settings, reuse=True), held as ledger:
        yield ledger


@contextmanager
def exchange_client(settings: Settings) -> Iterator["Client"]:
    """A client of the exchange in the settings. The embedded exchange is started for it, with its own token.

    Raises SettingsError without a token.
    """
    from loadsheet.dispatch import Client

    if settings.exchange != EMBEDDED:
        from loadsheet.credentials import another_token, required_token

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
def dispatcher_for(
    settings: Settings, say: Callable[[str], None], stopping: Sequence[int] | None = None
) -> Iterator["Dispatcher"]:
    """The dispatcher of a run; with a shared ledger it uses the shared rate, and `say` takes its warnings. A caller with its own signal handlers passes `stopping`, the
    signals received so far. Raises SettingsError.
    """
    from loadsheet.dispatch import Dispatcher

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
        raise SettingsError(message, todo="give the URL of an exchange (`loadsheet exchange serve` is one)")
