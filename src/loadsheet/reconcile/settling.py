"""The reconciliation's verb: the verdict on every entry of a run, the tie-out and the control totals.

Reads the ledger and the listings that are passed in; calls nobody and changes nothing. Entries come in batches, so that memory
does not grow with them: the match by key works on frames, the contents are compared one entry at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
import pandas as pd

from loadsheet.contract import BY_NAME, EXACT, Difference, Listing, Operation, Tolerances, different_fields, measures_of
from loadsheet.ledger import Entry, Run, State, Trace
from loadsheet.ledger.history import History
from loadsheet.reconcile.balance import Tally
from loadsheet.reconcile.findings import Reconciliation
from loadsheet.reconcile.legs import DELETES, PROVABLE, TRACED, accounted, frame, match_keys, strangers
from loadsheet.reconcile.listed import Listed
from loadsheet.reconcile.matches import Matches
from loadsheet.reconcile.totals import Adder
from loadsheet.reconcile.verdicts import Leg, Match, OnlyListed, Verdict
from loadsheet.settings import Settings

_COMPARE = "compare"  # asked for, accepted and listed: the contents decide
_DECODER = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_NOTHING: dict[str, Any] = {}
_BATCH = 1_000

_Item = TypeVar("_Item")


def settle(history: History, listings: Mapping[str, Listing | None], run: Run, settings: Settings) -> Reconciliation:
    """The reconciliation of a run: of all entries of the drops that it touched.

    `listings` holds the listing of each subject (`order`, `tender`), its records decoded with exact numbers; None or absent where
    it was not asked for or could not be read. Whether it balances is for the caller to ask (`Reconciliation.balances`).
    """
    listed = Listed(listings)
    judge = _Judge(history, listed, settings)
    for drop in history.drops_of(run):
        judge.tally.open(drop)
        for batch in _batches(history.entries_of(drop.id)):
            judge.settle(batch)
        judge.tally.leave_out(drop, history.ignored_of(drop.id))
    subjects = {BY_NAME[name].subject for name in judge.used if BY_NAME[name].proved_by}
    legs = tuple(leg for name, leg in sorted(listed.legs.items()) if leg.read or name in subjects)
    return Reconciliation(
        judge.matches, judge.strangers(), legs, judge.tally.balance(), judge.adder.totals()
    )


def standing(matched: pd.DataFrame) -> "pd.Series[bool]":
    """For each entry of `match_keys` whether the exchange's record should be as this entry says: it was accepted last."""
    return (matched["id"] == matched["last"]) | _unchanged_and_standing(matched)


def by_rule(matched: pd.DataFrame, legs: Mapping[str, Leg]) -> "pd.Series[str]":
    """The verdict on each entry, or that the contents decide. The rules stand in their order; the first that fits counts."""
    state, operation, times = matched["state"], matched["operation"], matched["times"]
    subject = operation.map({name: known.subject for name, known in BY_NAME.items()})
    unchanged, deletes = state == State.UNCHANGED, operation.isin(DELETES)
    complete = subject.isin([leg.subject for leg in legs.values() if leg.complete])
    rules: list[tuple[pd.Series[bool], str]] = [
        # what was not accepted is told by its state
        (state == State.INVALID, Verdict.INVALID),
        (state == State.HELD, Verdict.HELD),
        (state == State.READY, Verdict.WAITING),
        (state == State.REFUSED, Verdict.REFUSED),
        (state.isin([State.SENDING, State.UNKNOWN]), Verdict.UNKNOWN),
        # accepted from here on; what has no listing, or is not what should be listed now
        (unchanged & ~_unchanged_and_standing(matched), Verdict.UNCHANGED),
        (~operation.isin(PROVABLE), Verdict.ACKNOWLEDGED),
        (~standing(matched), Verdict.REPLACED),
        (~subject.isin([leg.subject for leg in legs.values() if leg.read]), Verdict.NOT_VERIFIABLE),
        # it should be listed, or should not if it was deleted; the ambiguous first
        (times > 1, Verdict.LISTED_TWICE),
        ((times == 1) & deletes, Verdict.STILL_LISTED),
        (times == 1, _COMPARE),
        (~complete, Verdict.NOT_VERIFIABLE),
        (deletes & unchanged, Verdict.UNCHANGED),
        (deletes, Verdict.MATCHED),
    ]
    absent = pd.Series(str(Verdict.MISSING), index=matched.index, dtype="str")
    return absent.case_when([(fits, str(verdict)) for fits, verdict in rules])


