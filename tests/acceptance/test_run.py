"""The whole way with the real command, a real socket and real files: spreadsheets in, a balanced report out."""

import io
import json
import os
import re
import shutil
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import ANY

import orders
import pytest
from command_in_process import Terminal
from exchange_process import exchange
from faulty_exchange import misbehaving
from openpyxl import load_workbook
from openpyxl.styles import Font
from orders import order_id
from workspace import SMALL

from loadsheet.cli import invoke
from loadsheet.ledger import open_ledger

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def house(workspace):
    """An inbox of 12 orders, two of them wrong."""
    workspace.write_orders(12, first=1, wrong_every=5)
    return workspace


@pytest.fixture
def stuck(workspace):
    """Orders in the inbox whose packages have not come."""
    workspace.write_orders(2)
    (workspace.inbox / "packages.csv").unlink()
    return workspace


def test_runs_over_one_inbox_send_what_is_right_once_and_say_what_is_wrong(house):
    before = (house.inbox / "orders.csv").read_bytes()
    (house.inbox / "holiday.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a sheet")
    done = house.run("--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["entries"], told["balance"]["balances"]) == ({"accepted": 10, "invalid": 2}, True)
    assert sorted(house.states().values()) == ["accepted"] * 10 + ["invalid"] * 2
    wrong = [row["problem"] for row in house.results("packages.csv") if row["outcome"] == "invalid"]
    assert (len(house.results("packages.csv")), len(wrong), "heavy" in "".join(wrong)) == (36, 6, True)
    assert {row["outcome"] for row in house.results("orders.csv")} == {"accepted", "invalid"}
    assert not list(house.inbox.rglob("*.csv"))
    (kept,) = (house.state / "archive").rglob("orders.csv")
    assert kept.read_bytes() == before
    (aside,) = house.outbox.rglob("holiday.jpg")
    assert "no mapping" in Path(f"{aside}.why.txt").read_text(encoding="utf-8")
    (shown,) = json.loads(house.command("show", order_id(1), "--json").stdout)
    assert [event["after"] for event in shown["events"]] == ["ready", "sending", "accepted"]
    house.write_orders(12, first=1, wrong_every=5)
    assert house.run().returncode == 1, "the two are still wrong"
    counts = house.run_json()["entries"]
    assert (counts.get("accepted", 0), counts["unchanged"]) == (0, 10)
    house.write_orders(12, first=1)
    house.edit("inbox/orders.csv", "Hauptstraße 1,", "Nebenstraße 1,")
    assert house.run().returncode == 1
    assert house.run_json()["entries"] == {"accepted": 2, "held": 1, "unchanged": 9}
    shown = house.command("show", order_id(1)).stdout
    assert 'delivery_address1 "Hauptstraße 1" -> "Nebenstraße 1"' in shown
    assert [run["exit_code"] for run in json.loads(house.command("runs", "--json").stdout)] == [1, 1, 1]


def test_a_refused_token_and_an_unreachable_exchange_leave_all_to_a_later_run(house, tmp_path):
    with exchange(tmp_path / "another.db", token="another") as served:
        refused = house.run("--exchange", served.url)
    assert refused.returncode == 77, refused.stderr
    assert "replace the token (from LOADSHEET_TOKEN or the settings file), then run again" in refused.stderr
    assert "token-of-the-tests" not in refused.stdout + refused.stderr
    unreachable = house.run("--exchange", NOBODY, LOADSHEET_DISPATCH__UNREACHABLE_MAX="2")
    assert unreachable.returncode == 75, unreachable.stderr
    assert set(house.states().values()) == {"ready", "invalid"}
    with exchange(tmp_path / "exchange.db") as served:
        assert house.run("--exchange", served.url).returncode == 1, "two are wrong"
    assert sorted(house.states().values()) == ["accepted"] * 10 + ["invalid"] * 2


def test_the_next_step_after_a_refused_token_is_another_token(workspace, tmp_path):
    workspace.write_orders(1)
    with exchange(tmp_path / "another.db", token="another") as served:
        refused = workspace.run("--exchange", served.url)
    assert (refused.returncode, "→ Send them: put in the new token, then loadsheet run" in refused.stdout) == (77, True)


def test_what_waits_for_its_order_stays_ready_while_nobody_can_be_asked_for_it(house, tmp_path):
    for file in house.inbox.iterdir():
        file.unlink()
    house.add("events")
    house.drop("events.csv", "Order,Code,At\nSO-1,DEP,2026-03-01 10:00\n")
    with exchange(tmp_path / "another.db", token="another") as served:
        assert house.run("--exchange", served.url).returncode == 77
    unreachable = house.run("--exchange", NOBODY, LOADSHEET_DISPATCH__UNREACHABLE_MAX="2")
    assert unreachable.returncode == 75, unreachable.stderr
    assert "waits for its order" not in unreachable.stdout
    assert set(house.states().values()) == {"ready"}
    with exchange(tmp_path / "exchange.db") as served:
        assert house.run("--exchange", served.url).returncode == 1
    assert set(house.states().values()) == {"held"}


def test_a_terminal_shows_what_a_run_is_doing(workspace, monkeypatch):
    workspace.write_orders(2)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("LOADSHEET_READING__PROCESS", "none")
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as terminal, redirect_stdout(io.StringIO()):
        assert invoke(["run", "--settle", "0"]) == 0
    titles = re.findall(r"\x1b\[2K([a-z .]+) \x1b", terminal.getvalue())
    assert [*dict.fromkeys(titles)] == [
        *("preparing", "looking up earlier calls", "waiting for complete files", "reading orders.csv"),
        *("sending", "reconciling", "writing reports"),
    ]


def test_an_empty_inbox_and_files_without_a_row_need_nobody(workspace):
    done = workspace.run()
    assert done.returncode == 0, done.stderr
    workspace.write_orders(0)
    checked = workspace.command("check", "inbox/orders.csv", "inbox/packages.csv")
    assert (checked.returncode, "0 errors, 2 warnings" in checked.stdout) == (0, True), checked.stderr
    assert "R239 warning: there is a header but no row below it" in checked.stdout
    foretold = workspace.run("--dry-run")
    assert (foretold.returncode, foretold.stdout.count("R239 warning")) == (0, 2), foretold.stdout
    done = workspace.run()
    assert (done.returncode, "2x only a header (R239, warning)   e.g. orders.csv" in done.stdout) == (0, True)
    (told,) = [one for one in workspace.run_json()["problems"] if one["code"] == "R239"]
    assert (told["level"], told["count"], told["places"]) == ("warning", 2, ["orders.csv", "packages.csv"])


def test_a_hard_link_in_an_inbox_of_others_needs_someone(stuck):
    secret = stuck / "secret.csv"
    (stuck.inbox / "orders.csv").rename(secret)
    (stuck.inbox / "orders.csv").hardlink_to(secret)
    stuck.inbox.chmod(0o770)
    done = stuck.run("--quiet")
    assert done.returncode == 1, done.stderr
    assert "A117 error" in done.stderr
    assert (stuck.inbox / "orders.csv").samefile(secret)


def test_a_file_too_large_to_be_taken_needs_someone_and_stands_in_the_reports(stuck):
    stuck.variables["LOADSHEET_ARRIVAL__FILE_BYTES_MAX"] = "10"
    foretold = json.loads(stuck.run("--dry-run", "--json").stdout)
    done = stuck.run("--quiet")
    assert (foretold["exit_code"], done.returncode) == (1, 1), done.stderr
    assert "A108 error" in done.stderr
    assert "1 file is stuck in the inbox" in done.stdout
    told = stuck.run_json()
    assert (told["exit_code"], told["balance"]["balances"]) == (1, True)
    (one,) = told["inbox"]["files"]
    assert (told["inbox"]["stuck"], one["file"], one["code"], one["level"]) == (1, "orders.csv", "A108", "error")
    assert one["say"].endswith(
        "the limit is 10 (arrival.file_bytes_max); it stays in the inbox (split it, or raise the limit)"
    )
    (reports,) = stuck.reports()
    pages = [reports / name for name in ("run.json", "run.html")]
    before = [page.read_bytes() for page in pages]
    left = pages[1].read_text(encoding="utf-8").partition("Left in the inbox")[2]
    assert "orders.csv" in left
    assert "the limit is 10 " in left
    assert stuck.command("report", LOADSHEET_ARRIVAL__FILE_BYTES_MAX="1000").returncode == 1
    assert [page.read_bytes() for page in pages] == before


def test_a_file_that_waits_needs_someone_only_when_its_companion_is_overdue(stuck):
    checked = stuck.command("check", "inbox/orders.csv")
    assert (checked.returncode, "A103 warning" in checked.stdout) == (0, True)
    unfinished = stuck.run(LOADSHEET_ARRIVAL__DONE_MARKER="{name}.done")
    assert (unfinished.returncode, "A107 warning" in unfinished.stderr) == (0, True)
    told = stuck.run_json()["inbox"]
    assert (told["stuck"], [one["code"] for one in told["files"]]) == (0, ["A107"])
    assert stuck.run_json()["headline"]["text"] == "No file was ready: 1 file waits in the inbox"
    for words in (("--json",), ("--dry-run", "--json")):
        waits, overdue = stuck.run(*words), stuck.run(*words, LOADSHEET_ARRIVAL__COMPANION_WAIT_S="0.001")
        assert (waits.returncode, overdue.returncode) == (0, 1), words
        assert "A103 warning" in waits.stderr, words
        assert "A111 error" in overdue.stderr, words
    assert stuck.run("--quiet").stderr == ""
    told = stuck.run_json()["inbox"]
    assert (told["stuck"], [one["code"] for one in told["files"]]) == (0, ["A103"])
    stuck.write_orders(2)
    assert stuck.run().stdout.startswith("✓ All 2 documents were accepted")


def test_no_usable_row_in_any_file_ends_with_65(workspace):
    workspace.write_orders(3, wrong_every=1)
    assert workspace.run().returncode == 65


def test_wrong_mappings_and_settings_end_with_78_and_wrong_words_with_2_and_touch_no_file(house):
    house.edit("mappings/bench-join.yaml", "delivery_city:", "delivery_ciy:")
    done = house.run()
    assert done.returncode == 78
    assert "delivery_city" in done.stderr
    assert "bench-join.yaml" in done.stderr
    (house / "loadsheet.toml").write_text("conections = 3\n", encoding="utf-8")
    done = house.run()
    assert done.returncode == 78
    assert "did you mean dispatch.connections" in done.stderr
    assert house.run("--colour").returncode == 2
    assert house.command("--version").stdout.startswith("loadsheet ")
    (house / "loadsheet.toml").unlink()
    (house / "mappings" / "bench-join.yaml").unlink()  # as if the volume with the mappings were not mounted
    done = house.run()
    assert (done.returncode, "mappings: this folder holds no mapping" in done.stderr) == (78, True)
    assert (house.inbox / "orders.csv").exists()


def test_a_run_beside_another_names_the_process_that_works_and_a_broken_ledger_is_a_fault_in_one_line(house):
    house.state.mkdir()
    ledger = house.state / "ledger.db"
    with open_ledger(f"sqlite:///{ledger}"):
        beside = house.run()
    assert (beside.returncode, f"process {os.getpid()} " in beside.stderr) == (75, True)
    ledger.write_bytes(b"this is not a database, but long enough to be taken for one" * 40)
    done = house.run()
    assert (done.returncode, "Traceback" in done.stderr, ledger.name in done.stderr) == (70, False, True)


def test_runs_can_be_chosen_by_day_file_and_result(workspace):
    workspace.write_orders(1)
    assert workspace.run().returncode == 0
    (workspace.folder / "inbox" / "Wrong.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert workspace.run().returncode == 65
    first, second = (run["run"] for run in reversed(json.loads(workspace.command("runs", "--json").stdout)))

    def listed(*words):
        return [run["run"] for run in json.loads(workspace.command("runs", "--json", *words).stdout)]

    assert listed("--file", "wrong*") == [second]
    assert listed("--file", "*.csv") == [second, first]
    assert listed("--needs-attention") == listed("--outcome", "nothing-usable") == [second]
    assert listed("--outcome", "clean") == [first]
    assert listed("--outcome", "not-finished") == []
    assert listed("--day", first[:10], "--limit", "1") == [second]
    assert listed("--day", "1999-01-01") == []


def test_a_day_is_the_one_that_is_shown(workspace, monkeypatch):
    """Half an hour after midnight in Athens is still the day before in UTC."""
    workspace.write_orders(1)
    assert workspace.run().returncode == 0
    workspace.change("update runs set started_at = '2026-03-04T22:30:00Z'")
    with monkeypatch.context() as east:
        east.setenv("TZ", "Europe/Athens")
        time.tzset()
        runs, no_runs = (workspace.command("runs", "--day", day) for day in ("2026-03-05", "2026-03-04"))
        report, no_report = (workspace.command("report", "--day", day) for day in ("2026-03-05", "2026-03-04"))
    time.tzset()
    assert (runs.returncode, "2026-03-05 00:30" in runs.stdout) == (0, True)
    assert (no_runs.returncode, "no run matches" in no_runs.stderr) == (0, True)
    assert (report.returncode, "(day 2026-03-05)" in report.stdout) == (0, True)
    assert (no_report.returncode, "there was no run on" in no_report.stderr) == (65, True)


def test_show_describes_a_run_and_where_everything_is_with_and_without_its_reports(workspace):
    workspace.write_orders(1)
    printed = workspace.run("--verbose").stdout.splitlines()
    run = workspace.run_json()["run"]
    done = workspace.command("show", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[: len(printed)] == printed
    original = f".loadsheet/archive/{run[:10].replace('-', '/')}/{run}/orders.csv"
    assert f"  original orders.csv: {original}" in done.stdout
    assert "  mapping  bench-join: mappings/bench-join.yaml, read as version 1, hash " in done.stdout
    assert f"  log      {run}: .loadsheet/logs/{run}.jsonl" in done.stdout
    found = json.loads(workspace.command("show", run, "--json").stdout)
    assert (found["run"], found["exit_code"]) == (run, 0)
    assert {"what": "original", "name": "orders.csv", "place": original} in found["places"]
    assert all((workspace / report).is_file() for report in found["reports"])
    shutil.rmtree(workspace.outbox / run)
    done = workspace.command("show", run)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"{run}: The document was accepted")
    assert f"loadsheet report --run {run} writes them again" in done.stderr
    unknown = workspace.command("show", "2026-01-01-01")
    assert (unknown.returncode, unknown.stderr) == (1, "there is no run 2026-01-01-01; `loadsheet runs` lists them\n")


def test_a_file_that_cannot_be_read_names_the_mapping_that_takes_it(house):
    house.edit("inbox/orders.csv", "Order", "Belegnummer")
    house.drop("holiday.jpg", b"not a sheet")
    assert house.run().returncode == 65
    mappings = {file["name"]: drop["mapping"] for drop in house.run_json()["drops"] for file in drop["files"]}
    assert (mappings["holiday.jpg"], mappings["orders.csv"]) == ("", "bench-join")
    (page,) = house.outbox.rglob("run.html")
    assert page.read_text(encoding="utf-8").count("<small>no mapping</small>") == 1
    acks = [json.loads(path.read_text(encoding="utf-8")) for path in house.outbox.rglob("*.ack.json")]
    assert {ack["file"]: ack["mapping"] for ack in acks} == mappings


def test_a_wrong_path_and_a_missing_tls_are_said_with_what_to_do(workspace, tmp_path):
    workspace.write_orders(2, first=1)
    with misbehaving(tmp_path) as served:
        url = served.url
        astray = workspace.run("--exchange", f"{url}/tmsapi/")
        doctor = workspace.command("doctor", "--exchange", f"{url}/tmsapi/")
        https = url.replace("http:", "https:")
        clear = workspace.run("--exchange", https, LOADSHEET_DISPATCH__UNREACHABLE_MAX="1")
    assert astray.returncode == 75
    assert f"check `exchange` ({url}/tmsapi/), to which calls add /tmsapi/" in astray.stderr
    assert "check `exchange`, to which calls add /tmsapi/" in doctor.stdout
    assert (clear.returncode, "(is it http://?)" in clear.stderr) == (75, True)


def test_a_long_pause_that_the_exchange_asks_for_is_said_once(workspace, tmp_path):
    workspace.write_orders(2, first=1)
    busy = {"fault": "status_before_effect", "status": 429, "retry_after": "3600"}
    with misbehaving(tmp_path, {**busy, "operation": "order.create"}) as served:
        done = workspace.run("--exchange", served.url, LOADSHEET_DISPATCH__UNREACHABLE_MAX="1")
    assert done.returncode == 75
    assert len(re.findall(r"^the exchange asks for a pause until \d\d:\d\d$", done.stderr, re.MULTILINE)) == 1


TECHNICAL = re.compile(r"\w+(?:Error|Exception)\b|Errno|urllib3")


def test_a_lost_answer_is_reported_in_plain_words_and_only_the_log_names_the_exception(workspace, tmp_path):
    workspace.write_orders(2, first=1)
    lost = {"fault": "closed_before_effect", "operation": "order.create"}
    with misbehaving(tmp_path, lost) as served:
        done = workspace.run("--exchange", served.url)
    nobody = workspace.run("--exchange", served.url)  # which is gone now
    shown = workspace.command("resolve")
    words = "the exchange closed the connection without an answer"
    results = (workspace.reports()[0] / "orders.csv.results.csv").read_text(encoding="utf-8")
    assert (words in results, words in shown.stdout) == (True, True), (results, shown.stdout)
    assert "connection refused" in nobody.stderr
    read = [path for path in workspace.outbox.rglob("*") if path.suffix in (".csv", ".html", ".json")]
    said = [text for one in (done, nobody, shown) for text in (one.stdout, one.stderr)]
    for text in [*said, *(path.read_text(encoding="utf-8-sig") for path in read)]:
        assert not TECHNICAL.search(text), TECHNICAL.search(text)
    log = "".join(path.read_text(encoding="utf-8") for path in (workspace.state / "logs").iterdir())
    assert "ProtocolError: " in log
    assert "NewConnectionError: [Errno " in log


@pytest.fixture
def four_pairs(workspace):
    """Orders and packages of four days in the inbox, the first day came last."""
    for name in ("orders.csv", "packages.csv"):
        workspace.edit("mappings/bench-join.yaml", f'"{name}"', f'"{{day}}_{name}"')
    for number in (3, 2, 1, 0):
        orders.write_orders(workspace / "coming", 1, first=number)
        for path in sorted((workspace / "coming").iterdir()):
            path.rename(workspace.inbox / f"d{number}_{path.name}")
    return workspace


def left(workspace):
    """The days whose files are still in the inbox, with their number."""
    return dict(Counter(path.name[:2] for path in sorted(workspace.inbox.glob("*.csv"))))


@pytest.mark.parametrize(
    ("setting", "limit", "days"),
    [
        ("RUN_FILES_MAX", 4, ["d0", "d1"]),
        ("RUN_FILES_MAX", 5, ["d0", "d1"]),
        ("RUN_BYTES_MAX", 1, ["d0", "d1", "d2"]),  # files that are read together stay together
        ("RUN_BYTES_MAX", 10**9, []),
    ],
)
def test_the_oldest_files_within_the_limit_are_taken(four_pairs, setting, limit, days):
    """A dry run says what one takes."""
    limited = {f"LOADSHEET_ARRIVAL__{setting}": str(limit)}
    forecast = four_pairs.run("--dry-run", **limited).stdout
    assert ("d3_orders.csv" in forecast, "d0_orders.csv" in forecast) == (True, not days)
    done = four_pairs.run(**limited)
    assert done.returncode == 0
    assert left(four_pairs) == dict.fromkeys(days, 2)
    inbox = four_pairs.run_json()["inbox"]
    assert (inbox["stuck"], inbox["count"]) == (0, 2 * len(days))
    assert ("A119" in done.stderr) is bool(days)
    assert f"files that wait in the inbox: {2 * len(days)}" in done.stderr or not days


def test_the_next_runs_take_what_a_limit_left(four_pairs):
    for _ in range(2):
        assert four_pairs.run(LOADSHEET_ARRIVAL__RUN_FILES_MAX="4").returncode == 0
    assert left(four_pairs) == {}
    assert len(four_pairs.states()) == 4


@pytest.mark.journey
def test_an_old_file_brings_no_deleted_order_back_until_a_person_says_so(workspace):
    workspace.write_orders(2)
    workspace.run()
    deleted, _ = workspace.states()
    workspace.add("order-deletes")
    workspace.drop("deletes.csv", f"Order\n{deleted}\n")
    assert workspace.run().returncode == 0
    workspace.write_orders(2)
    assert workspace.run().returncode == 1
    held = workspace.run_json()
    assert (held["entries"], held["firsts"]) == ({"held": 1, "unchanged": 1}, {"not sent: held": deleted})
    assert f"loadsheet retry {deleted}" in workspace.command("show", deleted).stdout
    workspace.command("retry", deleted, "--comment", "wanted again")
    assert workspace.run().returncode == 0
    assert workspace.states()[deleted] == "accepted"


CHANGES = """\
mapping: changes
version: 1
target: order.update
source: {files: "changes_*.csv"}
columns: {order: {label: Order, required: true}, city: {label: City, required: true}}
payload: {order_id: {col: order}, sender_id: {value: S}, receiver_id: {value: R}, delivery_city: {col: city}}
"""


@pytest.mark.journey
def test_an_old_file_undoes_no_later_change_until_a_person_says_so(workspace):
    workspace.write_orders(2)
    workspace.run()
    first, second = workspace.states()
    (workspace / "mappings" / "changes.yaml").write_text(CHANGES, encoding="utf-8")

    def cities():
        listing = json.loads(workspace.command("pull", "orders", "--json").stdout)
        return {record["order_id"]: record["delivery_city"] for record in listing["results"]}

    old = f"Order,City\n{first},Ulm\n{second},Ulm\n"
    for name, content in (("changes_1.csv", old), ("changes_2.csv", f"Order,City\n{first},Bonn\n")):
        workspace.drop(name, content)
        assert workspace.run().returncode == 0
    workspace.drop("changes_3.csv", old)
    forecast = json.loads(workspace.run("--dry-run", "--json").stdout)
    assert (forecast["records"], forecast["exit_code"]) == ({"held": 1, "unchanged": 1}, 1)
    assert workspace.run().returncode == 1
    held = workspace.run_json()
    assert (held["entries"], held["firsts"]) == ({"held": 1, "unchanged": 1}, {"not sent: held": first})
    assert cities() == {first: "Bonn", second: "Ulm"}
    workspace.command("retry", first, "--comment", "Ulm after all")
    assert workspace.run().returncode == 0
    assert cities() == {first: "Ulm", second: "Ulm"}


@pytest.mark.parametrize(("weights", "code"), [("x2", 0), ("2x", 1), ("xx", 1)])
def test_a_dry_run_foresees_that_a_later_file_corrects_an_earlier_one(workspace, weights, code):
    workspace.use(SMALL)
    workspace.drop_rows(
        *(f"orders_{number}: A-{number},Bonn,1 | A-9,Bonn,{one}" for number, one in enumerate(weights, 1))
    )
    assert workspace.run("--dry-run").returncode == workspace.run().returncode == code


def test_a_dry_run_foresees_that_an_update_is_overtaken_by_an_order_of_a_run_that_a_limit_ended(workspace):
    workspace.use_small("orders", "order-updates")
    workspace.nights("updates: A-1,Ulm")
    workspace.drop_rows("orders: A-1,Bonn,1 | A-2,Bonn,1")
    assert workspace.run("--limit", 1).returncode == 0
    assert [workspace.run(*words).returncode for words in (["--dry-run"], [])] == [1, 1]


def test_rows_that_are_struck_out_are_named_to_the_shipper_and_to_the_operator(workspace):
    """In the results at each of them, in the fix workbook before its rows, and in what the run prints."""
    workspace.use({})
    workspace.add("orders", "orders*.csv", "orders*.xlsx")
    rows = [("Order", "City", "Weight"), *((f"A-{number}", "Ulm", number) for number in (1, 2, 3)), ("A-4", "", 1)]
    book = workspace.drop_book("orders.xlsx", {"Sheet": rows})
    for cell in (*book["Sheet"][3], *book["Sheet"][4]):
        cell.font = Font(strike=True)
    book.save(workspace.inbox / "orders.xlsx")
    done = workspace.run()
    assert "1x struck-out rows are read (R252, warning)   e.g. orders.xlsx:Sheet!3" in done.stdout
    said = [(row["outcome"], row["problem"], row["what to do"]) for row in workspace.results("orders.xlsx")]
    text = "Warning: Rows that are struck out are read like the others: 3, 4 [R252]"
    todo = "If they are not meant to be sent, delete them, and cancel what was already sent"
    struck = ("accepted", text, todo)
    assert said[:3] == [("accepted", "", ""), struck, struck]
    fix = load_workbook(workspace.reports()[-1] / "orders.fix.xlsx")
    read_me = [cell for row in fix["Read me"].iter_rows(values_only=True) for cell in row if "struck" in str(cell)]
    assert read_me == [f"Rows that are struck out are read like the others: 3, 4. {todo}."]


def test_warnings_about_a_sheet_reach_its_shipper(workspace):
    """Beside the row that they are about, or else beside the first one that is not ignored; and in the fix workbook before its rows."""
    text = (SMALL / "orders.yaml").read_text(encoding="utf-8").replace("orders*.csv", "orders*.xlsx")
    workspace.use({"orders": text.replace("rows: {}", "rows: {sheet: Orders, ignore_rows: 'order == \"DRAFT\"'}")})
    head = ("Order", "City", "Weight")
    sent = (("A-1", "Ulm", 1), ("A-2", "Bonn", 2, None, "by noon"), ("Total", "Ulm", 3), ("A-4", "", 1))
    sheets = {"Orders": [head, ("DRAFT", "Ulm", 1), *sent], "Returns": [head, ("A-9", "Kiel", 9)]}
    workspace.drop_book("orders.xlsx", sheets)
    workspace.run()
    said = [(row["outcome"], row["problem"], row["what to do"]) for row in workspace.results("orders.xlsx")]
    sheets = "The mapping does not read other sheets with the same columns: 1 (Returns)"
    into_one = "If their rows are to be sent, put them into the sheet that is read"
    beside = 'Cells beside the table are not read, such as "by noon" (row 4)'
    total = 'A row begins with "Total", like a row of totals (row 5)'
    assert said == [
        ("ignored", "not meant to be sent", ""),
        ("accepted", f"Warning: {sheets} [R245]", into_one),
        ("accepted", f"Warning: E4: {beside} [R247]", ANY),
        ("accepted", f"Warning: A5 Order: {total} [R242]", ANY),
        ("invalid", "B6 City: A value is missing [C301]", "Fill it in"),
    ]
    fix = load_workbook(workspace.reports()[-1] / "orders.fix.xlsx")
    read_me = [str(cell) for row in fix["Read me"].iter_rows(values_only=True) for cell in row]
    assert f"{sheets}. {into_one}." in read_me
    row = next(cell.row for cell in fix["Read me"]["B"] if str(cell.value).startswith(sheets))
    assert fix["Read me"].row_dimensions[row].height > 40, "two lines"
    assert all(any(cell.startswith(f"{text}. ") for cell in read_me) for text in (beside, f"Order: {total}"))
