"""The fleet on the index page: whether anybody works, what waits, who took over. For one shipper's page, so of others it tells no more
than that there is other work.

Owns: what of the fleet a page tells, and that a page is written all the same while the fleet cannot be seen.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from loadsheet.ledger.codec import stamp
from loadsheet.problems import LedgerError
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.shared.overview import Fleet, Worker

WORKERS_SHOWN = 25
_TONES = {"lives": "good", "silent": "bad", "ended": "plain"}
_MINUTE_S = 60
_OTHERS = "other work"


class WorkerLine(NamedTuple):
    """A worker in a line; `tone` is the colour beside its state."""

    name: str
    state: str
    tone: str
    seen: str
    doing: str
    done: int


class FleetStatus(NamedTuple):
    """What is told: as of when (ISO 8601 UTC), how many workers live, some of them, what of this shipper waits and for how many minutes,
    and how often its ledger was taken over within a day.
    """

    at: str
    alive: int
    workers: Sequence[WorkerLine]
    more: int
    waiting: int
    under_way: int
    oldest_min: int
    takeovers: int


def fleet_status(settings: Settings) -> FleetStatus | None:
    """The fleet as this shipper's page tells it; None where the ledger is nobody else's, or the fleet cannot be seen."""
    if not settings.is_shared:
        return None
    from loadsheet.ledger.shared.overview import fleet_of  # noqa: PLC0415 (what speaks to PostgreSQL alone is loaded for it)

    try:
        fleet = fleet_of(settings)
    except LedgerError:
        return None
    return None if fleet is None else fleet_shown(fleet, settings.shipper)


def fleet_shown(fleet: "Fleet", shipper: str) -> FleetStatus:
    """What is told of a fleet on the page of this shipper (empty: the only one)."""
    queue = [one for one in fleet.queue if one.shipper == shipper]
    taken = [one for one in fleet.takeovers if one.shipper == shipper]
    return FleetStatus(
        stamp(fleet.at),
        fleet.alive,
        [_line(one, shipper) for one in fleet.workers[:WORKERS_SHOWN]],
        max(0, len(fleet.workers) - WORKERS_SHOWN),
        sum(one.waiting for one in queue),
        sum(one.under_way for one in queue),
        round(max((one.oldest_s for one in queue), default=0.0) / _MINUTE_S),
        len(taken),
    )


def _line(one: "Worker", shipper: str) -> WorkerLine:
    activities = {what if not shipper else _activity(what, shipper): None for what in one.doing}
    doing = ", ".join(activities) if one.alive else ""
    return WorkerLine(one.name, one.state, _TONES[one.state], stamp(one.seen), doing or "nothing", one.done)


def _activity(what: str, shipper: str) -> str:
    """What a worker does, as a page of this shipper may say it."""
    owner, _, more = what.partition(" ")
    return more if owner == shipper else _OTHERS
