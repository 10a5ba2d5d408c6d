"""More events than the system keeps, and the watch misses nothing."""

import shutil
import signal

import pytest
from orders import MAPPINGS, write_orders
from watch_process import watching

pytestmark = pytest.mark.sweep
EVENTS = 40_000  # the queue holds 16,384 unless somebody enlarged it


def test_what_comes_while_the_queue_of_events_overflows_is_found(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    with watching(tmp_path, LOADSHEET_WATCH__RESCAN_S="3600") as watch:
        watch.until(lambda: watch.says("watching"))
        watch.process.send_signal(signal.SIGSTOP)
        for number in range(EVENTS // 4):
            (inbox / f"{number}.tmp").write_bytes(b"x")
            (inbox / f"{number}.tmp").unlink()
        write_orders(inbox / "late", 3)  # of these the system can tell nothing any more
        watch.process.send_signal(signal.SIGCONT)
        watch.until(lambda: any("3 accepted" in line for line in watch.out))
        assert watch.stop() == 0
