"""An internal error in what comes after sending costs a report at most: never the run, never the ledger, never the next run."""

import csv
import json
import shutil
from contextlib import contextmanager

import pytest
from exchange_process import TOKEN
from fault_rules import FaultClass
from faulty_exchange import misbehaving
from orders import MAPPINGS, order_id, write_orders

from loadsheet.cli import invoke
from loadsheet.ledger import Ledger
from loadsheet.problems import LedgerUnwritable
from loadsheet.reports.results import DropResults

EVENTS = """\
mapping: events
version: 1
target: order.status
source:
  files: ["events*.csv"]
  delimiter: [","]
  tables: {rows: {ignore_rows: 'order_id == "total"'}}
columns:
  order_id: {label: Order, type: text, required: true, key: true}
  status: {label: Status, type: text, required: true}
payload: {order_id: {col: order_id}, status_code: {col: status}}
"""
FATES = {"accepted": 2, "refused": 1, "invalid": 2, "held": 1, "unknown": 1, "unchanged": 1}
SENT = "2 accepted, 1 refused"
LOST = {"fault": FaultClass.CLOSED_BEFORE_EFFECT, "operation": "order.create", "key": order_id(2)}
REFUSED = {"fault": FaultClass.STATUS_BEFORE_EFFECT, "operation": "order.create", "key": order_id(4), "status": 400}

IN_ONE_REPORT = {
    "reports.acknowledgement.Acknowledgements.add": "acknowledgements",
    "reports.acknowledgement.Acknowledgements.finish": "acknowledgements",
    "reports.fix_workbook.Fixes.add": "fix files",
    "reports.fix_workbook.Fixes.finish": "fix files",
    "reports.reconciliation.ReconciliationWorkbook.add": "workbook",
    "reports.reconciliation.ReconciliationWorkbook.finish": "workbook",
    "reports.run_page.RunPage.add": "page",
    "reports.run_page.RunPage.finish": "page",
    "reports.write_index": "index of runs",
    "problem_groups.Causes.add": "causes",
    "problem_groups.Causes.ranked": "causes",
}
IN_ALL = [
    "reports.results.DropResults.finish",
    "reconcile.settle",
    "reconcile.totals.Adder.add",
    "reports.results.DropResults.add",
    "reports.summarise",
    "reports.headline._headline",
    "pipeline._still_waiting",
    "pipeline._still_missing",
    "reconcile.Reconciliation.pack_snapshot",
]
NOBODY = "http://127.0.0.1:9/"  # a health check that nobody serves
AFTER_IT = {
    "operations.notifications.notices.send_notifications": "notices",
    "operations.notifications.notices.ping_start": "notice of the beginning",
    "operations.run_hooks._Hooks.update_metrics": "metrics",
    "operations.expected_files.overdue": "what is late",
    "reports.headline._balance_line": "the summary",
    "run_end.seal_after_run": "the capsule",
    "run_end.keep": "keeping",
}


def broken(monkeypatch, *places):
    """Have what is at these places fail as our own faults do."""

    def fails(*_words, **_more):
        message = "no such thing"
        raise KeyError(message)

    for place in places:
        monkeypatch.setattr(f"loadsheet.{place}", fails)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A house with one order at the exchange already, and an inbox that gives a row of every fate."""
    folder = tmp_path_factory.mktemp("prepared")
    shutil.copytree(MAPPINGS, folder / "mappings")
    (folder / "mappings" / "events.yaml").write_text(EVENTS, encoding="utf-8")
    write_orders(folder / "inbox", 1, first=1)
    with pytest.MonkeyPatch.context() as patch:
        enter(patch, folder)
        with served(folder):
            assert invoke(["run"]) == 0
        inbox = folder / "inbox"
        write_orders(inbox, 7, first=1, wrong_every=3)
        (inbox / "events.csv").write_text("Order,Status\nnone,LATE\ntotal,1\n", encoding="utf-8")
    return folder


def enter(patch, folder):
    patch.chdir(folder)
    patch.setenv("LOADSHEET_TOKEN", TOKEN)


@contextmanager
def served(folder):
    """An exchange that refuses one order and loses another; the folder's settings name it."""
    with misbehaving(folder, LOST, REFUSED) as exchange:
        settings = f'exchange = "{exchange.exchange.url}"\narrival.settle_s = 0\n'
        (folder / "loadsheet.toml").write_text(settings, encoding="utf-8")
        yield


@pytest.fixture
def house(prepared, tmp_path, monkeypatch):
    folder = shutil.copytree(prepared, tmp_path / "house")
    enter(monkeypatch, folder)
    with served(folder):
        yield folder


def latest(house):
    return max(path for path in (house / "outbox").iterdir() if path.is_dir())


