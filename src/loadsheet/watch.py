"""Watching: runs follow each other for as long as the process lives, each when there is something to do.

Owns: when to look, when to run and how long to pause. An event of the file system only wakes the look; the look is the truth, and one
is due every `rescan_s` whatever the system tells. What a run is, is handed in.
"""

import logging
import queue
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from watchdog.events import (
    DirCreatedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer, api

from loadsheet import inbox
from loadsheet.backoff import Backoff
from loadsheet.inbox.file_check import MOUNTS, file_system_of, needs_polling
from loadsheet.problems import FolderError, LedgerGone, LoadsheetError, Problem
from loadsheet.settings import Settings
from loadsheet.settings.places import shown

BREATH_S = 0.2  # events come in swarms; between two looks lies this, and twice what a look takes
GATHER = 4  # files that come one after the other are taken together, but the first waits for so many times `settle_s` at most
QUEUED_S = 1.0  # so often it is looked whether a worker is done
TRY_AGAIN = 75  # the exit code of what may be over by itself

_TELLING: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileClosedEvent, DirCreatedEvent, DirMovedEvent,
]  # fmt: skip


class Ended(NamedTuple):
    """What a run came to, as far as a watch goes by it: its exit code, why it stopped early, and what it left in the inbox; or that it is
    `queued` for a worker.
    """

    exit_code: int
    stopped: LoadsheetError | None
    left: tuple[Problem, ...] = ()
    queued: bool = False


class Bell:
    """What a watch sleeps on: rung by the file system, in any of the inboxes, and by signals. Use it as a context."""

    def __init__(self, places: Sequence[Settings], say: Callable[[str], None], mounts: Path = MOUNTS) -> None:
        self._rung: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put may interrupt its get, as signals do
        self.ears = [Ear(settings, self._rung, say, mounts) for settings in places]
        self.signals: list[int] = []
        """The signal that asked us to stop, as soon as one did."""

    def __enter__(self) -> Self:
        logging.getLogger("watchdog").addHandler(logging.NullHandler())
        logging.getLogger("watchdog").propagate = False
        # a folder that appears while its parent is looked through may be listened to twice, which does no harm
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        self._handlers = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for ear in self.ears:
            ear.close()

    @property
    def signal(self) -> int:
        """The signal that asked us to stop; 0 if none did."""
        return self.signals[0] if self.signals else 0

    def wait(self, seconds: float) -> None:
        """Sleep until something happens, at most so long; what happens within a breath is one thing."""
        if self.signal:
            return
        longest = min([seconds, *(ear.rests_s for ear in self.ears)])
        with suppress(queue.Empty):
            self._rung.get(timeout=max(longest, 0.0))

    def breathe(self, looked_s: float) -> None:
        """Let the swarm pass, and forget that it rang."""
        if not self.signal:
            time.sleep(max(BREATH_S, 2 * looked_s))
        with suppress(queue.Empty):
            while True:
                self._rung.get_nowait()

    def listen(self) -> None:
        """Have the file system ring, if it can and does not yet; again where an inbox is another folder than it was."""
        for ear in self.ears:
            ear.listen()

    def forget(self, settings: Settings) -> None:
        """Listen to this inbox no more."""
        for ear in [ear for ear in self.ears if ear.settings is settings]:
            ear.close()
            self.ears.remove(ear)

    def _stop(self, number: int, _frame: object) -> None:
        if self.signal:
            raise KeyboardInterrupt  # asked twice: now
        self.signals.append(number)
        self._rung.put(None)


