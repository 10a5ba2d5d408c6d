"""A record is one open exception, however often its file comes, and one that is corrected closes by itself, also without a key."""

import os
import sqlite3
import time
from contextlib import closing

import openpyxl
import pytest
from fix_workbooks import FixBook

LOADS = """\
mapping: loads
version: 1
target: tender.create
source:
  files: ["loads*.csv"]
  timezone: Europe/Berlin
  locale: en_GB
  tables: {rows: {totals: {where: 'load == "Total"', sum: [kg]}}}
columns:
  load: {label: Load, type: text, required: true, key: true}
  town: {label: Town, type: text, required: true}
  kg:   {label: Kg, type: quantity, unit: kg, required: true}
payload:
  tender_id: {col: load}
  tender_status: {value: OPEN}
  sender_id: {value: S}
  receiver_id: {value: R}
  delivery_city: {col: town}
  delivery_country: {value: DE}
  pickup_startdatetime: {value: "2026-03-24 08:00:00"}
  delivery_startdatetime: {value: "2026-03-25 08:00:00"}
  packages: {each: rows, item: {package_type: {value: BOX}, item_name: {value: Box}, weight: {col: kg}, weight_uom: {value: KG}}}
"""


@pytest.fixture
def loads(workspace):
    workspace.use({"loads": LOADS})

    def drop(*rows, name="loads.csv"):
        workspace.drop(name, "\n".join(["Load,Town,Kg", *rows, ""]))
        return workspace.run()

    workspace.drop_loads = drop
    return workspace


def sheet(workspace, title="Exceptions"):
    book = openpyxl.load_workbook(workspace.reports()[-1] / "reconciliation.xlsx")
    head, *rows = ([cell.value for cell in line] for line in book[title].iter_rows())
    return [dict(zip(head, line, strict=True)) for line in rows if line[2]]


def shuffle(path):
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([head, *reversed(lines)]) + "\n", encoding="utf-8")


def correct(path, key):
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f"{key},BOX,Item 0,heavy", f"{key},BOX,Item 0,12"), encoding="utf-8")


def test_a_file_that_comes_again_with_the_same_errors_confirms_its_exceptions(workspace):
    workspace.write_orders(6, first=1, wrong_every=2)
    assert workspace.run().returncode == 1
    first = sheet(workspace)
    assert [(line["Key"], line["Times"]) for line in first] == [("00000002", 1), ("00000004", 1), ("00000006", 1)]

    workspace.write_orders(6, first=1, wrong_every=2)
    again = workspace.run()
    assert again.returncode == 1
    assert again.stdout.startswith("✗ 3 of 6 documents need attention · 3 unchanged · ")
    assert "still open" not in again.stdout, "each is counted once"
    second = workspace.reports()[-1].name
    for before, now in zip(first, sheet(workspace), strict=True):
        assert (now["Exception"], now["First seen"], now["In run"]) == (
            before["Exception"],
            before["First seen"],
            before["In run"],
        )
        assert (now["Last in run"], now["Times"]) == (second, 2)


def test_two_exceptions_of_one_record_in_an_older_ledger_become_the_older_one(workspace):
    for _ in range(2):
        workspace.write_orders(6, first=1, wrong_every=2)
        workspace.run()
    first = sheet(workspace)
    with (
        closing(sqlite3.connect(workspace.state / "ledger.db")) as ledger,
        ledger,
    ):  # as 0.5.0 opened them
        doubles = ledger.execute(
            """
            insert into exceptions (entry_id, run_id, opened_at, verdict, found, closed_at, closed_because)
            select entries.id, drops.run_id, '2026-03-05T02:15:00Z', 'invalid', '[]', '', ''
            from entries join drops on drops.id = entries.drop_id
            where entries.state = 'invalid' and drops.run_id = (select max(run_id) from drops)
            """
        ).rowcount
    assert doubles == len(first) == 3

    workspace.write_orders(6, first=1, wrong_every=2)
    assert workspace.run().stdout.startswith("✗ 3 of 6 documents need attention · 3 unchanged · ")
    assert [(line["Exception"], line["Times"]) for line in sheet(workspace)] == [
        (line["Exception"], 3) for line in first
    ]
    closed = workspace.ask("select closed_because from exceptions where closed_because <> ''")
    assert [because for (because,) in closed] == [f"it is the same record as {line['Exception']}" for line in first]


