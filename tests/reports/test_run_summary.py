"""A run in numbers (`run.json`) and in sentences (the terminal): exact, complete, and with what to do."""

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import jsonschema
import openpyxl
import pytest
from command_in_process import loadsheet
from exchange_calls import OverSocket
from faulty_exchange import misbehaving
from hypothesis import given
from hypothesis import strategies as st
from ledgers import (
    Ticking,
    document,
    drop_of,
    ledger_in,
    left_out,
    listing,
    order,
    plan,
    refused,
    send,
    unknown,
    unreadable,
    weight_problem,
)
from orders import MAPPINGS, order_id, write_orders
from reported_runs import ReportedRuns, create, run_begun, written

from loadsheet.cli.output import progress
from loadsheet.ledger import Settlement, SourceTable, State
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import reconcile_run
from loadsheet.reports import schema, write
from loadsheet.reports.headline import RunPlaces, terminal_lines, with_headline
from loadsheet.reports.run_document import (
    BalanceSummary,
    FailedStep,
    InboxSummary,
    MissingReport,
    NeedsSomeone,
    ProblemSummary,
    RunSummary,
)
from loadsheet.reports.run_summary import rows_by_place


def table_of(sheet, name):
    head, *lines = [[cell.value for cell in line] for line in sheet[sheet.tables[name].ref]]
    return [dict(zip(head, line, strict=True)) for line in lines if line[0] != "none"]


@pytest.fixture
def small(tmp_path):
    """A run with an accepted, two invalid and a refused document and an ignored row; its settings."""
    wrong = weight_problem("in.csv", 5)
    items = [
        document("order.create", order(1), [("orders", 2, ("a",)), ("orders", 3, ("b",))]),
        document("order.create", order(2), [("orders", 4, ("c",))], weight_problem("in.csv", 4)),
        document("order.create", order(3), [("orders", 5, ("c",))], wrong, wrong),
        document("order.status", {"order_id": "A-00001"}, [("orders", 6, ("d",))]),
        left_out(7),
    ]
    with run_begun(tmp_path, exchange="https://e.example") as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), items)
        send(ledger, run, lambda one: refused(one, "no such order") if one.operation == "order.status" else None)
        yield ledger, run, settings


LISTED = {"order": listing([order(1)])}


def test_a_report_that_does_not_balance_says_so_everywhere(tmp_path, small):
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute("delete from ignored")
    report = written(*small, LISTED)
    fault = "in.csv: 6 rows read, 5 accounted for"
    summary = json.loads((report.folder / "run.json").read_bytes())
    assert (summary["balance"]["balances"], summary["balance"]["faults"]) == (False, [fault])
    assert summary["headline"]["tone"] == "bad"
    book = openpyxl.load_workbook(report.folder / "reconciliation.xlsx", data_only=True)
    assert book["Summary"]["A2"].value == f"The rows do not balance: {fault}"
    assert book["Summary"]["A4"].value.startswith(f"The rows do not balance: {fault} (6 read")
    assert [line["Says"] for line in table_of(book["Control totals"], "tblBalance")] == ["DOES NOT BALANCE"]
    headline = f"✗ The rows do not balance: {fault} · 3 of 4 documents need attention · 1 accepted"
    assert report.lines()[0].startswith(headline)
    assert "✗ 5 of 6 rows accounted for" in "\n".join(report.lines())


def test_a_day_counts_each_record_once_and_documents_without_a_key_of_their_own_one_by_one(tmp_path):
    key = {"tender_id": "T-0001", "carrier_id": "C1"}
    unbuilt = document("order.create", {}, [("orders", 2, ("x",))], weight_problem("in.csv", 2))
    items = [
        *(replace(unbuilt, key=name) for name in ("B-1", "B-2")),  # the key of their group, not of a payload
        replace(unbuilt, key=""),
        replace(unbuilt, key=""),
        *(document("tender.quote", {**key, "total": n}, [("orders", 6, (str(n),))]) for n in range(2)),
        *(document("order.status", {"order_id": "A-00001", "n": n}, [("orders", 8, (str(n),))]) for n in range(2)),
    ]
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), items)
        send(ledger, run)
        report = written(ledger, replace(run, name=run.name[:10]), settings)
    counts = {name: sum(verdicts.values()) for name, verdicts in report.summary.records.items()}
    assert counts == {"order.create": 4, "tender.quote": 1, "order.status": 2}


