"""A random walk over nights: files of two shippers, what they and an operator do in between, and what each order should be then. Runs are killed,
answers are lost, and a dry run says before what each run will do.

The oracle knows the documentation and the interface, nothing of loadsheet's code. What a file says of a record is an input. It is as old as the
first file with the same bytes, or with the same row in a fix file: what comes again as it was says nothing new.
"""

import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from json import loads
from random import Random

from command_in_process import loadsheet
from faulty_exchange import FaultRule
from fix_workbooks import FixBook
from invariants import read_ledger, read_truth
from killed_steps import dies_at
from outcome_check import check_outcome
from workspace import SMALL, Workspace

KEYS = ("A-1", "A-2", "A-3")
CITIES, ITEMS = ("Bonn", "Ulm", "Kiel"), ("Bolts", "Glue", "Nuts")
TOO_LONG = "a text with more than the forty characters that this exchange takes"
TEXT_MAX = 40
WEIGHTS = {"orders": (1, 2, 3), "others": (11, 12, 13)}  # those of a sender tell whose record it is
ORDER = ("Order", "City", "Weight")
ITEM_OF_ROW = "packages: {each: rows, item: {package_type: {value: Box}, item_name: {col: item}}}"
HEADINGS = {
    "orders": ORDER,
    "others": ORDER,
    "updates": ORDER[:2],
    "deletes": ORDER[:1],
    "events": ("Order", "Code", "At"),
}
LOST = ("reset_after_effect", "reset_before_effect")
CHANGES_OF_FILES = ("os.rename", "os.remove", "os.mkdir", "shutil.rmtree")
OPERATIONS = ("order.create", "order.update", "order.delete", "order.status")


@dataclass(eq=False)
class Input:
    """A record of a file. `age` says when it came; `quality`: good, wrong (a cell cannot be read) or refused (by the exchange)."""

    kind: str
    rows: tuple
    quality: str
    age: tuple
    root: str
    corrected: "Input | None" = None
    released: tuple = (0, 0)  # when a person last said that it is to be sent
    first: tuple = ()  # the age of the row that a fix file corrected
    lacks_a_row: bool = False  # one that its fix file had

    @property
    def cells(self):
        return self.rows[0]

    @property
    def key(self):
        return self.cells[0]

    @property
    def items(self):
        """The items of its packages, one in each row; the mapping of orders in one row names one itself."""
        return tuple(row[3] if len(row) > 3 else "Schrauben" for row in self.rows)

    def __repr__(self):
        rows = "; ".join(" ".join(map(str, row))[:24] for row in self.rows)
        return f"{self.kind} {rows} ({self.quality}, night {self.age[0]}.{self.age[1]})"


@dataclass
class Dropped:
    """A file as it was dropped, with its inputs by key."""

    name: str
    content: bytes
    night: int
    inputs: dict = field(default_factory=dict)


