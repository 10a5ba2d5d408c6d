"""The match by key: the entries of a run, what the ledger knows to be accepted, and what the listings show, joined on the lane.

A lane is one business record (`order:4711`); the last accepted create, update or delete on it says what the exchange should
hold. Only keys and hashes are joined here, so that 200,000 orders stay small; contents are compared in `settling`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from loadsheet.contract import BY_NAME, WRITES, Action, Listing
from loadsheet.ledger import State, Trace
from loadsheet.reconcile.verdicts import Leg, OnlyListed

TRACED = (State.ACCEPTED, State.SENDING, State.UNKNOWN, State.REFUSED)
"""The states of entries that say something about what the exchange may hold."""

LISTINGS = tuple(operation for operation in BY_NAME.values() if operation.action is Action.LIST)
PROVABLE = [operation.name for operation in WRITES if operation.proved_by]
DELETES = [operation.name for operation in WRITES if operation.action is Action.DELETE]

_TYPES = {name: "int64" if name == "id" else "str" for name in Trace._fields}


class Listed(NamedTuple):
    """What the listings show: the legs, each record by its lane (the first, if a lane is listed twice), and how many a lane has."""

    legs: dict[str, Leg]
    records: dict[str, dict[str, Any]]
    times: Counter[str]


def read_listings(listings: Mapping[str, Listing | None]) -> Listed:
    """The records of all listings by lane. A listing without one record of its own kind is the wrong one: it proves nothing."""
    found = Listed({}, {}, Counter())
    for operation in LISTINGS:
        listing = listings.get(operation.subject)
        if listing is None:
            found.legs[operation.subject] = Leg(operation.subject, read=False)
            continue
        own = [record for record in listing.results if _subject_of(record) == operation.subject]
        for record in own:
            lane = operation.lane_of(record)
            found.records.setdefault(lane, record)
            found.times[lane] += 1
        complete = listing.complete and bool(own or not listing.results)
        seen = Leg(operation.subject, read=True, listed=len(own), total=listing.total_count, complete=complete)
        found.legs[operation.subject] = seen
    return found


def _subject_of(record: Mapping[str, Any]) -> str:
    # tenders stand first among the listings: a tender may carry the key of an order, an order never that of a tender
    return next((operation.subject for operation in LISTINGS if operation.key_of(record)), "")


def frame(traces: Iterable[Trace]) -> pd.DataFrame:
    """Traces as a frame, one column for each of their parts, in their order."""
    return pd.DataFrame(list(traces), columns=list(_TYPES)).astype(_TYPES)


def match_keys(source: pd.DataFrame, known: pd.DataFrame, listed: Listed) -> pd.DataFrame:
    """One row for each entry of `source`, in its order, joined with what stands on its lane and how often that is listed.

    `known` holds the traced entries of these lanes in the order in which they got there. Columns beside those of a trace:
    `last` (id of the last accepted entry that the lane's record comes from; 0: none), `last_hash`, and `times`.
    """
    last = _last_accepted(known)[["lane", "id", "content_hash"]].rename(
        columns={"id": "last", "content_hash": "last_hash"}
    )
    joined = source.merge(last, on="lane", how="left").merge(_times(listed), on="lane", how="left")
    return joined.fillna({"last": 0, "last_hash": "", "times": 0}).astype({"last": "int64", "times": "int64"})


def only_listed(matched: pd.DataFrame, known: pd.DataFrame, listed: Listed) -> tuple[OnlyListed, ...]:
    """The listed records that were never accepted from here, or that were deleted from here before: by subject and key."""
    known = known[known["operation"].isin(PROVABLE)]
    last = _last_accepted(known)
    deleted = last["operation"].isin(DELETES)
    ours = [
        last.loc[~deleted, "lane"],
        known.loc[known["state"].isin([State.SENDING, State.UNKNOWN]), "lane"],
        matched.loc[matched["id"] == matched["last"], "lane"],  # a deletion of this run has its own verdict
    ]
    strangers = _times(listed)
    strangers = strangers[~strangers["lane"].isin(pd.concat(ours))]
    notes = dict.fromkeys(strangers["lane"], "no document for it came through here")
    waiting = matched[matched["operation"].isin(PROVABLE)]
    notes.update(
        {lane: f"the document for it is {state}" for lane, state in zip(waiting["lane"], waiting["state"], strict=True)}
    )
    notes.update(dict.fromkeys(known.loc[known["state"] == State.REFUSED, "lane"], "the document for it was refused"))
    notes.update(dict.fromkeys(last.loc[deleted, "lane"], "it was deleted from here and is there again"))
    return tuple(_stranger(lane, notes[lane]) for lane in sorted(strangers["lane"]))


def _stranger(lane: str, note: str) -> OnlyListed:
    subject, _, key = lane.partition(":")
    return OnlyListed(subject, key, note)


def _last_accepted(known: pd.DataFrame) -> pd.DataFrame:
    accepted = known[(known["state"] == State.ACCEPTED) & known["operation"].isin(PROVABLE)]
    return accepted.drop_duplicates("lane", keep="last")


def _times(listed: Listed) -> pd.DataFrame:
    return pd.DataFrame({"lane": list(listed.times), "times": list(listed.times.values())}).astype({"lane": "str"})
