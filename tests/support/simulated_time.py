"""A virtual clock, and processes whose threads take turns on it: one runs at a time, and a seed says which, so that it repeats exactly.

The threads are real ones, because what they run is the product's own code, which waits in the middle of functions; but each has to be
handed the baton, and hands it back wherever something else may happen: around transactions, while it waits for answers, while it sleeps.
There it may also be killed (it never gets the baton again, and whatever it still wants to do does not happen) or paused for any time.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

_EPOCH = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)


class Dead(BaseException):
    """The process of this thread was killed."""


class Stuck(AssertionError):  # noqa: N818 (named for what happened)
    """What is left to do never gets done."""


@dataclass
class Faults:
    """How often what goes wrong: at each step of a process, transaction, call, or look, and until when."""

    kill: float = 0.0
    pause: float = 0.0
    gone: float = 0.0  # a transaction meets no database: before its commit, or right after it
    outage: float = 0.0  # and then there is none for a while
    misjudged: float = 0.0  # a batch is given to somebody else although its worker lives
    twice: float = 0.0  # the queue delivers a batch twice
    busy: float = 0.0  # the exchange answers 429
    failed: float = 0.0  # or 503, which proves nothing
    lost: float = 0.0  # a call is lost, or its answer
    late: float = 0.0  # a call is applied after its sender gave it up
    unreachable: float = 0.0  # nobody can connect for a while
    blind: float = 0.0  # a look at a listing fails, or shows not all
    rivals: float = 0.0  # a second run wants the ledger


CALM = Faults()
PAUSES = ((0.05, 2.0), (2.0, 8.0), (20.0, 90.0), (90.0, 900.0))


class Process:
    """Something that can be killed or paused as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused_until = 0.0
        self.died: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return self.name


class _Hand(threading.Thread):
    """A thread that runs one task after the other, whenever it has the baton."""

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.go, self.back = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.back.acquire()
        self.work: Callable[[], None] = lambda: None

    def run(self) -> None:
        while True:
            self.go.acquire()
            self.work()
            self.back.release()

    def runs(self) -> None:
        """It has the baton until it gives it back."""
        self.go.release()
        self.back.acquire()

    def gives_back(self) -> None:
        """For the thread itself: somebody else runs until it gets the baton again."""
        self.back.release()
        self.go.acquire()


_idle: list[_Hand] = []


@dataclass
class Task:
    """Work of a process that can wait. `turn` counts its waits, so that only the end of this one ends it."""

    process: Process
    hand: _Hand
    turn: int = 0
    over: bool = False
    error: BaseException | None = None
    resume: Callable[[], None] = lambda: None


@dataclass
class Counts:
    """What was simulated, in numbers."""

    steps: int = 0
    kills: int = 0
    pauses: int = 0
    takeovers: int = 0
    late: int = 0
    unknown: int = 0
    gone: int = 0
    calls: int = 0


class Time:
    """The virtual time of one simulation. Only what has the baton may ask it for anything."""

    def __init__(self, seed: str, faults: Faults) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.faults = faults
        self.counts = Counts()
        self.running: Task | None = None
        self.in_transaction = False
        self._agenda: list[tuple[float, float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._tasks: list[Task] = []

    # who asks for the time

    def clock(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.now)

    # what happens when

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Have it done then; what is due at the same time comes in any order."""
        heapq.heappush(self._agenda, (max(moment, self.now), self.random.random(), next(self._numbers), action))

    def soon(self, most_s: float, action: Callable[[], None]) -> None:
        self.at(self.now + self.random.random() * most_s, action)

    def run(self, until: Callable[[], bool], most: int) -> None:
        """Go on until something is true; Stuck if it is not after so many steps."""
        moments = 0
        while not until():
            if not self._agenda or moments > most:
                raise Stuck(
                    f"{len(self._agenda)} moments to come, {self.counts.steps} steps, virtual second {self.now:.0f}"
                )
            moment, _, _, action = heapq.heappop(self._agenda)
            self.now = max(self.now, moment)
            moments += 1
            action()

    # tasks

    def spawn(self, process: Process, work: Callable[[], None], ended: Callable[[BaseException | None], None]) -> Task:
        """Have a process do some work, from now on; `ended` hears how it ended, if the process did not die."""
        hand = _idle.pop() if _idle else _Hand(f"hand {next(self._numbers)}")
        if not hand.is_alive():
            hand.start()
        task = Task(process, hand)

        def whole() -> None:
            try:
                if not process.dead:
                    work()
            except Dead:
                pass
            except BaseException as error:  # noqa: BLE001 (whoever waits for it decides)
                task.error = error
            task.over = True

        hand.work = whole
        self._tasks.append(task)

        def finish_or_wait() -> None:
            self._resume(task)
            if task.over:
                self._tasks.remove(task)
                _idle.append(hand)
                if not process.dead:
                    ended(task.error)

        task.resume = finish_or_wait
        self.soon(0.01, finish_or_wait)
        return task

    def _resume(self, task: Task) -> None:
        before, self.running = self.running, task
        task.turn += 1
        self.counts.steps += 1
        task.hand.runs()
        self.running = before

    def wake(self, task: Task, turn: int | None = None) -> None:
        """End its wait: this one, if a number is given. A paused process goes on only when its pause is over."""
        if task.over or (turn is not None and turn != task.turn):
            return
        if task.process.paused_until > self.now and not task.process.dead:
            current = task.turn
            self.at(task.process.paused_until, lambda: self.wake(task, current))
            return
        task.resume()

    def wait(self, seconds: float | None) -> None:
        """For a task: somebody else runs until `wake`, or until so much time has passed."""
        task = self.running
        assert task is not None
        assert not self.in_transaction, "nobody waits within a transaction"
        if task.process.dead:
            raise Dead
        turn = task.turn
        if seconds is not None:
            self.at(self.now + seconds, lambda: self.wake(task, turn))
        task.hand.gives_back()
        if task.process.dead:
            raise Dead

    def sleep(self, seconds: float) -> None:
        """For a task: so much time passes, or more."""
        self.step()
        self.wait(seconds)

    def step(self) -> None:
        """For a task: here others may run, and the process may be killed or paused."""
        task = self.running
        assert task is not None
        process = task.process
        if process.dead:
            raise Dead
        if self.random.random() < self.faults.kill:
            self.counts.kills += 1
            self.kill(process)
            raise Dead
        if self.random.random() < self.faults.pause:
            self.counts.pauses += 1
            least, most = self.random.choice(PAUSES)
            process.paused_until = max(process.paused_until, self.now + self.random.uniform(least, most))
        self.wait(self.random.random() ** 3 * 0.2)

    def kill(self, process: Process) -> None:
        """It does nothing any more; what it is in the middle of ends without any effect."""
        process.dead = True
        process.died()
        for task in self._tasks:
            if task.process is process and task is not self.running:
                self.soon(0.0, lambda task=task: self.wake(task))

    def end(self) -> None:
        """Nothing more happens: all threads come back."""
        for task in list(self._tasks):
            task.process.dead = True
        for task in list(self._tasks):
            while not task.over:
                task.resume()
