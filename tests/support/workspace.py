"""A folder as a shipper has it (inbox, mappings, outbox, state), the commands that run in it, and what they leave there."""

import json
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path

import openpyxl
import orders
import python_calamine
from command_in_process import loadsheet
from outcome_check import result_lines

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "mappings"
SAMPLES = ROOT / "inbox_samples"
SMALL = ROOT / "tests" / "proofs" / "mappings"
HEADINGS = {"updates": "Order,City", "deletes": "Order", "events": "Order,Code,At"}
"""Of the files of the small mappings by the word that their names begin with; files of all others are of orders."""


def book_of(sheets):
    """A workbook with these sheets by title, each of them as its rows."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        page = book.create_sheet(title)
        for row in rows:
            page.append(row)
    return book


def copy_mappings(target, *names):
    """The shipped mappings and what they name; of the mappings themselves only these, if any are named: to load all takes a second."""
    shutil.copytree(SHIPPED, target, dirs_exist_ok=True)
    for path in target.glob("*.yaml"):
        if names and path.stem not in names:
            path.unlink()


class Workspace(os.PathLike):
    """An empty inbox and the mappings of joined orders and packages. `variables` are those of the environment of each command."""

    def __init__(self, folder, mappings=orders.MAPPINGS):
        self.folder, self.variables = Path(folder), {"LOADSHEET_ARRIVAL__SETTLE_S": "0"}
        self.inbox, self.outbox, self.state = (self / name for name in ("inbox", "outbox", ".loadsheet"))
        self.inbox.mkdir(parents=True, exist_ok=True)
        self.use(mappings)

    def __truediv__(self, name):
        return self.folder / name

    def __fspath__(self):
        return str(self.folder)

    __str__ = __fspath__

    def use(self, mappings):
        """Replace the mappings: by a copy of this folder, or by files with these texts, by name without suffix."""
        place = self / "mappings"
        shutil.rmtree(place, ignore_errors=True)
        if not isinstance(mappings, dict):
            shutil.copytree(mappings, place)
            return
        place.mkdir()
        for name, text in mappings.items():
            (place / f"{name}.yaml").write_text(text, encoding="utf-8")

    def add(self, name, before="", after=""):
        """Add a small mapping of the proofs (events, order-deletes, ...), in which maybe a text is replaced."""
        text = (SMALL / f"{name}.yaml").read_text(encoding="utf-8")
        (self / "mappings" / f"{name}.yaml").write_text(text.replace(before, after), encoding="utf-8")

    def use_small(self, *names, changed=""):
        """Replace the mappings by these small ones; `changed` is what that of orders does with changed records."""
        self.use({})
        for name in names:
            self.add(name, "target:", f"changed: {changed}\ntarget:" if changed and name == "orders" else "target:")

    def use_senders(self, *senders, changed=""):
        """Replace the mappings by the small one of orders for each of these senders, of whom the first is ACME."""
        self.use_small("orders", changed=changed)
        path = self / "mappings" / "orders.yaml"
        text = path.read_text(encoding="utf-8")
        path.unlink()
        for number, sender in enumerate(senders):
            own = text.replace("mapping: orders", f"mapping: {sender}").replace("orders*", f"{sender}*")
            own = own.replace("sender_id: ACME", f"sender_id: {sender.upper() if number else 'ACME'}")
            (self / "mappings" / f"{sender}.yaml").write_text(own, encoding="utf-8")

    def use_shipped(self, *names):
        """Replace the mappings by these of the shipped ones."""
        shutil.rmtree(self / "mappings", ignore_errors=True)
        copy_mappings(self / "mappings", *names)

    def command(self, *words, typed="", **more):
        """`loadsheet WORDS` in the folder, in a forked process; `more` are variables of its environment."""
        return loadsheet(self.folder, *words, typed=typed, **self.variables | more)

    def run(self, *words, **more):
        """`loadsheet run`."""
        return self.command("run", *words, **more)

    def drop(self, name, content, age=None):
        """Put a file into the inbox: text, bytes or a copy of another file; `age` says for how many seconds it has been as it is."""
        path = self.inbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            return Path(shutil.copy(content, path))
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if age is not None:
            os.utime(path, (time.time() - age,) * 2)
        return path

    def drop_rows(self, *files):
        """Put files of the small mappings into the inbox, the oldest first, each as `orders2: A-1,Bonn,1 | A-2,Ulm,2`."""
        for place, file in enumerate(files):
            name, _, rows = file.partition(":")
            heading = HEADINGS.get(re.match("[a-z]+", name)[0], "Order,City,Weight")
            lines = [heading, *(row.strip() for row in rows.split("|")), ""]
            self.drop(f"{name}.csv", "\n".join(lines), age=60 * (len(files) - place))

    def drop_book(self, name, sheets):
        """Put a workbook into the inbox, which has these sheets by title, each of them as its rows; returns the book."""
        book = book_of(sheets)
        book.save(self.inbox / name)
        return book

    @contextmanager
    def fixing(self, name, back=""):
        """The only fix workbook of the last run whose name is so, to be changed; then it is in the inbox, maybe as `back`."""
        (path,) = self.reports()[-1].glob(name)
        book = openpyxl.load_workbook(path)
        yield book
        book.save(self.inbox / (back or path.name))

    def nights(self, *nights):
        """A run for each of these, the last of which is returned: a file, or several, as above; `retry A-1` is a command before the next."""
        done = None
        for night in nights:
            if isinstance(night, str) and night.startswith("retry "):
                assert self.command(*night.split()).returncode == 0
                continue
            self.drop_rows(*([night] if isinstance(night, str) else night))
            done = self.run()
        return done

    def write_orders(self, count, **more):
        """Put orders.csv and packages.csv into the inbox, each written elsewhere and then renamed as a careful sender does it."""
        orders.write_orders(self / "coming", count, **more)
        for path in (self / "coming").iterdir():
            path.rename(self.inbox / path.name)

    def edit(self, name, before, after):
        """Replace a text that is in a file of the folder."""
        path = self / name
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after), encoding="utf-8")

    def ask(self, statement, *values):
        """Rows of the ledger; none while it is not there or being made."""
        place = self.state / "ledger.db"
        if not place.exists():
            return []
        with closing(sqlite3.connect(place)) as ledger:
            try:
                return ledger.execute(statement, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise

    def change(self, statement, *values):
        """Change the ledger behind its back."""
        with closing(sqlite3.connect(self.state / "ledger.db")) as ledger, ledger:
            ledger.execute(statement, values)

    def states(self):
        """The state of each key's last entry."""
        return dict(self.ask("select key, state from entries order by id"))

    def reports(self):
        """The folders of the runs' reports, oldest first."""
        return sorted(path.parent for path in self.outbox.glob("*/run.json"))

    def run_json(self):
        """What the last run's run.json says."""
        return json.loads((self.reports()[-1] / "run.json").read_bytes())

    def sheet(self, title):
        """The lines of a sheet of the last run's workbook, by heading."""
        book = python_calamine.load_workbook(self.reports()[-1] / "reconciliation.xlsx")
        heads, *lines = book.get_sheet_by_name(title).to_python()
        return [dict(zip(heads, line, strict=True)) for line in lines]

    def results(self, name):
        """The rows of the newest results of a file, by heading."""
        path = max(self.outbox.glob(f"*/{name}.results.*"))
        heads, *rows = next(iter(result_lines(path).values()))
        return [dict(zip(heads, row, strict=True)) for row in rows]
