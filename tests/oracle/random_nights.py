"""A random walk over nights: files of two shippers, or of tenders and their carriers, what these and an operator do in between, and what each
record should be then. Runs are killed, answers are lost, and a dry run says before what each run will do.

The oracle knows the documentation and the interface, nothing of loadsheet's code. What a file says of a record is an input. It is as old as the
first file with the same bytes, or with the same row in a fix file: what comes again as it was says nothing new.
"""

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from json import loads
from random import Random
from shutil import copy

from command_in_process import loadsheet
from killed_steps import dies_at
from night_acts import Acts
from night_checks import Checks
from night_fixes import Fixing
from night_records import Author, mappings
from outcome_check import check_outcome
from workspace import Workspace

LAYOUTS = ("rows", "lines", "joined", "tenders", "sheets")
CHANGES_OF_FILES = ("os.rename", "os.remove", "os.mkdir", "shutil.rmtree")


class Walk(Acts, Fixing, Checks):
    """A folder, an exchange that can lose answers, and one random night after the other."""

    def __init__(self, folder, served, seed):
        self.random, self.served, self.folder = Random(seed), served, folder
        self.workspace = Workspace(folder / "home")
        self.number = self.serial = 0
        self.now = datetime(2026, 3, 4, 2, 15, tzinfo=UTC)
        self.files, self.inputs, self.came = [], [], {}
        self.waiting = []  # files whose others have not come yet
        self.fixes, self.released, self.nights, self.log = [], Counter(), {}, []
        self.killed = set()  # the runs of this night that were killed
        self.lost = Counter()  # the calls of each key that were on their way then
        self.author = Author(self.random, self.random.choice(LAYOUTS))
        self._decide_settings()

    def _decide_settings(self):
        """What an operator does at first and may change later: mappings, patience, and how long things are kept."""
        changed = self.random.choice(("update", "hold", "upsert"))
        stop_at = "40%" if self.random.random() < 0.3 else ""
        self.workspace.use(mappings(self.author.layout, changed, stop_at, self.random.choice((10, 10, 11))))
        self.is_impatient = self.random.random() < 0.5
        days = self.random.choice("0012")
        kept = {f"LOADSHEET_RETENTION__{what}_DAYS": days for what in ("ARCHIVE", "PAYLOAD", "REPORTS")}
        self.workspace.variables |= kept | {
            "LOADSHEET_ARRIVAL__COMPANION_WAIT_S": "0.001" if self.is_impatient else "86400",
            "LOADSHEET_DISPATCH__CANARY": "0",
            "LOADSHEET_EXCHANGE": self.served.url,
        }
        self.log.append(
            f"{self.author.layout}, changed: {changed}, stop_at: {stop_at or 'never'}, kept for days: {days}"
        )

    def night(self):
        """A random night, held against the oracle."""
        self.number += 1
        self.log.append(f"night {self.number}")
        if self.random.random() < 0.1:
            self._decide_settings()
        self.bring_late_files()
        acts = [self.drop_new] * 8
        if self.number > 1:
            acts += [self.drop_again] * 4 + [self.return_fix_file] * 4
            acts += [self.retry] * 2 + [self.resolve] * 2 + [self.lose_an_answer]
        for _ in range(self.random.choice((1, 2, 2, 3, 4))):
            self.random.choice(acts)()
        limit = ("--limit", 1) if self.random.random() < 0.1 else ()
        dropped = [path.name for path in self.workspace.inbox.iterdir()]
        self.killed = set()
        said = self._run_that_dies() if not limit and self.random.random() < 0.2 else None
        said = said or self._run(*limit)
        self._check_rows(said, dropped)
        self._check_records(said, bool(limit))
        self._check_calls()
        self._check_doubts()
        if self.random.random() < 0.15:
            self._check_quiet_nights()

    def _command(self, *words):
        looks = iter(range(10_000_000))
        begin, self.now = self.now, self.now + timedelta(hours=2)
        more = {"clock": lambda: begin + timedelta(milliseconds=next(looks)), **self.workspace.variables}
        return loadsheet(self.workspace.folder, *words, **more)

    def _run(self, *words):
        before = set(self.workspace.reports())
        self.now = self.now.replace(hour=2) + timedelta(days=1)
        foreseen = self._command("run", "--dry-run", "--json")
        assert foreseen.stdout, foreseen.stderr
        done = self._command("run", *words)
        self.log.append(f"  run {' '.join(map(str, words))}: {done.returncode} {done.stdout.splitlines()[0]}")
        assert done.returncode in (0, 1, 65), done.stderr
        said = self._said_since(before)
        assert said["exit_code"] == done.returncode
        if not self.killed:
            self._check_forecast(loads(foreseen.stdout), said)
        return said

    def _run_that_dies(self):
        """A run that is killed at one of its steps; what it says if it makes fewer."""
        before = set(self.workspace.reports())
        self.now = self.now.replace(hour=2) + timedelta(days=1)
        step = self.random.randrange(20, 400)
        if not dies_at(step, lambda begin: (begin(), self._command("run")), CHANGES_OF_FILES):
            self.now += timedelta(hours=2)
            return self._said_since(before)
        self.now += timedelta(hours=2)
        if {path.name for path in set(self.workspace.reports()) - before} & self._runs("finished_at <> ''"):
            return self._said_since(before)
        self.killed = self._runs("finished_at = ''") - self.nights.keys()
        self.nights |= dict.fromkeys(self.killed, self.number)
        self.lost.update(key for _, key, *_ in self._entries("state = 'sending'"))
        self.log.append(f"  run killed at step {step}: {', '.join(self.killed)}")
        return None

    def _runs(self, which):
        return {name for (name,) in self.workspace.ask(f"select name from runs where {which}")}

    def _said_since(self, before):
        """What the run that has just ended says in its reports."""
        (folder,) = (path for path in set(self.workspace.reports()) - before if path.name not in self.killed)
        self.nights[folder.name] = self.number
        for path in sorted(folder.glob("*.fix.xlsx")):
            (self.folder / "mail" / folder.name).mkdir(parents=True, exist_ok=True)
            self.fixes.append(copy(path, self.folder / "mail" / folder.name / path.name))
        self.exceptions = [line for line in self.workspace.sheet("Exceptions") if line["Exception"].startswith("E-")]
        return check_outcome(folder)

    def _entries(self, which):
        """Id, key, night and first file of the entries for which this holds."""
        statement = f"""
            select entries.id, entries.key, runs.name, files.name from entries join drops on drops.id = entries.drop_id
            join runs on runs.id = drops.run_id join files on files.id = (select min(id) from files where drop_id = drops.id)
            where {which} order by entries.id
            """
        return [(entry, key, self.nights[run], file) for entry, key, run, file in self.workspace.ask(statement)]

    def _records(self):
        """What the exchange has: city, weight and items of each order or tender, the rate of each quote, the last decision on it, and how
        often each order has each event.
        """
        with closing(sqlite3.connect(self.folder / "exchange.db")) as database:
            tables = {
                name: [loads(content) for (content,) in database.execute(f"select content from {name} order by number")]
                for name in ("orders", "tenders", "quotes", "confirmations", "status_events")
            }
        records = {}
        for one in (*tables["orders"], *tables["tenders"]):
            items = tuple(package["item_name"] for package in one["packages"])
            weight = one["total_weight"] if "order_id" in one else one["packages"][0]["weight"]
            records[one.get("order_id") or one["tender_id"]] = one["delivery_city"], int(weight), items
        for one in tables["quotes"]:
            records["quotes", one["tender_id"], one["carrier_id"]] = int(one["tenderRate"])
        for one in tables["confirmations"]:
            records["decisions", one["tender_id"], one["carrier_id"]] = one["status"]
        return records, Counter((one["order_id"], one["status_code"]) for one in tables["status_events"])
