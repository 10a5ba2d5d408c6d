"""Keeping: what is removed when, what is kept for how long, and what is taken out of the ledger for others to read.

`keep` is the verb of every night: originals, payloads, reports and log files that are older than the settings want them, and the backup
of the day. Each step stands alone and goes on where a killed one stopped; none of them changes what a run came to. Changes the ledger
only through its verbs.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from loadsheet import run_log
from loadsheet.ledger import Ledger
from loadsheet.operations.retention.backups import BY_THE_SERVER, back_up_daily
from loadsheet.operations.retention.expiry import remove_originals, remove_payloads
from loadsheet.operations.retention.old_reports import remove_reports
from loadsheet.problems import LoadsheetError
from loadsheet.settings import Settings

__all__ = ["keep"]

Step = tuple[str, Callable[[], int]]


def keep(settings: Settings, ledger: Ledger, now: datetime, say: Callable[[str], None]) -> None:
    """Remove what is older than the settings want it kept, as far as nobody needs it any more, and back the ledger up once a day; `now` is
    aware, in UTC. What was removed is counted in the journal and in the ledger; what cannot be done is said, and tried again the next
    time.
    """
    counts: dict[str, int] = {}
    if settings.backups and not ledger.maintenance.is_file and not ledger.queries.runs(2)[1:]:
        say(f"loadsheet: {BY_THE_SERVER}")  # once: its first run says so
    for name, act in _steps(settings, ledger, now):
        try:
            if count := act():
                counts[name] = count
        except (LoadsheetError, OSError) as error:
            say(f"loadsheet: keeping {name}: {error}")
    removed = {name: count for name, count in counts.items() if name != "backups"}
    if counts:
        run_log.info("kept house", **counts)
    if removed:
        try:
            ledger.maintenance.note(removed)
        except LoadsheetError as error:
            say(f"loadsheet: keeping: {error}")


def _steps(settings: Settings, ledger: Ledger, now: datetime) -> Iterator[Step]:
    # the backup comes last, so that it holds no longer than it has to what was removed
    yield "originals", lambda: remove_originals(settings, ledger, now)
    yield "payloads", lambda: remove_payloads(settings, ledger, now)
    yield "reports", lambda: remove_reports(settings, ledger, now)
    yield "logs", lambda: run_log.remove_older(settings, now)
    yield "backups", lambda: back_up_daily(settings, ledger, now)
