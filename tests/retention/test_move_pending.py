"""Settings name PostgreSQL while the ledger is still a file: every command does nothing but name the one that moves it."""

import databases
import pytest
from month_of_runs import Month
from orders import order_id

from loadsheet.cli import COMMANDS, invoke
from loadsheet.ledger.ledger_opening import make
from loadsheet.settings import Settings

STATE = "disk/state"
OPEN_THE_LEDGER = [
    ["run"],
    ["run", "--dry-run"],
    ["watch"],
    ["show", order_id(1)],
    ["runs"],
    ["expected"],
    ["report"],
    ["resolve"],
    ["resolve", order_id(1), "--accepted", "--yes"],
    ["retry", "--held"],
    ["doctor"],
    ["doctor", "--quick"],
    ["ledger", "check"],
    ["ledger", "backup"],
    ["ledger", "restore", "copy.db"],
    ["ledger", "vacuum"],
    ["ledger", "export", "--to", "exported"],
    ["ledger", "forget", order_id(1)],
    ["ledger", "forget", order_id(1), "--yes", "--because", "asked to"],
    ["capsule", "make", "last"],
]
OPEN_NONE = {"check", "pull", "config", "mapping", "exchange", "deploy"}
OF_ALL_SHIPPERS = {"worker", "workers"}  # they look at what all ledgers of a server share
FINDINGS = 1  # with which the doctor ends, who goes on to other things


FEW = [["run"], ["show", order_id(1)]]


def use_server(folder):
    """Have the settings name a schema that nobody has used."""
    file = folder / "loadsheet.toml"
    place = f'state = "{STATE}"\ndatabase = "{databases.database()}"\ncluster.database_schema = "pending"'
    text = file.read_text(encoding="utf-8")
    assert f'state = "{STATE}"' in text
    file.write_text(text.replace(f'state = "{STATE}"', place), encoding="utf-8")


def at(month, *words):
    return month.command(*words, at=month.moment(3, hour=3, minute=0))


def kept(folder):
    """What lies in the inbox, the outbox and beside the ledger; a run that fails tells of that in notices and metrics."""
    ledger = (folder / STATE).glob("ledger.db*")
    found = [*(folder / "inbox").rglob("*"), *(folder / "outbox").rglob("*"), *ledger]
    return {str(path.relative_to(folder)): path.stat().st_size for path in found if path.is_file()}


def all_name_the_move(house, commands):
    before = kept(house.folder)
    for words in commands:
        done = at(house, *words)
        assert "loadsheet ledger move" in " ".join((done.out + done.err).split()), (words, done)
        assert done.exit_code == (FINDINGS if words[0] == "doctor" else 78), (words, done)
        assert kept(house.folder) == before, words


@pytest.mark.journey
def test_every_command_names_the_one_that_moves_the_ledger_and_that_moves_it(tmp_path, monkeypatch):
    house = Month(tmp_path, tmp_path / "disk")
    house.drop(1)
    night = house.night(3)
    assert night.exit_code == 0, night.err
    use_server(tmp_path)
    all_name_the_move(house, FEW)  # nothing is on the server yet
    monkeypatch.chdir(tmp_path)
    make(Settings.load().database_url)
    all_name_the_move(house, FEW)  # somebody made the tables, and nobody ran
    in_the_way = tmp_path / STATE / "ledger.db.moved.new"
    in_the_way.mkdir()
    done = at(house, "ledger", "move", "--yes")
    assert (done.exit_code, "ledger.db.moved cannot be written" in done.err) == (75, True), done
    in_the_way.rmdir()
    all_name_the_move(house, OPEN_THE_LEDGER)  # the move ended after the copy, before the file gave way
    moved = at(house, "ledger", "move", "--yes")
    shown = at(house, "show", order_id(1))
    house.close()
    assert moved.exit_code == 0, moved.err
    assert (shown.exit_code, "accepted" in shown.out) == (0, True), shown


def test_no_command_is_left_out():
    assert set(COMMANDS) <= {words[0] for words in OPEN_THE_LEDGER} | OPEN_NONE | OF_ALL_SHIPPERS
    assert invoke(["--help"]) == 0
