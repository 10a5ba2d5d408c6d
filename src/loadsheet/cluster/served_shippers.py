"""The shippers that a worker serves, with their settings, which are reloaded when the settings file changes.

Owns: which shippers those are. Their ledgers must be in one database, because they share one queue. Wrong settings of one shipper
are reported and do not stop the others.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loadsheet.ledger.postgres import Address, address_of
from loadsheet.ledger.shared import jobs
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings, shippers_in
from loadsheet.settings.shippers import chosen
from loadsheet.settings.sources import find

Say = Callable[[str], None]


class ServedShippers:
    """The shippers of a worker: those of the settings file, or those in `only`. `by_shipper` holds the settings by shipper name,
    which is empty where no shippers are declared; `addresses` those of the ledgers by their schema. Raises SettingsError if none
    can be served.
    """

    by_shipper: Mapping[str, Settings]
    addresses: Mapping[str, Address]

    def __init__(self, config: Path | None, only: Sequence[str], say: Say) -> None:
        self._config, self._only, self._say = config, tuple(only), say
        self._reported: set[str] = set()
        self._file = self._signature()
        self._apply(self._read())

    @property
    def address(self) -> Address:
        """The address of the shared database. Its schema is that of one of the ledgers."""
        return next(iter(self.addresses.values()))

    def queues(self) -> Sequence[str]:
        """The queues of these ledgers."""
        return [jobs.queue_of(ledger) for ledger in self.addresses]

    def is_stale(self) -> bool:
        """Whether the settings file changed since it was read."""
        return self._signature() != self._file

    def reload(self) -> None:
        """Reload the settings. Wrong settings are reported and the previous ones stay in force."""
        self._file = self._signature()
        try:
            self._apply(self._read())
        except SettingsError as error:
            self._say_once(f"{error}; the previous settings stay in force")

    def _read(self) -> Mapping[str, Settings]:
        declared = shippers_in(self._config)
        names = tuple(chosen(declared, name, find(self._config)) for name in self._only) or declared or ("",)
        loaded: dict[str, Settings] = {}
        for name in names:
            try:
                loaded[name] = Settings.load(self._config, shipper=name)
            except SettingsError as error:
                if len(names) == 1:
                    raise
                self._say_once(f"{name}: {error}; this worker does not serve the shipper")
        return loaded

    def _apply(self, loaded: Mapping[str, Settings]) -> None:
        shared = {name: settings for name, settings in loaded.items() if settings.is_shared}
        if not shared:
            raise SettingsError(
                "database: a worker needs a ledger on PostgreSQL. A ledger in a file needs only `loadsheet run` or"
                ' `loadsheet watch`. For several machines write database = "postgresql://USER@HOST/NAME"'
            )
        addresses = {settings.ledger_schema: address_of(settings.database_url) for settings in shared.values()}
        if len({(address.url, address.shared) for address in addresses.values()}) > 1:
            names = ", ".join(shared)
            raise SettingsError(
                f"database: the ledgers of {names} are in several databases, each with a queue of its own; start a worker for each"
                " database with --only"
            )
        for name in loaded.keys() - shared.keys():
            self._say_once(f"{name}: its ledger is in a file and needs no worker")
        self.by_shipper = {settings.shipper: settings for settings in shared.values()}
        self.addresses = addresses

    def _signature(self) -> tuple[int, int, int] | None:
        file = find(self._config)
        try:
            status = file.stat() if file else None
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None

    def _say_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._say(text)
