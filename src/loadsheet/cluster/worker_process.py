"""A worker: a process that does the runs of the ledgers it serves, each in a process of its own.

Owns: its threads (job queue, heartbeats, housekeeping), the order in which they start and end, and how often each chore is done. It
can be killed at any time: its jobs go to other workers, and the next run looks up what the killed run was sending. Heartbeats and
chores have threads and connections of their own, so runs cannot delay them. An error in one is logged once and the chore is retried.

Also owns which shippers a worker serves. Their ledgers must be in one database, because they share one queue. Wrong settings of one
shipper are reported and do not stop the others.
"""

import os
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loadsheet import exit_codes, run_log
from loadsheet.cluster import timetable
from loadsheet.cluster.job_queue import Outage, Queue, Requeue
from loadsheet.display_text import count_of
from loadsheet.errors import LedgerError, LedgerGone, LoadsheetError, RunKilled, SettingsError
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.ledger_opening import unique_name
from loadsheet.ledger.postgres import BEATS, Address, address_of, shared_engine
from loadsheet.ledger.shared import Engine, cluster_status, jobs
from loadsheet.ledger.shared.cluster_status import WorkerInfo
from loadsheet.ledger.shared.mutual_exclusion import delete_old_starts
from loadsheet.operations.expected_files import local_text, zone_of
from loadsheet.schedules import Backoff
from loadsheet.settings import Settings, chosen, shippers_in
from loadsheet.settings.operations_sections import ClusterSettings
from loadsheet.settings.sources import find

HEALTH_CHECK_S = 0.2
STUCK_S = 60.0
"""Seconds without any progress after which a worker counts as unhealthy."""
RUN_AGAIN_MAX_S = 300.0
"""The longest pause before an interrupted run is retried, in seconds. The first is `watch.retry_s`; each doubles."""
BUSY_RETRY_S = 1.0
"""The longest pause in seconds between two attempts at a run whose ledger another process holds. The next attempt comes sooner if
that process counts as dead earlier."""
REPEAT_S = 3600.0
"""Seconds between two reports of the same error."""

_MINUTE_S, _HOUR_S = 60.0, 3600.0
_REAP_S = 1.0
"""The longest time in seconds between two searches for dead workers. It is shorter if one is about to count as dead."""
_MARGIN_S = 0.02

Say = Callable[[str], None]
Run = Callable[[Settings, datetime, threading.Event], object]
"""Runs the ledger of these settings, due since a time (aware, UTC), until it is done or the event is set.

Raises Requeue if another worker may take it, LoadsheetError with exit code 75 if it should be retried later. Any other exception is
a fault."""


