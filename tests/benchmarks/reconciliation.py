"""The reconciliation beside plain tools, by hand: `python tests/benchmarks/reconciliation.py [ORDERS]`.

Workbook: a whole reconciliation workbook beside bare XlsxWriter in constant memory that writes the cells of its sheet Matched.
Compare: the verdict on every order beside pandas, which merges the same records by key and compares all columns. Memory: the peak of
a process that does only that, of settling and writing together (`--memory`).
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import pandas as pd
import xlsxwriter

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from ledgers import document, drop_of, ledger_in, listing, order, plan, send

from loadsheet.ledger import Ledger, Run
from loadsheet.reconcile import Reconciliation, settle
from loadsheet.reports import write
from loadsheet.reports.reconciliation import ReconciliationWorkbook
from loadsheet.reports.sheets import open_book
from loadsheet.settings import Settings

SETTINGS = Settings()


def filled(ledger: Ledger, orders: int) -> Run:
    """A run with so many accepted orders."""
    run = ledger.begin_run()
    items = (
        document(
            "order.create",
            order(number),
            [("orders", number + 1, (f"A-{number:05}", "Empfänger", "01067", "412,5", "1"))],
        )
        for number in range(1, orders + 1)
    )
    for some in range(0, orders, 20_000):
        plan(
            ledger,
            run,
            drop_of(("orders", f"in{some}.csv"), mapping=f"in{some}"),
            [next(items) for _ in range(min(20_000, orders - some))],
        )
        send(ledger, run)
    return run


def held(orders: int) -> list[dict[str, object]]:
    """What the exchange shows: one in a hundred otherwise."""
    return [
        order(number, **({"delivery_city": "Köln"} if number % 100 == 0 else {})) for number in range(1, orders + 1)
    ]


def timed(what: str, work: Callable[[], object]) -> float:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    taken = time.process_time() - cpu
    print(f"{what:<44} {time.perf_counter() - began:8.2f} s  {taken:8.2f} s CPU")
    return taken


def workbook_alone(folder: Path, ledger: Ledger, run: Run, found: Reconciliation) -> None:
    """The workbook, from entries as the ledger gives them; the ledger's part is timed as well."""
    summary = write(ledger.queries, found, run, Settings(outbox=folder / "warm")).summary
    drops = [(drop, list(ledger.queries.entries_of(drop.id))) for drop in ledger.queries.drops_of(run)]

    def ours() -> None:
        with open_book(folder / "ours.xlsx", title="t", footer="f") as book:
            workbook = ReconciliationWorkbook(book, folder, ledger.queries, found)
            for drop, entries in drops:
                workbook.open(drop)
                for entry in entries:
                    workbook.add(entry, found.matches[entry.id])
            workbook.finish(summary, run, SETTINGS)

    def bare() -> None:
        book = xlsxwriter.Workbook(
            folder / "bare.xlsx", {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        )
        text, moment = book.add_format({"num_format": "@"}), book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        sheet, row = book.add_worksheet("Matched"), 0
        for drop, entries in drops:
            for entry in entries:
                row += 1
                match = found.matches[entry.id]
                cells = (entry.key, entry.operation, str(match.verdict), entry.receipt)
                for column, value in enumerate(cells):
                    sheet.write_string(row, column, value, text)
                sheet.write_datetime(row, 4, datetime.fromisoformat(entry.changed_at).replace(tzinfo=None), moment)
                sheet.write_string(row, 5, drop.name, text)
                sheet.write_string(row, 6, str(entry.rows[0].number), text)
        book.close()

    ratio = timed("workbook, ours (all sheets)", ours) / timed("bare XlsxWriter (sheet Matched only)", bare)
    print(f"{'ours / bare':<44} {ratio:8.2f}")


def compared(ledger: Ledger, run: Run, records: list[dict[str, object]]) -> None:
    """The compare step beside pandas, both from the ledger's payloads and the decoded listing."""
    shown = listing(records)
    decode = msgspec.json.Decoder(dict).decode

    def merged() -> None:
        sent = [
            decode(entry.payload)
            for drop in ledger.queries.drops_of(run)
            for entry in ledger.queries.entries_of(drop.id)
        ]
        both = pd.DataFrame(sent).merge(
            pd.DataFrame(shown.results), on="order_id", how="outer", suffixes=("", "_held"), indicator=True
        )
        for name in sent[0]:
            if name != "order_id":
                (both[name] != both[f"{name}_held"]).sum()

    ours = timed("settle, ours", lambda: settle(ledger.queries, {"order": shown}, run, SETTINGS))
    theirs = timed("pandas: merge and compare all columns", merged)
    print(f"{'ours / pandas':<44} {ours / theirs:8.2f}")


def main() -> None:
    """Run all."""
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    orders = int(numbers[0]) if numbers else 100_000
    with tempfile.TemporaryDirectory() as place, ledger_in(Path(place)) as ledger:
        folder = Path(place)
        timed(f"fill a ledger with {orders:,} orders", lambda: filled(ledger, orders))
        (run,) = ledger.queries.runs(1)
        if "--memory" in sys.argv:
            filling = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            found = settle(ledger.queries, {}, run, SETTINGS)
            write(ledger.queries, found, run, Settings(outbox=folder / "outbox"))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"peak memory: {filling:,.0f} MB after filling, {peak:,.0f} MB after settling and writing")
            return
        records = held(orders)
        compared(ledger, run, records)
        found = settle(ledger.queries, {"order": listing(records)}, run, SETTINGS)
        workbook_alone(folder, ledger, run, found)


if __name__ == "__main__":
    main()
