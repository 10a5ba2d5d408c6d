"""A worker: a process that takes batches of all ledgers it serves, or a thread that does so within a run where no process does.

Owns: what belongs together in it (places at the queue, housekeeping, what batches are done with) and in which order that begins and ends.
What a batch comes to is in `work`; the process can be killed at any moment.
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
from typing import Any, NamedTuple, overload

from loadsheet import journal
from loadsheet.arrivals.moments import shown, zone_of
from loadsheet.fleet.housekeeping import Housekeeping
from loadsheet.fleet.outage import Outage
from loadsheet.fleet.queue import Group, PutBack, Queue
from loadsheet.fleet.runs import TRY_AGAIN
from loadsheet.fleet.served import Served
from loadsheet.ledger.joining import unique
from loadsheet.ledger.postgres import shared_engine
from loadsheet.ledger.shared import Engine, jobs, recovery
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.workers import Enrolled
from loadsheet.problems import LoadsheetError
from loadsheet.settings import Settings

LOOK_S = 0.2
_MINUTE_S = 60.0
STUCK_S = 60.0
"""A worker whose threads do nothing at all for so long is not well."""
RUN_AGAIN_S = 300.0
"""So often a scheduled run is tried that cannot go on now."""
SAID_S = 3600.0
"""What goes wrong again and again is said once in so long."""

Say = Callable[[str], None]


class Asked(Sequence[int]):
    """The signals that ask to stop, as they come: one in it as soon as the event is set."""

    def __init__(self, event: threading.Event, number: int = 15) -> None:
        self._event, self._number = event, number

    def __len__(self) -> int:
        """One or none."""
        return int(self._event.is_set())

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """As of a list."""
        return ([self._number] if self._event.is_set() else [])[index]


class Hand(NamedTuple):
    """Who does a batch: its name (the worker's, and what tells this delivery apart), what all ledgers share, and whether to stop."""

    name: str
    shared: Engine
    stopping: Sequence[int]


Work = Callable[[Settings, int, Hand], None]
"""Does a batch of the ledger of these settings. PutBack: it is for others; anything else that it raises: it is tried again."""
Run = Callable[[Settings, datetime, Hand], object]
"""Does a run that was due at this moment (aware, UTC). Raises as `Work` does."""


def serve(
    config: Path | None,
    shippers: tuple[str, ...],
    *,
    places: int | None,
    say: Say,
    stopping: threading.Event,
    once: bool = False,
    reread: threading.Event | None = None,
    turned: Callable[[], None] = lambda: None,
    work: Work | None = None,
    run: Run | None = None,
) -> int:
    """Serve these shippers (none named: all that are declared) until `stopping` is set, or, if only `once`, until nothing is left to do
    now. Returns an exit code.

    `places` are batches of calls at the same time (None: `worker_places`). `reread` asks for the settings to be read again, `turned`
    hears of every look while all is well. `run` does scheduled runs; without it they are left to others. Raises SettingsError if there is
    nothing to serve, LedgerGone if the database cannot be reached now; when it goes away later, that is waited out.
    """
    served, settings = Served(config, shippers, say), Settings.load(config)
    name, calls = unique(), places or settings.worker_places
    started = Enrolled(name, socket.gethostname(), os.getpid(), version("loadsheet"), (), calls)
    groups = [Group(jobs.CALLS, calls), Group(jobs.REST, 1), *([Group(jobs.RUNS, 1)] if run else [])]

    def enrolled() -> Enrolled:
        return started._replace(serves=tuple(served.by_shipper))

    with ExitStack() as stack:
        engine = _engine(stack, served)
        make_tables(engine, served.address)
        does = _Does(work or _real(stack, name, engine, say), run)
        crew = _Crew(engine, served, settings, groups, does, name=name, say=say, stopping=stopping, enrolled=enrolled)
        say(f"worker {name} serves {_named(served)}: {calls} batches of calls at a time")
        with crew.working():
            while not stopping.wait(LOOK_S):
                crew.check()
                if crew.is_well:
                    turned()
                crew.see_to_settings(reread)
                if once and crew.is_idle():
                    break
    say("stopped; what is left is for others, or for the next start")
    return 0


@contextmanager
def inside(settings: Settings, say: Say, *, work: Work | None = None) -> Iterator[Callable[[], None]]:
    """A worker within this process, for the batches of the ledger of these settings, while the `with` block lasts; what it yields raises
    what broke the worker, if something did. It stands in no register: whoever looks for workers is to find none.
    """
    name, stopping = unique(), threading.Event()
    groups = [Group(jobs.CALLS, settings.worker_places), Group(jobs.REST, 1)]
    served = Served(None, (), say, one=settings)
    with ExitStack() as stack:
        engine = _engine(stack, served)
        does = _Does(work or _real(stack, name, engine, say), None)
        crew = _Crew(engine, served, settings, groups, does, name=name, say=say, stopping=stopping, enrolled=None)
        stack.enter_context(crew.working())
        yield crew.check


class _Does(NamedTuple):
    """What is done with jobs."""

    work: Work
    run: Run | None


class _Crew:
    """The threads of a worker."""

    def __init__(
        self,
        engine: Engine,
        served: Served,
        settings: Settings,
        groups: Sequence[Group],
        does: _Does,
        *,
        name: str,
        say: Say,
        stopping: threading.Event,
        enrolled: Callable[[], Enrolled] | None,
    ) -> None:
        self._served, self._name, self._say, self._stopping = served, name, say, stopping
        self._does, self._registered = does, enrolled is not None
        self._takeover_s = settings.takeover_s
        self._said: dict[str, float] = {}  # what it was about, and when
        self._reading: _Thread | None = None
        self._look_at = time.monotonic() + _MINUTE_S
        self._engine = engine
        outage = Outage(say)
        tasks = {jobs.TASK: self._do_batch} | ({jobs.RUN_TASK: self._do_run} if does.run else {})
        self.queue = Queue(
            served.address,
            groups,
            queues=served.queues,
            tasks=tasks,
            outage=outage,
            failed=self._failed,
            keep=settings.jobs_days > 0,
        )
        self.house = Housekeeping(
            engine,
            served,
            self.queue,
            outage,
            enrolled=enrolled,
            takeover_s=settings.takeover_s,
            jobs_days=settings.jobs_days,
            ticks=does.run is not None,
        )
        keeping = (_Thread(self.house.live, "signs of life"), _Thread(self.house.run, "housekeeping"))
        self._threads = [_Thread(self.queue.run, "queue"), *keeping]

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work while the `with` block lasts; at its end what is under way ends or is put back, and what broke a thread is raised."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self.queue.stop()
            self._threads[0].join()
            self.house.end()
            for thread in self._threads:
                thread.join()
            self.house.leave()
        self.check()

    def check(self) -> None:
        """Raise what broke a thread."""
        for thread in (*self._threads, self._reading):
            if thread is not None and thread.broke is not None:
                raise thread.broke

    def see_to_settings(self, asked: threading.Event | None) -> None:
        """Read the settings again if that was asked for, or if a look once a minute shows another file; beside all else, because those of
        hundreds of shippers take their time.
        """
        if self._reading is not None and self._reading.is_alive():
            return
        now = time.monotonic()
        if wanted := asked is not None and asked.is_set():
            asked.clear()
        if not wanted and now >= self._look_at:
            self._look_at = now + _MINUTE_S
            wanted = self._served.is_stale()
        if wanted:
            self._reading = _Thread(self._read_again, "settings")
            self._reading.start()

    def _read_again(self) -> None:
        self._served.read_again()
        self.queue.look()

    @property
    def is_well(self) -> bool:
        """Whether the threads go on."""
        return max(self.queue.quiet_s, self.house.quiet_s) < STUCK_S

    def is_idle(self) -> bool:
        """Whether there is nothing to do now, after all was looked at once."""
        if not self.house.rounds or self.queue.hands:
            return False
        queues = self._served.queues()
        mine = [name for group in self.queue.groups for name in queues[group.name]]
        with self._engine.connect() as connection:
            return not recovery.left(connection, mine) and not recovery.doing_of(connection, self.queue.numbers)

    def _do_batch(self, number: int, arguments: Mapping[str, Any]) -> None:
        settings = self._served.by_ledger.get(arguments["ledger"])
        self._known(settings, arguments["ledger"])
        if settings is not None:
            with self._speaking(settings):
                self._does.work(settings, int(arguments["batch"]), self._hand(number))

    def _do_run(self, number: int, arguments: Mapping[str, Any]) -> None:
        settings = self._served.by_shipper.get(arguments["shipper"])
        self._known(settings, arguments["shipper"])
        if settings is not None and self._does.run is not None:
            due = datetime.fromisoformat(arguments["due"])
            try:
                self._does.run(settings, due, self._hand(number))
            except LoadsheetError as error:
                self._is_there_time(settings, due, error)
                raise

    def _is_there_time(self, settings: Settings, due: datetime, error: LoadsheetError) -> None:
        """Put a run back that may go well later, as long as it would be caught up: its moment fired, and does not come again."""
        if error.exit_code != TRY_AGAIN or datetime.now(UTC) - due > settings.catch_up:
            return
        whose = f"the run of {settings.shipper}" if settings.shipper else "the run"
        then, until = (shown(when, zone_of(settings.schedule_zone)) for when in (due, due + settings.catch_up))
        again = f"it is tried again every {RUN_AGAIN_S / 60:g} minutes until {until}"
        self._once(f"{whose} that was due {then}: {error}; {again}", f"{whose} {due}")
        raise PutBack(RUN_AGAIN_S) from error

    def _hand(self, number: int) -> Hand:
        return Hand(f"{self._name}/{number}", self._engine, Asked(self._stopping))

    def _known(self, settings: Settings | None, whose: str) -> None:
        """A job whose shipper is not ours any more is for others, and not at once ours again."""
        if settings is None:
            self._once(f"{whose}: its settings are not known here any more; its jobs are left to others")
            raise PutBack(self._takeover_s)

    @contextmanager
    def _speaking(self, settings: Settings) -> Iterator[None]:
        """Lines of the journal are of this shipper; within a run they go on being the run's."""
        with journal.opened(settings, anew=self._registered):
            yield

    def _failed(self, arguments: Mapping[str, Any], error: BaseException, after_s: float | None) -> None:
        shipper, batch = arguments.get("shipper", ""), arguments.get("batch")
        what = f"batch {batch}" if batch else "a scheduled run"
        whose = f"{what} of {shipper}" if shipper else what
        again = "it is given up for now" if after_s is None else f"it is tried again in {after_s:g} s"
        if isinstance(error, LoadsheetError):
            self._once(f"{whose}: {error}; {again}", f"{shipper} {error} {after_s is None}")
        else:
            self._say(
                f"{whose}: a fault of our own ({type(error).__name__}), the traceback is in {_file_away(error)}; {again}"
            )

    def _once(self, text: str, about: str = "") -> None:
        """Say something unless that, or something else about the same, was said of late."""
        now, about = time.monotonic(), about or text
        self._said = {one: said_at for one, said_at in self._said.items() if now - said_at < SAID_S}
        if about not in self._said:
            self._said[about] = now
            self._say(text)


class _Thread(threading.Thread):
    """A thread that remembers what broke it, and speaks into the journal of whoever made it."""

    def __init__(self, act: Callable[[], None], name: str) -> None:
        super().__init__(target=partial(copy_context().run, act), name=name, daemon=True)
        self.broke: BaseException | None = None

    def run(self) -> None:
        """Act; what is raised is kept for `check`."""
        with ExitStack() as stack:
            stack.push(self._keep)
            super().run()

    def _keep(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        self.broke = error
        return True


def _engine(stack: ExitStack, served: Served) -> Engine:
    engine = shared_engine(served.address)
    stack.callback(engine.dispose)
    return engine


def _real(stack: ExitStack, name: str, engine: Engine, say: Say) -> Work:
    """What batches come to, with what is kept from one to the next."""
    from loadsheet.fleet.clients import Clients  # noqa: PLC0415
    from loadsheet.fleet.pacing import Paces  # noqa: PLC0415
    from loadsheet.fleet.work import Bench, HandedBack, work  # noqa: PLC0415

    clients, paces = Clients(), Paces(engine, name, say)
    stack.callback(paces.close)
    stack.callback(clients.close)

    def do(settings: Settings, batch: int, hand: Hand) -> None:
        try:
            work(settings, batch, Bench(hand.name, hand.shared, hand.stopping, clients, paces))
        except HandedBack:
            raise PutBack from None

    return do


def _named(served: Served) -> str:
    return ", ".join(name for name in served.by_shipper if name) or f"the ledger in {served.address}"


def _file_away(error: BaseException) -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(file.name)
