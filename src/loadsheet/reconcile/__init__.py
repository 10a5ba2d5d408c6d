"""Stage 6: reconcile. Source, sent and listed, matched entry by entry, and the proof that every row is accounted for.

`settle` is the verb; `Reconciliation` is what it finds. Reads the ledger and the listings it is given; refuses to know how
listings are fetched, what reports look like, and what a source file is.
"""

from loadsheet.reconcile.balance import FATES, IGNORED, Balance, TableBalance
from loadsheet.reconcile.findings import Reconciliation
from loadsheet.reconcile.settling import settle
from loadsheet.reconcile.totals import Total
from loadsheet.reconcile.verdicts import (
    AGREES,
    MEANINGS,
    NEEDS_SOMEONE,
    Leg,
    Match,
    OnlyListed,
    Verdict,
)

__all__ = [
    "AGREES",
    "FATES",
    "IGNORED",
    "MEANINGS",
    "NEEDS_SOMEONE",
    "Balance",
    "Leg",
    "Match",
    "OnlyListed",
    "Reconciliation",
    "TableBalance",
    "Total",
    "Verdict",
    "settle",
]
