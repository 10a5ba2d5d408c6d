"""Delivers the ready entries of a run: sends, verifies what others wait for, then sends what is released.

Decides the order of these steps and why a run stops delivering. `sending` makes the calls, `verification` reads the
listings.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from loadsheet import run_log
from loadsheet.contract import BY_NAME
from loadsheet.dispatch.circuit_breaker import StopReason
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.forecast import Forecast
from loadsheet.dispatch.rate_limiter import SharedRate
from loadsheet.dispatch.sending import Progress, SendingReport, send
from loadsheet.dispatch.unknown_rules import UnknownTimer
from loadsheet.dispatch.verification import Listings, verify_after_sending
from loadsheet.ledger import Ledger, Run
from loadsheet.problems import ExchangeUnreachable, LoadsheetError, TokenRefused
from loadsheet.settings import Settings

_ADDED = BY_NAME["order.create"].path


class DeliveryResult(NamedTuple):
    """The result of delivering: why it stopped early, if it did; the listings fetched after sending; the forecast for the
    rest; and whether a limit or a signal left entries ready (`limited`).
    """

    stopped: LoadsheetError | None
    seen: Listings
    forecast: Forecast | None = None
    limited: bool = False

    @property
    def left(self) -> str:
        """The forecast in words; empty if nothing is left."""
        return str(self.forecast) if self.forecast is not None and self.forecast.remaining else ""

    @property
    def late(self) -> str:
        """The forecast in words if `dispatch.finish_by` will be missed; else empty."""
        return "" if self.forecast is None or self.forecast.fits else self.left


def deliver(
    ledger: Ledger,
    client: Client,
    run: Run,
    settings: Settings,
    *,
    timer: UnknownTimer,
    updating: Collection[str] = (),
    progress: Progress | None = None,
    stopping: Sequence[int] | None = None,
    shared_rate: SharedRate | None = None,
) -> DeliveryResult:
    """Send ready entries, and hold those that still wait for an order or tender. `updating` names the mappings whose
    changed records are sent as updates. A caller that handles signals itself passes `stopping`, to which they are
    appended.

    Raises nothing for exchange failures (see `DeliveryResult.stopped`). Raises LedgerError.
    """

    def sending(most: int | None) -> SendingReport:
        return send(
            ledger, client, run, settings, most=most, progress=progress, stopping=stopping, shared_rate=shared_rate
        )

    ledger.release(run, orphans=settings.verification.parents == "send", updating=updating)
    most = settings.dispatch.run_entries_max or None
    sent, listings = sending(most), Listings()
    if sent.limited:  # the rest waits for the next run
        return DeliveryResult(None, listings, limited=True)
    if sent.interrupted:  # the process survived the signal: ready entries stay ready
        return DeliveryResult(None, listings, sent.forecast, limited=True)
    if sent.stopped is None:
        listings = verify_after_sending(ledger, client, run, settings, timer)
        ledger.release(run, updating=updating)
        if ledger.ready(1):  # children of listed records, or of a create whose answer was lost
            rest = None if most is None else most - sent.accepted - sent.refused - sent.unknown
            sent, listings = sending(rest), Listings()
            if sent.limited:
                return DeliveryResult(None, listings, limited=True)
    if sent.stopped is None:
        if held := ledger.hold_waiting(run):
            run_log.warning("entries held, waiting for their order or tender", count=held)
        return DeliveryResult(None, listings)  # the rest waits for a parent, so there is no forecast
    error = TokenRefused if sent.stopped is StopReason.TOKEN_REFUSED else ExchangeUnreachable
    return DeliveryResult(
        error(f"{sent.stopped} ({sent.why})", todo=_todo(sent.stopped, settings)), listings, sent.forecast
    )


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
