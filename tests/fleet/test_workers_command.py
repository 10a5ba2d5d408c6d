"""`loadsheet workers` as an operator meets it, on a real PostgreSQL."""

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner
from fleets import Fleet, joined, shared_settings

from loadsheet.cli import loadsheet
from loadsheet.fleet.schedules import tick
from loadsheet.ledger.shared import clock, fires
from loadsheet.ledger.shared.fires import Known
from loadsheet.problems import LedgerGone
from loadsheet.settings import Settings


@pytest.fixture
def settings():
    return shared_settings()


@pytest.fixture
def file(settings, tmp_path):
    """The settings file of a fleet with two shippers, one of which has a schedule."""
    path = tmp_path / "loadsheet.toml"
    path.write_text(
        f'database = "{settings.database}"\ndatabase_schema = "{settings.database_schema}"\n'
        '[shippers.acme]\nschedule = "30 21 * * Mon-Fri"\nschedule_zone = "Europe/Berlin"\n[shippers.bolt]\n'
    )
    return path


@pytest.fixture
def fleet(settings):
    with joined(settings) as connection:
        found = Fleet(connection)
        found.worker("alfa-1-aa", serves=["acme"], doing=["calls 17 of acme"], done=1_204, version="1.2")
        found.worker("beta-2-bb", seen=45)
        found.takeover("alfa-1-aa/2f")
        found.job("acme", "calls", age=400)
        found.job("acme", "calls", status="doing")
        found.pace(wants=[("alfa-1-aa", 20, 3)])
        yield found


def ask(file, *words):
    done = CliRunner().invoke(loadsheet, ["workers", "--config", str(file), *words], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def test_people_see_who_works_what_waits_and_when_runs_are_due(fleet, file):
    told = ask(file)
    lines = [line.split("\t") for line in told.splitlines()]
    assert lines[0] == ["1 worker lives; 1 waits in the queue, the oldest for 7 min; 1 takeover within a day"]
    rows = {line[0]: line for line in lines if len(line) > 1}
    _name, state, host, process, version, _since, seen, serves, doing, done, took_over = rows["alfa-1-aa"]
    assert (state, host, process, version, serves) == ("lives", "alfa", "7", "1.2", "acme")
    assert (doing, done, took_over) == ("calls 17 of acme", "1204", "1")
    assert seen.endswith(" s ago")
    assert rows["beta-2-bb"][1] == "silent"
    assert ["acme", "calls", "1", "1", "7 min"] in lines
    assert rows["https://exchange.example"][3:] == ["100%", "no"]
    scheduled = next(line for line in lines if "Europe" in "".join(line))
    assert scheduled[:4] == ["acme", "30 21 * * Mon-Fri Europe/Berlin", "", ""]


def test_machines_get_the_same_as_json(fleet, file):
    told = json.loads(ask(file, "--json"))
    assert (told["shared"], told["alive"], told["waiting"], told["takeovers_of_day"]) == (True, 1, 1, 1)
    one, two = told["workers"]
    assert one["name"] == "alfa-1-aa"
    assert {
        "host",
        "process",
        "version",
        "since",
        "seen",
        "serves",
        "doing",
        "done",
        "takeovers",
        "state",
    } <= one.keys()
    assert two["state"] == "silent"
    (queued,) = told["queue"]
    assert {**queued, "oldest_s": 400} == {
        "shipper": "acme",
        "kind": "calls",
        "waiting": 1,
        "under_way": 1,
        "oldest_s": 400,
    }
    (pace,) = told["paces"]
    assert (pace["per_second"], pace["connections"], pace["workers"], pace["share"]) == (50, 8, 1, 1)
    assert told["takeovers"][0]["before"] == "dead-1"
    (schedule,) = told["schedules"]
    assert (schedule["shipper"], schedule["zone"], schedule["last"]) == ("acme", "Europe/Berlin", None)
    assert schedule["next"].endswith("30:00.000Z")


def test_a_schedule_that_fired_shows_when_and_by_whom(fleet, settings, file):
    acme = Settings.load(file, shipper="acme")
    known = Known("acme", acme.timetable[0].name)
    fires.begin(fleet.connection, known, clock.moment(clock.now(fleet.connection)) - timedelta(days=8))
    late = acme.model_copy(update={"catch_up_s": 30 * 86_400})
    (fired,) = tick(fleet.connection, {"acme": late}, "alfa-1-aa")
    (schedule,) = json.loads(ask(file, "--json"))["schedules"]
    assert schedule["last"]["by"] == "alfa-1-aa"
    assert schedule["last"]["caught_up"] == fired.due.caught_up >= 4
    assert f"{fired.due.caught_up} missed before it\talfa-1-aa\t" in ask(file)


def test_where_nobody_worked_yet_there_are_none(file):
    assert ask(file) == "0 workers live; 0 wait in the queue; 0 takeovers within a day\n"


def test_a_ledger_in_a_file_has_one_process_and_says_so(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text("[shippers.acme]\n[shippers.bolt]\n")
    assert ask(file) == "the ledger is a file: one process at a time works on it, and there are no workers (database)\n"
    assert json.loads(ask(file, "--json")) == {"shared": False}


def test_a_database_that_cannot_be_reached_is_exit_75(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text(f'database = "postgresql://me:hunter2@/there?host={tmp_path}"\n')
    with pytest.raises(LedgerGone) as gone:
        ask(file)
    assert gone.value.exit_code == 75
    assert "hunter2" not in str(gone.value)


def test_what_others_wrote_reaches_no_terminal_as_more_than_text(fleet, file):
    fleet.worker("evil-\x1b[31m-1", doing=["<b>\ttab"])
    told = ask(file)
    assert "\x1b" not in told
    assert all(len(line.split("\t")) in (1, 4, 5, 11) for line in told.splitlines())