def test_what_an_earlier_run_sends_while_a_run_is_reported_is_not_taken_off_what_the_run_sent(tmp_path):
    with run_begun(tmp_path) as (ledger, first, settings):
        plan(ledger, first, drop_of(("orders", "in.csv")), [create(1), create(2)])
        send(ledger, first, unknown)
        second = ledger.begin_run()
        (drop,) = ledger.queries.drops_of(first)
        one, other = [entry.id for entry in ledger.queries.entries_of(drop.id)]
        ledger.settle(second, [Settlement(one, State.REFUSED, "it is not listed")])
        found = reconcile_run(ledger.queries, {}, second, settings)
        ledger.settle(first, [Settlement(other, State.ACCEPTED, "it is listed")])
        report = write(ledger.queries, found, second, settings)
    assert (report.summary.entries, report.summary.accepted_before) == ({"refused": 1, "unknown": 1}, 0)
    assert report.summary.headline.details[0] == "0 accepted"


def test_run_json_is_one_versioned_document(small):
    ledger, run, settings = small
    ended = replace(run, finished_at="2026-03-04T02:16:00.000Z", exit_code=1)
    report = written(ledger, ended, settings, LISTED)
    summary = json.loads((report.folder / "run.json").read_bytes(), parse_float=str)
    times = {"started_at": run.started_at, "finished_at": "2026-03-04T02:16:00.000Z"}
    reports = ["run.html", "reconciliation.xlsx", "in.csv.results.csv", "in.fix.xlsx"]
    expected = {
        **times,
        "schema": "loadsheet.run/1",
        "run": "2026-03-04-01",
        "exit_code": 1,
        "entries": {"invalid": 2, "accepted": 1, "refused": 1},
        "verdicts": {"matched": 1, "not sent: invalid": 2, "refused": 1},
        "needs_someone": {"entries": 3, "rows": 3, "first": "A-00002"},
        "reports": [*reports, "ack/in.csv.ack.json", "ack/in.csv.ack.csv", "run.json"],
    }
    assert {name: summary[name] for name in expected} == expected
    whole = {"subject": "order", "read": True, "listed": 1, "total": 1, "complete": True, "reason": "", "todo": ""}
    assert summary["legs"] == [{**whole, "says": "1 of 1 orders listed (complete)"}]
    weight = next(total for total in summary["totals"] if total["figure"] == "weight")
    figures = {"source": "1243.5", "not_sent": 830, "sent": "413.5", "acknowledged": "413.5", "listed": "413.5"}
    assert {name: weight[name] for name in ("unit", *figures)} == {"unit": "KG", **figures}
    assert [(fold["code"], fold["count"], fold["places"]) for fold in summary["problems"]] == [
        ("C302", 3, ["in.csv:4 Gewicht", "in.csv:5 Gewicht"]),
        ("X701", 1, []),
    ]
    (drop,) = summary["drops"]
    assert (drop["mapping"], drop["mapping_version"], drop["operation"]) == ("acme", "3", "order.create")
    assert (drop["files"][0]["results"], drop["fix"]) == (["in.csv.results.csv"], ["in.fix.xlsx"])
    assert summary["settings"]["exchange"] == "https://e.example"


