"""A worker: a process that does the runs of the ledgers it serves, each in a process of its own.

Owns: its threads (job queue, heartbeats, housekeeping) and the order in which they start and end. It can be killed at any time: its
jobs go to other workers, and the next run looks up what the killed run was sending.
"""

import os
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, overload

from loadsheet import exit_codes
from loadsheet.backoff import Backoff
from loadsheet.cluster.housekeeping import Housekeeping
from loadsheet.cluster.job_queue import Outage, Queue, Requeue
from loadsheet.cluster.served_shippers import ServedShippers
from loadsheet.ledger.opening import unique
from loadsheet.ledger.postgres import shared_engine
from loadsheet.ledger.shared import Engine, jobs
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.workers import WorkerInfo
from loadsheet.operations.expected_files import local_text, zone_of
from loadsheet.problems import LoadsheetError, RunKilled
from loadsheet.settings import Settings

POLL_S = 0.2
_MINUTE_S = 60.0
STUCK_S = 60.0
"""Seconds without any progress after which a worker counts as unhealthy."""
RUN_AGAIN_MAX_S = 300.0
"""The longest pause before an interrupted run is retried, in seconds. The first is `watch.retry_s`; each doubles."""
BUSY_RETRY_S = 1.0
"""The longest pause in seconds between two attempts at a run whose ledger another process holds. The next attempt comes sooner if
that process counts as dead earlier."""
REPEAT_S = 3600.0
"""Seconds between two reports of the same error."""

Say = Callable[[str], None]
Run = Callable[[Settings, datetime, Sequence[int]], object]
"""Runs the ledger of these settings, due since a time (aware, UTC), until it is done or the sequence contains a stop signal.

Raises Requeue if another worker may take it, LoadsheetError with exit code 75 if it should be retried later. Any other exception is
a fault."""


class StopSignals(Sequence[int]):
    """The received stop signals: empty until the event is set, then one."""

    def __init__(self, event: threading.Event, number: int = 15) -> None:
        self._event, self._number = event, number

    def __len__(self) -> int:
        """One or zero."""
        return int(self._event.is_set())

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """Items and slices, as of a list."""
        return ([self._number] if self._event.is_set() else [])[index]


def serve(
    config: Path | None,
    shippers: tuple[str, ...],
    *,
    places: int | None,
    say: Say,
    run: Run,
    stopping: threading.Event,
    once: bool = False,
    reread: threading.Event | None = None,
    on_turn: Callable[[], None] = lambda: None,
) -> int:
    """Serve these shippers (none named: all declared ones) until `stopping` is set or, with `once`, until nothing is left to do.
    Returns the exit code.

    `places` is the number of concurrent runs (None: `cluster.worker_places`). `reread` requests a reload of the settings. `on_turn`
    is called every `POLL_S` seconds while the worker is healthy. Raises SettingsError if there is nothing to serve, and LedgerGone
    if the database cannot be reached at the start. The worker waits for the end of later outages.
    """
    served, settings = ServedShippers(config, shippers, say), Settings.load(config)
    name, most = unique(), places or settings.cluster.worker_places
    started = WorkerInfo(name, socket.gethostname(), os.getpid(), version("loadsheet"), (), most)

    def enrolled() -> WorkerInfo:
        return started._replace(serves=tuple(served.by_shipper))

    engine = shared_engine(served.address)
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        make_tables(engine, served.address)
        threads = _WorkerThreads(
            engine, served, settings, run, places=most, say=say, stopping=stopping, enrolled=enrolled
        )
        say(f"worker {name} serves {_served_names(served)}: {most} run{'s' if most != 1 else ''} at a time")
        with threads.working():
            while not stopping.wait(POLL_S):
                threads.check()
                if threads.is_healthy:
                    on_turn()
                threads.reload_settings(reread)
                if once and threads.is_idle():
                    break
    say("stopped; other workers or the next start do the remaining runs")
    return 0


