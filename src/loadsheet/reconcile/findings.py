"""All that a reconciliation finds, as reports and exit codes need it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from loadsheet.contract import BY_NAME
from loadsheet.ledger import MissingRecords, State
from loadsheet.reconcile.balance import Balance
from loadsheet.reconcile.exceptions import Exceptions
from loadsheet.reconcile.fields import FieldMatch
from loadsheet.reconcile.kept_listings import Keeping
from loadsheet.reconcile.match_table import Matches
from loadsheet.reconcile.totals import RED, Share, Total
from loadsheet.reconcile.verdicts import NEEDS_SOMEONE, Leg, OnlyListed, Verdict

_SHOWN_BY_LISTINGS = frozenset(
    {
        Verdict.MATCHED,
        Verdict.WITHIN_TOLERANCE,
        Verdict.VALUE_DIFFERENCE,
        Verdict.UNCHANGED,
        Verdict.MISSING,
        Verdict.STILL_LISTED,
        Verdict.LISTED_TWICE,
        Verdict.NOT_VERIFIABLE,
    }
)


class Unverified(NamedTuple):
    """So many entries of `all` that a listing should show cannot be verified, because it was not whole."""

    leg: Leg
    entries: int
    all: int


@dataclass(frozen=True)
class Reconciliation:
    """All that a run's reconciliation found. `matches` holds one match for each entry, in the ledger's order."""

    matches: Matches
    only_listed: tuple[OnlyListed, ...]
    legs: tuple[Leg, ...]
    balance: Balance
    totals: tuple[Total, ...]
    exceptions: Exceptions = field(default_factory=Exceptions)
    fields: tuple[FieldMatch, ...] = ()
    shares: tuple[Share, ...] = ()
    seen: Keeping = field(default_factory=Keeping)

    @cached_property
    def verdicts(self) -> Counter[Verdict]:
        """How many entries have each verdict."""
        return self.matches.verdicts()

    @cached_property
    def states(self) -> Counter[State]:
        """How many entries are in each state."""
        return self.matches.states()

    @property
    def balances(self) -> bool:
        """Whether all rows read and all entries of the ledger are accounted for, each once."""
        return self.balance.balances and self.balance.entries == self.verdicts.total()

    @property
    def needs_someone(self) -> int:
        """How many entries wait for a person."""
        return sum(self.verdicts[verdict] for verdict in NEEDS_SOMEONE)

    @cached_property
    def unverified(self) -> tuple[Unverified, ...]:
        """What cannot be verified of each subject whose listing was read and is not whole."""
        totals, counts = Counter[str](), Counter[str]()
        for (operation, verdict), count in self.matches.of_operations().items():
            subject = BY_NAME[operation].subject
            totals[subject] += count if verdict in _SHOWN_BY_LISTINGS and BY_NAME[operation].proved_by else 0
            counts[subject] += count if verdict is Verdict.NOT_VERIFIABLE else 0
        partial = (leg for leg in self.legs if leg.read and not leg.complete and counts[leg.subject])
        return tuple(Unverified(leg, counts[leg.subject], totals[leg.subject]) for leg in partial)

    @property
    def red_totals(self) -> int:
        """How many control totals differ between their legs."""
        return sum(total.says in RED for total in self.totals)

    def as_seen(
        self,
        remarks: Sequence[str] = (),
        forecast: str = "",
        inbox: Mapping[str, Any] = MappingProxyType({}),
        missing_records: Mapping[int, MissingRecords] = MappingProxyType({}),
    ) -> bytes:
        """What the listings showed of the entries, packed for the ledger, with what else the run has to say (see `Recalled`)."""
        return self.seen.pack(
            self.legs, self.only_listed, remarks, forecast, inbox=inbox, missing_records=missing_records
        )

    def faults(self) -> Iterator[str]:
        """Why it does not balance, a sentence each; none if it does."""
        yield from self.balance.faults()
        if self.balance.entries != self.verdicts.total():
            yield f"{self.balance.entries} entries in the ledger, {self.verdicts.total()} verdicts"
