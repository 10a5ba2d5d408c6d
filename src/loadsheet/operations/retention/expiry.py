"""What goes by age out of the archive and out of the ledger: originals after `archive_days`, payloads, cells and answers after `payload_days`.

Owns: the order of these steps, in which a process that is killed between any two of them loses nothing that is still needed, and leaves
nothing that the next night does not find.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from loadsheet import inbox
from loadsheet.ledger import Ledger
from loadsheet.reconcile.listings import abridged, entries_with_contents
from loadsheet.settings import Settings


def remove_originals(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove originals older than `archive_days` that no entry needs any more; returns how many."""
    if not settings.archive_days:
        return 0
    maintenance = ledger.maintenance
    return inbox.purge(settings, now.date(), maintenance.originals_needed(), maintenance.let_go)


def remove_payloads(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Remove contents of entries older than `payload_days` that nobody needs any more; returns of how many. What looks at the exchange
    showed of them goes with them.
    """
    if not settings.payload_days:
        return 0
    before, maintenance = days_ago(now, settings.payload_days), ledger.maintenance
    removed = sum(maintenance.empty(drop, before) for drop in maintenance.old_drops(before))
    for run in maintenance.old_looks(before):
        maintenance.abridge(run, abridge)
    if removed:
        maintenance.empty_log()
    return removed


def abridge(shown: bytes, removed_among: Callable[[Sequence[int]], Mapping[int, str]]) -> tuple[bytes, bool]:
    """What a run saw without the contents of entries that have lost theirs, and whether others have contents in it."""
    holding = entries_with_contents(shown)
    removed = removed_among(holding)
    return abridged(shown, removed) if removed else (shown, bool(holding))


def days_ago(now: datetime, days: int) -> str:
    """So many days before a moment, as the ledger writes times: ISO 8601 UTC."""
    moment = (now - timedelta(days=days)).astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
