"""Stage 5: dispatch. Ready entries become calls, calls become outcomes, outcomes settle entries. The only stage that sends.

`deliver` delivers the ready entries of a run: it sends, verifies what others wait for, then sends what is released. It decides why a run
stops delivering. `RemainingTime` estimates whether the rest is sent in time, from the recent rate.

The path of a call: `sending` (the window of concurrent calls; intent first)
-> `calls_in_flight` (which entries share a call, concurrent calls), `client`, `transport`, `connections` (one call) -> `outcomes`
(the result of a call) -> `settlement` (the result for each entry). `rate_limiter` limits calls per second, `shared_rate` those of a
cluster, and `circuit_breaker` limits concurrent calls, pauses or stops.
After that the ledger draws the consequences for other entries (`ledger.waiting`). `verification` finds out what calls without an
answer did, by the rules of `unknown_rules`.
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
class RemainingTime:
    """The number of entries left, the recent rate, and when the rest will be sent at that rate (None: unknown, because
    nothing was sent recently). `finish_by` is the deadline from `dispatch.finish_by`; None: not set.
    """

    entries: int
    per_second: float
    ends_at: datetime | None
    finish_by: datetime | None = None

    @property
    def fits(self) -> bool:
        """Whether the rest will be sent by `dispatch.finish_by`."""
        if not self.entries or self.finish_by is None:
            return True
        return self.ends_at is not None and self.ends_at <= self.finish_by

    def __str__(self) -> str:
        rate = f"{self.per_second:,.0f} a second" if self.per_second >= 1 else f"{self.per_second * 3600:,.0f} an hour"
        left = f"{count_of(self.entries, 'document')} left"
        if self.ends_at is None:
            return f"{left}; none was finished recently, so the remaining time is unknown"
        text = f"{left} at {rate}: done at {self.ends_at.astimezone():%a %H:%M}"
        if self.finish_by is None:
            return text
        return f"{text}, {'in time for' if self.fits else 'too late for'} {self.finish_by.astimezone():%H:%M} (dispatch.finish_by)"


class DeliveryResult(NamedTuple):
    """The result of delivering: why it stopped, if it did; the listings fetched after sending; the time that the rest needs; and whether a
    limit or a signal left entries ready (`ended_early`).
    """

    stopped: LoadsheetError | None
    seen: Listings
    remaining: RemainingTime | None = None
    ended_early: bool = False

    @property
    def remaining_text(self) -> str:
        """The remaining time in words; empty if nothing is left."""
        return str(self.remaining) if self.remaining is not None and self.remaining.entries else ""

    @property
    def late(self) -> str:
        """The remaining time in words if `dispatch.finish_by` will be missed; else empty."""
        return "" if self.remaining is None or self.remaining.fits else self.remaining_text


@run_log.stage("sending")
def deliver(context: RunContext, progress: Progress | None = None) -> DeliveryResult:
    """Send ready entries, verify what others wait for, send what that released, and hold what still waits for its order or tender.

    Raises nothing for exchange failures (see `DeliveryResult.stopped`). Raises LedgerError.
    """
    settings, ledger, run, _, _, updating = context
    delivery = _Delivery(context, progress)
    ledger.release(run, orphans=settings.verification.parents == "send", updating=updating)
    limit = settings.dispatch.run_entries_max or None
    sent, listings = delivery.send(limit), Listings()
    if sent.stopped is None and not sent.ended_early:
        try:
            listings = verify_after_sending(context, any_sent=sent.calls > 0)
        except (ExchangeUnreachable, TokenRefused) as away:  # what waits stays ready
            return DeliveryResult(away, listings, delivery.remaining(sent))
        ledger.release(run, updating=updating)
        if ledger.ready(1):  # children of listed records, or of a create whose answer was lost
            rest = None if limit is None else limit - sent.accepted - sent.refused - sent.unknown
            sent, listings = delivery.send(rest), Listings()  # what was listed is out of date now
    if sent.ended_early:
        return DeliveryResult(None, listings, delivery.remaining(sent) if sent.interrupted else None, ended_early=True)
    if sent.stopped is None:
        if held := ledger.hold_waiting(run):
            run_log.warning("entries held, waiting for their order or tender", count=held)
        return DeliveryResult(None, listings)  # the rest waits for a parent, so nobody knows when it will be sent
    return DeliveryResult(_error(sent.stopped, sent.why, settings), listings, delivery.remaining(sent))


class _Delivery:
    """Sends the ready entries of a run, as often as there are any."""

    def __init__(self, context: RunContext, progress: Progress | None) -> None:
        self._context, self._progress = context, progress
        self._finish_by = next_time_of_day(context.settings.dispatch.finish_by, self._now())

    def send(self, limit: int | None) -> SendingReport:
        """Send ready entries, at most `limit`."""
        settings, ledger, run, dispatcher, _, _ = self._context
        options = SendOptions(limit, self._progress, dispatcher.stopping, dispatcher.shared_rate)
        return send(ledger, dispatcher.client, run, settings, options)

    def remaining(self, sent: SendingReport) -> RemainingTime:
        """The time that the ready entries need, by the rate of the last ones."""
        ready = self._context.ledger.queries.count_in(State.READY)
        return remaining_time(ready, sent.per_second, self._now(), self._finish_by)

    def _now(self) -> datetime:
        return datetime.fromisoformat(self._context.ledger.now())


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


def remaining_time(remaining: int, per_second: float, now: datetime, finish_by: datetime | None) -> RemainingTime:
    """The time that these ready entries need from `now` on."""
    ends_at = None
    if not remaining:
        ends_at = now
    elif per_second:
        seconds = min(remaining / per_second, timedelta(days=3650).total_seconds())
        ends_at = now + timedelta(seconds=seconds)
    return RemainingTime(remaining, per_second, ends_at, finish_by)


def next_time_of_day(setting: str, now: datetime) -> datetime | None:
    """The next time at which the local time of day is `setting` (HH:MM); None if it is empty."""
    if not setting:
        return None
    local = now.astimezone()
    moment = datetime.combine(local.date(), time.fromisoformat(setting)).astimezone()
    if moment <= local:
        moment = datetime.combine(local.date() + timedelta(days=1), time.fromisoformat(setting)).astimezone()
    return moment