def test_the_same_file_shuffled_and_partly_corrected_confirms_the_rest(workspace):
    workspace.write_orders(6, first=1, wrong_every=2)
    workspace.run()
    first = {line["Key"]: line["Exception"] for line in sheet(workspace)}

    workspace.write_orders(6, first=1, wrong_every=2)
    for name in ("orders.csv", "packages.csv"):
        shuffle(workspace.inbox / name)
    correct(workspace.inbox / "packages.csv", "00000004")
    assert workspace.run().stdout.startswith("✗ 2 of 6 documents need attention · 1 accepted · 3 unchanged · ")
    assert [(line["Exception"], line["Key"], line["Times"]) for line in sheet(workspace)] == [
        (first[key], key, 2) for key in ("00000002", "00000006")
    ]
    assert [line["Exception"] for line in sheet(workspace, "Closed")] == [first["00000004"]]

    assert "2 exceptions of earlier runs are still open: 00000002, 00000006" in workspace.run().stdout
    workspace.write_orders(6, first=1, wrong_every=2)
    for key in ("00000002", "00000004", "00000006"):
        correct(workspace.inbox / "packages.csv", key)
    assert workspace.run().returncode == 0
    assert sheet(workspace) == []
    closed = {line["Exception"]: line["Closed because"] for line in sheet(workspace, "Closed")}
    assert closed == {first[key]: "a later document was accepted" for key in ("00000002", "00000006")}


def open_and_closed(workspace):
    """The values of the keys in the sheets of exceptions, by exception."""
    return [line["Exception"] for line in sheet(workspace)], [line["Exception"] for line in sheet(workspace, "Closed")]


@pytest.mark.parametrize(
    "corrected",
    [
        ("L1,Essen,2", "L2,Ulm,3", "Total,,5"),
        ("L1,Essen,2", "L2,Ulm,4", "Total,,6"),
        ("L2,Ulm,3", "L1,Essen,2", "Total,,5"),
    ],
    ids=["the total", "a row above it", "the total, shuffled"],
)
def test_a_total_that_differs_is_closed_by_the_corrected_file(loads, corrected):
    for times in (1, 2):
        assert loads.drop_loads("L1,Essen,2", "L2,Ulm,3", "Total,,6").returncode == 1
        (line,) = sheet(loads)
        assert (line["Key"], line["Times"]) == (None, times)
    loads.drop_loads(*corrected)
    assert line["Exception"] in open_and_closed(loads)[1]


def test_a_row_without_identifier_is_closed_by_the_corrected_file(loads):
    for times in (1, 2):
        loads.drop_loads("L1,Essen,2", ",Ulm,3", "Total,,5")
        (line,) = sheet(loads)
        assert (line["Key"], line["Times"]) == (None, times)
    loads.drop_loads("L2,Ulm,3", "L1,Essen,2", "Total,,5")
    assert open_and_closed(loads) == ([], [line["Exception"]])


def test_another_file_of_the_same_name_closes_no_exception_without_a_key(loads):
    loads.drop_loads("L1,Essen,2", ",Ulm,3", "Total,,6")
    first = open_and_closed(loads)[0]
    assert len(first) == 2, "the row without a key, and the total"
    loads.drop_loads("L7,Essen,2", "L8,Bonn,3", "Total,,5")
    assert open_and_closed(loads) == (first, [])


def fix_book(workspace):
    (path,) = workspace.reports()[-1].glob("*.fix.xlsx")
    return FixBook(path)


def test_a_total_is_closed_by_its_fix_file(loads):
    loads.drop_loads("L1,Essen,2", "L2,Ulm,3", "Total,,6")
    (first,) = sheet(loads)
    book = fix_book(loads)
    assert book.repair({"6": "5"}) == 1
    book.save(loads.inbox / "answer.xlsx")
    assert loads.run().returncode == 0
    assert open_and_closed(loads) == ([], [first["Exception"]])


@pytest.mark.parametrize("corrected_first", [True, False])
def test_of_a_fix_file_and_its_corrected_copy_in_one_inbox_each_row_has_its_fate(loads, corrected_first):
    loads.drop_loads("L1,Essen,2", "L2,,3", "Total,,5")
    (first,) = sheet(loads)
    book, names = fix_book(loads), ("a.xlsx", "b.xlsx")
    book.save(loads.inbox / names[corrected_first])
    (row,) = [row for row in book.sheets()[0].iter_rows(min_row=2) if "L2" in [cell.value for cell in row]]
    row[2].value = "Ulm"
    book.save(loads.inbox / names[not corrected_first])
    for name, age in zip(names, (20, 10), strict=True):  # the oldest is read first
        os.utime(loads.inbox / name, (time.time() - age,) * 2)
    assert loads.run().stdout.startswith("✗ 1 of 2 documents needs attention · 1 accepted · ")
    assert loads.states() == {"L1": "accepted", "L2": "invalid" if corrected_first else "accepted"}
    still_open, closed = open_and_closed(loads)
    assert closed == [first["Exception"]]
    if corrected_first:
        (line,) = sheet(loads)
        assert "this version is invalid; the version of L2 in a.xlsx is valid and is sent" in line["What is wrong"]
    else:
        assert still_open == []
    assert loads.run().returncode == 0, "nothing waits, nothing is sent twice"
    assert loads.ask("select count(*) from attempts") == [(2,)]
