"""`loadsheet watch` as an operator meets it: a real process, real files, real signals."""

import json
import shutil
import signal
import socket
import subprocess
from collections import Counter

import pytest
from command_processes import NO_EVENTS
from exchange_process import exchange
from faulty_exchange import misbehaving
from orders import write_orders
from watch_process import watching


def states(house):
    """State and attempts of each key's last entry that is more than a repetition."""
    found = house.ask("select key, state, attempts from entries where state != 'unchanged'")
    return {key: (state, attempts) for key, state, attempts in found}


def counted(house):
    return Counter(state for state, _ in states(house).values())


def accepted(house):
    return counted(house)["accepted"]


def test_a_watch_takes_files_as_they_come_and_a_wrong_mapping_ends_it(workspace):
    workspace.write_orders(3)
    with watching(workspace, LOADSHEET_ARRIVAL__COMPANION_WAIT_S="1") as watch:
        watch.until(lambda: len(watch.out) == 1)
        for command in ("run", "watch"):
            beside = workspace.command(command)
            assert (beside.returncode, f"process {watch.process.pid} " in beside.stderr) == (75, True)
        workspace.write_orders(4, first=10, wrong_every=11)
        watch.until(lambda: len(watch.out) == 2)
        write_orders(workspace / "coming", 3, first=20)
        (workspace / "coming" / "orders.csv").rename(workspace.inbox / "orders.csv")
        watch.until(lambda: watch.says("orders.csv waits for its companion packages.csv"))
        watch.until(lambda: watch.says("orders.csv has waited 0 hours for its companion packages.csv"))
        (workspace / "coming" / "packages.csv").rename(workspace.inbox / "packages.csv")
        watch.until(lambda: accepted(workspace) == 9)
        workspace.write_orders(3)
        watch.until(lambda: watch.says("orders.csv has the same bytes as 2"))
        watch.until(lambda: "3 unchanged" in watch.out[-1])
        workspace.edit("mappings/bench-join.yaml", "delivery_city:", "delivery_ciy:")
        workspace.write_orders(3, first=30)
        assert watch.ended() == 78
        said = watch.out
    assert "2 files, 3 accepted; exit code 0" in said[0]
    assert all(text in said[1] for text in ("2 files, ", "3 accepted", "1 invalid", "exit code 1")), said
    assert len(workspace.reports()) == len(said)
    assert (workspace.inbox / "orders.csv").exists()
    assert workspace.command("watch").returncode == 78


def slow(first):
    """Some calls of which each takes long enough for a signal to come between them."""
    fault = "slow_effect"
    return {"fault": fault, "operation": "order.create", "at": range(first, first + 16), "seconds": 0.15}


@pytest.mark.journey
def test_a_watch_that_is_killed_or_stopped_while_it_works_goes_on_where_it_was(workspace, tmp_path):
    with misbehaving(tmp_path, slow(6), slow(50), slow(90)) as served:
        words = ("--exchange", served.url)
        with watching(workspace, *words) as watch:
            workspace.write_orders(40)
            watch.until(lambda: accepted(workspace) >= 5)
            assert watch.stop(signal.SIGKILL) == -signal.SIGKILL
        assert counted(workspace)["ready"] > 0, "it was in the middle"
        workspace.write_orders(5, first=1000)
        with watching(workspace, *words) as watch:
            watch.until(lambda: len(states(workspace)) == 45)
            watch.until(lambda: counted(workspace).keys() <= {"accepted", "unknown"})
            assert {attempts for _, attempts in states(workspace).values()} == {1}
            assert not list((workspace.state / "work").rglob("*.csv"))
            assert not list(workspace.inbox.glob("*.csv"))
            doubts = counted(workspace)["unknown"]
            workspace.write_orders(40, first=2000)
            watch.until(lambda: accepted(workspace) >= 52)
            assert watch.stop() == 0
        left = counted(workspace)
        assert left.keys() <= {"accepted", "ready", "unknown"}
        assert left["ready"] > 0, "it was in the middle"
        assert left["unknown"] <= doubts, "the calls under way ended"
        with watching(workspace, *words) as watch:
            watch.until(lambda: counted(workspace)["ready"] == 0)
            workspace.write_orders(120, first=3000)
            watch.until(lambda: not list(workspace.inbox.glob("*.csv")))  # claimed: they are read now
            assert watch.stop() == 0
        found = counted(workspace)
        assert found.total() in (85, 205)
        assert found["accepted"] < 205, "the signal came before the first of them left, and all left"
        with watching(workspace, *words) as watch:
            watch.until(lambda: accepted(workspace) + counted(workspace)["unknown"] == 205)
            assert watch.stop() == 0
        sent = Counter(line["key"] for line in served.happened())
    assert max(sent.values()) == 1


