"""Stage 5: dispatch. Ready entries become calls, calls become outcomes, outcomes settle entries. The only stage that sends.

`deliver` delivers the ready entries of a run: it sends, verifies what others wait for, then sends what is released. It decides why a run
stops delivering. `DeliveryForecast` estimates whether the rest is sent in time, from the recent rate.

The path of a call: `sending` (the window of concurrent calls; intent first)
-> `calls_in_flight` (which entries share a call, concurrent calls), `client`, `transport`, `connections` (one call) -> `outcomes`
(the result of a call) -> `settlement` (the result for each entry). `rate_limiter` limits calls per second, `shared_rate` those of a
fleet, and `circuit_breaker` limits concurrent calls, pauses or stops.
`verification` finds out what calls without an answer did, by the rules of `unknown_rules`.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple

from loadsheet import run_log
from loadsheet.contract import BY_NAME
from loadsheet.dispatch.circuit_breaker import StopReason
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind, classify
from loadsheet.dispatch.sending import Dispatcher, Progress, RunContext, SendingReport, SendOptions, send
from loadsheet.dispatch.unknown_rules import UnknownTimer
from loadsheet.dispatch.verification import (
    Listings,
    fetch_listings,
    verify_after_sending,
    verify_unknown,
    verify_with,
)
from loadsheet.display_text import count_of
from loadsheet.errors import ExchangeUnreachable, LoadsheetError, TokenRefused
from loadsheet.ledger import State
from loadsheet.settings import Settings

__all__ = [
    "Client",
    "DeliveryResult",
    "Dispatcher",
    "Listings",
    "Outcome",
    "OutcomeKind",
    "RunContext",
    "SendOptions",
    "SendingReport",
    "StopReason",
    "UnknownTimer",
    "classify",
    "deliver",
    "fetch_listings",
    "send",
    "verify_unknown",
    "verify_with",
]


_ADDED = BY_NAME["order.create"].path


@dataclass(frozen=True, slots=True)
class DeliveryForecast:
    """The number of entries left, the recent rate, and when the rest will be sent at that rate (None: unknown, because
    nothing was sent recently). `finish_by` is the deadline from `dispatch.finish_by`; None: not set.
    """

    remaining: int
    per_second: float
    ends_at: datetime | None
    finish_by: datetime | None = None

    @property
    def fits(self) -> bool:
        """Whether the rest will be sent by `dispatch.finish_by`."""
        if not self.remaining or self.finish_by is None:
            return True
        return self.ends_at is not None and self.ends_at <= self.finish_by

    def __str__(self) -> str:
        rate = f"{self.per_second:,.0f} a second" if self.per_second >= 1 else f"{self.per_second * 3600:,.0f} an hour"
        left = f"{count_of(self.remaining, 'document')} left"
        if self.ends_at is None:
            return f"{left}; none was finished recently, so the remaining time is unknown"
        text = f"{left} at {rate}: done at {self.ends_at.astimezone():%a %H:%M}"
        if self.finish_by is None:
            return text
        return f"{text}, {'in time for' if self.fits else 'too late for'} {self.finish_by.astimezone():%H:%M} (dispatch.finish_by)"


class DeliveryResult(NamedTuple):
    """The result of delivering: why it stopped early, if it did; the listings fetched after sending; the forecast for the
    rest; and whether a limit or a signal left entries ready (`limited`).
    """

    stopped: LoadsheetError | None
    seen: Listings
    forecast: DeliveryForecast | None = None
    limited: bool = False

    @property
    def left(self) -> str:
        """The forecast in words; empty if nothing is left."""
        return str(self.forecast) if self.forecast is not None and self.forecast.remaining else ""

    @property
    def late(self) -> str:
        """The forecast in words if `dispatch.finish_by` will be missed; else empty."""
        return "" if self.forecast is None or self.forecast.fits else self.left


@run_log.stage("sending")
def deliver(context: RunContext, progress: Progress | None = None) -> DeliveryResult:
    """Send ready entries, and hold those that still wait for an order or tender.

    Raises nothing for exchange failures (see `DeliveryResult.stopped`). Raises LedgerError.
    """
    settings, ledger, run, dispatcher, _, updating = context

    def sending(most: int | None) -> SendingReport:
        options = SendOptions(most, progress, dispatcher.stopping, dispatcher.shared_rate)
        return send(ledger, dispatcher.client, run, settings, options)

    def rest_of(sent: SendingReport) -> DeliveryForecast:
        left, now = ledger.queries.count_in(State.READY), datetime.fromisoformat(ledger.now())
        return forecast(left, sent.per_second, now, finish_by)

    finish_by = next_due(settings.dispatch.finish_by, datetime.fromisoformat(ledger.now()))
    ledger.release(run, orphans=settings.verification.parents == "send", updating=updating)
    most = settings.dispatch.run_entries_max or None
    sent, listings = sending(most), Listings()
    if sent.stopped is None and not sent.ended_early:
        try:
            listings = verify_after_sending(context, any_sent=sent.calls > 0)
        except (ExchangeUnreachable, TokenRefused) as away:  # what waits stays ready
            return DeliveryResult(away, listings, rest_of(sent))
        ledger.release(run, updating=updating)
        if ledger.ready(1):  # children of listed records, or of a create whose answer was lost
            rest = None if most is None else most - sent.accepted - sent.refused - sent.unknown
            sent, listings = sending(rest), Listings()
    if sent.ended_early:
        return DeliveryResult(None, listings, rest_of(sent) if sent.interrupted else None, limited=True)
    if sent.stopped is None:
        if held := ledger.hold_waiting(run):
            run_log.warning("entries held, waiting for their order or tender", count=held)
        return DeliveryResult(None, listings)  # the rest waits for a parent, so there is no forecast
    return DeliveryResult(_error(sent.stopped, sent.why, settings), listings, rest_of(sent))


def _error(stop: StopReason, why: str, settings: Settings) -> LoadsheetError:
    """The error of a run that stopped sending, with what to do."""
    error = TokenRefused if stop is StopReason.TOKEN_REFUSED else ExchangeUnreachable
    return error(f"{stop} ({why})", todo=_todo(stop, settings))


def _todo(stop: StopReason, settings: Settings) -> str:
    """What to do about the reason."""
    ready = "unsent documents stay ready"
    if stop is StopReason.TOKEN_REFUSED:
        return f"{ready}: set a valid token at its source (`loadsheet doctor` shows it), and run again"
    if stop is StopReason.PROXY_LOGIN_REFUSED:
        return f"{ready}: check user name and password in `dispatch.proxy` (or in HTTPS_PROXY), and run again"
    if stop is StopReason.NOT_SERVED:
        return f"{ready}: check `exchange` ({settings.exchange}), to which calls add {_ADDED}, and run again"
    return f"{ready}: run again"


def forecast(remaining: int, per_second: float, now: datetime, finish_by: datetime | None) -> DeliveryForecast:
    """The forecast for the `remaining` entries at `now`."""
    ends_at = None
    if not remaining:
        ends_at = now
    elif per_second:
        seconds = min(remaining / per_second, timedelta(days=3650).total_seconds())
        ends_at = now + timedelta(seconds=seconds)
    return DeliveryForecast(remaining, per_second, ends_at, finish_by)


def next_due(setting: str, now: datetime) -> datetime | None:
    """The next time at which the local time of day is `setting` (HH:MM); None if it is empty."""
    if not setting:
        return None
    local = now.astimezone()
    moment = datetime.combine(local.date(), time.fromisoformat(setting)).astimezone()
    if moment <= local:
        moment = datetime.combine(local.date() + timedelta(days=1), time.fromisoformat(setting)).astimezone()
    return moment
