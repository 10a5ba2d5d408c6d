"""A worker whose runs are easy: it says of each in a file that it began, and holds it while a file is there.

Run as a script, it is a process of its own: `python worker_processes.py FOLDER` serves FOLDER/loadsheet.toml until SIGTERM.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import scripted_exchange
from command import environment

from loadsheet.cluster.job_queue import Requeue
from loadsheet.cluster.worker_process import Worker
from loadsheet.ledger import open_ledger
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import jobs, open_shared
from loadsheet.settings import Settings

PATIENCE_S = 60


def house(folder, url, *shippers, takeover_s=10.0, **more):
    """A settings file for a fleet on this database, whose shippers have ledgers there; returns their settings by name."""
    lines = [f'database = "{url}"', 'cluster.database_schema = "t"', f"cluster.takeover_s = {takeover_s}"]
    lines += [f"{name} = {value!r}" for name, value in more.items()]
    lines += [f"\n[shippers.{name}]" for name in shippers]
    (folder / "loadsheet.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = {name: Settings.load(folder / "loadsheet.toml", shipper=name) for name in shippers or ("",)}
    for settings in found.values():
        with open_ledger(settings.database_url):
            pass
    return found


def asking(url):
    """What asks the tables that the fleet on this database shares, beside it."""

    def ask(statement):
        with psycopg.connect(url, autocommit=True, options="-c search_path=t_fleet") as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    return ask


def want(settings, *, due=None, reason=jobs.FILES):
    """Tell the queue that a run of this ledger is wanted, since `due` (now)."""
    with open_shared(settings.database_url) as engine, engine.begin() as connection:
        jobs.request_run(connection, address_of(settings.database_url), reason, stamp(due or datetime.now(UTC)))


def until(happened, *, worker=None):
    """Wait until something holds, unless the worker breaks; returns it."""
    return scripted_exchange.until(lambda: (worker and worker.check()) or happened(), PATIENCE_S, 0.02)


def labor(folder):
    """What a worker does for a run: in `began` stands whose run was begun by which process, and FOLDER/hold keeps it at it."""

    def run(settings, _due, stopping):
        with (folder / "began").open("a", encoding="utf-8") as file:
            file.write(f"{settings.shipper} {os.getpid()}-{threading.get_native_id()}\n")
        while (folder / "hold").exists():
            if stopping.is_set():
                raise Requeue
            time.sleep(0.02)

    return run


def began(folder):
    """Whose runs were begun, and by whom, in this order."""
    file = folder / "began"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [tuple(line.split(" ", 1)) for line in lines]


class Within:
    """A worker in a thread of this process."""

    def __init__(self, folder, only=(), *, places=2, once=False, run=None):
        self.said, self.stopping, self.reread = [], threading.Event(), threading.Event()
        self.code, self.broke = None, None
        config, run = folder / "loadsheet.toml", run or labor(folder)
        self._call = lambda: Worker(config, tuple(only), run, self.said.append, places).serve(
            self.stopping, once=once, reread=self.reread
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self.code = self._call()
        except BaseException as error:  # noqa: BLE001 (it is raised in the test)
            self.broke = error

    def check(self):
        """Raise what broke it."""
        if self.broke is not None:
            raise self.broke

    def ended(self):
        """Wait for its end; returns its exit code."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), self.said
        self.check()
        return self.code

    def stop(self):
        """Ask it to stop, and wait for its end."""
        self.stopping.set()
        return self.ended()


@contextmanager
def working(folder, *only, **more):
    """A worker in a thread, while the block lasts."""
    worker = Within(folder, only, **more)
    try:
        yield worker
    finally:
        (folder / "hold").unlink(missing_ok=True)
        worker.stop()


@contextmanager
def process(folder, places=2):
    """A worker in a process of its own; killed at the end if it still lives."""
    command = [sys.executable, __file__, str(folder), str(places)]
    started = subprocess.Popen(command, cwd=folder, env=_with_paths(), stderr=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait(PATIENCE_S)
        started.stderr.close()


def _with_paths():
    return environment(PYTHONPATH=":".join(sys.path))


def _main():
    folder, stopping = Path(sys.argv[1]), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def say(text):
        print(text, file=sys.stderr, flush=True)

    Worker(folder / "loadsheet.toml", (), labor(folder), say, int(sys.argv[2])).serve(stopping)


if __name__ == "__main__":
    _main()
