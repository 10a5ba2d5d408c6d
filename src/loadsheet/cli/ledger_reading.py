"""How a command reads the ledger that its settings name."""

from contextlib import AbstractContextManager

from loadsheet.cli.moments import clock
from loadsheet.ledger import Ledger, open_ledger
from loadsheet.settings import Settings


def ledger_to_read(settings: Settings) -> AbstractContextManager[Ledger]:
    """The ledger of the settings, only to be read: a run may be under way meanwhile. Raises what `open_ledger` raises."""
    return open_ledger(settings.database_url, clock=clock(), exclusive=False, state=settings.state)
