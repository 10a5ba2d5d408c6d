"""An internal error in what comes after sending costs a report at most: never the run, never the ledger, never the next run."""

import csv
import json
import shutil
from contextlib import contextmanager

import pytest
from faulty_exchange import misbehaving
from orders import order_id
from workspace import Workspace

from loadsheet.errors import LedgerUnwritable
from loadsheet.ledger import Ledger
from loadsheet.reports.results import DropResults

FATES = {"accepted": 2, "refused": 1, "invalid": 2, "held": 1, "unknown": 1, "unchanged": 1}
SENT = "2 accepted, 1 refused"
LOST = {"fault": "closed_before_effect", "operation": "order.create", "key": order_id(2)}
REFUSED = {"fault": "status_before_effect", "operation": "order.create", "key": order_id(4), "status": 400}

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
    "reconcile.reconcile_run",
    "reconcile.balance.Adder.add",
    "reports.results.DropResults.add",
    "reports.summarise",
    "reports.headline._headline",
    "pipeline._still_waiting",
    "pipeline._still_missing",
    "reconcile.Reconciliation.pack_snapshot",
]
NOBODY = "http://127.0.0.1:9/"  # a health check that nobody serves
AFTER_IT = {
    "operations.notifications.send_notifications": "notices",
    "operations.notifications.ping_start": "the notice of the start",
    "operations.run_hooks._Hooks.update_metrics": "metrics",
    "operations.expected_files.overdue": "the check for overdue files",
    "reports.headline._balance_line": "the summary",
    "run_archive.seal_after_run": "the capsule",
    "operations.run_hooks.apply_retention": "retention",
}


@contextmanager
def broken(*places):
    """Have what is at these places fail as our own faults do."""

    def fails(*_words, **_more):
        message = "no such thing"
        raise KeyError(message)

    with pytest.MonkeyPatch.context() as patch:
        for place in places:
            patch.setattr(f"loadsheet.{place}", fails)
        yield


