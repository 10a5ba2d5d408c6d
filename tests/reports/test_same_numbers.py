"""Whatever a run brings, each record stands in one sheet, each document once on the page, and run.json keeps to its schema."""

import json
import re
import tempfile
from collections import Counter
from pathlib import Path

import jsonschema
import openpyxl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from random_runs import delivered, run_files, views

from loadsheet.reconcile import AGREES, IN_ORDER, MEANINGS, Verdict, reconcile_run
from loadsheet.reports import schema, write
from loadsheet.settings import Settings

SHEETS = {"Matched": 2, "Not verifiable": 2, "Exceptions": 3, "Closed": 4}
"""The sheets that list documents, and the column of their outcome: Matched those that agree, the others one each of the rest."""


def outcomes_in(book, titles):
    """Outcomes of documents by the sheets that list them; an exception shows the last one."""
    found = Counter()
    for title in titles:
        position = SHEETS[title]
        sheet = book[title]
        _, *lines = sheet[sheet.tables[f"tbl{title.title().replace(' ', '')}"].ref]
        found.update(line[position].value for line in lines if line[1].value is not None)
    return found


def shown_outcomes(found):
    """The outcomes of all documents, but of those that are versions of one exception only that of the latest."""
    counts = Counter(found.verdicts)
    for one in found.exceptions.statuses:
        counts.subtract(found.matches.get(entry).verdict for entry in {one.entry, *one.versions} - {one.latest})
    return +counts


def without_agreeing(outcomes):
    return {outcome: count for outcome, count in outcomes.items() if outcome not in AGREES}


def check_page(html, summary):
    """Every document is on the page or counted there, and so is every row."""
    needing = int(re.search(r"<h3>([\d,]+) needs? attention", html)[1]) if "<article" in html else 0
    agreeing = int(re.search(r'<h3 id="others">([\d,]+)', html)[1])
    assert needing == summary["needs_someone"]["entries"]
    assert needing + agreeing == sum(summary["verdicts"].values())
    assert len(re.findall(r'class="document[ "]', html)) == min(5, needing + agreeing)
    read, fates = re.search(r'id="balance">Every row is accounted for: ([\d,]+) read = (.*?)</p>', html).groups()
    assert int(read.replace(",", "")) == summary["balance"]["read"]
    fates = [part.split() for part in fates.split(" + ") if fates != "0"]
    assert {name: int(count.replace(",", "")) for count, name in fates} == summary["balance"]["rows"]
    assert sum(map(int, re.findall(r'<span class="fate">(\d+) ', html))) == summary["balance"]["read"]
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(ids) == len(set(ids))


@pytest.mark.journey
@examples(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(run_files, views)
def test_each_record_stands_in_one_sheet_and_on_the_page_and_run_json_keeps_to_its_schema(files, view):
    with tempfile.TemporaryDirectory() as folder, delivered(files, view) as (ledger, run, listings):
        settings = Settings(outbox=Path(folder), page_documents_max=5)
        found = reconcile_run(ledger.queries, listings, run, settings)
        ledger.record_exceptions(run, found.exceptions.statuses)
        report = write(ledger.queries, found, run, settings)
        summary = json.loads((report.folder / "run.json").read_bytes())
        jsonschema.Draft202012Validator(json.loads(schema())).validate(summary)
        check_page((report.folder / "run.html").read_text(encoding="utf-8"), summary)
        book = openpyxl.load_workbook(report.folder / "reconciliation.xlsx", data_only=True)
        matched, *others = SHEETS
        assert outcomes_in(book, [matched]) == {v: n for v, n in found.verdicts.items() if v in AGREES}
        assert without_agreeing(outcomes_in(book, others)) == without_agreeing(shown_outcomes(found))
        assert found.verdicts == summary["verdicts"]
        assert summary["balance"]["read"] == sum(spec["rows"] for items in files for spec in items)


def test_every_verdict_on_an_entry_has_its_place_in_the_order_of_the_rules():
    assert sorted(IN_ORDER) == sorted(verdict for verdict in Verdict if verdict is not Verdict.ONLY_LISTED)
    readme = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8")
    assert "".join(f"| {verdict} | {MEANINGS[verdict]} |\n" for verdict in IN_ORDER) in readme
