"""`loadsheet report`: the reports of a run, or of a day, made again by the real command from the ledger."""

import hashlib
import json
import os
import re
import shutil
import stat
from datetime import datetime, timedelta

import jsonschema
import openpyxl
import pytest
from command_processes import shared_nursery
from exchange_process import exchange
from orders import order_id
from workspace import Workspace

from loadsheet.cli import invoke
from loadsheet.ledger import open_ledger


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A folder with a run of 12 orders behind it, one in five wrong."""
    place = Workspace(tmp_path_factory.mktemp("first"))
    place.write_orders(12, first=1, wrong_every=5)
    assert place.run().returncode == 1
    return place


@pytest.fixture
def house(first_run, tmp_path):
    """A copy of it."""
    return Workspace(shutil.copytree(first_run, tmp_path / "house"))


def digests(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def told(house, *words):
    """The run.json that a report prints; it ends as what it shows."""
    done = house.command("report", "--json", *words)
    shown = json.loads(done.stdout)
    assert done.returncode == min(shown["exit_code"], 1), done.stderr
    return shown


def test_the_reports_of_the_last_run_are_made_again_byte_for_byte(house):
    """Also with a fresh look, while nothing changes there, and while a run holds the ledger."""
    folder = house.reports()[-1]
    before = digests(folder)
    assert house.command("report", "--ask").returncode == 1
    assert digests(folder) == before
    with open_ledger(f"sqlite:///{house.state / 'ledger.db'}"):
        assert house.command("runs").returncode == 0
        assert house.command("report").returncode == 1
    assert digests(folder) == before
    shutil.rmtree(folder)
    done = house.command("report", "--run", folder.name)
    assert done.returncode == 1
    assert digests(folder) == before
    assert f"run {folder.name}" in done.stdout
    assert "rows accounted for" in done.stdout


def test_what_changed_since_is_reported_as_it_is_and_not_verifiable(house):
    first = house.reports()[-1].name
    house.write_orders(12, first=1)
    assert house.run().returncode == 0
    again = told(house, "--run", first)
    assert again["run"] == first
    assert again["entries"] == {"invalid": 2, "accepted": 10}
    assert again["verdicts"] == {"matched": 10, "not sent: invalid": 2}
    house.change("update entries set changed_at = '2999-01-01T00:00:00.000Z' where key = ?", order_id(3))
    assert told(house, "--run", first)["verdicts"] == {"matched": 9, "not verifiable": 1, "not sent: invalid": 2}
    assert told(house, "--run", first, "--ask")["verdicts"] == {"matched": 10, "not sent: invalid": 2}


def test_the_runs_of_a_day_are_reported_as_one_with_each_entry_once(house):
    first = house.reports()[-1].name
    house.write_orders(14, first=5)
    assert house.run().returncode in (0, 1)
    second = house.reports()[-1].name
    whole = told(house, "--day", first[:10])
    parts = [told(house, "--run", name) for name in (first, second)]
    assert first != second
    assert whole["run"] == first[:10]
    assert whole["balance"]["balances"] is True
    assert [part["exit_code"] for part in (*parts, whole)] == [1, 0, 0]
    assert whole["balance"]["read"] == sum(part["balance"]["read"] for part in parts)
    for name in ("entries", "verdicts"):
        both = {key: sum(part[name].get(key, 0) for part in parts) for key in whole[name]}
        assert whole[name] == both
    assert [drop["run"] for drop in whole["drops"]] == [first, second]
    folder = house / "outbox" / first[:10]
    assert set(whole["reports"]) <= {path.name for path in digests(folder)}
    book = openpyxl.load_workbook(folder / "reconciliation.xlsx")
    assert first[:10] in book.properties.title
    before = digests(folder)
    assert house.command("report", "--day", first[:10]).returncode == 0
    assert digests(folder) == before


@pytest.mark.parametrize(("last", "open_ones"), [(12, 0), (7, 1)])
def test_what_was_corrected_the_same_day_is_not_open_and_no_record_counts_twice(house, last, open_ones):
    first = house.reports()[-1].name
    house.write_orders(last, first=1)
    house.run()
    whole = told(house, "--day", first[:10])
    assert whole["exit_code"] == min(open_ones, 1)
    assert whole["verdicts"]["not sent: invalid"] == sum(whole["settled"].values()) + open_ones == 2
    assert whole["needs_someone"]["entries"] == open_ones
    assert sum(sum(counts.values()) for counts in whole["records"].values()) == 12
    folder = house / "outbox" / first[:10]
    page = (folder / "run.html").read_text(encoding="utf-8")
    assert ("All 12 orders agree" if not open_ones else "11 of 12 orders agree") in page
    assert len(list(folder.glob("*.fix.xlsx"))) == open_ones
    done = house.command("report", "--day", first[:10])
    assert done.stdout.startswith("✗ 1 of" if open_ones else "✓ 2 documents that needed attention no longer do")
    assert ("to be corrected by the sender" in done.stdout) is bool(open_ones)
    sheet = openpyxl.load_workbook(folder / "reconciliation.xlsx")["Exceptions"]
    assert sum(str(line[0].value).startswith("E-") for line in sheet.iter_rows()) == open_ones


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--run", "2026-03-04-01", "--day", "2026-03-04"], 2, "exclude each other"),
        (["--day", "yesterday"], 2, "not a date; write it as 2026-03-04"),
        (["--run", "2026-03-04"], 2, "write --day 2026-03-04"),
        (["--run", "1999-01-01-01"], 65, "there is no run 1999-01-01-01; `loadsheet runs` lists"),
        (["--day", "1999-01-01"], 65, "there was no run on 1999-01-01"),
        (["--run", "%"], 65, "there is no run %"),
        (["--rum", "1"], 2, "No such option"),
        (["extra"], 2, "unexpected extra argument"),
    ],
)
def test_wrong_usage_says_what_is_wrong(first_run, capsys, words, code, said):
    assert invoke(["report", "--state", str(first_run.state), *words]) == code
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True)


def test_open_gives_the_page_to_the_desktop(house, tmp_path):
    opener = tmp_path / "programs" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    opener.chmod(opener.stat().st_mode | stat.S_IXUSR)
    path = f"{opener.parent}:{os.environ['PATH']}"
    process = shared_nursery().start(house, "report", "--open", PATH=path)
    assert process.wait() == 1, "as its run; the desktop's program goes on"
    opened = (tmp_path / "opened").read_text().strip()
    assert opened.startswith(str(house.reports()[-1]))
    assert opened.endswith(("run.html", "reconciliation.xlsx"))


def test_the_schema_is_published_and_every_run_json_keeps_to_it(house):
    printed = house.command("report", "--schema")
    schema = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    day = house.reports()[-1].name[:10]
    told(house, "--day", day)
    for path in (house / "outbox").glob("*/run.json"):
        jsonschema.validate(json.loads(path.read_bytes()), schema)


def remarked(house, text):
    """The workbook of the last run after an analyst wrote a comment beside the first exception; its path and how to read it."""
    path = house.reports()[-1] / "reconciliation.xlsx"
    book = openpyxl.load_workbook(path)
    column = [cell.value for cell in book["Exceptions"][1]].index("Comment") + 1
    book["Exceptions"].cell(2, column).value = text
    book.save(path)
    return path, lambda: openpyxl.load_workbook(path)["Exceptions"].cell(2, column).value


def test_what_an_analyst_wrote_survives_that_the_workbook_is_written_anew(house):
    path, comment = remarked(house, "called the customer")
    with open_ledger(f"sqlite:///{house.state / 'ledger.db'}"):
        busy = house.command("report")
    assert busy.returncode == 75
    assert comment() == "called the customer"
    assert house.command("report").returncode == 1
    assert comment() == "called the customer"
    path.write_bytes(b"half a workbook")
    assert house.command("report").returncode == 1  # nothing can be read from it, and what was said before is known
    assert comment() == "called the customer"


def test_a_hosted_exchange_is_asked_with_the_token_and_one_that_is_not_there_leaves_the_listings_unread(
    house, tmp_path
):
    with exchange(tmp_path / "other.db") as served:
        asked = told(house, "--ask", "--exchange", served.url)
        assert asked["verdicts"]["missing at exchange" if asked["legs"][0]["complete"] else "not verifiable"] == 10
    unread = told(house, "--ask", "--exchange", "http://127.0.0.1:9")
    assert unread["verdicts"] == {"not verifiable": 10, "not sent: invalid": 2}


def test_the_time_of_a_run_is_that_of_its_reports_too(house):
    house.write_orders(13, first=13)
    printed = float(re.search(r" · ([\d.]+) s     \(run ", house.run().stdout)[1])
    ((name, begin, end, summary),) = house.ask(
        "select name, started_at, finished_at, summary from runs order by id desc limit 1"
    )
    began, ended, reported = map(datetime.fromisoformat, (begin, end, json.loads(summary)["reported_at"]))
    assert reported > ended
    assert printed >= round((reported - began).total_seconds() - 0.1, 1)
    late = (began + timedelta(seconds=225)).isoformat()
    house.change("update runs set summary = json_set(summary, '$.reported_at', ?) where name = ?", late, name)
    for words in (["runs"], ["show", name], ["report", "--run", name]):
        assert "225.0 s" in house.command(*words).stdout, words
