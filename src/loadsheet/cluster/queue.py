"""The queue (Procrastinate) as a worker has it: jobs come, each is done in a thread, and it outlives what becomes of its database.

Owns: what happens to a job that could not be done, and what the queue makes of a database that goes away: Procrastinate's own workers
end then, ours wait. Signs of life are given by `housekeeping`, on a connection of its own. A job that is not ours any more, because we
were taken for dead, is left alone.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import DeleteJobCondition, Job, Notification, Status
from procrastinate.manager import JobManager, NotificationCallback
from procrastinate.worker import Worker

from loadsheet import run_log
from loadsheet.cluster.outage import Outage
from loadsheet.ledger.postgres import Address
from loadsheet.ledger.shared import recovery
from loadsheet.ledger.shared.jobs import TASK
from loadsheet.pauses import Growing

LOOK_S = 5.0
"""So often it is looked for jobs of which no news came."""
ATTEMPTS = 10
"""So often a job is tried before it is given up, not counting how often it is put back."""
WAIT_MAX_S = 60.0
_CONNECTIONS = 4
_PATIENCE_S = 3.0  # for a connection
_FIRST_S, _LONGEST_S = 0.25, 10.0  # the pauses while the database is away
_NEVER_S = 1e9
_ISOLATION = "read\\ committed"
_CONNECTION = {
    "application_name": "loadsheet",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class PutBack(Exception):  # noqa: N818 (named for what is to happen)
    """Not done, and no fault: the job is for others, in so many seconds."""

    def __init__(self, after_s: float = 0.0) -> None:
        super().__init__("put back")
        self.after_s = after_s


Do = Callable[[int, Mapping[str, Any]], None]
"""Does a job, given its number and arguments, in a thread. What it raises is a fault, and the job is tried again; PutBack is none."""
Failed = Callable[[Mapping[str, Any], BaseException, float | None], None]
"""Hears of a job that could not be done: its arguments, why, and in how many seconds it is tried again (None: it is given up)."""


class Queue:
    """The places of one process at the queue of a database: so many jobs are done at the same time. `run` serves them until `stop`;
    `queues` says where jobs come from and is asked again at each `look`.
    """

    def __init__(
        self,
        address: Address,
        places: int,
        *,
        queues: Callable[[], Sequence[str]],
        do: Do,
        outage: Outage,
        failed: Failed,
    ) -> None:
        self._address, self._places, self._queues, self._do_job = address, places, queues, do
        self._outage, self._failed = outage, failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._manager: _Patient
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._hands: dict[int, Mapping[str, Any]] = {}
        self.done = 0
        self._ticked = time.monotonic()

    # from other threads

    def stop(self) -> None:
        """Take no more jobs; `run` returns when those under way are over."""
        self._stopping.set()
        self._call(self._stop_worker)

    def look(self) -> None:
        """Look for jobs in the queues as they are now."""
        self._call(self._refresh)

    def renew(self, number: int) -> None:
        """The database does not know us by this number any more: enter it again, after what is under way."""
        self._call(partial(self._renew, number))

    @property
    def number(self) -> int | None:
        """The number under which the queue knows us, if it does."""
        worker = self._worker
        return None if worker is None else worker.worker_id

    @property
    def hands(self) -> dict[int, Mapping[str, Any]]:
        """The arguments of the jobs that are under way, by their numbers."""
        with self._lock:
            return dict(self._hands)

    @property
    def quiet_s(self) -> float:
        """For how many seconds the loop stood still."""
        return time.monotonic() - self._ticked

    def run(self) -> None:
        """Serve until `stop`."""
        asyncio.run(self._main())

    def _call(self, act: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is over
                loop.call_soon_threadsafe(act)

    # in the loop

    async def _main(self) -> None:
        _be_quiet()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_heard)
        self._loop.set_default_executor(ThreadPoolExecutor(self._places + 2, thread_name_prefix="run"))
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
            kwargs=_CONNECTION
            | {"options": f"-c search_path={self._address.shared} -c default_transaction_isolation={_ISOLATION}"},
            min_size=0,  # nothing is waited for when it is opened
            max_size=_CONNECTIONS,
            timeout=_PATIENCE_S,
        )
        app = App(connector=connector)
        app.job_manager = self._manager = _Patient(connector, self._outage, self._over)
        strategy = _Again(self._failed, self._manager.uncounted.add)
        app.task(name=TASK, pass_context=True, retry=strategy)(self._do)
        return app

    async def _serve(self, app: App) -> None:
        """Our places, again and again: a worker of Procrastinate ends when something is wrong with it."""
        growing = Growing(_FIRST_S, _LONGEST_S)
        while not self._stopping.is_set():
            self._worker = Worker(
                app,
                queues=self._queues(),
                concurrency=self._places,
                fetch_job_polling_interval=LOOK_S,
                abort_job_polling_interval=_NEVER_S,
                update_heartbeat_interval=_NEVER_S,
                delete_jobs=DeleteJobCondition.NEVER,
                install_signal_handlers=False,
            )
            began = time.monotonic()
            try:
                await self._worker.run()  # type: ignore[no-untyped-call]
            except ConnectorException as error:
                self._outage.begins(_why(error))
            finally:
                self._worker = None
            if time.monotonic() - began > WAIT_MAX_S:
                growing.reset()
            if not self._stopping.is_set():
                await asyncio.sleep(growing.next())

    def _do(self, context: JobContext, /, **arguments: Any) -> None:
        number = context.job.id or 0
        with self._lock:
            self._hands[number] = arguments
        self._do_job(number, arguments)

    def _over(self, job: Job, status: Status) -> None:
        with self._lock:
            self._hands.pop(job.id or 0, None)
            self.done += status == Status.SUCCEEDED

    async def _tick(self) -> None:
        while True:
            self._ticked = time.monotonic()
            if self._stopping.is_set():
                self._stop_worker()
            await asyncio.sleep(0.5)

    def _stop_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop()  # type: ignore[no-untyped-call]

    def _refresh(self) -> None:
        if self._worker is not None:
            self._worker.queues = self._queues()
        self._manager.ring()

    def _renew(self, number: int) -> None:
        if self._worker is not None and self._worker.worker_id == number:
            self._worker.stop()  # type: ignore[no-untyped-call]


class _Patient(JobManager):
    """What Procrastinate does in the database, done so that its workers live on when the database is away, and with one ear for all."""

    def __init__(self, connector: PsycopgConnector, outage: Outage, over: Callable[[Job, Status], None]) -> None:
        super().__init__(connector)
        self._outage, self._over = outage, over
        self._rung: list[NotificationCallback] = []
        self._ear: asyncio.Task[None] | None = None
        self._ringing: set[asyncio.Future[None]] = set()
        self.uncounted: set[int | None] = set()
        """Jobs that are put back, which counts as no attempt."""

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """The next job, if there is one and the database can be reached."""
        try:
            job = await super().fetch_job(list(queues or ()), worker_id)
        except ConnectorException as error:
            self._outage.begins(_why(error))
            return None
        self._outage.ends()
        return job

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 (Procrastinate's)
        """A job is over. If it is not ours any more, it is somebody else's to say so; if that cannot be told, it is done once more."""
        arguments = {"job": job.id, "worker": job.worker_id, "status": status.value, "remove": delete_job}
        await self._tell(recovery.FINISH, arguments)
        self._over(job, status)
        self.ring()  # another job of its ledger may have waited for it

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,  # noqa: ARG002 (Procrastinate's)
        queue: str | None = None,  # noqa: ARG002
        lock: str | None = None,  # noqa: ARG002
    ) -> None:
        """A job is to be done again."""
        after_s = max(0.0, (retry_at - datetime.now(UTC)).total_seconds()) if retry_at else 0.0
        whose = {"job": job.id, "worker": job.worker_id}
        if job.id in self.uncounted:
            self.uncounted.discard(job.id)
            await self._tell(recovery.UNCOUNT, whose)
        await self._tell(recovery.RETRY, whose | {"after_s": after_s})
        self._over(job, Status.TODO)
        if after_s:  # others look from time to time
            asyncio.get_running_loop().call_later(after_s, self.ring)

    async def unregister_worker(self, worker_id: int) -> None:
        """We end. If that cannot be told, we are taken for dead."""
        if not self._outage.away:
            with suppress(ConnectorException):
                await super().unregister_worker(worker_id)

    async def update_heartbeat(self, worker_id: int) -> None:
        """Nothing: see `housekeeping`."""

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:  # noqa: ARG002 (Procrastinate's)
        """Nobody: see `recovery.reap`."""
        return []

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:  # noqa: ARG002 (Procrastinate's)
        """None: nobody aborts jobs."""
        return []

    async def listen_for_jobs(
        self,
        *,
        on_notification: NotificationCallback,
        queues: Iterable[str] | None = None,  # noqa: ARG002 (Procrastinate's)
    ) -> None:
        """Hear of new jobs until cancelled, on one connection for all workers of this process."""
        self._rung.append(on_notification)
        if self._ear is None:
            self._ear = asyncio.create_task(self._hear())
        try:
            await asyncio.Event().wait()
        finally:
            self._rung.remove(on_notification)
            if not self._rung and self._ear is not None:
                self._ear.cancel()
                self._ear = None

    async def _hear(self) -> None:
        growing = Growing(_FIRST_S, _LONGEST_S)
        while True:
            began = time.monotonic()
            with suppress(ConnectorException):
                await super().listen_for_jobs(on_notification=self._ring)
            if time.monotonic() - began > WAIT_MAX_S:
                growing.reset()
            await asyncio.sleep(growing.next())
            self.ring()  # we were deaf for a while

    def ring(self) -> None:
        """Have all look for jobs."""
        ringing = asyncio.ensure_future(self._ring(channel="", notification={"type": "job_inserted", "job_id": 0}))
        self._ringing.add(ringing)
        ringing.add_done_callback(self._ringing.discard)

    async def _ring(self, *, channel: str, notification: Notification) -> None:
        for each in tuple(self._rung):
            await each(channel=channel, notification=notification)

    async def _tell(self, statement: Any, arguments: Mapping[str, Any]) -> None:
        try:
            await self.connector.execute_query_all_async(statement, **arguments)
        except UniqueViolation:
            return  # another job of its ledger came to wait: housekeeping gives this one up
        except ConnectorException as error:
            self._outage.begins(_why(error))


class _Again(BaseRetryStrategy):
    """When a job that could not be done is tried again."""

    def __init__(self, failed: Failed, uncount: Callable[[int | None], None]) -> None:
        self._failed, self._uncount = failed, uncount

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """After pauses that grow, so often; one that was put back, as often as it is."""
        if isinstance(exception, PutBack):
            self._uncount(job.id)
            return _again_in(exception.after_s)
        after_s = min(2.0**job.attempts, WAIT_MAX_S) if job.attempts + 1 < ATTEMPTS else None
        self._failed(job.task_kwargs, exception, after_s)
        return None if after_s is None else _again_in(after_s)


def _again_in(seconds: float) -> RetryDecision:
    return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=seconds)) if seconds else RetryDecision()


def _why(error: BaseException) -> str:
    said = str(error.__cause__ or error).strip()
    return said.splitlines()[0] if said else type(error).__name__


def _heard(_loop: asyncio.AbstractEventLoop, told: Mapping[str, Any]) -> None:
    run_log.debug("the queue's loop", reason=str(told.get("message", "")), error=repr(told.get("exception")))


def _be_quiet() -> None:
    """What these libraries have to say is said by us."""
    for name in ("procrastinate", "psycopg.pool"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
        logger.propagate = False
