"""Settings name PostgreSQL while the ledger is still a file: every command does nothing but name the one that moves it."""

import databases
import pytest
from month_of_runs import Month
from orders import order_id

from loadsheet.cli import COMMANDS, invoke
from loadsheet.ledger.opening import make
from loadsheet.settings import Settings

STATE = "disk/state"
OPEN_THE_LEDGER = [
    ["run"],
    ["run", "--dry-run"],
    ["watch"],
    ["show", order_id(1)],
    ["runs"],
    ["expected"],
    ["expected", "--suggest"],
    ["report"],
    ["resolve"],
    ["resolve", order_id(1), "--accepted", "--yes"],
    ["retry", "--held"],
    ["retry", "--held", "--dry-run"],
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


def house_in(folder, name):
    """A house with one night behind it, whose settings then name a schema that nobody has used."""
    month = Month(folder, folder / "disk")
    month.drop(1)
    night = month.night(3)
    assert night.exit_code == 0, night.err
    file = folder / "loadsheet.toml"
    place = f'state = "{STATE}"\ndatabase = "{databases.database()}"\ncluster.database_schema = "{name}"'
    text = file.read_text(encoding="utf-8")
    assert f'state = "{STATE}"' in text
    file.write_text(text.replace(f'state = "{STATE}"', place), encoding="utf-8")
    return month


def nothing(_month):
    """Nothing is on the server yet."""


def tables_alone(month):
    """Somebody made the tables, and nobody ran."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(month.folder)
        make(Settings.load().database_url)


def half_a_move(month):
    """The move ended after the copy, before the file gave way."""
    in_the_way = month.folder / STATE / "ledger.db.moving"
    in_the_way.mkdir()
    done = at(month, "ledger", "move", "--yes")
    assert (done.exit_code, "ledger.db.moved cannot be written" in done.err) == (75, True), done
    in_the_way.rmdir()


def at(month, *words):
    return month.command(*words, at=month.moment(3, hour=3, minute=0))


FEW = [["run"], ["show", order_id(1)], ["doctor"], ["ledger", "check"], ["capsule", "make", "last"]]


def kept(folder):
    """What lies in the inbox, the outbox and beside the ledger; a run that fails tells of that in notices and metrics."""
    ledger = (folder / STATE).glob("ledger.db*")
    found = [*(folder / "inbox").rglob("*"), *(folder / "outbox").rglob("*"), *ledger]
    return {str(path.relative_to(folder)): path.stat().st_size for path in found if path.is_file()}


@pytest.mark.parametrize(
    ("way", "commands"),
    [(nothing, FEW), (tables_alone, FEW), (half_a_move, OPEN_THE_LEDGER)],
    ids=["nothing", "tables_alone", "half_a_move"],
)
def test_every_command_names_the_one_that_moves_the_ledger_and_that_moves_it(tmp_path, way, commands):
    house = house_in(tmp_path, f"moved_{way.__name__}")
    way(house)
    before = kept(house.folder)
    for words in commands:
        done = at(house, *words)
        assert "loadsheet ledger move" in " ".join((done.out + done.err).split()), (words, done)
        assert done.exit_code == (FINDINGS if words[0] == "doctor" else 78), (words, done)
        assert kept(house.folder) == before, words
    moved = at(house, "ledger", "move", "--yes")
    shown = at(house, "show", order_id(1))
    house.close()
    assert moved.exit_code == 0, moved.err
    assert (shown.exit_code, "accepted" in shown.out) == (0, True), shown


def test_no_command_is_left_out():
    assert set(COMMANDS) <= {words[0] for words in OPEN_THE_LEDGER} | OPEN_NONE | OF_ALL_SHIPPERS
    assert invoke(["--help"]) == 0
