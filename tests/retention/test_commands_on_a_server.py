"""Runs on SQLite, the move, and runs on PostgreSQL: every command says of the ledger there what it says of a file. Until the
move is complete, every command only names the one that moves it.
"""

import json
from contextlib import contextmanager
from functools import partial

import databases
import ledgers
import pytest
import ready_entries
from month_of_runs import Month
from orders import order_id

from loadsheet.cli import COMMANDS, invoke
from loadsheet.ledger.ledger_opening import create_on_server
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
    place = f'state = "{FOLDER}"\ndatabase = "{month.url}"\ncluster.database_schema = "{month.schema}"'
    edit(month, f'state = "{FOLDER}"', place)


def edit(month, *pairs):
    """Replace texts in the settings; returns the settings as they were."""
    file = month.folder / "loadsheet.toml"
    before = text = file.read_text(encoding="utf-8")
    for old, new in pairs if isinstance(pairs[0], tuple) else [pairs]:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    return before


@contextmanager
def edited(month, *pairs):
    """The same while the block lasts."""
    before = edit(month, *pairs)
    try:
        yield
    finally:
        (month.folder / "loadsheet.toml").write_text(before, encoding="utf-8")


def at(month, day, *words):
    return month.command(*words, at=month.moment(day, hour=3, minute=0))


@pytest.fixture
def command(house):
    return partial(at, house, 4)


def test_the_move_says_what_it_moved_and_nothing_is_begun_anew_beside_the_file_that_knows_what_was_sent(house, command):
    run, dry, doctor = house.refused
    assert (run.exit_code, dry.exit_code, doctor.exit_code) == (78, 78, 1)
    for said in (run.err, dry.err, doctor.out):
        assert "move it there with `loadsheet ledger move`" in said
    assert house.moved.exit_code == 0, house.moved.err
    assert "1 runs, 4 entries, 0 decisions; the file is kept as" in house.moved.out
    assert "whose own tools make the backups" in house.moved.err
    (again,) = json.loads(command("ledger", "move", "--yes", "--json").out)
    assert again["rows"] == {}
    with edited(house, "database = ", "# database = "):
        refused = command("run")
    assert refused.exit_code == 78
    assert "was moved to postgresql://" in refused.err


def test_what_was_sent_from_the_file_is_not_sent_again(house, command):
    assert house.second.exit_code == 0, house.second.err
    before = keys(command("pull", "orders", "--json").out)
    house.first = 0
    house.drop(4)
    again = house.night(5)
    assert again.exit_code in (0, 1), again.err
    listed = keys(command("pull", "orders", "--json").out)
    assert order_id(1) in listed
    assert len(set(listed)) == len(listed) >= len(before)


def keys(pulled):
    found = json.loads(pulled)
    records = next(value for value in found.values() if isinstance(value, list)) if isinstance(found, dict) else found
    return [record["order_id"] for record in records]


SAID = f"""
runs => 0 2026-03-03-01
show {order_id(1)} => 0 accepted
report --run 2026-03-03-01 => 1 rows accounted for
resolve => 0 nothing is unknown
retry --refused --dry-run => 1 no matching entry is refused or held
retry --held => 1 no matching entry is refused or held
expected => 0 orders
run --dry-run => 0 Nothing was moved, stored or sent
ledger check => 0 whose own tools make the backups
ledger backup => 2 whose own tools make the backups
ledger vacuum => 2 which vacuums automatically
ledger restore x --yes => 2 restore with pg_restore
ledger restore x => 2 restore with pg_restore
ledger export --to exported => 0 entries.parquet
config --all => 0 database_schema
doctor => 1 intact
doctor --quick => 1 can be opened
ledger check --json => 0 "ok":true
capsule make 2026-03-04-01 --to one.capsule.zip => 0 one.capsule.zip
capsule verify one.capsule.zip => 0 2026-03-04-01
"""


@pytest.mark.sweep
def test_every_command_works_on_it(command):
    for line in SAID.strip().splitlines():
        words, _, expected = line.partition(" => ")
        code, _, said = expected.partition(" ")
        done = command(*words.split())
        assert done.exit_code == int(code), (words, done.err)
        assert said in done.out + done.err, words


