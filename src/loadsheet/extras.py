"""Libraries that few installations need: which extra installs each, the sentence if it is missing, and the calendars of holidays.

They are imported where they are used, that of holidays here. `check` runs before a run does anything, so that a missing library never ends
a run halfway.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING

from loadsheet.errors import SettingsError

if TYPE_CHECKING:
    from holidays import HolidayBase
    from pydantic import SecretStr

    from loadsheet.settings import Settings

OWN_NOTICES = "loadsheet.notices"
"""The entry points of other packages that send notices, each named by the scheme of its addresses."""

_LIBRARIES = {
    "holidays": "holidays",
    "metrics": "prometheus_client",
    "notices": "apprise",
    "parquet": "duckdb",
    "postgres": "psycopg",
}


def need(extra: str, what: str) -> None:
    """Raise SettingsError if the library for `what` is not installed. The error names the extra that installs it."""
    library = _LIBRARIES[extra]
    if find_spec(library) is None:
        todo = f"pip install 'loadsheet[{extra}]'"
        raise SettingsError(f"{what} needs the library {library}, which is not installed", todo=todo)


def holidays_of(country: str, what: str) -> "HolidayBase | None":
    """The calendar of public holidays of a country, such as `DE`, or `DE-SN` for a region; None if it is unknown. Raises like `need`."""
    need("holidays", what)
    import holidays

    name, _, part = country.partition("-")
    try:
        return holidays.country_holidays(name, subdiv=part or None)
    except NotImplementedError:
        return None


def check(settings: "Settings") -> None:
    """Raise SettingsError if a setting of runs needs a library that is not installed."""
    for extra, setting in _wanted(settings):
        need(extra, setting)


def _wanted(settings: "Settings") -> Iterator[tuple[str, str]]:
    """The extras that settings of a run need, each with the name of such a setting."""
    notices, monitoring = settings.notifications, settings.monitoring
    countries = {expectation.holidays for expectation in settings.expected_files.expect} - {"", "none"}
    wanted = {
        "notifications.urls": ("notices", _need_apprise(notices.urls)),
        "notifications.urls_file": ("notices", notices.urls_file),
        "notifications.owners": ("notices", _need_apprise(notices.owners.values())),
        "notifications.fixes_mail": ("notices", _need_apprise(notices.fixes_mail)),
        "monitoring.metrics_file": ("metrics", monitoring.metrics_file),
        "monitoring.health_address": ("metrics", monitoring.health_address),
        "reports.working_days": ("holidays", settings.reports.working_days),
        "expected_files.expect: holidays": ("holidays", countries),
    }
    return ((extra, name) for name, (extra, value) in wanted.items() if value)


def _need_apprise(urls: "Iterable[SecretStr]") -> bool:
    """Whether one of these addresses is not for another package's own notices."""
    own = {entry.name for entry in entry_points(group=OWN_NOTICES)} if urls else set()
    return any(url.get_secret_value().partition("://")[0].lower() not in own for url in urls)
