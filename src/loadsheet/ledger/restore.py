"""Putting a backup in the place of the ledger: looked at first, copied, then exchanged by renaming; what was there is kept beside it.

Owns: the order of these steps. Killed anywhere, there is the old ledger, or the new one, or none and a mark that says so; never half
of one. Needs the lock: while a run or a watch holds the ledger nothing is touched. SQLite only.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from loadsheet.ledger.codec import stamp
from loadsheet.ledger.location import Place, refuse_moved, sync_folder
from loadsheet.ledger.opening import file_of, locked
from loadsheet.ledger.schema import SCHEMA_VERSION
from loadsheet.problems import LedgerError, LedgerUnwritable

_BESIDE = ("-wal", "-shm")


class Restored(NamedTuple):
    """A ledger that was put back: its file, where the one lies that it replaced (None: there was none), its last run (empty: none), and
    whether that is older than the last run that was recorded here.
    """

    path: Path
    replaced: Path | None
    last_run: str
    older: bool


def restore(url: str, backup: Path, clock: Callable[[], datetime]) -> Restored:
    """Put a copy of `backup` in the place of the ledger at a URL. Raises LedgerBusy if somebody holds that, LedgerError if the backup is
    damaged, none of a ledger, or of a newer program, LedgerUnwritable, and SettingsError if the ledger is no file.
    """
    path = file_of(url)
    if backup.absolute() == path.absolute():
        raise LedgerError(f"{backup} is the ledger itself; give a backup of it")
    refuse_moved(path)
    last_run = look_at(backup)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerUnwritable(f"the folder {path.parent} cannot be made ({error.strerror})") from error
    with locked(path, clock):
        part = path.with_name(f"{path.name}.restoring")
        try:
            _copy(backup, part)
            replaced = _put_away(path, stamp(clock()))
            part.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise LedgerUnwritable(f"{backup} cannot be put in the place of {path} ({error.strerror})") from error
        mark = Place(path).read_last_run()
        return Restored(path, replaced, last_run[0], mark is not None and (mark.name, mark.started_at) != last_run)


def look_at(backup: Path) -> tuple[str, str]:
    """The name and the beginning of the last run in a backup (empty: it has none), once all of it was read. Raises LedgerError if it
    cannot be restored.
    """
    if not backup.is_file():
        raise LedgerError(f"there is no file {backup}")
    try:
        with closing(sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)) as found:
            (sound,) = found.execute("pragma integrity_check(1)").fetchone()
            version = found.execute("select value from meta where name = 'schema_version'").fetchone()
            last = found.execute("select name, started_at from runs order by id desc limit 1").fetchone()
    except sqlite3.Error as error:
        raise LedgerError(f"{backup} is damaged, or no backup of a ledger ({error}); nothing was changed") from error
    if sound != "ok":
        raise LedgerError(f"{backup} is damaged ({sound}); nothing was changed: take an older backup")
    if version is None or not version[0].isdecimal() or int(version[0]) > SCHEMA_VERSION:
        known = version[0] if version else "none"
        raise LedgerError(
            f"{backup} has schema version {known}, this program knows {SCHEMA_VERSION}; nothing was changed: use a newer program"
        )
    return (last[0], last[1]) if last else ("", "")


def _copy(backup: Path, part: Path) -> None:
    with part.open("wb") as target, backup.open("rb") as source:
        part.chmod(0o600)
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


def _put_away(path: Path, now: str) -> Path | None:
    """Move the ledger that is there to a name of its own, with its log folded into it as far as it can be read."""
    if not path.exists():
        for end in _BESIDE:
            path.with_name(path.name + end).unlink(
                missing_ok=True
            )  # the log of another database must not meet this one
        return None
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as old:
        old.execute("pragma wal_checkpoint(truncate)").fetchall()
    when = now[:19].replace("-", "").replace(":", "")
    kept = path.with_name(f"{path.name}.replaced-{when}Z")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.replaced-{when}Z-{number}")
    for end in _BESIDE:
        beside = path.with_name(path.name + end)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + end))
    path.replace(kept)
    return kept
