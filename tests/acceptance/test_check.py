"""`loadsheet check` on files, and the check folder: what is dropped there is answered there; nothing is sent."""

import csv
import json
import re
import shutil

import openpyxl
import pytest
from workspace import SAMPLES, SMALL

from loadsheet import inbox
from loadsheet.cli.run import answer_check_folder
from loadsheet.errors import SettingsError
from loadsheet.inbox import Candidate
from loadsheet.ingest import FilesInPlace
from loadsheet.ledger import utc_now
from loadsheet.ledger.ledger_opening import locked
from loadsheet.settings import Settings
from loadsheet.workbook_marks import PROPERTY

CHECKS = {"LOADSHEET_ARRIVAL__CHECK_FOLDER": "check"}
ALDER = "alder_2026-03-10.csv"


@pytest.fixture
def place(workspace):
    """A workspace with a check folder and the mapping of one sample, of which one order of three is wrong."""
    workspace.use_shipped("alder-parcels")
    (workspace / "check").mkdir()
    workspace.variables |= CHECKS
    return workspace


def to_check(place, name=ALDER, content=None):
    path = place / "check" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((SAMPLES / ALDER).read_bytes() if content is None else content)
    return path


def outcomes(answer, name=ALDER):
    if name.endswith(".xlsx"):
        head, *rows = openpyxl.load_workbook(answer / f"{name}.results.xlsx").active.values
        return [row[head.index("outcome")] for row in rows]
    with (answer / f"{name}.results.csv").open(newline="", encoding="utf-8-sig") as file:
        return [row["outcome"] for row in csv.DictReader(file)]


def test_a_file_is_answered_beside_it_and_nothing_is_sent(place):
    to_check(place)
    done = place.run()
    assert done.returncode == 0, done.stderr
    assert f"checked: check/{ALDER}.answer" in done.stderr
    answer = place / "check" / f"{ALDER}.answer"
    assert {path.name for path in answer.iterdir()} == {
        ALDER, "alder_2026-03-10.fix.xlsx", f"{ALDER}.results.csv", "reconciliation.xlsx", "run.html",
    }  # fmt: skip
    assert outcomes(answer) == ["ready", "ready", "ready", "invalid"]
    page = (answer / "run.html").read_text(encoding="utf-8")
    assert "Only checked, nothing was sent" in page
    assert "2 of 3 documents would be sent" in page
    assert re.search(r"<span>check of \d{4}-\d\d-\d\d \d\d\.\d\d UTC</span>", page)
    assert not re.search(r"\d{4}-\d\d-\d\d-\d\d", page), "it has no name of a run"
    summary = openpyxl.load_workbook(answer / "reconciliation.xlsx")["Summary"]
    texts = " ".join([page, *(str(cell.value) for line in summary.iter_rows() for cell in line)])
    compared = ("orders agree", "not listed", "could not be checked", "nothing at the exchange is verifiable")
    assert [text for text in compared if text in texts] == []
    assert place.states() == {}
    assert place.run().returncode == 0
    assert [path.name for path in (place / "check").glob("*.answer")] == [answer.name]
    to_check(place)
    place.run()
    answers = {path.name for path in (place / "check").glob("*.answer")}
    assert answers == {f"{ALDER}.answer", f"{ALDER}-2.answer"}, "a second answer keeps the first"


@pytest.mark.journey
def test_the_answer_knows_what_was_sent_before_and_fix_files(place):
    place.drop(ALDER, SAMPLES / ALDER)
    place.run()
    entries = place.ask("select count(*) from entries")
    (fix,) = place.outbox.glob("*/*.fix.xlsx")
    shutil.copy(fix, place / "check" / "Kopie.xlsx")
    to_check(place)
    place.run()
    assert outcomes(place / "check" / f"{ALDER}.answer") == ["unchanged", "unchanged", "unchanged", "invalid"]
    page = (place / "check" / f"{ALDER}.answer" / "run.html").read_text(encoding="utf-8")
    assert 'data-outcome="unchanged"' in page
    assert "not verifiable" not in page
    assert outcomes(place / "check" / "Kopie.xlsx.answer", "Kopie.xlsx") == ["invalid"]
    assert place.ask("select count(*) from entries") == entries


def test_the_workbook_of_a_check_does_not_come_back_as_a_fix_file(place):
    """No ledger knows its rows, so their marks would name other entries: it has none, and says to correct the own file."""
    to_check(place)
    place.run()
    path = place / "check" / f"{ALDER}.answer" / "alder_2026-03-10.fix.xlsx"
    book = openpyxl.load_workbook(path)
    assert PROPERTY not in book.custom_doc_props.names
    assert [line[-1].value for line in book.worksheets[0].iter_rows()] == ["_row", ""]
    texts = [cell.value for line in book["Read me"].iter_rows() for cell in line if cell.value]
    assert f"This was only a check: nothing from {ALDER} was sent." in texts
    book.worksheets[0]["K2"] = "14 kg"
    book.save(place.inbox / "alder_corrected.csv")
    assert place.run().returncode == 0
    assert place.states() == {"AF-13": "accepted"}


