"""Logs calls: each answer at debug level, and what changes for all calls: the concurrency limit, pauses, and their end.

Changes nothing. Costs two comparisons per call when all goes well.
"""

import time
from datetime import UTC, datetime, timedelta

from loadsheet import run_log
from loadsheet.dispatch.calls_in_flight import FinishedCall
from loadsheet.dispatch.circuit_breaker import CircuitBreaker
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind

LONG_S = 60.0
"""The shortest pause requested by the exchange that is shown to the user."""


class CallLog:
    """Logs the calls of one circuit breaker and remembers what it logged last."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._breaker = breaker
        self._limit = breaker.limit
        self._paused = False
        self._logs_answers = run_log.wants_calls()
        self._long_until = 0.0  # end of the last pause shown (monotonic seconds)

    def log(self, done: FinishedCall, outcome: Outcome) -> None:
        """Log a finished call; the circuit breaker has already taken in its outcome."""
        if self._logs_answers:
            _log_answer(done, outcome)
        if self._breaker.limit != self._limit:
            self._log_limit(self._breaker.limit)
        if outcome.wait_s >= LONG_S:
            self._show_pause()
        if outcome.log and outcome.kind is OutcomeKind.UNKNOWN:
            run_log.info("a call got no answer", key=done.call.keys[0], reason=outcome.reason, failure=outcome.log)
        not_sent = outcome.kind is OutcomeKind.NOT_SENT
        if not_sent or self._paused:
            self._log_pause(outcome, not_sent=not_sent)

    def close(self) -> None:
        """Log the concurrency limit when sending ends."""
        run_log.figure("pace_connections", self._breaker.limit)

    def _log_limit(self, limit: int) -> None:
        before, self._limit = self._limit, limit
        log = run_log.info if limit < before else run_log.debug
        log("pace changed", connections=limit, before=before)

    def _show_pause(self) -> None:
        """Show the user when the pause ends, once per pause."""
        wait_s = self._breaker.wait_s()
        until, before = time.monotonic() + wait_s, self._long_until
        if until >= before + LONG_S:
            self._long_until = until
            when = (datetime.now(UTC) + timedelta(seconds=wait_s)).astimezone()
            run_log.print_notice(f"the exchange asks for a pause until {when:%H:%M}")

    def _log_pause(self, outcome: Outcome, *, not_sent: bool) -> None:
        if not_sent and not self._paused:
            self._paused = True
            pause_s, failure = self._breaker.wait_s(), outcome.log or None
            run_log.warning(
                "calls pause", reason=outcome.reason, status=outcome.status, pause_s=pause_s, failure=failure
            )
        elif not not_sent and outcome.status is not None:
            self._paused = False
            run_log.info("calls go on", status=outcome.status)


def _log_answer(done: FinishedCall, outcome: Outcome) -> None:
    keys = done.call.keys
    attempts = {submission.attempts + 1 for submission in done.call.submissions}
    run_log.call(
        done.call.operation.name,
        done.seconds,
        key=keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more",
        records=len(keys),
        attempt=max(attempts),
        outcome=str(outcome.kind),
        status=outcome.status,
        reason=outcome.reason,
    )
