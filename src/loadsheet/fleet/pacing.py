"""The paces of one process: one for each exchange and token that it sends with, shared with all who send with the same.

Owns: what counts as the same token, and whose figures hold. A token that a command or the system's keyring gives changes from hour to hour;
it goes by its source. Figures are those of the shipper that came last, or changed last.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from loadsheet.credentials import required_token
from loadsheet.dispatch.leasing import FleetPace
from loadsheet.ledger.shared import Engine
from loadsheet.ledger.shared.paces import PaceOf
from loadsheet.settings import Settings


class _Figures(NamedTuple):
    per_second: int
    connections: int


class Paces:
    """The paces of the process that is called `name`, kept until it is closed. Any thread may ask; `say` hears of shippers that want different
    figures of one pace.
    """

    def __init__(self, engine: Engine, name: str, say: Callable[[str], None] = lambda _text: None) -> None:
        self._engine, self._name, self._say = engine, name, say
        self._figures: defaultdict[tuple[str, str], dict[str, _Figures]] = defaultdict(dict)  # by shipper
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._known: dict[tuple[str, str], FleetPace] = {}

    def of(self, settings: Settings) -> FleetPace:
        """The pace of the exchange and token of these settings, with their figures. Raises SettingsError without a token."""
        figures = _Figures(settings.assumptions.calls_per_second, settings.connections)
        source = settings.token_command or settings.token_keyring
        who = f"source {source}" if source else required_token(settings)
        with self._lock:
            key = settings.exchange, who
            if self._figures[key].get(settings.shipper) != figures:
                PaceOf(self._engine, settings.exchange, who, self._name).begin(*figures)
                self._note(key, settings.shipper, figures)
            if key not in self._known:
                pace = PaceOf(self._engine, settings.exchange, who, self._name)
                self._known[key] = self._open.enter_context(FleetPace(pace.renew, pace.setback))
            return self._known[key]

    def _note(self, key: tuple[str, str], shipper: str, figures: _Figures) -> None:
        """Remember what a shipper wants, and say so if another one that sends with the same token wants something else."""
        for others in self._figures.values():
            others.pop(shipper, None)
        if unlike := [one for one, wanted in self._figures[key].items() if wanted != figures]:
            told = f"{shipper} and {unlike[0]} send to one exchange with one token, so they have one pace, but not the same settings"
            self._say(f"{told}: calls_per_second and connections of {shipper} hold for both, as it came last")
        self._figures[key][shipper] = figures

    def close(self) -> None:
        """Give back what is leased. Nobody may be sending."""
        self._open.close()
