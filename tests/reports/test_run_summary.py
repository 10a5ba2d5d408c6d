"""A run in numbers (`run.json`) and in sentences (the terminal): exact, complete, and with what to do."""

import json
import shutil
import sqlite3
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import openpyxl
import pytest
from command_in_process import loadsheet
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
    unreadable,
    weight_problem,
)
from orders import MAPPINGS, order_id, write_orders
from reported_runs import ReportedRuns, create

from loadsheet.ledger import SourceTable
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import settle
from loadsheet.reports import write
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
from loadsheet.settings import Settings


def written(ledger, run, listings, folder, **more):
    chosen = Settings(outbox=Path(folder), **more)
    return write(ledger.queries, settle(ledger.queries, listings, run, chosen), run, chosen)


def table_of(sheet, name):
    head, *lines = [[cell.value for cell in line] for line in sheet[sheet.tables[name].ref]]
    return [dict(zip(head, line, strict=True)) for line in lines if line[0] != "none"]


def small(ledger, run, statement=""):
    items = [
        document("order.create", order(1), [("orders", 2, ("a",)), ("orders", 3, ("b",))]),
        document("order.create", order(2), [("orders", 4, ("c",))], weight_problem("in.csv", 4)),
        document(
            "order.create", order(3), [("orders", 5, ("c",))], weight_problem("in.csv", 5), weight_problem("in.csv", 5)
        ),
        document("order.status", {"order_id": "A-00001"}, [("orders", 6, ("d",))]),
        left_out(7),
    ]
    plan(ledger, run, drop_of(("orders", "in.csv")), items)
    send(ledger, run, lambda one: refused(one, "no such order") if one.operation == "order.status" else None)
    if statement:
        with sqlite3.connect(ledger.queries._engine.url.database) as connection:
            connection.execute(statement)
        connection.close()


