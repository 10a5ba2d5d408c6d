"""The whole way with the real command, a real socket and real files: spreadsheets in, a balanced report out."""

import csv
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from orders import MAPPINGS, order_id, write_orders
from serving import exchange
from warm import loadsheet

ROOT = Path(__file__).parents[2]


@pytest.fixture
def house(tmp_path):
    """A folder with an inbox of 12 orders, one of them wrong, and a mapping for them."""
    write_orders(tmp_path / "inbox", 12, first=1, wrong_every=5)
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    return tmp_path


def run(folder, *words, **more):
    return loadsheet(folder, "run", "--settle", "0", *words, **more)


def run_json(folder):
    (latest, *_) = sorted((folder / "outbox").glob("*/run.json"), reverse=True)
    return json.loads(latest.read_text(encoding="utf-8"))


def results(folder, name):
    (path, *_) = sorted((folder / "outbox").glob(f"*/{name}.results.csv"), reverse=True)
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def states(folder):
    with sqlite3.connect(folder / ".loadsheet" / "ledger.db") as ledger:
        found = dict(ledger.execute("select key, state from entries order by id").fetchall())
    ledger.close()
    return found


def test_a_first_run_sends_what_is_right_and_says_what_is_wrong(house):
    done = run(house)
    assert done.returncode == 1, done.stderr
    assert sorted(states(house).values()) == ["accepted"] * 10 + ["invalid"] * 2
    rows = results(house, "packages.csv")
    assert len(rows) == 36
    wrong = [row for row in rows if row["outcome"] == "invalid"]
    assert len(wrong) == 6
    assert any("heavy" in row["problem"] for row in wrong)
    assert {row["outcome"] for row in results(house, "orders.csv")} == {"accepted", "invalid"}
    assert run_json(house)["balance"]["balances"] is True
    assert not list((house / "inbox").rglob("*.csv"))


def test_the_original_bytes_are_archived(house):
    before = (house / "inbox" / "orders.csv").read_bytes()
    run(house)
    (kept,) = (house / ".loadsheet" / "archive").rglob("orders.csv")
    assert kept.read_bytes() == before


def test_the_same_files_again_send_nothing(house):
    run(house)
    write_orders(house / "inbox", 12, first=1, wrong_every=5)
    again = run(house)
    assert again.returncode == 1
    counts = run_json(house)["entries"]
    assert counts.get("accepted", 0) == 0
    assert counts["unchanged"] == 10


def test_a_changed_order_is_held_and_the_differing_fields_are_named(house):
    run(house)
    write_orders(house / "inbox", 12, first=1)
    text = (house / "inbox" / "orders.csv").read_text(encoding="utf-8").replace("Hauptstraße 1,", "Nebenstraße 1,")
    (house / "inbox" / "orders.csv").write_text(text, encoding="utf-8")
    assert run(house).returncode == 1
    assert run_json(house)["entries"] == {"accepted": 2, "held": 1, "unchanged": 9}
    shown = loadsheet(house, "show", order_id(1))
    assert 'delivery_address1 "Hauptstraße 1" -> "Nebenstraße 1"' in shown.stdout


def test_a_file_without_mapping_is_set_aside_with_the_reason_and_the_others_go_on(house):
    (house / "inbox" / "holiday.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a sheet")
    assert run(house).returncode == 1
    (aside,) = (house / "outbox").rglob("holiday.jpg")
    assert "no mapping" in Path(f"{aside}.why.txt").read_text(encoding="utf-8")
    assert "accepted" in states(house).values()


def test_a_wrong_token_ends_with_77_and_nothing_is_refused(house, tmp_path):
    with exchange(tmp_path / "exchange.db", token="another") as served:
        done = run(house, "--exchange", served.url)
    assert done.returncode == 77, done.stderr
    assert set(states(house).values()) == {"ready", "invalid"}
    assert "token-of-the-tests" not in done.stdout + done.stderr


def test_an_unreachable_exchange_ends_with_75_and_all_is_sent_by_the_next_run(house, tmp_path):
    done = run(house, "--exchange", "http://127.0.0.1:9")
    assert done.returncode == 75, done.stderr
    assert set(states(house).values()) == {"ready", "invalid"}
    with exchange(tmp_path / "exchange.db") as served:
        assert run(house, "--exchange", served.url).returncode == 1
    assert sorted(states(house).values()) == ["accepted"] * 10 + ["invalid"] * 2


def test_an_empty_inbox_is_a_clean_run(tmp_path):
    (tmp_path / "inbox").mkdir()
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def stuck(tmp_path):
    """A folder with orders in the inbox whose packages have not come."""
    write_orders(tmp_path / "inbox", 2)
    (tmp_path / "inbox" / "packages.csv").unlink()
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    return tmp_path