class Ear:
    """What listens to one inbox."""

    def __init__(
        self, settings: Settings, rung: "queue.SimpleQueue[None]", say: Callable[[str], None], mounts: Path
    ) -> None:
        self.settings, self._rung, self._say, self._mounts = settings, rung, say, mounts
        self.observer: api.BaseObserver | None = None
        self._place: tuple[int, int] | None = None
        self._told = ""

    @property
    def rests_s(self) -> float:
        """For how many seconds nobody need look: less where nothing is heard."""
        return self.settings.rescan_s if self.observer else self.settings.poll_s

    def listen(self) -> None:
        """Have the file system ring, if it can and does not yet; again if the inbox is another folder than it was."""
        if self.settings.inbox_address:
            self._tell("it lies in an object store, which tells of nothing")
            return
        try:
            status = self.settings.inbox.stat()
        except OSError:
            self.close()
            return
        place = (status.st_dev, status.st_ino)
        if place == self._place:
            return
        self.close()
        self._place = place
        reason = self._why_not()
        if not reason:
            reason = self._start()
        self._tell(reason)

    def _tell(self, reason: str) -> None:
        if reason != self._told and reason:
            self._say(f"{shown(self.settings.inbox)} is looked into every {self.settings.poll_s:g} s: {reason}")
        self._told = reason

    def _why_not(self) -> str:
        if self.settings.watch_with == "polling":
            return "watch_with is polling"
        kind = file_system_of(self.settings.inbox, self._mounts)
        shared = f"it lies on a network share or a shared folder ({kind}), where changes made elsewhere cause no events"
        return shared if needs_polling(kind) else ""

    def _start(self) -> str:
        """Start listening; returns why it could not be done, or nothing."""
        observer = Observer()
        try:
            observer.schedule(_Ringer(self._rung), str(self.settings.inbox), recursive=True, event_filter=_TELLING)
            observer.start()
        except OSError as error:  # the system's limits of watches (ENOSPC) or instances (EMFILE), for one
            with suppress(OSError, RuntimeError):
                observer.stop()
            return f"the system gives us no events ({error.strerror}; see fs.inotify in sysctl)"
        self.observer = observer
        return ""

    def close(self) -> None:
        """Listen no more, until asked again."""
        observer, self.observer, self._place = self.observer, None, None
        if observer is not None:
            observer.stop()
            observer.join(timeout=5)


class _Ringer(FileSystemEventHandler):
    def __init__(self, rung: "queue.SimpleQueue[None]") -> None:
        self._rung = rung

    def on_any_event(self, _event: FileSystemEvent) -> None:
        """Ring, once however many come: what happened is for the look to find out."""
        if self._rung.empty():
            self._rung.put(None)


class Watch(NamedTuple):
    """What is watched for one shipper, or for the only one. `run` is one run, `unfinished` counts the entries that are ready, sending
    or unknown, `say` takes what there is to say, and `close` lets go of what is held when it cannot go on. `due_s` tells in how many
    seconds a run is due although no file came, because one should have come by then (None: never); it is asked after each run.
    `scheduled_s` tells the same of runs that a schedule wants (0: one is due now); it is asked at each look. `is_pending` tells
    whether a run that was queued waits for a worker or is being done by one.
    """

    settings: Settings
    run: Callable[[], Ended]
    unfinished: Callable[[], int]
    say: Callable[[str], None]
    close: Callable[[LoadsheetError], object] = lambda _why: None
    due_s: Callable[[], float | None] = lambda: None
    scheduled_s: Callable[[], float | None] = lambda: None
    is_pending: Callable[[], bool] = lambda: False


def watch(
    watches: Sequence[Watch],
    bell: Bell,
    *,
    clock: Callable[[], float] = time.monotonic,
    on_turn: Callable[[], None] = lambda: None,
) -> int:
    """Run whenever files are finished or entries wait to be sent or resolved, until the bell is asked to stop; returns the signal.

    What may be over by itself (exit code 75) is tried again after pauses that grow; everything else that is raised ends the watch of
    the shipper concerned: of the last one it is raised here. `on_turn` hears of every look.
    """
    watchers = [_Watcher(one, clock) for one in watches]
    while not bell.signal:
        bell.listen()
        on_turn()
        started = clock()
        seconds = _turn_all(watchers, bell)
        looked_s = clock() - started
        if seconds > 0:
            bell.wait(seconds)
            bell.breathe(0.0 if any(watcher.ran for watcher in watchers) else looked_s)
    return bell.signal


def _turn_all(watchers: list["_Watcher"], bell: Bell) -> float:
    """Give each its turn; one that cannot go on leaves, unless it is the last. Returns for how long nothing needs to be done."""
    seconds: list[float] = []
    for watcher in tuple(watchers):
        if bell.signal:
            break
        try:
            seconds.append(watcher.turn())
        except LoadsheetError as error:
            if len(watchers) == 1:
                raise
            watchers.remove(watcher)
            watcher.leave(error)
            bell.forget(watcher.settings)
    return min(seconds, default=0.0)


