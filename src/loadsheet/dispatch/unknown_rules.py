"""What follows from what is known of an unknown outcome: accepted, sent again, or still unknown and why. Pure decisions.

Owns: the protocol of each operation. A listing shows what is there, never what is still on its way: so nothing follows from absence,
and nothing is sent again, before a pause (quiesce) has passed since the answer was lost; absence must be seen twice. Where no
listing shows an effect, no protocol can promise both that nothing is lost and that nothing is doubled: the settings choose.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from loadsheet.contract import BY_NAME, Action
from loadsheet.dispatch.listing_evidence import Shown, Sight
from loadsheet.dispatch.outcomes import SAID_NO, OutcomeKind
from loadsheet.ledger import Attempt, Entry, Finding, State
from loadsheet.problems import Problem
from loadsheet.settings import Settings

SAME_TWICE = (Action.UPDATE, Action.DELETE)
"""What makes the same of its record however often it is sent."""

UNLISTED_SENDS_MAX = 2  # of what no listing shows: the second may be a copy, a third would be two


class Case(NamedTuple):
    """An unknown entry, what a listing shows of it now (`at`, ISO 8601 UTC), for how many seconds it has been unknown, how many of
    its calls may have worked, what earlier looks showed, oldest first, and what the exchange said if each of those calls was
    answered with a no that is none (`said_no`): then it is refused if it is proved that none of them worked.
    """

    entry: Entry
    sight: Sight
    at: str
    waited_s: float
    sends: int = 1
    looks: Sequence[Finding] = ()
    said_no: str = ""


class Conclusion(NamedTuple):
    """What follows: the state it goes to (None: it stays unknown), why in words, whether this look counts for proving absence,
    and a problem that stays with the entry.
    """

    state: State | None
    text: str
    counts: bool = False
    problem: Problem | None = None


class Patience:
    """Measures how long an entry has been unknown: by the wall clock, and, for what became unknown under the eyes of this
    process, by its monotonic clock as well, so that a wall clock that is put forward shortens no pause.
    """

    def __init__(self, now: Callable[[], str], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._began, self._began_at = now(), monotonic()

    def waited_s(self, since: str) -> float:
        """Seconds since this moment (ISO 8601 UTC), the smaller of both clocks' words."""
        now = self._now()
        waited = seconds(since, now)
        if since < self._began:
            return waited
        ahead = seconds(self._began, now) - (self._monotonic() - self._began_at)
        return waited - max(ahead, 0.0)


def seconds(since: str, until: str) -> float:
    """Seconds between two moments, both ISO 8601 UTC."""
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def conclude(case: Case, settings: Settings) -> Conclusion:
    """What follows from a case."""
    action = BY_NAME[case.entry.operation].action
    if action is Action.STATUS:
        return _status(case, settings)
    if action is Action.QUOTE:
        return _quote(case, settings)
    if action is Action.CONFIRM:
        return _stays(
            "no listing shows decisions on quotes, and this one is never sent again by itself: ask the carrier or look at the exchange",
            case,
        )
    if case.sight.shown in _UNCLEAR:
        return _stays(_UNCLEAR[case.sight.shown].format(fields=case.sight.detail), case)
    return {Action.CREATE: _create, Action.UPDATE: _update, Action.DELETE: _delete}[action](case, settings)


def possibly_doubled(entry: Entry, sends: int) -> Problem:
    """The note on an entry that is sent once more although so many calls of it may have worked."""
    return Problem("L608", values={"key": entry.key, "sends": sends + 1}, level="warning")


def sends_that_may_have_worked(attempts: Sequence[Attempt]) -> int:
    """How many of these attempts may have had an effect, as far as anybody knows."""
    return len(_in_doubt(attempts))


def said_no(attempts: Sequence[Attempt]) -> str:
    """What was answered, if each of the attempts that may have worked got a 200 whose status is false; else nothing."""
    said = [attempt.detail for attempt in _in_doubt(attempts)]
    return said[-1] if said and all(detail.startswith(SAID_NO) for detail in said) else ""


def _in_doubt(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.outcome in ("", OutcomeKind.UNKNOWN)]


def _create(case: Case, settings: Settings) -> Conclusion:
    if case.sight.shown is Shown.AS_SENT:
        return Conclusion(State.ACCEPTED, "shown by the listing")
    unmet = _not_proved_absent(case, settings)
    counts = _look_counts(case, settings)
    if unmet:
        return _stays(unmet, case, counts=counts)
    if case.said_no:
        return _refused(case, "it is proved absent", counts=counts)
    if settings.create_after_absent == "review":
        return _stays(
            "it is proved absent, two looks showed nothing of it; create_after_absent = review", case, counts=counts
        )
    if case.sends >= settings.create_sends_max:
        return _stays(f"it is proved absent, and was sent {case.sends} times (create_sends_max)", case, counts=counts)
    return Conclusion(State.READY, "proved absent by two looks at the listing: sent again", counts)


