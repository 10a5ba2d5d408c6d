"""Clients that a worker keeps from batch to batch: connections to exchanges, and tokens, outlive the few calls of one batch.

Owns: which client is free. Each is used by one thread at a time; one that waits too long closes its connections itself, and one whose
settings were read again since is used no more.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from loadsheet.credentials import another_token, required_token
from loadsheet.dispatch import Client
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED, Settings


class Clients:
    """The clients of one process."""

    def __init__(self) -> None:
        self._free: defaultdict[str, list[tuple[Settings, Client]]] = defaultdict(list)  # by shipper

    @contextmanager
    def borrowed(self, settings: Settings) -> Iterator[Client]:
        """A client of the exchange that these settings name, for as long as the `with` block lasts. Raises SettingsError."""
        free = self._free[settings.shipper]
        client = _one_of(free, settings) or made(settings)
        with ExitStack() as stack:
            stack.callback(client.close)
            yield client
            stack.pop_all()  # nothing broke: it stays open
        free.append((settings, client))

    def close(self) -> None:
        """Close all that are free."""
        for free in self._free.values():
            while free:
                free.pop()[1].close()


def _one_of(free: list[tuple[Settings, Client]], settings: Settings) -> Client | None:
    """A client that was made with these settings, if one is free; those that were made with others are closed."""
    with suppress(IndexError):  # asking whether there is one would be a race between threads
        while True:
            known, client = free.pop()
            if known is settings:
                return client
            client.close()
    return None


def made(settings: Settings) -> Client:
    """A client of the exchange that these settings name. Raises SettingsError without a token, and for the embedded exchange."""
    check_exchange(settings)
    return Client(settings.exchange, required_token(settings), settings, renew=partial(another_token, settings))


def check_exchange(settings: Settings) -> None:
    """Raise SettingsError for an exchange that only one process could reach."""
    if settings.exchange == EMBEDDED:
        told = "exchange: the embedded one lives in a single process, and a ledger on PostgreSQL is shared by several"
        raise SettingsError(f"{told}; give the URL of an exchange (`loadsheet exchange serve` is one)")
