"""The rules for an unknown outcome: accepted, sent again, or still unknown and why. Pure decisions.

`ListingEvidence` compares one listing with what was sent and what existed before. It also decides whether absence from
this listing is proof: the listing must be complete, of the right kind, and show a recent record known to exist (a witness).

A listing shows what has arrived, never what is still on its way. So nothing is concluded from absence, and nothing is
sent again, before a pause (quiesce) since the answer was lost. Absence must also be seen twice. Where no listing shows an
effect, no protocol can rule out both loss and duplicates: the settings choose.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from loadsheet.contract import (
    BY_NAME,
    LISTED_KEYS,
    Action,
    Listing,
    Operation,
    decode_record,
    different_fields,
    listed_subject,
)
from loadsheet.dispatch.outcomes import STATUS_FALSE, OutcomeKind
from loadsheet.display_text import as_argument, count_of
from loadsheet.ledger import Attempt, Entry, ListingFinding, State
from loadsheet.problems import Problem
from loadsheet.settings import Settings
from loadsheet.settings.sections import VerificationSettings

FIELDS_SHOWN = 4
_OLD_STATUS_FALSE = "a success that says no: "  # in ledgers of versions up to 0.5.0


class Presence(StrEnum):
    """How a listing shows the record of an entry. The values are stored in the ledger."""

    AS_SENT = "as it was sent"
    AS_BEFORE = "as it was before"
    OTHERWISE = "with other content"
    TWICE = "more than once"
    ALIKE = "under a key that is written otherwise"
    ABSENT = "not at all"
    NO_LISTING = "no listing shows it"


class Witness(NamedTuple):
    """A record that the exchange accepted from us with an answer: its key, and since when (ISO 8601 UTC)."""

    key: str
    since: str


class Observation(NamedTuple):
    """What a listing shows of one entry. `absence_is_proof`: what this listing does not show is not there; else `why` gives the reason.
    `detail` names the fields that differ.
    """

    shown: Presence
    absence_is_proof: bool = False
    why: str = ""
    detail: str = ""


NO_LISTING = Observation(Presence.NO_LISTING)


class ListingEvidence:
    """What one listing proves about the records of `keys`. `witnesses` are the latest accepted records of its kind, newest
    first. Other records are not kept, so a listing may have any length.
    """

    def __init__(
        self,
        operation: Operation,
        listing: Listing,
        keys: Collection[str],
        witnesses: Sequence[Witness],
        settings: Settings,
    ) -> None:
        self._operation = operation
        self._freshness = settings.verification.fresh_witness
        self._tolerances = settings.tolerances
        self._listing = listing
        self._held: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._alike: set[str] = set()
        wanted, folded, shown = set(keys), {_folded(key) for key in keys}, set[str]()
        since = {one.key: one.since for one in reversed(witnesses)}
        for position, head in enumerate(listing.heads(LISTED_KEYS)):
            if listed_subject(head) != operation.subject:
                continue
            key = operation.key_of(head)
            if key in wanted:
                self._held[key].append(listing.results[position])
            if _folded(key) in folded:
                self._alike.add(_folded(key))
            if key in since:
                shown.add(key)
        self._newest = max((since[key] for key in shown), default="")

    def of(self, entry: Entry, before: Mapping[str, Any] | None) -> Observation:
        """What the listing shows of an entry. `before` is the record before this entry; None if unknown."""
        why = self._why_not(entry)
        records = self._held.get(entry.key, [])
        if len(records) > 1:
            return Observation(Presence.TWICE, not why, why)
        if not records:
            shown = Presence.ALIKE if _folded(entry.key) in self._alike else Presence.ABSENT
            return Observation(shown, not why, why)
        shown, detail = self._compared(entry, records[0], before)
        return Observation(shown, not why, why, detail)

    def _why_not(self, entry: Entry) -> str:
        """Why absence from this listing proves nothing for the entry; empty if it does."""
        listing = self._listing
        if not listing.complete:
            return f"the listing shows {len(listing.results)} of {listing.total_count} records"
        if listing.total_pages > 1:
            return f"the listing is one of {listing.total_pages} pages"
        if not self._newest:
            return f"the listing shows no {self._operation.subject} that is known to exist (a witness)"
        if self._freshness == "required" and self._newest <= entry.changed_at:
            return f"the listing shows no {self._operation.subject} accepted since then (verification.fresh_witness = required)"
        return ""

    def _compared(self, entry: Entry, record: dict[str, Any], before: Mapping[str, Any] | None) -> tuple[Presence, str]:
        operation = BY_NAME[entry.operation]
        sent = decode_record(entry.payload)
        if operation.action is Action.DELETE:
            if before is None:
                return Presence.OTHERWISE, "the earlier content is unknown"
            different = different_fields(self._operation.record, before, record, self._tolerances)
            return (Presence.OTHERWISE, _differences(different)) if different else (Presence.AS_BEFORE, "")
        was = None
        if before is not None and operation.action is Action.UPDATE:
            was = {name: before.get(name) for name in sent}
        for ordered in (None, entry.ordered):  # if both match with lines in any order, their order decides
            different = different_fields(operation.record, sent, record, self._tolerances, ordered)
            if not different:
                return Presence.AS_SENT, ""
            if was is not None and not different_fields(operation.record, was, record, self._tolerances, ordered):
                return Presence.AS_BEFORE, ""
        return Presence.OTHERWISE, _differences(different)


def content_before(accepted: Iterable[Entry]) -> dict[str, Any] | None:
    """The record that these accepted entries of a lane produced, in order; None if we did not create it."""
    record: dict[str, Any] | None = None
    for entry in accepted:
        action = BY_NAME[entry.operation].action
        if entry.removed and action in (Action.CREATE, Action.UPDATE):
            record = None  # its payload was removed by retention
        elif action is Action.CREATE:
            record = decode_record(entry.payload)
        elif action is Action.UPDATE and record is not None:
            record = {**record, **decode_record(entry.payload)}
        elif action is Action.DELETE:
            record = None
    return record


def _folded(key: str) -> str:
    """A key without what a system may change: surrounding blanks, case, leading zeros."""
    text = key.strip().casefold()
    return text.lstrip("0") or "0" if text.isdecimal() else text


def _differences(different: Sequence[Any]) -> str:
    shown = [f"{one.path} {one.sent or 'nothing'} / {one.held or 'nothing'}" for one in different[:FIELDS_SHOWN]]
    more = len(different) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)


SAME_TWICE = (Action.UPDATE, Action.DELETE)
"""The idempotent actions: sending them twice has the same effect."""

UNLISTED_SENDS_MAX = 2  # for entries that no listing shows: the second send may be a duplicate


class Case(NamedTuple):
    """An unknown entry and what is known about it.

    `observation` is what a listing shows `at` this time (ISO 8601 UTC). `waited_s` is how long the entry has been unknown,
    `sends` the number of calls that may have worked, and `earlier_findings` the earlier findings, oldest first. `status_false_text` is the
    answer if each of these calls got a 200 with a false status: the entry is refused once none is proved to have worked.
    """

    entry: Entry
    observation: Observation
    at: str
    waited_s: float
    sends: int = 1
    earlier_findings: Sequence[ListingFinding] = ()
    status_false_text: str = ""


class Conclusion(NamedTuple):
    """The new state (None: still unknown), the reason in words, whether this finding is proof of absence, and a problem to
    record with the entry.
    """

    state: State | None
    text: str
    proves_absence: bool = False
    problem: Problem | None = None


class UnknownTimer:
    """Measures how long an entry has been unknown, by the wall clock. For entries that became unknown in this process the
    monotonic clock counts too, so that setting the wall clock forward shortens no pause.
    """

    def __init__(self, now: Callable[[], str], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._began, self._began_at = now(), monotonic()

    def waited_s(self, since: str) -> float:
        """Seconds since this time (ISO 8601 UTC), the smaller value of both clocks."""
        now = self._now()
        waited = seconds_between(since, now)
        if since < self._began:
            return waited
        ahead = seconds_between(self._began, now) - (self._monotonic() - self._began_at)
        return waited - max(ahead, 0.0)


def seconds_between(since: str, until: str) -> float:
    """Seconds between two moments, both ISO 8601 UTC."""
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def decide_case(case: Case, settings: Settings) -> Conclusion:
    """Decide a case."""
    action, rules = BY_NAME[case.entry.operation].action, settings.verification
    if action in _UNLISTED:
        return _once_more(case, rules, *_UNLISTED[action])
    if action is Action.CONFIRM:
        why = "no listing shows decisions on quotes, and decisions are never sent again automatically: ask the carrier or check the exchange"
        return _stays(why, case)
    if case.observation.shown in _UNCLEAR:
        return _stays(_UNCLEAR[case.observation.shown].format(fields=case.observation.detail), case)
    return {Action.CREATE: _create, Action.UPDATE: _update, Action.DELETE: _delete}[action](case, rules)


def possibly_doubled(entry: Entry, sends: int) -> Problem:
    """The warning on an entry that is sent once more although `sends` calls of it may have worked."""
    return Problem("L608", values={"key": entry.key, "sends": sends + 1}, level="warning")


def sends_that_may_have_worked(attempts: Sequence[Attempt]) -> int:
    """The number of attempts that may have had an effect."""
    return len(_in_doubt(attempts))


def status_false_text(attempts: Sequence[Attempt]) -> str:
    """The last answer, if each attempt that may have worked got a 200 whose status is false; else empty."""
    details = [attempt.detail for attempt in _in_doubt(attempts)]
    return (
        details[-1]
        if details and all(detail.startswith((STATUS_FALSE, _OLD_STATUS_FALSE)) for detail in details)
        else ""
    )


def _in_doubt(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.outcome in ("", OutcomeKind.UNKNOWN)]


def _create(case: Case, rules: VerificationSettings) -> Conclusion:
    if case.observation.shown is Presence.AS_SENT:
        return Conclusion(State.ACCEPTED, "shown by the listing")
    unmet, proves_absence = _not_proved_absent(case, rules), _is_proof_of_absence(case, rules)
    if unmet:
        return _stays(unmet, case, proves_absence=proves_absence)
    if case.status_false_text:
        return _refused(case, "it is proved absent", proves_absence=proves_absence)
    if rules.create_after_absent == "review":
        why = "it is proved absent by two listings; verification.create_after_absent = review"
        return _stays(why, case, proves_absence=proves_absence)
    if case.sends >= rules.create_sends_max:
        why = f"it is proved absent, and was sent {case.sends} times (verification.create_sends_max)"
        return _stays(why, case, proves_absence=proves_absence)
    return Conclusion(State.READY, "proved absent by two listings: sent again", proves_absence)


def _update(case: Case, rules: VerificationSettings) -> Conclusion:
    if case.observation.shown is Presence.AS_SENT:
        return Conclusion(State.ACCEPTED, "shown by the listing")
    if case.observation.shown is Presence.ABSENT:
        return _stays("the listing does not show its record", case)
    return _sent_again(case, rules, "update_resend")


def _delete(case: Case, rules: VerificationSettings) -> Conclusion:
    if case.observation.shown is Presence.AS_BEFORE:
        return _sent_again(case, rules, "delete_resend")
    if unmet := _not_proved_absent(case, rules):
        return _stays(unmet, case, proves_absence=_is_proof_of_absence(case, rules))
    return Conclusion(State.ACCEPTED, "its record is gone, as two listings show", _is_proof_of_absence(case, rules))


def _sent_again(case: Case, rules: VerificationSettings, setting: str) -> Conclusion:
    """An update or delete whose record is unchanged: sent again, it has the same effect as the first call."""
    if case.waited_s < rules.quiesce_s:
        return _stays(f"its record is unchanged; {_pause(case, rules, 'quiesce_s')}", case)
    if case.status_false_text:
        return _refused(case, "its record is unchanged")
    if not getattr(rules, setting):
        return _stays(f"its record is unchanged, and verification.{setting} is off", case)
    if case.sends >= rules.sends_max:
        return _stays(f"its record is unchanged, and it was sent {case.sends} times (verification.sends_max)", case)
    return Conclusion(State.READY, "its record is unchanged: sent again")


def _refused(case: Case, proof: str, *, proves_absence: bool = False) -> Conclusion:
    problem = Problem("X701", values={"text": case.status_false_text})
    return Conclusion(State.REFUSED, f"{proof}, after {case.status_false_text}", proves_absence, problem)


_UNLISTED = {
    Action.STATUS: ("status updates", "status_on_unknown", "status_quiesce_s"),
    Action.QUOTE: ("quotes", "quote_on_unknown", "quiesce_s"),
}
"""What no listing shows, and the settings that say what to do and after how long."""


def _once_more(case: Case, rules: VerificationSettings, what: str, setting: str, pause: str) -> Conclusion:
    if getattr(rules, setting) == "review":
        return _stays(f"no listing shows {what}, and verification.{setting} = review: it may be lost", case)
    if case.sends >= UNLISTED_SENDS_MAX:
        return _stays(f"no listing shows {what}, and it was sent {case.sends} times", case)
    if case.waited_s < getattr(rules, pause):
        return _stays(f"no listing shows {what}; {_pause(case, rules, pause)}, then sent once more", case)
    text = f"no listing shows {what}: sent once more, possibly a duplicate"
    return Conclusion(State.READY, text, problem=possibly_doubled(case.entry, case.sends))


def _not_proved_absent(case: Case, rules: VerificationSettings) -> str:
    """The unmet rule in words; empty if absence is proved."""
    if not case.observation.absence_is_proof:
        return f"it is not listed, which proves nothing: {case.observation.why}"
    if case.waited_s < rules.quiesce_s:
        return f"it is not listed; {_pause(case, rules, 'quiesce_s')}"
    if not any(_confirms(finding, case, rules) for finding in case.earlier_findings):
        gap = f"at least {rules.confirm_gap_s:g} s later (verification.confirm_gap_s)"
        return f"it is not listed; a second listing {gap} must confirm this"
    return ""


def _confirms(finding: ListingFinding, case: Case, rules: VerificationSettings) -> bool:
    # A finding from before the last attempt proves nothing about it.
    is_relevant = finding.at >= case.entry.changed_at and finding.proves_absence and finding.shown == Presence.ABSENT
    return is_relevant and seconds_between(finding.at, case.at) >= rules.confirm_gap_s


def _is_proof_of_absence(case: Case, rules: VerificationSettings) -> bool:
    return (
        case.observation.shown is Presence.ABSENT
        and case.observation.absence_is_proof
        and case.waited_s >= rules.quiesce_s
    )


def _pause(case: Case, rules: VerificationSettings, setting: str) -> str:
    minutes = math.ceil(max(getattr(rules, setting) - case.waited_s, 0.0) / 60)
    return f"too early to be sure for another {count_of(minutes, 'minute')} (verification.{setting})"


def _stays(why: str, case: Case, *, proves_absence: bool = False) -> Conclusion:
    return Conclusion(
        None,
        f"{why}; the next run checks again, or decide: loadsheet resolve {as_argument(case.entry.key)}",
        proves_absence,
    )


_UNCLEAR = {
    Presence.OTHERWISE: "the listing shows it with other content (sent / listed: {fields})",
    Presence.TWICE: "the listing shows it more than once",
    Presence.ALIKE: "the listing shows a key that differs from it only in case, blanks or leading zeros",
    Presence.NO_LISTING: "the listing could not be read",
}