def test_a_key_is_forgotten_there(house, command):
    planned = command("ledger", "forget", order_id(2))
    assert "old versions of changed rows on the server" in planned.out
    assert "ledger.db.moved-" in planned.out  # what the ledger was before it was moved is a copy of it
    done = command("ledger", "forget", order_id(2), "--yes", "--because", "asked to", "--backups")
    assert (done.exit_code, "gone:" in done.out) == (0, True), done.err
    assert list(house.folder.glob(f"{FOLDER}/ledger.db.moved-*")) == []
    assert command("ledger", "check").exit_code in (0, 1)


@pytest.mark.sweep
def test_a_password_is_never_shown(house, command):
    for url in ("postgresql://anna:s3cret@127.0.0.1:1/db", "postgresql://anna@127.0.0.1:1/db?password=s3cret"):
        with edited(house, house.url, url):
            for words in ("config --all --origin", "config --json", "doctor --quick", "run", "runs"):
                done = command(*words.split())
                assert "s3cret" not in done.out + done.err, words


def test_a_user_who_may_not_make_a_schema_gets_a_clear_error(house, command):
    databases.ask("create role guest login")
    with edited(house, ("postgres@/", "guest@/"), (f'"{house.schema}"', '"other"')):
        doctor, run = command("doctor", "--quick"), command("run")
    assert "may not create the schema" in doctor.out
    assert (run.exit_code, "permission denied" in run.err) == (78, True)


def test_the_ledgers_of_all_shippers_move_in_one_go(tmp_path, monkeypatch, capsys):
    """One that cannot delays no other."""
    text = f'database = "{databases.database()}"\ncluster.database_schema = "many"\n[shippers.anna]\n[shippers.bert]\n[shippers.carl]\n'
    (tmp_path / "loadsheet.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    counts = {"anna": 2, "bert": 3}
    for name, count in counts.items():
        with ledgers.ledger_in(Settings.load(shipper=name).state) as ledger:
            ready_entries.orders(ledger, ledger.begin_run(), count)
    assert invoke(["ledger", "move", "--yes", "--json"]) == 78
    said = capsys.readouterr()
    assert {one["shipper"]: one["rows"]["entries"] for one in json.loads(said.out)} == counts
    assert "carl: there is no ledger" in said.err
    for name, count in counts.items():
        assert databases.ask(f"select count(*) from many_{name}.entries") == [(count,)]
        assert invoke(["runs", "--shipper", name]) == 0
    assert invoke(["ledger", "move", "--yes", "--shipper", "anna"]) == 0
    assert "was already moved to" in capsys.readouterr().out


# settings that name PostgreSQL while the ledger is still a file

OPEN_THE_LEDGER = f"""
run
run --dry-run
watch
show {order_id(1)}
runs
expected
report
resolve
resolve {order_id(1)} --accepted --yes
retry --held
doctor
doctor --quick
ledger check
ledger backup
ledger restore copy.db
ledger vacuum
ledger export --to exported
ledger forget {order_id(1)}
ledger forget {order_id(1)} --yes --because asked
capsule make last
""".strip().splitlines()
OPEN_NONE = {"init", "demo", "check", "explain", "pull", "config", "mapping", "exchange", "deploy"}
OF_ALL_SHIPPERS = {"worker", "workers"}  # they look at what all ledgers of a server share
FINDINGS = 1  # with which the doctor ends, who goes on to other things


FEW = ["run", f"show {order_id(1)}"]


def kept(folder):
    """What lies in the inbox, the outbox and beside the ledger; a run that fails tells of that in notices and metrics."""
    ledger = (folder / FOLDER).glob("ledger.db*")
    found = [*(folder / "inbox").rglob("*"), *(folder / "outbox").rglob("*"), *ledger]
    return {str(path.relative_to(folder)): path.stat().st_size for path in found if path.is_file()}


def all_name_the_move(house, commands):
    before = kept(house.folder)
    for words in commands:
        done = at(house, 3, *words.split())
        assert "loadsheet ledger move" in " ".join((done.out + done.err).split()), (words, done)
        assert done.exit_code == (FINDINGS if words.startswith("doctor") else 78), (words, done)
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
    create_on_server(Settings.load().database_url)
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
    assert set(COMMANDS) <= {line.split()[0] for line in OPEN_THE_LEDGER} | OPEN_NONE | OF_ALL_SHIPPERS