def test_a_file_too_large_to_be_taken_needs_someone_and_stands_in_the_reports(stuck):
    limit = {"LOADSHEET_FILE_BYTES_MAX": "10"}
    foretold = json.loads(run(stuck, "--dry-run", "--json", **limit).stdout)
    done = run(stuck, "--quiet", **limit)
    assert (foretold["exit_code"], done.returncode) == (1, 1), done.stderr
    assert "A108 error" in done.stderr
    assert "1 file is stuck in the inbox" in done.stdout
    told = run_json(stuck)
    assert (told["exit_code"], told["balance"]["balances"]) == (1, True)
    (one,) = told["inbox"]["files"]
    assert (told["inbox"]["stuck"], one["file"], one["code"], one["level"]) == (1, "orders.csv", "A108", "error")
    assert one["say"].endswith(
        "at most 10 are taken (file_bytes_max); it stays where it is (split it, or raise the limit)"
    )
    (page,) = (stuck / "outbox").glob("*/run.html")
    left = page.read_text(encoding="utf-8").partition("Left in the inbox")[2]
    assert "orders.csv" in left
    assert "at most 10 are taken" in left
    before = (page.parent / "run.json").read_bytes(), page.read_bytes()
    assert loadsheet(stuck, "report").returncode == 0
    assert ((page.parent / "run.json").read_bytes(), page.read_bytes()) == before


def test_a_companion_needs_someone_when_it_is_overdue_and_nobody_before(stuck):
    for words in (("--json",), ("--dry-run", "--json")):
        waits, overdue = run(stuck, *words), run(stuck, *words, LOADSHEET_COMPANION_WAIT_S="0.001")
        assert (waits.returncode, overdue.returncode) == (0, 1), words
        assert "A103 warning" in waits.stderr, words
        assert "A111 error" in overdue.stderr, words
    assert run(stuck, "--quiet").stderr == ""
    assert run_json(stuck)["inbox"]["stuck"] == 0
    assert [one["code"] for one in run_json(stuck)["inbox"]["files"]] == ["A103"]


def test_a_file_that_is_not_finished_yet_needs_nobody(stuck):
    done = run(stuck, LOADSHEET_DONE_MARKER="{name}.done")
    assert done.returncode == 0, done.stderr
    assert "A107 warning" in done.stderr
    told = run_json(stuck)["inbox"]
    assert (told["stuck"], [one["code"] for one in told["files"]]) == (0, ["A107"])


def test_files_with_a_header_and_no_row_are_pointed_out_and_need_nobody(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    write_orders(tmp_path / "inbox", 0)
    files = [tmp_path / "inbox" / name for name in ("orders.csv", "packages.csv")]
    checked = loadsheet(tmp_path, "check", *files)
    assert (checked.returncode, "0 errors, 2 warnings" in checked.stderr) == (0, True), checked.stderr
    assert "R239 warning: there is a header and no row below it" in checked.stderr
    foretold = run(tmp_path, "--dry-run")
    assert (foretold.returncode, foretold.stdout.count("R239 warning")) == (0, 2), foretold.stdout
    done = run(tmp_path)
    assert (done.returncode, "2 x R239 Only a header (warning), first at orders.csv" in done.stdout) == (0, True)
    (told,) = [one for one in run_json(tmp_path)["problems"] if one["code"] == "R239"]
    assert (told["level"], told["count"], told["places"]) == ("warning", 2, ["orders.csv", "packages.csv"])


def test_what_waits_for_its_companion_is_no_error_of_a_check(stuck):
    checked = loadsheet(stuck, "check", stuck / "inbox" / "orders.csv")
    assert (checked.returncode, "A103 warning" in checked.stderr) == (0, True)


def test_no_usable_row_in_any_file_ends_with_65(tmp_path):
    write_orders(tmp_path / "inbox", 3, wrong_every=1)
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    assert run(tmp_path).returncode == 65


def test_a_wrong_mapping_ends_with_78_and_touches_no_file(house):
    path = house / "mappings" / "bench-join.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("delivery_city:", "delivery_ciy:"), encoding="utf-8")
    done = run(house)
    assert done.returncode == 78
    assert "delivery_city" in done.stderr
    assert "bench-join.yaml" in done.stderr
    assert (house / "inbox" / "orders.csv").exists()


def test_wrong_settings_end_with_78_and_wrong_words_with_2(house):
    (house / "loadsheet.toml").write_text("conections = 3\n", encoding="utf-8")
    done = run(house)
    assert done.returncode == 78
    assert "did you mean connections" in done.stderr
    assert loadsheet(house, "run", "--colour").returncode == 2


def test_check_prints_payloads_and_sends_nothing(house):
    done = loadsheet(house, "check", "inbox/orders.csv", "inbox/packages.csv", "--payloads")
    assert done.returncode == 1, done.stderr
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(documents) == 10
    assert documents[0]["operation"] == "order.create"
    assert documents[0]["key"] == order_id(1)
    assert documents[0]["payload"]["order_id"] == order_id(1)
    assert documents[0]["rows"][0] == {"file": "orders.csv", "sheet": "", "row": 2}
    assert "heavy" in done.stderr
    assert not (house / ".loadsheet").exists()


def test_output_is_json_on_wish(house):
    told = json.loads(run(house, "--json").stdout)
    assert told["entries"] == {"accepted": 10, "invalid": 2}
    listed = json.loads(loadsheet(house, "runs", "--json").stdout)
    assert listed[0]["exit_code"] == 1
    (shown,) = json.loads(loadsheet(house, "show", order_id(1), "--json").stdout)
    assert shown["state"] == "accepted"
    assert [event["after"] for event in shown["events"]] == ["ready", "sending", "accepted"]


def test_doctor_finds_everything_in_place_and_says_what_is_not(house):
    assert loadsheet(house, "doctor").returncode == 0
    done = loadsheet(house, "doctor", "--exchange", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stdout
