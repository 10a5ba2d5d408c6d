"""Mailings after a run: the digest of open exceptions to each recipient, and the fix files to the shipper.

A digest goes out at most once a day, and only if the exceptions changed. An exception belongs to the owner whom the analyst named in the
workbook, if that name has an address; else it goes to `notifications.urls`.

Fix files are copied into a folder, mailed, or both; each file once. A copy appears complete or not at all, and never overwrites a file.
"""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import NamedTuple

from loadsheet.languages import Language, known_language, words_in
from loadsheet.ledger import ExceptionStatus, Run
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import to_utc
from loadsheet.operations.notifications.notice_delivery import FIXES, NOTIFY, OWNER
from loadsheet.operations.notifications.state import LastDigest, Notice, NotificationState, shorten
from loadsheet.places import leave_to_umask
from loadsheet.reports.run_document import RunOutcome, todo_of, verdict_of
from loadsheet.settings import Settings

WORKBOOK = "reconciliation.xlsx"
_SHOWN = 10
_ATTACHED_BYTES_MAX = 10_000_000  # in base64 below what most mail servers take

_REMEMBERED_MAX = 5_000
_COPIED, _MAILED = "copied", "mailed"
_NAMES_MAX = 1_000
_NAMES_IN_TITLE = 3

_INTRO = "Some data in these files could not be used. The attached files say beside each cell what is wrong."
_OUTRO = (
    "Please correct the attached files and drop them into your folder, as you did with the originals."
    " Accepted records are not in them and need not be sent again."
)


@dataclass(frozen=True, slots=True)
class _OpenItems:
    """The content of one recipient's digest: open exceptions, oldest first, and files set aside since the last digest."""

    statuses: Sequence[ExceptionStatus]
    aside: Sequence[str]

    @property
    def fingerprint(self) -> str:
        """A hash, equal for equal exceptions."""
        listed = "\n".join(f"{status.entry} {status.verdict}" for status in self.statuses)
        return hashlib.sha256(listed.encode()).hexdigest()[:16]

    def since(self, before: LastDigest | None) -> Sequence[ExceptionStatus]:
        """The exceptions that opened after a digest; all of them without one."""
        return [status for status in self.statuses if before is None or status.opened_at > before.at]


def is_digest_due(settings: Settings, state: NotificationState, now: datetime) -> bool:
    """Whether this is the first run after `notifications.digest_at` (local time of this machine)."""
    at = time.fromisoformat(settings.notifications.digest_at)
    today = now.astimezone().date()
    due = max(when for day in (-1, 0) if (when := to_utc(today + timedelta(days=day), at, None)) <= now)
    last = datetime.fromisoformat(state.digest_at) if state.digest_at else None
    return last is None or last < due or last > now  # otherwise a clock that was set back would stop all digests


def add_digests(
    settings: Settings, state: NotificationState, outcome: RunOutcome, queries: LedgerQueries
) -> NotificationState:
    """The state with this run's digests in its outbox. They replace older ones that were not delivered yet."""
    run = next(iter(queries.runs_named(outcome.run)), None) if outcome.run else None
    if run is None or not is_digest_due(settings, state, outcome.ended):
        return state
    now = stamp(outcome.ended)
    found = _by_recipient(settings, state, queries, run)
    owners = settings.notifications.owners
    digests = {to: one for to, one in state.digests.items() if to == NOTIFY or to.removeprefix(OWNER) in owners}
    outbox = list(state.outbox)
    for to in dict.fromkeys((*found, *digests)):
        before = digests.get(to)
        waiting = next(
            (notice for notice in outbox if notice.to == to and notice.kind == "info" and not notice.reached), None
        )
        mine = found.get(to, _OpenItems((), ()))
        if not _has_changed(settings, mine, before, outcome.ended):
            continue
        if waiting is not None and before is not None:  # not delivered yet: the new digest replaces it
            outbox.remove(waiting)
            mine = _OpenItems(mine.statuses, (*before.aside, *mine.aside))
        notice = _notice(to, mine, before, outcome, queries)
        runs = {outcome.run, *(status.run for status in mine.since(before))}
        outbox.append(_with_fix_files(settings, notice, runs) if to == NOTIFY else notice)
        digests[to] = LastDigest(now, mine.fingerprint, len(mine.statuses), tuple(mine.aside))
    return replace(state, digests=digests, outbox=tuple(outbox), digest_at=now)


def _has_changed(settings: Settings, mine: _OpenItems, before: LastDigest | None, now: datetime) -> bool:
    """Whether the digest differs from the one before, or is due to be repeated."""
    if mine.aside:
        return True
    if before is None:
        return bool(mine.statuses)
    repeated = timedelta(days=settings.notifications.again_days)
    is_repeat_due = bool(repeated and before.open) and now - datetime.fromisoformat(before.at) >= repeated
    return mine.fingerprint != before.mark or is_repeat_due


