"""A fleet of fifty workers over one ledger, on the virtual clock: queue, leases, database and network are simulated, all else is the product.

A worker does a batch by `loadsheet.fleet.work.work`, a run hands out and waits by `loadsheet.fleet.hands.FleetHands` under a tenure: so
sending, settling, resolving, planning, fences, takeovers and the rule of leases are what really runs, every transaction one step of the
one ledger (a file of SQLite: one writer at a time, as the lock of a ledger on PostgreSQL has it). Not simulated is a pause between the
last look at the clock and the first byte of a call: no program can look at the clock after that.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from simulated_exchange import Bell, Client, Exchange, Helpers, Network, Selector
from simulated_judge import Judge
from simulated_time import Dead, Faults, Process, Task, Time
from sqlalchemy import Connection, create_engine, event, update

from loadsheet.dispatch import Patience, leasing, send, sending, underway
from loadsheet.dispatch.leasing import FleetPace
from loadsheet.dispatch.pace import Pace
from loadsheet.fleet import hands, work
from loadsheet.fleet.work import Bench, HandedBack
from loadsheet.ledger import Drop, Ledger, Run, Settlement, State, tenure
from loadsheet.ledger.batches import Batch, Sharing
from loadsheet.ledger.deciding import Choice
from loadsheet.ledger.fences import Fence
from loadsheet.ledger.place import Surroundings
from loadsheet.ledger.schema import metadata, tenures
from loadsheet.ledger.shared import leases
from loadsheet.ledger.shared.leases import Ask, Lease, Standing, Terms, grant
from loadsheet.ledger.versions import make_if_new
from loadsheet.mapping.documents import Document
from loadsheet.problems import LedgerBusy, LedgerError, LedgerGone, Superseded
from loadsheet.settings import Settings
from loadsheet.stages import Work

WORKERS = 50
NEVER = 10**9
CALM_NIGHTS = 2  # after which everything is known that can be
RENEW_S, TERM_S = 2.0, 6.0  # of leases: four times what the product has, so that a seed has less to do
TAKEOVER_S = 30.0
NIGHT_S = 400.0
"""Between two nights: longer than any pause of the protocol, so that what can be proved is."""
_PRAGMAS = ("journal_mode=wal", "synchronous=off", "foreign_keys=on", "case_sensitive_like=on", "busy_timeout=0")


class Night(NamedTuple):
    """What arrives in the inbox for one night: drops with their documents."""

    drops: Sequence[tuple[Drop, Sequence[Document]]]


class Database:
    """One file for one seed after the other; `at` is the fleet that uses it now."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.at: Fleet | None = None
        self.engine = create_engine(f"sqlite:///{self.path}", pool_size=4 * WORKERS)
        event.listen(self.engine, "connect", self._connected)
        event.listen(self.engine, "begin", self._begin)
        event.listen(self.engine, "rollback", self._rolled_back)
        commit = self.engine.dialect.do_commit
        self.engine.dialect.do_commit = lambda connection: self._commit(commit, connection)  # type: ignore[method-assign]
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            make_if_new(connection)
        self.direct = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self.direct.create_function("clock_timestamp", 0, self._clock)

    def empty(self) -> None:
        self.direct.execute("pragma foreign_keys=off")
        self.direct.execute("begin immediate")
        for table in metadata.tables:
            if table != "meta":
                self.direct.execute(f"delete from {table}")
        self.direct.execute("delete from meta where name like 'remembered: %'")
        self.direct.execute("commit")

    def close(self) -> None:
        self.direct.close()
        self.engine.dispose()

    def _connected(self, connection: Any, _record: object) -> None:
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            connection.execute(f"pragma {pragma}")
        connection.create_function("clock_timestamp", 0, self._clock)

    def _clock(self) -> str | None:
        return self.at and self.at.time.wall().isoformat(sep=" ", timespec="milliseconds")[:23]

    def _begin(self, connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        if self.at is not None:
            self.at.before_transaction(writes=writes)
        connection.exec_driver_sql("begin immediate" if writes else "begin")
        if self.at is not None and writes:
            self.at.time.in_transaction = True

    def _rolled_back(self, connection: Connection) -> None:
        if self.at is not None and connection.get_execution_options().get("writes", False):
            self.at.rolled_back()

    def _commit(self, commit: Callable[[Any], None], connection: Any) -> None:
        if self.at is None:
            commit(connection)
            return
        self.at.before_commit()
        commit(connection)
        self.at.after_commit()


class Job:
    """A batch in the queue, and which worker is said to do it."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.by: Process | None = None
        self.delivery = 0


class Worker(Process):
    """A process of the fleet, with places that do one batch at a time each."""

    def __init__(self, fleet: "Fleet", name: str) -> None:
        super().__init__(name)
        self.fleet = fleet
        self.pace = FleetPace(self._renew, self._setback, clock=fleet.time.clock, renew_s=RENEW_S)
        self.clients: list[Client] = []
        self._attends = False

    def borrowed(self, _settings: Settings) -> "contextlib.AbstractContextManager[Client]":
        return contextlib.nullcontext(Client(self.fleet.network, self))

    def of(self, _settings: Settings) -> FleetPace:
        """The pace, kept by the virtual clock instead of a thread."""
        if not self._attends:
            self._attends = True
            self.fleet.time.soon(0.01, self._attend)
        return self.pace

    def _attend(self) -> None:
        time = self.fleet.time
        if self.dead:
            return
        if self.paused_until > time.now:
            time.at(self.paused_until, self._attend)
            return
        again_s = self.pace._attend()
        if again_s is None:
            self._attends = False
        else:
            time.at(time.now + again_s, self._attend)

    def _renew(self, ask: Ask) -> Lease:
        return self.fleet.pacing.renew(self.name, ask)

    def _setback(self, age_s: float, pause_s: float, _reason: str) -> None:
        self.fleet.pacing.setback(age_s, pause_s)


class Pacing:
    """The shared table of leases, by the rule of `leases.grant`; terms are four times as long as the product's, to have less to do."""

    def __init__(self, time: Time, per_second: int, connections: int) -> None:
        self._time = time
        self._terms = Terms(per_second, connections)
        self.standings: dict[str, Standing] = {}

    def _meets_nobody(self) -> None:
        if self._time.random.random() < self._time.faults.gone:
            raise LedgerGone("the shared tables cannot be reached")

    def renew(self, worker: str, ask: Ask) -> Lease:
        self._meets_nobody()
        now = self._time.now
        mine, short = grant(self._terms, list(self.standings.values()), worker, ask, now)
        self.standings = {name: one for name, one in self.standings.items() if one.until > now}
        self.standings[worker] = mine
        alive = self.standings.values()
        assert sum(one.per_second for one in alive) <= self._terms.per_second, "more rate is leased than there is"
        assert sum(one.connections for one in alive) <= self._terms.connections, (
            "more connections are leased than there are"
        )
        paused_s = max(0.0, self._terms.paused_until - now)
        lasts_s = mine.until - now
        self._meets_nobody()  # the answer is lost
        return Lease(
            mine.number,
            mine.per_second,
            mine.connections,
            mine.until,
            lasts_s,
            paused_s,
            self._terms.share_at(now),
            short,
        )

    def setback(self, age_s: float, pause_s: float) -> None:
        self._meets_nobody()
        now = self._time.now
        self._terms = self._terms.setback(now - age_s, pause_s, now)

    def holds(self, worker: str) -> bool:
        """Whether something of this worker may leave now."""
        mine = self.standings.get(worker)
        return mine is not None and mine.until > self._time.now and mine.charged > 0


class Fleet:
    """One simulation: what is in the queue, who lives, what runs take place."""

    def __init__(
        self, database: Database, seed: str, faults: Faults, settings: Settings, nights: Sequence[Night]
    ) -> None:
        self.time = Time(seed, faults)
        self.database, self.settings, self.nights = database, settings, nights
        self.exchange = Exchange(self.time)
        self.network = Network(self.time, self.exchange)
        self.pacing = Pacing(self.time, settings.assumptions.calls_per_second, settings.connections)
        self.judge = Judge(database.direct, self.time, self.exchange, self.pacing.holds)
        self.jobs: list[Job] = []
        self._told: list[int] = []  # batches announced in a transaction that is not over
        self._idle: list[tuple[Task, list[Job]]] = []
        self._outage_until = 0.0
        self._names = 0
        self._night, self._calm_night = 0, NEVER
        self.rng = Random(seed + " of the product")
        for _ in range(WORKERS):
            self._hire()
        self.time.at(self.time.now + 1, self._begin_night)
        self.time.at(self.time.now + 60, self._sweep)

    # the database

    def before_transaction(self, *, writes: bool) -> None:
        if self.time.in_transaction:
            return  # what is read within another one
        if writes and self.time.running is not None:
            self.time.step()
        if self.time.running is not None and self.time.running.process.dead:
            raise Dead
        if self.time.now < self._outage_until:
            raise LedgerGone("the database cannot be reached")

    def before_commit(self) -> None:
        if self._hit(self.time.faults.gone / 2):
            self._begin_outage()
            self.rolled_back()
            raise LedgerGone("the database went before the commit")
        if self.time.running is not None and self._hit(self.time.faults.kill / 2):
            self.time.counts.kills += 1
            self.time.kill(self.time.running.process)
            self.rolled_back()
            raise Dead

    def after_commit(self) -> None:
        self.time.in_transaction = False
        for batch in self._told:
            self._enqueue(batch)
        self._told.clear()
        self.judge.looks_at_lanes()
        if self.time.running is None:
            return
        if self._hit(self.time.faults.gone / 2):
            self._begin_outage()
            raise LedgerGone("the database went after the commit")
        self.time.step()

    def rolled_back(self) -> None:
        self.time.in_transaction = False
        self._told.clear()

    def _begin_outage(self) -> None:
        self.time.counts.gone += 1
        if self._hit(self.time.faults.outage):
            self._outage_until = self.time.now + self.time.random.uniform(0.1, 2 * TAKEOVER_S)

    def _hit(self, chance: float) -> bool:
        return chance > 0 and self.time.random.random() < chance

    def ledger(self, fence: Fence | None = None) -> Ledger:
        sharing = Sharing(self._announce, self.settings.batch_entries, self.settings.canary)
        return Ledger(self.database.engine, self.time.wall, Surroundings(None), fence=fence, sharing=sharing)

    def selector(self) -> Selector:
        """A selector, and the bell that rings there."""
        self._bell = Bell(Selector(self.time))
        return self._bell.selector

    def bells(self) -> tuple[Bell, Bell]:
        """The bell of the selector that was made last."""
        return self._bell, self._bell

    # the queue

    def _announce(self, _connection: Connection, made: Sequence[Batch]) -> None:
        self._told += [one.id for one in made]

    def _enqueue(self, batch: int) -> None:
        for _ in range(2 if self._hit(self.time.faults.twice) else 1):
            job = Job(batch)
            self.jobs.append(job)
            self.time.soon(0.2, lambda job=job: self._offer(job))

    def _offer(self, job: Job) -> None:
        """Give a job to some place that is idle; else it waits until one is."""
        if job not in self.jobs or job.by is not None:
            return
        self._idle = [(task, given) for task, given in self._idle if not task.process.dead]
        if self._idle:
            task, given = self._idle.pop(self.time.random.randrange(len(self._idle)))
            self._give(job, task, given)

    def _give(self, job: Job, task: Task, given: list[Job]) -> None:
        job.by, job.delivery = task.process, job.delivery + 1
        given.append(job)
        delivery = job.delivery
        if self._hit(self.time.faults.misjudged):
            self.time.soon(10.0, lambda: self._lost(job, delivery))
        self._watch(job, delivery)
        self.time.wake(task)

    def _watch(self, job: Job, delivery: int) -> None:
        """Look whether its worker was heard of, for as long as it has it."""
        silent_since = self.time.now

        def look() -> None:
            nonlocal silent_since
            if job.by is None or job.delivery != delivery:
                return
            if not job.by.dead and job.by.paused_until <= self.time.now:
                silent_since = self.time.now
            if self.time.now - silent_since > TAKEOVER_S:
                self._lost(job, delivery)
            else:
                self.time.at(self.time.now + TAKEOVER_S / 2, look)

        self.time.at(self.time.now + TAKEOVER_S / 2, look)

    def _lost(self, job: Job, delivery: int) -> None:
        if job in self.jobs and job.delivery == delivery:
            job.by = None
            self._offer(job)

    def _sweep(self) -> None:
        """Open batches without a job get one again."""
        known = {job.batch for job in self.jobs}
        for batch in self.judge.open_batches():
            if batch not in known:
                self._enqueue(batch)
        self.time.at(self.time.now + 60, self._sweep)

    def _hire(self) -> None:
        self._names += 1
        worker = Worker(self, f"worker-{self._names}")
        self.time.spawn(worker, lambda: self._serve(worker), partial(self._ended, worker))
        worker.died = lambda: self.time.soon(60.0, self._hire)  # by what looks after processes

    def _ended(self, worker: Worker, error: BaseException | None) -> None:
        raise AssertionError(f"{worker} ended") from error

    def _serve(self, worker: Worker) -> None:
        bench = Bench(worker.name, _Shared(self), [], worker, worker)  # type: ignore[arg-type]
        while True:
            job, again_s = self._next(), 0.0
            delivery = job.delivery
            try:
                work.work(self.settings, job.batch, bench)
            except (HandedBack, LedgerGone):
                again_s = self.time.random.uniform(0.1, 5.0)
            if job not in self.jobs or job.delivery != delivery:
                continue
            if again_s:
                job.by = None
                self.time.at(self.time.now + again_s, partial(self._offer, job))
            else:
                self.jobs.remove(job)

    def _next(self) -> Job:
        task = self.time.running
        assert task is not None
        given: list[Job] = []
        waiting = [job for job in self.jobs if job.by is None]
        if waiting and self._hit(0.8):
            job = self.time.random.choice(waiting)
            self.time.soon(0.01, lambda: self._offer(job))
        self._idle.append((task, given))
        while not given:
            self.time.wait(None)
        return given[0]

    # runs

    def _begin_night(self) -> None:
        self._start_run(self._night)
        if self._hit(self.time.faults.rivals):
            self.time.soon(60.0, lambda: self._start_run(self._night))

    def _start_run(self, night: int) -> None:
        self._names += 1
        process = Process(f"run-{self._names}")
        self.time.spawn(process, lambda: self._run(process, night), partial(self._ran, process, night))
        process.died = lambda: self.time.soon(2 * TAKEOVER_S, lambda: self._again(night))

    def _again(self, night: int) -> None:
        if night == self._night:
            self._start_run(night)

    def _ran(self, process: Process, night: int, error: BaseException | None) -> None:
        if night != self._night:
            return
        if error is None:
            self._night += 1
            self.time.at(self.time.now + NIGHT_S, self._begin_night)
        elif isinstance(error, LedgerGone | LedgerBusy | Superseded):
            self.time.soon(TAKEOVER_S, lambda: self._again(night))
        else:
            raise AssertionError(f"{process} ended: {error}") from error

    def _run(self, process: Process, night: int) -> None:
        with self._tenure(process) as fence:
            ledger = self.ledger(fence)
            run = ledger.begin_run()
            ledger.batches.plans_go_out = False
            doing = Work(self.settings, ledger, run, Patience(ledger.now, self.time.clock))
            mine = hands.FleetHands(
                self.settings, lambda: True, contextlib.nullcontext, self.time.sleep, self.time.clock
            )
            stopped = mine.learn(doing)
            for drop, documents in [one for done in self.nights[: night + 1] for one in done.drops]:
                if not self.judge.is_planned(drop.name):
                    rows = len(documents)
                    ledger.plan(run, drop, {}, documents, lambda rows=rows: {"orders": rows})
            if stopped is None:
                mine.deliver(doing, progress=None)
            ledger.end_run(run, exit_code=0, summary={})

    @contextlib.contextmanager
    def _tenure(self, process: Process) -> Iterator[Fence]:
        writes = self.database.engine.connect().execution_options(writes=True)
        with writes as connection, connection.begin():
            fence = tenure.take(connection, "here", process.name, TAKEOVER_S)
        ended: list[bool] = []

        def beat() -> None:
            if ended or process.dead:
                return
            if process.paused_until <= self.time.now and self.time.now >= self._outage_until:
                seen = update(tenures).where(tenures.c.epoch == fence.epoch).values(seen_at=tenure._NOW)
                self.database.direct.execute(
                    str(seen.compile(self.database.engine, compile_kwargs={"literal_binds": True}))
                )
            self.time.at(self.time.now + TAKEOVER_S / 4, beat)

        beat()
        try:
            yield fence
        finally:
            ended.append(True)
            with contextlib.suppress(LedgerError):
                tenure._give(self.database.engine, fence)

    # until when

    def finish(self, most: int) -> None:
        """Faults end after a while; then everything has to come to an end within so many steps."""
        self.database.at = self
        try:
            trouble_s = self.time.random.uniform(50, 1500)
            self.time.at(self.time.now + trouble_s, self._calm_down)
            self.time.run(lambda: self._night >= self._calm_night + CALM_NIGHTS, most)
        finally:
            self.database.at = None

    def _calm_down(self) -> None:
        self.time.faults = Faults()
        self._outage_until = 0.0
        self._calm_night = max(self._night + 1, len(self.nights))

    def nights_more(self, count: int, most: int) -> None:
        """So many nights go by in which nothing arrives and nothing goes wrong."""
        self._calm_night = self._night + count
        self.database.at = self
        self.time.run(lambda: self._night >= self._calm_night, most)
        self.database.at = None

    def decide(self) -> int:
        """A person looks at what is unknown and says what became of it; returns how many entries that are."""
        ledger = self.ledger()
        unknown = list(ledger.history.entries_in(State.UNKNOWN))
        if unknown:
            run = ledger.begin_run()
            states = (State.REFUSED, State.ACCEPTED)
            chosen = [(entry, states[self.judge.has(entry.operation, entry.payload)]) for entry in unknown]
            choices = [Choice(entry, Settlement(entry.id, state, "a person said so")) for entry, state in chosen]
            ledger.decide(run, choices, who="somebody", choice="by evidence", comment="looked there")
            ledger.end_run(run, exit_code=0, summary={})
        return len(unknown)


class _Shared:
    """Stands where a worker notes takeovers in the shared tables."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def begin(self) -> "contextlib.AbstractContextManager[_Shared]":
        return contextlib.nullcontext(self)


class _Underway(underway.Underway):
    """The product's calls under way, watched by the judge when they leave."""

    def __init__(self, fleet: Fleet, client: Client, *given: Any) -> None:
        self.fleet, self.client = fleet, client
        super().__init__(client, *given, clock=fleet.time.clock)  # type: ignore[arg-type]
        client.selector = self._selector  # type: ignore[assignment]

    def _depart(self, flight: Any) -> None:
        call = flight.turn.call
        flight.desk.lanes = tuple({one.lane for one in call.submissions})
        self.fleet.judge.leaves(self.client.process.name, call)
        super()._depart(flight)


@contextlib.contextmanager
def simulated(database: Database, patch: Any) -> Iterator[None]:
    """Have the product use virtual time, and what is simulated; `patch` is pytest's."""

    def at() -> Fleet:
        assert database.at is not None
        return database.at

    def note_takeover(shared: _Shared, *_told: object) -> None:
        shared.fleet.time.counts.takeovers += 1

    def late(ledger: Ledger, run: Run, settlements: Sequence[Any]) -> int:
        count = settle_late(ledger, run, settlements)
        at().time.counts.late += count
        return count

    settle_late = Ledger.settle_late
    patch.setattr(Ledger, "settle_late", late)
    patch.setattr(
        work, "send", lambda *given, **more: send(*given, sleep=at().time.sleep, clock=at().time.clock, **more)
    )
    patch.setattr(work, "served", lambda *_url, **_more: at().ledger())
    patch.setattr(work, "note_takeover", note_takeover)
    patch.setattr(work, "load_folder", lambda *_where: ())
    patch.setattr(work, "updating_of", lambda _mappings: ())
    patch.setattr(work, "Patience", lambda now: Patience(now, at().time.clock))
    patch.setattr(hands, "LONGEST_NAP_S", 10.0)
    patch.setattr(sending, "NAP_S", 4.0)
    patch.setattr(sending, "moment", lambda: at().time.now)
    patch.setattr(sending, "random", SimpleNamespace(Random=lambda: at().rng))
    patch.setattr(sending, "Pace", lambda *given: Pace(*given, departures=at().time.clock))
    patch.setattr(sending, "Underway", lambda *given: _Underway(at(), *given))
    patch.setattr(
        underway, "selectors", SimpleNamespace(DefaultSelector=lambda: at().selector(), EVENT_READ=1, EVENT_WRITE=2)
    )
    patch.setattr(underway, "socket", SimpleNamespace(socketpair=lambda: at().bells()))
    patch.setattr(underway, "ThreadPoolExecutor", lambda *_given, **_more: Helpers(at().time))
    patch.setattr(
        underway, "time", SimpleNamespace(monotonic=lambda: at().time.now, perf_counter=lambda: at().time.now)
    )
    patch.setattr(leasing, "_SOON_S", 0.3)
    patch.setattr(leases, "TERM_S", TERM_S)
    yield
