"""What the journal hears of calls: each answer, if anybody is curious, and what the exchange as a whole makes us do: another number of
calls at the same time, pauses, and their end.

Owns: what of that is news. Changes nothing, and costs the happy path two comparisons a call.
"""

import time
from datetime import UTC, datetime, timedelta

from loadsheet import run_log
from loadsheet.dispatch.calls_in_flight import FinishedCall
from loadsheet.dispatch.circuit_breaker import CircuitBreaker
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind

LONG_S = 60.0
"""A pause that the exchange asks for is told to the person who waits if it is at least so long."""


class CallLog:
    """Remembers what was told last of one pace."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._breaker = breaker
        self._limit = breaker.limit
        self._paused = False
        self._curious = run_log.curious()
        self._long_until = 0.0  # of the pause that was told last (monotonic seconds)

    def call(self, done: FinishedCall, outcome: Outcome) -> None:
        """A call is over, and the pace has taken note of it."""
        if self._curious:
            _tell(done, outcome)
        if self._breaker.limit != self._limit:
            self._tell_limit(self._breaker.limit)
        if outcome.wait_s >= LONG_S:
            self._tell_long()
        if outcome.log and outcome.kind is OutcomeKind.UNKNOWN:
            run_log.info("a call got no answer", key=done.call.keys[0], reason=outcome.reason, failure=outcome.log)
        missed = outcome.kind is OutcomeKind.NOT_SENT
        if missed or self._paused:
            self._tell_pause(outcome, missed=missed)

    def over(self) -> None:
        """Sending has ended."""
        run_log.figure("pace_connections", self._breaker.limit)

    def _tell_limit(self, limit: int) -> None:
        before, self._limit = self._limit, limit
        told = run_log.info if limit < before else run_log.debug
        told("pace changed", connections=limit, before=before)

    def _tell_long(self) -> None:
        """Tell the person who waits until when nothing happens, once for a pause."""
        wait_s = self._breaker.wait_s()
        until, before = time.monotonic() + wait_s, self._long_until
        if until >= before + LONG_S:
            self._long_until = until
            when = (datetime.now(UTC) + timedelta(seconds=wait_s)).astimezone()
            run_log.tell(f"the exchange asks for a pause until {when:%H:%M}")

    def _tell_pause(self, outcome: Outcome, *, missed: bool) -> None:
        if missed and not self._paused:
            self._paused = True
            pause_s, failure = self._breaker.wait_s(), outcome.log or None
            run_log.warning(
                "calls pause", reason=outcome.reason, status=outcome.status, pause_s=pause_s, failure=failure
            )
        elif not missed and outcome.status is not None:
            self._paused = False
            run_log.info("calls go on", status=outcome.status)


def _tell(done: FinishedCall, outcome: Outcome) -> None:
    keys = done.call.keys
    attempts = {submission.attempts + 1 for submission in done.call.submissions}
    run_log.called(
        done.call.operation.name,
        done.seconds,
        key=keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more",
        records=len(keys),
        attempt=max(attempts),
        outcome=str(outcome.kind),
        status=outcome.status,
        reason=outcome.reason,
    )
