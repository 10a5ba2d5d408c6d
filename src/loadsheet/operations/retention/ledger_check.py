"""Whether all is well with the ledger and what lies around it, in sentences, and what was removed from it by rule.

Owns: what of that is wrong (the ledger contradicts itself), what wants somebody (an original is gone, the newest backup is old), and what is
only said. Changes nothing.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

from loadsheet import object_storage
from loadsheet.ledger import Ledger
from loadsheet.operations.retention.backups import BY_THE_SERVER, backup_folder, daily_backups
from loadsheet.settings import Settings

NAMED_MAX = 5
BACKUP_DAYS_MAX = 3


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look at everything found: what is wrong, what wants somebody, and what there is to say."""

    wrong: tuple[str, ...]
    wants: tuple[str, ...]
    told: tuple[str, ...]


def check(settings: Settings, ledger: Ledger, now: datetime) -> Checked:
    """Look at all of the ledger, at the originals it names, and at its backups; minutes for millions of rows. `now` is aware."""
    wrong = ledger.check()
    if wrong:
        return Checked(tuple(wrong), (), ())
    return Checked((), (*_missing(ledger), *_old_backups(settings, ledger, now)), tuple(_told(settings, ledger)))


def _missing(ledger: Ledger) -> list[str]:
    """Originals that are gone although no rule removed them."""
    gone = [
        f"the original {one.name} of run {one.run} is not at {one.kept_as} any more, and no rule removed it"
        for one in ledger.maintenance.originals()
        if not object_storage.is_kept(one.kept_as)
    ]
    more = [f"and {len(gone) - NAMED_MAX:,} originals more"] if len(gone) > NAMED_MAX else []
    return [*gone[:NAMED_MAX], *more]


def _old_backups(settings: Settings, ledger: Ledger, now: datetime) -> list[str]:
    runs = ledger.queries.runs(1)
    if not settings.backups or not runs or not ledger.maintenance.is_file:
        return []
    made = daily_backups(backup_folder(settings))
    if not made:
        return [f"there is no backup in {backup_folder(settings)}; the next run makes one"]
    last, newest = date.fromisoformat(runs[0].started_at[:10]), date.fromisoformat(made[-1].stem[len("ledger-") :])
    if min(last, now.astimezone(UTC).date()).toordinal() - newest.toordinal() > BACKUP_DAYS_MAX:
        return [f"the newest backup is {made[-1]}, and there were runs since: see what they say of keeping backups"]
    return []


def _told(settings: Settings, ledger: Ledger) -> list[str]:
    counts = ledger.maintenance.counts()
    told = [f"{counts['runs']:,} runs, {counts['entries']:,} entries, {counts['decisions']:,} decisions in one chain"]
    removed, last = ledger.maintenance.count_removed()
    if removed:
        told.append(
            f"the contents of {removed:,} entries were removed, the last on {last[:10]}; hashes and totals are kept"
        )
    noted = ledger.maintenance.noted()
    if noted:
        sums = ", ".join(
            f"{count:,} {name}" for name, count in noted.items() if name != "at" and isinstance(count, int)
        )
        told.append(f"removed by rule so far: {sums}; the last on {str(noted['at'])[:10]}")
    made = daily_backups(backup_folder(settings)) if ledger.maintenance.is_file else []
    if not ledger.maintenance.is_file:
        told.append(BY_THE_SERVER)
    if made:
        told.append(f"{len(made)} daily backups, the newest {made[-1]}")
    return told
