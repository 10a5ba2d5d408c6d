"""A worker whose batches are easy: it takes each, says so in a file, holds it while a file is there, and closes it.

Run as a script, it is a process of its own: `python worker_processes.py FOLDER` serves FOLDER/loadsheet.toml until SIGTERM.
"""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
from command import environment

from loadsheet.fleet.queue import PutBack
from loadsheet.fleet.worker import serve
from loadsheet.ledger import open_ledger
from loadsheet.ledger.batches import Kind
from loadsheet.ledger.clocks import utc_now
from loadsheet.ledger.joining import served
from loadsheet.ledger.shared.workers import note_takeover
from loadsheet.problems import Superseded
from loadsheet.settings import Settings

PATIENCE_S = 30


def house(folder, url, *shippers, takeover_s=10.0, **more):
    """A settings file for a fleet on this database, whose shippers have ledgers there; returns their settings by name."""
    lines = [f'database = "{url}"', 'database_schema = "t"', f"takeover_s = {takeover_s}"]
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


def hand_out(settings, count=1, kind=Kind.LOOKUP):
    """Begin a run of a ledger and hand so many batches out; returns their ids."""
    with open_ledger(settings.database_url) as ledger:
        run = ledger.begin_run()
        return [ledger.batches.hand_out(run, kind, {}) for _ in range(count)]


def answer(settings, batch):
    """What a batch came to."""
    return served(settings.database_url, utc_now).batches.answer_of(batch)


def until(happened, *, worker=None):
    """Wait until something holds; returns it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < deadline
        if worker is not None:
            worker.check()
        time.sleep(0.02)
    return found


def labor(folder):
    """What a worker does with a batch: in `took` stands who took which, and FOLDER/hold keeps it at it."""

    def work(settings, batch, hand):
        ledger = served(settings.database_url, utc_now)
        taken = ledger.batches.take(batch, hand.name)
        if taken is None:
            return
        with hand.shared.begin() as connection:
            note_takeover(connection, settings.shipper, taken, hand.name)
        with (folder / "took").open("a", encoding="utf-8") as file:
            file.write(f"{batch} {hand.name}\n")
        while (folder / "hold").exists():
            if hand.stopping:
                raise PutBack
            time.sleep(0.02)
        try:
            ledger.for_batch(taken).batches.close(taken, {"by": hand.name})
        except Superseded:
            (folder / "late").write_text(str(batch), encoding="utf-8")

    return work


def took(folder):
    """Who took which batch, in this order."""
    file = folder / "took"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [(int(batch), name) for batch, name in (line.split(" ", 1) for line in lines)]


class Within:
    """A worker in a thread of this process."""

    def __init__(self, folder, only=(), *, places=2, once=False, work=None, run=None):
        self.said, self.stopping, self.reread = [], threading.Event(), threading.Event()
        self.code, self.broke = None, None
        self._call = lambda: serve(
            folder / "loadsheet.toml",
            tuple(only),
            places=places,
            say=self.said.append,
            stopping=self.stopping,
            once=once,
            reread=self.reread,
            work=work or labor(folder),
            run=run,
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
def process(folder):
    """A worker in a process of its own; killed at the end if it still lives."""
    command = [sys.executable, __file__, str(folder)]
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

    serve(folder / "loadsheet.toml", (), places=2, say=say, stopping=stopping, work=labor(folder))


if __name__ == "__main__":
    _main()
