"""The reconciliation's verb: the verdict on every entry of a run, the tie-out and the control totals.

Reads the ledger and the listings that are passed in; calls nobody and changes nothing. Entries stream: the match by key works
on their traces, the contents are compared one entry at a time.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from loadsheet.contract import BY_NAME, EXACT, Difference, Listing, Operation, Tolerances, different_fields, measures_of
from loadsheet.ledger import Drop, Entry, Run, State
from loadsheet.ledger.history import History
from loadsheet.reconcile.balance import Tally
from loadsheet.reconcile.legs import DELETES, PROVABLE, TRACED, Listed, frame, match_keys, only_listed, read_listings
from loadsheet.reconcile.totals import Adder
from loadsheet.reconcile.verdicts import Leg, Match, Reconciliation, Verdict
from loadsheet.settings import Settings

_COMPARE = "compare"  # asked for, accepted and listed: the contents decide
_DECODER = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_NOTHING: dict[str, Any] = {}


def settle(history: History, listings: Mapping[str, Listing | None], run: Run, settings: Settings) -> Reconciliation:
    """The reconciliation of a run: of all entries of the drops that it touched.

    `listings` holds the listing of each subject (`order`, `tender`), decoded with exact numbers; None or absent where it was
    not asked for or could not be read. Whether it balances is for the caller to ask (`Reconciliation.balances`).
    """
    drops = history.drops_of(run)
    listed = read_listings(listings)
    source = frame(trace for drop in drops for trace in history.traces_of(drop.id))
    known = frame(history.traces_on(sorted({*source["lane"], *listed.times}), *TRACED))
    matched = match_keys(source, known, listed)
    strangers = only_listed(matched, known, listed)
    ruled = iter(zip(by_rule(matched, listed.legs), standing(matched), strict=True))
    used = set(source["operation"])
    del source, known, matched
    judge = _Judge(listed, Tolerances(Decimal(str(settings.weight_tolerance)), Decimal(str(settings.money_tolerance))))
    for drop in drops:
        judge.open(drop)
        for entry in history.entries_of(drop.id):
            verdict, stands = next(ruled)
            judge.add(entry, verdict, stands=stands)
        judge.tally.leave_out(drop, history.ignored_of(drop.id))
    subjects = {BY_NAME[name].subject for name in used if BY_NAME[name].proved_by}
    legs = tuple(leg for name, leg in sorted(listed.legs.items()) if leg.read or name in subjects)
    return Reconciliation(judge.matches, strangers, legs, judge.tally.balance(), judge.adder.totals())


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
    """Takes entries one at a time: completes their verdicts, counts their rows, adds their figures up."""

    def __init__(self, listed: Listed, tolerances: Tolerances) -> None:
        self._listed, self._tolerances = listed, tolerances
        self.matches: dict[int, Match] = {}
        self.tally, self.adder = Tally(), Adder()

    def open(self, drop: Drop) -> None:
        self.tally.open(drop)

    def add(self, entry: Entry, ruled: str, *, stands: bool) -> None:
        operation = BY_NAME[entry.operation]
        self.tally.add(entry)
        needed = entry.payload and (ruled == _COMPARE or measures_of(operation))
        record = _DECODER.decode(entry.payload) if needed else _NOTHING
        listed = self._listed.records[entry.lane] if ruled == _COMPARE else None
        self.adder.add(entry, record, listed, stands=stands and entry.state is State.ACCEPTED)
        found = _Content((), ()) if listed is None else _compare(operation, record, listed, self._tolerances)
        verdict = Verdict(ruled) if listed is None else _verdict(found, entry.state)
        self.matches[entry.id] = Match(entry.id, entry.operation, entry.key, entry.state, verdict, *found)


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