class _Watcher:
    """What a watch remembers from one turn to the next. Times are those of `clock`, in seconds."""

    def __init__(self, watched: Watch, clock: Callable[[], float]) -> None:
        self.settings, self._run, self._unfinished, self._say, self._close = watched[:5]
        self._due_s, self._scheduled_s, self._is_pending = watched[5:]
        self._clock = clock
        self._handled: frozenset[tuple[object, ...]] = frozenset()  # what earlier runs have seen and left where it is
        self._news_since: float | None = None
        self._not_before = 0.0  # no run before this: the last one could not go on
        self._trying = Backoff(self.settings.retry_s, self.settings.retry_max_s)
        self._resolving = Backoff(self.settings.retry_s, self.settings.retry_max_s)
        self._open = self._unfinished()
        self._resolve_at: float | None = 0.0 if self._open else None
        self._due_at = self._when_due()
        self._said = ""
        self._queued = self.ran = False

    def turn(self) -> float:
        """Look, and run if there is something to do; returns for how long nothing needs to be done."""
        now, self.ran = self._clock(), False
        if now < self._not_before:
            return self._not_before - now
        try:
            if self._queued and self._is_pending():
                return QUEUED_S
            found = inbox.quick_scan(self.settings)
            if self._queued:
                self._queued = False
                self._resolve_next(had_news=True)
        except (FolderError, LedgerGone) as refused:
            return self._cannot(refused)
        return self._looked(now, found)

    def _looked(self, now: float, found: inbox.Scan) -> float:
        """Run if what was found, or the time, says so."""
        there = frozenset(self._things(found))
        self._handled &= there
        if there - self._handled:
            self._news_since = now if self._news_since is None else self._news_since
            ripe = self._news_since + GATHER * self.settings.settle_s
            if found.again_s is None or now >= ripe:
                return self._once(there)
            return min(found.again_s, ripe - now)
        self._news_since = None
        scheduled_s = self._scheduled_s()
        scheduled_at = None if scheduled_s is None else now + scheduled_s
        times = [at for at in (self._resolve_at, self._due_at, scheduled_at) if at is not None]
        if any(now >= at for at in times):
            return self._once(there)
        waits = [found.again_s, *(at - now for at in times)]
        patience_s = self.settings.companion_wait_s
        waits += [patience_s - waiting.lain_s for waiting in found.candidates if waiting.lain_s < patience_s]
        return max(min((wait for wait in waits if wait is not None), default=self.settings.rescan_s), BREATH_S)

    def leave(self, why: LoadsheetError) -> None:
        """Say why there will be no more turns, and let go of what is held."""
        self._say(f"{why}; this shipper is watched no more (exit code {why.exit_code}), the others are")
        self._close(why)

    def _things(self, found: inbox.Scan) -> Iterator[tuple[object, ...]]:
        """What a look found that a run would take or report; a file that waited too long for another is news once more."""
        for candidate in found.candidates:
            yield candidate.name, candidate.signature, candidate.lain_s >= self.settings.companion_wait_s
        for problem in found.left:
            if problem.code not in ("A104", "A107"):
                yield problem.code, problem.found

    def _once(self, there: frozenset[tuple[object, ...]]) -> float:
        """One run, and what follows from it."""
        had_news, self._news_since, self.ran = bool(there - self._handled), None, True
        try:
            ended = self._run()
        except LoadsheetError as error:
            if error.exit_code != TRY_AGAIN:
                raise
            return self._cannot(error, ran=True)
        if ended.stopped is not None:
            if ended.exit_code != TRY_AGAIN:
                raise ended.stopped
            return self._cannot(ended.stopped, ran=True)
        self._said, self._queued = "", ended.queued
        self._trying.reset()
        busy = {problem.found for problem in ended.left if problem.code in ("A104", "A106", "A107")}
        self._handled = frozenset(thing for thing in there if thing[0] not in busy)
        self._resolve_next(had_news=had_news)
        return 0.0

    def _resolve_next(self, *, had_news: bool) -> None:
        """After a run: when the next one is due, for what is open still or because a file should have come."""
        before, self._open = self._open, self._unfinished()
        if had_news or self._open < before:
            self._resolving.reset()
        self._resolve_at = self._clock() + self._resolving.next() if self._open else None
        self._due_at = self._when_due()

    def _when_due(self) -> float | None:
        seconds = self._due_s()
        return None if seconds is None else self._clock() + seconds

    def _cannot(self, why: LoadsheetError, *, ran: bool = False) -> float:
        """Wait, longer each time, and say why when that is new. A run that was begun is due again then."""
        pause_s = self._trying.next()
        if self._said != str(why):
            self._said = str(why)
            self._say(f"{why}; the watch goes on in {pause_s:g} s, and then with longer pauses")
        self._not_before = self._clock() + pause_s
        if ran:
            self._resolve_at = self._not_before
        return pause_s