@pytest.mark.journey
def test_files_that_belong_together_are_answered_together_and_odd_ones_too(workspace):
    workspace.variables |= CHECKS
    workspace.write_orders(4, wrong_every=2)
    for name in ("orders.csv", "packages.csv"):
        to_check(workspace, name, (workspace.inbox / name).read_bytes())
        (workspace.inbox / name).unlink()
    to_check(workspace, "odd.bin", b"\0\1\2")
    to_check(workspace, "sub/odd.csv", b"a,b\n1,2\n")
    (workspace / "check" / "link.csv").symlink_to("/etc/hostname")
    done = workspace.run()
    assert done.returncode == 0, done.stderr
    together = workspace / "check" / "orders.csv.answer"
    assert {"orders.csv", "packages.csv", "orders.fix.xlsx"} <= {path.name for path in together.iterdir()}
    assert (workspace / "check" / "odd.bin.answer" / "odd.fix.xlsx").exists()
    assert (workspace / "check" / "sub" / "odd.csv.answer" / "odd.csv").exists()
    assert (workspace / "check" / "link.csv").is_symlink()


def test_a_check_that_fails_is_reported_and_has_no_other_effect(place):
    place.drop(ALDER, SAMPLES / ALDER)
    to_check(place)
    (place.state / "check").parent.mkdir()
    (place.state / "check").write_text("in the way")
    done = place.run("--exit-zero")
    assert done.returncode == 0
    assert "files to be checked are not answered: the check folder check cannot be created" in done.stderr
    assert place.states()["AF-11"] == "accepted"


def test_a_watch_answers_what_has_settled_unless_another_process_answers(place, monkeypatch):
    place.run()
    monkeypatch.chdir(place)
    path, said = to_check(place), []
    settings = Settings(arrival={"check_folder": "check", "settle_s": 0})
    with locked(place.state / "check" / "answers", utc_now):
        answer_check_folder(settings, inbox.scan_without_waiting, said.append)
    assert (said, path.exists()) == ([], True)
    answer_check_folder(settings, inbox.scan_without_waiting, said.append)
    assert said == [f"checked: check/{ALDER}.answer: 2 of 3 documents would be sent · 1 of 3 documents needs attention"]


def test_the_folder_of_a_shipper_lies_below_the_shared_one_and_none_in_an_inbox(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loadsheet.toml").write_text(
        'arrival.check_folder = "check"\n[shippers.acme]\n[shippers.birch]\narrival.check_folder = "birch/check"\n'
    )
    found = [str(Settings.load(shipper=name).check_folder) for name in ("acme", "birch")]
    assert found == ["check/acme", "birch/check"]
    (tmp_path / "loadsheet.toml").write_text('arrival.check_folder = "inbox/check"\n')
    with pytest.raises(SettingsError, match="name a folder beside the inbox"):
        Settings.load()


def test_files_of_one_name_in_several_folders_are_all_checked(workspace):
    workspace.use_shipped("alder-parcels")
    for folder in ("monday", "tuesday"):
        (workspace / folder).mkdir()
        shutil.copy(SAMPLES / ALDER, workspace / folder)
    counts = [
        json.loads(workspace.command("check", "--json", *files).stdout)
        for files in ([f"monday/{ALDER}"], [f"monday/{ALDER}", f"tuesday/{ALDER}", f"monday/{ALDER}"])
    ]
    (one, both) = [(found["usable"], found["errors"], len(found["problems"])) for found in counts]
    assert one[0] > 0
    assert both == tuple(2 * count for count in one)


def test_all_files_of_a_folder_are_checked(workspace):
    workspace.use_shipped("alder-parcels")
    (workspace.inbox / "later").mkdir()
    shutil.copy(SAMPLES / ALDER, workspace.inbox / "later")
    workspace.drop("nobody.csv", SAMPLES / ALDER)
    (workspace.inbox / ".hidden.csv").write_text("Order\n")
    (workspace / "empty").mkdir()
    done = workspace.command("check", "--json", "inbox")
    found = json.loads(done.stdout)
    alone = json.loads(workspace.command("check", "--json", f"inbox/later/{ALDER}").stdout)
    assert (found["usable"], found["errors"]) == (alone["usable"], alone["errors"] + 1)
    assert [one["where"]["file"] for one in found["problems"] if one["code"] == "A101"] == ["nobody.csv"]
    empty = workspace.command("check", "empty")
    assert (empty.returncode, "empty has no file to check" in empty.stderr) == (2, True)


