"""The job queue (Procrastinate) of a worker: fetches jobs, does the run of each, and survives database outages.

Owns: what happens to a failed job, and to the queue during an outage. Procrastinate's own workers would end; ours wait. `Housekeeping`
sends the heartbeats on a connection of its own. A job that was reassigned because this worker seemed dead is left alone.

Each job waits in a thread, and its run is a process of its own: a crash or memory leak in a run does not affect the worker. The process is
forked from `multiprocessing`'s fork server, which has already loaded the modules of a run (`preload`): loading takes two CPU seconds. The
run itself writes log, report and notices.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import forkserver, get_context
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import DeleteJobCondition, Job, Notification, Status
from procrastinate.manager import JobManager, NotificationCallback
from procrastinate.worker import Worker

from loadsheet import exit_codes, run_log
from loadsheet.errors import LedgerBusy, RunKilled
from loadsheet.ledger.postgres import CONNECTION, Address
from loadsheet.ledger.shared import jobs
from loadsheet.ledger.shared.jobs import TASK
from loadsheet.schedules import Backoff
from loadsheet.settings import Settings

QUEUE_POLL_S = 5.0
"""Seconds between two polls of the queue, for jobs without a notification."""
ATTEMPTS = 10
"""Attempts before a job is given up. A requeue is not an attempt."""
WAIT_MAX_S = 60.0
_FIRST = 1  # the priority of jobs that go before all waiting ones
_CONNECTIONS = 4
_POOL_TIMEOUT_S = 3.0  # for a connection
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.25, 10.0  # the pauses during a database outage
_NEVER_S = 1e9
_ISOLATION = "read\\ committed"

Command = Callable[[list[str]], int]
"""Runs this command line and returns its exit code. Another process must be able to import it."""

_PROCESS_POLL_S = 0.2


class Outage:
    """A database outage: reported once at its start and once at its end, whichever thread of the worker notices it first."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._notify = say
        self._lock = threading.Lock()
        self.away = False

    def begins(self, reason: str) -> None:
        """Record that the database cannot be reached."""
        with self._lock:
            new, self.away = not self.away, True
        if new:
            self._notify(f"the database is not available ({reason}); the worker waits for it")

    def ends(self) -> None:
        """Record that the database answers again."""
        if self.away:
            with self._lock:
                new, self.away = self.away, False
            if new:
                self._notify("the database is back; the worker continues")


class Requeue(Exception):
    """The job was not done, but did not fail: any worker may take it after `after_s` seconds."""

    def __init__(self, after_s: float = 0.0) -> None:
        super().__init__("requeued")
        self.after_s = after_s


class JobHandler(Protocol):
    """Does the jobs of a queue."""

    def do(self, arguments: Mapping[str, Any]) -> None:
        """Do a job in a thread. After an exception other than Requeue, the job has failed and is retried."""

    def failed(self, arguments: Mapping[str, Any], error: BaseException, after_s: float | None) -> None:
        """Report a failed job with its exception, and the seconds until the retry (None: the job is given up)."""