class Walk:
    """A folder, an exchange that can lose answers, and one random night after the other."""

    def __init__(self, folder, served, seed):
        self.random, self.served, self.folder = Random(seed), served, folder
        self.workspace = Workspace(folder / "home")
        self.number = self.serial = 0
        self.now = datetime(2026, 3, 4, 2, 15, tzinfo=UTC)
        self.files, self.inputs, self.of_row = [], [], {}
        self.fixes, self.released, self.nights, self.log = [], Counter(), {}, []
        self.killed = set()  # the runs of this night that were killed
        self.lost = Counter()  # the calls of each key that were on their way then
        self._use_mappings(self.random.choice(("update", "hold", "upsert")))

    def _use_mappings(self, changed):
        orders = (SMALL / "orders.yaml").read_text(encoding="utf-8")
        if changed == "upsert":
            orders = orders.replace("order.create", "order.upsert")
        else:
            orders = orders.replace("target:", f"changed: {changed}\ntarget:")
        if self.random.random() < 0.3:
            orders += "errors: {stop_at: 40%}\n"
            self.log.append("stops at 40%")
        others = orders.replace("orders", "others").replace("ACME", "OTHER")
        self.headings = dict(HEADINGS)
        if self.random.random() < 0.5:
            orders = _in_lines(orders)
            self.headings["orders"] = (*ORDER, "Item")
            self.log.append("orders have lines")
        self.workspace.use({"orders": orders, "others": others})
        for name in ("order-updates", "order-deletes", "events"):
            self.workspace.add(name)
        self.log.append(f"changed: {changed}")
        self.workspace.variables |= {"LOADSHEET_DISPATCH__CANARY": "0", "LOADSHEET_EXCHANGE": self.served.url}

    # what happens in between

    def _place(self, name, content, inputs, said):
        """Put a file into the inbox; each file is newer than those before it."""
        path = self.workspace.inbox / name
        if path.exists():
            return
        path.write_bytes(content)
        changed = self.now.timestamp() - 3600 + self.serial
        os.utime(path, (changed, changed))
        if all(dropped.content != content for dropped in self.files):
            self.files.append(Dropped(name, content, self.number, inputs))
        self.inputs += [one for one in inputs.values() if one not in self.inputs]
        self.of_row |= {(self.number, name, key): one for key, one in inputs.items()}
        self.log.append(f"  {said} {name}: {', '.join(map(repr, inputs.values()))}")

    def _age(self):
        self.serial += 1
        return self.number, self.serial

    def drop_new(self):
        kind = self.random.choice(
            ("orders", "orders", "orders", "others", "others", "updates", "updates", "deletes", "events")
        )
        age = self._age()
        name = f"{kind}_{self.serial}.csv"
        inputs = {}
        for key in self.random.sample(KEYS, self.random.choice((1, 1, 2, 3))):
            quality = "good" if kind == "deletes" else self.random.choice(("good", "good", "good", "wrong", "refused"))
            inputs[key] = Input(kind, self._rows(kind, key, quality), quality, age, name)
        rows = [row for one in inputs.values() for row in one.rows]
        if self.random.random() < 0.3:
            self.random.shuffle(rows)
        for one in inputs.values():
            one.rows = tuple(row for row in rows if row[0] == one.key)
        rows.insert(0, self.headings[kind])
        text = (
            "".join(",".join(map(str, row)) + "\n" for row in rows) + "\n" * self.serial
        )  # no other file has these bytes
        self._place(name, text.encode(), inputs, "new")

    def _cells(self, kind, key, quality):
        if kind == "deletes":
            return (key,)
        if kind == "events":
            good = f"E{self.serial}"
            code = {"good": good, "wrong": "", "refused": f"{good} {TOO_LONG}"}[quality]
            return key, code, "2026-03-01 10:00"
        city = TOO_LONG if quality == "refused" else self.random.choice(CITIES)
        if kind == "updates":
            return key, "" if quality == "wrong" else city
        return key, city, "x" if quality == "wrong" else self.random.choice(WEIGHTS[kind])

    def _rows(self, kind, key, quality, count=0):
        """The rows of one record: `count` of them, or any number."""
        if len(self.headings[kind]) < 4:
            return (self._cells(kind, key, quality),)
        cells = self._cells(kind, key, quality)
        good = [cells[0], cells[1], self.random.choice(WEIGHTS[kind])]
        rows = [[*good, self.random.choice(ITEMS)] for _ in range(count or self.random.choice((1, 2, 3)))]
        if quality == "wrong":
            column, value = self.random.choice(((2, "x"), (3, ""), (1, "Wien")))
            row = self.random.choice(rows)
            row[column] = value if len(rows) > 1 or column > 1 else ""
        return tuple(map(tuple, rows))

    def drop_again(self):
        """A file that came before, under its name or another one."""
        earlier = [file for file in self.files if file.night < self.number]
        if not earlier:
            return
        file = self.random.choice(earlier)
        self._age()
        stem, _, suffix = file.name.rpartition(".")
        name = file.name if self.random.random() < 0.6 else f"{stem}_copy{self.serial}.{suffix}"
        self._place(name, file.content, file.inputs, "again")

    def return_fix_file(self):
        """A fix file of some night: as it was, corrected in part, or all of it."""
        if not self.fixes:
            return
        path = self.random.choice(self.fixes[-4:])
        chance = self.random.choice((0, 0.5, 1, 1))
        age, book, inputs = self._age(), FixBook(path), {}
        kind = path.name.partition("_")[0]
        for sheet in book.sheets():
            heads = [cell.value for cell in sheet[1]]
            records = {}
            for row in sheet.iter_rows(min_row=2):
                named = dict(zip(heads, row, strict=True))
                cells = [named[head] for head in self.headings[kind]]
                records.setdefault(cells[0].value, []).append(cells)
            for rows in records.values():
                before = self._input_with(path.name, rows)
                values, quality = self._returned(kind, before, rows, chance)
                inputs[before.key] = before
                if values is not before.rows or quality != before.quality:
                    mended = Input(kind, values, quality, age, before.root, first=before.first or before.age)
                    mended.lacks_a_row = len(values) < len(before.rows) and quality == "wrong"
                    if before.corrected:
                        before.corrected.corrected = mended
                    inputs[before.key] = before.corrected = mended
        target = self.folder / "mended.xlsx"
        book.save(target)
        content = (target if chance else path).read_bytes()
        self._place(f"mended_{self.serial}.xlsx", content, inputs, f"returned {path.parent.name}/{path.name} as")

    def _returned(self, kind, before, rows, chance):
        """What a sender makes of the rows of a record in a fix file, and its quality then. A row that is missing has to be confirmed: by
        the next fix file with these rows.
        """
        if before.quality == "good" or self.random.random() >= chance:
            return before.rows, self._quality(before.rows) if before.lacks_a_row else before.quality
        if len(rows) > 1 and self.random.random() < 0.2:
            rows[-1][0].parent.delete_rows(rows[-1][0].row)
            agree = len({city for _, city, *_ in before.rows}) == 1  # of rows that contradict each other one may go
            return before.rows[:-1], "wrong" if agree else self._quality(before.rows[:-1])
        values = self._rows(kind, before.key, "good", len(rows))
        for cells, row in zip(rows, values, strict=True):
            for cell, value in zip(cells, row, strict=True):
                if str(cell.value) != str(value):
                    cell.value = value
        return values, "good"

    def _quality(self, rows):
        """The quality of rows of an order with lines."""
        cities = {city for _, city, *_ in rows}
        if len(cities) > 1 or any("" in row or "x" in row for row in rows):
            return "wrong"
        return "refused" if TOO_LONG in cities else "good"

    def _input_with(self, name, rows):
        """The input of which a fix file has these rows."""
        wanted = [["" if cell.value is None else str(cell.value).removesuffix(".0") for cell in row] for row in rows]
        for one in reversed(self.inputs):
            if name.startswith(one.root.removesuffix(".csv")) and len(one.rows) == len(rows):
                heads = self.headings[one.kind]
                cells = [
                    (a, str(b), head)
                    for x, y in zip(wanted, one.rows, strict=True)
                    for a, b, head in zip(x, y, heads, strict=True)
                ]
                if all(a == b or head == "At" for a, b, head in cells):
                    return one
        raise AssertionError(f"no input is {wanted} of {name}")

    def retry(self):
        """A person releases what is held or refused for a key: that is newer than all before."""
        held = self._entries("state in ('held', 'refused')")
        if not held:
            return
        key = self.random.choice(sorted({key for _, key, *_ in held}))
        done = self._command("retry", key, "--comment", "it is right")
        self.log.append(f"  retry {key}: {done.returncode} {done.stderr.strip()[:150]}")
        ready = {number for number, *_ in self._entries("state = 'ready'")}
        for number, own, run, file in held:
            one = self.of_row[run, file, own]
            if own == key and number in ready:
                self.released[number] += 1
                one.released = self.number, self._age()[1] / 1e6  # before what the run reads
                if one.quality == "good":
                    one.age = one.released

    def resolve(self):
        """A person looks at the exchange and says what is there."""
        unknown = self._entries("state = 'unknown'")
        if not unknown:
            return
        number, key, *_ = self.random.choice(unknown)
        sent = {sha for (sha,) in self.workspace.ask("select request_hash from attempts where entry_id = ?", number)}
        is_there = any(line["sha256"] in sent for line in read_truth(self.served.truth))
        words = ["--accepted"] if is_there else ["--send-again", "--i-know-it-may-double"]
        done = self._command("resolve", key, *words, "--yes", "--comment", "seen", "--exchange", self.served.url)
        self.released[number] += 1
        self.log.append(f"  resolve {key} {words[0]}: {done.returncode} {(done.stdout + done.stderr).strip()[:200]}")

    def lose_an_answer(self):
        operation, key = self.random.choice(OPERATIONS), self.random.choice(KEYS)
        self.served.front._rules.append(rule := FaultRule(self.random.choice(LOST), operation, key=key, at=(1,)))
        self.log.append(f"  lost: {rule}")

    # nights

    def night(self):
        """A random night, held against the oracle."""
        self.number += 1
        self.log.append(f"night {self.number}")
        acts = [self.drop_new] * 8 + [self.drop_again] * 4 + [self.return_fix_file] * 4
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
        if self.random.random() < 0.25:
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
        self.fixes += sorted(folder.glob("*.fix.xlsx"))
        self.exceptions = [line for line in self.workspace.sheet("Exceptions") if line["Exception"].startswith("E-")]
        return check_outcome(folder)

    # the oracle

    def _check_rows(self, said, dropped):
        """Each row that came is accounted for."""
        own = [one for (night, file, _), one in self.of_row.items() if night == self.number and file in dropped]
        rows = sum(len(one.rows) for one in own)
        assert said["balance"]["balances"]
        runs = {said["run"], *self.killed}
        own = [file for drop in said["drops"] if drop["run"] in runs for file in drop["files"]]
        assert sum(table["rows"] for file in own for table in file["tables"]) == rows, (own, rows)

    def _check_forecast(self, foreseen, said):
        """A dry run says before what a run does of which the exchange refuses and loses nothing."""
        if {"refused", "outcome unknown", "waiting to be sent"} & set(said["verdicts"]) or foreseen["already"][
            "unknown"
        ]:
            return
        own = Counter()
        for drop in said["drops"]:
            if drop["run"] == said["run"]:
                own.update(drop["entries"])
        told = Counter(foreseen["records"])
        told["held"] += told.pop("waiting", 0)
        told["accepted"] += told.pop("ready", 0)
        assert +told == +own, (told, own)
        assert foreseen["exit_code"] == said["exit_code"], (foreseen, said["verdicts"], said["settled"])

    def _check_records(self, said, limited):
        """What is not as its newest input says is an open exception, or waits; and a run that says that all is well lets none of its own so."""
        orders, events = self._records()
        pending = {key for _, key, *_ in self._entries("state in ('ready', 'sending', 'unknown')")}
        for one, is_so, mappings in self._wishes(orders, events):
            if is_so or one.key in pending:
                continue
            shown = [line for line in self.exceptions if line["Key"] == one.key and line["Mapping"] in mappings]
            assert shown, f"{one!r}: not so, and no open exception; the exchange has {orders.get(one.key)}"
            assert one.age[0] < self.number or said["exit_code"], f"{one!r}: not so, and the run said that all is well"
        shown = Counter(
            (line["Key"], line["Operation"], line["Mapping"])
            for line in self.exceptions
            if line["Operation"] != "order.status" and line["Outcome"] not in ("not sent: held", "outcome unknown")
        )
        assert set(shown.values()) <= {1}, shown

    def _wishes(self, orders, events):
        """Inputs that nothing newer replaced, each with whether the exchange is as it says, and the mappings whose exception may show it."""
        for key in KEYS:
            own = sorted((one for one in self.inputs if one.key == key and not one.corrected), key=lambda one: one.age)
            deleted = max((one.age for one in own if one.kind == "deletes"), default=(0, 0))
            created = max((one.age for one in own if one.kind in WEIGHTS and one.quality == "good"), default=(0, 0))
            city, *goods = orders.get(key, (None, None, None))
            updates = [one for one in own if one.kind == "updates" and one.age > deleted]
            for kind in WEIGHTS:
                decided = self._decided(key, own, kind)
                for one in [one for one in own if one.kind == kind and one.age > max(deleted, decided)][-1:]:
                    first = min(same.first or same.age for same in own if same.rows == one.rows and same.age > deleted)
                    later = [update.cells[1] for update in updates if update.quality == "good" and update.age > first]
                    is_so = [one.cells[2], one.items] == goods and (one.cells[1] == city or later)
                    yield one, one.quality == "good" and is_so, (kind,)
            for one in [one for one in own if one.kind == "deletes" and deleted > created][-1:]:
                yield one, key not in orders, ("order-deletes",)
            for one in [one for one in updates if one.age > created][-1:]:
                yield one, one.quality == "good" and one.cells[1] == city, ("order-updates", "orders")
            for one in [one for one in own if one.kind == "events"]:
                yield one, events[one.cells[:2]] or deleted[0] >= one.age[0], ("events",)

    def _decided(self, key, own, kind):
        """When the other sender last said something of a record, if a person ever said that it is to be sent: then both mean one record."""
        others = [one for one in own if one.kind in WEIGHTS and one.kind != kind]
        is_one = any(one.released > (0, 0) for one in self.inputs if one.kind in WEIGHTS and one.key == key)
        return max((max(one.released, one.age) for one in others if is_one), default=(0, 0))

    def _check_calls(self):
        """Nothing is sent twice, unless its answer was lost or a person said so."""
        known = read_ledger(self.workspace.state / "ledger.db")
        written = {attempt["request_hash"] for attempt in known.attempts}
        assert written.issuperset(line["sha256"] for line in read_truth(self.served.truth))
        lost = self.lost + Counter(key for _, _, keys in self.served.front.fired for key in keys.split())
        for entry in known.entries:
            most = 1 + self.released[entry["id"]] + max(lost[entry["key"]], 2 * bool(lost[entry["key"]]))
            is_event = entry["operation"] == "order.status"  # one of a refused batch goes again alone
            assert entry["attempts"] <= most or is_event, entry
        if not self.lost and not any(operation == "order.status" for _, operation, _ in self.served.front.fired):
            assert max(self._records()[1].values(), default=0) <= 1

    def _check_quiet_nights(self):
        """Nights without a file change nothing, once nothing is left to send."""
        found = []
        for _ in range(4):  # an answer may be lost in the first
            said = self._run()
            states = self.workspace.ask("select id, state from entries where state <> 'unknown' order by id")
            shown = [(line["Exception"], line["Outcome"]) for line in self.exceptions]
            found.append((said["exit_code"], self._records(), states, shown))
        assert found[-2] == found[-1]

    def _entries(self, which):
        """Id, key, night and file of the entries for which this holds."""
        statement = f"""
            select entries.id, entries.key, runs.name, files.name from entries join drops on drops.id = entries.drop_id
            join runs on runs.id = drops.run_id join files on files.drop_id = drops.id where {which} order by entries.id
            """
        return [(entry, key, self.nights[run], file) for entry, key, run, file in self.workspace.ask(statement)]

    def _records(self):
        """City, weight and items of each order at the exchange, and how often it has each event."""
        with closing(sqlite3.connect(self.folder / "exchange.db")) as database:
            orders = [loads(content) for (content,) in database.execute("select content from orders")]
            events = [loads(content) for (content,) in database.execute("select content from status_events")]
        records = {
            one["order_id"]: (
                one["delivery_city"],
                int(one["total_weight"]),
                tuple(p["item_name"] for p in one["packages"]),
            )
            for one in orders
        }
        return records, Counter((one["order_id"], one["status_code"]) for one in events)


def _in_lines(orders):
    """The mapping of orders for files with a row for each package."""
    list_of_one = orders[orders.index("  packages:") : orders.index("Schrauben}") + len("Schrauben}")]
    columns = "columns:\n  item: {label: Item, type: text, required: true}"
    grouped = orders.replace(list_of_one, f"  {ITEM_OF_ROW}").replace("columns:", columns)
    return grouped.replace("payload:", "group: {by: order}\npayload:")
