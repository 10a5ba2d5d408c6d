"""Nights that are told: a ledger filled without network, settled against what a test says is listed, and reported into a folder."""

import openpyxl
from ledgers import document, drop_of, listing, order, plan, send

from loadsheet.reconcile import settle
from loadsheet.reports import write
from loadsheet.settings import Settings


class House:
    """A ledger whose nights are told in a folder."""

    def __init__(self, folder, ledger, clock):
        self.ledger, self.clock, self.run = ledger, clock, None
        self.settings = Settings(outbox=folder / "outbox")

    def night(self, items=(), *, answers=lambda _: None, held=(), days=1):
        self.clock.pass_time(86_400 * days)
        self.run = self.ledger.begin_run()
        if items:
            file = f"in{self.run.id}.csv"
            plan(self.ledger, self.run, drop_of(("orders", file), mapping=file), items)
            send(self.ledger, self.run, answers)
        return self.again(held)

    def again(self, held=(), **more):
        found = settle(self.ledger.history, {"order": listing(held)}, self.run, self.settings)
        self.ledger.follow(self.run, found.exceptions.standings)
        report = write(self.ledger.history, found, self.run, self.settings, **more)
        counted = {"entries": dict(report.summary.entries), "verdicts": dict(report.summary.verdicts)}
        self.ledger.end_run(self.run, exit_code=0, summary=counted)
        return report


def create(number, *problems, **changes):
    cells = (f"A-{number:05}", "Empfänger", "01067", "zwölf", "1")
    return document("order.create", order(number, **changes), [("orders", number + 1, cells)], *problems)


def told(report, title="Exceptions"):
    book = openpyxl.load_workbook(report.folder / "reconciliation.xlsx", data_only=True)
    head, *lines = ([cell.value for cell in line] for line in book[title].iter_rows())
    return [dict(zip(head, line, strict=True)) for line in lines]
