"""A watch runs when a file is due although none came: else nobody would find out that it is late."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest
from inbox_files import settings_in
from ledgers import ledger_in

from loadsheet.cli.watch import due_s
from loadsheet.inbox_watch import WakeEvents, Watch, WatchedRun, watch
from loadsheet.settings import Settings

FAST = {"settle_s": 0.1, "poll_s": 0.05, "rescan_s": 30}


def test_a_run_takes_place_when_a_file_is_due_and_then_when_the_next_is(tmp_path):
    place = settings_in(tmp_path, **FAST)
    began, ran, due = time.monotonic(), [], [0.3, 0.2, None]

    def run():
        ran.append(time.monotonic() - began)
        if len(ran) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return WatchedRun(0, None)

    with WakeEvents([place], print) as wake_events:
        watch([Watch(place, run, lambda: 0, print, due_s=lambda: due.pop(0))], wake_events)
    assert due == []
    assert ran[0] >= 0.3
    assert ran[1] - ran[0] >= 0.2


@pytest.mark.parametrize(("ago", "is_ahead"), [(timedelta(minutes=1), True), (timedelta(hours=24), False)])
def test_the_run_is_due_after_the_first_due_moment_since_the_last_look(tmp_path, ago, is_ahead):
    """At once, if a due moment passed while nobody watched."""
    due = datetime.now(UTC) + timedelta(hours=1)
    settings = Settings(expect=[{"files": "a*", "by": f"{due:%H:%M}", "days": "Mon-Sun", "timezone": "UTC"}])
    with ledger_in(tmp_path, lambda: datetime.now(UTC) - ago) as ledger:
        ledger.end_run(ledger.begin_run(), exit_code=0, summary={})
        seconds = due_s(settings, ledger)
        assert (seconds > 0) == is_ahead
        assert abs(seconds - (3_600 if is_ahead else 3_600 - 86_400)) <= 61
        assert due_s(Settings(), ledger) is None
