"""How a command reaches the ledger and the exchange that its settings name."""

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from loadsheet.credentials import another_token, required_token
from loadsheet.dispatch import Client
from loadsheet.exchange import Embedded
from loadsheet.ledger import Ledger, open_ledger
from loadsheet.settings import EMBEDDED, Settings


def held_ledger(settings: Settings) -> AbstractContextManager[Ledger]:
    """The ledger of the settings, for this process alone. Raises what `open_ledger` raises."""
    return open_ledger(
        settings.database_url,
        allow_network=settings.allow_network_ledger,
        accept_older=settings.accept_older_ledger,
    )


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
    token = secrets.token_urlsafe(32)
    settings.state.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{settings.state / 'exchange.db'}"
    with Embedded(database, token, settings.assumptions) as served, Client(served.url, token, settings) as client:
        yield client