def _unchanged_and_standing(matched: pd.DataFrame) -> "pd.Series[bool]":
    """Unchanged entries whose content is what was accepted last; the others wait for an entry that was not accepted yet."""
    same = (matched["last"] > 0) & (matched["content_hash"] == matched["last_hash"])
    return (matched["state"] == State.UNCHANGED) & same & matched["operation"].isin(PROVABLE)


class _Judge:
    """Takes entries a batch at a time: gives each its verdict, counts their rows, adds their figures up."""

    def __init__(self, history: History, listed: Listed, settings: Settings) -> None:
        self._history, self._listed = history, listed
        self._tolerances = Tolerances(Decimal(str(settings.weight_tolerance)), Decimal(str(settings.money_tolerance)))
        self._waiting: dict[str, str] = {}  # of listed lanes that nothing accounts for yet: the state of this run's entry
        self.used: set[str] = set()
        self.matches, self.tally, self.adder = Matches(), Tally(), Adder()

    def settle(self, entries: Sequence[Entry]) -> None:
        """The next entries."""
        source = frame(Trace(one.id, one.operation, one.key, one.lane, one.state, one.content_hash) for one in entries)
        known = frame(self._history.traces_on(sorted(set(source["lane"])), *TRACED))
        matched = match_keys(source, known, self._listed)
        self.used.update(source["operation"].unique())
        self._account_for(matched, known)
        ruled = zip(by_rule(matched, self._listed.legs), standing(matched), matched["place"], strict=True)
        for entry, (verdict, stands, place) in zip(entries, ruled, strict=True):
            self._add(entry, verdict, self._listed.record(place) if verdict == _COMPARE else None, stands=stands)

    def strangers(self) -> tuple[OnlyListed, ...]:
        """The listed records that nothing here accounts for, by subject and key."""
        found: list[OnlyListed] = []
        for lanes in _batches(self._listed.unclaimed()):
            known = frame(self._history.traces_on(sorted(set(lanes)), *TRACED))
            found += strangers(dict.fromkeys(lanes), known, self._waiting)
        return tuple(sorted(set(found), key=lambda one: f"{one.subject}:{one.key}"))

    def _account_for(self, matched: pd.DataFrame, known: pd.DataFrame) -> None:
        ours = accounted(known, matched)
        self._listed.claim(ours)
        waiting = matched[matched["operation"].isin(PROVABLE) & (matched["times"] > 0) & ~matched["lane"].isin(ours)]
        self._waiting.update(zip(waiting["lane"], waiting["state"], strict=True))

    def _add(self, entry: Entry, ruled: str, listed: dict[str, Any] | None, *, stands: bool) -> None:
        operation = BY_NAME[entry.operation]
        self.tally.add(entry)
        needed = entry.payload and (listed is not None or measures_of(operation))
        record = _DECODER.decode(entry.payload) if needed else _NOTHING
        self.adder.add(entry, record, listed, stands=stands and entry.state is State.ACCEPTED)
        found = _Content((), ()) if listed is None else _compare(operation, record, listed, self._tolerances)
        verdict = Verdict(ruled) if listed is None else _verdict(found, entry.state)
        self.matches.add(Match(entry.id, entry.operation, entry.state, verdict, *found))


class _Content(NamedTuple):
    different: tuple[Difference, ...]
    tolerated: tuple[Difference, ...]


def _compare(operation: Operation, record: dict[str, Any], listed: dict[str, Any], tolerances: Tolerances) -> _Content:
    differences = different_fields(operation.record, record, listed, EXACT)
    if not differences:
        return _Content((), ())
    beyond = different_fields(operation.record, record, listed, tolerances)
    return _Content(tuple(beyond), tuple(found for found in differences if found not in beyond))


def _verdict(found: _Content, state: State) -> Verdict:
    if found.different:
        return Verdict.VALUE_DIFFERENCE
    if state is State.UNCHANGED:
        return Verdict.UNCHANGED
    return Verdict.WITHIN_TOLERANCE if found.tolerated else Verdict.MATCHED


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    items = iter(items)
    while batch := list(islice(items, _BATCH)):
        yield batch
