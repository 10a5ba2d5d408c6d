"""Several mappings read one file: each row counts once with its worst fate, and what is wrong comes back to the mapping concerned."""

import json
import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from fix_workbooks import FixBook
from killed_steps import dies_at
from workspace import SMALL, Workspace

from loadsheet.cli.options import held_ledger
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.settings import Settings

HEAD = "Order,City,Weight,Code,At\n"
BOTH = f"{HEAD}A-1,Köln,1,DEP,2026-03-01 10:00\nA-2,Essen,2,DEP,2026-03-01 11:00\n"
WRONG = (
    f"{HEAD}A-1,Köln,1,DEP,2026-03-01 10:00\nA-2,Essen,x,DEP,2026-03-01 11:00\n"
    "A-3,Bonn,3,DEP,nope\nA-4,Bonn,y,DEP,never\n"
)


def mapping(name, pattern="both*.*", *, shared=True, sheet="", table="", more=""):
    """A mapping of the proofs, for other files; `table` are options of its table."""
    text = (SMALL / f"{name}.yaml").read_text(encoding="utf-8")
    text = re.sub(r'files: \[".*"\]', f'files: ["{pattern}"]{chr(10) + "  shared: true" if shared else ""}', text)
    options = ", ".join(filter(None, (f"sheet: {sheet}" if sheet else "", table)))
    return text.replace("rows: {}", f"rows: {{{options}}}") + more


@pytest.fixture
def one_sheet(workspace):
    """A sheet whose rows make an order and a status event each."""
    workspace.use({"orders": mapping("orders"), "events": mapping("events")})
    return workspace


def entries(workspace):
    """What the ledger says of each entry: operation, key and state, in order of the operations and keys."""
    return workspace.ask("select operation, key, state from entries order by operation, key, id")


def states(workspace):
    return [f"{operation} {key} {state}" for operation, key, state in entries(workspace)]


def at_the_exchange(workspace):
    """The ids of the orders and of the orders of status events that the exchange has."""
    with closing(sqlite3.connect(workspace.state / "exchange.db")) as database:
        return [
            sorted(json.loads(content)["order_id"] for (content,) in database.execute(f"select content from {table}"))
            for table in ("orders", "status_events")
        ]


def calls(workspace):
    """The number of calls that carried each entry, the most of any."""
    return max(count for (count,) in workspace.ask("select count(*) from attempts group by entry_id"))


def tables(workspace):
    """The rows of the last run's tables by outcome."""
    found = [table for drop in workspace.run_json()["drops"] for file in drop["files"] for table in file["tables"]]
    return {table["table"]: table["fates"] for table in found}


def test_two_sheets_are_two_operations(workspace):
    workspace.use(
        {"orders": mapping("orders", sheet="Orders"), "order-deletes": mapping("order-deletes", sheet="Cancelled")}
    )
    orders = [["Order", "City", "Weight", "Remark"], ["A-1", "Köln", 1, "urgent"], ["A-2", "Essen", 2, ""]]
    book = workspace.drop_book("both.xlsx", {"Orders": orders, "Cancelled": [["Order"], ["A-2"]]})
    done = workspace.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert states(workspace) == ["order.create A-1 accepted", "order.create A-2 accepted", "order.delete A-2 accepted"]
    assert at_the_exchange(workspace)[0] == ["A-1"], "deleted after it was created"
    assert tables(workspace) == {"orders/rows": {"accepted": 2}, "order-deletes/rows": {"accepted": 1}}
    (drop,) = workspace.run_json()["drops"]
    assert (drop["mapping"], drop["operation"]) == ("orders + order-deletes", "order.create + order.delete")
    assert [table["unused"] for table in drop["files"][0]["tables"]] == [["Remark"], []]

    book.copy_worksheet(book.active).title = "Copy"  # which of the two holds the orders?
    book.save(workspace.inbox / "both.xlsx")
    workspace.edit("mappings/orders.yaml", "sheet: Orders", "")
    done = workspace.run()
    assert (done.returncode, "R238" in done.stdout + done.stderr) == (65, True)
    assert len(entries(workspace)) == 3, "nothing was planned"


def test_a_row_that_makes_two_records_has_the_worse_of_their_fates(one_sheet):
    one_sheet.drop("both.csv", WRONG)
    assert one_sheet.run().returncode == 1
    assert states(one_sheet) == [
        *("order.create A-1 accepted", "order.create A-2 invalid"),
        *("order.create A-3 accepted", "order.create A-4 invalid"),
        *("order.status A-1 accepted", "order.status A-2 held"),
        *("order.status A-3 invalid", "order.status A-4 invalid"),
    ]
    assert one_sheet.run_json()["balance"]["read"] == 4
    assert tables(one_sheet) == {"orders/rows": {"accepted": 1, "invalid": 3}, "events/rows": {}}
    outcomes = [(row["row"], row["outcome"], row["operation"]) for row in one_sheet.results("both.csv")]
    assert outcomes[1] == ("3", "invalid", "order.create; order.status")


