"""The pace of a run on a shared ledger: one for all who send to an exchange with a token.

Owns: what counts as the same token. One that a command or the system's keyring gives changes from hour to hour; it goes by its source.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loadsheet.credentials import required_token
from loadsheet.dispatch import SharedRate
from loadsheet.ledger.postgres_opening import unique
from loadsheet.ledger.shared.opening import shared
from loadsheet.ledger.shared.paces import Figures, PaceOf
from loadsheet.settings import Settings


@contextmanager
def shared_pace(settings: Settings, say: Callable[[str], None]) -> Iterator[SharedRate]:
    """The pace of the exchange and token of these settings, while the `with` block lasts. Its figures are those of who began to send last;
    `say` hears if they change, as shippers with one token should have the same. Raises SettingsError without a token.
    """
    source = settings.token_command or settings.token_keyring
    who = f"source {source}" if source else required_token(settings)
    figures = Figures(settings.assumptions.calls_per_second, settings.connections)
    with shared(settings.database_url) as engine:
        pace = PaceOf(engine, settings.exchange, who, unique())
        before = pace.begin(*figures)
        if before not in (None, figures):
            say(
                f"all who send to {settings.exchange} with this token have one pace: it was {_told(before)}, and is {_told(figures)} now"
            )
        with SharedRate(pace.renew, pace.setback) as leased:
            yield leased


def _told(figures: Figures) -> str:
    rate = f"{figures.per_second:,} calls a second" if figures.per_second else "no limit of calls a second"
    return f"{rate} over {figures.connections:,} connection{'s' if figures.connections != 1 else ''}"