class _WorkerThreads:
    """The threads of a worker."""

    def __init__(
        self,
        engine: Engine,
        served: ServedShippers,
        settings: Settings,
        run: Run,
        *,
        places: int,
        say: Say,
        stopping: threading.Event,
        enrolled: Callable[[], WorkerInfo],
    ) -> None:
        self._engine, self._served, self._run, self._say, self._stopping = engine, served, run, say, stopping
        self._takeover_s = settings.cluster.takeover_s
        self._reported_at: dict[str, float] = {}  # when each subject was last reported
        self._pauses: dict[str, Backoff] = {}  # by shipper, while its last run did not complete
        self._reload_thread: _Thread | None = None
        self._look_at = time.monotonic() + _MINUTE_S
        outage = Outage(say)
        self.queue = Queue(
            served.address, places, queues=served.queues, do=self._do, outage=outage, failed=self._failed
        )
        self.housekeeping = Housekeeping(
            engine,
            served,
            self.queue,
            outage,
            enrolled=enrolled,
            takeover_s=settings.cluster.takeover_s,
            jobs_days=settings.cluster.jobs_days,
        )
        helpers = (
            _Thread(self.housekeeping.send_heartbeats, "heartbeats"),
            _Thread(self.housekeeping.run, "housekeeping"),
        )
        self._threads = [_Thread(self.queue.run, "queue"), *helpers]

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work for the `with` block. At its end, let running jobs end or requeue them, and raise the error of a failed thread."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self.queue.stop()
            self._threads[0].join()  # heartbeats continue until its last job has ended
            self.housekeeping.end()
            for thread in self._threads:
                thread.join()
            self.housekeeping.deregister()
        self.check()

    def check(self) -> None:
        """Raise the error of a failed thread."""
        for thread in (*self._threads, self._reload_thread):
            if thread is not None and thread.error is not None:
                raise thread.error

    def reload_settings(self, asked: threading.Event | None) -> None:
        """Reload the settings on request, or when the file changed (checked once a minute). Uses a thread of its own, because the
        settings of hundreds of shippers load slowly.
        """
        if self._reload_thread is not None and self._reload_thread.is_alive():
            return
        now = time.monotonic()
        if wanted := asked is not None and asked.is_set():
            asked.clear()
        if not wanted and now >= self._look_at:
            self._look_at = now + _MINUTE_S
            wanted = self._served.is_stale()
        if wanted:
            self._reload_thread = _Thread(self._reload, "settings")
            self._reload_thread.start()

    def _reload(self) -> None:
        self._served.reload()
        self.queue.refresh()

    @property
    def is_healthy(self) -> bool:
        """Whether all threads make progress."""
        return max(self.queue.stalled_s, self.housekeeping.stalled_s) < STUCK_S

    def is_idle(self) -> bool:
        """Whether there is nothing to do now, once everything has been checked."""
        if not self.housekeeping.rounds or self.queue.running:
            return False
        worker_id = self.queue.worker_id
        with self._engine.connect() as connection:
            mine = jobs.count_due(connection, self._served.queues())
            return not mine and not (worker_id is not None and jobs.running_jobs(connection, worker_id))

    def _do(self, _job_id: int, arguments: Mapping[str, Any]) -> None:
        """Do a run. If another process holds the ledger, retry soon: that process may have missed the newest files."""
        settings = self._served.by_shipper.get(arguments["shipper"])
        if settings is None:  # this worker no longer serves the shipper: leave the job to others for a while
            self._say_once(f"{arguments['shipper']}: this worker no longer has its settings; other workers do its runs")
            raise Requeue(self._takeover_s)
        with self._engine.connect() as connection:
            address = self._served.addresses[settings.ledger_schema]
            if held_s := jobs.seconds_until_free(connection, address, settings.cluster.takeover_s):
                raise Requeue(min(held_s, BUSY_RETRY_S))
        due = datetime.fromisoformat(arguments["due"])
        try:
            self._run(settings, due, StopSignals(self._stopping))
        except RunKilled:  # retried when its ledger is free, a limited number of times
            raise
        except LoadsheetError as error:
            self._requeue_if_in_time(settings, due, error)
            raise
        self._pauses.pop(settings.shipper, None)

    def _requeue_if_in_time(self, settings: Settings, due: datetime, error: LoadsheetError) -> None:
        """Requeue a run that may succeed later, while it would still be caught up (`schedules.catch_up_s`)."""
        if error.exit_code != exit_codes.TRY_AGAIN or datetime.now(UTC) - due > settings.schedules.catch_up:
            return
        run_of = f"the run of {settings.shipper}" if settings.shipper else "the run"
        then, until = (
            local_text(when, zone_of(settings.schedules.timezone)) for when in (due, due + settings.schedules.catch_up)
        )
        again = f"it is retried, after pauses of up to {RUN_AGAIN_MAX_S / 60:g} minutes, until {until}"
        self._say_once(f"{run_of} that was due {then}: {error}; {again}", f"{run_of} {due}")
        pauses = self._pauses.setdefault(settings.shipper, Backoff(settings.watch.retry_s, RUN_AGAIN_MAX_S))
        raise Requeue(pauses.next()) from error

    def _failed(self, arguments: Mapping[str, Any], error: BaseException, after_s: float | None) -> None:
        shipper = arguments.get("shipper", "")
        run_of = f"the run of {shipper}" if shipper else "the run"
        again = "it is not retried" if after_s is None else f"it is retried in {after_s:g} s"
        if isinstance(error, LoadsheetError):
            self._say_once(f"{run_of}: {error}; {again}", f"{shipper} {error} {after_s is None}")
        else:
            self._say(
                f"{run_of}: an internal error ({type(error).__name__}), the traceback is in {_file_away(error)}; {again}"
            )

    def _say_once(self, text: str, about: str = "") -> None:
        """Report something, unless the same subject was reported within `REPEAT_S`."""
        now, about = time.monotonic(), about or text
        self._reported_at = {key: at for key, at in self._reported_at.items() if now - at < REPEAT_S}
        if about not in self._reported_at:
            self._reported_at[about] = now
            self._say(text)


class _Thread(threading.Thread):
    """A thread that keeps the exception that ended it, and logs to the run log of its creator."""

    def __init__(self, act: Callable[[], None], name: str) -> None:
        super().__init__(target=partial(copy_context().run, act), name=name, daemon=True)
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the target. Keep its exception for `check`."""
        with ExitStack() as stack:
            stack.push(self._store_error)
            super().run()

    def _store_error(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        self.error = error
        return True


def _served_names(served: ServedShippers) -> str:
    return ", ".join(name for name in served.by_shipper if name) or f"the ledger in {served.address}"


def _file_away(error: BaseException) -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(file.name)
