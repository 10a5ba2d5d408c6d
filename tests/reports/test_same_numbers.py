"""Whatever a night brings, ledger, run.json and workbook tell the same numbers, and each document stands in one sheet."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import openpyxl
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from nights import nights, played, views

from loadsheet.reconcile import IN_ORDER, MEANINGS, Verdict, settle
from loadsheet.reports import write
from loadsheet.settings import Settings

SHEETS = {"Matched": 2, "Not verifiable": 2, "Exceptions": 3, "Closed": 4}
"""The sheets of which each document of a run stands in one, and where they tell its outcome."""


def table(sheet, name):
    head, *lines = ([cell.value for cell in line] for line in sheet[sheet.tables[name].ref])
    return head, lines


def documents(book, title):
    _, lines = table(book[title], f"tbl{title.title().replace(' ', '')}")
    return [line for line in lines if line[1] is not None]


def told_by(book):
    """Outcomes of documents by the sheets that list them; an exception is told with what was said of it last."""
    return Counter(line[position] for title, position in SHEETS.items() for line in documents(book, title))


@examples(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nights, views)
def test_ledger_run_json_and_workbook_agree(night, view):
    with tempfile.TemporaryDirectory() as folder, played(night, view) as (ledger, run, listings):
        settings = Settings(outbox=Path(folder))
        found = settle(ledger.history, listings, run, settings)
        ledger.follow(run, found.exceptions.standings)
        report = write(ledger.history, found, run, settings)
        told = json.loads((report.folder / "run.json").read_bytes())
        book = openpyxl.load_workbook(report.folder / "reconciliation.xlsx", data_only=True)
        entries = [entry for drop in ledger.history.drops_of(run) for entry in ledger.history.entries_of(drop.id)]
        assert Counter(entry.state for entry in entries) == told["entries"]
        assert sum(told["verdicts"].values()) == len(entries)
        assert told_by(book) == told["verdicts"]
        _, outcomes = table(book["Summary"], "tblOutcomes")
        assert {line[0]: line[1] for line in outcomes if line[1]} == told["verdicts"]
        head, files = table(book["Control totals"], "tblBalance")
        rows = Counter(
            {head[at].lower(): sum(line[at] for line in files if line[1] is not None) for at in range(1, len(head) - 3)}
        )
        assert rows["rows read"] == told["balance"]["read"] == sum(spec["rows"] for items in night for spec in items)
        fates = Counter(told["balance"]["rows"])
        fates["waiting"] = fates.pop("ready", 0) + fates.pop("sending", 0)
        assert +Counter({name: rows[name] for name in rows if name != "rows read"}) == +fates


def test_every_verdict_on_an_entry_has_its_place_in_the_order_of_the_rules():
    assert sorted(IN_ORDER) == sorted(verdict for verdict in Verdict if verdict is not Verdict.ONLY_LISTED)
    readme = (Path(__file__).parents[2] / "src/loadsheet/reports/README.md").read_text(encoding="utf-8")
    assert "".join(f"| {verdict} | {MEANINGS[verdict]} |\n" for verdict in IN_ORDER) in readme