def test_the_terminal_reads_what_happened_and_what_to_do(small):
    ledger, run, settings = small
    ledger.set_aside(run, unreadable("x.jpg", Problem("R202", Where("x.jpg"))))
    report = written(ledger, run, settings, LISTED)
    folder = settings.outbox / "2026-03-04-01"
    assert report.lines() == [
        "✗ 3 of 4 documents need attention · 1 file could not be read · 1 accepted     (run 2026-03-04-01)",
        "  2 to be corrected by the sender   1 refused by the exchange",
        "✓ 6 of 6 rows accounted for    ✓ 6 of 6 control totals agree",
        "",
        "  x.jpg   not read: the file holds no rows (R202)",
        "  in.csv  3 of 6 rows need attention",
        "",
        '      3x not a number (C302)   e.g. in.csv:4 Gewicht "zwölf"',
        "      1x file is empty (R202)   e.g. x.jpg",
        "      1x refused by the exchange (X701)",
        "",
        f"→ Send back: 2 fix files in {folder}/",
        "→ Look into: loadsheet show A-00002",
        f"→ Reports:   {folder}/run.html",
    ]
    assert "  in.csv  6 rows: 2 accepted, 1 refused, 2 invalid, 1 ignored" in report.lines(verbose=True)


def test_an_example_that_is_cut_says_so(tmp_path):
    def shown(found):
        return lines(tmp_path / found, (order(1), weight_problem("in.csv", 2, found=found)), sent=False)

    assert '      1x not a number (C302)   e.g. in.csv:2 Gewicht "' + "z" * 30 + '"' in shown("z" * 30)
    assert '      1x not a number (C302)   e.g. in.csv:2 Gewicht "' + "z" * 29 + '…"' in shown("z" * 31)


def test_what_the_exchange_said_is_readable_as_a_whole(tmp_path):
    said = 'an answer that the interface does not describe: status 500, "boom"'
    unknown = replace(weight_problem("in.csv", 2, found=said), code="X702", values={"text": said})
    found = lines(tmp_path, (order(1), unknown), sent=False)
    assert f'      1x outcome unknown (X702)   e.g. in.csv:2 Gewicht "{said}"' in found


def lines(folder, *documents, file="in.csv", sent=True, listed=(), **settings):
    """What the terminal reads of a run of one file; each of its documents has a row."""
    with run_begun(folder, **settings) as (ledger, run, chosen):
        made = [
            document("order.create", one, [("orders", row, ("a",))], *wrong)
            for row, (one, *wrong) in enumerate(documents, 2)
        ]
        plan(ledger, run, drop_of(("orders", file)), made)
        if sent:
            send(ledger, run)
        return written(ledger, run, chosen, {"order": listing(list(listed))}).lines()


def test_a_clean_run_is_short_and_counts_are_worded_for_one_and_for_many(tmp_path):
    first, second, *rest = lines(tmp_path / "two", (order(1),), (order(2),), listed=[order(1), order(2)])
    assert first.startswith("✓ All 2 documents were accepted     (run ")
    assert second.startswith("✓ 2 of 2 rows accounted for    ✓ ")
    assert rest == ["", f"→ Reports:   {tmp_path / 'two' / 'outbox' / '2026-03-04-01'}/run.html"]
    first, second, *_ = lines(tmp_path / "one", (order(1),), listed=[order(1)])
    assert first.startswith("✓ The document was accepted ")
    assert second.startswith("✓ 1 of 1 row accounted for ")
    wrong = lines(tmp_path / "wrong", (order(1), weight_problem("in.csv", 2)), (order(2),))
    assert "  in.csv  1 of 2 rows needs attention" in wrong


def test_documents_that_wait_are_sent_by_the_next_run(tmp_path):
    first, *_, command, _ = lines(tmp_path / "one", (order(1),), sent=False)
    assert first.startswith("! 0 of 1 document accepted · 1 document waits to be sent ")
    assert command == "→ Send them: loadsheet run"
    *_, command, _ = lines(tmp_path / "other", (order(1),), sent=False, state=tmp_path, mappings=Path("my maps"))
    assert command == f"→ Send them: loadsheet run --state {tmp_path} --mappings 'my maps'"


def test_the_next_command_names_the_key_without_control_characters_and_the_ledger_in_an_unusual_place(tmp_path):
    wrong = (order(1, order_id="A 1\x1b[2J"), weight_problem("in.csv", 2))
    shown = lines(tmp_path, wrong, file="in\x1b]0;x\x07.csv", state=tmp_path)
    assert shown[-2] == f"→ Look into: loadsheet show --state {tmp_path} 'A 1?[2J'"
    assert all(line.isprintable() for line in shown)