def test_a_dry_run_and_a_check_foresee_all_records(one_sheet):
    path = one_sheet.drop("both.csv", WRONG)
    forecast = json.loads(one_sheet.run("--dry-run", "--json").stdout)
    assert forecast["records"] == {"ready": 3, "invalid": 4, "waiting": 1}
    assert (forecast["files"][0]["mapping"], forecast["files"][0]["operation"]) == (
        "orders + events",
        "order.create + order.status",
    )
    checked = one_sheet.command("check", path)
    assert checked.returncode == 1
    assert "4 documents could be sent; 4 errors" in checked.stdout
    lines = one_sheet.command("check", path, "--payloads").stdout.splitlines()
    assert [json.loads(line)["mapping"]["name"] for line in lines] == ["orders", "orders", "events", "events"]
    preview = one_sheet.command("mapping", "preview", path, "--rows", "1").stdout
    assert [line.split("\t")[1] for line in preview.splitlines() if "\torder_id\t" in line] == ["order_id", "order_id"]


@pytest.mark.parametrize("feedback", ["workbook", "csv"])
def test_a_fix_file_corrects_only_what_was_wrong_and_is_read_by_the_mappings_as_they_were(one_sheet, feedback):
    one_sheet.variables["LOADSHEET_REPORTS__FEEDBACK"] = feedback
    one_sheet.drop("both.csv", WRONG)
    one_sheet.run()
    if feedback == "workbook":
        assert_replayed(one_sheet)
    one_sheet.edit("mappings/events.yaml", "{label: Code,", "{label: Event code,")
    right = {"x": "2", "nope": "2026-03-01 12:00", "y": "4", "never": "2026-03-01 13:00"}
    for path in one_sheet.reports()[-1].glob("both*.fix.*"):
        if feedback == "workbook":
            book = FixBook(path)
            assert [sheet.title for sheet in book.sheets()] == ["both", "both events"]
            assert book.repair(right) == 6, "both cells of A-4 are in both sheets"
            book.save(one_sheet.inbox / path.name)
        else:
            text = path.read_text(encoding="utf-8")
            for before, after in right.items():
                text = re.sub(rf",{before}(?=,)", f",{after}", text)
            one_sheet.drop(path.name, text)
    done = one_sheet.run()
    assert len(one_sheet.ask("select 1 from drops where fixes = 1")) == (1 if feedback == "workbook" else 2)
    assert at_the_exchange(one_sheet) == [["A-1", "A-2", "A-3", "A-4"]] * 2, done.stdout
    assert calls(one_sheet) == 1
    ready = one_sheet.ask("select operation, key from entries where drop_id > 1 order by operation, key")
    assert ready == [
        *(("order.create", "A-2"), ("order.create", "A-4")),
        *(("order.status", "A-3"), ("order.status", "A-4")),
    ]
    assert_replayed(one_sheet)


def assert_replayed(workspace):
    """A capsule of the last run is replayed the same."""
    run = workspace.run_json()["run"]
    assert workspace.command("capsule", "make", run).returncode == 0
    replayed = workspace.command("capsule", "replay", workspace.state / "capsules" / f"{run}.capsule.zip")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_text_comes_back_to_the_mappings_that_have_something_to_fix(one_sheet):
    one_sheet.variables["LOADSHEET_REPORTS__FEEDBACK"] = "csv"
    one_sheet.drop("both.csv", BOTH.replace("2026-03-01 11:00", "nope"))
    one_sheet.run()
    (path,) = one_sheet.reports()[-1].glob("both*.fix.csv")
    one_sheet.drop("renamed.csv", path.read_text(encoding="utf-8").replace(",nope,", ",2026-03-01 11:00,"))
    assert one_sheet.run().returncode == 0
    assert tables(one_sheet)["events/rows"] == {}
    assert at_the_exchange(one_sheet) == [["A-1", "A-2"]] * 2


def test_a_file_goes_once_when_all_its_mappings_load_and_a_changed_record_waits_alone(one_sheet):
    one_sheet.edit("mappings/events.yaml", "target: order.status", "target: order.stats")
    one_sheet.drop("both.csv", BOTH)
    assert one_sheet.run().returncode == 78
    assert (one_sheet.inbox / "both.csv").exists()
    assert entries(one_sheet) == []
    one_sheet.edit("mappings/events.yaml", "target: order.stats", "target: order.status")
    assert one_sheet.run().returncode == 0
    one_sheet.drop("both.csv", BOTH)
    assert one_sheet.run().returncode == 0
    assert tables(one_sheet) == {"orders/rows": {"unchanged": 2}, "events/rows": {}}
    assert at_the_exchange(one_sheet) == [["A-1", "A-2"]] * 2
    for field, source in (("status_datetime", "events"), ("delivery_city", "orders")):
        assert f"mappings/{source}.yaml" in one_sheet.command("show", "A-2", "--field", field).stdout
    one_sheet.drop("both.csv", BOTH.replace("Köln,1", "Köln,9"))
    one_sheet.run()
    assert tables(one_sheet)["orders/rows"] == {"held": 1, "unchanged": 1}
    assert one_sheet.command("retry", "A-1").returncode == 0
    assert one_sheet.run().returncode == 0
    assert one_sheet.ask("select operation, state from entries where drop_id = 3 and key = 'A-1' order by id") == [
        ("order.update", "accepted"),
        ("order.status", "unchanged"),
    ]


