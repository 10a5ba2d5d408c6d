"""Whose ledgers a worker serves: the settings of its shippers, read again when the settings file is another one.

Owns: which shippers those are. All have to lie in one database, because they share one queue. The settings of one shipper that are wrong
are nobody else's affair: that is said, and others may know better.
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


class Served:
    """The shippers of a worker by the schemas of their ledgers: those of a settings file, `only` these if some are named. Raises
    SettingsError if there is none that it could serve.
    """

    def __init__(self, config: Path | None, only: Sequence[str], say: Say) -> None:
        self._config, self._only, self._say = config, tuple(only), say
        self._said: set[str] = set()
        self._file = self._signature()
        self._take(self._read())

    @property
    def by_ledger(self) -> Mapping[str, Settings]:
        """The settings of the shippers by the schemas of their ledgers."""
        return self._by_ledger

    @property
    def by_shipper(self) -> Mapping[str, Settings]:
        """The same by their names; an empty one where no shippers are declared."""
        return {settings.shipper: settings for settings in self._by_ledger.values()}

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where the ledgers lie, by their schemas."""
        return self._addresses

    @property
    def address(self) -> Address:
        """Where all lie; the schema is that of one of them."""
        return next(iter(self._addresses.values()))

    def queues(self) -> Sequence[str]:
        """The queues of these ledgers."""
        return [jobs.queue_of(ledger) for ledger in self._by_ledger]

    def is_stale(self) -> bool:
        """Whether the settings file changed since it was read."""
        return self._signature() != self._file

    def read_again(self) -> None:
        """Read the settings again. If they are wrong, that is said, and those from before stay."""
        self._file = self._signature()
        try:
            self._take(self._read())
        except SettingsError as error:
            self._once(f"{error}; the settings from before stay")

    def _read(self) -> Mapping[str, Settings]:
        declared = shippers_in(self._config)
        names = tuple(chosen(declared, name, find(self._config)) for name in self._only) or declared or ("",)
        found: dict[str, Settings] = {}
        for name in names:
            try:
                found[name] = Settings.load(self._config, shipper=name)
            except SettingsError as error:
                if len(names) == 1:
                    raise
                self._once(f"{name}: {error}; this worker leaves the shipper to others")
        return found

    def _take(self, found: Mapping[str, Settings]) -> None:
        shared = {name: one for name, one in found.items() if one.is_shared}
        if not shared:
            raise SettingsError(
                "database: a worker serves ledgers on PostgreSQL, and there is none; a ledger in a file is served by `loadsheet run` and"
                ' `loadsheet watch` alone. For several machines write database = "postgresql://USER@HOST/NAME"'
            )
        addresses = {one.ledger_schema: address_of(one.database_url) for one in shared.values()}
        if len({(address.url, address.shared) for address in addresses.values()}) > 1:
            names = ", ".join(shared)
            raise SettingsError(
                f"database: the ledgers of {names} lie in several databases, which have a queue each; start a worker for those of each,"
                " by --only"
            )
        for name in found.keys() - shared.keys():
            self._once(f"{name}: its ledger lies in a file, where no worker is needed")
        self._by_ledger = {one.ledger_schema: one for one in shared.values()}
        self._addresses = addresses

    def _signature(self) -> tuple[int, int, int] | None:
        file = find(self._config)
        try:
            status = file.stat() if file else None
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)
