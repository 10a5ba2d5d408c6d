"""Reported runs: a ledger filled without network, settled against the listing a test gives, and reported into a folder."""

import itertools
import os
from contextlib import contextmanager
from decimal import Decimal
from functools import partial

import openpyxl
from ledgers import (
    document,
    drop_of,
    ledger_in,
    left_out,
    listing,
    order,
    plan,
    refused,
    send,
    tender,
    unknown,
    unreadable,
    weight_problem,
)

from loadsheet.problems import Problem, Where
from loadsheet.reconcile import reconcile_run
from loadsheet.reports import write
from loadsheet.settings import Settings


def report_of_everything(folder, *texts, settings=None, orders=8):
    """The reports of a run with a document of every kind for each of these texts: in cells, answers, listings and names of keys."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = settings or Settings(outbox=folder / "outbox", exchange="https://user:secret@exchange.example/base")
    items, answers, listed, asides = [], {}, [], []
    for at, text in enumerate(texts or ("Empfänger",)):
        first, last = orders * at + 1, orders * (at + 1)
        made = {number: order(number) for number in range(first, last + 1)}
        cells = {number: [("orders", number + 1, (f"A-{number:05}", text, "01067", "1", "2"))] for number in made}
        cells[first + 1] = [("orders", first + 2, (text,) * 5)]
        wrong = {first + 1: (weight_problem("in.csv", first + 2, text),)}
        items += [document("order.create", made[n], cells[n], *wrong.get(n, ())) for n in made]
        answers[f"A-{first + 2:05}"] = partial(refused, text=text)
        answers[f"A-{first + 3:05}"] = unknown
        listed += [made[number] for number in range(first + 5, last + 1)]
        listed += [order(first + 4, goods_value=Decimal("1.5"), delivery_city=text), order(999 + at)]
        listed.append(order(77, order_id=text))
        name = f"x{at or ''}.jpg"
        asides.append(unreadable(name, Problem("A101", Where(name), name, {"patterns": text})))
    with ledger_in(folder) as ledger:
        run = ledger.begin_run()
        plan(ledger, run, drop_of(("orders", "in.csv")), [*items, left_out(len(items) + 2)])
        tenders = [document("tender.create", tender(1), [("tenders", 2, ("T-0001",))])]
        plan(ledger, run, drop_of(("tenders", "t.xlsx", "Blatt"), mapping="t"), tenders)
        for one in asides:
            ledger.set_aside(run, one)
        send(ledger, run, lambda one: answers.get(one.key, lambda _: None)(one))
        found = reconcile_run(ledger.queries, {"order": listing(listed), "tender": listing([], total=9)}, run, settings)
        return write(ledger.queries, found, run, settings)


@contextmanager
def run_begun(folder, **more):
    """A ledger, a run that has begun, and the settings it is reported with."""
    with ledger_in(folder) as ledger:
        yield ledger, ledger.begin_run(), Settings(outbox=folder / "outbox", **more)


def written(ledger, run, settings, listings=None):
    """The reports of a run, settled against what is listed: nothing, unless it is said."""
    return write(ledger.queries, reconcile_run(ledger.queries, listings or {}, run, settings), run, settings)


class ReportedRuns:
    """Runs in one ledger, each reported in a folder."""

    def __init__(self, folder, ledger, clock):
        self.ledger, self.clock, self.run = ledger, clock, None
        self.settings = Settings(outbox=folder / "outbox")

    def report(self, items=(), *, answers=lambda _: None, listed=(), days=1, mapping=""):
        """A new run, some days after the last one, with one file of these documents, of a mapping of its own unless one is named; returns its reports."""
        self.clock.pass_time(86_400 * days)
        self.run = self.ledger.begin_run()
        if items:
            file = f"in{self.run.id}.csv"
            plan(self.ledger, self.run, drop_of(("orders", file), mapping=mapping or file), items)
            send(self.ledger, self.run, answers)
        return self.report_again(listed)

    def report_again(self, listed=(), **more):
        """The reports of the last run, settled against what is listed now."""
        found = reconcile_run(self.ledger.queries, {"order": listing(listed)}, self.run, self.settings)
        self.ledger.record_exceptions(self.run, found.exceptions.statuses)
        report = write(self.ledger.queries, found, self.run, self.settings, **more)
        counted = {"entries": dict(report.summary.entries), "verdicts": dict(report.summary.verdicts)}
        self.ledger.end_run(self.run, exit_code=0, summary=counted)
        return report


def create(number, *problems, **changes):
    cells = (f"A-{number:05}", "Empfänger", "01067", "zwölf", "1")
    return document("order.create", order(number, **changes), [("orders", number + 1, cells)], *problems)


def sheet_lines(report, title="Exceptions"):
    """The lines of a sheet of the reconciliation workbook, by heading."""
    book = openpyxl.load_workbook(report.folder / "reconciliation.xlsx", data_only=True)
    head, *lines = ([cell.value for cell in line] for line in book[title].iter_rows())
    return [dict(zip(head, line, strict=True)) for line in lines]


_saves = itertools.count(1)


def edit_exceptions(report, change, name="reconciliation.xlsx", *, who="Ada Lovelace"):
    """Change the work list as a spreadsheet program would and save it, a minute after it was written or last saved; returns its path.

    `change` gives values by exception and heading, or is called with the sheet and the cells of its rows.
    """
    path = report.folder / name
    at = path.stat().st_mtime + 60 * next(_saves)
    book = openpyxl.load_workbook(path)
    sheet = book["Exceptions"]
    heads = [cell.value for cell in sheet[1]]
    rows = {str(line[0].value): dict(zip(heads, line, strict=True)) for line in sheet.iter_rows(min_row=2)}
    if callable(change):
        change(sheet, rows)
    else:
        for entry, values in change.items():
            for head, value in values.items():
                rows[entry][head].value = value
    book.properties.lastModifiedBy = who
    book.save(path)
    os.utime(path, (at, at))
    return path
