"""Fix files on their way back to the shipper: into a folder, by mail, or both; each once.

Owns: which fix files of a night are new, and how a copy appears: whole or not at all, under a name that was free.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from loadsheet.file_modes import leave_to_umask
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.notifications.delivery import FIXES
from loadsheet.operations.notifications.state import Kept, Notice
from loadsheet.operations.notifications.texts import fix_mail
from loadsheet.run_outcome import Night
from loadsheet.settings import Settings

_KEPT = 5_000
_COPIED, _MAILED = "copied", "mailed"
_WRONG = ("invalid", "refused")
_NAMES_MAX = 1_000


class _Fix(NamedTuple):
    """One fix file: where it is, the mark by which it is remembered, the files it is about (names and hashes), and how many records."""

    path: Path
    mark: str
    names: tuple[str, ...]
    hashes: tuple[str, ...]
    to_fix: int


def with_fixes(
    settings: Settings, kept: Kept, night: Night, queries: LedgerQueries | None, say: Callable[[str], None]
) -> Kept:
    """The memory after the fix files of this night were copied, and with the mails of those that are to be mailed. What could not be
    copied is copied after the next run.
    """
    found = list(_fixes(night)) if settings.fixes_to is not None or settings.fixes_mail else []
    if settings.fixes_to is not None:
        kept = _with_copies(settings.fixes_to, kept, found, say)
    news = [fix for fix in found if f"{_MAILED} {fix.mark}" not in kept.fixes]
    if settings.fixes_mail and news:
        mailed = tuple(f"{_MAILED} {fix.mark}" for fix in news)
        mails = _mails(settings, news, night, queries)
        kept = replace(kept, outbox=(*kept.outbox, *mails), fixes=(*kept.fixes, *mailed)[-_KEPT:])
    return kept


def _with_copies(folder: Path, kept: Kept, found: Sequence[_Fix], say: Callable[[str], None]) -> Kept:
    wanted = {**kept.copies, **{fix.mark: str(fix.path.absolute()) for fix in found}}
    wanted = {mark: path for mark, path in wanted.items() if f"{_COPIED} {mark}" not in kept.fixes}
    left = {mark: path for mark, path in wanted.items() if not _copied(Path(path), folder, say)}
    done = tuple(f"{_COPIED} {mark}" for mark in wanted if mark not in left)
    return replace(kept, fixes=(*kept.fixes, *done)[-_KEPT:], copies=left)


def _fixes(night: Night) -> Iterator[_Fix]:
    if night.summary is None or night.folder is None:
        return
    for drop in night.summary.drops:
        names, hashes = tuple(file.name for file in drop.files), tuple(file.sha256 for file in drop.files)
        count = sum(drop.entries.get(state, 0) for state in _WRONG) or drop.entries.get("held", 0)
        for name in drop.fix:
            path = night.folder / name
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:  # somebody took it away: nothing to deliver
                continue
            yield _Fix(path, f"{drop.run} {digest}", names, hashes, count)


def _mails(settings: Settings, fixes: Sequence[_Fix], night: Night, queries: LedgerQueries | None) -> Iterator[Notice]:
    """A mail for each language among the fix files."""
    languages = _languages(night, queries)
    by_language: dict[str, list[_Fix]] = {}
    for fix in fixes:
        known = languages.get(fix.hashes, "")[:2].lower()
        by_language.setdefault(known if known in ("de", "en") else settings.language, []).append(fix)
    for language, some in by_language.items():
        counts = {", ".join(fix.names): fix.to_fix for fix in some}
        title, body = fix_mail(language, list(counts.items()))
        paths = tuple(str(fix.path.absolute()) for fix in some)
        yield Notice(FIXES, stamp(night.ended), "warning", title, body, paths)


def _languages(night: Night, queries: LedgerQueries | None) -> dict[tuple[str, ...], str]:
    """The language of the sheets of each drop of the night, by the hashes of its files."""
    if queries is None:
        return {}
    drops = queries.drops_of(*queries.runs_named(night.run))
    return {tuple(file.sha256 for file in drop.files): drop.language for drop in drops}


def _copied(path: Path, folder: Path, say: Callable[[str], None]) -> bool:
    """Copy a file into a folder, under a name of its own, so that it appears there whole; False, and said, if that cannot be done yet."""
    try:
        if not path.is_file():
            say(f"notices: {path} was to be copied to {folder}, and is not there any more")
            return True
        if not folder.is_dir():
            folder.mkdir(parents=True)
            leave_to_umask(folder)
        target = _free(folder, path)
        if target is None:
            return True
        part = target.with_name(f".{target.name[:80]}.tmp")
        try:
            shutil.copyfile(path, part)
            leave_to_umask(part)  # for the shipper
            with part.open("rb+") as copy:
                os.fsync(copy.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        say(
            f"notices: {path.name} cannot be copied to {folder} ({error.strerror}); its copy is made after the next run"
        )
        return False
    return True


def _free(folder: Path, path: Path) -> Path | None:
    """Where to put a file in a folder; None if its bytes lie there already under one of the names it could have."""
    stem, dot, rest = path.name.partition(".")
    for number in range(1, _NAMES_MAX):
        target = folder / (path.name if number == 1 else f"{stem}-{number}{dot}{rest}")
        if not target.exists():
            return target
        if target.is_file() and target.read_bytes() == path.read_bytes():
            return None
    raise OSError(None, f"there are {_NAMES_MAX} files of this name")