def summary_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def check_the_least(folder):
    """What was sent is told, whatever else is missing."""
    told = summary_of(folder)
    assert told["entries"] == FATES
    assert told["exit_code"] == 70
    assert told["balance"]["balances"] is True
    outcomes = []
    for name in (name for drop in told["drops"] for file in drop["files"] for name in file["results"]):
        with (folder / name).open(newline="", encoding="utf-8-sig") as file:
            outcomes += [row["outcome"] for row in csv.DictReader(file)]
    assert set(outcomes) == {*FATES, "ignored"}
    assert len(outcomes) == told["balance"]["read"] == sum(told["balance"]["rows"].values())


def check_the_next_run(house, capsys, folder, lacks):
    """It works, says what is missing, and `report` makes it."""
    capsys.readouterr()
    assert invoke(["run"]) == 1  # an outcome is still unknown
    assert latest(house) != folder
    remark = f"run {folder.name} {lacks} (loadsheet report --run {folder.name} writes them)"
    assert remark in capsys.readouterr().err
    assert summary_of(latest(house))["missing"] == []
    assert invoke(["report", "--run", folder.name]) == 1
    told = summary_of(folder)
    assert told["missing"] == []
    assert told["entries"] == FATES
    assert {"run.html", "reconciliation.xlsx"} <= {*told["reports"]}
    assert all((folder / name).is_file() for name in told["reports"])
    assert told["causes"]


def test_a_fault_in_one_report_costs_that_one_alone_and_is_said_until_it_is_made(house, monkeypatch, capsys):
    workbook = "reports.reconciliation.ReconciliationWorkbook.finish"
    folder, lacks = lost(house, monkeypatch, capsys, workbook, "problem_groups.Causes.add")
    with monkeypatch.context() as patch:
        broken(patch, workbook)
        assert invoke(["report", "--run", folder.name]) == 70
    capsys.readouterr()
    invoke(["doctor", "--quick"])
    assert f"run {folder.name} {lacks}" in " ".join(capsys.readouterr().out.split())
    check_the_next_run(house, capsys, folder, lacks)
    assert invoke(["run"]) == 1
    assert folder.name not in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.parametrize("where", IN_ONE_REPORT)
def test_a_fault_in_any_one_report_costs_that_one_alone(house, monkeypatch, capsys, where):
    folder, lacks = lost(house, monkeypatch, capsys, where)
    check_the_next_run(house, capsys, folder, lacks)


def lost(house, monkeypatch, capsys, *places):
    """The folder of a run that met faults in these reports, and what the next run says that it lacks."""
    reports = {IN_ONE_REPORT[where] for where in places}
    err, folder = ended_by(house, monkeypatch, capsys, *places)
    assert SENT in err
    assert [report for report in reports if f"{report} (KeyError" not in err] == []
    assert "Traceback" in (house / ".loadsheet" / "logs" / f"{folder.name}.jsonl").read_text(encoding="utf-8")
    check_the_least(folder)
    told = summary_of(folder)
    missing = [one["report"] for one in told["missing"]]
    assert reports <= {*missing}
    assert reports == {*missing} or "causes" in reports  # fix files are told by them as well
    assert told["verdicts"]
    assert ("run.html" in told["reports"]) is ("page" not in reports)
    assert ("reconciliation.xlsx" in told["reports"]) is ("workbook" not in reports)
    return folder, f"has no {', '.join(missing)}"


def ended_by(house, monkeypatch, capsys, *places):
    """What a run said that met faults at these places and ended with 70, and its folder."""
    with monkeypatch.context() as patch:
        broken(patch, *places)
        assert invoke(["run"]) == 70
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return err, latest(house)


EACH_IN_ALL = [IN_ALL[0], *(pytest.param(where, marks=pytest.mark.sweep) for where in IN_ALL[1:])]


@pytest.mark.parametrize("where", EACH_IN_ALL)
def test_a_fault_in_all_reports_leaves_the_least_of_them(house, monkeypatch, capsys, where):
    err, folder = ended_by(house, monkeypatch, capsys, where)
    assert SENT in err
    assert "all but the results (KeyError" in err
    assert "Traceback" in (house / ".loadsheet" / "logs" / f"{folder.name}.jsonl").read_text(encoding="utf-8")
    check_the_least(folder)
    check_the_next_run(house, capsys, folder, "has only minimal reports")


ALL_AND_EACH_AFTER_IT = [
    pytest.param([*AFTER_IT], id="all"),
    *(pytest.param([where], id=where, marks=pytest.mark.sweep) for where in AFTER_IT),
]