class Queue:
    """One process at the job queue of a database, with `places` concurrent jobs and one more for the job of a dead worker or run.
    `run` serves until `stop`. `queues` returns the queues to serve and is called again at each `refresh`.
    """

    def __init__(
        self,
        address: Address,
        places: int,
        queues: Callable[[], Sequence[str]],
        handler: JobHandler,
        outage: Outage,
    ) -> None:
        self._address, self._places, self._queues = address, places, queues
        self._handler, self.outage = handler, outage
        self._loop: asyncio.AbstractEventLoop | None = None
        self._manager: _ResilientJobManager
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._running: dict[int, Mapping[str, Any]] = {}
        self.done = 0
        self._last_tick = time.monotonic()

    # from other threads

    def stop(self) -> None:
        """Take no more jobs. `run` returns when the running ones are done."""
        self._stopping.set()
        self._call(self._stop_worker)

    def refresh(self) -> None:
        """Read the names of the queues again and fetch jobs."""
        self._call(self._refresh_queues)

    def re_register(self, worker_id: int) -> None:
        """Register again, after the running jobs: the database no longer knows this worker id."""
        self._call(partial(self._re_register, worker_id))

    @property
    def worker_id(self) -> int | None:
        """The id of this worker in the queue. None while it is not registered."""
        worker = self._worker
        return None if worker is None else worker.worker_id

    @property
    def running(self) -> dict[int, Mapping[str, Any]]:
        """The arguments of the running jobs by job id."""
        with self._lock:
            return dict(self._running)

    @property
    def stalled_s(self) -> float:
        """Seconds since the event loop last ran."""
        return time.monotonic() - self._last_tick

    def run(self) -> None:
        """Serve until `stop`."""
        asyncio.run(self._main())

    def _call(self, act: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(act)

    # in the loop

    async def _main(self) -> None:
        _silence_loggers()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(
            lambda _, context: run_log.debug(
                "the queue's loop", reason=str(context.get("message", "")), error=repr(context.get("exception"))
            )
        )
        self._loop.set_default_executor(ThreadPoolExecutor(self._places + 3, thread_name_prefix="run"))
        app = self._app()
        async with app.open_async():
            ticking = asyncio.create_task(self._tick())
            try:
                await self._serve(app)
            finally:
                ticking.cancel()

    def _app(self) -> App:
        connector = PsycopgConnector(
            conninfo=self._address.url.set(drivername="postgresql").render_as_string(hide_password=False),
            kwargs=CONNECTION
            | {"options": f"-c search_path={self._address.shared} -c default_transaction_isolation={_ISOLATION}"},
            min_size=0,  # opening does not wait for a connection
            max_size=_CONNECTIONS,
            timeout=_POOL_TIMEOUT_S,
        )
        app = App(connector=connector)
        app.job_manager = self._manager = _ResilientJobManager(connector, self.outage, self._finished, self._places)
        strategy = _RetryStrategy(self._handler, self._manager.uncounted)
        app.task(name=TASK, pass_context=True, retry=strategy)(self._do)
        return app

    async def _serve(self, app: App) -> None:
        """Run Procrastinate's workers one after the other: each ends at an error."""
        backoff = Backoff(_BACKOFF_FIRST_S, _BACKOFF_MAX_S)
        while not self._stopping.is_set():
            self._worker = Worker(
                app,
                queues=self._queues(),
                concurrency=self._places + 1,
                fetch_job_polling_interval=QUEUE_POLL_S,
                abort_job_polling_interval=_NEVER_S,
                update_heartbeat_interval=_NEVER_S,
                delete_jobs=DeleteJobCondition.NEVER,
                install_signal_handlers=False,
            )
            self._manager.taken.clear()  # a new worker: all places are free
            began = time.monotonic()
            try:
                await self._worker.run()  # type: ignore[no-untyped-call]
            except ConnectorException as error:
                self.outage.begins(_reason(error))
            finally:
                self._worker = None
            if time.monotonic() - began > WAIT_MAX_S:
                backoff.reset()
            if not self._stopping.is_set():
                await asyncio.sleep(backoff.next())

    def _do(self, context: JobContext, /, **arguments: Any) -> None:
        job_id = context.job.id or 0
        with self._lock:
            self._running[job_id] = arguments
        self._handler.do(arguments)

    def _finished(self, job: Job, status: Status) -> None:
        with self._lock:
            self._running.pop(job.id or 0, None)
            self.done += status == Status.SUCCEEDED

    async def _tick(self) -> None:
        while True:
            self._last_tick = time.monotonic()
            if self._stopping.is_set():
                self._stop_worker()
            await asyncio.sleep(0.5)

    def _stop_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop()  # type: ignore[no-untyped-call]

    def _refresh_queues(self) -> None:
        if self._worker is not None:
            self._worker.queues = self._queues()
        self._manager.wake()

    def _re_register(self, worker_id: int) -> None:
        if self._worker is not None and self._worker.worker_id == worker_id:
            self._worker.stop()  # type: ignore[no-untyped-call]


class _ResilientJobManager(JobManager):
    """A JobManager whose workers survive a database outage, with one listening connection for all of them."""

    def __init__(
        self, connector: PsycopgConnector, outage: Outage, finished: Callable[[Job, Status], None], places: int
    ) -> None:
        super().__init__(connector)
        self._outage, self._on_finished, self._places = outage, finished, places
        self.taken: set[int | None] = set()
        """Ids of fetched jobs that have not ended."""
        self._wakes = 0
        self._callbacks: list[NotificationCallback] = []
        self._listener: asyncio.Task[None] | None = None
        self._wakeups: set[asyncio.Future[None]] = set()
        self.uncounted: set[int | None] = set()
        """Ids of requeued jobs, whose requeue is not an attempt."""

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """The next job. None if there is none or during an outage. While all places are taken, only a job of a dead worker or run."""
        job, wakes = None, -1
        while job is None and wakes != self._wakes:  # Procrastinate ignores a wake-up during a fetch
            wakes = self._wakes
            try:
                job = await self._fetch(list(queues or ()), worker_id)
            except ConnectorException as error:
                self._outage.begins(_reason(error))
                return None
        self._outage.ends()
        if job is not None:
            self.taken.add(job.id)
        return job

    async def _fetch(self, queues: list[str], worker_id: int) -> Job | None:
        if len(self.taken) >= self._places:
            rows = await self.connector.execute_query_all_async(jobs.URGENT, queues=queues)
            queues = [row["queue_name"] for row in rows]
            if not queues:
                return None
        return await super().fetch_job(queues, worker_id)

    def _finished(self, job: Job, status: Status) -> None:
        self.taken.discard(job.id)
        self._on_finished(job, status)
        self.wake()  # a place is free, and another job of this ledger may wait

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 (Procrastinate's)
        """Record the end of a job, if it is still ours. If that fails, the job is done again."""
        arguments = {"job": job.id, "worker": job.worker_id, "status": status.value, "remove": delete_job}
        await self._execute(jobs.FINISH, arguments)
        self._finished(job, status)

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,  # noqa: ARG002 (Procrastinate's)
        lock: str | None = None,  # noqa: ARG002
    ) -> None:
        """Requeue a job. With a `priority` above 0 it goes before all waiting ones, even if no place is free."""
        after_s = max(0.0, (retry_at - datetime.now(UTC)).total_seconds()) if retry_at else 0.0
        parameters = {"job": job.id, "worker": job.worker_id}
        if job.id in self.uncounted:
            self.uncounted.discard(job.id)
            await self._execute(jobs.DO_NOT_COUNT_ATTEMPT, parameters)
        await self._execute(jobs.RETRY, parameters | {"after_s": after_s, "priority": priority})
        self._finished(job, Status.TODO)
        if after_s:  # other workers find it by polling
            asyncio.get_running_loop().call_later(after_s, self.wake)

    async def unregister_worker(self, worker_id: int) -> None:
        """Leave the queue's table of workers. If that fails, this worker soon counts as dead."""
        if not self._outage.away:
            with suppress(ConnectorException):
                await super().unregister_worker(worker_id)

    async def update_heartbeat(self, worker_id: int) -> None:
        """Do nothing: see `worker_process.Housekeeping`."""

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:  # noqa: ARG002 (Procrastinate's)
        """Do nothing: see `jobs.requeue_jobs_of_dead_workers`."""
        return []

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:  # noqa: ARG002 (Procrastinate's)
        """Empty: jobs are never aborted."""
        return []

    async def listen_for_jobs(
        self,
        *,
        on_notification: NotificationCallback,
        queues: Iterable[str] | None = None,  # noqa: ARG002 (Procrastinate's)
    ) -> None:
        """Listen for new jobs until cancelled, on one connection for all workers of this process."""
        self._callbacks.append(on_notification)
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())
        try:
            await asyncio.Event().wait()
        finally:
            self._callbacks.remove(on_notification)
            if not self._callbacks and self._listener is not None:
                self._listener.cancel()
                self._listener = None

    async def _listen(self) -> None:
        backoff = Backoff(_BACKOFF_FIRST_S, _BACKOFF_MAX_S)
        while True:
            began = time.monotonic()
            with suppress(ConnectorException):
                await super().listen_for_jobs(on_notification=self._wake)
            if time.monotonic() - began > WAIT_MAX_S:
                backoff.reset()
            await asyncio.sleep(backoff.next())
            self.wake()  # notifications may have been missed

    def wake(self) -> None:
        """Have all workers of this process look for jobs."""
        wakeup = asyncio.ensure_future(self._wake(channel="", notification={"type": "job_inserted", "job_id": 0}))
        self._wakeups.add(wakeup)
        wakeup.add_done_callback(self._wakeups.discard)

    async def _wake(self, *, channel: str, notification: Notification) -> None:
        self._wakes += 1
        for callback in tuple(self._callbacks):
            await callback(channel=channel, notification=notification)

    async def _execute(self, statement: Any, arguments: Mapping[str, Any]) -> None:
        try:
            await self.connector.execute_query_all_async(statement, **arguments)
        except UniqueViolation:
            return  # another job of this ledger is queued: housekeeping gives this one up
        except ConnectorException as error:
            self._outage.begins(_reason(error))


