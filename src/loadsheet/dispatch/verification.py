"""Verifies unknown outcomes: fetches listings, applies the rules of `unknown_rules`, and records the results.

Decides which listings are fetched before and after sending. After sending, one listing answers three questions: which
calls with a lost answer arrived, which parents (orders, tenders) exist, and what the reconciliation needs. Sends nothing:
entries to be sent again become ready.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from loadsheet.contract import BY_NAME, LISTED_KEYS, LISTINGS, WRITES, Action, Listing, Operation, listed_subject
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.sending import RunContext
from loadsheet.dispatch.unknown_rules import (
    NO_LISTING,
    Case,
    Conclusion,
    ListingEvidence,
    Observation,
    UnknownTimer,
    Witness,
    content_before,
    decide_case,
    sends_that_may_have_worked,
    status_false_text,
)
from loadsheet.errors import ExchangeUnreachable, ListingNotServed, TokenRefused
from loadsheet.ledger import Entry, Ledger, ListingFinding, Settlement, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.settings import Settings

WITNESSES_TRIED = 200


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The number of unknown entries, of those that a listing proved accepted, and of those to be sent again."""

    unknown: int
    accepted: int
    again: int

    @property
    def still_unknown(self) -> int:
        """The number of entries that are still unknown."""
        return self.unknown - self.accepted - self.again


def verify_unknown(context: RunContext) -> VerificationReport:
    """Fetch the listings of the unknown entries, settle what they prove, and record what they show of the others.

    Raises ExchangeUnreachable and TokenRefused. An exchange without listings proves nothing, which is not an error.
    """
    unknown = context.ledger.queries.entries_in(State.UNKNOWN)
    operations = [BY_NAME[name] for name in sorted(filter(None, {BY_NAME[one.operation].proved_by for one in unknown}))]
    return verify_with({operation.subject: _listing(context.client, operation) for operation in operations}, context)


def verify_with(listings: Mapping[str, Listing | None], context: RunContext) -> VerificationReport:
    """Like `verify_unknown` with listings already fetched, by subject; other subjects are skipped."""
    settings, ledger, run = context.settings, context.ledger, context.run
    cases = list(unknown_cases(listings, ledger, settings, context.timer))
    concluded = [(case, decide_case(case, settings)) for case in cases]
    ledger.record_findings(
        run,
        [
            ListingFinding(
                case.entry.id, run.name, case.at, case.observation.shown, conclusion.proves_absence, conclusion.text
            )
            for case, conclusion in concluded
        ],
    )
    settlements = [one for case, conclusion in concluded if (one := _settlement(case, conclusion))]
    settled = ledger.settle_from_listing(run, settlements) if settlements else []
    states = Counter(settlement.state for settlement in settled)
    return VerificationReport(len(cases), states[State.ACCEPTED], states[State.READY])


def unknown_cases(
    listings: Mapping[str, Listing | None], ledger: Ledger, settings: Settings, timer: UnknownTimer
) -> list[Case]:
    """The unknown entries that these listings concern, and those that no listing can show."""
    queries = ledger.queries
    unknown = list(queries.entries_in(State.UNKNOWN))
    keys = {entry.key for entry in unknown}
    evidence = {
        operation.subject: ListingEvidence(operation, listing, keys, _witnesses(queries, operation), settings)
        for operation in LISTINGS
        if unknown and (listing := listings.get(operation.subject)) is not None
    }
    cases = []
    for entry in unknown:
        operation = BY_NAME[entry.operation]
        if operation.proved_by and operation.subject not in listings:
            continue
        observation = _observation(queries, entry, evidence.get(operation.subject) if operation.proved_by else None)
        waited_s = timer.waited_s(entry.changed_at)
        attempts = queries.attempts_of(entry.id)
        sends, earlier = sends_that_may_have_worked(attempts), queries.findings_of(entry.id)
        cases.append(Case(entry, observation, ledger.now(), waited_s, sends, earlier, status_false_text(attempts)))
    return cases


