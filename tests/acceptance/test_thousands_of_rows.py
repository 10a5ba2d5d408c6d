"""A thousand damaged cells in a column end neither `check` nor `run`: both count them as they count 999."""

import json

import pytest

from loadsheet.cli import invoke

MAPPING = """\
mapping: events
version: 1
target: order.status
source:
  files: ["events*.csv"]
  delimiter: [","]
  tables: {rows: {}}
columns:
  order_id: {label: Order, type: text, required: true, key: true}
  exponent: {label: Exponent, type: text}
  rounded: {label: Rounded, type: text, required: true}
  zeros: {label: Zeros, type: text, required: true}
  turned: {label: Turned, type: text, required: true}
  styles: {label: Styles, type: text, required: true}
  garbled: {label: Garbled, type: text, required: true}
  invisible: {label: Invisible, type: text, required: true}
payload:
  order_id: {col: order_id}
  status_name: {col: exponent}
  status_code: {col: rounded}
  status_location: {col: zeros}
  status_description: {col: turned}
  current_location: {col: styles}
  latitude: {col: garbled}
  longitude: {col: invisible}
"""
DAMAGED = ["4.01235E+12", "123456789012345000", "8056", "03-May", "31.12.2026", "MÃ¼ller", "A1\u200b"]
SOUND = ["A", "A", "01067", "A-17", "2026-12-31", "Köln", "A1"]
CODES = {"R221", "R222", "R223", "R224", "R225", "R226", "R228"}


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mappings").mkdir()
    (tmp_path / "inbox").mkdir()
    (tmp_path / "mappings" / "events.yaml").write_text(MAPPING, encoding="utf-8")
    return tmp_path


def write(path, damaged, sound):
    lines = ["Order,Exponent,Rounded,Zeros,Turned,Styles,Garbled,Invisible"]
    lines += [",".join([f"O{number}", *SOUND]) for number in range(sound)]
    lines += [",".join([f"D{number}", *DAMAGED]) for number in range(damaged)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_check_and_run_count_the_rows_of_every_column_warning(house, capsys):
    count = 1_000
    write(house / "events.csv", count, 2 * count)
    assert invoke(["check", "events.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {problem["code"] for problem in told["problems"]} == CODES
    rows = {problem["code"]: problem["values"]["count"] for problem in told["problems"]}
    assert rows == dict.fromkeys(CODES, count) | {"R225": 3 * count}
    for problem in told["problems"]:
        assert f"and {count - 5:,} more" in problem["values"].get("styles", problem["values"]["rows"])
    write(house / "inbox" / "events.csv", count, 10)
    assert invoke(["run", "--settle", "0", "--limit", "9"]) in (0, 1), capsys.readouterr().err
    (path,) = (house / "outbox").glob("*/run.json")
    told = json.loads(path.read_text(encoding="utf-8"))
    assert {cause["code"] for cause in told["causes"] if cause["level"] == "warning"} >= CODES - {"R224"}
    assert invoke(["report"]) == min(told["exit_code"], 1)
