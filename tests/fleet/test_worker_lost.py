"""Workers that are killed, paused or cut off from their database: what they had in hand goes on, and they go on when they can."""

import signal

import pytest
from laboring import answer, asking, hand_out, house, process, took, until, working
from postgres import running_server

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


def test_a_worker_that_is_killed_is_taken_over(tmp_path, acme, ask):
    (tmp_path / "hold").touch()
    (batch,) = hand_out(acme)
    with process(tmp_path) as lost:
        until(lambda: took(tmp_path))
        lost.kill()
        lost.wait()
    with working(tmp_path) as other:
        until(lambda: len(took(tmp_path)) == 2, worker=other)
        (tmp_path / "hold").unlink()
        until(lambda: answer(acme, batch), worker=other)
    (_, before), (_, after) = took(tmp_path)
    assert ask("select shipper, batch, kind, before, after from takeovers") == [
        ("acme", batch, "lookup", before, after)
    ]
    assert ask("select count(*) from workers where ended is null") == [(1,)]


def test_a_worker_that_was_paused_finds_its_batch_taken_and_works_on(tmp_path, acme, ask):
    (tmp_path / "hold").touch()
    (batch,) = hand_out(acme)
    with process(tmp_path) as paused:
        until(lambda: took(tmp_path))
        paused.send_signal(signal.SIGSTOP)
        with working(tmp_path) as other:
            until(lambda: len(took(tmp_path)) == 2, worker=other)
            paused.send_signal(signal.SIGCONT)
            (tmp_path / "hold").unlink()
            until(lambda: answer(acme, batch), worker=other)
            until((tmp_path / "late").exists)
        (_, first), (_, second) = took(tmp_path)
        assert answer(acme, batch) == {"by": second}
        (later,) = hand_out(acme)
        until(lambda: answer(acme, later))
        assert took(tmp_path)[-1][1].startswith(first.split("/")[0])
        paused.terminate()
        said = paused.stderr.read().splitlines()
        assert paused.wait() == 0
    assert [line for line in said if "worker" not in line and "stopped" not in line] == []
    assert ask("select status::text from procrastinate_jobs order by id") == [("succeeded",), ("succeeded",)]


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


def test_an_idle_worker_waits_for_its_database_and_goes_on(tmp_path, own_server):
    acme = house(tmp_path, own_server.new_database(), "acme")["acme"]
    with working(tmp_path) as worker:
        until(lambda: worker.said, worker=worker)
        own_server.stop()
        until(lambda: len(worker.said) > 1, worker=worker)
        own_server.start()
        (batch,) = hand_out(acme)
        until(lambda: answer(acme, batch), worker=worker)
    assert worker.code == 0


def test_a_restart_of_the_database_makes_nobody_dead(tmp_path, own_server):
    """Nobody could be heard of in between: whoever comes first afterwards must not take the others for dead."""
    url = own_server.new_database()
    acme = house(tmp_path, url, "acme", takeover_s=10.0)["acme"]
    hand_out(acme)
    connected = asking(url)
    connected("insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 hour')")
    connected("update procrastinate_jobs set status = 'doing', worker_id = 1")
    own_server.stop()
    own_server.start()
    with working(tmp_path) as worker:
        until(lambda: worker.said, worker=worker)
        beats = connected("select seen from workers")
        until(lambda: connected("select seen from workers") != beats, worker=worker)
        assert took(tmp_path) == []


def test_a_worker_ends_while_its_database_is_away(tmp_path, own_server):
    house(tmp_path, own_server.new_database(), "acme")
    try:
        with working(tmp_path) as worker:
            until(lambda: worker.said, worker=worker)
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


def test_all_workers_killed_others_finish(tmp_path, acme):
    (tmp_path / "hold").touch()
    made = hand_out(acme, 4)
    with process(tmp_path) as one, process(tmp_path) as other:
        until(lambda: len(took(tmp_path)) == 2)
        for each in (one, other):
            each.kill()
            each.wait()
    (tmp_path / "hold").unlink()
    with working(tmp_path) as worker:
        until(lambda: all(answer(acme, batch) for batch in made), worker=worker)
