"""A worker: a process that takes the runs of all ledgers it serves, each done by a process of its own.

Owns: what belongs together in it (places at the queue, housekeeping) and in which order that begins and ends. It can be killed at any
moment: its jobs go to others, and what a run of it was sending is looked for by the next one.
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

from loadsheet.cluster.housekeeping import Housekeeping
from loadsheet.cluster.outage import Outage
from loadsheet.cluster.queue import PutBack, Queue
from loadsheet.cluster.runs import TRY_AGAIN
from loadsheet.cluster.shippers import Served
from loadsheet.ledger.postgres import shared_engine
from loadsheet.ledger.postgres_opening import unique
from loadsheet.ledger.shared import Engine, recovery
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.workers import Enrolled
from loadsheet.operations.expected_files import local_text, zone_of
from loadsheet.pauses import Growing
from loadsheet.problems import LoadsheetError
from loadsheet.settings import Settings

LOOK_S = 0.2
_MINUTE_S = 60.0
STUCK_S = 60.0
"""A worker whose threads do nothing at all for so long is not well."""
RUN_AGAIN_MAX_S = 300.0
"""The longest pause before a run is tried again that could not go on; the first is `retry_s`, and each is twice the one before."""
BUSY_S = 1.0
"""So often a run is tried whose ledger another process holds: that may be dead."""
SAID_S = 3600.0
"""What goes wrong again and again is said once in so long."""

Say = Callable[[str], None]
Run = Callable[[Settings, datetime, Sequence[int]], object]
"""Runs the ledger of these settings, wanted since a moment (aware, UTC), until it is over or asked to stop by a signal in the sequence.

PutBack: it is for others; LoadsheetError with exit code 75: it is tried again later; anything else that it raises is a fault."""


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
    turned: Callable[[], None] = lambda: None,
) -> int:
    """Serve these shippers (none named: all that are declared) until `stopping` is set, or, if only `once`, until nothing is left to do
    now. Returns an exit code.

    `places` are runs at the same time (None: `worker_places`). `reread` asks for the settings to be read again, `turned` hears of every
    look while all is well. Raises SettingsError if there is nothing to serve, LedgerGone if the database cannot be reached now; when it
    goes away later, that is waited out.
    """
    served, settings = Served(config, shippers, say), Settings.load(config)
    name, most = unique(), places or settings.worker_places
    started = Enrolled(name, socket.gethostname(), os.getpid(), version("loadsheet"), (), most)

    def enrolled() -> Enrolled:
        return started._replace(serves=tuple(served.by_shipper))

    engine = shared_engine(served.address)
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        make_tables(engine, served.address)
        crew = _Crew(engine, served, settings, run, places=most, say=say, stopping=stopping, enrolled=enrolled)
        say(f"worker {name} serves {_named(served)}: {most} run{'s' if most != 1 else ''} at a time")
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


class _Crew:
    """The threads of a worker."""

    def __init__(
        self,
        engine: Engine,
        served: Served,
        settings: Settings,
        run: Run,
        *,
        places: int,
        say: Say,
        stopping: threading.Event,
        enrolled: Callable[[], Enrolled],
    ) -> None:
        self._engine, self._served, self._run, self._say, self._stopping = engine, served, run, say, stopping
        self._takeover_s = settings.takeover_s
        self._said: dict[str, float] = {}  # what it was about, and when
        self._pauses: dict[str, Growing] = {}  # of the shippers whose last run could not go on
        self._reading: _Thread | None = None
        self._look_at = time.monotonic() + _MINUTE_S
        outage = Outage(say)
        self.queue = Queue(
            served.address, places, queues=served.queues, do=self._do, outage=outage, failed=self._failed
        )
        self.house = Housekeeping(
            engine,
            served,
            self.queue,
            outage,
            enrolled=enrolled,
            takeover_s=settings.takeover_s,
            jobs_days=settings.jobs_days,
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
            self._threads[0].join()  # signs of life are given until its last job is over
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
        number = self.queue.number
        with self._engine.connect() as connection:
            mine = recovery.left(connection, self._served.queues())
            return not mine and not (number is not None and recovery.doing_of(connection, number))

    def _do(self, _number: int, arguments: Mapping[str, Any]) -> None:
        """Have a run done. One whose ledger another process holds is tried again soon: that process may not have seen what came since."""
        settings = self._served.by_shipper.get(arguments["shipper"])
        if settings is None:  # a job whose shipper is not ours any more is for others, and not at once ours again
            whose = arguments["shipper"]
            self._once(f"{whose}: its settings are not known here any more; its jobs are left to others")
            raise PutBack(self._takeover_s)
        with self._engine.connect() as connection:
            address = self._served.addresses[settings.ledger_schema]
            if recovery.holder(connection, address, settings.takeover_s):
                raise PutBack(BUSY_S)
        due = datetime.fromisoformat(arguments["due"])
        try:
            self._run(settings, due, Asked(self._stopping))
        except LoadsheetError as error:
            self._is_there_time(settings, due, error)
            raise
        self._pauses.pop(settings.shipper, None)

    def _is_there_time(self, settings: Settings, due: datetime, error: LoadsheetError) -> None:
        """Put a run back that may go well later, as long as it would be caught up."""
        if error.exit_code != TRY_AGAIN or datetime.now(UTC) - due > settings.catch_up:
            return
        whose = f"the run of {settings.shipper}" if settings.shipper else "the run"
        then, until = (local_text(when, zone_of(settings.schedule_zone)) for when in (due, due + settings.catch_up))
        again = f"it is tried again, after pauses of up to {RUN_AGAIN_MAX_S / 60:g} minutes, until {until}"
        self._once(f"{whose} that was due {then}: {error}; {again}", f"{whose} {due}")
        pauses = self._pauses.setdefault(settings.shipper, Growing(settings.retry_s, RUN_AGAIN_MAX_S))
        raise PutBack(pauses.next()) from error

    def _failed(self, arguments: Mapping[str, Any], error: BaseException, after_s: float | None) -> None:
        shipper = arguments.get("shipper", "")
        whose = f"the run of {shipper}" if shipper else "the run"
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


def _named(served: Served) -> str:
    return ", ".join(name for name in served.by_shipper if name) or f"the ledger in {served.address}"


def _file_away(error: BaseException) -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(file.name)