class Worker:
    """A worker for these shippers (none named: all declared ones), which does `run` for each run. `places` is the number of
    concurrent runs (None: `cluster.worker_places`). Raises SettingsError if there is nothing to serve.
    """

    def __init__(
        self, config: Path | None, shippers: tuple[str, ...], run: Run, say: Say, places: int | None = None
    ) -> None:
        self._served, settings = ServedShippers(config, shippers, say), Settings.load(config)
        self._run, self._say = run, say
        self._takeover_s = settings.cluster.takeover_s
        self._stopping = threading.Event()
        self._reported_at: dict[str, float] = {}  # when each subject was last reported
        self._pauses: dict[str, Backoff] = {}  # by shipper, while its last run did not complete
        self._threads: list[Future[None]] = []
        self._reload_thread: Future[None] | None = None
        self._look_at = time.monotonic() + _MINUTE_S
        places = places or settings.cluster.worker_places
        self._info = WorkerInfo(unique_name(), socket.gethostname(), os.getpid(), version("loadsheet"), (), places)
        self._engine = shared_engine(self._served.address)
        self._queue = Queue(self._served.address, places, self._served.queues, self, Outage(say))
        self._housekeeping = Housekeeping(self._engine, self._served, self._queue, self._info, settings.cluster)

    def serve(
        self,
        stopping: threading.Event,
        *,
        once: bool = False,
        reread: threading.Event | None = None,
        on_turn: Callable[[], None] = lambda: None,
    ) -> int:
        """Serve until `stopping` is set or, with `once`, until nothing is left to do. Returns the exit code.

        `reread` requests a reload of the settings. `on_turn` is called every `HEALTH_CHECK_S` seconds while the worker is healthy. Raises
        LedgerGone if the database cannot be reached at the start. The worker waits for the end of later outages.
        """
        self._stopping, places = stopping, self._info.places
        try:
            jobs.make_tables(self._engine, self._served.address)
            self._housekeeping.requeue_lost_jobs()  # before the first fetch, because they go before all that waits
            runs = f"{count_of(places, 'run')} at a time"
            self._say(f"worker {self._info.name} serves {_served_names(self._served)}: {runs}")
            with self._working() as pool:
                while not stopping.wait(HEALTH_CHECK_S):
                    self._check()
                    if max(self._queue.stalled_s, self._housekeeping.stalled_s) < STUCK_S:
                        on_turn()
                    self._reload_settings(pool, reread)
                    if once and self._is_idle():
                        break
        finally:
            self._engine.dispose()
        self._say("stopped; other workers or the next start do the remaining runs")
        return 0

    def do(self, arguments: Mapping[str, Any]) -> None:
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
            self._run(settings, due, self._stopping)
        except RunKilled:  # retried when its ledger is free, a limited number of times
            raise
        except LoadsheetError as error:
            self._requeue_if_in_time(settings, due, error)
            raise
        self._pauses.pop(settings.shipper, None)

    def failed(self, arguments: Mapping[str, Any], error: BaseException, after_s: float | None) -> None:
        """Report a failed run with its error, and the seconds until it is retried (None: it is given up)."""
        shipper = arguments.get("shipper", "")
        run_of = f"the run of {shipper}" if shipper else "the run"
        again = "it is not retried" if after_s is None else f"it is retried in {after_s:g} s"
        if isinstance(error, LoadsheetError):
            self._say_once(f"{run_of}: {error}; {again}", f"{shipper} {error} {after_s is None}")
            return
        with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
            file.write("".join(traceback.format_exception(error)))
        self._say(f"{run_of}: an internal error ({type(error).__name__}), the traceback is in {file.name}; {again}")

    @contextmanager
    def _working(self) -> Iterator[ThreadPoolExecutor]:
        """Work for the `with` block. At its end, let running jobs end or requeue them, and raise the error of a failed thread."""
        acts = (self._queue.run, self._housekeeping.send_heartbeats, self._housekeeping.run)
        with ThreadPoolExecutor(len(acts) + 1, "worker") as pool:
            self._threads = [pool.submit(copy_context().run, act) for act in acts]
            try:
                yield pool
            finally:
                self._stopping.set()
                self._queue.stop()
                wait(self._threads[:1])  # heartbeats continue until its last job has ended
                self._housekeeping.end()
        self._housekeeping.deregister()
        self._check()

    def _check(self) -> None:
        """Raise the error of a failed thread."""
        for thread in (*self._threads, self._reload_thread):
            if thread is not None and thread.done():
                thread.result()

    def _reload_settings(self, pool: ThreadPoolExecutor, asked: threading.Event | None) -> None:
        """Reload the settings on request, or when the file changed (checked once a minute). Uses a thread of its own, because the
        settings of hundreds of shippers load slowly.
        """
        if self._reload_thread is not None and not self._reload_thread.done():
            return
        now = time.monotonic()
        if wanted := asked is not None and asked.is_set():
            asked.clear()
        if not wanted and now >= self._look_at:
            self._look_at = now + _MINUTE_S
            wanted = self._served.is_stale()
        if wanted:
            self._reload_thread = pool.submit(copy_context().run, self._reload)

    def _reload(self) -> None:
        self._served.reload()
        self._queue.refresh()

    def _is_idle(self) -> bool:
        """Whether there is nothing to do now, once everything has been checked."""
        if not self._housekeeping.rounds or self._queue.running:
            return False
        worker_id = self._queue.worker_id
        with self._engine.connect() as connection:
            mine = jobs.count_due(connection, self._served.queues())
            return not mine and not (worker_id is not None and jobs.running_jobs(connection, worker_id))

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

    def _say_once(self, text: str, about: str = "") -> None:
        """Report something, unless the same subject was reported within `REPEAT_S`."""
        now, about = time.monotonic(), about or text
        self._reported_at = {key: at for key, at in self._reported_at.items() if now - at < REPEAT_S}
        if about not in self._reported_at:
            self._reported_at[about] = now
            self._say(text)


