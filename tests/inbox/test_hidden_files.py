"""Files whose names begin with a dot are left out, and named in the first run that sees them."""

import json

from monitored_runs import house

from loadsheet.inbox import peek, quick_scan
from loadsheet.inbox.scanner import scan
from loadsheet.settings import Settings


def place(folder):
    (folder / "inbox" / "sub").mkdir(parents=True)
    return Settings(inbox=folder / "inbox", outbox=folder / "outbox", state=folder / "state", settle_s=0)


def hidden_in(found):
    return [problem.values["names"] for problem in found.left if problem.code == "A118"]


def test_hidden_files_are_named_once(tmp_path):
    chosen = place(tmp_path)
    for name in (".orders.csv", "sub/.late.csv"):
        (chosen.inbox / name).write_bytes(b"x")
    assert hidden_in(peek(chosen)) == [".orders.csv, sub/.late.csv"]
    assert hidden_in(quick_scan(chosen)) == []
    assert hidden_in(scan(chosen)) == [".orders.csv, sub/.late.csv"]
    assert hidden_in(scan(chosen)) == hidden_in(quick_scan(chosen)) == hidden_in(peek(chosen)) == []
    (chosen.inbox / ".next.csv").write_bytes(b"x")
    quick_scan(chosen)
    assert hidden_in(scan(chosen)) == [".next.csv"]


def test_empty_hidden_files_and_those_of_programs_are_not_named(tmp_path):
    chosen = place(tmp_path)
    (chosen.inbox / ".gitkeep").write_bytes(b"")
    for name in (".DS_Store", "._orders.csv", ".~lock.orders.xlsx#", ".orders.csv.part"):
        (chosen.inbox / name).write_bytes(b"x")
    (chosen.inbox / ".folder").mkdir()
    assert scan(chosen).left == ()


def test_many_hidden_files_are_one_line(tmp_path):
    chosen = place(tmp_path)
    for number in range(12):
        (chosen.inbox / f".{number:02}.csv").write_bytes(b"x")
    (names,) = hidden_in(scan(chosen))
    assert names.endswith(".09.csv and 2 more")


def test_a_run_names_a_hidden_file_and_ends_well(tmp_path):
    with house(tmp_path) as home:
        (home.settings.inbox / ".orders.csv").write_bytes(b"Order\n")
        result = home.night(2, first=1)
        told = json.loads((result.reports.folder / "run.json").read_bytes())
        assert (result.exit_code, told["inbox"]["stuck"], told["inbox"]["files"][0]["code"]) == (0, 0, "A118")
        assert ".orders.csv" in told["inbox"]["files"][0]["say"]
        home.clock.go_on(days=1)
        result = home.night(2, first=1)
        assert json.loads((result.reports.folder / "run.json").read_bytes())["inbox"]["files"] == []
