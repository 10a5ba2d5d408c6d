"""Stage 5: dispatch. Ready entries become calls, calls become outcomes, outcomes settle entries. The only stage that sends.

The way of a call: `lanes` (what may leave together) -> `sending` (the rolling window; intent first) -> `underway` (many calls
at once), `client`, `transport` and `connections` (one call) -> `outcomes` (what became of it) -> `settling` (what that means for each entry).
`pace` says how many, and when to stop, `gate` when each may leave, `leasing` what a fleet leaves to this process; `resolving`
learns what earlier calls did: `evidence` says what a listing shows, `protocol` what follows, and `parents` looks once more when
the calls are over.
"""

from loadsheet.dispatch.circuit_breaker import Stop
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.delivery import Delivered, deliver
from loadsheet.dispatch.forecast import Forecast
from loadsheet.dispatch.outcomes import Failure, Outcome, OutcomeKind, Reply, classify
from loadsheet.dispatch.sending import SendingReport, send
from loadsheet.dispatch.shared_rate import FleetPace
from loadsheet.dispatch.unknown_rules import Patience
from loadsheet.dispatch.verification import Listings, ResolvingReport, look, look_after, resolve_by, resolve_unknown

__all__ = [
    "Client",
    "Delivered",
    "Failure",
    "FleetPace",
    "Forecast",
    "Listings",
    "Outcome",
    "OutcomeKind",
    "Patience",
    "Reply",
    "ResolvingReport",
    "SendingReport",
    "Stop",
    "classify",
    "deliver",
    "look",
    "look_after",
    "resolve_by",
    "resolve_unknown",
    "send",
]