class ServedShippers:
    """The shippers of a worker: those of the settings file, or those in `only`. `by_shipper` holds the settings by shipper name,
    which is empty where no shippers are declared; `addresses` those of the ledgers by their schema. Raises SettingsError if none
    can be served.
    """

    by_shipper: Mapping[str, Settings]
    addresses: Mapping[str, Address]

    def __init__(self, config: Path | None, only: Sequence[str], say: Say) -> None:
        self._config, self._only, self._say = config, tuple(only), say
        self._reported: set[str] = set()
        self._file = self._signature()
        self._apply(self._read())

    @property
    def address(self) -> Address:
        """The address of the shared database. Its schema is that of one of the ledgers."""
        return next(iter(self.addresses.values()))

    def queues(self) -> Sequence[str]:
        """The queues of these ledgers."""
        return [jobs.queue_of(ledger) for ledger in self.addresses]

    def is_stale(self) -> bool:
        """Whether the settings file changed since it was read."""
        return self._signature() != self._file

    def reload(self) -> None:
        """Reload the settings. Wrong settings are reported and the previous ones stay in force."""
        self._file = self._signature()
        try:
            self._apply(self._read())
        except SettingsError as error:
            self._say_once(f"{error}; the previous settings stay in force")

    def _read(self) -> Mapping[str, Settings]:
        declared = shippers_in(self._config)
        names = tuple(chosen(declared, name, find(self._config)) for name in self._only) or declared or ("",)
        loaded: dict[str, Settings] = {}
        for name in names:
            try:
                loaded[name] = Settings.load(self._config, shipper=name)
            except SettingsError as error:
                if len(names) == 1:
                    raise
                self._say_once(f"{name}: {error}; this worker does not serve the shipper")
        return loaded

    def _apply(self, loaded: Mapping[str, Settings]) -> None:
        shared = {name: settings for name, settings in loaded.items() if settings.is_shared}
        if not shared:
            raise SettingsError(
                "database: a worker needs a ledger on PostgreSQL. A ledger in a file needs only `loadsheet run` or"
                ' `loadsheet watch`. For several machines write database = "postgresql://USER@HOST/NAME"'
            )
        addresses = {settings.ledger_schema: address_of(settings.database_url) for settings in shared.values()}
        if len({(address.url, address.shared) for address in addresses.values()}) > 1:
            names = ", ".join(shared)
            raise SettingsError(
                f"database: the ledgers of {names} are in several databases, each with a queue of its own; start a worker for each"
                " database with --only"
            )
        for name in loaded.keys() - shared.keys():
            self._say_once(f"{name}: its ledger is in a file and needs no worker")
        self.by_shipper = {settings.shipper: settings for settings in shared.values()}
        self.addresses = addresses

    def _signature(self) -> tuple[int, int, int] | None:
        file = find(self._config)
        try:
            status = file.stat() if file else None
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None

    def _say_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._say(text)


