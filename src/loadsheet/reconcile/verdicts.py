"""The verdicts of the reconciliation, and the values they are told with.

Three legs: what the shipper asked for (source), what the ledger knows to be accepted (sent), and what the exchange's listing
shows (listed). Every entry gets exactly one verdict: the first of the ordered rules in `settling` that fits it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from loadsheet.contract import Difference
from loadsheet.ledger import State


class Verdict(StrEnum):
    """What the three legs say about one entry. `ONLY_LISTED` is said of records of the listing, never of an entry."""

    MATCHED = "matched"
    WITHIN_TOLERANCE = "matched within tolerance"
    UNCHANGED = "unchanged"
    REPLACED = "replaced later"
    ACKNOWLEDGED = "acknowledged"
    WAITING = "waiting to be sent"
    NOT_VERIFIABLE = "not verifiable"
    INVALID = "not sent: invalid"
    HELD = "not sent: held"
    REFUSED = "refused"
    UNKNOWN = "outcome unknown"
    VALUE_DIFFERENCE = "value difference"
    MISSING = "missing at exchange"
    STILL_LISTED = "still at exchange"
    LISTED_TWICE = "twice at exchange"
    ONLY_LISTED = "only at exchange"


MEANINGS: dict[Verdict, str] = {
    Verdict.MATCHED: "accepted, and the exchange shows it as sent",
    Verdict.WITHIN_TOLERANCE: "accepted; amounts differ by no more than the tolerance",
    Verdict.UNCHANGED: "the ledger has it already with the same content; not sent again",
    Verdict.REPLACED: "accepted; a later call for the same record took its place",
    Verdict.ACKNOWLEDGED: "accepted; the interface has no listing that could show it",
    Verdict.WAITING: "ready; the next run sends it",
    Verdict.NOT_VERIFIABLE: "accepted; the listing was not read or is incomplete, so absence proves nothing, or what was sent is not kept any more",
    Verdict.INVALID: "the sender has to fix it",
    Verdict.HELD: "it waits for its order or tender, or somebody has to decide first",
    Verdict.REFUSED: "the exchange said no",
    Verdict.UNKNOWN: "sent, but nobody knows what became of it; it is looked up, never sent again blindly",
    Verdict.VALUE_DIFFERENCE: "accepted, but the exchange shows other values",
    Verdict.MISSING: "accepted, but absent from the complete listing",
    Verdict.STILL_LISTED: "its deletion was accepted, but the listing still shows it",
    Verdict.LISTED_TWICE: "the listing shows more than one record of this key",
    Verdict.ONLY_LISTED: "the exchange has a record that was not accepted from here",
}

REMEDIES: dict[Verdict, str] = {
    Verdict.MISSING: "ask the exchange who removed it, and enter it there again; what was accepted is not sent twice from here",
    Verdict.VALUE_DIFFERENCE: "see the sheet Differences of reconciliation.xlsx; correct it at the exchange, or send an update",
    Verdict.STILL_LISTED: "ask the exchange why it is still there; `loadsheet report --ask` looks again",
    Verdict.LISTED_TWICE: "have the one that is too many removed at the exchange",
}
"""What to do about the verdicts that a listing alone shows, where no problem of the entry says it."""

IN_ORDER = (
    # told by the entry's state alone
    Verdict.INVALID,
    Verdict.HELD,
    Verdict.WAITING,
    Verdict.REFUSED,
    Verdict.UNKNOWN,
    # accepted or unchanged: what no listing can show, or need not show any more
    Verdict.ACKNOWLEDGED,
    Verdict.REPLACED,
    # what the listing says by key
    Verdict.LISTED_TWICE,
    Verdict.STILL_LISTED,
    Verdict.NOT_VERIFIABLE,
    Verdict.MISSING,
    # what it says by contents
    Verdict.VALUE_DIFFERENCE,
    Verdict.UNCHANGED,
    Verdict.WITHIN_TOLERANCE,
    Verdict.MATCHED,
)
"""All verdicts on entries in the order in which their rules are asked (`legs.by_rule`, then `settling`): the first that fits an entry is
its own, and the last fits what is left.
"""

AGREES = frozenset(
    {Verdict.MATCHED, Verdict.WITHIN_TOLERANCE, Verdict.UNCHANGED, Verdict.REPLACED, Verdict.ACKNOWLEDGED}
)
"""Verdicts on entries with which all is well."""

NEEDS_SOMEONE = frozenset(
    {
        Verdict.INVALID,
        Verdict.HELD,
        Verdict.REFUSED,
        Verdict.UNKNOWN,
        Verdict.VALUE_DIFFERENCE,
        Verdict.MISSING,
        Verdict.STILL_LISTED,
        Verdict.LISTED_TWICE,
    }
)
"""Verdicts on entries that wait for a person: a run that ends with one of them exits 1."""


class Match(NamedTuple):
    """The verdict on one entry. `state` is what the verdict and the fate of its rows come from: the entry's own, or that of the waiting entry
    that it repeats. `differences` are fields that the exchange shows otherwise, `tolerated` those that differ by
    no more than the tolerance.
    """

    entry: int
    operation: str
    state: State
    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    tolerated: tuple[Difference, ...] = ()


class OnlyListed(NamedTuple):
    """A record of the listing that was not accepted from here: what it is, and what the ledger knows about it."""

    subject: str
    key: str
    note: str


@dataclass(frozen=True, slots=True)
class Leg:
    """How much of the exchange's records of one subject were seen. `total` is what the exchange says it has; `reason` says why it was
    not all, `todo` what to do about it.
    """

    subject: str
    read: bool
    listed: int = 0
    total: int = 0
    complete: bool = False
    reason: str = ""
    todo: str = ""

    def __str__(self) -> str:
        """The leg in one sentence, such as `4,812 of 4,812 orders listed (complete)`."""
        if not self.read:
            return f"{self.subject}s were not listed: nothing at the exchange is verifiable"
        if self.complete:
            return f"{self.listed:,} of {self.total:,} {self.subject}s listed (complete)"
        why = f"{self.reason}; " if self.reason else ""
        return f'{self.listed:,} of {self.total:,} {self.subject}s listed (partial: {why}missing ones are "{Verdict.NOT_VERIFIABLE}")'
