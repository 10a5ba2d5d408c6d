"""Clients that a worker keeps from batch to batch: connections to exchanges, and tokens, outlive the few calls of one batch.

Owns: which client is free. Each is used by one thread at a time; one that waits too long closes its connections itself.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from loadsheet.credentials import another_token, required_token
from loadsheet.dispatch import Client
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED, Settings


class Clients:
    """The clients of one process."""

    def __init__(self) -> None:
        self._free: defaultdict[tuple[str, str], list[Client]] = defaultdict(list)

    @contextmanager
    def borrowed(self, settings: Settings) -> Iterator[Client]:
        """A client of the exchange that these settings name, for as long as the `with` block lasts. Raises SettingsError."""
        free = self._free[settings.shipper, settings.exchange]
        try:
            client = free.pop()
        except IndexError:  # asking before would be a race between threads
            client = made(settings)
        with ExitStack() as stack:
            stack.callback(client.close)
            yield client
            stack.pop_all()  # nothing broke: it stays open
        free.append(client)

    def close(self) -> None:
        """Close all that are free."""
        for free in self._free.values():
            while free:
                free.pop().close()


def made(settings: Settings) -> Client:
    """A client of the exchange that these settings name. Raises SettingsError without a token, and for the embedded exchange."""
    check_exchange(settings)
    return Client(settings.exchange, required_token(settings), settings, renew=partial(another_token, settings))


def check_exchange(settings: Settings) -> None:
    """Raise SettingsError for an exchange that only one process could reach."""
    if settings.exchange == EMBEDDED:
        told = "exchange: the embedded one lives in a single process, and a ledger on PostgreSQL is shared by several"
        raise SettingsError(f"{told}; give the URL of an exchange (`loadsheet exchange serve` is one)")