def _by_recipient(
    settings: Settings, state: NotificationState, queries: LedgerQueries, run: Run
) -> dict[str, _OpenItems]:
    still = [status for status in queries.exceptions_at(run) if not status.closed]
    remarks = queries.remarks_on([status.entry for status in still])
    known = {name.strip().casefold(): name for name in settings.notifications.owners}
    mine: dict[str, list[ExceptionStatus]] = {}
    for status in still:
        remark = remarks.get(status.entry, {}).get("owner")
        owner = known.get(remark.value.strip().casefold()) if remark else None
        mine.setdefault(NOTIFY if owner is None else f"{OWNER}{owner}", []).append(status)
    came = queries.arrivals(state.digest_at or run.started_at, counted=False)
    aside = [arrival.name for arrival in came if arrival.set_aside]
    if aside:
        mine.setdefault(NOTIFY, [])
    return {to: _OpenItems(some, aside if to == NOTIFY else ()) for to, some in mine.items()}


def _notice(
    to: str, mine: _OpenItems, before: LastDigest | None, outcome: RunOutcome, queries: LedgerQueries
) -> Notice:
    """The digest of a recipient. Only the one for everybody has the run's verdict and what to do."""
    count, now = len(mine.statuses), stamp(outcome.ended)
    if not count and not mine.aside:
        return Notice(to, now, "info", f"{outcome.title}: no open exceptions", "Every exception is closed.")
    new_count = len(mine.since(before))
    new = f", {new_count:,} of them new" if 0 < new_count < count else ""
    are = f"{count:,} exceptions are open" if count != 1 else "1 exception is open"
    title, blocks = f"{are}{new}" if count else "files were set aside", []
    if to == NOTIFY and outcome.summary is not None:
        verdict, blocks = outcome.summary.headline, [verdict_of(outcome), todo_of(outcome)]
        if outcome.summary.needs_someone.entries or mine.aside:
            title = verdict.text
            blocks[0] = " · ".join((f"Run {outcome.run}", *verdict.details)) + f"\n{verdict.balance}"
    if count:
        by_verdict = Counter(status.verdict for status in mine.statuses).most_common()
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in by_verdict)
        whose = "" if to == NOTIFY else " for you"
        blocks.append("\n".join((f"{are}{whose}{new} ({verdicts}):", *_oldest(mine.statuses, queries))))
    aside = [f"- {file}" for file in mine.aside[:_SHOWN]]
    aside += [f"- and {len(mine.aside) - _SHOWN} more"] * (len(mine.aside) > _SHOWN)
    blocks.append("\n".join(("These files could not be read and were set aside:", *aside)) if aside else "")
    first = next(iter(queries.keys_of([status.entry for status in mine.statuses[:_SHOWN]]).values()), "")
    see = f"\nSee: {outcome.report(WORKBOOK)}" if outcome.folder else ""
    blocks.append(f"Next: {outcome.command('show' if first else 'runs', first)}{see}")
    return Notice(to, now, "info", f"{outcome.title}: {title}", "\n\n".join(block for block in blocks if block))


def _with_fix_files(settings: Settings, notice: Notice, runs: Collection[str]) -> Notice:
    """The notice with the fix files of these runs attached, unless the senders get them anyway."""
    notifications = settings.notifications
    files = [path for run in sorted(runs) for path in sorted((settings.outbox_here / run).glob("*.fix.*"))]
    if not files or notifications.fixes_mail or notifications.fixes_to is not None:
        return notice
    room, attached = _ATTACHED_BYTES_MAX, []
    for path in files:
        room -= path.stat().st_size
        attached += [str(path.absolute())] if room >= 0 else []
    texts = ["Attached: the fix files. Forward them to their senders."] if attached else []
    if missing := len(files) - len(attached):
        texts.append(
            f"{missing:,} fix file{'s are' if missing > 1 else ' is'} too large to attach: see the reports of the run."
        )
    return replace(notice, body=f"{notice.body}\n\n{' '.join(texts)}", files=tuple(attached))


def _oldest(statuses: Sequence[ExceptionStatus], queries: LedgerQueries) -> Iterator[str]:
    keys = queries.keys_of([status.entry for status in statuses[:_SHOWN]])
    for status in statuses[:_SHOWN]:
        yield f"- {keys.get(status.entry, f'entry {status.entry}')}: {status.verdict}, since {status.opened_at[:10]}"
    if len(statuses) > _SHOWN:
        yield f"- and {len(statuses) - _SHOWN:,} more"


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
        for name in drop.fix:
            path = outcome.folder / name
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:  # the file is gone: nothing to deliver
                continue
            yield _Fix(path, f"{drop.run} {digest}", names, hashes, drop.to_fix)


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
    return {tuple(file.sha256 for file in drop.files): drop.senders_language for drop in drops}


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
