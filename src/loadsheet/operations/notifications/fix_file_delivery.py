"""Delivery of fix files to the shipper: copied into a folder, mailed, or both; each file once.

A copy appears complete or not at all, and never overwrites a file.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from loadsheet.file_modes import leave_to_umask
from loadsheet.languages import Language, known_language, words_in
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.notifications.notice_delivery import FIXES
from loadsheet.operations.notifications.state import Notice, NotificationState, shorten
from loadsheet.operations.run_outcome import RunOutcome
from loadsheet.settings import Settings

_REMEMBERED_MAX = 5_000
_COPIED, _MAILED = "copied", "mailed"
_WRONG = ("invalid", "refused")
_NAMES_MAX = 1_000
_NAMES_IN_TITLE = 3


class _Fix(NamedTuple):
    """A fix file: its path, the ID by which it is remembered, the names and hashes of the original files, and how many records it has."""

    path: Path
    fingerprint: str
    names: tuple[str, ...]
    hashes: tuple[str, ...]
    to_fix: int


def add_fix_files(
    settings: Settings,
    state: NotificationState,
    outcome: RunOutcome,
    queries: LedgerQueries | None,
    say: Callable[[str], None],
) -> NotificationState:
    """Copy the fix files of this run; returns the state with their mails in its outbox. A failed copy is retried after the next run."""
    folder, mails_wanted = settings.notifications.fixes_to, bool(settings.notifications.fixes_mail)
    fixes = list(_fix_files(outcome)) if folder is not None or mails_wanted else []
    if folder is not None:
        state = _copy_all(folder, state, fixes, say)
    news = [fix for fix in fixes if f"{_MAILED} {fix.fingerprint}" not in state.fixes]
    if mails_wanted and news:
        mailed = tuple(f"{_MAILED} {fix.fingerprint}" for fix in news)
        mails = _mails(settings, news, outcome, queries)
        state = replace(state, outbox=(*state.outbox, *mails), fixes=(*state.fixes, *mailed)[-_REMEMBERED_MAX:])
    return state


def _copy_all(
    folder: Path, state: NotificationState, fixes: Sequence[_Fix], say: Callable[[str], None]
) -> NotificationState:
    known = {**state.copies, **{fix.fingerprint: str(fix.path.absolute()) for fix in fixes}}
    wanted = {name: path for name, path in known.items() if f"{_COPIED} {name}" not in state.fixes}
    left = {fingerprint: path for fingerprint, path in wanted.items() if not _copy(Path(path), folder, say)}
    done = tuple(f"{_COPIED} {fingerprint}" for fingerprint in wanted if fingerprint not in left)
    return replace(state, fixes=(*state.fixes, *done)[-_REMEMBERED_MAX:], copies=left)


def _fix_files(outcome: RunOutcome) -> Iterator[_Fix]:
    if outcome.summary is None or outcome.folder is None:
        return
    for drop in outcome.summary.drops:
        names, hashes = tuple(file.name for file in drop.files), tuple(file.sha256 for file in drop.files)
        count = sum(drop.entries.get(state, 0) for state in _WRONG) or drop.entries.get("held", 0)
        for name in drop.fix:
            path = outcome.folder / name
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:  # the file is gone: nothing to deliver
                continue
            yield _Fix(path, f"{drop.run} {digest}", names, hashes, count)


def _mails(
    settings: Settings, fixes: Sequence[_Fix], outcome: RunOutcome, queries: LedgerQueries | None
) -> Iterator[Notice]:
    """One mail for each language among the fix files."""
    languages = _languages(outcome, queries)
    by_language: dict[Language, list[_Fix]] = {}
    for fix in fixes:
        language = known_language(languages.get(fix.hashes, "")) or settings.reports.language
        by_language.setdefault(language, []).append(fix)
    for language, some in by_language.items():
        counts = {", ".join(fix.names): fix.to_fix for fix in some}
        title, body = fix_mail(language, list(counts.items()))
        paths = tuple(str(fix.path.absolute()) for fix in some)
        yield Notice(FIXES, stamp(outcome.ended), "warning", title, body, paths)


def _languages(outcome: RunOutcome, queries: LedgerQueries | None) -> dict[tuple[str, ...], str]:
    """The language of the sheets of each drop of the run, by the hashes of its files."""
    if queries is None:
        return {}
    drops = queries.drops_of(*queries.runs_named(outcome.run))
    return {tuple(file.sha256 for file in drop.files): drop.language for drop in drops}


def _copy(path: Path, folder: Path, say: Callable[[str], None]) -> bool:
    """Copy a file into a folder, under a free name; returns False, with a warning, if that failed and is to be retried."""
    try:
        if not path.is_file():
            say(f"notices: {path} no longer exists and was not copied to {folder}")
            return True
        if not folder.is_dir():
            folder.mkdir(parents=True)
            leave_to_umask(folder)
        target = _free_path(folder, path)
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
        say(f"notices: {path.name} cannot be copied to {folder} ({error.strerror}); this is retried after the next run")
        return False
    return True


def _free_path(folder: Path, path: Path) -> Path | None:
    """A free path for a file in a folder; None if the folder already has the same bytes under one of the possible names."""
    stem, dot, rest = path.name.partition(".")
    for number in range(1, _NAMES_MAX):
        target = folder / (path.name if number == 1 else f"{stem}-{number}{dot}{rest}")
        if not target.exists():
            return target
        if target.is_file() and target.read_bytes() == path.read_bytes():
            return None
    raise OSError(None, f"there are {_NAMES_MAX} files of this name")


# ---- the mail ----


def fix_mail(language: Language, files: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """Title and body of the mail with fix files, in the shipper's language. `files` are the names of the original files and how many records
    need a fix (0: the file could not be read at all).
    """
    words = words_in(language)
    names, left = ", ".join(name for name, _ in files[:_NAMES_IN_TITLE]), len(files) - _NAMES_IN_TITLE
    names = words.say("{names} and {count} more", names=names, count=words.number(left)) if left > 0 else names
    counted = [
        words.say("- {name}: {count} to fix", name=name, count=words.number(count))
        if count
        else words.say("- {name}: could not be used at all", name=name)
        for name, count in files
    ]
    body = [words.say(_INTRO), "", *counted, "", words.say(_OUTRO)]
    return shorten(words.say("To be fixed: {names}", names=names)), "\n".join(body)


_INTRO = "Some data in these files could not be used. The attached files say beside each cell what is wrong."
_OUTRO = (
    "Please correct the attached files and drop them into your folder, as you did with the originals."
    " Accepted records are not in them and need not be sent again."
)
