"""Memory runs out while the ledger records: what was told as recorded is there, and nothing else."""

import subprocess
import sys
from collections import Counter

import ready_entries

from loadsheet.ledger import open_ledger

PROGRAM = """
import os, sqlite3, sys
from contextlib import suppress
sys.path[:0] = {path!r}
from loadsheet.ledger import Settlement, State, open_ledger
from loadsheet.errors import LedgerError

other = sqlite3.connect(":memory:")  # the limit is the whole process's, and can only be lowered
with open_ledger("sqlite:///{file}") as ledger:
    run, limit = ledger.begin_run(), 4_000_000
    while True:
        limit = limit * 49 // 50
        with suppress(MemoryError):
            other.execute(f"pragma hard_heap_limit={{limit}}").fetchall()
        try:
            some = ledger.ready(20)
            ledger.mark_sending(run, [((one,), one.payload) for one in some])
            print("sending", len(some), flush=True)
            ledger.settle(run, [Settlement(one.id, State.ACCEPTED, "", outcome="accepted", status=200) for one in some])
            print("accepted", len(some), flush=True)
        except (LedgerError, MemoryError) as error:
            print("ended", error, flush=True)
            os._exit(3)
"""


def test_what_no_memory_was_left_for_is_not_half_recorded(tmp_path):
    file = tmp_path / "ledger.db"
    with open_ledger(f"sqlite:///{file}") as ledger:
        _, drop = ready_entries.new_orders(ledger, 1_000)
    program = PROGRAM.format(path=sys.path, file=file)
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    *recorded, last = child.stdout.splitlines()
    counts = Counter({"sending": 0, "accepted": 0})
    for word, count in map(str.split, recorded):
        counts[word] += int(count)
    assert last.startswith("ended"), child.stderr
    assert "out of memory" in last
    assert counts["accepted"] > 0
    with open_ledger(f"sqlite:///{file}") as ledger:
        states = Counter(ready_entries.states(ledger, drop))
        assert ledger.check() == []
    assert states["accepted"] == counts["accepted"]
    assert states["sending"] == counts["sending"] - counts["accepted"]
    assert states.total() == 1_000