@pytest.mark.parametrize("places", ALL_AND_EACH_AFTER_IT)
def test_a_fault_after_the_end_is_in_ledger_run_json_and_exit_code_alike(house, monkeypatch, capsys, places):
    """All of them in one run, which says each; its reports are whole, and stdout says what run.json says."""
    undone = {AFTER_IT[where]: "KeyError: 'no such thing'" for where in places}
    with monkeypatch.context() as patch:
        patch.setenv("LOADSHEET_NOTIFICATIONS__PING_URL", NOBODY)
        broken(patch, *places)
        assert invoke(["run", "--json"]) == 70
    out, err = capsys.readouterr()
    folder = latest(house)
    said = summary_of(folder)
    assert [what for what in undone if f"{what} (KeyError" not in err] == []
    assert (said["entries"], said["missing"]) == (FATES, [])
    assert json.loads(out) == said
    check_recorded(house, capsys, folder, undone)
    assert invoke(["report", "--run", folder.name]) == 1
    check_recorded(house, capsys, folder, undone)
    assert "exit code 70" in (folder / "run.html").read_text(encoding="utf-8")
    assert invoke(["run"]) == 1


def check_recorded(house, capsys, folder, undone):
    """Ledger and run.json say exit code 70, and what was not done."""
    told = summary_of(folder)
    assert (told["exit_code"], {one["what"]: one["why"] for one in told["undone"]}) == (70, undone)
    capsys.readouterr()
    assert invoke(["runs", "--json"]) == 0
    (row,) = (one for one in json.loads(capsys.readouterr().out) if one["run"] == folder.name)
    assert (row["exit_code"], row["summary"]["undone"], row["summary"]["entries"]) == (70, undone, FATES)


def test_an_end_that_the_ledger_cannot_take_is_in_run_json_and_told_by_the_next_run(house, monkeypatch, capsys):
    def is_full(*_words, **_more):
        message = "no space is left"
        raise LedgerUnwritable(message)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "end_run", is_full)
        assert invoke(["run"]) == 75
    folder = latest(house)
    told = summary_of(folder)
    assert (told["exit_code"], told["undone"][0]["why"]) == (75, "no space is left")
    capsys.readouterr()
    assert invoke(["run"]) == 1
    assert f"run {folder.name} did not finish" in capsys.readouterr().err


def test_an_end_that_cannot_be_corrected_is_said(house, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setenv("LOADSHEET_NOTIFICATIONS__PING_URL", NOBODY)
        broken(
            patch,
            "operations.notifications.notices.send_notifications",
            "ledger.maintenance.Maintenance.correct_end",
            "reports.rewrite_summary",
        )
        assert invoke(["run"]) == 70
    err, run = capsys.readouterr().err, latest(house).name
    for where in ("the ledger", "run.json"):
        assert f"loadsheet: {where} still shows exit code 1 for run {run}: KeyError" in err


def test_a_fault_in_the_warnings_costs_the_warnings_alone(house, monkeypatch, capsys):
    err, folder = ended_by(house, monkeypatch, capsys, "reading.damage_checks._column_warnings")
    assert "R290" in err
    told = summary_of(folder)
    assert (told["entries"], told["missing"]) == (FATES, [])
    assert "R290" in {problem["code"] for problem in told["problems"]}
    (house / "inbox" / "events.csv").write_text("Order,Status\nother,LATE\n", encoding="utf-8")
    for where in ("_column_warnings", "DamageChecks._count_shapes"):
        with monkeypatch.context() as patch:
            broken(patch, f"reading.damage_checks.{where}")
            assert invoke(["check", "inbox/events.csv"]) == 70
        out, err = capsys.readouterr()
        assert ("R290" in out, "Traceback" in err) == (True, False), where
    assert invoke(["run"]) == 1


def test_a_run_that_died_and_cannot_be_told_does_not_break_those_after_it(house, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        broken(patch, "pipeline._reconcile_and_report", "pipeline._write_minimal")
        assert invoke(["run"]) == 70  # as versions before this one ended
    write_orders(house / "inbox", 1, first=20)
    add = DropResults.add

    def fails_on_events(self, entry, match):
        if entry.operation == "order.status":
            raise KeyError(entry.key)
        return add(self, entry, match)

    with monkeypatch.context() as patch:
        patch.setattr(DropResults, "add", fails_on_events)
        assert invoke(["run"]) == 1, capsys.readouterr().err
        own, died = sorted((path for path in (house / "outbox").iterdir() if path.is_dir()), reverse=True)[:2]
        assert f"run {died.name} has only minimal reports" in capsys.readouterr().err
        assert {drop["mapping"] for drop in summary_of(own)["drops"]} == {
            "bench-join"
        }  # one outcome of the other is unknown
        check_the_least(died)
        assert invoke(["run"]) == 1
    assert invoke(["report", "--run", died.name]) == 1
    assert summary_of(died)["missing"] == []
