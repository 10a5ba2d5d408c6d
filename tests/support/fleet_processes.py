"""A whole fleet with real parts: one PostgreSQL, the exchange with its truth log, workers and runs in processes of their own."""

import atexit
import json
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path

import psycopg
from exchange_process import serving
from faulty_exchange import FaultRule, Front
from invariants import Known, read_truth
from psycopg import sql
from psycopg.rows import dict_row, tuple_row
from scripted_exchange import until

TAKEOVER_S = 2.0
TOKEN = "canary-7be1c04d"
SCHEMA = "loadsheet"
QUICK = {"arrival.settle_s": 0, "watch.retry_s": 2, "reading.process": "none", "dispatch.connections": 16}


def resends(after_s):
    """Settings by which whatever was not there so long after its call is sent again; the exchange refuses what it has."""
    waits = {
        "dispatch.call_timeout_s": after_s,
        "verification.quiesce_s": after_s,
        "verification.status_quiesce_s": after_s,
        "verification.confirm_gap_s": 0,
    }
    return {**waits, "verification.create_after_absent": "resend", "assumptions": {"create_existing": "reject"}}


class Camp:
    """One shipper's folder, its database, and an exchange. Everything in it is started by `command_processes`."""

    def __init__(self, folder, nursery, database, url, **settings):
        self.folder, self._nursery, self.database, self.url = folder, nursery, database, url
        self.children = []
        self.environment = {"LOADSHEET_TOKEN": TOKEN}
        given = {"database": database, "exchange": url, "cluster.takeover_s": TAKEOVER_S, **QUICK, **settings}
        assumptions = given.pop("assumptions", {})
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
        lines += ["[assumptions]", *(f"{name} = {json.dumps(value)}" for name, value in assumptions.items())]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "loadsheet.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    # processes

    def start(self, *words):
        """Start a command here."""
        self.children.append(self._nursery.start(self.folder, *words, **self.environment))
        return self.children[-1]

    def worker(self):
        """Start a worker."""
        return self.start("worker")

    def run(self, within_s=120.0):
        """Have a run to its end."""
        child = self.start("run")
        child.wait(within_s)
        return child

    def listens(self, count=1, within_s=30.0):
        """Wait until so many workers are known to live."""

        def heard():
            there = self.ask("select to_regclass(%s)", f"{SCHEMA}_fleet.workers")[0][0]
            return there and self.ask("select count(*) from fleet.workers where ended is null")[0][0] >= count

        until(heard, within_s)

    # what is known

    def ask(self, statement, *values, rows=None):
        """What the database says; `fleet.` stands for what all share."""
        cursor = _connection(self.database).cursor(row_factory=rows or tuple_row)
        done = cursor.execute(statement.replace("fleet.", f"{SCHEMA}_fleet."), values)
        return done.fetchall() if done.description else []

    def states(self):
        """How many entries are in which state; nothing before there is a ledger."""
        if not self.ask("select to_regclass('entries')")[0][0]:
            return {}
        return dict(self.ask("select state, count(*) from entries group by state"))

    def known(self):
        """What the ledger knows, as `invariants.check_laws` wants it."""
        queries = ("entries order by id", "attempts order by entry_id, number", "files order by id")
        return Known(*(self.ask(f"select * from {query}", rows=dict_row) for query in queries))

    @contextmanager
    def books_kept(self, folder):
        """Where the `with` block fails, put down what the ledger says, for whoever has to find out what happened: the server ends with the test."""
        try:
            yield
        except BaseException:
            folder.mkdir(parents=True, exist_ok=True)
            for table in ("entries", "attempts", "events", "runs", "fleet.takeovers", "fleet.procrastinate_jobs"):
                lines = (json.dumps(row, default=str) for row in self.ask(f"select * from {table}", rows=dict_row))
                (folder / f"{table.rpartition('.')[2]}.jsonl").write_text("\n".join(lines), encoding="utf-8")
            print(f"what the ledger says is in {folder}", flush=True)
            raise

    def summary(self):
        """The summary of the last run that wrote one."""
        (latest, *_) = sorted((self.folder / "outbox").glob("*/run.json"), reverse=True)
        return json.loads(latest.read_text(encoding="utf-8"))


class Watched:
    """Arrivals at an exchange, by its truth log."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        """Each effect that happened, as it is told."""
        return read_truth(self.path)

    def moments(self):
        """When effects happened, in seconds, oldest first."""
        return sorted(datetime.fromisoformat(line["time"]).timestamp() for line in self.lines())


_connections = {}


def _connection(database):
    """One connection for all questions to a database: tests ask again and again. A new one if the server has been stopped."""
    found = _connections.get(database)
    try:
        if found is not None:
            found.execute("select 1")
            return found
    except psycopg.OperationalError:
        found.close()
    found = psycopg.connect(database, autocommit=True, connect_timeout=10)
    found.execute(sql.SQL("set search_path to {}").format(sql.Identifier(SCHEMA)))
    atexit.register(found.close)
    _connections[database] = found
    return found


@contextmanager
def exchange(folder: Path, *, delay_s=0.0, **assumptions):
    """The exchange with its truth log, in a process of its own: its URL and what arrived. Creates are answered `delay_s` after their effect."""
    folder.mkdir(parents=True, exist_ok=True)
    more = {f"LOADSHEET_ASSUMPTIONS__{name.upper()}": str(value) for name, value in assumptions.items()}
    slow = FaultRule("slow_answer", "order.create", seconds=delay_s)
    words = ("--database", f"sqlite:///{folder / 'exchange.db'}", "--truth", folder / "truth.jsonl")
    with (
        serving(folder, *words, LOADSHEET_TOKEN=TOKEN, **more) as served,
        Front(served.url, [slow]) if delay_s else nullcontext(served) as front,
    ):
        yield front.url, Watched(folder / "truth.jsonl")