@contextmanager
def served(house):
    """An exchange that refuses one order and loses another; the house's commands use it."""
    with misbehaving(house.folder, LOST, REFUSED) as exchange:
        house.variables["LOADSHEET_EXCHANGE"] = exchange.url
        yield house


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A house with one order at the exchange already, and an inbox that gives a row of every fate."""
    house = Workspace(tmp_path_factory.mktemp("prepared"))
    house.write_orders(1, first=1)
    with served(house):
        assert house.run().returncode == 0
    house.write_orders(7, first=1, wrong_every=3)
    house.drop("events.csv", "Order,Code,At\nnone,LATE,2026-03-01 10:00\ntotal,1,\n")
    return house


@pytest.fixture
def house(prepared, tmp_path):
    with served(Workspace(shutil.copytree(prepared, tmp_path / "house"))) as house:
        house.add("events", "rows: {}", """rows: {ignore_rows: 'order == "total"'}""")
        yield house


def summary_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def ended_by(house, *places, words=()):
    """A run that met faults at these places and ended with 70, and its folder."""
    with broken(*places):
        done = house.run(*words, LOADSHEET_NOTIFICATIONS__PING_URL=NOBODY, LOADSHEET_RUN_ARCHIVE__CAPSULE_DAYS="9")
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    return done, house.reports()[-1]


def check_the_least(house, folder):
    """What was sent is reported, and the fault is in the log, whatever else is missing."""
    said = summary_of(folder)
    assert (said["entries"], said["exit_code"], said["balance"]["balances"]) == (FATES, 70, True)
    outcomes = []
    for name in (name for drop in said["drops"] for file in drop["files"] for name in file["results"]):
        with (folder / name).open(newline="", encoding="utf-8-sig") as file:
            outcomes += [row["outcome"] for row in csv.DictReader(file)]
    assert set(outcomes) == {*FATES, "ignored"}
    assert len(outcomes) == said["balance"]["read"] == sum(said["balance"]["rows"].values())
    assert "Traceback" in (house.state / "logs" / f"{folder.name}.jsonl").read_text(encoding="utf-8")


def check_the_next_run(house, folder, lacks):
    """It works, says what is missing, and `report` makes it."""
    done = house.run()
    assert done.returncode == 1, "an outcome is still unknown"
    assert f"run {folder.name} {lacks} (loadsheet report --run {folder.name} writes them)" in done.stderr
    assert house.reports()[-1] != folder
    assert house.run_json()["missing"] == []
    assert house.command("report", "--run", folder.name).returncode == 1
    said = summary_of(folder)
    assert (said["missing"], said["entries"], bool(said["causes"])) == ([], FATES, True)
    assert {"run.html", "reconciliation.xlsx"} <= {*said["reports"]}
    assert all((folder / name).is_file() for name in said["reports"])


def lost(house, *places):
    """The folder of a run that met faults in these reports, and what the next run says that it lacks."""
    reports = {IN_ONE_REPORT[where] for where in places}
    done, folder = ended_by(house, *places)
    assert SENT in done.stderr
    assert [report for report in reports if f"{report} (KeyError" not in done.stderr] == []
    check_the_least(house, folder)
    said = summary_of(folder)
    missing = [one["report"] for one in said["missing"]]
    assert reports <= {*missing}
    assert reports == {*missing} or "causes" in reports  # fix files need them as well
    assert said["verdicts"]
    assert ("run.html" in said["reports"]) is ("page" not in reports)
    assert ("reconciliation.xlsx" in said["reports"]) is ("workbook" not in reports)
    return folder, f"has no {', '.join(missing)}"


def test_a_fault_in_one_report_costs_that_one_alone_and_is_said_until_it_is_made(house):
    workbook = "reports.reconciliation.ReconciliationWorkbook.finish"
    folder, lacks = lost(house, workbook, "problem_groups.Causes.add")
    with broken(workbook):
        assert house.command("report", "--run", folder.name).returncode == 70
    assert f"run {folder.name} {lacks}" in " ".join(house.command("doctor", "--quick").stdout.split())
    check_the_next_run(house, folder, lacks)
    done = house.run()
    assert (done.returncode, folder.name in done.stderr) == (1, False)


@pytest.mark.sweep
@pytest.mark.parametrize("where", IN_ONE_REPORT)
def test_a_fault_in_any_one_report_costs_that_one_alone(house, where):
    check_the_next_run(house, *lost(house, where))


EACH_IN_ALL = [IN_ALL[0], *(pytest.param(where, marks=pytest.mark.sweep) for where in IN_ALL[1:])]


@pytest.mark.parametrize("where", EACH_IN_ALL)
def test_a_fault_in_all_reports_leaves_the_least_of_them(house, where):
    done, folder = ended_by(house, where)
    assert SENT in done.stderr
    assert "all but the results (KeyError" in done.stderr
    check_the_least(house, folder)
    check_the_next_run(house, folder, "has only minimal reports")


ALL_AND_EACH_AFTER_IT = [
    pytest.param([*AFTER_IT], id="all"),
    *(pytest.param([where], id=where, marks=pytest.mark.sweep) for where in AFTER_IT),
]


@pytest.mark.parametrize("places", ALL_AND_EACH_AFTER_IT)
def test_a_fault_after_the_end_is_in_ledger_run_json_and_exit_code_alike(house, places):
    """All of them in one run, which says each; its reports are whole, and stdout says what run.json says."""
    undone = {AFTER_IT[where]: "KeyError: 'no such thing'" for where in places}
    done, folder = ended_by(house, *places, words=["--json"])
    said = summary_of(folder)
    assert [what for what in undone if f"{what} (KeyError" not in done.stderr] == []
    assert (said["entries"], said["missing"]) == (FATES, [])
    assert json.loads(done.stdout) == said
    check_recorded(house, folder, undone)
    assert house.command("report", "--run", folder.name).returncode == 1
    check_recorded(house, folder, undone)
    assert "exit code 70" in (folder / "run.html").read_text(encoding="utf-8")
    assert house.run().returncode == 1


def check_recorded(house, folder, undone):
    """Ledger and run.json say exit code 70, and what was not done."""
    said = summary_of(folder)
    assert (said["exit_code"], {one["what"]: one["why"] for one in said["undone"]}) == (70, undone)
    (row,) = (one for one in json.loads(house.command("runs", "--json").stdout) if one["run"] == folder.name)
    assert (row["exit_code"], row["summary"]["undone"], row["summary"]["entries"]) == (70, undone, FATES)


def test_an_end_that_the_ledger_cannot_take_is_in_run_json_and_reported_by_the_next_run(house, monkeypatch):
    def is_full(*_words, **_more):
        message = "no space is left"
        raise LedgerUnwritable(message)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "end_run", is_full)
        assert house.run().returncode == 75
    said = house.run_json()
    assert (said["exit_code"], said["undone"][0]["why"]) == (75, "no space is left")
    done = house.run()
    assert (done.returncode, f"run {said['run']} did not finish" in done.stderr) == (1, True)


def test_an_end_that_cannot_be_corrected_is_said(house):
    correcting = ("ledger.maintenance.Maintenance.correct_end", "reports.rewrite_summary")
    done, folder = ended_by(house, "operations.notifications.send_notifications", *correcting)
    for where in ("the ledger", "run.json"):
        assert f"loadsheet: {where} still shows exit code 1 for run {folder.name}: KeyError" in done.stderr


def test_a_fault_in_the_warnings_costs_the_warnings_alone(house):
    done, folder = ended_by(house, "reading.damage_checks._column_warnings")
    assert "R290" in done.stderr
    said = summary_of(folder)
    assert (said["entries"], said["missing"]) == (FATES, [])
    assert "R290" in {problem["code"] for problem in said["problems"]}
    house.drop("events.csv", "Order,Code,At\nother,LATE,2026-03-01 10:00\n")
    for where in ("_column_warnings", "DamageChecks._count_shapes"):
        with broken(f"reading.damage_checks.{where}"):
            done = house.command("check", "inbox/events.csv")
        assert (done.returncode, "R290" in done.stdout, "Traceback" in done.stderr) == (70, True, False), where
    assert house.run().returncode == 1


def test_a_run_that_died_and_cannot_be_reported_does_not_break_those_after_it(house, monkeypatch):
    with broken("pipeline._end_run", "pipeline._write_minimal"):
        assert house.run().returncode == 70, "as versions before this one ended"
    house.write_orders(1, first=20)
    add = DropResults.add

    def fails_on_events(self, entry, match):
        if entry.operation == "order.status":
            raise KeyError(entry.key)
        return add(self, entry, match)

    with monkeypatch.context() as patch:
        patch.setattr(DropResults, "add", fails_on_events)
        done = house.run()
        assert done.returncode == 1, done.stderr
        died, own = sorted(path for path in house.outbox.iterdir() if path.is_dir())[-2:]
        assert f"run {died.name} has only minimal reports" in done.stderr
        assert {drop["mapping"] for drop in summary_of(own)["drops"]} == {"bench-join"}, "one outcome is unknown"
        check_the_least(house, died)
        assert house.run().returncode == 1
    assert house.command("report", "--run", died.name).returncode == 1
    assert summary_of(died)["missing"] == []