def _listing(client: Client, operation: Operation) -> Listing | None:
    try:
        return client.whole_listing(operation)
    except ListingNotServed:
        return None


def _observation(queries: LedgerQueries, entry: Entry, evidence: ListingEvidence | None) -> Observation:
    if evidence is None:
        return NO_LISTING
    before = None
    if BY_NAME[entry.operation].action in (Action.UPDATE, Action.DELETE):
        before = content_before(queries.entries_on(entry.lane, State.ACCEPTED))
    return evidence.of(entry, before)


def _witnesses(queries: LedgerQueries, listing: Operation) -> list[Witness]:
    """The latest records that a listing should show: accepted with an answer, and not deleted since."""
    writes = [write for write in WRITES if write.proved_by == listing.name]
    makes = [write.name for write in writes if write.action is not Action.DELETE]
    ends = [write.name for write in writes if write.action is Action.DELETE]
    return [Witness(key, since) for key, since in queries.witnesses(makes, ends, WITNESSES_TRIED)]


def _settlement(case: Case, conclusion: Conclusion) -> Settlement | None:
    if conclusion.state is None:
        return None
    problems = (conclusion.problem,) if conclusion.problem else ()
    tried = case.entry.attempts
    return Settlement(case.entry.id, conclusion.state, conclusion.text, problems=problems, attempt=tried)


Listings = dict[str, Listing | None]
"""The fetched listing of each subject; None if it could not be fetched, which proves nothing."""


def verify_after_sending(context: RunContext, *, any_sent: bool) -> Listings:
    """Fetch the listings that waiting entries or lost calls need; none if nothing does.

    Settles what they prove. With `verification.parents = look` it also records which awaited lanes (orders, tenders) are
    listed. If nothing was sent before, these are the first calls: it raises ExchangeUnreachable and TokenRefused. Else it raises
    nothing for exchange failures.
    """
    ledger = context.ledger
    unknown = {BY_NAME[entry.operation] for entry in ledger.queries.entries_in(State.UNKNOWN)}
    lanes = set(ledger.queries.waiting_lanes()) if context.settings.verification.parents == "look" else set()
    if not unknown and not lanes:
        return {}
    subjects = {operation.subject for operation in unknown if operation.proved_by}
    subjects |= {lane.partition(":")[0] for lane in lanes}
    fetch = fetch_listings if any_sent else _fetch_first
    listings = fetch(context.client, subjects)
    verify_with(listings, context)
    if shown := listed_lanes(listings, lanes):
        ledger.record_seen(context.run, shown)
    return listings


def fetch_listings(client: Client, subjects: Collection[str]) -> Listings:
    """Fetch the listings of these subjects, as complete as the exchange gives them."""
    listings: Listings = {}
    for operation in _listings_of(subjects):
        listings[operation.subject] = None
        with suppress(ExchangeUnreachable, TokenRefused):
            listings[operation.subject] = client.whole_listing(operation)
    return listings


def _fetch_first(client: Client, subjects: Collection[str]) -> Listings:
    """The same, as the first calls of a run. Raises ExchangeUnreachable and TokenRefused."""
    return {operation.subject: _listing(client, operation) for operation in _listings_of(subjects)}


def _listings_of(subjects: Collection[str]) -> list[Operation]:
    return [operation for operation in LISTINGS if operation.subject in subjects]


def listed_lanes(listings: Mapping[str, Listing | None], wanted: Collection[str]) -> set[str]:
    """The wanted lanes whose order or tender these listings show."""
    listed: dict[str, Operation] = {one.subject: one for one in LISTINGS}
    return {
        lane
        for subject, listing in listings.items()
        if listing is not None
        for head in listing.heads(LISTED_KEYS)
        if listed_subject(head) == subject and (lane := listed[subject].lane_of(head)) in wanted
    }
