"""The paces of one process: one for each exchange and token that it sends with, shared with all who send with the same.

Owns: what counts as the same token. One that a command or the system's keyring gives changes from hour to hour; it goes by its source.
"""

import threading
from contextlib import ExitStack

from loadsheet.credentials import required_token
from loadsheet.dispatch.leasing import FleetPace
from loadsheet.ledger.shared import Engine
from loadsheet.ledger.shared.paces import PaceOf
from loadsheet.settings import Settings


class Paces:
    """The paces of the process that is called `name`, kept until it is closed. Any thread may ask."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._known: dict[tuple[str, str], FleetPace] = {}

    def of(self, settings: Settings) -> FleetPace:
        """The pace of the exchange and token of these settings, with their figures. Raises SettingsError without a token."""
        source = settings.token_command or settings.token_keyring
        who = f"source {source}" if source else required_token(settings)
        with self._lock:
            if (key := (settings.exchange, who)) not in self._known:
                pace = PaceOf(self._engine, settings.exchange, who, self._name)
                pace.begin(settings.assumptions.calls_per_second, settings.connections)
                self._known[key] = self._open.enter_context(FleetPace(pace.renew, pace.setback))
            return self._known[key]

    def close(self) -> None:
        """Give back what is leased. Nobody may be sending."""
        self._open.close()
