"""How many calls may be under way at the same time: as many as the exchange serves without making them wait.

Owns: the limit and what moves it, as TCP finds its window (RFC 5681; Netflix's concurrency-limits brought it to calls). It starts
small and doubles with every round of calls while latency stays; then it grows slowly and shrinks by as much as latency has grown;
a setback (429, 503, no answer) halves it, a call that met nobody sets it to 1. Refuses to know what a call was about. Pure.
"""

from math import isqrt

TOLERANCE = 1.5  # latency may rise so far above the best seen before the limit stops growing
SLACK_S = 0.005  # and by so much in any case: below, it is the two machines' own noise and group commits
_ALONE = 2  # with so few calls under way latency is the exchange's own and not our doing: the best seen is seen anew
_SHRINK = 0.5  # a round takes away no more than this share
_QUICK = 4  # a round is judged by the quickest quarter of its calls: the others may have had to connect first


class Concurrency:
    """The limit on calls at the same time, between 1 and `most`. Give it every call with `finished` or `setback`."""

    def __init__(self, start: int, most: int) -> None:
        self.limit = min(start, most)
        self._most = most
        self._best_s = 0.0  # 0: nothing seen yet
        self._doubling_to = most  # below it the limit doubles
        self._round: list[float] = []
        self._round_began = 0.0

    def finished(self, seconds: float, started: float, now: float, *, in_full: bool) -> None:
        """A call that started at `started` took so long and was answered. `in_full` says that as many calls were under way as
        may be: else the limit was not what held them up, and it does not grow.
        """
        if started < self._round_began:
            return  # it left under an earlier limit
        self._round.append(seconds)
        if len(self._round) >= self.limit:
            self._judge(now, in_full=in_full)

    def setback(self, started: float, now: float) -> None:
        """A call that started at `started` found the exchange too busy, or got no answer. Calls that left together count once."""
        if started >= self._round_began:
            self._cut(max(1, self.limit // 2), now)

    def met_nobody(self, now: float) -> None:
        """Nobody is there. On return it starts with one call, and doubles up to half of what went well before."""
        if self.limit > 1:
            self._doubling_to = max(2, self.limit // 2)
        self.limit = 1
        self._begin_round(now)

    def _judge(self, now: float, *, in_full: bool) -> None:
        latency = sorted(self._round)[(len(self._round) - 1) // _QUICK]
        if self.limit <= _ALONE and latency > self._best_s:
            self._best_s, self._doubling_to = latency, self._most
        self._best_s = min(latency, self._best_s)
        tolerated = self._best_s * TOLERANCE + SLACK_S
        if latency > tolerated:
            self._cut(max(1, int(self.limit * max(_SHRINK, tolerated / latency))), now)
            return
        if in_full:
            quick = self.limit < self._doubling_to
            grown = min(self.limit * 2, self._doubling_to) if quick else self.limit + isqrt(self.limit)
            self.limit = min(grown, self._most)
        self._begin_round(now)

    def _cut(self, limit: int, now: float) -> None:
        self.limit = self._doubling_to = limit
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._round.clear()
        self._round_began = now
