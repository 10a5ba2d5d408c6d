"""Workers that are killed, paused or cut off from their database: what they had in hand goes on, and they go on when they can."""

import signal

import pytest
from postgres import running_server
from worker_processes import answer, asking, hand_out, house, process, took, until, working

from loadsheet.ledger.joining import forget_engines


@pytest.fixture
def acme(tmp_path, database_url):
    """Here those who are lost are soon taken over."""
    return house(tmp_path, database_url, "acme", takeover_s=1.0)["acme"]


@pytest.fixture(scope="module")
def own_server():
    """A server that tests may stop."""
    with running_server() as server:
        yield server
        forget_engines()


@pytest.mark.journey
def test_workers_that_are_killed_or_paused_are_taken_over(tmp_path, acme, ask):
    (tmp_path / "hold").touch()
    batches = hand_out(acme, 2)
    with process(tmp_path) as killed, process(tmp_path) as paused:
        until(lambda: len(took(tmp_path)) == 2)
        lost = dict(took(tmp_path))
        names = [name for (name,) in ask(f"select name from workers where process = {paused.pid}")]
        killed.kill()
        killed.wait()
        paused.send_signal(signal.SIGSTOP)
        with working(tmp_path) as other, working(tmp_path):
            until(lambda: len(took(tmp_path)) == 4, worker=other)
            paused.send_signal(signal.SIGCONT)
            (tmp_path / "hold").unlink()
            until(lambda: all(answer(acme, batch) for batch in batches), worker=other)
            until((tmp_path / "late").exists)
        taken = sorted(ask("select batch, before, after from takeovers"))
        assert [(batch, before) for batch, before, _ in taken] == sorted(lost.items())
        assert [answer(acme, batch) for batch, _, _ in taken] == [{"by": after} for _, _, after in taken]
        (later,) = hand_out(acme)
        until(lambda: answer(acme, later))
        assert took(tmp_path)[-1][1].split("/")[0] in names, "the one that was paused works on"
        paused.terminate()
        said = paused.stderr.read().splitlines()
        assert paused.wait() == 0
    assert [line for line in said if "worker" not in line and "stopped" not in line] == []
    assert ask("select distinct status::text from procrastinate_jobs") == [("succeeded",)]


def test_a_worker_waits_for_its_database_and_goes_on(tmp_path, own_server):
    acme = house(tmp_path, own_server.new_database(), "acme", takeover_s=2.0)["acme"]
    (tmp_path / "hold").touch()
    (held,) = hand_out(acme)
    with working(tmp_path) as worker:
        until(lambda: took(tmp_path), worker=worker)
        own_server.stop("immediate")
        until(lambda: len(worker.said) > 1, worker=worker)
        own_server.start()
        (tmp_path / "hold").unlink()
        until(lambda: answer(acme, held), worker=worker)
        (later,) = hand_out(acme)
        until(lambda: answer(acme, later), worker=worker)
        until(lambda: len(worker.said) > 2 and "is back" in worker.said[-1], worker=worker)
    told = worker.said[1:-1]  # on a slow machine a connection from before is found to be gone after others came back
    assert all("the worker waits" in away for away in told[::2])
    assert set(told[1::2]) == {"the database is back; the worker goes on"}
    assert len(told) % 2 == 0


def test_a_restart_of_the_database_makes_nobody_dead_and_a_worker_can_end_while_it_is_away(tmp_path, own_server):
    """Nobody could be heard of in between: whoever comes first afterwards must not take the others for dead."""
    url = own_server.new_database()
    acme = house(tmp_path, url, "acme", takeover_s=10.0)["acme"]
    hand_out(acme)
    connected = asking(url)
    connected("insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 hour')")
    connected("update procrastinate_jobs set status = 'doing', worker_id = 1")
    own_server.stop()
    own_server.start()
    try:
        with working(tmp_path) as worker:
            until(lambda: worker.said, worker=worker)
            beats = connected("select seen from workers")
            until(lambda: connected("select seen from workers") != beats, worker=worker)
            assert took(tmp_path) == []
            own_server.stop()
            until(lambda: len(worker.said) > 1, worker=worker)
    finally:
        own_server.start()
    assert worker.code == 0


def test_a_worker_that_was_forgotten_enters_again(tmp_path, acme, ask):
    with working(tmp_path) as worker:
        until(lambda: ask("select count(*) from procrastinate_workers") == [(2,)], worker=worker)
        ask("delete from procrastinate_workers")
        ask("delete from workers")
        until(lambda: ask("select count(*) from procrastinate_workers") == [(2,)], worker=worker)
        (batch,) = hand_out(acme)
        until(lambda: answer(acme, batch), worker=worker)
        assert ask("select count(*) from workers") == [(1,)]