class _RetryStrategy(BaseRetryStrategy):
    """Decides when a failed job is retried."""

    def __init__(self, handler: JobHandler, uncounted: set[int | None]) -> None:
        self._handler, self._uncounted = handler, uncounted

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Retry with growing pauses, at most `ATTEMPTS` times. A requeued job is always retried. A killed run goes first, like the
        jobs of a dead worker.
        """
        if isinstance(exception, Requeue):
            self._uncounted.add(job.id)
            return _retry_in(exception.after_s)
        after_s = min(2.0**job.attempts, WAIT_MAX_S) if job.attempts + 1 < ATTEMPTS else None
        self._handler.failed(job.task_kwargs, exception, after_s)
        return None if after_s is None else _retry_in(after_s, _FIRST if isinstance(exception, RunKilled) else None)


def _retry_in(seconds: float, priority: int | None = None) -> RetryDecision:
    retry_at = datetime.now(UTC) + timedelta(seconds=seconds) if seconds else None
    return RetryDecision(retry_at=retry_at, priority=priority)


def _reason(error: BaseException) -> str:
    text = str(error.__cause__ or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _silence_loggers() -> None:
    """Stop these libraries from logging: we report what matters."""
    for name in ("procrastinate", "psycopg"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
        logger.propagate = False


def keep_fork_server() -> None:
    """Start the fork server unless it runs. It loads in the background, so the first run starts as fast as the others."""
    get_context("forkserver").set_forkserver_preload(["loadsheet.cluster.preload"])
    forkserver.ensure_running()


def run_due(settings: Settings, due: datetime, stopping: Event, *, command: Command) -> int:
    """Run the ledger of a shipper, due since `due` (aware), through the command line in another process. Returns the exit code.

    Raises LedgerBusy on exit code 75 (try again later), RunKilled if a signal ended the process, and Requeue if the worker has to
    stop. The process has ended by then, and the next run continues its work.
    """
    run_log.info("a run begins", shipper=settings.shipper, due=due.isoformat())
    keep_fork_server()
    process = get_context("forkserver").Process(target=_run, args=(command, arguments(settings), dict(os.environ)))
    process.start()
    stop_requested = False
    while process.is_alive():
        process.join(_PROCESS_POLL_S)
        if stopping.is_set() and not stop_requested:
            process.terminate()
            stop_requested = True
    code = process.exitcode
    run_log.info("a run ended", shipper=settings.shipper, exit_code=code)
    if stop_requested or (stopping.is_set() and code):  # Ctrl-C reaches the run before we can ask it
        raise Requeue
    if code == exit_codes.TRY_AGAIN:
        raise LedgerBusy(f"the run of {settings.shipper or 'the ledger'} could not continue (exit code 75)")
    if code is not None and code < 0:
        raise RunKilled(f"the run of {settings.shipper or 'the ledger'} was killed ({signal.Signals(-code).name})")
    return code or 0


def _run(command: Command, arguments: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(command(arguments))


def arguments(settings: Settings) -> list[str]:
    """The command line of a run with these settings, after `loadsheet`."""
    config = settings.file
    named = ["--config", str(Path(config).absolute())] if config and Path(config).is_file() else []
    return ["run", "--quiet", *named, *(["--shipper", settings.shipper] if settings.shipper else [])]
