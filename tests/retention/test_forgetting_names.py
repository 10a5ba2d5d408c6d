"""A file name that identifies a forgotten record is gone after real runs: from every file, link and row below the house."""

import json
import zipfile

import pytest
from command_in_process import loadsheet
from workspace import copy_mappings

HEAD = "Order,Name,Street,Postcode,City,Country,Collect,Deliver,Item,Weight,Value\n"
ROW = "AF-{},{},Park Row 3,LS1 5HD,Leeds,GB,2026-03-27 10:00,2026-03-30 09:00,Rug,{},180\n"
STEM = "alder_Okafor"


@pytest.fixture
def house(tmp_path):
    """A house that took a person's file with a wrong row, and a file of others a night later; a copy of its ledger lies elsewhere."""

    def command(*words):
        done = loadsheet(tmp_path, *words, "--state", "state")
        command.said = done.stdout + done.stderr
        return done.returncode

    command.folder = tmp_path
    copy_mappings(tmp_path / "mappings", "alder-parcels")
    drop(tmp_path, f"{STEM}.csv", ROW.format(11, "S. Okafor", 22) + ROW.format(14, "S. Okafor", "heavy"))
    assert run(command) == 1, command.said
    drop(tmp_path, "alder_2026-03-10.csv", ROW.format(12, "Tide House", 6))
    assert run(command) in (0, 1), command.said
    assert command("ledger", "backup", "--to", "elsewhere/copy.db") == 0, command.said
    return command


def drop(folder, name, rows):
    (folder / "inbox").mkdir(exist_ok=True)
    (folder / "inbox" / name).write_text(HEAD + rows, encoding="utf-8")


def run(command):
    words = ("--inbox", "inbox", "--outbox", "outbox", "--mappings", "mappings", "--settle", "0")
    return command("run", *words)


def holding(folder, text):
    """The files and links below a folder whose name, content, packed content or target has a text."""
    found = []
    for path in folder.rglob("*"):
        packed = path.is_file() and zipfile.is_zipfile(path)
        content = [str(path.relative_to(folder)).encode()]
        if path.is_symlink():
            content.append(str(path.readlink()).encode())
        elif packed:
            with zipfile.ZipFile(path) as book:
                content += [book.read(name) for name in book.namelist()]
        elif path.is_file():
            content.append(path.read_bytes())
        found += [str(path.relative_to(folder))] if any(text.encode() in one for one in content) else []
    return found


@pytest.mark.journey
def test_a_name_is_gone_from_every_file_after_forgetting_and_the_copy_elsewhere_is_named(house):
    folder, copy = house.folder, house.folder / "elsewhere" / "copy.db"
    assert len(holding(folder, STEM)) > 10
    words = ("--outbox", "outbox", "--reports", "--backups", "--yes", "--because", "asked to")
    assert house("ledger", "forget", "AF-14", *words) == 0, house.said
    assert f"stays: {STEM}.csv: the name of this file" in house.said
    assert house("ledger", "forget", "AF-11", *words) == 0, house.said
    assert f"gone:  {STEM}.csv: the name of this file becomes forgotten-1.csv" in house.said
    assert f"stays: {copy}: a copy of the ledger, made with `ledger backup --to`: remove it yourself" in house.said
    assert holding(folder, STEM) == ["elsewhere/copy.db"]
    copy.unlink()
    assert house("ledger", "forget", "AF-11", *words) == 0, house.said
    assert "backup --to" not in house.said
    assert "the name of this file" not in house.said
    house("ledger", "check")
    assert "decisions in one chain" in house.said
    assert "original" not in house.said
    for day in sorted(path.stem for path in (folder / "state" / "logs").glob("*.jsonl")):
        house("report", "--run", day, "--outbox", "outbox")
    assert holding(folder, STEM) == []
    told = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("outbox/*/run.json")]
    assert "forgotten-1.csv" in json.dumps(told)