def test_rows_that_a_mapping_leaves_out_count_with_the_other_mapping(workspace):
    rules = {"orders": 'weight == null or order == "total"', "events": "code == null"}
    workspace.use({name: mapping(name, table=f"ignore_rows: '{rule}'") for name, rule in rules.items()})
    lines = ("A-1,Köln,1,DEP,2026-03-01 10:00", "A-1,,,ARR,2026-03-02 10:00", "A-2,Essen,2,,", "total,,3,,")
    workspace.drop("both.csv", HEAD + "\n".join(lines))
    assert workspace.run().returncode == 0
    assert len(entries(workspace)) == 4
    balance = workspace.run_json()["balance"]
    assert (balance["balances"], balance["read"], balance["rows"]) == (True, 4, {"accepted": 3, "ignored": 1})
    outcomes = {row["row"]: row["outcome"] for row in workspace.results("both.csv")}
    assert outcomes == {"2": "accepted", "3": "accepted", "4": "accepted", "5": "ignored"}


def test_too_many_errors_of_all_mappings_hold_the_file_until_someone_retries_it(one_sheet):
    one_sheet.edit("mappings/events.yaml", "batch:", "errors: {stop_at: 20%}\nbatch:")
    one_sheet.drop("both.csv", WRONG)
    assert one_sheet.run().returncode == 1
    assert {state for _, _, state in entries(one_sheet)} == {"invalid", "held"}
    assert one_sheet.command("retry", "--file", "both.csv").returncode == 0
    one_sheet.run()
    assert at_the_exchange(one_sheet) == [["A-1", "A-3"], ["A-1"]]


CASES = [
    WRONG,
    f"{HEAD}A-1,Köln,1,DEP,2026-03-01 10:00\n,Köln,1,DEP,2026-03-01 10:00\nA-1,Köln,1,ARR,2026-03-01 12:00\n",
    f"{HEAD}A-1,Köln,1,DEP,2026-03-01 10:00,more\nA-2,Köln,1,DEP\n\nA-2,Köln,1,DEP,2026-03-01 12:00\n",
]


@pytest.mark.parametrize("text", CASES, ids=["wrong", "no key and two of one key", "uneven rows"])
def test_two_mappings_of_one_file_make_what_they_make_of_a_file_each(tmp_path, text):
    together, apart = Workspace(tmp_path / "together"), Workspace(tmp_path / "apart")
    together.use({"orders": mapping("orders"), "events": mapping("events")})
    apart.use(
        {"orders": mapping("orders", "first*.*", shared=False), "events": mapping("events", "second*.*", shared=False)}
    )
    together.drop("both.csv", text)
    apart.drop("first.csv", text)
    apart.drop("second.csv", text)
    codes = [place.run().returncode for place in (together, apart)]
    assert codes[0] == codes[1]
    assert entries(together) == entries(apart)
    assert at_the_exchange(together) == at_the_exchange(apart)
    rows = [place.run_json()["balance"]["read"] for place in (together, apart)]
    assert rows[0] * 2 == rows[1]


def test_the_documents_of_a_file_are_planned_together_or_not_at_all(one_sheet):
    """Killed at any statement or move: the next intake has the records of both mappings, once."""
    settings = Settings(
        inbox=one_sheet.inbox,
        mappings=one_sheet / "mappings",
        outbox=one_sheet.outbox,
        state=one_sheet.state,
        settle_s=0,
        reading_process="none",
    )
    mappings = load_folder(settings.mappings, settings.assumptions)

    def intake(begin=lambda: None):
        with held_ledger(settings) as ledger:
            run = ledger.begin_run()
            begin()
            ingest_files(settings, ledger, run, mappings)

    with held_ledger(settings):
        pass
    for point in range(1, 200, 4):
        one_sheet.change("delete from events")
        for table in ("entries", "tables", "files", "drops"):
            one_sheet.change(f"delete from {table}")
        shutil.rmtree(one_sheet.state / "known", ignore_errors=True)  # what the archive has is not in the ledger
        one_sheet.drop("both.csv", BOTH)
        died = dies_at(point, intake, {"os.rename", "os.remove"})
        assert len(entries(one_sheet)) in (0, 4)
        intake()
        assert [line.rpartition(" ")[0] for line in states(one_sheet)] == [
            f"{operation} A-{number}" for operation in ("order.create", "order.status") for number in (1, 2)
        ]
        assert not (one_sheet.inbox / "both.csv").exists()
        if not died:
            break
    assert point > 10
