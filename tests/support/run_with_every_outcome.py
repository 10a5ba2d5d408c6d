"""A run with every outcome and its reports, for the tests of the pages and the acknowledgements."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ledgers import document, drop_of, ledger_in, left_out, listing, order, refused, send, unknown, unreadable

from loadsheet.ledger import ReadTotals
from loadsheet.mapping.documents import Source
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import reconcile_run
from loadsheet.reports import write
from loadsheet.settings import Settings

HEADER = ("Auftrag", "Empfänger", "Ort", "Gewicht", "Wert")
LINEAGE = {
    "order_id": (Source("orders", "order", "Auftrag", "first"),),
    "delivery_city": (Source("orders", "city", "Ort", "first"),),
    "total_weight": (Source("orders", "weight", "gewicht", "all"),),
    "packages[].weight": (Source("orders", "weight", "Gewicht", "each"),),
    "sender_id": (),
}


class EndedRun(NamedTuple):
    """A ledger, a run in it, and what the exchange lists afterwards."""

    ledger: object
    run: object
    listings: dict

    def write(self, folder, **chosen):
        """Its reports."""
        settings = Settings(outbox=Path(folder), **chosen)
        queries = self.ledger.queries
        ended = replace(self.run, exit_code=1, finished_at="2026-03-04T02:20:00.000Z")
        return write(queries, reconcile_run(queries, self.listings, self.run, settings), ended, settings)


def rows(first, key, city="Dresden", weight="200,25"):
    """Two rows of an order, as the sender wrote them."""
    return [
        ("orders", first, (key, "Muster GmbH", city, weight, "1000,99")),
        ("orders", first + 1, (key, "Muster GmbH", city, "12,5", "")),
    ]


def wrong_weight(file, row, found="zwölf"):
    where = Where(file, "Aufträge", row, "Gewicht", f"D{row}", "packages[0].weight")
    return Problem("C302", where, found, {"locale": "de_DE"}, "write it like 1.234,5")


def plan(ledger, run, file, items, *, sheet="Aufträge", operation="order.create", mapping="acme"):
    """Plan documents of one file with the lineage above."""
    drop = drop_of(("orders", file, sheet), operation=operation, mapping=mapping, header=HEADER)
    read = sum(1 if not hasattr(item, "rows") else len(item.rows) for item in items)
    return ledger.plan(run, drop, LINEAGE, [*items, ReadTotals({"orders": read})])[0]


ANSWERS = {"A-00002": refused, "A-00003": unknown}


@contextmanager
def every_outcome(folder, *, more=(), cities=None):
    """A run with documents matched, refused, unknown, different, missing, invalid and held, a row ignored and a file set aside.
    `more` are further documents, `cities` the cities that orders deliver to.
    """
    cities = cities or {}
    with ledger_in(Path(folder)) as ledger:
        run = ledger.begin_run()
        file = "acme_2026-03-04.xlsx"
        items = [
            document(
                "order.create",
                order(number, delivery_city=cities.get(number, "Dresden")),
                rows(2 * number, f"A-{number:05}", cities.get(number, "Dresden")),
            )
            for number in range(1, 7)
        ]
        items.append(document("order.create", None, rows(20, "A-00020", weight="zwölf"), wrong_weight(file, 20)))
        items.append(left_out(30, ("", "Summe", "", "", "99")))
        plan(ledger, run, file, [*items, *more])
        status = {"order_id": "A-00099", "status_code": "DEP"}
        lines = [document("order.status", status, [("orders", 2, ("A-00099", "", "", "", ""))])]
        plan(ledger, run, "lines.csv", lines, sheet="", operation="order.status", mapping="lines")
        why = Problem("R201", Where("broken.xlsx"), values={"reason": "it is not a workbook"})
        ledger.set_aside(run, unreadable("broken.xlsx", why))
        send(ledger, run, lambda one: ANSWERS[one.key](one) if one.key in ANSWERS else None)
        listed = [order(number, delivery_city=cities.get(number, "Dresden")) for number in (1, 6)]
        listed.append(order(4, delivery_city="Köln", total_weight=1))
        yield EndedRun(ledger, run, {"order": listing(listed)})
