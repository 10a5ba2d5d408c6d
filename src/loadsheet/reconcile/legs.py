"""The match by key: entries, what the ledger knows to be accepted, and what the listings show, joined on the lane.

A lane is one business record (`order:4711`); the last accepted create, update or delete on it says what the exchange should
hold. Lanes do not bear on each other, so entries come in batches, each with everything the ledger knows of its lanes; contents are
compared in `settling`.
"""

from collections.abc import Iterable

import pandas as pd

from loadsheet.contract import WRITES, Action
from loadsheet.ledger import State, Trace
from loadsheet.reconcile.listed import Listed
from loadsheet.reconcile.verdicts import OnlyListed

TRACED = (State.ACCEPTED, State.SENDING, State.UNKNOWN, State.REFUSED)
"""The states of entries that say something about what the exchange may hold."""

PROVABLE = [operation.name for operation in WRITES if operation.proved_by]
DELETES = [operation.name for operation in WRITES if operation.action is Action.DELETE]

_TYPES = {name: "int64" if name == "id" else "str" for name in Trace._fields}


def frame(traces: Iterable[Trace]) -> pd.DataFrame:
    """Traces as a frame, one column for each of their parts, in their order."""
    return pd.DataFrame(list(traces), columns=list(_TYPES)).astype(_TYPES)


def match_keys(source: pd.DataFrame, known: pd.DataFrame, listed: Listed) -> pd.DataFrame:
    """One row for each entry of `source`, in its order, joined with what stands on its lane and what is listed of that.

    `known` holds the traced entries of these lanes in the order in which they got there. Columns beside those of a trace:
    `last` (id of the last accepted entry that the lane's record comes from; 0: none), `last_hash`, `times` and `place`.
    """
    last = _last_accepted(known).set_index("lane")
    joined = source.assign(last=source["lane"].map(last["id"]), last_hash=source["lane"].map(last["content_hash"]))
    joined = joined.fillna({"last": 0, "last_hash": ""}).astype({"last": "int64"})
    return pd.concat([joined, listed.look_up(source["lane"])], axis="columns")


def accounted(known: pd.DataFrame, matched: pd.DataFrame | None = None) -> "pd.Series[str]":
    """The lanes whose listed records are no strangers: accepted from here and not deleted, or perhaps accepted. A deletion that
    is among the matched entries has its own verdict.
    """
    known = known[known["operation"].isin(PROVABLE)]
    last = _last_accepted(known)
    ours = [
        last.loc[~last["operation"].isin(DELETES), "lane"],
        known.loc[known["state"].isin([State.SENDING, State.UNKNOWN]), "lane"],
    ]
    if matched is not None:
        ours.append(matched.loc[matched["id"] == matched["last"], "lane"])
    return pd.concat(ours).drop_duplicates()


def strangers(lanes: Iterable[str], known: pd.DataFrame, waiting: dict[str, str]) -> list[OnlyListed]:
    """The listed records of these lanes that were never accepted from here, or that were deleted from here before, in their order.

    `known` is what the ledger knows of them, `waiting` the states of this run's entries on them.
    """
    ours = set(accounted(known))
    known = known[known["operation"].isin(PROVABLE)]
    last = _last_accepted(known)
    notes = {lane: f"the document for it is {state}" for lane, state in waiting.items()}
    notes.update(dict.fromkeys(known.loc[known["state"] == State.REFUSED, "lane"], "the document for it was refused"))
    deleted = last.loc[last["operation"].isin(DELETES), "lane"]
    notes.update(dict.fromkeys(deleted, "it was deleted from here and is there again"))
    return [
        _stranger(lane, notes.get(lane, "no document for it came through here")) for lane in lanes if lane not in ours
    ]


def _stranger(lane: str, note: str) -> OnlyListed:
    subject, _, key = lane.partition(":")
    return OnlyListed(subject, key, note)


def _last_accepted(known: pd.DataFrame) -> pd.DataFrame:
    accepted = known[(known["state"] == State.ACCEPTED) & known["operation"].isin(PROVABLE)]
    return accepted.drop_duplicates("lane", keep="last")