def test_what_only_the_listing_shows_to_be_wrong_is_said_with_its_first_key_and_what_to_do(tmp_path):
    found = lines(
        tmp_path, *((order(n),) for n in (1, 2, 3, 4)), listed=[order(1, delivery_city="Elsewhere"), order(4)]
    )
    summary = json.loads((tmp_path / "outbox" / "2026-03-04-01" / "run.json").read_bytes())
    assert summary["firsts"] == {"value difference": "A-00001", "missing at exchange": "A-00002"}
    missing, different = found[-5:-3]
    assert missing.startswith("      2x missing at exchange, first A-00002: ask the exchange who removed it")
    assert different.startswith("      1x value difference, first A-00001: see the sheet Differences")


TABLES = {name: SourceTable(name, "o.xlsx", sheet, (), 1) for name, sheet in (("a", "A"), ("b", "B"), ("c", "A"))}


def shortened(*numbers):
    return rows_by_place([SourceRow("a", number, ()) for number in numbers], TABLES)["o.xlsx A"]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_rows_are_named_by_their_runs_every_row_and_no_other(numbers):
    runs = [[int(end) for end in run.split("-")] for run in shortened(*numbers).split(", ")]
    assert [number for run in runs for number in range(run[0], run[-1] + 1)] == sorted(set(numbers))
    assert all(before[-1] + 1 < after[0] for before, after in pairwise(runs))


def test_rows_of_tables_of_one_sheet_are_named_together():
    rows = [SourceRow(table, number, ()) for table, number in (("c", 9), ("b", 2), ("a", 8))]
    assert rows_by_place(rows, TABLES) == {"o.xlsx A": "8-9", "o.xlsx B": "2"}
    assert shortened(7, 5, 6, 3) == "3, 5-7"
    assert shortened(1, 10**12) == "1, 1000000000000"  # without a step for each row between


HUGE = {  # by the unit in which it is weighed
    "KG": "1E+30",
    "Ton": "9" * 60,
    "LB": "1E+300",
    "G": "0." + "0" * 60 + "1",
    "OZ": "1E-300",
    "CWT": "123456789012345678901234567890.5",
}


def test_totals_of_huge_numbers_are_exact(tmp_path):
    items, listed, clock = [], [], Ticking()
    for first, (unit, huge) in enumerate(HUGE.items()):
        for number, weight in enumerate((Decimal(huge), Decimal(1), Decimal(huge)), 3 * first):
            items.append(create(number, total_weight=weight, gross_weight_uom=unit))
            seen = Decimal(7) if number % 3 == 2 else weight
            listed.append(order(number, total_weight=seen, gross_weight_uom=unit))
    with ledger_in(tmp_path, clock) as ledger:
        report = ReportedRuns(tmp_path, ledger, clock).report(items, listed=listed)
    summary = json.loads((report.folder / "run.json").read_bytes(), parse_float=Decimal, parse_int=Decimal)
    assert summary["missing"] == []
    weights = {total["unit"]: total["source"] for total in summary["totals"] if total["figure"] == "weight"}
    assert {unit: Fraction(source) for unit, source in weights.items()} == {
        unit: 2 * Fraction(Decimal(huge)) + 1 for unit, huge in HUGE.items()
    }


CHANGES = """
mapping: changes
version: 1
target: order.update
source: {files: ["changes.csv"], delimiter: [","], locale: en_US}
columns:
  order: {label: Order, type: text, required: true, key: true}
  weight: {label: Weight, type: decimal, required: true}
payload:
  order_id: {col: order}
  sender_id: {value: BENCH}
  receiver_id: {value: CARRIER1}
  total_weight: {col: weight}
"""


