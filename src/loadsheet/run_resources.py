"""What a run opens: the ledger, held by this process alone, the exchange, and the rate that processes on one database share.

Libraries that only calls need are imported on use.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from loadsheet import run_log
from loadsheet.display_text import count_of
from loadsheet.errors import SettingsError
from loadsheet.ledger import Clock, Ledger, OpenOptions, open_ledger, utc_now
from loadsheet.settings import EMBEDDED, Settings

if TYPE_CHECKING:
    from loadsheet.dispatch import Client, Dispatcher
    from loadsheet.dispatch.sending import Progress
    from loadsheet.dispatch.shared_rate import SharedRate
    from loadsheet.ledger.shared.leases import RateLimits


class RunResources(NamedTuple):
    """What one run works with; `progress` takes the number of sent entries and of all, if it is shown."""

    ledger: Ledger
    dispatcher: "Dispatcher"
    progress: "Progress | None" = None


@contextmanager
def held_ledger(settings: Settings, clock: Clock = utc_now) -> Iterator[Ledger]:
    """The ledger of the settings, held by this process alone. Raises what `open_ledger` raises."""
    opening = OpenOptions(
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
    from loadsheet.exchange import serve_embedded

    token = secrets.token_urlsafe(32)
    settings.state.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{settings.state / 'exchange.db'}"
    with serve_embedded(database, token, settings.assumptions) as url, Client(url, token, settings) as client:
        yield client


@contextmanager
def dispatcher_for(
    settings: Settings, say: Callable[[str], None], stopping: Sequence[int] | None = None
) -> Iterator["Dispatcher"]:
    """The dispatcher of a run; with a shared ledger it uses the shared rate, and `say` takes its warnings. A caller with its own signal
    handlers passes `stopping`, the signals received so far. Raises SettingsError.
    """
    from loadsheet.dispatch import Dispatcher

    if not settings.is_shared:
        with exchange_client(settings) as client:
            yield Dispatcher(client, stopping=stopping)
        return
    check_exchange(settings)
    with exchange_client(settings) as client, shared_rate(settings, say) as rate:
        yield Dispatcher(client, rate, stopping)


@contextmanager
def shared_rate(settings: Settings, say: Callable[[str], None]) -> Iterator["SharedRate"]:
    """The rate for the exchange and token of these settings, which all processes on their database share. The limits of the last started
    process apply. `say` reports a change: shippers with one token should have the same limits. Raises SettingsError without a token.
    """
    from loadsheet.credentials import required_token
    from loadsheet.dispatch.shared_rate import SharedRate
    from loadsheet.ledger.ledger_opening import unique_name
    from loadsheet.ledger.shared import open_shared
    from loadsheet.ledger.shared.leases import RateLimits, SharedRateLimit

    source = settings.token_command or settings.token_keyring  # its token may change every hour
    sender = f"source {source}" if source else required_token(settings)
    limits = RateLimits(settings.assumptions.calls_per_second, settings.dispatch.connections)
    with open_shared(settings.database_url) as engine:
        rate_limit = SharedRateLimit(engine, settings.exchange, sender, unique_name())
        before = rate_limit.set_limits(*limits)
        if before not in (None, limits):
            change = f"It changed from {_limit_text(before)} to {_limit_text(limits)}"
            say(f"all processes that use this token for {settings.exchange} share one limit. {change}")
        with SharedRate(rate_limit.renew, rate_limit.report_overload) as leased:
            yield leased


def _limit_text(limits: "RateLimits") -> str:
    rate = f"{limits.per_second:,} calls a second" if limits.per_second else "unlimited calls a second"
    return f"{rate} over {count_of(limits.connections, 'connection')}"


def check_exchange(settings: Settings) -> None:
    """Raise SettingsError if the ledger is shared but the exchange is embedded, which only one process can reach."""
    if settings.is_shared and settings.exchange == EMBEDDED:
        message = "exchange: the embedded exchange runs in a single process, but several share a ledger on PostgreSQL"
        raise SettingsError(message, todo="give the URL of an exchange (`loadsheet exchange serve` is one)")


def holder_of(settings: Settings) -> str:
    """The live process that holds the ledger of the settings, as text; empty if none does. Raises LedgerGone if the server is unreachable."""
    if not settings.is_shared:
        from loadsheet.ledger.ledger_opening import file_of
        from loadsheet.ledger.location import holder_of_file

        return holder_of_file(file_of(settings.database_url))
    from loadsheet.ledger.postgres import server_status

    return server_status(settings.database_url, settings.cluster.takeover_s).holder
