"""Nights on SQLite, the move, and nights on PostgreSQL: every command says of the ledger there what it says of a file. Until the
move is complete, every command does nothing but name the one that moves it.
"""

import json
from collections import Counter

import databases
import ledgers
import pytest
import ready_entries
from month_of_runs import Month
from orders import order_id

from loadsheet.cli import COMMANDS, invoke
from loadsheet.ledger.ledger_opening import make
from loadsheet.settings import Settings

FOLDER = "disk/state"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A house whose ledger was moved after its first night, and whose second night was on the server."""
    folder = tmp_path_factory.mktemp("house")
    month = Month(folder, folder / "disk")
    month.url = databases.database()
    month.schema = databases.new_name()  # xdist may make this fixture twice in one process
    month.drop(2, wrong_every=4)
    first = month.night(3)
    assert first.exit_code == 1, first.err
    use_server(month)
    month.refused = [at(month, 3, *words) for words in (["run"], ["run", "--dry-run"], ["doctor"])]
    month.moved = at(month, 3, "ledger", "move", "--yes")
    month.drop(3)
    month.second = month.night(4)
    yield month
    month.close()


def use_server(month):
    file = month.folder / "loadsheet.toml"
    place = f'state = "{FOLDER}"\ndatabase = "{month.url}"\ncluster.database_schema = "{month.schema}"'
    file.write_text(file.read_text(encoding="utf-8").replace(f'state = "{FOLDER}"', place), encoding="utf-8")


def at(month, day, *words):
    return month.command(*words, at=month.moment(day, hour=3, minute=0))


@pytest.fixture
def command(house):
    def said(*words):
        return at(house, 4, *words)

    said.house = house
    return said


def test_nothing_is_begun_anew_beside_a_file_that_knows_what_was_sent(house):
    run, dry, doctor = house.refused
    assert (run.exit_code, dry.exit_code, doctor.exit_code) == (78, 78, 1)
    for said in (run.err, dry.err, doctor.out):
        assert "move it there with `loadsheet ledger move`" in said


def test_the_move_says_what_it_moved_and_what_is_left(house, command):
    assert house.moved.exit_code == 0, house.moved.err
    assert "1 runs, 4 entries, 0 decisions; the file is kept as" in house.moved.out
    assert "whose own tools make the backups" in house.moved.err
    (again,) = json.loads(command("ledger", "move", "--yes", "--json").out)
    assert again["rows"] == {}
    file = house.folder / "loadsheet.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("database = ", "# database = "), encoding="utf-8")
    try:
        refused = command("run")
    finally:
        file.write_text(text, encoding="utf-8")
    assert refused.exit_code == 78
    assert "was moved to postgresql://" in refused.err


def test_what_was_sent_from_the_file_is_not_sent_again(house, command):
    assert house.second.exit_code == 0, house.second.err
    sent = order_id(1)
    before = json.loads(command("pull", "orders", "--json").out)
    house.first = 0
    house.drop(4)
    again = house.night(5)
    assert again.exit_code in (0, 1), again.err
    listed = json.loads(command("pull", "orders", "--json").out)
    ids = Counter(record["order_id"] for record in records(listed))
    assert sent in ids
    assert set(ids.values()) == {1}
    assert len(records(listed)) >= len(records(before))


def records(told):
    return next(value for value in told.values() if isinstance(value, list)) if isinstance(told, dict) else told


SAID = [
    (["runs"], 0, "2026-03-03-01"),
    (["show", order_id(1)], 0, "accepted"),
    (["report", "--run", "2026-03-03-01"], 1, " rows accounted for"),
    (["resolve"], 0, "nothing is unknown"),
    (["retry", "--refused", "--dry-run"], 1, "no matching entry is refused or held"),
    (["retry", "--held"], 1, "no matching entry is refused or held"),
    (["expected"], 0, "orders"),
    (["run", "--dry-run"], 0, "Nothing was moved, stored or sent"),
    (["ledger", "check"], 0, "whose own tools make the backups"),
    (["ledger", "backup"], 2, "whose own tools make the backups"),
    (["ledger", "vacuum"], 2, "which vacuums automatically"),
    (["ledger", "restore", "x", "--yes"], 2, "restore with pg_restore"),
    (["ledger", "restore", "x"], 2, "restore with pg_restore"),  # nothing is asked first
    (["ledger", "export", "--to", "exported"], 0, "entries.parquet"),
    (["config", "--all"], 0, "database_schema"),
    (["doctor"], 1, "intact"),
    (["doctor", "--quick"], 1, "can be opened"),
    (["ledger", "check", "--json"], 0, '"ok":true'),
]


def test_every_command_works_on_it(command):
    for words, code, said in SAID:
        done = command(*words)
        assert done.exit_code == code, (words, done.err)
        assert said in done.out + done.err, words


def test_a_key_is_forgotten_there(command):
    told = command("ledger", "forget", order_id(2))
    assert "old versions of changed rows on the server" in told.out
    assert "ledger.db.moved-" in told.out  # what the ledger was before it was moved is a copy of it
    done = command("ledger", "forget", order_id(2), "--yes", "--because", "asked to", "--backups")
    assert (done.exit_code, "gone:" in done.out) == (0, True), done.err
    assert "moved-" not in " ".join(path.name for path in command.house.folder.glob(f"{FOLDER}/ledger.db.moved-*"))
    assert command("ledger", "check").exit_code in (0, 1)


def test_a_night_there_goes_into_a_capsule(command):
    for words in (["make", "2026-03-04-01", "--to", "night.capsule.zip"], ["verify", "night.capsule.zip"]):
        done = command("capsule", *words)
        assert done.exit_code == 0, done.err


def test_a_password_is_never_shown(house, command):
    file = house.folder / "loadsheet.toml"
    text = file.read_text(encoding="utf-8")
    for url in ("postgresql://anna:s3cret@127.0.0.1:1/db", "postgresql://anna@127.0.0.1:1/db?password=s3cret"):
        file.write_text(text.replace(house.url, url), encoding="utf-8")
        try:
            for words in (
                ["config", "--all", "--origin"],
                ["config", "--json"],
                ["doctor", "--quick"],
                ["run"],
                ["runs"],
            ):
                done = command(*words)
                assert "s3cret" not in done.out + done.err, words
        finally:
            file.write_text(text, encoding="utf-8")


def test_who_may_not_make_a_schema_is_told_so(house, command):
    databases.ask("create role guest login")
    file = house.folder / "loadsheet.toml"
    text = file.read_text(encoding="utf-8")
    guest = text.replace("postgres@/", "guest@/").replace(f'"{house.schema}"', '"other"')
    file.write_text(guest, encoding="utf-8")
    try:
        doctor, run = command("doctor", "--quick"), command("run")
    finally:
        file.write_text(text, encoding="utf-8")
    assert "may not create the schema" in doctor.out
    assert (run.exit_code, "permission denied" in run.err) == (70, True)


def test_the_ledgers_of_all_shippers_move_in_one_go(tmp_path, monkeypatch, capsys):
    """One that cannot keeps no other back."""
    text = f'database = "{databases.database()}"\ncluster.database_schema = "many"\n[shippers.anna]\n[shippers.bert]\n[shippers.carl]\n'
    (tmp_path / "loadsheet.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, count in (("anna", 2), ("bert", 3)):
        with ledgers.ledger_in(Settings.load(shipper=name).state) as ledger:
            ready_entries.orders(ledger, ledger.begin_run(), count)
    assert invoke(["ledger", "move", "--yes", "--json"]) == 78
    said = capsys.readouterr()
    assert {one["shipper"]: one["rows"]["entries"] for one in json.loads(said.out)} == {"anna": 2, "bert": 3}
    assert "carl: there is no ledger" in said.err
    for name, count in (("anna", 2), ("bert", 3)):
        assert databases.ask(f"select count(*) from many_{name}.entries") == [(count,)]
        assert invoke(["runs", "--shipper", name]) == 0
    assert invoke(["ledger", "move", "--yes", "--shipper", "anna"]) == 0
    assert "was already moved to" in capsys.readouterr().out


# settings that name PostgreSQL while the ledger is still a file

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
OPEN_NONE = {"init", "demo", "check", "explain", "pull", "config", "mapping", "exchange", "deploy"}
OF_ALL_SHIPPERS = {"worker", "workers"}  # they look at what all ledgers of a server share
FINDINGS = 1  # with which the doctor ends, who goes on to other things


FEW = [["run"], ["show", order_id(1)]]


def kept(folder):
    """What lies in the inbox, the outbox and beside the ledger; a run that fails tells of that in notices and metrics."""
    ledger = (folder / FOLDER).glob("ledger.db*")
    found = [*(folder / "inbox").rglob("*"), *(folder / "outbox").rglob("*"), *ledger]
    return {str(path.relative_to(folder)): path.stat().st_size for path in found if path.is_file()}


def all_name_the_move(house, commands):
    before = kept(house.folder)
    for words in commands:
        done = at(house, 3, *words)
        assert "loadsheet ledger move" in " ".join((done.out + done.err).split()), (words, done)
        assert done.exit_code == (FINDINGS if words[0] == "doctor" else 78), (words, done)
        assert kept(house.folder) == before, words


@pytest.mark.journey
def test_every_command_names_the_one_that_moves_the_ledger_and_that_moves_it(tmp_path, monkeypatch):
    house = Month(tmp_path, tmp_path / "disk")
    house.drop(1)
    night = house.night(3)
    assert night.exit_code == 0, night.err
    house.url, house.schema = databases.database(), "pending"
    use_server(house)
    all_name_the_move(house, FEW)  # nothing is on the server yet
    monkeypatch.chdir(tmp_path)
    make(Settings.load().database_url)
    all_name_the_move(house, FEW)  # somebody made the tables, and nobody ran
    in_the_way = tmp_path / FOLDER / "ledger.db.moved.new"
    in_the_way.mkdir()
    done = at(house, 3, "ledger", "move", "--yes")
    assert (done.exit_code, "ledger.db.moved cannot be written" in done.err) == (75, True), done
    in_the_way.rmdir()
    all_name_the_move(house, OPEN_THE_LEDGER)  # the move ended after the copy, before the file gave way
    moved = at(house, 3, "ledger", "move", "--yes")
    shown = at(house, 3, "show", order_id(1))
    house.close()
    assert moved.exit_code == 0, moved.err
    assert (shown.exit_code, "accepted" in shown.out) == (0, True), shown


def test_no_command_is_left_out():
    assert set(COMMANDS) <= {words[0] for words in OPEN_THE_LEDGER} | OPEN_NONE | OF_ALL_SHIPPERS
    assert invoke(["--help"]) == 0