def test_weights_listed_in_another_unit_need_someone_although_each_field_sent_agrees(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "mappings" / "changes.yaml").write_text(CHANGES, encoding="utf-8")
    write_orders(tmp_path / "inbox", 3, first=1)
    with misbehaving(tmp_path) as served:
        words = ("run", "--settle", "0", "--exchange", served.url)
        assert loadsheet(tmp_path, *words).returncode == 0
        tons = {"order_id": order_id(2), "sender_id": "BENCH", "receiver_id": "CARRIER1", "gross_weight_uom": "Ton"}
        assert OverSocket(served.url).call("order.update", tons).status == 200
        (tmp_path / "inbox" / "changes.csv").write_text(f"Order,Weight\n{order_id(2)},500\n", encoding="utf-8")
        done = loadsheet(tmp_path, *words)
    assert done.returncode == 1, done.stdout
    assert done.stdout.startswith("✗ 2 control totals differ · 1 accepted")


def summary_of(**more):
    """The summary of a run of three accepted orders, but for what is given."""
    given = {
        "run": "2026-03-04-01",
        "started_at": "2026-03-04T02:00:00.000Z",
        "finished_at": "",
        "exit_code": 0,
        "balance": BalanceSummary(balances=True, read=3, rows={"accepted": 3}, faults=()),
        "entries": {"accepted": 3},
        "verdicts": {"matched": 3},
        "only_at_exchange": 0,
        "needs_someone": NeedsSomeone(0, 0, ""),
        **dict.fromkeys(("legs", "totals", "problems", "drops", "reports", "deviations"), ()),
        **{name: {} for name in ("groups", "settings", "versions")},
    }
    return with_headline(RunSummary(**given | more))


def judged(**more):
    """Tone and text of the headline of such a run."""
    verdict = summary_of(**more).headline
    return verdict.tone, " · ".join((verdict.text, *verdict.details))


@pytest.mark.parametrize(
    ("more", "tone", "text"),
    [
        ({}, "good", "All 3 documents were accepted"),
        ({"entries": {"unchanged": 3}}, "good", "Nothing new: all 3 documents were accepted before"),
        (
            {"entries": {"accepted": 1, "unchanged": 2}},
            *("good", "All 3 documents were accepted, now or before · 1 accepted · 2 unchanged"),
        ),
        (
            {"accepted_before": 1},
            *("good", "All 3 documents were accepted, now or before · 2 accepted · 1 accepted before"),
        ),
        ({"accepted_before": 3}, "good", "Nothing new: all 3 documents were accepted before"),
        ({"entries": {}, "verdicts": {}}, "plain", "3 rows read, no document to send"),
        ({"open_earlier": 1}, "note", "All 3 documents were accepted · 1 exception of earlier runs is still open"),
        (
            {"open_earlier": 5, "open_keys": ("A-1", "A-2", "A-3")},
            "note",
            "All 3 documents were accepted · 5 exceptions of earlier runs are still open: A-1, A-2, A-3 and 2 more (index.html)",
        ),
        (
            {"open_earlier": 1, "needs_someone": NeedsSomeone(1, 1, "A"), "entries": {"accepted": 2, "held": 1}},
            *("note", "1 of 3 documents needs attention · 2 accepted · 1 more exception of earlier runs is still open"),
        ),
        (
            {"verdicts": {"not verifiable": 3}},
            *("note", "All 3 documents were accepted · 3 documents cannot be verified"),
        ),
        (
            {"needs_someone": NeedsSomeone(1, 1, "A"), "entries": {"accepted": 2, "held": 1}},
            *("note", "1 of 3 documents needs attention · 2 accepted"),
        ),
        ({"inbox": InboxSummary(2, 2)}, "note", "2 files are stuck in the inbox · 3 accepted"),
        (
            {
                "stopped": "the exchange cannot be reached",
                "entries": {"ready": 3},
                "verdicts": {"waiting to be sent": 3},
            },
            "bad",
            "The exchange cannot be reached · nothing is lost: 3 documents go with the next run, drop nothing again · 0 accepted",
        ),
        (
            {"stopped": "the exchange cannot be reached", "entries": {"ready": 1}, "ready": 12},
            "bad",
            "The exchange cannot be reached · nothing is lost: 12 documents go with the next run, drop nothing again · 0 accepted",
        ),
        (
            {"stopped": "the exchange cannot be reached", "entries": {}, "ready": 1},
            "bad",
            "The exchange cannot be reached · nothing is lost: 1 document goes with the next run, drop nothing again",
        ),
        (
            {
                "balance": BalanceSummary(
                    balances=False, read=3, rows={"accepted": 2}, faults=("in.csv: 3 rows read, 2 accounted for",)
                )
            },
            *("bad", "The rows do not balance: in.csv: 3 rows read, 2 accounted for · 3 accepted"),
        ),
        (
            {"missing": (MissingReport("workbook", "KeyError"),)},
            *("bad", "An internal error prevented these reports: workbook · 3 accepted"),
        ),
        (
            {"stopped": "orders.csv could not be moved from inbox", "entries": {}},
            *("bad", "orders.csv could not be moved from inbox"),
        ),
        ({"undone": (FailedStep("the capsule", "full"),)}, "bad", "Failed after the run: the capsule · 3 accepted"),
    ],
)
def test_only_a_run_with_nothing_open_is_good_and_the_most_urgent_point_comes_first(more, tone, text):
    assert judged(**more) == (tone, text)