def _update(case: Case, settings: Settings) -> Conclusion:
    if case.sight.shown is Shown.AS_SENT:
        return Conclusion(State.ACCEPTED, "shown by the listing")
    if case.sight.shown is Shown.ABSENT:
        return _stays("the listing does not show its record at all", case)
    return _sent_again(case, settings, allowed=settings.update_resend, setting="update_resend")


def _delete(case: Case, settings: Settings) -> Conclusion:
    if case.sight.shown is Shown.AS_BEFORE:
        return _sent_again(case, settings, allowed=settings.delete_resend, setting="delete_resend")
    unmet = _not_proved_absent(case, settings)
    counts = _look_counts(case, settings)
    if unmet:
        return _stays(unmet, case, counts=counts)
    return Conclusion(State.ACCEPTED, "its record is gone, as two looks at the listing show", counts)


def _sent_again(case: Case, settings: Settings, *, allowed: bool, setting: str) -> Conclusion:
    """An update or delete whose record is as it was before: sent again, it makes the same of it as the first call would have."""
    if case.waited_s < settings.quiesce_s:
        return _stays(f"its record is as it was before; {_pause(case, settings.quiesce_s, 'quiesce_s')}", case)
    if case.said_no:
        return _refused(case, "its record is as it was before")
    if not allowed:
        return _stays(f"its record is as it was before, and {setting} is off", case)
    if case.sends >= settings.sends_max:
        return _stays(f"its record is as it was before, and it was sent {case.sends} times (sends_max)", case)
    return Conclusion(State.READY, "its record is as it was before: sent again")


def _refused(case: Case, proof: str, *, counts: bool = False) -> Conclusion:
    problem = Problem("X701", values={"text": case.said_no})
    return Conclusion(State.REFUSED, f"{proof}, after {case.said_no}", counts, problem)


def _status(case: Case, settings: Settings) -> Conclusion:
    if settings.status_on_unknown == "review":
        return _stays("no listing shows status updates, and status_on_unknown = review: it may be lost", case)
    return _once_more(case, settings.status_quiesce_s, "status_quiesce_s", "status updates")


def _quote(case: Case, settings: Settings) -> Conclusion:
    if settings.quote_on_unknown == "review":
        return _stays("no listing shows quotes, and quote_on_unknown = review: it may be lost", case)
    return _once_more(case, settings.quiesce_s, "quiesce_s", "quotes")


def _once_more(case: Case, pause_s: float, name: str, what: str) -> Conclusion:
    if case.sends >= UNLISTED_SENDS_MAX:
        return _stays(f"no listing shows {what}, and it was sent {case.sends} times", case)
    if case.waited_s < pause_s:
        return _stays(f"no listing shows {what}; {_pause(case, pause_s, name)}, then it is sent once more", case)
    return Conclusion(
        State.READY,
        f"no listing shows {what}: sent once more, possibly doubled",
        problem=possibly_doubled(case.entry, case.sends),
    )


def _not_proved_absent(case: Case, settings: Settings) -> str:
    """The rule that is not met yet, in words; empty if absence is proved."""
    if not case.sight.counts:
        return f"it is not listed, which proves nothing: {case.sight.why}"
    if case.waited_s < settings.quiesce_s:
        return f"it is not listed; {_pause(case, settings.quiesce_s, 'quiesce_s')}"
    if not any(_is_first_look(look, case, settings) for look in case.looks):
        gap = f"at least {settings.confirm_gap_s:g} s later (confirm_gap_s)"
        return f"it is not listed; a second look {gap} has to show the same"
    return ""


def _is_first_look(look: Finding, case: Case, settings: Settings) -> bool:
    # Looks before the last attempt tell nothing about it.
    mine = look.at >= case.entry.changed_at and look.counts and look.shown == Shown.ABSENT
    return mine and seconds(look.at, case.at) >= settings.confirm_gap_s


def _look_counts(case: Case, settings: Settings) -> bool:
    return case.sight.shown is Shown.ABSENT and case.sight.counts and case.waited_s >= settings.quiesce_s


def _pause(case: Case, pause_s: float, name: str) -> str:
    left = max(pause_s - case.waited_s, 0.0)
    return f"it may still be applied: nothing follows for another {left:.0f} s ({name})"


def _stays(why: str, case: Case, *, counts: bool = False) -> Conclusion:
    return Conclusion(None, f"{why}; the next run looks again, or decide: loadsheet resolve {case.entry.key}", counts)


_UNCLEAR = {
    Shown.OTHERWISE: "the listing shows it with other content (sent / listed: {fields})",
    Shown.TWICE: "the listing shows it more than once",
    Shown.ALIKE: "the listing shows a key that differs from it only in case, blanks or zeros in front",
    Shown.NO_LISTING: "the listing could not be read",
}
