"""The concurrency limit: how many calls may run at the same time without waiting at the exchange.

The limit moves like a TCP window (RFC 5681; Netflix's concurrency-limits applied it to calls). It starts small and doubles with every
round of calls while wire time stays the same. After that it grows slowly and shrinks in proportion to the growth of wire time. A 429, a
503 or a lost answer halves it; a failed connection sets it to 1.

Only wire time counts (`dispatch.connections`), the only part that the exchange causes. Delays in this process grow with every
concurrent call and with every other program on the machine. A limit based on them would shrink on a busy machine and
slow it down further. A call of unknown wire time is no evidence of growth, so the limit may grow after a round of such
calls.

`LastLimit` stores the limit in the ledger, per exchange, as the start of the next run. An unreadable limit is ignored.
"""

import contextlib
import math
import sys
from math import isqrt
from typing import Annotated

import msgspec

from loadsheet import run_log
from loadsheet.errors import LedgerGone, LedgerUnwritable, Superseded
from loadsheet.ledger import Ledger

TOLERANCE = 1.5  # the limit shrinks if wire time exceeds the best one times this
SLACK_S = 0.005  # added to it, for noise and group commits of the exchange
_ALONE = 2  # with this few calls, wire time does not depend on us, so the best is measured again
_SHRINK = 0.5  # a round keeps at least this share of the limit
_QUICK = 4  # a round is judged by its fastest quarter


class SettledLimit(msgspec.Struct, frozen=True):
    """The settled limit: concurrent calls, the best wire time in seconds (None: unknown), whether the limit ever shrank, and the documents
    that were finished in a second (0: unknown).
    """

    limit: Annotated[int, msgspec.Meta(ge=1)]
    wire_s: Annotated[float, msgspec.Meta(ge=0)] | None
    shrank: bool
    per_second: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Concurrency:
    """The limit of concurrent calls, from 1 to `most`. Report every call with `finished`, `setback` or `no_connection`."""

    def __init__(self, start: int, most: int) -> None:
        self.limit = min(start, most)
        self.settled: SettledLimit | None = None  # None: too few calls so far
        self._most = most
        self._best_s = math.inf  # unknown
        self._doubling_to = sys.maxsize  # the limit doubles below this
        self._calls = 0  # in this round
        self._round: list[float] = []  # their known wire times
        self._round_began = 0.0

    def resume(self, settled: SettledLimit) -> None:
        """Start from an earlier run's settled limit, if no call has been judged yet. The limit may grow beyond it."""
        if self.settled is None:
            self.limit = min(settled.limit, self._most)
            self._best_s = math.inf if settled.wire_s is None else settled.wire_s
            self._doubling_to = self.limit if settled.shrank else sys.maxsize

    def finished(self, wire_s: float | None, started: float, now: float, *, at_limit: bool) -> None:
        """Report an answered call. `wire_s` is its wire time (None: unknown). The limit grows only if it was reached (`at_limit`)."""
        if started < self._round_began:
            return  # it started under an earlier limit
        self._calls += 1
        if wire_s is not None:
            self._round.append(wire_s)
        if self._calls >= self.limit:
            self._judge(now, at_limit=at_limit)

    def setback(self, started: float, now: float) -> None:
        """Report a call to a busy exchange or without an answer. Concurrent calls count once."""
        if started >= self._round_began:
            self._shrink(max(1, self.limit // 2))
            self._begin_round(now)

    def no_connection(self, now: float) -> None:
        """Report a failed connection. The limit restarts at 1 and doubles up to half of its last value."""
        if self.limit > 1:
            self._doubling_to = max(2, self.limit // 2)
        self.limit = 1
        self._begin_round(now)

    def _judge(self, now: float, *, at_limit: bool) -> None:
        wire_s = sorted(self._round)[(len(self._round) - 1) // _QUICK] if self._round else 0.0
        if self._round:
            self._note_best(wire_s)
        tolerated = self._best_s * TOLERANCE + SLACK_S
        if wire_s > tolerated:
            self._shrink(max(1, int(self.limit * max(_SHRINK, tolerated / wire_s))))
        elif at_limit:
            self._grow()
        self._note_settled()
        self._begin_round(now)

    def _note_best(self, wire_s: float) -> None:
        if self.limit <= _ALONE and self._best_s < wire_s:
            self._best_s, self._doubling_to = wire_s, sys.maxsize
        self._best_s = min(wire_s, self._best_s)

    def _grow(self) -> None:
        quick = self.limit < self._doubling_to
        grown = min(self.limit * 2, self._doubling_to) if quick else self.limit + isqrt(self.limit)
        self.limit = min(grown, self._most)

    def _shrink(self, limit: int) -> None:
        self.limit = self._doubling_to = limit
        self._note_settled()

    def _note_settled(self) -> None:
        known = None if math.isinf(self._best_s) else self._best_s
        self.settled = SettledLimit(self.limit, known, self._doubling_to < sys.maxsize)

    def _begin_round(self, now: float) -> None:
        self._calls = 0
        self._round.clear()
        self._round_began = now


class LastLimit:
    """The stored concurrency limit of one exchange (its base URL)."""

    def __init__(self, ledger: Ledger, exchange: str) -> None:
        self._ledger, self._name = ledger, f"concurrency limit of {exchange}"

    def read(self) -> SettledLimit | None:
        """The stored limit; None if there is none or it cannot be used."""
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(self._ledger.queries.stored_value(self._name), type=SettledLimit)
        return None

    def keep(self, settled: SettledLimit | None, per_second: float = 0.0) -> None:
        """Store the limit and the rate (0: not measured, the last one stays) if they changed. If that fails, the next run needs a few more
        rounds.
        """
        before = self.read()
        if settled is None:
            return
        settled = msgspec.structs.replace(
            settled, per_second=round(per_second, 1) or (before.per_second if before else 0.0)
        )
        if settled == before:
            return
        try:
            self._ledger.store_value(self._name, msgspec.json.encode(settled).decode())
        except (LedgerGone, LedgerUnwritable, Superseded) as error:
            run_log.info("concurrency limit not kept", reason=str(error))
