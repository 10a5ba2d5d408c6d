"""The one pace of a fleet, as a rule: how much of a rate and of connections each process may use, for how long, and what the exchange's
protest changes for all. Pure: the tables stand in `paces`, the moments that it is given are the database's.

Owns: that what processes may use never adds up to more than there is. A process that is given less than it had still counts with what
it had until it asks again and says that it knows: its answer may be under way, or lost. Rates are whole calls a second, because calls
that leave at a whole, even rate are as many in every second, wherever it begins.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

TERM_S = 1.5
"""So long a lease lasts."""
UNLIMITED = 1_000_000
"""Calls a second where no limit is set."""
TURN_S = 10.0
"""Where there is less than one for each, those whose turn it is have it for so long."""
REGROWTH = 0.05
"""So much of the whole pace comes back in a second, after a setback and the pause that went with it."""
LEAST_SHARE = 1 / 64


class Ask(NamedTuple):
    """What a process asks for: calls a second and connections that it could use (0: it has nothing to send), connections that calls of it
    are on now, and the number of the lease that it has in hand (0: none).
    """

    per_second: int
    connections: int
    using: int = 0
    holding: int = 0


class Lease(NamedTuple):
    """What a process may use: calls a second and connections, until a moment of the database's clock, `lasts_s` after it was given.

    `paused_s` is how long nothing may leave at all; `share` is what is left to all of the pace that is set, after protests of the exchange;
    `short` says that it is less than his part, because others have not let go of it yet.
    """

    number: int
    per_second: int
    connections: int
    until: float
    lasts_s: float
    paused_s: float
    share: float
    short: bool = False


class Terms(NamedTuple):
    """A pace as it is recorded: what is set (a rate of 0: no limit), and what the exchange's protests left of it at `setback_at`."""

    per_second: int
    connections: int
    share: float = 1.0
    paused_until: float = 0.0
    setback_at: float = 0.0

    def share_at(self, now: float) -> float:
        """What is left of it to all."""
        calm = max(0.0, now - max(self.setback_at, self.paused_until))
        return min(1.0, self.share + calm * REGROWTH)

    def whole(self, now: float) -> tuple[int, int]:
        """Calls a second and connections that all have together."""
        share = self.share_at(now)
        return max(1, int((self.per_second or UNLIMITED) * share)), max(1, int(self.connections * share))

    def setback(self, left_at: float, pause_s: float, now: float) -> "Terms":
        """After the exchange protested against a call that left at that moment, and asked for a pause. Calls that left before the last
        setback was known cut nothing again.
        """
        paused_until = max(self.paused_until, now + pause_s)
        if left_at <= self.setback_at:
            return self._replace(paused_until=paused_until)
        return self._replace(share=max(LEAST_SHARE, self.share_at(now) / 2), paused_until=paused_until, setback_at=now)


class Standing(NamedTuple):
    """How one process stands to a pace: what it wanted and was given last, and, `charged`, what it may be using until then."""

    worker: str
    number: int
    wanted: int
    wanted_connections: int
    per_second: int
    connections: int
    charged: int
    charged_connections: int
    until: float


def grant(terms: Terms, standings: Sequence[Standing], worker: str, ask: Ask, now: float) -> tuple[Standing, bool]:
    """How `worker` stands after it asked, and whether that is less than its part; `standings` are all of the pace, its own included."""
    mine = next((one for one in standings if one.worker == worker and one.until > now), None)
    others = [one for one in standings if one.worker != worker and one.until > now]
    rate, connections = terms.whole(now)
    asking = {one.worker: (one.wanted, one.wanted_connections) for one in others}
    asking[worker] = (ask.per_second, ask.connections)
    wanting = sorted(name for name, wants in asking.items() if min(wants) > 0)
    serving = _having_turn(wanting, min(rate, connections), int(now / TURN_S))
    fair = _fair(rate, {name: asking[name][0] for name in serving}).get(worker, 0)
    fair_connections = _fair(connections, {name: asking[name][1] for name in serving}).get(worker, 0)
    given = max(0, min(fair, rate - sum(one.charged for one in others)))
    given_connections = max(0, min(fair_connections, connections - sum(one.charged_connections for one in others)))
    had, had_connections = _in_hand(mine, ask)
    stands = Standing(
        worker,
        number=(mine.number if mine else ask.holding) + 1,
        wanted=ask.per_second,
        wanted_connections=ask.connections,
        per_second=given,
        connections=given_connections,
        charged=max(given, had),
        charged_connections=max(given_connections, had_connections, ask.using),
        until=now + TERM_S,
    )
    return stands, given < fair or given_connections < fair_connections


def _in_hand(mine: Standing | None, ask: Ask) -> tuple[int, int]:
    """What the one who asks may be using still: his last lease, or, if that never reached him, the larger of it and the one before."""
    if mine is None or not ask.connections:  # who wants nothing has stopped before he says so
        return 0, 0
    if mine.number == ask.holding:
        return mine.per_second, mine.connections
    return mine.charged, mine.charged_connections


def _having_turn(names: Sequence[str], places: int, turn: int) -> Sequence[str]:
    """Those whose turn it is, where there are fewer places than names."""
    if len(names) <= places:
        return names
    first = turn * places % len(names)
    return [*names, *names][first : first + places]


def _fair(whole: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide it so that nobody could have more without taking it from somebody who has less."""
    found, left = {}, whole
    for done, (name, want) in enumerate(sorted(wanted.items(), key=lambda one: (one[1], one[0]))):
        found[name] = min(want, left // (len(wanted) - done))
        left -= found[name]
    return found
