"""Copies of the ledger: one a day in STATE/backups, of which the newest few stay; and where else copies of it may lie.

Owns: their names. Each appears under its name only when it is whole, so one that is there is one that can be restored.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from loadsheet.ledger import Ledger
from loadsheet.problems import FolderError
from loadsheet.settings import Settings

BY_THE_SERVER = "the ledger is on PostgreSQL: its backups are made by the server's own means, and none by us"
_ELSEWHERE = "elsewhere.txt"  # in the folder of copies: the paths of those outside of it, one a line
_DAILY = re.compile(r"ledger-\d{4}-\d\d-\d\d\.db")


def back_up_daily(settings: Settings, ledger: Ledger, now: datetime) -> int:
    """Copy the ledger if this day (UTC) has no copy yet, and remove all but the newest `backups` daily ones; returns how many were made.
    Raises LedgerUnwritable and FolderError.
    """
    if not settings.backups or not ledger.maintenance.is_file:
        return 0
    folder = backup_folder(settings)
    target = folder / f"ledger-{now.astimezone(UTC):%Y-%m-%d}.db"
    if target.exists():
        return 0
    make_backup(ledger, target)
    for path in daily_backups(folder)[: -settings.backups]:
        with suppress(OSError):  # it goes the next time
            path.unlink()
    return 1


def make_backup(ledger: Ledger, target: Path) -> None:
    """Copy a ledger that is a file to a file in a folder for our eyes alone. Raises LedgerUnwritable and FolderError."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"the folder {target.parent} cannot be made ({error.strerror})") from error
    ledger.back_up(target)


def backup_folder(settings: Settings) -> Path:
    """Where daily copies lie."""
    return settings.state / "backups"


def daily_backups(folder: Path) -> list[Path]:
    """The daily copies, oldest first."""
    return sorted(path for path in folder.glob("ledger-*.db") if _DAILY.fullmatch(path.name))


def note_copy(settings: Settings, target: Path) -> None:
    """Remember where a copy outside of our folder was put, so that `ledger forget` can name it. It is a good copy without that too."""
    folder, path = backup_folder(settings), target.absolute()
    if path.parent == folder.absolute():
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / _ELSEWHERE).open("a", encoding="utf-8", errors="surrogateescape") as noted:
            noted.write(f"{path}\n")


def copies_elsewhere(settings: Settings) -> list[Path]:
    """The copies outside of our folder that are still where `ledger backup --to` put them."""
    try:
        noted = (backup_folder(settings) / _ELSEWHERE).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [path for path in map(Path, dict.fromkeys(noted.splitlines())) if path.is_file()]


def copies(settings: Settings, ledger_file: Path) -> list[Path]:
    """Every copy of the ledger that we made and that is still there: daily ones, those from before an upgrade, and those that were replaced
    by a restored one, and what a ledger was before it was moved.
    """
    beside = [*ledger_file.parent.glob(f"{ledger_file.name}.schema-*.backup")]
    beside += [
        path for kind in ("replaced", "moved") for path in ledger_file.parent.glob(f"{ledger_file.name}.{kind}-*")
    ]
    made = [path for path in backup_folder(settings).glob("*.db") if path.is_file()]
    return sorted({*beside, *made})