@pytest.mark.parametrize(("kinds", "said"), [(6, "1 more kind of problem"), (7, "2 more kinds of problems")])
def test_the_terminal_counts_the_kinds_of_problems_that_it_leaves_out(kinds, said):
    problems = tuple(ProblemSummary(f"C30{number}", "Not a number", "error", 1, ()) for number in range(kinds))
    assert f"        … {said} (--verbose)" in terminal_lines(
        summary_of(problems=problems), RunPlaces(Path("out"), Path("state"))
    )


def test_a_progress_bar_appears_on_a_terminal_only(capsys, monkeypatch):
    with progress("Sending") as bar:
        assert bar is None
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("Sending") as bar:
        bar.advance(1, 2000)
    out, err = capsys.readouterr()
    assert (out, "Sending" in err, "1/2,000" in err) == ("", True, True)


# ---- the published schema of run.json ----

NAMES_OF_1 = {  # as loadsheet.run/1 was published; a name may be added here, and none ever goes or becomes another
    "RunSummary": "run started_at finished_at exit_code balance entries verdicts groups only_at_exchange needs_someone legs totals"
    " problems drops reports settings deviations versions schema remarks forecast causes inbox firsts",
    "InboxTold": "stuck count files",
    "LeftTold": "file code level say",
    "BalanceTold": "balances read rows faults",
    "NeedsSomeone": "entries rows first",
    "LegTold": "subject read listed total complete says",
    "TotalTold": "subject figure unit scale tolerance source not_sent sent acknowledged listed",
    "ProblemTold": "code title level count places",
    "CauseTold": "code level file sheet column count keys places found say proposal",
    "DropTold": "run mapping mapping_version operation entries files fix",
    "FileTold": "name role sha256 size arrived kept_as set_aside tables results",
    "TableTold": "table sheet rows fates balances found",
    "Deviation": "setting value default",
}
TYPES_OF_1 = {
    ("RunSummary", "schema"): "string",
    ("RunSummary", "entries"): "object",
    ("BalanceTold", "balances"): "boolean",
    ("BalanceTold", "read"): "integer",
    ("TotalTold", "listed"): "number",
    ("FileTold", "set_aside"): "array",
}


def test_names_are_only_ever_added_to_the_schema_and_each_says_what_it_means():
    """So what was written before a name was added still keeps to the schema: a new name of an old part needs a default."""
    published = json.loads(schema())
    jsonschema.Draft202012Validator.check_schema(published)
    assert published["$id"] == "loadsheet.run/1"
    parts = published["$defs"]
    for part, names in NAMES_OF_1.items():
        assert set(parts[part]["required"]) <= set(names.split()) <= set(parts[part]["properties"]), part
    for (part, name), kind in TYPES_OF_1.items():
        assert parts[part]["properties"][name]["type"] == kind
    assert all(part["description"] for part in parts.values())
    fields = [(name, one) for part in parts.values() for name, one in part["properties"].items()]
    assert [name for name, one in fields if not one.get("description")] == []