def test_an_exchange_that_is_away_is_waited_for_and_a_refused_token_ends_the_watch(workspace, tmp_path):
    with socket.socket() as reserved:
        # to the end, so that nobody else gets the port: who does not listen refuses connections
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with watching(
            workspace, "--exchange", f"http://127.0.0.1:{port}", LOADSHEET_DISPATCH__UNREACHABLE_MAX="2"
        ) as watch:
            workspace.write_orders(3)
            watch.until(lambda: watch.says("next attempt in"))
            assert counted(workspace).keys() == {"ready"}
            with exchange(tmp_path / "exchange.db", port=port):
                watch.until(lambda: accepted(workspace) == 3)
            with exchange(tmp_path / "another.db", token="another", port=port):
                workspace.write_orders(3, first=10)
                assert watch.ended() == 77


def test_an_inbox_that_is_not_what_it_was_is_refused_by_run_and_waited_for_by_watch(workspace):
    """Machines read one line of JSON a run, and no run of nothing is told."""
    assert workspace.run().returncode == 0
    workspace.inbox.rename(workspace / "mounted")
    workspace.inbox.mkdir()
    done = workspace.run()
    assert (done.returncode, "Check that it is mounted" in done.stderr) == (75, True)
    before = len(workspace.reports())
    with watching(workspace, "--json") as watch:
        watch.until(lambda: watch.says("Check that it is mounted"))
        workspace.inbox.rmdir()
        (workspace / "mounted").rename(workspace.inbox)
        workspace.write_orders(3)
        watch.until(lambda: len(watch.out) == 1)
        assert watch.stop(signal.SIGINT) == 130
        (line,), said = watch.out, watch.err
    told = json.loads(line)
    assert (told["entries"], told["balance"]["balances"]) == ({"accepted": 3}, True)
    assert said[-1] == "stopped; the next start continues"
    assert len(workspace.reports()) == before + 1


def test_where_the_system_gives_no_events_the_watch_polls_and_says_so_once(workspace):
    probe = ["unshare", "--user", "--map-root-user", "sh", "-c", "echo 0 > /proc/sys/user/max_inotify_watches"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody lower the limit for one process")
    with watching(workspace, **{NO_EVENTS: "yes"}) as watch:
        watch.until(lambda: watch.says("file events are not available (inotify watch limit reached"))
        for many, first in ((3, 0), (6, 10)):
            workspace.write_orders(3, first=first)
            watch.until(lambda many=many: accepted(workspace) == many)
        assert watch.stop() == 0
        assert sum("file events are not available" in line for line in watch.err) == 1


EVENTS = 40_000  # the queue holds 16,384 unless somebody enlarged it


@pytest.mark.sweep
def test_what_comes_while_the_queue_of_events_overflows_is_found(workspace):
    with watching(workspace, LOADSHEET_WATCH__RESCAN_S="3600") as watch:
        watch.until(lambda: watch.says("watching"))
        watch.process.send_signal(signal.SIGSTOP)
        for number in range(EVENTS // 4):
            (workspace.inbox / f"{number}.tmp").write_bytes(b"x")
            (workspace.inbox / f"{number}.tmp").unlink()
        write_orders(workspace.inbox / "late", 3)  # of these the system can tell nothing any more
        watch.process.send_signal(signal.SIGCONT)
        watch.until(lambda: any("3 accepted" in line for line in watch.out))
        assert watch.stop() == 0
