"""Watching: starts a run whenever there is something to do, for as long as the process runs.

Owns: when to scan, when to run and how long to pause. A file system event only triggers a scan, and the scan decides. Without events, a
scan is due every `watch.rescan_s`. The caller passes in the run.
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

from loadsheet import exit_codes, inbox
from loadsheet.errors import FolderError, LedgerGone, LoadsheetError
from loadsheet.inbox.files import needs_polling
from loadsheet.internal_errors import stop_signals
from loadsheet.places import MOUNTS, file_system_of, place_text
from loadsheet.problems import Problem
from loadsheet.schedules import Backoff
from loadsheet.settings import Settings

DEBOUNCE_S = 0.2  # events come in bursts: the pause between two scans, at least twice as long as a scan takes
GATHER = 4
"""Files that arrive together are processed together: the first waits at most this many times `arrival.settle_s`."""

QUEUED_S = 1.0  # seconds between two checks whether a worker is done

_EVENT_TYPES: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileClosedEvent, DirCreatedEvent, DirMovedEvent,
]  # fmt: skip


class WatchedRun(NamedTuple):
    """The result of a run as a watch needs it: exit code, the error that stopped it early, problems of files left in the inbox; or
    `queued`: a worker does the run.
    """

    exit_code: int
    stopped: LoadsheetError | None
    left: tuple[Problem, ...] = ()
    queued: bool = False


class WakeEvents:
    """The events that wake a watch: file system events in any of the inboxes, and signals. Use it as a context manager."""

    def __init__(self, places: Sequence[Settings], say: Callable[[str], None], mounts: Path = MOUNTS) -> None:
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()  # reentrant: a signal handler may put while we get
        self.listeners = [InboxListener(settings, self._wakeups, say, mounts) for settings in places]
        self.signals: list[int] = []
        """The signals to stop that were received: at most one."""

    def __enter__(self) -> Self:
        logging.getLogger("watchdog").addHandler(logging.NullHandler())
        logging.getLogger("watchdog").propagate = False
        # a folder that appears during the scan of its parent may be watched twice, which is harmless
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        self._handlers = {number: signal.signal(number, self._stop) for number in stop_signals()}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for listener in self.listeners:
            listener.close()

    @property
    def signal(self) -> int:
        """The signal to stop that was received; 0 if there was none."""
        return self.signals[0] if self.signals else 0

    def wait(self, seconds: float) -> None:
        """Sleep until an event, at most this many seconds."""
        if self.signal:
            return
        longest = min([seconds, *(listener.poll_interval_s for listener in self.listeners)])
        with suppress(queue.Empty):
            self._wakeups.get(timeout=max(longest, 0.0))

    def debounce(self, scan_s: float) -> None:
        """Wait until a burst of events is over, and drop its events."""
        if not self.signal:
            time.sleep(max(DEBOUNCE_S, 2 * scan_s))
        with suppress(queue.Empty):
            while True:
                self._wakeups.get_nowait()

    def listen(self) -> None:
        """Start the listeners where possible; restart one whose inbox has become another folder."""
        for listener in self.listeners:
            listener.listen()

    def stop_listening(self, settings: Settings) -> None:
        """Stop listening to this inbox."""
        for listener in [listener for listener in self.listeners if listener.settings is settings]:
            listener.close()
            self.listeners.remove(listener)

    def _stop(self, number: int, _frame: object) -> None:
        if self.signal:
            raise KeyboardInterrupt  # the second signal stops at once
        self.signals.append(number)
        self._wakeups.put(None)


class InboxListener:
    """Listens to the file system events of one inbox."""

    def __init__(
        self, settings: Settings, wakeups: "queue.SimpleQueue[None]", say: Callable[[str], None], mounts: Path
    ) -> None:
        self.settings, self._wakeups, self._say, self._mounts = settings, wakeups, say, mounts
        self.observer: api.BaseObserver | None = None
        self._place: tuple[int, int] | None = None
        self._reported = ""

    @property
    def poll_interval_s(self) -> float:
        """Seconds between two scans: `watch.rescan_s` with events, `watch.poll_s` without."""
        return self.settings.watch.rescan_s if self.observer else self.settings.watch.poll_s

    def listen(self) -> None:
        """Start listening if possible; restart if the inbox has become another folder."""
        if self.settings.inbox_address:
            self._report("object storage sends no file events")
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
        reason = self._polling_reason()
        if not reason:
            reason = self._start()
        self._report(reason)

    def _report(self, reason: str) -> None:
        if reason != self._reported and reason:
            self._say(f"{place_text(self.settings.inbox)} is scanned every {self.settings.watch.poll_s:g} s: {reason}")
        self._reported = reason

    def _polling_reason(self) -> str:
        if self.settings.watch.method == "polling":
            return "watch.method is polling"
        kind = file_system_of(self.settings.inbox, self._mounts)
        shared = f"a network share or shared folder ({kind}) sends no events for changes made elsewhere"
        return shared if needs_polling(kind) else ""

    def _start(self) -> str:
        """Start listening; returns the reason if that fails, else an empty text."""
        observer = Observer()
        try:
            observer.schedule(
                _EventHandler(self._wakeups), str(self.settings.inbox), recursive=True, event_filter=_EVENT_TYPES
            )
            observer.start()
        except OSError as error:  # for example, the limit of watches (ENOSPC) or instances (EMFILE)
            with suppress(OSError, RuntimeError):
                observer.stop()
            return f"file events are not available ({error.strerror}; see fs.inotify in sysctl)"
        self.observer = observer
        return ""

    def close(self) -> None:
        """Stop listening, until `listen`."""
        observer, self.observer, self._place = self.observer, None, None
        if observer is not None:
            observer.stop()
            observer.join(timeout=5)


class _EventHandler(FileSystemEventHandler):
    def __init__(self, wakeups: "queue.SimpleQueue[None]") -> None:
        self._wakeups = wakeups

    def on_any_event(self, _event: FileSystemEvent) -> None:
        """Wake the watch once per burst of events: the scan finds out what happened."""
        if self._wakeups.empty():
            self._wakeups.put(None)


class Watch(NamedTuple):
    """The watch of one shipper. `run` does one run, `unfinished` counts the entries that are ready, sending or unknown, `say` reports, and
    `close` releases the resources when the watch ends early. `due_s` returns the seconds until a run is due because an expected file is
    late (None: never); it is called after each run. `scheduled_s` does so for schedules (0: a run is due now); it is called at each scan.
    `is_pending` returns whether a queued run still waits for a worker or is in progress. `check` answers files that are only checked; it
    is called at scans that start no run.
    """

    settings: Settings
    run: Callable[[], WatchedRun]
    unfinished: Callable[[], int]
    say: Callable[[str], None]
    close: Callable[[LoadsheetError], object] = lambda _why: None
    due_s: Callable[[], float | None] = lambda: None
    scheduled_s: Callable[[], float | None] = lambda: None
    is_pending: Callable[[], bool] = lambda: False
    check: Callable[[], None] = lambda: None


def watch(
    watches: Sequence[Watch],
    wake_events: WakeEvents,
    *,
    clock: Callable[[], float] = time.monotonic,
    on_turn: Callable[[], None] = lambda: None,
) -> int:
    """Run whenever files are finished or entries wait to be sent or resolved, until a signal to stop; returns the signal.

    Temporary failures (exit code 75) are retried with growing pauses. Any other exception ends the watch of that shipper. The exception of
    the last shipper is raised here. `on_turn` is called at every scan.
    """
    watchers = [_Watcher(watched, clock) for watched in watches]
    while not wake_events.signal:
        wake_events.listen()
        on_turn()
        started = clock()
        seconds = _run_turns(watchers, wake_events)
        scan_s = clock() - started
        if seconds > 0:
            wake_events.wait(seconds)
            wake_events.debounce(0.0 if any(watcher.ran for watcher in watchers) else scan_s)
    return wake_events.signal


def _run_turns(watchers: list["_Watcher"], wake_events: WakeEvents) -> float:
    """Give each watcher its turn and remove failed ones, except the last. Returns the seconds until the next turn."""
    seconds: list[float] = []
    for watcher in tuple(watchers):
        if wake_events.signal:
            break
        try:
            seconds.append(watcher.turn())
        except LoadsheetError as error:
            if len(watchers) == 1:
                raise
            watchers.remove(watcher)
            watcher.leave(error)
            wake_events.stop_listening(watcher.settings)
    return min(seconds, default=0.0)


class _Watcher:
    """The state of one watch between turns. Times are in seconds, by `clock`."""

    def __init__(self, watched: Watch, clock: Callable[[], float]) -> None:
        self.settings, self._watched, self._clock = watched.settings, watched, clock
        # items that earlier runs have seen and left in the inbox
        self._handled: frozenset[tuple[object, ...]] = frozenset()
        self._news_since: float | None = None
        self._not_before = 0.0  # no run before this: the last one failed
        self._retry_backoff = Backoff(self.settings.watch.retry_s, self.settings.watch.retry_max_s)
        self._resolve_backoff = Backoff(self.settings.watch.retry_s, self.settings.watch.retry_max_s)
        self._open = self._watched.unfinished()
        self._resolve_at: float | None = 0.0 if self._open else None
        self._due_at = self._when_due()
        self._reported = ""
        self._queued = self.ran = False

    def turn(self) -> float:
        """Scan, and run if there is something to do. Returns the seconds until the next turn."""
        now, self.ran = self._clock(), False
        if now < self._not_before:
            return self._not_before - now
        try:
            if self._queued and self._watched.is_pending():
                return QUEUED_S
            found = inbox.scan_without_waiting(self.settings)
            if self._queued:
                self._queued = False
                self._resolve_next(had_news=True)
                if not self._handled <= frozenset(self._items(found)) and self.settings.arrival.limits_runs:
                    self._handled = frozenset()  # the worker took some files and may have left others
        except (FolderError, LedgerGone) as refused:
            return self._back_off(refused)
        return self._act_on(now, found)

    def _act_on(self, now: float, found: inbox.Scan) -> float:
        """Run if the scan found something new, or a run is due."""
        there = frozenset(self._items(found))
        self._handled &= there
        if there - self._handled:
            self._news_since = now if self._news_since is None else self._news_since
            ripe = self._news_since + GATHER * self.settings.arrival.settle_s
            if found.again_s is None or now >= ripe:
                return self._run_once(there)
            return min(found.again_s, ripe - now)
        self._news_since = None
        scheduled_s = self._watched.scheduled_s()
        scheduled_at = None if scheduled_s is None else now + scheduled_s
        times = [at for at in (self._resolve_at, self._due_at, scheduled_at) if at is not None]
        if any(now >= at for at in times):
            return self._run_once(there)
        self._watched.check()
        waits = [found.again_s, *(at - now for at in times)]
        patience_s = self.settings.arrival.companion_wait_s
        waits += [self.settings.watch.poll_s] if self.settings.check_folder else []
        waits += [patience_s - waiting.unchanged_s for waiting in found.candidates if waiting.unchanged_s < patience_s]
        return max(min((wait for wait in waits if wait is not None), default=self.settings.watch.rescan_s), DEBOUNCE_S)

    def leave(self, reason: LoadsheetError) -> None:
        """Report why this watch ends, and release its resources."""
        self._watched.say(f"{reason}; this shipper is no longer watched (exit code {reason.exit_code}); the others are")
        self._watched.close(reason)

    def _items(self, found: inbox.Scan) -> Iterator[tuple[object, ...]]:
        """The items of a scan that a run would process or report. A file that has waited too long for its companion counts as new again."""
        for candidate in found.candidates:
            yield candidate.name, candidate.signature, candidate.unchanged_s >= self.settings.arrival.companion_wait_s
        for problem in found.left:
            if problem.code not in ("A104", "A107"):
                yield problem.code, problem.found

    def _run_once(self, there: frozenset[tuple[object, ...]]) -> float:
        """Do one run and plan the next."""
        had_news, self._news_since, self.ran = bool(there - self._handled), None, True
        try:
            ended = self._watched.run()
        except LoadsheetError as error:
            if error.exit_code != exit_codes.TRY_AGAIN:
                raise
            return self._back_off(error, ran=True)
        if ended.stopped is not None:
            if ended.exit_code != exit_codes.TRY_AGAIN:
                raise ended.stopped
            return self._back_off(ended.stopped, ran=True)
        self._reported, self._queued = "", ended.queued
        self._retry_backoff.reset()
        busy = {problem.found for problem in ended.left if problem.code in ("A104", "A106", "A107")}
        goes_on = any(problem.code == "A119" for problem in ended.left)  # files are left for the next run
        self._handled = frozenset() if goes_on else frozenset(item for item in there if item[0] not in busy)
        self._resolve_next(had_news=had_news)
        return 0.0

    def _resolve_next(self, *, had_news: bool) -> None:
        """After a run: compute when the next one is due, for unfinished entries or expected files."""
        before, self._open = self._open, self._watched.unfinished()
        if had_news or self._open < before:
            self._resolve_backoff.reset()
        self._resolve_at = self._clock() + self._resolve_backoff.next() if self._open else None
        self._due_at = self._when_due()

    def _when_due(self) -> float | None:
        seconds = self._watched.due_s()
        return None if seconds is None else self._clock() + seconds

    def _back_off(self, reason: LoadsheetError, *, ran: bool = False) -> float:
        """Pause, longer each time, and report the reason if it is new. A run that had begun is due again afterwards."""
        pause_s = self._retry_backoff.next()
        if self._reported != str(reason):
            self._reported = str(reason)
            self._watched.say(f"{reason}; next attempt in {pause_s:g} s")
        self._not_before = self._clock() + pause_s
        if ran:
            self._resolve_at = self._not_before
        return pause_s
