"""`loadsheet resolve` between a kill and the next run: what was being sent is said to be in doubt, also by the exit code."""

import json
import os
import socket
import sqlite3
from contextlib import closing

import pytest
from orders import order_id


@pytest.fixture
def killed(workspace):
    """A workspace whose last run looks as a kill leaves it: two orders are being sent, and it has no end."""
    workspace.write_orders(3, first=1)
    assert workspace.run().returncode == 0
    with closing(sqlite3.connect(workspace.state / "ledger.db")) as ledger, ledger:
        ledger.execute("update runs set finished_at = '', exit_code = null")
        for key in (order_id(1), order_id(2)):
            (entry,) = ledger.execute("select id from entries where key = ?", [key]).fetchone()
            ledger.execute("delete from events where entry_id = ? and after = 'accepted'", [entry])
            ledger.execute("update attempts set outcome = '' where entry_id = ?", [entry])
            ledger.execute("update entries set state = 'sending' where id = ?", [entry])
    return workspace


def test_what_a_killed_run_was_sending_is_in_doubt(killed):
    done = killed.command("resolve")
    assert done.returncode == 1
    assert done.stderr.startswith("2 are marked as being sent by run ")
    assert "which did not finish: `loadsheet run` verifies them" in done.stderr
    told = json.loads(killed.command("resolve", "--json").stdout)
    assert [(one["operation"], one["key"], one["state"]) for one in told] == [
        ("order.create", order_id(number), "sending") for number in (1, 2)
    ]
    assert all("verifies them" in one["now"] for one in told)
    of_one = killed.command("resolve", order_id(2), "--accepted", "--comment", "seen")
    assert of_one.returncode == 1
    assert "1 is marked as being sent by run" in of_one.stderr
    assert killed.command("resolve", order_id(3)).returncode == 0
    assert killed.run().returncode == 0
    after = killed.command("resolve")
    assert (after.returncode, after.stderr) == (0, "nothing is unknown\n")


def test_what_a_living_run_sends_is_no_doubt(killed):
    holder = f"process {os.getpid()} on {socket.gethostname()} since 2026-03-04T02:00:00.000Z"
    (killed.state / "ledger.db.holder").write_text(holder, encoding="utf-8")
    done = killed.command("resolve")
    assert done.returncode == 0
    assert done.stderr == f"2 are being sent now, by {holder}: try again when it has ended\n"