def test_a_report_that_does_not_balance_says_so_everywhere(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        small(ledger, run, "delete from ignored")
        report = written(ledger, run, {"order": listing([order(1)])}, tmp_path / "out")
        fault = "in.csv: 6 rows read, 5 accounted for"
        told = json.loads((report.folder / "run.json").read_bytes())
        assert told["balance"]["balances"] is False
        assert told["balance"]["faults"] == [fault]
        book = openpyxl.load_workbook(report.folder / "reconciliation.xlsx", data_only=True)
        sheet = book["Summary"]
        assert sheet["A2"].value == f"The rows do not balance: {fault}"
        assert sheet["A4"].value.startswith(f"The rows do not balance: {fault} (6 read")
        assert told["headline"]["tone"] == "bad"
        assert [line["Says"] for line in table_of(book["Control totals"], "tblBalance")] == ["DOES NOT BALANCE"]
        assert report.lines()[0].startswith(
            f"✗ The rows do not balance: {fault} · 3 of 4 documents need attention · 1 accepted"
        )
        assert "✗ 5 of 6 rows accounted for" in "\n".join(report.lines())


def test_run_json_is_one_versioned_document(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        small(ledger, run)
        ended = replace(run, finished_at="2026-03-04T02:16:00.000Z", exit_code=1)
        report = written(ledger, ended, {"order": listing([order(1)])}, tmp_path / "out", exchange="https://e.example")
    told = json.loads((report.folder / "run.json").read_bytes(), parse_float=str)
    assert told["schema"] == "loadsheet.run/1"
    assert (told["run"], told["started_at"], told["finished_at"], told["exit_code"]) == (
        "2026-03-04-01",
        run.started_at,
        "2026-03-04T02:16:00.000Z",
        1,
    )
    assert told["entries"] == {"invalid": 2, "accepted": 1, "refused": 1}
    assert told["verdicts"] == {"matched": 1, "not sent: invalid": 2, "refused": 1}
    assert told["needs_someone"] == {"entries": 3, "rows": 3, "first": "A-00002"}
    assert told["legs"] == [
        {
            "subject": "order",
            "read": True,
            "listed": 1,
            "total": 1,
            "complete": True,
            "says": "1 of 1 orders listed (complete)",
            "reason": "",
            "todo": "",
        }
    ]
    weight = next(total for total in told["totals"] if total["figure"] == "weight")
    assert [weight[name] for name in ("unit", "source", "not_sent", "sent", "acknowledged", "listed")] == [
        "KG",
        "1243.5",
        830,
        "413.5",
        "413.5",
        "413.5",
    ]
    assert [(fold["code"], fold["count"], fold["places"]) for fold in told["problems"]] == [
        ("C302", 3, ["in.csv:4 Gewicht", "in.csv:5 Gewicht"]),
        ("X701", 1, []),
    ]
    (drop,) = told["drops"]
    assert (drop["mapping"], drop["mapping_version"], drop["operation"]) == ("acme", "3", "order.create")
    assert drop["files"][0]["results"] == ["in.csv.results.csv"]
    assert drop["fix"] == ["in.fix.xlsx"]
    assert told["reports"] == [
        "run.html",
        "reconciliation.xlsx",
        "in.csv.results.csv",
        "in.fix.xlsx",
        "ack/in.csv.ack.json",
        "ack/in.csv.ack.csv",
        "run.json",
    ]
    assert told["settings"]["exchange"] == "https://e.example"


def test_the_terminal_reads_what_happened_and_what_to_do(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        small(ledger, run)
        ledger.set_aside(run, unreadable("x.jpg", Problem("R202", Where("x.jpg"))))
        report = written(ledger, run, {"order": listing([order(1)])}, tmp_path / "out")
    folder = tmp_path / "out" / "2026-03-04-01"
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


def lines(tmp_path, *documents, file="in.csv", sent=True, listed=(), **settings):
    """What the terminal reads of a run of one file; each of its documents has a row."""
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        made = [
            document("order.create", one, [("orders", row, ("a",))], *wrong)
            for row, (one, *wrong) in enumerate(documents, 2)
        ]
        plan(ledger, run, drop_of(("orders", file)), made)
        if sent:
            send(ledger, run)
        return written(ledger, run, {"order": listing(list(listed))}, tmp_path / "out", **settings).lines()


def test_a_clean_run_is_short_and_one_is_not_many(tmp_path):
    told = lines(tmp_path, (order(1),), (order(2),), listed=[order(1), order(2)])
    assert told[0].startswith("✓ All 2 documents were accepted     (run ")
    assert told[1].startswith("✓ 2 of 2 rows accounted for    ✓ ")
    assert told[2:] == ["", f"→ Reports:   {tmp_path / 'out' / '2026-03-04-01'}/run.html"]
    (tmp_path / "one").mkdir()
    told = lines(tmp_path / "one", (order(1),), listed=[order(1)])
    assert told[0].startswith("✓ The document was accepted ")
    assert told[1].startswith("✓ 1 of 1 row accounted for ")


def test_one_row_of_a_file_needs_attention(tmp_path):
    wrong = (order(1), weight_problem("in.csv", 2))
    assert "  in.csv  1 of 2 rows needs attention" in lines(tmp_path, wrong, (order(2),))


def test_what_waits_is_sent_by_the_next_run(tmp_path):
    told = lines(tmp_path, (order(1),), sent=False)
    assert told[0].startswith("✗ 1 document waits to be sent · 0 accepted ")
    assert told[-2] == "→ Send them: loadsheet run"
    (tmp_path / "other").mkdir()
    told = lines(tmp_path / "other", (order(1),), sent=False, state=tmp_path, mappings=Path("my maps"))
    assert told[-2] == f"→ Send them: loadsheet run --state {tmp_path} --mappings 'my maps'"


def test_the_next_command_names_the_key_without_control_characters_and_the_ledger_in_an_unusual_place(tmp_path):
    wrong = (order(1, order_id="A 1\x1b[2J"), weight_problem("in.csv", 2))
    told = lines(tmp_path, wrong, file="in\x1b]0;x\x07.csv", state=tmp_path)
    assert told[-2] == f"→ Look into: loadsheet show 'A 1?[2J' --state {tmp_path}"
    assert all(line.isprintable() for line in told)


def test_what_only_the_listing_shows_to_be_wrong_is_said_with_its_first_key_and_what_to_do(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        items = [document("order.create", order(number), [("orders", number, ("a",))]) for number in (1, 2, 3, 4)]
        plan(ledger, run, drop_of(("orders", "in.csv")), items)
        send(ledger, run)
        there = listing([order(1, delivery_city="Elsewhere"), order(4)])
        report = written(ledger, run, {"order": there}, tmp_path / "out")
        told = json.loads((report.folder / "run.json").read_bytes())
    assert told["firsts"] == {"value difference": "A-00001", "missing at exchange": "A-00002"}
    missing, different = report.lines()[-5:-3]
    assert missing.startswith("      2x missing at exchange, first A-00002: ask the exchange who removed it")
    assert different.startswith("      1x value difference, first A-00001: see the sheet Differences")


TABLES = {name: SourceTable(name, "o.xlsx", sheet, (), 1) for name, sheet in (("a", "A"), ("b", "B"), ("c", "A"))}


def shortened(*numbers):
    return rows_by_place([SourceRow("a", number, ()) for number in numbers], TABLES)["o.xlsx A"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((3,), "3"),
        ((7, 5, 6), "5-7"),
        ((3, 5, 6, 7), "3, 5-7"),
        ((3, 3), "3"),
        ((1, 1, 3), "1, 3"),
        ((1, 2, 2), "1-2"),
        ((1, 10**12), "1, 1000000000000"),  # what lies between is not gone through
    ],
)
def test_runs_of_rows_are_shortened(numbers, text):
    assert shortened(*numbers) == text


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_what_is_told_is_every_row_and_no_other(numbers):
    runs = [[int(end) for end in run.split("-")] for run in shortened(*numbers).split(", ")]
    assert [number for run in runs for number in range(run[0], run[-1] + 1)] == sorted(set(numbers))


def test_tables_of_one_sheet_are_told_together():
    rows = [SourceRow(table, number, ()) for table, number in (("c", 9), ("b", 2), ("a", 8))]
    assert rows_by_place(rows, TABLES) == {"o.xlsx A": "8-9", "o.xlsx B": "2"}


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
    for first, (unit, written) in enumerate(HUGE.items()):
        for number, weight in enumerate((Decimal(written), Decimal(1), Decimal(written)), 3 * first):
            items.append(create(number, total_weight=weight, gross_weight_uom=unit))
            seen = Decimal(7) if number % 3 == 2 else weight
            listed.append(order(number, total_weight=seen, gross_weight_uom=unit))
    with ledger_in(tmp_path, clock) as ledger:
        report = ReportedRuns(tmp_path, ledger, clock).report(items, listed=listed)
    told = json.loads((report.folder / "run.json").read_text(encoding="utf-8"), parse_float=Decimal, parse_int=Decimal)
    assert told["missing"] == []
    weights = {total["unit"]: total["source"] for total in told["totals"] if total["figure"] == "weight"}
    assert {unit: Fraction(source) for unit, source in weights.items()} == {
        unit: 2 * Fraction(Decimal(written)) + 1 for unit, written in HUGE.items()
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
        words = ("run", "--settle", "0", "--exchange", served.exchange.url)
        assert loadsheet(tmp_path, *words).returncode == 0
        tons = {"order_id": order_id(2), "sender_id": "BENCH", "receiver_id": "CARRIER1", "gross_weight_uom": "Ton"}
        assert served.meets("order.update", tons).status == 200
        (tmp_path / "inbox" / "changes.csv").write_text(f"Order,Weight\n{order_id(2)},500\n", encoding="utf-8")
        done = loadsheet(tmp_path, *words)
    assert done.returncode == 1, done.stdout
    assert done.stdout.startswith("✗ 2 control totals differ · 1 accepted")


def summary_of(**more):
    """The summary of a run of three accepted orders, but for what is given."""
    balance = BalanceSummary(balances=True, read=3, rows={"accepted": 3}, faults=())
    given = {
        "run": "2026-03-04-01",
        "started_at": "2026-03-04T02:00:00.000Z",
        "finished_at": "",
        "exit_code": 0,
        "balance": balance,
    }
    given |= {
        "entries": {"accepted": 3},
        "verdicts": {"matched": 3},
        "groups": {},
        "only_at_exchange": 0,
        "needs_someone": NeedsSomeone(0, 0, ""),
    }
    given |= dict.fromkeys(("legs", "totals", "problems", "drops", "reports", "deviations"), ()) | {
        "settings": {},
        "versions": {},
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
        ({"entries": {"unchanged": 3}}, "good", "Nothing new: the exchange already has all 3 documents"),
        (
            {"entries": {"accepted": 1, "unchanged": 2}},
            *("good", "All 3 documents are at the exchange · 1 accepted · 2 unchanged"),
        ),
        ({"entries": {}, "verdicts": {}}, "plain", "3 rows read, no document to send"),
        ({"open_earlier": 1}, "note", "All 3 documents were accepted · 1 exception of earlier runs is still open"),
        (
            {"open_earlier": 5, "open_keys": ("A-1", "A-2", "A-3")},
            "note",
            "All 3 documents were accepted · 5 exceptions of earlier runs are still open: A-1, A-2, A-3 and 2 more (index.html)",
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
