"""The shared rate of a run on PostgreSQL: all processes that send to an exchange with the same token share one.

Owns: what counts as the same token. A token from a command or keyring may change every hour, so its source identifies it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loadsheet.credentials import required_token
from loadsheet.dispatch import SharedRate
from loadsheet.ledger.ledger_opening import unique
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.leases import Figures, SharedPace
from loadsheet.settings import Settings


@contextmanager
def shared_pace(settings: Settings, say: Callable[[str], None]) -> Iterator[SharedRate]:
    """The shared rate for the exchange and token of these settings, for the `with` block. The limits of the last started process
    apply. `say` reports a change: shippers with one token should have the same limits. Raises SettingsError without a token.
    """
    source = settings.token_command or settings.token_keyring
    sender = f"source {source}" if source else required_token(settings)
    figures = Figures(settings.assumptions.calls_per_second, settings.dispatch.connections)
    with open_shared(settings.database_url) as engine:
        pace = SharedPace(engine, settings.exchange, sender, unique())
        before = pace.begin(*figures)
        if before not in (None, figures):
            say(
                f"all processes that use this token for {settings.exchange} share one limit. It changed from {_describe(before)} to {_describe(figures)}"
            )
        with SharedRate(pace.renew, pace.setback) as leased:
            yield leased


def _describe(figures: Figures) -> str:
    rate = f"{figures.per_second:,} calls a second" if figures.per_second else "unlimited calls a second"
    return f"{rate} over {figures.connections:,} connection{'s' if figures.connections != 1 else ''}"
