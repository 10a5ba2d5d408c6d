"""Stage 6: reconcile. Source, sent and listed, matched entry by entry, and the proof that every row is accounted for.

`settle` is the verb; `Reconciliation` is what it finds. Reads the ledger and the listings it is given; refuses to know how
listings are fetched, what reports look like, and what a source file is.
"""

from loadsheet.reconcile.balance import FATES, IGNORED, WORST_FIRST, Balance, TableBalance
from loadsheet.reconcile.entry_verdicts import Reconciliation, settle
from loadsheet.reconcile.exceptions import Exceptions
from loadsheet.reconcile.fields import FieldMatch, gap_of
from loadsheet.reconcile.listings import RecordedListings
from loadsheet.reconcile.totals import RED, Share, Total
from loadsheet.reconcile.verdicts import (
    AGREES,
    IN_ORDER,
    MEANINGS,
    NEEDS_SOMEONE,
    REMEDIES,
    Leg,
    Match,
    OnlyListed,
    Verdict,
)

__all__ = [
    "AGREES",
    "FATES",
    "IGNORED",
    "IN_ORDER",
    "MEANINGS",
    "NEEDS_SOMEONE",
    "RED",
    "REMEDIES",
    "WORST_FIRST",
    "Balance",
    "Exceptions",
    "FieldMatch",
    "Leg",
    "Match",
    "OnlyListed",
    "Reconciliation",
    "RecordedListings",
    "Share",
    "TableBalance",
    "Total",
    "Verdict",
    "gap_of",
    "settle",
]
