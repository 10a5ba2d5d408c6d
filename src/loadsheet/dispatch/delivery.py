"""Ready entries to settled ones, as far as one run gets: send, look at what something waits for, send what that lets go.

Owns: the order of the two, and why a run's delivering ended. How calls are sent stands in `sending`, what is looked at in `parents`.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from loadsheet import run_log
from loadsheet.contract import BY_NAME
from loadsheet.dispatch.circuit_breaker import StopReason
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.forecast import Forecast
from loadsheet.dispatch.sending import Progress, SendingReport, send
from loadsheet.dispatch.shared_rate import SharedRate
from loadsheet.dispatch.unknown_rules import UnknownTimer
from loadsheet.dispatch.verification import Listings, verify_after_sending
from loadsheet.ledger import Ledger, Run
from loadsheet.problems import ExchangeUnreachable, LoadsheetError, TokenRefused
from loadsheet.settings import Settings

_ADDED = BY_NAME["order.create"].path


class DeliveryResult(NamedTuple):
    """What delivering came to: why it ended before everything was sent, if it did, the listings that were looked at since, if it
    ended early what is left to send, and whether a limit or a signal left records ready on purpose.
    """

    stopped: LoadsheetError | None
    seen: Listings
    forecast: Forecast | None = None
    limited: bool = False

    @property
    def left(self) -> str:
        """What is left to send and when that would be done, in words; empty if nothing is."""
        return str(self.forecast) if self.forecast is not None and self.forecast.remaining else ""

    @property
    def late(self) -> str:
        """The same, if it does not fit the night."""
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
    """Send what may be sent, and hold what still waits then. `updating` names the mappings whose changed records go out as updates;
    whoever handles signals himself passes `stopping`, which is filled when one asks to stop. `shared_rate` is shared with others who send.

    What the exchange does ends in `DeliveryResult.stopped`, never in an exception. LedgerError goes through.
    """

    def sending(most: int | None) -> SendingReport:
        return send(
            ledger, client, run, settings, most=most, progress=progress, stopping=stopping, shared_rate=shared_rate
        )

    ledger.release(run, orphans=settings.parents == "send", updating=updating)
    most = settings.run_entries_max or None
    sent, seen = sending(most), Listings()
    if sent.limited:  # nothing waits for anything but the next run
        return DeliveryResult(None, seen, limited=True)
    if sent.interrupted:  # whoever runs us survived the signal: what is ready stays so
        return DeliveryResult(None, seen, sent.forecast, limited=True)
    if sent.stopped is None:
        seen = verify_after_sending(ledger, client, run, settings, timer)
        ledger.release(run, updating=updating)
        if ledger.ready(1):  # children of what the listing showed, or of a create whose answer was lost
            rest = None if most is None else most - sent.accepted - sent.refused - sent.unknown
            sent, seen = sending(rest), Listings()
            if sent.limited:
                return DeliveryResult(None, seen, limited=True)
    if sent.stopped is None:
        if held := ledger.hold_waiting(run):
            run_log.warning("entries held, waiting for their order or tender", count=held)
        return DeliveryResult(None, seen)  # what is not sent waits for something, and no rate says for how long
    error = TokenRefused if sent.stopped is StopReason.TOKEN_REFUSED else ExchangeUnreachable
    return DeliveryResult(
        error(f"{sent.stopped} ({sent.why})", todo=_todo(sent.stopped, settings)), seen, sent.forecast
    )


def _todo(stop: StopReason, settings: Settings) -> str:
    """What to do about what ended the sending."""
    ready = "what was not sent is still ready"
    if stop is StopReason.TOKEN_REFUSED:
        return f"{ready}: put a valid token where this one came from (`loadsheet doctor` says where), and run again"
    if stop is StopReason.NOT_SERVED:
        return f"{ready}: check `exchange` ({settings.exchange}), to which calls add {_ADDED}, and run again"
    return f"{ready}, run again"
