"""Real workers in processes of their own do the batches of a real run, against the real exchange."""

import shutil
import socket

from command import start
from laboring import until
from orders import MAPPINGS, write_orders
from serving import exchange
from warm import loadsheet

ORDERS = 60


def house_with_orders(folder, url, exchange_url):
    lines = [f'database = "{url}"', 'database_schema = "t"', f'exchange = "{exchange_url}"', "takeover_s = 20.0"]
    (folder / "loadsheet.toml").write_text("\n".join([*lines, "batch_entries = 10", "settle_s = 0"]), encoding="utf-8")
    write_orders(folder / "inbox", ORDERS)
    shutil.copytree(MAPPINGS, folder / "mappings")


def registered(ask):
    return ask("select count(*) from workers")[0][0] if ask("select to_regclass('workers')") != [(None,)] else 0


def test_workers_do_what_a_run_hands_out(tmp_path, database_url, ask):
    with exchange(tmp_path / "exchange.db") as served:
        house_with_orders(tmp_path, database_url, served.url)
        workers = [start(tmp_path, "worker") for _ in range(2)]
        try:
            until(lambda: any(worker.poll() is not None for worker in workers) or registered(ask) == 2)
            done = loadsheet(tmp_path, "run")
            assert done.returncode == 0, done.stderr
        finally:
            for worker in workers:
                worker.terminate()
            said = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers] == [143, 143], said
    assert ask("select state, count(*) from t.entries group by state") == [("accepted", ORDERS)]
    took = [owner.partition("/")[0] for (owner,) in ask("select owner from t.batches where kind = 'calls'")]
    assert len(took) >= ORDERS // 10
    assert set(took) <= {name for (name,) in ask("select name from workers")}
    assert ask("select count(*) from takeovers") == [(0,)]
    assert ask("select count(*) from procrastinate_jobs where status <> 'succeeded'") == [(0,)]


def test_a_second_signal_is_obeyed_at_once(tmp_path, database_url, ask):
    """The exchange takes connections and never answers: the first signal waits for calls that are under way."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        house_with_orders(tmp_path, database_url, f"http://127.0.0.1:{silent.getsockname()[1]}")
        worker = start(tmp_path, "worker")
        until(lambda: registered(ask) == 1)
        run = start(tmp_path, "run")
        try:
            until(lambda: "calls" in ask("select doing from workers")[0][0])
            silent.accept()[0].close()
            connection, _ = silent.accept()
            worker.terminate()
            until(lambda: ask("select count(*) from workers where ended is null") == [(1,)])
            assert worker.poll() is None
            until(lambda: worker.poll() is not None or worker.terminate())
            assert worker.returncode == 143
            connection.close()
        finally:
            for process in (worker, run):
                process.kill()
            said = [process.communicate() for process in (worker, run)]
    assert "stopped" not in said[0][1]
    assert ask("select count(*) from workers where ended is null") == [(1,)], "it had no time to leave"