class Housekeeping:
    """The heartbeats and chores of a worker: recovery of lost jobs and runs, schedules, removal of old rows."""

    def __init__(
        self, engine: Engine, served: ServedShippers, queue: Queue, info: WorkerInfo, cluster: ClusterSettings
    ) -> None:
        self._engine, self._served, self._queue, self._info = engine, served, queue, info
        self._takeover_s, self._jobs_days = cluster.takeover_s, cluster.jobs_days
        self._ended = threading.Event()
        self._orphans: set[int] = set()
        self._reported: set[str] = set()
        self.rounds = 0
        self._last_attempt = time.monotonic()
        self._beat_at = 0.0
        self._next_death_s = cluster.takeover_s
        self._due: dict[Callable[[], None], float] = {self._sweep: 0.0, self._tick: 0.0, self._purge: 0.0}

    def send_heartbeats(self) -> None:
        """Send heartbeats until `end`. Runs in a thread of its own, because the chores of hundreds of ledgers take long."""
        while not self._ended.is_set():
            if time.monotonic() >= self._beat_at:
                self._beat_at = time.monotonic() + self._takeover_s / BEATS
                self._try(self._beat)
            self._try(self.requeue_lost_jobs)
            self._last_attempt = time.monotonic()
            self._ended.wait(min(self._takeover_s / BEATS, _REAP_S, self._next_death_s + _MARGIN_S))

    def run(self) -> None:
        """Do the chores when they are due, until `end`."""
        while not self._ended.is_set():
            for chore in [chore for chore, due in self._due.items() if due <= time.monotonic()]:
                self._due[chore] = self._do(chore)
            self.rounds += 1
            self._ended.wait(max(0.0, min(self._due.values()) - time.monotonic()))

    def requeue_lost_jobs(self) -> None:
        """Requeue the jobs of workers that stopped sending heartbeats. Raises LedgerError."""
        with self._engine.begin() as connection:
            lost = jobs.requeue_jobs_of_dead_workers(connection, self._takeover_s)
            self._next_death_s = jobs.seconds_until_next_dead_worker(connection, self._takeover_s)
        if lost:
            run_log.warning("jobs of dead workers requeued", jobs=len(lost))

    @property
    def stalled_s(self) -> float:
        """Seconds that a heartbeat is overdue. Negative while none is."""
        return time.monotonic() - self._last_attempt - self._takeover_s / BEATS

    def end(self) -> None:
        """Stop."""
        self._ended.set()

    def deregister(self) -> None:
        """Leave the register of workers. If that fails, this worker soon counts as dead."""

        def leave() -> None:
            with self._engine.begin() as connection:
                cluster_status.record_end(connection, self._info.name)

        self._try(leave)

    def _do(self, chore: Callable[[], None]) -> float:
        """Do a chore. Returns when it is due again, by the clock of `time.monotonic`."""
        done, now = self._try(chore), time.monotonic()
        if not done:
            return now + self._takeover_s / BEATS
        if chore == self._tick:  # at the start of the next minute
            return now + _MINUTE_S - datetime.now(UTC).timestamp() % _MINUTE_S
        return now + (self._takeover_s if chore == self._sweep else _HOUR_S)

    def _try(self, chore: Callable[[], None]) -> bool:
        try:
            chore()
        except LedgerGone as error:
            self._queue.outage.begins(str(error))
            return False
        except LedgerError as error:
            if str(error) not in self._reported:
                self._reported.add(str(error))
                run_log.error("housekeeping", reason=str(error))
            return False
        self._queue.outage.ends()
        return True

    def _beat(self) -> None:
        """Record the heartbeat of this worker, and requeue jobs that the queue assigned to it but that do not run."""
        worker_id, running = self._queue.worker_id, self._queue.running
        info = self._info._replace(serves=tuple(self._served.by_shipper))
        with self._engine.begin() as connection:
            doing = [_describe_job(job) for job in running.values()]
            cluster_status.record_heartbeat(connection, info, doing, self._queue.done)
            if worker_id is None:
                self._orphans = set()
                return
            is_registered = jobs.beat(connection, worker_id)
            assigned = jobs.running_jobs(connection, worker_id) - running.keys()
            orphans = assigned & self._orphans  # seen twice, because a job that was just fetched is not running yet
            jobs.requeue_jobs_of_worker(connection, orphans - self._queue.running.keys(), worker_id)
            self._orphans = assigned
        if not is_registered:
            self._queue.re_register(worker_id)

    def _sweep(self) -> None:
        """Request the runs that died again."""
        lost = jobs.request_runs_after_death(self._engine, self._served.addresses.values(), self._takeover_s)
        if lost:
            run_log.warning("runs that died requested again", runs=lost)

    def _tick(self) -> None:
        """Queue the due runs, in the transaction that records them."""
        profiles = self._served.by_shipper  # read once: the settings may be reloaded meanwhile
        with self._engine.begin() as connection:
            for fired in timetable.tick(connection, profiles, self._info.name):
                address, due = address_of(profiles[fired.shipper].database_url), stamp(fired.due.moment)
                jobs.request_run(connection, address, jobs.SCHEDULE, due)
                run_log.info("a run is due", due=due, schedule=fired.schedule.name, of=fired.shipper)

    def _purge(self) -> None:
        """Remove old jobs, workers and schedule records."""
        jobs.delete_old_jobs(self._engine, self._jobs_days, self._ended.is_set)
        with self._engine.begin() as connection:
            cluster_status.delete_old_workers(connection, max(self._jobs_days, 1))
            delete_old_starts(connection)


def _served_names(served: ServedShippers) -> str:
    return ", ".join(name for name in served.by_shipper if name) or f"the ledger in {served.address}"


def _describe_job(arguments: Mapping[str, Any]) -> str:
    """A description of a job in one line."""
    words = (arguments.get("shipper"), "run", f"({arguments['reason']})" if "reason" in arguments else "")
    return " ".join(word for word in words if word)
