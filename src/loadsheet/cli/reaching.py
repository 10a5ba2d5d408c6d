"""How a command reaches the exchange that its settings name."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from loadsheet.credentials import another_token, required_token
from loadsheet.dispatch import Client
from loadsheet.exchange import Embedded
from loadsheet.settings import EMBEDDED, Settings


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