def test_a_fix_workbook_under_its_own_name_is_said_to_be_one(workspace):
    workspace.use_shipped("alder-parcels")
    workspace.drop(ALDER, SAMPLES / ALDER)
    workspace.run()
    (fix,) = workspace.outbox.glob("*/*.fix.xlsx")
    shutil.copy(fix, workspace / "my corrections.xlsx")
    done = workspace.command("check", "my corrections.xlsx")
    assert done.returncode == 65
    assert "this is a fix file: drop it into the inbox under any name" in done.stdout + done.stderr


SUM = "totals: {where: 'order == \"Total\"', sum: [weight]}"


@pytest.mark.parametrize(
    ("rule", "last", "codes"),
    [
        (SUM, "Total,Bonn,5", []),
        ("ignore_rows: 'order == \"Total\"'", "Total,Bonn,5", []),
        ("ignore_rows: 'order == \"A1\"'", "Total,Bonn,5", ["R242"]),
        ('ignore_rows: \'(city ?? "").ends_with(" Total")\'', ",Bonn Total,", []),
        (SUM, "Total,Bonn,6", ["G408"]),
        (SUM, "Total,Bonn,6\nSum,Bonn,5", ["G408", "R242"]),
    ],
    ids=["compared", "ignored", "no rule", "a subtotal of the second column", "a wrong total", "a second one"],
)
def test_a_row_of_totals_is_suspected_to_be_a_record_only_if_no_rule_reads_it(workspace, rule, last, codes):
    mapping = (SMALL / "orders.yaml").read_text(encoding="utf-8")
    workspace.use({"orders": mapping.replace("rows: {}", f"rows: {{{rule}}}")})
    path = workspace.drop("orders.csv", f"Order,City,Weight\nA1,Bonn,2\nA2,Bonn,3\n{last}\n")
    said = json.loads(workspace.command("check", "--json", path).stdout)
    assert sorted(problem["code"] for problem in said["problems"]) == codes


def test_the_result_of_a_check_is_on_stdout_all_else_on_stderr_and_nothing_is_sent(workspace):
    workspace.write_orders(3, first=1, wrong_every=2)
    files = ("inbox/orders.csv", "inbox/packages.csv")
    plain = workspace.command("check", *files)
    summary = plain.stdout.splitlines()[-1]
    assert (summary, plain.stderr) == ("2 documents could be sent; 1 error, 0 warnings", "")
    as_json = workspace.command("check", *files, "--json")
    assert (json.loads(as_json.stdout)["usable"], as_json.stderr) == (2, "")
    records = workspace.command("check", *files, "--payloads")
    assert records.returncode == 1
    first, last = (json.loads(line) for line in records.stdout.splitlines())
    assert (first["operation"], first["key"], last["key"]) == ("order.create", "00000001", "00000003")
    assert first["payload"]["order_id"] == "00000001"
    assert first["rows"][0] == {"file": "orders.csv", "sheet": "", "row": 2}
    assert {name: value for name, value in first["mapping"].items() if name != "hash"} == {
        "name": "bench-join",
        "version": 1,
    }
    assert len(first["mapping"]["hash"]) == 64
    assert (summary in records.stderr, "heavy" in records.stderr) == (True, True)
    assert not workspace.state.exists()
    failed = workspace.command("check", "nowhere.csv")
    assert (failed.stdout, "nowhere.csv" in failed.stderr) == ("", True)


def test_try_shows_what_the_proposed_values_would_clear_and_changes_no_file(workspace):
    workspace.write_orders(4)
    orders, packages = workspace.inbox / "orders.csv", workspace.inbox / "packages.csv"
    text = orders.read_text(encoding="utf-8").replace(",Road,", ",Raod,").replace(",Sea,", ",Raod,")
    orders.write_text(text, encoding="utf-8")
    packages.write_text(packages.read_text(encoding="utf-8").replace("PLT", "Palette"), encoding="utf-8")
    before = (orders.read_bytes(), packages.read_bytes())
    files = ("inbox/orders.csv", "inbox/packages.csv")
    plain = workspace.command("check", *files)
    tried = workspace.command("check", *files, "--try")
    assert tried.returncode == plain.returncode == 65
    assert tried.stdout.startswith(plain.stdout)
    assert "tried Raod -> Road in 4 cells" in tried.stdout
    found = json.loads(workspace.command("check", *files, "--try", "--correct", "Palette=PLT", "--json").stdout)
    assert found["tried"]["usable"] == 4
    assert found["tried"]["errors"] == 0
    assert {"old": "Raod", "new": "Road", "cells": 4} in found["tried"]["values"]
    assert found["usable"] == 0
    assert (orders.read_bytes(), packages.read_bytes()) == before
    assert "Nothing to try" in workspace.command("check", *files, "--correct", "x=y").stdout
    assert workspace.command("check", *files, "--correct", "x").returncode == 2


def test_a_file_that_is_gone_before_it_is_read_is_not_taken(tmp_path):
    assert FilesInPlace().claim(Candidate("gone.csv", tmp_path / "gone.csv")) is None
