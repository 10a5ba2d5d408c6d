"""Stage 5: dispatch. Ready entries become calls, calls become outcomes, outcomes settle entries. The only stage that sends.

The path of a call: `batching` (which entries share a call) -> `sending` (the window of concurrent calls; intent first)
-> `calls_in_flight` (concurrent calls), `client`, `transport`, `dispatch.connections` (one call) -> `outcomes`
(the result of a call) -> `settlement` (the result for each entry). `concurrency` limits concurrent calls,
`rate_limiter` limits calls per second, alone or in a fleet, and `circuit_breaker` pauses or stops.
`verification` finds out what calls without an answer did, by the rules of `unknown_rules`.
"""

from loadsheet.dispatch.circuit_breaker import StopReason
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.delivery import DeliveryResult, Forecast, deliver
from loadsheet.dispatch.outcomes import Failure, Outcome, OutcomeKind, Reply, classify
from loadsheet.dispatch.rate_limiter import SharedRate
from loadsheet.dispatch.sending import SendingReport, SendOptions, send
from loadsheet.dispatch.unknown_rules import UnknownTimer
from loadsheet.dispatch.verification import (
    Dispatcher,
    Listings,
    RunContext,
    VerificationReport,
    fetch_listings,
    verify_after_sending,
    verify_unknown,
    verify_with,
)

__all__ = [
    "Client",
    "DeliveryResult",
    "Dispatcher",
    "Failure",
    "Forecast",
    "Listings",
    "Outcome",
    "OutcomeKind",
    "Reply",
    "RunContext",
    "SendOptions",
    "SendingReport",
    "SharedRate",
    "StopReason",
    "UnknownTimer",
    "VerificationReport",
    "classify",
    "deliver",
    "fetch_listings",
    "send",
    "verify_after_sending",
    "verify_unknown",
    "verify_with",
]
