"""Digests: what is open for someone, once a day at most and only if it has changed; to each owner the owner's own.

Owns: whose an exception is (the owner whom the analyst named in the workbook, if an address is set for that name; else nobody's in
particular), when a digest is due, and what stands in it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta

from loadsheet.ledger import Run, Standing
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files.due_times import moment
from loadsheet.operations.notifications.delivery import NOTIFY, OWNER
from loadsheet.operations.notifications.state import Digested, Kept, Notice
from loadsheet.operations.notifications.texts import command, name_of, report_in
from loadsheet.run_outcome import Night
from loadsheet.settings import Settings

WORKBOOK = "reconciliation.xlsx"
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class _Open:
    """What is open for one recipient: exceptions, oldest first, and files that were set aside since the last digest."""

    standings: Sequence[Standing]
    aside: Sequence[str]

    @property
    def mark(self) -> str:
        """Equal for equal exceptions."""
        told = "\n".join(f"{one.entry} {one.verdict}" for one in self.standings)
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def is_due(settings: Settings, kept: Kept, now: datetime) -> bool:
    """Whether this is the first run after the time of day for digests, on the clock of this machine."""
    at = time.fromisoformat(settings.digest_at)
    today = now.astimezone().date()
    due = max(when for day in (-1, 0) if (when := moment(today + timedelta(days=day), at, None)) <= now)
    last = datetime.fromisoformat(kept.digest_at) if kept.digest_at else None
    return last is None or last < due or last > now  # a clock that was set back must not end all digests


def with_digests(settings: Settings, kept: Kept, night: Night, queries: LedgerQueries) -> Kept:
    """The memory with the digests of this night among what is to be told; those that wait still are replaced by newer ones."""
    run = next(iter(queries.runs_named(night.run)), None) if night.run else None
    if run is None or not is_due(settings, kept, night.ended):
        return kept
    now = stamp(night.ended)
    found = _by_recipient(settings, kept, queries, run)
    digests = {to: one for to, one in kept.digests.items() if to == NOTIFY or _is_known(settings, to)}
    outbox = list(kept.outbox)
    for to in dict.fromkeys((*found, *digests)):
        before = digests.get(to)
        waiting = next((one for one in outbox if one.to == to and one.kind == "info" and not one.reached), None)
        mine = found.get(to, _Open((), ()))
        if not _has_news(settings, mine, before, night.ended):
            continue
        if waiting is not None and before is not None:  # nobody has it yet: the new one takes its place
            outbox.remove(waiting)
            mine = _Open(mine.standings, (*before.aside, *mine.aside))
        outbox.append(Notice(to, now, "info", *_text(mine, before, night, queries, general=to == NOTIFY)))
        digests[to] = Digested(now, mine.mark, len(mine.standings), tuple(mine.aside))
    return replace(kept, digests=digests, outbox=tuple(outbox), digest_at=now)


def _has_news(settings: Settings, mine: _Open, before: Digested | None, now: datetime) -> bool:
    """Whether there is anything in a digest that the one before it did not say, or too long ago."""
    if mine.aside:
        return True
    if before is None:
        return bool(mine.standings)
    return mine.mark != before.mark or _again(settings, before, now)


def _is_known(settings: Settings, to: str) -> bool:
    return to.removeprefix(OWNER) in settings.notify_owners


def _again(settings: Settings, before: Digested, now: datetime) -> bool:
    if not settings.notify_again_days or not before.open:
        return False
    return now - datetime.fromisoformat(before.at) >= timedelta(days=settings.notify_again_days)


def _by_recipient(settings: Settings, kept: Kept, queries: LedgerQueries, run: Run) -> dict[str, _Open]:
    still = [one for one in queries.exceptions_at(run) if not one.closed]
    remarks = queries.remarks_on([one.entry for one in still])
    known = {name.strip().casefold(): name for name in settings.notify_owners}
    mine: dict[str, list[Standing]] = {}
    for one in still:
        said = remarks.get(one.entry, {}).get("owner")
        owner = known.get(said.value.strip().casefold()) if said else None
        mine.setdefault(NOTIFY if owner is None else f"{OWNER}{owner}", []).append(one)
    came = queries.arrivals(kept.digest_at or run.started_at, counted=False)
    aside = [one.name for one in came if one.set_aside]
    if aside:
        mine.setdefault(NOTIFY, [])
    return {to: _Open(some, aside if to == NOTIFY else ()) for to, some in mine.items()}


def _text(
    mine: _Open, before: Digested | None, night: Night, queries: LedgerQueries, *, general: bool
) -> tuple[str, str]:
    count, name = len(mine.standings), name_of(night.shipper)
    if not count and not mine.aside:
        return f"{name}: nothing is open any more", "Every exception is closed.\n"
    fresh = sum(one.opened_at > before.at for one in mine.standings) if before else count
    new = f", {fresh:,} of them new" if 0 < fresh < count else ""
    are = f"{count:,} exceptions are open" if count != 1 else "1 exception is open"
    title = f"{name}: {are if count else 'files were set aside'}{new}"
    whose = "" if general else " for you"
    lines = [f"{are}{whose}{new}.", *_verdicts(mine.standings), *_first(mine.standings, queries)] if count else []
    lines += [f"Set aside: {file}" for file in mine.aside[:_SHOWN]]
    lines += [f"and {len(mine.aside) - _SHOWN} more files set aside"] * (len(mine.aside) > _SHOWN)
    first = next(iter(queries.keys_of([one.entry for one in mine.standings[:_SHOWN]]).values()), "")
    lines += ["", f"Next: {command(f'show {first}' if first else 'runs', night.shipper)}"]
    lines.append(report_in(night, WORKBOOK))
    return title, "\n".join(lines)


def _verdicts(standings: Sequence[Standing]) -> Iterator[str]:
    counts: Mapping[str, int] = Counter(one.verdict for one in standings)
    yield ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(counts.items(), key=lambda one: -one[1]))


def _first(standings: Sequence[Standing], queries: LedgerQueries) -> Iterator[str]:
    keys = queries.keys_of([one.entry for one in standings[:_SHOWN]])
    for one in standings[:_SHOWN]:
        yield f"- {keys.get(one.entry, f'entry {one.entry}')}: {one.verdict}, since {one.opened_at[:10]}"
    if len(standings) > _SHOWN:
        yield f"and {len(standings) - _SHOWN:,} more"
